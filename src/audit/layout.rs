//! The bytes of records and blocks.
//!
//! Numbers are unsigned LEB128, `text` is a length and UTF-8 bytes, `bytes` a length and bytes, `list of x` is a
//! length and that many x, `digest` is 32 bytes. These are the bytes that the hash chain (see `chain`) covers:
//!
//! ```text
//! record    = version:byte=1  number:number  at_millis:number  kind:byte  body
//! body      = kind 1: judged | kind 2: judge | kind 3: pack (it began to serve)
//!           | kind 4: drift (see `drift_layout`) | kind 5: reading | kind 6: checkpoint | kind 7: closed
//!           | kind 8: lost | kind 9: erased | kind 10: pruned | kind 11: refused
//!           | kind 12: set aside | kind 13: moved | kind 14: imported
//!           | kind 15: pack  commit:text (it began to serve as it is at that commit)
//! judged    = session:text  agent:text  pack  mode:byte  item:byte  seq:number  input:digest  turn:number
//!             calls:list of (index:number  gate:byte)
//!             hits:list of (policy:text  turn:number  n:number  reward:text  evidence)
//!             signals:list of (policy:text  turn:number  effect:byte  evidence)
//!             undecided:list of (policy:text  turn:number  reason:text)
//!             malformed:list of (turn:number  reason:text)
//! judge     = session:text  pack  policy:text  turn:number  hit:byte  judge_id:text
//! reading   = session:text  pack  record:number  principal:text  reason:text
//! lost      = count:number  sessions:list of (session:text  first_seq:number  last_seq:number)
//! checkpoint= store:16 bytes  last:number  link:digest  at_millis:number
//!             signed:byte  (if 1: public_key:32 bytes  signature:64 bytes)
//! erased    = session:text            pruned = first:number            set aside = folder:text  reason:text
//! refused   = fingerprint:digest  errors:number  codes:list of text
//! moved     = session:text  from:pack  to:pack     imported = session:text  entries:number
//! closed    = session:text  known:byte  (if 1: pack)  reason:byte
//! pack      = name:text  version:text  digest
//! evidence  = event:number  conditions:list of (holds:byte  rests_on:list of number)
//! mode      = 1 gate, 2 episode          item   = 1 message, 2 proposal, 3 end,
//!                                                 4 runtime event
//! gate      = 1 allow, 2 review, 3 deny  effect = 1 deny, 2 review, 3 flag, 4 milestone, 5 judge
//! reason    = 1 idle, 2 asked, 3 rules gone, 4 unreadable, 5 lost, 6 other limits, 7 too long, 8 limit
//! ```
//!
//! `rests_on` holds the first event and then the distances to the next, `reward` the exact decimal.
//!
//! A group commit is stored as blocks of consecutive records, each with its link and all with the link before
//! the first:
//!
//! ```text
//! block     = version:byte=2  first:number  before:digest  entries:list of (record:bytes  link:digest)
//! ```
//!
//! A reader refuses a version or a kind that it does not know.

use std::sync::Arc;

use crate::model::{Digest, Effect, Evidence, Gate, Num, Seq};

use super::{
    bytes::{BytesError, Reader, put_len, put_number, put_text},
    chain::{Head, StoreId},
    checkpoint::{Checkpoint, Seal},
    drift_layout::{put_answers, put_drift, read_answers, read_drift},
    payload::{Payload, Salts},
    record::{
        Activation, Body, CallRecord, CloseReason, Closed, ConditionRecord, Draft, HitRecord, ItemKind, JudgeReport,
        Judged, Loss, Mode, PackRef, Reading, Record, RecordNumber, Refusal, SetAside, SignalRecord,
    },
    store::Block,
};

/// The version of blocks.
const BLOCK_VERSION: u8 = 2;
/// The version of records.
const RECORD_VERSION: u8 = 1;
/// A block is closed once it holds this many bytes: large values are what the embedded store keeps
/// worst, and a reader of one record reads its whole block.
const BLOCK_TARGET: usize = 24 * 1024;

/// Why bytes are not a block of records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Written by a version that this one does not know.
    #[error("record layout version {0} is not known here")]
    Version(u8),
    /// The bytes do not follow the layout.
    #[error("broken record: {0}")]
    Broken(&'static str),
}

impl From<BytesError> for LayoutError {
    fn from(e: BytesError) -> LayoutError {
        LayoutError::Broken(match e {
            BytesError::Short => "the bytes end inside a value",
            BytesError::Wide => "a number is too wide",
            BytesError::Text => "a text is not UTF-8",
        })
    }
}

