//! Policies through one episode: why they hit, passed or were undecided on each event that they judge.

use serde::Serialize;

use super::Pack;
use crate::{
    ingest::{Episode, Ingest, Messages},
    lang::{self, State, TurnHits, val::Tri},
    model::{Event, Seq, Turn},
};

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The policy fires.
    Fires,
    /// Its condition holds again for something that it was reported for.
    Repeats,
    /// It does not fire.
    Passes,
    /// Something is missing that could change the answer.
    Undecided,
}

/// An event that the policy judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Visit {
    /// The message index.
    pub turn: Turn,
    /// Position of the event.
    pub seq: Seq,
    /// What it is: its kind, and its tool if it has one.
    pub event: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it is undecided, without values of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many of its conditions would have to turn out otherwise for it to fire, at least.
    pub short: usize,
    /// Each condition of the policy, in source order.
    pub conditions: Vec<VisitCondition>,
}

/// A condition of the policy on one event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VisitCondition {
    /// Its source text.
    pub source: String,
    /// Whether it holds; none if that is unknown.
    pub holds: Option<bool>,
    /// Why it is unknown, without values of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// One of the fewest that would have to turn out otherwise.
    pub short: bool,
    /// Turns of earlier events that this rests on, ascending.
    pub rests_on_turns: Vec<Turn>,
}

/// Of events that the policy passed, the one at which it was nearest to firing; of several the first.
pub fn nearest_miss(visits: &[Visit]) -> Option<&Visit> {
    visits.iter().filter(|v| v.outcome == Outcome::Passes).min_by_key(|v| v.short)
}

/// Walks an episode through a pack and tells of the events that the policy judges. None if the pack has
/// no such policy.
pub fn walk_through(pack: &Pack, policy: &str, episode: &Episode) -> Option<Vec<Visit>> {
    let wanted = pack.program().policies.iter().position(|p| p.id.as_ref() == policy)?;
    let mut visits = Vec::new();
    walk_of(pack, episode, |policy| policy == wanted, &mut |event, _, looked, turns| {
        visits.push(visit(pack, event, looked, turns));
    });
    Some(visits)
}

/// What is told of an event: the policy, what it says of the event, and the turns of all events so far.
pub(super) type Tell<'t> = &'t mut dyn FnMut(&Event, usize, lang::Looked, &[Turn]);

/// Walks an episode through a pack and tells how each policy sees each event that it judges.
pub(super) fn walk(pack: &Pack, episode: &Episode, tell: Tell<'_>) {
    walk_of(pack, episode, |_| true, tell);
}

fn walk_of(pack: &Pack, episode: &Episode, wanted: impl Fn(usize) -> bool, tell: Tell<'_>) {
    let program = pack.program();
    let mut ingest = Ingest::new(pack.errors().clone());
    let mut state = State::default();
    let mut found = TurnHits::default();
    let mut turns: Vec<Turn> = Vec::new();
    let messages = match &episode.messages {
        Messages::List(messages) => messages.as_ref(),
        Messages::NotAList => &[],
    };
    let taken = messages.iter().map(Some).chain([None]);
    for message in taken {
        let events = match message {
            // Nothing was proposed, so nothing can be contradicted.
            Some(message) => ingest.message(message).map(|taken| taken.events).unwrap_or_default(),
            None => ingest.end().events,
        };
        for event in &events {
            turns.push(event.turn);
            let targets = program.dispatch.targets(event);
            for policy in targets.policies.iter().copied().filter(|policy| wanted(*policy)) {
                if let Some(looked) = lang::look(program, &mut state, event, policy, pack.limits()) {
                    tell(event, policy, looked, &turns);
                }
            }
            let judged = lang::step(program, &mut state, event, pack.limits());
            found.note(program, event, &judged);
        }
        for hit in found.complete(&mut ingest) {
            turns.push(hit.turn);
            lang::step(program, &mut state, &hit, pack.limits());
        }
    }
}

fn visit(pack: &Pack, event: &Event, looked: lang::Looked, turns: &[Turn]) -> Visit {
    let (outcome, reason) = match looked.verdict {
        Tri::True if looked.repeats => (Outcome::Repeats, None),
        Tri::True => (Outcome::Fires, None),
        Tri::False => (Outcome::Passes, None),
        Tri::Unknown(why) => (Outcome::Undecided, Some(pack.program().reason(why))),
    };
    let turn_of = |seq: &Seq| usize::try_from(*seq).ok().and_then(|at| turns.get(at)).copied();
    let short_of = looked.short_of;
    let conditions = looked.leaves.into_iter().enumerate().map(|(place, leaf)| {
        let (holds, reason) = match leaf.truth {
            Tri::True => (Some(true), None),
            Tri::False => (Some(false), None),
            Tri::Unknown(why) => (None, Some(pack.program().reason(why))),
        };
        let mut rests_on_turns: Vec<Turn> = leaf.rests_on.iter().filter_map(turn_of).collect();
        rests_on_turns.dedup();
        let short = short_of.contains(&place);
        VisitCondition { source: leaf.source.to_string(), holds, reason, short, rests_on_turns }
    });
    let kind = event.kind().word();
    Visit {
        turn: event.turn,
        seq: event.seq,
        event: event.tool().map_or_else(|| kind.to_owned(), |tool| format!("{kind} {tool}")),
        outcome,
        reason,
        conditions: conditions.collect(),
        short: short_of.len(),
    }
}
