//! Payment cards, bank accounts, internet addresses and secrets, by shape and check digits.

use std::{net::IpAddr, ops::Range};

use regex::Regex;

use super::Detector;

/// The compiled shapes.
#[derive(Debug)]
pub(super) struct Shapes {
    card: Regex,
    iban: Regex,
    ip: Regex,
    secret: Regex,
}

// Boundaries are those of ASCII: others would keep the regex engine from its automaton wherever a text holds any other
// letter, and a number that is glued to an accented letter is one all the same.

/// Card numbers: 13 to 19 digits, alone or in groups.
const CARD: &str = r"(?-u:\b)[0-9](?:[ -]?[0-9]){12,18}(?-u:\b)";
/// Bank accounts (ISO 13616): country, check digits, 11 to 30 characters, perhaps in groups of four.
const IBAN: &str = r"(?-u:\b)[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,30}(?-u:\b)";
/// Anything made of an address's characters; parsing decides.
const IP: &str = r"[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:(?:\.[0-9]{1,3}){3})?|[0-9]{1,3}(?:\.[0-9]{1,3}){3}";
/// Keys and tokens that say what they are, private key blocks, and values after a telling name.
const SECRET: &str = concat!(
    r"(?s)-----BEGIN [A-Z ]{0,24}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,24}PRIVATE KEY-----|\z)",
    r"|(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"|(?-u:\b)(?:A3T[A-Z0-9]|AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{16}(?-u:\b)",
    r"|(?-u:\b)gh[oprsu]_[A-Za-z0-9]{30,}",
    r"|(?-u:\b)github_pat_[A-Za-z0-9_]{22,}",
    r"|(?-u:\b)glpat-[A-Za-z0-9_-]{20,}",
    r"|(?-u:\b)xox[abeprs]-[A-Za-z0-9-]{10,}",
    r"|(?-u:\b)AIza[A-Za-z0-9_-]{35}",
    r"|(?-u:\b)(?:sk|pk|rk)[-_](?:[A-Za-z0-9]{2,12}[-_])*[A-Za-z0-9_-]{16,}",
    r"|(?-u:\b)npm_[A-Za-z0-9]{36}",
    r"|(?-u:\b)hf_[A-Za-z0-9]{30,}",
    r"|(?i:(?-u:\b)(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{16,}",
    r#"|(?i:(?-u:\b)(?:api[_-]?key|secret|password|passwd|pwd|access[_-]?token|auth[_-]?token|token)(?-u:\b)["']?\s*[:=]\s*["']?)[^\s"',;]{6,}"#,
);

impl Shapes {
    /// Compiles the shapes.
    pub(super) fn new() -> Result<Shapes, regex::Error> {
        Ok(Shapes {
            card: Regex::new(CARD)?,
            iban: Regex::new(IBAN)?,
            ip: Regex::new(IP)?,
            secret: Regex::new(SECRET)?,
        })
    }

    /// Byte ranges of what a detector finds.
    pub(super) fn find(&self, detector: Detector, text: &str, found: &mut Vec<(Range<usize>, Detector)>) {
        let mut push = |range: Range<usize>| found.push((range, detector));
        match detector {
            Detector::Card => {
                self.card.find_iter(text).filter(|m| is_card(m.as_str())).for_each(|m| push(m.range()));
            }
            Detector::Iban => {
                for m in self.iban.find_iter(text) {
                    if let Some(length) = iban_length(m.as_str()) {
                        push(m.start()..m.start() + length);
                    }
                }
            }
            Detector::Ip => {
                let parses = |m: &regex::Match<'_>| {
                    let glued = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '.');
                    let before = text.get(..m.start()).and_then(|t| t.chars().next_back());
                    let mut after = text.get(m.end()..).unwrap_or_default().chars();
                    let next = after.next();
                    // A dot that ends a sentence is not part of the address.
                    let more = match next {
                        Some('.') => after.next().is_some_and(|c| c.is_ascii_digit()),
                        other => other.is_some_and(char::is_alphanumeric),
                    };
                    !glued(before) && !more && m.as_str() != "::" && m.as_str().parse::<IpAddr>().is_ok()
                };
                self.ip.find_iter(text).filter(parses).for_each(|m| push(m.range()));
            }
            Detector::Secret => self.secret.find_iter(text).for_each(|m| push(m.range())),
            Detector::Email | Detector::Phone => {}
        }
    }
}

/// The Luhn sum (ISO/IEC 7812-1), and a first digit that cards have.
fn is_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let doubled = |d: u32| if d > 4 { d * 2 - 9 } else { d * 2 };
    let sum: u32 = digits.iter().rev().enumerate().map(|(i, d)| if i % 2 == 1 { doubled(*d) } else { *d }).sum();
    matches!(digits.first(), Some(2..=6)) && sum.is_multiple_of(10)
}

/// The bytes of the shortest prefix that is an account: what follows may be ordinary words, which
/// the shape cannot tell from groups. The remainder modulo 97 of the rearranged number must be 1.
fn iban_length(text: &str) -> Option<usize> {
    let value = |c: char| c.to_digit(36);
    let head: Vec<char> = text.chars().take(4).collect();
    let push = |remainder: u32, v: u32| if v > 9 { (remainder * 100 + v) % 97 } else { (remainder * 10 + v) % 97 };
    let mut remainder = 0;
    let mut count = 4;
    for (at, c) in text.char_indices().skip(4) {
        let Some(v) = value(c) else { continue };
        remainder = push(remainder, v);
        count += 1;
        let ends = text.get(at + c.len_utf8()..).is_none_or(|r| !r.starts_with(|c: char| c.is_alphanumeric()));
        if count >= 15 && ends {
            let whole = head.iter().filter_map(|c| value(*c)).fold(remainder, push);
            if whole == 1 {
                return Some(at + c.len_utf8());
            }
        }
    }
    None
}
