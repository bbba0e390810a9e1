//! Functions on times. A time is exact seconds since 1970-01-01T00:00:00Z.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use super::{Arg, Builtin, first, value};
use crate::{
    diag::Span,
    lang::{
        types::Ty,
        val::{Datum, Val, WhyKind},
    },
    model::Num,
};

pub(super) const FUNCTIONS: &[Builtin] = &[Builtin {
    name: "time",
    params: &[value("text", Ty::String), value("format", Ty::String)],
    optional: 1,
    repeats: false,
    gives: Ty::Time,
    doc: "The time that a text names: RFC 3339, or exactly the given format, whose YYYY, MM, DD, HH, MM and SS stand \
          for digits and everything else for itself; read as UTC.",
    examples: &[
        ("time(\"1970-01-01T00:01:00Z\") - time(\"1970-01-01T00:00:00\", \"YYYY-MM-DDTHH:MM:SS\")", "1m"),
        ("time(\"2024-02-30T00:00:00\", \"YYYY-MM-DDTHH:MM:SS\")", "?"),
        ("time(5)", "?"),
    ],
    eval: time,
}];

fn time(args: &[Arg<'_>], at: Span) -> Val {
    let v = first(args);
    let Some(text) = v.as_str() else { return Val::Unknown(v.why(at, "string")) };
    let seconds = match args.get(1).map(Arg::val) {
        None => crate::model::rfc3339(text),
        Some(format) => match format.as_str() {
            Some(format) => parse_format(text, format),
            None => return Val::Unknown(format.why(at, "string")),
        },
    };
    match seconds {
        Some(seconds) => Val::Known(Datum::Time(seconds)),
        None => Val::unknown(WhyKind::NotATime, at),
    }
}

/// Seconds of a time in exactly this format, read as UTC.
fn parse_format(text: &str, format: &str) -> Option<Num> {
    let mut rest = text;
    let mut spec = format;
    // Year, month, day, hour, minute, second; MM is the month until an hour was read.
    let mut parts: [Option<i64>; 6] = [None; 6];
    while !spec.is_empty() {
        let (slot, width) = match spec {
            s if s.starts_with("YYYY") => (0, 4),
            s if s.starts_with("MM") => (if parts.get(3).copied().flatten().is_some() { 4 } else { 1 }, 2),
            s if s.starts_with("DD") => (2, 2),
            s if s.starts_with("HH") => (3, 2),
            s if s.starts_with("SS") => (5, 2),
            s => {
                let letter = s.chars().next()?;
                rest = rest.strip_prefix(letter)?;
                spec = s.get(letter.len_utf8()..)?;
                continue;
            }
        };
        let digits = rest.get(..width)?;
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *parts.get_mut(slot)? = digits.parse().ok();
        rest = rest.get(width..)?;
        spec = spec.get(width..)?;
    }
    if !rest.is_empty() {
        return None;
    }
    let [year, month, day, hour, minute, second] = parts;
    let narrow = |n: Option<i64>, default: i8| n.map_or(Some(default), |n| i8::try_from(n).ok());
    let civil = DateTime::new(
        i16::try_from(year?).ok()?,
        narrow(month, 1)?,
        narrow(day, 1)?,
        narrow(hour, 0)?,
        narrow(minute, 0)?,
        narrow(second, 0)?,
        0,
    )
    .ok()?;
    let stamp = TimeZone::UTC.to_timestamp(civil).ok()?;
    Some(Num::new(stamp.as_nanosecond(), -9))
}

/// A time as RFC 3339 in UTC, if it is within the calendar's range.
pub fn rfc3339(seconds: Num) -> Option<String> {
    let nanos = seconds.mul(Num::new(1, 9))?.floor();
    let nanos: i128 = nanos.to_string().parse().ok()?;
    Timestamp::from_nanosecond(nanos).ok().map(|stamp| stamp.to_string())
}
