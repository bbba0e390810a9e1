//! Internet addresses and secrets, by shape; payment cards and bank accounts by their check digits as well.

use std::{net::IpAddr, ops::Range};

use regex::Regex;

use super::{Detector, card, iban};

/// The compiled shapes.
#[derive(Debug)]
pub(super) struct Shapes {
    ip: Regex,
    secret: Regex,
}

// Boundaries of words are those of ASCII: others would keep the regex engine from its automaton wherever a text holds
// any other letter, and a key that is glued to an accented letter is one all the same.

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
        Ok(Shapes { ip: Regex::new(IP)?, secret: Regex::new(SECRET)? })
    }

    /// Byte ranges of what a detector finds.
    pub(super) fn find(&self, detector: Detector, text: &str, found: &mut Vec<(Range<usize>, Detector)>) {
        let mut push = |range: Range<usize>| found.push((range, detector));
        match detector {
            Detector::Card => card::find(text, push),
            Detector::Iban => iban::find(text, push),
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
