//! The state of one order pattern: how far earlier events have come in it, and what may have come between.
//!
//! A *partial* match is a choice of events for the first steps. It is filed under the value that the next
//! step must equal, so an arriving event meets only those it can continue. Of partial matches that later
//! steps cannot tell apart the latest is kept: it lies nearest to whatever follows, and less can have come
//! between. Nothing here evaluates expressions.

use std::{
    cmp::Ordering,
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{
    cell::Ring,
    key::{Key, Part, is_exact, may_equal},
    program,
    tally::Place,
    val::Tri,
};
use crate::model::{Event, Num, Seq};

/// A choice of events for the first steps.
#[derive(Clone, Debug)]
pub struct Partial {
    /// The events, by position in the trace.
    pub seqs: Vec<Seq>,
    /// Those that something later reads, by step.
    pub events: Vec<Option<Arc<Event>>>,
    /// Values that the judged event must equal.
    pub ends: Key,
    /// What later steps can tell it from others by.
    pub same: Key,
    /// Whether every step matches: for certain, or perhaps.
    pub holds: Tri,
    /// Where the last of the events stands.
    pub place: Place,
}

impl Partial {
    /// The one whose last event is later, then the one before that, and so on.
    pub fn by_latest(&self, other: &Partial) -> Ordering {
        self.seqs.iter().rev().cmp(other.seqs.iter().rev())
    }

    /// How sure it is: for certain, for all that a limit lets us see, or perhaps.
    fn sureness(&self) -> u8 {
        match self.holds {
            Tri::Unknown(why) => u8::from(why.limit().is_some()),
            _ => 2,
        }
    }

    /// Whether whatever continues the other one continues this one as well, and at least as surely. `timed`
    /// says that the time since the last event matters: an event without a time is at an unknown distance
    /// for good, any other passes out of the window.
    fn dominates(&self, other: &Partial, timed: bool) -> bool {
        if self.same != other.same || self.ends != other.ends || self.by_latest(other) == Ordering::Less {
            return false;
        }
        let as_sure = self.sureness() >= other.sureness();
        if !timed {
            return as_sure;
        }
        match (self.place.time, other.place.time) {
            (Some(_), Some(_)) => as_sure,
            (Some(_), None) => false,
            // At an unknown distance it is never more than a perhaps.
            (None, Some(_)) => other.sureness() == 0,
            (None, None) => true,
        }
    }

    fn weight(&self) -> usize {
        let parts = self.ends.iter().chain(&self.same).map(|part| 32 + part.weight());
        let events = self.events.iter().flatten().map(|event| event.weight());
        128 + 16 * self.seqs.len() + parts.chain(events).sum::<usize>()
    }
}

/// What was let go of, or cannot be found: a partial match that there may be, by its last event.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// Where the latest of them stands.
    pub place: Place,
    /// Whether one of them has no time.
    timeless: bool,
}

impl Lost {
    /// One that was lost at an event.
    pub fn at(place: Place) -> Lost {
        Lost { place, timeless: place.time.is_none() }
    }

    fn add(so_far: &mut Option<Lost>, more: Lost) {
        let merged = so_far.map_or(more, |held| Lost {
            place: if held.place.seq > more.place.seq { held.place } else { more.place },
            timeless: held.timeless || more.timeless,
        });
        *so_far = Some(merged);
    }

    /// Whether one of them may still be continued at a place.
    pub fn matters(&self, gap: &program::Gap, at: &Place) -> bool {
        let near = Place { time: if self.timeless { None } else { self.place.time }, ..self.place };
        gap.within(&near, at) != Some(false)
    }
}

impl program::Gap {
    /// Whether two events are near enough in turns and events.
    fn reaches(&self, from: &Place, to: &Place) -> bool {
        self.window.turns.is_none_or(|n| to.turn.saturating_sub(from.turn) <= n)
            && self.window.events.is_none_or(|n| to.ordinal.saturating_sub(from.ordinal) <= u64::from(n))
    }

    /// Whether two events are near enough; none if one of them has no time to say so.
    pub fn within(&self, from: &Place, to: &Place) -> Option<bool> {
        if !self.reaches(from, to) {
            return Some(false);
        }
        let Some(limit) = self.window.time else { return Some(true) };
        let age = |now: Num, then: Num| now.sub(then).is_none_or(|age| age <= limit);
        Some(age(to.time?, from.time?))
    }
}

