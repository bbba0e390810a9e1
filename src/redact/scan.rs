//! One pass over a text for all detectors: it stops where one of them could find something, and asks that one.

use std::ops::Range;

use super::{
    Detector, Rules, RulesError, card,
    email::{self, Emails},
    groups::{Chance, glance},
    iban,
    ip::Ips,
    named::{Named, Placeholders},
    normal::Normal,
    phone::{self, Phones},
    rules::{FREE_TEXT, TOMBSTONE, TOO_LONG, UNKNOWN_FIELD},
    shapes::Shapes,
    words::Words,
};

/// What detectors need, compiled.
#[derive(Debug)]
pub(super) struct Scanner {
    shapes: Shapes,
    words: Words,
    kept: Kept,
}

/// What is looked for in one text, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    /// What is looked for.
    pub(super) detectors: &'a [Detector],
    /// The name under which the text stands, if any.
    pub(super) key: Option<&'a str>,
    /// Whether secrets are looked for behind names as well. Of JSON, the names of its fields have told.
    pub(super) names: bool,
}

impl Scanner {
    /// Compiles what the detectors of some rules need.
    pub(super) fn new(rules: &Rules) -> Result<Scanner, RulesError> {
        let words = Words::new(&rules.email, &rules.phone);
        let mut own: Vec<String> = Detector::ALL.map(|d| rules.replacement(d).to_owned()).into();
        own.retain(|replacement| !replacement.starts_with(USUAL));
        Ok(Scanner { shapes: Shapes::new()?, words, kept: Kept { own } })
    }

    /// Whether a text is nothing but a placeholder.
    pub(super) fn is_placeholder(&self, text: &str) -> bool {
        self.kept.at_start(text) == Some(text.len())
    }

    /// What is found, in places of the source; in no order.
    pub(super) fn find(&self, source: &str, look: Look<'_>) -> Vec<(Range<usize>, Detector)> {
        let normal = Normal::of(source);
        let mut found = Vec::new();
        self.pass(&normal, look, |range, detector| found.push((normal.source(range), detector)));
        found
    }

    fn pass(&self, text: &Normal<'_>, look: Look<'_>, mut found: impl FnMut(Range<usize>, Detector)) {
        let has = |detector| look.detectors.contains(&detector);
        let (email, phone, card) = (has(Detector::Email), has(Detector::Phone), has(Detector::Card));
        let (iban, ip, secret) = (has(Detector::Iban), has(Detector::Ip), has(Detector::Secret));
        if secret {
            self.shapes.find(text.text(), |range| found(range, Detector::Secret));
        }
        let names = secret && look.names;
        let (mut emails, mut phones, mut ips, mut named) =
            (Emails::default(), Phones::default(), Ips::default(), Named::default());
        let mut groups = Vec::new();
        if names && let Some(range) = named.start(text, &self.kept) {
            found(range, Detector::Secret);
        }
        let bytes = text.bytes();
        let mut next = 0;
        while let Some(i) = candidate(bytes, next) {
            next = i + 1;
            let Some(byte) = bytes.get(i) else { break };
            match *byte {
                b'0'..=b'9' | b'+' | b'(' => {
                    let glance = glance(bytes, i);
                    next = glance.end;
                    let possible = match glance.phone {
                        Chance::No => false,
                        Chance::IfTold => phone && phone::is_told(text, i, look.key, &self.words),
                        Chance::Yes => phone,
                    };
                    if possible {
                        phones.through(text, i..next, look.key, &self.words, |range| found(range, Detector::Phone));
                    }
                    if card && glance.card {
                        cards(text.text(), i..next, &mut groups, |range| found(range, Detector::Card));
                    }
                    if ip && glance.dotted {
                        let dots =
                            bytes.get(i..next).unwrap_or_default().iter().enumerate().filter(|(_, b)| **b == b'.');
                        for (n, _) in dots {
                            found_in(ips.at(text.text(), i + n), Detector::Ip, &mut found);
                        }
                    }
                    if iban && i.checked_sub(1).and_then(|i| bytes.get(i)).is_some_and(u8::is_ascii_alphabetic) {
                        found_in(iban::at(text.text(), i), Detector::Iban, &mut found);
                    }
                }
                b':' | b'=' | b'>' => {
                    if ip && *byte == b':' {
                        found_in(ips.at(text.text(), i), Detector::Ip, &mut found);
                    }
                    if names {
                        found_in(named.sign(text, i, &self.kept), Detector::Secret, &mut found);
                    }
                    if email && *byte == b'=' {
                        found_in(emails.at(text, i, &self.words), Detector::Email, &mut found);
                    }
                }
                b'@' => {
                    if email {
                        found_in(emails.at(text, i, &self.words), Detector::Email, &mut found);
                    }
                }
                // A blank.
                _ => match bytes.get(next) {
                    Some(b'a' | b'A') if email => {
                        found_in(emails.at(text, i, &self.words), Detector::Email, &mut found);
                    }
                    Some(b'i' | b'I' | b'w' | b'W' | b'-') if names => {
                        found_in(named.blank(text, i, &self.kept), Detector::Secret, &mut found);
                    }
                    _ => {}
                },
            }
        }
    }
}

