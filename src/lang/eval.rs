//! Evaluates expressions of the compiled program for one event.
//!
//! The same code serves three uses: conditions of the judged event, parts of an earlier event (scope
//! `It`) when it is taken in, and, with recording on, the events that a condition rests on.

use std::{collections::BTreeSet, sync::Arc};

mod derivation;
mod sequence;
mod walk;

use super::{
    ast::BinaryOp,
    builtin::Arg,
    fact, ops,
    program::{DetectorRef, EventField, Id, Node, NodeArg, NodeKind, Program, Scope},
    state::State,
    tally::Payload,
    val::{Datum, Tri, Val, Why, WhyKind},
};
use crate::{
    diag::Span,
    model::{Args, Event, EventBody, Limit, Limits, Num, Seq, Value},
};

/// An evaluation for one event.
pub(super) struct Eval<'p, 's> {
    pub(super) program: &'p Program,
    pub(super) state: &'s mut State,
    pub(super) this: &'s Arc<Event>,
    /// The earlier event of a pattern.
    pub(super) it: Option<Arc<Event>>,
    slots: Vec<Val>,
    lets: &'p [Node],
    memo: Vec<Option<(Val, Option<Limit>)>>,
    /// What was done so far, and how much may be done.
    pub(super) steps: u64,
    pub(super) limits: &'s Limits,
    /// The limit that left something open in what is evaluated.
    short: Option<Limit>,
    /// The events that what is evaluated rests on, if they are wanted.
    pub(super) record: Option<BTreeSet<Seq>>,
}

impl<'p, 's> Eval<'p, 's> {
    pub(super) fn new(
        program: &'p Program,
        state: &'s mut State,
        this: &'s Arc<Event>,
        limits: &'s Limits,
    ) -> Eval<'p, 's> {
        Eval {
            program,
            state,
            this,
            it: None,
            slots: Vec::new(),
            lets: &[],
            memo: Vec::new(),
            steps: 0,
            limits,
            short: None,
            record: None,
        }
    }

    /// Prepares for the variables of a policy.
    pub(super) fn enter(&mut self, slots: usize, lets: &'p [Node]) {
        self.slots.clear();
        self.slots.resize(slots, Val::Absent);
        self.lets = lets;
        self.memo.clear();
        self.memo.resize(lets.len(), None);
        self.short = None;
    }

    pub(super) fn exhausted(&self) -> bool {
        self.steps > self.most_steps()
    }

    pub(super) fn most_steps(&self) -> u64 {
        u64::try_from(self.limits.event_steps).unwrap_or(u64::MAX)
    }

    // ---- limits ----

    /// A limit is reached, so something stays open.
    pub(super) fn out_of(&mut self, limit: Limit, at: Span) -> Why {
        self.note(Why::new(WhyKind::Budget(limit), at))
    }

    /// Remembers the limit that is the reason for something unknown, if one is.
    pub(super) fn note(&mut self, why: Why) -> Why {
        self.short = self.short.or(why.limit());
        why
    }

    /// Evaluates, and says which limit left something open in it.
    pub(super) fn noting<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> (T, Option<Limit>) {
        let outer = self.short.take();
        let result = f(self);
        (result, self.noted(outer))
    }

    /// The limit that left something open since the one before was put aside, which is put back.
    fn noted(&mut self, before: Option<Limit>) -> Option<Limit> {
        let since = self.short;
        self.short = before.or(since);
        since
    }

    /// Evaluates a condition. Where it is open and a limit left something in it open, that is the reason: without
    /// the limit it may have been decided.
    pub(super) fn blaming(&mut self, at: Span, f: impl FnOnce(&mut Self) -> Tri) -> Tri {
        match self.noting(f) {
            (Tri::Unknown(_), Some(limit)) => Tri::Unknown(Why::new(WhyKind::Budget(limit), at)),
            (decided, _) => decided,
        }
    }