/// The partial matches after one step.
#[derive(Clone, Debug, Default)]
struct Stage {
    /// By values that can be compared exactly.
    buckets: HashMap<Key, Bucket>,
    /// By values that cannot.
    loose: HashMap<Key, Bucket>,
    /// Some that there may be under any value.
    lost: Option<Lost>,
}

/// The partial matches under one value, the latest last.
#[derive(Clone, Debug, Default)]
struct Bucket {
    partials: VecDeque<Arc<Partial>>,
    dropped: Option<Lost>,
}

/// Partial matches that an event may continue.
#[derive(Default)]
pub struct Found {
    /// With whether the values are equal for certain; the latest first.
    pub partials: Vec<(Arc<Partial>, bool)>,
    /// Others that there may be.
    pub lost: Option<Lost>,
}

/// What may have come between two steps.
#[derive(Clone, Debug, Default)]
pub struct Between {
    /// By values that can be compared exactly.
    buckets: HashMap<Key, Came>,
    /// By values that cannot.
    loose: HashMap<Key, Came>,
}

/// The events of one value.
#[derive(Clone, Debug, Default)]
struct Came {
    /// The latest that matches for certain.
    certain: Option<Seq>,
    /// The latest that matches for certain or perhaps.
    possible: Option<Seq>,
    /// The events themselves, where they are looked at one by one.
    ring: Ring,
}

/// Events that may have come between, where they are looked at one by one.
pub struct Suspects {
    /// With whether the values are equal for certain.
    pub events: Vec<(Arc<Event>, bool)>,
    /// Not all of them can be looked at.
    pub incomplete: bool,
}

/// The state of one order pattern.
#[derive(Clone, Debug)]
pub struct SequenceState {
    stages: Vec<Stage>,
    between: Vec<Between>,
    bytes: usize,
    /// How many of anything under one value are kept and looked at, and how many values where the one that is
    /// asked for is not known.
    most: usize,
}

impl SequenceState {
    /// Nothing has come yet.
    pub fn new(steps: usize, most: usize) -> SequenceState {
        SequenceState {
            stages: vec![Stage::default(); steps],
            // Before each step, and before the judged event.
            between: vec![Between::default(); steps + 1],
            bytes: 0,
            most,
        }
    }

    /// A rough size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Files a partial match under the value of what comes next; `next` is the gap before that. Gives the
    /// number of others that it was compared with.
    pub fn file(&mut self, step: usize, key: Key, partial: Partial, next: &program::Gap) -> usize {
        let Some(stage) = self.stages.get_mut(step) else { return 0 };
        let held = if is_exact(&key) { &mut stage.buckets } else { &mut stage.loose };
        if !held.contains_key(&key) {
            self.bytes += 96 + key.iter().map(Part::weight).sum::<usize>();
        }
        let bucket = held.entry(key).or_default();
        let compared = bucket.partials.len();
        let timed = next.window.time.is_some();
        if bucket.partials.iter().any(|held| held.dominates(&partial, timed)) {
            return compared;
        }
        let mut gone = 0;
        // Nothing passes out of a window in time for good: an event without a time is at an unknown distance.
        bucket.partials.retain(|held| {
            let stays = !partial.dominates(held, timed) && next.reaches(&held.place, &partial.place);
            gone += if stays { 0 } else { held.weight() };
            stays
        });
        if bucket.partials.len() >= self.most
            && let Some(oldest) = bucket.partials.pop_front()
        {
            gone += oldest.weight();
            Lost::add(&mut bucket.dropped, Lost::at(oldest.place));
        }
        self.bytes = (self.bytes + partial.weight()).saturating_sub(gone);
        bucket.partials.push_back(Arc::new(partial));
        compared
    }

    /// A partial match cannot be found that there may be.
    pub fn lose(&mut self, step: usize, lost: Lost) {
        if let Some(stage) = self.stages.get_mut(step) {
            Lost::add(&mut stage.lost, lost);
        }
    }

