//! What is kept of sessions between their probes: figures, and the last signals with redacted answers. Bounded in
//! number and dropped when idle, as the sessions of traces are.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    audit::{DriftRecord, JournalChange, JournalWrite, RecordNumber},
    drift::{Selector, SessionState, Unsettled},
    model::Digest,
    service::{
        resume::Dormant,
        sessions::{Full, SessionLimits, millis},
    },
};

use super::saved::journal_name;

/// All sessions with probes.
#[derive(Debug)]
pub struct DriftSessions {
    limits: SessionLimits,
    table: Mutex<Table>,
    names: RandomState,
    /// Those that were open before the service began, by the names of their journals.
    pub(in crate::service) dormant: Dormant,
}

/// A session's memories by the lines of packs: probes of versions that are not meant to be exchanged do not add up.
type Memories = Vec<(Arc<str>, Arc<DriftSlot>)>;

/// The open sessions.
#[derive(Debug, Default)]
struct Table {
    /// Probes of different packs do not add up.
    by_session: HashMap<Arc<str>, Memories>,
    /// How many memories there are.
    open: usize,
}

impl Table {
    fn find(&self, session: &str, pack: &str) -> Option<&Arc<DriftSlot>> {
        self.by_session.get(session)?.iter().find(|(name, _)| **name == *pack).map(|(_, slot)| slot)
    }

    /// Takes out the memories of a session that `goes` chooses.
    fn take(&mut self, session: &str, goes: impl Fn(&DriftSlot) -> bool) -> Vec<Arc<DriftSlot>> {
        let Some(memories) = self.by_session.get_mut(session) else { return Vec::new() };
        let taken: Vec<Arc<DriftSlot>> =
            memories.extract_if(.., |(_, slot)| goes(slot)).map(|(_, slot)| slot).collect();
        if memories.is_empty() {
            self.by_session.remove(session);
        }
        self.open -= taken.len();
        taken
    }
}

/// One session.
#[derive(Debug)]
pub(super) struct DriftSlot {
    /// Its id.
    pub(super) id: Arc<str>,
    /// The name under which the store keeps it.
    journal: Arc<str>,
    /// Tells this memory from one of the same session that was dropped.
    nonce: u64,
    /// Evaluations that were given a name.
    named: AtomicU64,
    memory: Mutex<Memory>,
    /// When it was last asked for, in milliseconds on the service's clock.
    touched: AtomicU64,
}

/// What a session's probes have led to.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) state: SessionState,
    pub(super) selector: Selector,
    /// The agent of the last probe.
    pub(super) agent: Arc<str>,
    /// The last evaluations, oldest first.
    answered: VecDeque<Evaluated>,
    keep: usize,
    /// It is not in the table any longer, and is not saved.
    dropped: bool,
}

/// An evaluation that can be repeated, or settled by a baseline.
#[derive(Clone, Debug)]
pub(super) struct Evaluated {
    /// The caller's name for it; may be empty.
    pub(super) request_id: String,
    /// A fingerprint of its content.
    pub(super) print: Digest,
    /// What a baseline that comes later needs; nothing if none is wanted.
    pub(super) unsettled: Option<Unsettled>,
    /// As it was answered and recorded; all text in it is redacted.
    pub(super) record: Arc<DriftRecord>,
    /// A record before the first that there is of it.
    pub(super) behind: RecordNumber,
}

impl DriftSessions {
    /// An empty table.
    pub fn new(limits: SessionLimits) -> DriftSessions {
        DriftSessions { limits, table: Mutex::default(), names: RandomState::new(), dormant: Dormant::default() }
    }

    /// The session of an id under a pack, if there is one.
    pub(super) fn find(&self, session: &str, pack: &str, now: Duration) -> Option<Arc<DriftSlot>> {
        let found = self.table().find(session, pack).cloned()?;
        found.touched.store(millis(now), Ordering::Relaxed);
        Some(found)
    }

    /// Puts a session into the table, or finds the one that another call has put there meanwhile.
    pub(super) fn put(&self, session: &str, pack: &str, memory: Memory, now: Duration) -> Result<Arc<DriftSlot>, Full> {
        let mut table = self.table();
        if let Some(found) = table.find(session, pack) {
            found.touched.store(millis(now), Ordering::Relaxed);
            return Ok(found.clone());
        }
        if table.open >= self.limits.sessions {
            return Err(Full { limit: self.limits.sessions });
        }
        let id: Arc<str> = Arc::from(session);
        let slot = Arc::new(DriftSlot {
            id: id.clone(),
            journal: journal_name(pack, session),
            nonce: self.names.hash_one((session, pack, now)),
            named: AtomicU64::new(0),
            memory: Mutex::new(memory),
            touched: AtomicU64::new(millis(now)),
        });
        table.by_session.entry(id).or_default().push((Arc::from(pack), slot.clone()));
        table.open += 1;
        Ok(slot)
    }

