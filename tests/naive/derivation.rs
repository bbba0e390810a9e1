//! Derivation: every earlier event's texts, token by token.

use probity::{
    keywords::tokens,
    lang::{
        ast::Derived,
        ops,
        val::{Datum, Tri, Val, Why, WhyKind},
    },
    model::{Event, EventKind, Seq, Value, json},
};

use super::{eval::Naive, history::about, names::Place};

type Run = Vec<String>;

impl<'p> Naive<'p> {
    /// Whether it holds, and the latest event for which it does.
    pub fn derived(&self, derived: &'p Derived, place: &Place<'p>) -> (Tri, Option<Seq>) {
        let earlier = &self.events[..place.at];
        let matching = earlier.iter().map(|event| (event, self.matches(&derived.pattern, event, place)));
        let matching: Vec<_> = matching.filter(|(_, m)| *m != Tri::False).collect();
        if matching.is_empty() {
            return (Tri::False, None);
        }
        let value = self.eval(&derived.value, place);
        let Some(run) = written(&value) else {
            return (Tri::Unknown(value.why(derived.value.span, "string")), None);
        };
        if letters(&run) < 4 {
            return (Tri::False, None);
        }
        let mut holds = Tri::False;
        let mut latest = None;
        for (event, m) in matching {
            let mut found = Tri::False;
            match &derived.path {
                None => {
                    let held = texts(event).iter().any(|text| stands_in(&run, text));
                    found = Tri::from_bool(held && !self.heard(&run, place));
                }
                Some(path) => {
                    for element in elements(&self.eval(path, &about(event, place))) {
                        found = found.or(match written(&element) {
                            Some(value) => Tri::from_bool(
                                letters(&value) >= 4 && stands_in(&value, &run) && !self.heard(&value, place),
                            ),
                            None => Tri::Unknown(Why::new(WhyKind::Candidate, path.span)),
                        });
                    }
                }
            }
            let found = m.and(found);
            if found == Tri::True {
                latest = Some(event.seq);
            }
            holds = holds.or(found);
        }
        (holds, latest.filter(|_| holds == Tri::True))
    }

    /// Whether an earlier user or system text holds it.
    fn heard(&self, run: &Run, place: &Place<'p>) -> bool {
        let said = |event: &&std::sync::Arc<Event>| matches!(event.kind(), EventKind::User | EventKind::System);
        self.events[..place.at].iter().filter(said).any(|event| texts(event).iter().any(|text| stands_in(run, text)))
    }
}

fn letters(run: &Run) -> usize {
    run.iter().map(|token| token.chars().count()).sum()
}

fn stands_in(run: &Run, text: &Run) -> bool {
    text.windows(run.len()).any(|part| part == run.as_slice())
}

fn written(value: &Val) -> Option<Run> {
    match value {
        Val::Known(Datum::Json(Value::String(text))) => Some(tokens(text).collect()),
        Val::Known(Datum::Json(number @ (Value::Number(_) | Value::Huge(_)))) => {
            Some(tokens(&number.to_string()).collect())
        }
        _ => None,
    }
}

fn elements(value: &Val) -> Vec<Val> {
    match value {
        Val::Known(Datum::Json(Value::List(items))) => items.iter().map(|item| Val::json(item.clone())).collect(),
        Val::Known(Datum::Partial(items)) => items.to_vec(),
        other => vec![other.clone()],
    }
}

/// All that an event says: its text, the strings in it if it is JSON, and what is in a call's arguments.
fn texts(event: &Event) -> Vec<Run> {
    let text = event.text().map_or("", |text| text.as_ref());
    let mut out = vec![tokens(text).collect()];
    if let Ok(value) = json::parse(text.as_bytes()) {
        said(&value, false, &mut out);
    }
    if let Some(args) = event.args() {
        said(args, true, &mut out);
    }
    out
}

fn said(value: &Value, numbers: bool, out: &mut Vec<Run>) {
    match value {
        Value::String(text) => out.push(tokens(text).collect()),
        Value::Number(_) | Value::Huge(_) if numbers => out.push(tokens(&value.to_string()).collect()),
        Value::List(items) => items.iter().for_each(|item| said(item, numbers, out)),
        Value::Object(object) => {
            for (key, item) in object.iter() {
                out.push(tokens(key).collect());
                said(item, numbers, out);
            }
        }
        _ => {}
    }
}
