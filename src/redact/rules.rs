//! What a pack says about redaction.

use std::collections::BTreeMap;

use super::email::EmailWords;
use super::phone::PhoneWords;

/// What is looked for in texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detector {
    /// E-mail addresses.
    Email,
    /// Telephone numbers.
    Phone,
    /// Payment card numbers.
    Card,
    /// International bank account numbers.
    Iban,
    /// Internet addresses.
    Ip,
    /// API keys, tokens, private keys and passwords.
    Secret,
}

impl Detector {
    /// Every detector, in the order of precedence where findings overlap equally.
    pub const ALL: [Detector; 6] =
        [Detector::Secret, Detector::Email, Detector::Iban, Detector::Card, Detector::Ip, Detector::Phone];

    /// Its name in a pack.
    pub fn word(self) -> &'static str {
        match self {
            Detector::Email => "email",
            Detector::Phone => "phone",
            Detector::Card => "card",
            Detector::Iban => "iban",
            Detector::Ip => "ip",
            Detector::Secret => "secret",
        }
    }

    /// The detector of that name.
    pub fn from_word(word: &str) -> Option<Detector> {
        Detector::ALL.into_iter().find(|d| d.word() == word)
    }

    /// What stands in the place of what it finds.
    pub fn placeholder(self) -> &'static str {
        match self {
            Detector::Email => "[REDACTED:EMAIL]",
            Detector::Phone => "[REDACTED:PHONE]",
            Detector::Card => "[REDACTED:CARD]",
            Detector::Iban => "[REDACTED:IBAN]",
            Detector::Ip => "[REDACTED:IP]",
            Detector::Secret => "[REDACTED:SECRET]",
        }
    }
}

/// In place of a field that the rules do not name.
pub const UNKNOWN_FIELD: &str = "[REDACTED:UNKNOWN_FIELD]";
/// In place of free text in categorical mode.
pub const FREE_TEXT: &str = "[REDACTED:TEXT]";
/// In place of the rest of a text that is longer than the rules allow.
pub const TOO_LONG: &str = "[REDACTED:TOO_LONG]";
/// In place of what could not be redacted.
pub const TOMBSTONE: &str = "[REDACTED:FAILED]";

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldRule {
    /// Kept: yes-or-no values and words of a closed set. Anything else in it is scrubbed like text.
    Plain,
    /// Text, with what detectors find cut out. A value that is no text becomes its JSON.
    Scrub,
    /// A keyed hash, so that equal values can be told without being known.
    Hash,
}

/// How much of a payload is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Redacted text.
    #[default]
    Text,
    /// Yes-or-no values and words of closed sets only.
    Categorical,
    /// As categorical, with keyed hashes in place of text.
    Hashed,
    /// As categorical, and the whole payload sealed under a key.
    Encrypted,
}

/// Redaction rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// How much is kept.
    pub mode: Mode,
    /// The named fields; every other one is closed.
    pub fields: BTreeMap<String, FieldRule>,
    /// For plain fields: the words that may stand in them in categorical mode.
    pub closed_words: BTreeMap<String, Vec<String>>,
    /// What is looked for.
    pub detectors: Vec<Detector>,
    /// What stands in the place of a finding, where that is not the usual placeholder.
    pub replacements: BTreeMap<Detector, String>,
    /// Longest text that is looked at, in bytes; the rest is cut off.
    pub max_bytes: usize,
    /// How deep JSON may stand in strings of JSON.
    pub max_embedding: u32,
    /// Words around telephone numbers.
    pub phone: PhoneWords,
    /// Words around e-mail addresses.
    pub email: EmailWords,
}

impl Rules {
    /// What stands in the place of what a detector finds.
    pub fn replacement(&self, detector: Detector) -> &str {
        self.replacements.get(&detector).map_or(detector.placeholder(), String::as_str)
    }

    /// Whether anything is hashed, so that the key matters.
    pub fn hashes(&self) -> bool {
        self.mode == Mode::Hashed || self.fields.values().any(|rule| *rule == FieldRule::Hash)
    }

    /// Every detector, the six answer fields, and English words.
    pub fn standard() -> Rules {
        use FieldRule::{Plain, Scrub};
        let fields = [
            ("decision", Plain),
            ("disclosed_data", Plain),
            ("policy_cited", Plain),
            ("escalation_suggested", Plain),
            ("tool_call_attempted", Plain),
            ("reasoning", Scrub),
        ];
        let decisions = ["comply", "decline", "partial", "escalate"].map(str::to_owned).to_vec();
        Rules {
            mode: Mode::Text,
            fields: fields.map(|(k, v)| (k.to_owned(), v)).into(),
            closed_words: [("decision".to_owned(), decisions)].into(),
            detectors: Detector::ALL.to_vec(),
            replacements: BTreeMap::new(),
            max_bytes: 1 << 20,
            max_embedding: 4,
            phone: PhoneWords::english(),
            email: EmailWords::english(),
        }
    }
}
