//! The embedded store: sled, behind this one door.
//!
//! `folder` tells where in a data folder it is, `compact` how it gives room back, `keys` how keys and values are made,
//! `rules` what is kept of rules.
//!
//! One tree holds everything, so that one atomic batch covers a group commit:
//!
//! | key | value |
//! | --- | --- |
//! | `format` | the version of this arrangement |
//! | `head` | where the chain ends: store, last number, link |
//! | `origin` | where the records begin that are still held; the same form |
//! | `b` first number (8 bytes, big-endian) | a block (see `layout`) |
//! | `t` a counter's key (see `tally`) | its numbers |
//! | `i` a posting (see `posting`) first number | nothing: the block of that number holds something of it |
//! | `size` | the bytes of all blocks |
//! | `q` method (length, text) id | what became of a request with a name: print, record |
//! | `p` session (length, text) number part | a payload (see `payload`), in parts |
//! | `rules` | which rules served last, and what is kept of rules (see `sources`) |
//! | `k` pack's digest part | what a pack was compiled from, in parts |
//! | `j` session (length, text) number part | an entry of the session's journal, in parts |
//!
//! Large values are what sled keeps worst, so what may be large is kept in parts of a bounded size, as blocks are.
//!
//! sled's own flush asks the kernel to start writing and no more, so what must survive a loss of power also syncs the
//! store's file through a second descriptor. The periodic flush is off: only appends write.

mod compact;
mod folder;
mod keys;
mod opened;
mod rules;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, mpsc},
    thread,
    time::{Duration, Instant},
};

use crate::model::Digest;

use self::{
    compact::Changed,
    folder::Folder,
    keys::{
        KeyWrites, answered_bytes, answered_of, block_key, block_of, failed, head_bytes, last_number, numbered,
        of_session, part_number, parts, place, posting_key, tagged, tally_of,
    },
    opened::Opened,
};
use super::{
    chain::Head,
    journal::JournalEntry,
    memory::end_of,
    payload::{Payload, PayloadKey},
    posting::Posting,
    record::{PackRef, RecordNumber},
    request::{Answered, RequestKey},
    store::{Batch, Block, Safety, Store, StoreError, Tidied, check_order},
    tally::{Span, Tally, TallyKey, prefix},
};

const FORMAT: u32 = 3;
/// Blocks that are dropped in one batch.
const PRUNED_AT_ONCE: usize = 256;
/// Between two attempts to open a folder that is still locked.
const A_MOMENT: Duration = Duration::from_millis(20);
/// How long sled may take to let go of a folder after a failure.
const LETTING_GO: Duration = Duration::from_secs(5);

/// Records and counters in a folder.
#[derive(Debug)]
pub struct SledStore {
    folder: Folder,
    cache_bytes: u64,
    /// Nothing while it could not be opened again after a failure.
    open: RwLock<Option<Opened>>,
    /// Held while something is written; notes what changes while the store is copied.
    appending: Mutex<Changed>,
    /// Held while the store is copied; the size of the folder at which it is next looked at whether that is worth it.
    compacting: Mutex<u64>,
}

impl SledStore {
    /// Opens the store in a data folder, creating both if missing. `cache_bytes` bounds sled's page cache.
    pub fn open(path: &Path, cache_bytes: u64) -> Result<SledStore, StoreError> {
        SledStore::new(path, cache_bytes, None)
    }

    /// Makes the store in a data folder that has none, for records that go on behind `base`.
    pub fn create(path: &Path, cache_bytes: u64, base: Head) -> Result<SledStore, StoreError> {
        SledStore::new(path, cache_bytes, Some(base))
    }

    /// True if a data folder holds a store, whatever its state.
    pub fn is_in(path: &Path) -> bool {
        folder::holds_store(path)
    }

