//! Order patterns: what each step waits for, and what is kept of it.

use std::fmt;

use serde::Serialize;

use super::{Join, Reads, words};
use crate::lang::program::{Asked, Gap, Node, Program, SequenceAsk, Step};

/// An order of earlier events that a policy asks for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OrderUse {
    /// The question as written.
    pub source: String,
    /// Its steps.
    pub steps: Vec<StepUse>,
    /// What must be so between the last step and the judged event.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub then_this: Vec<String>,
    /// Equalities between the events and the judged one: found by an index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined_on: Vec<Join>,
    /// Conditions that compare with the judged event in another way: tested for each match that is looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tested_one_by_one: Vec<String>,
    /// The most incomplete matches that are kept and looked at under one value; none if one is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
}

/// A step of an order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepUse {
    /// Which events, in words.
    pub about: Vec<String>,
    /// Conditions on the event alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tested_on_arrival: Vec<String>,
    /// Equalities between an earlier step and this one: found by an index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined_on: Vec<Join>,
    /// Conditions that compare with earlier steps in another way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tested_one_by_one: Vec<String>,
    /// What must be so between the step before and this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<String>,
}

impl Reads<'_> {
    pub(super) fn orders(&self, program: &Program) -> Vec<OrderUse> {
        let mut uses: Vec<OrderUse> = Vec::new();
        for (ask, node) in &self.orders {
            if let Some(order) = program.order_use(ask, node, self.limits.look_back)
                && !uses.contains(&order)
            {
                uses.push(order);
            }
        }
        uses
    }
}

impl Program {
    fn order_use(&self, ask: &SequenceAsk, node: &Node, most: usize) -> Option<OrderUse> {
        let sequence = self.sequences.get(ask.sequence)?;
        let ends = sequence.steps.iter().flat_map(|step| &step.ends).zip(&ask.key);
        let looks_back = sequence.looks_back() || !ask.late.is_empty();
        Some(OrderUse {
            source: self.written(node),
            steps: sequence.steps.iter().map(|step| self.step_use(step)).collect(),
            then_this: self.between(&sequence.this),
            joined_on: ends.map(|(e, p)| Join { earlier: self.written(e), present: self.written(p) }).collect(),
            tested_one_by_one: ask.late.iter().map(|(_, c)| self.written(c)).collect(),
            at_most: looks_back.then_some(most),
        })
    }

    fn step_use(&self, step: &Step) -> StepUse {
        let joins = step.asked.iter().zip(&step.key).filter_map(|(asked, key)| match asked {
            Asked::Value(node) => Some((node, key)),
            Asked::End(_) => None,
        });
        StepUse {
            about: step.sources.iter().map(words::events).collect(),
            tested_on_arrival: step.local.iter().map(|c| self.written(c)).collect(),
            joined_on: joins.map(|(e, p)| Join { earlier: self.written(e), present: self.written(p) }).collect(),
            tested_one_by_one: step.rest.iter().map(|c| self.written(c)).collect(),
            between: self.between(&step.gap),
        }
    }

    fn between(&self, gap: &Gap) -> Vec<String> {
        let mut out = words::windows(&gap.window);
        out.extend(gap.without.as_ref().map(|guard| {
            let events: Vec<String> = guard.sources.iter().map(words::events).collect();
            let conditions: Vec<String> = guard.local.iter().map(|c| self.written(c)).collect();
            let mut text = format!("without {}", events.join(", "));
            if !conditions.is_empty() {
                text.push_str(&format!(", where {}", conditions.join(" and ")));
            }
            text.push_str(match (guard.key.is_empty(), guard.one_by_one) {
                (_, true) => ", tested one by one",
                (false, false) => ", found by an index",
                (true, false) => "",
            });
            text
        }));
        out
    }
}

/// The lines of an order in an explanation.
pub(super) fn lines(f: &mut fmt::Formatter<'_>, order: &OrderUse) -> fmt::Result {
    writeln!(f, "  {}", order.source)?;
    for (i, step) in order.steps.iter().enumerate() {
        writeln!(f, "    {:<8}{}", if i == 0 { "first" } else { "then" }, step.about.join("; "))?;
        for condition in &step.tested_on_arrival {
            writeln!(f, "    where   {condition}, tested once, when it arrives")?;
        }
        for join in &step.joined_on {
            writeln!(f, "    where   {} equals {}, found by an index", join.present, join.earlier)?;
        }
        for condition in &step.tested_one_by_one {
            writeln!(f, "    where   {condition}, tested one by one")?;
        }
        step.between.iter().try_for_each(|gap| writeln!(f, "    between {gap}"))?;
    }
    if !order.then_this.is_empty() {
        writeln!(f, "    then    the judged event")?;
        order.then_this.iter().try_for_each(|gap| writeln!(f, "    between {gap}"))?;
    }
    for join in &order.joined_on {
        writeln!(f, "    where   {} equals {}, found by an index", join.earlier, join.present)?;
    }
    for condition in &order.tested_one_by_one {
        writeln!(f, "    where   {condition}, tested one by one")?;
    }
    match order.at_most {
        Some(most) => writeln!(f, "    keeps   the last {most} incomplete matches of each step and value"),
        None => writeln!(f, "    keeps   the latest incomplete match of each step and value"),
    }
}
