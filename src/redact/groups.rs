//! Groups of digits from afar: whether a telephone number or a card can be among those that stand together, so that
//! most of them are passed over at one glance, whatever is looked for in them.

/// Most white space and dashes between two groups.
pub(super) const GAP: usize = 3;
/// Fewest and one more than most digits of a telephone number.
const PHONE: std::ops::Range<u32> = 7..16;
/// Fewest digits of a part of longer groups that has the shape of a telephone number.
const SHAPED: u32 = 9;
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
    pub(super) phone: bool,
    /// Whether a card may be among them.
    pub(super) card: bool,
    /// Whether three dots in a row join four groups.
    pub(super) dotted: bool,
}

/// What the groups so far are like. Sizes are the last eight, the newest in the lowest byte.
#[derive(Debug, Default)]
struct Seen {
    sizes: u64,
    /// Whether a number may begin with each of the last groups, the newest in the lowest bit.
    begins: u32,
    /// Which of them are in parentheses.
    parentheses: u32,
    digits: u32,
    /// Digits since a sign that no card has between its groups.
    run: u32,
    dots: u32,
    glance: Glance,
}

impl Seen {
    fn group(&mut self, size: usize, first: u8, separator: u8, parenthesis: bool) {
        let size = u32::try_from(size).unwrap_or(u32::MAX).min(255);
        self.digits = self.digits.saturating_add(size);
        self.sizes = self.sizes << 8 | u64::from(size);
        // Of the groups that a number may have, the first tells most: how long it is, and what it begins with.
        let begins = separator == b' ' && (matches!(size, 1 | 3 | 6 | 10 | 11) || first == b'0');
        self.begins = self.begins << 1 | u32::from(begins);
        self.parentheses = self.parentheses << 1 | u32::from(parenthesis);
        self.glance.phone |= self.window(6);
        if separator == b'.' {
            self.dots += 1;
            self.glance.dotted |= self.dots == 3;
        } else {
            self.dots = 0;
        }
        if parenthesis || matches!(separator, b'/' | b')') {
            self.end_run();
        }
        self.run = self.run.saturating_add(size);
        let last = |bytes: u32| self.sizes & ((1 << (8 * bytes)) - 1);
        self.glance.card |=
            CARD.contains(&size) || last(4) == 0x0404_0404 || matches!(last(3), 0x04_06_04 | 0x04_06_05);
    }

    /// Whether a number may begin with the n-th last group and go on up to the last.
    fn window(&self, n: u32) -> bool {
        let first = (self.begins >> (n - 1)) & 1 == 1 || self.parentheses & ((1 << n) - 1) != 0;
        first && (0..n).map(|i| (self.sizes >> (8 * i)) as u32 & 0xff).sum::<u32>() >= SHAPED
    }

    fn end_run(&mut self) {
        self.glance.card |= CARD.contains(&self.run);
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
        seen.group(end - from, byte(from), separator, open);
        let stop = end + usize::from(open);
        seen.glance.end = stop;
        // Most groups have one sign between them.
        let sign = byte(stop);
        if !open && matches!(sign, b' ' | b'-' | b'.' | b'/') && byte(stop + 1).is_ascii_digit() {
            (separator, at) = (sign, stop + 1);
            continue;
        }
        let Some(next) = next(bytes, stop, open) else { break };
        (separator, at) = next;
    }
    seen.end_run();
    let Seen { digits, mut glance, .. } = seen;
    glance.phone |= PHONE.contains(&digits) || (digits >= PHONE.end && (plus || (1..6).any(|n| seen.window(n))));
    glance.phone |= may_be_spelled(bytes, start + usize::from(plus), glance.end);
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
