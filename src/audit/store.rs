//! What a store of records is, whatever holds them. The suite in `conformance` runs on each.

use std::{io, path::PathBuf, sync::Arc};

use crate::model::Digest;

use super::{
    chain::Head,
    journal::{JournalEntry, JournalWrite},
    layout::LayoutError,
    payload::{Payload, PayloadKey},
    posting::Posting,
    record::{PackRef, RecordNumber},
    request::{Answered, RequestKey},
    sources::KeptSet,
    tally::{Span, Tally, TallyKey},
};

/// Consecutive records in the byte layout of this room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The number of the first.
    pub first: RecordNumber,
    /// How many there are; never 0.
    pub count: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Block {
    /// The number of the last.
    pub fn last(&self) -> RecordNumber {
        self.first.saturating_add(self.count).saturating_sub(1)
    }
}

/// What one group commit adds. All of it is there afterwards, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The place in the chain that it follows on.
    pub before: Head,
    /// The place that it leads to.
    pub after: Head,
    /// Records.
    pub blocks: Vec<Block>,
    /// What is added to counters, each key once.
    pub tallies: Vec<(TallyKey, Tally)>,
    /// Under what records are found, with the first number of the block that holds them.
    pub postings: Vec<(Posting, RecordNumber)>,
    /// What can be erased later.
    pub payloads: Vec<(PayloadKey, Payload)>,
    /// Changes of sessions' journals, in their order.
    pub journal: Vec<JournalWrite>,
    /// Sessions whose payloads of before go.
    pub erased: Vec<Arc<str>>,
    /// Requests with a name that are recorded now.
    pub answered: Vec<(RequestKey, Answered)>,
    /// Sets of rules that begin to serve, in their order.
    pub rules: Vec<Arc<KeptSet>>,
}

impl Batch {
    /// Nothing, at a place in the chain.
    pub fn at(head: Head) -> Batch {
        let (blocks, tallies, postings, payloads, journal, erased, answered, rules) = Default::default();
        Batch { before: head, after: head, blocks, tallies, postings, payloads, journal, erased, answered, rules }
    }

    /// True if it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.journal.is_empty()
    }
}

/// What a batch must survive before it counts as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safety {
    /// The end of the process, however sudden. A machine that loses power may lose it.
    Process,
    /// A loss of power.
    Disk,
}

/// Why a store failed. Holds no content of a record.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be used.
    #[error("the audit store in {path} cannot be opened: {source}", path = path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("the audit store in {path} is open in another process", path = path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// A new store was to be made where there is one.
    #[error("there is an audit store in {path} already", path = path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// Written by a version that this one does not know.
    #[error("the audit store has format {found}; this version knows {known}")]
    Format {
        /// What the store says.
        found: String,
        /// What is known.
        known: u32,
    },
    /// Reading or writing failed.
    #[error("the audit store failed: {0}")]
    Io(#[from] io::Error),
    /// The store's own structure is damaged.
    #[error("the audit store is damaged: {0}")]
    Damaged(String),
    /// A stored block is not in the layout.
    #[error("block {first} of the audit store: {source}")]
    Layout {
        /// The number in its key.
        first: RecordNumber,
        /// What is wrong.
        source: LayoutError,
    },
    /// A batch that does not follow on the last record.
    #[error("a batch behind record {got} does not follow on the store's chain, which ends at record {last}")]
    Order {
        /// The last record that is stored.
        last: RecordNumber,
        /// The record that the batch follows on.
        got: RecordNumber,
    },
    /// Records were dropped while they were read.
    #[error("records from {from} on were dropped meanwhile; the first that is held is now {first}")]
    Pruned {
        /// The record that was to come next.
        from: RecordNumber,
        /// The first that is held.
        first: RecordNumber,
    },
    /// The store could not be opened again after a failure, and is closed.
    #[error("the audit store is closed after a failure")]
    Closed,
}

/// Room that a store gave back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tidied {
    /// Bytes on disk before.
    pub before: u64,
    /// Bytes on disk after.
    pub after: u64,
}

