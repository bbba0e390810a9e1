//! Builds group commits from drafts: numbers them, packs them into blocks, adds up what they change
//! in counters, and notes which sessions they open.

use super::{
    layout::Packer,
    record::{Draft, RecordNumber},
    store::Batch,
    tally::Tallies,
};

/// Builds one batch after another; the numbers run on.
#[derive(Debug)]
pub struct BatchBuilder {
    packer: Packer,
    tallies: Tallies,
    batch: Batch,
}

impl BatchBuilder {
    /// Starts behind the last record of a store.
    pub fn new(last: RecordNumber) -> BatchBuilder {
        BatchBuilder { packer: Packer::new(last + 1), tallies: Tallies::default(), batch: Batch::default() }
    }

    /// The number of the last record that was added.
    pub fn last(&self) -> RecordNumber {
        self.packer.next() - 1
    }

    /// Adds a record that is committed at `at_millis` since 1970-01-01T00:00:00Z.
    pub fn push(&mut self, draft: &Draft, at_millis: u64) {
        if let Draft::Judged { session, seq: 0, .. } = draft {
            self.batch.openings.push((session.clone(), self.packer.next()));
        }
        self.batch.blocks.extend(self.packer.push(draft, at_millis));
        self.tallies.add(draft);
    }

    /// The batch of all that was added since the last one.
    pub fn finish(&mut self) -> Batch {
        self.batch.blocks.extend(self.packer.close());
        self.batch.tallies = self.tallies.take();
        std::mem::take(&mut self.batch)
    }
}
