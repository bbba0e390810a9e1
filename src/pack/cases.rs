//! `tests/*.yaml`: small traces with the verdicts that they must give.
//!
//! ```yaml
//! tests:
//!   - name: a cancellation needs a yes
//!     policies: [A01]                 # compare these only; all, if left out
//!     messages:
//!       - user: "Cancel X1"
//!       - call: {cancel_reservation: {reservation_id: X1}}
//!       - result: {status: cancelled}
//!     expect:
//!       hits: [{policy: A01, turn: 1}]   # or {A01: 1}, or {A01: [1, 5]}
//! ```
//!
//! What `expect` leaves out must not occur: `hits`, `undecided`, `signals` (policy and turn) and `malformed`
//! (turns). The messages have a short form, see [`super::messages`]. The same files may hold tests of the drift half,
//! see [`super::drift_cases`].

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    diag::{Code, Diagnostic, Diagnostics, Span, quote},
    model::Turn,
};

use super::{
    drift_cases::{self, DriftTests},
    fields::{Fields, index, list, some_list, some_text, texts},
    messages,
    node::{Kind, Node},
    spec::{Expect, Expected, Spanned, TestCase},
};

/// The names of a pack's tests that were read so far.
pub(super) type Names = BTreeMap<String, Span>;

/// What a file of tests holds.
#[derive(Default)]
pub(super) struct Cases {
    pub(super) traces: Vec<TestCase>,
    pub(super) drift: DriftTests,
    /// Where sessions stand.
    pub(super) sessions: Option<Span>,
}

/// Reads a file of tests.
pub(super) fn read(root: &Node, names: &mut Names, diags: &mut Diagnostics) -> Cases {
    let Some(mut fields) = Fields::of(root, "a file of tests", diags) else { return Cases::default() };
    let answers = fields.get("answers").map(|n| drift_cases::answers(n, diags)).unwrap_or_default();
    let (sessions, redaction) = (fields.get("drift"), fields.get("redaction"));
    let tests = match (sessions, redaction) {
        (None, None) => fields.need("tests", "tests: [{name: ..., messages: [...], expect: {...}}]", diags),
        _ => fields.get("tests"),
    };
    let tests = tests.and_then(|n| some_list(n, "`tests`", diags)).unwrap_or_default();
    fields.finish(diags);
    Cases {
        traces: tests.iter().filter_map(|node| test(node, names, diags)).collect(),
        drift: DriftTests {
            sessions: sessions.map(|n| drift_cases::sessions(n, &answers, names, diags)).unwrap_or_default(),
            redaction: redaction.map(|n| drift_cases::redaction(n, names, diags)).unwrap_or_default(),
        },
        sessions: sessions.map(|n| n.span),
    }
}

/// The name of a test, which no other test of the pack has.
pub(super) fn name(fields: &mut Fields<'_>, names: &mut Names, diags: &mut Diagnostics) -> Option<Spanned<String>> {
    let node = fields.need("name", "name: WHAT IT SHOWS", diags)?;
    let text = some_text(node, "`name`", diags)?;
    if let Some(first) = names.get(text) {
        let what = format!("two tests have the name {}", quote(text));
        diags.push(
            Diagnostic::error(Code::NameTwice, node.span, what)
                .secondary(*first, "the other one")
                .help("give it another name"),
        );
    } else {
        names.insert(text.to_owned(), node.span);
    }
    Some(Spanned { value: text.to_owned(), span: node.span })
}

fn test(node: &Node, names: &mut Names, diags: &mut Diagnostics) -> Option<TestCase> {
    let mut fields = Fields::of(node, "a test", diags)?;
    let name = name(&mut fields, names, diags);
    let policies = fields.get("policies").and_then(|n| {
        let items = some_list(n, "`policies`", diags)?;
        Some(
            texts(items, "the id of a policy", diags)
                .into_iter()
                .map(|(value, span)| Spanned { value, span })
                .collect(),
        )
    });
    let written = fields.need("messages", "messages: [{user: \"hello\"}]", diags);
    let written = written.and_then(|n| messages::items(n, diags));
    let count = written.as_ref().map(|(items, _)| items.len());
    let messages = written.and_then(|(items, spans)| Some((messages::expand(items, diags)?, spans)));
    let expect = fields.need("expect", "expect: {hits: []}", diags).and_then(|n| expect(n, count, diags));
    fields.finish(diags);
    let (messages, message_spans) = messages?;
    Some(TestCase { name: name?, policies, messages, message_spans, expect: expect? })
}

