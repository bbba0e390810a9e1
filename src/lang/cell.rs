//! The state of one store of earlier events: running aggregates per key, or the last few events.
//!
//! A cell is fed after the policies have judged an event, and asked while they judge a later one.
//! Feeding gets the evaluated parts of an event; asking gets the evaluated present side. Nothing here
//! evaluates expressions.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::Arc,
};

use super::{
    ast::HistoryOp,
    key::{Key, Part, is_exact, may_equal},
    program::Window,
    tally::{Answer, Item, Looked, Place, Reach, Tally, answer},
    val::{Datum, Val, Why, WhyKind},
};
use crate::{
    diag::Span,
    model::{Event, Limit, Limits, Seq, Turn, Value},
};

/// Running aggregates.
#[derive(Clone, Debug)]
pub struct Running {
    op: HistoryOp,
    reach: Option<Reach>,
    /// The possible openings of the window, the earliest first; exactly one without `since`.
    epochs: Vec<Epoch>,
    /// More openings were possible than are kept.
    lost: bool,
    /// `before this turn`: events of the latest turn, not counted yet.
    pending: Option<Vec<(Item, Key)>>,
    /// How many possible openings are kept apart.
    openings: usize,
    /// How many keys are looked at, where the one that is asked for is not known.
    keys: usize,
}

#[derive(Clone, Debug, Default)]
struct Epoch {
    /// By keys that can be compared exactly.
    buckets: HashMap<Key, Tally>,
    /// By keys that cannot.
    loose: HashMap<Key, Tally>,
    /// Rough size of both.
    bytes: usize,
}

impl Running {
    /// An empty store.
    pub fn new(op: HistoryOp, window: &Window, limits: &Limits) -> Running {
        let reach = match (window.time, window.turns, window.events) {
            (Some(d), _, _) => Some(Reach::Time(d)),
            (_, Some(n), _) => Some(Reach::Turns(n)),
            (_, _, Some(n)) => Some(Reach::Events(n)),
            _ => None,
        };
        let pending = window.before_turn.then(Vec::new);
        let (openings, keys) = (limits.openings, limits.look_back);
        Running { op, reach, epochs: vec![Epoch::default()], lost: false, pending, openings, keys }
    }

    /// Takes in an event.
    pub fn add(&mut self, item: Item, key: Key, at: Span) {
        self.settle(item.turn, at);
        match &mut self.pending {
            Some(pending) => pending.push((item, key)),
            None => self.count(item, key, at),
        }
    }

    /// A rough size in bytes.
    pub fn bytes(&self) -> usize {
        self.epochs.iter().map(|epoch| epoch.bytes).sum()
    }

    fn count(&mut self, item: Item, key: Key, at: Span) {
        let (op, reach) = (self.op, self.reach);
        let exact = is_exact(&key);
        for epoch in &mut self.epochs {
            let tallies = if exact { &mut epoch.buckets } else { &mut epoch.loose };
            let mut bytes = epoch.bytes;
            let tally = match tallies.entry(key.clone()) {
                Entry::Occupied(held) => {
                    bytes = bytes.saturating_sub(held.get().bytes());
                    held.into_mut()
                }
                Entry::Vacant(free) => {
                    bytes += key.iter().map(Part::weight).sum::<usize>();
                    free.insert(Tally::new(op, reach))
                }
            };
            tally.add(item.clone(), reach, at);
            epoch.bytes = bytes + tally.bytes();
        }
    }

    /// Counts what waits for its turn to end.
    fn settle(&mut self, turn: Turn, at: Span) {
        let Some(pending) = &mut self.pending else { return };
        if pending.first().is_none_or(|(item, _)| item.turn >= turn) {
            return;
        }
        for (item, key) in std::mem::take(pending) {
            self.count(item, key, at);
        }
    }

    /// An event opens the window anew, for certain or perhaps.
    pub fn open(&mut self, certain: bool) {
        if certain {
            self.epochs = vec![Epoch::default()];
            self.lost = false;
        } else if self.epochs.len() < self.openings {
            self.epochs.push(Epoch::default());
        } else {
            self.lost = true;
        }
    }

