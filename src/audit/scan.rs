//! Reading records in order, a few blocks at a time, so that memory stays bounded whatever the
//! store holds.

use std::ops::ControlFlow;

use super::{
    layout::decode_block,
    record::{Record, RecordNumber},
    store::{Store, StoreError},
};

/// Blocks that are fetched at once.
const STRIDE: usize = 16;

/// Shows each record from number `from` on until `visit` breaks.
pub fn scan(
    store: &dyn Store,
    from: RecordNumber,
    mut visit: impl FnMut(Record) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let mut next = from;
    loop {
        let blocks = store.blocks(next, STRIDE)?;
        let Some(last) = blocks.last() else { return Ok(()) };
        let behind = last.first + last.count;
        for block in &blocks {
            let records =
                decode_block(&block.bytes).map_err(|source| StoreError::Layout { first: block.first, source })?;
            for record in records {
                if record.number >= next && visit(record).is_break() {
                    return Ok(());
                }
            }
        }
        next = behind;
    }
}
