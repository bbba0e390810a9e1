//! Exact decimal numbers.
//!
//! Rules compare and add numbers exactly as they are written: `0.1 + 0.2` is `0.3`, `1` is `1.0`.
//! A [`Num`] is `coefficient * 10^exponent` with up to 38 significant digits. What does not fit is
//! refused (`None`), never rounded, so that the caller can say "unknown". The one rounding
//! operation is division: half to even, at [`DIVISION_DIGITS`] significant digits.

use std::{cmp::Ordering, fmt, str::FromStr};

/// Significant digits that a quotient is rounded to.
pub const DIVISION_DIGITS: u32 = 28;

/// 2^53: the largest magnitude that counts as a whole number in the rules language.
const WHOLE_LIMIT: i128 = 1 << 53;

/// An exact decimal number. Always normalised (no trailing zeros in the coefficient), so equality
/// and hashing are by value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Num {
    coefficient: i128,
    exponent: i32,
}

/// Why a text is not a [`Num`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumError {
    /// The text is not a JSON number.
    #[error("not a number")]
    Syntax,
    /// The magnitude is beyond that of a double (about 1.8e308).
    #[error("a number beyond the range of a double")]
    Range,
    /// More significant digits than can be computed with exactly.
    #[error("a number with more than 38 significant digits")]
    Digits,
}

#[allow(clippy::should_implement_trait, reason = "these may refuse, which operators cannot")]
impl Num {
    /// Zero.
    pub const ZERO: Num = Num { coefficient: 0, exponent: 0 };
    /// One.
    pub const ONE: Num = Num { coefficient: 1, exponent: 0 };

    /// `coefficient * 10^exponent`, normalised.
    pub fn new(mut coefficient: i128, mut exponent: i32) -> Num {
        if coefficient == 0 {
            return Num::ZERO;
        }
        while coefficient % 10 == 0 {
            coefficient /= 10;
            exponent = exponent.saturating_add(1);
        }
        Num { coefficient, exponent }
    }

    /// Coefficient and power of ten.
    pub fn parts(self) -> (i128, i32) {
        (self.coefficient, self.exponent)
    }

    /// The nearest double; for output and for figures that are not compared exactly.
    pub fn to_f64(self) -> f64 {
        // A coefficient and an exponent always print as a number that f64 can read.
        format!("{}e{}", self.coefficient, self.exponent).parse().unwrap_or(f64::NAN)
    }

    /// The value as a whole number: integral and at most 2^53 in magnitude.
    pub fn as_whole(self) -> Option<i64> {
        if self.exponent < 0 {
            return None;
        }
        let scale = 10i128.checked_pow(u32::try_from(self.exponent).ok()?)?;
        let value = self.coefficient.checked_mul(scale)?;
        if value.abs() > WHOLE_LIMIT { None } else { i64::try_from(value).ok() }
    }

    /// True for zero.
    pub fn is_zero(self) -> bool {
        self.coefficient == 0
    }

    /// True below zero.
    pub fn is_negative(self) -> bool {
        self.coefficient < 0
    }

    /// The sum, if it has at most 38 digits.
    pub fn add(self, other: Num) -> Option<Num> {
        let exponent = self.exponent.min(other.exponent);
        let a = self.scaled_to(exponent)?;
        let b = other.scaled_to(exponent)?;
        Some(Num::new(a.checked_add(b)?, exponent))
    }

    /// The difference, if it has at most 38 digits.
    pub fn sub(self, other: Num) -> Option<Num> {
        self.add(other.neg())
    }

    /// The negated number.
    pub fn neg(self) -> Num {
        // A coefficient has at most 38 digits, so it is never i128::MIN.
        Num { coefficient: -self.coefficient, exponent: self.exponent }
    }

    /// The product, if it has at most 38 digits.
    pub fn mul(self, other: Num) -> Option<Num> {
        let coefficient = within_digits(self.coefficient.checked_mul(other.coefficient)?)?;
        in_range(Num::new(coefficient, self.exponent.checked_add(other.exponent)?))
    }

