//! What a policy means, in words: its trigger and conditions, the facts and earlier events that it
//! reads, how these are kept, and what one more event costs.
//!
//! Everything is read off the compiled program, so it says what will happen and not what was meant.

mod order;
#[cfg(test)]
mod tests;
mod text;
mod words;

use std::collections::BTreeMap;

use serde::Serialize;

use super::program::{Ask, Cell, Cond, Fact, Id, MessagePart, Node, NodeKind, Over, Plan, Policy, Program, Walk};
use crate::model::{Effect, Limits};
pub use order::{OrderUse, StepUse};

/// What a policy means.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// Its id.
    pub policy: String,
    /// Its title.
    pub title: String,
    /// The file and line where it is declared.
    pub at: String,
    /// `deny`, `review`, `flag`, `milestone` or `judge`.
    pub effect: &'static str,
    /// Its severity.
    pub severity: f64,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// What the judge of a semantic policy is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Which events it judges, in words.
    pub judges: Vec<String>,
    /// The names that stand for expressions in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<Named>,
    /// It fires when all of these hold.
    pub conditions: Vec<Clause>,
    /// It is reported once a session for each value of these; empty if each time counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub once_per: Vec<String>,
    /// The facts that it reads.
    pub facts: Vec<FactUse>,
    /// The questions about earlier events that it asks.
    pub history: Vec<HistoryUse>,
    /// The orders of earlier events that it asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<OrderUse>,
    /// What one more event costs.
    pub cost: Cost,
}

/// A name of a `let`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Named {
    /// The name.
    pub name: String,
    /// What it stands for.
    pub is: String,
}

/// A condition, down to the leaves that evidence speaks of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Clause {
    /// All of them hold.
    All(Vec<Clause>),
    /// At least one of them holds.
    Any(Vec<Clause>),
    /// It does not hold.
    Not(Box<Clause>),
    /// The source text of anything else.
    Leaf(String),
}

/// A fact, and how a policy reads it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FactUse {
    /// Its name.
    pub fact: String,
    /// The file and line where it is declared.
    pub at: String,
    /// What it is read by; empty for a fact of one cell.
    pub key: Vec<String>,
    /// `last value` or `set of values`.
    pub keeps: &'static str,
    /// The value that is kept.
    pub value: String,
    /// What feeds it, in words.
    pub from: Vec<String>,
    /// Which of those do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What removes entries, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forgotten_by: Vec<String>,
    /// How the policy reads it.
    pub reads: Vec<Read>,
}

/// A way to read a fact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Read {
    /// One look-up by the whole key.
    Key,
    /// Entries of which something equals a value are found by an index.
    Index {
        /// What is indexed, of the entry.
        entry: String,
        /// What it must equal.
        equals: String,
        /// The most entries that are looked at.
        at_most: usize,
    },
    /// All entries, one by one.
    Walk {
        /// The most entries that are looked at.
        at_most: usize,
    },
}

/// A question about earlier events.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryUse {
    /// The question as written.
    pub source: String,
    /// Which events it is about, in words.
    pub about: Vec<String>,
    /// The list in the earlier event whose elements are candidates of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each_of: Option<String>,
    /// Conditions on the earlier event alone: tested once, when it arrives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tested_on_arrival: Vec<String>,
    /// Equalities between the earlier event and the judged one: found by an index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined_on: Vec<Join>,
    /// Conditions that compare both in another way: tested for each event that is looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tested_one_by_one: Vec<String>,
    /// Its windows, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub window: Vec<String>,
    /// What is kept, in words.
    pub keeps: String,
    /// `running`, `look_back` or `tokens`.
    pub plan: &'static str,
    /// The most earlier events that are looked at for one answer; none for a running answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
}

/// An equality that an index answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Join {
    /// Of the earlier event.
    pub earlier: String,
    /// Of the judged one.
    pub present: String,
}

/// What one more event costs, whatever the length of the trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// `none`, `constant` or `bounded`.
    pub class: &'static str,
    /// Whether earlier events are looked at one by one.
    pub scans_history: bool,
    /// Why it is not constant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
}

impl Program {
    /// Explains the policy of an id, as it runs under these limits.
    pub fn explain(&self, id: &str, limits: &Limits) -> Option<Explanation> {
        let policy = self.policies.iter().find(|p| p.id.as_ref() == id)?;
        let mut reads = Reads { limits: *limits, ..Reads::default() };
        policy.conditions.iter().for_each(|c| reads.cond(c));
        policy.lets.iter().chain(&policy.once_per).for_each(|l| reads.node(l));
        for part in &policy.message {
            if let MessagePart::Hole(node) = part {
                reads.node(node);
            }
        }
        let facts = reads.facts(self);
        let history = reads.history(self);
        let orders = reads.orders(self);
        let cost = cost(policy, &facts, &history, &orders);
        Some(Explanation {
            policy: policy.id.to_string(),
            title: policy.title.to_string(),
            at: self.place(policy.span),
            effect: policy.effect.word(),
            severity: policy.severity.to_f64(),
            tags: policy.tags.iter().map(ToString::to_string).collect(),
            question: policy.question.as_ref().map(ToString::to_string),
            judges: policy.on.iter().map(words::events).collect(),
            names: self.names(policy),
            conditions: flat(policy.conditions.iter().map(clause)),
            once_per: policy.once_per.iter().map(|key| self.written(key)).collect(),
            facts,
            history,
            orders,
            cost,
        })
    }

