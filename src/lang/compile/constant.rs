//! Conditions that are decided before anything happened, and conditions that exclude each other.
//!
//! Nothing here says more than is certain: what is not understood counts as open.

use std::collections::{BTreeSet, HashMap};

use crate::{
    diag::Span,
    lang::{
        ast::{BinaryOp, FoldOp, HistoryOp},
        builtin::{Arg, DependsOn},
        ops,
        program::{EventField, Node, NodeArg, NodeKind, Scope, SourceSpec, ToolSpec, glob},
        val::{Datum, Tri, Val},
    },
    model::{Num, Value},
};

/// How a condition turns out whenever it is not unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decided {
    /// It is never true.
    Never,
    /// It is never false.
    Always,
}

impl Decided {
    fn from_bool(holds: bool) -> Decided {
        if holds { Decided::Always } else { Decided::Never }
    }

    fn negate(self) -> Decided {
        Decided::from_bool(self == Decided::Never)
    }
}

/// Whether a condition about events of these sources is decided.
pub(super) fn decided(node: &Node, on: &[SourceSpec]) -> Option<Decided> {
    match &node.kind {
        NodeKind::Not(inner) => decided(inner, on).map(Decided::negate),
        NodeKind::And(parts) => all(parts.iter().map(|part| decided(part, on)), Decided::Always),
        NodeKind::Or(parts) => all(parts.iter().map(|part| decided(part, on)), Decided::Never),
        NodeKind::Binary(op, left, right) => {
            if let Some(val) = value(node) {
                return truth(&val, node);
            }
            same_sides(*op, left, right)
                .or_else(|| beyond_range(*op, left, right))
                .or_else(|| beyond_range(flipped(*op)?, right, left))
                .or_else(|| wrong_tool(*op, left, right, on))
                .or_else(|| wrong_tool(flipped(*op)?, right, left, on))
        }
        _ => value(node).and_then(|val| truth(&val, node)),
    }
}

/// All parts are decided as they must be, or one is decided otherwise.
fn all(mut parts: impl Iterator<Item = Option<Decided>>, needed: Decided) -> Option<Decided> {
    let mut result = Some(needed);
    parts
        .find_map(|part| {
            match part {
                Some(found) if found != needed => return Some(found),
                Some(_) => {}
                None => result = None,
            }
            None
        })
        .or(result)
}

fn truth(val: &Val, node: &Node) -> Option<Decided> {
    match val.as_tri(node.at) {
        Tri::True => Some(Decided::Always),
        Tri::False => Some(Decided::Never),
        Tri::Unknown(_) => None,
    }
}

/// The value of an expression that depends on nothing.
fn value(node: &Node) -> Option<Val> {
    let at = node.at;
    Some(match &node.kind {
        NodeKind::Const(val) => val.clone(),
        NodeKind::Is(inner, ty) => Val::bool(ops::is_type(&value(inner)?, *ty)),
        NodeKind::Cast { base, to, each: false } => ops::cast(value(base)?, *to, at),
        NodeKind::Neg(inner) => ops::negate(&value(inner)?, at),
        NodeKind::Default(first, otherwise) => {
            let first = value(first)?;
            if ops::has_value(&first) { first } else { value(otherwise)? }
        }
        NodeKind::Binary(op, left, right) => ops::binary(*op, &value(left)?, &value(right)?, at),
        NodeKind::Field { base, name, each: false, .. } => ops::field(&value(base)?, name, at),
        NodeKind::Matches(text, pattern) => Val::bool(pattern.0.is_match(value(text)?.as_str()?)),
        NodeKind::List(items) => ops::list(items.iter().map(value).collect::<Option<_>>()?),
        NodeKind::Set(items) => ops::set(items.iter().map(value).collect::<Option<Vec<_>>>()?, at),
        NodeKind::Builtin(function, args) if function.0.depends_on == DependsOn::Arguments => {
            let args = args.iter().map(|arg| match arg {
                NodeArg::Val(node) => value(node).map(Arg::Val),
                NodeArg::Pattern(pattern) => Some(Arg::Regex(&pattern.0)),
            });
            (function.0.eval)(&args.collect::<Option<Vec<_>>>()?, at)
        }
        _ => return None,
    })
}

