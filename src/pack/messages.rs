//! The short form of a trace in a pack test, written out in the OpenAI shape.
//!
//! One item is one message:
//!
//! | item | message |
//! | --- | --- |
//! | `system: TEXT`, `user: TEXT` | a message; a list instead of the text is its content parts |
//! | `assistant: TEXT` | an assistant message, perhaps with `call` or `calls` beside it |
//! | `call: {TOOL: ARGUMENTS}` | one tool call: a mapping of arguments, a text that stands for them as it is, or nothing |
//! | `call: TOOL` | one tool call without arguments |
//! | `calls: [...]` | several calls in one message; `{tool: TOOL, args: ARGUMENTS, id: ID}` is the long form |
//! | `result: ANY` | the result of the oldest call without one, or of the call of `id`; what is no text is JSON |
//! | `role: ...` | a message of the OpenAI shape, taken as it is |
//! | `raw: ANY` | anything at all in a message's place, taken as it is |
//!
//! `time` (seconds, or RFC 3339) may stand in each but the last two, which have their own. A call without
//! an `id` is given one.

use std::collections::BTreeSet;

use crate::{
    diag::{Code, Diagnostic, Diagnostics, Span},
    model::Value,
};

use super::{
    fields::{Fields, among, list, some_list, some_text, wrong_type},
    node::{Entry, Kind, Node},
};

/// What an item can be recognised by.
const KINDS: [&str; 8] = ["user", "assistant", "call", "calls", "result", "system", "role", "raw"];

/// Writes the items of a test out as a list of messages. `None` if one of them cannot be read.
pub(super) fn expand(items: &[Node], diags: &mut Diagnostics) -> Option<Value> {
    let mut writer = Writer { open: Vec::new(), taken: written_ids(items), given: 0 };
    // Every item is looked at, so that all mistakes are found.
    let messages: Vec<Option<Value>> = items.iter().map(|item| writer.message(item, diags)).collect();
    messages.into_iter().collect::<Option<Vec<Value>>>().map(Value::list)
}

/// The calls that have no result yet, the ids that the author gave, and how many were given here.
struct Writer {
    open: Vec<String>,
    taken: BTreeSet<String>,
    given: usize,
}

/// Ids that the author gives to calls in the short form.
fn written_ids(items: &[Node]) -> BTreeSet<String> {
    let in_calls = items.iter().filter_map(|i| i.get("calls")).filter_map(|c| match &c.kind {
        Kind::List(calls) => Some(calls),
        _ => None,
    });
    let nodes = items.iter().chain(in_calls.flatten()).chain(items.iter().filter_map(|i| i.get("call")));
    nodes
        .filter_map(|n| match n.get("id").map(|id| &id.kind) {
            Some(Kind::Text(id)) => Some(id.clone()),
            _ => None,
        })
        .collect()
}

impl Writer {
    fn message(&mut self, item: &Node, diags: &mut Diagnostics) -> Option<Value> {
        let Kind::Map(entries) = &item.kind else {
            let help = format!("start it with one of {}", among(&KINDS));
            wrong_type(item, "a message", "a mapping", Some(help), diags);
            return None;
        };
        let has = |key: &str| entries.iter().any(|e| e.key == key);
        if has("role") {
            let message = item.to_value(diags)?;
            self.note(&message);
            return Some(message);
        }
        let kinds: Vec<&Entry> = entries.iter().filter(|e| KINDS.contains(&e.key.as_str())).collect();
        let assistant = |e: &&Entry| matches!(e.key.as_str(), "assistant" | "call" | "calls");
        let both_calls = has("call") && has("calls");
        let (first, more) = match kinds.as_slice() {
            [] => {
                diags.push(no_kind(item, entries));
                return None;
            }
            [first, more @ ..] => (first, more),
        };
        if let Some(second) = more.iter().find(|e| both_calls || !(assistant(first) && assistant(e))) {
            let what = format!("`{}` and `{}` in one message", first.key, second.key);
            diags.push(
                Diagnostic::error(Code::Message, second.key_span, what)
                    .secondary(first.key_span, "the other one")
                    .help("make two items of the list of them"),
            );
            return None;
        }
        let mut fields = Fields::of(item, "a message", diags)?;
        let message = match first.key.as_str() {
            "raw" => fields.get("raw")?.to_value(diags),
            "result" => self.result(&mut fields, diags),
            "system" => text_message(&mut fields, "system", diags),
            "user" => text_message(&mut fields, "user", diags),
            _ => self.assistant(&mut fields, diags),
        };
        fields.finish(diags);
        message
    }

