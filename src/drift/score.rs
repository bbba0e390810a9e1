//! The drift score of one comparison.
//!
//! `field = sum(weight of each differing field x multiplier of the probe type) / sum of all weights`,
//! `drift = min(1, field + blend x semantic)`. Weights are whole thousandths, so the sum is exact and
//! is divided once. A score above its type's threshold is high; a score within the ambiguity band
//! around the threshold asks for a third, baseline answer.

use std::{collections::BTreeMap, sync::Arc};

use super::{Field, JudgeWeights, Judgement, Thousandths, judge};

/// A probe type's name.
pub type ProbeType = Arc<str>;

/// The weight of each field, and their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldWeights {
    by_field: [Thousandths; 6],
}

impl FieldWeights {
    /// Weights in [`Field::ALL`] order; `None` if all are 0.
    pub fn new(by_field: [Thousandths; 6]) -> Option<FieldWeights> {
        by_field.iter().any(|w| w.count() > 0).then_some(FieldWeights { by_field })
    }

    /// One for each field.
    pub fn even() -> FieldWeights {
        FieldWeights { by_field: [Thousandths::ONE; 6] }
    }

    /// The weight of a field.
    pub fn of(&self, field: Field) -> Thousandths {
        let at = Field::ALL.iter().zip(&self.by_field).find(|(f, _)| **f == field);
        at.map(|(_, w)| *w).unwrap_or_default()
    }

    fn total(&self) -> u64 {
        self.by_field.iter().map(|w| w.count()).sum()
    }
}

/// What a pack says about a probe type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TypeNumbers {
    /// A score above it is high drift.
    pub threshold: f64,
    /// Factor of every field's weight in probes of this type.
    pub multiplier: Thousandths,
}

/// How comparisons are scored.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreSettings {
    /// Field weights.
    pub weights: FieldWeights,
    /// Judge weights.
    pub judge: JudgeWeights,
    /// Probe types.
    pub types: BTreeMap<ProbeType, TypeNumbers>,
    /// Half the width of the band around the threshold in which a baseline is asked for.
    pub ambiguity_band: f64,
    /// Whether a baseline is ever asked for.
    pub triangulate: bool,
}

/// A probe type that the pack does not declare.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pack declares no probe type {probe_type:?}")]
pub struct UnknownType {
    /// The name.
    pub probe_type: ProbeType,
}

/// A score with its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Structural part, 0 or more.
    pub field: f64,
    /// Semantic part, 0 to 1; none without a judge.
    pub semantic: Option<f64>,
    /// The whole, at most 1.
    pub drift: f64,
    /// The type's threshold.
    pub threshold: f64,
    /// Whether the whole is above the threshold.
    pub high: bool,
    /// Whether a baseline answer is wanted.
    pub wants_baseline: bool,
}

impl ScoreSettings {
    /// A type's numbers.
    pub fn of_type(&self, probe_type: &str) -> Result<TypeNumbers, UnknownType> {
        self.types.get(probe_type).copied().ok_or_else(|| UnknownType { probe_type: Arc::from(probe_type) })
    }

    /// Scores a comparison's differing fields, with the judge's answers if there are any.
    pub fn score(
        &self,
        probe_type: &str,
        divergences: &[Field],
        judgement: Option<Judgement>,
    ) -> Result<Score, UnknownType> {
        let TypeNumbers { threshold, multiplier } = self.of_type(probe_type)?;
        let sum: u64 = divergences.iter().map(|f| self.weights.of(*f).count() * multiplier.count()).sum();
        let field = sum as f64 / (self.weights.total() * Thousandths::ONE.count()) as f64;
        let semantic = judgement.map(|j| judge::semantic(j, &self.judge) as f64 / Thousandths::ONE.count() as f64);
        let drift = (field + self.judge.blend.to_f64() * semantic.unwrap_or(0.0)).min(1.0);
        let (low, high) = (threshold - self.ambiguity_band, threshold + self.ambiguity_band);
        let wants_baseline = self.triangulate && low <= drift && drift <= high;
        Ok(Score { field, semantic, drift, threshold, high: drift > threshold, wants_baseline })
    }
}
