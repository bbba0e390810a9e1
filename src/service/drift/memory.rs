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
    table: Mutex<HashMap<Key, Arc<DriftSlot>>>,
    names: RandomState,
    /// Those that were open before the service began, by the names of their journals.
    pub(in crate::service) dormant: Dormant,
}

/// A session under a pack: probes of different packs do not add up.
type Key = (Arc<str>, Arc<str>);

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
        let found = self.table().get(&(Arc::from(session), Arc::from(pack))).cloned()?;
        found.touched.store(millis(now), Ordering::Relaxed);
        Some(found)
    }

    /// Puts a session into the table, or finds the one that another call has put there meanwhile.
    pub(super) fn put(&self, session: &str, pack: &str, memory: Memory, now: Duration) -> Result<Arc<DriftSlot>, Full> {
        if let Some(found) = self.find(session, pack, now) {
            return Ok(found);
        }
        let mut table = self.table();
        if table.len() >= self.limits.sessions {
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
        Ok(table.entry((id, Arc::from(pack))).or_insert(slot).clone())
    }

    /// Drops the sessions that nobody has asked for within the idle time. Gives their number, and what `forget` makes
    /// of the changes that drop what is kept of them: it is called before another session can take their names.
    pub(super) fn sweep<T>(&self, now: Duration, forget: impl FnOnce(Vec<JournalWrite>) -> T) -> (usize, T) {
        let oldest = now.checked_sub(self.limits.ttl).map_or(0, millis);
        let mut table = self.table();
        let idle = table.extract_if(|_, slot| slot.touched.load(Ordering::Relaxed) < oldest);
        let mut names: Vec<Arc<str>> = Vec::new();
        for (_, slot) in idle {
            // Whoever still holds it goes on without saving it.
            slot.memory.lock().unwrap_or_else(PoisonError::into_inner).dropped = true;
            names.push(slot.journal.clone());
        }
        names.extend(self.dormant.take_idle(now, self.limits.ttl));
        let dropped = names.len();
        let writes = names.into_iter().map(|session| JournalWrite { session, change: JournalChange::Drop });
        (dropped, forget(writes.collect()))
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Key, Arc<DriftSlot>>> {
        // Each change of the table is one step.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DriftSlot {
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
