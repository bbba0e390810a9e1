//! The table of sessions: who is here, bounded in number, dropped when idle.
//!
//! The table's lock is held for a look-up only; each session has a lock of its own, and neither is
//! held across an await.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    audit::{Mode, PackRef},
    engine::Pack,
    model::{Limits, PackQuery},
};

use super::{
    barrier::Episode,
    follow::Moved,
    journal::{Head, Journal},
    judging::Judging,
    requests::Recent,
    rules::{Generation, SessionRules},
};

/// Bounds of the table.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Sessions at once.
    pub sessions: usize,
    /// Idle time after which a session is dropped.
    pub ttl: Duration,
    /// Results kept per session.
    pub retained: usize,
    /// What one may cost, where its pack does not set less.
    pub each: Limits,
    /// Bytes of what is kept of a session so that it survives a restart.
    pub journal: usize,
    /// Sets of rules in memory: the served one, and those of open sessions.
    pub generations: usize,
}

/// One session.
#[derive(Debug)]
pub struct Slot {
    /// Its id.
    pub id: Arc<str>,
    /// The agent, as the caller names it; may be empty.
    pub agent: Arc<str>,
    /// Its mode.
    pub mode: Mode,
    /// How its rules were asked for: `NAME` or `NAME@RANGE`.
    pub asked: Arc<str>,
    /// The rules that it is under.
    pub pack: Arc<PackRef>,
    /// The set that these rules belong to.
    pub generation: Generation,
    /// What its two sides share, if it is an episode that an auditor and a target join.
    pub episode: Option<Arc<Episode>>,
    /// What its items have led to. A panic under this lock leaves it poisoned, and the session is
    /// then refused for good.
    pub live: Mutex<Live>,
    /// When it was last asked for, in milliseconds on the service's clock.
    touched: AtomicU64,
}

/// What changes of a session.
#[derive(Debug)]
pub struct Live {
    /// What its items have led to.
    pub judging: Judging,
    /// What is kept of it.
    pub journal: Journal,
    /// Its last requests that had a name.
    pub named: Recent,
    /// The rules that it was under before, until its first answer since.
    pub moved: Option<Moved>,
    /// The item whose answer was the first since it moved, and the rules before that.
    pub followed: Option<(u64, Arc<PackRef>)>,
    /// It takes nothing more, and is not in the table any longer.
    pub closed: bool,
    /// It goes on under other rules, and is not in the table any longer.
    pub left: bool,
}

impl Live {
    /// Of a session that begins, or goes on after a restart.
    pub fn new(judging: Judging, journal: Journal) -> Live {
        Live { judging, journal, named: Recent::default(), moved: None, followed: None, closed: false, left: false }
    }
}

/// What became of a session that was to be put into the table.
#[derive(Debug)]
pub enum Put {
    /// It is there.
    Ours(Arc<Slot>),
    /// Another of its id was there.
    Found(Arc<Slot>),
    /// It was not wanted any more, and is not there.
    Unwanted(Arc<Slot>),
}

/// A session that is to be put into the table.
#[derive(Debug)]
pub struct Opening<'a> {
    /// Its id.
    pub id: &'a str,
    /// The agent; may be empty.
    pub agent: &'a str,
    /// Its mode.
    pub mode: Mode,
    /// How its pack was asked for.
    pub asked: &'a str,
    /// Its rules.
    pub rules: &'a SessionRules,
    /// What its two sides share, if it has two.
    pub episode: Option<Arc<Episode>>,
}

impl Slot {
    /// Whether the rules that it is under are among those that are asked for so.
    pub fn fits(&self, asked: &str) -> bool {
        asked == &*self.asked || PackQuery::parse(asked).is_ok_and(|query| self.pack.is_of(&query))
    }

    /// When it was last asked for.
    pub fn touched(&self) -> Duration {
        Duration::from_millis(self.touched.load(Ordering::Relaxed))
    }
}

impl SessionLimits {
    /// The limits of a session under a pack.
    pub fn within(&self, pack: &Pack) -> Limits {
        pack.limits().min(self.each)
    }
}

