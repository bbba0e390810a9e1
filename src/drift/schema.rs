//! What an answer must look like: field names with a JSON type each.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::model::Value;

/// The types that a schema can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JsonType {
    /// Text.
    String,
    /// `true` or `false`.
    Boolean,
    /// Any number.
    Number,
    /// A number written without fraction and exponent.
    Integer,
    /// An object.
    Object,
    /// A list.
    Array,
    /// `null`.
    Null,
}

impl JsonType {
    /// Every type.
    pub const ALL: [JsonType; 7] = [
        JsonType::String,
        JsonType::Boolean,
        JsonType::Number,
        JsonType::Integer,
        JsonType::Object,
        JsonType::Array,
        JsonType::Null,
    ];

    /// Its name in schemas.
    pub fn word(self) -> &'static str {
        match self {
            JsonType::String => "string",
            JsonType::Boolean => "boolean",
            JsonType::Number => "number",
            JsonType::Integer => "integer",
            JsonType::Object => "object",
            JsonType::Array => "array",
            JsonType::Null => "null",
        }
    }

    /// The type of that name.
    pub fn from_word(word: &str) -> Option<JsonType> {
        JsonType::ALL.into_iter().find(|t| t.word() == word)
    }

    /// The most specific type of a value whose numbers are kept as written. A number that is not
    /// JSON (which only a caller in this process could build) has none.
    pub fn of(value: &Value) -> Option<JsonType> {
        Some(match value {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::String(_) => JsonType::String,
            Value::List(_) => JsonType::Array,
            Value::Object(_) => JsonType::Object,
            Value::Number(n) if n.floor() == *n => JsonType::Integer,
            Value::Number(_) => JsonType::Number,
            Value::Huge(text) => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                if !digits.starts_with(|c: char| c.is_ascii_digit()) {
                    return None;
                }
                if digits.bytes().all(|b| b.is_ascii_digit()) { JsonType::Integer } else { JsonType::Number }
            }
        })
    }

    /// Whether a value of type `found` will do. An integer is a number.
    pub fn accepts(self, found: Option<JsonType>) -> bool {
        found == Some(self) || (self == JsonType::Number && found == Some(JsonType::Integer))
    }
}

impl fmt::Display for JsonType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A schema: each field that an answer must have, and nothing else. Types are words, so that a
/// schema that was never checked can still be asked; an unknown word accepts no value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    fields: BTreeMap<Arc<str>, Arc<str>>,
}

impl Schema {
    /// A schema of (name, type word) pairs.
    pub fn new<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Schema {
        Schema { fields: fields.into_iter().map(|(k, v)| (Arc::from(k), Arc::from(v))).collect() }
    }

    /// The schema of the six answer fields.
    pub fn answer() -> Schema {
        let of = |f: super::Field| if f.is_flag() { JsonType::Boolean.word() } else { JsonType::String.word() };
        Schema::new(super::Field::ALL.iter().map(|f| (f.word(), of(*f))))
    }

    /// True without any field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Fields in code-point order, with their type words.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(k, v)| (&**k, &**v))
    }

    /// Whether the schema has the field.
    pub fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }
}
