//! A compiled pack: what is shared by all sessions that are judged by it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::Said;
use crate::{
    diag::Span,
    ingest::ErrorRule,
    lang::Program,
    model::{Digest, Effect, EpisodeRules, Gate, Limits, Num, PolicyId},
    pack::{Calibration, DriftSpec, DriftTests, Inherited, TestCase},
    redact::Redactor,
    reward::{Components, Counted, Discount},
};

/// The parts that a pack is made of.
#[derive(Debug)]
pub struct PackParts {
    /// The folder that it was read from, as shown.
    pub root: PathBuf,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: semver::Version,
    /// One line on what it is for; may be empty.
    pub description: String,
    /// The digest of its meaning: comments, layout, description and version do not change it.
    pub digest: Digest,
    /// The compiled policies.
    pub program: Program,
    /// What an error result is, where the trace's format does not say.
    pub errors: ErrorRule,
    /// What a call gets that a policy cannot decide on.
    pub on_undecided: Gate,
    /// The repeat discount.
    pub discount: Discount,
    /// What an episode's reward is made of.
    pub components: Components,
    /// Limits of one session.
    pub limits: Limits,
    /// How an episode with an auditor and a target runs.
    pub episode: EpisodeRules,
    /// Whether its numbers were fitted to data.
    pub calibration: Calibration,
    /// What may leave a call.
    pub redactor: Arc<Redactor>,
    /// Its drift half, if it has one.
    pub drift: Option<Arc<DriftSpec>>,
    /// Its own tests.
    pub tests: Vec<TestCase>,
    /// The tests of its drift half.
    pub drift_tests: DriftTests,
    /// What it says, for comparison with another version.
    pub said: Said,
    /// Where its version stands.
    pub version_span: Span,
    /// What it has from packs that it extends.
    pub inherited: Inherited,
}

/// A compiled pack.
#[derive(Debug)]
pub struct Pack {
    parts: PackParts,
    /// Severity x d(n) by policy, for the values that the discount has.
    rewards: Vec<Vec<Num>>,
}

/// What is declared about a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyInfo {
    /// Its id.
    pub id: PolicyId,
    /// Its title.
    pub title: Arc<str>,
    /// What happens when it fires.
    pub effect: Effect,
    /// Its severity.
    pub severity: Num,
    /// Its tags.
    pub tags: Vec<Arc<str>>,
}

/// A policy whose rewards cannot be computed exactly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("severity x discount of the policy `{policy}` has more than 38 digits")]
pub struct RewardDigits {
    /// Which one.
    pub policy: PolicyId,
}

impl Pack {
    /// Puts a pack together.
    pub fn new(parts: PackParts) -> Result<Pack, RewardDigits> {
        let rewards = parts
            .program
            .policies
            .iter()
            .map(|policy| {
                (0u32..)
                    .take(parts.discount.values().len())
                    .map(|n| {
                        parts.discount.reward(policy.severity, n).ok_or(RewardDigits { policy: policy.id.clone() })
                    })
                    .collect()
            })
            .collect::<Result<_, _>>()?;
        Ok(Pack { parts, rewards })
    }

    /// The folder that it was read from, as shown.
    pub fn root(&self) -> &Path {
        &self.parts.root
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.parts.name
    }

    /// Its version.
    pub fn version(&self) -> &semver::Version {
        &self.parts.version
    }

    /// Its name and the versions that it is meant to be exchanged with, as semver has it: `airline@1`, `airline@0.3`.
    pub fn line(&self) -> String {
        match self.version() {
            semver::Version { major: 0, minor, .. } => format!("{}@0.{minor}", self.name()),
            semver::Version { major, .. } => format!("{}@{major}", self.name()),
        }
    }

    /// One line on what it is for.
    pub fn description(&self) -> &str {
        &self.parts.description
    }

    /// The digest of its meaning.
    pub fn digest(&self) -> &Digest {
        &self.parts.digest
    }

    /// The compiled policies.
    pub fn program(&self) -> &Program {
        &self.parts.program
    }

    /// What an error result is.
    pub fn errors(&self) -> &ErrorRule {
        &self.parts.errors
    }

    /// What a call gets that a policy cannot decide on.
    pub fn on_undecided(&self) -> Gate {
        self.parts.on_undecided
    }

    /// Limits of one session.
    pub fn limits(&self) -> &Limits {
        &self.parts.limits
    }

    /// How an episode with an auditor and a target runs.
    pub fn episode(&self) -> &EpisodeRules {
        &self.parts.episode
    }

    /// What an episode's reward is made of.
    pub fn components(&self) -> &Components {
        &self.parts.components
    }

    /// Whether its numbers were fitted to data.
    pub fn calibration(&self) -> &Calibration {
        &self.parts.calibration
    }

    /// What may leave a call. Its key is no secret: whoever serves the pack uses [`Redactor::with_key`].
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.parts.redactor
    }

    /// Its drift half, if it has one.
    pub fn drift(&self) -> Option<&Arc<DriftSpec>> {
        self.parts.drift.as_ref()
    }

    /// Its own tests.
    pub fn tests(&self) -> &[TestCase] {
        &self.parts.tests
    }

    /// The tests of its drift half.
    pub fn drift_tests(&self) -> &DriftTests {
        &self.parts.drift_tests
    }

    /// What it says, for comparison with another version.
    pub fn said(&self) -> &Said {
        &self.parts.said
    }

    /// Where its version stands, in the sources that it was read from.
    pub fn version_span(&self) -> Span {
        self.parts.version_span
    }

    /// What it has from packs that it extends.
    pub fn inherited(&self) -> &Inherited {
        &self.parts.inherited
    }

    /// The declared policies, in the order of the files.
    pub fn policies(&self) -> impl ExactSizeIterator<Item = PolicyInfo> {
        self.parts.program.policies.iter().map(|p| PolicyInfo {
            id: p.id.clone(),
            title: p.title.clone(),
            effect: p.effect,
            severity: p.severity,
            tags: p.tags.clone(),
        })
    }

    /// The policies, for metrics.
    pub fn counted(&self) -> Vec<Counted> {
        self.parts.program.policies.iter().map(|p| Counted { id: p.id.clone(), effect: p.effect }).collect()
    }

    /// Severity x d(n) of a policy of the program, for n earlier hits.
    pub(super) fn reward(&self, policy: usize, earlier: u32) -> Num {
        let n = usize::try_from(earlier).unwrap_or(usize::MAX);
        self.rewards.get(policy).and_then(|r| r.get(n).or(r.last())).copied().unwrap_or(Num::ZERO)
    }
}
