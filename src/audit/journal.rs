//! Journals: what is kept of open sessions so that they survive a restart. To this room an entry is bytes; whoever
//! writes it has sealed it. Entries of a session come and go with the records of the same group commit.

use std::sync::Arc;

/// A change of a session's journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalWrite {
    /// The session.
    pub session: Arc<str>,
    /// What changes.
    pub change: JournalChange,
}

/// What changes in a journal.
#[derive(Clone, PartialEq, Eq)]
pub enum JournalChange {
    /// An entry comes.
    Add {
        /// Its place in the journal, from 0.
        number: u64,
        /// The entry.
        bytes: Vec<u8>,
    },
    /// All entries go.
    Drop,
}

impl std::fmt::Debug for JournalChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JournalChange::Add { number, bytes } => write!(f, "Add({number}, {} bytes)", bytes.len()),
            JournalChange::Drop => f.write_str("Drop"),
        }
    }
}

/// An entry of a journal: its number and its bytes.
pub type JournalEntry = (u64, Vec<u8>);
