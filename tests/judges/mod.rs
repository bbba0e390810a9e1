//! Whoever can judge a trace, and what a comparison looks at: tests run the same rows through each.

#![allow(dead_code, reason = "each test binary uses the part that it needs")]

use std::{collections::BTreeSet, fs, path::Path};

use probity::{
    ingest::Messages,
    keywords::{Categories, CategorySpec, MatchMode, Step},
    model::{Hit, Num, Turn},
};

use crate::naive::{Mentions, Program, Report};

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

/// Whether a text mentions a category of a `keywords.yaml`.
pub fn keywords(file: &Path) -> Mentions {
    let yaml: serde_yaml::Value = serde_yaml::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let words = |category: &serde_yaml::Value, key: &str| -> Vec<String> {
        let list = category.get(key).and_then(|list| list.as_sequence()).cloned().unwrap_or_default();
        list.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let spec = |(name, category): (&serde_yaml::Value, &serde_yaml::Value)| CategorySpec {
        name: name.as_str().unwrap().to_owned(),
        mode: if category["match"] == "word" { MatchMode::Word } else { MatchMode::Substring },
        steps: Step::ALL
            .into_iter()
            .filter(|(_, word)| words(category, "normalize").contains(&(*word).to_owned()))
            .map(|(step, _)| step)
            .collect(),
        terms: words(category, "terms"),
        patterns: words(category, "patterns"),
        except: words(category, "except"),
    };
    let specs: Vec<CategorySpec> = yaml["categories"].as_mapping().unwrap().iter().map(spec).collect();
    let categories = Categories::compile(&specs).unwrap();
    Box::new(move |category, text| categories.mentions(text, categories.id(category).unwrap()))
}

/// Name and text of the `.policy` files of a folder, in the order of their names.
pub fn policy_files(folder: &Path) -> Vec<(String, String)> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "policy"))
        .collect();
    paths.sort();
    paths.iter().map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap())).collect()
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
