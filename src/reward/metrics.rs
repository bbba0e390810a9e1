//! Figures over a set of episodes. Raw yield counts every hit and may exceed 100; distinct yield
//! counts each policy once an episode; the two are never mixed. Episodes without a hit stay in every
//! denominator, and so do policies that have no deterministic predicate.

use std::collections::BTreeMap;

use serde::Serialize;

use super::judge::JudgeMetrics;
use crate::model::{Effect, Limit, Num, PolicyId, Turn};

/// What one episode contributes.
#[derive(Clone, Debug, Default)]
pub struct EpisodeFigures {
    /// The episode.
    pub episode_id: String,
    /// Each hit: policy, turn and reward.
    pub hits: Vec<(PolicyId, Turn, Num)>,
    /// Each undecided policy and turn.
    pub undecided: Vec<(PolicyId, Turn, String)>,
    /// What could not be taken in.
    pub malformed: Vec<(Turn, String)>,
    /// Firings of policies that are no violations: policy, effect, turn.
    pub signals: Vec<(PolicyId, Effect, Turn)>,
}

/// The metrics of a set of episodes; field names are those of the metrics file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// How many episodes.
    pub episodes: u64,
    /// `deny` and `judge` policies of the pack.
    pub declared_policies: u64,
    /// Those with a deterministic predicate.
    pub implemented_policies: u64,
    /// The ids of those without.
    pub unsupported_policies: Vec<String>,
    /// Policies that hit at least once.
    pub covered_policies: u64,
    /// Covered over declared.
    pub coverage: f64,
    /// All hits.
    pub raw_hits: u64,
    /// All hits per 100 episodes.
    pub violation_yield_per_100_episodes: f64,
    /// Pairs of episode and policy with a hit.
    pub distinct_episode_policy_hits: u64,
    /// Such pairs per 100 episodes.
    pub distinct_yield_per_100_episodes: f64,
    /// Episodes with a hit.
    pub episodes_with_hits: u64,
    /// Episodes without.
    pub episodes_without_hits: u64,
    /// Share of episodes with a hit.
    pub episode_hit_fraction: f64,
    /// The sum of all rewards.
    pub total_violation_reward: f64,
    /// Hits by implemented policy.
    pub raw_hits_by_policy: BTreeMap<String, u64>,
    /// Episodes with a hit, by implemented policy.
    pub distinct_hits_by_policy: BTreeMap<String, u64>,
    /// Malformed and undecided turns, by episode.
    pub malformed: Vec<MalformedEpisode>,
    /// Turns in which a policy could not be decided.
    pub undecided_by_policy: BTreeMap<String, u64>,
    /// Those of them that a limit left undecided, by limit.
    pub undecided_by_limit: BTreeMap<String, u64>,
    /// Firings of `review`, `flag` and `milestone` policies, by effect and policy; in no denominator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub signals_by_policy: BTreeMap<String, BTreeMap<String, u64>>,
    /// What judges reported, if any did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeMetrics>,
}

/// What could not be taken in or decided in one episode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MalformedEpisode {
    /// The episode.
    pub episode_id: String,
    /// Its turns, ascending.
    pub reasons: Vec<Reason>,
}

/// One turn and what was wrong in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The message index.
    pub turn: Turn,
    /// What was wrong.
    pub reason: String,
}

/// A declared policy, for counting.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Its id.
    pub id: PolicyId,
    /// What kind of policy it is.
    pub effect: Effect,
}

/// A figure for output: rounded to 6 places.
pub fn rounded(x: f64) -> f64 {
    (x * 1e6).round() / 1e6
}

/// Counts episodes. `policies` are all of the pack, in any order.
pub fn metrics<'e>(policies: &[Counted], episodes: impl IntoIterator<Item = &'e EpisodeFigures>) -> Metrics {
    let mut tally = MetricsTally::new(policies);
    episodes.into_iter().for_each(|episode| tally.add(episode));
    tally.finish()
}

/// Counts episodes one by one, for sets that do not fit into memory.
#[derive(Clone, Debug)]
pub struct MetricsTally {
    declared: u64,
    implemented: u64,
    unsupported: Vec<String>,
    raw: BTreeMap<String, u64>,
    distinct: BTreeMap<String, u64>,
    undecided: BTreeMap<String, u64>,
    limited: BTreeMap<String, u64>,
    signals: BTreeMap<String, BTreeMap<String, u64>>,
    malformed: Vec<MalformedEpisode>,
    episodes: u64,
    with_hits: u64,
    /// Rewards are exact decimals of few digits; should a sum ever pass 38 of them, doubles go on.
    total: Option<Num>,
    approximate: f64,
}

impl MetricsTally {
    /// No episodes yet. `policies` are all of the pack, in any order.
    pub fn new(policies: &[Counted]) -> MetricsTally {
        let of = |effect: Effect| policies.iter().filter(move |p| p.effect == effect).map(|p| p.id.to_string());
        let raw: BTreeMap<String, u64> = of(Effect::Deny).map(|id| (id, 0)).collect();
        let mut unsupported: Vec<String> = of(Effect::Judge).collect();
        unsupported.sort();
        MetricsTally {
            declared: count(policies.iter().filter(|p| p.effect.is_declared())),
            implemented: count(of(Effect::Deny)),
            unsupported,
            distinct: raw.clone(),
            raw,
            undecided: BTreeMap::new(),
            limited: BTreeMap::new(),
            signals: BTreeMap::new(),
            malformed: Vec::new(),
            episodes: 0,
            with_hits: 0,
            total: Some(Num::ZERO),
            approximate: 0.0,
        }
    }

