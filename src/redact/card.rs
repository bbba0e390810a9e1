//! Payment cards: 13 to 19 digits with the right check digit, in one piece, grouped as cards print them, or as a
//! whole run of groups. A date behind a card or a figure before it does not hide it.

use std::ops::Range;

/// Groups that are looked at together.
const NEAR: usize = 5;
/// Most digits of a card.
const MOST: usize = 19;
/// Most blanks and dashes between two groups.
const GAP: usize = 3;

/// Finds the cards in the groups of digits that begin at a place, and gives where the last of them ends; byte ranges,
/// ascending. Each byte is looked at a bounded number of times.
pub(super) fn find(text: &str, digit: usize, groups: &mut Vec<Group>, mut found: impl FnMut(Range<usize>)) -> usize {
    let mut run = Run { bytes: text.as_bytes(), next: Some(digit), stop: digit, dotted: false };
    groups.clear();
    cards(&mut run, groups, &mut found);
    run.stop
}

/// Digits that stand together.
#[derive(Debug)]
pub(super) struct Group {
    digits: Range<usize>,
    /// A dot stands before it: cards are printed so, and so are fractions.
    dotted: bool,
}

/// Groups of digits with blanks, dashes or a dot between two. Digits that belong to a word are no group.
struct Run<'a> {
    bytes: &'a [u8],
    next: Option<usize>,
    stop: usize,
    dotted: bool,
}

impl Iterator for Run<'_> {
    type Item = Group;

    fn next(&mut self) -> Option<Group> {
        let word = |i: usize| self.bytes.get(i).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        while let Some(from) = self.next {
            let rest = self.bytes.get(from..).unwrap_or_default();
            let at = from + rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
            self.stop = at;
            let group = Group { digits: from..at, dotted: self.dotted };
            self.dotted = self.bytes.get(at) == Some(&b'.');
            let next = at + if self.dotted { 1 } else { gap(self.bytes, at) };
            self.next = (next > at && self.bytes.get(next).is_some_and(u8::is_ascii_digit)).then_some(next);
            if !(from.checked_sub(1).is_some_and(word) || word(at)) {
                return Some(group);
            }
        }
        None
    }
}

/// Whether what stands between two places joins groups of a card.
pub(super) fn joins(bytes: &[u8], end: usize, next: usize) -> bool {
    bytes.get(end..next) == Some(b".") || gap(bytes, end) == next - end
}

/// The bytes of blanks and dashes from a place on.
fn gap(bytes: &[u8], at: usize) -> usize {
    let mut end = at;
    for _ in 0..GAP {
        end += match bytes.get(end..).unwrap_or_default() {
            [b' ' | b'\t' | b'-', ..] => 1,
            // Hyphens, dashes and the minus sign.
            [0xe2, 0x80, 0x90..=0x95, ..] | [0xe2, 0x88, 0x92, ..] => 3,
            _ => break,
        };
    }
    end - at
}

/// The cards of a run. However long it is, only the groups are kept that may still be one.
fn cards(run: &mut Run<'_>, groups: &mut Vec<Group>, found: &mut impl FnMut(Range<usize>)) {
    let bytes = run.bytes;
    let (mut i, mut any, mut digits, mut dotted) = (0, false, 0, false);
    loop {
        while groups.len() < i + NEAR
            && let Some(group) = run.next()
        {
            digits += group.digits.len();
            dotted |= group.dotted;
            groups.push(group);
        }
        let Some(near) = groups.get(i..).filter(|near| !near.is_empty()) else { break };
        let card = shapes(near).into_iter().flatten().find_map(|n| Some((n, card(bytes, near.get(..n)?)?)));
        i += match card {
            Some((n, range)) => {
                any = true;
                found(range);
                n
            }
            None => 1,
        };
        // A run of more groups than a card has digits is none as a whole.
        if i > MOST && digits > MOST {
            groups.drain(..i);
            i = 0;
        }
    }
    if !any && !dotted && (13..=MOST).contains(&digits) {
        card(bytes, groups).into_iter().for_each(found);
    }
}

/// How many of the next groups may be a card, by their sizes.
fn shapes(groups: &[Group]) -> [Option<usize>; 2] {
    let size = |i: usize| groups.get(i).map_or(0, |group| group.digits.len());
    // Most groups begin no card, whatever follows.
    if size(0) != 4 && size(0) < 13 {
        return [None, None];
    }
    match [size(0), size(1), size(2), size(3), size(4)] {
        [13..=19, ..] => [Some(1), None],
        [4, 4, 4, 4, 1..=3] => [Some(5), Some(4)],
        [4, 4, 4, 4, _] => [Some(4), None],
        [4, 6, 4 | 5, ..] => [Some(3), None],
        _ => [None, None],
    }
}

/// Where groups stand, if they may be a card.
fn card(bytes: &[u8], groups: &[Group]) -> Option<Range<usize>> {
    let range = groups.first()?.digits.start..groups.last()?.digits.end;
    is_card(bytes.get(range.clone())?).then_some(range)
}

/// What a digit adds to the sum as it is, and doubled, the digits of what that makes added up.
const DIGITS: [u32; 20] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 2, 4, 6, 8, 1, 3, 5, 7, 9];

/// Whether digits, whatever stands between them, have a first one that cards have and the right sum (Luhn, ISO/IEC
/// 7812-1).
pub(super) fn is_card(written: &[u8]) -> bool {
    if !matches!(written.iter().find(|b| b.is_ascii_digit()), Some(b'2'..=b'6')) {
        return false;
    }
    let (mut sum, mut doubled) = (0, 0);
    for byte in written.iter().rev() {
        let digit = usize::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            continue;
        }
        sum += DIGITS.get(doubled + digit).copied().unwrap_or_default();
        doubled = 10 - doubled;
    }
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let (mut found, mut groups, mut at) = (Vec::new(), Vec::new(), 0);
        while let Some(digit) = text.get(at..).unwrap_or_default().find(|c: char| c.is_ascii_digit()) {
            at = find(text, at + digit, &mut groups, |range| found.extend(text.get(range)));
        }
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
    fn however_its_groups_are_set_apart() {
        for text in [
            "4111.1111.1111.1111",
            "4111  1111  1111  1111",
            "4111\u{2013}1111\u{2013}1111\u{2013}1111",
            "4111 - 1111 - 1111 - 1111",
        ] {
            assert_eq!(found(text), [text], "{text}");
        }
        assert_eq!(found("4111111111111111.0"), ["4111111111111111"]);
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for text in [
            "3.14159265358979",
            "4111    1111    1111    1111",
            "4111 1111 1111 1112",
            "x4111111111111111",
            "9111111111111111",
            "12 34 56 78 12 34 56 78 12 34",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }
}