/// Packs drafts into blocks, reusing its buffers.
#[derive(Debug)]
pub(super) struct Packer {
    record: Vec<u8>,
    entries: Vec<u8>,
    count: usize,
    /// Before the open block.
    before: Head,
    /// After all that was packed.
    head: Head,
    salts: Salts,
}

impl Packer {
    /// Goes on behind a place in the chain.
    pub(super) fn new(head: Head, salts: Salts) -> Packer {
        Packer { record: Vec::new(), entries: Vec::new(), count: 0, before: head, head, salts }
    }

    /// The place behind all that was packed.
    pub(super) fn head(&self) -> Head {
        self.head
    }

    /// The number of the first record in the block that the next record comes into.
    pub(super) fn block(&self) -> RecordNumber {
        self.before.last + 1
    }

    /// Adds one record; gives its payload, and a block when one is full.
    pub(super) fn push(&mut self, draft: &Draft, at_millis: u64) -> (Option<Payload>, Option<Block>) {
        let number = self.head.last + 1;
        let payload = match draft {
            Draft::Drift(record) => {
                let mut content = Vec::new();
                put_answers(&mut content, &record.answers);
                Some(Payload::new(self.salts.of(number), &content))
            }
            _ => None,
        };
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        put_record(&mut record, number, at_millis, draft, payload.as_ref().map(Payload::digest));
        let block = self.push_bytes(&record);
        self.record = record;
        (payload, block)
    }

    /// Adds the bytes of one record, which say its number; gives a block when one is full.
    pub(super) fn push_bytes(&mut self, record: &[u8]) -> Option<Block> {
        self.head = self.head.after(record);
        put_len(&mut self.entries, record.len());
        self.entries.extend_from_slice(record);
        self.entries.extend_from_slice(self.head.link.bytes());
        self.count += 1;
        if self.entries.len() >= BLOCK_TARGET { self.close() } else { None }
    }

    /// Closes the open block, if it holds anything.
    pub(super) fn close(&mut self) -> Option<Block> {
        if self.count == 0 {
            return None;
        }
        let first = self.block();
        let mut bytes = Vec::with_capacity(self.entries.len() + 48);
        bytes.push(BLOCK_VERSION);
        put_number(&mut bytes, first);
        bytes.extend_from_slice(self.before.link.bytes());
        put_len(&mut bytes, self.count);
        bytes.extend_from_slice(&self.entries);
        let block = Block { first, count: self.count as u64, bytes };
        self.before = self.head;
        self.count = 0;
        self.entries.clear();
        Some(block)
    }
}

