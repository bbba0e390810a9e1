//! Secrets by shape; and what is looked for in the text as it stands: cards, accounts and internet addresses.

use std::ops::Range;

use regex::Regex;

use super::{Detector, card, iban, ip};

/// The compiled shapes.
#[derive(Debug)]
pub(super) struct Shapes {
    secret: Regex,
}

// Boundaries of words are those of ASCII: others would keep the regex engine from its automaton wherever a text holds
// any other letter, and a key that is glued to an accented letter is one all the same.

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
        Ok(Shapes { secret: Regex::new(SECRET)? })
    }

    /// Byte ranges of what a detector finds.
    pub(super) fn find(&self, detector: Detector, text: &str, found: &mut Vec<(Range<usize>, Detector)>) {
        let mut push = |range: Range<usize>| found.push((range, detector));
        match detector {
            Detector::Card => card::find(text, push),
            Detector::Iban => iban::find(text, push),
            Detector::Ip => ip::find(text, push),
            Detector::Secret => self.secret.find_iter(text).for_each(|m| push(m.range())),
            Detector::Email | Detector::Phone => {}
        }
    }
}
