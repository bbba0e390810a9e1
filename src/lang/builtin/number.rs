//! Functions on numbers. `min` and `max` also order durations and times.

use std::cmp::Ordering;

use super::{Arg, Builtin, DependsOn, first, value};
use crate::{
    diag::Span,
    lang::{
        ast::BinaryOp,
        ops,
        types::Ty,
        val::{Datum, Tri, Val},
    },
    model::Value,
};

pub(super) const FUNCTIONS: &[Builtin] = &[
    Builtin {
        name: "max",
        params: &[value("a", Ty::Any), value("b", Ty::Any)],
        optional: 0,
        repeats: true,
        gives: Ty::Any,
        depends_on: DependsOn::Arguments,
        doc: "The greatest of its arguments: numbers, durations or times.",
        examples: &[("max(0, 3 - 5)", "0"), ("max(1, 2, 1.5)", "2"), ("max(1, \"2\")", "?")],
        eval: |args, at| extreme(args, at, Ordering::Greater),
    },
    Builtin {
        name: "min",
        params: &[value("a", Ty::Any), value("b", Ty::Any)],
        optional: 0,
        repeats: true,
        gives: Ty::Any,
        depends_on: DependsOn::Arguments,
        doc: "The least of its arguments: numbers, durations or times.",
        examples: &[("min(1, 2, 0.5)", "0.5"), ("min(1h, 30m)", "30m")],
        eval: |args, at| extreme(args, at, Ordering::Less),
    },
    Builtin {
        name: "floor",
        params: &[value("x", Ty::Number)],
        optional: 0,
        repeats: false,
        gives: Ty::Number,
        depends_on: DependsOn::Arguments,
        doc: "The largest integral number that is not greater than x.",
        examples: &[("floor(2.7)", "2"), ("floor(-0.5)", "-1")],
        eval: |args, at| match first(args) {
            Val::Known(Datum::Json(Value::Number(n))) => Val::num(n.floor()),
            other => Val::Unknown(other.why(at, "number")),
        },
    },
];

fn extreme(args: &[Arg<'_>], at: Span, wanted: Ordering) -> Val {
    let mut best = first(args).clone();
    for arg in args.iter().skip(1) {
        best = pick(best, arg.val(), at, wanted);
    }
    best
}

/// The greater or lesser of two values; unknown if they cannot be ordered.
pub(crate) fn pick(best: Val, other: &Val, at: Span, wanted: Ordering) -> Val {
    let op = if wanted == Ordering::Greater { BinaryOp::Gt } else { BinaryOp::Lt };
    match ops::binary(op, other, &best, at).as_tri(at) {
        Tri::True => other.clone(),
        Tri::False => best,
        Tri::Unknown(why) => Val::Unknown(why),
    }
}
