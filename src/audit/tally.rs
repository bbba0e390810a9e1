//! Counters per policy: how often it hit, fired or stayed undecided, of all time, under one version
//! of its pack, and in one session.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    bytes::{BytesError, Reader, put_number},
    record::Draft,
};

/// Over what is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Span {
    /// Everything since the store began.
    AllTime,
    /// Judgements under one version of the pack.
    Version(Arc<str>),
    /// One session.
    Session(Arc<str>),
}

/// Which counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TallyKey {
    /// The pack's name.
    pub pack: Arc<str>,
    /// Over what is counted.
    pub span: Span,
    /// The policy.
    pub policy: Arc<str>,
}

/// What is counted, in turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Violations.
    pub hits: u64,
    /// Firings of `review`, `flag` and `milestone` policies.
    pub signals: u64,
    /// Turns in which it could not be decided.
    pub undecided: u64,
}

impl Tally {
    /// The sum.
    #[must_use]
    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            hits: self.hits.saturating_add(other.hits),
            signals: self.signals.saturating_add(other.signals),
            undecided: self.undecided.saturating_add(other.undecided),
        }
    }

    /// As stored: the three numbers.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(6);
        put_number(&mut out, self.hits);
        put_number(&mut out, self.signals);
        put_number(&mut out, self.undecided);
        out
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Tally, BytesError> {
        let mut reader = Reader::new(bytes);
        Ok(Tally { hits: reader.number()?, signals: reader.number()?, undecided: reader.number()? })
    }
}

/// The key's start that all policies of a pack and span share. Texts have a fixed-width length in
/// front, so no key is the start of another's.
pub(super) fn prefix(pack: &str, span: &Span) -> Vec<u8> {
    let mut out = Vec::with_capacity(pack.len() + 48);
    put_key_text(&mut out, pack);
    match span {
        Span::AllTime => out.push(1),
        Span::Version(version) => {
            out.push(2);
            put_key_text(&mut out, version);
        }
        Span::Session(session) => {
            out.push(3);
            put_key_text(&mut out, session);
        }
    }
    out
}

fn put_key_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

impl TallyKey {
    /// As stored: the prefix and the policy.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = prefix(&self.pack, &self.span);
        out.extend_from_slice(self.policy.as_bytes());
        out
    }
}

/// Adds up what drafts change in counters.
#[derive(Debug, Default)]
pub(super) struct Tallies(BTreeMap<TallyKey, Tally>);

impl Tallies {
    /// Adds what one draft changes.
    pub(super) fn add(&mut self, draft: &Draft) {
        let Draft::Judged { session, pack, step, .. } = draft else { return };
        let one = Tally::default();
        let hits = step.hits.iter().map(|h| (&h.firing.policy, Tally { hits: 1, ..one }));
        let signals = step.signals.iter().map(|s| (&s.firing.policy, Tally { signals: 1, ..one }));
        let undecided = step.undecided.iter().map(|u| (&u.policy, Tally { undecided: 1, ..one }));
        for (policy, delta) in hits.chain(signals).chain(undecided) {
            for span in [Span::AllTime, Span::Version(pack.version.clone()), Span::Session(session.clone())] {
                let key = TallyKey { pack: pack.name.clone(), span, policy: policy.clone() };
                let tally = self.0.entry(key).or_default();
                *tally = tally.plus(delta);
            }
        }
    }

    /// Takes the sums, leaving none.
    pub(super) fn take(&mut self) -> Vec<(TallyKey, Tally)> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}
