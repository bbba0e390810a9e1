//! Operators on values: equality, order, arithmetic, membership, access, casts. Total and pure;
//! whatever has no answer is unknown, with the reason. The interpreter of the tests and the engine
//! both call these: what they differ in is how they look at history.

use std::{cmp::Ordering, collections::BTreeSet, sync::Arc};

use super::{
    ast::{BinaryOp, Type},
    val::{Datum, Tri, Val, Why, WhyKind},
};
use crate::{
    diag::Span,
    model::{Num, Value},
};

/// Evaluates `left OP right` for every binary operator that needs nothing but its operands.
pub fn binary(op: BinaryOp, left: &Val, right: &Val, at: Span) -> Val {
    match op {
        BinaryOp::Eq => equal(left, right, at).into_val(),
        BinaryOp::Ne => equal(left, right, at).negate().into_val(),
        BinaryOp::Lt => ordered(left, right, at, Ordering::is_lt).into_val(),
        BinaryOp::Le => ordered(left, right, at, Ordering::is_le).into_val(),
        BinaryOp::Gt => ordered(left, right, at, Ordering::is_gt).into_val(),
        BinaryOp::Ge => ordered(left, right, at, Ordering::is_ge).into_val(),
        BinaryOp::In => member(left, right, at).into_val(),
        BinaryOp::NotIn => member(left, right, at).negate().into_val(),
        BinaryOp::Contains => text_test(left, right, at, |a, b| a.contains(b)).into_val(),
        BinaryOp::StartsWith => text_test(left, right, at, |a, b| a.starts_with(b)).into_val(),
        BinaryOp::EndsWith => text_test(left, right, at, |a, b| a.ends_with(b)).into_val(),
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => {
            arithmetic(op, left, right, at)
        }
        BinaryOp::Union => union(left, right, at),
        BinaryOp::Concat => concat(left, right, at),
    }
}

/// Deep equality by value; unknown if either side holds something unknown. Different types differ.
pub fn equal(left: &Val, right: &Val, at: Span) -> Tri {
    match (left, right) {
        (Val::Known(a), Val::Known(b)) => equal_data(a, b, at),
        (Val::Range(low, high, why), other) | (other, Val::Range(low, high, why)) => match bounds(other) {
            Some((l, h)) if h < Num::from(*low) || l > Num::from(*high) => Tri::False,
            Some(_) => Tri::Unknown(*why),
            None => match other {
                Val::Known(_) => Tri::False,
                _ => Tri::Unknown(other.why(at, "value")),
            },
        },
        (Val::Known(_), other) | (other, _) => Tri::Unknown(other.why(at, "value")),
    }
}

fn equal_data(a: &Datum, b: &Datum, at: Span) -> Tri {
    match (a, b) {
        (Datum::Json(a), Datum::Json(b)) => equal_json(a, b, at),
        (Datum::Time(a), Datum::Time(b)) | (Datum::Duration(a), Datum::Duration(b)) => Tri::from_bool(a == b),
        (Datum::Event(a), Datum::Event(b)) => Tri::from_bool(a.seq == b.seq),
        (Datum::Set(a, None), Datum::Set(b, None)) => Tri::from_bool(a == b),
        (Datum::Set(_, open_a), Datum::Set(_, open_b)) => match open_a.or(*open_b) {
            Some(why) => Tri::Unknown(why),
            None => Tri::False,
        },
        // A list with an unknown element compares as unknown with any list, and differs from all else.
        (Datum::Partial(items), Datum::Json(Value::List(_)) | Datum::Partial(_))
        | (Datum::Json(Value::List(_)), Datum::Partial(items)) => {
            let unknown = items.iter().find(|item| !matches!(item, Val::Known(Datum::Json(_))));
            Tri::Unknown(unknown.map_or(Why::new(WhyKind::Missing, at), |item| item.why(at, "value")))
        }
        _ => Tri::False,
    }
}

fn equal_json(a: &Value, b: &Value, at: Span) -> Tri {
    if a.is_exact() && b.is_exact() {
        return Tri::from_bool(a == b);
    }
    // Different types differ whatever their content; otherwise a part cannot be compared.
    if a.type_name() == b.type_name() { Tri::Unknown(Why::new(WhyKind::Number, at)) } else { Tri::False }
}

