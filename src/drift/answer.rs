//! One answer to a probe, as far as it can be used: six fields, each given, missing or malformed.
//!
//! Only a real boolean is a boolean and only a string is text. What is malformed is kept apart, so
//! that it can be reported and compared, and is never read as "nothing happened".

use std::sync::Arc;

use crate::model::Value;

/// The fields of an answer, in the order in which divergences are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Whether protected data was given out.
    DisclosedData,
    /// The decision word.
    Decision,
    /// Whether a rule was named.
    PolicyCited,
    /// Whether the request was passed on to somebody.
    EscalationSuggested,
    /// Whether a tool was to be run.
    ToolCallAttempted,
    /// Why, in free text.
    Reasoning,
}

impl Field {
    /// Every field, in order.
    pub const ALL: [Field; 6] = [
        Field::DisclosedData,
        Field::Decision,
        Field::PolicyCited,
        Field::EscalationSuggested,
        Field::ToolCallAttempted,
        Field::Reasoning,
    ];

    /// Its name in an answer.
    pub fn word(self) -> &'static str {
        match self {
            Field::DisclosedData => "disclosed_data",
            Field::Decision => "decision",
            Field::PolicyCited => "policy_cited",
            Field::EscalationSuggested => "escalation_suggested",
            Field::ToolCallAttempted => "tool_call_attempted",
            Field::Reasoning => "reasoning",
        }
    }

    /// The field of that name.
    pub fn from_word(word: &str) -> Option<Field> {
        Field::ALL.into_iter().find(|f| f.word() == word)
    }

    /// True for the four yes-or-no fields.
    pub fn is_flag(self) -> bool {
        !matches!(self, Field::Decision | Field::Reasoning)
    }
}

/// A field of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot<T> {
    /// A value of the right type.
    Given(T),
    /// No such key.
    Missing,
    /// A value of another type.
    Malformed(Value),
}

/// How a yes-or-no field that holds no boolean is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Booleans {
    /// As malformed: it equals only itself, so it cannot make two answers look alike.
    #[default]
    Strict,
    /// As `false`.
    ReadFalse,
    /// As what scripting languages call truth: false are `false`, `null`, 0, and what is empty.
    Truthy,
}

/// An answer, extracted. Unknown keys are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    decision: Slot<Arc<str>>,
    reasoning: Slot<Arc<str>>,
    flags: [Slot<bool>; 4],
}

const FLAGS: [Field; 4] =
    [Field::DisclosedData, Field::PolicyCited, Field::EscalationSuggested, Field::ToolCallAttempted];

impl Answer {
    /// Extracts the fields. A value that is no object gives an answer in which all are missing.
    pub fn extract(value: &Value) -> Answer {
        let text = |field: Field| match value.get(field.word()) {
            None => Slot::Missing,
            Some(Value::String(s)) => Slot::Given(Arc::clone(s)),
            Some(other) => Slot::Malformed(other.clone()),
        };
        let flag = |field: Field| match value.get(field.word()) {
            None => Slot::Missing,
            Some(Value::Bool(b)) => Slot::Given(*b),
            Some(other) => Slot::Malformed(other.clone()),
        };
        Answer { decision: text(Field::Decision), reasoning: text(Field::Reasoning), flags: FLAGS.map(flag) }
    }

    /// An answer in which every field is missing.
    pub fn empty() -> Answer {
        Answer::extract(&Value::Null)
    }

    /// The decision word as given, empty if it is missing or no string.
    pub fn decision(&self) -> &str {
        given(&self.decision)
    }

    /// The reasoning as given, empty if it is missing or no string.
    pub fn reasoning(&self) -> &str {
        given(&self.reasoning)
    }

    /// A yes-or-no field as it is; `None` for the two text fields.
    pub fn flag(&self, field: Field) -> Option<&Slot<bool>> {
        FLAGS.iter().zip(&self.flags).find(|(f, _)| **f == field).map(|(_, slot)| slot)
    }

    /// A yes-or-no field read as a plain boolean; what is missing is `false`.
    pub fn is_set(&self, field: Field, booleans: Booleans) -> bool {
        match self.flag(field) {
            Some(Slot::Given(b)) => *b,
            Some(Slot::Malformed(value)) => booleans == Booleans::Truthy && truthy(value),
            Some(Slot::Missing) | None => false,
        }
    }

    /// The yes-or-no fields that hold something else than a boolean.
    pub fn malformed_flags(&self) -> Vec<Field> {
        let malformed = |(field, slot): (&Field, &Slot<bool>)| matches!(slot, Slot::Malformed(_)).then_some(*field);
        FLAGS.iter().zip(&self.flags).filter_map(malformed).collect()
    }

    /// The six fields as an object, what cannot be used as `""` or `false`.
    pub fn payload(&self) -> Value {
        let entry = |field: Field| {
            let value = match field {
                Field::Decision => Value::string(self.decision()),
                Field::Reasoning => Value::string(self.reasoning()),
                flag => Value::Bool(self.is_set(flag, Booleans::ReadFalse)),
            };
            (Arc::from(field.word()), value)
        };
        Value::object(Field::ALL.map(entry))
    }
}

fn given(slot: &Slot<Arc<str>>) -> &str {
    match slot {
        Slot::Given(s) => s,
        Slot::Missing | Slot::Malformed(_) => "",
    }
}

/// Truth as scripting languages see it.
pub(super) fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => !n.is_zero(),
        Value::Huge(text) => text.bytes().take_while(|b| !matches!(b, b'e' | b'E')).any(|b| matches!(b, b'1'..=b'9')),
        Value::String(s) => !s.is_empty(),
        Value::List(items) => !items.is_empty(),
        Value::Object(o) => !o.is_empty(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::model::json;

    fn answer(text: &str) -> Answer {
        Answer::extract(&json::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn only_real_booleans_count() {
        for other in ["1", "\"true\"", "1.0", "[true]", "null"] {
            let a = answer(&format!("{{\"disclosed_data\": {other}}}"));
            assert!(!a.is_set(Field::DisclosedData, Booleans::Strict), "{other}");
            assert_eq!(a.malformed_flags(), [Field::DisclosedData], "{other}");
        }
        assert!(answer("{\"disclosed_data\": true}").is_set(Field::DisclosedData, Booleans::Strict));
    }

    #[test]
    fn what_is_no_object_has_no_fields() {
        for other in ["[]", "3", "\"decline\"", "null"] {
            assert_eq!(answer(other), Answer::empty());
        }
        assert_eq!(Answer::empty().decision(), "");
        assert!(Answer::empty().malformed_flags().is_empty());
    }

    #[test]
    fn words_are_kept_as_given() {
        assert_eq!(answer("{\"decision\": \" Comply\"}").decision(), " Comply");
        assert_eq!(answer("{\"decision\": 7}").decision(), "");
    }
}
