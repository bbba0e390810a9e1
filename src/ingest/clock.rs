//! The session's clock: the largest stamp so far, never the machine's.

use crate::model::{Num, Value, rfc3339};

/// The clock of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    now: Option<Num>,
    skew: u64,
}

impl Clock {
    /// The time of an event with this stamp, which may move the clock; a stamp that lies behind the
    /// clock is counted and takes the clock's value.
    pub(super) fn at(&mut self, stamp: Option<Num>) -> Option<Num> {
        let stamp = stamp?;
        match self.now {
            Some(now) if stamp < now => {
                self.skew = self.skew.saturating_add(1);
                Some(now)
            }
            _ => {
                self.now = Some(stamp);
                Some(stamp)
            }
        }
    }

    /// The largest stamp so far.
    pub(super) fn now(&self) -> Option<Num> {
        self.now
    }

    /// How many events had a stamp behind the clock.
    pub(super) fn skew(&self) -> u64 {
        self.skew
    }
}

/// A `time` that is neither a number within exact reach nor RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnreadableTime;

/// The stamp of a message: its key `time`, in seconds or as RFC 3339; none if missing or null.
pub(super) fn stamp(message: &Value) -> Result<Option<Num>, UnreadableTime> {
    match message.get("time") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(seconds)) => Ok(Some(*seconds)),
        Some(Value::String(text)) => rfc3339(text).map(Some).ok_or(UnreadableTime),
        Some(_) => Err(UnreadableTime),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::model::json;

    fn read(message: &str) -> Result<Option<Num>, UnreadableTime> {
        stamp(&json::parse(message.as_bytes()).unwrap())
    }

    #[test]
    fn a_stamp_is_a_number_of_seconds_or_rfc_3339() {
        assert_eq!(read("{}"), Ok(None));
        assert_eq!(read(r#"{"time": null}"#), Ok(None));
        assert_eq!(read(r#"{"time": 1.25}"#), Ok(Some("1.25".parse().unwrap())));
        assert_eq!(read(r#"{"time": -3}"#), Ok(Some(Num::from(-3i64))));
        assert_eq!(read(r#"{"time": "1970-01-01T00:01:00Z"}"#), Ok(Some(Num::from(60i64))));
        for bad in [r#""60""#, r#""yesterday""#, "true", "[1]", "{}", "1.000000000000000000000000000000000000001"] {
            assert_eq!(read(&format!(r#"{{"time": {bad}}}"#)), Err(UnreadableTime), "{bad}");
        }
    }

    #[test]
    fn the_clock_never_goes_back_and_counts_what_does() {
        let second = |n: i64| Some(Num::from(n));
        let mut clock = Clock::default();
        assert_eq!(clock.at(None), None);
        assert_eq!(clock.now(), None);
        assert_eq!(clock.at(second(10)), second(10));
        assert_eq!(clock.at(second(4)), second(10));
        assert_eq!(clock.at(second(10)), second(10));
        assert_eq!(clock.at(None), None);
        assert_eq!(clock.at(second(11)), second(11));
        assert_eq!((clock.now(), clock.skew()), (second(11), 1));
    }
}
