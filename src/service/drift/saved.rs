//! What is kept of a session's probes at rest: one snapshot per session and pack, which replaces the one before in the
//! group commit of the record that changed it. It is sealed under the session key.
//!
//! ```text
//! saved     = version:byte=1 pack:32 bytes state selector agent:text evaluations:list of evaluated
//! evaluated = request_id:text print:32 bytes evaluation:text behind:number unsettled:byte (1: unsettled)
//! ```
//!
//! `state`, `selector` and `unsettled` are told in the drift room. Answers are not in it: they are in the records, where
//! they can be erased, and the stored answer of a repeated request is read from there.

use std::sync::Arc;

use crate::{
    audit::{
        JournalChange, JournalWrite, RecordNumber,
        bytes::{Reader, put_len, put_number, put_text},
    },
    drift::{SavedError, Selector, SessionState, Unsettled},
    model::Digest,
    service::SessionKey,
};

use super::memory::{Evaluated, Memory};

const VERSION: u8 = 1;

/// What the names of these journals begin with. Names that callers give hold no control characters, so that no
/// session of a trace has such a name.
const MARK: char = '\n';

/// The name under which the store keeps the snapshot of a session under a pack.
pub(super) fn journal_name(pack: &str, session: &str) -> Arc<str> {
    format!("{MARK}{pack}{MARK}{session}").into()
}

/// Whether a journal is one of these.
pub(in crate::service) fn is_snapshot(name: &str) -> bool {
    name.starts_with(MARK)
}

/// A snapshot as it was saved.
#[derive(Debug)]
pub(super) struct Saved {
    /// The rules that it was made under.
    pub(super) pack: Digest,
    pub(super) state: SessionState,
    pub(super) selector: Selector,
    pub(super) agent: Arc<str>,
    /// The last evaluations, oldest first.
    pub(super) evaluations: Vec<SavedEvaluation>,
}

/// An evaluation without its answer.
#[derive(Debug)]
pub(super) struct SavedEvaluation {
    pub(super) request_id: String,
    pub(super) print: Digest,
    pub(super) evaluation: Arc<str>,
    /// Its records are behind this one.
    pub(super) behind: RecordNumber,
    pub(super) unsettled: Option<Unsettled>,
}

/// What is written so that a memory takes the place of what was saved before; of one that outgrew the bound, nothing
/// stays.
pub(super) fn snapshot(
    key: &SessionKey,
    name: &Arc<str>,
    pack: Digest,
    memory: &Memory,
    bound: usize,
) -> Vec<JournalWrite> {
    if bound == 0 {
        return Vec::new();
    }
    let sealed = key.seal(name, 0, &bytes(pack, memory)).filter(|sealed| sealed.len() <= bound);
    let added = sealed.map(|bytes| JournalChange::Add { number: 0, bytes });
    let changes = [Some(JournalChange::Drop), added].into_iter().flatten();
    changes.map(|change| JournalWrite { session: name.clone(), change }).collect()
}

fn bytes(pack: Digest, memory: &Memory) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend_from_slice(pack.bytes());
    memory.state.save(&mut out);
    memory.selector.save(&mut out);
    put_text(&mut out, &memory.agent);
    put_len(&mut out, memory.evaluations().len());
    for Evaluated { request_id, print, unsettled, record, behind } in memory.evaluations() {
        put_text(&mut out, request_id);
        out.extend_from_slice(print.bytes());
        put_text(&mut out, &record.evaluation);
        put_number(&mut out, *behind);
        out.push(unsettled.is_some().into());
        unsettled.iter().for_each(|unsettled| unsettled.save(&mut out));
    }
    out
}

/// Opens a snapshot; nothing if it was sealed elsewhere or under another key, or does not follow the layout.
pub(super) fn open(key: &SessionKey, name: &str, sealed: &[u8]) -> Option<Saved> {
    read(&key.open(name, 0, sealed)?).ok()
}

fn read(bytes: &[u8]) -> Result<Saved, SavedError> {
    let from = &mut Reader::new(bytes);
    if from.byte()? != VERSION {
        return Err(SavedError::Broken);
    }
    let saved = Saved {
        pack: Digest::new(from.array()?),
        state: SessionState::read(from)?,
        selector: Selector::read(from)?,
        agent: from.text()?.into(),
        evaluations: from.list(read_evaluation)?,
    };
    if from.is_empty() { Ok(saved) } else { Err(SavedError::Broken) }
}

fn read_evaluation(from: &mut Reader<'_>) -> Result<SavedEvaluation, SavedError> {
    Ok(SavedEvaluation {
        request_id: from.text()?.to_owned(),
        print: Digest::new(from.array()?),
        evaluation: from.text()?.into(),
        behind: from.number()?,
        unsettled: if from.byte()? == 1 { Some(Unsettled::read(from)?) } else { None },
    })
}
