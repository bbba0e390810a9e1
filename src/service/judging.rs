//! Judging the items of one session: in order, each once, with the last answers kept so that a
//! repeated item gets the same one.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;

use crate::{
    audit::ItemKind,
    engine::{Pack, Session, SessionError, Told},
    ingest::{Proposal, Refused},
    model::{Digest, Num, Step, Turn, Value},
};

use super::{
    drift::{Occurrence, ProbeAnswer, Schedule},
    keys::RedactionKey,
    sessions::SessionLimits,
};

/// One item of a request.
#[derive(Debug)]
pub struct Item {
    /// Its place in the session.
    pub seq: u64,
    /// A fingerprint of its content, to tell a repetition from a contradiction.
    pub print: Digest,
    /// What it is.
    pub body: ItemBody,
}

/// What an item is.
#[derive(Debug)]
pub enum ItemBody {
    /// A whole message.
    Message {
        /// Read.
        message: Value,
        /// As it came.
        json: Bytes,
    },
    /// A call that the agent wants to make.
    Proposal(ProposedCall),
    /// The end of the session.
    End,
    /// Something that happened at runtime.
    RuntimeEvent(Occurrence),
}

impl ItemBody {
    /// The message that it is, if it is one.
    pub fn message(&self) -> Option<&Value> {
        match self {
            ItemBody::Message { message, .. } => Some(message),
            ItemBody::Proposal(_) | ItemBody::End | ItemBody::RuntimeEvent(_) => None,
        }
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        match self {
            ItemBody::Message { message, json } => json.len() + message.weight(),
            ItemBody::Proposal(ProposedCall { call_id, tool, arguments_json, message_text, .. }) => {
                call_id.len() + tool.len() + arguments_json.len() + message_text.len()
            }
            ItemBody::End | ItemBody::RuntimeEvent(_) => 0,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> ItemKind {
        match self {
            ItemBody::Message { .. } => ItemKind::Message,
            ItemBody::Proposal(_) => ItemKind::Proposal,
            ItemBody::End => ItemKind::End,
            ItemBody::RuntimeEvent(_) => ItemKind::RuntimeEvent,
        }
    }
}

/// A proposed call, as `ingest` takes it.
#[derive(Debug)]
pub struct ProposedCall {
    /// Index of the message that will carry it.
    pub turn: Turn,
    /// Its place in that message.
    pub index: u32,
    /// How many calls that message carries.
    pub calls: u32,
    /// Its id, or empty.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The arguments as written.
    pub arguments_json: Bytes,
    /// The message's text.
    pub message_text: String,
    /// When, in seconds since 1970-01-01T00:00:00Z.
    pub time: Option<Num>,
}

impl ProposedCall {
    fn as_proposal(&self) -> Proposal<'_> {
        Proposal {
            turn: self.turn,
            index: self.index,
            calls: self.calls,
            call_id: &self.call_id,
            tool: &self.tool,
            arguments_json: &self.arguments_json,
            message_text: &self.message_text,
            time: self.time,
        }
    }
}

/// Fingerprints of items: equal for equal content, byte for byte. They stand in records too, so they are keyed: nobody
/// without the key can try out what an item may have been.
#[derive(Clone, Debug)]
pub struct Prints(RedactionKey);

/// What is fingerprinted; no two kinds of content share one.
#[derive(Clone, Copy)]
enum Printed {
    Message = 1,
    Proposal,
    End,
    Occurrence,
    Request,
}

impl Prints {
    /// Under a key.
    pub fn new(key: RedactionKey) -> Prints {
        Prints(key)
    }

    /// Of a message's JSON text.
    pub fn message(&self, json: &[u8]) -> Digest {
        self.of(Printed::Message, [json])
    }

    /// Of a proposed call.
    pub fn proposal(&self, call: &ProposedCall) -> Digest {
        let ProposedCall { turn, index, calls, call_id, tool, arguments_json, message_text, time } = call;
        let time = time.map(|t| t.to_string()).unwrap_or_default();
        let places = [*turn, *index, *calls].map(u32::to_be_bytes);
        self.of(
            Printed::Proposal,
            [
                places.as_flattened(),
                call_id.as_bytes(),
                tool.as_bytes(),
                arguments_json,
                message_text.as_bytes(),
                time.as_bytes(),
            ],
        )
    }

