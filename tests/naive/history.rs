//! Earlier events: which match a pattern, and what is said of them.

use std::sync::Arc;

use probity::{
    diag::Span,
    lang::{
        ast::{BinaryOp, Expr, HistoryOp, Pattern, Source, Tools, Within},
        ops,
        val::{Datum, Tri, Val, Why, WhyKind},
    },
    model::{Event, Num, Seq, Value},
};

use super::{
    eval::{Naive, count, distinct, extreme, of_kind, sum},
    names::Place,
};

/// An event and whether it matches.
pub type Candidate = (Arc<Event>, Tri);

/// What an event contributes to a question.
pub struct Contributions<'p> {
    /// Where each candidate is evaluated, and whether it is one.
    pub candidates: Vec<(Place<'p>, Tri)>,
    /// One of them stands for any number of candidates.
    pub any_number: bool,
}

/// Where a window opens: just after this event, or with the trace.
pub type Opening = Option<Seq>;

impl<'p> Naive<'p> {
    /// The value of `OP(element over PATTERN)`.
    pub fn history(
        &self,
        op: HistoryOp,
        element: Option<&'p Expr>,
        pattern: &'p Pattern,
        span: Span,
        place: &Place<'p>,
    ) -> Val {
        let candidates = self.candidates(pattern, place);
        let results: Vec<Val> = self
            .openings(pattern, place)
            .into_iter()
            .map(|opening| {
                let inside: Vec<&Candidate> = after(&candidates, opening).collect();
                self.aggregate(op, element, pattern, &inside, span, place)
            })
            .collect();
        agree(op, results, span)
    }

    fn aggregate(
        &self,
        op: HistoryOp,
        element: Option<&'p Expr>,
        pattern: &'p Pattern,
        candidates: &[&Candidate],
        span: Span,
        place: &Place<'p>,
    ) -> Val {
        match op {
            HistoryOp::First => return chosen(candidates.iter().copied(), span),
            HistoryOp::Last | HistoryOp::Previous => return chosen(candidates.iter().rev().copied(), span),
            _ => {}
        }
        let mut matches = Vec::new();
        let mut any_number = false;
        for (event, m) in candidates {
            let found = self.contributions(pattern, event, *m, place);
            any_number |= found.any_number;
            let value = |place: &Place<'p>| element.map_or(Val::Absent, |e| self.eval(e, place));
            matches.extend(found.candidates.iter().map(|(place, m)| (*m, value(place))));
        }
        match op {
            HistoryOp::Once => matches.iter().map(|(m, _)| *m).fold(Tri::False, Tri::or).into_val(),
            HistoryOp::Count => without_end(count(&matches, span), any_number, span),
            HistoryOp::Distinct => without_end(distinct(&matches, span), any_number, span),
            HistoryOp::Sum => sum(&matches, span),
            HistoryOp::Min => extreme(&matches, BinaryOp::Lt, span),
            HistoryOp::Max => extreme(&matches, BinaryOp::Gt, span),
            HistoryOp::First | HistoryOp::Last | HistoryOp::Previous => unreachable!(),
        }
    }

