//! What a candidate's judgements differ in from those that are answered, and how often. Pure.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    audit::PackRef,
    engine::{Verdict, verdicts},
    model::{Gate, PolicyId, Seq, Step, Turn},
};

/// An item that the candidate judges in another way. It holds no value of a message, and no text but names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The session.
    pub session: Arc<str>,
    /// The agent; may be empty.
    pub agent: Arc<str>,
    /// The rules that answered.
    pub live: Arc<PackRef>,
    /// The candidate.
    pub candidate: Arc<PackRef>,
    /// The item's place in the session.
    pub seq: Seq,
    /// The message index.
    pub turn: Turn,
    /// Calls that the candidate answers in another way.
    pub calls: Vec<CallDifference>,
    /// Verdicts that only the candidate gives.
    pub gained: Vec<Verdict>,
    /// Verdicts that only the rules give that answered.
    pub lost: Vec<Verdict>,
}

/// A call that two packs answer in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallDifference {
    /// Its place in its message.
    pub index: u32,
    /// What was answered.
    pub live: Gate,
    /// What the candidate would answer.
    pub candidate: Gate,
}

/// In what two judgements of an item differ: calls, verdicts gained, verdicts lost.
pub(super) fn differ(live: &Step, candidate: &Step) -> (Vec<CallDifference>, Vec<Verdict>, Vec<Verdict>) {
    let answered = |index: u32| candidate.calls.iter().find(|call| call.index == index).map(|call| call.gate);
    let calls = live.calls.iter().filter_map(|call| {
        let other = answered(call.index).filter(|gate| *gate != call.gate)?;
        Some(CallDifference { index: call.index, live: call.gate, candidate: other })
    });
    let of = |step: &Step| verdicts(&step.hits, &step.signals, &step.undecided);
    let (was, is) = (of(live), of(candidate));
    (calls.collect(), is.difference(&was).cloned().collect(), was.difference(&is).cloned().collect())
}

/// How often verdicts of a policy differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyTotals {
    /// Only the candidate gives them.
    pub gained: u64,
    /// Only the rules give them that answer.
    pub lost: u64,
}

/// What there was to compare since the candidate came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The candidate, by its number.
    pub generation: u64,
    /// Sessions that were begun, or taken up from their journals.
    pub sessions: u64,
    /// Items that both judged.
    pub items: u64,
    /// Those of them that they judge in different ways.
    pub differing_items: u64,
    /// Calls that both judged.
    pub calls: u64,
    /// Those of them that they answer in different ways, by the answer given and that of the candidate.
    pub changed_calls: BTreeMap<(Gate, Gate), u64>,
    /// Policies with verdicts that differ, by pack and id.
    pub policies: BTreeMap<(Arc<str>, PolicyId), PolicyTotals>,
    /// Items that were not compared, because the candidate did not keep up.
    pub skipped: u64,
    /// Items under a pack that the candidate does not have.
    pub absent: u64,
    /// Items of sessions whose past is not known in full.
    pub unfollowed: u64,
}

impl Totals {
    /// Counts an item that both judged.
    pub(super) fn count(&mut self, live: &Step) {
        self.items += 1;
        self.calls += live.calls.len() as u64;
    }

    /// Counts a difference.
    pub(super) fn differs(&mut self, difference: &Difference) {
        self.differing_items += 1;
        for call in &difference.calls {
            *self.changed_calls.entry((call.live, call.candidate)).or_default() += 1;
        }
        let mut of = |(_, policy, _): &Verdict, count: fn(&mut PolicyTotals) -> &mut u64| {
            let totals = self.policies.entry((difference.live.name.clone(), policy.clone())).or_default();
            *count(totals) += 1;
        };
        difference.gained.iter().for_each(|verdict| of(verdict, |totals| &mut totals.gained));
        difference.lost.iter().for_each(|verdict| of(verdict, |totals| &mut totals.lost));
    }
}
