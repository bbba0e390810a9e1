//! What a record says. A [`Draft`] is what the service hands to the writer, sharing the step that
//! also becomes the caller's answer; a [`Record`] is what a store gives back.

use std::{fmt, sync::Arc};

use crate::model::{Digest, Effect, Gate, Num, PackQuery, PolicyId, Seq, Step, Turn};

use super::{DriftRecord, checkpoint::Checkpoint};

/// The number of a record in its store: 1 for the first, without gaps.
pub type RecordNumber = u64;

/// Which compiled pack a judgement rests on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PackRef {
    /// The pack's name.
    pub name: Arc<str>,
    /// Its version, as written.
    pub version: Arc<str>,
    /// The digest of its meaning.
    pub digest: Digest,
}

impl PackRef {
    /// Whether it is one of those that are asked for.
    pub fn is_of(&self, query: &PackQuery) -> bool {
        *self.name == *query.name() && self.version.parse().is_ok_and(|version| query.matches(&version))
    }
}

impl fmt::Debug for PackRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name, self.version, self.digest)
    }
}

/// How a session treats newly loaded rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It guards a running agent.
    Gate,
    /// It is pinned to the rules that it began with.
    Episode,
}

impl Mode {
    /// `gate` or `episode`.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Gate => "gate",
            Mode::Episode => "episode",
        }
    }
}

/// What was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemKind {
    /// A whole message.
    Message,
    /// One proposed call.
    Proposal,
    /// The end of the session.
    End,
    /// A runtime event, which no policy judges.
    RuntimeEvent,
}

impl ItemKind {
    /// `message`, `proposal`, `end` or `runtime_event`.
    pub fn word(self) -> &'static str {
        match self {
            ItemKind::Message => "message",
            ItemKind::Proposal => "proposal",
            ItemKind::End => "end",
            ItemKind::RuntimeEvent => "runtime_event",
        }
    }
}

/// A judge's verdict on one policy and turn, reported from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgeReport {
    /// The session.
    pub session: Arc<str>,
    /// The pack that declares the policy.
    pub pack: Arc<PackRef>,
    /// The policy.
    pub policy: PolicyId,
    /// The message index.
    pub turn: Turn,
    /// Whether the judge saw a violation.
    pub hit: bool,
    /// Who judged.
    pub judge_id: Arc<str>,
}

/// Sealed answers were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The session that they belong to.
    pub session: Arc<str>,
    /// The rules under which they were recorded.
    pub pack: Arc<PackRef>,
    /// The record that holds them.
    pub record: RecordNumber,
    /// Who read them, as the reader said.
    pub principal: Arc<str>,
    /// Why, as the reader said.
    pub reason: Arc<str>,
}

/// A pack began to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Which one.
    pub pack: Arc<PackRef>,
    /// The id of the commit that it was read from, if that was in git.
    pub commit: Option<Arc<str>>,
}

/// What the writer is asked to record.
#[derive(Clone, Debug)]
pub enum Draft {
    /// One item of a session was judged.
    Judged {
        /// The session.
        session: Arc<str>,
        /// The agent, as the caller names it; may be empty.
        agent: Arc<str>,
        /// The rules.
        pack: Arc<PackRef>,
        /// The session's mode.
        mode: Mode,
        /// What the item was.
        item: ItemKind,
        /// Its place in the session, from 0.
        seq: u64,
        /// The keyed digest of the item as it came.
        input: Digest,
        /// The judgement. Its messages and the callers' ids stay out of the record.
        step: Arc<Step>,
    },
    /// A judge's verdict was reported.
    Judge(JudgeReport),
    /// A pack began to serve.
    Activated(Activation),
    /// A probe found something, or a baseline settled what it found.
    Drift(Arc<DriftRecord>),
    /// Sealed answers are about to be read.
    Reading(Reading),
    /// Records were given up, because the queue was full and the settings say so.
    Lost(Arc<Loss>),
    /// How far the chain has come.
    Checkpoint(Arc<Checkpoint>),
    /// A session will take nothing more.
    Closed(Closed),
    /// The payloads of a session are erased, with this record.
    Erased {
        /// The session.
        session: Arc<str>,
    },
    /// The oldest records were dropped.
    Pruned {
        /// The first that is held.
        first: RecordNumber,
    },
    /// Rules were to serve, and were refused.
    Refused(Arc<Refusal>),
    /// The store of before was damaged.
    SetAside(Arc<SetAside>),
    /// A gate moved to newly loaded rules.
    Moved {
        /// The session.
        session: Arc<str>,
        /// The rules of before.
        from: Arc<PackRef>,
        /// The rules from now on.
        to: Arc<PackRef>,
    },
    /// A session was put in that was taken out before, here or elsewhere: it goes on from there, whatever came since.
    Imported {
        /// The session.
        session: Arc<str>,
        /// Entries of its journal.
        entries: u64,
    },
}