fn put_record(out: &mut Vec<u8>, number: RecordNumber, at_millis: u64, draft: &Draft, payload: Option<Digest>) {
    out.push(RECORD_VERSION);
    put_number(out, number);
    put_number(out, at_millis);
    match draft {
        Draft::Judged { session, agent, pack, mode, item, seq, input, step } => {
            out.push(1);
            put_text(out, session);
            put_text(out, agent);
            put_pack(out, pack);
            out.push(match mode {
                Mode::Gate => 1,
                Mode::Episode => 2,
            });
            out.push(match item {
                ItemKind::Message => 1,
                ItemKind::Proposal => 2,
                ItemKind::End => 3,
                ItemKind::RuntimeEvent => 4,
            });
            put_number(out, *seq);
            out.extend_from_slice(input.bytes());
            put_number(out, step.turn.into());
            put_len(out, step.calls.len());
            for call in &step.calls {
                put_number(out, call.index.into());
                out.push(gate_byte(call.gate));
            }
            put_len(out, step.hits.len());
            for hit in &step.hits {
                put_text(out, &hit.firing.policy);
                put_number(out, hit.turn.into());
                put_number(out, hit.n.into());
                put_text(out, &hit.reward.to_string());
                put_evidence(out, &hit.firing.evidence);
            }
            put_len(out, step.signals.len());
            for signal in &step.signals {
                put_text(out, &signal.firing.policy);
                put_number(out, signal.turn.into());
                out.push(effect_byte(signal.effect));
                put_evidence(out, &signal.firing.evidence);
            }
            put_len(out, step.undecided.len());
            for undecided in &step.undecided {
                put_text(out, &undecided.policy);
                put_number(out, undecided.turn.into());
                put_text(out, &undecided.reason);
            }
            put_len(out, step.malformed.len());
            for malformed in &step.malformed {
                put_number(out, malformed.turn.into());
                put_text(out, &malformed.reason);
            }
        }
        Draft::Judge(report) => {
            out.push(2);
            put_text(out, &report.session);
            put_pack(out, &report.pack);
            put_text(out, &report.policy);
            put_number(out, report.turn.into());
            out.push(report.hit.into());
            put_text(out, &report.judge_id);
        }
        Draft::Activated(Activation { pack, commit: None }) => {
            out.push(3);
            put_pack(out, pack);
        }
        Draft::Activated(Activation { pack, commit: Some(commit) }) => {
            out.push(15);
            put_pack(out, pack);
            put_text(out, commit);
        }
        Draft::Drift(record) => {
            out.push(4);
            put_drift(out, record, payload);
        }
        Draft::Lost(loss) => {
            let Loss { count, sessions } = loss.as_ref();
            out.push(8);
            put_number(out, *count);
            put_len(out, sessions.len());
            for (session, first, last) in sessions {
                put_text(out, session);
                put_number(out, *first);
                put_number(out, *last);
            }
        }
        Draft::Checkpoint(checkpoint) => {
            let Checkpoint { head, at_millis, seal } = checkpoint.as_ref();
            out.push(6);
            out.extend_from_slice(head.store.bytes());
            put_number(out, head.last);
            out.extend_from_slice(head.link.bytes());
            put_number(out, *at_millis);
            out.push(seal.is_some().into());
            if let Some(Seal { public_key, signature }) = seal {
                out.extend_from_slice(public_key);
                out.extend_from_slice(signature);
            }
        }
        Draft::Erased { session } => {
            out.push(9);
            put_text(out, session);
        }
        Draft::Pruned { first } => {
            out.push(10);
            put_number(out, *first);
        }
        Draft::Refused(refusal) => {
            let Refusal { fingerprint, errors, codes } = refusal.as_ref();
            out.push(11);
            out.extend_from_slice(fingerprint.bytes());
            put_number(out, *errors);
            put_len(out, codes.len());
            codes.iter().for_each(|code| put_text(out, code));
        }
        Draft::Imported { session, entries } => {
            out.push(14);
            put_text(out, session);
            put_number(out, *entries);
        }
        Draft::Moved { session, from, to } => {
            out.push(13);
            put_text(out, session);
            put_pack(out, from);
            put_pack(out, to);
        }
        Draft::SetAside(aside) => {
            out.push(12);
            put_text(out, &aside.folder);
            put_text(out, &aside.reason);
        }
        Draft::Closed(Closed { session, pack, reason }) => {
            out.push(7);
            put_text(out, session);
            out.push(pack.is_some().into());
            pack.iter().for_each(|pack| put_pack(out, pack));
            let place = CloseReason::ALL.iter().position(|known| known == reason).unwrap_or_default();
            out.push(place as u8 + 1);
        }
        Draft::Reading(Reading { session, pack, record, principal, reason }) => {
            out.push(5);
            put_text(out, session);
            put_pack(out, pack);
            put_number(out, *record);
            put_text(out, principal);
            put_text(out, reason);
        }
    }
}

pub(super) fn put_pack(out: &mut Vec<u8>, pack: &PackRef) {
    put_text(out, &pack.name);
    put_text(out, &pack.version);
    out.extend_from_slice(pack.digest.bytes());
}

fn put_evidence(out: &mut Vec<u8>, evidence: &Evidence) {
    put_number(out, evidence.seq);
    put_len(out, evidence.conditions.len());
    for condition in &evidence.conditions {
        out.push(condition.holds.into());
        put_len(out, condition.rests_on.len());
        let mut last = 0;
        for seq in &condition.rests_on {
            put_number(out, seq.wrapping_sub(last));
            last = *seq;
        }
    }
}

fn gate_byte(gate: Gate) -> u8 {
    match gate {
        Gate::Allow => 1,
        Gate::Review => 2,
        Gate::Deny => 3,
    }
}

fn effect_byte(effect: Effect) -> u8 {
    match effect {
        Effect::Deny => 1,
        Effect::Review => 2,
        Effect::Flag => 3,
        Effect::Milestone => 4,
        Effect::Judge => 5,
    }
}

/// Reads the head of a block: the number of its first record and how many it holds.
pub(super) fn block_head(bytes: &[u8]) -> Result<(RecordNumber, u64), LayoutError> {
    let mut reader = Reader::new(bytes);
    let (first, _) = read_head(&mut reader)?;
    Ok((first, reader.number()?))
}

