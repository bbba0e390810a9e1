//! Internet addresses: anything made of an address's characters that parses as one. Each byte is looked at a bounded
//! number of times.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    ops::Range,
};

/// Most digits of one part in hexadecimal, and in decimal.
const PART: usize = 4;
const OCTET: usize = 3;
/// Colons of an address.
const COLONS: Range<usize> = 2..8;

/// A search for addresses: it is told where one could be.
#[derive(Debug, Default)]
pub(super) struct Ips {
    /// Nothing before this belongs to the next address.
    from: usize,
}

impl Ips {
    /// The address whose first colon or first dot stands there, in ascending order.
    #[inline]
    pub(super) fn at(&mut self, text: &str, sign: usize) -> Option<Range<usize>> {
        let bytes = text.as_bytes();
        let colon = bytes.get(sign) == Some(&b':');
        // Most signs have a blank behind them.
        if sign < self.from || !bytes.get(sign + 1).is_some_and(|b| b.is_ascii_hexdigit() || (colon && *b == b':')) {
            return None;
        }
        self.look(text, sign, colon)
    }

    fn look(&mut self, text: &str, sign: usize, colon: bool) -> Option<Range<usize>> {
        let bytes = text.as_bytes();
        let (end, possible) = match colon {
            true => with_colons(bytes, sign)?,
            false => (with_dots(bytes, sign)?, true),
        };
        let before = bytes.get(self.from..sign).unwrap_or_default();
        self.from = end;
        // A letter behind it tells most of what looks like an address.
        if !possible || bytes.get(end).is_some_and(u8::is_ascii_alphanumeric) {
            return None;
        }
        let digits = match colon {
            true => before.iter().rev().take(PART).take_while(|b| b.is_ascii_hexdigit()).count(),
            false => before.iter().rev().take(OCTET).take_while(|b| b.is_ascii_digit()).count(),
        };
        // An octet before the first dot has a digit.
        let range = sign - digits..end;
        ((digits > 0 || colon) && stands_free(text, range.clone()) && is_address(text, range.clone(), colon))
            .then_some(range)
    }
}

fn rest(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or_default()
}

/// How many bytes from `at` on are digits, up to `most`.
fn run(bytes: &[u8], at: usize, most: usize, digit: impl Fn(&u8) -> bool) -> usize {
    rest(bytes, at).iter().take(most).take_while(|b| digit(b)).count()
}

/// The end of what begins with a colon: parts in hexadecimal, perhaps with an address in decimal behind. And whether it
/// may be an address: all parts are there, or two colons, once, stand for the others. Most of what looks like one has
/// neither.
fn with_colons(bytes: &[u8], colon: usize) -> Option<(usize, bool)> {
    let (mut end, mut colons, mut doubled) = (colon, 0, 0);
    while colons < COLONS.end - 1 && bytes.get(end) == Some(&b':') {
        // The one before was a colon too.
        doubled += usize::from(colons > 0 && bytes.get(end - 1) == Some(&b':'));
        end += 1 + run(bytes, end + 1, PART, u8::is_ascii_hexdigit);
        colons += 1;
    }
    let dots = || with_dots(bytes, end);
    let possible = doubled == 1 || (doubled == 0 && colons + 1 >= COLONS.end - 1);
    (colons >= COLONS.start).then(|| (dots().unwrap_or(end), possible))
}

/// The end of three octets, each behind a dot.
fn with_dots(bytes: &[u8], dot: usize) -> Option<usize> {
    let mut end = dot;
    for _ in 0..3 {
        let digits = run(bytes, end + 1, OCTET, u8::is_ascii_digit);
        if bytes.get(end) != Some(&b'.') || digits == 0 {
            return None;
        }
        end += 1 + digits;
    }
    Some(end)
}

/// Whether no letter, digit or dot goes on with it on either side.
fn stands_free(text: &str, range: Range<usize>) -> bool {
    let before = text.get(..range.start).and_then(|t| t.chars().next_back());
    let mut after = text.get(range.end..).unwrap_or_default().chars();
    // A dot that ends a sentence is not part of the address.
    let more = match after.next() {
        Some('.') => after.next().is_some_and(|c| c.is_ascii_digit()),
        other => other.is_some_and(char::is_alphanumeric),
    };
    !more && !before.is_some_and(|c| c.is_alphanumeric() || c == '.')
}

fn is_address(text: &str, range: Range<usize>, colon: bool) -> bool {
    text.get(range).is_some_and(|address| match colon {
        true => address != "::" && address.parse::<Ipv6Addr>().is_ok(),
        false => address.parse::<Ipv4Addr>().is_ok(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    fn found(text: &str) -> Vec<Range<usize>> {
        let mut ips = Ips::default();
        let signs = text.match_indices([':', '.']);
        signs.filter_map(|(sign, _)| ips.at(text, sign)).collect()
    }

    /// The shape as a pattern says it.
    fn by_pattern(text: &str) -> Vec<Range<usize>> {
        let hex = r"[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:(?:\.[0-9]{1,3}){3})?";
        let pattern = Regex::new(&format!(r"{hex}|[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}")).unwrap();
        let all = pattern.find_iter(text).map(|m| m.range());
        let is_address = |range: Range<usize>| {
            text.get(range).is_some_and(|address| address != "::" && address.parse::<IpAddr>().is_ok())
        };
        all.filter(|range| stands_free(text, range.clone()) && is_address(range.clone())).collect()
    }

    #[test]
    fn addresses_of_both_kinds_are_found_among_what_looks_like_them() {
        let texts =
            "10.0.0.1 1.2.3 256.1.1.1 fe80::1 ::: ::1, 1:2:3:4:5:6:7:8 ::ffff:1.2.3.4 a:b:c 10.0.0.1.2 9.9.9.9.";
        let all: Vec<&str> = found(texts).into_iter().map(|range| texts.get(range).unwrap()).collect();
        assert_eq!(all, ["10.0.0.1", "fe80::1", "::1", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "9.9.9.9"]);
    }

    proptest! {
        #[test]
        fn the_search_finds_what_the_pattern_finds(text in "([0-9]{1,4}|[0-9a-g]{0,5}|[:.]{1,2}|::|[ é]){0,40}") {
            prop_assert_eq!(found(&text), by_pattern(&text), "{}", text);
        }
    }
}