impl<'a> Opening<'a> {
    /// Of a session that goes on after what its journal begins with.
    pub fn again(id: &'a str, head: &'a Head, rules: &'a SessionRules) -> Opening<'a> {
        Opening { id, agent: &head.agent, mode: head.mode, asked: &head.asked, rules, episode: None }
    }

    /// What the session's journal begins with.
    pub fn head(&self, limits: &SessionLimits) -> Head {
        Head {
            whole: self.episode.is_none(),
            agent: self.agent.into(),
            mode: self.mode,
            asked: self.asked.into(),
            pack: self.rules.named.clone(),
            limits: format!("{:?}", limits.within(&self.rules.pack)),
        }
    }
}

/// All sessions.
#[derive(Debug)]
pub struct Sessions {
    limits: SessionLimits,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_id: HashMap<Arc<str>, Entry>,
    /// Sessions that have ended, oldest first: kept to answer repeated items, and the first to go.
    ended: VecDeque<Arc<Slot>>,
    /// Open sessions per generation.
    generations: BTreeMap<Generation, u64>,
    /// Sessions that ended because their rules were too old, and when: whoever asks for one is told.
    outlived: HashMap<Arc<str>, Duration>,
}

#[derive(Debug)]
struct Entry {
    slot: Arc<Slot>,
    ended: bool,
}

/// The table is full of open sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// How many it holds.
    pub limit: usize,
}

impl Sessions {
    /// An empty table.
    pub fn new(limits: SessionLimits) -> Sessions {
        Sessions { limits, table: Mutex::default() }
    }

    /// The session of an id, which counts as asked for now.
    pub fn find(&self, id: &str, now: Duration) -> Option<Arc<Slot>> {
        let table = self.table();
        let entry = table.by_id.get(id)?;
        entry.slot.touched.store(millis(now), Ordering::Relaxed);
        Some(entry.slot.clone())
    }

    /// How many answers a session keeps for repetitions.
    pub fn kept_answers(&self) -> usize {
        self.limits.retained
    }

    /// Whether there is a session of an id. It does not count as asked for.
    pub fn holds(&self, id: &str) -> bool {
        self.table().by_id.contains_key(id)
    }

    /// Opens a session, or finds the one that another call has opened meanwhile.
    pub fn open(&self, opening: &Opening<'_>, seed: u64, now: Duration) -> Result<Arc<Slot>, Full> {
        let journal = Journal::new(opening.id.into(), opening.head(&self.limits), self.limits.journal);
        let judging = Judging::new(opening.rules.pack.clone(), &self.limits, seed);
        match self.put(opening, Live::new(judging, journal), now, || true)? {
            Put::Ours(slot) | Put::Found(slot) | Put::Unwanted(slot) => Ok(slot),
        }
    }

    /// Puts a session into the table, if it is `wanted` once all else is decided, or finds the one that another call has
    /// put there meanwhile.
    pub fn put(
        &self,
        opening: &Opening<'_>,
        live: Live,
        now: Duration,
        wanted: impl FnOnce() -> bool,
    ) -> Result<Put, Full> {
        let Opening { id, agent, mode, asked, rules, ref episode } = *opening;
        let slot = Arc::new(Slot {
            id: id.into(),
            agent: agent.into(),
            mode,
            asked: asked.into(),
            pack: rules.named.clone(),
            generation: rules.generation,
            episode: episode.clone(),
            live: Mutex::new(live),
            touched: AtomicU64::new(millis(now)),
        });
        let mut table = self.table();
        if let Some(entry) = table.by_id.get(id) {
            return Ok(Put::Found(entry.slot.clone()));
        }
        if table.by_id.len() >= self.limits.sessions {
            table.forget_oldest_ended().ok_or(Full { limit: self.limits.sessions })?;
        }
        if !wanted() {
            return Ok(Put::Unwanted(slot));
        }
        *table.generations.entry(slot.generation).or_default() += 1;
        table.outlived.remove(id);
        table.by_id.insert(slot.id.clone(), Entry { slot: slot.clone(), ended: false });
        Ok(Put::Ours(slot))
    }

    /// The bounds.
    pub fn limits(&self) -> &SessionLimits {
        &self.limits
    }

    /// Notes that a session has ended.
    pub fn ended(&self, slot: &Arc<Slot>) {
        let mut table = self.table();
        let Some(entry) = table.by_id.get_mut(&slot.id) else { return };
        if Arc::ptr_eq(&entry.slot, slot) && !entry.ended {
            entry.ended = true;
            table.ended.push_back(slot.clone());
            table.closed(slot.generation);
        }
    }

    /// Open sessions that nobody has asked for within the idle time.
    pub fn idle(&self, now: Duration) -> Vec<Arc<Slot>> {
        let table = self.table();
        let idle = table.by_id.values().filter(|e| !e.ended && self.is_idle(&e.slot, now));
        idle.map(|e| e.slot.clone()).collect()
    }