    /// The answer for the judged event. `own` is what it contributes itself, under `including this`;
    /// `steps` counts what was looked at.
    pub fn ask(&mut self, this: &Event, key: &Asked, own: &[Item], at: Span, steps: &mut u64) -> Answer {
        self.settle(this.turn, at);
        let out_of = |limit| Answer { val: Val::unknown(WhyKind::Budget(limit), at), rests_on: None };
        if self.lost {
            return out_of(Limit::Openings);
        }
        let (op, reach) = (self.op, self.reach);
        let mut own_tally = Tally::new(op, None);
        own.iter().for_each(|item| own_tally.add(item.clone(), None, at));
        let mut answers = Vec::with_capacity(self.epochs.len());
        for epoch in &mut self.epochs {
            let Ok(names) = epoch.names(key, self.keys) else { return out_of(Limit::LookBack) };
            *steps += 1 + u64::try_from(names.loose.len() + names.doubtful.len()).unwrap_or(u64::MAX);
            if reach.is_some() {
                epoch.settle(&names, reach, &Place::of(this));
            }
            let mut looks = Vec::new();
            for name in &names.exact {
                if let Some(tally) = epoch.buckets.get(name) {
                    tally.look(key.certain, reach, this, &mut looks);
                }
            }
            for name in &names.doubtful {
                if let Some(tally) = epoch.buckets.get(name) {
                    tally.look(false, reach, this, &mut looks);
                }
            }
            for name in &names.loose {
                if let Some(tally) = epoch.loose.get(name) {
                    tally.look(false, reach, this, &mut looks);
                }
            }
            if !own.is_empty() {
                own_tally.look(true, None, this, &mut looks);
            }
            answers.push(finish(op, &looks, at, this));
        }
        merge(op, answers, at)
    }
}

fn finish(op: HistoryOp, looks: &[Looked<'_>], at: Span, this: &Event) -> Answer {
    let mut found = answer(op, looks, at);
    // Evidence speaks of earlier events.
    found.rests_on = found.rests_on.filter(|seq| *seq < this.seq);
    found
}

/// The present side of the join.
pub struct Asked {
    /// The key.
    pub parts: Key,
    /// False if a condition on the present alone is unknown: then no match is certain.
    pub certain: bool,
}

struct Names {
    exact: Vec<Key>,
    doubtful: Vec<Key>,
    loose: Vec<Key>,
}

/// Too many keys may be the one that is asked for.
struct TooMany;

impl Epoch {
    /// Lets go of what has left the window.
    fn settle(&mut self, names: &Names, reach: Option<Reach>, place: &Place) {
        let named = names.exact.iter().chain(&names.doubtful).map(|name| (true, name));
        for (exact, name) in named.chain(names.loose.iter().map(|name| (false, name))) {
            let tallies = if exact { &mut self.buckets } else { &mut self.loose };
            if let Some(tally) = tallies.get_mut(name) {
                let before = tally.bytes();
                tally.settle(reach, place);
                self.bytes = (self.bytes + tally.bytes()).saturating_sub(before);
            }
        }
    }

    /// Which tallies concern a key.
    fn names(&self, asked: &Asked, most: usize) -> Result<Names, TooMany> {
        let (exact, doubtful) = if is_exact(&asked.parts) {
            (vec![asked.parts.clone()], Vec::new())
        } else {
            if self.buckets.len() > most {
                return Err(TooMany);
            }
            (Vec::new(), self.buckets.keys().filter(|name| may_equal(name, &asked.parts)).cloned().collect())
        };
        if self.loose.len() > most {
            return Err(TooMany);
        }
        let loose = self.loose.keys().filter(|name| may_equal(name, &asked.parts)).cloned().collect();
        Ok(Names { exact, doubtful, loose })
    }
}

/// One answer from those of all possible openings: what they agree on, or the hull of counts.
pub fn merge(op: HistoryOp, answers: Vec<Answer>, at: Span) -> Answer {
    let mut answers = answers.into_iter();
    let Some(first) = answers.next() else { return Answer { val: Val::Absent, rests_on: None } };
    let join = if matches!(op, HistoryOp::Count | HistoryOp::Distinct) { hull } else { agreed };
    let mut merged =
        answers.fold(first, |so_far, next| Answer { val: join(&so_far.val, &next.val, at), rests_on: so_far.rests_on });
    // Where the openings do not agree on an event, none is given.
    let seeks = matches!(op, HistoryOp::First | HistoryOp::Last | HistoryOp::Previous);
    if seeks && !matches!(merged.val, Val::Known(_)) {
        merged.rests_on = None;
    }
    merged
}

fn agreed(a: &Val, b: &Val, at: Span) -> Val {
    let same = match (a, b) {
        (Val::Absent, Val::Absent) => true,
        (Val::Known(Datum::Event(x)), Val::Known(Datum::Event(y))) => x.seq == y.seq,
        (Val::Known(Datum::Json(x)), Val::Known(Datum::Json(y))) => x == y && x.is_exact(),
        (Val::Known(Datum::Time(x)), Val::Known(Datum::Time(y))) => x == y,
        (Val::Known(Datum::Duration(x)), Val::Known(Datum::Duration(y))) => x == y,
        _ => false,
    };
    if same { a.clone() } else { Val::unknown(WhyKind::Candidate, at) }
}

fn hull(a: &Val, b: &Val, at: Span) -> Val {
    let ends = |v: &Val| match v {
        Val::Range(low, high, _) => Some((*low, *high)),
        Val::Known(Datum::Json(Value::Number(n))) => n.as_whole().map(|n| (n, n)),
        _ => None,
    };
    match (ends(a), ends(b)) {
        (Some((a, b)), Some((c, d))) => {
            let clamp = |n: i64| u64::try_from(n).unwrap_or(0);
            Val::count(clamp(a.min(c)), clamp(b.max(d)), Why::new(WhyKind::Candidate, at))
        }
        _ => Val::unknown(WhyKind::Candidate, at),
    }
}

/// The last events of each key.
#[derive(Clone, Debug)]
pub struct LookBack {
    buckets: HashMap<Key, Ring>,
    loose: Ring,
    /// What may have opened the window.
    openings: Ring,
    bytes: usize,
    /// How many events of a key are kept, and keys looked at.
    most: usize,
}

/// The latest events of one kind, the newest last.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    items: VecDeque<(Arc<Event>, bool)>,
    /// Whether older ones were let go of.
    pub dropped: bool,
}

