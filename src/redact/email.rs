//! E-mail addresses, as people write them: with odd, quoted or non-ASCII local parts, host names
//! without a dot, address literals, and the usual ways to hide one from machines.
//!
//! Anchored at each `@` (and at `=40`, and the word "at" between spaces), with bounded reach to both sides.

use std::ops::Range;

use super::{normal::Normal, words::Words};

/// Longest local part.
const LOCAL: usize = 64;
/// Longest domain.
const DOMAIN: usize = 253;

/// Words that tell addresses from lookalikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmailWords {
    /// File suffixes: `logo@2x.png` is no address.
    pub file_suffixes: Vec<String>,
    /// Version names: `react@latest` is no address.
    pub version_names: Vec<String>,
    /// Top-level domains that are believed after a spelled-out "dot".
    pub spelled_domains: Vec<String>,
}

impl EmailWords {
    /// A list for English text.
    pub fn english() -> EmailWords {
        let words = |list: &str| list.split_whitespace().map(str::to_owned).collect();
        EmailWords {
            file_suffixes: words(
                "png jpg jpeg gif webp svg ico bmp tif tiff avif heic pdf css js mjs ts tsx jsx json yaml yml toml \
                 xml html htm md txt csv zip gz tgz tar jar war whl mp3 mp4 mov webm wav ttf woff woff2 log",
            ),
            version_names: words("latest next beta alpha stable canary nightly lts main master head dev rc"),
            spelled_domains: words(
                "com org net edu gov mil int io co info biz dev app ai me eu uk de fr es it nl ch at be ca au us in \
                 jp cn ru br pl se no dk fi ie nz za mx example test invalid local",
            ),
        }
    }
}

/// A search for addresses: it is told where one could be.
#[derive(Debug, Default)]
pub(super) struct Emails {
    /// Nothing before this belongs to the next address.
    from: usize,
    labels: Vec<Range<usize>>,
}

impl Emails {
    /// The address around an `@`, a `=` or a blank, in ascending order.
    pub(super) fn at(&mut self, text: &Normal<'_>, i: usize, words: &Words) -> Option<Range<usize>> {
        let bytes = text.bytes();
        let span = match *bytes.get(i)? {
            b'@' if may_join(bytes, i) && touches(text.before(i), text.at(i + 1)) => {
                at_sign(text, i..i + 1, self.from, words, &mut self.labels)
            }
            // As mail programs write it that send seven bits.
            b'=' if text.spells(i + 1, "40") && text.at(i + 3).is_some_and(char::is_alphabetic) => {
                let span = at_sign(text, i..i + 3, self.from, words, &mut self.labels);
                span.filter(|_| self.labels.len() > 1)
            }
            b'@' | b'=' => None,
            _ if matches!(bytes.get(i + 1..i + 3), Some([b'a' | b'A', b't' | b'T'])) => {
                spelled(text, i, self.from, words)
            }
            _ => None,
        }?;
        self.from = span.end;
        Some(span)
    }
}

/// Finds addresses; places in the text, ascending.
#[cfg(test)]
pub(super) fn find(text: &Normal<'_>, words: &Words, found: &mut Vec<Range<usize>>) {
    let (mut emails, mut next) = (Emails::default(), 0);
    while let Some(i) = text.next_from(next, |b| matches!(b, b'@' | b'=') || b.is_ascii_whitespace()) {
        next = i + 1;
        found.extend(emails.at(text, i, words));
    }
}

fn is_local(c: char) -> bool {
    match c {
        '.' | '_' | '%' | '+' | '-' => true,
        _ if c.is_ascii() => c.is_ascii_alphanumeric(),
        _ => c.is_alphanumeric() || is_mark(c),
    }
}

/// Rare in addresses, common around them: only between two ordinary characters.
fn is_odd_local(c: char) -> bool {
    matches!(c, '&' | '\'' | '!' | '#' | '$' | '*' | '/' | '?' | '^' | '~')
}

/// Combining marks, which stand on the letter before.
fn is_mark(c: char) -> bool {
    matches!(u32::from(c), 0x300..=0x36f)
}

fn local_start(text: &Normal<'_>, end: usize, from: usize) -> Option<usize> {
    let least = end.saturating_sub(LOCAL).max(from);
    if text.before(end) == Some('"') {
        let open = (least..end.checked_sub(1)?).rev().find(|i| text.at(*i) == Some('"'))?;
        return (open + 2 < end).then_some(open);
    }
    let mut start = end;
    let closed = text.before(end) == Some('}');
    while start > least {
        let Some(c) = text.before(start) else { break };
        let inner =
            || text.before(start - 1).is_some_and(|p| p.is_alphanumeric()) && text.at(start).is_some_and(is_local);
        let braced = || match c {
            '}' => start == end,
            '{' => closed,
            _ => false,
        };
        if is_local(c) || (is_odd_local(c) && start < end && start - 1 > least && inner()) || braced() {
            start -= 1;
        } else {
            break;
        }
    }
    // An address does not start with a dot or a dash that belongs to the sentence.
    while start < end && text.at(start).is_some_and(|c| matches!(c, '.' | '-')) {
        start += 1;
    }
    (start < end).then_some(start)
}