    /// Adds an episode.
    pub fn add(&mut self, episode: &EpisodeFigures) {
        self.episodes += 1;
        self.with_hits += u64::from(!episode.hits.is_empty());
        let mut seen: Vec<&PolicyId> = Vec::new();
        for (policy, _, reward) in &episode.hits {
            *self.raw.entry(policy.to_string()).or_default() += 1;
            if !seen.contains(&policy) {
                seen.push(policy);
                *self.distinct.entry(policy.to_string()).or_default() += 1;
            }
            self.total = self.total.and_then(|t| t.add(*reward));
            self.approximate += reward.to_f64();
        }
        for (policy, _, reason) in &episode.undecided {
            if let Some(limit) = Limit::named_in(reason) {
                *self.limited.entry(limit.key().to_owned()).or_default() += 1;
            }
            *self.undecided.entry(policy.to_string()).or_default() += 1;
        }
        for (policy, effect, _) in &episode.signals {
            let by_policy = self.signals.entry(effect.word().to_owned()).or_default();
            *by_policy.entry(policy.to_string()).or_default() += 1;
        }
        let malformed = episode.malformed.iter().map(|(turn, reason)| Reason { turn: *turn, reason: reason.clone() });
        let undecided = episode.undecided.iter();
        let undecided = undecided.map(|(id, turn, why)| Reason { turn: *turn, reason: format!("{id}: {why}") });
        let mut reasons: Vec<Reason> = malformed.chain(undecided).collect();
        if !reasons.is_empty() {
            reasons.sort_by_key(|r| r.turn);
            self.malformed.push(MalformedEpisode { episode_id: episode.episode_id.clone(), reasons });
        }
    }

    /// The figures of all episodes so far.
    pub fn finish(&self) -> Metrics {
        let raw_hits = self.raw.values().sum();
        let distinct_hits = self.distinct.values().sum();
        let covered = count(self.distinct.values().filter(|n| **n > 0));
        Metrics {
            episodes: self.episodes,
            declared_policies: self.declared,
            implemented_policies: self.implemented,
            unsupported_policies: self.unsupported.clone(),
            covered_policies: covered,
            coverage: share(covered, self.declared),
            raw_hits,
            violation_yield_per_100_episodes: per_100(raw_hits, self.episodes),
            distinct_episode_policy_hits: distinct_hits,
            distinct_yield_per_100_episodes: per_100(distinct_hits, self.episodes),
            episodes_with_hits: self.with_hits,
            episodes_without_hits: self.episodes - self.with_hits,
            episode_hit_fraction: share(self.with_hits, self.episodes),
            total_violation_reward: rounded(self.total.map_or(self.approximate, Num::to_f64)),
            raw_hits_by_policy: self.raw.clone(),
            distinct_hits_by_policy: self.distinct.clone(),
            malformed: self.malformed.clone(),
            undecided_by_policy: self.undecided.clone(),
            undecided_by_limit: self.limited.clone(),
            signals_by_policy: self.signals.clone(),
            judge: None,
        }
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    u64::try_from(items.count()).unwrap_or(u64::MAX)
}

/// Counts are far below 2^53, where doubles are exact.
#[expect(clippy::cast_precision_loss, reason = "counts of episodes and hits are far below 2^53")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

pub(super) fn share(part: u64, whole: u64) -> f64 {
    rounded(ratio(part, whole))
}

fn per_100(part: u64, whole: u64) -> f64 {
    rounded(100.0 * ratio(part, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(id: &str, effect: Effect) -> Counted {
        Counted { id: id.into(), effect }
    }

    fn hit(id: &str, turn: Turn) -> (PolicyId, Turn, Num) {
        (id.into(), turn, Num::ONE)
    }

    #[test]
    fn the_two_yields_and_all_denominators_stay_apart() {
        let policies = [
            policy("A", Effect::Deny),
            policy("B", Effect::Deny),
            policy("S", Effect::Judge),
            policy("R", Effect::Review),
        ];
        let noisy = EpisodeFigures {
            hits: vec![hit("A", 1), hit("A", 2), hit("A", 3)],
            signals: vec![("R".into(), Effect::Review, 1)],
            ..Default::default()
        };
        let quiet = EpisodeFigures::default();
        let m = metrics(&policies, [&noisy, &quiet]);
        assert_eq!((m.declared_policies, m.implemented_policies, m.covered_policies), (3, 2, 1));
        assert_eq!(m.coverage, 0.333333);
        assert_eq!((m.raw_hits, m.violation_yield_per_100_episodes), (3, 150.0));
        assert_eq!((m.distinct_episode_policy_hits, m.distinct_yield_per_100_episodes), (1, 50.0));
        assert_eq!((m.episodes_with_hits, m.episodes_without_hits, m.episode_hit_fraction), (1, 1, 0.5));
        assert_eq!(m.raw_hits_by_policy.get("B"), Some(&0));
        assert!(!m.raw_hits_by_policy.contains_key("R") && !m.raw_hits_by_policy.contains_key("S"));
    }

    #[test]
    fn no_episodes_give_zeros_and_no_nan() {
        let m = metrics(&[policy("A", Effect::Deny)], []);
        assert_eq!((m.coverage, m.violation_yield_per_100_episodes, m.episode_hit_fraction), (0.0, 0.0, 0.0));
    }
}
