//! Undoing the encodings in which a canary may leave.

use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// Shortest run that is tried as base64 or hexadecimal digits.
const RUN: usize = 10;

/// Lower case, letters and digits only.
pub(super) fn canonical(text: &str) -> String {
    text.to_lowercase().chars().filter(|c| is_alphanumeric(*c)).collect()
}

/// The same with look-alikes of ASCII letters as these; none if there are none.
pub(super) fn unmasked(text: &str) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let plain: String = text.chars().map(plain).collect();
    (plain != text).then(|| canonical(&plain))
}

/// Letters and numbers; not the marks and circled letters that count as alphabetic elsewhere.
pub(super) fn is_alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || (!c.is_ascii()
            && (c.general_category_group() == GeneralCategoryGroup::Letter
                || matches!(
                    c.general_category(),
                    GeneralCategory::DecimalNumber | GeneralCategory::LetterNumber | GeneralCategory::OtherNumber
                )))
}

/// Small letters that look like ASCII ones in most fonts, but not in the confusables of UTS 39.
const SMALL: [(char, char); 8] = [
    ('\u{43a}', 'k'),
    ('\u{442}', 't'),
    ('\u{43c}', 'm'),
    ('\u{43d}', 'h'),
    ('\u{432}', 'b'),
    ('\u{3ba}', 'k'),
    ('\u{3c4}', 't'),
    ('\u{438}', 'u'),
];

/// A full-width form or a look-alike letter as its ASCII original.
fn plain(c: char) -> char {
    if c.is_ascii() {
        return c;
    }
    if let code @ 0xff01..=0xff5e = u32::from(c) {
        return char::from_u32(code - 0xfee0).unwrap_or(c);
    }
    if c.general_category_group() != GeneralCategoryGroup::Letter {
        return c;
    }
    if let Some((_, ascii)) = SMALL.iter().find(|(from, _)| *from == c) {
        return *ascii;
    }
    let mut buffer = [0; 4];
    let mut skeleton = unicode_security::skeleton(c.encode_utf8(&mut buffer));
    match (skeleton.next(), skeleton.next()) {
        (Some(ascii), None) if ascii.is_ascii_alphanumeric() => ascii,
        _ => c,
    }
}

/// Every reading of a text that some encoding gives, without the text itself.
pub(super) fn readings(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for undone in [entities(text), percent(text), escapes(text)].into_iter().flatten() {
        out.push(undone);
    }
    let tight: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    runs(text, is_base64, &mut |run| out.extend((0..4).filter_map(|skip| base64(run, skip))));
    runs(text, |c| c.is_ascii_hexdigit(), &mut |run| out.extend((0..2).filter_map(|skip| hex(run, skip))));
    if tight.len() < text.len() {
        runs(&tight, is_base64, &mut |run| out.extend((0..4).filter_map(|skip| base64(run, skip))));
    }
    // Digits in pairs with something between them, "4b:45" or "\x4b\x45".
    let pairs: String = tight.replace("\\x", "").replace("0x", "").replace([':', ',', '-'], "");
    if pairs.len() < text.len() {
        runs(&pairs, |c| c.is_ascii_hexdigit(), &mut |run| out.extend((0..2).filter_map(|skip| hex(run, skip))));
    }
    out
}

fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_')
}

fn runs(text: &str, of: impl Fn(char) -> bool, each: &mut dyn FnMut(&str)) {
    text.split(|c| !of(c)).filter(|run| run.len() >= RUN).for_each(each);
}

