//! `tests/*.yaml`.

use serde_json::{Value, json};

use super::shapes::*;
use crate::{
    drift::{Action, Anomaly, Category, SessionVerdict, Standing, Triangulation},
    pack::Band,
};

pub(super) fn tests() -> Value {
    object(
        "Tests of a pack: small traces with the verdicts that they must give, sessions of probes, redactions.",
        [
            optional("tests", some("Traces with their verdicts.", test())),
            optional(
                "answers",
                map(
                    "Answers to probes, by the names that `drift` uses.",
                    anything("Text is what a model said, anything else its JSON."),
                ),
            ),
            optional("drift", some("Sessions of finished answers.", session())),
            optional("redaction", some("What redaction leaves.", redaction())),
        ],
    )
}

fn test_name() -> Key {
    required("name", some_text("What it shows; unique in the pack."))
}

fn test() -> Value {
    let verdicts = |key, about: &str| optional(key, verdicts(about));
    let expect = object(
        "What must come out, and nothing else.",
        [
            verdicts("hits", "Violations."),
            verdicts("undecided", "Policies that cannot be decided."),
            verdicts("signals", "Firings of `review`, `flag` and `milestone` policies."),
            optional("malformed", turns("Turns at which something cannot be taken in.")),
        ],
    );
    object(
        "A trace with its verdicts.",
        [
            test_name(),
            optional(
                "policies",
                some("Verdicts of these alone are compared; of all, if it is left out.", text("The id of a policy.")),
            ),
            required("messages", list("The trace, one message an item. Turns count them from 0.", message())),
            required("expect", expect),
        ],
    )
}

fn turns(about: &str) -> Value {
    any_of(about, [whole("A turn.", 0), list("Turns.", whole("A turn.", 0))])
}

fn verdicts(about: &str) -> Value {
    let one = object(
        "A policy at a turn.",
        [
            required("policy", some_text("The id of a policy.")),
            required("turn", whole("The index of a message, from 0.", 0)),
        ],
    );
    any_of(
        about,
        [
            map("Turns by policy: `{A01: 1}` or `{A01: [1, 5]}`.", turns("Turns.")),
            list("Policies with their turns.", one),
        ],
    )
}

fn message() -> Value {
    let content = |about: &str| json!({"description": about, "type": ["string", "array", "null"]});
    let call = || {
        any_of(
            "`{TOOL: {ARGUMENT: VALUE}}`, or the name of a tool without arguments.",
            [text("The name of a tool."), json!({"type": "object"})],
        )
    };
    let short = object(
        "A message in short.",
        [
            optional("system", content("A system message.")),
            optional("user", content("A user message.")),
            optional("assistant", content("An assistant message, perhaps with `call` or `calls` beside it.")),
            optional("call", call()),
            optional("calls", some("Several calls in one message.", call())),
            optional("result", anything("The result of the oldest call without one; what is no text is JSON.")),
            optional("id", some_text("The id of the call that is made, or answered.")),
            optional("time", json!({"description": "Seconds, or RFC 3339.", "type": ["number", "string"]})),
            optional("raw", anything("Anything at all in a message's place.")),
        ],
    );
    let long = json!({
        "description": "A message of the OpenAI shape, taken as it is.",
        "type": "object",
        "required": ["role"],
    });
    any_of("A message.", [short, long])
}

/// A word of these, or `none`.
fn perhaps<const N: usize>(about: &str, words: [&'static str; N]) -> Value {
    json!({"description": about, "enum": words.into_iter().chain(["none"]).collect::<Vec<_>>()})
}

fn range(about: &str) -> Value {
    json!({
        "description": about,
        "type": "array",
        "items": {"type": "number", "minimum": 0, "maximum": 1},
        "minItems": 2,
        "maxItems": 2,
    })
}

fn session() -> Value {
    let action = || optional("action", words("What is recommended.", Action::ALL.map(Action::word)));
    let answer = |about: &str| anything(&format!("{about} The name of an answer, or what it is."));
    let step_expect = object(
        "What must be said of the probe; what is left out may be anything.",
        [
            optional("band", words("Where the score lies.", Band::ALL.map(Band::word))),
            optional("score", range("The least and the greatest score.")),
            optional("category", perhaps("What kind of divergence is found.", Category::ALL.map(Category::word))),
            optional("anomaly", perhaps("What is wrong with an answer.", Anomaly::ALL.map(Anomaly::word))),
            optional("triangulation", perhaps("What a baseline says.", Triangulation::ALL.map(Triangulation::word))),
            optional("escape", flag("Whether the snapshot escaped.")),
            optional("standing", words("How it counts.", Standing::ALL.map(Standing::word))),
            action(),
        ],
    );
    let step = object(
        "A probe with its answers.",
        [
            required("probe", some_text("The id of a probe.")),
            required("snapshot", answer("What the agent in its session said.")),
            required("shadow", answer("What a fresh instance said.")),
            optional("baseline", answer("What a baseline said.")),
            optional("judge", anything("What a judge said.")),
            optional("expect", step_expect),
        ],
    );
    let summary = object(
        "The session in seven fields; what is left out is as in a young session of low sensitivity.",
        [
            optional("trusted_user", flag("Whether the user is trusted.")),
            optional("prior_authorization", flag("Whether something was authorised.")),
            optional("taint_active", flag("Whether the context holds what strangers wrote.")),
            optional("external_reads_count", whole("How often something was read from outside.", 0)),
            optional("session_depth", whole("How many turns it has.", 0)),
            optional("data_sensitivity", words("How sensitive its data are.", ["low", "medium", "high", "critical"])),
            optional("escalation_chain", words("Where an escalation stands.", ["none", "pending", "active"])),
        ],
    );
    let expect = object(
        "What must be said of the session; what is left out may be anything.",
        [
            optional("verdict", words("The verdict.", SessionVerdict::ALL.map(SessionVerdict::word))),
            optional("signal", range("The least and the greatest signal.")),
            action(),
        ],
    );
    object(
        "A session of finished answers.",
        [
            test_name(),
            optional("summary", summary),
            required("probes", some("Its probes.", step)),
            optional("expect", expect),
        ],
    )
}

fn redaction() -> Value {
    object(
        "A text or a payload, and what must be left of it.",
        [
            test_name(),
            optional("text", some_text("A text: detectors look at it.")),
            optional("payload", anything("An answer: the rules of its fields apply.")),
            required("gives", anything("What must be left.")),
        ],
    )
}
