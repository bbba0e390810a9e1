//! International bank accounts (ISO 13616): a country, two check digits and 11 to 30 characters, perhaps in groups.

use std::ops::Range;

/// Fewest and most characters.
const LENGTH: Range<usize> = 15..35;

/// Finds accounts; byte ranges, ascending. Each byte is looked at a bounded number of times.
pub(super) fn find(text: &str, mut found: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let account = begins(bytes, at).then(|| length(text.get(at..)?)).flatten();
        match account {
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
fn length(text: &str) -> Option<usize> {
    let push = |remainder: u32, v: u32| if v > 9 { (remainder * 100 + v) % 97 } else { (remainder * 10 + v) % 97 };
    let (head, rest) = text.split_at_checked(4)?;
    let (mut remainder, mut count, mut gap) = (0, head.len(), 0);
    for (at, c) in rest.char_indices() {
        let Some(v) = c.to_digit(36) else {
            gap += 1;
            if gap > 1 || !matches!(c, ' ' | '-') {
                return None;
            }
            continue;
        };
        gap = 0;
        remainder = push(remainder, v);
        count += 1;
        if count >= LENGTH.end {
            return None;
        }
        let end = at + c.len_utf8();
        let ends = rest.get(end..).is_none_or(|r| !r.starts_with(|c: char| c.is_alphanumeric()));
        let whole = || head.chars().filter_map(|c| c.to_digit(36)).fold(remainder, push);
        if count >= LENGTH.start && ends && whole() == 1 {
            return Some(head.len() + end);
        }
    }
    None
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
