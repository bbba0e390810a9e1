//! Running aggregates over earlier events: what a history function needs to know of the events that
//! match, kept up to date as they arrive and as they leave a window.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use super::{
    ast::HistoryOp,
    builtin,
    val::{Val, Why, WhyKind},
};
use crate::{
    diag::Span,
    model::{Event, Num, Seq, Turn, Value},
};

/// What one earlier event contributes.
#[derive(Clone, Debug)]
pub struct Item {
    /// The event.
    pub seq: Seq,
    /// Its place among the events that are no hits.
    pub ordinal: u64,
    /// Its message.
    pub turn: Turn,
    /// Its time.
    pub time: Option<Num>,
    /// Whether it matches for certain.
    pub certain: bool,
    /// What is aggregated.
    pub payload: Payload,
}

/// The aggregated part of an event.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Nothing but its being there.
    Presence,
    /// The event itself.
    Event(Arc<Event>),
    /// A number to sum; none if the value is no number.
    Number(Option<Num>),
    /// A value to tell apart; none if it is unknown.
    Value(Option<Value>),
    /// A value to order.
    Ordered(Val),
    /// A list that cannot be read: any number of candidates that may or may not match.
    Many,
}

/// An exact sum that does not depend on the order of adding: one running total per power of ten.
#[derive(Clone, Debug, Default)]
pub struct ExactSum {
    parts: BTreeMap<i32, i128>,
    overflow: bool,
}

impl ExactSum {
    fn change(&mut self, n: Num, negative: bool) {
        let (coefficient, exponent) = n.parts();
        let part = self.parts.entry(exponent).or_default();
        let changed = if negative { part.checked_sub(coefficient) } else { part.checked_add(coefficient) };
        match changed {
            Some(0) => {
                self.parts.remove(&exponent);
            }
            Some(total) => *part = total,
            None => self.overflow = true,
        }
    }

    /// The total, if it can be written with 38 digits.
    pub fn total(&self) -> Option<Num> {
        if self.overflow {
            return None;
        }
        self.parts.iter().try_fold(Num::ZERO, |sum, (exponent, part)| sum.add(Num::new(*part, *exponent)))
    }
}

/// Aggregated events of one key.
#[derive(Clone, Debug)]
struct Aggregate {
    certain: u64,
    unknown: u64,
    /// How many of the unknown ones stand for any number of candidates.
    many: u64,
    detail: Detail,
}

#[derive(Clone, Debug)]
enum Detail {
    Count,
    /// The earliest or latest certain event, and the place of such an unknown one.
    Chosen {
        first: bool,
        event: Option<Arc<Event>>,
        unknown: Option<Seq>,
    },
    Sum {
        sum: ExactSum,
        valueless: u64,
    },
    /// How often each value came, certain and unknown matches apart.
    Distinct {
        values: HashMap<Value, (u64, u64)>,
        certain_values: u64,
        certain_valueless: u64,
        unknown_valueless: u64,
        /// Rough size of the values.
        bytes: usize,
    },
    Extreme {
        wanted: Ordering,
        best: Option<Val>,
    },
}

impl Aggregate {
    fn new(op: HistoryOp) -> Aggregate {
        let detail = match op {
            HistoryOp::Once | HistoryOp::Count => Detail::Count,
            HistoryOp::First => Detail::Chosen { first: true, event: None, unknown: None },
            HistoryOp::Last | HistoryOp::Previous => Detail::Chosen { first: false, event: None, unknown: None },
            HistoryOp::Sum => Detail::Sum { sum: ExactSum::default(), valueless: 0 },
            HistoryOp::Distinct => Detail::Distinct {
                values: HashMap::new(),
                certain_values: 0,
                certain_valueless: 0,
                unknown_valueless: 0,
                bytes: 0,
            },
            HistoryOp::Min => Detail::Extreme { wanted: Ordering::Less, best: None },
            HistoryOp::Max => Detail::Extreme { wanted: Ordering::Greater, best: None },
        };
        Aggregate { certain: 0, unknown: 0, many: 0, detail }
    }

