//! The violation reward: severity x d(n), where n counts earlier hits of the policy in the episode.

use crate::model::Num;

/// The repeat discount d(n): how much of a severity the n-th hit of a policy is worth. The last value
/// holds for all later hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discount(Vec<Num>);

/// Why values are no discount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscountError {
    /// There is none.
    #[error("a discount needs at least one value")]
    Empty,
    /// One is below 0.
    #[error("a discount is at least 0, and {0} is not")]
    Negative(Num),
}

impl Default for Discount {
    /// 1, 1/2, 0.
    fn default() -> Discount {
        Discount(vec![Num::ONE, Num::new(5, -1), Num::ZERO])
    }
}

impl Discount {
    /// A discount from its values, the first hit's first.
    pub fn new(values: Vec<Num>) -> Result<Discount, DiscountError> {
        match values.iter().find(|v| v.is_negative()) {
            Some(negative) => Err(DiscountError::Negative(*negative)),
            None if values.is_empty() => Err(DiscountError::Empty),
            None => Ok(Discount(values)),
        }
    }

    /// d(n) for n earlier hits.
    pub fn of(&self, earlier: u32) -> Num {
        let n = usize::try_from(earlier).unwrap_or(usize::MAX);
        self.0.get(n).or(self.0.last()).copied().unwrap_or(Num::ZERO)
    }

    /// severity x d(n); none if the product has more than 38 digits, which loading a pack excludes.
    pub fn reward(&self, severity: Num, earlier: u32) -> Option<Num> {
        severity.mul(self.of(earlier))
    }

    /// The values.
    pub fn values(&self) -> &[Num] {
        &self.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn n(s: &str) -> Num {
        s.parse().unwrap()
    }

    #[test]
    fn the_default_pays_in_full_then_half_then_nothing() {
        let d = Discount::default();
        let paid: Vec<String> = (0..5).map(|i| d.reward(n("0.9"), i).unwrap().to_string()).collect();
        assert_eq!(paid, ["0.9", "0.45", "0", "0", "0"]);
    }

    #[test]
    fn the_last_value_repeats() {
        let d = Discount::new(vec![n("1"), n("0.25")]).unwrap();
        assert_eq!(d.of(7), n("0.25"));
        assert_eq!(Discount::new(vec![]), Err(DiscountError::Empty));
        assert_eq!(Discount::new(vec![n("-1")]), Err(DiscountError::Negative(n("-1"))));
    }
}
