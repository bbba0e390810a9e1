//! International bank accounts (ISO 13616): a country, two check digits and 11 to 30 characters, perhaps in groups.

use std::ops::Range;

/// Fewest and most characters.
const LENGTH: Range<usize> = 15..35;

/// Finds accounts; byte ranges, ascending. Each byte is looked at a bounded number of times.
pub(super) fn find(text: &str, mut found: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    // An account's third character is a digit.
    while let Some(digit) = bytes.get(at + 2..).unwrap_or_default().iter().position(u8::is_ascii_digit) {
        at += digit;
        match if begins(bytes, at) { length(text, at) } else { None } {
            Some(length) => {
                found(at..at + length);
                at += length;
            }
            None => at += 1,
        }
    }
}

/// Two letters and two digits at the start of a word.
fn begins(bytes: &[u8], at: usize) -> bool {
    let Some([a, b, c, d]) = bytes.get(at..at + 4) else { return false };
    let before = at.checked_sub(1).and_then(|i| bytes.get(i));
    c.is_ascii_digit()
        && d.is_ascii_digit()
        && a.is_ascii_alphabetic()
        && b.is_ascii_alphabetic()
        && !before.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

/// The bytes of the shortest prefix that is an account: what follows may be ordinary words, which the shape cannot
/// tell from groups. The remainder modulo 97 of the rearranged number must be 1.
fn length(text: &str, start: usize) -> Option<usize> {
    let account = text.as_bytes().get(start..)?;
    let (head, rest) = account.split_first_chunk::<4>()?;
    let (mut number, mut count, mut apart) = (0, head.len(), false);
    for (at, byte) in rest.iter().enumerate() {
        let Some(value) = value(*byte) else {
            // One space or dash between two groups.
            if apart || !matches!(byte, b' ' | b'-') {
                return None;
            }
            apart = true;
            continue;
        };
        apart = false;
        number = push(number, value);
        count += 1;
        if count >= LENGTH.end {
            return None;
        }
        let ends = || {
            let end = start + head.len() + at + 1;
            text.get(end..).is_none_or(|rest| !rest.starts_with(char::is_alphanumeric))
        };
        let goes_on = rest.get(at + 1).is_some_and(u8::is_ascii_alphanumeric);
        if count >= LENGTH.start && !goes_on && ends() {
            let whole = head.iter().filter_map(|b| self::value(*b)).fold(number, push);
            if whole % 97 == 1 {
                return Some(head.len() + at + 1);
            }
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
        let mut found = Vec::new();
        find(text, |range| found.extend(text.get(range)));
        found
    }

    #[test]
    fn an_account_is_found_beside_what_looks_like_one() {
        let account = "DE89 3704 0044 0532 0130 00";
        for text in [account, "AB12 DE89 3704 0044 0532 0130 00", "to DE89 3704 0044 0532 0130 00 by Monday"] {
            assert_eq!(found(text), [account], "{text}");
        }
        assert_eq!(found("de89370400440532013000, GB82-WEST-1234-5698-7654-32").len(), 2);
    }

    #[test]
    fn a_wrong_sum_and_a_glued_word_are_none() {
        for text in ["DE89 3704 0044 0532 0130 01", "XDE89370400440532013000", "DE89370400440532013000X", "DE89"] {
            assert!(found(text).is_empty(), "{text}");
        }
    }
}
