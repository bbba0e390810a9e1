//! The embedded store: sled, behind this one door.
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
//! | `p` session (length, text) number | a payload (see `payload`) |
//!
//! sled's own flush asks the kernel to start writing and no more, so what must survive a loss of power also syncs the
//! store's file through a second descriptor. The periodic flush is off: only appends write.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError, RwLock, RwLockReadGuard},
};

use crate::model::Digest;

use super::{
    bytes::{Reader, put_number},
    chain::{Head, StoreId},
    layout::block_head,
    memory::end_of,
    payload::{Payload, PayloadKey},
    posting::Posting,
    record::RecordNumber,
    store::{Batch, Block, Safety, Store, StoreError, check_order},
    tally::{Span, Tally, TallyKey, prefix},
};

const FORMAT: u32 = 2;
/// Blocks that are dropped in one batch.
const PRUNED_AT_ONCE: usize = 256;

/// Records and counters in a folder.
#[derive(Debug)]
pub struct SledStore {
    path: PathBuf,
    cache_bytes: u64,
    /// Nothing while it could not be opened again after a failure.
    open: RwLock<Option<Open>>,
    /// Held while a batch is appended.
    appending: Mutex<()>,
}

/// The opened folder.
#[derive(Debug)]
struct Open {
    db: sled::Db,
    file: File,
    /// Readers need not wait for a commit to know it.
    head: Mutex<Head>,
}

impl SledStore {
    /// Opens the store in a folder, creating both if missing. `cache_bytes` bounds sled's page cache.
    pub fn open(path: &Path, cache_bytes: u64) -> Result<SledStore, StoreError> {
        SledStore::new(path, cache_bytes, None)
    }

    /// Makes the store in a folder that has none, for records that go on behind `base`.
    pub fn create(path: &Path, cache_bytes: u64, base: Head) -> Result<SledStore, StoreError> {
        SledStore::new(path, cache_bytes, Some(base))
    }

    fn new(path: &Path, cache_bytes: u64, base: Option<Head>) -> Result<SledStore, StoreError> {
        let open = RwLock::new(Some(Open::at(path, cache_bytes, base)?));
        Ok(SledStore { path: path.to_owned(), cache_bytes, open, appending: Mutex::default() })
    }

    /// The store's size on disk in bytes.
    pub fn bytes_on_disk(&self) -> Result<u64, StoreError> {
        self.with(|open| open.db.size_on_disk().map_err(failed))
    }

    /// Runs on what is open. It stays open meanwhile.
    fn with<T>(&self, work: impl FnOnce(&Open) -> Result<T, StoreError>) -> Result<T, StoreError> {
        // Nothing panics half-way through a change of what is guarded.
        let guard: RwLockReadGuard<'_, _> = self.open.read().unwrap_or_else(PoisonError::into_inner);
        work(guard.as_ref().ok_or(StoreError::Closed)?)
    }
}

impl Open {
    /// Opens the folder, or makes a store in it: one that begins behind `base`, or a new one. With a base there must not
    /// be one.
    fn at(path: &Path, cache_bytes: u64, base: Option<Head>) -> Result<Open, StoreError> {
        let config = sled::Config::new().path(path).cache_capacity(cache_bytes).flush_every_ms(None);
        let db = config.open().map_err(|e| opening(path, e))?;
        let at = |source| StoreError::Open { path: path.to_owned(), source };
        let file = File::open(path.join("db")).map_err(at)?;
        match db.get(b"format").map_err(failed)? {
            Some(_) if base.is_some() => return Err(StoreError::Exists { path: path.to_owned() }),
            Some(found) if found == FORMAT.to_be_bytes() => {}
            Some(found) => {
                let found = match <[u8; 4]>::try_from(found.as_ref()) {
                    Ok(bytes) => u32::from_be_bytes(bytes).to_string(),
                    Err(_) => "unreadable".to_owned(),
                };
                return Err(StoreError::Format { found, known: FORMAT });
            }
            None if !db.is_empty() => {
                return Err(StoreError::Format { found: "unknown".to_owned(), known: FORMAT });
            }
            None => {
                let base = match base {
                    Some(base) => base,
                    None => {
                        let mut id = [0; 16];
                        getrandom::fill(&mut id).map_err(|e| at(io::Error::other(e)))?;
                        Head::genesis(StoreId::new(id))
                    }
                };
                let genesis = head_bytes(base);
                let mut first = sled::Batch::default();
                first.insert(b"format", &FORMAT.to_be_bytes());
                first.insert(b"head", genesis.as_slice());
                first.insert(b"origin", genesis.as_slice());
                db.apply_batch(first).map_err(failed)?;
                db.flush().map_err(failed)?;
                file.sync_all()?;
                // The file's name is durable only once its folder is.
                File::open(path).and_then(|folder| folder.sync_all()).map_err(at)?;
            }
        }
        let head = place(&db, b"head")?;
        let last = match db.scan_prefix(b"b").next_back() {
            None => place(&db, b"origin")?,
            Some(entry) => {
                let (key, bytes) = entry.map_err(failed)?;
                end_of(&block_of(&key, &bytes)?, head)?
            }
        };
        if last != head {
            let (says, ends) = (head.last, last.last);
            let what =
                format!("its head is at record {says}, its last block ends at record {ends} or has another link");
            return Err(StoreError::Damaged(what));
        }
        Ok(Open { db, file, head: Mutex::new(head) })
    }

