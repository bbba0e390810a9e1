//! International bank accounts (ISO 13616): a country, two check digits and as many characters as that country's
//! accounts have, perhaps in groups.

use std::ops::Range;

/// How many characters the accounts of each country have, by its letters.
const LENGTHS: [([u8; 2], usize); 89] = [
    (*b"AD", 24),
    (*b"AE", 23),
    (*b"AL", 28),
    (*b"AT", 20),
    (*b"AZ", 28),
    (*b"BA", 20),
    (*b"BE", 16),
    (*b"BG", 22),
    (*b"BH", 22),
    (*b"BI", 27),
    (*b"BR", 29),
    (*b"BY", 28),
    (*b"CH", 21),
    (*b"CR", 22),
    (*b"CY", 28),
    (*b"CZ", 24),
    (*b"DE", 22),
    (*b"DJ", 27),
    (*b"DK", 18),
    (*b"DO", 28),
    (*b"EE", 20),
    (*b"EG", 29),
    (*b"ES", 24),
    (*b"FI", 18),
    (*b"FK", 18),
    (*b"FO", 18),
    (*b"FR", 27),
    (*b"GB", 22),
    (*b"GE", 22),
    (*b"GI", 23),
    (*b"GL", 18),
    (*b"GR", 27),
    (*b"GT", 28),
    (*b"HN", 28),
    (*b"HR", 21),
    (*b"HU", 28),
    (*b"IE", 22),
    (*b"IL", 23),
    (*b"IQ", 23),
    (*b"IS", 26),
    (*b"IT", 27),
    (*b"JO", 30),
    (*b"KW", 30),
    (*b"KZ", 20),
    (*b"LB", 28),
    (*b"LC", 32),
    (*b"LI", 21),
    (*b"LT", 20),
    (*b"LU", 20),
    (*b"LV", 21),
    (*b"LY", 25),
    (*b"MC", 27),
    (*b"MD", 24),
    (*b"ME", 22),
    (*b"MK", 19),
    (*b"MN", 20),
    (*b"MR", 27),
    (*b"MT", 31),
    (*b"MU", 30),
    (*b"NI", 28),
    (*b"NL", 18),
    (*b"NO", 15),
    (*b"OM", 23),
    (*b"PK", 24),
    (*b"PL", 28),
    (*b"PS", 29),
    (*b"PT", 25),
    (*b"QA", 29),
    (*b"RO", 24),
    (*b"RS", 22),
    (*b"RU", 33),
    (*b"SA", 24),
    (*b"SC", 31),
    (*b"SD", 18),
    (*b"SE", 24),
    (*b"SI", 19),
    (*b"SK", 24),
    (*b"SM", 27),
    (*b"SO", 23),
    (*b"ST", 25),
    (*b"SV", 28),
    (*b"TL", 23),
    (*b"TN", 24),
    (*b"TR", 26),
    (*b"UA", 29),
    (*b"VA", 22),
    (*b"VG", 24),
    (*b"XK", 20),
    (*b"YE", 30),
];

/// The lengths by both letters, each by its place in the alphabet; none of a country without accounts.
#[expect(clippy::indexing_slicing, reason = "a constant, made when it is compiled")]
const BY_COUNTRY: [[u8; 26]; 26] = {
    let mut lengths = [[0; 26]; 26];
    let mut i = 0;
    while i < LENGTHS.len() {
        let ([a, b], length) = LENGTHS[i];
        lengths[(a - b'A') as usize][(b - b'A') as usize] = length as u8;
        i += 1;
    }
    lengths
};

/// Most bytes of blanks and dashes between two groups: a long dash with its blanks.
const GAP: usize = 5;
/// Letters and digits before the account itself: of the country, and to check it.
const HEAD: usize = 4;

/// The account whose check digits begin at a place, which is a digit behind a letter. Each byte is looked at a bounded
/// number of times.
pub(super) fn at(text: &str, digit: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let start = digit.checked_sub(2)?;
    let [a, b, c, d] = *bytes.get(start..)?.first_chunk::<HEAD>()?;
    let length = length(a, b).filter(|_| c.is_ascii_digit() && d.is_ascii_digit())?;
    let before = start.checked_sub(1).and_then(|i| bytes.get(i));
    if before.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        return None;
    }
    let end = end(text, start + HEAD, length - HEAD)?;
    (remainder(bytes.get(start..end)?) == 1).then_some(start..end)
}

/// How many characters the accounts of a country have, by its letters in either case.
fn length(a: u8, b: u8) -> Option<usize> {
    let place = |letter: u8| usize::from((letter | 0x20).wrapping_sub(b'a'));
    let length = BY_COUNTRY.get(place(a))?.get(place(b))?;
    (*length > 0).then_some(usize::from(*length))
}

/// Where so many letters and digits end, groups of them with blanks, dashes or dots between two. Nothing if a word goes
/// on behind them: most of what looks like an account ends in the middle of a number.
fn end(text: &str, start: usize, count: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut left) = (start, count);
    loop {
        let group = group(bytes.get(at..)?, left + 1);
        left = left.checked_sub(group)?;
        at += group;
        if left == 0 {
            let goes_on = text.get(at..).is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
            return (!goes_on).then_some(at);
        }
        // Bytes of long dashes among them; what else they may be has no right sum.
        let gap = |b: &&u8| matches!(b, b' ' | b'-' | b'.' | 0x80..);
        let gap = bytes.get(at..)?.iter().take(GAP + 1).take_while(gap).count();
        if !(1..=GAP).contains(&gap) {
            return None;
        }
        at += gap;
    }
}

