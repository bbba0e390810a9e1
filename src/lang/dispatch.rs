//! Who is concerned by an event: by kind and tool, so that rules about other tools cost nothing.

use std::{collections::HashMap, sync::Arc};

use super::program::{Cell, Fact, Forget, Id, Plan, Policy, Sequence, SourceSpec, TextIndex, ToolSpec, glob};
use crate::model::{Event, EventKind};

/// What an event concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Policies that judge it.
    pub policies: Vec<Id>,
    /// Facts that it may fill.
    pub facts: Vec<Id>,
    /// Removals.
    pub forgets: Vec<Id>,
    /// Cells that may keep it.
    pub cells: Vec<Id>,
    /// Cells whose window it may open.
    pub openings: Vec<Id>,
    /// Order patterns that it may go on with.
    pub sequences: Vec<Id>,
    /// Indexes of tokens that may keep it.
    pub indexes: Vec<Id>,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    Policy(Id),
    Fact(Id),
    Forget(Id),
    Cell(Id),
    Opening(Id),
    Sequence(Id),
    Index(Id),
}

impl Targets {
    fn add(&mut self, target: Target) {
        let (list, id) = match target {
            Target::Policy(id) => (&mut self.policies, id),
            Target::Fact(id) => (&mut self.facts, id),
            Target::Forget(id) => (&mut self.forgets, id),
            Target::Cell(id) => (&mut self.cells, id),
            Target::Opening(id) => (&mut self.openings, id),
            Target::Sequence(id) => (&mut self.sequences, id),
            Target::Index(id) => (&mut self.indexes, id),
        };
        // Several sources of one rule may name the same tool; rules come in rising order.
        if list.last() != Some(&id) {
            list.push(id);
        }
    }
}

/// The index from (kind, tool) to targets.
#[derive(Debug, Default)]
pub struct Dispatch {
    /// Tools that a rule names, by kind.
    named: HashMap<(EventKind, Arc<str>), Targets>,
    /// Sources with a pattern: matched against tools that no rule names.
    globs: Vec<(EventKind, Arc<str>, Target)>,
    /// Rules about every event of a kind.
    every: HashMap<EventKind, Targets>,
    /// Results whose call is unknown: rules about every result, and whatever keeps results of some tool.
    unpaired: Targets,
}

impl Dispatch {
    /// Builds the index.
    pub fn new(
        policies: &[Policy],
        facts: &[Fact],
        forgets: &[Forget],
        cells: &[Cell],
        sequences: &[Sequence],
        indexes: &[TextIndex],
    ) -> Dispatch {
        let mut all: Vec<(&SourceSpec, Target)> = Vec::new();
        for (id, policy) in policies.iter().enumerate() {
            all.extend(policy.on.iter().map(|s| (s, Target::Policy(id))));
        }
        for (id, fact) in facts.iter().enumerate() {
            all.extend(fact.from.iter().map(|s| (s, Target::Fact(id))));
        }
        for (id, forget) in forgets.iter().enumerate() {
            all.extend(forget.from.iter().map(|s| (s, Target::Forget(id))));
        }
        for (id, cell) in cells.iter().enumerate() {
            all.extend(cell.sources.iter().map(|s| (s, Target::Cell(id))));
        }
        for (id, cell) in cells.iter().enumerate() {
            let (Plan::Running { since } | Plan::LookBack { since, .. }) = &cell.plan;
            let sources = since.iter().flat_map(|opening| &opening.sources);
            all.extend(sources.map(|s| (s, Target::Opening(id))));
        }
        for (id, sequence) in sequences.iter().enumerate() {
            let guards = (0..=sequence.steps.len()).filter_map(|i| sequence.gap(i)?.without.as_ref());
            let sources = sequence.steps.iter().flat_map(|step| &step.sources);
            let sources = sources.chain(guards.flat_map(|guard| &guard.sources));
            all.extend(sources.map(|s| (s, Target::Sequence(id))));
        }
        for (id, index) in indexes.iter().enumerate() {
            all.extend(index.sources.iter().map(|s| (s, Target::Index(id))));
        }
        let mut dispatch = Dispatch::default();
        // Every named tool has a list of its own that also holds the patterns it matches and the rules
        // about every tool, so that an event needs one look-up.
        for (source, _) in &all {
            if let ToolSpec::OneOf(names) = &source.tools {
                for kind in &source.kinds {
                    for name in names {
                        dispatch.named.entry((*kind, name.clone())).or_default();
                    }
                }
            }
        }
        // Rules about one tool are put in its list at once; the others go through all lists once each.
        for (source, target) in &all {
            for kind in &source.kinds {
                match &source.tools {
                    ToolSpec::OneOf(names) => {
                        for name in names {
                            dispatch.named.entry((*kind, name.clone())).or_default().add(*target);
                        }
                    }
                    ToolSpec::Glob(pattern) => {
                        for ((k, name), targets) in &mut dispatch.named {
                            if k == kind && glob(pattern, name) {
                                targets.add(*target);
                            }
                        }
                        dispatch.globs.push((*kind, pattern.clone(), *target));
                    }
                    ToolSpec::Any => {
                        for ((k, _), targets) in &mut dispatch.named {
                            if k == kind {
                                targets.add(*target);
                            }
                        }
                        dispatch.every.entry(*kind).or_default().add(*target);
                    }
                }
                if *kind == EventKind::Result {
                    let any = source.tools == ToolSpec::Any;
                    if any
                        || matches!(
                            target,
                            Target::Cell(_) | Target::Opening(_) | Target::Sequence(_) | Target::Index(_)
                        )
                    {
                        dispatch.unpaired.add(*target);
                    }
                }
            }
        }
        dispatch
    }

    /// What an event concerns.
    pub fn targets(&self, event: &Event) -> std::borrow::Cow<'_, Targets> {
        use std::borrow::Cow;
        if event.is_unpaired() {
            return Cow::Borrowed(&self.unpaired);
        }
        let kind = event.kind();
        let every = self.every.get(&kind);
        let Some(tool) = event.tool() else {
            return every.map_or_else(|| Cow::Owned(Targets::default()), Cow::Borrowed);
        };
        if let Some(targets) = self.named.get(&(kind, tool.clone())) {
            return Cow::Borrowed(targets);
        }
        let matching = || self.globs.iter().filter(|(k, pattern, _)| *k == kind && glob(pattern, tool));
        if matching().next().is_none() {
            return every.map_or_else(|| Cow::Owned(Targets::default()), Cow::Borrowed);
        }
        let mut targets = every.cloned().unwrap_or_default();
        for (_, _, target) in matching() {
            targets.add(*target);
        }
        // Patterns and rules about every tool were put together: bring them into the order of the files.
        for list in [
            &mut targets.policies,
            &mut targets.facts,
            &mut targets.forgets,
            &mut targets.cells,
            &mut targets.openings,
            &mut targets.sequences,
            &mut targets.indexes,
        ] {
            list.sort_unstable();
            list.dedup();
        }
        Cow::Owned(targets)
    }
}
