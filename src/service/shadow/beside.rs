//! The thread on which the candidate judges what was answered already. It takes what it is handed in the order in which
//! that was answered, and knows each session as the rules do that answer: from its first item, or from its journal.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use tokio::sync::broadcast;

use crate::{
    audit::{PackRef, Store},
    engine::Pack,
    model::Step,
    service::{
        journal::{self, Kept, Unread},
        judging::{Answer, Item, Judging},
        rules::reference,
        session_key::SessionKey,
        sessions::SessionLimits,
    },
};

use super::compare::{Difference, Totals, differ};

/// Sessions that are followed at once, and bytes that they may take together.
const FOLLOWED: usize = 10_000;
const FOLLOWED_BYTES: usize = 256 << 20;
/// What a session takes besides what its rules remember.
const EACH: usize = 2048;
/// A session that was silent for this long makes room for another one.
const SILENT: Duration = Duration::from_secs(10);
/// While more requests wait than this, no session is taken up from its journal: who is behind would stay behind.
const CALM: usize = 32;
/// How often sessions that are closed are let go while nothing else happens.
const TIDY: Duration = Duration::from_secs(1);

/// Items that were answered, and how.
#[derive(Debug)]
pub(super) struct Answered {
    /// Counts what is handed over, closings too.
    pub(super) order: u64,
    pub(super) session: Arc<str>,
    pub(super) agent: Arc<str>,
    pub(super) live: Arc<PackRef>,
    pub(super) candidate: Arc<Pack>,
    /// The number of the candidate.
    pub(super) generation: u64,
    pub(super) seed: u64,
    pub(super) items: Vec<Item>,
    /// Of the items that were judged now, each with its seq.
    pub(super) steps: Vec<(u64, Arc<Step>)>,
    pub(super) bytes: usize,
}

/// What those who hand over and the thread share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    totals: Mutex<Totals>,
    /// Sessions that were closed, and when in the order of what is handed over.
    closed: Mutex<HashMap<Arc<str>, u64>>,
    /// Requests that wait to be judged again, and their bytes.
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