    /// The quotient rounded half to even at [`DIVISION_DIGITS`] significant digits; `None` for a
    /// zero divisor.
    pub fn div(self, other: Num) -> Option<Num> {
        if other.is_zero() {
            return None;
        }
        if self.is_zero() {
            return Some(Num::ZERO);
        }
        let negative = self.is_negative() != other.is_negative();
        let (mut rest, divisor) = (self.coefficient.unsigned_abs(), other.coefficient.unsigned_abs());
        // Long division, digit by digit: every intermediate stays below 10 * divisor < 2^131, so a
        // divisor near the limit is first brought within reach of u128.
        if divisor > u128::MAX / 10 {
            return None;
        }
        let mut quotient = rest / divisor;
        rest %= divisor;
        let mut exponent = self.exponent.checked_sub(other.exponent)?;
        let limit = 10u128.pow(DIVISION_DIGITS);
        while quotient < limit / 10 && rest != 0 {
            rest *= 10;
            quotient = quotient * 10 + rest / divisor;
            rest %= divisor;
            exponent = exponent.checked_sub(1)?;
        }
        // A quotient of two coefficients may have more digits than asked for: drop them one by one,
        // remembering whether anything below the last one was there.
        let mut sticky = rest != 0;
        let mut last = 0u128;
        let mut dropped = false;
        while quotient >= limit {
            sticky = sticky || last != 0;
            last = quotient % 10;
            quotient /= 10;
            exponent = exponent.checked_add(1)?;
            dropped = true;
        }
        let round_up = if dropped {
            last > 5 || (last == 5 && (sticky || quotient % 2 == 1))
        } else {
            let twice = rest.checked_mul(2)?;
            twice > divisor || (twice == divisor && quotient % 2 == 1)
        };
        let quotient = i128::try_from(quotient + u128::from(round_up)).ok()?;
        in_range(Num::new(if negative { -quotient } else { quotient }, exponent))
    }

    /// The remainder with the sign of the divisor (`-1 mod 3` is 2); `None` for a zero divisor or
    /// beyond 38 digits.
    pub fn rem(self, other: Num) -> Option<Num> {
        if other.is_zero() {
            return None;
        }
        let exponent = self.exponent.min(other.exponent);
        let (a, b) = (self.scaled_to(exponent)?, other.scaled_to(exponent)?);
        let r = a % b;
        Some(Num::new(if r != 0 && (r < 0) != (b < 0) { r + b } else { r }, exponent))
    }

    /// The largest integral number that is not greater.
    pub fn floor(self) -> Num {
        if self.exponent >= 0 {
            return self;
        }
        let Some(scale) = 10i128.checked_pow(self.exponent.unsigned_abs()) else {
            // |value| < 1.
            return if self.is_negative() { Num::new(-1, 0) } else { Num::ZERO };
        };
        Num::new(self.coefficient.div_euclid(scale), 0)
    }

    fn scaled_to(self, exponent: i32) -> Option<i128> {
        let shift = u32::try_from(self.exponent.checked_sub(exponent)?).ok()?;
        if self.coefficient == 0 {
            return Some(0);
        }
        within_digits(self.coefficient.checked_mul(10i128.checked_pow(shift)?)?)
    }

    /// Digits before the decimal point, counted from the leading one: the order of magnitude.
    fn magnitude(self) -> i64 {
        let digits = self.coefficient.unsigned_abs().checked_ilog10().unwrap_or(0);
        i64::from(digits) + i64::from(self.exponent)
    }
}

/// 10^38 - 1 is the largest coefficient: anything longer counts as "too many digits".
fn within_digits(coefficient: i128) -> Option<i128> {
    (coefficient.unsigned_abs() < 10u128.pow(38)).then_some(coefficient)
}

/// Results leave the range of a double as inputs must not.
fn in_range(n: Num) -> Option<Num> {
    (n.magnitude().abs() <= 400).then_some(n)
}

