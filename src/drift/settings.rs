//! Everything a pack says about drift, checked.

use super::{
    ActionSettings, Booleans, Calibration, CompareRules, ConsistencySettings, IsolationSettings, LongitudinalSettings,
    ParseLimits, ReportSettings, ScheduleSettings, ScoreSettings, SensitivityRules, SettingsError, Thousandths,
    TriangulateRules, numbers::Checks,
};

/// Switches of the pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineRules {
    /// Ask the judge about a pair in which a decision cannot be read. By default there is nothing to
    /// judge then, and the score is structural only.
    pub judge_unreadable: bool,
    /// End the cycle when an answer is no object, instead of recording a malformed answer.
    pub drop_non_objects: bool,
    /// End the cycle without a record when the judge fails, instead of scoring without it.
    pub judge_failure_ends: bool,
    /// Compare, score and accumulate even where the stored copy cannot be redacted. By default the
    /// answers are redacted first, and without that nothing is recorded.
    pub record_before_redaction: bool,
    /// Ignore results of another library version, instead of starting another accumulator.
    pub ignore_other_library: bool,
    /// Let words and counts outside the closed sets into a context summary.
    pub open_summary: bool,
    /// How a judge's values that are no booleans are read.
    pub judge_booleans: Booleans,
}

/// All numbers and switches of a pack's drift half.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whether the numbers were fitted.
    pub calibration: Calibration,
    /// Limits of the answer parser.
    pub limits: ParseLimits,
    /// How answers are compared.
    pub compare: CompareRules,
    /// How comparisons are scored.
    pub score: ScoreSettings,
    /// How decisions are triangulated.
    pub triangulate: TriangulateRules,
    /// Confidence of a setup.
    pub isolation: IsolationSettings,
    /// The longitudinal signal.
    pub longitudinal: LongitudinalSettings,
    /// When it asks for an action.
    pub action: ActionSettings,
    /// When perfection is suspicious.
    pub consistency: ConsistencySettings,
    /// Reports.
    pub report: ReportSettings,
    /// When probes are due.
    pub schedule: ScheduleSettings,
    /// How counters become a summary.
    pub sensitivity: SensitivityRules,
    /// Switches of the pipeline.
    pub pipeline: PipelineRules,
}

/// Something about settings that a pack's author should know.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsWarning {
    /// A threshold that steady, full drift does not reach.
    #[error("{threshold} is {value}, but a session that drifts in every probe stays at {reach}")]
    Unreachable {
        /// The threshold.
        threshold: &'static str,
        /// What it is.
        value: f64,
        /// The signal of steady, full drift.
        reach: f64,
    },
}

/// The deepest nesting that an answer may be allowed: reading it uses the stack.
pub const MAX_ANSWER_DEPTH: u32 = 1_000;

impl Settings {
    /// Checks every number; all problems are reported.
    pub fn check(&self) -> Result<(), Vec<SettingsError>> {
        let mut checks = Checks::default();
        checks
            .range("limits.bytes", self.limits.bytes as f64, 2.0, f64::from(u32::MAX))
            .range("limits.depth", f64::from(self.limits.depth), 1.0, f64::from(MAX_ANSWER_DEPTH))
            .range("limits.number_chars", self.limits.number_chars as f64, 1.0, 1e6)
            .range("score.ambiguity_band", self.score.ambiguity_band, 0.0, 1.0);
        if self.score.types.is_empty() {
            checks.push(SettingsError::NoTypes);
        }
        for (name, numbers) in &self.score.types {
            if super::validate::is_blank(name) {
                checks.push(SettingsError::Blank { name: "score.types".to_owned() });
            }
            checks.range(&format!("score.types.{name}.threshold"), numbers.threshold, 0.0, 1.0);
        }
        let one = Thousandths::ONE.to_f64();
        for (name, weight) in [
            ("score.judge.policy", self.score.judge.policy),
            ("score.judge.direction", self.score.judge.direction),
            ("score.judge.context", self.score.judge.context),
            ("score.judge.blend", self.score.judge.blend),
        ] {
            checks.range(name, weight.to_f64(), 0.0, one);
        }
        checks.range("consistency.expected_variance", self.consistency.expected_variance, 0.0, 1.0);
        self.isolation.check(&mut checks);
        self.longitudinal.check(&mut checks);
        self.action.check(&mut checks);
        self.report.check(&mut checks);
        self.schedule.check(&mut checks);
        checks.finish()
    }

    /// What is allowed, but hardly meant.
    pub fn warnings(&self) -> Vec<SettingsWarning> {
        let reach = self.longitudinal.flat_maximum();
        [("action.elevated", self.action.elevated), ("action.restricted", self.action.restricted)]
            .into_iter()
            .filter(|(_, value)| *value > reach)
            .map(|(threshold, value)| SettingsWarning::Unreachable { threshold, value, reach })
            .collect()
    }
}
