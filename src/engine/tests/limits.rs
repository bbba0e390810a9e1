//! Each limit of a session, reached: what it leaves open is undecided and names it, what is decided without it
//! stays so.

use super::*;

/// The hits and the undecided policies, with their reasons, of the last of some messages.
fn last(text: &str, limits: Limits, messages: &[Value]) -> (Vec<String>, Vec<String>) {
    let mut session = Session::within(pack(text), limits);
    let mut step = Step::default();
    for message in messages {
        step = session.message(message).unwrap();
    }
    let undecided = step.undecided.iter().map(|u| format!("{}: {}", u.policy, u.reason)).collect();
    (step.hits.iter().map(|h| h.firing.policy.to_string()).collect(), undecided)
}

fn hit(policy: &str) -> (Vec<String>, Vec<String>) {
    (vec![policy.to_owned()], Vec::new())
}

fn open(policy: &str, limit: Limit) -> (Vec<String>, Vec<String>) {
    (Vec::new(), vec![format!("{policy}: {}", limit.reason())])
}

const NOTHING: (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());

fn pay(amount: u32) -> Value {
    calls(&[("pay", &format!(r#"{{"amount":{amount},"to":"p"}}"#))])
}

fn looking_back(look_back: usize) -> Limits {
    Limits { look_back, ..Limits::default() }
}

#[test]
fn of_earlier_events_so_many_are_looked_at() {
    let text = r#"policy P "p" { severity 1 on call pay deny if once(call pay where it.args.amount > args.amount within 100 events) }"#;
    let trace = |amounts: &[u32]| amounts.iter().map(|n| pay(*n)).collect::<Vec<_>>();
    assert_eq!(last(text, looking_back(3), &trace(&[9, 1, 1, 5])), hit("P"));
    assert_eq!(last(text, looking_back(2), &trace(&[9, 1, 1, 5])), open("P", Limit::LookBack));
    // Among those that are looked at one is found: what came before does not matter.
    assert_eq!(last(text, looking_back(2), &trace(&[1, 1, 9, 5])), hit("P"));
    assert_eq!(last(text, looking_back(3), &trace(&[1, 1, 1, 5])), NOTHING);
}

#[test]
fn of_the_matches_of_an_order_so_many_are_kept() {
    let text = r#"
        policy P "p" {
          severity 1
          on call go
          deny if once(call pay as a then call pay where it.args.amount > a.args.amount * 2)
        }"#;
    let trace = |amounts: &[u32]| {
        let go = [calls(&[("go", "{}")])];
        amounts.iter().map(|n| pay(*n)).chain(go).collect::<Vec<_>>()
    };
    assert_eq!(last(text, looking_back(3), &trace(&[1, 5, 6, 7])), hit("P"));
    assert_eq!(last(text, looking_back(3), &trace(&[1, 2, 2])), NOTHING);
    let late = [2, 8, 9, 10, 11, 5];
    assert_eq!(last(text, looking_back(9), &trace(&late)), hit("P"));
    assert_eq!(last(text, looking_back(2), &trace(&[2, 4, 4, 5])), open("P", Limit::LookBack));
}

#[test]
fn of_the_keys_that_may_be_meant_so_many_are_looked_at() {
    let text = r#"policy P "p" { severity 1 on call pay deny if count(call pay where it.args.to == args.to) > 5 }"#;
    let to = |to: &str| calls(&[("pay", &format!(r#"{{"to":"{to}"}}"#))]);
    let unknown = || calls(&[("pay", "{}")]);
    let trace = [to("a"), to("b"), to("c"), unknown()];
    // Of two keys together there are not enough events, whichever is meant.
    assert_eq!(last(text, looking_back(3), &trace), NOTHING);
    assert_eq!(last(text, looking_back(2), &trace), open("P", Limit::LookBack));
}

#[test]
fn of_the_openings_of_a_window_so_many_are_kept_apart() {
    let text =
        r#"policy P "p" { severity 1 on call pay deny if count(call pay since (call go where it.args.now)) >= 2 }"#;
    let go = |args: &str| calls(&[("go", args)]);
    let within = |openings| Limits { openings, ..Limits::default() };
    // The window may have opened at either call whose `now` is missing, or not at all.
    let maybe = [pay(1), go("{}"), pay(1), pay(1), go(r#"{"now":false}"#), pay(1)];
    assert_eq!(last(text, within(2), &maybe), hit("P"));
    let twice = [go("{}"), go("{}"), pay(1), pay(1), pay(1)];
    assert_eq!(last(text, within(3), &twice), hit("P"));
    assert_eq!(last(text, within(2), &twice), open("P", Limit::Openings));
    // What opens it for certain makes an end of the doubt.
    let again = [go("{}"), go("{}"), go(r#"{"now":true}"#), pay(1), pay(1), pay(1)];
    assert_eq!(last(text, within(1), &again), hit("P"));
}

#[test]
fn of_the_entries_of_a_fact_so_many_are_looked_at() {
    let text = r#"
        fact held[args.id] = args as object from call hold
        policy P "p" { severity 1 on call go deny if any h in held: h.locked == true }
        policy Q "q" { severity 1 on call go deny if count(h in held where h.owner == args.owner) > 2 }"#;
    let hold =
        |id: u32, locked: bool| calls(&[("hold", &format!(r#"{{"id":{id},"owner":"o{id}","locked":{locked}}}"#))]);
    let go = calls(&[("go", r#"{"owner":"o1"}"#)]);
    let within = |fact_entries| Limits { fact_entries, ..Limits::default() };
    let late = [hold(1, false), hold(2, false), hold(3, true), go.clone()];
    assert_eq!(last(text, within(3), &late), hit("P"));
    // An index finds the entries of an owner, so that Q looks at one.
    assert_eq!(last(text, within(2), &late), open("P", Limit::FactEntries));
    let early = [hold(1, true), hold(2, false), hold(3, false), go];
    assert_eq!(last(text, within(2), &early), hit("P"));
}

#[test]
fn behind_the_entries_that_are_looked_at_there_may_be_any_number() {
    let hold = |id: u32| calls(&[("hold", &format!(r#"{{"id":{id},"n":{id}}}"#))]);
    let trace: Vec<Value> = (1..=10).map(hold).chain([calls(&[("go", r#"{"n":0}"#)])]).collect();
    let last = |condition: &str, fact_entries: usize| {
        let text = format!(
            "fact held[args.id] = args.n as number from call hold\n\
             policy P \"p\" {{ severity 1 on call go deny if {condition} }}"
        );
        last(&text, Limits { fact_entries, ..Limits::default() }, &trace)
    };
    for (condition, decided) in [
        ("count(x in held) >= 10", hit("P")),
        ("count(x in held where x > args.n) > 8", hit("P")),
        ("count(x in held where x > args.n) < 6", NOTHING),
        ("distinct(x for x in held) > 8", hit("P")),
        ("distinct(x for x in held) == 5", NOTHING),
    ] {
        assert_eq!(last(condition, 10), decided, "{condition}");
        assert_eq!(last(condition, 4), open("P", Limit::FactEntries), "{condition}");
    }
    // What is seen is enough.
    assert_eq!(last("count(x in held) > 3", 4), hit("P"));
    assert_eq!(last("count(x in held) < 4", 4), NOTHING);
}

const DERIVED: &str = r#"policy P "p" { severity 1 on call send deny if derived_from(args.to, result fetch) }"#;

fn page(text: &str) -> [Value; 2] {
    let result = format!(r#"{{"role":"tool","tool_call_id":"c0","content":"{text}"}}"#);
    [calls(&[("fetch", "{}")]), message(&result)]
}

fn send(pages: &[&str], to: &str) -> Vec<Value> {
    let send = [calls(&[("send", &format!(r#"{{"to":"{to}"}}"#))])];
    pages.iter().flat_map(|text| page(text)).chain(send).collect()
}

#[test]
fn of_the_tokens_of_texts_so_many_are_kept() {
    let within = |tokens| Limits { tokens, ..Limits::default() };
    let pages = ["write to mallory", "or to eve_adams"];
    assert_eq!(last(DERIVED, within(6), &send(&pages, "eve_adams")), hit("P"));
    assert_eq!(last(DERIVED, within(5), &send(&pages, "eve_adams")), open("P", Limit::Tokens));
    // What was kept is still found.
    assert_eq!(last(DERIVED, within(5), &send(&pages, "mallory")), hit("P"));
    assert_eq!(last(DERIVED, within(6), &send(&pages, "somebody")), NOTHING);
    // A user's text that cannot be kept may have cleared the value.
    let mut trace = send(&["write to mallory"], "mallory");
    trace.insert(2, message(r#"{"role":"user","content":"mallory is my friend"}"#));
    assert_eq!(last(DERIVED, within(7), &trace), NOTHING);
    assert_eq!(last(DERIVED, within(6), &trace), open("P", Limit::Tokens));
}

#[test]
fn of_several_reasons_the_limit_is_named() {
    let text = r#"policy P "p" { severity 1 on call send deny if carries(args.to, result fetch, it.json.id) }"#;
    let limits = Limits { tokens: 1, ..Limits::default() };
    // The second page has no id, so it may be any; and the user's text does not fit, so it may have cleared the first.
    let pages = ["{\\\"id\\\": \\\"mallory\\\"}", "a page without"];
    let mut trace = send(&pages, "mallory");
    trace.insert(2, message(r#"{"role":"user","content":"hello there"}"#));
    assert_eq!(last(text, limits, &trace), open("P", Limit::Tokens));
    assert_eq!(last(text, Limits::default(), &trace), hit("P"));
}

#[test]
fn of_the_places_of_a_token_so_many_are_looked_at() {
    let pages = ["acct 77", "77 acct", "77 acct"];
    assert_eq!(last(DERIVED, looking_back(3), &send(&pages, "acct 77")), hit("P"));
    assert_eq!(last(DERIVED, looking_back(2), &send(&pages, "acct 77")), open("P", Limit::LookBack));
    let latest = ["77 acct", "77 acct", "acct 77"];
    assert_eq!(last(DERIVED, looking_back(1), &send(&latest, "acct 77")), hit("P"));
    // A token that stands nowhere has no places.
    assert_eq!(last(DERIVED, looking_back(1), &send(&pages, "acct 78")), NOTHING);
}

#[test]
fn steps_run_out_for_an_event() {
    let text = r#"policy P "p" { severity 1 on call pay deny if any x in args.list: x == 9 }"#;
    let listed = |count: usize| {
        let list = vec!["1"; count].join(",");
        [calls(&[("pay", &format!(r#"{{"list":[{list}]}}"#))])]
    };
    let limits = Limits { event_steps: 100, ..Limits::default() };
    assert_eq!(last(text, limits, &listed(10)), NOTHING);
    assert_eq!(last(text, limits, &listed(100)), open("P", Limit::EventSteps));
}

#[test]
fn nothing_is_made_of_what_a_limit_leaves_open() {
    let asked = "once(call pay where it.args.amount > args.amount within 100 events)";
    let seen = "last(call pay where it.args.amount > args.amount within 100 events)";
    let trace = [pay(9), pay(1), pay(5)];
    for condition in [
        format!("not ({asked} default false)"),
        format!("{asked} is not bool"),
        format!("not known({seen})"),
        format!("not ((args.missing or {asked}) default false)"),
        format!("count(x in [1] where {asked}) == 0 default true"),
        format!("sum(x for x in [1] where {asked}) default 0 == 0"),
    ] {
        let text = format!(r#"policy P "p" {{ severity 1 on call pay deny if {condition} }}"#);
        assert_eq!(last(&text, looking_back(2), &trace), NOTHING, "{condition}");
        assert_eq!(last(&text, looking_back(1), &trace), open("P", Limit::LookBack), "{condition}");
        let lent = format!(r#"policy P "p" {{ severity 1 on call pay let x = {condition} deny if x or x }}"#);
        assert_eq!(last(&lent, looking_back(1), &trace), open("P", Limit::LookBack), "{condition}");
    }
}

#[test]
fn nothing_is_made_of_what_does_not_fit_into_the_state() {
    let text = r#"
        fact name[args.id] = args.name as string from call keep
        policy P "p" { severity 1 on call go deny if (name[args.id] default "nobody") == "root" }"#;
    let limits = Limits { state_bytes: 1, ..Limits::default() };
    let trace = [calls(&[("keep", r#"{"id":1,"name":"root"}"#)]), calls(&[("go", r#"{"id":1}"#)])];
    assert_eq!(last(text, limits, &trace), open("P", Limit::StateBytes));
    assert_eq!(last(text, Limits::default(), &trace), hit("P"));
}