    /// Sets the store in a data folder aside, so that another can be made in its place; gives the folder that holds it
    /// from now on. No process may have it open.
    pub fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
        folder::set_aside(path)
    }

    fn new(path: &Path, cache_bytes: u64, base: Option<Head>) -> Result<SledStore, StoreError> {
        let folder = Folder::open(path)?;
        let opened = match base {
            None if folder.is_named() => Opened::existing(&folder.store(), cache_bytes)?,
            base => Opened::at(&folder.store(), cache_bytes, base)?,
        };
        let open = RwLock::new(Some(opened));
        folder.settle()?;
        folder.sweep();
        Ok(SledStore { folder, cache_bytes, open, appending: Mutex::default(), compacting: Mutex::default() })
    }

    /// The store's size on disk in bytes.
    pub fn bytes_on_disk(&self) -> Result<u64, StoreError> {
        self.with(|open| open.db.size_on_disk().map_err(failed))
    }

    /// Runs on what is open. It stays open meanwhile.
    fn with<T>(&self, work: impl FnOnce(&Opened) -> Result<T, StoreError>) -> Result<T, StoreError> {
        // Nothing panics half-way through a change of what is guarded.
        let guard: RwLockReadGuard<'_, _> = self.open.read().unwrap_or_else(PoisonError::into_inner);
        work(guard.as_ref().ok_or(StoreError::Closed)?)
    }
}

/// Changes of keys on their way into one batch, noted if the store is being copied.
#[derive(Default)]
struct Writes<'a> {
    batch: sled::Batch,
    changed: Option<&'a mut BTreeSet<Vec<u8>>>,
}

impl Writes<'_> {
    fn note(&mut self, key: &[u8]) {
        if let Some(changed) = &mut self.changed {
            changed.insert(key.to_vec());
        }
    }

    fn insert(&mut self, key: impl AsRef<[u8]>, value: &[u8]) {
        self.note(key.as_ref());
        self.batch.insert(key.as_ref(), value);
    }

    fn remove(&mut self, key: impl AsRef<[u8]>) {
        self.note(key.as_ref());
        self.batch.remove(key.as_ref());
    }

    fn change<V: AsRef<[u8]>>(&mut self, keys: KeyWrites<V>) {
        for (key, value) in keys {
            match value {
                Some(value) => self.insert(key, value.as_ref()),
                None => self.remove(key),
            }
        }
    }
}

impl Store for SledStore {
    fn append(&self, batch: &Batch, safety: Safety) -> Result<(), StoreError> {
        let mut changed = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        self.with(|open| {
            check_order(open.head(), batch)?;
            let mut writes = Writes { changed: changed.as_mut(), ..Writes::default() };
            for block in &batch.blocks {
                writes.insert(block_key(block.first), &block.bytes);
            }
            for (key, delta) in &batch.tallies {
                let key = tagged(b't', &key.to_bytes());
                writes.insert(&key, &open.stored_tally(&key)?.plus(*delta).to_bytes());
            }
            for (posting, block) in &batch.postings {
                writes.insert(posting_key(posting, *block), &[]);
            }
            for session in &batch.erased {
                for key in open.db.scan_prefix(of_session(b'p', session)).keys() {
                    writes.remove(key.map_err(failed)?);
                }
            }
            for (key, answered) in &batch.answered {
                writes.insert(tagged(b'q', &key.to_bytes()), &answered_bytes(*answered));
            }
            let added: usize = batch.blocks.iter().map(|block| block.bytes.len()).sum();
            writes.insert(b"size", &(open.size()? + added as u64).to_be_bytes());
            for (key, payload) in &batch.payloads {
                for (key, part) in parts(b'p', &key.session, key.number, payload.bytes()) {
                    writes.insert(key, part);
                }
            }
            writes.change(open.journal_writes(&batch.journal)?);
            writes.change(open.rules_writes(&batch.rules)?);
            writes.insert(b"head", &head_bytes(batch.after));
            open.db.apply_batch(writes.batch).map_err(failed)?;
            open.db.flush().map_err(failed)?;
            if safety == Safety::Disk {
                open.file.sync_data()?;
            }
            *open.head.lock().unwrap_or_else(PoisonError::into_inner) = batch.after;
            Ok(())
        })
    }

    fn head(&self) -> Result<Head, StoreError> {
        self.with(|open| Ok(open.head()))
    }

    fn base(&self) -> Result<Head, StoreError> {
        self.with(|open| place(&open.db, b"origin"))
    }