    fn add(&mut self, item: &Item, at: Span) {
        if item.certain {
            self.certain += 1;
        } else {
            self.unknown += 1;
        }
        self.many += u64::from(matches!(item.payload, Payload::Many));
        match (&mut self.detail, &item.payload) {
            (Detail::Chosen { first, event, unknown }, Payload::Event(candidate)) => {
                if item.certain {
                    if event.is_none() || !*first {
                        *event = Some(candidate.clone());
                    }
                } else if unknown.is_none() || !*first {
                    *unknown = Some(item.seq);
                }
            }
            (Detail::Sum { sum, .. }, Payload::Number(Some(n))) => sum.change(*n, false),
            (Detail::Sum { valueless, .. }, _) => *valueless += 1,
            (Detail::Distinct { values, certain_values, bytes, .. }, Payload::Value(Some(value))) => {
                let counts = values.entry(value.clone()).or_default();
                if *counts == (0, 0) {
                    *bytes += 48 + value.weight();
                }
                if item.certain {
                    counts.0 += 1;
                    *certain_values += u64::from(counts.0 == 1);
                } else {
                    counts.1 += 1;
                }
            }
            (Detail::Distinct { certain_valueless, unknown_valueless, .. }, _) => {
                *(if item.certain { certain_valueless } else { unknown_valueless }) += 1;
            }
            (Detail::Extreme { wanted, best }, Payload::Ordered(value)) if item.certain => {
                *best = Some(match best.take() {
                    None => value.clone(),
                    Some(best) => builtin::pick(best, value, at, *wanted),
                });
            }
            _ => {}
        }
    }

    /// Takes back what an item added; never asked of `first`, `min` and `max`.
    fn remove(&mut self, item: &Item) {
        if item.certain {
            self.certain -= 1;
        } else {
            self.unknown -= 1;
        }
        self.many -= u64::from(matches!(item.payload, Payload::Many));
        match (&mut self.detail, &item.payload) {
            (Detail::Chosen { event, unknown, .. }, _) => {
                if event.as_ref().is_some_and(|e| e.seq == item.seq) {
                    *event = None;
                }
                if *unknown == Some(item.seq) {
                    *unknown = None;
                }
            }
            (Detail::Sum { sum, .. }, Payload::Number(Some(n))) => sum.change(*n, true),
            (Detail::Sum { valueless, .. }, _) => *valueless -= 1,
            (Detail::Distinct { values, certain_values, bytes, .. }, Payload::Value(Some(value))) => {
                if let Some(counts) = values.get_mut(value) {
                    if item.certain {
                        counts.0 -= 1;
                        *certain_values -= u64::from(counts.0 == 0);
                    } else {
                        counts.1 -= 1;
                    }
                    if *counts == (0, 0) {
                        values.remove(value);
                        *bytes = bytes.saturating_sub(48 + value.weight());
                    }
                }
            }
            (Detail::Distinct { certain_valueless, unknown_valueless, .. }, _) => {
                *(if item.certain { certain_valueless } else { unknown_valueless }) -= 1;
            }
            _ => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.certain == 0 && self.unknown == 0
    }

    /// A rough size in bytes of what it holds beside itself.
    fn bytes(&self) -> usize {
        match &self.detail {
            Detail::Chosen { event: Some(event), .. } => event.weight(),
            Detail::Distinct { bytes, .. } => *bytes,
            Detail::Sum { sum, .. } => 64 * sum.parts.len(),
            _ => 0,
        }
    }
}

/// How far back a windowed tally looks from the judged event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reach {
    /// Seconds, inclusive.
    Time(Num),
    /// Turns, inclusive.
    Turns(u32),
    /// Events, inclusive.
    Events(u32),
}

/// The events of one key: an aggregate, with a queue if they can leave a window.
#[derive(Clone, Debug)]
pub struct Tally {
    now: Aggregate,
    /// The latest certain match that `now` holds.
    latest: Option<Seq>,
    windowed: Option<Box<Windowed>>,
}

#[derive(Clone, Debug)]
struct Windowed {
    queue: VecDeque<Item>,
    /// Rough size of the queue.
    queued: usize,
    /// Events without a time, at an unknown distance from every other.
    timeless: Aggregate,
    /// Every event that ever came: what a judged event without a time is at an unknown distance from.
    ever: Aggregate,
}

/// A look at a tally: its aggregate, and whether its matches count as certain.
pub struct Looked<'t> {
    aggregate: &'t Aggregate,
    certain: bool,
    latest: Option<Seq>,
}

impl Tally {
    /// An empty tally.
    pub fn new(op: HistoryOp, window: Option<Reach>) -> Tally {
        let windowed = window.map(|_| {
            Box::new(Windowed {
                queue: VecDeque::new(),
                queued: 0,
                timeless: Aggregate::new(op),
                ever: Aggregate::new(op),
            })
        });
        Tally { now: Aggregate::new(op), latest: None, windowed }
    }