    /// An assistant message with its calls.
    fn assistant(&mut self, fields: &mut Fields<'_>, diags: &mut Diagnostics) -> Option<Value> {
        let text = match fields.get("assistant") {
            Some(node) => content(node, "`assistant`", diags),
            None => Some(Value::Null),
        };
        let calls: Option<Vec<Value>> = if let Some(node) = fields.get("call") {
            let id = match fields.get("id") {
                Some(id) => Some(some_text(id, "`id`", diags)?.to_owned()),
                None => None,
            };
            self.call(node, id, diags).map(|call| vec![call])
        } else if let Some(node) = fields.get("calls") {
            let nodes = some_list(node, "`calls`", diags).unwrap_or_default();
            let read: Vec<Option<Value>> = nodes.iter().map(|n| self.call(n, None, diags)).collect();
            read.into_iter().collect()
        } else {
            Some(Vec::new())
        };
        let time = time(fields, diags);
        let (text, calls) = (text?, calls?);
        let calls = (!calls.is_empty()).then(|| ("tool_calls", Value::list(calls)));
        Some(object([("role", Value::string("assistant")), ("content", text)].into_iter().chain(calls).chain(time?)))
    }

    /// One call; `id` is given beside a lone `call`.
    fn call(&mut self, node: &Node, id: Option<String>, diags: &mut Diagnostics) -> Option<Value> {
        let (tool, arguments, id) = match &node.kind {
            Kind::Text(tool) => (tool.clone(), Some(empty()), id),
            Kind::Map(entries) => match entries.as_slice() {
                [Entry { key, key_span, value }] if key != "tool" || !matches!(value.kind, Kind::Text(_)) => {
                    if key.is_empty() {
                        diags.push(Diagnostic::error(Code::Empty, *key_span, "the name of a tool must not be empty"));
                        return None;
                    }
                    (key.clone(), arguments(value, diags), id)
                }
                _ => self.long_call(node, id, diags)?,
            },
            _ => {
                let help = "write it as `{TOOL: {ARGUMENT: VALUE}}`".to_owned();
                wrong_type(node, "a call", "a mapping", Some(help), diags);
                return None;
            }
        };
        let id = id.unwrap_or_else(|| self.fresh_id());
        self.open.push(id.clone());
        let function = object([("name", Value::string(&tool)), ("arguments", arguments?)]);
        Some(object([("id", Value::string(&id)), ("type", Value::string("function")), ("function", function)]))
    }

    fn long_call(
        &mut self,
        node: &Node,
        id: Option<String>,
        diags: &mut Diagnostics,
    ) -> Option<(String, Option<Value>, Option<String>)> {
        let mut fields = Fields::of(node, "a call", diags)?;
        let tool = fields.need("tool", "tool: NAME", diags).and_then(|n| some_text(n, "`tool`", diags));
        let args = fields.get("args").map_or(Some(empty()), |n| arguments(n, diags));
        let own = fields.get("id").and_then(|n| some_text(n, "`id`", diags));
        fields.finish(diags);
        Some((tool?.to_owned(), args, own.map(str::to_owned).or(id)))
    }

    fn result(&mut self, fields: &mut Fields<'_>, diags: &mut Diagnostics) -> Option<Value> {
        let node = fields.get("result")?;
        let text = match &node.kind {
            Kind::Null => Some(String::new()),
            Kind::Text(text) => Some(text.clone()),
            _ => node.to_value(diags).map(|value| value.to_string()),
        };
        let time = time(fields, diags);
        let id = match fields.get("id") {
            Some(node) => some_text(node, "`id`", diags)?.to_owned(),
            None if self.open.is_empty() => {
                diags.push(
                    Diagnostic::error(Code::Message, fields.span(), "a result, but every call before it has one")
                        .help("add `id: ID` to test a result that answers no call"),
                );
                return None;
            }
            None => self.open.first()?.clone(),
        };
        self.answered(&id);
        let message =
            [("role", Value::string("tool")), ("tool_call_id", Value::string(&id)), ("content", Value::string(&text?))];
        Some(object(message.into_iter().chain(time?)))
    }

