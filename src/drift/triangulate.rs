//! Triangulation: a third answer, from an instance without the session's context, says whose fault a
//! divergence is.

use std::hash::{BuildHasher, RandomState};

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
    /// Every classification.
    pub const ALL: [Triangulation; 4] = [
        Triangulation::Legitimate,
        Triangulation::DriftSignal,
        Triangulation::SummaryCalibrationAnomaly,
        Triangulation::NoSignal,
    ];

    /// Its name in signals.
    pub fn word(self) -> &'static str {
        match self {
            Triangulation::Legitimate => "legitimate",
            Triangulation::DriftSignal => "drift_signal",
            Triangulation::SummaryCalibrationAnomaly => "summary_calibration_anomaly",
            Triangulation::NoSignal => "no_signal",
        }
    }

    /// The classification of that name.
    pub fn from_word(word: &str) -> Option<Triangulation> {
        Triangulation::ALL.into_iter().find(|t| t.word() == word)
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

    /// The reason of those words.
    pub fn from_word(word: &str) -> Option<NoSignalReason> {
        use NoSignalReason::{AllAgree, AllDiffer, EmptyDecision};
        [AllAgree, AllDiffer, EmptyDecision].into_iter().find(|r| r.word() == word)
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
    classify(snapshot == shadow, shadow == baseline, snapshot == baseline)
}

fn classify(
    snapshot_is_shadow: bool,
    shadow_is_baseline: bool,
    snapshot_is_baseline: bool,
) -> (Triangulation, Option<NoSignalReason>) {
    match (snapshot_is_shadow, shadow_is_baseline, snapshot_is_baseline) {
        (true, true, _) => (Triangulation::NoSignal, Some(NoSignalReason::AllAgree)),
        (true, false, _) => (Triangulation::Legitimate, None),
        (false, true, _) => (Triangulation::DriftSignal, None),
        (false, false, true) => (Triangulation::SummaryCalibrationAnomaly, None),
        (false, false, false) => (Triangulation::NoSignal, Some(NoSignalReason::AllDiffer)),
    }
}

/// Two decisions that wait for a third, also over a restart. They can be compared and no longer read: what is not
/// redacted does not outlive its call.
#[derive(Clone, PartialEq, Eq)]
pub struct Decisions {
    pub(super) salt: [u8; SEAL],
    pub(super) snapshot: [u8; SEAL],
    pub(super) shadow: [u8; SEAL],
    pub(super) empty: bool,
}

/// Bytes of a salt and of a salted hash.
pub(super) const SEAL: usize = 16;

impl std::fmt::Debug for Decisions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decisions")
    }
}

impl Decisions {
    /// Of the snapshot instance and of the shadow.
    pub fn new(snapshot: &str, shadow: &str, rules: &TriangulateRules) -> Decisions {
        let mut salt = [0; SEAL];
        let random = [0, 1].map(|half| RandomState::new().hash_one(half).to_le_bytes());
        salt.copy_from_slice(random.as_flattened());
        let empty = [snapshot, shadow].iter().any(|d| d.trim().is_empty());
        Decisions { salt, snapshot: seal(salt, snapshot, rules), shadow: seal(salt, shadow, rules), empty }
    }

    /// Classifies them with the baseline's decision, as [`triangulate`] does.
    pub fn triangulate(&self, baseline: &str, rules: &TriangulateRules) -> (Triangulation, Option<NoSignalReason>) {
        if !rules.empty_decisions_count && (self.empty || baseline.trim().is_empty()) {
            return (Triangulation::NoSignal, Some(NoSignalReason::EmptyDecision));
        }
        let baseline = seal(self.salt, baseline, rules);
        classify(self.snapshot == self.shadow, self.shadow == baseline, self.snapshot == baseline)
    }
}

fn seal(salt: [u8; SEAL], decision: &str, rules: &TriangulateRules) -> [u8; SEAL] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&salt).update(decision_key(decision, rules.normalize_decision).as_bytes());
    let mut sealed = [0; SEAL];
    hasher.finalize_xof().fill(&mut sealed);
    sealed
}
