//! Sessions under small packs: what is answered when, and what it costs.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod limits;

use std::sync::Arc;

use super::*;
use crate::{
    diag::{Sources, Style},
    ingest::{ErrorRule, Proposal},
    keywords::Categories,
    lang::{Surroundings, compile, parse},
    model::{Digest, Gate, Limit, Limits, Step, Value, json},
    redact::{Redactor, Rules},
    reward::{Components, Discount},
};

/// A pack of one file, without keywords.
pub(crate) fn pack(text: &str) -> Arc<Pack> {
    let mut sources = Sources::new();
    let file = sources.add("test.policy", text);
    let (module, problems) = parse(file, text);
    let sources = Arc::new(sources);
    assert!(!problems.has_errors(), "{}", problems.render(&sources, Style::Plain));
    let around = Surroundings {
        sources: sources.clone(),
        categories: Arc::new(Categories::compile(&[]).unwrap()),
        category_spans: Vec::new(),
        clock: None,
        tools: None,
        redaction: None,
    };
    let (program, problems) = compile(&[module], &around);
    let Some(program) = program else { panic!("{}", problems.render(&sources, Style::Plain)) };
    let parts = PackParts {
        root: "test".into(),
        name: "test".into(),
        version: semver::Version::new(1, 0, 0),
        description: String::new(),
        digest: Digest::new([0; 32]),
        program,
        errors: ErrorRule { prefix: Some("Error".to_owned()) },
        on_undecided: Gate::Review,
        discount: Discount::default(),
        components: Components::default(),
        limits: Limits::default(),
        episode: crate::model::EpisodeRules::default(),
        calibration: crate::pack::Calibration::Uncalibrated,
        redactor: Arc::new(Redactor::new(Rules::standard(), [0; 32]).unwrap()),
        drift: None,
        tests: Vec::new(),
        drift_tests: crate::pack::DriftTests::default(),
        said: Said::default(),
        version_span: crate::diag::Span::start_of(file),
        inherited: crate::pack::Inherited::default(),
    };
    Arc::new(Pack::new(parts).unwrap())
}

