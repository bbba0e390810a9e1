//! Questions about earlier events: the evaluated present side of a history function meets its cell.

use std::sync::Arc;

use super::{
    ast::HistoryOp,
    cell::{Asked, merge},
    eval::{Eval, payload},
    key::Part,
    program::{Ask, Cell, Node, Opening, Plan, Walk},
    state::CellState,
    tally::{Answer, Item, Payload, answer_items},
    val::{Tri, Val, Why, WhyKind},
};
use crate::{
    diag::Span,
    model::{Event, Limit, Seq},
};

impl<'p> Eval<'p, '_> {
    /// The value of a history function. Not inlined: evaluation recurses, and its frame would be that of every
    /// expression.
    #[inline(never)]
    pub(super) fn ask(&mut self, ask: &'p Ask, at: Span) -> Val {
        // What the answer rests on is the chosen event alone, not what its conditions read.
        let record = self.record.take();
        let answer = self.answer(ask, at);
        self.record = record;
        if let (Some(record), Some(seq)) = (&mut self.record, answer.rests_on) {
            record.insert(seq);
        }
        answer.val
    }

    fn answer(&mut self, ask: &'p Ask, at: Span) -> Answer {
        let nothing = |val: Val| Answer { val, rests_on: None };
        let Some(cell) = self.program.cells.get(ask.cell) else { return nothing(Val::Absent) };
        if let Some(limit) = self.state.incomplete {
            return nothing(Val::Unknown(self.out_of(limit, at)));
        }
        let own = if cell.window.including_this { self.own_items(cell, ask, at) } else { Vec::new() };
        let present = self.all(&ask.present);
        if present == Tri::False {
            return answer_items(cell.op, &[], at);
        }
        let parts = ask.key.iter().map(|node| Part::of(&self.eval(node))).collect();
        let asked = Asked { parts, certain: present == Tri::True };
        match &cell.plan {
            Plan::Running { .. } => {
                let this = self.this.clone();
                let mut steps = 0;
                let mut answer = nothing(Val::Absent);
                self.state.change_cell(self.program, ask.cell, self.limits, |held| {
                    if let CellState::Running(running) = held {
                        answer = running.ask(&this, &asked, &own, at, &mut steps);
                    }
                });
                self.steps += steps;
                if let Val::Unknown(why) = answer.val {
                    self.note(why);
                }
                answer
            }
            Plan::LookBack { since, late_element } => {
                self.look_back(cell, ask, &asked, since.as_ref(), *late_element, own, at)
            }
        }
    }

    /// The judged event as a candidate of its own question.
    fn own_items(&mut self, cell: &'p Cell, ask: &'p Ask, at: Span) -> Vec<Item> {
        let this = self.this.clone();
        let source = source_match(&cell.sources, &this, at);
        if source == Tri::False {
            return Vec::new();
        }
        let outer = self.it.replace(this.clone());
        let matches = source.and(self.all(&ask.present)).and(self.all(&ask.whole));
        let mut items = Vec::new();
        self.items(cell.op, ask.element.as_ref(), ask.walk.as_ref(), &this, matches, at, |_, item| items.push(item));
        self.it = outer;
        items
    }

    /// What an event contributes: one item, or one for each element that is walked over; none if it does not
    /// match. `it` is the event; what else depends on an element is evaluated by `take`.
    #[expect(clippy::too_many_arguments, reason = "the parts of a question, already taken apart")]
    pub(super) fn items(
        &mut self,
        op: HistoryOp,
        element: Option<&'p Node>,
        walk: Option<&'p Walk>,
        event: &Arc<Event>,
        matches: Tri,
        at: Span,
        mut take: impl FnMut(&mut Self, Item),
    ) {
        if matches == Tri::False {
            return;
        }
        let Some(walk) = walk else {
            let item = self.item(op, element, event, matches, at);
            return take(self, item);
        };
        self.each_element(walk, matches, at, |eval, matches, many| {
            let mut item = eval.item(op, element, event, matches, at);
            if many {
                item.payload = Payload::Many;
            }
            take(eval, item);
        });
    }

    /// What an event, or an element of it, contributes. `it` is the event.
    fn item(&mut self, op: HistoryOp, element: Option<&'p Node>, event: &Arc<Event>, matches: Tri, at: Span) -> Item {
        let val = element.map_or(Val::Absent, |node| self.eval(node));
        let payload = payload(op, val, Some(event), at);
        Item {
            seq: event.seq,
            ordinal: event.ordinal,
            turn: event.turn,
            time: event.time,
            certain: matches == Tri::True,
            payload,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call site; the parts of a question, already taken apart")]
    fn look_back(
        &mut self,
        cell: &'p Cell,
        ask: &'p Ask,
        asked: &Asked,
        since: Option<&'p Opening>,
        late_element: bool,
        own: Vec<Item>,
        at: Span,
    ) -> Answer {
        let openings = match self.openings(ask, since, at) {
            Ok(openings) => openings,
            Err(why) => return Answer { val: Val::Unknown(why), rests_on: None },
        };
        let candidates = match self.state.cells.get(&ask.cell) {
            Some(CellState::LookBack(held)) => held.candidates(asked),
            _ => super::cell::Candidates { events: Vec::new(), dropped: None },
        };
        let late = late_element || ask.walk.is_some();
        let element = if late { ask.element.as_ref() } else { cell.element.as_ref() };
        // Where the oldest that is looked at has left the window, older ones have as well; not so in time, at
        // an unknown distance from events that have none.
        let beyond = candidates.events.first().is_some_and(|oldest| self.in_reach(cell, oldest) == Tri::False);
        let mut items = Vec::new();
        let outer = self.it.take();
        for event in candidates.events {
            self.steps += 1;
            let source = source_match(&cell.sources, &event, at);
            self.it = Some(event.clone());
            let mut matches = source.and(self.in_window(cell, &event, at));
            if matches != Tri::False {
                matches = matches.and(self.all(&ask.whole));
            }
            if !asked.certain && matches == Tri::True {
                matches = Tri::Unknown(Why::new(WhyKind::Candidate, at));
            }
            self.items(cell.op, element, ask.walk.as_ref(), &event, matches, at, |_, item| items.push(item));
        }
        self.it = outer;
        let mut short = false;
        let answers = openings
            .iter()
            .map(|opening| {
                let inside = |item: &&Item| opening.is_none_or(|o| item.seq > o);
                let mut within: Vec<Item> = items.iter().filter(inside).cloned().collect();
                within.extend(own.iter().cloned());
                let mut found = answer_items(cell.op, &within, at);
                // What was let go of could have changed the answer only if it stood inside the window.
                let reaches = !beyond && candidates.dropped.is_some_and(|last| opening.is_none_or(|o| o < last));
                if reaches {
                    found.val = beyond_look_back(cell.op, found.val, at);
                    short |= !matches!(found.val, Val::Known(_));
                }
                found.rests_on = found.rests_on.filter(|seq| *seq < self.this.seq);
                found
            })
            .collect();
        if short {
            self.out_of(Limit::LookBack, at);
        }
        merge(cell.op, answers, at)
    }

    /// The possible openings of a `since` window, the earliest first; none stands for the whole session.
    fn openings(&mut self, ask: &'p Ask, since: Option<&'p Opening>, at: Span) -> Result<Vec<Option<Seq>>, Why> {
        let Some(since) = since else { return Ok(vec![None]) };
        let ring = match self.state.cells.get(&ask.cell) {
            Some(CellState::LookBack(held)) => held.openings().clone(),
            _ => return Ok(vec![None]),
        };
        let mut openings = Vec::new();
        let mut certain = None;
        let outer = self.it.take();
        for (event, _) in ring.newest_first() {
            self.steps += 1;
            let source = source_match(&since.sources, event, at);
            self.it = Some(event.clone());
            match source.and(self.all(&since.local)).and(self.all(&ask.since_rest)) {
                Tri::True => {
                    certain = Some(event.seq);
                    break;
                }
                Tri::False => {}
                Tri::Unknown(_) => openings.push(Some(event.seq)),
            }
        }
        self.it = outer;
        if certain.is_none() && ring.dropped {
            return Err(self.out_of(Limit::LookBack, at));
        }
        openings.push(certain);
        openings.reverse();
        Ok(openings)
    }

    fn in_window(&self, cell: &Cell, event: &Event, at: Span) -> Tri {
        let this = self.this;
        let window = &cell.window;
        let mut inside = Tri::True;
        if let Some(limit) = window.time {
            inside = inside.and(match (this.time, event.time) {
                (Some(now), Some(then)) => Tri::from_bool(now.sub(then).is_none_or(|age| age <= limit)),
                _ => Tri::Unknown(Why::new(WhyKind::NoTime, at)),
            });
        }
        inside = inside.and(self.in_reach(cell, event));
        if window.before_turn {
            inside = inside.and(Tri::from_bool(event.turn < this.turn));
        }
        inside
    }

    /// Whether an event is near enough in turns and events.
    fn in_reach(&self, cell: &Cell, event: &Event) -> Tri {
        let this = self.this;
        let window = &cell.window;
        let mut inside = Tri::True;
        if let Some(turns) = window.turns {
            inside = inside.and(Tri::from_bool(this.turn.saturating_sub(event.turn) <= turns));
        }
        if let Some(events) = window.events {
            inside = inside.and(Tri::from_bool(this.ordinal.saturating_sub(event.ordinal) <= u64::from(events)));
        }
        inside
    }
}

/// Whether an event is of one of the sources; unknown for a result whose call is not known.
pub(super) fn source_match(sources: &[super::program::SourceSpec], event: &Event, at: Span) -> Tri {
    sources.iter().fold(Tri::False, |so_far, source| {
        so_far.or(match source.matches(event) {
            Some(matches) => Tri::from_bool(matches),
            None => Tri::Unknown(Why::new(WhyKind::Unpaired, at)),
        })
    })
}

/// What an answer is worth if older events were not looked at.
fn beyond_look_back(op: HistoryOp, found: Val, at: Span) -> Val {
    let budget = Why::new(WhyKind::Budget(Limit::LookBack), at);
    match (op, &found) {
        // A certain match stays one, and the latest of those looked at is the latest of all.
        (HistoryOp::Once, Val::Known(_)) if found.as_tri(at) == Tri::True => found,
        (HistoryOp::Last | HistoryOp::Previous, Val::Known(_)) => found,
        (HistoryOp::Count | HistoryOp::Distinct, Val::Range(low, ..)) => Val::Range(*low, i64::MAX, budget),
        (
            HistoryOp::Count | HistoryOp::Distinct,
            Val::Known(super::val::Datum::Json(crate::model::Value::Number(n))),
        ) => Val::Range(n.as_whole().unwrap_or(0), i64::MAX, budget),
        _ => Val::Unknown(budget),
    }
}
