//! Order patterns: an arriving event continues partial matches; a judged event asks for complete ones.

use std::sync::Arc;

use super::Eval;
use crate::{
    diag::Span,
    lang::{
        history::source_match,
        key::{Key, Part},
        program::{Asked, Gap, Guard, Id, Node, Sequence, SequenceAsk},
        sequence::{Lost, Partial, SequenceState},
        tally::Place,
        val::{Datum, Tri, Val, Why, WhyKind},
    },
    model::{Event, Limit, Seq},
};

/// How two values under which something is filed make a condition: equal for certain, or perhaps.
fn equal(certain: bool, at: Span) -> Tri {
    if certain { Tri::True } else { Tri::Unknown(Why::new(WhyKind::Candidate, at)) }
}

impl<'p> Eval<'p, '_> {
    /// Takes an event into an order pattern. `it` is the event.
    pub(in crate::lang) fn advance(&mut self, id: Id, event: &Arc<Event>) {
        let Some(sequence) = self.program.sequences.get(id) else { return };
        // The last step first: what an event makes of one step is not there for the step after it.
        for (i, step) in sequence.steps.iter().enumerate().rev() {
            self.it = Some(event.clone());
            let matches = source_match(&step.sources, event, sequence.span);
            let matches = if matches == Tri::False { matches } else { matches.and(self.all(&step.local)) };
            if matches == Tri::False {
                continue;
            }
            match i.checked_sub(1) {
                None => self.file(id, sequence, i, None, event, matches),
                Some(before) => self.continue_from(id, sequence, before, event, matches),
            }
        }
        for gap in 1..=sequence.steps.len() {
            let Some(guard) = sequence.gap(gap).and_then(|gap| gap.without.as_ref()) else { continue };
            self.it = Some(event.clone());
            let matches = source_match(&guard.sources, event, sequence.span);
            let matches = if matches == Tri::False { matches } else { matches.and(self.all(&guard.local)) };
            if matches == Tri::False {
                continue;
            }
            let key = self.parts(&guard.key);
            let (certain, one_by_one) = (matches == Tri::True, guard.one_by_one);
            self.state
                .change_sequence(self.program, id, self.limits, |held| held.came(gap, key, event, certain, one_by_one));
        }
        self.it = Some(event.clone());
    }

    fn parts(&mut self, nodes: &'p [Node]) -> Key {
        nodes.iter().map(|node| Part::of(&self.eval(node))).collect()
    }

    /// Continues each partial match of a step that the event fits.
    fn continue_from(&mut self, id: Id, sequence: &'p Sequence, before: usize, event: &Arc<Event>, matches: Tri) {
        let Some(step) = sequence.steps.get(before + 1) else { return };
        let key = self.parts(&step.key);
        let place = Place::of(event);
        let Some(held) = self.state.sequences.get(&id) else { return };
        let found = held.after(before, &key, &place);
        self.steps += found.partials.len() as u64;
        // The earliest first, so that the latest is what stays.
        for (partial, same) in found.partials.into_iter().rev() {
            let near = within(&step.gap, &partial.place, &place, sequence.span);
            let near = matches.and(equal(same, sequence.span)).and(near);
            let holds = self.blaming(sequence.span, |eval| {
                let mut holds = near.and(eval.certainty(&partial));
                if holds == Tri::False {
                    return holds;
                }
                eval.bind_steps(sequence, &partial);
                eval.it = Some(event.clone());
                holds = holds.and(eval.all(&step.rest));
                if holds != Tri::False
                    && let Some(guard) = step.gap.without.as_ref().filter(|guard| !guard.late)
                {
                    let (after, before_) = (partial.place.seq, event.seq);
                    let free = eval.without(id, guard, before + 1, &guard.asked, &guard.rest, after, before_);
                    holds = holds.and(free);
                }
                holds
            });
            if holds != Tri::False {
                self.it = Some(event.clone());
                self.file(id, sequence, before + 1, Some(&partial), event, holds);
            }
        }
        if found.lost.is_some_and(|lost| lost.matters(&step.gap, &place)) {
            self.state.change_sequence(self.program, id, self.limits, |held| held.lose(before + 1, Lost::at(place)));
        }
    }

    /// Keeps a partial match that ends with the event.
    fn file(
        &mut self,
        id: Id,
        sequence: &'p Sequence,
        i: usize,
        before: Option<&Partial>,
        event: &Arc<Event>,
        holds: Tri,
    ) {
        let Some(step) = sequence.steps.get(i) else { return };
        if let Some(slot) = step.slot {
            self.set_slot(slot, Val::Known(Datum::Event(event.clone())));
        }
        let mut ends = before.map(|p| p.ends.clone()).unwrap_or_default();
        ends.extend(self.parts(&step.ends));
        let mut seqs = before.map(|p| p.seqs.clone()).unwrap_or_default();
        seqs.push(event.seq);
        let mut same = self.parts(&step.same);
        let told_apart = step.same_events.iter().filter_map(|j| seqs.get(*j));
        same.extend(told_apart.map(|seq| Part::Exact(crate::lang::key::Exact::Event(*seq))));
        let mut events = before.map(|p| p.events.clone()).unwrap_or_default();
        events.push(Some(event.clone()));
        for (j, kept) in events.iter_mut().enumerate() {
            if !step.keeps.contains(&j) {
                *kept = None;
            }
        }
        let key = match sequence.steps.get(i + 1) {
            Some(next) => next
                .asked
                .iter()
                .map(|asked| match asked {
                    Asked::Value(node) => Part::of(&self.eval(node)),
                    Asked::End(i) => ends.get(*i).cloned().unwrap_or(Part::Unknown),
                })
                .collect(),
            None => ends.clone(),
        };
        let partial = Partial { seqs, events, ends, same, holds, place: Place::of(event) };
        let Some(next) = sequence.gap(i + 1) else { return };
        let mut compared = 0;
        let file = |held: &mut SequenceState| compared = held.file(i, key, partial, next);
        self.state.change_sequence(self.program, id, self.limits, file);
        self.steps += 1 + compared as u64 / 8;
    }

    /// Whether a partial match holds.
    fn certainty(&mut self, partial: &Partial) -> Tri {
        if let Tri::Unknown(why) = partial.holds {
            self.note(why);
        }
        partial.holds
    }

    fn bind_steps(&mut self, sequence: &'p Sequence, partial: &Partial) {
        for (step, event) in sequence.steps.iter().zip(&partial.events) {
            if let (Some(slot), Some(event)) = (step.slot, event) {
                self.set_slot(slot, Val::Known(Datum::Event(event.clone())));
            }
        }
    }

    /// Whether nothing that a gap must be without stands between two events.
    #[expect(clippy::too_many_arguments, reason = "the parts of a guard, which lie in two places")]
    fn without(
        &mut self,
        id: Id,
        guard: &'p Guard,
        gap: usize,
        asked: &'p [Node],
        rest: &'p [Node],
        after: Seq,
        before: Seq,
    ) -> Tri {
        let Some(sequence) = self.program.sequences.get(id) else { return Tri::True };
        let at = sequence.span;
        let key = self.parts(asked);
        self.steps += 1;
        let Some(held) = self.state.sequences.get(&id) else { return Tri::True };
        if !guard.one_by_one {
            return match held.came_after(gap, &key, after) {
                (_, true) => Tri::Unknown(self.out_of(Limit::LookBack, at)),
                (Some(came), _) => Tri::from_bool(!came),
                (None, _) => Tri::Unknown(Why::new(WhyKind::Candidate, at)),
            };
        }
        let suspects = held.suspects(gap, &key, after, before);
        let mut came = Tri::False;
        for (event, same) in suspects.events {
            self.steps += 1;
            self.it = Some(event.clone());
            let source = source_match(&guard.sources, &event, at);
            let found = source.and(self.all(&guard.local)).and(equal(same, at)).and(self.all(rest));
            came = came.or(found);
            if came == Tri::True {
                break;
            }
        }
        if suspects.incomplete && came != Tri::True {
            came = Tri::Unknown(self.out_of(Limit::LookBack, at));
        }
        came.negate()
    }

    /// Whether the events of an order pattern have come. Not inlined: evaluation recurses, and its frame would be
    /// that of every expression.
    #[inline(never)]
    pub(super) fn ask_sequence(&mut self, ask: &'p SequenceAsk, at: Span) -> Val {
        // What the answer rests on are the events of the match, not what the conditions read.
        let record = self.record.take();
        let ((found, seqs), _) = self.noting(|eval| {
            let found = eval.complete(ask, at);
            if !matches!(found.0, Tri::Unknown(_)) {
                eval.short = None;
            }
            found
        });
        self.record = record;
        if let Some(record) = &mut self.record {
            record.extend(seqs);
        }
        found.into_val()
    }

    /// Whether there is a complete match, and the events of the latest one.
    fn complete(&mut self, ask: &'p SequenceAsk, at: Span) -> (Tri, Vec<Seq>) {
        if let Some(limit) = self.state.incomplete {
            return (Tri::Unknown(self.out_of(limit, at)), Vec::new());
        }
        let mut present = self.all(&ask.present);
        let mut key = self.parts(&ask.key);
        let mut id = ask.sequence;
        if let Some((_, joined)) = ask.twins.last()
            && key.iter().zip(joined).any(|(part, joined)| *joined && !part.is_exact())
            && let Some((twin, without)) = ask.twins.iter().find(|(_, without)| fits(without, joined, &key))
        {
            // Steps were joined on what each must equal. Where that is unknown, each may be equal to it.
            id = *twin;
            let mut without = without.iter();
            key.retain(|_| without.next() != Some(&true));
            present = present.and(Tri::Unknown(Why::new(WhyKind::Candidate, at)));
        }
        let Some(sequence) = self.program.sequences.get(id) else { return (Tri::False, Vec::new()) };
        let Some(last) = sequence.steps.len().checked_sub(1) else { return (Tri::False, Vec::new()) };
        if present == Tri::False {
            return (present, Vec::new());
        }
        let place = Place::of(self.this);
        let Some(held) = self.state.sequences.get(&id) else { return (Tri::False, Vec::new()) };
        let found = held.after(last, &key, &place);
        let outer = self.it.take();
        let mut result = (Tri::False, Vec::new());
        for (partial, same) in found.partials {
            self.steps += 1;
            let mut holds = present.and(self.certainty(&partial)).and(equal(same, at));
            holds = holds.and(within(&sequence.this, &partial.place, &place, at));
            if holds != Tri::False {
                holds = holds.and(self.late(id, ask, sequence, &partial));
            }
            result.0 = result.0.or(holds);
            if holds == Tri::True {
                result.1 = partial.seqs.clone();
                break;
            }
        }
        self.it = outer;
        if result.0 != Tri::True && found.lost.is_some_and(|lost| lost.matters(&sequence.this, &place)) {
            result.0 = Tri::Unknown(self.out_of(Limit::LookBack, at));
        }
        result
    }

    /// What of a complete match only the judged event can decide.
    fn late(&mut self, id: Id, ask: &'p SequenceAsk, sequence: &'p Sequence, partial: &Partial) -> Tri {
        self.bind_steps(sequence, partial);
        let mut holds = Tri::True;
        for (step, condition) in &ask.late {
            self.it = partial.events.get(*step).cloned().flatten();
            holds = holds.and(self.tri(condition));
            if holds == Tri::False {
                return holds;
            }
        }
        for (gap, rest) in &ask.late_guards {
            let guard = sequence.gap(*gap).and_then(|gap| gap.without.as_ref());
            let (Some(guard), Some(after), Some(before)) =
                (guard, gap.checked_sub(1).and_then(|i| partial.seqs.get(i)), partial.seqs.get(*gap))
            else {
                continue;
            };
            holds = holds.and(self.without(id, guard, *gap, &[], rest, *after, *before));
        }
        if let Some(guard) = &sequence.this.without {
            let gap = sequence.steps.len();
            let (after, before) = (partial.place.seq, self.this.seq);
            let free = self.without(id, guard, gap, &ask.this_key, &ask.this_rest, after, before);
            holds = holds.and(free);
        }
        holds
    }
}

/// Whether a twin is without every joined value that is not known. The first that fits is without the fewest.
fn fits(without: &[bool], joined: &[bool], key: &[Part]) -> bool {
    key.iter().zip(without).zip(joined).all(|((part, without), joined)| *without || !*joined || part.is_exact())
}

fn within(gap: &Gap, from: &Place, to: &Place, at: Span) -> Tri {
    match gap.within(from, to) {
        Some(near) => Tri::from_bool(near),
        None => Tri::Unknown(Why::new(WhyKind::NoTime, at)),
    }
}