impl Ord for Num {
    fn cmp(&self, other: &Num) -> Ordering {
        let sign = |n: &Num| n.coefficient.signum();
        match sign(self).cmp(&sign(other)) {
            Ordering::Equal if sign(self) == 0 => Ordering::Equal,
            Ordering::Equal => {
                let by_size = self.magnitude().cmp(&other.magnitude()).then_with(|| {
                    // Same magnitude: the difference of exponents is below 39, and scaling the one
                    // with the larger exponent cannot pass the digits of the other.
                    let e = self.exponent.min(other.exponent);
                    let shift = |n: &Num| {
                        let by = u32::try_from(i64::from(n.exponent) - i64::from(e)).unwrap_or(0);
                        n.coefficient.unsigned_abs().saturating_mul(10u128.saturating_pow(by))
                    };
                    shift(self).cmp(&shift(other))
                });
                if sign(self) > 0 { by_size } else { by_size.reverse() }
            }
            unequal => unequal,
        }
    }
}

impl PartialOrd for Num {
    fn partial_cmp(&self, other: &Num) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<i64> for Num {
    fn from(n: i64) -> Num {
        Num::new(i128::from(n), 0)
    }
}

impl From<u64> for Num {
    fn from(n: u64) -> Num {
        Num::new(i128::from(n), 0)
    }
}

impl FromStr for Num {
    type Err = NumError;

    /// Reads a JSON number (RFC 8259, section 6) exactly.
    fn from_str(text: &str) -> Result<Num, NumError> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((m, e)) => (m, Some(e)),
            None => (rest, None),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((w, f)) if !f.is_empty() => (w, f),
            Some(_) => return Err(NumError::Syntax),
            None => (mantissa, ""),
        };
        let digits_only = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty()
            || !digits_only(whole)
            || !digits_only(fraction)
            || (whole.len() > 1 && whole.starts_with('0'))
        {
            return Err(NumError::Syntax);
        }
        let exponent: i64 = match exponent {
            None => 0,
            Some(e) => {
                let digits = e.strip_prefix(['+', '-']).unwrap_or(e);
                if digits.is_empty() || !digits_only(digits) {
                    return Err(NumError::Syntax);
                }
                // An exponent of more than 18 digits is out of any range; its sign still matters.
                e.parse().unwrap_or(if e.starts_with('-') { i64::MIN / 4 } else { i64::MAX / 4 })
            }
        };
        // Zeros on either side carry no information; what is left must fit 38 digits.
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
        let mut scale = exponent - i64::try_from(fraction.len()).unwrap_or(i64::MAX / 4);
        while digits.last() == Some(&0) {
            digits.pop();
            scale += 1;
        }
        let significant: Vec<u8> = digits.into_iter().skip_while(|d| *d == 0).collect();
        if significant.is_empty() {
            return Ok(Num::ZERO);
        }
        let magnitude = scale + i64::try_from(significant.len()).unwrap_or(i64::MAX / 4);
        if magnitude > 309 || (magnitude == 309 && text.parse::<f64>().is_ok_and(f64::is_infinite)) {
            return Err(NumError::Range);
        }
        if significant.len() > 38 || scale < -100_000 {
            return Err(NumError::Digits);
        }
        let coefficient = significant.iter().fold(0i128, |n, d| n * 10 + i128::from(*d));
        let exponent = i32::try_from(scale).map_err(|_| NumError::Digits)?;
        Ok(Num { coefficient: if negative { -coefficient } else { coefficient }, exponent })
    }
}

impl fmt::Display for Num {
    /// Plain notation where that is short, else scientific; always reads back to the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.coefficient.unsigned_abs().to_string();
        let sign = if self.coefficient < 0 { "-" } else { "" };
        let point = i64::try_from(digits.len()).unwrap_or(i64::MAX) + i64::from(self.exponent);
        if self.exponent >= 0 && point <= 38 {
            let zeros = "0".repeat(usize::try_from(self.exponent).unwrap_or(0));
            return write!(f, "{sign}{digits}{zeros}");
        }
        if self.exponent < 0 && point > 0 {
            let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
            return write!(f, "{sign}{whole}.{fraction}");
        }
        if self.exponent < 0 && point > -10 {
            let zeros = "0".repeat(usize::try_from(-point).unwrap_or(0));
            return write!(f, "{sign}0.{zeros}{digits}");
        }
        write!(f, "{sign}{digits}e{}", self.exponent)
    }
}

