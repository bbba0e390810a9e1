//! Expressions: recursion over the tree.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    rc::Rc,
    sync::Arc,
};

use probity::{
    diag::Span,
    lang::{
        ast::{Argument, BinaryOp, Binder, Expr, ExprKind, FoldOp, Literal, Quantity, Regex},
        builtin::{self, Arg},
        ops,
        val::{Datum, Tri, Val, Why, WhyKind},
    },
    model::{Event, EventBody, EventKind, Num, Seq, Value},
    redact::Detector,
};

use super::{
    facts::FactState,
    names::{Bound, Place},
    program::{Program, json},
};

/// The judged event's fields, as bare names.
const FIELDS: [&str; 11] = ["text", "calls", "tool", "args", "id", "json", "is_error", "call", "turn", "time", "seq"];

/// A program over a trace.
pub struct Naive<'p> {
    pub program: &'p Program,
    pub events: Vec<Arc<Event>>,
    /// What a fact held before an event; only to save time.
    pub held: RefCell<HashMap<(usize, usize), Rc<FactState>>>,
    /// Compiled patterns; only to save time.
    regexes: RefCell<HashMap<(Arc<str>, bool), regex::Regex>>,
}

/// An element of a collection with the names that it is bound to.
pub struct Element<'p> {
    /// The place with the names bound.
    pub place: Place<'p>,
    /// For an entry of a fact: the event that wrote it.
    pub written: Option<Seq>,
    /// True, or unknown for the one more that there may be.
    pub exists: Tri,
}

