//! What the auditor's side of an episode can be sent: nothing else has a form here.

use std::sync::Arc;

use crate::{
    engine::EpisodeOutcome,
    model::{AuditorSees, Num, PolicyId, Turn},
    reward::EpisodeReward,
};

/// A message for the auditor while the episode is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToAuditor {
    /// One of its own messages was taken.
    Taken {
        /// The number that it gave the message.
        input: u64,
    },
    /// The target said something publicly.
    Said(Arc<str>),
}

/// The end, as the auditor is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditorEnd {
    /// Why.
    pub reason: EndReason,
    /// What the pack lets it know.
    pub shown: Shown,
}

/// Why an episode was closed. Each side is told; what went wrong inside is one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The auditor ended it.
    Auditor,
    /// The target ended it.
    Target,
    /// It reached a limit of its pack.
    Limit,
    /// Nobody sent anything within the idle time.
    Idle,
    /// Somebody outside closed it.
    Asked,
    /// Its rules were too old.
    Outlived,
    /// It could not go on.
    Failed,
}

/// What the auditor is told of the outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Nothing.
    Nothing,
    /// The reward's total; none beyond 38 digits.
    Total(Option<Num>),
    /// The total and the hits.
    Hits(Option<Num>, Vec<ShownHit>),
}

/// A hit, without its message and its evidence, which hold what the target did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownHit {
    /// The policy.
    pub policy: PolicyId,
    /// Index of the message.
    pub turn: Turn,
    /// What it paid.
    pub reward: Num,
}

impl Shown {
    /// Of an outcome, what the pack allows.
    pub fn of(outcome: &EpisodeOutcome, reward: &EpisodeReward, sees: AuditorSees) -> Shown {
        match sees {
            AuditorSees::Nothing => Shown::Nothing,
            AuditorSees::Total => Shown::Total(reward.total),
            AuditorSees::Hits => {
                let hit = |hit: &crate::model::Hit| ShownHit {
                    policy: hit.firing.policy.clone(),
                    turn: hit.turn,
                    reward: hit.reward,
                };
                Shown::Hits(reward.total, outcome.hits.iter().map(hit).collect())
            }
        }
    }
}