    /// The candidates that an event is: itself, or each element of the list that the pattern walks over.
    pub fn contributions(
        &self,
        pattern: &'p Pattern,
        event: &Arc<Event>,
        matches: Tri,
        place: &Place<'p>,
    ) -> Contributions<'p> {
        let place = about(event, place);
        let Some(binder) = &pattern.elements else {
            return Contributions { candidates: vec![(place, matches)], any_number: false };
        };
        let filtered = |place: Place<'p>, m: Tri| {
            let m = m.and(self.test_filter(binder.filter.as_deref(), &place));
            (place, m)
        };
        let (candidates, unread) = match self.elements(binder, &place) {
            Ok(elements) => (
                elements.into_iter().map(|element| filtered(element.place, matches.and(element.exists))).collect(),
                false,
            ),
            // Of a list that cannot be read, nothing is known: not how many elements there are, nor what they are.
            Err(why) => {
                let mut inside = place.with(&binder.value.text, Val::Unknown(why));
                if let Some(key) = &binder.key {
                    inside = inside.with(&key.text, Val::Unknown(why));
                }
                (vec![filtered(inside, matches.and(Tri::Unknown(why)))], true)
            }
        };
        let any_number = unread && candidates.iter().any(|(_, m)| *m != Tri::False);
        Contributions { candidates, any_number }
    }

    /// The earlier events (and the judged one, if the pattern includes it) with whether they match,
    /// `since` left aside.
    pub fn candidates(&self, pattern: &'p Pattern, place: &Place<'p>) -> Vec<Candidate> {
        let end = if pattern.including_this { place.at + 1 } else { place.at };
        self.events[..end].iter().map(|event| (Arc::clone(event), self.matches(pattern, event, place))).collect()
    }

    /// Where the window of `since` may open, earliest first: after its latest certain match (with the
    /// trace, if there is none), or after any later match that is not certain.
    pub fn openings(&self, pattern: &'p Pattern, place: &Place<'p>) -> Vec<Opening> {
        let Some(since) = pattern.since.as_deref() else { return vec![None] };
        let mut openings = vec![None];
        for event in &self.events[..place.at] {
            match self.matches(since, event, place).and(self.matches_since(since, event, place)) {
                Tri::True => openings = vec![Some(event.seq)],
                Tri::False => {}
                Tri::Unknown(_) => openings.push(Some(event.seq)),
            }
        }
        openings
    }

    /// Whether an event lies in the window of the pattern's own `since`.
    fn matches_since(&self, pattern: &'p Pattern, event: &Arc<Event>, place: &Place<'p>) -> Tri {
        let inside: Vec<bool> =
            self.openings(pattern, place).iter().map(|opening| *opening < Some(event.seq)).collect();
        if inside.iter().all(|b| *b) {
            Tri::True
        } else if inside.iter().any(|b| *b) {
            Tri::Unknown(Why::new(WhyKind::Candidate, pattern.span))
        } else {
            Tri::False
        }
    }

    /// Whether an event matches: by kind and tool, by condition, by each window but `since`.
    pub fn matches(&self, pattern: &'p Pattern, event: &Arc<Event>, place: &Place<'p>) -> Tri {
        let judged = &self.events[place.at];
        let source = pattern.sources.iter().map(|s| self.of_source(s, event)).fold(Tri::False, Tri::or);
        if source == Tri::False {
            return Tri::False;
        }
        let filter = self.test_filter(pattern.filter.as_deref(), &about(event, place));
        let itself = event.seq == judged.seq;
        let within_time = if itself { Tri::True } else { self.within(pattern.within_time.as_ref(), event, judged) };
        let turns = pattern.within_turns.is_none_or(|n| judged.turn - event.turn <= n);
        let events = pattern.within_events.is_none_or(|n| judged.ordinal - event.ordinal <= u64::from(n));
        let before = !pattern.before_turn || event.turn < judged.turn;
        source.and(filter).and(within_time).and(Tri::from_bool(turns && events && before))
    }

    /// Whether two events are near enough in time.
    pub fn within(&self, within: Option<&Within>, earlier: &Event, later: &Event) -> Tri {
        match within {
            None => Tri::True,
            Some(Within::Duration(bound, span)) => not_longer_ago(earlier, later, *bound, *span),
            Some(Within::Named(name)) => match self.program.consts.get(&name.text) {
                Some(probity::lang::ast::Literal::Duration(bound)) => not_longer_ago(earlier, later, *bound, name.span),
                _ => panic!("{} is no duration", name.text),
            },
        }
    }

    /// Whether an event is of a source, as history has it: a result whose call is not known may or
    /// may not be one of a tool.
    pub fn of_source(&self, source: &Source, event: &Event) -> Tri {
        if !of_kind(&source.kinds, event) {
            return Tri::False;
        }
        if source.tools == Tools::Any {
            return Tri::True;
        }
        if event.is_unpaired() {
            return Tri::Unknown(Why::new(WhyKind::Unpaired, source.span));
        }
        Tri::from_bool(event.tool().is_some_and(|tool| self.names_tool(&source.tools, tool)))
    }

    /// Whether an event is of a source for certain: as a trigger, or as what feeds a fact.
    pub fn is_of(&self, source: &Source, event: &Event) -> bool {
        self.of_source(source, event) == Tri::True
    }

    fn names_tool(&self, tools: &Tools, tool: &str) -> bool {
        match tools {
            Tools::Any => true,
            Tools::Named(name) => *name.text == *tool,
            Tools::OneOf(tools) => tools.iter().any(|listed| match listed.is_glob {
                true => glob_matches(&listed.name.text, tool),
                false => *listed.name.text == *tool,
            }),
            Tools::Set(name) => {
                let set = self.program.sets.get(&name.text).unwrap_or_else(|| panic!("no set {}", name.text));
                set.contains(&Value::string(tool))
            }
            Tools::Glob(glob) => glob_matches(&glob.text, tool),
        }
    }
}