/// The operator that says the same with its sides exchanged.
fn flipped(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Eq | BinaryOp::Ne => op,
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Ge => BinaryOp::Le,
        _ => return None,
    })
}

/// `x == x`
fn same_sides(op: BinaryOp, left: &Node, right: &Node) -> Option<Decided> {
    let holds = match op {
        BinaryOp::Eq | BinaryOp::Le | BinaryOp::Ge => true,
        BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Gt => false,
        _ => return None,
    };
    (format!("{left:?}") == format!("{right:?}")).then_some(Decided::from_bool(holds))
}

/// A comparison with a number that the left side cannot reach: a count below 0, an hour above 23.
fn beyond_range(op: BinaryOp, left: &Node, right: &Node) -> Option<Decided> {
    let (low, high) = range(left)?;
    let bound = match value(right)? {
        Val::Known(Datum::Json(Value::Number(n))) => n,
        _ => return None,
    };
    let above = |limit: Num, or_equal: bool| high.is_some_and(|h| h < limit || (or_equal && h == limit));
    let below = |limit: Num, or_equal: bool| low > limit || (or_equal && low == limit);
    let outside = below(bound, false) || above(bound, false);
    Some(match op {
        BinaryOp::Eq if outside => Decided::Never,
        BinaryOp::Ne if outside => Decided::Always,
        BinaryOp::Lt if below(bound, true) => Decided::Never,
        BinaryOp::Lt if above(bound, false) => Decided::Always,
        BinaryOp::Le if below(bound, false) => Decided::Never,
        BinaryOp::Le if above(bound, true) => Decided::Always,
        BinaryOp::Gt if above(bound, true) => Decided::Never,
        BinaryOp::Gt if below(bound, false) => Decided::Always,
        BinaryOp::Ge if above(bound, false) => Decided::Never,
        BinaryOp::Ge if below(bound, true) => Decided::Always,
        _ => return None,
    })
}

/// The least and greatest number that an expression can give, if that is known.
fn range(node: &Node) -> Option<(Num, Option<Num>)> {
    let from_zero = Some((Num::ZERO, None));
    match &node.kind {
        NodeKind::Fold(FoldOp::Count | FoldOp::Distinct, ..) => from_zero,
        NodeKind::History(ask) if matches!(ask.op, HistoryOp::Count | HistoryOp::Distinct) => from_zero,
        NodeKind::Field { base, event: Some(EventField::Calls | EventField::Turn | EventField::Seq), .. }
            if matches!(base.kind, NodeKind::Event(_)) =>
        {
            from_zero
        }
        NodeKind::Builtin(function, _) => match function.0.name {
            "len" => from_zero,
            "hour" => Some((Num::ZERO, Some(Num::from(23i64)))),
            "weekday" => Some((Num::ONE, Some(Num::from(7i64)))),
            _ => None,
        },
        _ => None,
    }
}

/// `tool == "x"` where no event that is judged is of that tool.
fn wrong_tool(op: BinaryOp, left: &Node, right: &Node, on: &[SourceSpec]) -> Option<Decided> {
    let NodeKind::Field { base, event: Some(EventField::Tool), .. } = &left.kind else { return None };
    if !matches!(base.kind, NodeKind::Event(Scope::This)) || on.is_empty() {
        return None;
    }
    let name = match (op, value(right)?) {
        (BinaryOp::Eq | BinaryOp::Ne, Val::Known(Datum::Json(Value::String(name)))) => name,
        _ => return None,
    };
    let possible = on.iter().any(|source| match &source.tools {
        ToolSpec::Any => true,
        ToolSpec::OneOf(tools) => tools.contains(&name),
        ToolSpec::Glob(pattern) => glob(pattern, &name),
    });
    (!possible).then_some(Decided::from_bool(op == BinaryOp::Ne))
}

