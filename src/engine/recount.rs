//! Two packs on the same recorded episodes: the verdicts that one gives and the other does not, and what that does
//! to reward and coverage.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;

use super::{Pack, run_episode, verdicts};
use crate::{
    ingest::Episode,
    model::Turn,
    reward::{Metrics, MetricsTally, rounded},
};

/// A verdict on a turn of an episode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct VerdictAt {
    /// The episode.
    pub episode_id: String,
    /// The message index.
    pub turn: Turn,
    /// `hit`, `review`, `flag`, `milestone` or `undecided`.
    pub verdict: &'static str,
}

/// How the verdicts of a policy differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PolicyVerdicts {
    /// Those that only the second pack gives, in the order of the episodes.
    pub gained: Vec<VerdictAt>,
    /// Those that only the first pack gives.
    pub lost: Vec<VerdictAt>,
}

/// What a pack makes of the episodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// All hits.
    pub hits: u64,
    /// Episodes with a hit.
    pub episodes_with_hits: u64,
    /// Turns in which a policy is undecided.
    pub undecided: u64,
    /// The sum of all violation rewards.
    pub violation_reward: f64,
    /// Declared policies with a hit, over declared ones.
    pub coverage: f64,
}

impl From<Metrics> for Figures {
    fn from(metrics: Metrics) -> Figures {
        Figures {
            hits: metrics.raw_hits,
            episodes_with_hits: metrics.episodes_with_hits,
            undecided: metrics.undecided_by_policy.values().sum(),
            violation_reward: rounded(metrics.total_violation_reward),
            coverage: rounded(metrics.coverage),
        }
    }
}

/// How two packs fare on the same episodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceDiff {
    /// How many episodes were judged.
    pub episodes: u64,
    /// Policies whose verdicts differ, by id.
    pub verdicts: BTreeMap<String, PolicyVerdicts>,
    /// Of the first pack.
    pub before: Figures,
    /// Of the second pack.
    pub after: Figures,
}

/// Judges episodes by two packs, one after the other.
#[derive(Debug)]
pub struct Recount {
    before: (Arc<Pack>, MetricsTally),
    after: (Arc<Pack>, MetricsTally),
    episodes: u64,
    verdicts: BTreeMap<String, PolicyVerdicts>,
}

impl Recount {
    /// No episodes yet.
    pub fn new(before: Arc<Pack>, after: Arc<Pack>) -> Recount {
        let tally = |pack: Arc<Pack>| {
            let tally = MetricsTally::new(&pack.counted());
            (pack, tally)
        };
        Recount { before: tally(before), after: tally(after), episodes: 0, verdicts: BTreeMap::new() }
    }

    /// Judges an episode.
    pub fn add(&mut self, episode: &Episode) {
        let judge = |(pack, tally): &mut (Arc<Pack>, MetricsTally)| {
            let outcome = run_episode(pack, episode);
            tally.add(&outcome.figures());
            verdicts(&outcome.hits, &outcome.signals, &outcome.undecided)
        };
        let (before, after) = (judge(&mut self.before), judge(&mut self.after));
        self.episodes += 1;
        for (turn, policy, verdict) in after.difference(&before) {
            let at = VerdictAt { episode_id: episode.id.clone(), turn: *turn, verdict };
            self.verdicts.entry(policy.to_string()).or_default().gained.push(at);
        }
        for (turn, policy, verdict) in before.difference(&after) {
            let at = VerdictAt { episode_id: episode.id.clone(), turn: *turn, verdict };
            self.verdicts.entry(policy.to_string()).or_default().lost.push(at);
        }
    }

    /// What the episodes say.
    pub fn finish(self) -> TraceDiff {
        TraceDiff {
            episodes: self.episodes,
            verdicts: self.verdicts,
            before: self.before.1.finish().into(),
            after: self.after.1.finish().into(),
        }
    }
}
