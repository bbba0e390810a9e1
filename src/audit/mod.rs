//! What is kept of every judgement: records in a documented byte layout, tied into a hash chain, counters per policy,
//! and the stores that hold both.
//!
//! Nothing here reads a message's text or a call's arguments: a record names policies, turns,
//! positions, paths and digests. Answers to probes are kept beside it as redaction left them, or sealed, and can be
//! erased. The one writer that forms group commits lives in `service`; this room is synchronous.

mod batch;
mod chain;
mod checkpoint;
mod drift;
mod drift_layout;
mod export;
mod faulty;
mod journal;
mod layout;
mod memory;
mod payload;
mod posting;
mod reading;
mod record;
mod request;
mod scan;
mod sled_store;
mod sources;
mod store;
mod tally;
mod verify;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tampering;

pub(crate) use crate::model::bytes;

pub use batch::BatchBuilder;
pub use chain::{Head, StoreId};
pub use checkpoint::{Checkpoint, CheckpointError, CheckpointKey, Seal, Signed, public_key};
pub use drift::{About, Answers, DriftRecord, JudgeRecord, SessionFacts};
pub use export::{ExportError, Imported, end_line, head_line, record_line, verify_export};
pub use faulty::FaultyStore;
pub use journal::{JournalChange, JournalEntry, JournalWrite};
pub use layout::{Decoded, Entry, LayoutError, decode_block, decode_record, entries};
pub use memory::MemoryStore;
pub use payload::{Payload, PayloadKey};
pub use posting::{Names, Posting};
pub use record::{
    Activation, Body, CallRecord, CloseReason, Closed, ConditionRecord, Draft, HitRecord, ItemKind, JudgeReport,
    Judged, Loss, Mode, PackRef, Reading, Record, RecordNumber, Refusal, SetAside, SignalRecord,
};
pub use request::{Answered, RequestKey};
pub use scan::{scan, scan_posted};
pub use sled_store::SledStore;
pub use sources::{KeptPack, KeptSet};
pub use store::{Batch, Block, Safety, Store, StoreError, Tidied};
pub use tally::{Span, Tally, TallyKey};
pub use verify::{Fault, Trust, Verified, Verifier, verify_store};
