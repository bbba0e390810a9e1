//! One message, in whichever format it was written, as text, calls and results.
//!
//! | format | calls | results |
//! | --- | --- | --- |
//! | OpenAI chat | `tool_calls[].function`, `function_call` of an assistant message | role `tool` or `function` |
//! | Anthropic | `tool_use` blocks of an assistant message | `tool_result` blocks of a user message |
//! | OpenAI Responses | an item of type `function_call` | an item of type `function_call_output` |
//! | MCP | a `tools/call` request | a response with `result` or `error` |
//!
//! Nothing here depends on other messages. What cannot be used gives a reason; reasons name keys,
//! places, types and tools, never values.

use std::sync::Arc;

use crate::model::{Args, Value, json};

/// What a message is.
#[derive(Clone, Debug)]
pub(super) enum Shape<'m> {
    /// A system or developer message.
    System { text: Arc<str> },
    /// A user message.
    User { text: Arc<str> },
    /// An assistant message.
    Assistant { text: Arc<str>, calls: Vec<CallEntry<'m>> },
    /// Tool results, and the user's own words if the message holds both.
    Results { results: Vec<ResultEntry>, user: Option<Arc<str>> },
    /// Nothing that can be used.
    Unusable,
}

/// A usable call.
#[derive(Clone, Debug)]
pub(super) struct CallEntry<'m> {
    pub(super) tool: Arc<str>,
    pub(super) id: Option<Arc<str>>,
    pub(super) args: Args,
    /// The arguments as the message holds them.
    pub(super) written: Option<&'m Value>,
}

/// A tool result.
#[derive(Clone, Debug)]
pub(super) struct ResultEntry {
    pub(super) id: Option<Arc<str>>,
    pub(super) text: Arc<str>,
    /// The format's own word on whether it is an error, if it says.
    pub(super) flag: Option<bool>,
}

/// Reads a message; the reasons say what of it could not be used.
pub(super) fn read(message: &Value) -> (Shape<'_>, Vec<String>) {
    let mut reasons = Vec::new();
    let shape = shape(message, &mut reasons);
    (shape, reasons)
}

fn shape<'m>(message: &'m Value, reasons: &mut Vec<String>) -> Shape<'m> {
    if message.as_object().is_none() {
        reasons.push(format!("a message that is a {}, not an object", message.type_name()));
        return Shape::Unusable;
    }
    let Some(role) = message.get("role") else { return item(message, reasons) };
    let content = message.get("content");
    unread_calls(message, reasons);
    match role.as_str() {
        Some("system" | "developer") => Shape::System { text: text(content) },
        Some("user") => user(content, reasons),
        Some("assistant") => assistant(message, reasons),
        Some("tool" | "function") => {
            let flag = flag(message.get("is_error"), "is_error", reasons);
            let id = non_empty(message.get("tool_call_id"));
            Shape::Results { results: vec![ResultEntry { id, text: text(content), flag }], user: None }
        }
        Some(_) => {
            reasons.push("a message with an unknown role".to_owned());
            Shape::Unusable
        }
        None => {
            reasons.push(format!("a message whose role is a {}, not a string", role.type_name()));
            Shape::Unusable
        }
    }
}

/// Says so if something in a message with a role looks like a call and is read as none: a caller that
/// runs it would run what nothing has judged. Calls in the known places of other roles are nobody's, as
/// the formats have it.
fn unread_calls(message: &Value, reasons: &mut Vec<String>) {
    let text = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("type") == "function_call" || text("method") == "tools/call" {
        reasons.push("a message with a role that is also a call of another format".to_owned());
    }
    if message.get("toolCalls").is_some_and(|calls| *calls != Value::Null) {
        reasons.push("toolCalls is not read: the key is tool_calls".to_owned());
    }
    let unread = |part: &Value| {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
        let of_a_call = kind.contains("tool") || kind.contains("function");
        of_a_call && !kind.contains("result") && !kind.contains("output") && kind != "tool_use"
    };
    match message.get("content") {
        Some(Value::List(parts)) => {
            let places = parts.iter().enumerate().filter(|(_, part)| unread(part)).map(|(place, _)| place);
            reasons
                .extend(places.map(|place| format!("content[{place}] looks like a call of a type that is not read")));
        }
        Some(part @ Value::Object(_))
            if unread(part) || part.get("type").and_then(Value::as_str) == Some("tool_use") =>
        {
            reasons.push("content looks like a call, but it is no list of blocks".to_owned());
        }
        _ => {}
    }
}

