//! Events: what a policy judges and what history consists of.

use std::sync::{Arc, OnceLock};

use super::{Num, PolicyId, Value, json};

/// Position of an event in its session, from 0.
pub type Seq = u64;
/// Index of a message in its session, from 0.
pub type Turn = u32;

/// The kinds of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    /// A system or developer message.
    System,
    /// A user message.
    User,
    /// An assistant message; its calls follow as events of their own.
    Assistant,
    /// One tool call of an assistant message.
    Call,
    /// One tool result.
    Result,
    /// A violation that an earlier turn was found to hold.
    Hit,
    /// The session closed or the trace ran out.
    End,
}

impl EventKind {
    /// Every kind, in the order of the language reference.
    pub const ALL: [EventKind; 7] = [
        EventKind::System,
        EventKind::User,
        EventKind::Assistant,
        EventKind::Call,
        EventKind::Result,
        EventKind::Hit,
        EventKind::End,
    ];

    /// What the agent and its surroundings do: the kinds that `any` stands for.
    pub const OF_THE_TRACE: [EventKind; 5] =
        [EventKind::System, EventKind::User, EventKind::Assistant, EventKind::Call, EventKind::Result];

    /// The word for it in the rules language.
    pub fn word(self) -> &'static str {
        match self {
            EventKind::System => "system",
            EventKind::User => "user",
            EventKind::Assistant => "assistant",
            EventKind::Call => "call",
            EventKind::Result => "result",
            EventKind::Hit => "hit",
            EventKind::End => "end",
        }
    }
}

/// Arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Args {
    /// A JSON object.
    Object(Value),
    /// Neither an object nor a string of one; every argument is unknown.
    Unreadable,
}

/// One event. Immutable; history and evidence share it.
#[derive(Debug)]
pub struct Event {
    /// Position in the session.
    pub seq: Seq,
    /// How many events came before it that are no hits: what `within n events` counts, so that a window does not
    /// depend on what policies found.
    pub ordinal: u64,
    /// Index of the message.
    pub turn: Turn,
    /// Seconds since 1970-01-01T00:00:00Z on the session's clock (never decreasing), if the message
    /// had a time.
    pub time: Option<Num>,
    /// What happened.
    pub body: EventBody,
}

/// What happened, by kind.
#[derive(Debug)]
pub enum EventBody {
    /// A system or developer message.
    System {
        /// Its text.
        text: Arc<str>,
    },
    /// A user message.
    User {
        /// Its text.
        text: Arc<str>,
    },
    /// An assistant message.
    Assistant {
        /// Its text.
        text: Arc<str>,
        /// Usable calls that it carries.
        calls: u32,
    },
    /// A tool call.
    Call {
        /// The tool's name, never empty.
        tool: Arc<str>,
        /// Its arguments.
        args: Args,
        /// The caller's id for it, if it had one.
        id: Option<Arc<str>>,
        /// The text of the message that carries it.
        text: Arc<str>,
        /// Its place among the usable calls of the message, from 0.
        index: u32,
    },
    /// A tool result.
    Result {
        /// The call that it answers; none if no open call was found.
        call: Option<Arc<Event>>,
        /// Its text.
        text: Arc<str>,
        /// Whether the tool reported an error.
        is_error: bool,
        /// The text as JSON, read when first asked for; `None` inside if it does not parse.
        json: OnceLock<Option<Value>>,
    },
    /// A violation of a turn before.
    Hit {
        /// The policy.
        policy: PolicyId,
        /// Its severity.
        severity: Num,
        /// Its tags.
        tags: Arc<[Arc<str>]>,
    },
    /// The end of the session.
    End,
}

impl Event {
    /// The kind.
    pub fn kind(&self) -> EventKind {
        match self.body {
            EventBody::System { .. } => EventKind::System,
            EventBody::User { .. } => EventKind::User,
            EventBody::Assistant { .. } => EventKind::Assistant,
            EventBody::Call { .. } => EventKind::Call,
            EventBody::Result { .. } => EventKind::Result,
            EventBody::Hit { .. } => EventKind::Hit,
            EventBody::End => EventKind::End,
        }
    }

    /// The tool's name: of a call, or of the call that a result answers.
    pub fn tool(&self) -> Option<&Arc<str>> {
        match &self.body {
            EventBody::Call { tool, .. } => Some(tool),
            EventBody::Result { call: Some(call), .. } => call.tool(),
            _ => None,
        }
    }

    /// The text: of a message or result; of a call, that of its message.
    pub fn text(&self) -> Option<&Arc<str>> {
        match &self.body {
            EventBody::System { text }
            | EventBody::User { text }
            | EventBody::Assistant { text, .. }
            | EventBody::Call { text, .. }
            | EventBody::Result { text, .. } => Some(text),
            EventBody::Hit { .. } | EventBody::End => None,
        }
    }

    /// The arguments of a call, if they are readable.
    pub fn args(&self) -> Option<&Value> {
        match &self.body {
            EventBody::Call { args: Args::Object(object), .. } => Some(object),
            _ => None,
        }
    }

    /// The caller's id of a call.
    pub fn call_id(&self) -> Option<&Arc<str>> {
        match &self.body {
            EventBody::Call { id, .. } => id.as_ref(),
            _ => None,
        }
    }

    /// The call that a result answers.
    pub fn call(&self) -> Option<&Arc<Event>> {
        match &self.body {
            EventBody::Result { call, .. } => call.as_ref(),
            _ => None,
        }
    }

    /// A result's text as JSON, if it parses.
    pub fn json(&self) -> Option<&Value> {
        match &self.body {
            EventBody::Result { json, text, .. } => json.get_or_init(|| json::parse(text.as_bytes()).ok()).as_ref(),
            _ => None,
        }
    }

    /// A rough size in bytes, for memory limits; a result's call is counted with it.
    pub fn weight(&self) -> usize {
        let text = self.text().map_or(0, |t| t.len());
        let args = self.args().map_or(0, Value::weight);
        let call = self.call().map_or(0, |c| c.weight());
        200 + text + args + call
    }

    /// True for a result whose call could not be found.
    pub fn is_unpaired(&self) -> bool {
        matches!(self.body, EventBody::Result { call: None, .. })
    }
}

/// Something that could not be taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The message.
    pub turn: Turn,
    /// What was wrong with it, in words that hold no value of the trace.
    pub reason: String,
}
