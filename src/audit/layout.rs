//! The byte layout of records and blocks, version 1.
//!
//! Numbers are unsigned LEB128, `text` is a length and UTF-8 bytes, `list of x` is a length and
//! that many x. A group commit is stored as blocks of consecutive records:
//!
//! ```text
//! block     = version:byte=1  flags:byte=0  first:number  records:list of (length:number  record)
//! record    = at_millis:number  kind:byte  body
//! body      = kind 1: judged | kind 2: judge | kind 3: pack | kind 4: drift (see `drift_layout`) | kind 5: reading
//! judged    = session:text  pack  mode:byte  item:byte  seq:number  turn:number
//!             calls:list of (index:number  gate:byte)
//!             hits:list of (policy:text  turn:number  n:number  reward:text  evidence)
//!             signals:list of (policy:text  turn:number  effect:byte  evidence)
//!             undecided:list of (policy:text  turn:number  reason:text)
//!             malformed:list of (turn:number  reason:text)
//! judge     = session:text  pack  policy:text  turn:number  hit:byte  judge_id:text
//! reading   = session:text  pack  record:number  principal:text  reason:text
//! pack      = name:text  version:text  digest:32 bytes
//! evidence  = event:number  conditions:list of (holds:byte  rests_on:list of number)
//! mode      = 1 gate, 2 episode          item   = 1 message, 2 proposal, 3 end,
//!                                        4 runtime event
//! gate      = 1 allow, 2 review, 3 deny  effect = 1 deny, 2 review, 3 flag, 4 milestone, 5 judge
//! ```
//!
//! `rests_on` holds the first event and then the distances to the next, `reward` the exact decimal.
//! A record's number is `first` plus its place. A reader refuses a version or a flag that it does
//! not know: a flag is how a later version adds to each record, such as the link of a hash chain.

use std::sync::Arc;

use crate::model::{Digest, Effect, Evidence, Gate, Num, Seq};

use super::{
    bytes::{BytesError, Reader, put_len, put_number, put_text},
    drift_layout::{put_drift, read_drift},
    record::{
        Body, CallRecord, ConditionRecord, Draft, HitRecord, ItemKind, JudgeReport, Judged, Mode, PackRef, Reading,
        Record, RecordNumber, SignalRecord,
    },
    store::Block,
};

/// The version that is written.
const VERSION: u8 = 1;
/// A block is closed once it holds this many bytes: large values are what the embedded store keeps
/// worst, and a reader of one record reads its whole block.
const BLOCK_TARGET: usize = 24 * 1024;

/// Why bytes are not a block of records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Written by a version that this one does not know.
    #[error("record layout version {0} is not known here")]
    Version(u8),
    /// Carries a field that this version does not know.
    #[error("record layout flags {0:#04x} are not known here")]
    Flags(u8),
    /// The bytes do not follow the layout.
    #[error("broken record: {0}")]
    Broken(&'static str),
}

impl From<BytesError> for LayoutError {
    fn from(e: BytesError) -> LayoutError {
        LayoutError::Broken(match e {
            BytesError::Short => "the bytes end inside a value",
            BytesError::Wide => "a number is too wide",
            BytesError::Text => "a text is not UTF-8",
        })
    }
}

/// Packs drafts into blocks, reusing its buffers.
#[derive(Debug, Default)]
pub(super) struct Packer {
    record: Vec<u8>,
    records: Vec<u8>,
    count: usize,
    first: RecordNumber,
}

impl Packer {
    /// Starts with the number that the next record gets.
    pub(super) fn new(first: RecordNumber) -> Packer {
        Packer { first, ..Packer::default() }
    }

    /// The number that the next record gets.
    pub(super) fn next(&self) -> RecordNumber {
        self.first + self.count as RecordNumber
    }

    /// Adds one record; gives back a block when one is full.
    pub(super) fn push(&mut self, draft: &Draft, at_millis: u64) -> Option<Block> {
        self.record.clear();
        put_record(&mut self.record, draft, at_millis);
        put_len(&mut self.records, self.record.len());
        self.records.extend_from_slice(&self.record);
        self.count += 1;
        if self.records.len() >= BLOCK_TARGET { self.close() } else { None }
    }

    /// Closes the open block, if it holds anything.
    pub(super) fn close(&mut self) -> Option<Block> {
        if self.count == 0 {
            return None;
        }
        let mut bytes = Vec::with_capacity(self.records.len() + 16);
        bytes.extend_from_slice(&[VERSION, 0]);
        put_number(&mut bytes, self.first);
        put_len(&mut bytes, self.count);
        bytes.extend_from_slice(&self.records);
        let block = Block { first: self.first, count: self.count as u64, bytes };
        self.first = self.next();
        self.count = 0;
        self.records.clear();
        Some(block)
    }
}

