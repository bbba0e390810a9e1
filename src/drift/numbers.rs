//! Exact weights, and the checks that every number of a pack's drift settings goes through.

use std::fmt;

use crate::model::Num;

/// A non-negative weight in whole thousandths. Sums of weights are exact and do not depend on their
/// order; the one division that makes a score of them comes last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thousandths(u32);

/// The largest weight, so that products of two weights and their sums stay far inside a `u64`.
pub const MAX_WEIGHT: u32 = 1_000;

impl Thousandths {
    /// One.
    pub const ONE: Thousandths = Thousandths(1_000);

    /// From a number as a pack writes it: 0 to [`MAX_WEIGHT`], at most three decimals.
    pub fn from_num(n: Num) -> Option<Thousandths> {
        let scaled = n.mul(Num::new(1_000, 0))?.as_whole()?;
        let scaled = u32::try_from(scaled).ok()?;
        (scaled <= MAX_WEIGHT * 1_000).then_some(Thousandths(scaled))
    }

    /// How many thousandths.
    pub fn count(self) -> u64 {
        u64::from(self.0)
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }
}

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Num::new(i128::from(self.0), -3))
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// A number outside its range, or not finite.
    #[error("{name} is {value}, but must be between {low} and {high}")]
    Range {
        /// The setting, as a dotted path.
        name: String,
        /// What it is.
        value: f64,
        /// Smallest allowed value.
        low: f64,
        /// Largest allowed value.
        high: f64,
    },
    /// Two settings that must rise.
    #[error("{lower} ({lower_value}) must not be above {upper} ({upper_value})")]
    Order {
        /// The setting that must be the smaller one.
        lower: String,
        /// What it is.
        lower_value: f64,
        /// The setting that must be the larger one.
        upper: String,
        /// What it is.
        upper_value: f64,
    },
    /// Weights that sum to zero, so that nothing can be scored.
    #[error("all field weights are 0")]
    NoWeight,
    /// No probe type has a threshold.
    #[error("no probe type is declared")]
    NoTypes,
    /// Scores outside 0 to 1 cannot be aged.
    #[error("longitudinal.accept_any_score cannot be combined with longitudinal.window")]
    AnyScoreWithWindow,
    /// A name that is empty or blank.
    #[error("{name} is blank")]
    Blank {
        /// The setting.
        name: String,
    },
    /// Steps of a table that do not rise.
    #[error("the steps of {name} must start at 0 or more and rise")]
    Steps {
        /// The setting.
        name: String,
    },
}

/// Collects every problem of a group of settings instead of stopping at the first.
#[derive(Debug, Default)]
pub struct Checks(Vec<SettingsError>);

impl Checks {
    /// `value` must be finite and within the two bounds, ends included.
    pub fn range(&mut self, name: &str, value: f64, low: f64, high: f64) -> &mut Checks {
        if !(low..=high).contains(&value) {
            self.0.push(SettingsError::Range { name: name.to_owned(), value, low, high });
        }
        self
    }

    /// `lower` must not be above `upper`.
    pub fn rises(&mut self, lower: (&str, f64), upper: (&str, f64)) -> &mut Checks {
        if lower.1 > upper.1 {
            self.0.push(SettingsError::Order {
                lower: lower.0.to_owned(),
                lower_value: lower.1,
                upper: upper.0.to_owned(),
                upper_value: upper.1,
            });
        }
        self
    }

    /// Adds a problem found otherwise.
    pub fn push(&mut self, error: SettingsError) {
        self.0.push(error);
    }

    /// All problems, in the order in which they were found.
    pub fn finish(self) -> Result<(), Vec<SettingsError>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    fn weight(s: &str) -> Option<Thousandths> {
        Thousandths::from_num(s.parse().unwrap())
    }

    #[test]
    fn a_weight_has_at_most_three_decimals_and_no_sign() {
        assert_eq!(weight("0.3").unwrap().count(), 300);
        assert_eq!(weight("1").unwrap(), Thousandths::ONE);
        assert_eq!(weight("0.0005"), None);
        assert_eq!(weight("-0.1"), None);
        assert_eq!(weight("1001"), None);
        assert_eq!(weight("0.125").unwrap().to_string(), "0.125");
    }

    #[test]
    fn every_problem_is_reported_and_nan_is_out_of_every_range() {
        let mut checks = Checks::default();
        checks.range("a", f64::NAN, 0.0, 1.0).range("b", 0.5, 0.0, 1.0).rises(("low", 0.9), ("high", 0.1));
        assert_eq!(checks.finish().unwrap_err().len(), 2);
    }
}
