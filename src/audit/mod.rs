//! What is kept of every judgement: records in a documented byte layout, counters per policy, and
//! the stores that hold both.
//!
//! Nothing here reads a message's text or a call's arguments: a record names policies, turns,
//! positions, paths and digests. Answers to probes are in it as redaction left them, or sealed. The one writer that
//! assigns numbers and forms group commits lives in `service`; this room is synchronous.

mod batch;
mod bytes;
mod drift;
mod drift_layout;
mod layout;
mod memory;
mod record;
mod scan;
mod sled_store;
mod store;
mod tally;

#[cfg(test)]
mod conformance;

pub use batch::BatchBuilder;
pub use drift::{About, Answers, DriftRecord, JudgeRecord, SessionFacts};
pub use layout::{LayoutError, decode_block};
pub use memory::MemoryStore;
pub use record::{
    Body, CallRecord, ConditionRecord, Draft, HitRecord, ItemKind, JudgeReport, Judged, Mode, PackRef, Reading, Record,
    RecordNumber, SignalRecord,
};
pub use scan::scan;
pub use sled_store::SledStore;
pub use store::{Batch, Block, Opening, Store, StoreError};
pub use tally::{Span, Tally, TallyKey};
