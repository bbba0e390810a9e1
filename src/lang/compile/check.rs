//! What is valid and hardly meant: warnings on a compiled pack.
//!
//! Everything here looks at compiled policies, so it speaks of what they do. `constant` knows which
//! conditions are decided before anything happened; this file walks over the policies and facts.

use std::collections::{BTreeSet, HashMap};

use super::{
    Compiler,
    constant::{Decided, conflict, decided},
    hollow,
};
use crate::{
    diag::{Code, Diagnostic, FileId, Span},
    lang::{
        ast::{BinaryOp, HistoryOp},
        builtin::URL_FIELDS,
        program::{Cond, MessagePart, Node, NodeArg, NodeKind, Policy, ToolSpec},
    },
    model::Effect,
};

impl Compiler<'_> {
    /// Warns about what can never or must always hold, and about what is likely to mean something else.
    /// For packs without errors.
    pub(super) fn warn_of_meaning(&mut self) {
        let mut found = Found::default();
        for policy in &self.policies {
            found.policy(policy);
        }
        for fact in &self.facts {
            fact.key.iter().chain([&fact.value]).chain(&fact.when).for_each(|node| found.node(node));
            fact.key.iter().for_each(|key| found.key(key));
        }
        for forget in &self.forgets {
            forget.key.iter().chain(&forget.when).for_each(|node| found.node(node));
        }
        found.same_policies(&self.policies);
        self.problems.extend(found.problems);
    }
}

/// Warnings so far. A definition is expanded wherever it is used: what it says is told once.
#[derive(Default)]
struct Found {
    problems: Vec<Diagnostic>,
    told: BTreeSet<(Code, FileId, u32, u32)>,
}

impl Found {
    fn warn(&mut self, code: Code, at: Span, message: impl Into<String>, help: &str) {
        if self.told.insert((code, at.file, at.start, at.end)) {
            let problem = Diagnostic::warning(code, at, message);
            self.problems.push(if help.is_empty() { problem } else { problem.help(help) });
        }
    }

    fn policy(&mut self, policy: &Policy) {
        let trigger = !policy.on.is_empty();
        if trigger && policy.on.iter().all(|source| source.tools == ToolSpec::OneOf(Vec::new())) {
            let message = format!("`{}` judges no event: the set of its tools is empty", policy.id);
            self.warn(Code::NeverHolds, policy.span, message, "name the tools, or leave the policy out");
        }
        let before = self.problems.len();
        for condition in &policy.conditions {
            self.cond(condition, policy);
        }
        let shown = policy.message.iter().filter_map(|part| match part {
            MessagePart::Hole(node) => Some(node),
            MessagePart::Text(_) => None,
        });
        policy.lets.iter().chain(&policy.once_per).chain(shown).for_each(|node| self.node(node));
        policy.once_per.iter().for_each(|key| self.key(key));
        // One reason is enough.
        if self.problems.len() == before {
            self.conflicts(policy);
        }
        self.hollow_negations(policy);
        self.unused_lets(policy);
    }

    fn cond(&mut self, cond: &Cond, policy: &Policy) {
        match cond {
            Cond::And(parts) | Cond::Or(parts) => parts.iter().for_each(|part| self.cond(part, policy)),
            Cond::Not(inner) => self.cond(inner, policy),
            Cond::Leaf(node, _) => {
                // What a definition makes of constant arguments is the definition's business.
                let own = node.at.file == policy.whole.file
                    && node.at.start >= policy.whole.start
                    && node.at.end <= policy.whole.end;
                if own {
                    self.constant(node, policy);
                }
                self.node(node);
            }
        }
    }

    /// A condition that is decided before anything happened; of several, the outermost.
    fn constant(&mut self, node: &Node, policy: &Policy) {
        // Who writes `true` or `false` means it.
        if matches!(node.kind, NodeKind::Const(_)) {
            return;
        }
        match decided(node, &policy.on) {
            Some(Decided::Never) => self.warn(Code::NeverHolds, node.at, "this can never hold", ""),
            Some(Decided::Always) => {
                let help = "it says nothing: leave it out, or compare with something else";
                self.warn(Code::AlwaysHolds, node.at, "this always holds", help);
            }
            None => node.for_each_child(&mut |child| self.constant(child, policy)),
        }
    }

