//! Join keys: what an index can know of the two sides of an equality.
//!
//! The index of a history question files earlier events under the value of one side, and is asked
//! with the value of the other. It must say what [`ops::equal`](super::ops::equal) says: for most
//! values equality of keys decides; for the rest a key tells at least with what it may be equal.

use std::{collections::BTreeSet, sync::Arc};

use super::val::{Datum, Val};
use crate::model::{Num, Seq, Value};

/// One side of an equality.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Equal to the same value alone.
    Exact(Exact),
    /// A number, list, object or set with something in it that cannot be compared: perhaps equal to
    /// any of its type, and to nothing else.
    Of(&'static str),
    /// An open count: perhaps equal to a number between the two, ends included.
    Between(i64, i64),
    /// Perhaps equal to anything.
    Unknown,
}

/// A value that can be compared exactly.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Exact {
    /// A JSON value.
    Json(Value),
    /// A set.
    Set(Arc<BTreeSet<Value>>),
    /// A time.
    Time(Num),
    /// A duration.
    Duration(Num),
    /// An event, by its position.
    Event(Seq),
}

/// A tuple of parts.
pub type Key = Vec<Part>;

impl Part {
    /// What is known of a value.
    pub fn of(val: &Val) -> Part {
        match val {
            Val::Known(Datum::Json(value)) if value.is_exact() => Part::Exact(Exact::Json(value.clone())),
            Val::Known(Datum::Json(_) | Datum::Partial(_) | Datum::Set(_, Some(_))) => Part::Of(val.type_name()),
            Val::Known(Datum::Set(items, None)) => Part::Exact(Exact::Set(Arc::clone(items))),
            Val::Known(Datum::Time(time)) => Part::Exact(Exact::Time(*time)),
            Val::Known(Datum::Duration(length)) => Part::Exact(Exact::Duration(*length)),
            Val::Known(Datum::Event(event)) => Part::Exact(Exact::Event(event.seq)),
            Val::Range(low, high, _) => Part::Between(*low, *high),
            Val::Absent | Val::Unknown(_) => Part::Unknown,
        }
    }

    /// Whether equality with it can be certain.
    pub fn is_exact(&self) -> bool {
        matches!(self, Part::Exact(_))
    }

    /// False if the two are certainly different.
    pub fn may_equal(&self, other: &Part) -> bool {
        match (self, other) {
            (Part::Unknown, _) | (_, Part::Unknown) => true,
            (Part::Exact(a), Part::Exact(b)) => a == b,
            (Part::Of(ty), Part::Exact(exact)) | (Part::Exact(exact), Part::Of(ty)) => exact.type_name() == *ty,
            (Part::Of(a), Part::Of(b)) => a == b,
            (Part::Between(low, high), Part::Exact(Exact::Json(Value::Number(n))))
            | (Part::Exact(Exact::Json(Value::Number(n))), Part::Between(low, high)) => {
                Num::from(*low) <= *n && *n <= Num::from(*high)
            }
            (Part::Between(a, b), Part::Between(c, d)) => a <= d && c <= b,
            (Part::Between(..), _) | (_, Part::Between(..)) => false,
        }
    }

    /// Rough size in bytes beyond its own.
    pub fn weight(&self) -> usize {
        match self {
            Part::Exact(Exact::Json(value)) => value.weight(),
            Part::Exact(Exact::Set(items)) => items.iter().map(Value::weight).sum(),
            _ => 0,
        }
    }
}

impl Exact {
    fn type_name(&self) -> &'static str {
        match self {
            Exact::Json(value) => value.type_name(),
            Exact::Set(_) => "set",
            Exact::Time(_) => "time",
            Exact::Duration(_) => "duration",
            Exact::Event(_) => "event",
        }
    }
}

/// Whether equality with the key can be certain.
pub fn is_exact(key: &[Part]) -> bool {
    key.iter().all(Part::is_exact)
}

/// False if the two keys are certainly different.
pub fn may_equal(a: &[Part], b: &[Part]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.may_equal(b))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        diag::{Sources, Span},
        lang::{
            ops,
            val::{Tri, Why, WhyKind},
        },
        model::{Event, EventBody, json},
    };

    /// Values of every kind, exact and not.
    fn values() -> Vec<Val> {
        let why = Why::new(WhyKind::Candidate, Span::start_of(Sources::new().add("a", "")));
        let json = |text: &str| Val::json(json::parse(text.as_bytes()).unwrap());
        let huge = "100000000000000000000000000000000000000.5";
        let set = |open| Val::Known(Datum::Set(Arc::new(BTreeSet::from([Value::string("a")])), open));
        let event = |seq| {
            Val::Known(Datum::Event(Arc::new(Event { seq, ordinal: seq, turn: 0, time: None, body: EventBody::End })))
        };
        vec![
            json("null"),
            json("true"),
            json("1"),
            json("1.0"),
            json("3"),
            json("\"a\""),
            json("\"\""),
            json("[]"),
            json("[\"a\"]"),
            json("{\"a\": 1}"),
            json(huge),
            json(&format!("[{huge}]")),
            json(&format!("{{\"a\": {huge}}}")),
            Val::Known(Datum::Partial(Arc::from([Val::Unknown(why)]))),
            set(None),
            set(Some(why)),
            Val::Known(Datum::Time(Num::ONE)),
            Val::Known(Datum::Time(Num::ZERO)),
            Val::Known(Datum::Duration(Num::ONE)),
            event(1),
            event(2),
            Val::Range(0, 2, why),
            Val::Range(2, 3, why),
            Val::Range(4, 5, why),
            Val::Absent,
            Val::Unknown(why),
        ]
    }

    #[test]
    fn keys_say_what_equality_says() {
        let at = Span::start_of(Sources::new().add("a", ""));
        for a in values() {
            for b in values() {
                let (left, right) = (Part::of(&a), Part::of(&b));
                let said = match left.may_equal(&right) {
                    true if left.is_exact() && right.is_exact() => Some(true),
                    true => None,
                    false => Some(false),
                };
                let meant = match ops::equal(&a, &b, at) {
                    Tri::True => Some(true),
                    Tri::False => Some(false),
                    Tri::Unknown(_) => None,
                };
                assert_eq!(said, meant, "{a} ({}) and {b} ({})", a.type_name(), b.type_name());
            }
        }
    }
}
