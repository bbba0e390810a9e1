//! What a pack says, read and checked, with the places in its files that later rooms point at.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use semver::Version;

use crate::{
    diag::{FileId, Sources, Span},
    drift::{KeywordLexicon, Library, OutputRules, Settings},
    keywords::{Categories, CategorySpec},
    lang::ToolSchemas,
    model::{EpisodeRules, Gate, Limits, Num, Turn, Value},
    redact::Redactor,
    reward::Discount,
};

use super::{DriftTests, Inherited};

/// A value with the place where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where it is written.
    pub span: Span,
}

/// The YAML files of one pack, read; with its `.policy` files as text.
#[derive(Clone, Debug)]
pub struct PackSources {
    /// Every file, for diagnostics to point into.
    pub sources: Sources,
    /// What the files say. Where a file has errors this holds what could be read; use it only to look for
    /// more errors.
    pub pack: PackSpec,
}

/// The packs of a rules folder, read.
#[derive(Clone, Debug)]
pub struct RuleSources {
    /// Every file of every pack.
    pub sources: Sources,
    /// The packs, by folder name.
    pub packs: Vec<PackSpec>,
}

/// What the YAML files of a pack say.
#[derive(Clone, Debug)]
pub struct PackSpec {
    /// The folder, as shown.
    pub root: PathBuf,
    /// `pack.yaml`.
    pub file: FileId,
    /// The pack's name.
    pub name: Spanned<String>,
    /// The pack's own version.
    pub version: Version,
    /// Where the version stands in `pack.yaml`.
    pub version_span: Span,
    /// The version of the rules language; [`PackSpec::FORMAT`] is the only one so far.
    pub format: u32,
    /// What the pack is for; may be empty.
    pub description: String,
    /// The fixed `now` of value expressions: seconds since 1970-01-01T00:00:00Z.
    pub clock: Option<Num>,
    /// What an error result is where the trace's format does not say so.
    pub errors: ErrorRule,
    /// What the gate answers where a policy is undecided.
    pub on_undecided: Gate,
    /// Whether the pack's numbers were fitted to data.
    pub calibration: Calibration,
    /// What one session may cost.
    pub limits: Limits,
    /// How an episode with an auditor and a target runs.
    pub episode: EpisodeRules,
    /// Keyword categories.
    pub keywords: Keywords,
    /// What may leave a call, and what is looked for; under a key that is no secret. `None` if it has an error.
    pub redaction: Option<Arc<Redactor>>,
    /// `probes.yaml` and `scoring.yaml`.
    pub drift: DriftHalf,
    /// How violations are paid.
    pub reward: RewardSpec,
    /// What the agent's tools take and give, if the pack says so.
    pub tools: Option<Arc<ToolSchemas>>,
    /// The `.policy` files, by path; first those of the packs that it extends.
    pub policies: Vec<FileId>,
    /// What of all this comes from packs that it extends.
    pub inherited: Inherited,
    /// Those packs, each by itself and without its tests, in the order of `inherited`.
    pub bases: Vec<Arc<PackSpec>>,
    /// False if one of the pack's files could not be read at all: names that it declares are missing.
    pub complete: bool,
    /// The pack's own tests, by file and place.
    pub tests: Vec<TestCase>,
    /// The tests of its drift half.
    pub drift_tests: DriftTests,
    /// What its files of settings say, for comparison with another version.
    pub values: Values,
}

/// Values of YAML files: by file, then by where they stand in it (`limits.look_back`).
pub type Values = BTreeMap<String, BTreeMap<String, String>>;

impl PackSpec {
    /// The version of the rules language that this version of Probity reads.
    pub const FORMAT: u32 = 1;
}

/// What an error result is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorRule {
    /// A text that begins with this is one (case-sensitive, not trimmed). Never empty.
    pub prefix: Option<String>,
}

/// Whether the numbers of a pack were fitted to data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Calibration {
    /// They are estimates.
    #[default]
    Uncalibrated,
    /// They were fitted.
    Calibrated {
        /// To which data.
        dataset: String,
        /// When, as `YYYY-MM-DD`.
        date: String,
    },
}

impl Calibration {
    /// `CALIBRATED` or `UNCALIBRATED`.
    pub fn word(&self) -> &'static str {
        self.claim().word()
    }

    /// The bare claim.
    pub fn claim(&self) -> crate::drift::Calibration {
        match self {
            Calibration::Uncalibrated => crate::drift::Calibration::Uncalibrated,
            Calibration::Calibrated { .. } => crate::drift::Calibration::Calibrated,
        }
    }
}

