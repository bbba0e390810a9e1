//! Text as a reader would see it: what is invisible is left out, and characters that were written as full-width
//! forms, digits of other scripts, HTML entities, percent or backslash escapes or bracketed words stand there plainly.
//! Each change remembers which bytes of the source it came from, so that what is found can be cut out.
//!
//! A text without any of that is read where it stands. Places are bytes of the normal text; a place inside a character
//! of several bytes stands for that character, so that a search can go on byte by byte.

use std::{borrow::Cow, ops::Range};

/// The normal text of a source.
#[derive(Debug)]
pub(super) struct Normal<'a> {
    text: Cow<'a, str>,
    /// Where the two texts differ, ascending.
    changes: Vec<Change>,
    /// How often a character was asked for: what a search costs, whatever the machine.
    #[cfg(test)]
    pub(super) reads: std::cell::Cell<u64>,
}

/// A character of the source that stands differently, or not at all, in the normal text.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// Its place in the normal text, and its bytes there: none if it is invisible.
    at: usize,
    bytes: u8,
    /// Its place in the source, and its bytes there.
    source: usize,
    spelled: u8,
}

impl Change {
    fn end(&self) -> usize {
        self.at + usize::from(self.bytes)
    }

    fn source_end(&self) -> usize {
        self.source + usize::from(self.spelled)
    }
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

/// Named entities that hide an address or a setting.
const ENTITIES: [(&str, char); 8] = [
    ("&commat;", '@'),
    ("&period;", '.'),
    ("&plus;", '+'),
    ("&lowbar;", '_'),
    ("&colon;", ':'),
    ("&equals;", '='),
    ("&quot;", '"'),
    ("&nbsp;", ' '),
];

/// The longest spelling looked at, in bytes: `&#0000064;`.
const LONGEST: usize = 10;

/// Groups of bytes with which a character may begin that is read differently, a bit each: brackets, `&`, `%`, a backslash,
/// and what leads the bytes of a character.
const BRACKET: u8 = 1;
const ENTITY: u8 = 2;
const PERCENT: u8 = 4;
const ESCAPE: u8 = 8;
const LETTER: u8 = 16;
const SIGN: u8 = 32;
const OTHER: u8 = 64;

/// In which of these each byte is, and of which it may be the second byte.
#[expect(clippy::indexing_slicing, reason = "a constant, made when it is compiled")]
const SPECIAL: [(u8, u8); 256] = {
    let mut special = [(0, 0); 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        let first = match byte {
            b'[' | b'(' | b'{' | b'<' => BRACKET,
            b'&' => ENTITY,
            b'%' => PERCENT,
            b'\\' => ESCAPE,
            // Latin, Greek, Cyrillic and Hebrew: a blank, a soft hyphen, and a mark that joins two letters.
            0xc2..=0xd7 => LETTER,
            // Signs, Chinese, Japanese and Korean: blanks, dashes and what is invisible.
            0xe2 | 0xe3 => SIGN,
            0xe4..=0xe9 | 0xeb..=0xee => 0,
            0xd8..=0xf4 => OTHER,
            _ => 0,
        };
        let second = match byte {
            b'.' => BRACKET,
            b'#' => ENTITY,
            b'2'..=b'7' => PERCENT,
            b'a' | b'A' | b'd' | b'D' => BRACKET | ENTITY,
            b'x' | b'u' => ENTITY | ESCAPE,
            b'b'..=b'z' | b'B'..=b'Z' => ENTITY,
            0x80 | 0x81 => SIGN | OTHER,
            0x8f | 0xa0 | 0xad => LETTER | OTHER,
            0x82..=0xbf => OTHER,
            _ => 0,
        };
        special[i] = (first, second);
        i += 1;
    }
    special
};

/// The first place from one on at which a character may have to be read differently: the second byte tells most of them.
fn next_special(bytes: &[u8], from: usize) -> Option<usize> {
    let of = |byte: u8| SPECIAL.get(usize::from(byte)).copied().unwrap_or_default();
    let is = |pair: &[u8]| matches!(pair, [first, second] if of(*first).0 & of(*second).1 != 0);
    bytes.get(from..)?.windows(2).position(is).map(|next| from + next)
}

impl<'a> Normal<'a> {
    /// Reads a source text. Linear: at each character at most [`LONGEST`] bytes are looked ahead.
    pub(super) fn of(source: &'a str) -> Normal<'a> {
        let bytes = source.as_bytes();
        let (mut text, mut changes) = (String::new(), Vec::new());
        let (mut at, mut copied) = (0, 0);
        while let Some(next) = next_special(bytes, at) {
            at = next;
            let special = source.get(at..).and_then(special);
            let Some((read, spelled)) = special else {
                // No byte inside a character is one at which to stop.
                at += 1;
                continue;
            };
            text.push_str(source.get(copied..at).unwrap_or_default());
            let place = text.len();
            text.extend(read);
            let bytes = read.map_or(0, |c| c.len_utf8() as u8);
            changes.push(Change { at: place, bytes, source: at, spelled });
            at += usize::from(spelled);
            copied = at;
        }
        let text = if changes.is_empty() {
            Cow::Borrowed(source)
        } else {
            text.push_str(source.get(copied..).unwrap_or_default());
            Cow::Owned(text)
        };
        Normal {
            text,
            changes,
            #[cfg(test)]
            reads: std::cell::Cell::default(),
        }
    }

    /// The normal text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// How many bytes there are.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// The byte at a place.
    pub(super) fn byte(&self, i: usize) -> Option<u8> {
        self.looked(1);
        self.bytes().get(i).copied()
    }

    /// The character at a place.
    pub(super) fn at(&self, i: usize) -> Option<char> {
        match self.byte(i)? {
            ascii @ 0..0x80 => Some(char::from(ascii)),
            _ => self.wide(i),
        }
    }

    #[cold]
    fn wide(&self, i: usize) -> Option<char> {
        let start = (i.saturating_sub(3)..=i).rev().find(|k| self.text.is_char_boundary(*k))?;
        self.text.get(start..)?.chars().next()
    }

    /// The first place from `i` on with such a byte.
    pub(super) fn next_from(&self, i: usize, is: impl Fn(u8) -> bool) -> Option<usize> {
        let next = self.bytes().get(i..)?.iter().position(|b| is(*b)).map(|n| i + n);
        self.looked(next.map_or(self.len(), |next| next + 1) - i);
        next
    }

    /// Where characters of a kind end that begin at a place, at the latest at another one.
    #[inline]
    pub(super) fn forth(&self, from: usize, most: usize, is: impl Fn(char) -> bool) -> usize {
        let bytes = self.bytes();
        let mut at = from;
        loop {
            let near = bytes.get(at..most.min(bytes.len())).unwrap_or_default();
            at += near.iter().take_while(|b| b.is_ascii() && is(char::from(**b))).count();
            let wide = at < most && bytes.get(at).is_some_and(|b| !b.is_ascii());
            if !(wide && self.at(at).is_some_and(&is)) {
                self.looked(at + 1 - from);
                return at;
            }
            at += 1;
        }
    }

    /// Where characters of a kind begin that end at a place, at the earliest at another one.
    #[inline]
    pub(super) fn back(&self, from: usize, least: usize, is: impl Fn(char) -> bool) -> usize {
        let bytes = self.bytes();
        let mut at = from;
        loop {
            let near = bytes.get(least..at).unwrap_or_default();
            at -= near.iter().rev().take_while(|b| b.is_ascii() && is(char::from(**b))).count();
            let wide = at > least && bytes.get(at - 1).is_some_and(|b| !b.is_ascii());
            if !(wide && self.before(at).is_some_and(&is)) {
                self.looked(from + 1 - at);
                return at;
            }
            at -= 1;
        }
    }

    /// The character before a place.
    pub(super) fn before(&self, i: usize) -> Option<char> {
        self.at(i.checked_sub(1)?)
    }

    /// Whether the character at a place was written differently.
    pub(super) fn is_changed(&self, i: usize) -> bool {
        let next = self.changes.partition_point(|change| change.end() <= i);
        self.changes.get(next).is_some_and(|change| change.at <= i)
    }

    /// The bytes of the source that a range came from, with what is invisible between them; whole characters.
    pub(super) fn source(&self, range: Range<usize>) -> Range<usize> {
        let (mut start, mut end) = (range.start.min(self.len()), range.end.min(self.len()));
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        let behind = |next: usize, place: usize| {
            let last = next.checked_sub(1).and_then(|last| self.changes.get(last));
            last.map_or(place, |last| last.source_end() + (place - last.end()))
        };
        // What is invisible right before the first character, or right behind the last, stays.
        let first = self.changes.partition_point(|change| change.end() <= start);
        let last = self.changes.partition_point(|c| c.end() < end || (c.end() == end && c.bytes > 0));
        let start = behind(first, start);
        start..behind(last, end).max(start)
    }

    /// A part of the text, if it begins and ends with whole characters.
    pub(super) fn part(&self, range: &Range<usize>) -> Option<&str> {
        self.looked(range.len());
        self.text.get(range.clone())
    }

    /// Whether a part is a number up to 255.
    pub(super) fn octet(&self, range: &Range<usize>) -> bool {
        let digits = self.bytes().get(range.clone()).unwrap_or_default();
        let number = digits.iter().try_fold(0, |n: u32, b| {
            let digit = char::from(*b).to_digit(10)?;
            Some((n * 10 + digit).min(256))
        });
        !digits.is_empty() && number.is_some_and(|n| n < 256)
    }

    /// Whether the text from `i` on spells an ASCII word, letters of any case.
    pub(super) fn spells(&self, i: usize, word: &str) -> bool {
        self.looked(1);
        self.bytes().get(i..i + word.len()).is_some_and(|spelled| spelled.eq_ignore_ascii_case(word.as_bytes()))
    }

    #[cfg(test)]
    fn looked(&self, times: usize) {
        self.reads.set(self.reads.get() + times as u64);
    }

    #[cfg(not(test))]
    fn looked(&self, _: usize) {}
}

/// The first character of a text if it is to be read differently, or not at all, and the bytes it was written with.
fn special(rest: &str) -> Option<(Option<char>, u8)> {
    let head = || {
        let mut end = rest.len().min(LONGEST);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        rest.get(..end).unwrap_or_default()
    };
    let starts = |word: &str| head().get(..word.len()).is_some_and(|h| h.eq_ignore_ascii_case(word));
    let bytes = rest.as_bytes();
    match *bytes.first()? {
        b'[' | b'(' | b'{' | b'<' => {
            BRACKETED.iter().find(|(word, _)| starts(word)).map(|(word, read)| (Some(*read), word.len() as u8))
        }
        b'&' => {
            if let Some((word, read)) = ENTITIES.iter().find(|(word, _)| starts(word)) {
                return Some((Some(*read), word.len() as u8));
            }
            let body = head().strip_prefix("&#")?;
            let (digits, _) = body.split_once(';')?;
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            let c = char::from_u32(code)?;
            Some((plain(c).unwrap_or(Some(c)), (digits.len() + "&#;".len()) as u8))
        }
        b'%' => {
            // What was escaped twice has `25`, the sign itself, in between.
            let mut from = 1;
            while bytes.get(from..from + 2) == Some(b"25") && from + 4 <= LONGEST && hex(bytes, from + 2).is_some() {
                from += 2;
            }
            Some((Some(hex(bytes, from)?), from as u8 + 2))
        }
        b'\\' => match bytes.get(1)? {
            b'x' => Some((Some(hex(bytes, 2)?), 4)),
            b'u' if bytes.get(2..4) == Some(b"00") => Some((Some(hex(bytes, 4)?), 6)),
            _ => None,
        },
        0x80.. => {
            let c = rest.chars().next()?;
            plain(c).map(|read| (read, c.len_utf8() as u8))
        }
        _ => None,
    }
}

/// A visible ASCII character, or a blank, by two hexadecimal digits.
fn hex(bytes: &[u8], at: usize) -> Option<char> {
    let digit = |i: usize| bytes.get(i).and_then(|b| char::from(*b).to_digit(16));
    let code = u8::try_from(digit(at)? * 16 + digit(at + 1)?).ok()?;
    (0x20..0x7f).contains(&code).then(|| char::from(code))
}

/// What a character is read as, if not as itself: nothing if it leaves no mark and no gap.
fn plain(c: char) -> Option<Option<char>> {
    let code = u32::from(c);
    match code {
        0xa0 => Some(Some(' ')),
        0xad | 0x34f | 0x61c => Some(None),
        // Letters of Latin, Greek, Cyrillic, Hebrew; signs, Chinese, Japanese and Korean below.
        0..=0x65f => None,
        0x180e | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x2064 | 0x2066..=0x206f => Some(None),
        0xfe00..=0xfe0f | 0xfeff | 0xe0000..=0xe0fff => Some(None),
        0x2028 | 0x2029 => Some(Some('\n')),
        0x1680 | 0x2000..=0x200a | 0x202f | 0x205f | 0x3000 => Some(Some(' ')),
        0x2070..=0xa61f | 0xac00..=0xfdff => None,
        0xff01..=0xff5e => Some(char::from_u32(code - 0xfee0)),
        0xfe6b => Some(Some('@')),
        _ => digit(code).map(Some),
    }
}

/// The value of a decimal digit of another script. They stand in rows of ten that begin at a multiple of 16 or six
/// behind one; the mathematical ones stand in one long row.
fn digit(code: u32) -> Option<char> {
    use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};
    let decimal = |code| char::from_u32(code).is_some_and(|c| c.general_category() == GeneralCategory::DecimalNumber);
    if !decimal(code) {
        return None;
    }
    let value = match code {
        0x1d7ce..=0x1d7ff => (code - 0x1d7ce) % 10,
        _ if decimal(code & !15) => (code & 15) % 10,
        _ => (code & 15).saturating_sub(6),
    };
    char::from_digit(value, 10)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_spelling_reads_alike_and_maps_back() {
        for text in [
            "j&#64;x",
            "j&#x40;x",
            "j%40x",
            "j%2540x",
            "j%252540x",
            "j\u{ff20}x",
            "j[at]x",
            "j\u{200b}@x",
            "j&commat;x",
            "j\\u0040x",
            "j\\x40x",
        ] {
            let normal = Normal::of(text);
            assert_eq!(normal.text(), "j@x", "{text}");
            assert_eq!(normal.source(0..3), 0..text.len(), "{text}");
        }
    }

