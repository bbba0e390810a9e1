//! Builds group commits from drafts: numbers and links them, packs them into blocks, adds up what they change in
//! counters, and notes under what they are found.

use std::{collections::BTreeSet, sync::Arc};

use crate::model::Digest;

use super::{
    chain::Head,
    journal::JournalWrite,
    layout::Packer,
    payload::{Payload, PayloadKey, Salts},
    posting::Posting,
    record::{Body, Draft, Record, RecordNumber},
    request::{Answered, RequestKey},
    sources::KeptSet,
    store::Batch,
    tally::Tallies,
};

/// Builds one batch after another; numbers and links run on.
#[derive(Debug)]
pub struct BatchBuilder {
    packer: Packer,
    tallies: Tallies,
    postings: BTreeSet<(Posting, RecordNumber)>,
    batch: Batch,
}

impl BatchBuilder {
    /// Goes on behind a store's last record. `salt_key` is random and kept nowhere.
    pub fn new(head: Head, salt_key: [u8; 32]) -> BatchBuilder {
        BatchBuilder {
            packer: Packer::new(head, Salts::new(salt_key)),
            tallies: Tallies::default(),
            postings: BTreeSet::new(),
            batch: Batch::at(head),
        }
    }

    /// The place in the chain behind all that was added.
    pub fn head(&self) -> Head {
        self.packer.head()
    }

    /// Adds a record that is committed at `at_millis` since 1970-01-01T00:00:00Z.
    pub fn push(&mut self, draft: &Draft, at_millis: u64) {
        let block = self.packer.block();
        self.postings.extend(draft.names().postings().into_iter().map(|posting| (posting, block)));
        self.tallies.add(draft, at_millis);
        let (payload, full) = self.packer.push(draft, at_millis);
        self.batch.blocks.extend(full);
        if let Draft::Erased { session } = draft {
            self.batch.payloads.retain(|(key, _)| key.session != *session);
            self.batch.erased.push(Arc::clone(session));
        }
        if let (Some(payload), Draft::Drift(drift)) = (payload, draft) {
            let key = PayloadKey { session: Arc::clone(&drift.session), number: self.packer.head().last };
            self.batch.payloads.push((key, payload));
        }
    }

    /// Adds a record as another store has it. Its bytes must follow on in the chain.
    pub fn push_recorded(&mut self, record: &Record, bytes: &[u8], payload: Option<Payload>) {
        let block = self.packer.block();
        self.postings.extend(record.names().postings().into_iter().map(|posting| (posting, block)));
        if let Body::Judged(judged) = &record.body {
            self.tallies.add_recorded(judged, record.at_millis);
        }
        self.batch.blocks.extend(self.packer.push_bytes(bytes));
        if let (Some(payload), Some(session)) = (payload, record.payload_session()) {
            let key = PayloadKey { session: Arc::clone(session), number: record.number };
            self.batch.payloads.push((key, payload));
        }
    }

    /// Adds changes of sessions' journals.
    pub fn journal(&mut self, writes: impl IntoIterator<Item = JournalWrite>) {
        self.batch.journal.extend(writes);
    }

    /// Notes that the last record answers a request with a name.
    pub fn answers(&mut self, key: RequestKey, print: Digest) {
        self.batch.answered.push((key, Answered { print, record: self.packer.head().last }));
    }

    /// Notes that a set of rules begins to serve with the last records.
    pub fn keep(&mut self, set: Arc<KeptSet>) {
        self.batch.rules.push(set);
    }

    /// The batch of all that was added since the last one.
    pub fn finish(&mut self) -> Batch {
        self.batch.blocks.extend(self.packer.close());
        self.batch.tallies = self.tallies.take();
        self.batch.postings = std::mem::take(&mut self.postings).into_iter().collect();
        self.batch.after = self.packer.head();
        let next = Batch::at(self.packer.head());
        std::mem::replace(&mut self.batch, next)
    }
}
