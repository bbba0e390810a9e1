//! A store in memory: for tests, and for a server that is asked to keep nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::model::Digest;

use super::{
    chain::{Head, StoreId},
    journal::{JournalChange, JournalEntry, JournalWrite},
    layout::entries,
    payload::{Payload, PayloadKey},
    posting::Posting,
    record::{PackRef, RecordNumber},
    request::{Answered, RequestKey},
    sources::{Changes, Index},
    store::{Batch, Block, Safety, Store, StoreError, check_order},
    tally::{Span, Tally, TallyKey, prefix},
};

/// Records and counters that end with the process.
#[derive(Debug)]
pub struct MemoryStore(Mutex<Contents>);

#[derive(Debug)]
struct Contents {
    base: Head,
    head: Head,
    blocks: BTreeMap<RecordNumber, Block>,
    tallies: BTreeMap<Vec<u8>, Tally>,
    postings: BTreeMap<Posting, BTreeSet<RecordNumber>>,
    payloads: BTreeMap<PayloadKey, Payload>,
    journals: BTreeMap<String, BTreeMap<u64, Vec<u8>>>,
    answered: BTreeMap<RequestKey, Answered>,
    rules: Index,
    sources: BTreeMap<Digest, Vec<u8>>,
}

impl Default for MemoryStore {
    /// An empty store. It has no name of its own: nothing of it is ever compared with another's.
    fn default() -> MemoryStore {
        let head = Head::genesis(StoreId::new([0; 16]));
        let (blocks, tallies, postings, payloads, journals, answered) = Default::default();
        let (rules, sources) = Default::default();
        let contents =
            Contents { base: head, head, blocks, tallies, postings, payloads, journals, answered, rules, sources };
        MemoryStore(Mutex::new(contents))
    }
}

impl MemoryStore {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        // Every change below is complete once begun, so a poisoned lock holds whole contents.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn append(&self, batch: &Batch, _: Safety) -> Result<(), StoreError> {
        let mut contents = self.contents();
        check_order(contents.head, batch)?;
        contents.head = batch.after;
        for block in &batch.blocks {
            contents.blocks.insert(block.first, block.clone());
        }
        for (key, delta) in &batch.tallies {
            let tally = contents.tallies.entry(key.to_bytes()).or_default();
            *tally = tally.plus(*delta);
        }
        for (posting, block) in &batch.postings {
            contents.postings.entry(posting.clone()).or_default().insert(*block);
        }
        for session in &batch.erased {
            contents.payloads.retain(|key, _| key.session != *session);
        }
        contents.answered.extend(batch.answered.iter().cloned());
        contents.payloads.extend(batch.payloads.iter().cloned());
        for JournalWrite { session, change } in &batch.journal {
            match change {
                JournalChange::Add { number, bytes } => {
                    contents.journals.entry(session.to_string()).or_default().insert(*number, bytes.clone());
                }
                JournalChange::Drop => drop(contents.journals.remove(session.as_ref())),
            }
        }
        for set in &batch.rules {
            let Changes { put, gone } = contents.rules.activate(set);
            contents.sources.extend(put.into_iter().map(|(pack, sources)| (pack, sources.to_vec())));
            gone.iter().for_each(|pack| drop(contents.sources.remove(pack)));
        }
        Ok(())
    }

    fn head(&self) -> Result<Head, StoreError> {
        Ok(self.contents().head)
    }

    fn base(&self) -> Result<Head, StoreError> {
        Ok(self.contents().base)
    }

    fn recover(&self) -> Result<Head, StoreError> {
        self.head()
    }

    fn blocks(&self, from: RecordNumber, max: usize) -> Result<Vec<Block>, StoreError> {
        let contents = self.contents();
        let start = contents
            .blocks
            .range(..=from)
            .next_back()
            .filter(|(_, block)| block.last() >= from)
            .map_or(from, |(first, _)| *first);
        Ok(contents.blocks.range(start..).take(max).map(|(_, block)| block.clone()).collect())
    }

    fn postings(&self, of: &Posting, from: RecordNumber, max: usize) -> Result<Vec<RecordNumber>, StoreError> {
        let contents = self.contents();
        let Some(held) = contents.postings.get(of) else { return Ok(Vec::new()) };
        let start = held.range(..=from).next_back().copied().unwrap_or(from);
        Ok(held.range(start..).take(max).copied().collect())
    }

    fn payload(&self, key: &PayloadKey) -> Result<Option<Payload>, StoreError> {
        Ok(self.contents().payloads.get(key).cloned())
    }

    fn journal(&self, session: &str) -> Result<Vec<JournalEntry>, StoreError> {
        let entries = self.contents().journals.get(session).cloned().unwrap_or_default();
        Ok(entries.into_iter().collect())
    }

    fn journaled(&self, after: Option<&str>, max: usize) -> Result<Vec<String>, StoreError> {
        let contents = self.contents();
        let behind = contents.journals.keys().filter(|session| after.is_none_or(|after| session.as_str() > after));
        Ok(behind.take(max).cloned().collect())
    }

    fn answered(&self, key: &RequestKey) -> Result<Option<Answered>, StoreError> {
        Ok(self.contents().answered.get(key).copied())
    }

    fn last_set(&self) -> Result<Vec<Arc<PackRef>>, StoreError> {
        Ok(self.contents().rules.set.clone())
    }

    fn sources(&self, pack: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.contents().sources.get(pack).cloned())
    }

    fn size(&self) -> Result<u64, StoreError> {
        Ok(self.contents().blocks.values().map(|block| block.bytes.len() as u64).sum())
    }

    fn prune(&self, before: RecordNumber) -> Result<Head, StoreError> {
        let mut contents = self.contents();
        let mut base = contents.base;
        while let Some(block) = contents.blocks.first_entry().filter(|entry| entry.get().last() < before) {
            let block = block.remove();
            base = end_of(&block, base)?;
        }
        contents.base = base;
        for held in contents.postings.values_mut() {
            held.retain(|first| *first > base.last);
        }
        contents.postings.retain(|_, held| !held.is_empty());
        contents.payloads.retain(|key, _| key.number > base.last);
        contents.answered.retain(|_, answered| answered.record > base.last);
        Ok(base)
    }

    fn tally(&self, key: &TallyKey) -> Result<Tally, StoreError> {
        Ok(self.contents().tallies.get(&key.to_bytes()).copied().unwrap_or_default())
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

    fn all_tallies(&self, visit: &mut dyn FnMut(&[u8], Tally)) -> Result<(), StoreError> {
        self.contents().tallies.iter().for_each(|(key, tally)| visit(key, *tally));
        Ok(())
    }
}

/// The place in the chain behind a block.
pub(super) fn end_of(block: &Block, base: Head) -> Result<Head, StoreError> {
    let (_, entries) = entries(&block.bytes).map_err(|source| StoreError::Layout { first: block.first, source })?;
    Ok(entries.last().map_or(base, |last| Head { last: last.number, link: last.link, ..base }))
}
