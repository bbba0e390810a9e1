//! Verifying: that the chain is whole from where it begins to where it ends, that payloads and counters are those
//! that the records tell of, and that the chain goes through checkpoints that were kept elsewhere.
//!
//! The first fault of the chain ends the reading: what stands behind a broken link proves nothing. Without a
//! checkpoint from elsewhere, a store that somebody has cut, rolled back or written wholly anew looks whole. With one,
//! everything up to the last that is confirmed is what was recorded, and what stands behind it may be anything. A
//! checkpoint from before the base confirms nothing, since what was pruned cannot be followed. Somebody who writes a
//! chain anew would begin it behind all of them; so one at least must lie on what is held.

use std::collections::BTreeMap;

use super::{
    chain::Head,
    checkpoint::{Checkpoint, Signed},
    layout::{Entry, LayoutError, decode_record, entries},
    payload::{Payload, PayloadKey},
    record::{Body, RecordNumber},
    store::{Store, StoreError},
    tally::{Tallies, Tally},
};

/// Blocks that are fetched at once.
const STRIDE: usize = 16;
/// Faults of payloads and counters that are told one by one.
const TOLD: usize = 100;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A chain of which nothing was pruned does not begin as its store's name asks.
    #[error("the chain does not begin with its store")]
    Genesis,
    /// Another record stands where this one should.
    #[error("record {expected} is missing: record {found} stands in its place")]
    Missing {
        /// The number that should come.
        expected: RecordNumber,
        /// The number that came.
        found: RecordNumber,
    },
    /// A record does not fit its link.
    #[error("record {number} was changed, or its link was")]
    Changed {
        /// The record.
        number: RecordNumber,
    },
    /// A record cannot be read.
    #[error("record {number} cannot be read: {source}")]
    Unreadable {
        /// The record.
        number: RecordNumber,
        /// Why.
        source: LayoutError,
    },
    /// The chain ends before or behind where the store says.
    #[error("the chain ends at record {found}, and the store says that it ends at record {expected}")]
    End {
        /// What the store says.
        expected: RecordNumber,
        /// The last record.
        found: RecordNumber,
    },
    /// A payload is not the one that was recorded.
    #[error("the payload of record {number} was changed")]
    Payload {
        /// The record.
        number: RecordNumber,
    },
    /// An export brings a payload for a record that has none.
    #[error("record {number} comes with a payload, and its bytes tell of none")]
    Stray {
        /// The record.
        number: RecordNumber,
    },
    /// What an export shows of a record is not what its bytes say.
    #[error("what is shown of record {number} is not what its bytes say")]
    Shown {
        /// The record.
        number: RecordNumber,
    },
    /// Counters differ from what the records tell.
    #[error("{count} counters differ from what the records tell")]
    Counters {
        /// How many.
        count: u64,
    },
    /// A checkpoint in the chain tells of another place than the one it stands at.
    #[error("the checkpoint in record {number} does not fit the chain before it")]
    Checkpoint {
        /// The record.
        number: RecordNumber,
    },
    /// A signature does not hold.
    #[error("the signature of the checkpoint at record {last} does not hold")]
    Signature {
        /// The place that it tells of.
        last: RecordNumber,
    },
    /// A checkpoint is not signed by the key that was named.
    #[error("the checkpoint at record {last} is not signed by the key that was named")]
    Unsigned {
        /// The place that it tells of.
        last: RecordNumber,
    },
    /// A checkpoint from elsewhere is of another store.
    #[error("the checkpoint at record {last} is of store {theirs}; this is store {ours}")]
    OtherStore {
        /// The place that it tells of.
        last: RecordNumber,
        /// Its store.
        theirs: String,
        /// This store.
        ours: String,
    },
    /// A checkpoint from elsewhere lies behind the end: records were cut off, or the folder was rolled back.
    #[error("records {from} to {last} are gone: a checkpoint from elsewhere tells of them, and the chain ends before")]
    Cut {
        /// The first that is gone.
        from: RecordNumber,
        /// The place that the checkpoint tells of.
        last: RecordNumber,
    },
    /// The chain does not go through a checkpoint from elsewhere: it was written anew.
    #[error("the chain up to record {last} is not the one that a checkpoint from elsewhere tells of")]
    Rewritten {
        /// The place that the checkpoint tells of.
        last: RecordNumber,
    },
    /// Checkpoints from elsewhere were given, and the chain goes through none: some tell only of what is not held.
    #[error(
        "none of the {given} checkpoints from elsewhere lies on the chain that is held: it begins behind record \
         {base}, and they tell of record {last} and those before"
    )]
    Unconfirmed {
        /// How many were given.
        given: usize,
        /// The place before the first record that is held.
        base: RecordNumber,
        /// The last place before it that one of them tells of.
        last: RecordNumber,
    },
    /// The chain goes through no checkpoint of the key that was named.
    #[error(
        "no checkpoint that the chain goes through, its own or one from elsewhere, is signed by the key that was named"
    )]
    Unvouched,
}