fn put_record(out: &mut Vec<u8>, draft: &Draft, at_millis: u64) {
    put_number(out, at_millis);
    match draft {
        Draft::Judged { session, pack, mode, item, seq, step } => {
            out.push(1);
            put_text(out, session);
            put_pack(out, pack);
            out.push(match mode {
                Mode::Gate => 1,
                Mode::Episode => 2,
            });
            out.push(match item {
                ItemKind::Message => 1,
                ItemKind::Proposal => 2,
                ItemKind::End => 3,
                ItemKind::RuntimeEvent => 4,
            });
            put_number(out, *seq);
            put_number(out, step.turn.into());
            put_len(out, step.calls.len());
            for call in &step.calls {
                put_number(out, call.index.into());
                out.push(gate_byte(call.gate));
            }
            put_len(out, step.hits.len());
            for hit in &step.hits {
                put_text(out, &hit.firing.policy);
                put_number(out, hit.turn.into());
                put_number(out, hit.n.into());
                put_text(out, &hit.reward.to_string());
                put_evidence(out, &hit.firing.evidence);
            }
            put_len(out, step.signals.len());
            for signal in &step.signals {
                put_text(out, &signal.firing.policy);
                put_number(out, signal.turn.into());
                out.push(effect_byte(signal.effect));
                put_evidence(out, &signal.firing.evidence);
            }
            put_len(out, step.undecided.len());
            for undecided in &step.undecided {
                put_text(out, &undecided.policy);
                put_number(out, undecided.turn.into());
                put_text(out, &undecided.reason);
            }
            put_len(out, step.malformed.len());
            for malformed in &step.malformed {
                put_number(out, malformed.turn.into());
                put_text(out, &malformed.reason);
            }
        }
        Draft::Judge(report) => {
            out.push(2);
            put_text(out, &report.session);
            put_pack(out, &report.pack);
            put_text(out, &report.policy);
            put_number(out, report.turn.into());
            out.push(report.hit.into());
            put_text(out, &report.judge_id);
        }
        Draft::Activated(pack) => {
            out.push(3);
            put_pack(out, pack);
        }
        Draft::Drift(record) => {
            out.push(4);
            put_drift(out, record);
        }
        Draft::Reading(Reading { session, pack, record, principal, reason }) => {
            out.push(5);
            put_text(out, session);
            put_pack(out, pack);
            put_number(out, *record);
            put_text(out, principal);
            put_text(out, reason);
        }
    }
}

pub(super) fn put_pack(out: &mut Vec<u8>, pack: &PackRef) {
    put_text(out, &pack.name);
    put_text(out, &pack.version);
    out.extend_from_slice(pack.digest.bytes());
}

fn put_evidence(out: &mut Vec<u8>, evidence: &Evidence) {
    put_number(out, evidence.seq);
    put_len(out, evidence.conditions.len());
    for condition in &evidence.conditions {
        out.push(condition.holds.into());
        put_len(out, condition.rests_on.len());
        let mut last = 0;
        for seq in &condition.rests_on {
            put_number(out, seq.wrapping_sub(last));
            last = *seq;
        }
    }
}

fn gate_byte(gate: Gate) -> u8 {
    match gate {
        Gate::Allow => 1,
        Gate::Review => 2,
        Gate::Deny => 3,
    }
}

fn effect_byte(effect: Effect) -> u8 {
    match effect {
        Effect::Deny => 1,
        Effect::Review => 2,
        Effect::Flag => 3,
        Effect::Milestone => 4,
        Effect::Judge => 5,
    }
}

/// Reads the head of a block: the number of its first record and how many it holds.
pub(super) fn block_head(bytes: &[u8]) -> Result<(RecordNumber, u64), LayoutError> {
    read_head(&mut Reader::new(bytes))
}

fn read_head(reader: &mut Reader<'_>) -> Result<(RecordNumber, u64), LayoutError> {
    match reader.byte()? {
        VERSION => {}
        other => return Err(LayoutError::Version(other)),
    }
    match reader.byte()? {
        0 => {}
        other => return Err(LayoutError::Flags(other)),
    }
    Ok((reader.number()?, reader.number()?))
}

/// Reads a block.
pub fn decode_block(bytes: &[u8]) -> Result<Vec<Record>, LayoutError> {
    let mut reader = Reader::new(bytes);
    let (first, count) = read_head(&mut reader)?;
    let mut records = Vec::new();
    for place in 0..count {
        let len = reader.len()?;
        let mut record = Reader::new(reader.bytes(len)?);
        records.push(read_record(&mut record, first.wrapping_add(place))?);
        if !record.is_empty() {
            return Err(LayoutError::Broken("bytes behind a record"));
        }
    }
    if reader.is_empty() { Ok(records) } else { Err(LayoutError::Broken("bytes behind a block")) }
}

