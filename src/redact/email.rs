//! E-mail addresses, as people write them: with odd, quoted or non-ASCII local parts, host names
//! without a dot, address literals, and the usual ways to hide one from machines.
//!
//! Anchored at each `@` (and at the word "at" between spaces), with bounded reach to both sides.

use std::ops::Range;

use super::normal::Normal;

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

/// Finds addresses; ranges of units, ascending.
pub(super) fn find(text: &Normal, words: &EmailWords, found: &mut Vec<Range<usize>>) {
    let mut from = 0;
    for i in 0..text.len() {
        let span = match text.at(i) {
            Some('@') => at_sign(text, i, from, words),
            Some(c) if c.is_whitespace() => spelled(text, i, from, words),
            _ => None,
        };
        if let Some(span) = span {
            from = span.end;
            found.push(span);
        }
    }
}

fn is_local(c: char) -> bool {
    c.is_alphanumeric() || is_mark(c) || matches!(c, '.' | '_' | '%' | '+' | '-')
}

/// Rare in addresses, common around them: only between two ordinary characters.
fn is_odd_local(c: char) -> bool {
    matches!(c, '&' | '\'' | '!' | '#' | '$' | '*' | '/' | '?' | '^' | '~')
}

/// Combining marks, which stand on the letter before.
fn is_mark(c: char) -> bool {
    matches!(u32::from(c), 0x300..=0x36f)
}

fn local_start(text: &Normal, end: usize, from: usize) -> Option<usize> {
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
fn label_end(text: &Normal, i: usize) -> usize {
    let mut end = i;
    while end < i + DOMAIN && text.at(end).is_some_and(|c| c.is_alphanumeric() || is_mark(c) || matches!(c, '-' | '_'))
    {
        end += 1;
    }
    while end > i && text.before(end).is_some_and(|c| matches!(c, '-' | '_')) {
        end -= 1;
    }
    end
}

/// Labels from `i` on; `spaced` allows white space around dots.
fn labels(text: &Normal, i: usize, spaced: bool) -> Vec<Range<usize>> {
    let mut labels = Vec::new();
    let mut at = i;
    loop {
        let end = label_end(text, at);
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
    }
    labels
}

fn at_sign(text: &Normal, at: usize, from: usize, words: &EmailWords) -> Option<Range<usize>> {
    let is_space = |i: usize| text.at(i).is_some_and(char::is_whitespace);
    let left_space = at.checked_sub(1).is_some_and(is_space);
    let right_space = is_space(at + 1);
    let line_break = |i: usize| matches!(text.at(i), Some('\n' | '\r'));
    // Space on both sides, or a line break on one: written apart. Otherwise an `@` at the start or
    // end of a word is a mention or a price.
    let spaced = left_space && right_space;
    let broken = (left_space && at.checked_sub(1).is_some_and(line_break)) || (right_space && line_break(at + 1));
    if (left_space || right_space) && !spaced && !broken {
        return None;
    }
    let start = local_start(text, at - usize::from(left_space), from)?;
    let domain = at + 1 + usize::from(right_space);
    if text.at(domain) == Some('[') {
        return literal_end(text, domain).map(|end| start..end);
    }
    let labels = labels(text, domain, spaced);
    let end = labels.last().filter(|l| l.end > domain + 1)?.end;
    let believed = if spaced || broken { labels.len() > 1 } else { true };
    (believed && is_host(text, &labels, start, at, words)).then_some(start..end)
}

/// `[1.2.3.4]` or `[IPv6:...]`.
fn literal_end(text: &Normal, open: usize) -> Option<usize> {
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

fn is_host(text: &Normal, labels: &[Range<usize>], start: usize, at: usize, words: &EmailWords) -> bool {
    let spelled: Vec<String> = labels.iter().map(|l| text.text(l.clone())).collect();
    let (Some(last), Some(first)) = (spelled.last(), spelled.first()) else { return false };
    let lower = last.to_lowercase();
    let listed = |list: &[String]| list.contains(&lower);
    let end = labels.last().map_or(at, |l| l.end);
    if spelled.len() == 1 {
        let letters = first.chars().filter(|c| c.is_alphabetic()).count();
        let hex = first.len() >= 6 && first.chars().all(|c| c.is_ascii_hexdigit());
        let starts = first.chars().next().is_some_and(char::is_alphabetic);
        let local = text.text(start..at);
        // A host name without a dot: mentions of versions and of objects look the same.
        return starts && letters >= 2 && !hex && !listed(&words.version_names) && !local.contains("..");
    }
    let octets = spelled.len() == 4 && spelled.iter().all(|l| l.parse::<u8>().is_ok());
    if octets {
        return true;
    }
    let tld = lower.chars().count() >= 2 && lower.chars().all(|c| c.is_alphabetic() || is_mark(c));
    let punycode = lower.starts_with("xn--");
    // user@host:path/to is where a repository lives.
    let remote = text.at(end) == Some(':')
        && text.at(end + 1).is_some_and(|c| c.is_alphanumeric() || c == '~')
        && (end + 1..end + 128).map_while(|i| text.at(i).filter(|c| !c.is_whitespace())).any(|c| c == '/');
    (tld || punycode) && !listed(&words.file_suffixes) && !is_class(&spelled) && !remote
}

/// `x@pkg.mod.Class`: the last name alone is capitalised.
fn is_class(labels: &[String]) -> bool {
    let capital = |l: &String| l.chars().next().is_some_and(char::is_uppercase);
    let Some((last, before)) = labels.split_last() else { return false };
    capital(last)
        && last.chars().count() > 2
        && last.chars().any(char::is_lowercase)
        && before.iter().all(|l| l.chars().all(|c| !c.is_uppercase()))
}

/// `jane at example dot com`: `space` is the white space before "at".
fn spelled(text: &Normal, space: usize, from: usize, words: &EmailWords) -> Option<Range<usize>> {
    let is_space = |i: usize| text.at(i).is_some_and(char::is_whitespace);
    if !text.spells(space + 1, "at") || !is_space(space + 3) {
        return None;
    }
    let start = local_start(text, space, from)?;
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
    let domain = text.text(last.clone()).to_lowercase();
    (dots > 0 && words.spelled_domains.contains(&domain)).then_some(start..last.end)
}