    fn head(&self) -> Head {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored_tally(&self, key: &[u8]) -> Result<Tally, StoreError> {
        self.db.get(key).map_err(failed)?.map_or(Ok(Tally::default()), |bytes| tally_of(&bytes))
    }
}

impl Store for SledStore {
    fn append(&self, batch: &Batch, safety: Safety) -> Result<(), StoreError> {
        let _alone = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        self.with(|open| {
            check_order(open.head(), batch)?;
            let mut writes = sled::Batch::default();
            for block in &batch.blocks {
                writes.insert(&block_key(block.first), block.bytes.as_slice());
            }
            for (key, delta) in &batch.tallies {
                let key = tagged(b't', &key.to_bytes());
                writes.insert(key.as_slice(), open.stored_tally(&key)?.plus(*delta).to_bytes());
            }
            for (posting, block) in &batch.postings {
                writes.insert(posting_key(posting, *block), &[]);
            }
            for (key, payload) in &batch.payloads {
                writes.insert(payload_key(key), payload.bytes());
            }
            writes.insert(b"head", head_bytes(batch.after));
            open.db.apply_batch(writes).map_err(failed)?;
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
        *open = None;
        let anew = Open::at(&self.path, self.cache_bytes, None)?;
        // What was flushed last may not have reached the disk.
        anew.file.sync_all()?;
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
            let found = open.db.get(payload_key(key)).map_err(failed)?;
            let whole = |bytes: sled::IVec| {
                let damaged = || StoreError::Damaged(format!("the payload of record {} is too short", key.number));
                Payload::from_bytes(bytes.to_vec()).ok_or_else(damaged)
            };
            found.map(whole).transpose()
        })
    }

    fn erase(&self, session: &str) -> Result<u64, StoreError> {
        let _alone = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        self.with(|open| {
            let (mut writes, mut erased) = (sled::Batch::default(), 0);
            for key in open.db.scan_prefix(payload_start(session)).keys() {
                writes.remove(key.map_err(failed)?);
                erased += 1;
            }
            open.db.apply_batch(writes).map_err(failed)?;
            open.db.flush().map_err(failed)?;
            open.file.sync_data()?;
            Ok(erased)
        })
    }

