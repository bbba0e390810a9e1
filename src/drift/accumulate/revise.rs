//! Scores whose standing can still change, because a baseline is to come: taking one out again leaves the sums as
//! if it had been known from the start.

use super::{Accumulator, LongitudinalSettings, Standing};
use crate::drift::{Category, Triangulation};

/// How many scores of a session stay open.
pub const MOST_OPEN: usize = 64;

/// A score that is in the sums, with all that takes it out again.
#[derive(Clone, Debug)]
pub(in crate::drift) struct OpenScore {
    pub(in crate::drift) number: u64,
    /// Its index among the scores that count.
    pub(in crate::drift) x: u64,
    /// The sum of those before it.
    pub(in crate::drift) y_before: f64,
    pub(in crate::drift) score: f64,
    pub(in crate::drift) high: bool,
    pub(in crate::drift) policy: bool,
    pub(in crate::drift) category: Option<Category>,
    pub(in crate::drift) anomaly: bool,
    /// Its place among all results of the session.
    pub(in crate::drift) serial: u64,
    /// Whether it lengthened the streak; otherwise it ended one.
    pub(in crate::drift) perfect: bool,
    /// The streak before it.
    pub(in crate::drift) streak_before: u64,
    /// The result that ended the streak that it is in; nothing as long as that goes on.
    pub(in crate::drift) ended_by: Option<u64>,
}

impl Accumulator {
    /// Lets the standing of the latest result change later, under a number of the caller's. Of more than
    /// [`MOST_OPEN`] the oldest is settled as it is.
    pub fn keep_open(&mut self, number: u64) {
        if let Some(latest) = self.latest.take() {
            self.open.push_back(OpenScore { number, ..latest });
            if self.open.len() > MOST_OPEN {
                self.open.pop_front();
            }
        }
    }

    /// Whether the standing under a number can still change.
    pub fn is_open(&self, number: u64) -> bool {
        self.open.iter().any(|open| open.number == number)
    }

    /// Settles an open score by what a baseline said; nothing if it is not open.
    pub fn settle(
        &mut self,
        number: u64,
        triangulation: Triangulation,
        settings: &LongitudinalSettings,
    ) -> Option<Standing> {
        let at = self.open.iter().position(|open| open.number == number)?;
        let open = self.open.remove(at)?;
        Some(match triangulation {
            Triangulation::Legitimate if !settings.count_explained => {
                self.sums.high -= u64::from(open.high);
                if let Some(aged) = self.aged.get_mut(open.x as usize) {
                    aged.high = false;
                }
                Standing::Legitimate
            }
            Triangulation::SummaryCalibrationAnomaly if !settings.count_explained => {
                self.take_out(&open);
                Standing::SummaryAnomaly
            }
            _ => Standing::Counted,
        })
    }

    fn take_out(&mut self, open: &OpenScore) {
        self.structural -= u64::from(open.anomaly);
        if let Some(count) = open.category.and_then(|category| self.scored_by_category.get_mut(&category)) {
            *count = count.saturating_sub(1);
        }
        self.mend_streak(open);
        self.scored -= 1;
        self.sums.n -= 1;
        let later = self.sums.y - open.y_before - open.score;
        // Every later index falls by one.
        self.sums.xy -= open.x as f64 * open.score + later;
        self.sums.y -= open.score;
        self.sums.high -= u64::from(open.high);
        self.sums.policy -= u64::from(open.policy);
        self.aged.remove(open.x as usize);
        for other in self.open.iter_mut().filter(|other| other.x > open.x) {
            other.x -= 1;
            other.y_before -= open.score;
        }
    }

    /// The streak as it would be without a score: one shorter without a perfect one; without one that ended a
    /// streak, the streaks on both sides of it are one.
    fn mend_streak(&mut self, gone: &OpenScore) {
        let change = if gone.perfect { -1 } else { i64::try_from(gone.streak_before).unwrap_or(i64::MAX) };
        let longer = |streak: u64| streak.saturating_add_signed(change);
        match gone.ended_by {
            None => self.streak = longer(self.streak),
            // What has ended the streak for good needs to know it no longer.
            Some(end) => {
                if let Some(end) = self.open.iter_mut().find(|open| open.serial == end) {
                    end.streak_before = longer(end.streak_before);
                }
            }
        }
        for open in self.open.iter_mut().filter(|open| open.ended_by == Some(gone.serial)) {
            open.ended_by = gone.ended_by;
        }
    }

    /// The oldest score has aged out of the window.
    pub(super) fn aged_out(&mut self, score: f64) {
        self.open.retain(|open| open.x > 0);
        for open in &mut self.open {
            open.x -= 1;
            open.y_before -= score;
        }
    }
}