    /// Takes note of calls and results in a message that is taken as it is.
    fn note(&mut self, message: &Value) {
        for call in message.get("tool_calls").and_then(Value::as_list).unwrap_or_default() {
            if let Some(id) = call.get("id").and_then(Value::as_str) {
                self.open.push(id.to_owned());
            }
        }
        if let Some(id) = message.get("tool_call_id").and_then(Value::as_str) {
            self.answered(id);
        }
    }

    fn answered(&mut self, id: &str) {
        if let Some(at) = self.open.iter().position(|open| open == id) {
            self.open.remove(at);
        }
    }

    fn fresh_id(&mut self) -> String {
        loop {
            self.given += 1;
            let id = format!("call_{}", self.given);
            if !self.taken.contains(&id) {
                return id;
            }
        }
    }
}

fn no_kind(item: &Node, entries: &[Entry]) -> Diagnostic {
    let near = entries.iter().find_map(|e| Some((e, crate::diag::suggest(&e.key, KINDS)?)));
    match near {
        Some((entry, near)) => {
            let what = format!("unknown key {}", crate::diag::quote(&entry.key));
            Diagnostic::error(Code::KeyUnknown, entry.key_span, what).did_you_mean(Some(near))
        }
        None => Diagnostic::error(Code::Message, item.span, "this is no kind of message")
            .help(format!("start it with one of {}", among(&KINDS))),
    }
}

fn text_message(fields: &mut Fields<'_>, role: &'static str, diags: &mut Diagnostics) -> Option<Value> {
    let text = fields.get(role).and_then(|node| content(node, &format!("`{role}`"), diags));
    let time = time(fields, diags);
    Some(object([("role", Value::string(role)), ("content", text?)].into_iter().chain(time?)))
}

/// The content of a message: text, nothing, or a list of parts.
fn content(node: &Node, what: &str, diags: &mut Diagnostics) -> Option<Value> {
    match &node.kind {
        Kind::Null | Kind::Text(_) | Kind::List(_) => node.to_value(diags),
        _ => super::fields::text(node, what, diags).map(Value::string),
    }
}

/// The arguments of a call: an object, or a text that stands for them as it is.
fn arguments(node: &Node, diags: &mut Diagnostics) -> Option<Value> {
    match &node.kind {
        Kind::Null => Some(empty()),
        Kind::Text(_) | Kind::Map(_) => node.to_value(diags),
        _ => {
            let help = "a text stands for arguments as they are: `{TOOL: \"[1]\"}`".to_owned();
            wrong_type(node, "arguments", "a mapping", Some(help), diags);
            None
        }
    }
}

/// `time`, if it is there: `None` if it cannot be read.
fn time(fields: &mut Fields<'_>, diags: &mut Diagnostics) -> Option<Option<(&'static str, Value)>> {
    let Some(node) = fields.get("time") else { return Some(None) };
    match &node.kind {
        Kind::Number(_) | Kind::Text(_) => Some(Some(("time", node.to_value(diags)?))),
        _ => {
            let help = "`time: 60`, or as RFC 3339 has it".to_owned();
            wrong_type(node, "`time`", "a number of seconds or a text", Some(help), diags);
            None
        }
    }
}

fn object(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::object(entries.into_iter().map(|(key, value)| (key.into(), value)))
}

fn empty() -> Value {
    object([])
}

/// The items of a test's messages, with their places.
pub(super) fn items<'n>(node: &'n Node, diags: &mut Diagnostics) -> Option<(&'n [Node], Vec<Span>)> {
    let items = list(node, "`messages`", diags)?;
    Some((items, items.iter().map(|item| item.span).collect()))
}
