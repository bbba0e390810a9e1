//! Moments as exact numbers: RFC 3339 text to seconds since 1970-01-01T00:00:00Z.
//!
//! The stamps of a trace and the rules' `time(s)` read the same text the same way, through this
//! door.

use jiff::civil::DateTime;

use super::Num;

const SECONDS_PER_DAY: i64 = 86_400;
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Reads a `date-time` of RFC 3339, section 5.6, exactly: a `T` (or the blank that its note allows),
/// full seconds, any fraction within 38 significant digits in all, `Z` or a numeric offset. `None` for
/// anything else, also for what other profiles of ISO 8601 allow (a comma, no colons, a named zone).
///
/// A leap second (`:60`, at the end of a UTC day only) counts as the second that follows it, as in
/// POSIX time.
pub fn rfc3339(text: &str) -> Option<Num> {
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let [year, month, day] = fields(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = fields(clock, ':', [2, 2, 2])?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest.split_at_checked(end)?
        }
        None => ("0", rest),
    };
    if fraction.is_empty() {
        return None;
    }
    let small = |n: i16| i8::try_from(n).ok();
    let leap = second == 60;
    let moment = DateTime::new(
        year,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(if leap { 59 } else { second })?,
        0,
    )
    .ok()?;
    let mut seconds = moment.duration_since(EPOCH).as_secs() - offset_seconds(zone)?;
    if leap {
        seconds += 1;
        if seconds.rem_euclid(SECONDS_PER_DAY) != 0 {
            return None;
        }
    }
    Num::from(seconds).add(format!("0.{fraction}").parse().ok()?)
}

/// `Z`, or hours and minutes with a sign, as seconds east of UTC.
fn offset_seconds(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let (east, rest) = match zone.strip_prefix('+') {
        Some(rest) => (1, rest),
        None => (-1, zone.strip_prefix('-')?),
    };
    let [hours, minutes] = fields(rest, ':', [2, 2])?;
    (hours < 24 && minutes < 60).then(|| east * (i64::from(hours) * 3600 + i64::from(minutes) * 60))
}

/// Exactly N fields of the given numbers of ASCII digits.
fn fields<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[i16; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let part = parts.next().filter(|p| p.len() == width && p.bytes().all(|b| b.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn moments_are_exact() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", "0"),
            ("2024-05-15T15:00:00Z", "1715785200"),
            ("2024-05-15t15:00:00z", "1715785200"),
            ("2024-05-15 15:00:00Z", "1715785200"),
            ("2024-05-15T17:30:00+02:30", "1715785200"),
            ("2024-05-15T11:00:00-04:00", "1715785200"),
            ("2024-05-15T15:00:00-00:00", "1715785200"),
            ("2024-05-15T15:00:00.000000001Z", "1715785200.000000001"),
            ("2024-05-15T15:00:00.1234567890123Z", "1715785200.1234567890123"),
            ("1969-12-31T23:59:59.5Z", "-0.5"),
            ("2024-02-29T00:00:00Z", "1709164800"),
            ("2016-12-31T23:59:60Z", "1483228800"),
            ("2017-01-01T00:59:60.5+01:00", "1483228800.5"),
            ("0000-01-01T00:00:00Z", "-62167219200"),
            ("9999-12-31T23:59:59Z", "253402300799"),
        ] {
            assert_eq!(rfc3339(text), Some(seconds.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn what_is_not_rfc_3339_is_refused() {
        for text in [
            "",
            "2024-05-15",
            "2024-05-15T15:00:00",
            "2024-05-15  15:00:00Z",
            "2024-05-15_15:00:00Z",
            "2024-05-15T15:00Z",
            "2024-05-15T15:00:00.Z",
            "2024-05-15T15:00:00,5Z",
            "2024-05-15T15:00:00+0200",
            "2024-05-15T15:00:00+24:00",
            "2024-05-15T15:00:00+02:60",
            "2024-05-15T15:00:00+02:00:00",
            "2024-05-15T15:00:00Z[UTC]",
            "2024-05-15T15:00:00Z ",
            " 2024-05-15T15:00:00Z",
            "2024-5-15T15:00:00Z",
            "24-05-15T15:00:00Z",
            "20240515T150000Z",
            "2023-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-05-15T24:00:00Z",
            "2024-05-15T15:60:00Z",
            "2024-05-15T15:00:60Z",
            "2024-05-15T23:59:61Z",
            "+024-05-15T15:00:00Z",
            "2024-05-15T1\u{661}:00:00Z",
            "\u{2082}024-05-1T15:00:00Z",
            "2024-05-15T15:00:00.00000000000000000000000000000000000000001Z",
        ] {
            assert_eq!(rfc3339(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_the_calendar_of_jiff(seconds in -62_135_596_800i64..253_402_300_799, nanos in 0i32..1_000_000_000) {
            let stamp = jiff::Timestamp::new(seconds, 0).unwrap();
            let expected = Num::from(seconds).add(Num::new(i128::from(nanos), -9));
            let text = format!("{}.{nanos:09}Z", stamp.strftime("%Y-%m-%dT%H:%M:%S"));
            proptest::prop_assert_eq!(rfc3339(&text), expected, "{}", text);
        }

        #[test]
        fn any_text_is_answered(text in "\\PC{0,40}") {
            let _ = rfc3339(&text);
        }
    }
}
