//! One pass over a text for all detectors: it stops where one of them could find something, and asks that one.

use std::ops::Range;

use super::{
    Detector, Rules, RulesError, card,
    email::Emails,
    iban,
    ip::Ips,
    named::{Named, Placeholders},
    normal::Normal,
    phone::Phones,
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
        let (mut groups, mut card_from) = (Vec::new(), 0);
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
                b'0'..=b'9' => {
                    let before = i.checked_sub(1).and_then(|i| bytes.get(i));
                    if phone {
                        phones.at(text, i, look.key, &self.words, |range| found(range, Detector::Phone));
                    }
                    if card && i >= card_from {
                        card_from = card::find(text.text(), i, &mut groups, |range| found(range, Detector::Card));
                    }
                    if iban
                        && before.is_some_and(u8::is_ascii_alphabetic)
                        && let Some(range) = iban::at(text.text(), i)
                    {
                        found(range, Detector::Iban);
                    }
                    let digits = bytes.get(i..).unwrap_or_default();
                    next = digits.iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |n| i + n);
                }
                b'+' | b'(' => {
                    if phone {
                        phones.at(text, i, look.key, &self.words, |range| found(range, Detector::Phone));
                    }
                }
                b'.' | b':' | b'=' | b'>' => {
                    if ip
                        && matches!(byte, b'.' | b':')
                        && let Some(range) = ips.at(text.text(), i)
                    {
                        found(range, Detector::Ip);
                    }
                    if names
                        && *byte != b'.'
                        && let Some(range) = named.sign(text, i, &self.kept)
                    {
                        found(range, Detector::Secret);
                    }
                    if email
                        && *byte == b'='
                        && let Some(range) = emails.at(text, i, &self.words)
                    {
                        found(range, Detector::Email);
                    }
                }
                b'@' => found_in(email.then(|| emails.at(text, i, &self.words)).flatten(), Detector::Email, &mut found),
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

fn found_in(range: Option<Range<usize>>, detector: Detector, found: &mut impl FnMut(Range<usize>, Detector)) {
    if let Some(range) = range {
        found(range, detector);
    }
}

/// Whether a detector could find something at such a byte.
fn is_telling(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'+' | b'(' | b'.' | b':' | b'=' | b'>' | b'@' | b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
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
