//! Looking after what is stored: verifying, exporting, erasing, pruning.

use crate::audit::{
    self, Head, PayloadKey, RecordNumber, Store, StoreError, Trust, Verified, decode_record, end_line, entries,
    head_line, record_line,
};

use super::{Service, query::QueryError};

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

    /// Erases the payloads of a session; gives their number.
    pub async fn erase_payloads(&self, session: String) -> Result<u64, QueryError> {
        self.read(move |store| store.erase(&session)).await
    }

    /// Drops the blocks wholly before a record; gives where the records now begin.
    pub async fn prune(&self, first_kept: RecordNumber) -> Result<Head, QueryError> {
        self.read(move |store| store.prune(first_kept)).await
    }
}

/// Begins an export with a record, or with the first that is held.
pub fn begin_export(store: &dyn Store, first: RecordNumber) -> Result<ExportFrom, StoreError> {
    let (held, end) = (store.base()?, store.head()?);
    let before = first.saturating_sub(1).clamp(held.last, end.last);
    let mut base = held;
    if before > held.last {
        // The link before the first is that of the record before it.
        let Some(block) = store.blocks(before, 1)?.pop() else {
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

/// The next lines of an export, and where it goes on.
pub fn export_part(store: &dyn Store, from: ExportFrom) -> Result<(Vec<String>, Option<ExportFrom>), StoreError> {
    let ExportFrom { mut at, base, end } = from;
    let mut lines: Vec<String> = base.map(head_line).into_iter().collect();
    for block in store.blocks(at + 1, BLOCKS_PER_PART)? {
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
