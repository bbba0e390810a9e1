//! One pass over a text for all detectors: it stops where one of them could find something, and asks that one.

use std::ops::Range;

use super::{
    Detector, Rules, RulesError, card,
    email::Emails,
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
        while let Some(i) =
            bytes.get(next..).and_then(|rest| rest.iter().position(|b| is_telling(*b))).map(|n| next + n)
        {
            next = i + 1;
            let Some(byte) = bytes.get(i) else { break };
            match byte {
                b'0'..=b'9' | b'+' | b'(' => {
                    if *byte < b'0' && !bytes.get(next).is_some_and(|b| b.is_ascii_digit() || *b == b'(') {
                        continue;
                    }
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
                    // An address goes on after it; most lone ones have another sign on one side.
                    if email && !matches!(bytes.get(next), None | Some(b'@' | b',' | b';' | b':' | b'.' | b')')) {
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

/// Whether a detector could find something at such a byte.
fn is_telling(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'+' | b'(' | b':' | b'=' | b'>' | b'@' | b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
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
    use proptest::prelude::*;

    use super::*;

    fn by_scanner(detector: Detector, text: &str) -> Vec<Range<usize>> {
        let scanner = Scanner::new(&Rules::standard()).unwrap();
        let found = scanner.find(text, Look { detectors: &[detector], key: None, names: true });
        found.into_iter().map(|(range, _)| range).collect()
    }

    /// Every group of digits is looked at, whatever is around it.
    fn one_by_one(detector: Detector, text: &str) -> Vec<Range<usize>> {
        let normal = Normal::of(text);
        let (mut found, mut groups, mut at) = (Vec::new(), Vec::new(), 0);
        if detector == Detector::Phone {
            let rules = Rules::standard();
            phone::find(&normal, None, &Words::new(&rules.email, &rules.phone), &mut found);
        } else {
            while let Some(digit) = normal.next_from(at, |b| b.is_ascii_digit()) {
                at = card::find(normal.text(), digit, &mut groups, |range| found.push(range));
            }
        }
        found.into_iter().map(|range| normal.source(range)).collect()
    }

    const PIECES: [&str; 43] = [
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
    ];

    proptest! {
        #[test]
        fn what_is_passed_over_at_a_glance_holds_nothing(
            pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..24),
        ) {
            let text = pieces.concat();
            for detector in [Detector::Phone, Detector::Card] {
                prop_assert_eq!(by_scanner(detector, &text), one_by_one(detector, &text), "{} {:?}", text, detector);
            }
        }
    }
}