/// Order of numbers, times and durations; anything else is unknown.
fn ordered(left: &Val, right: &Val, at: Span, test: fn(Ordering) -> bool) -> Tri {
    match (left, right) {
        (Val::Known(Datum::Time(a)), Val::Known(Datum::Time(b)))
        | (Val::Known(Datum::Duration(a)), Val::Known(Datum::Duration(b))) => Tri::from_bool(test(a.cmp(b))),
        _ => match (bounds(left), bounds(right)) {
            (Some((a_low, a_high)), Some((b_low, b_high))) => {
                // The two ends of a range decide, if they agree.
                let ends = [
                    test(a_low.cmp(&b_high)),
                    test(a_high.cmp(&b_low)),
                    test(a_low.cmp(&b_low)),
                    test(a_high.cmp(&b_high)),
                ];
                match ends {
                    [true, true, true, true] => Tri::True,
                    [false, false, false, false] => Tri::False,
                    _ => Tri::Unknown(range_why(left).or(range_why(right)).unwrap_or(Why::new(WhyKind::Candidate, at))),
                }
            }
            (None, _) => Tri::Unknown(number_why(left, at)),
            (_, None) => Tri::Unknown(number_why(right, at)),
        },
    }
}

fn range_why(v: &Val) -> Option<Why> {
    match v {
        Val::Range(_, _, why) => Some(*why),
        _ => None,
    }
}

/// Lowest and highest possible number.
fn bounds(v: &Val) -> Option<(Num, Num)> {
    match v {
        Val::Known(Datum::Json(Value::Number(n))) => Some((*n, *n)),
        Val::Range(low, high, _) => Some((Num::from(*low), Num::from(*high))),
        _ => None,
    }
}

fn number_why(v: &Val, at: Span) -> Why {
    match v {
        Val::Known(Datum::Json(Value::Huge(_))) => Why::new(WhyKind::Number, at),
        _ => v.why(at, "number"),
    }
}

/// `x in C`: C is a list, a set or the keys of neither; an unknown x is unknown.
pub fn member(x: &Val, collection: &Val, at: Span) -> Tri {
    match collection {
        Val::Known(Datum::Set(items, open)) => match x.as_key(at) {
            Err(why) => match x {
                Val::Known(datum) if !matches!(datum, Datum::Json(_) | Datum::Partial(_)) => open_or_false(*open),
                _ => Tri::Unknown(why),
            },
            Ok(key) if items.contains(key) => Tri::True,
            Ok(_) => open_or_false(*open),
        },
        Val::Known(Datum::Json(Value::List(items))) => {
            any(items.iter().map(|item| equal(x, &Val::json(item.clone()), at)), x, at)
        }
        Val::Known(Datum::Partial(items)) => any(items.iter().map(|item| equal(x, item, at)), x, at),
        other => Tri::Unknown(other.why(at, "list or set")),
    }
}

fn open_or_false(open: Option<Why>) -> Tri {
    open.map_or(Tri::False, Tri::Unknown)
}

fn any(tests: impl Iterator<Item = Tri>, x: &Val, at: Span) -> Tri {
    match x {
        Val::Known(_) | Val::Range(..) => tests.fold(Tri::False, Tri::or),
        _ => Tri::Unknown(x.why(at, "value")),
    }
}

fn text_test(left: &Val, right: &Val, at: Span, test: fn(&str, &str) -> bool) -> Tri {
    match (left.as_str(), right.as_str()) {
        (Some(a), Some(b)) => Tri::from_bool(test(a, b)),
        (None, _) => Tri::Unknown(left.why(at, "string")),
        (_, None) => Tri::Unknown(right.why(at, "string")),
    }
}