impl<'p> Naive<'p> {
    pub fn new(program: &'p Program, events: Vec<Arc<Event>>) -> Naive<'p> {
        Naive { program, events, held: RefCell::default(), regexes: RefCell::default() }
    }

    /// An expression as a condition.
    pub fn test(&self, e: &'p Expr, place: &Place<'p>) -> Tri {
        self.eval(e, place).as_tri(e.span)
    }

    /// An optional condition; nothing holds.
    pub fn test_filter(&self, filter: Option<&'p Expr>, place: &Place<'p>) -> Tri {
        filter.map_or(Tri::True, |e| self.test(e, place))
    }

    /// The value of an expression.
    pub fn eval(&self, e: &'p Expr, place: &Place<'p>) -> Val {
        let span = e.span;
        match &e.kind {
            ExprKind::Literal(value) => literal(value),
            ExprKind::Name(name) => self.name(name, span, place),
            ExprKind::List(items) => ops::list(items.iter().map(|item| self.eval(item, place)).collect()),
            ExprKind::Set(items) => ops::set(items.iter().map(|item| self.eval(item, place)), span),
            ExprKind::Field(base, name) => self.step(base, place, |v| match v {
                Val::Known(Datum::Event(event)) => self.event_field(&event, &name.text, span),
                v => ops::field(&v, &name.text, span),
            }),
            ExprKind::Index(base, keys) => match self.fact_read(e, place) {
                Some(read) => self.read(&read, place),
                None => {
                    let [key] = keys.as_slice() else { panic!("one index, or the key of a fact") };
                    let key = self.eval(key, place);
                    self.step(base, place, |v| ops::index(&v, &key, span))
                }
            },
            ExprKind::Each(base) => match ops::as_elements(&self.eval(base, place), span) {
                Ok(items) => ops::list(items),
                Err(why) => Val::Unknown(why),
            },
            ExprKind::Cast(base, to) => self.step(base, place, |v| ops::cast(v, *to, span)),
            ExprKind::Is(x, to) => Val::bool(ops::is_type(&self.eval(x, place), *to)),
            ExprKind::Default(x, y) => {
                let x = self.eval(x, place);
                if ops::has_value(&x) { x } else { self.eval(y, place) }
            }
            ExprKind::Neg(x) => ops::negate(&self.eval(x, place), span),
            ExprKind::Not(x) => self.test(x, place).negate().into_val(),
            ExprKind::And(parts) => parts.iter().map(|e| self.test(e, place)).fold(Tri::True, Tri::and).into_val(),
            ExprKind::Or(parts) => parts.iter().map(|e| self.test(e, place)).fold(Tri::False, Tri::or).into_val(),
            ExprKind::Binary(op, a, b) => ops::binary(*op, &self.eval(a, place), &self.eval(b, place), span),
            ExprKind::Mentions(x, category) => {
                let x = self.eval(x, place);
                match x.as_str() {
                    Some(text) => Val::bool((self.program.mentions)(&category.text, text)),
                    None => Val::Unknown(x.why(span, "string")),
                }
            }
            ExprKind::Detects(x, detector) => {
                let x = self.eval(x, place);
                match x.as_str() {
                    Some(text) => {
                        Val::bool(self.program.finder.finds(Detector::from_word(&detector.text).unwrap(), text))
                    }
                    None => Val::Unknown(x.why(span, "string")),
                }
            }
            ExprKind::Matches(x, pattern) => {
                let x = self.eval(x, place);
                match x.as_str() {
                    Some(text) => Val::bool(self.regex(pattern).is_match(text)),
                    None => Val::Unknown(x.why(span, "string")),
                }
            }
            ExprKind::Apply(name, arguments) => self.apply(&name.text, arguments, span, place),
            ExprKind::Quantifier(quantity, binder, body) => self.quantifier(*quantity, binder, body, place).into_val(),
            ExprKind::Comprehension { list, element, binder } => {
                self.comprehension(*list, element, binder, span, place)
            }
            ExprKind::Fold(op, element, binder) => self.fold(*op, element.as_deref(), binder, span, place),
            ExprKind::History(op, element, pattern) => self.history(*op, element.as_deref(), pattern, span, place),
            ExprKind::Sequence(sequence) => self.sequence(sequence, place).into_val(),
            ExprKind::Derived(derived) => self.derived(derived, place).0.into_val(),
        }
    }

    /// One step of a path: on every element if the path has a `[*]` before it.
    fn step(&self, base: &'p Expr, place: &Place<'p>, f: impl Fn(Val) -> Val) -> Val {
        let value = self.eval(base, place);
        if !projects(base) {
            return f(value);
        }
        match ops::as_elements(&value, base.span) {
            Ok(items) => ops::list(items.into_iter().map(f).collect()),
            Err(why) => Val::Unknown(why),
        }
    }

    fn name(&self, name: &str, span: Span, place: &Place<'p>) -> Val {
        match place.names.get(name) {
            Some(Bound::Value(value)) => return value.clone(),
            Some(Bound::Expr(e, names)) => return self.eval(e, &place.with_names(names.clone())),
            None => {}
        }
        let judged = &self.events[place.at];
        if name == "now" {
            return match self.program.clock {
                Some(clock) => Val::Known(Datum::Time(clock)),
                None => self.event_field(judged, "time", span),
            };
        }
        if FIELDS.contains(&name) {
            return self.event_field(judged, name, span);
        }
        if let Some(value) = self.program.consts.get(name) {
            return literal(value);
        }
        if let Some(items) = self.program.sets.get(name) {
            return Val::Known(Datum::Set(Arc::new(items.iter().cloned().collect()), None));
        }
        match self.program.fact(name) {
            Some(fact) => self.read(&super::facts::FactRead { fact, key: Ok(Vec::new()) }, place),
            None => panic!("nothing is named {name}"),
        }
    }

    /// A field of an event.
    fn event_field(&self, event: &Event, name: &str, span: Span) -> Val {
        let missing = Val::unknown(WhyKind::Missing, span);
        match (name, &event.body) {
            ("turn", _) => Val::num(Num::from(u64::from(event.turn))),
            ("seq", _) => Val::num(Num::from(event.seq)),
            ("time", _) => match event.time {
                Some(time) => Val::Known(Datum::Time(time)),
                None => Val::unknown(WhyKind::NoTime, span),
            },
            ("text", _) => event.text().map_or(missing, |text| Val::text(text)),
            ("calls", EventBody::Assistant { calls, .. }) => Val::num(Num::from(u64::from(*calls))),
            ("args", EventBody::Call { .. }) => match event.args() {
                Some(args) => Val::json(args.clone()),
                None => Val::unknown(WhyKind::Unreadable, span),
            },
            ("id", EventBody::Call { id, .. }) => id.as_ref().map_or(missing, |id| Val::text(id)),
            ("tool", EventBody::Call { tool, .. }) => Val::text(tool),
            ("tool", EventBody::Result { .. }) => match event.tool() {
                Some(tool) => Val::text(tool),
                None => Val::unknown(WhyKind::Unpaired, span),
            },
            ("call", EventBody::Result { call, .. }) => match call {
                Some(call) => Val::Known(Datum::Event(Arc::clone(call))),
                None => Val::unknown(WhyKind::Unpaired, span),
            },
            ("is_error", EventBody::Result { is_error, .. }) => Val::bool(*is_error),
            ("json", EventBody::Result { .. }) => match event.json() {
                Some(value) => Val::json(value.clone()),
                None => Val::unknown(WhyKind::NotJson, span),
            },
            ("policy", EventBody::Hit { policy, .. }) => Val::text(policy),
            ("severity", EventBody::Hit { severity, .. }) => Val::num(*severity),
            ("tags", EventBody::Hit { tags, .. }) => {
                Val::json(Value::list(tags.iter().map(|tag| Value::string(tag)).collect()))
            }
            _ => missing,
        }
    }

    fn apply(&self, name: &str, arguments: &'p [Argument], span: Span, place: &Place<'p>) -> Val {
        if let Some(def) = self.program.defs.get(name) {
            return self.eval(&def.body, &self.call(def, arguments, place));
        }
        if let Some(table) = self.program.tables.get(name) {
            let values: Vec<Val> = arguments.iter().map(|a| self.eval(expression(a), place)).collect();
            let mut key = Vec::new();
            for value in &values {
                match value {
                    Val::Known(Datum::Json(_)) => match value.as_key(span) {
                        Ok(v) => key.push(v.clone()),
                        Err(why) => return Val::Unknown(why),
                    },
                    Val::Known(_) => return Val::unknown(WhyKind::Missing, span),
                    other => return Val::Unknown(other.why(span, "value")),
                }
            }
            let row =
                table.rows.iter().find(|(columns, _)| columns.iter().map(|c| json(&c.value)).eq(key.iter().cloned()));
            return row.map_or(Val::unknown(WhyKind::Missing, span), |(_, value)| literal(&value.value));
        }
        if name == "seen" {
            let [Argument::Expr(argument)] = arguments else { panic!("seen takes one fact") };
            let read = self.fact_read(argument, place).unwrap_or_else(|| panic!("seen takes a fact"));
            return self.seen(&read, place).into_val();
        }
        let function = builtin::find(name).unwrap_or_else(|| panic!("no function {name}"));
        let regexes: Vec<regex::Regex> = arguments
            .iter()
            .filter_map(|a| match a {
                Argument::Regex(pattern) => Some(self.regex(pattern)),
                Argument::Expr(_) => None,
            })
            .collect();
        let mut compiled = regexes.iter();
        let values: Vec<Arg<'_>> = arguments
            .iter()
            .map(|a| match a {
                Argument::Expr(e) => Arg::Val(self.eval(e, place)),
                Argument::Regex(_) => Arg::Regex(compiled.next().unwrap()),
            })
            .collect();
        (function.eval)(&values, span)
    }

    /// The place of a definition's body: its parameters, and nothing of the caller's names.
    pub fn call(
        &self,
        def: &'p probity::lang::ast::DefItem,
        arguments: &'p [Argument],
        place: &Place<'p>,
    ) -> Place<'p> {
        assert_eq!(def.params.len(), arguments.len(), "{} is called with another number of arguments", def.name.text);
        let mut inside = Place::new(place.at);
        for (param, argument) in def.params.iter().zip(arguments) {
            inside.names = inside.names.with(&param.text, Bound::Expr(expression(argument), place.names.clone()));
        }
        inside
    }

