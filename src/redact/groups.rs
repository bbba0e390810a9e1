//! Groups of digits from afar: whether a telephone number or a card can be among those that stand together, so that
//! most of them are passed over at one glance, whatever is looked for in them.

use std::ops::Range;

use super::card;

/// Most white space and dashes between two groups.
pub(super) const GAP: usize = 3;
/// Fewest and one more than most digits of a telephone number.
const PHONE: Range<u32> = 7..16;
/// Fewest digits of one whose prefix or area tells its shape.
const SHAPED: u64 = 9;
/// Fewest and most digits of a card.
const CARD: std::ops::RangeInclusive<u32> = 13..=19;

/// Bytes behind digits in which the letters of a spelled number begin.
const SIGN: usize = 12;

/// Groups of digits that stand together, as a telephone number's may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Glance {
    /// Where the last group ends.
    pub(super) end: usize,
    /// Whether a telephone number may be among them.
    pub(super) phone: Chance,
    /// Whether a card may be among them.
    pub(super) card: bool,
    /// Whether three dots in a row join four groups.
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

/// What the groups so far are like. Sizes are the last eight, the newest in the lowest byte.
#[derive(Debug, Default)]
struct Seen {
    sizes: u64,
    digits: u32,
    /// Which of the last groups have a prefix's zero or an area's parentheses, the newest in the lowest bit.
    prefixes: u32,
    prefixed: bool,
    /// Whether some of them may have the shape of a telephone number.
    shaped: bool,
    /// Digits since a sign that no card has between its groups, and where the first of them stands.
    run: u32,
    begin: usize,
    /// How many digits the first group of these has.
    first: u32,
    dots: u32,
    glance: Glance,
}

impl Seen {
    fn group(&mut self, bytes: &[u8], digits: Range<usize>, separator: u8, parenthesis: bool) {
        let size = u32::try_from(digits.len()).unwrap_or(u32::MAX).min(255);
        self.digits = self.digits.saturating_add(size);
        self.sizes = self.sizes << 8 | u64::from(size);
        let last = |bytes: u32| self.sizes & ((1 << (8 * bytes)) - 1);
        // What a telephone number without a plus may look like: of North America, with an exit or a trunk prefix, or
        // with an area in parentheses.
        self.shaped |= matches!(size, 10 | 11) || matches!(last(2), 0x06_04 | 0x03_07) || last(3) == 0x03_03_04;
        let prefix = parenthesis || (separator == b' ' && bytes.get(digits.start) == Some(&b'0'));
        self.prefixes = self.prefixes << 1 | u32::from(prefix);
        if self.prefixes & 0x3f != 0 {
            self.prefixed = true;
            let sum: u64 = (0..6).map(|i| (self.sizes >> (8 * i)) & 0xff).sum();
            self.shaped |= sum >= SHAPED;
        }
        if separator == b'.' {
            self.dots += 1;
            self.glance.dotted |= self.dots == 3;
        } else {
            self.dots = 0;
        }
        // What a card may look like that does not take all of them, and how many digits that has.
        let card = match size {
            13..=19 => size,
            4 if last(4) == 0x04_04_04_04 => 16,
            1..=3 if last(5) >> 8 == 0x04_04_04_04 => 16 + size,
            4 | 5 if last(3) >> 8 == 0x04_06 => 10 + size,
            _ => 0,
        };
        if card > 0 {
            self.glance.card |= card::may_end(bytes, digits.end, card);
        }
        if parenthesis || matches!(separator, b'/' | b')') {
            self.end_run(bytes);
            self.begin = digits.start;
        }
        if self.run == 0 {
            self.first = size;
        }
        self.run = self.run.saturating_add(size);
        self.glance.end = digits.end + usize::from(parenthesis);
    }

    fn end_run(&mut self, bytes: &[u8]) {
        if self.run >= *CARD.start() {
            let word = |i: usize| bytes.get(i).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
            // Digits that belong to a word are none of a card's.
            let before = if self.begin.checked_sub(1).is_some_and(word) { self.first } else { 0 };
            let behind = if word(self.glance.end) { (self.sizes & 0xff) as u32 } else { 0 };
            let count = self.run.saturating_sub(before + behind);
            // Some signs join a telephone number's groups, but not a card's.
            let joined = |b: &u8| b.is_ascii_digit() || matches!(b, b' ' | b'-' | b'.');
            let plain = || bytes.get(self.begin..self.glance.end).is_some_and(|run| run.iter().all(joined));
            self.glance.card |=
                CARD.contains(&count) && (count < self.run || !plain() || card::may_end(bytes, self.glance.end, count));
        }
        self.run = 0;
    }
}

/// Looks at the groups that begin with a digit, or a `+` or `(` before one.
pub(super) fn glance(bytes: &[u8], start: usize) -> Glance {
    let byte = |i: usize| bytes.get(i).copied().unwrap_or_default();
    let plus = byte(start) == b'+';
    let mut at = start + usize::from(plus);
    let (mut seen, mut separator) = (Seen::default(), b' ');
    seen.glance.end = start + 1;
    seen.begin = at;
    loop {
        let open = byte(at) == b'(';
        let from = at + usize::from(open);
        let mut end = from;
        while byte(end).is_ascii_digit() {
            end += 1;
        }
        if end == from || (open && (byte(end) != b')' || end - from > 5)) {
            break;
        }
        seen.group(bytes, from..end, separator, open);
        let stop = end + usize::from(open);
        // Most groups have one sign between them.
        let sign = byte(stop);
        if !open && matches!(sign, b' ' | b'-' | b'.' | b'/') && byte(stop + 1).is_ascii_digit() {
            (separator, at) = (sign, stop + 1);
            continue;
        }
        let Some(next) = next(bytes, stop, open) else { break };
        (separator, at) = next;
    }
    seen.end_run(bytes);
    let Seen { digits, prefixed, shaped, mut glance, .. } = seen;
    glance.phone = if digits < PHONE.start {
        Chance::No
    } else if plus || shaped || (prefixed && digits < PHONE.end) {
        Chance::Yes
    } else if digits < PHONE.end {
        Chance::IfTold
    } else {
        Chance::No
    };
    if may_be_spelled(bytes, start + usize::from(plus), glance.end) {
        glance.phone = Chance::Yes;
    }
    glance
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

/// Whether letters may go on with a number that is spelled: `1-800-FLOWERS`.
fn may_be_spelled(bytes: &[u8], start: usize, end: usize) -> bool {
    let near = bytes.get(end..).map(|rest| rest.get(..SIGN).unwrap_or(rest)).unwrap_or_default();
    matches!(bytes.get(start), Some(b'1' | b'8')) && near.iter().any(u8::is_ascii_uppercase)
}
