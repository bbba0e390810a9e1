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
//! | `size` | the bytes of all blocks |
//! | `q` method (length, text) id | what became of a request with a name: print, record |
//! | `p` session (length, text) number part | a payload (see `payload`), in parts |
//! | `j` session (length, text) number part | an entry of the session's journal, in parts |
//!
//! Large values are what sled keeps worst, so what may be large is kept in parts of a bounded size, as blocks are.
//!
//! sled's own flush asks the kernel to start writing and no more, so what must survive a loss of power also syncs the
//! store's file through a second descriptor. The periodic flush is off: only appends write.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, mpsc},
    thread,
    time::{Duration, Instant},
};

use crate::model::Digest;

use super::{
    bytes::{Reader, put_number},
    chain::{Head, StoreId},
    journal::{JournalChange, JournalEntry, JournalWrite},
    layout::block_head,
    memory::end_of,
    payload::{Payload, PayloadKey},
    posting::Posting,
    record::RecordNumber,
    request::{Answered, RequestKey},
    store::{Batch, Block, Safety, Store, StoreError, check_order},
    tally::{Span, Tally, TallyKey, prefix},
};

const FORMAT: u32 = 2;
/// Blocks that are dropped in one batch.
const PRUNED_AT_ONCE: usize = 256;
/// Bytes of one part of a value that is kept in parts.
const PART: usize = 8 * 1024;
/// Between two attempts to open a folder that is still locked.
const A_MOMENT: Duration = Duration::from_millis(20);
/// How long sled may take to let go of a folder after a failure.
const LETTING_GO: Duration = Duration::from_secs(5);

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

    fn size(&self) -> Result<u64, StoreError> {
        let found = self.db.get(b"size").map_err(failed)?;
        let number = |bytes: sled::IVec| <[u8; 8]>::try_from(bytes.as_ref()).map(u64::from_be_bytes);
        let damaged = |_| StoreError::Damaged("`size` is unreadable".to_owned());
        found.map(number).transpose().map_err(damaged).map(Option::unwrap_or_default)
    }

    /// What becomes of each key of the journals that change.
    fn journal_writes<'a>(
        &self,
        journal: &'a [JournalWrite],
    ) -> Result<BTreeMap<Vec<u8>, Option<&'a [u8]>>, StoreError> {
        let mut writes = BTreeMap::new();
        for JournalWrite { session, change } in journal {
            match change {
                JournalChange::Add { number, bytes } => {
                    writes.extend(parts(b'j', session, *number, bytes).map(|(key, part)| (key, Some(part))));
                }
                JournalChange::Drop => {
                    let start = of_session(b'j', session);
                    for (_, bytes) in writes.range_mut(start.clone()..).take_while(|(key, _)| key.starts_with(&start)) {
                        *bytes = None;
                    }
                    for key in self.db.scan_prefix(&start).keys() {
                        writes.insert(key.map_err(failed)?.to_vec(), None);
                    }
                }
            }
        }
        Ok(writes)
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
            for session in &batch.erased {
                for key in open.db.scan_prefix(of_session(b'p', session)).keys() {
                    writes.remove(key.map_err(failed)?);
                }
            }
            for (key, answered) in &batch.answered {
                writes.insert(tagged(b'q', &key.to_bytes()), answered_bytes(*answered));
            }
            let added: usize = batch.blocks.iter().map(|block| block.bytes.len()).sum();
            writes.insert(b"size", &(open.size()? + added as u64).to_be_bytes());
            for (key, payload) in &batch.payloads {
                for (key, part) in parts(b'p', &key.session, key.number, payload.bytes()) {
                    writes.insert(key, part);
                }
            }
            for (key, bytes) in open.journal_writes(&batch.journal)? {
                match bytes {
                    Some(bytes) => writes.insert(key, bytes),
                    None => writes.remove(key),
                }
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
            match Open::at(&self.path, self.cache_bytes, None) {
                // Its threads let go a moment after it is dropped.
                Err(StoreError::Locked { .. }) if Instant::now() < until => thread::sleep(A_MOMENT),
                opened => break opened?,
            }
        };
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

    fn size(&self) -> Result<u64, StoreError> {
        self.with(|open| open.size())
    }

    fn prune(&self, before: RecordNumber) -> Result<Head, StoreError> {
        let _alone = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        self.with(|open| {
            let mut base = place(&open.db, b"origin")?;
            loop {
                let mut writes = sled::Batch::default();
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
                writes.insert(b"origin", head_bytes(base));
                writes.insert(b"size", &size.to_be_bytes());
                open.db.apply_batch(writes).map_err(failed)?;
            }
            type Number = fn(&[u8]) -> Result<RecordNumber, StoreError>;
            let kinds: [(&[u8], Number); 2] = [(b"i", last_number), (b"p", part_number)];
            for (tag, number) in kinds {
                for key in open.db.scan_prefix(tag).keys() {
                    let key = key.map_err(failed)?;
                    if number(&key)? <= base.last {
                        open.db.remove(key).map_err(failed)?;
                    }
                }
            }
            for entry in open.db.scan_prefix(b"q") {
                let (key, bytes) = entry.map_err(failed)?;
                if answered_of(&bytes)?.record <= base.last {
                    open.db.remove(key).map_err(failed)?;
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

/// The start of the keys of one kind that belong to a session.
fn of_session(tag: u8, session: &str) -> Vec<u8> {
    let mut key = tagged(tag, &(session.len() as u32).to_be_bytes());
    key.extend_from_slice(session.as_bytes());
    key
}

/// One of these keys.
fn numbered(tag: u8, session: &str, number: u64) -> Vec<u8> {
    let mut key = of_session(tag, session);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// A value in parts, each with its key; at least one.
fn parts<'a>(
    tag: u8,
    session: &'a str,
    number: u64,
    bytes: &'a [u8],
) -> impl Iterator<Item = (Vec<u8>, &'a [u8])> + use<'a> {
    let empty = bytes.is_empty().then_some(bytes);
    (0u32..).zip(empty.into_iter().chain(bytes.chunks(PART))).map(move |(part, bytes)| {
        let mut key = numbered(tag, session, number);
        key.extend_from_slice(&part.to_be_bytes());
        (key, bytes)
    })
}

/// The number in the key of a part.
fn part_number(key: &[u8]) -> Result<RecordNumber, StoreError> {
    last_number(key.get(..key.len().saturating_sub(4)).unwrap_or_default())
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

fn answered_bytes(Answered { print, record }: Answered) -> Vec<u8> {
    let mut bytes = print.bytes().to_vec();
    bytes.extend_from_slice(&record.to_be_bytes());
    bytes
}

fn answered_of(bytes: &[u8]) -> Result<Answered, StoreError> {
    let print = bytes.first_chunk::<32>().map(|print| Digest::new(*print));
    let record = last_number(bytes)?;
    print.map(|print| Answered { print, record }).ok_or_else(|| StoreError::Damaged("a request".to_owned()))
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
