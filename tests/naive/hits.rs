//! Hits as events: who asks for them, and which there are.

use std::{collections::BTreeMap, sync::Arc};

use probity::{
    ingest::Ingest,
    lang::ast::{Expr, ExprKind, Item, Pattern, PolicyItem, StatementKind},
    model::{Effect, Event, EventKind, PolicyId},
};

use super::{
    EventVerdict,
    program::{Program, effect, severity},
};

impl Program {
    /// Whether anything in the pack asks for hits.
    pub fn asks_for_hits(&self) -> bool {
        self.defs.values().any(|def| self.says_hit(&def.body))
            || self.policies.iter().any(|policy| self.reads_hits(policy))
    }

    /// Whether a policy asks for hits, by itself or by a definition.
    fn reads_hits(&self, policy: &PolicyItem) -> bool {
        let mut found = false;
        Item::Policy(policy.clone()).for_each_expr(&mut |e| found |= self.says_hit(e));
        found
    }

    fn says_hit(&self, e: &Expr) -> bool {
        let mut found = match &e.kind {
            ExprKind::History(_, _, pattern) => of_hits(pattern),
            ExprKind::Apply(name, _) => self.defs.get(&name.text).is_some_and(|def| self.says_hit(&def.body)),
            _ => false,
        };
        e.kind.for_each_child(&mut |child| found |= self.says_hit(child));
        found
    }

    /// The hits among the verdicts of a message, as events: one for each `deny` policy that fired and asks
    /// for no hits itself.
    pub fn hits(&self, verdicts: &[EventVerdict], events: &[Arc<Event>], ingest: &mut Ingest) -> Vec<Arc<Event>> {
        let mut first: BTreeMap<PolicyId, &EventVerdict> = BTreeMap::new();
        for verdict in verdicts {
            for firing in &verdict.firings {
                first.entry(Arc::clone(&firing.policy)).or_insert(verdict);
            }
        }
        let mut hits = Vec::new();
        for (id, verdict) in first {
            let policy = self.policies.iter().find(|policy| policy.id.text == id).unwrap();
            if effect(policy) == Effect::Deny && !self.reads_hits(policy) {
                let time = events[usize::try_from(verdict.seq).unwrap()].time;
                hits.push(ingest.hit(verdict.turn, time, id, severity(policy), &tags(policy)));
            }
        }
        hits
    }
}

fn of_hits(pattern: &Pattern) -> bool {
    pattern.sources.iter().any(|source| source.kinds.contains(&EventKind::Hit))
        || pattern.since.as_deref().is_some_and(of_hits)
}

fn tags(policy: &PolicyItem) -> Vec<Arc<str>> {
    let tags = policy.statements.iter().filter_map(|s| match &s.kind {
        StatementKind::Tags(tags) => Some(tags),
        _ => None,
    });
    tags.flatten().map(|tag| Arc::clone(&tag.text)).collect()
}