impl Shared {
    pub(super) fn totals(&self) -> MutexGuard<'_, Totals> {
        // At worst a count is off by one.
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn closed(&self) -> MutexGuard<'_, HashMap<Arc<str>, u64>> {
        // Each change is one step.
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request of so many bytes; gives the bytes of all that wait.
    pub(super) fn add(&self, bytes: usize) -> usize {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    pub(super) fn remove(&self, bytes: usize) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A session as the candidate knows it.
#[derive(Debug)]
struct Followed {
    reference: Arc<PackRef>,
    /// Nothing if its past cannot be known.
    judging: Option<Judging>,
    spoke: Instant,
    bytes: usize,
}

/// The sessions that are followed, all under one candidate.
#[derive(Debug, Default)]
struct Table {
    generation: u64,
    sessions: HashMap<Arc<str>, Followed>,
    bytes: usize,
}

impl Table {
    fn remove(&mut self, session: &str) {
        if let Some(gone) = self.sessions.remove(session) {
            self.bytes -= gone.bytes;
        }
    }

    /// Makes room for one more, if somebody has been silent for long enough; whether there is room.
    fn has_room(&mut self) -> bool {
        while self.sessions.len() >= FOLLOWED || self.bytes >= FOLLOWED_BYTES {
            let oldest = self.sessions.iter().min_by_key(|(_, known)| known.spoke);
            match oldest {
                Some((session, known)) if known.spoke.elapsed() >= SILENT => {
                    let session = session.clone();
                    self.remove(&session);
                }
                _ => return false,
            }
        }
        true
    }
}

/// What the thread works with.
pub(super) struct Beside {
    pub(super) store: Arc<dyn Store>,
    pub(super) key: SessionKey,
    pub(super) limits: SessionLimits,
    pub(super) told: broadcast::Sender<Arc<Difference>>,
    pub(super) shared: Arc<Shared>,
}

impl Beside {
    /// Judges what is handed in until nobody hands in any more.
    pub(super) fn run(self, queue: &Receiver<Answered>) {
        let mut table = Table::default();
        loop {
            match queue.recv_timeout(TIDY) {
                Ok(answered) => {
                    self.let_go(&mut table, answered.order);
                    let bytes = answered.bytes;
                    self.take(&mut table, answered);
                    self.shared.remove(bytes);
                }
                Err(RecvTimeoutError::Timeout) => self.let_go(&mut table, u64::MAX),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Lets go of what is needed no longer: sessions that were closed before a place in the order, and all once there is
    /// another candidate.
    fn let_go(&self, table: &mut Table, order: u64) {
        let generation = self.shared.totals().generation;
        if generation != table.generation {
            *table = Table { generation, ..Table::default() };
        }
        self.shared.closed().retain(|session, at| {
            let past = *at < order;
            if past {
                table.remove(session);
            }
            !past
        });
    }

    fn take(&self, table: &mut Table, answered: Answered) {
        let Some(first) = answered.steps.first().map(|(seq, _)| *seq) else { return };
        // A newer candidate counts from its beginning.
        if answered.generation != table.generation {
            return;
        }
        let count = answered.steps.len() as u64;
        let goes_on = |known: &Followed| known.judging.as_ref().is_none_or(|judging| judging.next() == first);
        let known = table.sessions.get(&answered.session).is_some_and(|known| first > 0 && goes_on(known));
        if !known {
            table.remove(&answered.session);
            match self.begin(table, &answered, first) {
                Ok(judging) => {
                    self.shared.totals().sessions += u64::from(judging.is_some());
                    let reference = Arc::new(reference(&answered.candidate));
                    let known = Followed { reference, judging, spoke: Instant::now(), bytes: 0 };
                    table.sessions.insert(answered.session.clone(), known);
                }
                Err(NotNow::Behind) => {
                    self.shared.totals().skipped += count;
                    return;
                }
                // What is still on its way into the store is looked for again at the next item.
                Err(NotNow::Unknown) => {
                    self.shared.totals().unfollowed += count;
                    return;
                }
            }
        }
        let Some(known) = table.sessions.get_mut(&answered.session) else { return };
        known.spoke = Instant::now();
        let Some(judging) = &mut known.judging else {
            self.shared.totals().unfollowed += count;
            return;
        };
        let new = answered.items.iter().position(|item| item.seq == first).unwrap_or(answered.items.len());
        let new = answered.items.get(new..).unwrap_or_default();
        let mut judged = Vec::with_capacity(new.len());
        let whole = judging.answer(new, &mut judged).is_ok();
        self.compare(&answered, &known.reference, &judged);
        let bytes = judging.bytes() + EACH;
        table.bytes = table.bytes - known.bytes + bytes;
        known.bytes = bytes;
        let ended = judging.has_ended() || !whole;
        // Who grows needs room like who comes; without any it is taken up again when there is some.
        if ended || (table.bytes > FOLLOWED_BYTES && !table.has_room()) {
            table.remove(&answered.session);
        }
    }

    /// Compares, counts and tells.
    fn compare(&self, answered: &Answered, candidate: &Arc<PackRef>, judged: &[Answer]) {
        let mut totals = self.shared.totals();
        // Another candidate may have come meanwhile: it counts from its beginning.
        if totals.generation != answered.generation {
            return;
        }
        for ((seq, live), other) in answered.steps.iter().zip(judged) {
            totals.count(live);
            let (calls, gained, lost) = differ(live, &other.step);
            if calls.is_empty() && gained.is_empty() && lost.is_empty() {
                continue;
            }
            let difference = Difference {
                session: answered.session.clone(),
                agent: answered.agent.clone(),
                live: answered.live.clone(),
                candidate: candidate.clone(),
                seq: *seq,
                turn: live.turn,
                calls,
                gained,
                lost,
            };
            totals.differs(&difference);
            // Nobody may be listening.
            let _ = self.told.send(Arc::new(difference));
        }
        totals.unfollowed += answered.steps.len().saturating_sub(judged.len()) as u64;
    }

    /// The session as it was before an item, as the candidate sees it; nothing if that can never be known.
    fn begin(&self, table: &mut Table, answered: &Answered, first: u64) -> Result<Option<Judging>, NotNow> {
        // One that was closed since is not to be taken for the next of its id.
        if first > 0 && self.shared.closed().contains_key(&answered.session) {
            return Err(NotNow::Unknown);
        }
        let calm = first == 0 || self.shared.requests.load(Ordering::Relaxed) <= CALM;
        if !calm || !table.has_room() {
            return Err(NotNow::Behind);
        }
        let mut judging = Judging::new(answered.candidate.clone(), &self.limits, answered.seed);
        if first == 0 {
            return Ok(Some(judging));
        }
        let entries = self.store.journal(&answered.session).map_err(|_| NotNow::Unknown)?;
        let kept = match journal::read(&self.key, &answered.session, &entries) {
            (Some(_), Ok(kept)) => kept,
            // Nothing is kept yet, or not all.
            (None, _) if entries.is_empty() && self.limits.journal > 0 => return Err(NotNow::Unknown),
            (_, Err(Unread::Gap)) => return Err(NotNow::Unknown),
            _ => return Ok(None),
        };
        for kept in kept {
            match kept {
                Kept::GivenBack => judging.give_back(),
                Kept::Moved(_) => {}
                Kept::Items(mut items) => {
                    items.retain(|item| item.seq < first);
                    if judging.answer(&items, &mut Vec::new()).is_err() {
                        return Ok(None);
                    }
                }
            }
        }
        if judging.next() == first { Ok(Some(judging)) } else { Err(NotNow::Unknown) }
    }
}

/// Why a session is not followed now; it may be later.
enum NotNow {
    /// There is too much to do.
    Behind,
    /// Its past is not known.
    Unknown,
}
