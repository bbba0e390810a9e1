//! The cost of one more event, in steps: the same at any length of the trace and with any number of
//! policies that do not concern it. Steps are counted by the engine, so no clock is involved.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use probity::{
    diag::Style,
    engine::{Pack, Session, load_pack_files},
    model::{Value, json},
};

/// The airline pack with more policies, none of which concerns its tools.
fn airline_and(more: usize) -> Arc<Pack> {
    let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    for name in ["pack.yaml", "keywords.yaml", "reward.yaml"] {
        if let Ok(text) = fs::read(Path::new("rules/airline").join(name)) {
            files.insert(name.into(), text);
        }
    }
    for entry in fs::read_dir("rules/airline/policies").unwrap() {
        let path = entry.unwrap().path();
        files.insert(Path::new("policies").join(path.file_name().unwrap()), fs::read(&path).unwrap());
    }
    let others: String = (0..more)
        .map(|i| {
            format!(
                "policy OTHER{i} \"about another tool\" {{ severity 0.5 on call tool_{i} \
                 deny if once(result tool_{i} where it.call.args.id == args.id) and count(call tool_{i} within 1h) > 3 }}\n"
            )
        })
        .collect();
    files.insert("policies/others.policy".into(), others.into_bytes());
    load(&files)
}

fn load(files: &BTreeMap<PathBuf, Vec<u8>>) -> Arc<Pack> {
    let loaded = load_pack_files(Path::new("pack"), files);
    let shown = loaded.diagnostics.render(&loaded.sources, Style::Plain);
    loaded.result.unwrap_or_else(|| panic!("{shown}"))
}

/// One round of a conversation that repeats: a request, a look-up, an answer, a cancellation.
fn round(i: usize) -> Vec<Value> {
    let call = |id: &str, tool: &str| {
        format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}{i}","type":"function","function":{{"name":"{tool}","arguments":"{{\"reservation_id\":\"R1\"}}"}}}}]}}"#
        )
    };
    [
        r#"{"role":"user","content":"Yes, please go ahead."}"#.to_owned(),
        call("r", "get_reservation_details"),
        format!(
            r#"{{"role":"tool","tool_call_id":"r{i}","content":"{{\"reservation_id\":\"R1\",\"user_id\":\"u\",\"cabin\":\"economy\",\"insurance\":\"no\",\"created_at\":\"2024-05-15T10:00:00\"}}"}}"#
        ),
        call("c", "cancel_reservation"),
    ]
    .map(|text| json::parse(text.as_bytes()).unwrap())
    .to_vec()
}

/// Steps of each message of the round that begins at a length.
fn steps_at(pack: &Arc<Pack>, rounds: usize, round: fn(usize) -> Vec<Value>) -> Vec<u64> {
    let mut session = Session::new(pack.clone());
    for i in 0..rounds {
        for message in round(i) {
            session.message(&message).unwrap();
        }
    }
    round(rounds)
        .iter()
        .map(|message| {
            session.message(message).unwrap();
            session.steps()
        })
        .collect()
}

#[test]
fn steps_do_not_grow_with_the_trace() {
    let pack = airline_and(0);
    // 12 messages, and 10,000.
    let early = steps_at(&pack, 3, round);
    assert!(early.iter().sum::<u64>() > 50, "{early:?} is too little to be true");
    assert_eq!(early, steps_at(&pack, 2_500, round));
}

#[test]
fn steps_do_not_grow_with_policies_about_other_tools() {
    assert_eq!(steps_at(&airline_and(0), 3, round), steps_at(&airline_and(20_000), 3, round));
}

/// Questions that are kept in ways of their own: orders of events, elements of lists in them, values
/// and texts that they gave.
const KEPT: &str = r#"
policy ORDER "an order that is joined" {
  severity 1
  on call purge
  deny if once(
    call create as made
    then call grant where it.args.name == made.args.name
         within 10 turns without (call approve where it.args.name == made.args.name)
    then this without call purge
  )
}
policy END "an order that is joined to the judged event" {
  severity 1
  on call purge
  deny if once(call create where it.args.name == args.name then call grant where it.args.name == args.name)
}
policy PAIRS "an order whose matches are looked at one by one" {
  severity 1
  on call purge
  deny if once(call create as made then call grant where it.args.n < made.args.n)
}
policy NAMED "a value that a message gave" {
  severity 1
  on call purge
  deny if derived_from(args.to[0], call grant) and carries(args.to[0], call approve, it.args.name)
}
policy LISTS "elements of lists" {
  severity 1
  on call purge
  deny if count(call create, x in it.args.to where x == args.name) > 1 or sum(x over call grant, x in it.args.ns) < 0
}
"#;

/// A round in which everything has a name of its own.
fn named_round(i: usize) -> Vec<Value> {
    let call = |tool: &str| {
        format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{tool}{i}","type":"function","function":{{"name":"{tool}","arguments":{{"name":"user{i}","n":{i},"to":["user{i}","v"],"ns":[{i},1]}}}}}}]}}"#
        )
    };
    ["create", "approve", "create", "grant", "purge"]
        .iter()
        .map(|tool| json::parse(call(tool).as_bytes()).unwrap())
        .collect()
}

#[test]
fn steps_of_orders_and_lists_do_not_grow_with_the_trace() {
    let files = BTreeMap::from([
        (PathBuf::from("pack.yaml"), b"name: kept\nversion: 1.0.0\nformat: 1\n".to_vec()),
        (PathBuf::from("policies/kept.policy"), KEPT.as_bytes().to_vec()),
    ]);
    let pack = load(&files);
    // Once 256 incomplete matches are kept, no more are looked at.
    let early = steps_at(&pack, 400, named_round);
    assert!(early.iter().sum::<u64>() > 500, "{early:?} is too little to be true");
    assert_eq!(early, steps_at(&pack, 2_500, named_round));
}

/// A pack of one file.
fn pack(text: &str) -> Arc<Pack> {
    let files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::from([
        ("pack.yaml".into(), b"name: flat\nversion: 1.0.0\nformat: 1\n".to_vec()),
        ("policies/flat.policy".into(), text.as_bytes().to_vec()),
    ]);
    let loaded = load_pack_files(Path::new("flat"), &files);
    let shown = loaded.diagnostics.render(&loaded.sources, Style::Plain);
    loaded.result.unwrap_or_else(|| panic!("{shown}"))
}

/// Steps of the last of so many payments, a second apart.
fn steps_of_payment(pack: &Arc<Pack>, earlier: usize) -> u64 {
    let mut session = Session::new(pack.clone());
    for i in 0..=earlier {
        let text = format!(
            r#"{{"role":"assistant","time":{i},"tool_calls":[{{"id":"c","function":{{"name":"pay","arguments":{{"amount":{i},"to":"p{i}"}}}}}}]}}"#
        );
        session.message(&json::parse(text.as_bytes()).unwrap()).unwrap();
    }
    session.steps()
}

#[test]
fn days_join_by_an_index_and_hits_and_reports_are_counted_as_they_come() {
    for text in [
        r#"policy P "p" { severity 1 on call pay deny if once(call pay where day(it.time) == day(time)) }"#,
        r#"policy P "p" { severity 1 on call pay deny once per args.to if args.amount >= 0 }"#,
        r#"policy P "p" { severity 1 on call pay deny if args.amount >= 0 }
           policy Q "q" { severity 1 on call pay flag if count(hit where it.policy == "P") > 3 }"#,
    ] {
        let pack = pack(text);
        assert_eq!(steps_of_payment(&pack, 8), steps_of_payment(&pack, 3_000), "{text}");
    }
}