impl Ring {
    /// Takes in an event that matches for certain, or perhaps; at most so many are kept. Gives the size
    /// of the one that had to go.
    pub fn push(&mut self, event: Arc<Event>, certain: bool, most: usize) -> usize {
        let mut gone = 0;
        if self.items.len() >= most {
            gone = self.items.pop_front().map_or(0, |(old, _)| old.weight());
            self.dropped = true;
        }
        self.items.push_back((event, certain));
        gone
    }

    /// The position of the oldest one.
    pub fn oldest(&self) -> Option<Seq> {
        self.items.front().map(|(event, _)| event.seq)
    }

    /// The events, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &(Arc<Event>, bool)> {
        self.items.iter().rev()
    }
}

/// Candidates that are to be looked at one by one.
pub struct Candidates {
    /// The events, the oldest first.
    pub events: Vec<Arc<Event>>,
    /// Whether there were older ones.
    pub dropped: Option<Seq>,
}

impl LookBack {
    /// An empty store.
    pub fn new(most: usize) -> LookBack {
        let (buckets, loose, openings) = (HashMap::new(), Ring::default(), Ring::default());
        LookBack { buckets, loose, openings, bytes: 0, most }
    }

    /// Takes in an event.
    pub fn push(&mut self, event: Arc<Event>, certain: bool, key: Key) {
        let mut grown = event.weight();
        let ring = if is_exact(&key) {
            if !self.buckets.contains_key(&key) {
                grown += 96 + key.iter().map(Part::weight).sum::<usize>();
            }
            self.buckets.entry(key).or_default()
        } else {
            &mut self.loose
        };
        let gone = ring.push(event, certain, self.most);
        self.bytes = (self.bytes + grown).saturating_sub(gone);
    }

    /// An event opens the window anew, for certain or perhaps.
    pub fn open(&mut self, event: Arc<Event>, certain: bool) {
        let grown = event.weight();
        let gone = self.openings.push(event, certain, self.most);
        self.bytes = (self.bytes + grown).saturating_sub(gone);
    }

    /// What may have opened the window, the newest first.
    pub fn openings(&self) -> &Ring {
        &self.openings
    }

    /// A rough size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The events that may have this key, no more than are looked at.
    pub fn candidates(&self, asked: &Asked) -> Candidates {
        let mut rings: Vec<&Ring> = if is_exact(&asked.parts) {
            self.buckets.get(&asked.parts).into_iter().collect()
        } else if self.buckets.len() > self.most {
            // Too many keys may be meant: nothing is looked at, and everything is out of reach.
            return Candidates { events: Vec::new(), dropped: Some(Seq::MAX) };
        } else {
            self.buckets.iter().filter(|(name, _)| may_equal(name, &asked.parts)).map(|(_, ring)| ring).collect()
        };
        rings.push(&self.loose);
        let mut events: Vec<Arc<Event>> = rings.iter().flat_map(|r| r.items.iter().map(|(e, _)| e.clone())).collect();
        events.sort_by_key(|e| e.seq);
        let mut dropped = rings.iter().filter(|r| r.dropped).filter_map(|r| r.items.front().map(|(e, _)| e.seq)).max();
        if events.len() > self.most {
            let kept = events.split_off(events.len() - self.most);
            dropped = dropped.max(kept.first().map(|e| e.seq));
            events = kept;
        }
        Candidates { events, dropped }
    }
}