    /// The same for what `default`, `is` and functions make an answer of if it is unknown. Not inlined: evaluation
    /// recurses, and its frame would be that of every expression.
    #[inline(never)]
    fn operand(&mut self, node: &'p Node) -> Val {
        let before = self.short.take();
        let val = self.eval(node);
        match (self.noted(before), &val) {
            (Some(limit), Val::Unknown(_)) => Val::unknown(WhyKind::Budget(limit), node.at),
            _ => val,
        }
    }

    /// Sets a variable; for what is evaluated outside of a quantifier.
    pub(super) fn set_slot(&mut self, slot: usize, val: Val) {
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, Val::Absent);
        }
        if let Some(place) = self.slots.get_mut(slot) {
            *place = val;
        }
    }

    /// The value of an expression as a condition.
    pub(super) fn tri(&mut self, node: &'p Node) -> Tri {
        match &node.kind {
            NodeKind::And(parts) => self.all(parts),
            NodeKind::Or(parts) => {
                let mut result = Tri::False;
                for part in parts {
                    result = result.or(self.tri(part));
                    if result == Tri::True && self.record.is_none() {
                        break;
                    }
                }
                result
            }
            NodeKind::Not(inner) => self.tri(inner).negate(),
            _ => self.eval(node).as_tri(node.at),
        }
    }

    /// Kleene's and over several conditions.
    pub(super) fn all(&mut self, parts: &'p [Node]) -> Tri {
        let mut result = Tri::True;
        for part in parts {
            result = result.and(self.tri(part));
            if result == Tri::False && self.record.is_none() {
                break;
            }
        }
        result
    }

    /// The value of an expression.
    pub(super) fn eval(&mut self, node: &'p Node) -> Val {
        self.steps += 1;
        let at = node.at;
        if self.exhausted() {
            return Val::Unknown(self.out_of(self.limits.of_steps(), at));
        }
        match &node.kind {
            NodeKind::Const(val) => val.clone(),
            NodeKind::Event(scope) => match self.event(*scope) {
                Some(event) => Val::Known(Datum::Event(event)),
                None => Val::Absent,
            },
            NodeKind::Now => match self.program.clock.or(self.this.time) {
                Some(now) => Val::Known(Datum::Time(now)),
                None => Val::unknown(WhyKind::NoTime, at),
            },
            NodeKind::Slot(slot) => self.slots.get(*slot).cloned().unwrap_or(Val::Absent),
            NodeKind::Let(i) => self.let_value(*i),
            NodeKind::Field { base, name, event, each: false } => self.field(base, name, *event, at),
            NodeKind::Field { base, name, event, each: true } => {
                self.map_each(base, |_, v| field_of(v, name, *event, at), at)
            }
            NodeKind::Index { base, key, each } => {
                let key = self.eval(key);
                if *each {
                    return self.map_each(base, |_, v| ops::index(v, &key, at), at);
                }
                let base = self.eval(base);
                ops::index(&base, &key, at)
            }
            NodeKind::Each(base) => {
                let base = self.eval(base);
                match ops::as_elements(&base, at) {
                    Ok(items) => ops::list(items),
                    Err(why) => Val::Unknown(why),
                }
            }
            NodeKind::Cast { base, to, each: true } => self.map_each(base, |_, v| ops::cast(v.clone(), *to, at), at),
            NodeKind::Cast { base, to, each: false } => {
                let base = self.eval(base);
                ops::cast(base, *to, at)
            }
            NodeKind::Is(base, to) => {
                let base = self.operand(base);
                if out_of_limits(&base) { base } else { Val::bool(ops::is_type(&base, *to)) }
            }
            NodeKind::Default(first, otherwise) => {
                let first = self.operand(first);
                if ops::has_value(&first) || out_of_limits(&first) { first } else { self.eval(otherwise) }
            }
            NodeKind::Neg(inner) => {
                let inner = self.eval(inner);
                ops::negate(&inner, at)
            }
            NodeKind::Not(_) | NodeKind::And(_) | NodeKind::Or(_) => self.tri(node).into_val(),
            NodeKind::Binary(op, left, right) => {
                let left = self.eval(left);
                let right = self.eval(right);
                self.charge(&left);
                // Finding an element of a set takes no walk over it.
                if !matches!((op, &right), (BinaryOp::In | BinaryOp::NotIn, Val::Known(Datum::Set(..)))) {
                    self.charge(&right);
                }
                ops::binary(*op, &left, &right, at)
            }
            NodeKind::Mentions(text, category) => {
                let text = self.eval(text);
                self.charge(&text);
                match text.as_str() {
                    Some(text) => Val::bool(self.program.categories.mentions(text, *category)),
                    None => Val::Unknown(text.why(at, "string")),
                }
            }
            NodeKind::Detects(text, DetectorRef { detector, finder }) => {
                let text = self.eval(text);
                self.charge(&text);
                match text.as_str() {
                    Some(text) => Val::bool(finder.finds(*detector, text)),
                    None => Val::Unknown(text.why(at, "string")),
                }
            }
            NodeKind::Matches(text, pattern) => {
                let text = self.eval(text);
                self.charge(&text);
                match text.as_str() {
                    Some(text) => Val::bool(pattern.0.is_match(text)),
                    None => Val::Unknown(text.why(at, "string")),
                }
            }
            NodeKind::Table(table, keys) => match self.key(keys) {
                Ok(key) => table.rows.get(&key).cloned().unwrap_or(Val::unknown(WhyKind::Missing, at)),
                Err(why) => Val::Unknown(why),
            },
            NodeKind::Builtin(function, args) => {
                let args: Vec<Arg<'p>> = args
                    .iter()
                    .map(|arg| match arg {
                        NodeArg::Val(node) => {
                            let val = self.operand(node);
                            self.charge(&val);
                            Arg::Val(val)
                        }
                        NodeArg::Pattern(pattern) => Arg::Regex(&pattern.0),
                    })
                    .collect();
                (function.0.eval)(&args, at)
            }
            NodeKind::List(items) => ops::list(items.iter().map(|item| self.eval(item)).collect()),
            NodeKind::Set(items) => {
                let items: Vec<Val> = items.iter().map(|item| self.eval(item)).collect();
                ops::set(items, at)
            }
            NodeKind::Fact(fact, key) => self.read_fact(*fact, key, at),
            NodeKind::Seen(fact, key) => self.seen(*fact, key, at).into_val(),
            NodeKind::Quantifier(quantity, walk, body) => self.quantifier(*quantity, walk, body, at).into_val(),
            NodeKind::Comprehension { list, element, walk } => self.comprehension(*list, element, walk, at),
            NodeKind::Fold(op, element, walk) => self.fold(*op, element.as_deref(), walk, at),
            NodeKind::History(ask) => self.ask(ask, at),
            NodeKind::Sequence(ask) => self.ask_sequence(ask, at),
            NodeKind::Derived(ask) => self.derived(ask, at),
        }
    }

    /// Steps for working through a value as a whole: a trace can make one large.
    fn charge(&mut self, val: &Val) {
        let size = match val {
            Val::Known(Datum::Json(Value::String(s))) => s.len() / 64,
            Val::Known(Datum::Json(Value::List(items))) => items.len() / 8,
            Val::Known(Datum::Json(Value::Object(o))) => o.len() / 8,
            Val::Known(Datum::Partial(items)) => items.len() / 8,
            Val::Known(Datum::Set(items, _)) => items.len() / 8,
            _ => 0,
        };
        self.steps += size as u64;
    }

    fn event(&self, scope: Scope) -> Option<Arc<Event>> {
        match scope {
            Scope::This => Some(self.this.clone()),
            Scope::It => self.it.clone(),
        }
    }

    fn let_value(&mut self, i: usize) -> Val {
        // While recording each use is evaluated again, so that what it rests on is recorded again.
        if self.record.is_none()
            && let Some(Some((known, short))) = self.memo.get(i)
        {
            self.short = self.short.or(*short);
            return known.clone();
        }
        let lets = self.lets;
        let Some(node) = lets.get(i) else { return Val::Absent };
        let before = self.short.take();
        let val = self.eval(node);
        let short = self.noted(before);
        if let Some(place) = self.memo.get_mut(i) {
            *place = Some((val.clone(), short));
        }
        val
    }

    fn field(&mut self, base: &'p Node, name: &str, event: Option<EventField>, at: Span) -> Val {
        // Straight to the event, without making a value of it first.
        if let NodeKind::Event(scope) = base.kind
            && let Some(field) = event
        {
            self.steps += 1;
            let event = match scope {
                Scope::This => Some(self.this),
                Scope::It => self.it.as_ref(),
            };
            return event.map_or(Val::Absent, |e| event_field(e, field, at));
        }
        let base = self.eval(base);
        field_of(&base, name, event, at)
    }

    fn map_each(&mut self, base: &'p Node, mut f: impl FnMut(&mut Self, &Val) -> Val, at: Span) -> Val {
        let base = self.eval(base);
        match ops::as_elements(&base, at) {
            Ok(items) => {
                self.steps += items.len() as u64;
                ops::list(items.iter().map(|item| f(self, item)).collect())
            }
            Err(why) => Val::Unknown(why),
        }
    }

    /// A tuple of exact values.
    pub(super) fn key(&mut self, parts: &'p [Node]) -> Result<Vec<Value>, Why> {
        // All of them are read, also after an unknown one: what is rested on does not depend on their order.
        let read: Vec<Result<Value, Why>> = parts
            .iter()
            .map(|part| {
                let val = self.eval(part);
                val.as_key(part.at).cloned()
            })
            .collect();
        read.into_iter().collect()
    }

    // ---- facts ----

    /// Why absence in a fact is not certain, if it is not.
    fn doubt(&self, fact: Id, at: Span) -> Option<Why> {
        let unusable = self.state.facts.get(&fact).is_some_and(|f| f.uncertain);
        let unpaired = self.state.unpaired && self.program.facts.get(fact).is_some_and(|f| f.fed_by_results());
        (unusable || unpaired).then_some(Why::new(WhyKind::Unusable, at))
    }

    fn rests_on(&mut self, seq: Option<Seq>) {
        if let (Some(record), Some(seq)) = (&mut self.record, seq) {
            record.insert(seq);
        }
    }

    fn read_fact(&mut self, fact: Id, key: &'p [Node], at: Span) -> Val {
        let key = match self.key(key) {
            Ok(key) => key,
            Err(why) => return Val::Unknown(Why { key: true, ..why }),
        };
        if let Some(limit) = self.state.incomplete {
            return Val::Unknown(self.out_of(limit, at));
        }
        let open = self.doubt(fact, at);
        let entry = self.state.facts.get(&fact).and_then(|f| f.get(&key));
        let (val, seq) = match entry {
            Some(entry) => (fact::seen_value(&entry.value, open), Some(entry.seq)),
            None if self.program.facts.get(fact).is_some_and(|f| f.collects) => {
                (Val::Known(Datum::Set(Arc::default(), open)), None)
            }
            None => (Val::Absent, None),
        };
        self.rests_on(seq);
        val
    }

    fn seen(&mut self, fact: Id, key: &'p [Node], at: Span) -> Tri {
        let key = match self.key(key) {
            Ok(key) => key,
            Err(why) => return Tri::Unknown(Why { key: true, ..why }),
        };
        if let Some(limit) = self.state.incomplete {
            return Tri::Unknown(self.out_of(limit, at));
        }
        let seq = self.state.facts.get(&fact).and_then(|f| f.get(&key)).map(|entry| entry.seq);
        self.rests_on(seq);
        match (seq, self.doubt(fact, at)) {
            (Some(_), _) => Tri::True,
            (None, None) => Tri::False,
            (None, Some(why)) => Tri::Unknown(why),
        }
    }
}

