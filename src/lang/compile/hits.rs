//! What the compiler says about hits: where they may stand, and which policies they can be of.

use std::{collections::BTreeSet, sync::Arc};

use super::Compiler;
use crate::{
    diag::{Code, Diagnostic},
    lang::{
        ast::{BinaryOp, Item, Source},
        program::{Cell, EventField, Node, NodeKind, Plan, Scope, SourceSpec},
        val::{Datum, Val},
    },
    model::{Effect, EventKind},
};

/// Whether a cell keeps hits, or has a window that they open.
pub(super) fn reads_hits(cell: &Cell) -> bool {
    let (Plan::Running { since } | Plan::LookBack { since, .. }) = &cell.plan;
    let opening = since.iter().flat_map(|opening| &opening.sources);
    cell.sources.iter().chain(opening).any(of_hits)
}

fn of_hits(source: &SourceSpec) -> bool {
    source.kinds.contains(&EventKind::Hit)
}

impl Compiler<'_> {
    /// Refuses hits as what a policy judges or what fills a fact: they come when a turn is over.
    pub(super) fn no_hits(&mut self, sources: &[Source]) {
        if let Some(source) = sources.iter().find(|s| s.kinds.contains(&EventKind::Hit)) {
            let problem = Diagnostic::error(Code::NotHere, source.span, "hits are read in the history of later turns")
                .help("ask for them in a condition: `count(hit where it.policy == \"ID\")`");
            self.problems.push(problem);
        }
    }

    /// Takes note of hits among the sources of a pattern, and of the policies that its conditions name.
    pub(super) fn note_hits(&mut self, sources: &[SourceSpec], conditions: &[Node]) {
        if sources.iter().any(of_hits) {
            self.keeps_hits = true;
            conditions.iter().for_each(|condition| self.named_policies(condition));
        }
    }

    fn named_policies(&mut self, node: &Node) {
        if let NodeKind::Binary(BinaryOp::Eq | BinaryOp::Ne | BinaryOp::In | BinaryOp::NotIn, a, b) = &node.kind {
            for (field, names) in [(a, b), (b, a)] {
                if is_policy_field(field) {
                    self.hit_policies.extend(texts(names).into_iter().map(|name| (name, names.at)));
                }
            }
        }
        node.for_each_child(&mut |child| self.named_policies(child));
    }

    /// Refuses names of policies that have no hits to read.
    pub(super) fn check_hit_policies(&mut self, items: &[&Item]) {
        let ids: BTreeSet<&str> = items
            .iter()
            .filter_map(|item| match item {
                Item::Policy(policy) => Some(policy.id.text.as_ref()),
                _ => None,
            })
            .collect();
        let mut told: BTreeSet<(Arc<str>, u32)> = BTreeSet::new();
        for (name, at) in std::mem::take(&mut self.hit_policies) {
            if !told.insert((name.clone(), at.start)) {
                continue;
            }
            let (message, help) = match self.policies.iter().find(|policy| policy.id == name) {
                Some(policy) if policy.effect != Effect::Deny => (
                    format!("`{name}` makes no hits: it is a `{}` policy", policy.effect.word()),
                    "only `deny` policies have hits",
                ),
                Some(policy) if policy.reads_hits => (
                    format!("`{name}` reads hits itself, so its own cannot be read"),
                    "otherwise a verdict could rest on itself",
                ),
                Some(_) => continue,
                // A policy with a mistake of its own is not missing.
                None if self.unusable.contains(&name) || ids.contains(name.as_ref()) => continue,
                None => {
                    let near = self.near(&name, ids.iter().copied());
                    let problem =
                        Diagnostic::error(Code::UnknownPolicy, at, format!("the pack has no policy `{name}`"));
                    self.problems.push(problem.did_you_mean(near.as_deref()));
                    continue;
                }
            };
            self.problems.push(Diagnostic::error(Code::UnknownPolicy, at, message).help(help));
        }
    }
}

fn is_policy_field(node: &Node) -> bool {
    let NodeKind::Field { base, event: Some(EventField::Policy), .. } = &node.kind else { return false };
    matches!(base.kind, NodeKind::Event(Scope::It))
}

/// The texts that a constant, a set or a list of constants holds.
fn texts(node: &Node) -> Vec<Arc<str>> {
    let text = |val: &Val| val.as_str().map(Arc::from);
    match &node.kind {
        NodeKind::Const(Val::Known(Datum::Set(items, _))) => {
            items.iter().filter_map(|i| i.as_str().map(Arc::from)).collect()
        }
        NodeKind::Const(val) => text(val).into_iter().collect(),
        NodeKind::Set(items) | NodeKind::List(items) => items.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}