    fn recover(&self) -> Result<Head, StoreError> {
        let _alone = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        // Waits for readers; a second handle on the folder would find it locked.
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(failed) = open.take() {
            // After some failures sled waits for ever for a write that will never be done; then the folder stays
            // locked, which opening it tells.
            let (gone, waiting) = mpsc::channel();
            thread::spawn(move || {
                drop(failed);
                let _ = gone.send(());
            });
            let _ = waiting.recv_timeout(LETTING_GO);
        }
        let until = Instant::now() + LETTING_GO;
        let anew = loop {
            match Opened::existing(&self.folder.store(), self.cache_bytes) {
                // Its threads let go a moment after it is dropped.
                Err(StoreError::Locked { .. }) if Instant::now() < until => thread::sleep(A_MOMENT),
                opened => break opened?,
            }
        };
        // What was flushed last may not have reached the disk.
        anew.file.sync_all()?;
        // The name of the store may not have reached it either.
        self.folder.settle()?;
        let head = anew.head();
        *open = Some(anew);
        Ok(head)
    }

    fn blocks(&self, from: RecordNumber, max: usize) -> Result<Vec<Block>, StoreError> {
        self.with(|open| {
            let start = match open.db.range(block_key(0)..=block_key(from)).next_back() {
                None => block_key(from),
                Some(entry) => {
                    let (key, bytes) = entry.map_err(failed)?;
                    let block = block_of(&key, &bytes)?;
                    block_key(if block.last() >= from { block.first } else { from })
                }
            };
            let blocks = open.db.range(start..=block_key(RecordNumber::MAX)).take(max);
            blocks.map(|entry| entry.map_err(failed).and_then(|(key, bytes)| block_of(&key, &bytes))).collect()
        })
    }

    fn postings(&self, of: &Posting, from: RecordNumber, max: usize) -> Result<Vec<RecordNumber>, StoreError> {
        self.with(|open| {
            let key = |number| posting_key(of, number);
            let start = match open.db.range(key(0)..=key(from)).next_back() {
                None => from,
                Some(entry) => last_number(&entry.map_err(failed)?.0)?,
            };
            let found = open.db.range(key(start)..=key(RecordNumber::MAX)).take(max);
            found.map(|entry| last_number(&entry.map_err(failed)?.0)).collect()
        })
    }

    fn payload(&self, key: &PayloadKey) -> Result<Option<Payload>, StoreError> {
        self.with(|open| {
            let mut bytes = Vec::new();
            for part in open.db.scan_prefix(numbered(b'p', &key.session, key.number)).values() {
                bytes.extend_from_slice(&part.map_err(failed)?);
            }
            if bytes.is_empty() {
                return Ok(None);
            }
            let damaged = || StoreError::Damaged(format!("the payload of record {} is too short", key.number));
            Payload::from_bytes(bytes).map(Some).ok_or_else(damaged)
        })
    }

    fn journal(&self, session: &str) -> Result<Vec<JournalEntry>, StoreError> {
        self.with(|open| {
            let mut entries: Vec<JournalEntry> = Vec::new();
            for entry in open.db.scan_prefix(of_session(b'j', session)) {
                let (key, part) = entry.map_err(failed)?;
                let number = part_number(&key)?;
                match entries.last_mut().filter(|(last, _)| *last == number) {
                    Some((_, bytes)) => bytes.extend_from_slice(&part),
                    None => entries.push((number, part.to_vec())),
                }
            }
            Ok(entries)
        })
    }

    fn journaled(&self, after: Option<&str>, max: usize) -> Result<Vec<String>, StoreError> {
        self.with(|open| {
            let mut found = Vec::new();
            let behind_all = |session: &str| [numbered(b'j', session, u64::MAX), vec![u8::MAX; 5]].concat();
            let mut behind = after.map_or_else(|| vec![b'j'], behind_all);
            while found.len() < max {
                // One step a session, however long its journal is.
                let Some((key, _)) = open.db.get_gt(&behind).map_err(failed)? else { break };
                let Some(session) = key.strip_prefix(b"j").and_then(|k| k.get(4..k.len().checked_sub(12)?)) else {
                    break;
                };
                let session = String::from_utf8_lossy(session).into_owned();
                behind = behind_all(&session);
                found.push(session);
            }
            Ok(found)
        })
    }

