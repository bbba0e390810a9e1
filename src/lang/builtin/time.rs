//! Functions on times. A time is exact seconds since 1970-01-01T00:00:00Z.
//!
//! Calendar functions count in whole days and hours of 86 400 and 3 600 seconds, at a fixed distance
//! from UTC: a rule must not change its meaning when somebody's summer time begins.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use super::{Arg, Builtin, DependsOn, Param, Takes, first, value};
use crate::{
    diag::Span,
    lang::{
        types::Ty,
        val::{Datum, Val, Why, WhyKind},
    },
    model::{Num, Value},
};

const INSTANT: &[Param] = &[value("t", Ty::Time), Param { name: "offset", takes: Takes::Offset }];

pub(super) const FUNCTIONS: &[Builtin] = &[
    Builtin {
        name: "time",
        params: &[value("text", Ty::String), value("format", Ty::String)],
        optional: 1,
        repeats: false,
        gives: Ty::Time,
        depends_on: DependsOn::Arguments,
        doc: "The time that a text names: RFC 3339, or exactly the given format, whose YYYY, MM, DD, HH, MM and SS stand \
          for digits and everything else for itself; read as UTC.",
        examples: &[
            ("time(\"1970-01-01T00:01:00Z\") - time(\"1970-01-01T00:00:00\", \"YYYY-MM-DDTHH:MM:SS\")", "1m"),
            ("time(\"2024-02-30T00:00:00\", \"YYYY-MM-DDTHH:MM:SS\")", "?"),
            ("time(5)", "?"),
        ],
        eval: time,
    },
    Builtin {
        name: "day",
        params: INSTANT,
        optional: 1,
        repeats: false,
        gives: Ty::Number,
        depends_on: DependsOn::Arguments,
        doc: "The number of the day that a time lies in, counted from 1970-01-01, in UTC or at the offset.",
        examples: &[
            ("day(time(\"1970-01-02T23:59:59Z\"))", "1"),
            ("day(time(\"1969-12-31T23:59:59Z\"))", "-1"),
            ("day(time(\"1970-01-02T23:00:00Z\"), \"+02:00\")", "2"),
            ("day(time(\"1970-01-02T23:00:00Z\"), -30m)", "1"),
            ("day(time(\"1970-01-02T23:00:00Z\"), \"Berlin\")", "?"),
        ],
        eval: |args, at| calendar(args, at, |seconds| whole(seconds, DAY)),
    },
    Builtin {
        name: "hour",
        params: INSTANT,
        optional: 1,
        repeats: false,
        gives: Ty::Number,
        depends_on: DependsOn::Arguments,
        doc: "The hour of the day that a time lies in, 0 to 23, in UTC or at the offset.",
        examples: &[
            ("hour(time(\"2024-05-15T23:59:59Z\"))", "23"),
            ("hour(time(\"2024-05-15T23:59:59Z\"), \"-05:30\")", "18"),
        ],
        eval: |args, at| calendar(args, at, |seconds| whole(seconds.rem(Num::from(DAY))?, 3_600)),
    },
    Builtin {
        name: "weekday",
        params: INSTANT,
        optional: 1,
        repeats: false,
        gives: Ty::Number,
        depends_on: DependsOn::Arguments,
        doc: "The day of the week that a time lies in, 1 (Monday) to 7 (Sunday), in UTC or at the offset.",
        examples: &[
            ("weekday(time(\"2024-05-13T00:00:00Z\"))", "1"),
            ("weekday(time(\"2024-05-13T00:00:00Z\"), \"-00:01\")", "7"),
            ("weekday(time(\"1970-01-01T00:00:00Z\"))", "4"),
        ],
        // Day 0 was a Thursday.
        eval: |args, at| {
            calendar(args, at, |seconds| whole(seconds, DAY)?.add(Num::from(3i64))?.rem(Num::from(7i64))?.add(Num::ONE))
        },
    },
];

/// Seconds of a day.
const DAY: i64 = 86_400;

/// How many whole `units` there are in a number of seconds; exact, where a quotient would be rounded.
fn whole(seconds: Num, unit: i64) -> Option<Num> {
    let unit = Num::from(unit);
    seconds.sub(seconds.rem(unit)?)?.div(unit)
}

fn calendar(args: &[Arg<'_>], at: Span, of: fn(Num) -> Option<Num>) -> Val {
    let Val::Known(Datum::Time(seconds)) = first(args) else { return Val::Unknown(first(args).why(at, "time")) };
    let shifted = match args.get(1).map(|arg| offset(arg.val(), at)) {
        None => Some(*seconds),
        Some(Ok(offset)) => seconds.add(offset),
        Some(Err(why)) => return Val::Unknown(why),
    };
    match shifted.and_then(of) {
        Some(number) => Val::num(number),
        None => Val::unknown(WhyKind::Number, at),
    }
}

/// Seconds of a distance from UTC: a duration, `Z`, or `+HH:MM`.
fn offset(val: &Val, at: Span) -> Result<Num, Why> {
    let text = match val {
        Val::Known(Datum::Duration(seconds)) => return Ok(*seconds),
        Val::Known(Datum::Json(Value::String(text))) => text,
        other => return Err(other.why(at, "duration or string")),
    };
    parse_offset(text).ok_or(Why::new(WhyKind::Form("offset such as +02:00"), at))
}

/// Seconds of `Z` or `+HH:MM`, as RFC 3339 writes them.
pub(in crate::lang) fn parse_offset(text: &str) -> Option<Num> {
    if text == "Z" {
        return Some(Num::ZERO);
    }
    let (sign, rest) = match text.strip_prefix('+') {
        Some(rest) => (1, rest),
        None => (-1, text.strip_prefix('-')?),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let field = |digits: &str, below: i64| {
        let plain = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse::<i64>().ok().filter(|n| plain && *n < below)
    };
    Some(Num::from(sign * (field(hours, 24)? * 3_600 + field(minutes, 60)? * 60)))
}

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
