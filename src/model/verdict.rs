//! What judging an event gives: a decision is a value that says why.

use std::sync::Arc;

use super::{EventKind, Malformed, Num, Seq, Turn};

/// A policy's id, as written in its pack.
pub type PolicyId = Arc<str>;

/// The answer for one call, in rising order of severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Gate {
    /// Nothing speaks against it.
    #[default]
    Allow,
    /// A human should look first.
    Review,
    /// A policy forbids it.
    Deny,
}

impl Gate {
    /// `ALLOW`, `REVIEW` or `DENY`.
    pub fn word(self) -> &'static str {
        match self {
            Gate::Allow => "ALLOW",
            Gate::Review => "REVIEW",
            Gate::Deny => "DENY",
        }
    }
}

/// What a policy does when its condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// A violation: a hit, paid in reward.
    Deny,
    /// A call for a human; no violation.
    Review,
    /// A mark, nothing more.
    Flag,
    /// Progress.
    Milestone,
    /// Declared, but decided by a judge outside; never a hit here.
    Judge,
}

impl Effect {
    /// The word for it in the rules language.
    pub fn word(self) -> &'static str {
        match self {
            Effect::Deny => "deny",
            Effect::Review => "review",
            Effect::Flag => "flag",
            Effect::Milestone => "milestone",
            Effect::Judge => "judge",
        }
    }

    /// Whether such policies are declared: only these stand in denominators.
    pub fn is_declared(self) -> bool {
        matches!(self, Effect::Deny | Effect::Judge)
    }
}

/// One sub-condition of a policy that held (or did not) when it fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its source text, white space folded.
    pub source: Arc<str>,
    /// Whether it held.
    pub holds: bool,
    /// Earlier events that this rests on, ascending.
    pub rests_on: Vec<Seq>,
}

/// Why a policy fired: its decided sub-conditions, in source order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The event that was judged.
    pub seq: Seq,
    /// The sub-conditions.
    pub conditions: Vec<Condition>,
}

/// A policy's condition held for one event.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    /// Which policy.
    pub policy: PolicyId,
    /// The message with its values filled in. It may quote the trace: it goes to the caller that
    /// sent the data and nowhere else.
    pub message: String,
    /// Why.
    pub evidence: Evidence,
}

/// A violation: one per policy and turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Which policy, with message and evidence of the first offending event of the turn.
    pub firing: Firing,
    /// The message index.
    pub turn: Turn,
    /// Earlier hits of the policy in the episode.
    pub n: u32,
    /// Severity x d(n), exact.
    pub reward: Num,
}

/// A `review`, `flag` or `milestone` policy fired: one per policy and turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// Which policy, with message and evidence of the first event of the turn.
    pub firing: Firing,
    /// The message index.
    pub turn: Turn,
    /// What kind of policy it is.
    pub effect: Effect,
}

/// A policy that could not be decided for an event; one per policy and turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecided {
    /// Which policy.
    pub policy: PolicyId,
    /// The message index.
    pub turn: Turn,
    /// The path that was missing, or the limit that was reached; holds no value of the trace.
    pub reason: String,
}

/// The answer for one call of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallAnswer {
    /// Place in the message's call list.
    pub index: u32,
    /// The caller's id, empty if it had none.
    pub call_id: String,
    /// Whether it may run.
    pub gate: Gate,
}

/// What taking in one message, one proposed call or the end of a session gave. Hits, signals and
/// undecided are those that are new in this step; within a turn each policy is listed once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The message index.
    pub turn: Turn,
    /// Whose message was taken in; none for a proposed call, the end, and what no message is.
    pub speaker: Option<EventKind>,
    /// An answer for each usable call, in order.
    pub calls: Vec<CallAnswer>,
    /// Violations, by policy id.
    pub hits: Vec<Hit>,
    /// What could not be decided, by policy id.
    pub undecided: Vec<Undecided>,
    /// What could not be taken in.
    pub malformed: Vec<Malformed>,
    /// Firings of other effects, by policy id.
    pub signals: Vec<Signal>,
}