    /// Conditions of which each can hold, and not all of them together.
    fn conflicts(&mut self, policy: &Policy) {
        if policy.effect == Effect::Judge {
            return;
        }
        let mut parts = Vec::new();
        policy.conditions.iter().for_each(|condition| conjuncts(condition, true, &mut parts));
        if let Some((first, second)) = conflict(&parts)
            && self.told.insert((Code::NeverHolds, second.file, second.start, second.end))
        {
            let message =
                format!("`{}` can never fire: this and another of its conditions exclude each other", policy.id);
            let problem = Diagnostic::warning(Code::NeverHolds, second, message).secondary(first, "the other one");
            self.problems.push(problem);
        }
    }

    /// What is said of expressions wherever they stand.
    fn node(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::Binary(op @ (BinaryOp::StartsWith | BinaryOp::EndsWith), text, part) => {
                if let NodeKind::Const(val) = &part.kind
                    && let Some(help) = val.as_str().and_then(|part| address(*op, text, part))
                {
                    let message = format!("`{}` compares the letters of an address, not where it leads", op.word());
                    self.warn(Code::PrefixOfAddress, node.at, message, help);
                }
            }
            // One that asks for an empty text, such as `^$`, matches not much else.
            NodeKind::Matches(_, pattern) if ["", "\u{1}", "a b"].iter().all(|text| pattern.0.is_match(text)) => {
                let message = "the pattern matches the empty text, and so every text";
                self.warn(Code::MatchesAll, node.at, message, "make it match at least one character");
            }
            NodeKind::Fact(_, key) | NodeKind::Seen(_, key) => key.iter().for_each(|key| self.key(key)),
            NodeKind::History(ask) => ask.key.iter().for_each(|key| self.key(key)),
            _ => {}
        }
        node.for_each_child(&mut |child| self.node(child));
    }

    /// A key that is made by joining texts: different parts can give the same text.
    fn key(&mut self, node: &Node) {
        if let NodeKind::Builtin(function, args) = &node.kind
            && function.0.name == "join"
            && let Some(NodeArg::Val(Node { kind: NodeKind::List(parts), .. })) = args.first()
            && parts.iter().filter(|part| !matches!(part.kind, NodeKind::Const(_))).count() > 1
        {
            let message = "different values can make this text: `a-b` and `c` join to what `a` and `b-c` do";
            let help = "a key of several parts is a list or has commas: `fact[a, b]`, `[it.a, it.b] == [a, b]`";
            self.warn(Code::JoinedKey, node.at, message, help);
        }
    }

    fn hollow_negations(&mut self, policy: &Policy) {
        for at in hollow::negations(policy) {
            self.warn(
                Code::UndecidedOverNothing,
                at,
                "without such an event this is unknown, and so is its negation",
                "say what holds then: `(last(user).text default \"\")`, or ask `known(..)` first",
            );
        }
    }

    fn unused_lets(&mut self, policy: &Policy) {
        let mut used = BTreeSet::new();
        let mut see = |node: &Node| lets(node, &mut used);
        policy.conditions.iter().for_each(|condition| leaves(condition, &mut see));
        policy.lets.iter().chain(&policy.once_per).for_each(&mut see);
        for part in &policy.message {
            if let MessagePart::Hole(node) = part {
                see(node);
            }
        }
        for (i, (name, at)) in policy.let_names.iter().enumerate() {
            if !used.contains(&i) {
                self.warn(Code::Unused, *at, format!("nothing uses `{name}`"), "");
            }
        }
    }

    /// Policies that say what another one says.
    fn same_policies(&mut self, policies: &[Policy]) {
        let mut first: HashMap<String, &Policy> = HashMap::new();
        for policy in policies.iter().filter(|policy| policy.effect != Effect::Judge) {
            let mut meaning = format!("{:?}{:?}", policy.on, policy.lets);
            policy.conditions.iter().for_each(|condition| shape(condition, &mut meaning));
            let Some(other) = first.get(&meaning) else {
                first.insert(meaning, policy);
                continue;
            };
            let same =
                other.effect == policy.effect && format!("{:?}", other.once_per) == format!("{:?}", policy.once_per);
            // A denied call is not looked at by anybody.
            let shadowed = other.effect == Effect::Deny && policy.effect == Effect::Review;
            if same || shadowed {
                let message = format!("`{}` has the trigger and the conditions of `{}`", policy.id, other.id);
                let problem = Diagnostic::warning(Code::SamePolicy, policy.span, message)
                    .secondary(other.span, "the other one")
                    .help("leave one of them out");
                self.problems.push(problem);
            }
        }
    }
}

