//! International bank accounts (ISO 13616): a country, two check digits and as many characters as that country's
//! accounts have, perhaps in groups.

use std::ops::Range;

/// How many characters the accounts of each country have, by its letters.
const LENGTHS: [([u8; 2], usize); 89] = [
    (*b"AD", 24),
    (*b"AE", 23),
    (*b"AL", 28),
    (*b"AT", 20),
    (*b"AZ", 28),
    (*b"BA", 20),
    (*b"BE", 16),
    (*b"BG", 22),
    (*b"BH", 22),
    (*b"BI", 27),
    (*b"BR", 29),
    (*b"BY", 28),
    (*b"CH", 21),
    (*b"CR", 22),
    (*b"CY", 28),
    (*b"CZ", 24),
    (*b"DE", 22),
    (*b"DJ", 27),
    (*b"DK", 18),
    (*b"DO", 28),
    (*b"EE", 20),
    (*b"EG", 29),
    (*b"ES", 24),
    (*b"FI", 18),
    (*b"FK", 18),
    (*b"FO", 18),
    (*b"FR", 27),
    (*b"GB", 22),
    (*b"GE", 22),
    (*b"GI", 23),
    (*b"GL", 18),
    (*b"GR", 27),
    (*b"GT", 28),
    (*b"HN", 28),
    (*b"HR", 21),
    (*b"HU", 28),
    (*b"IE", 22),
    (*b"IL", 23),
    (*b"IQ", 23),
    (*b"IS", 26),
    (*b"IT", 27),
    (*b"JO", 30),
    (*b"KW", 30),
    (*b"KZ", 20),
    (*b"LB", 28),
    (*b"LC", 32),
    (*b"LI", 21),
    (*b"LT", 20),
    (*b"LU", 20),
    (*b"LV", 21),
    (*b"LY", 25),
    (*b"MC", 27),
    (*b"MD", 24),
    (*b"ME", 22),
    (*b"MK", 19),
    (*b"MN", 20),
    (*b"MR", 27),
    (*b"MT", 31),
    (*b"MU", 30),
    (*b"NI", 28),
    (*b"NL", 18),
    (*b"NO", 15),
    (*b"OM", 23),
    (*b"PK", 24),
    (*b"PL", 28),
    (*b"PS", 29),
    (*b"PT", 25),
    (*b"QA", 29),
    (*b"RO", 24),
    (*b"RS", 22),
    (*b"RU", 33),
    (*b"SA", 24),
    (*b"SC", 31),
    (*b"SD", 18),
    (*b"SE", 24),
    (*b"SI", 19),
    (*b"SK", 24),
    (*b"SM", 27),
    (*b"SO", 23),
    (*b"ST", 25),
    (*b"SV", 28),
    (*b"TL", 23),
    (*b"TN", 24),
    (*b"TR", 26),
    (*b"UA", 29),
    (*b"VA", 22),
    (*b"VG", 24),
    (*b"XK", 20),
    (*b"YE", 30),
];

/// Most bytes of blanks and dashes between two groups: a long dash with its blanks.
const GAP: usize = 5;

/// The account whose check digits begin at a place, which is a digit behind a letter. Each byte is looked at a bounded
/// number of times.
pub(super) fn at(text: &str, digit: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let start = digit.checked_sub(2)?;
    let before = start.checked_sub(1).and_then(|i| bytes.get(i));
    if before.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        return None;
    }
    let [a, b, c, d] = *bytes.get(start..)?.first_chunk::<4>()?;
    let country = [a.to_ascii_uppercase(), b.to_ascii_uppercase()];
    let length = LENGTHS.binary_search_by_key(&country, |(country, _)| *country).ok()?;
    let (_, length) = LENGTHS.get(length)?;
    (c.is_ascii_digit() && d.is_ascii_digit()).then_some(())?;
    let end = end(text, start, *length)?;
    Some(start..end)
}

/// The end of an account of so many characters, if its sum is right: the remainder modulo 97 of the rearranged number
/// must be 1.
fn end(text: &str, start: usize, length: usize) -> Option<usize> {
    let account = text.as_bytes().get(start..)?;
    let (head, rest) = account.split_first_chunk::<4>()?;
    let (mut number, mut left, mut gap) = (0, length - head.len(), 0);
    for (at, byte) in rest.iter().enumerate() {
        let Some(value) = value(*byte) else {
            gap += 1;
            // Bytes of long dashes among them; what else they may be has no right sum.
            if gap > GAP || !matches!(byte, b' ' | b'-' | b'.' | 0x80..) {
                return None;
            }
            continue;
        };
        gap = 0;
        number = push(number, value);
        left -= 1;
        if left == 0 {
            let end = start + head.len() + at + 1;
            let goes_on = text.get(end..).is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
            let whole = head.iter().filter_map(|b| self::value(*b)).fold(number, push);
            return (!goes_on && whole % 97 == 1).then_some(end);
        }
    }
    None
}

/// What a character stands for: a digit for itself, a letter for 10 to 35.
fn value(byte: u8) -> Option<u64> {
    // A letter's lowest five bits are its place in the alphabet, in either case.
    match byte {
        b'0'..=b'9' => Some(u64::from(byte - b'0')),
        _ if byte.is_ascii_alphabetic() => Some(u64::from(byte & 0x1f) + 9),
        _ => None,
    }
}

/// A number with one more value behind it, as far as its remainder modulo 97 goes.
fn push(number: u64, value: u64) -> u64 {
    // A division for each character would be most of the search: there is room for many.
    let number = if number >> 48 == 0 { number } else { number % 97 };
    number * if value > 9 { 100 } else { 10 } + value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let digits = (0..text.len()).filter(|i| text.as_bytes().get(*i).is_some_and(u8::is_ascii_digit));
        digits.filter_map(|digit| text.get(at(text, digit)?)).collect()
    }

    #[test]
    fn countries_are_in_order() {
        assert!(LENGTHS.is_sorted_by(|(a, _), (b, _)| a < b));
        assert!(LENGTHS.iter().all(|(_, length)| (15..35).contains(length)));
    }

    #[test]
    fn an_account_is_found_beside_what_looks_like_one() {
        let account = "DE89 3704 0044 0532 0130 00";
        for text in [account, "AB12 DE89 3704 0044 0532 0130 00", "to DE89 3704 0044 0532 0130 00 by Monday"] {
            assert_eq!(found(text), [account], "{text}");
        }
        assert_eq!(found("de89370400440532013000, GB82-WEST-1234-5698-7654-32").len(), 2);
        let apart = "DE89  3704\u{2013}0044\u{2013}0532 - 0130.00";
        assert_eq!(found(apart), [apart]);
    }

    #[test]
    fn a_wrong_sum_and_a_glued_word_are_none() {
        for text in [
            "DE89 3704 0044 0532 0130 01",
            "XDE89370400440532013000",
            "DE89370400440532013000X",
            "DE89",
            "XX89370400440532013000",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }
}