impl fmt::Debug for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    fn n(s: &str) -> Num {
        s.parse().unwrap()
    }

    #[test]
    fn numbers_are_equal_by_value_not_by_spelling() {
        for (a, b) in [("1", "1.0"), ("2e0", "2"), ("100", "1e2"), ("0", "-0.000"), ("0.10", "1e-1")] {
            assert_eq!(n(a), n(b), "{a} {b}");
        }
        assert_ne!(n("2.00000000000000001"), n("2"));
    }

    #[test]
    fn sums_are_exact_and_refuse_to_round() {
        assert_eq!(n("0.1").add(n("0.2")), Some(n("0.3")));
        assert_eq!(n("1e30").sub(n("1e30")), Some(Num::ZERO));
        assert_eq!(n("1e30").add(n("1e-20")), None);
        assert_eq!(n("99999999999999999999999999999999999999").add(n("0.1")), None);
    }

    #[test]
    fn order_holds_across_magnitudes_and_signs() {
        let sorted = [
            "-1e300",
            "-2",
            "-1.5",
            "-1e-300",
            "0",
            "1e-300",
            "0.3",
            "1",
            "1.0000000000000000000000000000000001",
            "2",
            "1e300",
        ];
        for pair in sorted.windows(2) {
            assert!(n(pair[0]) < n(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn division_rounds_half_to_even_at_28_digits() {
        assert_eq!(n("1").div(n("4")), Some(n("0.25")));
        assert_eq!(n("1").div(n("3")).unwrap().to_string(), "0.3333333333333333333333333333");
        assert_eq!(n("2").div(n("3")).unwrap().to_string(), "0.6666666666666666666666666667");
        assert_eq!(n("10000000000000000000000000005").div(n("10")).unwrap(), n("1000000000000000000000000000"));
        assert_eq!(n("10000000000000000000000000015").div(n("10")).unwrap(), n("1000000000000000000000000002"));
        assert_eq!(n("1").div(Num::ZERO), None);
        assert_eq!(n("-6").div(n("3")), Some(n("-2")));
    }

    #[test]
    fn whole_numbers_end_at_two_to_the_53() {
        assert_eq!(n("2.0").as_whole(), Some(2));
        assert_eq!(n("9007199254740992").as_whole(), Some(1 << 53));
        assert_eq!(n("9007199254740993").as_whole(), None);
        assert_eq!(n("1.5").as_whole(), None);
        assert_eq!(n("1e30").as_whole(), None);
    }

    #[test]
    fn what_is_refused_says_why() {
        for bad in ["", "+1", "01", "1.", ".5", "1e", "NaN", "0x1", "1_000", " 1"] {
            assert_eq!(bad.parse::<Num>(), Err(NumError::Syntax), "{bad}");
        }
        assert_eq!("1e400".parse::<Num>(), Err(NumError::Range));
        assert_eq!("1.7976931348623159e308".parse::<Num>(), Err(NumError::Range));
        assert!("1.7976931348623157e308".parse::<Num>().is_ok());
        assert_eq!("1.000000000000000000000000000000000000001".parse::<Num>(), Err(NumError::Digits));
        assert_eq!("0e999999999999999999999".parse::<Num>(), Ok(Num::ZERO));
    }

    #[test]
    fn floor_and_remainder_go_down() {
        assert_eq!(n("-1.5").floor(), n("-2"));
        assert_eq!(n("1.5").floor(), n("1"));
        assert_eq!(n("-1").rem(n("3")), Some(n("2")));
        assert_eq!(n("5.5").rem(n("2")), Some(n("1.5")));
    }

    proptest::proptest! {
        #[test]
        fn what_is_printed_reads_back(c in proptest::num::i64::ANY, e in -40i32..40) {
            let number = Num::new(i128::from(c), e);
            proptest::prop_assert_eq!(number.to_string().parse::<Num>(), Ok(number));
        }

        #[test]
        fn order_is_that_of_the_difference(a in -10_000i64..10_000, ea in -6i32..6, b in -10_000i64..10_000, eb in -6i32..6) {
            let (a, b) = (Num::new(i128::from(a), ea), Num::new(i128::from(b), eb));
            let difference = a.sub(b).unwrap();
            proptest::prop_assert_eq!(a.cmp(&b), difference.cmp(&Num::ZERO));
            proptest::prop_assert_eq!(b.add(difference), Some(a));
        }
    }
}
