//! A store in memory: for tests, and for a server that is asked to keep nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    record::RecordNumber,
    store::{Batch, Block, Opening, Store, StoreError, check_order},
    tally::{Span, Tally, TallyKey, prefix},
};

/// Records and counters that end with the process.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Contents>);

#[derive(Debug, Default)]
struct Contents {
    last: RecordNumber,
    blocks: BTreeMap<RecordNumber, Block>,
    tallies: BTreeMap<Vec<u8>, Tally>,
    openings: BTreeMap<Arc<str>, Opening>,
}

impl MemoryStore {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        // Every change below is complete once begun, so a poisoned lock holds whole contents.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn append(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut contents = self.contents();
        contents.last = check_order(contents.last, &batch.blocks)?;
        for block in &batch.blocks {
            contents.blocks.insert(block.first, block.clone());
        }
        for (key, delta) in &batch.tallies {
            let tally = contents.tallies.entry(key.to_bytes()).or_default();
            *tally = tally.plus(*delta);
        }
        for (session, record) in &batch.openings {
            let before = contents.openings.get(session).copied();
            contents.openings.insert(session.clone(), Opening::reopened(before, *record));
        }
        Ok(())
    }

    fn last(&self) -> Result<RecordNumber, StoreError> {
        Ok(self.contents().last)
    }

    fn blocks(&self, from: RecordNumber, max: usize) -> Result<Vec<Block>, StoreError> {
        let contents = self.contents();
        let start = contents
            .blocks
            .range(..=from)
            .next_back()
            .filter(|(_, block)| block.first + block.count > from)
            .map_or(from, |(first, _)| *first);
        Ok(contents.blocks.range(start..).take(max).map(|(_, block)| block.clone()).collect())
    }

    fn tally(&self, key: &TallyKey) -> Result<Tally, StoreError> {
        Ok(self.contents().tallies.get(&key.to_bytes()).copied().unwrap_or_default())
    }

    fn opening(&self, session: &str) -> Result<Option<Opening>, StoreError> {
        Ok(self.contents().openings.get(session).copied())
    }

    fn tallies(&self, pack: &str, span: &Span) -> Result<Vec<(String, Tally)>, StoreError> {
        let start = prefix(pack, span);
        let contents = self.contents();
        let found = contents.tallies.range(start.clone()..).map_while(|(key, tally)| {
            let policy = key.strip_prefix(start.as_slice())?;
            Some((String::from_utf8_lossy(policy).into_owned(), *tally))
        });
        Ok(found.collect())
    }
}
