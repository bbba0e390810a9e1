//! Intervals and comparisons of shares: the Wilson score interval and the pooled two-proportion test.
//!
//! Wilson (1927): with `p = k/n`, the interval is `(p + z2/2n ± z sqrt(p(1-p)/n + z2/4n2)) / (1 + z2/n)`
//! where `z2 = z^2`. The pooled test divides the difference of two shares by its standard error under
//! the assumption that both are one.

/// How odd inputs are met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatsRules {
    /// Compute with counts outside 0 to n, and with any z, as far as arithmetic goes.
    pub accept_any_counts: bool,
    /// Without a sample, say (0, 0) instead of (0, 1).
    pub empty_is_zero: bool,
}

/// Why a figure cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// Counts that no sample can have.
    #[error("{k} of {n} is not a count of a sample")]
    Counts {
        /// Successes.
        k: i64,
        /// Sample size.
        n: i64,
    },
    /// A quantile that is not a finite number of 0 or more.
    #[error("a normal quantile of {z} cannot be used")]
    Quantile {
        /// The quantile.
        z: f64,
    },
    /// The formula has no real value.
    #[error("{k} of {n} has no real interval")]
    NotReal {
        /// Successes.
        k: i64,
        /// Sample size.
        n: i64,
    },
}

/// The Wilson score interval of `k` successes in `n` trials, for the normal quantile `z` (1.96 for
/// 95 %).
pub fn wilson(k: i64, n: i64, z: f64, rules: StatsRules) -> Result<(f64, f64), StatsError> {
    check(k, n, rules)?;
    if !rules.accept_any_counts {
        quantile(z)?;
    }
    if n == 0 {
        return Ok(if rules.empty_is_zero { (0.0, 0.0) } else { (0.0, 1.0) });
    }
    let size = n as f64;
    let p = k as f64 / size;
    let z2 = z * z;
    let denominator = 1.0 + z2 / size;
    let centre = (p + z2 / (2.0 * size)) / denominator;
    let radicand = p * (1.0 - p) / size + z2 / (4.0 * size * size);
    if radicand < 0.0 {
        return Err(StatsError::NotReal { k, n });
    }
    let margin = z / denominator * radicand.sqrt();
    // `max` and `min` drop what is not a number, so that an unusable z gives the whole range.
    Ok(((centre - margin).max(0.0), (centre + margin).min(1.0)))
}

/// The z statistic of the difference between `k_a` of `n_a` and `k_b` of `n_b`; 0 where a side is
/// empty or nothing varies.
pub fn two_proportion_z(k_a: i64, n_a: i64, k_b: i64, n_b: i64, rules: StatsRules) -> Result<f64, StatsError> {
    check(k_a, n_a, rules)?;
    check(k_b, n_b, rules)?;
    if n_a == 0 || n_b == 0 {
        return Ok(0.0);
    }
    let (size_a, size_b) = (n_a as f64, n_b as f64);
    let (p_a, p_b) = (k_a as f64 / size_a, k_b as f64 / size_b);
    let pooled = (k_a as f64 + k_b as f64) / (size_a + size_b);
    let variance = pooled * (1.0 - pooled) * (1.0 / size_a + 1.0 / size_b);
    if variance == 0.0 {
        return Ok(0.0);
    }
    if variance.is_nan() || variance < 0.0 {
        return Err(StatsError::NotReal { k: k_a.saturating_add(k_b), n: n_a.saturating_add(n_b) });
    }
    Ok((p_a - p_b) / variance.sqrt())
}

/// Whether two shares differ by more than chance at the quantile `z`.
pub fn difference_is_real(
    (k_a, n_a): (i64, i64),
    (k_b, n_b): (i64, i64),
    z: f64,
    rules: StatsRules,
) -> Result<bool, StatsError> {
    if !rules.accept_any_counts {
        quantile(z)?;
    }
    Ok(two_proportion_z(k_a, n_a, k_b, n_b, rules)?.abs() >= z)
}

fn check(k: i64, n: i64, rules: StatsRules) -> Result<(), StatsError> {
    if rules.accept_any_counts || (0..=n).contains(&k) { Ok(()) } else { Err(StatsError::Counts { k, n }) }
}

fn quantile(z: f64) -> Result<(), StatsError> {
    if z.is_finite() && z >= 0.0 { Ok(()) } else { Err(StatsError::Quantile { z }) }
}