/// The text of a content: a string is itself; of a list, the text parts joined by a line break;
/// anything else is empty.
fn text(content: Option<&Value>) -> Arc<str> {
    match content {
        Some(Value::String(text)) => Arc::clone(text),
        Some(Value::List(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(part_text).collect();
            Arc::from(texts.join("\n"))
        }
        _ => Arc::from(""),
    }
}

fn part_text(part: &Value) -> Option<&str> {
    match part.get("type")?.as_str()? {
        "text" | "input_text" | "output_text" => part.get("text")?.as_str(),
        _ => None,
    }
}

/// The blocks of a given type in a content, with their places.
fn blocks<'m>(content: Option<&'m Value>, kind: &'static str) -> impl Iterator<Item = (usize, &'m Value)> {
    let parts = content.and_then(Value::as_list).unwrap_or_default();
    parts.iter().enumerate().filter(move |(_, part)| is_block(part, kind))
}

fn is_block(part: &Value, kind: &str) -> bool {
    part.get("type").and_then(Value::as_str) == Some(kind)
}

/// A user message. One that holds nothing but tool results is no word of the user.
fn user<'m>(content: Option<&'m Value>, reasons: &mut Vec<String>) -> Shape<'m> {
    let results: Vec<ResultEntry> = blocks(content, "tool_result")
        .map(|(_, block)| ResultEntry {
            id: non_empty(block.get("tool_use_id")),
            text: text(block.get("content")),
            flag: flag(block.get("is_error"), "is_error", reasons),
        })
        .collect();
    if results.is_empty() {
        return Shape::User { text: text(content) };
    }
    let parts = content.and_then(Value::as_list).unwrap_or_default();
    let user = (parts.len() > results.len()).then(|| text(content));
    Shape::Results { results, user }
}

/// An assistant message: its calls are those of `tool_calls`, then of `function_call`, then of its
/// blocks.
fn assistant<'m>(message: &'m Value, reasons: &mut Vec<String>) -> Shape<'m> {
    let content = message.get("content");
    let mut calls = Vec::new();
    match message.get("tool_calls") {
        None | Some(Value::Null) => {}
        Some(Value::List(entries)) => {
            for (place, entry) in entries.iter().enumerate() {
                let function = entry.get("function");
                let arguments = function.and_then(|f| f.get("arguments"));
                let named = function.and_then(|f| f.get("name"));
                match call(named, entry.get("id"), arguments) {
                    Some(call) => calls.push(call),
                    None => reasons.push(format!("tool_calls[{place}] has no function name")),
                }
            }
        }
        Some(other) => reasons.push(format!("tool_calls is a {}, not a list", other.type_name())),
    }
    match message.get("function_call") {
        None | Some(Value::Null) => {}
        Some(function) => match call(function.get("name"), None, function.get("arguments")) {
            Some(call) => calls.push(call),
            None => reasons.push("function_call has no name".to_owned()),
        },
    }
    for (place, block) in blocks(content, "tool_use") {
        match call(block.get("name"), block.get("id"), block.get("input")) {
            Some(call) => calls.push(call),
            None => reasons.push(format!("the tool_use block content[{place}] has no name")),
        }
    }
    Shape::Assistant { text: text(content), calls }
}