fn read_head(reader: &mut Reader<'_>) -> Result<(RecordNumber, Digest), LayoutError> {
    match reader.byte()? {
        BLOCK_VERSION => {}
        other => return Err(LayoutError::Version(other)),
    }
    Ok((reader.number()?, Digest::new(reader.array()?)))
}

/// One record in its bytes, as it stands in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its number by its place in the block; its bytes say it too.
    pub number: RecordNumber,
    /// The bytes that the chain covers.
    pub bytes: &'a [u8],
    /// Its link, as stored.
    pub link: Digest,
}

/// The entries of a block, and the link before the first.
pub fn entries(block: &[u8]) -> Result<(Digest, Vec<Entry<'_>>), LayoutError> {
    let mut reader = Reader::new(block);
    let (first, before) = read_head(&mut reader)?;
    let mut number = first;
    let entries = reader.list(|r| {
        let len = r.len()?;
        let entry = Entry { number, bytes: r.bytes(len)?, link: Digest::new(r.array()?) };
        number = number.wrapping_add(1);
        Ok::<_, LayoutError>(entry)
    })?;
    if reader.is_empty() { Ok((before, entries)) } else { Err(LayoutError::Broken("bytes behind a block")) }
}

/// Reads a block. Payloads are not in it.
pub fn decode_block(bytes: &[u8]) -> Result<Vec<Decoded>, LayoutError> {
    entries(bytes)?.1.iter().map(|entry| decode_record(entry.bytes)).collect()
}

/// A record, and the digest of a payload that belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The record, without its payload.
    pub record: Record,
    /// The payload's digest, if it has one.
    pub payload: Option<Digest>,
}

/// Puts the content of a payload where it belongs.
pub(super) fn fill(record: &mut Record, content: &[u8]) -> Result<(), LayoutError> {
    if let Body::Drift(drift) = &mut record.body {
        drift.answers = read_answers(content)?;
    }
    Ok(())
}

/// Reads the bytes of one record.
pub fn decode_record(bytes: &[u8]) -> Result<Decoded, LayoutError> {
    let reader = &mut Reader::new(bytes);
    match reader.byte()? {
        RECORD_VERSION => {}
        other => return Err(LayoutError::Version(other)),
    }
    let (number, at_millis) = (reader.number()?, reader.number()?);
    let mut payload = None;
    let body = match reader.byte()? {
        1 => Body::Judged(read_judged(reader)?),
        2 => Body::Judge(JudgeReport {
            session: reader.text()?.into(),
            pack: read_pack(reader)?,
            policy: reader.text()?.into(),
            turn: reader.number32()?,
            hit: read_bool(reader)?,
            judge_id: reader.text()?.into(),
        }),
        3 => Body::Activated(Activation { pack: read_pack(reader)?, commit: None }),
        15 => Body::Activated(Activation { pack: read_pack(reader)?, commit: Some(reader.text()?.into()) }),
        4 => {
            let (drift, digest) = read_drift(reader)?;
            payload = digest;
            Body::Drift(Box::new(drift))
        }
        5 => Body::Reading(Reading {
            session: reader.text()?.into(),
            pack: read_pack(reader)?,
            record: reader.number()?,
            principal: reader.text()?.into(),
            reason: reader.text()?.into(),
        }),
        9 => Body::Erased { session: reader.text()?.into() },
        10 => Body::Pruned { first: reader.number()? },
        11 => Body::Refused(Refusal {
            fingerprint: Digest::new(reader.array()?),
            errors: reader.number()?,
            codes: reader.list(|r| Ok::<_, LayoutError>(r.text()?.into()))?,
        }),
        14 => Body::Imported { session: reader.text()?.into(), entries: reader.number()? },
        13 => Body::Moved { session: reader.text()?.into(), from: read_pack(reader)?, to: read_pack(reader)? },
        12 => Body::SetAside(SetAside { folder: reader.text()?.into(), reason: reader.text()?.into() }),
        8 => Body::Lost(Loss {
            count: reader.number()?,
            sessions: reader.list(|r| Ok::<_, LayoutError>((r.text()?.into(), r.number()?, r.number()?)))?,
        }),
        6 => Body::Checkpoint(read_checkpoint(reader)?),
        7 => Body::Closed(Closed {
            session: reader.text()?.into(),
            pack: if read_bool(reader)? { Some(read_pack(reader)?) } else { None },
            reason: {
                let place = usize::from(reader.byte()?).checked_sub(1);
                let reason = place.and_then(|n| CloseReason::ALL.get(n)).copied();
                reason.ok_or(LayoutError::Broken("an unknown reason of closing"))?
            },
        }),
        _ => return Err(LayoutError::Broken("an unknown kind of record")),
    };
    if !reader.is_empty() {
        return Err(LayoutError::Broken("bytes behind a record"));
    }
    Ok(Decoded { record: Record { number, at_millis, body, erased: false }, payload })
}

