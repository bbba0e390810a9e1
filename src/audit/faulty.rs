//! A store in memory that can be held up and can fail, for tests of what stands on a store.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::model::Digest;

use super::{
    chain::Head,
    journal::JournalEntry,
    memory::MemoryStore,
    payload::{Payload, PayloadKey},
    posting::Posting,
    record::{PackRef, RecordNumber},
    request::{Answered, RequestKey},
    store::{Batch, Block, Safety, Store, StoreError},
    tally::{Span, Tally, TallyKey},
};

/// A [`MemoryStore`] with moods.
#[derive(Debug, Default)]
pub struct FaultyStore {
    inner: MemoryStore,
    mood: Mutex<Mood>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Mood {
    held: bool,
    fault: Fault,
    appends: usize,
    /// What is pruned once blocks are read.
    prune: Option<RecordNumber>,
}

/// How appending fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fault {
    #[default]
    None,
    /// Nothing is written.
    Lost,
    /// Everything is written, and then the store says that it failed.
    Late,
}

impl FaultyStore {
    /// Holds appends up, or lets them go on.
    pub fn hold(&self, held: bool) {
        self.mood().held = held;
        self.changed.notify_all();
    }

    /// Lets appends fail without writing, as on a full disk.
    pub fn fail(&self) {
        self.mood().fault = Fault::Lost;
    }

    /// Lets appends fail after they have written everything, as when only the last sync fails.
    pub fn fail_late(&self) {
        self.mood().fault = Fault::Late;
    }

    /// Lets appends work again.
    pub fn heal(&self) {
        self.mood().fault = Fault::None;
    }

    /// Drops the blocks wholly before a record when blocks are next read, as a retention that runs meanwhile.
    pub fn prune_at_next_read(&self, before: RecordNumber) {
        self.mood().prune = Some(before);
    }

    /// How many appends there were, failed ones included.
    pub fn appends(&self) -> usize {
        self.mood().appends
    }

    fn mood(&self) -> MutexGuard<'_, Mood> {
        self.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for FaultyStore {
    fn append(&self, batch: &Batch, safety: Safety) -> Result<(), StoreError> {
        let mut mood = self.changed.wait_while(self.mood(), |m| m.held).unwrap_or_else(PoisonError::into_inner);
        mood.appends += 1;
        if mood.fault != Fault::Lost {
            self.inner.append(batch, safety)?;
        }
        match mood.fault {
            Fault::None => Ok(()),
            Fault::Lost | Fault::Late => Err(StoreError::Io(io::Error::other("no space left on device"))),
        }
    }

    fn recover(&self) -> Result<Head, StoreError> {
        match self.mood().fault {
            Fault::None => self.inner.recover(),
            Fault::Lost | Fault::Late => Err(StoreError::Io(io::Error::other("no space left on device"))),
        }
    }

    fn head(&self) -> Result<Head, StoreError> {
        self.inner.head()
    }

    fn base(&self) -> Result<Head, StoreError> {
        self.inner.base()
    }

    fn blocks(&self, from: RecordNumber, max: usize) -> Result<Vec<Block>, StoreError> {
        let pruned = self.mood().prune.take();
        if let Some(before) = pruned {
            self.inner.prune(before)?;
        }
        self.inner.blocks(from, max)
    }

    fn postings(&self, of: &Posting, from: RecordNumber, max: usize) -> Result<Vec<RecordNumber>, StoreError> {
        self.inner.postings(of, from, max)
    }

    fn payload(&self, key: &PayloadKey) -> Result<Option<Payload>, StoreError> {
        self.inner.payload(key)
    }

    fn journal(&self, session: &str) -> Result<Vec<JournalEntry>, StoreError> {
        self.inner.journal(session)
    }

    fn journaled(&self, after: Option<&str>, max: usize) -> Result<Vec<String>, StoreError> {
        self.inner.journaled(after, max)
    }

    fn answered(&self, key: &RequestKey) -> Result<Option<Answered>, StoreError> {
        self.inner.answered(key)
    }

    fn last_set(&self) -> Result<Vec<Arc<PackRef>>, StoreError> {
        self.inner.last_set()
    }

    fn sources(&self, pack: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.sources(pack)
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.inner.size()
    }

    fn prune(&self, before: RecordNumber) -> Result<Head, StoreError> {
        self.inner.prune(before)
    }

    fn tally(&self, key: &TallyKey) -> Result<Tally, StoreError> {
        self.inner.tally(key)
    }

    fn tallies(&self, pack: &str, span: &Span) -> Result<Vec<(String, Tally)>, StoreError> {
        self.inner.tallies(pack, span)
    }

    fn all_tallies(&self, visit: &mut dyn FnMut(&[u8], Tally)) -> Result<(), StoreError> {
        self.inner.all_tallies(visit)
    }
}