    fn regex(&self, pattern: &Regex) -> regex::Regex {
        let mut compiled = self.regexes.borrow_mut();
        let key = (Arc::clone(&pattern.pattern), pattern.ignore_case);
        let build =
            || regex::RegexBuilder::new(&pattern.pattern).case_insensitive(pattern.ignore_case).build().unwrap();
        compiled.entry(key).or_insert_with(build).clone()
    }

    // ---- collections ----

    /// The elements of a binder's collection, each with its names bound. What may hold more than is
    /// known has one more element, of which nothing is known.
    pub fn elements(&self, binder: &'p Binder, place: &Place<'p>) -> Result<Vec<Element<'p>>, Why> {
        let span = binder.collection.span;
        let bind = |key: Option<Val>, value: Val, written: Option<Seq>| {
            let mut place = place.with(&binder.value.text, value);
            if let (Some(name), Some(key)) = (&binder.key, key) {
                place = place.with(&name.text, key);
            }
            Element { place, written, exists: Tri::True }
        };
        let one_more = |key: Option<Val>| {
            let exists = Tri::Unknown(Why::new(WhyKind::Unusable, span));
            Element { exists, ..bind(key, Val::unknown(WhyKind::Unusable, span), None) }
        };
        if let Some(fact) = self.fact_walked(&binder.collection, place) {
            let state = self.held(fact, place.at);
            let mut elements: Vec<Element<'p>> = state
                .entries
                .iter()
                .map(|entry| {
                    let key = match entry.key.as_slice() {
                        [only] => only.clone(),
                        columns => Value::list(columns.to_vec()),
                    };
                    bind(Some(Val::json(key)), self.entry_value(entry, &state, span), Some(entry.written))
                })
                .collect();
            if state.uncertain {
                elements.push(one_more(Some(Val::unknown(WhyKind::Unusable, span))));
            }
            return Ok(elements);
        }
        let collection = self.eval(&binder.collection, place);
        let wrong = |wanted| Err(collection.why(span, wanted));
        match (&collection, &binder.key) {
            (Val::Known(Datum::Json(Value::Object(object))), Some(_)) => {
                let entries = object.iter().map(|(k, v)| bind(Some(Val::text(k)), Val::json(v.clone()), None));
                Ok(entries.collect())
            }
            (_, Some(_)) => wrong("object"),
            (Val::Known(Datum::Set(items, open)), None) => {
                let mut elements: Vec<Element<'p>> =
                    items.iter().map(|v| bind(None, Val::json(v.clone()), None)).collect();
                if open.is_some() {
                    elements.push(one_more(None));
                }
                Ok(elements)
            }
            (_, None) => match ops::as_elements(&collection, span) {
                Ok(items) => Ok(items.into_iter().map(|v| bind(None, v, None)).collect()),
                Err(_) => wrong("list or set"),
            },
        }
    }

    /// Whether an element is there and passes the binder's `where`.
    pub fn is_candidate(&self, binder: &'p Binder, element: &Element<'p>) -> Tri {
        element.exists.and(self.test_filter(binder.filter.as_deref(), &element.place))
    }

    fn quantifier(&self, quantity: Quantity, binder: &'p Binder, body: &'p Expr, place: &Place<'p>) -> Tri {
        let elements = match self.elements(binder, place) {
            Ok(elements) => elements,
            Err(why) => return Tri::Unknown(why),
        };
        let pairs =
            elements.iter().map(|element| (self.is_candidate(binder, element), self.test(body, &element.place)));
        match quantity {
            Quantity::Any => pairs.map(|(w, b)| w.and(b)).fold(Tri::False, Tri::or),
            Quantity::None => pairs.map(|(w, b)| w.and(b)).fold(Tri::False, Tri::or).negate(),
            Quantity::All => pairs.map(|(w, b)| w.negate().or(b)).fold(Tri::True, Tri::and),
        }
    }

    fn comprehension(&self, list: bool, element: &'p Expr, binder: &'p Binder, span: Span, place: &Place<'p>) -> Val {
        let elements = match self.elements(binder, place) {
            Ok(elements) => elements,
            Err(why) => return Val::Unknown(why),
        };
        let mut values = Vec::new();
        for candidate in &elements {
            match self.is_candidate(binder, candidate) {
                Tri::True => values.push(self.eval(element, &candidate.place)),
                Tri::False => {}
                Tri::Unknown(why) => return Val::Unknown(why),
            }
        }
        if list { ops::list(values) } else { ops::set(values, span) }
    }

    fn fold(&self, op: FoldOp, element: Option<&'p Expr>, binder: &'p Binder, span: Span, place: &Place<'p>) -> Val {
        let elements = match self.elements(binder, place) {
            Ok(elements) => elements,
            Err(why) => return Val::Unknown(why),
        };
        let matches = elements
            .iter()
            .map(|candidate| {
                let filter = self.is_candidate(binder, candidate);
                let value = element.map_or(Val::Absent, |e| self.eval(e, &candidate.place));
                (filter, value)
            })
            .collect::<Vec<_>>();
        match op {
            FoldOp::Count => count(&matches, span),
            FoldOp::Distinct => distinct(&matches, span),
            FoldOp::Sum => sum(&matches, span),
            FoldOp::Min => extreme(&matches, BinaryOp::Lt, span),
            FoldOp::Max => extreme(&matches, BinaryOp::Gt, span),
        }
    }
}

