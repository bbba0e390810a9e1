//! The two gates of a probe: before it is sent, and when an answer comes back.
//!
//! Before sending, a probe must be complete. Afterwards an answer must be JSON of bounded size, an
//! object, with the fields of the schema and their types. Numbers are kept as they were written:
//! their type is all that matters here, and `1.0` is not an integer.

use std::sync::Arc;

use super::{JsonType, Probe, Schema};
use crate::model::{JsonError, Value, json};

/// Limits of the answer parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLimits {
    /// Longest answer, in bytes.
    pub bytes: usize,
    /// How deep lists and objects may nest.
    pub depth: u32,
    /// Longest number, in characters.
    pub number_chars: usize,
    /// Accept numbers beyond the range of a double.
    pub beyond_double: bool,
    /// Read a lone surrogate escape as U+FFFD instead of refusing the answer.
    pub lone_surrogates: bool,
}

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anomaly {
    /// Not JSON within the limits.
    ParseFailure,
    /// No object, fields too many, or of the wrong type.
    SchemaMismatch,
    /// Fields are missing.
    FieldMissing,
}

impl Anomaly {
    /// Every anomaly.
    pub const ALL: [Anomaly; 3] = [Anomaly::ParseFailure, Anomaly::SchemaMismatch, Anomaly::FieldMissing];

    /// Its name in signals.
    pub fn word(self) -> &'static str {
        match self {
            Anomaly::ParseFailure => "parse_failure",
            Anomaly::SchemaMismatch => "schema_mismatch",
            Anomaly::FieldMissing => "field_missing",
        }
    }

    /// The anomaly of that name.
    pub fn from_word(word: &str) -> Option<Anomaly> {
        Anomaly::ALL.into_iter().find(|a| a.word() == word)
    }
}

/// Why an answer is anomalous. Names of fields are the answer's own words: they go to the caller
/// that sent them, and through redaction before they go anywhere else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Longer than allowed.
    #[error("the answer has {bytes} bytes, more than {limit}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Not JSON.
    #[error("the answer is not JSON: {0}")]
    Parse(JsonError),
    /// A number longer than allowed.
    #[error("the answer holds a number of more than {limit} characters")]
    LongNumber {
        /// The limit.
        limit: usize,
    },
    /// JSON, but no object.
    #[error("the answer is no object")]
    NotObject {
        /// What it is; none for a number that is not JSON.
        got: Option<JsonType>,
    },
    /// Fields of the schema are missing, in code-point order.
    #[error("the answer lacks {} field(s)", fields.len())]
    Missing {
        /// Their names.
        fields: Vec<Arc<str>>,
    },
    /// Fields that the schema does not have, in code-point order.
    #[error("the answer has {} field(s) too many", fields.len())]
    Unexpected {
        /// Their names.
        fields: Vec<Arc<str>>,
    },
    /// Fields of the wrong type, in code-point order.
    #[error("the answer has {} field(s) of the wrong type", fields.len())]
    WrongType {
        /// Their names.
        fields: Vec<Arc<str>>,
    },
}

impl AnswerError {
    /// The anomaly that it is.
    pub fn anomaly(&self) -> Anomaly {
        match self {
            AnswerError::TooLong { .. } | AnswerError::Parse(_) | AnswerError::LongNumber { .. } => {
                Anomaly::ParseFailure
            }
            AnswerError::Missing { .. } => Anomaly::FieldMissing,
            AnswerError::NotObject { .. } | AnswerError::Unexpected { .. } | AnswerError::WrongType { .. } => {
                Anomaly::SchemaMismatch
            }
        }
    }
}

/// Parses an answer within the limits. Numbers are kept as written.
pub fn parse_answer(text: &[u8], limits: &ParseLimits) -> Result<Value, AnswerError> {
    if text.len() > limits.bytes {
        return Err(AnswerError::TooLong { bytes: text.len(), limit: limits.bytes });
    }
    let reading = json::Reading {
        depth: limits.depth,
        numbers: if limits.beyond_double { json::Numbers::AsWrittenAnySize } else { json::Numbers::AsWritten },
    };
    let value = if limits.lone_surrogates {
        json::parse_with(&json::replace_lone_surrogates(text), reading)
    } else {
        json::parse_with(text, reading)
    };
    let value = value.map_err(AnswerError::Parse)?;
    if has_long_number(&value, limits.number_chars) {
        return Err(AnswerError::LongNumber { limit: limits.number_chars });
    }
    Ok(value)
}

