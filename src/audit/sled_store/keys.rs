//! The keys and values of the one tree, as the table of the door tells.

use std::collections::BTreeMap;

use crate::model::Digest;

use crate::audit::{
    bytes::{BytesError, Reader, put_number},
    chain::{Head, StoreId},
    layout::block_head,
    posting::Posting,
    record::RecordNumber,
    request::Answered,
    store::{Block, StoreError},
    tally::Tally,
};

/// Bytes of one part of a value that is kept in parts.
const PART: usize = 8 * 1024;

pub(super) fn block_key(first: RecordNumber) -> [u8; 9] {
    let mut key = [b'b'; 9];
    for (to, from) in key.iter_mut().skip(1).zip(first.to_be_bytes()) {
        *to = from;
    }
    key
}

/// A key of one of the kinds above.
pub(super) fn tagged(tag: u8, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 9);
    out.push(tag);
    out.extend_from_slice(key);
    out
}

pub(super) fn posting_key(posting: &Posting, block: RecordNumber) -> Vec<u8> {
    let mut key = tagged(b'i', &posting.to_bytes());
    key.extend_from_slice(&block.to_be_bytes());
    key
}

/// The start of the keys of one kind that belong to a session.
pub(super) fn of_session(tag: u8, session: &str) -> Vec<u8> {
    let mut key = tagged(tag, &(session.len() as u32).to_be_bytes());
    key.extend_from_slice(session.as_bytes());
    key
}

/// One of these keys.
pub(super) fn numbered(tag: u8, session: &str, number: u64) -> Vec<u8> {
    let mut key = of_session(tag, session);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// A value that belongs to a session, in parts, each with its key.
pub(super) fn parts<'a>(
    tag: u8,
    session: &'a str,
    number: u64,
    bytes: &'a [u8],
) -> impl Iterator<Item = (Vec<u8>, &'a [u8])> + use<'a> {
    in_parts(numbered(tag, session, number), bytes)
}

/// What a pack was compiled from, in parts, each with its key.
pub(super) fn source_parts<'a>(pack: &Digest, bytes: &'a [u8]) -> impl Iterator<Item = (Vec<u8>, &'a [u8])> + use<'a> {
    in_parts(tagged(b'k', pack.bytes()), bytes)
}

/// A value in parts, at least one, each under the start of its key and its number.
fn in_parts(start: Vec<u8>, bytes: &[u8]) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
    let empty = bytes.is_empty().then_some(bytes);
    (0u32..).zip(empty.into_iter().chain(bytes.chunks(PART))).map(move |(part, bytes)| {
        let mut key = start.clone();
        key.extend_from_slice(&part.to_be_bytes());
        (key, bytes)
    })
}

/// The number in the key of a part.
pub(super) fn part_number(key: &[u8]) -> Result<RecordNumber, StoreError> {
    last_number(key.get(..key.len().saturating_sub(4)).unwrap_or_default())
}

/// The number that a key ends with.
pub(super) fn last_number(key: &[u8]) -> Result<RecordNumber, StoreError> {
    let number = key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes));
    number.ok_or_else(|| StoreError::Damaged("a key without a number".to_owned()))
}

pub(super) fn head_bytes(head: Head) -> Vec<u8> {
    let mut bytes = head.store.bytes().to_vec();
    put_number(&mut bytes, head.last);
    bytes.extend_from_slice(head.link.bytes());
    bytes
}

/// The place that a key leads to.
pub(super) fn place(db: &sled::Db, key: &[u8]) -> Result<Head, StoreError> {
    let damaged = || StoreError::Damaged(format!("`{}` is missing or unreadable", String::from_utf8_lossy(key)));
    let bytes = db.get(key).map_err(failed)?.ok_or_else(damaged)?;
    let mut reader = Reader::new(&bytes);
    let read = (|| {
        Ok::<_, BytesError>(Head {
            store: StoreId::new(reader.array()?),
            last: reader.number()?,
            link: Digest::new(reader.array()?),
        })
    })();
    read.map_err(|_| damaged())
}

pub(super) fn block_of(key: &[u8], bytes: &[u8]) -> Result<Block, StoreError> {
    let number = key.get(1..).and_then(|n| <[u8; 8]>::try_from(n).ok()).map(u64::from_be_bytes);
    let named = number.ok_or_else(|| StoreError::Damaged("a block's key is not a number".to_owned()))?;
    let (first, count) = block_head(bytes).map_err(|source| StoreError::Layout { first: named, source })?;
    if first != named || count == 0 || first.checked_add(count).is_none() {
        return Err(StoreError::Damaged(format!("the block at {named} says that it is {first} with {count} records")));
    }
    Ok(Block { first, count, bytes: bytes.to_vec() })
}

pub(super) fn answered_bytes(Answered { print, record }: Answered) -> Vec<u8> {
    let mut bytes = print.bytes().to_vec();
    bytes.extend_from_slice(&record.to_be_bytes());
    bytes
}

pub(super) fn answered_of(bytes: &[u8]) -> Result<Answered, StoreError> {
    let print = bytes.first_chunk::<32>().map(|print| Digest::new(*print));
    let record = last_number(bytes)?;
    print.map(|print| Answered { print, record }).ok_or_else(|| StoreError::Damaged("a request".to_owned()))
}

pub(super) fn tally_of(bytes: &[u8]) -> Result<Tally, StoreError> {
    Tally::from_bytes(bytes).map_err(|e| StoreError::Damaged(format!("a counter: {e}")))
}

/// What becomes of keys that one batch changes: their value, or nothing where they go.
pub(super) type KeyWrites<V> = BTreeMap<Vec<u8>, Option<V>>;

/// Lets everything under a start go: what is stored there, and what was to be written there.
pub(super) fn drop_all<V>(db: &sled::Db, writes: &mut KeyWrites<V>, start: &[u8]) -> Result<(), StoreError> {
    for (_, value) in writes.range_mut(start.to_vec()..).take_while(|(key, _)| key.starts_with(start)) {
        *value = None;
    }
    for key in db.scan_prefix(start).keys() {
        writes.insert(key.map_err(failed)?.to_vec(), None);
    }
    Ok(())
}

pub(super) fn failed(e: sled::Error) -> StoreError {
    match e {
        sled::Error::Io(e) => StoreError::Io(e),
        other => StoreError::Damaged(other.to_string()),
    }
}