/// True if a path has a `[*]` in it, so that what follows is done to every element.
fn projects(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Each(_) => true,
        ExprKind::Field(base, _) | ExprKind::Cast(base, _) | ExprKind::Index(base, _) => projects(base),
        _ => false,
    }
}

/// An argument that is an expression.
pub fn expression(argument: &Argument) -> &Expr {
    match argument {
        Argument::Expr(e) => e,
        Argument::Regex(_) => panic!("a pattern cannot stand here"),
    }
}

fn literal(value: &Literal) -> Val {
    match value {
        Literal::Duration(seconds) => Val::Known(Datum::Duration(*seconds)),
        other => Val::json(json(other)),
    }
}

/// Whether an event is of a kind that the source names.
pub fn of_kind(kinds: &[EventKind], event: &Event) -> bool {
    kinds.contains(&event.kind())
}

// ---- what is said of a list of matches and their values ----

/// How many match: from the certain ones to the certain and the unknown ones.
pub fn count(matches: &[(Tri, Val)], span: Span) -> Val {
    let certain = matches.iter().filter(|(m, _)| *m == Tri::True).count();
    let possible = matches.iter().filter(|(m, _)| *m != Tri::False).count();
    Val::count(certain as u64, possible as u64, open(matches, span))
}

/// How many different values the matches have.
pub fn distinct(matches: &[(Tri, Val)], span: Span) -> Val {
    let mut certain = BTreeSet::new();
    let mut possible = BTreeSet::new();
    let mut unknown = 0;
    let mut certain_unknown = false;
    for (m, value) in matches.iter().filter(|(m, _)| *m != Tri::False) {
        match value.as_key(span) {
            Ok(value) => {
                possible.insert(value.clone());
                if *m == Tri::True {
                    certain.insert(value.clone());
                }
            }
            Err(_) => {
                unknown += 1;
                certain_unknown |= *m == Tri::True;
            }
        }
    }
    let low = certain.len().max(usize::from(certain_unknown));
    Val::count(low as u64, (possible.len() + unknown) as u64, open(matches, span))
}

