//! Looking after what is stored: verifying, exporting, erasing, pruning.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::audit::{
    self, BatchBuilder, Body, Draft, Head, PayloadKey, RecordNumber, Safety, SetAside, Store, StoreError, Tidied,
    Trust, Verified, decode_block, decode_record, end_line, entries, head_line, record_line, scan,
};

use super::{
    Service,
    query::QueryError,
    requests::{Named, RequestError, Turn},
    sessions::millis,
    writer::AuditError,
};

/// Blocks of one part of an export.
const BLOCKS_PER_PART: usize = 8;

/// Where an export goes on.
#[derive(Clone, Copy, Debug)]
pub struct ExportFrom {
    /// The place before the next record.
    at: RecordNumber,
    /// The first line is still to be written: where the records begin.
    base: Option<Head>,
    /// Where it ends.
    end: Head,
}

impl Service {
    /// Verifies the store as it stands.
    pub async fn verify(&self, trust: Trust) -> Result<Verified, QueryError> {
        self.read(move |store| audit::verify_store(store, trust)).await
    }

    /// Begins an export with a record, or with the first that is held.
    pub async fn export_from(&self, first: RecordNumber) -> Result<ExportFrom, QueryError> {
        self.read(move |store| begin_export(store, first)).await
    }

    /// The next lines of an export, and where it goes on; nothing behind the last.
    pub async fn export(&self, from: ExportFrom) -> Result<(Vec<String>, Option<ExportFrom>), QueryError> {
        self.read(move |store| export_part(store, from)).await
    }

    /// Erases the payloads of a session, with a record that says so; gives that record.
    pub async fn erase_payloads(&self, session: String, named: Option<Named>) -> Result<RecordNumber, KeepError> {
        let _turn = match self.turn(named.as_ref()).await? {
            Turn::Repeated(record) => return Ok(record),
            new => new,
        };
        let erased = Draft::Erased { session: session.into() };
        let recorded = self.audit.place().await?.answer(named, vec![erased], Vec::new()).done().await?;
        Ok(recorded.number().unwrap_or_default())
    }

    /// Drops the blocks wholly before a record, and records it; gives the first record that is held.
    pub async fn prune(&self, first_kept: RecordNumber, named: Option<Named>) -> Result<RecordNumber, KeepError> {
        let turn = self.turn(named.as_ref()).await?;
        if let Turn::Repeated(record) = turn {
            return self.read(move |store| pruned_to(store, record)).await.map_err(|e| RequestError::from(e).into());
        }
        let (before, base) =
            self.read(move |store| Ok((store.base()?, store.prune(first_kept)?))).await.map_err(RequestError::from)?;
        let first = base.last + 1;
        if before != base || named.is_some() {
            let place = self.audit.place().await?;
            place.answer(named, vec![Draft::Pruned { first }], Vec::new()).done().await?;
            tracing::info!(first, "the oldest records were dropped");
        }
        Ok(first)
    }

    /// Gives room back that the store takes without need, if that is worth it. To be called now and then.
    pub async fn tidy(&self) -> Result<Option<Tidied>, QueryError> {
        self.read(|store| store.tidy()).await
    }

    /// Drops what is older or more than is to be kept. To be called now and then.
    pub async fn retain(&self, retention: Retention) -> Result<(), KeepError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let oldest = retention.age.and_then(|age| now.checked_sub(age)).map(millis);
        let found = self.read(move |store| first_to_keep(store, oldest, retention.bytes)).await;
        if let Some(first) = found.map_err(RequestError::from)? {
            self.prune(first, None).await?;
        }
        Ok(())
    }
}

/// What a record of pruning says; where it was pruned itself, the first record that is held.
fn pruned_to(store: &dyn Store, number: RecordNumber) -> Result<RecordNumber, StoreError> {
    let mut first = store.base()?.last + 1;
    scan(store, number, |record| {
        if let (true, Body::Pruned { first: told }) = (record.number == number, record.body) {
            first = told;
        }
        ControlFlow::Break(())
    })?;
    Ok(first)
}

/// How much is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Records that are older go.
    pub age: Option<Duration>,
    /// The oldest records go while there are more bytes.
    pub bytes: Option<u64>,
}

/// Why something was not erased or dropped.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The store cannot be read, or the request's name stands for another one.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// It could not be recorded.
    #[error("not recorded: {0}")]
    Audit(#[from] AuditError),
}

/// The first record to keep, if some are to go: those of before `oldest`, and the oldest beyond a number of bytes.
fn first_to_keep(
    store: &dyn Store,
    oldest: Option<u64>,
    bytes: Option<u64>,
) -> Result<Option<RecordNumber>, StoreError> {
    let mut beyond = match bytes {
        Some(bytes) => store.size()?.saturating_sub(bytes),
        None => 0,
    };
    let mut next = store.base()?.last + 1;
    let mut first = None;
    loop {
        let blocks = store.blocks(next, BLOCKS_PER_PART)?;
        let Some(behind) = blocks.last().map(|block| block.last() + 1) else { return Ok(first) };
        for block in blocks {
            let layout = |source| StoreError::Layout { first: block.first, source };
            let records = decode_block(&block.bytes).map_err(layout)?;
            let last_at = records.last().map_or(u64::MAX, |decoded| decoded.record.at_millis);
            if beyond == 0 && oldest.is_none_or(|oldest| last_at >= oldest) {
                return Ok(first);
            }
            beyond = beyond.saturating_sub(block.bytes.len() as u64);
            first = Some(block.last() + 1);
        }
        next = behind;
    }
}