    /// Takes an open session out, if it is still idle; whether it was.
    pub fn take_idle(&self, slot: &Arc<Slot>, now: Duration) -> bool {
        let mut table = self.table();
        let entry = table.by_id.get(&slot.id);
        let idle = entry.is_some_and(|e| Arc::ptr_eq(&e.slot, slot) && !e.ended && self.is_idle(slot, now));
        if idle {
            table.by_id.remove(&slot.id);
            table.closed(slot.generation);
        }
        idle
    }

    /// Takes out the ended sessions that nobody has asked for within the idle time; gives their number.
    pub fn forget_idle_ended(&self, now: Duration) -> usize {
        let mut table = self.table();
        let Table { by_id, ended, outlived, .. } = &mut *table;
        outlived.retain(|_, since| now.saturating_sub(*since) <= self.limits.ttl);
        let before = ended.len();
        ended.retain(|slot| {
            let idle = self.is_idle(slot, now);
            if idle {
                by_id.remove(&slot.id);
            }
            !idle
        });
        before - ended.len()
    }

    fn is_idle(&self, slot: &Slot, now: Duration) -> bool {
        now.checked_sub(self.limits.ttl).is_some_and(|oldest| slot.touched.load(Ordering::Relaxed) < millis(oldest))
    }

    /// Takes a session out; nothing if it is not there. Whether it had ended.
    pub fn take(&self, id: &str) -> Option<(Arc<Slot>, bool)> {
        self.table().take(id)
    }

    /// Takes this session out, unless it is out already.
    pub fn take_this(&self, slot: &Arc<Slot>) -> Option<(Arc<Slot>, bool)> {
        let mut table = self.table();
        let is_there = table.by_id.get(&slot.id).is_some_and(|entry| Arc::ptr_eq(&entry.slot, slot));
        if is_there { table.take(&slot.id) } else { None }
    }

    /// Open sessions per generation of rules, those with any.
    pub fn generations(&self) -> BTreeMap<Generation, u64> {
        self.table().generations.clone()
    }

    /// Open sessions under other rules than those that are `served`, by these, the oldest first.
    pub fn under_old(&self, served: Generation) -> BTreeMap<Generation, Vec<Arc<Slot>>> {
        let mut old: BTreeMap<Generation, Vec<Arc<Slot>>> = BTreeMap::new();
        let table = self.table();
        for Entry { slot, .. } in table.by_id.values().filter(|e| !e.ended && e.slot.generation != served) {
            old.entry(slot.generation).or_default().push(slot.clone());
        }
        old
    }

    /// Takes an open session out whose rules are too old; whether it was there.
    pub fn take_outlived(&self, slot: &Arc<Slot>, now: Duration) -> bool {
        let mut table = self.table();
        let open = table.by_id.get(&slot.id).is_some_and(|entry| Arc::ptr_eq(&entry.slot, slot) && !entry.ended);
        if open {
            table.take(&slot.id);
            table.note_outlived(slot.id.clone(), now, self.limits.sessions);
        }
        open
    }

    /// Notes that a session that is not in the table has ended because its rules were too old.
    pub fn note_outlived(&self, session: Arc<str>, now: Duration) {
        self.table().note_outlived(session, now, self.limits.sessions);
    }

    /// Whether the last session of an id ended, not long ago, because its rules were too old.
    pub fn has_outlived(&self, id: &str) -> bool {
        self.table().outlived.contains_key(id)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // No code under this lock can panic half-way through a change of more than one field that
        // must agree; at worst a count is off by one.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn note_outlived(&mut self, session: Arc<str>, now: Duration, most: usize) {
        if self.outlived.len() < most {
            self.outlived.insert(session, now);
        }
    }

    fn take(&mut self, id: &str) -> Option<(Arc<Slot>, bool)> {
        let Entry { slot, ended } = self.by_id.remove(id)?;
        match ended {
            true => self.ended.retain(|other| !Arc::ptr_eq(other, &slot)),
            false => self.closed(slot.generation),
        }
        Some((slot, ended))
    }

    fn closed(&mut self, generation: Generation) {
        if let Some(open) = self.generations.get_mut(&generation) {
            *open = open.saturating_sub(1);
            if *open == 0 {
                self.generations.remove(&generation);
            }
        }
    }

    fn forget_oldest_ended(&mut self) -> Option<()> {
        let slot = self.ended.pop_front()?;
        self.by_id.remove(&slot.id).map(|_| ())
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
