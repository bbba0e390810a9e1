//! Why a policy fired: its decided conditions and the earlier events that they rest on.

use std::{collections::BTreeSet, sync::Arc};

use probity::{
    lang::{
        ast::{Argument, Binder, Expr, ExprKind, HistoryOp, Pattern, Quantity},
        ops,
        val::{Datum, Tri, Val},
    },
    model::{Condition, Seq},
};

use super::{
    eval::Naive,
    history::after,
    names::{Bound, Place},
};

/// Positions of events.
type Seqs = BTreeSet<Seq>;

impl<'p> Naive<'p> {
    /// The decided leaves of a condition, in source order.
    pub fn conditions(&self, e: &'p Expr, place: &Place<'p>, out: &mut Vec<Condition>) {
        match &e.kind {
            ExprKind::And(parts) | ExprKind::Or(parts) => {
                parts.iter().for_each(|part| self.conditions(part, place, out))
            }
            ExprKind::Not(part) => self.conditions(part, place, out),
            _ => {
                let holds = match self.test(e, place) {
                    Tri::True => true,
                    Tri::False => false,
                    Tri::Unknown(_) => return,
                };
                let text = self.program.sources.get(e.span.file).map(|source| source.slice(e.span)).unwrap_or_default();
                let source: Arc<str> = text.split_whitespace().collect::<Vec<_>>().join(" ").into();
                let judged = self.events[place.at].seq;
                let rests_on = self.support(e, place).into_iter().filter(|seq| *seq < judged).collect();
                out.push(Condition { source, holds, rests_on });
            }
        }
    }

    /// The events that an expression's value rests on.
    fn support(&self, e: &'p Expr, place: &Place<'p>) -> Seqs {
        let mut seqs = Seqs::new();
        if let Some(read) = self.fact_read(e, place) {
            seqs.extend(self.written(&read, place));
        }
        match &e.kind {
            ExprKind::Name(name) => {
                if let Some(Bound::Expr(e, names)) = place.names.get(name) {
                    seqs.extend(self.support(e, &place.with_names(names.clone())));
                }
            }
            ExprKind::Apply(name, arguments) => match self.program.defs.get(&name.text) {
                Some(def) => seqs.extend(self.support(&def.body, &self.call(def, arguments, place))),
                None => {
                    for argument in arguments {
                        if let Argument::Expr(e) = argument {
                            seqs.extend(self.support(e, place));
                        }
                    }
                }
            },
            ExprKind::Default(x, y) => {
                seqs.extend(self.support(x, place));
                if !ops::has_value(&self.eval(x, place)) {
                    seqs.extend(self.support(y, place));
                }
            }
            ExprKind::History(op, _, pattern) => seqs.extend(self.chosen_event(e, *op, pattern, place)),
            ExprKind::Derived(derived) => {
                seqs.extend(self.support(&derived.value, place));
                seqs.extend(self.derived(derived, place).1);
            }
            ExprKind::Sequence(sequence) => seqs.extend(self.latest_choice(sequence, place)),
            ExprKind::Quantifier(quantity, binder, body) => {
                seqs.extend(self.support(&binder.collection, place));
                seqs.extend(self.deciding(*quantity, binder, body, place));
            }
            ExprKind::Comprehension { element, binder, .. } => {
                seqs.extend(self.support(&binder.collection, place));
                seqs.extend(self.members(Some(element), binder, place));
            }
            ExprKind::Fold(_, element, binder) => {
                seqs.extend(self.support(&binder.collection, place));
                seqs.extend(self.members(element.as_deref(), binder, place));
            }
            other => other.for_each_child(&mut |child| seqs.extend(self.support(child, place))),
        }
        seqs
    }

    /// The one event that a look at history rests on.
    fn chosen_event(&self, e: &'p Expr, op: HistoryOp, pattern: &'p Pattern, place: &Place<'p>) -> Option<Seq> {
        if matches!(op, HistoryOp::First | HistoryOp::Last | HistoryOp::Previous) {
            return match self.eval(e, place) {
                Val::Known(Datum::Event(event)) => Some(event.seq),
                _ => None,
            };
        }
        let candidates = self.candidates(pattern, place);
        let earliest = *self.openings(pattern, place).first()?;
        let certain = |(event, m): &&(_, Tri)| {
            self.contributions(pattern, event, *m, place).candidates.iter().any(|(_, m)| *m == Tri::True)
        };
        after(&candidates, earliest).filter(certain).map(|(event, _)| event.seq).last()
    }

    /// What a quantifier rests on beside its collection: the first element that decides it alone.
    fn deciding(&self, quantity: Quantity, binder: &'p Binder, body: &'p Expr, place: &Place<'p>) -> Seqs {
        let wanted = if quantity == Quantity::All { Tri::False } else { Tri::True };
        for element in self.elements(binder, place).unwrap_or_default() {
            if self.is_candidate(binder, &element) == Tri::True && self.test(body, &element.place) == wanted {
                let mut seqs = self.support(body, &element.place);
                seqs.extend(binder.filter.as_deref().map(|e| self.support(e, &element.place)).unwrap_or_default());
                seqs.extend(element.written);
                return seqs;
            }
        }
        Seqs::new()
    }

    /// What a comprehension or fold rests on beside its collection: every element that is in it.
    fn members(&self, value: Option<&'p Expr>, binder: &'p Binder, place: &Place<'p>) -> Seqs {
        let mut seqs = Seqs::new();
        for element in self.elements(binder, place).unwrap_or_default() {
            if self.is_candidate(binder, &element) == Tri::True {
                let parts = binder.filter.as_deref().into_iter().chain(value);
                parts.for_each(|e| seqs.extend(self.support(e, &element.place)));
                seqs.extend(element.written);
            }
        }
        seqs
    }
}