/// Erases the payloads of a session in a store that nobody serves, with a record that says so; gives that record.
pub fn erase_in(store: &dyn Store, session: &str) -> Result<RecordNumber, StoreError> {
    record_in(store, &Draft::Erased { session: session.into() })
}

/// Drops the blocks wholly before a record in a store that nobody serves, and records it; gives the first record that
/// is held.
pub fn prune_in(store: &dyn Store, first_kept: RecordNumber) -> Result<RecordNumber, StoreError> {
    let (before, base) = (store.base()?, store.prune(first_kept)?);
    if before != base {
        record_in(store, &Draft::Pruned { first: base.last + 1 })?;
    }
    Ok(base.last + 1)
}

/// Records in a store that was begun in the place of a damaged one where that one is.
pub fn record_set_aside(store: &dyn Store, folder: &Path, damage: &StoreError) -> Result<RecordNumber, StoreError> {
    let folder = folder.file_name().map(|name| name.to_string_lossy().into()).unwrap_or_default();
    let aside = SetAside { folder, reason: damage.to_string().into() };
    record_in(store, &Draft::SetAside(Arc::new(aside)))
}

fn record_in(store: &dyn Store, draft: &Draft) -> Result<RecordNumber, StoreError> {
    // The key makes salts, and these records have no payload.
    let mut builder = BatchBuilder::new(store.head()?, [0; 32]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    builder.push(draft, millis(now));
    store.append(&builder.finish(), Safety::Disk)?;
    store.last()
}

/// Begins an export with a record, or with the first that is held.
pub fn begin_export(store: &dyn Store, first: RecordNumber) -> Result<ExportFrom, StoreError> {
    let (held, end) = (store.base()?, store.head()?);
    let before = first.saturating_sub(1).clamp(held.last, end.last);
    let mut base = held;
    if before > held.last {
        // The link before the first is that of the record before it.
        let Some(block) = store.blocks(before, 1)?.pop() else {
            check_held(store, before)?;
            return Err(StoreError::Damaged(format!("record {before} is missing")));
        };
        let layout = |source| StoreError::Layout { first: block.first, source };
        for entry in entries(&block.bytes).map_err(layout)?.1 {
            if entry.number == before {
                base = Head { last: before, link: entry.link, ..held };
            }
        }
    }
    Ok(ExportFrom { at: base.last, base: Some(base), end })
}

/// An error if a record was pruned.
fn check_held(store: &dyn Store, from: RecordNumber) -> Result<(), StoreError> {
    let base = store.base()?;
    if from <= base.last { Err(StoreError::Pruned { from, first: base.last + 1 }) } else { Ok(()) }
}

/// The next lines of an export, and where it goes on.
pub fn export_part(store: &dyn Store, from: ExportFrom) -> Result<(Vec<String>, Option<ExportFrom>), StoreError> {
    let ExportFrom { mut at, base, end } = from;
    let mut lines: Vec<String> = base.map(head_line).into_iter().collect();
    let blocks = store.blocks(at + 1, BLOCKS_PER_PART)?;
    // Asked after the blocks were read: an export never leaves out what it could not read any more.
    check_held(store, at + 1)?;
    for block in blocks {
        let layout = |source| StoreError::Layout { first: block.first, source };
        for entry in entries(&block.bytes).map_err(layout)?.1 {
            if entry.number <= at || entry.number > end.last {
                continue;
            }
            let decoded = decode_record(entry.bytes).map_err(layout)?;
            let payload = match (decoded.payload, decoded.record.payload_session()) {
                (Some(_), Some(session)) => {
                    store.payload(&PayloadKey { session: session.clone(), number: entry.number })?
                }
                _ => None,
            };
            lines.push(record_line(&entry, payload.as_ref()).map_err(layout)?);
            at = entry.number;
        }
    }
    if at >= end.last || lines.is_empty() {
        lines.push(end_line(end));
        return Ok((lines, None));
    }
    Ok((lines, Some(ExportFrom { at, base: None, end })))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use crate::audit::FaultyStore;

    use super::*;

    #[test]
    fn an_export_leaves_out_nothing_that_is_pruned_meanwhile() {
        let store = FaultyStore::default();
        for _ in 0..20 {
            record_in(&store, &Draft::Pruned { first: 1 }).unwrap();
        }
        let begun = begin_export(&store, 1).unwrap();
        let (lines, next) = export_part(&store, begun).unwrap();
        assert_eq!(lines.len(), 1 + BLOCKS_PER_PART);
        store.prune_at_next_read(15);
        let Err(StoreError::Pruned { from, first }) = export_part(&store, next.unwrap()) else { panic!() };
        assert_eq!((from, first), (9, 15));
    }
}