    /// Of a runtime event. The time is the server's where the caller gives none, and no part of it then.
    pub fn occurrence(&self, occurrence: &Occurrence, timed: bool) -> Digest {
        let Occurrence { event, reputation, at } = occurrence;
        let at = if timed { at.to_bits().to_string() } else { String::new() };
        let reputation = reputation.map(|r| r.to_bits().to_string()).unwrap_or_default();
        let numbers = format!("{} {} {reputation} {at}", event.tokens, event.external_content);
        self.of(Printed::Occurrence, [event.trigger.word().as_bytes(), numbers.as_bytes()])
    }

    /// Of a request, by its bytes on the wire.
    pub fn request(&self, bytes: &[u8]) -> Digest {
        self.of(Printed::Request, [bytes])
    }

    /// Of the end.
    pub fn end(&self) -> Digest {
        self.of(Printed::End, [])
    }

    fn of<const N: usize>(&self, kind: Printed, parts: [&[u8]; N]) -> Digest {
        let mut hasher = blake3::Hasher::new_keyed(&self.0.bytes());
        hasher.update(&[kind as u8]);
        for part in parts {
            // With its length in front, so that no part can pass for the start of the next.
            hasher.update(&(part.len() as u64).to_be_bytes()).update(part);
        }
        Digest::new(*hasher.finalize().as_bytes())
    }
}

/// Why an item was not judged. The session is as it was before the item.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// Items are missing before it.
    #[error("item {got} came where item {expected} was expected")]
    Gap {
        /// The seq that must come.
        expected: u64,
        /// The seq that came.
        got: u64,
    },
    /// It was judged too long ago for its answer to be kept.
    #[error("item {seq} was judged before; answers are kept from item {oldest} on")]
    Forgotten {
        /// The item.
        seq: u64,
        /// The oldest whose answer is kept.
        oldest: u64,
    },
    /// An item of this seq was judged, with other content.
    #[error("item {seq} was judged before with other content")]
    Contradiction {
        /// The item.
        seq: u64,
    },
    /// The session has ended.
    #[error("item {seq} came after the end of the session")]
    Ended {
        /// The item.
        seq: u64,
    },
    /// It contradicts a proposal.
    #[error("item {seq}: {refused}")]
    Proposal {
        /// The item.
        seq: u64,
        /// How.
        refused: Refused,
    },
}

/// One answered item.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The item.
    pub seq: u64,
    /// The judgement.
    pub step: Arc<Step>,
    /// For a runtime event: whether a probe is due.
    pub probe: Option<ProbeAnswer>,
    /// What the item was, and its fingerprint, if it was judged now; nothing for a repeated one.
    pub judged: Option<(ItemKind, Digest)>,
}

/// What a session's items have led to.
#[derive(Debug)]
pub struct Judging {
    /// Nothing once the session has ended.
    session: Option<Session>,
    next: u64,
    keep: usize,
    /// The answers of the last items, oldest first; the last belongs to item `next - 1`.
    retained: VecDeque<Retained>,
    schedule: Schedule,
}

/// The answers that a session keeps for repetitions.
#[derive(Clone, Debug, Default)]
pub struct Answered(VecDeque<Retained>);

#[derive(Clone, Debug)]
struct Retained {
    print: Digest,
    step: Arc<Step>,
    probe: Option<ProbeAnswer>,
}

impl Judging {
    /// A session that begins; `seed` decides which probes are due and when.
    pub fn new(pack: Arc<Pack>, limits: &SessionLimits, seed: u64) -> Judging {
        Judging {
            session: Some(Session::within(pack, limits.each)),
            next: 0,
            keep: limits.retained,
            retained: VecDeque::new(),
            schedule: Schedule::new(seed),
        }
    }

    /// The seq of the next item.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The rules; nothing once the session has ended, so that they can leave memory.
    pub fn pack(&self) -> Option<&Arc<Pack>> {
        self.session.as_ref().map(Session::pack)
    }

    /// Ends the session without judging that.
    pub fn stop(&mut self) {
        self.session = None;
    }