/// What a verification found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Where the records begin.
    pub base: Head,
    /// The last place that was reached.
    pub head: Head,
    /// Checkpoints in the chain.
    pub checkpoints: u64,
    /// Of these, how many are signed.
    pub signed: u64,
    /// Payloads that were erased.
    pub erased: u64,
    /// Checkpoints from elsewhere that the chain goes through.
    pub confirmed: u64,
    /// What is wrong: the first of the chain, and those of payloads, counters and checkpoints.
    pub faults: Vec<Fault>,
}

impl Verified {
    /// True if nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.faults.is_empty()
    }
}

/// What a chain is held against.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Checkpoints that were kept elsewhere. If there are any, the chain must go through one.
    pub checkpoints: Vec<Checkpoint>,
    /// The public key that must have signed checkpoints, in the chain and from elsewhere, and one at least if there are
    /// records.
    pub public_key: Option<[u8; 32]>,
}

/// Follows a chain, record by record.
#[derive(Debug)]
pub struct Verifier {
    verified: Verified,
    trust: Trust,
    /// Places where a checkpoint from elsewhere must fit, by record.
    awaited: BTreeMap<RecordNumber, Vec<Checkpoint>>,
    /// The last place before the base that a checkpoint from elsewhere tells of.
    before: Option<RecordNumber>,
    tallies: Tallies,
    broken: bool,
}

impl Verifier {
    /// Begins at a base.
    pub fn new(base: Head, trust: Trust) -> Verifier {
        let (mut faults, mut awaited, mut before) = (Vec::new(), BTreeMap::<_, Vec<_>>::new(), None);
        for checkpoint in &trust.checkpoints {
            let last = checkpoint.head.last;
            if checkpoint.head.store != base.store {
                let (theirs, ours) = (checkpoint.head.store.to_string(), base.store.to_string());
                faults.push(Fault::OtherStore { last, theirs, ours });
            } else if let Some(fault) = seal_fault(checkpoint, trust.public_key) {
                faults.push(fault);
            } else if last >= base.last {
                awaited.entry(last).or_default().push(*checkpoint);
            } else {
                before = before.max(Some(last));
            }
        }
        let verified = Verified { base, head: base, checkpoints: 0, signed: 0, erased: 0, confirmed: 0, faults };
        let mut verifier = Verifier { verified, trust, awaited, before, tallies: Tallies::default(), broken: false };
        if base.last == 0 && base != Head::genesis(base.store) {
            verifier.breaks(Fault::Genesis);
        } else {
            verifier.meet_checkpoints();
        }
        verifier
    }

    /// Takes the next record; its payload, if the record has one and it is still there. False once the chain is
    /// broken: what comes behind is not looked at.
    pub fn take(&mut self, entry: &Entry<'_>, payload: impl FnOnce(&PayloadKey) -> Option<Payload>) -> bool {
        if self.broken {
            return false;
        }
        let expected = self.verified.head.last.saturating_add(1);
        let decoded = match decode_record(entry.bytes) {
            // A record that fits its link was written by a version that this one does not know; others were changed.
            Err(source) if self.verified.head.after(entry.bytes).link == entry.link => {
                return self.breaks(Fault::Unreadable { number: expected, source });
            }
            Err(_) => return self.breaks(Fault::Changed { number: expected }),
            Ok(decoded) => decoded,
        };
        let number = decoded.record.number;
        let next = self.verified.head.after(entry.bytes);
        if number != expected || entry.number != expected {
            return self
                .breaks(Fault::Missing { expected, found: if number == expected { entry.number } else { number } });
        }
        if next.link != entry.link {
            return self.breaks(Fault::Changed { number });
        }
        match &decoded.record.body {
            Body::Checkpoint(checkpoint) => {
                self.verified.checkpoints += 1;
                self.verified.signed += u64::from(checkpoint.seal.is_some());
                if checkpoint.head != self.verified.head {
                    return self.breaks(Fault::Checkpoint { number });
                }
                if let Some(fault) = seal_fault(checkpoint, self.trust.public_key) {
                    return self.breaks(fault);
                }
            }
            Body::Judged(judged) => self.tallies.add_recorded(judged, decoded.record.at_millis),
            _ => {}
        }
        if let (Some(digest), Some(session)) = (decoded.payload, decoded.record.payload_session()) {
            match payload(&PayloadKey { session: session.clone(), number }) {
                None => self.verified.erased += 1,
                Some(payload) if payload.digest() == digest => {}
                Some(_) => self.tell(Fault::Payload { number }),
            }
        }
        self.verified.head = next;
        self.meet_checkpoints();
        true
    }

