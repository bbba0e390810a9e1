//! Triangulation: a third answer, from an instance without the session's context, says whose fault a
//! divergence is.

use super::compare::decision_key;

/// What three decisions say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Triangulation {
    /// Snapshot and shadow agree against the baseline: the context explains the answer.
    Legitimate,
    /// Shadow and baseline agree against the snapshot: the session drifted.
    DriftSignal,
    /// Snapshot and baseline agree against the shadow: the summary misleads the shadow.
    SummaryCalibrationAnomaly,
    /// Nothing can be said.
    NoSignal,
}

impl Triangulation {
    /// Its name in signals.
    pub fn word(self) -> &'static str {
        match self {
            Triangulation::Legitimate => "legitimate",
            Triangulation::DriftSignal => "drift_signal",
            Triangulation::SummaryCalibrationAnomaly => "summary_calibration_anomaly",
            Triangulation::NoSignal => "no_signal",
        }
    }
}

/// Why three decisions give no signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSignalReason {
    /// All three agree.
    AllAgree,
    /// No two agree.
    AllDiffer,
    /// A decision is empty, so that agreement would mean nothing.
    EmptyDecision,
}

impl NoSignalReason {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            NoSignalReason::AllAgree => "all three decisions agree",
            NoSignalReason::AllDiffer => "no two decisions agree",
            NoSignalReason::EmptyDecision => "a decision is empty",
        }
    }
}

/// How decisions are triangulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TriangulateRules {
    /// Compare without surrounding white space and case.
    pub normalize_decision: bool,
    /// Compare empty decisions like any other word. Two malformed answers then look like agreement.
    pub empty_decisions_count: bool,
}

/// Classifies the decisions of snapshot, shadow and baseline.
pub fn triangulate(
    snapshot: &str,
    shadow: &str,
    baseline: &str,
    rules: &TriangulateRules,
) -> (Triangulation, Option<NoSignalReason>) {
    if !rules.empty_decisions_count && [snapshot, shadow, baseline].iter().any(|d| d.trim().is_empty()) {
        return (Triangulation::NoSignal, Some(NoSignalReason::EmptyDecision));
    }
    let [snapshot, shadow, baseline] = [snapshot, shadow, baseline].map(|d| decision_key(d, rules.normalize_decision));
    match (snapshot == shadow, shadow == baseline, snapshot == baseline) {
        (true, true, _) => (Triangulation::NoSignal, Some(NoSignalReason::AllAgree)),
        (true, false, _) => (Triangulation::Legitimate, None),
        (false, true, _) => (Triangulation::DriftSignal, None),
        (false, false, true) => (Triangulation::SummaryCalibrationAnomaly, None),
        (false, false, false) => (Triangulation::NoSignal, Some(NoSignalReason::AllDiffer)),
    }
}