/// The end of one label that starts at `i`.
fn label_end(text: &Normal<'_>, i: usize) -> usize {
    let mut end = text.forth(i, i + DOMAIN, |c| c.is_alphanumeric() || is_mark(c) || matches!(c, '-' | '_'));
    while end > i && text.before(end).is_some_and(|c| matches!(c, '-' | '_')) {
        end -= 1;
    }
    end
}

/// Labels from the first one on; `spaced` allows white space around dots.
fn read_labels(text: &Normal<'_>, first: Range<usize>, spaced: bool, labels: &mut Vec<Range<usize>>) {
    labels.clear();
    let (i, mut at, mut end) = (first.start, first.start, first.end);
    loop {
        if end == at || end - i > DOMAIN {
            break;
        }
        labels.push(at..end);
        let space = |k: usize| usize::from(spaced && text.at(k) == Some(' '));
        let dot = end + space(end);
        if text.at(dot) != Some('.') {
            break;
        }
        let next = dot + 1 + space(dot + 1);
        // A space on one side only ends a sentence.
        if (dot > end) != (next > dot + 1) {
            break;
        }
        at = next;
        end = label_end(text, at);
    }
}

/// Whether an address could go on with such a byte right behind its `@`.
pub(super) const fn may_begin(byte: u8) -> bool {
    is_blank(byte) || byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'[' | 0x80..)
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

/// Whether an address could go on right before an `@`, and right behind it: most have another sign on one side, or a
/// blank on one side alone.
fn may_join(bytes: &[u8], sign: usize) -> bool {
    let before = sign.checked_sub(1).and_then(|before| bytes.get(before));
    let (Some(before), Some(behind)) = (before, bytes.get(sign + 1)) else { return false };
    let line = |b: &u8| matches!(b, b'\n' | b'\r');
    let ends = may_begin(*before) && *before != b'[' || matches!(before, b'.' | b'%' | b'+' | b'"' | b'}');
    ends && may_begin(*behind) && (is_blank(*before) == is_blank(*behind) || line(before) || line(behind))
}

/// Whether an address could go on with such a character right before its `@`, and right behind.
fn touches(before: Option<char>, behind: Option<char>) -> bool {
    let local = |c: char| is_local(c) || c.is_whitespace() || matches!(c, '"' | '}');
    let domain = |c: char| c.is_alphanumeric() || is_mark(c) || c.is_whitespace() || matches!(c, '-' | '_' | '[');
    before.is_some_and(local) && behind.is_some_and(domain)
}

/// The address around what is written for its `@`.
fn at_sign(
    text: &Normal<'_>,
    sign: Range<usize>,
    from: usize,
    words: &Words,
    labels: &mut Vec<Range<usize>>,
) -> Option<Range<usize>> {
    let (at, behind) = (sign.start, sign.end);
    let is_space = |c: Option<char>| c.is_some_and(char::is_whitespace);
    let (left, right) = (text.before(at), text.at(behind));
    let (left_space, right_space) = (is_space(left), is_space(right));
    let line_break = |c: Option<char>| matches!(c, Some('\n' | '\r'));
    // Space on both sides, or a line break on one: written apart. Otherwise an `@` at the start or
    // end of a word is a mention or a price.
    let spaced = left_space && right_space;
    let broken = line_break(left) || line_break(right);
    if (left_space || right_space) && !spaced && !broken {
        return None;
    }
    let domain = behind + usize::from(right_space);
    let start = || local_start(text, at - usize::from(left_space), from);
    if text.at(domain) == Some('[') {
        let end = literal_end(text, domain)?;
        return start().map(|start| start..end);
    }
    // Most have one label behind them.
    let first = domain..label_end(text, domain);
    if !spaced && text.byte(first.end) != Some(b'.') && !is_name(text, &first, words) {
        return None;
    }
    read_labels(text, first, spaced, labels);
    let end = labels.last().filter(|l| l.end > domain + 1)?.end;
    let believed = if spaced || broken { labels.len() > 1 } else { true };
    if !believed || !is_host(text, labels, words) {
        return None;
    }
    let start = start()?;
    // A host name without a dot: objects of versions look the same.
    let doubled = || (start + 1..at).any(|i| text.before(i) == Some('.') && text.at(i) == Some('.'));
    (labels.len() > 1 || !doubled()).then_some(start..end)
}