fn has_long_number(value: &Value, limit: usize) -> bool {
    match value {
        Value::Huge(text) => text.len() > limit,
        Value::List(items) => items.iter().any(|v| has_long_number(v, limit)),
        Value::Object(o) => o.iter().any(|(_, v)| has_long_number(v, limit)),
        _ => false,
    }
}

/// Checks a parsed answer against a schema: an object; no field missing; none too many; none of the
/// wrong type; the first of these that fails is reported.
pub fn check_answer(value: &Value, schema: &Schema) -> Result<(), AnswerError> {
    let Some(object) = value.as_object() else {
        return Err(AnswerError::NotObject { got: JsonType::of(value) });
    };
    let missing: Vec<Arc<str>> =
        schema.iter().filter(|(name, _)| object.get(name).is_none()).map(|(name, _)| Arc::from(name)).collect();
    if !missing.is_empty() {
        return Err(AnswerError::Missing { fields: missing });
    }
    let unexpected: Vec<Arc<str>> =
        object.iter().filter(|(name, _)| !schema.has(name)).map(|(name, _)| Arc::clone(name)).collect();
    if !unexpected.is_empty() {
        return Err(AnswerError::Unexpected { fields: unexpected });
    }
    let wrong = |name: &str, word: &str| {
        let found = object.get(name).and_then(JsonType::of);
        !JsonType::from_word(word).is_some_and(|t| t.accepts(found))
    };
    let fields: Vec<Arc<str>> =
        schema.iter().filter(|(name, word)| wrong(name, word)).map(|(name, _)| Arc::from(name)).collect();
    if fields.is_empty() { Ok(()) } else { Err(AnswerError::WrongType { fields }) }
}

/// Why a probe cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// A part that is empty, or looks empty.
    #[error("the probe's {part} is blank")]
    Blank {
        /// Which part.
        part: ProbePart,
    },
    /// A field of the schema without a name.
    #[error("the probe's schema has a field without a name")]
    NamelessField,
    /// A type that schemas do not know.
    #[error("the probe's schema gives {field:?} the unknown type {word:?}")]
    UnknownType {
        /// The field.
        field: Arc<str>,
        /// The word.
        word: Arc<str>,
    },
}

/// The parts of a probe that must not be blank, in the order in which they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbePart {
    /// Its id.
    Id,
    /// What is asked.
    Scenario,
    /// The version of its library.
    LibraryVersion,
    /// The rule under pressure.
    Constraint,
    /// The kind of pressure.
    StressType,
    /// What the answer must look like.
    Schema,
}

impl ProbePart {
    /// Its name in a probe library.
    pub fn word(self) -> &'static str {
        match self {
            ProbePart::Id => "probe_id",
            ProbePart::Scenario => "scenario",
            ProbePart::LibraryVersion => "probe_library_version",
            ProbePart::Constraint => "policy_pressure.constraint",
            ProbePart::StressType => "policy_pressure.stress_type",
            ProbePart::Schema => "expected_schema",
        }
    }
}

impl std::fmt::Display for ProbePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// Checks that a probe of a library version can be sent. The first blank part is reported.
pub fn check_probe(probe: &Probe, library_version: &str) -> Result<(), ProbeError> {
    let texts = [
        (ProbePart::Id, &*probe.id),
        (ProbePart::Scenario, &*probe.scenario),
        (ProbePart::LibraryVersion, library_version),
        (ProbePart::Constraint, &*probe.constraint),
        (ProbePart::StressType, &*probe.stress_type),
    ];
    for (part, text) in texts {
        if is_blank(text) {
            return Err(ProbeError::Blank { part });
        }
    }
    if probe.schema.is_empty() {
        return Err(ProbeError::Blank { part: ProbePart::Schema });
    }
    for (field, word) in probe.schema.iter() {
        if is_blank(field) {
            return Err(ProbeError::NamelessField);
        }
        if JsonType::from_word(word).is_none() {
            return Err(ProbeError::UnknownType { field: Arc::from(field), word: Arc::from(word) });
        }
    }
    Ok(())
}

/// Nothing in it leaves a mark: white space, control and format characters (zero width and such).
pub(super) fn is_blank(text: &str) -> bool {
    use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};
    text.chars().all(|c| {
        c.is_whitespace()
            || matches!(c.general_category_group(), GeneralCategoryGroup::Other | GeneralCategoryGroup::Separator)
    })
}