/// A message without a role: an item of the Responses format or of MCP.
fn item<'m>(message: &'m Value, reasons: &mut Vec<String>) -> Shape<'m> {
    let one_call = |call: Option<CallEntry<'m>>, reasons: &mut Vec<String>| match call {
        Some(call) => Shape::Assistant { text: Arc::from(""), calls: vec![call] },
        None => {
            reasons.push("a call without a name".to_owned());
            Shape::Assistant { text: Arc::from(""), calls: Vec::new() }
        }
    };
    let of_mcp = message.get("method").and_then(Value::as_str) == Some("tools/call");
    let of_chat = ["tool_calls", "function_call", "toolCalls"].iter().any(|key| message.get(key).is_some());
    let of_responses = message.get("type").and_then(Value::as_str) == Some("function_call");
    if (of_mcp && of_responses) || (of_chat && (of_mcp || of_responses)) {
        reasons.push("a message that is a call of several formats at once: one of them is read".to_owned());
    }
    match message.get("type").and_then(Value::as_str) {
        Some("function_call") => {
            let call = call(message.get("name"), message.get("call_id"), message.get("arguments"));
            return one_call(call, reasons);
        }
        Some("function_call_output") => {
            let entry =
                ResultEntry { id: non_empty(message.get("call_id")), text: text(message.get("output")), flag: None };
            return Shape::Results { results: vec![entry], user: None };
        }
        _ => {}
    }
    if of_mcp {
        let params = message.get("params");
        let mut call =
            call(params.and_then(|p| p.get("name")), None, params.map(|p| p.get("arguments").unwrap_or(&NO_ARGUMENTS)));
        if let Some(call) = &mut call {
            call.id = rpc_id(message.get("id"));
        }
        return one_call(call, reasons);
    }
    if message.get("jsonrpc").is_some() {
        let id = rpc_id(message.get("id"));
        if let Some(result) = message.get("result") {
            let flag = flag(result.get("isError"), "isError", reasons);
            return Shape::Results {
                results: vec![ResultEntry { id, text: text(result.get("content")), flag }],
                user: None,
            };
        }
        if let Some(error) = message.get("error") {
            let entry = ResultEntry { id, text: text(error.get("message")), flag: Some(true) };
            return Shape::Results { results: vec![entry], user: None };
        }
    }
    reasons.push("a message without a role".to_owned());
    Shape::Unusable
}

/// MCP calls a tool that takes no arguments without any.
static NO_ARGUMENTS: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| Value::object([]));

/// A call, if it has a name. It stays one if its arguments cannot be read.
fn call<'m>(name: Option<&Value>, call_id: Option<&Value>, written: Option<&'m Value>) -> Option<CallEntry<'m>> {
    let tool = non_empty(name)?;
    let args = arguments(written).map_or(Args::Unreadable, Args::Object);
    Some(CallEntry { tool, id: non_empty(call_id), args, written })
}

/// The object that arguments are, or that their text holds.
fn arguments(written: Option<&Value>) -> Option<Value> {
    match written? {
        object @ Value::Object(_) => Some(object.clone()),
        Value::String(text) => json::parse(text.as_bytes()).ok().filter(|v| v.as_object().is_some()),
        _ => None,
    }
}

/// The reason for a call whose arguments cannot be read.
pub(super) fn unreadable(tool: &str) -> String {
    format!("{}: arguments are neither a JSON object nor a string of one", shown(tool))
}

/// A tool's name for a reason: what does not print is escaped, and 64 characters are enough.
pub(super) fn shown(tool: &str) -> String {
    const LONGEST: usize = 64;
    let mut out: String = tool.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if tool.chars().nth(LONGEST).is_some() {
        out.push('\u{2026}');
    }
    out
}

/// A non-empty string; nothing else names or identifies anything.
fn non_empty(value: Option<&Value>) -> Option<Arc<str>> {
    match value {
        Some(Value::String(text)) if !text.is_empty() => Some(Arc::clone(text)),
        _ => None,
    }
}

/// JSON-RPC allows numbers as ids; they are their own text.
fn rpc_id(value: Option<&Value>) -> Option<Arc<str>> {
    match value {
        Some(Value::Number(n)) => Some(Arc::from(n.to_string())),
        other => non_empty(other),
    }
}