/// Rules that were refused. Holds nothing of their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The fingerprint of the files.
    pub fingerprint: Digest,
    /// How many errors there were.
    pub errors: u64,
    /// The codes of the first kinds of them.
    pub codes: Vec<Arc<str>>,
}

/// A damaged store that was set aside; this one was begun in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// The name of the folder that it is in.
    pub folder: Arc<str>,
    /// What was wrong with it.
    pub reason: Arc<str>,
}

/// Judgements that were given up before they were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// How many.
    pub count: u64,
    /// Of which sessions, with the first and the last item that is missing: as many as are named.
    pub sessions: Vec<(Arc<str>, u64, u64)>,
}

/// A session that was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The session.
    pub session: Arc<str>,
    /// The rules, if they are known.
    pub pack: Option<Arc<PackRef>>,
    /// Why.
    pub reason: CloseReason,
}

/// Why a session was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// Nobody asked for it within the idle time.
    Idle,
    /// A caller closed it.
    Asked,
    /// It could not be taken up after a restart, because its rules are not served any more, and the store does not keep
    /// them either.
    RulesGone,
    /// It could not be taken up after a restart, because what was kept of it cannot be read.
    Unreadable,
    /// A judgement of it was lost: it could not be taken up after a restart, or, with two sides, not go on.
    Lost,
    /// It could not be taken up after a restart, because the limits of a session are others.
    OtherLimits,
    /// It could not be taken up after a restart, because it was too long to be kept, or had two sides.
    TooLong,
    /// An episode with two sides reached a limit of its pack.
    Limit,
    /// Its rules were too old: there are newer ones, and so many are in memory.
    Outlived,
}

impl CloseReason {
    /// Every reason, in the order of its number in the layout.
    pub const ALL: [CloseReason; 9] = [
        CloseReason::Idle,
        CloseReason::Asked,
        CloseReason::RulesGone,
        CloseReason::Unreadable,
        CloseReason::Lost,
        CloseReason::OtherLimits,
        CloseReason::TooLong,
        CloseReason::Limit,
        CloseReason::Outlived,
    ];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            CloseReason::Idle => "idle",
            CloseReason::Asked => "asked",
            CloseReason::RulesGone => "rules_gone",
            CloseReason::Unreadable => "unreadable",
            CloseReason::Lost => "lost",
            CloseReason::OtherLimits => "other_limits",
            CloseReason::TooLong => "too_long",
            CloseReason::Limit => "limit",
            CloseReason::Outlived => "outlived",
        }
    }
}

/// One record as a store gives it back.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number.
    pub number: RecordNumber,
    /// When it was committed: milliseconds since 1970-01-01T00:00:00Z.
    pub at_millis: u64,
    /// What it says.
    pub body: Body,
    /// Whether something that it carried was erased since.
    pub erased: bool,
}

impl Record {
    /// The session whose payload it has.
    pub fn payload_session(&self) -> Option<&Arc<str>> {
        match &self.body {
            Body::Drift(signal) => Some(&signal.session),
            _ => None,
        }
    }