    /// Takes in an event.
    pub fn add(&mut self, item: Item, window: Option<Reach>, at: Span) {
        // What the item itself is too far from, every later event is too far from.
        self.settle(window, &Place::of_item(&item));
        let Some(windowed) = &mut self.windowed else {
            self.now.add(&item, at);
            if item.certain {
                self.latest = Some(item.seq);
            }
            return;
        };
        if matches!(window, Some(Reach::Time(_))) {
            windowed.ever.add(&item, at);
            if item.time.is_none() {
                windowed.timeless.add(&item, at);
                return;
            }
        }
        self.now.add(&item, at);
        if item.certain {
            self.latest = Some(item.seq);
        }
        windowed.queued += item_bytes(&item);
        windowed.queue.push_back(item);
    }

    /// Lets go of what has left the window, as seen from a later event.
    pub fn settle(&mut self, window: Option<Reach>, this: &Place) {
        let (Some(windowed), Some(window)) = (&mut self.windowed, window) else { return };
        if matches!(window, Reach::Time(_)) && this.time.is_none() {
            return;
        }
        while let Some(item) = windowed.queue.front() {
            let inside = match window {
                Reach::Time(d) => match (this.time, item.time) {
                    (Some(now), Some(then)) => now.sub(then).is_none_or(|age| age <= d),
                    _ => true,
                },
                Reach::Turns(n) => this.turn.saturating_sub(item.turn) <= n,
                Reach::Events(n) => this.ordinal.saturating_sub(item.ordinal) <= u64::from(n),
            };
            if inside {
                break;
            }
            self.now.remove(item);
            if self.latest == Some(item.seq) {
                self.latest = None;
            }
            windowed.queued = windowed.queued.saturating_sub(item_bytes(item));
            windowed.queue.pop_front();
        }
    }

    /// A rough size in bytes.
    pub fn bytes(&self) -> usize {
        let windowed = self.windowed.as_ref().map_or(0, |w| 128 + w.queued + w.timeless.bytes() + w.ever.bytes());
        160 + self.now.bytes() + windowed
    }

    /// What the judged event sees of it; `certain` is false for keys that only may be equal.
    pub fn look<'t>(&'t self, certain: bool, window: Option<Reach>, this: &Event, out: &mut Vec<Looked<'t>>) {
        match &self.windowed {
            Some(windowed) if matches!(window, Some(Reach::Time(_))) => {
                if this.time.is_none() {
                    out.push(Looked { aggregate: &windowed.ever, certain: false, latest: None });
                    return;
                }
                out.push(Looked { aggregate: &self.now, certain, latest: self.latest });
                out.push(Looked { aggregate: &windowed.timeless, certain: false, latest: None });
            }
            _ => out.push(Looked { aggregate: &self.now, certain, latest: self.latest }),
        }
    }
}

/// Where an event stands.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its position.
    pub seq: Seq,
    /// Its place among the events that are no hits.
    pub ordinal: u64,
    /// Its message.
    pub turn: Turn,
    /// Its time.
    pub time: Option<Num>,
}

impl Place {
    /// Where an event stands.
    pub fn of(event: &Event) -> Place {
        Place { seq: event.seq, ordinal: event.ordinal, turn: event.turn, time: event.time }
    }

    fn of_item(item: &Item) -> Place {
        Place { seq: item.seq, ordinal: item.ordinal, turn: item.turn, time: item.time }
    }
}

/// A rough size in bytes of an item in a queue.
fn item_bytes(item: &Item) -> usize {
    let payload = match &item.payload {
        Payload::Event(event) => event.weight(),
        Payload::Value(Some(value)) => value.weight(),
        _ => 0,
    };
    96 + payload
}

/// The answer of a history function, and the event it rests on.
pub struct Answer {
    /// The value.
    pub val: Val,
    /// The chosen event, or the latest certain match.
    pub rests_on: Option<Seq>,
}