    /// The partial matches after a step that may have a value, no more than are looked at.
    pub fn after(&self, step: usize, key: &[Part], at: &Place) -> Found {
        let Some(stage) = self.stages.get(step) else { return Found::default() };
        let mut found = Found { partials: Vec::new(), lost: stage.lost };
        let mut take = |bucket: &Bucket, equal: bool| {
            found.partials.extend(bucket.partials.iter().map(|p| (p.clone(), equal)));
            if let Some(dropped) = bucket.dropped {
                Lost::add(&mut found.lost, dropped);
            }
        };
        let mut too_many = stage.loose.len() > self.most;
        if is_exact(key) {
            stage.buckets.get(key).into_iter().for_each(|bucket| take(bucket, true));
        } else if stage.buckets.len() <= self.most {
            let perhaps = stage.buckets.iter().filter(|(name, _)| may_equal(name, key));
            perhaps.for_each(|(_, bucket)| take(bucket, false));
        } else {
            too_many = true;
        }
        if stage.loose.len() <= self.most {
            let perhaps = stage.loose.iter().filter(|(name, _)| may_equal(name, key));
            perhaps.for_each(|(_, bucket)| take(bucket, false));
        }
        found.partials.sort_by(|(a, _), (b, _)| b.by_latest(a));
        if found.partials.len() > self.most || too_many {
            // Which ones are left out is not told apart: one may stand right before.
            found.partials.truncate(self.most);
            Lost::add(&mut found.lost, Lost::at(Place { time: None, ..*at }));
        }
        found
    }

    /// An event comes that a gap must be without; `one_by_one` says that more than its value is compared.
    pub fn came(&mut self, gap: usize, key: Key, event: &Arc<Event>, certain: bool, one_by_one: bool) {
        let Some(between) = self.between.get_mut(gap) else { return };
        let held = if is_exact(&key) { &mut between.buckets } else { &mut between.loose };
        if !held.contains_key(&key) {
            self.bytes += 96 + key.iter().map(Part::weight).sum::<usize>();
        }
        let came = held.entry(key).or_default();
        came.possible = Some(event.seq);
        if certain {
            came.certain = Some(event.seq);
        }
        if one_by_one {
            let gone = came.ring.push(event.clone(), certain, self.most);
            self.bytes = (self.bytes + event.weight()).saturating_sub(gone);
        }
    }

    /// Whether an event that a gap must be without came after another one; none if that is open. True for
    /// "too many values may be the one".
    pub fn came_after(&self, gap: usize, key: &[Part], after: Seq) -> (Option<bool>, bool) {
        let Some(between) = self.between.get(gap) else { return (Some(false), false) };
        if between.loose.len() > self.most || (!is_exact(key) && between.buckets.len() > self.most) {
            return (None, true);
        }
        let mut possible = false;
        for (came, equal) in between.named(key) {
            if equal && came.certain > Some(after) {
                return (Some(true), false);
            }
            possible |= came.possible > Some(after);
        }
        (if possible { None } else { Some(false) }, false)
    }

    /// The events that a gap must be without and that stand between two others, to be looked at one by one.
    pub fn suspects(&self, gap: usize, key: &[Part], after: Seq, before: Seq) -> Suspects {
        let Some(between) = self.between.get(gap) else {
            return Suspects { events: Vec::new(), incomplete: false };
        };
        if between.loose.len() > self.most || (!is_exact(key) && between.buckets.len() > self.most) {
            return Suspects { events: Vec::new(), incomplete: true };
        }
        let mut suspects = Suspects { events: Vec::new(), incomplete: false };
        for (came, equal) in between.named(key) {
            let inside = came.ring.newest_first().skip_while(|(e, _)| e.seq >= before);
            let inside = inside.take_while(|(e, _)| e.seq > after);
            suspects.events.extend(inside.map(|(e, _)| (e.clone(), equal)));
            suspects.incomplete |= came.ring.dropped && came.ring.oldest() > Some(after);
        }
        suspects
    }
}

impl Between {
    /// What is filed under a value, with whether it is the value for certain.
    fn named<'b>(&'b self, key: &'b [Part]) -> impl Iterator<Item = (&'b Came, bool)> {
        let exact = is_exact(key);
        let same = self.buckets.get(key).filter(|_| exact).into_iter().map(|came| (came, true));
        let perhaps = (!exact).then_some(&self.buckets).into_iter().flatten().filter(|(name, _)| may_equal(name, key));
        let loose = self.loose.iter().filter(|(name, _)| may_equal(name, key));
        same.chain(perhaps.chain(loose).map(|(_, came)| (came, false)))
    }
}