    fn names(&self, policy: &Policy) -> Vec<Named> {
        let named = policy.let_names.iter();
        named.map(|(name, at)| Named { name: name.to_string(), is: self.source_text(*at) }).collect()
    }
}

fn clause(cond: &Cond) -> Clause {
    match cond {
        Cond::And(parts) => Clause::All(flat(parts.iter().map(clause))),
        Cond::Or(parts) => Clause::Any(parts.iter().map(clause).collect()),
        Cond::Not(inner) => match clause(inner) {
            Clause::Not(inner) => *inner,
            other => Clause::Not(Box::new(other)),
        },
        Cond::Leaf(_, source) => Clause::Leaf(source.to_string()),
    }
}

/// Conditions that must all hold are one list, however they are written.
fn flat(clauses: impl Iterator<Item = Clause>) -> Vec<Clause> {
    let mut out = Vec::new();
    for clause in clauses {
        match clause {
            Clause::All(parts) => out.extend(parts),
            other => out.push(other),
        }
    }
    out
}

/// The stores that a policy reads, and how.
#[derive(Default)]
struct Reads<'p> {
    limits: Limits,
    facts: BTreeMap<Id, Vec<HowRead<'p>>>,
    asks: Vec<(&'p Ask, &'p Node)>,
    orders: Vec<(&'p super::program::SequenceAsk, &'p Node)>,
    derived: Vec<(&'p super::program::DerivedAsk, &'p Node)>,
}

