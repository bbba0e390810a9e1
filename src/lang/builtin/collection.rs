//! Functions on lists, sets and objects.

use std::sync::Arc;

use super::{Arg, Builtin, DependsOn, first, value};
use crate::{
    diag::Span,
    lang::{
        types::Ty,
        val::{Datum, Val},
    },
    model::{Num, Value},
};

pub(super) const FUNCTIONS: &[Builtin] = &[
    Builtin {
        name: "len",
        params: &[value("x", Ty::Any)],
        optional: 0,
        repeats: false,
        gives: Ty::Number,
        depends_on: DependsOn::Arguments,
        doc: "How many elements a list or set has, how many keys an object, how many characters a text.",
        examples: &[("len([1, 1])", "2"), ("len({1, 1})", "1"), ("len(\"häh\")", "3"), ("len(5)", "?")],
        eval: len,
    },
    Builtin {
        name: "keys",
        params: &[value("object", Ty::Object)],
        optional: 0,
        repeats: false,
        gives: Ty::List,
        depends_on: DependsOn::Arguments,
        doc: "The keys of an object, as a list in code point order.",
        examples: &[("keys([])", "?")],
        eval: |args, at| entries(args, at, |key, _| Value::String(key.clone())),
    },
    Builtin {
        name: "values",
        params: &[value("object", Ty::Object)],
        optional: 0,
        repeats: false,
        gives: Ty::List,
        depends_on: DependsOn::Arguments,
        doc: "The values of an object, as a list in the order of its keys.",
        examples: &[("values(1)", "?")],
        eval: |args, at| entries(args, at, |_, value| value.clone()),
    },
];

fn len(args: &[Arg<'_>], at: Span) -> Val {
    let v = first(args);
    let length = match v {
        Val::Known(Datum::Json(Value::String(s))) => s.chars().count(),
        Val::Known(Datum::Json(Value::List(items))) => items.len(),
        Val::Known(Datum::Json(Value::Object(o))) => o.len(),
        Val::Known(Datum::Partial(items)) => items.len(),
        Val::Known(Datum::Set(items, None)) => items.len(),
        // An open set has at least what is known, and one more that is not.
        Val::Known(Datum::Set(items, Some(why))) => {
            let known = u64::try_from(items.len()).unwrap_or(u64::MAX);
            return Val::count(known, known.saturating_add(1), *why);
        }
        other => return Val::Unknown(other.why(at, "list, set, object or string")),
    };
    Val::num(Num::from(u64::try_from(length).unwrap_or(u64::MAX)))
}

fn entries(args: &[Arg<'_>], at: Span, f: fn(&Arc<str>, &Value) -> Value) -> Val {
    let v = first(args);
    match v {
        Val::Known(Datum::Json(Value::Object(o))) => Val::json(Value::list(o.iter().map(|(k, v)| f(k, v)).collect())),
        other => Val::Unknown(other.why(at, "object")),
    }
}
