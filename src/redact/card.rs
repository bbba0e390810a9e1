//! Payment cards: 13 to 19 digits with the right check digit, in one piece, grouped as cards print them, or as a
//! whole run of groups. A date behind a card or a figure before it does not hide it.

use std::ops::Range;

/// Finds card numbers; byte ranges, ascending. Each byte is looked at a bounded number of times.
pub(super) fn find(text: &str, mut found: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    let word = |i: Option<usize>| i.and_then(|i| bytes.get(i)).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !digit(at) {
            at += 1;
            continue;
        }
        groups.clear();
        loop {
            let from = at;
            while digit(at) {
                at += 1;
            }
            // Digits that belong to a word are no group.
            if !word(from.checked_sub(1)) && !word(Some(at)) {
                groups.push(from..at);
            }
            if !(matches!(bytes.get(at), Some(b' ' | b'-')) && digit(at + 1)) {
                break;
            }
            at += 1;
        }
        cards(bytes, &groups, &mut found);
    }
}

fn cards(bytes: &[u8], groups: &[Range<usize>], found: &mut impl FnMut(Range<usize>)) {
    let (mut i, mut any) = (0, false);
    while let Some(rest) = groups.get(i..).filter(|rest| !rest.is_empty()) {
        let card = shapes(rest).into_iter().flatten().find_map(|n| Some((n, card(bytes, rest.get(..n)?)?)));
        i += match card {
            Some((n, range)) => {
                any = true;
                found(range);
                n
            }
            None => 1,
        };
    }
    let digits: usize = groups.iter().map(ExactSizeIterator::len).sum();
    if let Some(range) = card(bytes, groups).filter(|_| !any && (13..=19).contains(&digits)) {
        found(range);
    }
}

/// How many of the next groups may be a card, by their sizes.
fn shapes(groups: &[Range<usize>]) -> [Option<usize>; 2] {
    let size = |i: usize| groups.get(i).map_or(0, ExactSizeIterator::len);
    match [size(0), size(1), size(2), size(3), size(4)] {
        [13..=19, ..] => [Some(1), None],
        [4, 4, 4, 4, 1..=3] => [Some(5), Some(4)],
        [4, 4, 4, 4, _] => [Some(4), None],
        [4, 6, 4 | 5, ..] => [Some(3), None],
        _ => [None, None],
    }
}

/// Where groups stand, if they have a first digit that cards have and the right sum (Luhn, ISO/IEC 7812-1).
fn card(bytes: &[u8], groups: &[Range<usize>]) -> Option<Range<usize>> {
    let range = groups.first()?.start..groups.last()?.end;
    let written = bytes.get(range.clone())?;
    let digits = || written.iter().filter(|b| b.is_ascii_digit()).map(|b| u32::from(b - b'0'));
    if !matches!(digits().next(), Some(2..=6)) {
        return None;
    }
    let doubled = |d: u32| if d > 4 { d * 2 - 9 } else { d * 2 };
    let sum: u32 = digits().rev().enumerate().map(|(i, d)| if i % 2 == 1 { doubled(d) } else { d }).sum();
    sum.is_multiple_of(10).then_some(range)
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
    fn a_card_is_found_beside_other_figures() {
        let card = "4111 1111 1111 1111";
        for text in [card, "room 3 4111 1111 1111 1111", "4111 1111 1111 1111 12/27", "x 7-4111 1111 1111 1111 123 ok"]
        {
            assert_eq!(found(text), [card], "{text}");
        }
        assert_eq!(found("378282246310005 or 3782 822463 10005"), ["378282246310005", "3782 822463 10005"]);
        assert_eq!(found("4-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1"), ["4-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1"]);
        assert_eq!(found("4111111111111111 4111111111111111").len(), 2);
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for text in ["4111 1111 1111 1112", "x4111111111111111", "9111111111111111", "12 34 56 78 12 34 56 78 12 34"] {
            assert!(found(text).is_empty(), "{text}");
        }
    }
}