/// An error flag: missing and null leave the question to the pack's rule, and so does another type,
/// with a reason.
fn flag(value: Option<&Value>, key: &str, reasons: &mut Vec<String>) -> Option<bool> {
    match value {
        None | Some(Value::Null) => None,
        Some(Value::Bool(flag)) => Some(*flag),
        Some(other) => {
            reasons.push(format!("{key} of a tool result is a {}, not a bool", other.type_name()));
            None
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use crate::ingest::script::run;

    #[test]
    fn what_looks_like_a_call_and_is_read_as_none_is_never_silent() {
        for (message, reason) in [
            (
                r#"{"role": "assistant", "type": "function_call", "name": "f", "arguments": "{}"}"#,
                "!0 a message with a role that is also a call of another format",
            ),
            (
                r#"{"role": "user", "method": "tools/call", "params": {"name": "f"}}"#,
                "!0 a message with a role that is also a call of another format",
            ),
            (
                r#"{"role": "assistant", "toolCalls": [{"name": "f"}]}"#,
                "!0 toolCalls is not read: the key is tool_calls",
            ),
            (
                r#"{"role": "assistant", "content": [{"type": "server_tool_use", "name": "f"}]}"#,
                "!0 content[0] looks like a call of a type that is not read",
            ),
            (
                r#"{"role": "assistant", "content": {"type": "tool_use", "name": "f"}}"#,
                "!0 content looks like a call, but it is no list of blocks",
            ),
            (
                r#"{"type": "function_call", "name": "f", "arguments": "{}", "tool_calls": []}"#,
                "!0 a message that is a call of several formats at once: one of them is read",
            ),
            (
                r#"{"type": "function_call", "name": "f", "arguments": "{}", "method": "tools/call"}"#,
                "!0 a message that is a call of several formats at once: one of them is read",
            ),
        ] {
            let taken = run(&[message]);
            assert!(taken.iter().any(|line| line == reason), "{message}: {taken:?}");
        }
        assert!(
            run(&[r#"{"role": "assistant", "content": [{"type": "thinking"}, {"type": "text", "text": "x"}]}"#])
                .iter()
                .all(|line| !line.starts_with('!'))
        );
    }

    #[test]
    fn anthropic_blocks_are_text_and_calls() {
        assert_eq!(
            run(&[r#"{"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "let me look"},
                    {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}},
                    {"type": "tool_use", "id": "t2", "name": "send", "input": "{\"to\": 2}"},
                    {"type": "tool_use", "id": "t3", "input": {}},
                    {"type": "tool_use", "id": "t4", "name": "wait"},
                    {"type": "text", "text": "now"}]}"#]),
            [
                r#"0@0 assistant "let me look\nnow" calls=3"#,
                r#"1@0 call[0] look({"at":1}) id=t1 "let me look\nnow""#,
                r#"2@0 call[1] send({"to":2}) id=t2 "let me look\nnow""#,
                r#"3@0 call[2] wait(?) id=t4 "let me look\nnow""#,
                "!0 the tool_use block content[4] has no name",
                "!0 wait: arguments are neither a JSON object nor a string of one",
            ]
        );
    }

    #[test]
    fn one_anthropic_message_holds_several_results_and_perhaps_words() {
        let calls = r#"{"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "f", "input": {}},
            {"type": "tool_use", "id": "b", "name": "g", "input": {}}]}"#;
        let events = run(&[
            calls,
            r#"{"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]},
                {"type": "text", "text": "and hurry"},
                {"type": "tool_result", "tool_use_id": "a", "content": "gone", "is_error": true},
                {"type": "tool_result", "content": "stray"}]}"#,
        ]);
        assert_eq!(
            &events[3..],
            [
                r#"3@1 result->2 "x\ny""#,
                r#"4@1 result->1 "gone" error"#,
                r#"5@1 result->- "stray""#,
                r#"6@1 user "and hurry""#,
                "!1 a tool result without the id of a call",
            ]
        );
        let only = r#"{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}"#;
        assert_eq!(&run(&[calls, only])[3..], [r#"3@1 result->1 """#], "results alone are no word of the user");
        let picture = only.replace(r#""a"}"#, r#""a"}, {"type": "image", "source": {}}"#);
        assert_eq!(&run(&[calls, &picture])[3..], [r#"3@1 result->1 """#, r#"4@1 user """#]);
    }

    #[test]
    fn blocks_of_the_other_side_mean_nothing() {
        assert_eq!(
            run(&[
                r#"{"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}"#,
                r#"{"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}"#,
            ]),
            [r#"0@0 user """#, r#"1@1 assistant "" calls=0"#]
        );
    }

    #[test]
    fn responses_items_are_calls_and_results() {
        assert_eq!(
            run(&[
                r#"{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}"#,
                r#"{"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{\"at\": 1}"}"#,
                r#"{"type": "function_call_output", "call_id": "c1", "output": "Error: no"}"#,
                r#"{"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "late"}]}"#,
                r#"{"type": "function_call", "call_id": "c2"}"#,
                r#"{"type": "reasoning", "summary": []}"#,
            ]),
            [
                r#"0@0 user "hi""#,
                r#"1@1 assistant "" calls=1"#,
                r#"2@1 call[0] look({"at":1}) id=c1 """#,
                r#"3@2 result->2 "Error: no" error"#,
                r#"4@3 result->- "late""#,
                "!3 a tool result that answers no open call",
                r#"5@4 assistant "" calls=0"#,
                "!4 a call without a name",
                "!5 a message without a role",
            ]
        );
    }

    #[test]
    fn mcp_requests_and_responses_are_calls_and_results() {
        assert_eq!(
            run(&[
                r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "arguments": {"at": 1}}}"#,
                r#"{"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "wait"}}"#,
                r#"{"jsonrpc": "2.0", "id": 1.0, "result": {"content": [{"type": "text", "text": "seen"}], "isError": true}}"#,
                r#"{"jsonrpc": "2.0", "id": "x", "error": {"code": -32602, "message": "unknown tool"}}"#,
                r#"{"jsonrpc": "2.0", "method": "tools/call", "params": 5}"#,
                r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#,
            ]),
            [
                r#"0@0 assistant "" calls=1"#,
                r#"1@0 call[0] look({"at":1}) id=1 """#,
                r#"2@1 assistant "" calls=1"#,
                r#"3@1 call[0] wait({}) id=x """#,
                r#"4@2 result->1 "seen" error"#,
                r#"5@3 result->3 "unknown tool" error"#,
                r#"6@4 assistant "" calls=0"#,
                "!4 a call without a name",
                "!5 a message without a role",
            ]
        );
    }

    #[test]
    fn the_older_function_call_is_a_call_without_an_id() {
        assert_eq!(
            run(&[
                r#"{"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}}"#,
                r#"{"role": "function", "name": "f", "content": "x"}"#,
                r#"{"role": "assistant", "content": "a", "function_call": null}"#,
                r#"{"role": "assistant", "content": "a", "function_call": "auto"}"#,
            ]),
            [
                r#"0@0 assistant "" calls=1"#,
                r#"1@0 call[0] f({}) id=- """#,
                r#"2@1 result->- "x""#,
                "!1 a tool result without the id of a call",
                r#"3@2 assistant "a" calls=0"#,
                r#"4@3 assistant "a" calls=0"#,
                "!3 function_call has no name",
            ]
        );
    }

    #[test]
    fn calls_in_two_formats_at_once_are_all_judged() {
        let message = r#"{"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "h", "input": {}}],
            "function_call": {"name": "g", "arguments": {}},
            "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]}"#;
        assert_eq!(
            run(&[message]),
            [
                r#"0@0 assistant "" calls=3"#,
                r#"1@0 call[0] f({}) id=a """#,
                r#"2@0 call[1] g({}) id=- """#,
                r#"3@0 call[2] h({}) id=c """#,
            ]
        );
    }
}