/// Puts looks at several tallies together.
pub fn answer(op: HistoryOp, looks: &[Looked<'_>], at: Span) -> Answer {
    let candidate = Why::new(WhyKind::Candidate, at);
    let certain_looks = || looks.iter().filter(|l| l.certain);
    let certain: u64 = certain_looks().map(|l| l.aggregate.certain).sum();
    let all: u64 = looks.iter().map(|l| l.aggregate.certain + l.aggregate.unknown).sum();
    let many = looks.iter().any(|l| l.aggregate.many > 0);
    let unknown = all - certain;
    let latest = certain_looks().filter_map(|l| l.latest).max();
    let val = match op {
        HistoryOp::Once if certain > 0 => Val::bool(true),
        HistoryOp::Once if unknown > 0 => Val::Unknown(candidate),
        HistoryOp::Once => Val::bool(false),
        HistoryOp::Count => Val::count(certain, if many { u64::MAX } else { all }, candidate),
        HistoryOp::First | HistoryOp::Last | HistoryOp::Previous => {
            let first = op == HistoryOp::First;
            return chosen(looks, first, candidate);
        }
        HistoryOp::Sum => sum(looks, unknown, at),
        HistoryOp::Distinct => distinct(looks, many, candidate),
        HistoryOp::Min | HistoryOp::Max => extreme(looks, unknown, at),
    };
    Answer { val, rests_on: latest }
}

fn chosen(looks: &[Looked<'_>], first: bool, candidate: Why) -> Answer {
    let mut event: Option<Arc<Event>> = None;
    let mut doubt: Option<Seq> = None;
    // Whether `a` would be chosen before `b`.
    let before = |a: Seq, b: Seq| if first { a < b } else { a > b };
    for look in looks {
        let Detail::Chosen { event: found, unknown, .. } = &look.aggregate.detail else { continue };
        let mut doubts = *unknown;
        match found {
            Some(found) if !look.certain => {
                doubts = Some(doubts.map_or(found.seq, |d| if before(d, found.seq) { d } else { found.seq }));
            }
            Some(found) if event.as_ref().is_none_or(|e| before(found.seq, e.seq)) => event = Some(found.clone()),
            Some(_) | None => {}
        }
        if let Some(d) = doubts
            && doubt.is_none_or(|known| before(d, known))
        {
            doubt = Some(d);
        }
    }
    match (event, doubt) {
        (Some(event), Some(doubt)) if before(doubt, event.seq) => {
            Answer { val: Val::Unknown(candidate), rests_on: None }
        }
        (Some(event), _) => {
            let seq = event.seq;
            Answer { val: Val::Known(super::val::Datum::Event(event)), rests_on: Some(seq) }
        }
        (None, Some(_)) => Answer { val: Val::Unknown(candidate), rests_on: None },
        (None, None) => Answer { val: Val::Absent, rests_on: None },
    }
}

fn sum(looks: &[Looked<'_>], unknown: u64, at: Span) -> Val {
    if unknown > 0 {
        return Val::unknown(WhyKind::Candidate, at);
    }
    let mut total = Some(Num::ZERO);
    for look in looks {
        let Detail::Sum { sum, valueless } = &look.aggregate.detail else { continue };
        if *valueless > 0 {
            return Val::unknown(WhyKind::Candidate, at);
        }
        total = total.and_then(|t| t.add(sum.total()?));
    }
    total.map_or(Val::unknown(WhyKind::Number, at), Val::num)
}

fn distinct(looks: &[Looked<'_>], many: bool, candidate: Why) -> Val {
    let mut low = 0;
    let mut certain_valueless = false;
    let mut valueless = 0;
    let several = looks.iter().filter(|l| !l.aggregate.is_empty()).count() > 1;
    let mut united: HashSet<&Value> = HashSet::new();
    let mut high = 0;
    let mut certain_seen: HashSet<&Value> = HashSet::new();
    for look in looks {
        let Detail::Distinct { values, certain_values, certain_valueless: a, unknown_valueless: b, .. } =
            &look.aggregate.detail
        else {
            continue;
        };
        valueless += a + b;
        certain_valueless |= look.certain && *a > 0;
        if several {
            united.extend(values.keys());
            if look.certain {
                certain_seen.extend(values.iter().filter(|(_, counts)| counts.0 > 0).map(|(v, _)| v));
            }
        } else {
            high += u64::try_from(values.len()).unwrap_or(u64::MAX);
            low += if look.certain { *certain_values } else { 0 };
        }
    }
    if several {
        high = u64::try_from(united.len()).unwrap_or(u64::MAX);
        low = u64::try_from(certain_seen.len()).unwrap_or(u64::MAX);
    }
    let high = if many { u64::MAX } else { high + valueless };
    Val::count(low.max(u64::from(certain_valueless)), high, candidate)
}

fn extreme(looks: &[Looked<'_>], unknown: u64, at: Span) -> Val {
    if unknown > 0 {
        return Val::unknown(WhyKind::Candidate, at);
    }
    let mut all: Option<Val> = None;
    for look in looks {
        let Detail::Extreme { wanted, best: Some(best) } = &look.aggregate.detail else { continue };
        all = Some(match all {
            None => best.clone(),
            Some(so_far) => builtin::pick(so_far, best, at, *wanted),
        });
    }
    all.unwrap_or(Val::Absent)
}

/// Puts single items together as a tally would: for the few that are looked at one by one.
pub fn answer_items(op: HistoryOp, items: &[Item], at: Span) -> Answer {
    let mut tally = Tally::new(op, None);
    for item in items {
        tally.add(item.clone(), None, at);
    }
    answer(op, &[Looked { aggregate: &tally.now, certain: true, latest: tally.latest }], at)
}
