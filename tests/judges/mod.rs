//! Whoever can judge a trace, and what a comparison looks at: tests run the same rows through each.

#![allow(dead_code, reason = "each test binary uses the part that it needs")]

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use probity::{
    diag::{Diagnostics, Style},
    engine::{Loaded, Pack, run_episode},
    ingest::{Episode, Messages},
    model::{Hit, Num, Turn},
    pack::PackSources,
};

use crate::naive::{Program, Report};

/// A hit as the expectations list it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedHit {
    /// The message index.
    pub turn: Turn,
    /// Which policy.
    pub policy: String,
    /// Earlier hits of the policy in the episode.
    pub n: u32,
    /// What it is paid.
    pub reward: Num,
}

/// What a comparison looks at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// By turn, then policy id.
    pub hits: Vec<ListedHit>,
    /// Turn and policy of the other effects.
    pub signals: Vec<(Turn, String)>,
    /// Turns in which a policy was undecided or something could not be taken in.
    pub open: BTreeSet<Turn>,
}

/// A rule pack made ready by one of the evaluators.
pub trait Judge {
    /// Which evaluator it is, for messages.
    fn name(&self) -> &'static str;
    /// Judges a whole trace.
    fn judge(&self, messages: &Messages) -> Summary;
}

impl Judge for Program {
    fn name(&self) -> &'static str {
        "naive interpreter"
    }

    fn judge(&self, messages: &Messages) -> Summary {
        summary(&self.report(messages))
    }
}

impl Judge for Arc<Pack> {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn judge(&self, messages: &Messages) -> Summary {
        let episode = Episode {
            id: "episode".to_owned(),
            messages: messages.clone(),
            judge: Vec::new(),
            judge_faults: Vec::new(),
        };
        let outcome = run_episode(self, &episode);
        let malformed = outcome.malformed.iter().map(|m| m.turn);
        let summary = Summary {
            hits: outcome.hits.iter().map(listed).collect(),
            signals: outcome.signals.iter().map(|s| (s.turn, s.firing.policy.to_string())).collect(),
            open: outcome.undecided.iter().map(|u| u.turn).chain(malformed).collect(),
        };
        let sum = summary.hits.iter().try_fold(Num::ZERO, |sum, hit| sum.add(hit.reward));
        assert_eq!(outcome.violation_reward, sum, "the reward of an episode is the sum of its hits'");
        summary
    }
}

/// The engine with a pack.
///
/// Panics on a pack with errors.
pub fn engine(loaded: Loaded<Arc<Pack>>) -> Arc<Pack> {
    let Loaded { result, diagnostics, sources } = loaded;
    result.unwrap_or_else(|| panic!("{}", diagnostics.render(&sources, Style::Plain)))
}

fn summary(report: &Report) -> Summary {
    let malformed = report.malformed.iter().map(|m| m.turn);
    Summary {
        hits: report.hits.iter().map(listed).collect(),
        signals: report.signals.iter().map(|s| (s.turn, s.firing.policy.to_string())).collect(),
        open: report.undecided.iter().map(|(turn, _)| *turn).chain(malformed).collect(),
    }
}

/// A hit as the expectations list it.
pub fn listed(hit: &Hit) -> ListedHit {
    ListedHit { turn: hit.turn, policy: hit.firing.policy.to_string(), n: hit.n, reward: hit.reward }
}

/// The naive interpreter of a pack, from its files.
///
/// Panics on a pack with errors.
pub fn interpreter((read, problems): (PackSources, Diagnostics)) -> Program {
    let PackSources { sources, pack } = read;
    assert!(!problems.has_errors(), "{}", problems.render(&sources, Style::Plain));
    let mut program = Program::read(sources, &pack.policies);
    program.clock = pack.clock;
    program.error_prefix = pack.errors.prefix;
    program.discounts = pack.reward.discount.values().to_vec();
    let categories = pack.keywords.compiled.expect("keywords without errors");
    program.mentions = Box::new(move |category, text| categories.mentions(text, categories.id(category).unwrap()));
    program
}

/// The lines of a JSONL file; an empty file is an error of whoever made it.
pub fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines: Vec<String> = text.lines().filter(|l| !l.trim().is_empty()).map(str::to_owned).collect();
    assert!(!lines.is_empty(), "{} is empty", path.display());
    lines
}

/// A folder of test data: named by an environment variable, or the project's own.
pub fn data_folder(variable: &str, default: &str) -> std::path::PathBuf {
    std::env::var_os(variable).map_or_else(|| default.into(), Into::into)
}