enum HowRead<'p> {
    Key,
    Walk(Option<(usize, &'p Node)>),
}

impl<'p> Reads<'p> {
    fn cond(&mut self, cond: &'p Cond) {
        match cond {
            Cond::And(parts) | Cond::Or(parts) => parts.iter().for_each(|p| self.cond(p)),
            Cond::Not(inner) => self.cond(inner),
            Cond::Leaf(node, _) => self.node(node),
        }
    }

    fn node(&mut self, node: &'p Node) {
        match &node.kind {
            NodeKind::Fact(id, _) | NodeKind::Seen(id, _) => self.facts.entry(*id).or_default().push(HowRead::Key),
            NodeKind::Quantifier(_, walk, _) | NodeKind::Comprehension { walk, .. } | NodeKind::Fold(_, _, walk) => {
                self.walk(walk);
            }
            NodeKind::History(ask) => self.asks.push((ask, node)),
            NodeKind::Sequence(ask) => self.orders.push((ask, node)),
            NodeKind::Derived(ask) => self.derived.push((ask, node)),
            _ => {}
        }
        node.for_each_child(&mut |child| self.node(child));
    }

    fn walk(&mut self, walk: &'p Walk) {
        if let Over::Fact { fact, index } = &walk.over {
            let index = index.as_ref().map(|(index, node)| (*index, &**node));
            self.facts.entry(*fact).or_default().push(HowRead::Walk(index));
        }
    }

    fn facts(&self, program: &Program) -> Vec<FactUse> {
        let uses = self.facts.iter().filter_map(|(id, how)| {
            let fact = program.facts.get(*id)?;
            let mut reads: Vec<Read> = how.iter().map(|h| program.read(fact, h, &self.limits)).collect();
            reads.sort();
            reads.dedup();
            Some(program.fact_use(*id, fact, reads))
        });
        uses.collect()
    }

    fn history(&self, program: &Program) -> Vec<HistoryUse> {
        let mut uses: Vec<HistoryUse> = Vec::new();
        for (ask, node) in &self.asks {
            let Some(cell) = program.cells.get(ask.cell) else { continue };
            let used = program.history_use(ask, cell, node, &self.limits);
            if !uses.contains(&used) {
                uses.push(used);
            }
        }
        uses.extend(self.derived.iter().filter_map(|(ask, node)| program.derived_use(ask, node, &self.limits)));
        uses
    }
}

impl Program {
    fn read(&self, fact: &Fact, how: &HowRead<'_>, limits: &Limits) -> Read {
        let HowRead::Walk(index) = how else { return Read::Key };
        let at_most = limits.fact_entries;
        let found = index.and_then(|(at, node)| fact.indexes.get(at).map(|index| (index, node)));
        match found {
            Some((index, node)) => {
                Read::Index { entry: self.written(&index.node), equals: self.written(node), at_most }
            }
            None => Read::Walk { at_most },
        }
    }

    fn fact_use(&self, id: Id, fact: &Fact, reads: Vec<Read>) -> FactUse {
        let forgotten = self.forgets.iter().filter(|f| f.fact == id).map(|forget| {
            let from: Vec<String> = forget.from.iter().map(words::events).collect();
            match &forget.when {
                Some(when) => format!("{}, when {}", from.join(", "), self.written(when)),
                None => from.join(", "),
            }
        });
        FactUse {
            fact: fact.name.to_string(),
            at: self.place(fact.span),
            key: fact.key.iter().map(|k| self.written(k)).collect(),
            keeps: if fact.collects { "set of values" } else { "last value" },
            value: self.written(&fact.value),
            from: fact.from.iter().map(words::events).collect(),
            when: fact.when.as_ref().map(|w| self.written(w)),
            forgotten_by: forgotten.collect(),
            reads,
        }
    }

    fn derived_use(&self, ask: &super::program::DerivedAsk, node: &Node, limits: &Limits) -> Option<HistoryUse> {
        let index = self.indexes.get(ask.index)?;
        let kept = match &index.path {
            Some(path) => format!("the tokens of `{}`", self.written(path)),
            None => "the tokens of their texts".to_owned(),
        };
        Some(HistoryUse {
            source: self.written(node),
            about: index.sources.iter().map(words::events).collect(),
            each_of: None,
            tested_on_arrival: index.local.iter().map(|c| self.written(c)).collect(),
            joined_on: Vec::new(),
            tested_one_by_one: Vec::new(),
            window: Vec::new(),
            keeps: format!("{kept}, and those of user and system messages: at most {} in the session", limits.tokens),
            plan: "tokens",
            at_most: Some(limits.look_back),
        })
    }

    fn history_use(&self, ask: &Ask, cell: &Cell, node: &Node, limits: &Limits) -> HistoryUse {
        let (since, look_back) = match &cell.plan {
            Plan::Running { since } => (since, false),
            Plan::LookBack { since, .. } => (since, true),
        };
        let at_most = look_back.then_some(limits.look_back);
        let mut window = words::windows(&cell.window);
        if let Some(opening) = since {
            let from: Vec<String> = opening.sources.iter().map(words::events).collect();
            let mut opens = format!("since the latest of: {}", from.join(", "));
            let conditions: Vec<String> =
                opening.local.iter().chain(&ask.since_rest).map(|c| self.written(c)).collect();
            if !conditions.is_empty() {
                opens.push_str(&format!(", where {}", conditions.join(" and ")));
            }
            if !look_back {
                opens.push_str(&format!("; at most {} possible openings", limits.openings));
            }
            window.push(opens);
        }
        let element = cell.element.as_ref().or(ask.element.as_ref()).map(|e| self.written(e));
        let joins = cell.key.iter().zip(&ask.key);
        let arriving = cell.walk.iter().filter_map(|walk| walk.filter.as_deref()).flat_map(conjuncts);
        let asked = ask.walk.iter().filter(|_| look_back).filter_map(|walk| walk.filter.as_deref());
        HistoryUse {
            source: self.written(node),
            about: cell.sources.iter().map(words::events).collect(),
            each_of: ask.walk.as_ref().and_then(|walk| match &walk.over {
                Over::Value(list) => Some(self.written(list)),
                Over::Fact { .. } => None,
            }),
            tested_on_arrival: cell.local.iter().chain(arriving).map(|c| self.written(c)).collect(),
            joined_on: joins.map(|(e, p)| Join { earlier: self.written(e), present: self.written(p) }).collect(),
            tested_one_by_one: ask.rest.iter().chain(asked).map(|c| self.written(c)).collect(),
            window,
            keeps: words::keeps(cell.op, at_most, element.as_deref(), cell.key.len()),
            plan: if look_back { "look_back" } else { "running" },
            at_most,
        }
    }
}

/// The parts of a condition that must all hold.
fn conjuncts(node: &Node) -> &[Node] {
    match &node.kind {
        NodeKind::And(parts) => parts,
        _ => std::slice::from_ref(node),
    }
}

fn cost(policy: &Policy, facts: &[FactUse], history: &[HistoryUse], orders: &[OrderUse]) -> Cost {
    if policy.effect == Effect::Judge {
        return Cost { class: "none", scans_history: false, because: Vec::new() };
    }
    let mut because = Vec::new();
    for fact in facts {
        for read in &fact.reads {
            match read {
                Read::Key => {}
                Read::Index { entry, at_most, .. } => because.push(format!(
                    "of the entries of `{}` those whose `{entry}` fits are looked at, at most {at_most}",
                    fact.fact
                )),
                Read::Walk { at_most } => {
                    because.push(format!("the entries of `{}` are looked at, at most {at_most}", fact.fact));
                }
            }
        }
    }
    let mut scans = false;
    for question in history {
        let Some(most) = question.at_most else { continue };
        scans |= question.plan != "tokens";
        let what = if question.plan == "tokens" { "places of a token" } else { "earlier events" };
        because.push(format!("`{}` looks at {what} one by one, at most {most}", question.source));
    }
    for order in orders {
        let Some(most) = order.at_most else { continue };
        scans = true;
        because.push(format!("`{}` looks at incomplete matches one by one, at most {most} a step", order.source));
    }
    let class = if because.is_empty() { "constant" } else { "bounded" };
    Cost { class, scans_history: scans, because }
}