fn leaves(cond: &Cond, see: &mut dyn FnMut(&Node)) {
    match cond {
        Cond::And(parts) | Cond::Or(parts) => parts.iter().for_each(|part| leaves(part, see)),
        Cond::Not(inner) => leaves(inner, see),
        Cond::Leaf(node, _) => see(node),
    }
}

fn lets(node: &Node, used: &mut BTreeSet<usize>) {
    if let NodeKind::Let(i) = node.kind {
        used.insert(i);
    }
    node.for_each_child(&mut |child| lets(child, used));
}

/// A condition without its places and source text.
fn shape(cond: &Cond, out: &mut String) {
    let (word, parts): (&str, &[Cond]) = match cond {
        Cond::And(parts) => ("and", parts),
        Cond::Or(parts) => ("or", parts),
        Cond::Not(inner) => ("not", std::slice::from_ref(&**inner)),
        Cond::Leaf(node, _) => {
            out.push_str(&format!("<{node:?}>"));
            return;
        }
    };
    out.push_str(&format!("{word}("));
    parts.iter().for_each(|part| shape(part, out));
    out.push(')');
}

/// The conditions that must all hold, each with whether it must be true or false.
fn conjuncts<'c>(cond: &'c Cond, holds: bool, out: &mut Vec<(&'c Node, bool)>) {
    match cond {
        Cond::And(parts) if holds => parts.iter().for_each(|part| conjuncts(part, true, out)),
        Cond::Or(parts) if !holds => parts.iter().for_each(|part| conjuncts(part, false, out)),
        Cond::Not(inner) => conjuncts(inner, !holds, out),
        Cond::Leaf(node, _) => out.push((node, holds)),
        Cond::And(_) | Cond::Or(_) => {}
    }
}

/// What to write in place of a comparison of an address by its letters.
fn address(op: BinaryOp, text: &Node, part: &str) -> Option<&'static str> {
    let field = match &text.kind {
        NodeKind::Field { name, .. } => name.as_ref(),
        _ => "",
    };
    let of_url = |field| {
        matches!(&text.kind, NodeKind::Field { base, name, .. }
        if name.as_ref() == field && URL_FIELDS.contains(&field)
            && matches!(&base.kind, NodeKind::Builtin(function, _) if function.0.name == "url"))
    };
    match op {
        BinaryOp::StartsWith if part.contains("://") => {
            Some("ask for its parts: `url(x).scheme`, `host_within(url(x).host, \"corp.example\")`")
        }
        BinaryOp::StartsWith if part.starts_with('/') && part.len() > 1 && !of_url("path") => {
            Some("ask for whole segments: `path_within(x, \"/srv\")`")
        }
        BinaryOp::EndsWith if of_url("host") || matches!(field, "host" | "hostname" | "domain") => {
            Some("ask for whole labels: `host_within(x, \"corp.example\")`")
        }
        _ => None,
    }
}

/// Whether a history function gives an event or value that may not be there.
pub(super) fn may_be_absent(op: HistoryOp) -> bool {
    matches!(op, HistoryOp::First | HistoryOp::Last | HistoryOp::Previous | HistoryOp::Min | HistoryOp::Max)
}
