//! Groups of digits from afar: whether a telephone number or a card can be among those that stand together, so that
//! most of them are passed over at one glance, whatever is looked for in them.

use std::ops::Range;

use super::card;

/// Most white space and dashes between two groups.
pub(super) const GAP: usize = 3;
/// Fewest and one more than most digits of a telephone number.
const PHONE: Range<usize> = 7..16;
/// Fewest digits of one whose prefix or area tells its shape.
const SHAPED: u64 = 9;
/// A group that has more digits is none of a telephone number's or a card's: six such sizes add up to less than 256.
const LARGE: usize = 31;
/// Most digits of an area in parentheses.
const AREA: usize = 5;
/// Fewest and most digits of a card.
const CARD: std::ops::RangeInclusive<usize> = 13..=19;

/// Most bytes of a number's part that is spelled with letters, and fewest letters.
const SPELLED: usize = 10;
const LETTERS: usize = 4;

/// Groups of digits that stand together, as a telephone number's may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Glance {
    /// Where the last group ends.
    pub(super) end: usize,
    /// Whether a telephone number may be among them.
    pub(super) phone: Chance,
    /// Whether a card may be among them.
    pub(super) card: bool,
    /// Whether an address may be among them: four numbers, joined by three dots.
    pub(super) dotted: bool,
}

/// Whether a telephone number may be among groups of digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Chance {
    /// There is none, whatever stands around them.
    #[default]
    No,
    /// All of them are one, if a word before them says so: none of them has the shape.
    IfTold,
    /// They have to be looked at.
    Yes,
}

/// What [`Seen`] knows of a group: how many digits it has, whether a prefix's zero or an area's parentheses stand before
/// them, and whether a dot joins it to the one before.
const SIZE: u64 = 0x1f;
const PREFIX: u64 = 0x20;
const DOT: u64 = 0x40;
/// The same of each of the last eight groups, six and four.
const ALL: u64 = 0x0101_0101_0101_0101;
const SIX: u64 = ALL >> 16;
const FOUR: u64 = ALL >> 32;
/// Small groups with none of these among the last six are nothing together: three digits or fewer each, apart from those
/// that a prefix, an area or dots mark.
const TELLING: u64 = SIX * (SIZE - 3 + PREFIX + DOT);

/// What the groups so far are like.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The last eight groups, a byte each, the newest in the lowest.
    groups: u64,
    digits: usize,
    /// Where the last group ends.
    end: usize,
    prefixed: bool,
    /// Whether some of them may have the shape of a telephone number.
    shaped: bool,
    card: bool,
    dotted: bool,
    /// Whether anything but one sign stands between two of them.
    odd: bool,
    /// Digits before the last sign that no card has between its groups, and where the next begins.
    passed: usize,
    begin: usize,
    /// The last digits that had a card's shape and are none: where they end, and how many they are.
    no_card: (usize, usize),
}

impl Seen {
    /// The digits at a place, behind any signs.
    #[inline(always)]
    fn digits(&mut self, bytes: &[u8], at: usize, separator: u8) -> bool {
        let text = bytes.get(at..).unwrap_or_default();
        let (size, first) = (digits(text), text.first().copied().unwrap_or_default());
        if size > 0 {
            self.push(bytes, size, mark(separator, first), at + size);
        }
        size > 0
    }

    /// The digits of an area in parentheses.
    fn area(&mut self, bytes: &[u8], open: usize) -> bool {
        let size = bytes.get(open + 1..).map_or(0, digits);
        let end = open + 1 + size;
        let area = (1..=AREA).contains(&size) && bytes.get(end) == Some(&b')');
        if area {
            self.push(bytes, size, PREFIX, end + 1);
        }
        area
    }

    /// The groups behind the last one that a single sign joins to those before: most do.
    #[inline(always)]
    fn joined(&mut self, bytes: &[u8]) {
        while let [separator @ (b' ' | b'-' | b'.' | b'/'), first @ b'0'..=b'9', rest @ ..] =
            bytes.get(self.end..).unwrap_or_default()
        {
            if *separator == b'/' {
                self.part(bytes, self.end + 1);
            }
            let size = 1 + digits(rest);
            self.push(bytes, size, mark(*separator, *first), self.end + 1 + size);
        }
    }

    /// Sets those before a place apart from those behind it: no card has what stands between them.
    #[inline(always)]
    fn part(&mut self, bytes: &[u8], begin: usize) {
        self.card |= self.is_card(bytes);
        (self.passed, self.begin) = (self.digits, begin);
    }

