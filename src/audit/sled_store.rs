//! The embedded store: sled, behind this one door.
//!
//! One tree holds everything, so that one atomic batch covers a group commit: `b` and the number of
//! a block's first record (big-endian) lead to the block, `t` and a counter's key to its numbers, `s`
//! and a session's id to the records that opened it, `format` to the version of this arrangement.
//!
//! sled's own flush asks the kernel to start writing and no more, so an append also syncs the
//! store's file through a second descriptor before it counts as durable. The periodic flush is off:
//! only appends write.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    bytes::{Reader, put_number},
    layout::block_head,
    record::RecordNumber,
    store::{Batch, Block, Opening, Store, StoreError, check_order},
    tally::{Span, Tally, TallyKey, prefix},
};

const FORMAT_KEY: &[u8] = b"format";
const FORMAT: u32 = 1;

/// Records and counters in a folder.
#[derive(Debug)]
pub struct SledStore {
    db: sled::Db,
    file: File,
    /// The number of the last record; readers need not wait for a commit to know it.
    last: AtomicU64,
    /// Held while a batch is appended.
    appending: Mutex<()>,
}

impl SledStore {
    /// Opens the store in a folder, creating both if missing. `cache_bytes` bounds sled's page cache.
    pub fn open(path: &Path, cache_bytes: u64) -> Result<SledStore, StoreError> {
        let config = sled::Config::new().path(path).cache_capacity(cache_bytes).flush_every_ms(None);
        let db = config.open().map_err(|e| opening(path, e))?;
        let at = |source| StoreError::Open { path: path.to_owned(), source };
        let file = File::open(path.join("db")).map_err(at)?;
        match db.get(FORMAT_KEY).map_err(failed)? {
            Some(found) if found == FORMAT.to_be_bytes() => {}
            Some(found) => {
                let found = match <[u8; 4]>::try_from(found.as_ref()) {
                    Ok(bytes) => u32::from_be_bytes(bytes).to_string(),
                    Err(_) => "unreadable".to_owned(),
                };
                return Err(StoreError::Format { found, known: FORMAT });
            }
            None => {
                db.insert(FORMAT_KEY, &FORMAT.to_be_bytes()).map_err(failed)?;
                db.flush().map_err(failed)?;
                file.sync_all()?;
                // The file's name is durable only once its folder is.
                File::open(path).and_then(|folder| folder.sync_all()).map_err(at)?;
            }
        }
        let last = match db.scan_prefix(b"b").next_back() {
            None => 0,
            Some(entry) => {
                let (key, bytes) = entry.map_err(failed)?;
                let block = block_of(&key, &bytes)?;
                block.first + block.count - 1
            }
        };
        Ok(SledStore { db, file, last: AtomicU64::new(last), appending: Mutex::default() })
    }

    /// The store's size on disk in bytes.
    pub fn bytes_on_disk(&self) -> Result<u64, StoreError> {
        self.db.size_on_disk().map_err(failed)
    }
}

impl Store for SledStore {
    fn append(&self, batch: &Batch) -> Result<(), StoreError> {
        let _alone = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        let last = check_order(self.last()?, &batch.blocks)?;
        let mut writes = sled::Batch::default();
        for block in &batch.blocks {
            writes.insert(&block_key(block.first), block.bytes.as_slice());
        }
        for (key, delta) in &batch.tallies {
            let key = tagged(b't', &key.to_bytes());
            writes.insert(key.as_slice(), self.stored_tally(&key)?.plus(*delta).to_bytes());
        }
        let mut openings: BTreeMap<&str, Opening> = BTreeMap::new();
        for (session, record) in &batch.openings {
            let before =
                openings.get(session.as_ref()).copied().map_or_else(|| self.opening(session), |o| Ok(Some(o)))?;
            openings.insert(session, Opening::reopened(before, *record));
        }
        for (session, opening) in openings {
            let mut value = Vec::with_capacity(8);
            put_number(&mut value, opening.first);
            put_number(&mut value, opening.latest);
            writes.insert(tagged(b's', session.as_bytes()), value);
        }
        self.db.apply_batch(writes).map_err(failed)?;
        // Written, whatever the flush says: numbers are never given twice.
        self.last.store(last, Ordering::SeqCst);
        self.db.flush().map_err(failed)?;
        self.file.sync_data()?;
        Ok(())
    }

    fn last(&self) -> Result<RecordNumber, StoreError> {
        Ok(self.last.load(Ordering::SeqCst))
    }

    fn blocks(&self, from: RecordNumber, max: usize) -> Result<Vec<Block>, StoreError> {
        let floor = block_key(0);
        let start = match self.db.range(floor..=block_key(from)).next_back() {
            None => block_key(from),
            Some(entry) => {
                let (key, bytes) = entry.map_err(failed)?;
                let block = block_of(&key, &bytes)?;
                block_key(if block.first + block.count > from { block.first } else { from })
            }
        };
        let blocks = self.db.range(start..=block_key(RecordNumber::MAX)).take(max);
        blocks.map(|entry| entry.map_err(failed).and_then(|(key, bytes)| block_of(&key, &bytes))).collect()
    }

    fn tally(&self, key: &TallyKey) -> Result<Tally, StoreError> {
        self.stored_tally(&tagged(b't', &key.to_bytes()))
    }

    fn opening(&self, session: &str) -> Result<Option<Opening>, StoreError> {
        let Some(bytes) = self.db.get(tagged(b's', session.as_bytes())).map_err(failed)? else { return Ok(None) };
        let mut reader = Reader::new(&bytes);
        match (reader.number(), reader.number()) {
            (Ok(first), Ok(latest)) => Ok(Some(Opening { first, latest })),
            (Err(e), _) | (_, Err(e)) => Err(StoreError::Damaged(format!("a session's opening: {e}"))),
        }
    }

    fn tallies(&self, pack: &str, span: &Span) -> Result<Vec<(String, Tally)>, StoreError> {
        let start = tagged(b't', &prefix(pack, span));
        let found = self.db.scan_prefix(&start).map(|entry| {
            let (key, bytes) = entry.map_err(failed)?;
            let policy = key.strip_prefix(start.as_slice()).unwrap_or_default();
            Ok((String::from_utf8_lossy(policy).into_owned(), tally_of(&bytes)?))
        });
        found.collect()
    }
}

impl SledStore {
    fn stored_tally(&self, key: &[u8]) -> Result<Tally, StoreError> {
        self.db.get(key).map_err(failed)?.map_or(Ok(Tally::default()), |bytes| tally_of(&bytes))
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
    let mut out = Vec::with_capacity(key.len() + 1);
    out.push(tag);
    out.extend_from_slice(key);
    out
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