fn expect(node: &Node, messages: Option<usize>, diags: &mut Diagnostics) -> Option<Expect> {
    let mut fields = Fields::of(node, "`expect`", diags)?;
    let mut verdicts = |key, diags: &mut Diagnostics| {
        fields.get(key).map(|n| verdicts(n, &format!("`{key}`"), messages, diags)).unwrap_or_default()
    };
    let hits = verdicts("hits", diags);
    let undecided = verdicts("undecided", diags);
    let signals = verdicts("signals", diags);
    let malformed = fields.get("malformed").map(|n| turns(n, "`malformed`", messages, diags)).unwrap_or_default();
    fields.finish(diags);
    Some(Expect { hits, undecided, signals, malformed })
}

/// `[{policy: ID, turn: N}, ...]`, or `{ID: N}`, or `{ID: [N, ...]}`.
fn verdicts(node: &Node, what: &str, messages: Option<usize>, diags: &mut Diagnostics) -> Vec<Expected> {
    let mut all: Vec<Expected> = Vec::new();
    if let Kind::Map(entries) = &node.kind {
        for entry in entries {
            let turns = turns(&entry.value, &format!("the turns of `{}`", entry.key), messages, diags);
            all.extend(turns.into_iter().map(|turn| Expected {
                policy: entry.key.clone(),
                turn: turn.value,
                span: entry.key_span.to(turn.span),
            }));
        }
    } else {
        for item in list(node, what, diags).unwrap_or_default() {
            let Some(mut fields) = Fields::of(item, &format!("an item of {what}"), diags) else { continue };
            let policy = fields.need("policy", "policy: ID", diags).and_then(|n| some_text(n, "`policy`", diags));
            let turn = fields.need("turn", "turn: 1", diags).and_then(|n| turn(n, messages, diags));
            fields.finish(diags);
            if let (Some(policy), Some(turn)) = (policy, turn) {
                all.push(Expected { policy: policy.to_owned(), turn, span: item.span });
            }
        }
    }
    let mut seen = BTreeSet::new();
    for expected in &all {
        if !seen.insert((expected.policy.as_str(), expected.turn)) {
            let what = format!("{} at turn {} is listed twice", quote(&expected.policy), expected.turn);
            diags.push(
                Diagnostic::error(Code::NameTwice, expected.span, what)
                    .help("a policy has at most one verdict of a kind in a turn"),
            );
        }
    }
    all
}

/// One turn, or a list of turns.
fn turns(node: &Node, what: &str, messages: Option<usize>, diags: &mut Diagnostics) -> Vec<Spanned<Turn>> {
    let one = |node: &Node, diags: &mut Diagnostics| {
        turn(node, messages, diags).map(|value| Spanned { value, span: node.span })
    };
    match &node.kind {
        Kind::Number(_) => one(node, diags).into_iter().collect(),
        _ => {
            let items = list(node, what, diags).unwrap_or_default();
            items.iter().filter_map(|item| one(item, diags)).collect()
        }
    }
}

/// A turn; not beyond the last message, if their number is known.
fn turn(node: &Node, messages: Option<usize>, diags: &mut Diagnostics) -> Option<Turn> {
    let turn = index(node, "a turn", diags)?;
    let last = messages.map(|n| n.saturating_sub(1));
    match last {
        Some(last) if usize::try_from(turn).map_or(true, |turn| turn > last) => {
            let what = format!("turn {turn} is beyond the last message, which is turn {last}");
            diags.push(Diagnostic::error(Code::NumberRange, node.span, what).help("turns count messages, from 0"));
            None
        }
        _ => Some(turn),
    }
}
