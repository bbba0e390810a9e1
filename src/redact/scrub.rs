//! Cuts out of texts and payloads what must not leave.
//!
//! Parsed values are redacted, never JSON text; names of fields too, and what stands under the name
//! of a secret goes as a whole; JSON inside strings is read, redacted and written again. The result is scanned once more, and where something still shows, a
//! tombstone takes its place. All of it is linear in the length of the text.

use std::{collections::BTreeSet, fmt, ops::Range, sync::Arc};

use super::{
    Detector, FieldRule, Kept, Mode, Redacted, Rules, Side,
    rules::{FREE_TEXT, TOMBSTONE, TOO_LONG, UNKNOWN_FIELD},
    scan::{Look, Scanner},
    under,
};
use crate::model::{Object, Value, json};

/// How often a text is scanned before it is given up.
const PASSES: usize = 3;

/// Compiled redaction rules. Clones share them.
#[derive(Clone)]
pub struct Redactor {
    rules: Arc<Rules>,
    scanner: Arc<Scanner>,
    key: [u8; 32],
}

impl fmt::Debug for Redactor {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// A value that cannot be redacted now. Nothing of it may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer could not be redacted")]
pub struct Unredactable;

/// Whatever redacts payloads: a [`Redactor`], or a [`Keeper`](super::Keeper), which also seals.
pub trait Redact {
    /// A payload by the field rules.
    fn redact(&self, side: Side, payload: &Value) -> Result<Kept, Unredactable>;
}

impl Redact for Redactor {
    fn redact(&self, _: Side, payload: &Value) -> Result<Kept, Unredactable> {
        Ok(Kept { shown: self.payload(payload), sealed: None })
    }
}

/// Redaction rules that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// A built-in shape did not compile.
    #[error("a redaction pattern does not compile: {0}")]
    Pattern(#[from] regex::Error),
    /// Texts of no length are allowed.
    #[error("redaction.max_bytes must be at least 1")]
    Length,
    /// A replacement that is empty, or that a detector would find again.
    #[error("the replacement for {} is empty or would itself be found", detector.word())]
    Replacement {
        /// The detector that it belongs to.
        detector: Detector,
    },
}

impl Redactor {
    /// Compiles rules. `key` makes hashes: equal values hash alike under the same key only.
    pub fn new(rules: Rules, key: [u8; 32]) -> Result<Redactor, RulesError> {
        if rules.max_bytes == 0 {
            return Err(RulesError::Length);
        }
        let scanner = Arc::new(Scanner::new(&rules)?);
        let redactor = Redactor { rules: Arc::new(rules), scanner, key };
        for (detector, replacement) in &redactor.rules.replacements {
            if replacement.trim().is_empty() || redactor.cut(replacement, None, true).is_some() {
                return Err(RulesError::Replacement { detector: *detector });
            }
        }
        Ok(redactor)
    }

