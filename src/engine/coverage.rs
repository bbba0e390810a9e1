//! How the policies of a pack fared on episodes, event by event and condition by condition: what tests reach, and
//! what a corpus of traces says about policies that do nothing.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;

use super::{Pack, walk::walk};
use crate::{
    diag::{Code, Diagnostic},
    ingest::Episode,
    lang::{Looked, program::Policy, val::Tri},
    model::{Effect, PolicyId},
};

/// How a policy fared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PolicyCoverage {
    /// Its id.
    pub policy: String,
    /// Events that it judged.
    pub judged: u64,
    /// Those to which it applied: no `when` was false.
    pub applied: u64,
    /// Those at which it fired, or would have but for an earlier report.
    pub fired: u64,
    /// Those at which it could not be decided.
    pub undecided: u64,
    /// Its conditions, in source order.
    pub conditions: Vec<ConditionCoverage>,
    /// Why it could not be decided, most often first.
    #[serde(skip)]
    reasons: BTreeMap<String, u64>,
}

/// How a condition turned out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConditionCoverage {
    /// Its source text.
    pub source: String,
    /// Events at which it was true.
    #[serde(rename = "true")]
    pub holds: u64,
    /// Events at which it was false.
    #[serde(rename = "false")]
    pub fails: u64,
    /// Events at which it was unknown.
    pub unknown: u64,
    /// Why it was unknown: the reason that was given most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip)]
    reasons: BTreeMap<String, u64>,
}

/// Something that no episode shows of a policy, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Miss {
    /// What was not seen.
    pub what: String,
    /// Why not.
    pub why: String,
}

impl PolicyCoverage {
    /// What was not seen, each with its reason. A condition wants to be seen true and false; that it can be unknown
    /// is the trace's doing.
    pub fn misses(&self) -> Vec<Miss> {
        let miss = |what: String, why: String| Miss { what, why };
        if self.judged == 0 {
            return vec![miss("judged".to_owned(), "there is no event that it is about".to_owned())];
        }
        let mut misses = Vec::new();
        if self.fired == 0 {
            let why = match (self.applied, self.undecided) {
                (0, _) => format!("a `when` is false at each of {} events", self.judged),
                (_, 0) => format!("its condition holds at none of {} events", self.judged),
                (_, undecided) => {
                    let reason = most(&self.reasons).unwrap_or_default();
                    format!("it is undecided at {undecided} of {} events: {reason}", self.judged)
                }
            };
            misses.push(miss("fired".to_owned(), why));
        }
        for condition in &self.conditions {
            let ConditionCoverage { source, holds, fails, unknown, reason, .. } = condition;
            let reason = reason.as_deref().unwrap_or_default();
            let why = |seen: &u64, what: &str| match (*seen, *unknown) {
                (0, n) => format!("it is unknown at {n} events: {reason}"),
                (seen, 0) => format!("it is {what} at {seen} events"),
                (seen, n) => format!("it is {what} at {seen} events, and unknown at {n}: {reason}"),
            };
            if *holds == 0 {
                misses.push(miss(format!("true: {source}"), why(fails, "false")));
            }
            if *fails == 0 {
                misses.push(miss(format!("false: {source}"), why(holds, "true")));
            }
        }
        misses
    }

    fn note(&mut self, pack: &Pack, looked: &Looked) {
        self.judged += 1;
        self.applied += u64::from(looked.applies);
        match looked.verdict {
            Tri::True => self.fired += 1,
            Tri::False => {}
            Tri::Unknown(why) => {
                self.undecided += 1;
                *self.reasons.entry(pack.program().reason(why)).or_default() += 1;
            }
        }
        for (place, leaf) in looked.leaves.iter().enumerate() {
            if self.conditions.len() == place {
                self.conditions.push(ConditionCoverage { source: leaf.source.to_string(), ..Default::default() });
            }
            let Some(condition) = self.conditions.get_mut(place) else { continue };
            match leaf.truth {
                Tri::True => condition.holds += 1,
                Tri::False => condition.fails += 1,
                Tri::Unknown(why) => {
                    condition.unknown += 1;
                    *condition.reasons.entry(pack.program().reason(why)).or_default() += 1;
                    condition.reason = most(&condition.reasons);
                }
            }
        }
    }
}

/// The reason that was given most; of several the first by its letters.
fn most(reasons: &BTreeMap<String, u64>) -> Option<String> {
    let most = reasons.values().max()?;
    reasons.iter().find(|(_, n)| *n == most).map(|(reason, _)| reason.clone())
}

/// How all policies of a pack fare, episode after episode.
#[derive(Debug)]
pub struct Coverage {
    pack: Arc<Pack>,
    episodes: u64,
    policies: Vec<PolicyCoverage>,
}

impl Coverage {
    /// Nothing yet.
    pub fn new(pack: Arc<Pack>) -> Coverage {
        let policies =
            pack.policies().map(|p| PolicyCoverage { policy: p.id.to_string(), ..PolicyCoverage::default() });
        Coverage { episodes: 0, policies: policies.collect(), pack }
    }

    /// Takes an episode in.
    pub fn add(&mut self, episode: &Episode) {
        self.episodes += 1;
        let Coverage { pack, policies, .. } = self;
        walk(pack, episode, &mut |_, policy, looked, _| {
            if let Some(coverage) = policies.get_mut(policy) {
                coverage.note(pack, &looked);
            }
        });
    }

    /// The policies with a predicate, in the order of the pack.
    pub fn policies(&self) -> impl Iterator<Item = &PolicyCoverage> {
        let policies = self.policies.iter().zip(&self.pack.program().policies);
        policies.filter(|(_, policy)| policy.effect != Effect::Judge).map(|(coverage, _)| coverage)
    }

    /// What a corpus says about policies that do nothing in it, or always the same: warnings that point at them. Those that
    /// another pack declares are that pack's.
    pub fn warnings(&self) -> Vec<Diagnostic> {
        let episodes = format!("{} recorded episode{}", self.episodes, if self.episodes == 1 { "" } else { "s" });
        let policies = self.policies.iter().zip(&self.pack.program().policies);
        let mut out = Vec::new();
        let own = |policy: &Policy| policy.effect != Effect::Judge && !self.pack.inherited().has(policy.span.file);
        for (coverage, policy) in policies.filter(|(_, policy)| own(policy)) {
            let id: &PolicyId = &policy.id;
            let PolicyCoverage { judged, applied, fired, undecided, .. } = coverage;
            let mut warn = |code, message: String, help: String| {
                out.push(Diagnostic::warning(code, policy.span, message).help(help));
            };
            if *judged == 0 {
                let help = "do the agent's tools have other names?".to_owned();
                warn(Code::NeverApplied, format!("`{id}` is about no event of {episodes}"), help);
            } else if *applied == 0 {
                let help = "look at its `when`s: `probity explain --trace` says which is false, and where".to_owned();
                warn(Code::NeverApplied, format!("`{id}` applies to none of {judged} events of {episodes}"), help);
            } else if undecided == applied {
                let help = most(&coverage.reasons).unwrap_or_default();
                warn(
                    Code::AlwaysUndecided,
                    format!("`{id}` is undecided at each of {undecided} events of {episodes}"),
                    help,
                );
            } else if fired == applied {
                let help = "does it say more than its trigger?".to_owned();
                warn(Code::AlwaysFires, format!("`{id}` fires at each of {fired} events of {episodes}"), help);
            } else if *fired == 0 {
                let help = "`probity explain --trace` says how near it came".to_owned();
                warn(Code::NeverFires, format!("`{id}` fires at none of {applied} events of {episodes}"), help);
            }
        }
        out
    }
}