fn read_record(reader: &mut Reader<'_>, number: RecordNumber) -> Result<Record, LayoutError> {
    let at_millis = reader.number()?;
    let body = match reader.byte()? {
        1 => Body::Judged(read_judged(reader)?),
        2 => Body::Judge(JudgeReport {
            session: reader.text()?.into(),
            pack: read_pack(reader)?,
            policy: reader.text()?.into(),
            turn: reader.number32()?,
            hit: read_bool(reader)?,
            judge_id: reader.text()?.into(),
        }),
        3 => Body::Activated(read_pack(reader)?),
        4 => Body::Drift(Box::new(read_drift(reader)?)),
        5 => Body::Reading(Reading {
            session: reader.text()?.into(),
            pack: read_pack(reader)?,
            record: reader.number()?,
            principal: reader.text()?.into(),
            reason: reader.text()?.into(),
        }),
        _ => return Err(LayoutError::Broken("an unknown kind of record")),
    };
    Ok(Record { number, at_millis, body })
}

fn read_judged(reader: &mut Reader<'_>) -> Result<Judged, LayoutError> {
    Ok(Judged {
        session: reader.text()?.into(),
        pack: read_pack(reader)?,
        mode: match reader.byte()? {
            1 => Mode::Gate,
            2 => Mode::Episode,
            _ => return Err(LayoutError::Broken("an unknown mode")),
        },
        item: match reader.byte()? {
            1 => ItemKind::Message,
            2 => ItemKind::Proposal,
            3 => ItemKind::End,
            4 => ItemKind::RuntimeEvent,
            _ => return Err(LayoutError::Broken("an unknown kind of item")),
        },
        seq: reader.number()?,
        turn: reader.number32()?,
        calls: reader.list(|r| Ok::<_, LayoutError>(CallRecord { index: r.number32()?, gate: read_gate(r)? }))?,
        hits: reader.list(read_hit)?,
        signals: reader.list(read_signal)?,
        undecided: reader.list(|r| Ok::<_, LayoutError>((r.text()?.into(), r.number32()?, r.text()?.to_owned())))?,
        malformed: reader.list(|r| Ok::<_, LayoutError>((r.number32()?, r.text()?.to_owned())))?,
    })
}

fn read_hit(reader: &mut Reader<'_>) -> Result<HitRecord, LayoutError> {
    Ok(HitRecord {
        policy: reader.text()?.into(),
        turn: reader.number32()?,
        n: reader.number32()?,
        reward: reader.text()?.parse::<Num>().map_err(|_| LayoutError::Broken("a reward that is no number"))?,
        event: reader.number()?,
        conditions: reader.list(read_condition)?,
    })
}

fn read_signal(reader: &mut Reader<'_>) -> Result<SignalRecord, LayoutError> {
    Ok(SignalRecord {
        policy: reader.text()?.into(),
        turn: reader.number32()?,
        effect: match reader.byte()? {
            1 => Effect::Deny,
            2 => Effect::Review,
            3 => Effect::Flag,
            4 => Effect::Milestone,
            5 => Effect::Judge,
            _ => return Err(LayoutError::Broken("an unknown effect")),
        },
        event: reader.number()?,
        conditions: reader.list(read_condition)?,
    })
}

fn read_condition(reader: &mut Reader<'_>) -> Result<ConditionRecord, LayoutError> {
    let holds = read_bool(reader)?;
    let mut last: Seq = 0;
    let rests_on = reader.list(|r| {
        last = last.wrapping_add(r.number()?);
        Ok::<_, LayoutError>(last)
    })?;
    Ok(ConditionRecord { holds, rests_on })
}

pub(super) fn read_pack(reader: &mut Reader<'_>) -> Result<Arc<PackRef>, LayoutError> {
    Ok(Arc::new(PackRef {
        name: reader.text()?.into(),
        version: reader.text()?.into(),
        digest: Digest::new(reader.array()?),
    }))
}

fn read_gate(reader: &mut Reader<'_>) -> Result<Gate, LayoutError> {
    match reader.byte()? {
        1 => Ok(Gate::Allow),
        2 => Ok(Gate::Review),
        3 => Ok(Gate::Deny),
        _ => Err(LayoutError::Broken("an unknown answer")),
    }
}

pub(super) fn read_bool(reader: &mut Reader<'_>) -> Result<bool, LayoutError> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(LayoutError::Broken("a truth value that is neither")),
    }
}