/// The cards in groups of digits that stand together.
fn cards(text: &str, range: Range<usize>, groups: &mut Vec<card::Group>, mut found: impl FnMut(Range<usize>)) {
    let mut at = range.start;
    let digit = |at: usize| text.as_bytes().get(at..range.end)?.iter().position(u8::is_ascii_digit).map(|n| at + n);
    while let Some(digit) = digit(at) {
        at = card::find(text, digit, groups, &mut found);
    }
}

fn found_in(range: Option<Range<usize>>, detector: Detector, found: &mut impl FnMut(Range<usize>, Detector)) {
    if let Some(range) = range {
        found(range, detector);
    }
}

/// What tells that a detector could find something, a bit each: a blank, a digit, what may stand before the first digit
/// of a number, what may stand between a name and its value, an `@`.
const BLANK: u8 = 1;
const DIGIT: u8 = 2;
const BEFORE: u8 = 4;
const SIGN: u8 = 8;
const AT: u8 = 16;

/// Which of these each byte is, and which tell something if that byte stands behind them.
#[expect(clippy::indexing_slicing, reason = "a constant, made when it is compiled")]
const TELLING: [(u8, u8); 256] = {
    let mut telling = [(0, 0); 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        let is = match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0c => BLANK,
            b'0'..=b'9' => DIGIT,
            b'+' | b'(' => BEFORE,
            b':' | b'=' | b'>' => SIGN,
            b'@' => AT,
            _ => 0,
        };
        // "At", "is", "was", and a flag.
        let word = matches!(byte, b'a' | b'A' | b'i' | b'I' | b'w' | b'W' | b'-');
        let mut behind = SIGN;
        behind |= if word { BLANK } else { 0 };
        // One digit alone before a letter is no group of several.
        behind |= if byte.is_ascii_alphabetic() { 0 } else { DIGIT };
        behind |= if byte.is_ascii_digit() || byte == b'(' { BEFORE } else { 0 };
        behind |= if email::may_begin(byte) { AT } else { 0 };
        telling[i] = (is, behind);
        i += 1;
    }
    telling
};

/// The next place at which a detector could find something, by its byte and the one behind it: at the last byte of a text
/// none does.
fn candidate(bytes: &[u8], from: usize) -> Option<usize> {
    let telling = |b: u8| TELLING.get(usize::from(b)).copied().unwrap_or_default();
    let tells = |pair: &[u8]| matches!(pair, [byte, behind] if telling(*byte).0 & telling(*behind).1 != 0);
    bytes.get(from..)?.windows(2).position(tells).map(|n| from + n)
}

/// How the usual placeholders begin.
const USUAL: &str = "[REDACTED:";
/// How hashes begin.
const HASH: &str = "[HASH:";
/// The longest placeholder of ours, in bytes.
const LONGEST: usize = 40;

/// What stands in place of what was cut.
#[derive(Debug)]
struct Kept {
    /// Replacements of a pack.
    own: Vec<String>,
}

impl Placeholders for Kept {
    fn at_start(&self, text: &str) -> Option<usize> {
        let own = || self.own.iter().find(|own| text.starts_with(own.as_str())).map(String::len);
        if !(text.starts_with(USUAL) || text.starts_with(HASH)) {
            return own();
        }
        let bytes = text.as_bytes().get(..LONGEST).unwrap_or(text.as_bytes());
        let end = bytes.iter().position(|b| *b == b']')?;
        let inside = bytes.get(1..end)?;
        let word = inside.iter().all(|b| b.is_ascii_uppercase() || matches!(b, b':' | b'_'));
        // Hashes are letters.
        (word || text.starts_with(HASH) && inside.len() == HASH.len() - 1 + 20).then_some(end + 1)
    }
}

