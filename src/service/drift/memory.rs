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
    audit::DriftRecord,
    drift::{Selector, SessionState, Signal},
    model::Digest,
    service::sessions::{Full, SessionLimits, millis},
};

/// All sessions with probes.
#[derive(Debug)]
pub struct DriftSessions {
    limits: SessionLimits,
    table: Mutex<HashMap<Key, Arc<DriftSlot>>>,
    names: RandomState,
}

/// A session under a pack: probes of different packs do not add up.
type Key = (Arc<str>, Arc<str>);

/// One session.
#[derive(Debug)]
pub(super) struct DriftSlot {
    /// Its id.
    pub(super) id: Arc<str>,
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
}

/// An evaluation that can be repeated, or settled by a baseline.
#[derive(Clone, Debug)]
pub(super) struct Evaluated {
    /// The caller's name for it; may be empty.
    pub(super) request_id: String,
    /// A fingerprint of its content.
    pub(super) print: Digest,
    /// As it was recorded; all text in it is redacted.
    pub(super) signal: Signal,
    /// As it was answered.
    pub(super) record: Arc<DriftRecord>,
}

impl DriftSessions {
    /// An empty table.
    pub fn new(limits: SessionLimits) -> DriftSessions {
        DriftSessions { limits, table: Mutex::default(), names: RandomState::new() }
    }

    /// The session of an id under a pack, if there is one.
    pub(super) fn find(&self, session: &str, pack: &str, now: Duration) -> Option<Arc<DriftSlot>> {
        let found = self.table().get(&(Arc::from(session), Arc::from(pack))).cloned()?;
        found.touched.store(millis(now), Ordering::Relaxed);
        Some(found)
    }

    /// The session of an id under a pack; a new one if there is none.
    pub(super) fn open(
        &self,
        session: &str,
        pack: &str,
        library_version: &str,
        seed: u64,
        now: Duration,
    ) -> Result<Arc<DriftSlot>, Full> {
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
            nonce: self.names.hash_one((session, pack, now)),
            named: AtomicU64::new(0),
            memory: Mutex::new(Memory {
                state: SessionState::new(session, library_version),
                selector: Selector::new(seed),
                agent: Arc::from(""),
                answered: VecDeque::new(),
                keep: self.limits.retained,
            }),
            touched: AtomicU64::new(millis(now)),
        });
        Ok(table.entry((id, Arc::from(pack))).or_insert(slot).clone())
    }

    /// Drops the sessions that nobody has asked for within the idle time; gives their number.
    pub fn sweep(&self, now: Duration) -> usize {
        let Some(oldest) = now.checked_sub(self.limits.ttl).map(millis) else { return 0 };
        let idle: Vec<_> = self.table().extract_if(|_, slot| slot.touched.load(Ordering::Relaxed) < oldest).collect();
        idle.len()
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

    /// A name for the next evaluation.
    pub(super) fn evaluation(&self) -> Arc<str> {
        let number = self.named.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::from(format!("{:016x}-{number}", self.nonce))
    }
}

impl Memory {
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