/// The place of a pattern's condition: `it` is the earlier event.
pub fn about<'p>(event: &Arc<Event>, place: &Place<'p>) -> Place<'p> {
    place.with("it", Val::Known(Datum::Event(Arc::clone(event))))
}

/// The candidates after an opening.
pub fn after(candidates: &[Candidate], opening: Opening) -> impl Iterator<Item = &Candidate> {
    candidates.iter().filter(move |(event, _)| opening < Some(event.seq))
}

/// The first that matches for certain, if none before it may match.
fn chosen<'c>(candidates: impl Iterator<Item = &'c Candidate>, span: Span) -> Val {
    for (event, m) in candidates {
        match m {
            Tri::True => return Val::Known(Datum::Event(Arc::clone(event))),
            Tri::False => {}
            Tri::Unknown(_) => return Val::unknown(WhyKind::Candidate, span),
        }
    }
    Val::Absent
}

fn not_longer_ago(event: &Event, judged: &Event, bound: Num, span: Span) -> Tri {
    let known = |event: &Event| match event.time {
        Some(time) => Val::Known(Datum::Time(time)),
        None => Val::unknown(WhyKind::NoTime, span),
    };
    let distance = ops::binary(BinaryOp::Sub, &known(judged), &known(event), span);
    ops::binary(BinaryOp::Le, &distance, &Val::Known(Datum::Duration(bound)), span).as_tri(span)
}

/// A count that has no upper end, if so.
fn without_end(count: Val, any_number: bool, span: Span) -> Val {
    if !any_number {
        return count;
    }
    Val::count(bounds(&count).0, u64::MAX, Why::new(WhyKind::Candidate, span))
}

/// What is certain although the window may open at several places.
fn agree(op: HistoryOp, results: Vec<Val>, span: Span) -> Val {
    let Some(first) = results.first() else { panic!("a window opens somewhere") };
    if results.len() == 1 || results.iter().all(|other| same(first, other)) {
        return first.clone();
    }
    let why = Why::new(WhyKind::Candidate, span);
    if matches!(op, HistoryOp::Count | HistoryOp::Distinct) {
        let bounds: Vec<(u64, u64)> = results.iter().map(bounds).collect();
        let low = bounds.iter().map(|(low, _)| *low).min().unwrap_or_default();
        let high = bounds.iter().map(|(_, high)| *high).max().unwrap_or_default();
        return Val::count(low, high, why);
    }
    Val::Unknown(why)
}

/// The ends of a count.
fn bounds(count: &Val) -> (u64, u64) {
    let whole = |n: i64| u64::try_from(n).unwrap();
    match count {
        Val::Range(low, high, _) => (whole(*low), whole(*high)),
        Val::Known(Datum::Json(Value::Number(n))) => (whole(n.as_whole().unwrap()), whole(n.as_whole().unwrap())),
        other => panic!("{other} is no count"),
    }
}

/// Whether two results are the same value.
fn same(a: &Val, b: &Val) -> bool {
    match (a, b) {
        (Val::Known(Datum::Json(a)), Val::Known(Datum::Json(b))) => a == b,
        (Val::Known(Datum::Time(a)), Val::Known(Datum::Time(b))) => a == b,
        (Val::Known(Datum::Duration(a)), Val::Known(Datum::Duration(b))) => a == b,
        (Val::Known(Datum::Event(a)), Val::Known(Datum::Event(b))) => a.seq == b.seq,
        (Val::Range(a, b, _), Val::Range(c, d, _)) => (a, b) == (c, d),
        (Val::Absent, Val::Absent) => true,
        _ => false,
    }
}

/// A pattern with `*` for any run of characters.
fn glob_matches(glob: &str, tool: &str) -> bool {
    match glob.split_once('*') {
        None => glob == tool,
        Some((start, rest)) => match tool.strip_prefix(start) {
            None => false,
            Some(tail) => {
                (0..=tail.len()).filter(|i| tail.is_char_boundary(*i)).any(|i| glob_matches(rest, &tail[i..]))
            }
        },
    }
}