fn arithmetic(op: BinaryOp, left: &Val, right: &Val, at: Span) -> Val {
    use Datum::{Duration, Json, Time};
    let inexact = Val::unknown(WhyKind::Number, at);
    let number = |n: Option<Num>| n.map_or(inexact.clone(), Val::num);
    let time = |n: Option<Num>| n.map_or(inexact.clone(), |n| Val::Known(Time(n)));
    let duration = |n: Option<Num>| n.map_or(inexact.clone(), |n| Val::Known(Duration(n)));
    match (left, right) {
        (Val::Known(Json(Value::Number(a))), Val::Known(Json(Value::Number(b)))) => number(match op {
            BinaryOp::Add => a.add(*b),
            BinaryOp::Sub => a.sub(*b),
            BinaryOp::Mul => a.mul(*b),
            BinaryOp::Div => a.div(*b),
            _ => a.rem(*b),
        }),
        (Val::Known(Time(a)), Val::Known(Time(b))) if op == BinaryOp::Sub => duration(a.sub(*b)),
        (Val::Known(Time(a)), Val::Known(Duration(b))) if op == BinaryOp::Sub => time(a.sub(*b)),
        (Val::Known(Time(a)), Val::Known(Duration(b))) | (Val::Known(Duration(b)), Val::Known(Time(a)))
            if op == BinaryOp::Add =>
        {
            time(a.add(*b))
        }
        (Val::Known(Duration(a)), Val::Known(Duration(b))) => match op {
            BinaryOp::Add => duration(a.add(*b)),
            BinaryOp::Sub => duration(a.sub(*b)),
            BinaryOp::Div => number(a.div(*b)),
            BinaryOp::Mod => duration(a.rem(*b)),
            BinaryOp::Mul => Val::Unknown(right.why(at, "number")),
            _ => inexact,
        },
        (Val::Known(Duration(a)), Val::Known(Json(Value::Number(b)))) if op == BinaryOp::Mul => duration(a.mul(*b)),
        (Val::Known(Json(Value::Number(b))), Val::Known(Duration(a))) if op == BinaryOp::Mul => duration(a.mul(*b)),
        (Val::Known(Duration(a)), Val::Known(Json(Value::Number(b)))) if op == BinaryOp::Div => duration(a.div(*b)),
        _ => range_arithmetic(op, left, right, at),
    }
}

/// An undetermined count plus or minus a whole number or another count is an undetermined count;
/// everything else about it is unknown.
fn range_arithmetic(op: BinaryOp, left: &Val, right: &Val, at: Span) -> Val {
    let ends = |v: &Val| match v {
        Val::Range(low, high, _) => Some((*low, *high)),
        Val::Known(Datum::Json(Value::Number(n))) => n.as_whole().map(|n| (n, n)),
        _ => None,
    };
    match (ends(left), ends(right), op) {
        (Some((a, b)), Some((c, d)), BinaryOp::Add | BinaryOp::Sub) => {
            let why = range_why(left).or(range_why(right)).unwrap_or(Why::new(WhyKind::Candidate, at));
            let (low, high) = if op == BinaryOp::Add {
                (a.checked_add(c), b.checked_add(d))
            } else {
                (a.checked_sub(d), b.checked_sub(c))
            };
            match (low, high) {
                (Some(low), Some(high)) => Val::Range(low, high, why),
                _ => Val::unknown(WhyKind::Number, at),
            }
        }
        _ => {
            let left_fits =
                matches!(left, Val::Known(Datum::Json(Value::Number(_)) | Datum::Time(_) | Datum::Duration(_)));
            Val::Unknown(number_why(if left_fits { right } else { left }, at))
        }
    }
}

/// The set of a list's or set's elements; unknown if one of them is.
pub fn as_set(v: &Val, at: Span) -> Result<(Arc<BTreeSet<Value>>, Option<Why>), Why> {
    match v {
        Val::Known(Datum::Set(items, open)) => Ok((items.clone(), *open)),
        Val::Known(Datum::Json(Value::List(items))) => {
            let exact = items.iter().all(Value::is_exact);
            if exact {
                Ok((Arc::new(items.iter().cloned().collect()), None))
            } else {
                Err(Why::new(WhyKind::Number, at))
            }
        }
        Val::Known(Datum::Partial(items)) => {
            let unknown = items.iter().find_map(|item| item.as_key(at).err());
            Err(unknown.unwrap_or(Why::new(WhyKind::Missing, at)))
        }
        other => Err(other.why(at, "list or set")),
    }
}

fn union(left: &Val, right: &Val, at: Span) -> Val {
    match (as_set(left, at), as_set(right, at)) {
        (Ok((a, open_a)), Ok((b, open_b))) => {
            Val::Known(Datum::Set(Arc::new(a.union(&b).cloned().collect()), open_a.or(open_b)))
        }
        (Err(why), _) | (_, Err(why)) => Val::Unknown(why),
    }
}

/// The elements of a list, unknown ones among them.
pub fn as_elements(v: &Val, at: Span) -> Result<Vec<Val>, Why> {
    match v {
        Val::Known(Datum::Json(Value::List(items))) => Ok(items.iter().map(|v| Val::json(v.clone())).collect()),
        Val::Known(Datum::Partial(items)) => Ok(items.to_vec()),
        other => Err(other.why(at, "list")),
    }
}

fn concat(left: &Val, right: &Val, at: Span) -> Val {
    match (as_elements(left, at), as_elements(right, at)) {
        (Ok(mut a), Ok(b)) => {
            a.extend(b);
            list(a)
        }
        (Err(why), _) | (_, Err(why)) => Val::Unknown(why),
    }
}