    #[test]
    fn digits_of_every_script_read_alike() {
        for text in ["0123456789", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "０１２３４５６７８９", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗", "𝟶𝟷𝟸𝟹𝟺𝟻𝟼𝟽𝟾𝟿"]
        {
            assert_eq!(Normal::of(text).text(), "0123456789", "{text}");
        }
    }

    #[test]
    fn what_is_no_spelling_stays() {
        for text in ["100% sure", "a & b", "&#;", "%zz", "[a", "&#64", "\\n", "\\u20ac", "naïve – 你好"] {
            let normal = Normal::of(text);
            assert_eq!(normal.text(), text);
            assert!(normal.changes.is_empty(), "{text}");
        }
    }

    #[test]
    fn what_is_invisible_around_a_part_stays() {
        let normal = Normal::of("a\u{200b}b\u{ad}c\u{200b}d");
        assert_eq!(normal.text(), "abcd");
        assert_eq!(normal.source(1..3), 4..8);
        assert_eq!((normal.is_changed(1), Normal::of("a%20b").is_changed(1)), (false, true));
    }

    #[test]
    fn what_is_passed_over_by_its_first_bytes_is_read_as_it_stands() {
        let all = (0..=0x10_ffff).filter_map(char::from_u32).map(String::from);
        let written =
            ["[at]", "(.)", "{at}", "<AT>", "(DOT)", "&#64;", "&quot;", "&NBSP;", "%40", "%7e", "\\x40", "\\u0040"];
        let mut special_ones = 0;
        for text in all.chain(written.map(str::to_owned)) {
            if special(&text).is_some() {
                special_ones += 1;
                assert_eq!(next_special(text.as_bytes(), 0), Some(0), "{text}");
            }
        }
        assert!(special_ones > written.len() + 500, "{special_ones}");
    }

    proptest! {
        #[test]
        fn each_part_comes_from_a_part_of_the_source(
            text in "(\\PC|[%&#;0-9a-f@]|%40|&#64;|\u{200b}|\u{ad}|\u{ff11}|\\[at\\]){0,40}",
            a in 0_usize..200, b in 0_usize..200,
        ) {
            let normal = Normal::of(&text);
            let part = normal.source(a.min(b)..a.max(b));
            prop_assert!(text.get(part.clone()).is_some(), "{part:?} of {text}");
            prop_assert_eq!(normal.source(0..normal.len()).end <= text.len(), true);
        }
    }
}