    fn answered(&self, key: &RequestKey) -> Result<Option<Answered>, StoreError> {
        self.with(|open| {
            let found = open.db.get(tagged(b'q', &key.to_bytes())).map_err(failed)?;
            found.map(|bytes| answered_of(&bytes)).transpose()
        })
    }

    fn last_set(&self) -> Result<Vec<Arc<PackRef>>, StoreError> {
        self.with(|open| Ok(open.rules()?.set))
    }

    fn sources(&self, pack: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(|open| open.sources(pack))
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.with(|open| open.size())
    }

    fn prune(&self, before: RecordNumber) -> Result<Head, StoreError> {
        let mut changed = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        self.with(|open| {
            let mut base = place(&open.db, b"origin")?;
            loop {
                let mut writes = Writes { changed: changed.as_mut(), ..Writes::default() };
                let (mut dropped, mut size) = (0, open.size()?);
                for entry in open.db.range(block_key(0)..block_key(before)).take(PRUNED_AT_ONCE) {
                    let (key, bytes) = entry.map_err(failed)?;
                    let block = block_of(&key, &bytes)?;
                    if block.last() >= before {
                        break;
                    }
                    base = end_of(&block, base)?;
                    writes.remove(key);
                    size = size.saturating_sub(block.bytes.len() as u64);
                    dropped += 1;
                }
                if dropped == 0 {
                    break;
                }
                // The base moves with the blocks: the chain verifies wherever this is cut off.
                writes.insert(b"origin", &head_bytes(base));
                writes.insert(b"size", &size.to_be_bytes());
                open.db.apply_batch(writes.batch).map_err(failed)?;
            }
            let mut drop_key = |key: sled::IVec| {
                if let Some(changed) = changed.as_mut() {
                    changed.insert(key.to_vec());
                }
                open.db.remove(key).map(drop).map_err(failed)
            };
            type Number = fn(&[u8]) -> Result<RecordNumber, StoreError>;
            let kinds: [(&[u8], Number); 2] = [(b"i", last_number), (b"p", part_number)];
            for (tag, number) in kinds {
                for key in open.db.scan_prefix(tag).keys() {
                    let key = key.map_err(failed)?;
                    if number(&key)? <= base.last {
                        drop_key(key)?;
                    }
                }
            }
            for entry in open.db.scan_prefix(b"q") {
                let (key, bytes) = entry.map_err(failed)?;
                if answered_of(&bytes)?.record <= base.last {
                    drop_key(key)?;
                }
            }
            open.db.flush().map_err(failed)?;
            open.file.sync_data()?;
            Ok(base)
        })
    }

    fn tidy(&self) -> Result<Option<Tidied>, StoreError> {
        self.compact_if_worth(compact::LEAST)
    }

    fn tally(&self, key: &TallyKey) -> Result<Tally, StoreError> {
        self.with(|open| open.stored_tally(&tagged(b't', &key.to_bytes())))
    }

    fn tallies(&self, pack: &str, span: &Span) -> Result<Vec<(String, Tally)>, StoreError> {
        self.with(|open| {
            let start = tagged(b't', &prefix(pack, span));
            let found = open.db.scan_prefix(&start).map(|entry| {
                let (key, bytes) = entry.map_err(failed)?;
                let policy = key.strip_prefix(start.as_slice()).unwrap_or_default();
                Ok((String::from_utf8_lossy(policy).into_owned(), tally_of(&bytes)?))
            });
            found.collect()
        })
    }

    fn all_tallies(&self, visit: &mut dyn FnMut(&[u8], Tally)) -> Result<(), StoreError> {
        self.with(|open| {
            for entry in open.db.scan_prefix(b"t") {
                let (key, bytes) = entry.map_err(failed)?;
                visit(key.get(1..).unwrap_or_default(), tally_of(&bytes)?);
            }
            Ok(())
        })
    }
}
