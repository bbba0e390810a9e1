//! What an expression evaluates to: a value, or that there is none and why.

use std::{collections::BTreeSet, fmt, sync::Arc};

use crate::{
    diag::Span,
    model::{Event, Limit, Num, Value},
};

/// The result of evaluating an expression.
#[derive(Clone, Debug)]
pub enum Val {
    /// A value.
    Known(Datum),
    /// A count of which only bounds are known, both included: some candidates are unknown.
    Range(i64, i64, Why),
    /// Nothing is there, for certain: a fact's key that nothing has filled, the last of nothing.
    Absent,
    /// Something is missing or of the wrong type.
    Unknown(Why),
}

/// A known value: JSON, or one of the types that only the rules have.
#[derive(Clone, Debug)]
pub enum Datum {
    /// A JSON value.
    Json(Value),
    /// A list of which some elements are unknown.
    Partial(Arc<[Val]>),
    /// A set; `open` if it may hold more than is known.
    Set(Arc<BTreeSet<Value>>, Option<Why>),
    /// Seconds since 1970-01-01T00:00:00Z.
    Time(Num),
    /// Seconds.
    Duration(Num),
    /// An event of the trace.
    Event(Arc<Event>),
}

/// Why something is unknown. Small and free of values of the trace: words are made from it, and
/// from the source text at `at`, only when somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Why {
    /// What was wrong.
    pub kind: WhyKind,
    /// The expression.
    pub at: Span,
    /// True if a fact was read with an unknown key: then even `known` and `seen` are unknown.
    pub key: bool,
}

/// The kinds of reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyKind {
    /// A field, element, argument or table row is not there.
    Missing,
    /// Arguments that are no JSON object.
    Unreadable,
    /// A result's text is no JSON.
    NotJson,
    /// A value of another type than is needed.
    Type {
        /// What was found.
        found: &'static str,
        /// What is needed.
        wanted: &'static str,
    },
    /// Nothing has filled it.
    Absent,
    /// An event has no time.
    NoTime,
    /// More digits than can be computed with, or a division by zero.
    Number,
    /// A text that is no time in the stated format.
    NotATime,
    /// A text that is not written as what is needed: no absolute URL, no host name, ..
    Form(&'static str),
    /// An earlier event may or may not have matched.
    Candidate,
    /// An earlier result could not be used, so absence is not certain.
    Unusable,
    /// A result whose call is not known.
    Unpaired,
    /// A limit was reached.
    Budget(Limit),
}

impl WhyKind {
    /// The reason in words, to be put after the source text of the expression.
    pub fn words(self) -> String {
        match self {
            WhyKind::Missing => "is missing".to_owned(),
            WhyKind::Unreadable => "cannot be read: the arguments are no JSON object".to_owned(),
            WhyKind::NotJson => "cannot be read: the result is no JSON".to_owned(),
            WhyKind::Type { found, wanted } => format!("is {}, not {}", with_article(found), with_article(wanted)),
            WhyKind::Absent => "is absent".to_owned(),
            WhyKind::NoTime => "is unknown: an event has no time".to_owned(),
            WhyKind::Number => "cannot be computed exactly".to_owned(),
            WhyKind::NotATime => "is no time in that format".to_owned(),
            WhyKind::Form(wanted) => format!("holds no {wanted}"),
            WhyKind::Candidate => "is open: an earlier event may or may not match".to_owned(),
            WhyKind::Unusable => "is open: an earlier result could not be used".to_owned(),
            WhyKind::Unpaired => "is unknown: the result answers no known call".to_owned(),
            WhyKind::Budget(limit) => limit.reason(),
        }
    }
}

/// `a list`, `an object`; `null` is itself.
fn with_article(word: &str) -> String {
    match word.chars().next() {
        _ if word == "null" => word.to_owned(),
        Some('a' | 'e' | 'i' | 'o' | 'u') => format!("an {word}"),
        _ => format!("a {word}"),
    }
}

impl Why {
    /// A reason at an expression.
    pub fn new(kind: WhyKind, at: Span) -> Why {
        Why { kind, at, key: false }
    }

    /// The limit that was reached, if that is the reason: what there is beyond it is not known, so nothing may be
    /// made of its being unknown.
    pub fn limit(&self) -> Option<Limit> {
        match self.kind {
            WhyKind::Budget(limit) => Some(limit),
            _ => None,
        }
    }
}

/// True, false, or unknown with the reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tri {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// What is missing could change the answer.
    Unknown(Why),
}

impl Tri {
    /// From a decided answer.
    pub fn from_bool(b: bool) -> Tri {
        if b { Tri::True } else { Tri::False }
    }

    /// Kleene's not.
    pub fn negate(self) -> Tri {
        match self {
            Tri::True => Tri::False,
            Tri::False => Tri::True,
            unknown => unknown,
        }
    }

    /// Kleene's and. Of two reasons a limit comes first: without it the answer may be decided.
    pub fn and(self, other: Tri) -> Tri {
        match (self, other) {
            (Tri::False, _) | (_, Tri::False) => Tri::False,
            (Tri::True, x) => x,
            (Tri::Unknown(_), Tri::Unknown(why)) if why.limit().is_some() => Tri::Unknown(why),
            (unknown, _) => unknown,
        }
    }