/// The sum of the values; unknown if any match is, or the value of one.
pub fn sum(matches: &[(Tri, Val)], span: Span) -> Val {
    let mut total = Val::num(Num::ZERO);
    for (m, value) in matches {
        match (m, value) {
            (Tri::False, _) => {}
            (Tri::Unknown(why), _) => return Val::Unknown(*why),
            (Tri::True, Val::Known(Datum::Json(Value::Number(_)))) => {
                total = ops::binary(BinaryOp::Add, &total, value, span);
            }
            (Tri::True, _) => return Val::Unknown(value.why(span, "number")),
        }
    }
    total
}

/// The value that is less (or greater) than the others; absent if there is none.
pub fn extreme(matches: &[(Tri, Val)], better: BinaryOp, span: Span) -> Val {
    let mut best = Val::Absent;
    for (m, value) in matches {
        match (m, value) {
            (Tri::False, _) => continue,
            (Tri::Unknown(why), _) => return Val::Unknown(*why),
            (Tri::True, Val::Known(Datum::Json(Value::Number(_)) | Datum::Time(_) | Datum::Duration(_))) => {}
            (Tri::True, _) => return Val::Unknown(value.why(span, "number")),
        }
        best = match best {
            Val::Absent => value.clone(),
            best => match ops::binary(better, value, &best, span).as_tri(span) {
                Tri::True => value.clone(),
                Tri::False => best,
                Tri::Unknown(why) => return Val::Unknown(why),
            },
        };
    }
    best
}

/// A reason for a count that is open.
fn open(matches: &[(Tri, Val)], span: Span) -> Why {
    let unknown = matches.iter().find_map(|(m, _)| match m {
        Tri::Unknown(why) => Some(*why),
        _ => None,
    });
    unknown.unwrap_or(Why::new(WhyKind::Candidate, span))
}