const _: () = assert!(
    UNKNOWN_FIELD.len() <= LONGEST
        && FREE_TEXT.len() <= LONGEST
        && TOMBSTONE.len() <= LONGEST
        && TOO_LONG.len() <= LONGEST
);

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    static SCANNER: LazyLock<Scanner> = LazyLock::new(|| Scanner::new(&Rules::standard()).unwrap());

    fn by_scanner(detector: Detector, text: &str) -> Vec<Range<usize>> {
        let found = SCANNER.find(text, Look { detectors: &[detector], key: None, names: true });
        found.into_iter().map(|(range, _)| range).collect()
    }

    /// Every place is looked at, whatever is around it.
    fn one_by_one(detector: Detector, text: &str) -> Vec<Range<usize>> {
        let normal = Normal::of(text);
        let (words, kept) = (&SCANNER.words, &SCANNER.kept);
        let bytes = normal.bytes();
        let places = |is: fn(&u8) -> bool| (0..bytes.len()).filter(move |i| bytes.get(*i).is_some_and(is));
        let mut found = Vec::new();
        match detector {
            Detector::Phone => phone::find(&normal, None, words, &mut found),
            Detector::Email => email::find(&normal, words, &mut found),
            Detector::Card => {
                let (mut groups, mut at) = (Vec::new(), 0);
                while let Some(digit) = normal.next_from(at, |b| b.is_ascii_digit()) {
                    at = card::find(normal.text(), digit, &mut groups, |range| found.push(range));
                }
            }
            Detector::Iban => {
                found.extend(places(u8::is_ascii_digit).filter_map(|digit| iban::at(normal.text(), digit)))
            }
            Detector::Ip => {
                let mut ips = Ips::default();
                found.extend(places(|b| matches!(b, b':' | b'.')).filter_map(|sign| ips.at(normal.text(), sign)));
            }
            Detector::Secret => {
                let mut named = Named::default();
                SCANNER.shapes.find(normal.text(), |range| found.push(range));
                found.extend(named.start(&normal, kept));
                let all = places(|b| matches!(b, b':' | b'=' | b'>') || b.is_ascii_whitespace());
                found.extend(all.filter_map(|i| match bytes.get(i) {
                    Some(b':' | b'=' | b'>') => named.sign(&normal, i, kept),
                    _ => named.blank(&normal, i, kept),
                }));
            }
        }
        found.into_iter().map(|range| normal.source(range)).collect()
    }

    const NUMBERS: [&str; 45] = [
        "1",
        "4",
        "8",
        "0",
        "12",
        "00",
        "30",
        "415",
        "555",
        "800",
        "0132",
        "4111",
        "1111",
        "1112",
        "822463",
        "10005",
        "4155550132",
        "4111111111111111",
        "4111 1111 1111 1111",
        "3782-822463-10005",
        "\t",
        " ",
        " ",
        "-",
        "-",
        ".",
        "/",
        "  ",
        " - ",
        "\u{2013}",
        "(",
        ")",
        "(415)",
        "+",
        "+1",
        "+49 ",
        "(0)",
        "FLOWERS",
        "x5",
        "call ",
        "order ",
        "a",
        "\n",
        "\u{fe63}",
        "\u{b}",
    ];

    const ADDRESSES: [&str; 46] = [
        "@",
        "@",
        "jane",
        "a",
        "b2",
        "example.com",
        "latest",
        "png",
        "123",
        "é",
        "at",
        " at ",
        " dot ",
        "com",
        "=40",
        "&#64;",
        "\u{200b}",
        "\"",
        "{",
        "}",
        "[",
        "]",
        "%",
        "+",
        "-",
        "_",
        ".",
        " ",
        "\n",
        "\u{85}",
        "1.2.3.4",
        "255",
        "256",
        "01",
        "10.0.0.1",
        "1",
        ":",
        "::",
        "fe80",
        "ffff",
        "zz",
        "2001:db8::",
        "1:2:3:4:5:6:7:8",
        "v",
        "/",
        "(5)",
    ];

    const NAMES: [&str; 46] = [
        "DE89 3704 0044 0532 0130 00",
        "GB82WEST12345698765432",
        "NO93 8601 1117 947",
        "DE89",
        "37040044",
        "0532",
        "013000",
        "GB",
        "NO",
        "x",
        "89",
        "\u{2013}",
        "_",
        "0",
        "password",
        "token",
        "api_key",
        "apiKey",
        "name",
        "value",
        "pass",
        "pin",
        "b",
        "cookie",
        "hunter22",
        "abcd",
        "12345",
        "=",
        ":",
        ":",
        "=>",
        ":=",
        "://",
        "u:p@h",
        "<password>",
        "</",
        "--token ",
        " is ",
        " was ",
        "\"",
        "'",
        " ",
        "-",
        "\n",
        "[REDACTED:SECRET]",
        "naïve",
    ];

    #[test]
    fn a_card_is_found_beside_signs_that_only_other_numbers_have() {
        for (text, card) in [
            ("(415)-304111 1111 1111 11110", "304111 1111 1111 11110"),
            ("4153782-822463-10005  \u{fe63}2550132", "4153782-822463-10005"),
            ("0132.-4111 1111 1111 111100", "4111 1111 1111 111100"),
        ] {
            let found = by_scanner(Detector::Card, text);
            assert_eq!(found.into_iter().map(|range| text.get(range).unwrap()).collect::<Vec<_>>(), [card], "{text}");
        }
    }

    fn texts(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(pieces), 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn what_is_passed_over_at_a_glance_holds_nothing(
            text in prop_oneof![texts(&NUMBERS), texts(&ADDRESSES), texts(&NAMES)],
        ) {
            for detector in Detector::ALL {
                prop_assert_eq!(by_scanner(detector, &text), one_by_one(detector, &text), "{} {:?}", text, detector);
            }
        }
    }
}