    /// What its callers were told so far.
    pub fn told(&self) -> Told {
        self.session.as_ref().map(Session::told).unwrap_or_default()
    }

    /// Sets what its callers were told, where it was judged again under other rules.
    pub fn set_told(&mut self, told: &Told) {
        if let Some(session) = &mut self.session {
            session.set_told(told);
        }
    }

    /// Takes the last answers out.
    pub fn take_answered(&mut self) -> Answered {
        Answered(std::mem::take(&mut self.retained))
    }

    /// Gives the last items the answers that they were given before.
    pub fn set_answered(&mut self, answered: Answered) {
        if answered.0.len() as u64 <= self.next {
            self.retained = answered.0;
        }
    }

    /// A scheduled probe has failed.
    pub fn give_back(&mut self) {
        self.schedule.give_back();
    }

    /// Answers the items of one request, in order, into `answers`. On an error those before the
    /// offending item are answered and judged.
    pub fn answer(&mut self, items: &[Item], answers: &mut Vec<Answer>) -> Result<(), ItemError> {
        self.check_order(items)?;
        // Trimmed when something new comes and not before: a request whose answer was lost can always
        // be repeated, and so can the part of a request that goes on from there.
        if let (Some(first), Some(last)) = (items.first(), items.last())
            && last.seq >= self.next
        {
            let repeated = usize::try_from(self.next.saturating_sub(first.seq)).unwrap_or(usize::MAX);
            let surplus = self.retained.len().saturating_sub(self.keep.max(repeated));
            self.retained.drain(..surplus);
        }
        for item in items {
            let answer = if item.seq < self.next { self.repeat(item)? } else { self.judge(item)? };
            answers.push(answer);
        }
        Ok(())
    }

    /// About how many bytes its rules remember.
    pub fn bytes(&self) -> usize {
        self.session.as_ref().map_or(0, Session::bytes)
    }

    /// True once the session has ended.
    pub fn has_ended(&self) -> bool {
        self.session.is_none()
    }

    /// Items follow on one another, and the first on what was judged, or repeat it.
    fn check_order(&self, items: &[Item]) -> Result<(), ItemError> {
        let mut expected = match items.first() {
            Some(first) => first.seq.min(self.next),
            None => return Ok(()),
        };
        for item in items {
            if item.seq != expected {
                return Err(ItemError::Gap { expected, got: item.seq });
            }
            expected = expected.wrapping_add(1);
        }
        Ok(())
    }

    fn repeat(&self, item: &Item) -> Result<Answer, ItemError> {
        let seq = item.seq;
        let oldest = self.next - self.retained.len() as u64;
        let place = seq.checked_sub(oldest).and_then(|n| usize::try_from(n).ok());
        let retained = place.and_then(|n| self.retained.get(n)).ok_or(ItemError::Forgotten { seq, oldest })?;
        if retained.print != item.print {
            return Err(ItemError::Contradiction { seq });
        }
        Ok(Answer { seq, step: retained.step.clone(), probe: retained.probe.clone(), judged: None })
    }

    fn judge(&mut self, item: &Item) -> Result<Answer, ItemError> {
        let seq = item.seq;
        let session = self.session.as_mut().ok_or(ItemError::Ended { seq })?;
        let mut probe = None;
        let step = match &item.body {
            ItemBody::RuntimeEvent(occurrence) => {
                probe = Some(self.schedule.occurs(occurrence, session.pack()));
                Ok(Step { turn: session.next_turn(), ..Step::default() })
            }
            ItemBody::Message { message, .. } => session.message(message),
            ItemBody::Proposal(call) => session.proposal(&call.as_proposal()),
            ItemBody::End => session.end(),
        };
        let step = Arc::new(step.map_err(|e| match e {
            SessionError::Refused(refused) => ItemError::Proposal { seq, refused },
            SessionError::Ended => ItemError::Ended { seq },
        })?);
        if matches!(item.body, ItemBody::End) {
            self.stop();
        }
        self.next += 1;
        self.retained.push_back(Retained { print: item.print, step: step.clone(), probe: probe.clone() });
        Ok(Answer { seq, step, probe, judged: Some((item.body.kind(), item.print)) })
    }
}