fn message(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn calls(calls: &[(&str, &str)]) -> Value {
    let calls: Vec<String> = calls
        .iter()
        .enumerate()
        .map(|(i, (tool, args))| {
            format!(r#"{{"id":"c{i}","type":"function","function":{{"name":"{tool}","arguments":{args}}}}}"#)
        })
        .collect();
    message(&format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(",")))
}

fn hits(step: &Step) -> Vec<String> {
    step.hits.iter().map(|h| format!("{}@{} n{} {}", h.firing.policy, h.turn, h.n, h.reward)).collect()
}

#[test]
fn a_policy_hits_once_a_turn_and_every_call_gets_its_own_answer() {
    let pack = pack(r#"policy P "p" { severity 0.8 on call pay deny if args.amount > 10 message "{args.amount}" }"#);
    let mut session = Session::new(pack);
    let step = session
        .message(&calls(&[("pay", r#"{"amount":11}"#), ("pay", r#"{"amount":1}"#), ("pay", r#"{"amount":12}"#)]))
        .unwrap();
    let gates: Vec<Gate> = step.calls.iter().map(|c| c.gate).collect();
    assert_eq!(gates, [Gate::Deny, Gate::Allow, Gate::Deny]);
    assert_eq!(hits(&step), ["P@0 n0 0.8"]);
    assert_eq!(step.hits[0].firing.message, "11");
    let step = session.message(&calls(&[("pay", r#"{"amount":11}"#)])).unwrap();
    assert_eq!(hits(&step), ["P@1 n1 0.4"]);
    let step = session.message(&calls(&[("pay", r#"{"amount":11}"#)])).unwrap();
    assert_eq!(hits(&step), ["P@2 n2 0"]);
    let step = session.message(&calls(&[("pay", r#"{"amount":"11"}"#)])).unwrap();
    assert_eq!((step.calls[0].gate, step.undecided.len()), (Gate::Review, 1));
    assert_eq!(step.undecided[0].reason, "`args.amount > 10` is a string, not a number");
}

#[test]
fn a_denied_message_denies_each_of_its_calls() {
    let pack = pack(r#"policy P "p" { severity 1 on assistant deny if calls > 1 }"#);
    let mut session = Session::new(pack);
    let step = session.message(&calls(&[("a", "{}"), ("b", "{}")])).unwrap();
    assert!(step.calls.iter().all(|c| c.gate == Gate::Deny));
    assert_eq!(step.hits.len(), 1);
}

/// Where one of the values that all steps must equal is not there, the others still decide.
#[test]
fn an_order_under_two_values_is_decided_by_the_one_that_is_there() {
    let pack = pack(
        r#"
        policy P "first get, then check, of the same" {
          severity 1
          on call put
          deny unless once(call get where it.args.a == args.a and it.args.n == args.n
            then call check where it.args.a == args.a and it.args.n == args.n)
        }
        "#,
    );
    let mut session = Session::new(pack);
    session.message(&calls(&[("get", r#"{"a":"x","n":1}"#)])).unwrap();
    session.message(&calls(&[("check", r#"{"a":"x","n":1}"#)])).unwrap();
    let mut put = |args: &str| {
        let step = session.message(&calls(&[("put", args)])).unwrap();
        (step.hits.len(), step.undecided.len())
    };
    assert_eq!(put(r#"{"a":"x","n":1}"#), (0, 0));
    assert_eq!(put(r#"{"a":"x"}"#), (0, 1));
    assert_eq!(put(r#"{"n":1}"#), (0, 1));
    assert_eq!(put("{}"), (0, 1));
    assert_eq!(put(r#"{"a":"y"}"#), (1, 0));
    assert_eq!(put(r#"{"n":2}"#), (1, 0));
}

#[test]
fn facts_history_and_windows_work_together() {
    let pack = pack(
        r#"
        fact owner[json.id as string] = json.user as string from result get when not is_error
        policy A "not yours" { severity 1 on call drop deny if owner[args.id as string] != args.user }
        policy B "too much" {
          severity 1
          on call pay
          deny if args.amount + sum(it.args.amount over call pay where it.args.to == args.to within 30m) > 500
        }
        policy C "ask first" { severity 1 on call drop deny unless once(user where it.text contains "yes" since call drop) }
        "#,
    );
    let mut session = Session::new(pack);
    let mut all = Vec::new();
    for text in [
        r#"{"role":"user","content":"yes"}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"get","arguments":{"id":"x"}}}]}"#,
        r#"{"role":"tool","tool_call_id":"1","content":"{\"id\":\"x\",\"user\":\"u\"}"}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"2","function":{"name":"drop","arguments":{"id":"x","user":"u"}}}]}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"3","function":{"name":"drop","arguments":{"id":"x","user":"v"}}}]}"#,
        r#"{"role":"assistant","time":0,"tool_calls":[{"id":"4","function":{"name":"pay","arguments":{"to":"p","amount":200}}}]}"#,
        r#"{"role":"assistant","time":1800,"tool_calls":[{"id":"5","function":{"name":"pay","arguments":{"to":"p","amount":300}}}]}"#,
        r#"{"role":"assistant","time":1800,"tool_calls":[{"id":"6","function":{"name":"pay","arguments":{"to":"p","amount":0.01}}}]}"#,
        r#"{"role":"assistant","time":3601,"tool_calls":[{"id":"7","function":{"name":"pay","arguments":{"to":"p","amount":499.98}}}]}"#,
    ] {
        let step = session.message(&message(text)).unwrap();
        assert_eq!((step.undecided.len(), step.malformed.len()), (0, 0), "{text} {step:?}");
        all.extend(hits(&step));
    }
    assert_eq!(all, ["A@4 n0 1", "C@4 n0 1", "B@7 n0 1"]);
}

#[test]
fn what_policies_find_moves_no_window() {
    let pair = r#"policy PAIR "p" { severity 1 on call upload deny if once(call read within 10 events) }
        policy SHELL "s" { severity 1 on call shell deny if true }
        policy EXEC "e" { severity 1 on call exec deny if true }"#;
    let reader = r#"policy STOP "s" { severity 1 on call other deny if count(hit) >= 50 }"#;
    let trace = [
        calls(&[("read", "{}")]),
        calls(&[("shell", "{}"), ("exec", "{}")]),
        calls(&[("shell", "{}"), ("exec", "{}")]),
        calls(&[("upload", "{}")]),
    ];
    for text in [pair.to_owned(), format!("{pair}\n{reader}")] {
        let mut session = Session::new(pack(&text));
        let steps: Vec<Step> = trace.iter().map(|m| session.message(m).unwrap()).collect();
        assert_eq!(hits(&steps[3]), ["PAIR@3 n0 1"], "{text}");
    }
    // A hit stands beside the event that it came behind.
    let recent = r#"policy A "a" { severity 1 on call pay deny if args.amount > 5 }
        policy B "b" { severity 1 on call pay deny if once(hit within 2 events) }"#;
    let mut session = Session::new(pack(recent));
    let mut all = Vec::new();
    for amount in [9, 1, 1] {
        let step = session.message(&calls(&[("pay", &format!(r#"{{"amount":{amount}}}"#))])).unwrap();
        all.push(step.hits.iter().map(|h| h.firing.policy.to_string()).collect::<String>());
    }
    assert_eq!(all, ["A", "B", ""]);
}

#[test]
fn proposals_are_answered_before_they_run_and_not_judged_again() {
    let pack = pack(r#"policy P "p" { severity 1 on call pay deny if count(call pay) >= 1 }"#);
    let mut session = Session::new(pack);
    session.message(&message(r#"{"role":"user","content":"x"}"#)).unwrap();
    let proposal = |index| Proposal {
        turn: 1,
        index,
        calls: 2,
        call_id: if index == 0 { "c0" } else { "c1" },
        tool: "pay",
        arguments_json: b"{}",
        message_text: "",
        time: None,
    };
    let first = session.proposal(&proposal(0)).unwrap();
    assert_eq!(first.calls[0].gate, Gate::Allow);
    let second = session.proposal(&proposal(1)).unwrap();
    assert_eq!((second.calls.len(), second.calls[0].gate), (1, Gate::Deny));
    assert_eq!(hits(&second), ["P@1 n0 1"]);
    let again = session.proposal(&proposal(1)).unwrap();
    assert_eq!((again.calls[0].gate, again.hits.len()), (Gate::Deny, 0));
    let whole = session.message(&calls(&[("pay", "{}"), ("pay", "{}")])).unwrap();
    let gates: Vec<Gate> = whole.calls.iter().map(|c| c.gate).collect();
    assert_eq!((gates, whole.hits.len()), (vec![Gate::Allow, Gate::Deny], 0));
}

#[test]
fn an_ended_session_takes_nothing_more() {
    let pack = pack(r#"policy P "p" { severity 1 on end deny if once(call lock) }"#);
    let mut session = Session::new(pack);
    session.message(&calls(&[("lock", "{}")])).unwrap();
    assert_eq!(hits(&session.end().unwrap()), ["P@0 n0 1"]);
    assert_eq!(session.end().unwrap_err(), SessionError::Ended);
    assert_eq!(session.message(&calls(&[])).unwrap_err(), SessionError::Ended);
}

#[test]
fn evidence_names_the_conditions_and_the_events_they_rest_on() {
    let pack = pack(
        r#"
        fact owner[json.id as string] = json.user as string from result get
        policy A "a" { severity 1 on call drop let o = owner[args.id as string] when known(o) deny if o != args.user and once(call get) or args.force }
        "#,
    );
    let mut session = Session::new(pack);
    session.message(&calls(&[("get", "{}")])).unwrap();
    session
        .message(&message(r#"{"role":"tool","tool_call_id":"c0","content":"{\"id\":\"x\",\"user\":\"u\"}"}"#))
        .unwrap();
    let step = session.message(&calls(&[("drop", r#"{"id":"x","user":"v"}"#)])).unwrap();
    let evidence: Vec<(String, bool, Vec<u64>)> = step.hits[0]
        .firing
        .evidence
        .conditions
        .iter()
        .map(|c| (c.source.to_string(), c.holds, c.rests_on.clone()))
        .collect();
    assert_eq!(
        evidence,
        [
            ("known(o)".to_owned(), true, vec![2]),
            ("o != args.user".to_owned(), true, vec![2]),
            ("once(call get)".to_owned(), true, vec![1]),
        ]
    );
}

#[test]
fn a_turn_has_a_budget_of_its_own_however_its_calls_come() {
    let text = r#"policy P "p" { severity 1 on call pay deny if any x in args.list: x == 9 }"#;
    let limits = Limits { event_steps: 1_000, turn_steps: 500, ..Limits::default() };
    let arguments = format!(r#"{{"list":[{}]}}"#, ["1"; 40].join(","));
    let pay: Vec<(&str, &str)> = vec![("pay", &arguments); 6];
    let mut whole = Session::within(pack(text), limits);
    let step = whole.message(&calls(&pay)).unwrap();
    let gates: Vec<Gate> = step.calls.iter().map(|c| c.gate).collect();
    assert_eq!(gates.first(), Some(&Gate::Allow), "the first is within the budget");
    assert_eq!(gates.last(), Some(&Gate::Review), "the last is not");
    assert_eq!(step.undecided.len(), 1);
    assert_eq!(step.undecided[0].reason, Limit::TurnSteps.reason());
    // Proposed one by one they cost the turn the same.
    let mut apart = Session::within(pack(text), limits);
    let proposed: Vec<Gate> = (0..6)
        .flat_map(|index| {
            let proposal = Proposal {
                turn: 0,
                index,
                calls: 6,
                call_id: "",
                tool: "pay",
                arguments_json: arguments.as_bytes(),
                message_text: "",
                time: None,
            };
            apart.proposal(&proposal).unwrap().calls
        })
        .map(|c| c.gate)
        .collect();
    assert_eq!(proposed, gates);
    // The next turn begins afresh.
    let next = whole.message(&calls(&pay[..1])).unwrap();
    assert_eq!(next.calls[0].gate, Gate::Allow);
}

#[test]
fn a_session_stays_within_its_state_and_is_undecided_beyond() {
    let text = r#"
        fact seen_[json.id as string] = json as object from result get
        policy P "p" { severity 1 on call pay deny unless seen(seen_[args.id as string]) }
    "#;
    let limits = Limits { state_bytes: 20_000, ..Limits::default() };
    let mut session = Session::within(pack(text), limits);
    for i in 0..2_000 {
        session.message(&calls(&[("get", "{}")])).unwrap();
        let result = format!(r#"{{"role":"tool","tool_call_id":"c0","content":"{{\"id\":\"{i}\"}}"}}"#);
        session.message(&message(&result)).unwrap();
        assert!(session.bytes() < 21_000, "{} bytes after {i}", session.bytes());
    }
    assert!(session.is_incomplete());
    // Even what was taken in before the limit: it may have changed since.
    let step = session.message(&calls(&[("pay", r#"{"id":"0"}"#)])).unwrap();
    assert_eq!(step.calls[0].gate, Gate::Review);
    assert_eq!(step.undecided[0].reason, Limit::StateBytes.reason());
}

#[test]
fn what_is_reported_once_is_answered_each_time_and_remembered_within_a_bound() {
    let text = r#"policy P "p" { severity 1 on call pay deny once per args.to if args.amount > 10 }"#;
    let limits = Limits { state_bytes: 1_000, ..Limits::default() };
    let mut session = Session::within(pack(text), limits);
    let pay = |to: usize| calls(&[("pay", &format!(r#"{{"amount":11,"to":"p{to}"}}"#))]);
    let step = session.message(&pay(0)).unwrap();
    assert_eq!((step.calls[0].gate, step.hits.len()), (Gate::Deny, 1));
    let step = session.message(&pay(0)).unwrap();
    assert_eq!((step.calls[0].gate, step.hits.len(), step.undecided.len()), (Gate::Deny, 0, 0));
    let unknown = session.message(&calls(&[("pay", r#"{"amount":11}"#)])).unwrap();
    assert_eq!((unknown.calls[0].gate, unknown.hits.len(), unknown.undecided.len()), (Gate::Deny, 0, 1));
    let steps: Vec<Step> = (1..100).map(|to| session.message(&pay(to)).unwrap()).collect();
    assert!(session.is_incomplete() && session.bytes() < 1_200, "{}", session.bytes());
    let last = steps.last().unwrap();
    assert_eq!(last.undecided[0].reason, Limit::StateBytes.reason());
    assert!(steps.iter().all(|step| step.hits.len() + step.undecided.len() == 1), "nothing passes in silence");
}

#[test]
fn one_more_that_there_may_be_is_not_counted_as_there() {
    let text = r#"
        fact held[json.id as string] = json as object from result get
        fact names collects json.id as string from result get
        policy SOME "s" { severity 1 on call pay deny if count(h in held) > 0 }
        policy MANY "m" { severity 1 on call pay deny if count(h in held) > 1 }
        policy ANY "a" { severity 1 on call pay deny if any h in held: true }
        policy NAME "n" { severity 1 on call pay deny if count(n in names) > 0 }
    "#;
    let mut session = Session::new(pack(text));
    session.message(&calls(&[("get", "{}")])).unwrap();
    // Neither fact can use it: there may be an entry that nobody has seen.
    session.message(&message(r#"{"role":"tool","tool_call_id":"c0","content":"no JSON"}"#)).unwrap();
    let step = session.message(&calls(&[("pay", "{}")])).unwrap();
    let open: Vec<&str> = step.undecided.iter().map(|u| u.policy.as_ref()).collect();
    assert_eq!((step.hits.len(), open), (0, vec!["ANY", "NAME", "SOME"]));
}