    /// What was found, once all was taken; `end` is where the chain should end.
    pub fn finish(mut self, end: Head) -> Verified {
        let head = self.verified.head;
        if !self.broken {
            if end != head {
                self.breaks(Fault::End { expected: end.last, found: head.last });
            }
            if let Some(last) = self.awaited.keys().next_back().copied().filter(|last| *last > head.last) {
                self.tell(Fault::Cut { from: head.last + 1, last });
            }
            self.demand_confirmation();
        }
        self.verified
    }

    /// Whether what was given to hold the chain against has said anything of it. If a key was named, all that was
    /// confirmed or stands in the chain is signed by it.
    fn demand_confirmation(&mut self) {
        let Verified { base, head, signed, confirmed, .. } = self.verified;
        if confirmed > 0 {
            return;
        }
        if let Some(last) = self.before {
            self.tell(Fault::Unconfirmed { given: self.trust.checkpoints.len(), base: base.last, last });
        }
        if self.trust.public_key.is_some() && signed == 0 && head.last > base.last {
            self.tell(Fault::Unvouched);
        }
    }

    /// Holds counters against what was taken; only a chain that is whole from the first record tells all of them.
    fn compare(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        if self.broken || self.verified.base.last > 0 {
            return Ok(());
        }
        let mut told: BTreeMap<Vec<u8>, Tally> =
            self.tallies.take().into_iter().map(|(key, tally)| (key.to_bytes(), tally)).collect();
        let mut count = 0;
        store.all_tallies(&mut |key, tally| count += u64::from(told.remove(key) != Some(tally)))?;
        count += told.len() as u64;
        if count > 0 {
            self.tell(Fault::Counters { count });
        }
        Ok(())
    }

    /// Whether the chain fits the checkpoints from elsewhere that tell of where it now is.
    fn meet_checkpoints(&mut self) {
        for checkpoint in self.awaited.remove(&self.verified.head.last).unwrap_or_default() {
            if checkpoint.head == self.verified.head {
                self.verified.confirmed += 1;
            } else {
                self.breaks(Fault::Rewritten { last: checkpoint.head.last });
            }
        }
    }

    fn breaks(&mut self, fault: Fault) -> bool {
        self.broken = true;
        self.verified.faults.push(fault);
        false
    }

    /// Notes what is wrong beside the chain.
    pub(super) fn tell(&mut self, fault: Fault) {
        if self.verified.faults.len() < TOLD {
            self.verified.faults.push(fault);
        }
    }
}

fn seal_fault(checkpoint: &Checkpoint, public_key: Option<[u8; 32]>) -> Option<Fault> {
    let last = checkpoint.head.last;
    match (checkpoint.signed(), public_key) {
        (Signed::Wrong, _) => Some(Fault::Signature { last }),
        (Signed::By(key), Some(trusted)) if key != trusted => Some(Fault::Unsigned { last }),
        (Signed::Not, Some(_)) => Some(Fault::Unsigned { last }),
        _ => None,
    }
}

/// Verifies a store: its chain, payloads and counters.
pub fn verify_store(store: &dyn Store, trust: Trust) -> Result<Verified, StoreError> {
    loop {
        let base = store.base()?;
        let verified = verify_from(store, base, trust.clone())?;
        // What was pruned while it was read is missing by right: what is held now is looked at anew.
        if verified.is_whole() || store.base()? == base {
            return Ok(verified);
        }
    }
}

fn verify_from(store: &dyn Store, base: Head, trust: Trust) -> Result<Verified, StoreError> {
    let end = store.head()?;
    let mut verifier = Verifier::new(base, trust);
    let mut next = base.last + 1;
    'reading: loop {
        let blocks = store.blocks(next, STRIDE)?;
        let Some(behind) = blocks.last().map(|block| block.last() + 1) else { break };
        for block in &blocks {
            let layout = |source| StoreError::Layout { first: block.first, source };
            for entry in entries(&block.bytes).map_err(layout)?.1 {
                // What was written since the end was asked for is left for the next time.
                if entry.number > end.last {
                    break 'reading;
                }
                let mut failed = None;
                let going = verifier.take(&entry, |key| match store.payload(key) {
                    Ok(payload) => payload,
                    Err(e) => {
                        failed = Some(e);
                        None
                    }
                });
                if let Some(e) = failed {
                    return Err(e);
                }
                if !going {
                    break 'reading;
                }
            }
        }
        next = behind;
    }
    // A store that is written to meanwhile has other counters by now.
    if store.head()? == end {
        verifier.compare(store)?;
    }
    Ok(verifier.finish(end))
}
