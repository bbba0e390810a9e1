//! Policies: their statements in order, each checked for being there once.

use std::collections::HashMap;

use super::{Binding, Compiler, Env};
use crate::{
    diag::{Code, Diagnostic, Span},
    lang::{
        ast::{Expr, ExprKind, Item, PolicyItem, StatementKind, TemplatePart},
        program::{Cond, MessagePart, Node, NodeKind, Policy},
        types::Ty,
    },
    model::{Effect, EventKind, Num},
};

impl<'a> Compiler<'a> {
    /// Compiles all policies.
    pub(super) fn policies(&mut self, items: &[&'a Item]) {
        let mut ids: HashMap<&str, Span> = HashMap::new();
        for item in items {
            let Item::Policy(policy) = item else { continue };
            if let Some(earlier) = ids.insert(&policy.id.text, policy.id.span) {
                let problem = Diagnostic::error(
                    Code::DeclaredTwice,
                    policy.id.span,
                    format!("the policy id `{}` is used twice", policy.id.text),
                )
                .secondary(earlier, "first used here");
                self.problems.push(problem);
                continue;
            }
            if let Some(compiled) = self.policy(policy) {
                self.policies.push(compiled);
            }
        }
    }

    fn policy(&mut self, policy: &'a PolicyItem) -> Option<Policy> {
        self.begin();
        self.slots = 0;
        self.lets = Vec::new();
        self.let_shapes = Vec::new();
        self.slot_shapes = HashMap::new();
        let mut seen: HashMap<&'static str, Span> = HashMap::new();
        let mut severity = None;
        let mut tags = Vec::new();
        let mut on = None;
        let mut question = None;
        // The trigger first, wherever it stands: conditions are checked against the judged event's kind.
        for statement in &policy.statements {
            if let StatementKind::On(sources) = &statement.kind {
                self.no_hits(sources);
                let specs = self.sources(sources);
                on.get_or_insert(specs);
            }
        }
        let kinds: Vec<EventKind> = match &on {
            Some(specs) => specs.iter().flat_map(|s| s.kinds.iter().copied()).collect(),
            None => EventKind::ALL.to_vec(),
        };
        let sources = on.clone().unwrap_or_default();
        let mut env = Env::judging(kinds, sources.into());
        self.later = policy.statements.iter().filter_map(|s| s.let_name()).rev().collect();
        let mut conditions = Vec::new();
        let mut effect = None;
        let mut decides = 0;
        let mut reported = Vec::new();
        let mut message = Vec::new();
        let mut let_names = Vec::new();
        for statement in &policy.statements {
            let word = match &statement.kind {
                StatementKind::Severity(_) => "severity",
                StatementKind::Tags(_) => "tags",
                StatementKind::On(_) => "on",
                StatementKind::Effect { .. } => "effect",
                StatementKind::Message(_) => "message",
                StatementKind::Judge(_) => "judge",
                StatementKind::Let(..) | StatementKind::When(_) => "",
            };
            if !word.is_empty()
                && let Some(earlier) = seen.insert(word, statement.span)
            {
                let (what, help) = match word {
                    "effect" => ("effect: deny, review, flag or milestone", "declare a second policy"),
                    "on" => ("`on`", "several kinds of event are joined by `or`"),
                    "tags" => ("`tags`", "several tags are separated by commas"),
                    word => (word, "leave one of them out"),
                };
                let problem =
                    Diagnostic::error(Code::StatementTwice, statement.span, format!("a policy has only one {what}"))
                        .secondary(earlier, "the first one")
                        .help(help);
                self.problems.push(problem);
                continue;
            }
            match &statement.kind {
                StatementKind::Severity(n) => severity = Some(*n),
                StatementKind::Tags(names) => tags = names.iter().map(|n| n.text.clone()).collect(),
                StatementKind::On(_) => {}
                StatementKind::Let(name, value) => {
                    if matches!(name.text.as_ref(), "it" | "now") {
                        let message = format!("`{}` already means something here", name.text);
                        let problem =
                            Diagnostic::error(Code::ReservedMeaning, name.span, message).help("choose another name");
                        self.problems.push(problem);
                    }
                    let typed = self.expr(value, &env);
                    self.later.pop();
                    self.lets.push(typed.node);
                    self.let_shapes.push(typed.shape);
                    let_names.push((name.text.clone(), value.span));
                    env.names.push((name.text.clone(), Binding::Let(self.lets.len() - 1), typed.ty));
                }
                StatementKind::When(condition) => conditions.push(self.cond(condition, &env)),
                StatementKind::Effect { effect: which, once_per, negated, condition } => {
                    effect = Some(*which);
                    reported = once_per.iter().map(|key| self.expr(key, &env).node).collect();
                    let cond = self.cond(condition, &env);
                    decides = conditions.len();
                    conditions.push(if *negated { Cond::Not(Box::new(cond)) } else { cond });
                }
                StatementKind::Message(parts) => {
                    message = parts
                        .iter()
                        .map(|part| match part {
                            TemplatePart::Text(text) => MessagePart::Text(text.clone()),
                            TemplatePart::Hole(expr) => MessagePart::Hole(self.expr(expr, &env).node),
                        })
                        .collect();
                }
                StatementKind::Judge(text) => question = Some(text.clone()),
            }
        }
        let effect = self.shape(policy, &seen, effect)?;
        let shown = message.iter().filter_map(|part| match part {
            MessagePart::Hole(node) => Some(node),
            MessagePart::Text(_) => None,
        });
        let mut all = Used::default();
        conditions.iter().for_each(|c| all.cond(c));
        self.lets.iter().chain(&reported).chain(shown).for_each(|node| all.node(node));
        let reads_hits = all.cells.iter().any(|cell| self.cells.get(*cell).is_some_and(super::hits::reads_hits));
        let lets = std::mem::take(&mut self.lets);
        let mut used = Used::default();
        conditions.iter().for_each(|c| used.cond(c));
        lets.iter().chain(&reported).for_each(|node| used.node(node));
        Some(Policy {
            id: policy.id.text.clone(),
            title: policy.title.clone(),
            effect,
            severity: severity.unwrap_or(Num::ZERO),
            tags,
            question,
            on: on.unwrap_or_default(),
            conditions,
            decides,
            once_per: reported,
            lets,
            let_names,
            slots: self.slots,
            message,
            cells: used.cells,
            facts: used.facts,
            reads_hits,
            span: policy.id.span,
            whole: policy.span,
        })
    }

    /// Whether the policy has the statements that its kind needs.
    fn shape(&mut self, policy: &PolicyItem, seen: &HashMap<&str, Span>, effect: Option<Effect>) -> Option<Effect> {
        let id = &policy.id;
        let missing = |what: &str, help: &str| {
            Diagnostic::error(Code::StatementMissing, id.span, format!("the policy `{}` has no {what}", id.text))
                .help(help)
        };
        let judge = seen.get("judge");
        let problem = match (effect, judge) {
            (None, None) => Some(missing("effect", "say what happens: `deny if CONDITION`, or `judge \"QUESTION\"`")),
            (Some(_), Some(at)) => Some(
                Diagnostic::error(Code::NotHere, *at, "a policy has either an effect or a judge, not both")
                    .help("declare a second policy for the judge"),
            ),
            _ if !seen.contains_key("severity") => Some(missing("severity", "add `severity 1.0`; 0 is allowed")),
            (Some(_), None) if !seen.contains_key("on") => {
                Some(missing("trigger", "say which events it judges: `on call TOOL`, `on assistant`, .."))
            }
            _ => None,
        };
        match problem {
            Some(problem) => {
                self.problems.push(problem);
                None
            }
            None => Some(effect.unwrap_or(Effect::Judge)),
        }
    }

    /// A condition, taken apart down to the leaves that evidence speaks of.
    fn cond(&mut self, expr: &Expr, env: &Env) -> Cond {
        match &expr.kind {
            ExprKind::And(parts) => Cond::And(parts.iter().map(|p| self.cond(p, env)).collect()),
            ExprKind::Or(parts) => Cond::Or(parts.iter().map(|p| self.cond(p, env)).collect()),
            ExprKind::Not(inner) => Cond::Not(Box::new(self.cond(inner, env))),
            _ => {
                let node = self.condition(expr, env);
                let text = self.around.sources.get(expr.span.file).map_or("", |source| source.slice(expr.span));
                let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
                Cond::Leaf(node, folded.into())
            }
        }
    }

    /// An expression that must be a condition.
    pub(super) fn condition(&mut self, expr: &Expr, env: &Env) -> Node {
        let typed = self.expr(expr, env);
        if !typed.ty.fits(Ty::Bool) {
            let problem =
                Diagnostic::error(Code::TypeMismatch, expr.span, format!("this is {}, not a condition", typed.ty.a()));
            self.problems.push(match typed.ty {
                Ty::Event => problem.help("whether there is one says `once(..)` or `known(..)`"),
                _ => problem.help("compare it with something"),
            });
        }
        typed.node
    }
}

/// The stores that a policy reads.
#[derive(Default)]
struct Used {
    cells: Vec<usize>,
    facts: Vec<usize>,
}

impl Used {
    fn cond(&mut self, cond: &Cond) {
        match cond {
            Cond::And(parts) | Cond::Or(parts) => parts.iter().for_each(|p| self.cond(p)),
            Cond::Not(inner) => self.cond(inner),
            Cond::Leaf(node, _) => self.node(node),
        }
    }

    fn node(&mut self, node: &Node) {
        let (list, id) = match &node.kind {
            NodeKind::Fact(id, _) | NodeKind::Seen(id, _) => (Some(&mut self.facts), *id),
            NodeKind::History(ask) => (Some(&mut self.cells), ask.cell),
            NodeKind::Quantifier(_, walk, _) | NodeKind::Comprehension { walk, .. } | NodeKind::Fold(_, _, walk) => {
                match &walk.over {
                    crate::lang::program::Over::Fact { fact, .. } => (Some(&mut self.facts), *fact),
                    crate::lang::program::Over::Value(_) => (None, 0),
                }
            }
            _ => (None, 0),
        };
        if let Some(list) = list
            && !list.contains(&id)
        {
            list.push(id);
        }
        node.for_each_child(&mut |child| self.node(child));
    }
}