/// How many letters and digits a text begins with, if not more than so many: many are read at once.
fn group(text: &[u8], most: usize) -> usize {
    let one = |b: &u8| b.is_ascii_alphanumeric();
    let text = text.get(..most).unwrap_or(text);
    let many = text.chunks_exact(8).take_while(|eight| eight.iter().all(one)).count() * 8;
    many + text.iter().skip(many).take_while(|b| one(b)).count()
}

/// What remains of an account's number modulo 97, its country and check digits put behind it: 1 if it is right.
fn remainder(account: &[u8]) -> u64 {
    let (head, mut rest) = account.split_at_checked(HEAD).unwrap_or_default();
    let mut number = 0;
    while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
        number = match digits(*eight) {
            Some(digits) => (number % 97) * 100_000_000 + digits,
            None => eight.iter().filter_map(|b| value(*b)).fold(number, push),
        };
        rest = behind;
    }
    rest.iter().chain(head).filter_map(|b| value(*b)).fold(number, push) % 97
}

/// The number that eight digits spell: of the digits first pairs are made, then fours, all at once.
fn digits(eight: [u8; 8]) -> Option<u64> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    if !eight.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let ones = u64::from_le_bytes(eight) - EACH * u64::from(b'0');
    let pairs = (ones * 10 + (ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours * 10_000 + (fours >> 32)) & 0xffff_ffff)
}

/// What a character stands for: a digit for itself, a letter for 10 to 35.
fn value(byte: u8) -> Option<u64> {
    // A letter's lowest five bits are its place in the alphabet, in either case.
    match byte {
        b'0'..=b'9' => Some(u64::from(byte - b'0')),
        _ if byte.is_ascii_alphabetic() => Some(u64::from(byte & 0x1f) + 9),
        _ => None,
    }
}

/// A number with one more value behind it, as far as its remainder modulo 97 goes.
fn push(number: u64, value: u64) -> u64 {
    // A division for each character would be most of the search: there is room for many.
    let number = if number >> 48 == 0 { number } else { number % 97 };
    number * if value > 9 { 100 } else { 10 } + value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let digits = (0..text.len()).filter(|i| text.as_bytes().get(*i).is_some_and(u8::is_ascii_digit));
        digits.filter_map(|digit| text.get(at(text, digit)?)).collect()
    }

    #[test]
    fn countries_are_in_order() {
        assert!(LENGTHS.is_sorted_by(|(a, _), (b, _)| a < b));
        assert!(LENGTHS.iter().all(|(_, length)| (15..35).contains(length)));
    }

    #[test]
    fn an_account_is_found_beside_what_looks_like_one() {
        let account = "DE89 3704 0044 0532 0130 00";
        for text in [account, "AB12 DE89 3704 0044 0532 0130 00", "to DE89 3704 0044 0532 0130 00 by Monday"] {
            assert_eq!(found(text), [account], "{text}");
        }
        assert_eq!(found("de89370400440532013000, GB82-WEST-1234-5698-7654-32").len(), 2);
        let apart = "DE89  3704\u{2013}0044\u{2013}0532 - 0130.00";
        assert_eq!(found(apart), [apart]);
    }

    #[test]
    fn a_wrong_sum_and_a_glued_word_are_none() {
        for text in [
            "DE89 3704 0044 0532 0130 01",
            "XDE89370400440532013000",
            "DE89370400440532013000X",
            "DE89",
            "XX89370400440532013000",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }

    /// Read character by character, as the standard says it.
    fn by_the_standard(text: &str, digit: usize) -> Option<Range<usize>> {
        let start = digit.checked_sub(2)?;
        let letters =
            text.get(start..digit).filter(|l| l.bytes().all(|b| b.is_ascii_alphabetic()))?.to_ascii_uppercase();
        let (_, length) = LENGTHS.iter().find(|(country, _)| country == letters.as_bytes())?;
        let digits = text.get(digit..digit + 2)?.bytes().all(|b| b.is_ascii_digit());
        let (mut account, mut gap, mut end) = (Vec::new(), 0, start);
        while account.len() < *length {
            let byte = *text.as_bytes().get(end)?;
            let joins = account.len() >= HEAD && gap < GAP && matches!(byte, b' ' | b'-' | b'.' | 0x80..);
            match byte.is_ascii_alphanumeric() {
                true => account.push(byte),
                false => joins.then_some(())?,
            }
            gap = if byte.is_ascii_alphanumeric() { 0 } else { gap + 1 };
            end += 1;
        }
        let glued = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let free = !text.get(..start)?.ends_with(glued) && !text.get(end..)?.starts_with(char::is_alphanumeric);
        account.rotate_left(HEAD);
        let spelled: String =
            account.iter().filter_map(|b| char::from(*b).to_digit(36)).map(|v| v.to_string()).collect();
        let remainder = spelled.bytes().fold(0, |n, b| (n * 10 + u32::from(b - b'0')) % 97);
        (digits && free && remainder == 1).then_some(start..end)
    }

    proptest! {
        #[test]
        fn it_is_found_as_the_standard_says(
            before in "[ _éx]?",
            account in "(DE|GB|no|FR|AB)[0-9]{2}([0-9]{4}|[A-Z]{4}|[ .-]|\u{2013}){0,9}|DE89[ -]{0,6}370400440532013000|\
                        GB82 ?WEST ?1234 ?5698 ?7654 ?32|NO93 ?8601 ?1117 ?947|FR1420041010050500013M02606",
            behind in "[ xé1.]?",
        ) {
            let text = [before, account, behind].concat();
            for digit in (0..text.len()).filter(|i| text.as_bytes().get(*i).is_some_and(u8::is_ascii_digit)) {
                prop_assert_eq!(at(&text, digit), by_the_standard(&text, digit), "{}", text);
            }
        }
    }
}