impl StoreError {
    /// True if what is stored is not as it should be, and no attempt will change that.
    pub fn is_damage(&self) -> bool {
        matches!(self, StoreError::Damaged(_) | StoreError::Layout { .. })
    }
}

/// Holds records and counters. One writer appends; any thread reads.
pub trait Store: Send + Sync + 'static {
    /// Adds all of a batch or nothing, and returns once it is as safe as asked for. After an error it may be there or
    /// not: [`Store::recover`] tells.
    fn append(&self, batch: &Batch, safety: Safety) -> Result<(), StoreError>;

    /// Where the chain ends.
    fn head(&self) -> Result<Head, StoreError>;

    /// Where the records begin that are still held: before the first, unless some were pruned.
    fn base(&self) -> Result<Head, StoreError>;

    /// The number of the last record, 0 if there is none.
    fn last(&self) -> Result<RecordNumber, StoreError> {
        Ok(self.head()?.last)
    }

    /// After a failure: takes up anew what is stored, and tells where the chain ends.
    fn recover(&self) -> Result<Head, StoreError>;

    /// Blocks in order, at most `max`, from the one that holds record `from`, or the first behind
    /// it.
    fn blocks(&self, from: RecordNumber, max: usize) -> Result<Vec<Block>, StoreError>;

    /// The first numbers of blocks that hold something of a posting, ascending, at most `max`, beginning with the last
    /// one at or before `from`.
    fn postings(&self, of: &Posting, from: RecordNumber, max: usize) -> Result<Vec<RecordNumber>, StoreError>;

    /// A payload; nothing if it was erased.
    fn payload(&self, key: &PayloadKey) -> Result<Option<Payload>, StoreError>;

    /// The entries of a session's journal, by number.
    fn journal(&self, session: &str) -> Result<Vec<JournalEntry>, StoreError>;

    /// Sessions with a journal, in the order of the store, behind `after`, at most `max`.
    fn journaled(&self, after: Option<&str>, max: usize) -> Result<Vec<String>, StoreError>;

    /// What became of a request with a name; nothing if it was not recorded, or its record was pruned.
    fn answered(&self, key: &RequestKey) -> Result<Option<Answered>, StoreError>;

    /// The packs of the set of rules that served last; none if none did.
    fn last_set(&self) -> Result<Vec<Arc<PackRef>>, StoreError>;

    /// What a pack was compiled from, by the digest of its meaning; nothing if that is not kept any more.
    fn sources(&self, pack: &Digest) -> Result<Option<Vec<u8>>, StoreError>;

    /// The bytes of all blocks that are held.
    fn size(&self) -> Result<u64, StoreError>;

    /// Drops the blocks that lie wholly before a record, and what points to them. The chain then begins at the new
    /// base, which is given back. Counters stay.
    fn prune(&self, before: RecordNumber) -> Result<Head, StoreError>;

    /// Gives room back that it takes without need, if that is worth it; nothing if it is not. Appends go on meanwhile.
    fn tidy(&self) -> Result<Option<Tidied>, StoreError> {
        Ok(None)
    }

    /// One counter; zero if nothing was added to it.
    fn tally(&self, key: &TallyKey) -> Result<Tally, StoreError>;

    /// The counters of a pack's policies in a span, by policy.
    fn tallies(&self, pack: &str, span: &Span) -> Result<Vec<(String, Tally)>, StoreError>;

    /// Every counter of all time and of versions, and those of sessions: what [`verify`](super::verify_store) compares.
    fn all_tallies(&self, visit: &mut dyn FnMut(&[u8], Tally)) -> Result<(), StoreError>;
}

/// Checks that a batch goes on from where the chain ends.
pub(super) fn check_order(head: Head, batch: &Batch) -> Result<(), StoreError> {
    let last = batch
        .blocks
        .iter()
        .try_fold(head.last, |last, block| (block.count > 0 && block.first == last + 1).then_some(last + block.count));
    if batch.before == head && last == Some(batch.after.last) {
        Ok(())
    } else {
        Err(StoreError::Order { last: head.last, got: batch.before.last })
    }
}