    /// Drops the sessions that nobody has asked for within the idle time. Gives their number, and what `forget` makes
    /// of the changes that drop what is kept of them: it is called before another session can take their names.
    pub(super) fn sweep<T>(&self, now: Duration, forget: impl FnOnce(Vec<JournalWrite>) -> T) -> (usize, T) {
        let oldest = now.checked_sub(self.limits.ttl).map_or(0, millis);
        let is_idle = |slot: &DriftSlot| slot.touched.load(Ordering::Relaxed) < oldest;
        let mut table = self.table();
        let asked = table.by_session.iter().filter(|(_, memories)| memories.iter().any(|(_, slot)| is_idle(slot)));
        let sessions: Vec<Arc<str>> = asked.map(|(session, _)| session.clone()).collect();
        let idle = sessions.iter().flat_map(|session| table.take(session, is_idle)).collect::<Vec<_>>();
        let mut names: Vec<Arc<str>> = idle.iter().map(|slot| slot.drop_memory()).collect();
        names.extend(self.dormant.take_idle(now, self.limits.ttl));
        let dropped = names.len();
        (dropped, forget(dropping(names)))
    }

    /// Ends what probes of a session have led to, under whatever pack; `packs` are those whose memories may still lie in
    /// the store. Gives what `forget` makes of the changes that drop what is kept of it, none if there was nothing: it is called
    /// before another session can take the name.
    pub(in crate::service) fn close<T>(
        &self,
        session: &str,
        lines: impl Iterator<Item = String>,
        forget: impl FnOnce(Vec<JournalWrite>) -> T,
    ) -> T {
        let mut table = self.table();
        let mut names: Vec<Arc<str>> = table.take(session, |_| true).iter().map(|slot| slot.drop_memory()).collect();
        let asleep = lines.map(|line| journal_name(&line, session)).filter(|name| self.dormant.wakes(name, || ()));
        names.extend(asleep);
        forget(dropping(names))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Each change of the table is one step.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The changes that drop what is kept under some names.
fn dropping(names: Vec<Arc<str>>) -> Vec<JournalWrite> {
    names.into_iter().map(|session| JournalWrite { session, change: JournalChange::Drop }).collect()
}

impl DriftSlot {
    /// Gives the name of what is kept of a memory that is out of the table. Whoever still holds it goes on without
    /// saving it.
    fn drop_memory(&self) -> Arc<str> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).dropped = true;
        self.journal.clone()
    }

    /// The memory; nothing if a panic has left it half-way.
    pub(super) fn memory(&self) -> Option<MutexGuard<'_, Memory>> {
        self.memory.lock().ok()
    }

    /// The name under which the store keeps it.
    pub(super) fn journal(&self) -> &Arc<str> {
        &self.journal
    }

    /// A name for the next evaluation.
    pub(super) fn evaluation(&self) -> Arc<str> {
        let number = self.named.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::from(format!("{:016x}-{number}", self.nonce))
    }
}

impl Memory {
    /// A memory without evaluations to repeat. So many of the last ones will be kept.
    pub(super) fn new(state: SessionState, selector: Selector, keep: usize) -> Memory {
        Memory { state, selector, agent: Arc::from(""), answered: VecDeque::new(), keep, dropped: false }
    }

    /// Whether it is to be saved no more.
    pub(super) fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// The last evaluations, oldest first.
    pub(super) fn evaluations(&self) -> &VecDeque<Evaluated> {
        &self.answered
    }

    /// The evaluation that a caller gave a name.
    pub(super) fn named(&self, request_id: &str) -> Option<&Evaluated> {
        self.answered.iter().find(|e| !request_id.is_empty() && e.request_id == request_id)
    }

    /// The evaluation of a name of ours.
    pub(super) fn evaluation(&mut self, id: &str) -> Option<&mut Evaluated> {
        self.answered.iter_mut().find(|e| *e.record.evaluation == *id)
    }

    /// Keeps an evaluation. The last ones are kept, and those that may wait for a baseline.
    pub(super) fn keep(&mut self, evaluated: Evaluated) {
        self.answered.push_back(evaluated);
        let keep = self.keep.max(crate::drift::MOST_OPEN);
        let surplus = self.answered.len().saturating_sub(keep);
        self.answered.drain(..surplus);
    }
}