    #[inline(always)]
    fn push(&mut self, bytes: &[u8], size: usize, mark: u64, end: usize) {
        let before = (self.groups, self.end);
        self.groups = before.0 << 8 | size.min(LARGE) as u64 | mark;
        self.digits += size;
        self.end = end;
        if self.groups & TELLING != 0 {
            self.dotted |= mark & DOT == 0 && are_dotted(bytes, before.0, before.1);
            self.look(bytes, size);
        }
    }

    /// Looks at what the last groups may be together.
    #[inline(always)]
    fn look(&mut self, bytes: &[u8], size: usize) {
        if self.groups & (SIX * PREFIX) != 0 {
            self.prefixed = true;
            // Six sizes, added up in the highest byte.
            self.shaped |= ((self.groups & (SIX * SIZE)) << 16).wrapping_mul(ALL) >> 56 >= SHAPED;
        }
        // A small group ends the shape of nothing but a card of five groups.
        if size > 3 || (self.groups >> 8) & (FOUR * SIZE) == FOUR * 4 {
            self.shape(bytes, size);
        }
    }

    /// Looks at the shape of the last groups.
    #[inline(always)]
    fn shape(&mut self, bytes: &[u8], size: usize) {
        let last = |groups: u32| self.groups & (ALL * SIZE) & ((1 << (8 * groups)) - 1);
        // What a telephone number without a plus may look like: of North America, with an exit or a trunk prefix, or
        // with an area in parentheses.
        self.shaped |= matches!(size, 10 | 11) || matches!(last(2), 0x06_04 | 0x03_07) || last(3) == 0x03_03_04;
        // What a card may look like that does not take all of them: how many digits it has, and signs between them.
        let (digits, signs) = match size {
            13..=19 => (size, 0),
            4 if last(4) == 0x04_04_04_04 => (16, 3),
            1..=3 if last(5) >> 8 == 0x04_04_04_04 => (16 + size, 4),
            4 | 5 if last(3) >> 8 == 0x04_06 => (10 + size, 2),
            _ => return,
        };
        // Where nobody knows how many bytes they take, whoever looks at the groups knows.
        let start = self.end.saturating_sub(digits + signs);
        match self.odd || bytes.get(start..self.end).is_some_and(card::is_card) {
            true => self.card = true,
            false => self.no_card = (self.end, digits),
        }
    }

    /// Whether all groups since the last sign that no card has may be one together.
    #[inline(always)]
    fn is_card(&self, bytes: &[u8]) -> bool {
        self.digits - self.passed >= *CARD.start() && !self.card && self.whole(bytes)
    }

    #[inline(never)]
    fn whole(self, bytes: &[u8]) -> bool {
        let word = |i: usize| bytes.get(i).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        let run = bytes.get(self.begin..self.end).unwrap_or_default();
        // Digits that belong to a word are none of a card's.
        let (before, behind) = (self.begin.checked_sub(1).is_some_and(word), word(self.end));
        let before = if before { digits(run) } else { 0 };
        let after = if behind { run.iter().rev().take_while(|b| b.is_ascii_digit()).count() } else { 0 };
        let count = (self.digits - self.passed).saturating_sub(before + after);
        if !CARD.contains(&count) || (!behind && self.no_card == (self.end, count)) {
            return false;
        }
        let written = run.get(before..run.len() - after).unwrap_or_default();
        let end = written.iter().rposition(u8::is_ascii_digit).map_or(0, |last| last + 1);
        // Groups with dots are no card as a whole.
        written.get(..end).is_some_and(|written| !written.contains(&b'.') && card::is_card(written))
    }

    /// Whether a telephone number may be among the groups, by what they are like.
    fn phone(&self, plus: bool) -> Chance {
        if self.digits < PHONE.start {
            Chance::No
        } else if plus || self.shaped || (self.prefixed && self.digits < PHONE.end) {
            Chance::Yes
        } else if self.digits < PHONE.end {
            Chance::IfTold
        } else {
            Chance::No
        }
    }
}