/// Both alphabets of RFC 4648; what is left over at the end is dropped.
fn base64(run: &str, skip: usize) -> Option<String> {
    let value = |b: u8| match b {
        b'A'..=b'Z' => Some(u32::from(b - b'A')),
        b'a'..=b'z' => Some(u32::from(b - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(b - b'0') + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = run.as_bytes().get(skip..)?.iter().filter_map(|b| value(*b)).collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for four in digits.chunks(4) {
        let bits = four.iter().enumerate().fold(0, |bits, (i, d)| bits | d << (18 - 6 * i));
        let kept = four.len().saturating_sub(1);
        bytes.extend(bits.to_be_bytes().iter().skip(1).take(kept));
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn hex(run: &str, skip: usize) -> Option<String> {
    let digits: Vec<u32> = run.chars().skip(skip).filter_map(|c| c.to_digit(16)).collect();
    let byte = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    let bytes: Vec<u8> = digits.chunks(2).filter_map(byte).collect();
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// `%4B`.
fn percent(text: &str) -> Option<String> {
    undo(text, '%', |rest| {
        let byte = u8::from_str_radix(rest.get(1..3)?, 16).ok()?;
        byte.is_ascii().then(|| (char::from(byte), 3))
    })
}

/// `&#75;` and `&#x4b;`.
fn entities(text: &str) -> Option<String> {
    undo(text, '&', |rest| {
        let body = rest.strip_prefix("&#")?;
        let digits = body.get(..body.bytes().take(9).position(|b| b == b';')?)?;
        let code = match digits.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => digits.parse().ok()?,
        };
        Some((char::from_u32(code)?, digits.len() + 3))
    })
}

/// `\u004b`, `\u{4b}`, `\x4b`.
fn escapes(text: &str) -> Option<String> {
    undo(text, '\\', |rest| {
        let (digits, length) = match rest.as_bytes().get(1)? {
            b'x' => (rest.get(2..4)?, 4),
            b'u' if rest.as_bytes().get(2) == Some(&b'{') => {
                let end = rest.bytes().take(11).position(|b| b == b'}')?;
                (rest.get(3..end)?, end + 1)
            }
            b'u' => (rest.get(2..6)?, 6),
            _ => return None,
        };
        Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, length))
    })
}

/// Replaces what `read` understands at each `mark`; none if that is nothing.
fn undo(text: &str, mark: char, read: impl Fn(&str) -> Option<(char, usize)>) -> Option<String> {
    let mut out = String::new();
    let (mut at, mut changed) = (0, false);
    while let Some(rest) = text.get(at..) {
        let Some(found) = rest.find(mark) else {
            out.push_str(rest);
            break;
        };
        out.push_str(rest.get(..found)?);
        let marked = rest.get(found..)?;
        match read(marked) {
            Some((c, length)) => {
                out.push(c);
                at += found + length;
                changed = true;
            }
            None => {
                out.push(mark);
                at += found + mark.len_utf8();
            }
        }
    }
    changed.then_some(out)
}

/// The letters moved by thirteen.
pub(super) fn rot13(text: &str) -> String {
    let turn = |c: char, base: u8| (u8::try_from(c).ok()).map_or(c, |b| char::from((b - base + 13) % 26 + base));
    text.chars()
        .map(|c| match c {
            'a'..='z' => turn(c, b'a'),
            'A'..='Z' => turn(c, b'A'),
            other => other,
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_is_undone() {
        for text in [
            "%4B%45%4C%50-90ab",
            "&#75;&#69;&#x4c;&#80;-90ab",
            "\\u004b\\x45\\u{4c}\\u0050-90ab",
            "S0VMUC05MGFi",
            "eHggS0VMUC05MGFiIHh4",
            "4b454c502d39306162",
            "4b:45:4c:50:2d:39:30:61:62",
        ] {
            assert!(readings(text).iter().any(|r| canonical(r).contains("kelp90ab")), "{text}");
        }
    }

    #[test]
    fn a_superscript_is_another_character_and_a_mark_is_none() {
        assert_ne!(canonical("kelp\u{b2}"), canonical("kelp2"));
        assert_eq!(canonical("kelp\u{93e}90"), "kelp90");
        assert_eq!(unmasked("\u{ff2b}\u{415}LP").as_deref(), Some("kelp"));
        assert_eq!(unmasked("kelp"), None);
    }
}
