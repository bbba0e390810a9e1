//! Reading records in order, a few blocks at a time, so that memory stays bounded whatever the
//! store holds.

use std::ops::ControlFlow;

use super::{
    layout::{Decoded, decode_block, fill},
    payload::PayloadKey,
    posting::Posting,
    record::{Record, RecordNumber},
    store::{Block, Store, StoreError},
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
        let Some(behind) = blocks.last().map(|block| block.last() + 1) else { return Ok(()) };
        for block in &blocks {
            if show(store, block, next, &mut visit)?.is_break() {
                return Ok(());
            }
        }
        next = behind;
    }
}

/// Shows each record of the blocks that hold something of a posting, from number `from` on until `visit` breaks.
/// Others of the same blocks are among them.
pub fn scan_posted(
    store: &dyn Store,
    posting: &Posting,
    from: RecordNumber,
    mut visit: impl FnMut(Record) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let mut next = from;
    loop {
        let firsts = store.postings(posting, next, STRIDE)?;
        let mut behind = None;
        for first in firsts {
            let Some(block) = store.blocks(first, 1)?.pop().filter(|block| block.first == first) else { continue };
            if block.last() >= next {
                behind = Some(block.last() + 1);
                if show(store, &block, next, &mut visit)?.is_break() {
                    return Ok(());
                }
            }
        }
        match behind {
            Some(behind) => next = behind,
            None => return Ok(()),
        }
    }
}

fn show(
    store: &dyn Store,
    block: &Block,
    from: RecordNumber,
    visit: &mut impl FnMut(Record) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, StoreError> {
    let layout = |source| StoreError::Layout { first: block.first, source };
    for Decoded { mut record, payload } in decode_block(&block.bytes).map_err(layout)? {
        if record.number < from {
            continue;
        }
        if let (Some(digest), Some(session)) = (payload, record.payload_session().cloned()) {
            let number = record.number;
            match store.payload(&PayloadKey { session, number })? {
                None => record.erased = true,
                Some(payload) if payload.digest() == digest => fill(&mut record, payload.content()).map_err(layout)?,
                Some(_) => {
                    let what = format!("the payload of record {number} is not the one that was recorded");
                    return Err(StoreError::Damaged(what));
                }
            }
        }
        if visit(record).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