    /// Its kind, in a word.
    pub fn kind(&self) -> &'static str {
        match &self.body {
            Body::Judged(_) => "judged",
            Body::Judge(_) => "judge",
            Body::Activated(_) => "activated",
            Body::Drift(_) => "drift",
            Body::Reading(_) => "reading",
            Body::Lost(_) => "lost",
            Body::Checkpoint(_) => "checkpoint",
            Body::Closed(_) => "closed",
            Body::Erased { .. } => "erased",
            Body::Pruned { .. } => "pruned",
            Body::Refused(_) => "refused",
            Body::SetAside(_) => "set_aside",
            Body::Moved { .. } => "moved",
            Body::Imported { .. } => "imported",
        }
    }
}

/// What a record says.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// One item of a session was judged.
    Judged(Judged),
    /// A judge's verdict was reported.
    Judge(JudgeReport),
    /// A pack began to serve.
    Activated(Activation),
    /// A probe found something, or a baseline settled what it found.
    Drift(Box<DriftRecord>),
    /// Sealed answers were read.
    Reading(Reading),
    /// Records were given up.
    Lost(Loss),
    /// How far the chain had come.
    Checkpoint(Checkpoint),
    /// A session was closed.
    Closed(Closed),
    /// The payloads of a session were erased.
    Erased {
        /// The session.
        session: Arc<str>,
    },
    /// The oldest records were dropped.
    Pruned {
        /// The first that was held.
        first: RecordNumber,
    },
    /// Rules were to serve, and were refused.
    Refused(Refusal),
    /// The store of before was damaged.
    SetAside(SetAside),
    /// A gate moved to newly loaded rules.
    Moved {
        /// The session.
        session: Arc<str>,
        /// The rules of before.
        from: Arc<PackRef>,
        /// The rules from then on.
        to: Arc<PackRef>,
    },
    /// A session was put in that was taken out before, here or elsewhere.
    Imported {
        /// The session.
        session: Arc<str>,
        /// Entries of its journal.
        entries: u64,
    },
}

/// One judged item. Policies that are not named passed: the pack's digest says which those are.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The session.
    pub session: Arc<str>,
    /// The agent, as the caller names it; may be empty.
    pub agent: Arc<str>,
    /// The rules.
    pub pack: Arc<PackRef>,
    /// The session's mode.
    pub mode: Mode,
    /// What the item was.
    pub item: ItemKind,
    /// Its place in the session, from 0; 0 opens it.
    pub seq: u64,
    /// The keyed digest of the item as it came: whoever has the item and the key can tell that it was this one, and
    /// nobody without the key can try out what it may have been.
    pub input: Digest,
    /// The message index.
    pub turn: Turn,
    /// The answer for each usable call.
    pub calls: Vec<CallRecord>,
    /// Violations.
    pub hits: Vec<HitRecord>,
    /// Firings of other effects.
    pub signals: Vec<SignalRecord>,
    /// Policies that could not be decided: policy, turn, and the path that was missing or the limit that was reached.
    pub undecided: Vec<(PolicyId, Turn, String)>,
    /// What could not be taken in: turn and reason.
    pub malformed: Vec<(Turn, String)>,
}

/// The answer for one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Place in the message's call list.
    pub index: u32,
    /// Whether it may run.
    pub gate: Gate,
}

/// One decided sub-condition of a policy that fired; its text is that of the pack, in source order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionRecord {
    /// Whether it held.
    pub holds: bool,
    /// Earlier events that this rests on, ascending.
    pub rests_on: Vec<Seq>,
}

/// A violation.
#[derive(Clone, Debug, PartialEq)]
pub struct HitRecord {
    /// Which policy.
    pub policy: PolicyId,
    /// The message index.
    pub turn: Turn,
    /// Earlier hits of the policy in the session.
    pub n: u32,
    /// Severity x d(n).
    pub reward: Num,
    /// The event that was judged.
    pub event: Seq,
    /// Why.
    pub conditions: Vec<ConditionRecord>,
}

/// A firing of a `review`, `flag` or `milestone` policy.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalRecord {
    /// Which policy.
    pub policy: PolicyId,
    /// The message index.
    pub turn: Turn,
    /// What kind of policy it is.
    pub effect: Effect,
    /// The event that was judged.
    pub event: Seq,
    /// Why.
    pub conditions: Vec<ConditionRecord>,
}
