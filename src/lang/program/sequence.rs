//! Order patterns in compiled form.

use super::{Id, Node, SourceSpec, Window};
use crate::diag::Span;

/// Events in order: each step after the one before it.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The steps.
    pub steps: Vec<Step>,
    /// What lies between the last step and the judged event.
    pub this: Gap,
    /// Where it is first written.
    pub span: Span,
}

/// One step of an order pattern.
#[derive(Clone, Debug)]
pub struct Step {
    /// What lies between the step before it and this one.
    pub gap: Gap,
    /// Which events.
    pub sources: Vec<SourceSpec>,
    /// Conditions on the event alone; scope `It`.
    pub local: Vec<Node>,
    /// The variable that holds the event for later steps, if it has a name.
    pub slot: Option<usize>,
    /// Join keys of the event; scope `It`.
    pub key: Vec<Node>,
    /// What earlier steps' events must have there.
    pub asked: Vec<Asked>,
    /// Conditions that compare with earlier steps in another way.
    pub rest: Vec<Node>,
    /// What the judged event is joined on, of this event and those before it.
    pub ends: Vec<Node>,
    /// Of which steps the events are needed after this one.
    pub keeps: Vec<usize>,
    /// What later steps compare, of the events so far.
    pub same: Vec<Node>,
    /// The steps whose events later steps look at as a whole.
    pub same_events: Vec<usize>,
}

/// What a step is joined on, of the events before it.
#[derive(Clone, Debug)]
pub enum Asked {
    /// A value of theirs.
    Value(Node),
    /// What the judged event must equal, by its place among all such values: the judged event must equal what
    /// this event has there as well.
    End(usize),
}

/// What lies between two steps.
#[derive(Clone, Debug, Default)]
pub struct Gap {
    /// How far apart they may be: in time, turns or events.
    pub window: Window,
    /// What may not come between.
    pub without: Option<Guard>,
}

/// Events that may not come between two steps.
#[derive(Clone, Debug)]
pub struct Guard {
    /// Which events.
    pub sources: Vec<SourceSpec>,
    /// Conditions on such an event alone; scope `It`.
    pub local: Vec<Node>,
    /// Join keys of such an event; scope `It`.
    pub key: Vec<Node>,
    /// What the steps before must have there; empty in the last gap, where whoever asks brings it.
    pub asked: Vec<Node>,
    /// Conditions that compare in another way; empty where whoever asks brings them.
    pub rest: Vec<Node>,
    /// More than the keys is compared, so the events themselves are kept.
    pub one_by_one: bool,
    /// A condition reads the judged event, so only whoever asks can tell.
    pub late: bool,
}

impl Sequence {
    /// The gap before a step; the last one is before the judged event.
    pub fn gap(&self, i: usize) -> Option<&Gap> {
        if i == self.steps.len() { Some(&self.this) } else { self.steps.get(i).map(|step| &step.gap) }
    }

    /// Whether more than one partial match may wait under one value: then no more than the last ones are
    /// kept and looked at.
    pub fn looks_back(&self) -> bool {
        let guards = (0..=self.steps.len()).filter_map(|i| self.gap(i)?.without.as_ref());
        // Values for the judged event that the next step is not joined on.
        let mut ends = 0;
        let unjoined = self.steps.iter().zip(self.steps.iter().skip(1)).any(|(step, next)| {
            ends += step.ends.len();
            (0..ends).any(|end| !next.asked.iter().any(|asked| matches!(asked, Asked::End(i) if *i == end)))
        });
        unjoined
            || self
                .steps
                .iter()
                .any(|step| !step.rest.is_empty() || !step.same.is_empty() || !step.same_events.is_empty())
            || guards.into_iter().any(|guard| guard.one_by_one)
    }
}

/// A reader's side of an order pattern.
#[derive(Clone, Debug)]
pub struct SequenceAsk {
    /// Which one.
    pub sequence: Id,
    /// The same without some values of the judged event that steps are joined on among themselves, and which of the
    /// keys those are: for a judged event whose values there cannot be compared exactly. One for each set of such
    /// values, a set behind every part of it.
    pub twins: Vec<(Id, Vec<bool>)>,
    /// Conditions on the present alone.
    pub present: Vec<Node>,
    /// The present side of the join keys.
    pub key: Vec<Node>,
    /// Conditions that compare the event of a step with the present in another way.
    pub late: Vec<(usize, Node)>,
    /// Conditions, some of them on the present, on what may not come before a step.
    pub late_guards: Vec<(usize, Vec<Node>)>,
    /// What the events that may not come before the judged event are asked by.
    pub this_key: Vec<Node>,
    /// Further conditions on those.
    pub this_rest: Vec<Node>,
}

impl SequenceAsk {
    /// Every expression in it.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        let late = self.late.iter().map(|(_, node)| node);
        let guards = self.late_guards.iter().flat_map(|(_, nodes)| nodes);
        self.present.iter().chain(&self.key).chain(late).chain(guards).chain(&self.this_key).chain(&self.this_rest)
    }
}