fn read_checkpoint(reader: &mut Reader<'_>) -> Result<Checkpoint, LayoutError> {
    Ok(Checkpoint {
        head: Head { store: StoreId::new(reader.array()?), last: reader.number()?, link: Digest::new(reader.array()?) },
        at_millis: reader.number()?,
        seal: if read_bool(reader)? {
            Some(Seal { public_key: reader.array()?, signature: reader.array()? })
        } else {
            None
        },
    })
}

fn read_judged(reader: &mut Reader<'_>) -> Result<Judged, LayoutError> {
    Ok(Judged {
        session: reader.text()?.into(),
        agent: reader.text()?.into(),
        pack: read_pack(reader)?,
        mode: match reader.byte()? {
            1 => Mode::Gate,
            2 => Mode::Episode,
            _ => return Err(LayoutError::Broken("an unknown mode")),
        },
        item: match reader.byte()? {
            1 => ItemKind::Message,
            2 => ItemKind::Proposal,
            3 => ItemKind::End,
            4 => ItemKind::RuntimeEvent,
            _ => return Err(LayoutError::Broken("an unknown kind of item")),
        },
        seq: reader.number()?,
        input: Digest::new(reader.array()?),
        turn: reader.number32()?,
        calls: reader.list(|r| Ok::<_, LayoutError>(CallRecord { index: r.number32()?, gate: read_gate(r)? }))?,
        hits: reader.list(read_hit)?,
        signals: reader.list(read_signal)?,
        undecided: reader.list(|r| Ok::<_, LayoutError>((r.text()?.into(), r.number32()?, r.text()?.to_owned())))?,
        malformed: reader.list(|r| Ok::<_, LayoutError>((r.number32()?, r.text()?.to_owned())))?,
    })
}

fn read_hit(reader: &mut Reader<'_>) -> Result<HitRecord, LayoutError> {
    Ok(HitRecord {
        policy: reader.text()?.into(),
        turn: reader.number32()?,
        n: reader.number32()?,
        reward: reader.text()?.parse::<Num>().map_err(|_| LayoutError::Broken("a reward that is no number"))?,
        event: reader.number()?,
        conditions: reader.list(read_condition)?,
    })
}

fn read_signal(reader: &mut Reader<'_>) -> Result<SignalRecord, LayoutError> {
    Ok(SignalRecord {
        policy: reader.text()?.into(),
        turn: reader.number32()?,
        effect: match reader.byte()? {
            1 => Effect::Deny,
            2 => Effect::Review,
            3 => Effect::Flag,
            4 => Effect::Milestone,
            5 => Effect::Judge,
            _ => return Err(LayoutError::Broken("an unknown effect")),
        },
        event: reader.number()?,
        conditions: reader.list(read_condition)?,
    })
}

fn read_condition(reader: &mut Reader<'_>) -> Result<ConditionRecord, LayoutError> {
    let holds = read_bool(reader)?;
    let mut last: Seq = 0;
    let rests_on = reader.list(|r| {
        last = last.wrapping_add(r.number()?);
        Ok::<_, LayoutError>(last)
    })?;
    Ok(ConditionRecord { holds, rests_on })
}

pub(super) fn read_pack(reader: &mut Reader<'_>) -> Result<Arc<PackRef>, LayoutError> {
    Ok(Arc::new(PackRef {
        name: reader.text()?.into(),
        version: reader.text()?.into(),
        digest: Digest::new(reader.array()?),
    }))
}

fn read_gate(reader: &mut Reader<'_>) -> Result<Gate, LayoutError> {
    match reader.byte()? {
        1 => Ok(Gate::Allow),
        2 => Ok(Gate::Review),
        3 => Ok(Gate::Deny),
        _ => Err(LayoutError::Broken("an unknown answer")),
    }
}

pub(super) fn read_bool(reader: &mut Reader<'_>) -> Result<bool, LayoutError> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(LayoutError::Broken("a truth value that is neither")),
    }
}