/// What conditions allow one expression to be.
#[derive(Default)]
struct Allowed {
    /// Only one of these.
    values: Option<BTreeSet<Value>>,
    /// Not these.
    not: BTreeSet<Value>,
    /// At least, at most; with whether the bound itself is allowed.
    low: Option<(Num, bool)>,
    high: Option<(Num, bool)>,
    /// The first condition about it.
    first: Option<Span>,
}

impl Allowed {
    fn is_empty(&self) -> bool {
        let in_range = |value: &Value| match value {
            Value::Number(n) => {
                self.low.is_none_or(|(low, equal)| *n > low || (equal && *n == low))
                    && self.high.is_none_or(|(high, equal)| *n < high || (equal && *n == high))
            }
            // An order of anything else is unknown, never true.
            _ => self.low.is_none() && self.high.is_none(),
        };
        if let Some(values) = &self.values {
            return !values.iter().any(|value| in_range(value) && !self.not.contains(value));
        }
        match (self.low, self.high) {
            (Some((low, a)), Some((high, b))) => low > high || (low == high && !(a && b)),
            _ => false,
        }
    }
}

/// Two conditions, each with whether it must be true or false, that cannot be so together.
pub(super) fn conflict(parts: &[(&Node, bool)]) -> Option<(Span, Span)> {
    let mut about: HashMap<String, Allowed> = HashMap::new();
    for (node, holds) in parts {
        let NodeKind::Binary(op, left, right) = &node.kind else { continue };
        let (op, subject, val) = match (value(left), value(right)) {
            (None, Some(val)) => (Some(*op), left, val),
            (Some(val), None) => (flipped(*op), right, val),
            _ => continue,
        };
        let Some(op) = op.and_then(|op| if *holds { Some(op) } else { opposite(op) }) else { continue };
        let allowed = about.entry(format!("{subject:?}")).or_default();
        if !restrict(allowed, op, &val) {
            continue;
        }
        let first = *allowed.first.get_or_insert(node.at);
        if allowed.is_empty() && first != node.at {
            return Some((first, node.at));
        }
    }
    None
}

/// Takes in a condition; false if it says nothing that is understood.
fn restrict(allowed: &mut Allowed, op: BinaryOp, val: &Val) -> bool {
    let narrow = |allowed: &mut Allowed, values: BTreeSet<Value>| {
        allowed.values = Some(match allowed.values.take() {
            Some(before) => before.intersection(&values).cloned().collect(),
            None => values,
        });
    };
    match (op, val) {
        (BinaryOp::Eq, Val::Known(Datum::Json(value))) if value.is_exact() => {
            narrow(allowed, BTreeSet::from([value.clone()]));
        }
        (BinaryOp::Ne, Val::Known(Datum::Json(value))) if value.is_exact() => {
            allowed.not.insert(value.clone());
        }
        (BinaryOp::In, Val::Known(Datum::Set(values, None))) => narrow(allowed, values.as_ref().clone()),
        (BinaryOp::NotIn, Val::Known(Datum::Set(values, None))) => allowed.not.extend(values.iter().cloned()),
        (BinaryOp::Gt | BinaryOp::Ge, Val::Known(Datum::Json(Value::Number(n)))) => {
            let equal = op == BinaryOp::Ge;
            allowed.low = Some(match allowed.low {
                Some((low, e)) if low > *n || (low == *n && !e) => (low, e),
                _ => (*n, equal),
            });
        }
        (BinaryOp::Lt | BinaryOp::Le, Val::Known(Datum::Json(Value::Number(n)))) => {
            let equal = op == BinaryOp::Le;
            allowed.high = Some(match allowed.high {
                Some((high, e)) if high < *n || (high == *n && !e) => (high, e),
                _ => (*n, equal),
            });
        }
        _ => return false,
    }
    true
}

/// The operator that holds where the other does not.
fn opposite(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Ne => BinaryOp::Eq,
        BinaryOp::Lt => BinaryOp::Ge,
        BinaryOp::Le => BinaryOp::Gt,
        BinaryOp::Gt => BinaryOp::Le,
        BinaryOp::Ge => BinaryOp::Lt,
        BinaryOp::In => BinaryOp::NotIn,
        BinaryOp::NotIn => BinaryOp::In,
        _ => return None,
    })
}