/// Whether a limit is why there is no value.
fn out_of_limits(val: &Val) -> bool {
    matches!(val, Val::Unknown(why) if why.limit().is_some())
}

/// What an event, or an element, contributes to an aggregate.
pub(super) fn payload(op: super::ast::HistoryOp, val: Val, event: Option<&Arc<Event>>, at: Span) -> Payload {
    use super::ast::HistoryOp;
    match (op, event) {
        (HistoryOp::First | HistoryOp::Last | HistoryOp::Previous, Some(event)) => Payload::Event(event.clone()),
        (HistoryOp::Sum, _) => Payload::Number(match val {
            Val::Known(Datum::Json(Value::Number(n))) => Some(n),
            _ => None,
        }),
        (HistoryOp::Distinct, _) => Payload::Value(val.as_key(at).ok().cloned()),
        (HistoryOp::Min | HistoryOp::Max, _) => Payload::Ordered(match val {
            Val::Known(Datum::Json(Value::Number(_)) | Datum::Time(_) | Datum::Duration(_)) => val,
            other => Val::Unknown(other.why(at, "number")),
        }),
        _ => Payload::Presence,
    }
}

/// A field of an event or of an object; doubt about a fact's key stays doubt.
fn field_of(base: &Val, name: &str, event: Option<EventField>, at: Span) -> Val {
    match (base, event) {
        (Val::Known(Datum::Event(e)), Some(field)) => event_field(e, field, at),
        (Val::Known(Datum::Event(_)), None) => Val::unknown(WhyKind::Missing, at),
        _ => ops::field(base, name, at),
    }
}

