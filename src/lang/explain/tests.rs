//! Explanations of small policies.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use super::Explanation;
use crate::{
    diag::{Sources, Style},
    keywords::Categories,
    lang::{Surroundings, compile, parse},
    model::Limits,
};

fn explain(text: &str) -> Explanation {
    explain_within(text, &Limits::default())
}

fn explain_within(text: &str, limits: &Limits) -> Explanation {
    let mut sources = Sources::new();
    let file = sources.add("p.policy", text);
    let (module, problems) = parse(file, text);
    let around = Surroundings {
        sources: Arc::new(sources),
        categories: Arc::new(Categories::compile(&[]).unwrap()),
        category_spans: Vec::new(),
        clock: None,
        tools: None,
        redaction: None,
    };
    let (program, found) = compile(&[module], &around);
    let shown = problems.render(&around.sources, Style::Plain) + &found.render(&around.sources, Style::Plain);
    assert!(program.is_some(), "{shown}");
    program.unwrap().explain("P", limits).unwrap()
}

#[test]
fn a_policy_over_facts() {
    let explanation = explain(
        r#"set writes = { add, drop }
fact order[json.id as string] = json as object from result in writes when not is_error  # the latest
# state of it
fact lines[call.args.order as string, call.args.day as string] collects text from result list
forget order[args.id as string] from call drop when args.hard == true
policy P "closed orders stay closed" {
  severity 0.5
  tags orders, care
  on call in writes or call "db*"
  let o = order[args.id as string]
  when known(o)
  deny if o.state == "closed" and (args.force != true or not (o.owner == args.user or args.n is whole))
       and none d, l in lines where d[0] == args.id: len(l) > 3
  message "{o.id}"
}"#,
    );
    insta::assert_snapshot!(explanation, @r#"
    P  closed orders stay closed
    p.policy:6

    effect    deny, severity 0.5, tags orders, care
    judges    each call of add or drop
              each call of db*
    where     o = order[args.id as string]

    fires when all of these hold
      known(o)
      o.state == "closed"
      at least one of
        args.force != true
        none of
          o.owner == args.user
          args.n is whole
      none d, l in lines where d[0] == args.id: len(l) > 3

    facts it reads
      order[json.id as string]  (p.policy:2)
        keeps   the last value of `json as object`
        fed by  each result of add or drop, when not is_error
        forgets at each call of drop, when args.hard == true
        read    by its key: one look-up
      lines[call.args.order as string, call.args.day as string]  (p.policy:4)
        keeps   the set of values of `text`
        fed by  each result of list
        read    the entries whose `d[0]` equals `args.id`, found by an index: at most 256

    cost      bounded per event, no scan of history
              of the entries of `lines` those whose `d[0]` fits are looked at, at most 256
    "#);
}

#[test]
fn a_policy_over_history() {
    let explanation = explain(
        r#"const window = 60m
policy P "not too much" {
  severity 1
  on call pay
  deny if args.amount + sum(it.args.amount over call pay where it.args.to == args.to and it.args.kind == "out" within window) > 500
  message "{count(user)}"
}"#,
    );
    insta::assert_snapshot!(explanation, @r#"
    P  not too much
    p.policy:2

    effect    deny, severity 1
    judges    each call of pay

    fires when this holds
      args.amount + sum(it.args.amount over call pay where it.args.to == args.to and it.args.kind == "out" within window) > 500

    what it asks about earlier events
      sum(it.args.amount over call pay where it.args.to == args.to and it.args.kind == "out" within window)
        about   each call of pay
        where   it.args.kind == "out", tested once, when it arrives
        where   it.args.to equals args.to, found by an index
        window  within 1h
        keeps   the sum of `it.args.amount`, for each value that is joined on
        answer  always ready
      count(user)
        about   each user message
        keeps   how many there were
        answer  always ready

    cost      constant per event, no scan of history
    "#);
}

#[test]
fn a_question_that_no_index_answers_looks_back() {
    let explanation = explain(
        r#"policy P "rising" {
  severity 1
  on call pay
  review unless once(call pay where it.args.amount > args.amount since (user where it.text contains "go") within 400 events before this turn)
}"#,
    );
    assert!(explanation.cost.scans_history);
    insta::assert_snapshot!(explanation, @r#"
    P  rising
    p.policy:1

    effect    review, severity 1
    judges    each call of pay

    fires when this holds
      not: once(call pay where it.args.amount > args.amount since (user where it.text contains "go") within 400 events before this turn)

    what it asks about earlier events
      once(call pay where it.args.amount > args.amount since (user where it.text contains "go") within 400 events before this turn)
        about   each call of pay
        where   it.args.amount > args.amount, tested one by one
        window  within 400 events
        window  before this turn
        window  since the latest of: each user message, where it.text contains "go"
        keeps   the last 256 such events
        answer  by looking at them: at most 256

    cost      bounded per event, looks back
              `once(call pay where it.args.amount > args.amount since (user where it.text contains "go") within 400 events before this turn)` looks at earlier events one by one, at most 256
    "#);
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json.pointer("/history/0/at_most"), Some(&serde_json::json!(256)));
    assert_eq!(
        json.pointer("/conditions/0/not/leaf").and_then(|l| l.as_str()).map(|l| l.starts_with("once(")),
        Some(true)
    );
}

#[test]
fn a_semantic_policy_costs_nothing() {
    let explanation = explain(r#"policy P "kind" { severity 0.4 judge "Is the agent kind?" }"#);
    assert_eq!(explanation.cost.class, "none");
    insta::assert_snapshot!(explanation, @"
    P  kind
    p.policy:1

    effect    decided by a judge, not by this engine, severity 0.4
    asks      Is the agent kind?
    ");
}

#[test]
fn an_order_of_events() {
    let text = r#"policy P "no send after reading, unless a human looked" {
  severity 1
  on call send
  deny if once(result read as r where not it.is_error then call pack where it.args.id == r.call.args.id within 10m without (call inspect where it.args.id == r.call.args.id) then this within 5 turns)
      or once(call open as o then call move where it.args.size > o.args.size)
}"#;
    let limits = Limits { look_back: 32, ..Limits::default() };
    insta::assert_snapshot!(explain_within(text, &limits), @r"
    P  no send after reading, unless a human looked
    p.policy:1

    effect    deny, severity 1
    judges    each call of send

    fires when this holds
      at least one of
        once(result read as r where not it.is_error then call pack where it.args.id == r.call.args.id within 10m without (call inspect where it.args.id == r.call.args.id) then this within 5 turns)
        once(call open as o then call move where it.args.size > o.args.size)

    orders of events that it asks for
      once(result read as r where not it.is_error then call pack where it.args.id == r.call.args.id within 10m without (call inspect where it.args.id == r.call.args.id) then this within 5 turns)
        first   each result of read
        where   not it.is_error, tested once, when it arrives
        then    each call of pack
        where   it.args.id equals r.call.args.id, found by an index
        between within 10m
        between without each call of inspect, found by an index
        then    the judged event
        between within 5 turns
        keeps   the last 32 incomplete matches of each step and value
      once(call open as o then call move where it.args.size > o.args.size)
        first   each call of open
        then    each call of move
        where   it.args.size > o.args.size, tested one by one
        keeps   the last 32 incomplete matches of each step and value

    cost      bounded per event, looks back
              `once(result read as r where not it.is_error then call pack where it.args.id == r.call.args.id within 10m without (call inspect where it.args.id == r.call.args.id) then this within 5 turns)` looks at incomplete matches one by one, at most 32 a step
              `once(call open as o then call move where it.args.size > o.args.size)` looks at incomplete matches one by one, at most 32 a step
    ");
}

#[test]
fn values_that_come_from_texts() {
    let text = r#"policy P "no address from a page" {
  severity 1
  on call send
  deny if derived_from(args.to, result fetch where not it.is_error)
      or carries(args.body, result fetch, it.json.token)
}"#;
    let limits = Limits { tokens: 5_000, ..Limits::default() };
    insta::assert_snapshot!(explain_within(text, &limits), @"
    P  no address from a page
    p.policy:1

    effect    deny, severity 1
    judges    each call of send

    fires when this holds
      at least one of
        derived_from(args.to, result fetch where not it.is_error)
        carries(args.body, result fetch, it.json.token)

    what it asks about earlier events
      derived_from(args.to, result fetch where not it.is_error)
        about   each result of fetch
        where   not it.is_error, tested once, when it arrives
        keeps   the tokens of their texts, and those of user and system messages: at most 5000 in the session
        answer  by looking at them: at most 256
      carries(args.body, result fetch, it.json.token)
        about   each result of fetch
        keeps   the tokens of `it.json.token`, and those of user and system messages: at most 5000 in the session
        answer  by looking at them: at most 256

    cost      bounded per event, no scan of history
              `derived_from(args.to, result fetch where not it.is_error)` looks at places of a token one by one, at most 256
              `carries(args.body, result fetch, it.json.token)` looks at places of a token one by one, at most 256
    ");
}

#[test]
fn a_window_that_may_have_opened_says_how_often() {
    let text = r#"policy P "slowly" { severity 1 on call pay deny if count(call pay since user) > 3 }"#;
    let limits = Limits { openings: 4, ..Limits::default() };
    let explanation = explain_within(text, &limits).to_string();
    assert!(
        explanation.contains("since the latest of: each user message; at most 4 possible openings"),
        "{explanation}"
    );
}
