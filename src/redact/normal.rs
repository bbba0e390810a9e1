//! Text as a reader would see it: what is invisible is left out, and characters that were written as
//! full-width forms, HTML entities, percent escapes or bracketed words stand there plainly. Every
//! unit remembers which bytes of the source it came from, so that what is found can be cut out.

use std::ops::Range;

/// One character of the normal text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// The character.
    pub c: char,
    start: usize,
    end: usize,
}

/// The normal text of a source.
#[derive(Debug, Default)]
pub(super) struct Normal {
    units: Vec<Unit>,
    /// How often a unit was asked for: what a search costs, whatever the machine.
    #[cfg(test)]
    pub(super) reads: std::cell::Cell<u64>,
}

/// Spellings of `@` and `.` that are meant to be read by people and missed by machines.
const BRACKETED: [(&str, char); 8] = [
    ("[at]", '@'),
    ("(at)", '@'),
    ("{at}", '@'),
    ("<at>", '@'),
    ("[.]", '.'),
    ("(.)", '.'),
    ("[dot]", '.'),
    ("(dot)", '.'),
];

/// Named entities that hide an address.
const ENTITIES: [(&str, char); 4] = [("&commat;", '@'), ("&period;", '.'), ("&plus;", '+'), ("&lowbar;", '_')];

/// The longest spelling looked at, in bytes: `&#0000064;`.
const LONGEST: usize = 10;

impl Normal {
    /// Reads a source text. Linear: at each character at most [`LONGEST`] bytes are looked ahead.
    pub(super) fn of(text: &str) -> Normal {
        let mut units = Vec::with_capacity(text.len());
        let mut at = 0;
        while let Some(rest) = text.get(at..) {
            let Some(c) = rest.chars().next() else { break };
            let (read, length) = special(rest, c).unwrap_or((Some(plain(c)), c.len_utf8()));
            if let Some(c) = read.filter(|c| !is_invisible(*c)) {
                units.push(Unit { c, start: at, end: at + length });
            }
            at += length;
        }
        Normal {
            units,
            #[cfg(test)]
            reads: std::cell::Cell::default(),
        }
    }

    /// How many units there are.
    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    /// The character at a place.
    pub(super) fn at(&self, i: usize) -> Option<char> {
        #[cfg(test)]
        self.reads.set(self.reads.get() + 1);
        self.units.get(i).map(|u| u.c)
    }

    /// The first place from `i` on with such a character.
    pub(super) fn next_from(&self, i: usize, is: impl Fn(char) -> bool) -> Option<usize> {
        let next = self.units.get(i..)?.iter().position(|u| is(u.c)).map(|n| i + n);
        #[cfg(test)]
        self.reads.set(self.reads.get() + (next.map_or(self.len(), |next| next + 1) - i) as u64);
        next
    }

    /// The character before a place.
    pub(super) fn before(&self, i: usize) -> Option<char> {
        self.at(i.checked_sub(1)?)
    }

    /// The bytes of the source that some units came from, with what is invisible between them.
    pub(super) fn source(&self, units: Range<usize>) -> Option<Range<usize>> {
        let first = self.units.get(units.start)?;
        let last = self.units.get(units.end.checked_sub(1)?)?;
        Some(first.start..last.end)
    }

    /// Some units as text.
    pub(super) fn text(&self, units: Range<usize>) -> String {
        units.filter_map(|i| self.at(i)).collect()
    }

    /// Some units as text in lower case, in the place of what `out` held.
    pub(super) fn lower(&self, units: Range<usize>, out: &mut String) {
        out.clear();
        out.extend(units.filter_map(|i| self.at(i)));
        match out.is_ascii() {
            true => out.make_ascii_lowercase(),
            false => *out = out.to_lowercase(),
        }
    }

    /// Whether some units are a number up to 255, in ASCII digits.
    pub(super) fn octet(&self, units: &Range<usize>) -> bool {
        let digits = || units.clone().map(|i| self.at(i).and_then(|c| c.to_digit(10)));
        let number = digits().try_fold(0, |n: u32, digit| Some((n * 10 + digit?).min(256)));
        !units.is_empty() && number.is_some_and(|n| n < 256)
    }

    /// Whether the units from `i` on spell `word`, letters of any case.
    pub(super) fn spells(&self, i: usize, word: &str) -> bool {
        word.chars().enumerate().all(|(k, w)| self.at(i + k).is_some_and(|c| c.eq_ignore_ascii_case(&w)))
    }
}

fn special(rest: &str, c: char) -> Option<(Option<char>, usize)> {
    let head = || {
        let mut end = rest.len().min(LONGEST);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        rest.get(..end).unwrap_or_default()
    };
    let starts = |word: &str| head().get(..word.len()).is_some_and(|h| h.eq_ignore_ascii_case(word));
    match c {
        // Brackets are common where addresses are not: the next character tells most of them apart.
        '[' | '(' | '{' | '<' if matches!(rest.as_bytes().get(1), Some(b'a' | b'A' | b'd' | b'D' | b'.')) => {
            BRACKETED.iter().find(|(word, _)| starts(word)).map(|(word, read)| (Some(*read), word.len()))
        }
        '&' => {
            if let Some((word, read)) = ENTITIES.iter().find(|(word, _)| starts(word)) {
                return Some((Some(*read), word.len()));
            }
            let body = head().strip_prefix("&#")?;
            let (digits, _) = body.split_once(';')?;
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            Some((char::from_u32(code), "&#;".len() + digits.len()))
        }
        '%' => {
            let code = u8::from_str_radix(head().get(1..3)?, 16).ok()?;
            (0x20..0x7f).contains(&code).then_some((Some(char::from(code)), 3))
        }
        _ => None,
    }
}

/// Full-width forms as their ASCII originals.
fn plain(c: char) -> char {
    match u32::from(c) {
        code @ 0xff01..=0xff5e => char::from_u32(code - 0xfee0).unwrap_or(c),
        0xfe6b => '@',
        _ => c,
    }
}

/// Characters that leave no mark and no gap.
fn is_invisible(c: char) -> bool {
    matches!(u32::from(c),
        0xad | 0x34f | 0x61c | 0x180e | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x2064 | 0x2066..=0x206f
        | 0xfe00..=0xfe0f | 0xfeff | 0xe0000..=0xe0fff)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_reads_alike_and_maps_back() {
        for text in ["j&#64;x", "j&#x40;x", "j%40x", "j\u{ff20}x", "j[at]x", "j\u{200b}@x", "j&commat;x"] {
            let normal = Normal::of(text);
            assert_eq!(normal.text(0..normal.len()), "j@x", "{text}");
            assert_eq!(normal.source(0..3).unwrap(), 0..text.len(), "{text}");
        }
    }

    #[test]
    fn what_is_no_spelling_stays() {
        for text in ["100% sure", "a & b", "&#;", "%zz", "[a", "&#64"] {
            let normal = Normal::of(text);
            assert_eq!(normal.text(0..normal.len()), text);
        }
    }
}
