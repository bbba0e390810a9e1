//! Test support: messages in, events out, both as text.

use super::{ErrorRule, Ingest, Taken};
use crate::model::{Args, Event, EventBody, Value, json};

pub(super) fn value(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

pub(super) fn session() -> Ingest {
    Ingest::new(ErrorRule { prefix: Some("Error".to_owned()) })
}

/// An event in one line; of a result, the position of the call that it answers.
fn shown(event: &Event) -> String {
    let what = match &event.body {
        EventBody::System { text } | EventBody::User { text } => format!(" {text:?}"),
        EventBody::Assistant { text, calls } => format!(" {text:?} calls={calls}"),
        EventBody::Call { tool, args, id, text, index } => {
            let args = match args {
                Args::Object(object) => object.to_string(),
                Args::Unreadable => "?".to_owned(),
            };
            format!("[{index}] {tool}({args}) id={} {text:?}", id.as_deref().unwrap_or("-"))
        }
        EventBody::Result { call, text, is_error, .. } => {
            let call = call.as_ref().map_or("-".to_owned(), |call| call.seq.to_string());
            format!("->{call} {text:?}{}", if *is_error { " error" } else { "" })
        }
        EventBody::Hit { policy, .. } => format!(" {policy}"),
        EventBody::End => String::new(),
    };
    let time = event.time.map_or(String::new(), |time| format!(" t={time}"));
    format!("{}@{} {}{what}{time}", event.seq, event.turn, event.kind().word())
}

pub(super) fn lines(taken: &Taken) -> Vec<String> {
    let malformed = taken.malformed.iter().map(|m| format!("!{} {}", m.turn, m.reason));
    taken.events.iter().map(|e| shown(e)).chain(malformed).collect()
}

/// All messages of a session, as lines.
pub(super) fn run(messages: &[&str]) -> Vec<String> {
    let mut ingest = session();
    messages.iter().flat_map(|m| lines(&ingest.message(&value(m)).unwrap())).collect()
}