/// The drift half of a pack.
#[derive(Clone, Debug, Default)]
pub enum DriftHalf {
    /// There is none.
    #[default]
    Absent,
    /// It has an error.
    Broken,
    /// It can be used.
    Usable(Box<DriftSpec>),
}

/// What a pack says about drift.
#[derive(Clone, Debug)]
pub struct DriftSpec {
    /// Every number and switch.
    pub settings: Settings,
    /// The probes.
    pub library: Library,
    /// What the deterministic judge knows; without it there is none.
    pub lexicon: Option<KeywordLexicon>,
    /// How raw outputs are read.
    pub output: OutputRules,
}

impl DriftSpec {
    /// Whether the drift half uses a keyword category of that name.
    pub fn uses(&self, category: &str) -> bool {
        self.lexicon.as_ref().is_some_and(|lexicon| lexicon.uses(category))
            || self.output.policy_cited.has(category)
            || self.output.escalation_suggested.has(category)
    }
}

/// The keyword categories of a pack.
#[derive(Clone, Debug)]
pub struct Keywords {
    /// The categories with the places of their names, in the order of the file; those with errors too.
    pub specs: Vec<Spanned<CategorySpec>>,
    /// All of them compiled; the n-th category is the n-th of `specs`. `None` if one has an error.
    pub compiled: Option<Arc<Categories>>,
}

impl Keywords {
    /// Of a file that cannot be read.
    pub(super) const UNREADABLE: Keywords = Keywords { specs: Vec::new(), compiled: None };
}

impl Default for Keywords {
    /// Of a pack without categories.
    fn default() -> Keywords {
        Keywords { specs: Vec::new(), compiled: Some(Arc::default()) }
    }
}

/// How violations are paid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewardSpec {
    /// The least severity that a policy of the pack may have.
    pub severity_min: Num,
    /// The greatest one, if there is a limit.
    pub severity_max: Option<Num>,
    /// The share of the severity that the first, second, ... hit of a policy in an episode is paid.
    pub discount: Discount,
    /// What is paid beside violations.
    pub components: ComponentsSpec,
}

impl Default for RewardSpec {
    /// Severities from 0 without a limit, the usual discount, violation alone.
    fn default() -> RewardSpec {
        RewardSpec {
            severity_min: Num::ZERO,
            severity_max: None,
            discount: Discount::default(),
            components: ComponentsSpec::default(),
        }
    }
}

/// The components of a reward, as declared; weights are at least 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentsSpec {
    /// The weight of the violation reward.
    pub violation: Num,
    /// The weight of plausibility, and the `flag` policies that speak against a message.
    pub plausibility: Option<(Num, Vec<Spanned<String>>)>,
    /// The weight of progress, and the `milestone` policies that count.
    pub progress: Option<(Num, Vec<Spanned<String>>)>,
    /// The weight of diversity.
    pub diversity: Option<Num>,
}

impl Default for ComponentsSpec {
    /// Violation alone, as it is.
    fn default() -> ComponentsSpec {
        ComponentsSpec { violation: Num::ONE, plausibility: None, progress: None, diversity: None }
    }
}

/// A small trace with the verdicts that it must give.
#[derive(Clone, Debug, PartialEq)]
pub struct TestCase {
    /// Its name, unique in the pack.
    pub name: Spanned<String>,
    /// Only verdicts of these policies are compared; all if there is no such list.
    pub policies: Option<Vec<Spanned<String>>>,
    /// The messages in the OpenAI shape, a list.
    pub messages: Value,
    /// Where each message is written.
    pub message_spans: Vec<Span>,
    /// What must come out, and nothing else.
    pub expect: Expect,
}

/// The verdicts of a test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// Violations.
    pub hits: Vec<Expected>,
    /// Policies that cannot be decided.
    pub undecided: Vec<Expected>,
    /// Firings of `review`, `flag` and `milestone` policies.
    pub signals: Vec<Expected>,
    /// Turns at which something could not be taken in.
    pub malformed: Vec<Spanned<Turn>>,
}

/// A verdict of a policy at a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The policy's id.
    pub policy: String,
    /// The message index.
    pub turn: Turn,
    /// Where it is written.
    pub span: Span,
}
