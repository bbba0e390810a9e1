//! Counters per policy: how often it hit, fired or stayed undecided, of all time, under one version
//! of its pack, and in one session.

use std::{collections::BTreeMap, sync::Arc};

use crate::model::Num;

use super::{
    bytes::{BytesError, Reader, put_number, put_text},
    record::{Draft, Judged, PackRef},
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Violations.
    pub hits: u64,
    /// Firings of `review`, `flag` and `milestone` policies.
    pub signals: u64,
    /// Turns in which it could not be decided.
    pub undecided: u64,
    /// Sessions with at least one violation.
    pub sessions: u64,
    /// Violation reward that was paid: the sum of severity x d(n).
    pub reward: Num,
    /// When the last violation was recorded, in milliseconds since 1970-01-01T00:00:00Z; 0 if there was none.
    pub last_hit_millis: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { hits: 0, signals: 0, undecided: 0, sessions: 0, reward: Num::from(0i64), last_hit_millis: 0 }
    }
}

impl Tally {
    /// The sum.
    #[must_use]
    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            hits: self.hits.saturating_add(other.hits),
            signals: self.signals.saturating_add(other.signals),
            undecided: self.undecided.saturating_add(other.undecided),
            sessions: self.sessions.saturating_add(other.sessions),
            // Severities have few digits: a sum that does not fit would need more hits than there are numbers.
            reward: self.reward.add(other.reward).unwrap_or(self.reward),
            last_hit_millis: self.last_hit_millis.max(other.last_hit_millis),
        }
    }

    /// As stored: the numbers, the reward as an exact decimal.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        for number in [self.hits, self.signals, self.undecided, self.sessions, self.last_hit_millis] {
            put_number(&mut out, number);
        }
        put_text(&mut out, &self.reward.to_string());
        out
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Tally, BytesError> {
        let mut reader = Reader::new(bytes);
        Ok(Tally {
            hits: reader.number()?,
            signals: reader.number()?,
            undecided: reader.number()?,
            sessions: reader.number()?,
            last_hit_millis: reader.number()?,
            reward: reader.text()?.parse().map_err(|_| BytesError::Text)?,
        })
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

/// Adds up what records change in counters.
#[derive(Debug, Default)]
pub(super) struct Tallies(BTreeMap<TallyKey, Tally>);

impl Tallies {
    /// Adds what one draft changes that is committed at `at_millis`.
    pub(super) fn add(&mut self, draft: &Draft, at_millis: u64) {
        let Draft::Judged { session, pack, step, .. } = draft else { return };
        for hit in &step.hits {
            self.count(session, pack, &hit.firing.policy, hit_tally(hit.n, hit.reward, at_millis));
        }
        for signal in &step.signals {
            self.count(session, pack, &signal.firing.policy, Tally { signals: 1, ..Tally::default() });
        }
        for undecided in &step.undecided {
            self.count(session, pack, &undecided.policy, Tally { undecided: 1, ..Tally::default() });
        }
    }

    /// Adds what one stored judgement changed that was committed at `at_millis`.
    pub(super) fn add_recorded(&mut self, judged: &Judged, at_millis: u64) {
        let Judged { session, pack, hits, signals, undecided, .. } = judged;
        for hit in hits {
            self.count(session, pack, &hit.policy, hit_tally(hit.n, hit.reward, at_millis));
        }
        for signal in signals {
            self.count(session, pack, &signal.policy, Tally { signals: 1, ..Tally::default() });
        }
        for (policy, ..) in undecided {
            self.count(session, pack, policy, Tally { undecided: 1, ..Tally::default() });
        }
    }

    fn count(&mut self, session: &Arc<str>, pack: &PackRef, policy: &Arc<str>, delta: Tally) {
        for span in [Span::AllTime, Span::Version(pack.version.clone()), Span::Session(session.clone())] {
            let key = TallyKey { pack: pack.name.clone(), span, policy: policy.clone() };
            let tally = self.0.entry(key).or_default();
            *tally = tally.plus(delta);
        }
    }

    /// Takes the sums, leaving none.
    pub(super) fn take(&mut self) -> Vec<(TallyKey, Tally)> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}

/// What one violation adds; the first of its policy in a session (`n` is 0) counts the session.
fn hit_tally(n: u32, reward: Num, at_millis: u64) -> Tally {
    Tally { hits: 1, sessions: u64::from(n == 0), reward, last_hit_millis: at_millis, ..Tally::default() }
}