/// Looks at the groups that begin with a digit, or a `+` or `(` before one.
pub(super) fn glance(bytes: &[u8], start: usize) -> Glance {
    let plus = bytes.get(start) == Some(&b'+');
    let at = start + usize::from(plus);
    if let Some(end) = alone(bytes, at) {
        return Glance { end, ..Glance::default() };
    }
    let mut seen = Seen { begin: at, end: start + 1, ..Seen::default() };
    let mut begins = Some((b' ', at));
    while let Some((separator, at)) = begins {
        let open = bytes.get(at) == Some(&b'(');
        let goes_on = match open {
            true => seen.area(bytes, at),
            false => seen.digits(bytes, at, separator),
        };
        if !goes_on {
            break;
        }
        if !open {
            seen.joined(bytes);
        }
        begins = next(bytes, seen.end, open);
        if let Some((_, at)) = begins {
            seen.odd = true;
            if open || bytes.get(at) == Some(&b'(') || !card::joins(bytes, seen.end, at) {
                seen.part(bytes, at);
            }
        }
    }
    let phone = match may_be_spelled(bytes, start + usize::from(plus)) {
        true => Chance::Yes,
        false => seen.phone(plus),
    };
    let card = seen.card || seen.is_card(bytes);
    Glance { end: seen.end, phone, card, dotted: seen.dotted || are_dotted(bytes, seen.groups, seen.end) }
}

/// Where a few digits end that nothing joins to others: those are no number, whatever stands around them.
fn alone(bytes: &[u8], at: usize) -> Option<usize> {
    let text = bytes.get(at..)?;
    let size = digits(text.get(..PHONE.start).unwrap_or(text));
    let joined = matches!(text.get(size), Some(b'\t' | 0x0b | 0x0c | b' ' | b'-' | b'.' | b'/' | b'(' | 0x80..));
    ((1..PHONE.start).contains(&size) && !joined).then_some(at + size)
}

/// How many digits a text begins with.
fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|b| b.is_ascii_digit()).count()
}

/// What marks a group that begins with a digit, behind a sign.
fn mark(separator: u8, first: u8) -> u64 {
    match (separator, first) {
        (b'.', _) => DOT,
        (b' ', b'0') => PREFIX,
        _ => 0,
    }
}

/// Whether the last four groups, if dots join them and no other, may be an address.
fn are_dotted(bytes: &[u8], groups: u64, end: usize) -> bool {
    groups & (FOUR * DOT) == (FOUR >> 8) * DOT && are_octets(bytes, end, groups)
}

/// Whether the last four groups, which end at a place, are numbers up to 255 without zeros before them.
fn are_octets(bytes: &[u8], end: usize, groups: u64) -> bool {
    let mut end = end;
    groups.to_le_bytes().into_iter().take(4).all(|group| {
        let start = end.saturating_sub(usize::from(group & SIZE as u8));
        let digits = bytes.get(start..end).unwrap_or_default();
        end = start.saturating_sub(1);
        match digits {
            [_] | [b'1'..=b'9', _] | [b'1', _, _] => true,
            [b'2', tens, ones] => (*tens, *ones) <= (b'5', b'5'),
            _ => false,
        }
    })
}

/// What stands before the next group, and where that begins.
pub(super) fn next(bytes: &[u8], stop: usize, closed: bool) -> Option<(u8, usize)> {
    let mut separator = if closed { b')' } else { b' ' };
    let (mut at, mut gap) = (stop, 0);
    while gap < GAP {
        let (sign, width) = match bytes.get(at..).unwrap_or_default() {
            [b' ' | b'\t' | 0x0b | 0x0c, ..] => (separator, 1),
            [b'-', ..] => (b'-', 1),
            [0xe2, 0x80, 0x90..=0x95, ..] | [0xe2, 0x88, 0x92, ..] | [0xef, 0xb9, 0x98 | 0xa3, ..] => (b'-', 3),
            [sign @ (b'.' | b'/'), ..] if gap == 0 => (*sign, 1),
            _ => break,
        };
        separator = sign;
        at += width;
        gap += 1;
    }
    // After a dot or a slash the next group follows at once.
    if matches!(separator, b'.' | b'/') && gap > 1 {
        return None;
    }
    let goes_on = match bytes.get(at)? {
        b'(' => bytes.get(at + 1).is_some_and(u8::is_ascii_digit),
        digit => digit.is_ascii_digit() && (gap > 0 || closed),
    };
    goes_on.then_some((separator, at))
}

/// Whether a number that begins at a place may go on with letters: `1-800-FLOWERS`.
fn may_be_spelled(bytes: &[u8], start: usize) -> bool {
    let rest = bytes.get(start..).unwrap_or_default();
    let free = match rest {
        [b'1', b' ' | b'-' | b'.', free @ ..] => free,
        _ => rest,
    };
    let [b'8', b'0'..=b'9', b'0'..=b'9', b' ' | b'-' | b'.' | 0x80.., word @ ..] = free else { return false };
    word.iter().take(SPELLED).filter(|b| b.is_ascii_uppercase()).count() >= LETTERS
}
