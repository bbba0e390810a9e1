//! Derivation: an arriving event's texts and values go into an index of tokens; a judged event asks whether
//! a value stands in them.

use std::sync::Arc;

use super::Eval;
use crate::{
    diag::Span,
    keywords::tokens,
    lang::{
        derivation::{Found, is_long},
        history::source_match,
        ops,
        program::{DerivedAsk, Id},
        val::{Datum, Tri, Val, Why, WhyKind},
    },
    model::{Event, Limit, Seq, Value, json},
};

impl<'p> Eval<'p, '_> {
    /// Takes an event into an index of tokens. `it` is the event.
    pub(in crate::lang) fn index(&mut self, id: Id, event: &Arc<Event>) {
        let Some(index) = self.program.indexes.get(id) else { return };
        let matches = source_match(&index.sources, event, index.span);
        let matches = if matches == Tri::False { matches } else { matches.and(self.all(&index.local)) };
        if matches == Tri::False {
            return;
        }
        let runs: Vec<Option<Vec<String>>> = match &index.path {
            None => texts(event).into_iter().map(Some).collect(),
            Some(path) => values(&self.eval(path), path.at),
        };
        let count = runs.iter().flatten().map(Vec::len).sum::<usize>();
        self.steps += count as u64 / 4;
        let fits = self.state.tokens + count <= self.limits.tokens;
        if fits {
            self.state.tokens += count;
        }
        let (certain, of_values) = (matches == Tri::True, index.path.is_some());
        self.state.change_index(id, |held| {
            held.came();
            if !fits {
                return held.fill_up();
            }
            for run in runs {
                match run {
                    run if of_values => held.add_value(event.seq, certain, run.as_deref()),
                    Some(run) => held.add_text(event.seq, certain, &run),
                    None => {}
                }
            }
        });
    }

    /// Whether a value comes from earlier events, or a text carries a value of theirs. Not inlined: evaluation
    /// recurses, and its frame would be that of every expression.
    #[inline(never)]
    pub(super) fn derived(&mut self, ask: &'p DerivedAsk, at: Span) -> Val {
        let value = self.eval(&ask.value);
        let (found, seq) = self.find(ask, &value, at);
        if let Tri::Unknown(why) = found {
            self.note(why);
        }
        if found == Tri::True {
            self.rests_on(seq);
        }
        found.into_val()
    }

    fn find(&mut self, ask: &DerivedAsk, value: &Val, at: Span) -> (Tri, Option<Seq>) {
        let out_of = |limit| Tri::Unknown(Why::new(WhyKind::Budget(limit), at));
        if let Some(limit) = self.state.incomplete {
            return (out_of(limit), None);
        }
        let Some(index) = self.state.indexes.get(&ask.index).filter(|index| index.any()) else {
            return (Tri::False, None);
        };
        let Some(run) = written(value) else {
            return (Tri::Unknown(value.why(ask.value.at, "string")), None);
        };
        if !is_long(&run) {
            return (Tri::False, None);
        }
        let mut looked = run.len() / 4;
        let (runs, mut rest) = if ask.carries {
            let left = self.most_steps().saturating_sub(self.steps);
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            let (runs, followed) = index.within(&run, left);
            looked += followed;
            let rest = match index.has_unknown() {
                _ if followed > left => out_of(self.limits.of_steps()),
                _ if index.is_full() => out_of(Limit::Tokens),
                true => Tri::Unknown(Why::new(WhyKind::Candidate, at)),
                false => Tri::False,
            };
            (runs, rest)
        } else {
            let (found, places) = index.find(&run, self.limits.look_back);
            looked += places;
            (vec![(0..run.len(), found)], Tri::False)
        };
        let mut seq = None;
        for (range, found) in runs {
            let held = match found {
                Found { certain: Some(_), .. } => Tri::True,
                Found { incomplete: Some(limit), .. } => out_of(limit),
                Found { possible: true, .. } => Tri::Unknown(Why::new(WhyKind::Candidate, at)),
                _ => continue,
            };
            let run = run.get(range).unwrap_or_default();
            let heard = self.state.indexes.get(&ask.cleared_by);
            let heard = heard.map(|heard| heard.find(run, self.limits.look_back));
            let (heard, places) = heard.unwrap_or_default();
            looked += places;
            let cleared = match heard {
                Found { certain: Some(_), .. } => Tri::True,
                Found { incomplete: Some(limit), .. } => out_of(limit),
                _ => Tri::False,
            };
            rest = rest.or(held.and(cleared.negate()));
            if rest == Tri::True {
                seq = found.certain;
                break;
            }
        }
        self.steps += looked as u64;
        (rest, seq)
    }
}

/// The tokens of a value: of a text, or of a number as it is written.
fn written(value: &Val) -> Option<Vec<String>> {
    match value {
        Val::Known(Datum::Json(Value::String(text))) => Some(tokens(text).collect()),
        Val::Known(Datum::Json(number @ (Value::Number(_) | Value::Huge(_)))) => {
            Some(tokens(&number.to_string()).collect())
        }
        _ => None,
    }
}

/// The tokens of a value, or of each element of a list; none for what is not known.
fn values(value: &Val, at: Span) -> Vec<Option<Vec<String>>> {
    if matches!(value, Val::Known(Datum::Json(Value::List(_)) | Datum::Partial(_))) {
        let items = ops::as_elements(value, at).unwrap_or_default();
        return items.iter().map(written).collect();
    }
    vec![written(value)]
}

/// The texts of an event: its text; if that is JSON, each string in it; for a call, each text and number in its
/// arguments.
fn texts(event: &Event) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let text = event.text().map_or("", |text| text.as_ref());
    out.push(tokens(text).collect());
    // Without a backslash the strings in JSON stand there as they are.
    if text.contains('\\') {
        let parsed = match event.json() {
            Some(value) => Some(value.clone()),
            None if text.trim_start().starts_with(['{', '[', '"']) => json::parse(text.as_bytes()).ok(),
            None => None,
        };
        parsed.iter().for_each(|value| strings(value, &mut out));
    }
    event.args().iter().for_each(|args| strings(args, &mut out));
    out.retain(|run| !run.is_empty());
    out
}

/// Each text in a value, keys as well, and each number.
fn strings(value: &Value, out: &mut Vec<Vec<String>>) {
    match value {
        Value::String(text) => out.push(tokens(text).collect()),
        Value::Number(_) | Value::Huge(_) => out.push(tokens(&value.to_string()).collect()),
        Value::List(items) => items.iter().for_each(|item| strings(item, out)),
        Value::Object(object) => {
            for (key, item) in object.iter() {
                out.push(tokens(key).collect());
                strings(item, out);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}
