//! What a session has seen, as far as its rules need it. The program is shared and never changes;
//! everything that changes is here.

use std::collections::{HashMap, HashSet};

use crate::model::{Limit, Limits, Value};

use super::{
    cell::{LookBack, Running},
    derivation::IndexState,
    fact::FactState,
    program::{Id, Plan, Program},
    sequence::SequenceState,
};

/// The state of one session under one program. Stores come into being when first fed, so that a large
/// pack costs a small session nothing.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(super) facts: HashMap<Id, FactState>,
    pub(super) cells: HashMap<Id, CellState>,
    pub(super) sequences: HashMap<Id, SequenceState>,
    pub(super) indexes: HashMap<Id, IndexState>,
    /// Tokens that the indexes hold.
    pub(super) tokens: usize,
    /// For what each `once per` policy was reported.
    reported: HashMap<Id, HashSet<Vec<Value>>>,
    /// A result whose call is unknown has come: it may have been meant for any fact that results feed.
    pub(super) unpaired: bool,
    /// A limit was reached while taking an event in: facts and history are incomplete from then on.
    pub(super) incomplete: Option<Limit>,
    pub(super) bytes: usize,
}

/// The state of one cell.
#[derive(Clone, Debug)]
pub(super) enum CellState {
    Running(Running),
    LookBack(LookBack),
}

impl State {
    /// The rough size in bytes of facts and history.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True once a limit has kept something out: what reads facts or history is undecided then.
    pub fn is_incomplete(&self) -> bool {
        self.incomplete.is_some()
    }

    /// Changes a cell, which comes into being when first touched, and keeps the size in step.
    pub(super) fn change_cell(
        &mut self,
        program: &Program,
        id: Id,
        limits: &Limits,
        change: impl FnOnce(&mut CellState),
    ) {
        let Some(cell) = program.cells.get(id) else { return };
        let held = self.cells.entry(id).or_insert_with(|| match cell.plan {
            Plan::Running { .. } => CellState::Running(Running::new(cell.op, &cell.window, limits)),
            Plan::LookBack { .. } => CellState::LookBack(LookBack::new(limits.look_back)),
        });
        let before = held.bytes();
        change(held);
        self.bytes = (self.bytes + held.bytes()).saturating_sub(before);
    }

    /// Changes an order pattern, which comes into being when first touched, and keeps the size in step.
    pub(super) fn change_sequence(
        &mut self,
        program: &Program,
        id: Id,
        limits: &Limits,
        change: impl FnOnce(&mut SequenceState),
    ) {
        let Some(sequence) = program.sequences.get(id) else { return };
        let new = || SequenceState::new(sequence.steps.len(), limits.look_back);
        let held = self.sequences.entry(id).or_insert_with(new);
        let before = held.bytes();
        change(held);
        self.bytes = (self.bytes + held.bytes()).saturating_sub(before);
    }

    /// Changes an index of tokens and keeps the size in step.
    pub(super) fn change_index(&mut self, id: Id, change: impl FnOnce(&mut IndexState)) {
        let held = self.indexes.entry(id).or_default();
        let before = held.bytes();
        change(held);
        self.bytes = (self.bytes + held.bytes()).saturating_sub(before);
    }

    /// Whether a `once per` policy was reported for a key.
    pub(super) fn was_reported(&self, policy: Id, key: &[Value]) -> bool {
        self.reported.get(&policy).is_some_and(|keys| keys.contains(key))
    }

    /// Remembers that a `once per` policy was reported for a key.
    pub(super) fn report(&mut self, policy: Id, key: Vec<Value>) {
        let weight = report_weight(&key);
        if self.reported.entry(policy).or_default().insert(key) {
            self.bytes += weight;
        }
    }

    /// Forgets for which keys a `once per` policy was reported.
    pub fn forget_reports(&mut self, policy: Id) {
        let forgotten = self.reported.remove(&policy).unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(forgotten.iter().map(|key| report_weight(key)).sum());
    }

    /// Changes a fact and keeps the size in step.
    pub(super) fn change_fact(&mut self, id: Id, change: impl FnOnce(&mut FactState)) {
        let held = self.facts.entry(id).or_default();
        let before = held.bytes();
        change(held);
        self.bytes = (self.bytes + held.bytes()).saturating_sub(before);
    }
}

impl CellState {
    fn bytes(&self) -> usize {
        match self {
            CellState::Running(running) => running.bytes(),
            CellState::LookBack(held) => held.bytes(),
        }
    }
}

/// What remembering a report costs.
fn report_weight(key: &[Value]) -> usize {
    64 + key.iter().map(Value::weight).sum::<usize>()
}
