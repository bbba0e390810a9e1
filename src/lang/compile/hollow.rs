//! Negations that nothing decides: `not last(user).text contains "yes"` is unknown as long as there is no
//! user message, and people tend to read it as true.

use super::check::may_be_absent;
use crate::{
    diag::Span,
    lang::program::{Cond, Node, NodeArg, NodeKind, Policy},
};

/// The negations of a policy that are unknown without an earlier event, where no other condition
/// settles that case.
pub(super) fn negations(policy: &Policy) -> Vec<Span> {
    let mut found = Vec::new();
    let hollow = |cond: &Cond| hollow_cond(cond, &policy.lets);
    for (i, condition) in policy.conditions.iter().enumerate() {
        // Another condition about history may be there for just that.
        let mut others = policy.conditions.iter().enumerate().filter(|(j, _)| *j != i);
        if others.any(|(_, other)| asks_history(other, &policy.lets)) {
            continue;
        }
        negated(condition, &hollow, &mut found);
    }
    found
}

/// Collects negations of what is hollow.
fn negated(cond: &Cond, hollow: &dyn Fn(&Cond) -> bool, found: &mut Vec<Span>) {
    match cond {
        Cond::Not(inner) if hollow(inner) => found.extend(first_place(inner)),
        Cond::Not(inner) => negated(inner, hollow, found),
        // Within these another part may decide.
        Cond::And(parts) | Cond::Or(parts) if parts.iter().all(hollow_or_negated(hollow)) => {
            parts.iter().for_each(|part| negated(part, hollow, found));
        }
        Cond::And(_) | Cond::Or(_) | Cond::Leaf(..) => {}
    }
}

fn hollow_or_negated<'h>(hollow: &'h dyn Fn(&Cond) -> bool) -> impl Fn(&Cond) -> bool + 'h {
    move |cond| match cond {
        Cond::Not(inner) => hollow(inner),
        other => hollow(other),
    }
}

fn hollow_cond(cond: &Cond, lets: &[Node]) -> bool {
    match cond {
        Cond::And(parts) | Cond::Or(parts) => parts.iter().all(|part| hollow_cond(part, lets)),
        Cond::Not(inner) => hollow_cond(inner, lets),
        Cond::Leaf(node, _) => hollow(node, lets),
    }
}

/// Whether an expression is unknown or absent as long as there is no event that it asks for.
fn hollow(node: &Node, lets: &[Node]) -> bool {
    let within = |node: &Node| hollow(node, lets);
    match &node.kind {
        NodeKind::History(ask) => may_be_absent(ask.op),
        NodeKind::Let(i) => lets.get(*i).is_some_and(within),
        NodeKind::Field { base, .. }
        | NodeKind::Cast { base, .. }
        | NodeKind::Each(base)
        | NodeKind::Neg(base)
        | NodeKind::Not(base)
        | NodeKind::Mentions(base, _)
        | NodeKind::Detects(base, _)
        | NodeKind::Matches(base, _) => within(base),
        NodeKind::Index { base, key, .. } => within(base) || within(key),
        NodeKind::Binary(_, left, right) => within(left) || within(right),
        NodeKind::And(parts) | NodeKind::Or(parts) => parts.iter().all(within),
        NodeKind::Default(_, otherwise) => within(otherwise),
        NodeKind::Builtin(function, args) if function.0.name != "known" => {
            args.iter().any(|arg| matches!(arg, NodeArg::Val(node) if within(node)))
        }
        _ => false,
    }
}

fn asks_history(cond: &Cond, lets: &[Node]) -> bool {
    fn asks(node: &Node, lets: &[Node]) -> bool {
        let mut found = match &node.kind {
            NodeKind::History(_) => true,
            NodeKind::Let(i) => lets.get(*i).is_some_and(|node| asks(node, lets)),
            _ => false,
        };
        node.for_each_child(&mut |child| found = found || asks(child, lets));
        found
    }
    match cond {
        Cond::And(parts) | Cond::Or(parts) => parts.iter().any(|part| asks_history(part, lets)),
        Cond::Not(inner) => asks_history(inner, lets),
        Cond::Leaf(node, _) => asks(node, lets),
    }
}

fn first_place(cond: &Cond) -> Option<Span> {
    match cond {
        Cond::And(parts) | Cond::Or(parts) => parts.first().and_then(first_place),
        Cond::Not(inner) => first_place(inner),
        Cond::Leaf(node, _) => Some(node.at),
    }
}
