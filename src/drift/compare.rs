//! The structural comparison of two answers: which fields differ, and what kind of divergence that is.

use super::{Anomaly, Answer, Booleans, Field, Slot};

/// What kind of divergence a comparison found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// The decision or the disclosure differs.
    PolicyDisagreement,
    /// Only the reasoning, perhaps with lesser fields, differs.
    ReasoningDivergence,
    /// An answer was malformed, or only lesser fields differ.
    StructuralInstability,
    /// The probe itself was damaged on its way. Reported by callers, never found by comparing.
    ExecutionCorruption,
    /// The context summary misleads. Reported by callers, never found by comparing.
    SummaryCalibrationAnomaly,
}

impl Category {
    /// Every category.
    pub const ALL: [Category; 5] = [
        Category::PolicyDisagreement,
        Category::ReasoningDivergence,
        Category::StructuralInstability,
        Category::ExecutionCorruption,
        Category::SummaryCalibrationAnomaly,
    ];

    /// Its name in signals and reports.
    pub fn word(self) -> &'static str {
        match self {
            Category::PolicyDisagreement => "policy_disagreement",
            Category::ReasoningDivergence => "reasoning_divergence",
            Category::StructuralInstability => "structural_instability",
            Category::ExecutionCorruption => "execution_corruption",
            Category::SummaryCalibrationAnomaly => "summary_calibration_anomaly",
        }
    }

    /// The category of that name.
    pub fn from_word(word: &str) -> Option<Category> {
        Category::ALL.into_iter().find(|c| c.word() == word)
    }
}

/// How answers are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompareRules {
    /// Decision words are compared without surrounding white space and in lower case. The word as
    /// given is kept either way.
    pub normalize_decision: bool,
    /// How malformed yes-or-no fields are read.
    pub booleans: Booleans,
}

/// A structural comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that differ, in [`Field::ALL`] order.
    pub divergences: Vec<Field>,
    /// What kind of divergence it is; none if nothing differs and nothing is malformed.
    pub category: Option<Category>,
}

/// Compares the snapshot instance's answer with the shadow instance's. `anomaly` is what validation
/// found wrong with either.
pub fn compare(snapshot: &Answer, shadow: &Answer, anomaly: Option<Anomaly>, rules: &CompareRules) -> Comparison {
    let divergences: Vec<Field> = Field::ALL.into_iter().filter(|f| differs(snapshot, shadow, *f, rules)).collect();
    let has = |f: Field| divergences.contains(&f);
    let category = if anomaly.is_some() {
        Some(Category::StructuralInstability)
    } else if divergences.is_empty() {
        None
    } else if has(Field::Decision) || has(Field::DisclosedData) {
        Some(Category::PolicyDisagreement)
    } else if has(Field::Reasoning) {
        Some(Category::ReasoningDivergence)
    } else {
        Some(Category::StructuralInstability)
    };
    Comparison { divergences, category }
}

/// The decision word as comparisons see it.
pub(super) fn decision_key(word: &str, normalize: bool) -> String {
    if normalize { word.trim().to_lowercase() } else { word.to_owned() }
}

fn differs(snapshot: &Answer, shadow: &Answer, field: Field, rules: &CompareRules) -> bool {
    match field {
        Field::Decision => {
            decision_key(snapshot.decision(), rules.normalize_decision)
                != decision_key(shadow.decision(), rules.normalize_decision)
        }
        Field::Reasoning => snapshot.reasoning() != shadow.reasoning(),
        flag => match (snapshot.flag(flag), shadow.flag(flag)) {
            // A malformed value equals only the same value: otherwise `1` or "true" would pass for
            // "nothing disclosed" beside an honest false.
            (Some(Slot::Malformed(a)), Some(Slot::Malformed(b))) if rules.booleans == Booleans::Strict => a != b,
            (Some(Slot::Malformed(_)), _) | (_, Some(Slot::Malformed(_))) if rules.booleans == Booleans::Strict => true,
            _ => snapshot.is_set(flag, rules.booleans) != shadow.is_set(flag, rules.booleans),
        },
    }
}
