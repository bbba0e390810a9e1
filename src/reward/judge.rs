//! What judges reported, beside the deterministic figures and never among them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::metrics::{Counted, EpisodeFigures, Metrics, share};
use crate::{
    ingest::JudgeVerdict,
    model::{Effect, Turn},
};

/// How judges did. Shares are 0 where their denominator is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JudgeMetrics {
    /// Verdicts reported on policies of the pack.
    pub verdicts: u64,
    /// Verdicts that say "hit".
    pub hits: u64,
    /// Of the verdicts on policies with a deterministic predicate: the share that agrees with it.
    pub agreement: f64,
    /// Of the judge's hits on such policies: the share that are hits.
    pub precision: f64,
    /// Of the hits of such policies, in episodes where the judge reported on the policy: the share
    /// that it found.
    pub recall: f64,
    /// Hits on policies without a deterministic predicate: nothing confirms them.
    pub unverified: u64,
    /// Verdicts that name no declared policy of the pack.
    pub unknown_policy: u64,
    /// Coverage without the judge.
    pub coverage_deterministic: f64,
    /// Coverage if the judge's hits counted.
    pub coverage_with_judge: f64,
    /// Hits by policy.
    pub hits_by_policy: BTreeMap<String, u64>,
}

/// Compares judges with the deterministic hits of the same episodes. None if no judge said anything.
pub fn judge_metrics<'e>(
    policies: &[Counted],
    metrics: &Metrics,
    episodes: impl IntoIterator<Item = (&'e EpisodeFigures, &'e [JudgeVerdict])>,
) -> Option<JudgeMetrics> {
    let mut tally = JudgeTally::new(policies);
    episodes.into_iter().for_each(|(episode, verdicts)| tally.add(episode, verdicts));
    tally.finish(metrics)
}

/// Compares episode by episode, for sets that do not fit into memory.
#[derive(Clone, Debug)]
pub struct JudgeTally {
    /// The declared policies; true for those that only a judge decides.
    declared: BTreeMap<String, bool>,
    out: JudgeMetrics,
    reported: u64,
    checked: u64,
    agreed: u64,
    claimed: u64,
    true_hits: u64,
    to_find: u64,
    found: u64,
}

impl JudgeTally {
    /// No episodes yet. `policies` are all of the pack, in any order.
    pub fn new(policies: &[Counted]) -> JudgeTally {
        let declared = policies.iter().filter(|p| p.effect.is_declared());
        JudgeTally {
            declared: declared.map(|p| (p.id.to_string(), p.effect == Effect::Judge)).collect(),
            out: JudgeMetrics::default(),
            reported: 0,
            checked: 0,
            agreed: 0,
            claimed: 0,
            true_hits: 0,
            to_find: 0,
            found: 0,
        }
    }

    /// Adds an episode.
    pub fn add(&mut self, episode: &EpisodeFigures, verdicts: &[JudgeVerdict]) {
        self.reported += count(verdicts.len());
        let hits: BTreeSet<(&str, Turn)> = episode.hits.iter().map(|(p, turn, _)| (p.as_ref(), *turn)).collect();
        // Two verdicts of one judge on one turn are one opinion; a hit among several is a hit.
        let mut opinions: BTreeMap<(&str, Turn, Option<&str>), bool> = BTreeMap::new();
        for v in verdicts {
            *opinions.entry((v.policy.as_ref(), v.turn, v.judge_id.as_deref())).or_default() |= v.hit;
        }
        let mut looked_at: BTreeSet<&str> = BTreeSet::new();
        let mut found: BTreeSet<(&str, Turn)> = BTreeSet::new();
        for ((policy, turn, _), says_hit) in opinions {
            let Some(only_judged) = self.declared.get(policy) else {
                self.out.unknown_policy += 1;
                continue;
            };
            self.out.verdicts += 1;
            if says_hit {
                self.out.hits += 1;
                *self.out.hits_by_policy.entry(policy.to_owned()).or_default() += 1;
            }
            if *only_judged {
                self.out.unverified += u64::from(says_hit);
                continue;
            }
            let is_hit = hits.contains(&(policy, turn));
            looked_at.insert(policy);
            self.checked += 1;
            self.agreed += u64::from(is_hit == says_hit);
            self.claimed += u64::from(says_hit);
            self.true_hits += u64::from(says_hit && is_hit);
            if says_hit && is_hit {
                found.insert((policy, turn));
            }
        }
        self.to_find += count(hits.iter().filter(|(p, _)| looked_at.contains(p)).count());
        self.found += count(found.len());
    }

    /// The figures of all episodes so far; `metrics` are the deterministic ones of the same episodes.
    /// None if no judge said anything.
    pub fn finish(&self, metrics: &Metrics) -> Option<JudgeMetrics> {
        if self.reported == 0 {
            return None;
        }
        let hit = metrics.distinct_hits_by_policy.iter().filter(|(_, n)| **n > 0).map(|(p, _)| p.as_str());
        let covered: BTreeSet<&str> = hit.chain(self.out.hits_by_policy.keys().map(String::as_str)).collect();
        let mut out = self.out.clone();
        out.agreement = share(self.agreed, self.checked);
        out.precision = share(self.true_hits, self.claimed);
        out.recall = share(self.found, self.to_find);
        out.coverage_deterministic = metrics.coverage;
        out.coverage_with_judge = share(count(covered.len()), metrics.declared_policies);
        Some(out)
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Num, reward::metrics};

    fn verdict(policy: &str, turn: Turn, hit: bool) -> JudgeVerdict {
        JudgeVerdict { policy: policy.into(), turn, hit, judge_id: None }
    }

    #[test]
    fn a_judge_without_precision_shows_up_as_such_and_moves_no_deterministic_figure() {
        let policies =
            [Counted { id: "A".into(), effect: Effect::Deny }, Counted { id: "S".into(), effect: Effect::Judge }];
        let episode = EpisodeFigures { hits: vec![("A".into(), 3, Num::ONE)], ..Default::default() };
        let verdicts = [
            verdict("A", 1, true),
            verdict("A", 3, true),
            verdict("A", 5, true),
            verdict("S", 1, true),
            verdict("Z", 1, true),
        ];
        let m = metrics(&policies, [&episode]);
        let j = judge_metrics(&policies, &m, [(&episode, verdicts.as_slice())]);
        let expected = JudgeMetrics {
            verdicts: 4,
            hits: 4,
            agreement: 0.333333,
            precision: 0.333333,
            recall: 1.0,
            unverified: 1,
            unknown_policy: 1,
            coverage_deterministic: 0.5,
            coverage_with_judge: 1.0,
            hits_by_policy: [("A".to_owned(), 3), ("S".to_owned(), 1)].into_iter().collect(),
        };
        assert_eq!(j, Some(expected));
        assert_eq!(m.raw_hits, 1);
        assert_eq!(judge_metrics(&policies, &m, [(&episode, [].as_slice())]), None);
    }
}