/// A list of evaluated elements: plain JSON if all of them are.
pub fn list(items: Vec<Val>) -> Val {
    match items.iter().map(|item| item.as_json().cloned()).collect::<Option<Vec<_>>>() {
        Some(values) => Val::json(Value::list(values)),
        None => Val::Known(Datum::Partial(Arc::from(items))),
    }
}

/// A set of evaluated elements: unknown as a whole if one of them is.
pub fn set(items: impl IntoIterator<Item = Val>, at: Span) -> Val {
    let mut out = BTreeSet::new();
    for item in items {
        match item.as_key(at) {
            Ok(key) => {
                out.insert(key.clone());
            }
            Err(why) => return Val::Unknown(why),
        }
    }
    Val::Known(Datum::Set(Arc::new(out), None))
}

/// `-x`
pub fn negate(v: &Val, at: Span) -> Val {
    match v {
        Val::Known(Datum::Json(Value::Number(n))) => Val::num(n.neg()),
        Val::Known(Datum::Duration(d)) => Val::Known(Datum::Duration(d.neg())),
        Val::Range(low, high, why) => Val::Range(-high, -low, *why),
        other => Val::Unknown(number_why(other, at)),
    }
}

/// `x.name` on a JSON object.
pub fn field(v: &Val, name: &str, at: Span) -> Val {
    match v {
        Val::Known(Datum::Json(Value::Object(o))) => match o.get(name) {
            Some(value) => Val::json(value.clone()),
            None => Val::unknown(WhyKind::Missing, at),
        },
        other => Val::Unknown(other.why(at, "object")),
    }
}

/// `x[i]` on a list (from 0) or an object.
pub fn index(v: &Val, key: &Val, at: Span) -> Val {
    match (v, key) {
        (Val::Known(Datum::Json(Value::Object(o))), Val::Known(Datum::Json(Value::String(name)))) => {
            match o.get(name) {
                Some(value) => Val::json(value.clone()),
                None => Val::unknown(WhyKind::Missing, at),
            }
        }
        (Val::Known(Datum::Json(Value::List(_)) | Datum::Partial(_)), Val::Known(Datum::Json(Value::Number(n)))) => {
            let at_index = n.as_whole().and_then(|i| usize::try_from(i).ok());
            let element = match (v, at_index) {
                (Val::Known(Datum::Json(Value::List(items))), Some(i)) => items.get(i).map(|v| Val::json(v.clone())),
                (Val::Known(Datum::Partial(items)), Some(i)) => items.get(i).cloned(),
                _ => None,
            };
            element.unwrap_or(Val::unknown(WhyKind::Missing, at))
        }
        (Val::Known(Datum::Json(Value::Object(_))), other) => Val::Unknown(other.why(at, "string")),
        (Val::Known(Datum::Json(Value::List(_)) | Datum::Partial(_)), other) => Val::Unknown(number_why(other, at)),
        (other, _) => Val::Unknown(other.why(at, "list or object")),
    }
}

/// `x as TYPE`: itself, or unknown.
pub fn cast(v: Val, to: Type, at: Span) -> Val {
    if is_type(&v, to) {
        return v;
    }
    let kind = match (&v, to) {
        (Val::Known(Datum::Json(Value::Number(_) | Value::Huge(_))), Type::Whole) => {
            WhyKind::Type { found: "number that is not whole", wanted: "whole number" }
        }
        (Val::Range(_, _, why), _) => return Val::Unknown(*why),
        _ => return Val::Unknown(v.why(at, if to == Type::Whole { "whole number" } else { to.word() })),
    };
    Val::unknown(kind, at)
}

/// `x is TYPE`: always decided.
pub fn is_type(v: &Val, to: Type) -> bool {
    match v {
        Val::Known(Datum::Json(value)) => match to {
            Type::String => matches!(value, Value::String(_)),
            Type::Number => matches!(value, Value::Number(_) | Value::Huge(_)),
            Type::Whole => matches!(value, Value::Number(n) if n.as_whole().is_some()),
            Type::Bool => matches!(value, Value::Bool(_)),
            Type::List => matches!(value, Value::List(_)),
            Type::Object => matches!(value, Value::Object(_)),
            Type::Null => matches!(value, Value::Null),
        },
        Val::Known(Datum::Partial(_)) => to == Type::List,
        Val::Range(..) => matches!(to, Type::Number | Type::Whole),
        _ => false,
    }
}

/// `x default y`: x if there is one.
pub fn has_value(v: &Val) -> bool {
    matches!(v, Val::Known(_) | Val::Range(..))
}
