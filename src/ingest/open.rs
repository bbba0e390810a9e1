//! Calls that wait for a result, by id.
//!
//! Ids recur within real traces, so an id alone is no key: a result answers the latest message that
//! has an open call of its id, and within that message the first such call.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use crate::model::{Args, Event, EventBody, Seq, Turn};

/// How many calls may wait for a result, and how many bytes they may hold, roughly. Beyond either the oldest are
/// forgotten: a result that comes for one of them later answers no call, which is malformed and makes absence in
/// facts unknown.
const MOST_CALLS: usize = 10_000;
const MOST_BYTES: usize = 16 << 20;

/// The open calls of a session. One look-up per call and per result, however long the trace is.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenCalls {
    by_id: HashMap<Arc<str>, Vec<OfMessage>>,
    /// By position: their ids and sizes.
    waiting: BTreeMap<Seq, (Arc<str>, usize)>,
    bytes: usize,
}

/// The open calls of one id in one message, in the message's order.
#[derive(Clone, Debug)]
struct OfMessage {
    turn: Turn,
    calls: VecDeque<Arc<Event>>,
}

impl OpenCalls {
    /// Adds a call; those of one message come in its order, and no message before an earlier one. A
    /// call without an id can never be answered and is not kept.
    pub(super) fn push(&mut self, call: &Arc<Event>) {
        let EventBody::Call { id: Some(id), text, args, .. } = &call.body else { return };
        let weight = 256
            + id.len()
            + text.len()
            + match args {
                Args::Object(value) => value.weight(),
                Args::Unreadable => 0,
            };
        self.bytes += weight;
        self.waiting.insert(call.seq, (Arc::clone(id), weight));
        let messages = self.by_id.entry(Arc::clone(id)).or_default();
        match messages.last_mut() {
            Some(last) if last.turn == call.turn => last.calls.push_back(Arc::clone(call)),
            _ => messages.push(OfMessage { turn: call.turn, calls: VecDeque::from([Arc::clone(call)]) }),
        }
        while self.waiting.len() > MOST_CALLS || (self.bytes > MOST_BYTES && self.waiting.len() > 1) {
            self.forget_oldest();
        }
    }

    /// Forgets the call that has waited longest: of its id, the first of the first message.
    fn forget_oldest(&mut self) {
        let Some((_, (id, weight))) = self.waiting.pop_first() else { return };
        self.bytes = self.bytes.saturating_sub(weight);
        let Some(messages) = self.by_id.get_mut(&id) else { return };
        if let Some(first) = messages.first_mut() {
            first.calls.pop_front();
            if first.calls.is_empty() {
                messages.remove(0);
            }
        }
        if messages.is_empty() {
            self.by_id.remove(&id);
        }
    }

    /// Takes the call that a result of this id answers.
    pub(super) fn answer(&mut self, id: &str) -> Option<Arc<Event>> {
        let messages = self.by_id.get_mut(id)?;
        let last = messages.last_mut()?;
        let call = last.calls.pop_front()?;
        if let Some((_, weight)) = self.waiting.remove(&call.seq) {
            self.bytes = self.bytes.saturating_sub(weight);
        }
        if last.calls.is_empty() {
            messages.pop();
        }
        if messages.is_empty() {
            self.by_id.remove(id);
        }
        Some(call)
    }

    /// How many calls are open.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The open calls, by position.
    pub(super) fn in_order(&self) -> Vec<Arc<Event>> {
        let mut calls: Vec<_> = self.by_id.values().flatten().flat_map(|m| m.calls.iter().cloned()).collect();
        calls.sort_by_key(|call| call.seq);
        calls
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::model::Value;

    fn call(seq: Seq, turn: Turn, id: &str, filler: usize) -> Arc<Event> {
        let args = Value::object([(Arc::from("x"), Value::string(&"y".repeat(filler)))]);
        let body = EventBody::Call {
            tool: "t".into(),
            args: Args::Object(args),
            id: Some(id.into()),
            index: 0,
            text: "".into(),
        };
        Arc::new(Event { seq, ordinal: seq, turn, time: None, body })
    }

    #[test]
    fn the_calls_that_wait_longest_are_forgotten_first() {
        let mut open = OpenCalls::default();
        for n in 0..MOST_CALLS as u64 + 3 {
            open.push(&call(n, u32::try_from(n).unwrap(), if n % 2 == 0 { "even" } else { "odd" }, 0));
        }
        assert_eq!(open.len(), MOST_CALLS);
        let held = open.in_order();
        assert_eq!(held.first().unwrap().seq, 3);
        // The latest message is answered first, and what is left is consistent.
        assert_eq!(open.answer("even").unwrap().seq, MOST_CALLS as u64 + 2);
        while open.answer("even").is_some() {}
        while open.answer("odd").is_some() {}
        assert_eq!((open.len(), open.bytes, open.by_id.len()), (0, 0, 0));
    }

    #[test]
    fn large_calls_are_bounded_in_bytes_and_the_latest_is_always_kept() {
        let mut open = OpenCalls::default();
        for n in 0..40 {
            open.push(&call(n, 0, "a", 1 << 20));
            assert!(open.bytes <= MOST_BYTES);
        }
        assert!(open.len() >= 10);
        open.push(&call(40, 0, "b", MOST_BYTES + 1));
        assert_eq!(open.len(), 1);
        assert_eq!(open.answer("b").unwrap().seq, 40);
    }
}