/// A field of an event.
pub fn event_field(event: &Arc<Event>, field: EventField, at: Span) -> Val {
    let missing = Val::unknown(WhyKind::Missing, at);
    match field {
        EventField::Text => event.text().map_or(missing, |t| Val::json(Value::String(t.clone()))),
        EventField::Calls => match &event.body {
            EventBody::Assistant { calls, .. } => Val::num(Num::from(u64::from(*calls))),
            _ => missing,
        },
        EventField::Tool => match event.tool() {
            Some(tool) => Val::json(Value::String(tool.clone())),
            None if event.is_unpaired() => Val::unknown(WhyKind::Unpaired, at),
            None => missing,
        },
        EventField::Args => match &event.body {
            EventBody::Call { args: Args::Object(object), .. } => Val::json(object.clone()),
            EventBody::Call { args: Args::Unreadable, .. } => Val::unknown(WhyKind::Unreadable, at),
            _ => missing,
        },
        EventField::Id => match &event.body {
            EventBody::Call { id: Some(id), .. } => Val::json(Value::String(id.clone())),
            _ => missing,
        },
        EventField::Json => match (&event.body, event.json()) {
            (_, Some(value)) => Val::json(value.clone()),
            (EventBody::Result { .. }, None) => Val::unknown(WhyKind::NotJson, at),
            _ => missing,
        },
        EventField::IsError => match &event.body {
            EventBody::Result { is_error, .. } => Val::bool(*is_error),
            _ => missing,
        },
        EventField::Call => match &event.body {
            EventBody::Result { call: Some(call), .. } => Val::Known(Datum::Event(call.clone())),
            EventBody::Result { call: None, .. } => Val::unknown(WhyKind::Unpaired, at),
            _ => missing,
        },
        EventField::Turn => Val::num(Num::from(u64::from(event.turn))),
        EventField::Seq => Val::num(Num::from(event.seq)),
        EventField::Time => match event.time {
            Some(time) => Val::Known(Datum::Time(time)),
            None => Val::unknown(WhyKind::NoTime, at),
        },
        EventField::Policy | EventField::Severity | EventField::Tags => match (&event.body, field) {
            (EventBody::Hit { policy, .. }, EventField::Policy) => Val::text(policy),
            (EventBody::Hit { severity, .. }, EventField::Severity) => Val::num(*severity),
            (EventBody::Hit { tags, .. }, _) => Val::json(Value::list(tags.iter().map(|t| Value::string(t)).collect())),
            _ => missing,
        },
    }
}
