//! A window that is asked for while a session goes on: the rules were loaded anew, and the sums were kept without one.
//!
//! It is filled from the newest signals, which the session keeps for its report. What lies before them is forgotten, as
//! if it had aged: the signal is then that of the scores in the window, as it is of any other session.

use std::collections::VecDeque;

use super::{Accumulator, Aged, Standing, Sums};
use crate::drift::{Category, SignalFacts};

impl Aged {
    /// The score of a signal, if it counts.
    pub(in crate::drift) fn of(signal: &SignalFacts) -> Option<Aged> {
        let counts = matches!(signal.standing, Standing::Counted | Standing::Legitimate);
        let score = signal.score.filter(|_| counts)?;
        let high = score > signal.threshold && signal.standing == Standing::Counted;
        Some(Aged { score, high, policy: signal.category == Some(Category::PolicyDisagreement) })
    }
}

impl Accumulator {
    /// Whether a window is asked for of a memory that has summed without one, so that it does not know which scores are
    /// in it.
    pub(in crate::drift) fn lacks(&self, window: Option<usize>) -> bool {
        window.is_some() && (self.aged.len() as u64) < self.sums.n
    }

    /// Fills the window with the last scores that counted, oldest first, as far as they are still known; what lies
    /// before them is forgotten, as if it had aged.
    pub(in crate::drift) fn fill(&mut self, window: usize, known: impl DoubleEndedIterator<Item = Aged>) {
        let most = window.min(usize::try_from(self.sums.n).unwrap_or(usize::MAX));
        let mut aged: VecDeque<Aged> = known.rev().filter(|score| score.score.is_finite()).take(most).collect();
        aged.make_contiguous().reverse();
        let gone = self.sums.n - aged.len() as u64;
        let before = |x: u64| -> f64 { aged.iter().take(x as usize).map(|a| a.score).sum() };
        self.open.retain(|open| open.x >= gone);
        // The latest is always the last.
        self.latest = self.latest.take().filter(|latest| latest.x >= gone);
        for open in self.open.iter_mut().chain(self.latest.as_mut()) {
            open.x -= gone;
            open.y_before = before(open.x);
        }
        let count = |is: fn(&Aged) -> bool| aged.iter().filter(|a| is(a)).count() as u64;
        self.sums =
            Sums { n: aged.len() as u64, high: count(|a| a.high), policy: count(|a| a.policy), ..Sums::default() };
        self.aged = aged;
        self.sum_afresh();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::drift::{ConsistencySettings, LongitudinalSettings, ProbeResult, StreakRule, Triangulation};

    fn settings(window: Option<usize>) -> LongitudinalSettings {
        LongitudinalSettings {
            frequency: 0.4,
            trend: 0.3,
            category: 0.2,
            structural: 0.1,
            trend_scale: 5.0,
            trend_min_scores: 3,
            per_policy_disagreement: 0.25,
            structural_steps: vec![(1, 0.1), (2, 0.4)],
            window,
            structural_without_scores: true,
            count_explained: false,
            accept_any_score: false,
        }
    }

    fn result(score: f64, policy: bool) -> ProbeResult {
        ProbeResult {
            probe_type: Arc::from("data_disclosure"),
            score: Some(score),
            threshold: 0.5,
            category: policy.then_some(Category::PolicyDisagreement),
            anomaly: None,
            diverged: policy,
            triangulation: None,
            escape: false,
            confidence: 1.0,
        }
    }

    fn record(acc: &mut Accumulator, (score, policy): (f64, bool), window: Option<usize>) {
        let consistency = ConsistencySettings {
            rule: StreakRule::NoDivergence,
            streak: 3,
            expected_variance: 0.0,
            needs_calibration: false,
        };
        acc.record(None, "1", &result(score, policy), &settings(window), &consistency, 0.0).unwrap();
    }

    fn aged(&(score, policy): &(f64, bool)) -> Aged {
        Aged { score, high: score > 0.5, policy }
    }

    proptest! {
        #[test]
        fn a_window_that_comes_later_is_as_one_that_was_always_there(
            steps in prop::collection::vec((0.0..=1.0f64, any::<bool>()), 1..40), window in 1_usize..12,
            change in 0_usize..40, on_again: bool, open in prop::option::of(0_usize..40),
        ) {
            let change = change.min(steps.len() - 1);
            let (mut later, mut always) = (Accumulator::new("s", "1"), Accumulator::new("s", "1"));
            for (n, step) in steps.iter().enumerate() {
                // Off, on, and perhaps off and on once more.
                let on = n >= change && !(on_again && n == change + 1);
                if on && later.lacks(Some(window)) {
                    later.fill(window, steps[..n].iter().map(aged));
                }
                let window = Some(window);
                record(&mut later, *step, window.filter(|_| on));
                record(&mut always, *step, window);
                if open == Some(n) {
                    later.keep_open(n as u64);
                    always.keep_open(n as u64);
                }
                if on {
                    let (a, b) = (later.signal(&settings(window)), always.signal(&settings(window)));
                    prop_assert!((a - b).abs() <= 1e-9, "{a} {b} at {n}");
                }
            }
            // A baseline that was waited for takes the same score out of both, or out of none.
            if let Some(n) = open.filter(|n| *n < steps.len() && !(on_again && steps.len() == change + 2)) {
                let said = Triangulation::SummaryCalibrationAnomaly;
                for acc in [&mut later, &mut always] {
                    acc.settle(n as u64, said, &settings(Some(window)));
                }
                let (a, b) = (later.signal(&settings(Some(window))), always.signal(&settings(Some(window))));
                prop_assert!((a - b).abs() <= 1e-9, "{a} {b} after a baseline");
            }
        }

        #[test]
        fn of_what_is_not_known_nothing_is_left(scores in prop::collection::vec(0.0..=1.0f64, 4..20), known in 0_usize..4) {
            let mut acc = Accumulator::new("s", "1");
            scores.iter().for_each(|score| record(&mut acc, (*score, true), None));
            let steps: Vec<(f64, bool)> = scores.iter().map(|score| (*score, true)).collect();
            acc.fill(10, steps[steps.len() - known..].iter().map(aged));
            prop_assert_eq!((acc.sums.n, acc.aged.len(), acc.lacks(Some(10))), (known as u64, known, false));
        }
    }
}