/// `[1.2.3.4]` or `[IPv6:...]`.
fn literal_end(text: &Normal<'_>, open: usize) -> Option<usize> {
    let inside = |c: char| {
        c.is_ascii_hexdigit()
            || matches!(c, ':' | '.')
            || c.eq_ignore_ascii_case(&'i')
            || matches!(c, 'P' | 'p' | 'v' | 'V')
    };
    let mut end = open + 1;
    while end < open + 64 && text.at(end).is_some_and(inside) {
        end += 1;
    }
    (end > open + 2 && text.at(end) == Some(']')).then_some(end + 1)
}

/// Whether a label may be a host name without a dot: mentions of versions look the same.
fn is_name(text: &Normal<'_>, label: &Range<usize>, words: &Words) -> bool {
    let letter = |i: usize| text.at(i).is_some_and(char::is_alphabetic);
    let hex = || label.len() >= 6 && label.clone().all(|i| text.at(i).is_some_and(|c| c.is_ascii_hexdigit()));
    label.len() > 1
        && letter(label.start)
        && !text.part(label).is_some_and(|name| words.is_version_name(name))
        && label.clone().filter(|i| letter(*i)).count() >= 2
        && !hex()
}

fn is_host(text: &Normal<'_>, labels: &[Range<usize>], words: &Words) -> bool {
    let (Some(last), Some(first)) = (labels.last(), labels.first()) else { return false };
    if labels.len() == 1 {
        return is_name(text, first, words);
    }
    if labels.len() == 4 && labels.iter().all(|label| text.octet(label)) {
        return true;
    }
    let Some(name) = text.part(last) else { return false };
    let letters = |name: &str| name.chars().count() >= 2 && name.chars().all(|c| c.is_alphabetic() || is_mark(c));
    let tld = match name.is_ascii() {
        true => name.len() >= 2 && name.bytes().all(|b| b.is_ascii_alphabetic()),
        false => letters(&name.to_lowercase()),
    };
    let punycode = name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--"));
    // user@host:path/to is where a repository lives.
    let end = last.end;
    let remote = || {
        text.at(end) == Some(':')
            && text.at(end + 1).is_some_and(|c| c.is_alphanumeric() || c == '~')
            && (end + 1..end + 128).map_while(|i| text.at(i).filter(|c| !c.is_whitespace())).any(|c| c == '/')
    };
    (tld || punycode) && !words.is_file_suffix(name) && !is_class(text, labels) && !remote()
}

/// `x@pkg.mod.Class`: the last name alone is capitalised.
fn is_class(text: &Normal<'_>, labels: &[Range<usize>]) -> bool {
    let Some((last, before)) = labels.split_last() else { return false };
    let any = |label: &Range<usize>, is: fn(char) -> bool| label.clone().any(|i| text.at(i).is_some_and(is));
    text.at(last.start).is_some_and(char::is_uppercase)
        && last.len() > 2
        && any(last, char::is_lowercase)
        && !before.iter().any(|label| any(label, char::is_uppercase))
}

/// `jane at example dot com`: `space` is the white space before "at".
fn spelled(text: &Normal<'_>, space: usize, from: usize, words: &Words) -> Option<Range<usize>> {
    let is_space = |i: usize| text.at(i).is_some_and(char::is_whitespace);
    if !text.spells(space + 1, "at") || !is_space(space + 3) {
        return None;
    }
    let mut end = label_end(text, space + 4);
    let mut dots = 0;
    let mut last = space + 4..end;
    while end > last.start && dots < 6 {
        let next = if text.at(end) == Some('.') {
            end + 1
        } else if is_space(end) && text.spells(end + 1, "dot") && is_space(end + 4) {
            dots += 1;
            end + 5
        } else {
            break;
        };
        let stop = label_end(text, next);
        if stop == next {
            break;
        }
        last = next..stop;
        end = stop;
    }
    // Most words behind an "at" have no "dot" behind them.
    let domain = dots > 0 && text.part(&last).is_some_and(|last| words.is_spelled_domain(last));
    domain.then(|| local_start(text, space, from)).flatten().map(|start| start..last.end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::PhoneWords, *};

    proptest! {
        #[test]
        fn no_address_is_around_a_sign_that_is_passed_over(
            before in "([a-z]{1,3}|[.%+_\"}{@,;:()-]|\\[|\\]|[ \n\t\u{b}é]|[0-9]){0,4}",
            behind in "([a-z]{1,3}(\\.[a-z]{2})?|[._@,;:()-]|\\[|[ \n\t\u{b}é]|[0-9]){0,4}",
        ) {
            let text = [before, behind].join("@");
            let (normal, mut labels) = (Normal::of(&text), Vec::new());
            let words = Words::new(&EmailWords::english(), &PhoneWords::english());
            for (sign, _) in normal.text().match_indices('@').filter(|(sign, _)| !may_join(normal.bytes(), *sign)) {
                let touches = touches(normal.before(sign), normal.at(sign + 1));
                let found = at_sign(&normal, sign..sign + 1, 0, &words, &mut labels);
                prop_assert!(!touches || found.is_none(), "{}", text);
            }
        }
    }
}
