//! When a folder that changes has come to rest. Pure: what was read, and when, comes in; what to do next comes out.
//!
//! A change of several files arrives one file at a time, and each state in between may well compile. So a content that
//! is not known yet counts only once nothing else was read for the settle time.

use std::time::Duration;

use crate::model::Digest;

/// A share of one thread that reading may take, as its inverse: a folder that is written to all the time, or that is
/// large, is read less often.
const RESTS: u32 = 9;
/// The shortest pause between two readings.
const SHORTEST_REST: Duration = Duration::from_millis(20);

/// What was read last of a folder, and since when.
#[derive(Clone, Copy, Debug)]
pub struct Settling {
    settle: Duration,
    candidate: Option<Candidate>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    print: Digest,
    /// When the first reading of it had ended: it is known to have been there from then on.
    since: Duration,
    /// When something that is not known was first read, whatever it was.
    moving_since: Duration,
}

/// What a reading means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing new.
    Known,
    /// Something new that may still be in the making.
    Moving {
        /// When to read again, unless there is a hint before.
        again_in: Duration,
        /// How long there has been something new that does not come to rest.
        since: Duration,
    },
    /// Something new that is at rest.
    Settled,
}

impl Settling {
    /// Nothing was read yet.
    pub fn new(settle: Duration) -> Settling {
        Settling { settle, candidate: None }
    }

    /// Takes in what a reading gave that began and ended at these times, on any clock that does not go back. `known`
    /// content is served already, or was refused already.
    pub fn saw(&mut self, print: Digest, (began, ended): (Duration, Duration), known: bool) -> Seen {
        if known {
            self.candidate = None;
            return Seen::Known;
        }
        let moving_since = self.candidate.map_or(began, |candidate| candidate.moving_since);
        let same = self.candidate.filter(|candidate| candidate.print == print);
        // A second reading has to agree, even where nothing is to be waited for.
        let rested = same.map(|same| began.saturating_sub(same.since));
        if rested.is_some_and(|rested| rested >= self.settle) {
            return Seen::Settled;
        }
        self.candidate = Some(Candidate { print, since: same.map_or(ended, |same| same.since), moving_since });
        Seen::Moving {
            again_in: self.settle.saturating_sub(rested.unwrap_or_default()),
            since: began.saturating_sub(moving_since),
        }
    }
}

/// The pause after a reading that took so long.
pub fn rest_after(cost: Duration) -> Duration {
    cost.saturating_mul(RESTS).max(SHORTEST_REST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTLE: u64 = 500;

    fn print(n: u8) -> Digest {
        Digest::new([n; 32])
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// What each reading means: content 0 is known.
    fn seen(readings: &[(u64, u8)]) -> Vec<Seen> {
        let mut settling = Settling::new(ms(SETTLE));
        readings.iter().map(|(at, n)| settling.saw(print(*n), (ms(*at), ms(*at)), *n == 0)).collect()
    }

    fn moving(again_in: u64, since: u64) -> Seen {
        Seen::Moving { again_in: ms(again_in), since: ms(since) }
    }

    #[test]
    fn content_counts_once_nothing_else_was_read_for_the_settle_time() {
        use Seen::{Known, Settled};
        assert_eq!(seen(&[(0, 0), (10, 0)]), [Known, Known]);
        assert_eq!(seen(&[(0, 1), (200, 1), (500, 1)]), [moving(500, 0), moving(300, 200), Settled]);
        assert_eq!(seen(&[(0, 1), (499, 1), (900, 1)]), [moving(500, 0), moving(1, 499), Settled]);
        // Four files, one after the other.
        let four = [(0, 1), (300, 2), (600, 3), (900, 4), (1399, 4), (1400, 4)];
        assert_eq!(
            seen(&four),
            [moving(500, 0), moving(500, 300), moving(500, 600), moving(500, 900), moving(1, 1399), Settled]
        );
    }

    #[test]
    fn what_comes_back_begins_anew() {
        use Seen::{Known, Settled};
        assert_eq!(
            seen(&[(0, 1), (400, 2), (600, 1), (1000, 1), (1100, 1)]),
            [moving(500, 0), moving(500, 400), moving(500, 600), moving(100, 1000), Settled]
        );
        assert_eq!(
            seen(&[(0, 1), (400, 0), (600, 1), (1000, 1)]),
            [moving(500, 0), Known, moving(500, 0), moving(100, 400)]
        );
    }

    #[test]
    fn the_time_that_a_reading_takes_does_not_count() {
        let mut settling = Settling::new(ms(SETTLE));
        assert_eq!(settling.saw(print(1), (ms(0), ms(300)), false), moving(500, 0));
        assert_eq!(settling.saw(print(1), (ms(600), ms(900)), false), moving(200, 600));
        assert_eq!(settling.saw(print(1), (ms(800), ms(1100)), false), Seen::Settled);
    }

    #[test]
    fn without_a_settle_time_two_readings_must_still_agree() {
        let mut settling = Settling::new(Duration::ZERO);
        assert_eq!(settling.saw(print(1), (ms(5), ms(5)), false), moving(0, 0));
        assert_eq!(settling.saw(print(1), (ms(6), ms(6)), false), Seen::Settled);
    }

    #[test]
    fn reading_takes_a_small_share_of_a_thread() {
        assert_eq!(rest_after(Duration::ZERO), ms(20));
        assert_eq!(rest_after(ms(100)), ms(900));
    }

    proptest! {
        /// Whatever is read and when: what is settled was read twice, the settle time apart, and nothing else between.
        #[test]
        fn nothing_settles_too_early(readings in prop::collection::vec((0u64..700, 0u8..4), 1..40)) {
            let mut settling = Settling::new(ms(SETTLE));
            let (mut at, mut past) = (0, Vec::new());
            for (gap, n) in readings {
                at += gap;
                past.push((at, n));
                let seen = settling.saw(print(n), (ms(at), ms(at)), n == 0);
                let begun = past.iter().rev().take_while(|(_, other)| *other == n).last().map_or(at, |(at, _)| *at);
                let rested = n != 0 && at - begun >= SETTLE;
                prop_assert_eq!(seen == Seen::Settled, rested, "{:?}", past);
                prop_assert_eq!(seen == Seen::Known, n == 0);
            }
        }
    }
}
