//! What waits for the writer: bounded by permits, so that a caller knows before it judges that its record has a place.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::audit::{Draft, JournalChange, JournalWrite, KeptSet, Loss};

use super::{Acknowledged, Named, Recorded};

/// Sessions that a record of a loss names; of others only the number of judgements is told.
const NAMED: usize = 256;
/// How often a closed queue looks whether places are given back.
const PLACES_ASKED: Duration = Duration::from_millis(10);

/// What was handed in at once.
#[derive(Debug)]
pub(super) struct Entry {
    /// What is to be recorded.
    pub(super) drafts: Vec<Draft>,
    /// What changes in sessions' journals together with that.
    pub(super) journal: Vec<JournalWrite>,
    /// The request that is answered, if it has a name.
    pub(super) named: Option<Named>,
    /// The set of rules that begins to serve with it.
    pub(super) rules: Option<Arc<KeptSet>>,
    /// Who waits for it.
    pub(super) done: Option<oneshot::Sender<Acknowledged>>,
    /// Its place, which is free again once the entry is taken out: held, never read.
    pub(super) _permit: OwnedSemaphorePermit,
}

/// The queue.
#[derive(Debug)]
pub(super) struct Queue {
    places: usize,
    free: Arc<Semaphore>,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    entries: VecDeque<Entry>,
    lost: Loss,
    /// Journals that what was given up would have dropped.
    drops: Vec<JournalWrite>,
    closed: bool,
    /// The writer is gone: what comes now is dropped, and whoever waits for it is told by that.
    finished: bool,
}

/// An entry without its place.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) drafts: Vec<Draft>,
    pub(super) journal: Vec<JournalWrite>,
    pub(super) named: Option<Named>,
    pub(super) rules: Option<Arc<KeptSet>>,
    pub(super) done: Option<oneshot::Sender<Acknowledged>>,
}

/// What the writer takes at once.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// What was handed in, in its order. The places are free again.
    pub(super) entries: Vec<Taken>,
    /// What was given up before.
    pub(super) lost: Option<Loss>,
    /// Journals that it would have dropped.
    pub(super) drops: Vec<JournalWrite>,
    /// Whether there is time for a checkpoint: nothing came for a while, or this is the end.
    pub(super) at_leisure: bool,
    /// Whether nothing more will come behind this.
    pub(super) last: bool,
}

impl Entry {
    fn without_place(self) -> Taken {
        Taken { drafts: self.drafts, journal: self.journal, named: self.named, rules: self.rules, done: self.done }
    }
}

impl Queue {
    /// An empty queue for so many entries.
    pub(super) fn new(bound: usize) -> Queue {
        let places = bound.min(Semaphore::MAX_PERMITS);
        let free = Arc::new(Semaphore::new(places));
        Queue { places, free, waiting: Mutex::default(), arrived: Condvar::new() }
    }

    pub(super) fn bound(&self) -> usize {
        self.places
    }

    /// A place, if one is free.
    pub(super) fn try_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_owned().ok()
    }

    /// A place, once one is free; nothing if the queue is closed.
    pub(super) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().acquire_owned().await.ok()
    }

    /// Hands in an entry.
    pub(super) fn push(&self, entry: Entry) {
        let mut waiting = self.waiting();
        if !waiting.finished {
            waiting.entries.push_back(entry);
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Gives up the oldest entry that holds nothing but judgements of items; false if there is none.
    pub(super) fn drop_oldest(&self) -> bool {
        let mut waiting = self.waiting();
        let judgements = |entry: &Entry| {
            !entry.drafts.is_empty() && entry.drafts.iter().all(|draft| matches!(draft, Draft::Judged { .. }))
        };
        let Some(at) = waiting.entries.iter().position(judgements) else { return false };
        let Some(entry) = waiting.entries.remove(at) else { return false };
        for draft in &entry.drafts {
            if let Draft::Judged { session, seq, .. } = draft {
                waiting.lost.count += 1;
                note(&mut waiting.lost, session, *seq);
            }
        }
        // What a session that has ended kept goes all the same.
        let drops = entry.journal.into_iter().filter(|write| matches!(write.change, JournalChange::Drop));
        waiting.drops.extend(drops);
        drop(waiting);
        if let Some(done) = entry.done {
            // A caller that has gone away needs no answer.
            let _ = done.send(Ok(Recorded::Lost));
        }
        true
    }

    /// Takes nothing more.
    pub(super) fn close(&self) {
        self.free.close();
        self.waiting().closed = true;
        self.arrived.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.waiting().closed
    }

    /// Waits until something is there, at most for `patience`, and takes up to `most` entries.
    pub(super) fn take(&self, most: usize, patience: Duration) -> Group {
        let idle = |waiting: &mut Waiting| waiting.entries.is_empty() && !waiting.closed;
        let waited = self.arrived.wait_timeout_while(self.waiting(), patience, idle);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let taken = waiting.entries.len().min(most);
        let entries = waiting.entries.drain(..taken).map(Entry::without_place).collect();
        let lost = (waiting.lost.count > 0).then(|| std::mem::take(&mut waiting.lost));
        let drops = std::mem::take(&mut waiting.drops);
        // A caller that has a place may still be judging, and will hand in.
        let last = waiting.closed && waiting.entries.is_empty() && self.free.available_permits() >= self.places;
        let at_leisure = last || (taken == 0 && !waiting.closed);
        if waiting.closed && !last && taken == 0 {
            // Nobody says when a place is given back unused.
            drop(self.arrived.wait_timeout(waiting, PLACES_ASKED));
        }
        Group { entries, lost, drops, at_leisure, last }
    }

    /// The writer is gone.
    pub(super) fn finish(&self) {
        self.close();
        let mut waiting = self.waiting();
        waiting.finished = true;
        waiting.entries.clear();
    }

    /// Takes out everybody who waits for an entry; the entries stay.
    pub(super) fn take_callers(&self) -> Vec<oneshot::Sender<Acknowledged>> {
        self.waiting().entries.iter_mut().filter_map(|entry| entry.done.take()).collect()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Every change under this lock is complete once begun.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note(lost: &mut Loss, session: &Arc<str>, seq: u64) {
    if let Some((_, first, last)) = lost.sessions.iter_mut().find(|(id, ..)| id == session) {
        (*first, *last) = ((*first).min(seq), (*last).max(seq));
    } else if lost.sessions.len() < NAMED {
        lost.sessions.push((session.clone(), seq, seq));
    }
}