    fn prune(&self, before: RecordNumber) -> Result<Head, StoreError> {
        let _alone = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        self.with(|open| {
            let mut base = place(&open.db, b"origin")?;
            loop {
                let mut writes = sled::Batch::default();
                let mut dropped = 0;
                for entry in open.db.range(block_key(0)..block_key(before)).take(PRUNED_AT_ONCE) {
                    let (key, bytes) = entry.map_err(failed)?;
                    let block = block_of(&key, &bytes)?;
                    if block.last() >= before {
                        break;
                    }
                    base = end_of(&block, base)?;
                    writes.remove(key);
                    dropped += 1;
                }
                if dropped == 0 {
                    break;
                }
                // The base moves with the blocks: the chain verifies wherever this is cut off.
                writes.insert(b"origin", head_bytes(base));
                open.db.apply_batch(writes).map_err(failed)?;
            }
            for tag in [b"i", b"p"] {
                for key in open.db.scan_prefix(tag).keys() {
                    let key = key.map_err(failed)?;
                    if last_number(&key)? <= base.last {
                        open.db.remove(key).map_err(failed)?;
                    }
                }
            }
            open.db.flush().map_err(failed)?;
            open.file.sync_data()?;
            Ok(base)
        })
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

fn block_key(first: RecordNumber) -> [u8; 9] {
    let mut key = [b'b'; 9];
    for (to, from) in key.iter_mut().skip(1).zip(first.to_be_bytes()) {
        *to = from;
    }
    key
}

/// A key of one of the kinds above.
fn tagged(tag: u8, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 9);
    out.push(tag);
    out.extend_from_slice(key);
    out
}

fn posting_key(posting: &Posting, block: RecordNumber) -> Vec<u8> {
    let mut key = tagged(b'i', &posting.to_bytes());
    key.extend_from_slice(&block.to_be_bytes());
    key
}

fn payload_start(session: &str) -> Vec<u8> {
    let mut key = tagged(b'p', &(session.len() as u32).to_be_bytes());
    key.extend_from_slice(session.as_bytes());
    key
}

fn payload_key(key: &PayloadKey) -> Vec<u8> {
    let mut bytes = payload_start(&key.session);
    bytes.extend_from_slice(&key.number.to_be_bytes());
    bytes
}

/// The number that a key ends with.
fn last_number(key: &[u8]) -> Result<RecordNumber, StoreError> {
    let number = key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes));
    number.ok_or_else(|| StoreError::Damaged("a key without a number".to_owned()))
}

fn head_bytes(head: Head) -> Vec<u8> {
    let mut bytes = head.store.bytes().to_vec();
    put_number(&mut bytes, head.last);
    bytes.extend_from_slice(head.link.bytes());
    bytes
}

/// The place that a key leads to.
fn place(db: &sled::Db, key: &[u8]) -> Result<Head, StoreError> {
    let damaged = || StoreError::Damaged(format!("`{}` is missing or unreadable", String::from_utf8_lossy(key)));
    let bytes = db.get(key).map_err(failed)?.ok_or_else(damaged)?;
    let mut reader = Reader::new(&bytes);
    let read = (|| {
        Ok::<_, super::bytes::BytesError>(Head {
            store: StoreId::new(reader.array()?),
            last: reader.number()?,
            link: Digest::new(reader.array()?),
        })
    })();
    read.map_err(|_| damaged())
}

fn block_of(key: &[u8], bytes: &[u8]) -> Result<Block, StoreError> {
    let number = key.get(1..).and_then(|n| <[u8; 8]>::try_from(n).ok()).map(u64::from_be_bytes);
    let named = number.ok_or_else(|| StoreError::Damaged("a block's key is not a number".to_owned()))?;
    let (first, count) = block_head(bytes).map_err(|source| StoreError::Layout { first: named, source })?;
    if first != named || count == 0 || first.checked_add(count).is_none() {
        return Err(StoreError::Damaged(format!("the block at {named} says that it is {first} with {count} records")));
    }
    Ok(Block { first, count, bytes: bytes.to_vec() })
}

fn tally_of(bytes: &[u8]) -> Result<Tally, StoreError> {
    Tally::from_bytes(bytes).map_err(|e| StoreError::Damaged(format!("a counter: {e}")))
}

fn opening(path: &Path, e: sled::Error) -> StoreError {
    let path: PathBuf = path.to_owned();
    match e {
        // sled wraps the failed lock in an error of its own words; the kind inside is lost.
        sled::Error::Io(e) if e.kind() == io::ErrorKind::WouldBlock || e.to_string().contains("lock") => {
            StoreError::Locked { path }
        }
        sled::Error::Io(source) => StoreError::Open { path, source },
        other => StoreError::Damaged(other.to_string()),
    }
}

fn failed(e: sled::Error) -> StoreError {
    match e {
        sled::Error::Io(e) => StoreError::Io(e),
        other => StoreError::Damaged(other.to_string()),
    }
}
