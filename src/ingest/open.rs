//! Calls that wait for a result, by id.
//!
//! Ids recur within real traces, so an id alone is no key: a result answers the latest message that
//! has an open call of its id, and within that message the first such call.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::model::{Event, EventBody, Turn};

/// The open calls of a session. One look-up per call and per result, however long the trace is.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenCalls {
    by_id: HashMap<Arc<str>, Vec<OfMessage>>,
    len: usize,
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
        let EventBody::Call { id: Some(id), .. } = &call.body else { return };
        self.len += 1;
        let messages = self.by_id.entry(Arc::clone(id)).or_default();
        match messages.last_mut() {
            Some(last) if last.turn == call.turn => last.calls.push_back(Arc::clone(call)),
            _ => messages.push(OfMessage { turn: call.turn, calls: VecDeque::from([Arc::clone(call)]) }),
        }
    }

    /// Takes the call that a result of this id answers.
    pub(super) fn answer(&mut self, id: &str) -> Option<Arc<Event>> {
        let messages = self.by_id.get_mut(id)?;
        let last = messages.last_mut()?;
        let call = last.calls.pop_front()?;
        self.len -= 1;
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
        self.len
    }

    /// The open calls, by position.
    pub(super) fn in_order(&self) -> Vec<Arc<Event>> {
        let mut calls: Vec<_> = self.by_id.values().flatten().flat_map(|m| m.calls.iter().cloned()).collect();
        calls.sort_by_key(|call| call.seq);
        calls
    }
}
