//! Quantifiers, comprehensions and folds: what walks over the elements of a collection or the entries
//! of a fact.

use std::collections::BTreeSet;

use super::{Eval, payload};
use crate::{
    diag::Span,
    lang::{
        ast::{FoldOp, Quantity},
        fact::{self, FactState},
        ops,
        program::{Node, Over, Walk},
        tally::{Item, Payload, answer_items},
        val::{Datum, Tri, Val, Why, WhyKind},
    },
    model::{Limit, Seq, Value},
};

/// One element of what a quantifier walks over.
struct Candidate {
    key: Val,
    value: Val,
    /// The event that wrote it, for entries of a fact.
    seq: Option<Seq>,
    /// True, or unknown for the one more that there may be.
    exists: Tri,
}

impl Candidate {
    /// The one more that there may be, of which nothing is known.
    fn extra(why: Why) -> Candidate {
        Candidate { key: Val::Unknown(why), value: Val::Unknown(why), seq: None, exists: Tri::Unknown(why) }
    }
}

impl<'p> Eval<'p, '_> {
    /// The elements of a collection, and why there may be one more.
    fn candidates(&mut self, walk: &'p Walk, at: Span) -> Result<(Vec<Candidate>, Option<Why>), Why> {
        let found = match &walk.over {
            Over::Value(node) => {
                let collection = self.eval(node);
                elements(&collection, walk.key.is_some(), node.at)?
            }
            Over::Fact { fact, index } => {
                let wanted = match index {
                    Some((index, node)) => {
                        // Only what the filter reads for an entry is evidence.
                        let record = self.record.take();
                        let val = self.eval(node);
                        self.record = record;
                        val.as_key(node.at).ok().map(|v| (*index, v.clone()))
                    }
                    None => None,
                };
                if let Some(limit) = self.state.incomplete {
                    return Err(self.out_of(limit, at));
                }
                let most = self.limits.fact_entries;
                let mut more = self.doubt(*fact, at);
                let empty = FactState::default();
                let held = self.state.facts.get(fact).unwrap_or(&empty);
                let entries = match wanted {
                    Some((index, value)) => held.indexed(index, &value, most + 1),
                    None => held.entries().take(most + 1).collect(),
                };
                if entries.len() > most {
                    more = Some(Why::new(WhyKind::Budget(Limit::FactEntries), at));
                }
                let candidates = entries
                    .into_iter()
                    .take(most)
                    .map(|entry| Candidate {
                        key: entry.key_val(),
                        value: fact::seen_value(&entry.value, self.doubt(*fact, at)),
                        seq: Some(entry.seq),
                        exists: Tri::True,
                    })
                    .collect();
                (candidates, more)
            }
        };
        self.steps += found.0.len() as u64;
        Ok(found)
    }

    fn bind(&mut self, walk: &Walk, key: Val, value: Val) {
        if let Val::Unknown(why) = value {
            self.note(why);
        }
        if let Some(slot) = walk.key {
            self.set_slot(slot, key);
        }
        self.set_slot(walk.value, value);
    }

    /// Evaluates with the events that it rests on kept apart.
    fn apart<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> (T, BTreeSet<Seq>) {
        let outer = self.record.take();
        if outer.is_some() {
            self.record = Some(BTreeSet::new());
        }
        let result = f(self);
        let inner = self.record.take().unwrap_or_default();
        self.record = outer;
        (result, inner)
    }

    fn include(&mut self, seqs: BTreeSet<Seq>, more: Option<Seq>) {
        if let Some(record) = &mut self.record {
            record.extend(seqs);
            record.extend(more);
        }
    }

    fn filter(&mut self, walk: &'p Walk) -> Tri {
        walk.filter.as_deref().map_or(Tri::True, |filter| self.tri(filter))
    }

    /// Binds each element of a list in the event `it` in turn, with whether it is a candidate. A list that cannot
    /// be read stands for any number of unknown candidates: then `take` is called once, and told so.
    pub(in crate::lang) fn each_element(
        &mut self,
        walk: &'p Walk,
        matches: Tri,
        at: Span,
        mut take: impl FnMut(&mut Self, Tri, bool),
    ) {
        let (candidates, more) = self.candidates(walk, at).unwrap_or_else(|why| (Vec::new(), Some(why)));
        for candidate in candidates {
            self.bind(walk, candidate.key, candidate.value);
            let matches = matches.and(self.filter(walk));
            if matches != Tri::False {
                take(self, matches, false);
            }
        }
        if let Some(why) = more {
            self.bind(walk, Val::Unknown(why), Val::Unknown(why));
            let matches = matches.and(Tri::Unknown(why)).and(self.filter(walk));
            if matches != Tri::False {
                take(self, matches, true);
            }
        }
    }

    pub(super) fn quantifier(&mut self, quantity: Quantity, walk: &'p Walk, body: &'p Node, at: Span) -> Tri {
        let (candidates, more) = match self.candidates(walk, at) {
            Ok(found) => found,
            Err(why) => return Tri::Unknown(why),
        };
        // `all` is "none for which it does not hold"; `none` is "not any".
        let mut any = Tri::False;
        for candidate in candidates.into_iter().chain(more.map(Candidate::extra)) {
            self.bind(walk, candidate.key, candidate.value);
            let recording = self.record.is_some();
            let (found, seqs) = self.apart(|e| {
                let passes = candidate.exists.and(e.filter(walk));
                if passes == Tri::False && !recording {
                    return Tri::False;
                }
                let holds = e.tri(body);
                passes.and(if quantity == Quantity::All { holds.negate() } else { holds })
            });
            if found == Tri::True {
                // The deciding candidate is the first one; nothing after it matters.
                self.include(seqs, candidate.seq);
                any = Tri::True;
                break;
            }
            any = any.or(found);
        }
        if quantity == Quantity::Any { any } else { any.negate() }
    }

    pub(super) fn comprehension(&mut self, list: bool, element: &'p Node, walk: &'p Walk, at: Span) -> Val {
        let (candidates, more) = match self.candidates(walk, at) {
            Ok(found) => found,
            Err(why) => return Val::Unknown(why),
        };
        let mut items = Vec::new();
        let mut doubt = None;
        for candidate in candidates.into_iter().chain(more.map(Candidate::extra)) {
            self.bind(walk, candidate.key, candidate.value);
            let ((passes, item), seqs) = self.apart(|e| match candidate.exists.and(e.filter(walk)) {
                Tri::True => (Tri::True, e.eval(element)),
                other => (other, Val::Absent),
            });
            match passes {
                Tri::True => {
                    self.include(seqs, candidate.seq);
                    items.push(item);
                }
                Tri::False => {}
                Tri::Unknown(why) => doubt = doubt.or(Some(why)),
            }
        }
        match doubt {
            Some(why) => Val::Unknown(why),
            None if list => ops::list(items),
            None => ops::set(items, at),
        }
    }

    pub(super) fn fold(&mut self, op: FoldOp, element: Option<&'p Node>, walk: &'p Walk, at: Span) -> Val {
        let (candidates, more) = match self.candidates(walk, at) {
            Ok(found) => found,
            Err(why) => return Val::Unknown(why),
        };
        let mut items = Vec::new();
        // Behind a limit there may be any number more.
        let many = more.filter(|why| matches!(why.kind, WhyKind::Budget(_)));
        let certain = candidates.len();
        for (place, candidate) in candidates.into_iter().chain(more.map(Candidate::extra)).enumerate() {
            self.bind(walk, candidate.key, candidate.value);
            let ((passes, val), seqs) = self.apart(|e| match (candidate.exists.and(e.filter(walk)), element) {
                (Tri::False, _) => (Tri::False, Val::Absent),
                (passes, Some(element)) => (passes, e.eval(element)),
                (passes, None) => (passes, Val::Absent),
            });
            if passes == Tri::False {
                continue;
            }
            if passes == Tri::True {
                self.include(seqs, candidate.seq);
            }
            let payload = match (op, many) {
                (FoldOp::Count | FoldOp::Distinct, Some(_)) if place == certain => Payload::Many,
                _ => payload(op.history(), val, None, at),
            };
            items.push(Item { seq: 0, ordinal: 0, turn: 0, time: None, certain: passes == Tri::True, payload });
        }
        answer_items(op.history(), &items, at).val
    }
}

/// The elements of a value, with keys if two names are bound.
fn elements(collection: &Val, pairs: bool, at: Span) -> Result<(Vec<Candidate>, Option<Why>), Why> {
    let plain = |value: Val| Candidate { key: Val::Absent, value, seq: None, exists: Tri::True };
    match collection {
        Val::Known(Datum::Json(Value::Object(o))) if pairs => {
            let entries = o.iter().map(|(k, v)| Candidate {
                key: Val::json(Value::String(k.clone())),
                value: Val::json(v.clone()),
                seq: None,
                exists: Tri::True,
            });
            Ok((entries.collect(), None))
        }
        other if pairs => Err(other.why(at, "object")),
        Val::Known(Datum::Set(items, open)) => Ok((items.iter().map(|v| plain(Val::json(v.clone()))).collect(), *open)),
        other => Ok((ops::as_elements(other, at)?.into_iter().map(plain).collect(), None)),
    }
}