    /// The same rules under another key.
    #[must_use]
    pub fn with_key(&self, key: [u8; 32]) -> Redactor {
        Redactor { key, ..self.clone() }
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A text with what detectors find cut out.
    pub fn text(&self, text: &str) -> Redacted<String> {
        Redacted::new(self.scrub(text, None, 0))
    }

    /// Any value, with every text and every name in it scrubbed. Nothing in it is closed.
    pub fn value(&self, value: &Value) -> Redacted<Value> {
        Redacted::new(self.deep(value, None, 0))
    }

    /// A payload by the field rules: plain, scrubbed and hashed fields, all others closed. What is
    /// no object is scrubbed as a whole.
    pub fn payload(&self, value: &Value) -> Redacted<Value> {
        let Some(object) = value.as_object() else {
            return Redacted::new(match self.rules.mode {
                Mode::Text => self.deep(value, None, 0),
                Mode::Categorical | Mode::Hashed | Mode::Encrypted => Value::string(TOMBSTONE),
            });
        };
        let mut names = BTreeSet::new();
        let entries: Vec<(Arc<str>, Value)> =
            object.iter().map(|(name, value)| (self.name(name, &mut names), self.field(name, value))).collect();
        Redacted::new(Value::object(entries))
    }

    /// A keyed hash of a text, as a placeholder that no detector mistakes for anything.
    pub fn hash(&self, text: &str) -> Redacted<String> {
        Redacted::new(self.hashed(text))
    }

    /// What takes the place of a value that could not be redacted.
    pub fn tombstone() -> Kept {
        Kept { shown: Redacted::new(Value::string(TOMBSTONE)), sealed: None }
    }

    fn field(&self, name: &str, value: &Value) -> Value {
        let Some(rule) = self.rules.fields.get(name) else {
            return Value::string(UNKNOWN_FIELD);
        };
        match (self.rules.mode, rule) {
            (_, FieldRule::Hash) => Value::string(&self.hashed(&json_text(value))),
            (Mode::Text, FieldRule::Plain) => self.under(name, value, 0),
            (Mode::Text, FieldRule::Scrub) => match self.under(name, value, 0) {
                text @ Value::String(_) => text,
                other => Value::string(&other.to_string()),
            },
            (mode, rule) => match value {
                Value::Bool(_) | Value::Null => value.clone(),
                Value::String(s) if *rule == FieldRule::Plain && self.is_closed_word(name, s) => value.clone(),
                other if mode == Mode::Hashed => Value::string(&self.hashed(&json_text(other))),
                _ => Value::string(FREE_TEXT),
            },
        }
    }

    fn is_closed_word(&self, name: &str, word: &str) -> bool {
        self.rules.closed_words.get(name).is_some_and(|words| words.iter().any(|w| w == word))
    }

    /// Letters only: digits could look like a number.
    fn hashed(&self, text: &str) -> String {
        let hash = blake3::keyed_hash(&self.key, text.as_bytes());
        let nibbles = hash.as_bytes().iter().take(10).flat_map(|b| [b >> 4, b & 15]);
        let letters: String = nibbles.map(|n| char::from(b'a' + n)).collect();
        format!("[HASH:{letters}]")
    }

    /// A field's name, scrubbed. Names that become alike are numbered, so that no field is lost.
    fn name(&self, name: &str, taken: &mut BTreeSet<String>) -> Arc<str> {
        let scrubbed = self.scrub(name, None, 0);
        let mut unique = scrubbed.clone();
        let mut number = 1;
        while !taken.insert(unique.clone()) {
            number += 1;
            unique = format!("{scrubbed} ({number})");
        }
        Arc::from(unique)
    }

    fn deep(&self, value: &Value, key: Option<&str>, embedded: u32) -> Value {
        match value {
            Value::Null | Value::Bool(_) => value.clone(),
            Value::Number(_) | Value::Huge(_) => {
                let text = value.to_string();
                let scrubbed = self.scrub(&text, key, embedded);
                if scrubbed == text { value.clone() } else { Value::string(&scrubbed) }
            }
            Value::String(s) => Value::string(&self.scrub(s, key, embedded)),
            Value::List(items) => {
                let item = |(i, value)| match self.looks_for_secrets() && under::follows(items, i) {
                    true => self.closed(value),
                    false => self.deep(value, key, embedded),
                };
                Value::list(items.iter().enumerate().map(item).collect())
            }
            Value::Object(object) => self.fields(object, embedded),
        }
    }

    fn fields(&self, object: &Object, embedded: u32) -> Value {
        let mut names = BTreeSet::new();
        let paired = self.looks_for_secrets() && under::names_secret(object);
        let entry = |(name, value): (&Arc<str>, &Value)| {
            let value = match paired && under::is_value(name) {
                true => self.closed(value),
                false => self.under(name, value, embedded),
            };
            (self.name(name, &mut names), value)
        };
        Value::object(object.iter().map(entry).collect::<Vec<_>>())
    }

    /// A value under a name: nothing of it is left if the name announces a secret.
    fn under(&self, name: &str, value: &Value, embedded: u32) -> Value {
        match self.looks_for_secrets() && under::is_secret(name, value) {
            true => self.closed(value),
            false => self.deep(value, Some(name), embedded),
        }
    }

    fn looks_for_secrets(&self) -> bool {
        self.rules.detectors.contains(&Detector::Secret)
    }

    /// What takes the place of a secret value.
    fn closed(&self, value: &Value) -> Value {
        let is_placeholder = |value: &Value| value.as_str().is_some_and(|text| self.scanner.is_placeholder(text));
        match under::holds(value) && !is_placeholder(value) {
            true => Value::string(self.rules.replacement(Detector::Secret)),
            false => value.clone(),
        }
    }

    fn scrub(&self, text: &str, key: Option<&str>, embedded: u32) -> String {
        let read = start_of(text, self.rules.max_bytes);
        let rest = if read.len() < text.len() { TOO_LONG } else { "" };
        let parsed = self.embedded(read, key, embedded);
        // The names of fields that are read have told what stands under them.
        let names = parsed.is_none();
        let first = parsed.or_else(|| self.cut(read, key, names));
        let Some(mut out) = first else { return [read, rest].concat() };
        // Cutting brings texts together that stood apart: scan the result as well.
        for _ in 0..PASSES {
            match self.cut(&out, key, names) {
                Some(again) => out = again,
                None => return out + rest,
            }
        }
        TOMBSTONE.to_owned()
    }

    /// A text that is a JSON object or list, redacted by its values.
    fn embedded(&self, text: &str, key: Option<&str>, embedded: u32) -> Option<String> {
        let trimmed = text.trim();
        let framed = (trimmed.starts_with('{') && trimmed.ends_with('}'))
            || (trimmed.starts_with('[') && trimmed.ends_with(']') && !trimmed.starts_with("[REDACTED:"));
        if !framed {
            return None;
        }
        let reading = json::Reading { depth: json::MAX_DEPTH, numbers: json::Numbers::AsWrittenAnySize };
        let value = json::parse_with(trimmed.as_bytes(), reading).ok()?;
        if embedded >= self.rules.max_embedding {
            return Some(TOMBSTONE.to_owned());
        }
        let redacted = self.deep(&value, key, embedded + 1);
        // Untouched JSON keeps its spelling.
        Some(if redacted == value { text.to_owned() } else { redacted.to_string() })
    }

    /// The text without what detectors find; none if they find nothing.
    fn cut(&self, text: &str, key: Option<&str>, names: bool) -> Option<String> {
        let mut found = self.scanner.find(text, Look { detectors: &self.rules.detectors, key, names });
        if found.is_empty() {
            return None;
        }
        let rank = |d: Detector| Detector::ALL.iter().position(|x| *x == d);
        found.sort_by(|(a, da), (b, db)| (a.start, b.end, rank(*da)).cmp(&(b.start, a.end, rank(*db))));
        let mut merged: Vec<(Range<usize>, Detector)> = Vec::new();
        for (range, detector) in found {
            match merged.last_mut() {
                Some((last, _)) if range.start < last.end => last.end = last.end.max(range.end),
                _ => merged.push((range, detector)),
            }
        }
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for (range, detector) in merged {
            out.push_str(text.get(at..range.start).unwrap_or_default());
            out.push_str(self.rules.replacement(detector));
            at = range.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        Some(out)
    }
}

/// As many whole characters as fit into so many bytes.
fn start_of(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

fn json_text(value: &Value) -> String {
    match value {
        Value::String(s) => s.to_string(),
        other => other.to_string(),
    }
}