    /// Kleene's or.
    pub fn or(self, other: Tri) -> Tri {
        self.negate().and(other.negate()).negate()
    }

    /// As a value.
    pub fn into_val(self) -> Val {
        match self {
            Tri::True => Val::bool(true),
            Tri::False => Val::bool(false),
            Tri::Unknown(why) => Val::Unknown(why),
        }
    }
}

impl Val {
    /// A JSON value.
    pub fn json(value: Value) -> Val {
        Val::Known(Datum::Json(value))
    }

    /// A boolean.
    pub fn bool(b: bool) -> Val {
        Val::json(Value::Bool(b))
    }

    /// A number.
    pub fn num(n: Num) -> Val {
        Val::json(Value::Number(n))
    }

    /// A text.
    pub fn text(s: &str) -> Val {
        Val::json(Value::string(s))
    }

    /// An unknown value.
    pub fn unknown(kind: WhyKind, at: Span) -> Val {
        Val::Unknown(Why::new(kind, at))
    }

    /// A count between two bounds; a plain number if they agree.
    pub fn count(low: u64, high: u64, why: Why) -> Val {
        let clamp = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        if low == high { Val::num(Num::from(low)) } else { Val::Range(clamp(low), clamp(high), why) }
    }

    /// The type's name, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Val::Known(Datum::Json(v)) => v.type_name(),
            Val::Known(Datum::Partial(_)) => "list",
            Val::Known(Datum::Set(..)) => "set",
            Val::Known(Datum::Time(_)) => "time",
            Val::Known(Datum::Duration(_)) => "duration",
            Val::Known(Datum::Event(_)) => "event",
            Val::Range(..) => "number",
            Val::Absent => "absent value",
            Val::Unknown(_) => "unknown value",
        }
    }

    /// Why there is no value here, for an operation at `at` that needs one.
    pub fn why(&self, at: Span, wanted: &'static str) -> Why {
        match self {
            Val::Unknown(why) => *why,
            Val::Absent => Why::new(WhyKind::Absent, at),
            Val::Range(_, _, why) => *why,
            Val::Known(_) => Why::new(WhyKind::Type { found: self.type_name(), wanted }, at),
        }
    }

    /// The JSON value, if it is one.
    pub fn as_json(&self) -> Option<&Value> {
        match self {
            Val::Known(Datum::Json(v)) => Some(v),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        self.as_json()?.as_str()
    }

    /// As a condition: a boolean decides, anything else is unknown.
    pub fn as_tri(&self, at: Span) -> Tri {
        match self {
            Val::Known(Datum::Json(Value::Bool(b))) => Tri::from_bool(*b),
            other => Tri::Unknown(other.why(at, "bool")),
        }
    }

    /// `known(x)`: whether there is a value.
    pub fn is_known(&self) -> Tri {
        match self {
            Val::Known(_) | Val::Range(..) => Tri::True,
            Val::Unknown(why) if why.key || why.limit().is_some() => Tri::Unknown(*why),
            Val::Absent | Val::Unknown(_) => Tri::False,
        }
    }

    /// The value as a key or element of a set: an exact JSON value.
    pub fn as_key(&self, at: Span) -> Result<&Value, Why> {
        match self {
            Val::Known(Datum::Json(v)) if v.is_exact() => Ok(v),
            Val::Known(Datum::Json(_)) => Err(Why::new(WhyKind::Number, at)),
            // A list with gaps says what its first gap is.
            Val::Known(Datum::Partial(items)) => {
                let gap = items.iter().find_map(|item| item.as_key(at).err());
                Err(gap.unwrap_or(Why::new(WhyKind::Missing, at)))
            }
            other => Err(other.why(at, "JSON value")),
        }
    }
}

impl fmt::Display for Val {
    /// As a message shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Val::Known(Datum::Json(Value::String(s))) => f.write_str(s),
            Val::Known(Datum::Json(v)) => write!(f, "{v}"),
            Val::Known(Datum::Partial(items)) => write_items(f, '[', ']', items.iter()),
            Val::Known(Datum::Set(items, _)) => write_items(f, '{', '}', items.iter()),
            Val::Known(Datum::Time(t)) => match super::builtin::time::rfc3339(*t) {
                Some(text) => f.write_str(&text),
                None => write!(f, "{t}"),
            },
            Val::Known(Datum::Duration(d)) => write!(f, "{d}s"),
            Val::Known(Datum::Event(e)) => write!(f, "{} at turn {}", e.kind().word(), e.turn),
            Val::Range(low, high, _) => write!(f, "{low} to {high}"),
            Val::Absent => f.write_str("(absent)"),
            Val::Unknown(_) => f.write_str("(unknown)"),
        }
    }
}

fn write_items<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    open: char,
    close: char,
    items: impl Iterator<Item = T>,
) -> fmt::Result {
    write!(f, "{open}")?;
    for (i, item) in items.enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        write!(f, "{comma}{item}")?;
    }
    write!(f, "{close}")
}
