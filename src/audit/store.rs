//! What a store of records is, whatever holds them. The suite in `conformance` runs on each.

use std::{io, path::PathBuf, sync::Arc};

use super::{
    layout::LayoutError,
    record::RecordNumber,
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

/// What one group commit adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Records, following on the last that is stored.
    pub blocks: Vec<Block>,
    /// What is added to counters, each key once.
    pub tallies: Vec<(TallyKey, Tally)>,
    /// Sessions that were opened, each with the record of its first item.
    pub openings: Vec<(Arc<str>, RecordNumber)>,
}

/// Where a session's records begin. A session's id can be used again once the session is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The record that opened the first session of this id.
    pub first: RecordNumber,
    /// The record that opened the latest.
    pub latest: RecordNumber,
}

impl Opening {
    /// After one more opening.
    pub(super) fn reopened(before: Option<Opening>, record: RecordNumber) -> Opening {
        Opening { first: before.map_or(record, |b| b.first), latest: record }
    }
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
    #[error("record {got} does not follow on {last}")]
    Order {
        /// The last record that is stored.
        last: RecordNumber,
        /// The first of the batch.
        got: RecordNumber,
    },
}

/// Holds records and counters. One writer appends; any thread reads.
pub trait Store: Send + Sync + 'static {
    /// Adds all of a batch or nothing, and returns once it is durable.
    fn append(&self, batch: &Batch) -> Result<(), StoreError>;

    /// The number of the last record, 0 if there is none.
    fn last(&self) -> Result<RecordNumber, StoreError>;

    /// Blocks in order, at most `max`, from the one that holds record `from`, or the first behind
    /// it.
    fn blocks(&self, from: RecordNumber, max: usize) -> Result<Vec<Block>, StoreError>;

    /// One counter; zero if nothing was added to it.
    fn tally(&self, key: &TallyKey) -> Result<Tally, StoreError>;

    /// Where a session's records begin; nothing if it has none.
    fn opening(&self, session: &str) -> Result<Option<Opening>, StoreError>;

    /// The counters of a pack's policies in a span, by policy.
    fn tallies(&self, pack: &str, span: &Span) -> Result<Vec<(String, Tally)>, StoreError>;
}

/// Checks that blocks are numbered on from `last`.
pub(super) fn check_order(last: RecordNumber, blocks: &[Block]) -> Result<RecordNumber, StoreError> {
    blocks.iter().try_fold(last, |last, block| {
        if block.count > 0 && block.first == last + 1 {
            Ok(last + block.count)
        } else {
            Err(StoreError::Order { last, got: block.first })
        }
    })
}
