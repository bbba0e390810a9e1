//! Gates move to newly loaded rules with what they know; episodes stay.

use std::collections::BTreeMap;

use probity::grpc::wire::{
    Effect::{Allow, Deny},
    Mode, ObserveResponse, QueryRecordsRequest, ReloadRequest,
    record::Body,
};

use crate::support::{House, effects, items, message, pays, proposal, request, user, write_pack};

/// Says who may be paid how much, and how often; the words that each version has for it.
fn rules(most: i64, asks: bool) -> String {
    let ask = r#"
        policy ASK "ask first" {
          severity 1
          on call pay
          deny unless once(user where it.text contains "yes")
        }"#;
    format!(
        r#"
        policy MOST "no more than that" {{
          severity 1
          on call pay
          deny if args.amount > {most}
        }}
        policy SUM "in all" {{
          severity 1
          on call pay
          deny if args.amount + sum(it.args.amount over call pay within 100 turns) > 1000
        }}
        {}"#,
        if asks { ask } else { "" }
    )
}

fn pay(amount: i64) -> probity::grpc::wire::item::Item {
    message(&format!(
        r#"{{"role":"assistant","tool_calls":[{{"id":"c","function":{{"name":"pay","arguments":{{"amount":{amount}}}}}}}]}}"#
    ))
}

async fn load(house: &House, version: &str, text: &str) {
    write_pack(house.rules.path(), "guard", version, text);
    house.rules_api().await.reload(ReloadRequest::default()).await.unwrap();
}

async fn say(house: &House, session: &str, seq: u64, item: probity::grpc::wire::item::Item) -> ObserveResponse {
    house.engine().await.observe(request(session, items(seq, [item]))).await.unwrap().into_inner()
}

fn hits(answer: &ObserveResponse) -> Vec<(String, u32)> {
    answer.results.iter().flat_map(|r| &r.hits).map(|hit| (hit.policy.clone(), hit.n)).collect()
}

#[tokio::test]
async fn a_gate_moves_to_new_rules_and_knows_what_was() {
    let mut house = House::start().await;
    load(&house, "1.0.0", &rules(500, false)).await;
    say(&house, "g", 0, user("hello")).await;
    let first = say(&house, "g", 1, pay(600)).await;
    assert_eq!((effects(&first), hits(&first)), (vec![Deny], vec![("MOST".to_owned(), 0)]));
    assert_eq!(first.previous_pack_digest, "");

    // A policy that is new knows that nobody said yes, and the sum what was paid before.
    load(&house, "1.1.0", &rules(100, true)).await;
    let second = say(&house, "g", 2, pay(300)).await;
    assert_eq!((second.pack_version.as_str(), &second.previous_pack_digest), ("1.1.0", &first.pack_digest));
    // The new policy begins to count; what the gate would have said before is told nowhere.
    assert_eq!(hits(&second), [("ASK".to_owned(), 0), ("MOST".to_owned(), 1)]);
    let third = say(&house, "g", 3, pay(200)).await;
    assert_eq!(third.previous_pack_digest, "");
    let counted = [("ASK".to_owned(), 1), ("MOST".to_owned(), 2), ("SUM".to_owned(), 0)];
    assert_eq!(hits(&third), counted);

    // What was answered is answered as before.
    let again = say(&house, "g", 1, pay(600)).await;
    assert_eq!(again.results, first.results);

    // The move is recorded before the first judgement under the new rules.
    let records = house.audit_api().await;
    let ask = QueryRecordsRequest { session_id: "g".to_owned(), ..Default::default() };
    let told = async |mut records: probity::grpc::wire::audit_client::AuditClient<tonic::transport::Channel>| {
        let held = records.query_records(ask.clone()).await.unwrap().into_inner().records;
        held.into_iter()
            .map(|record| match record.body.unwrap() {
                Body::Judged(_) => record.pack_version,
                Body::SessionMoved(moved) => format!("{} to {}", moved.previous_version, record.pack_version),
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(told(records).await, ["1.0.0", "1.0.0", "1.0.0 to 1.1.0", "1.1.0", "1.1.0"]);

    // It is the same after a restart, and moves over one as well.
    house.restart().await;
    let fourth = say(&house, "g", 4, pay(300)).await;
    assert_eq!(fourth.previous_pack_digest, "");
    assert_eq!(hits(&fourth), counted.clone().map(|(policy, n)| (policy, n + 1)));
    house.stop().await;
    write_pack(house.rules.path(), "guard", "1.2.0", &rules(1000, true));
    house.start_again().await;
    let fifth = say(&house, "g", 5, pay(400)).await;
    assert_eq!((fifth.pack_version.as_str(), &fifth.previous_pack_digest), ("1.2.0", &fourth.pack_digest));
    assert_eq!(fifth.results[0].hits.iter().map(|hit| hit.policy.as_str()).collect::<Vec<_>>(), ["ASK", "SUM"]);
    let house_records = house.audit_api().await;
    assert_eq!(told(house_records).await.last().unwrap(), "1.2.0");
}

#[tokio::test]
async fn what_cannot_be_judged_again_keeps_its_rules_and_an_episode_always_does() {
    let house = House::with(|s| s.session_journal_bytes = 400).await;
    load(&house, "1.0.0", &rules(500, false)).await;
    for seq in 0..6 {
        say(&house, "long", seq, user("a message that takes its room in what is kept of the session")).await;
    }
    let mut episode = request("episode", items(0, [pay(300)]));
    episode.set_mode(Mode::Episode);
    house.engine().await.observe(episode).await.unwrap();
    say(&house, "short", 0, user("hello")).await;
    load(&house, "1.1.0", &rules(100, false)).await;
    let mut episode = request("episode", items(1, [pay(300)]));
    episode.set_mode(Mode::Episode);
    let episode = house.engine().await.observe(episode).await.unwrap().into_inner();
    assert_eq!((episode.pack_version.as_str(), effects(&episode)), ("1.0.0", vec![Allow]));
    let long = say(&house, "long", 6, pay(300)).await;
    assert_eq!((long.pack_version.as_str(), effects(&long)), ("1.0.0", vec![Allow]));
    let short = say(&house, "short", 1, pay(300)).await;
    assert_eq!((short.pack_version.as_str(), effects(&short)), ("1.1.0", vec![Deny]));
}

/// Callers of many gates while the rules change to and fro: no call fails, the order of each gate holds, and each answer
/// is that of the rules that it names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gates_under_load_move_without_a_fault() {
    let house = House::start().await;
    load(&house, "1.0.0", &rules(500, false)).await;
    let mut callers = tokio::task::JoinSet::new();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    for caller in 0..6 {
        let mut engine = house.engine().await;
        let stopped = stopped.clone();
        callers.spawn(async move {
            let mut moves = 0;
            let mut seq = 0;
            while !*stopped.borrow() || moves == 0 {
                let ask = request(&format!("g{caller}"), items(seq, [pay(if seq % 40 == 0 { 300 } else { 0 })]));
                let answer = engine.observe(ask).await.unwrap().into_inner();
                assert_eq!(answer.results[0].seq, seq);
                moves += usize::from(!answer.previous_pack_digest.is_empty());
                let most = if answer.pack_version == "1.0.0" { 500 } else { 100 };
                let denied = answer.results[0].hits.iter().any(|hit| hit.policy == "MOST");
                assert_eq!(denied, seq % 40 == 0 && most == 100, "{answer:?}");
                seq += 1;
            }
            moves
        });
    }
    for round in 1..=8 {
        let (version, most) = if round % 2 == 0 { ("1.0.0", 500) } else { ("1.1.0", 100) };
        load(&house, version, &rules(most, false)).await;
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    }
    stop.send_replace(true);
    let mut moves = BTreeMap::new();
    while let Some(moved) = callers.join_next().await {
        *moves.entry(moved.unwrap() > 0).or_insert(0) += 1;
    }
    assert_eq!(moves, BTreeMap::from([(true, 6)]), "every gate has moved");
}

fn limit(most: i64, also: &str) -> String {
    format!("policy MOST \"no more\" {{\n  severity 1\n  on call pay\n  deny if args.amount > {most}\n}}\n{also}")
}

/// A call is never denied without a hit that says why: what the session would have been told under the new rules, and was
/// not, uses nothing up.
#[tokio::test]
async fn a_gate_that_has_moved_tells_why_it_denies() {
    for restarts in [false, true] {
        let mut house = House::start().await;
        load(&house, "1.0.0", &limit(200, "")).await;
        for session in ["turn", "key"] {
            say(&house, session, 0, user("hello")).await;
            let first = say(&house, session, 1, proposal(1, 0, 2, 190)).await;
            assert_eq!(effects(&first), [Allow]);
        }
        let once = "policy ONCE \"once for a payee\" {\n  severity 1\n  on call pay\n  deny once per args.payee if \
                    args.amount > 1\n}\npolicy SIGN \"a second look\" {\n  severity 1\n  on call pay\n  review once per \
                    args.payee if args.amount > 1\n}\n";
        if restarts {
            house.stop().await;
            write_pack(house.rules.path(), "guard", "1.1.0", &limit(100, once));
            house.start_again().await;
        } else {
            load(&house, "1.1.0", &limit(100, once)).await;
        }
        // The second call of the same turn: the first one alone would have been a hit of it, and nobody was told.
        let second = say(&house, "turn", 2, proposal(1, 1, 2, 150)).await;
        assert_eq!(
            (effects(&second), hits(&second)),
            (vec![Deny], vec![("MOST".to_owned(), 0), ("ONCE".to_owned(), 0)])
        );
        assert_eq!(second.results[0].signals.iter().map(|s| s.policy.as_str()).collect::<Vec<_>>(), ["SIGN"]);
        // The same for a key, in another turn.
        say(&house, "key", 2, pays(&[190, 1])).await;
        let later = say(&house, "key", 3, proposal(2, 0, 1, 50)).await;
        assert_eq!((effects(&later), hits(&later)), (vec![Deny], vec![("ONCE".to_owned(), 0)]));
        house.stop().await;
    }
}

/// A call that was answered when it was proposed keeps its answer in the message that carries it, whatever the rules say
/// by then.
#[tokio::test]
async fn a_call_that_was_answered_keeps_its_answer_over_a_move() {
    for restarts in [false, true] {
        let mut house = House::start().await;
        load(&house, "1.0.0", &limit(200, "")).await;
        for (session, amount, answer) in [("allowed", 190, Allow), ("denied", 300, Deny)] {
            say(&house, session, 0, user("hello")).await;
            assert_eq!(effects(&say(&house, session, 1, proposal(1, 0, 1, amount)).await), [answer]);
        }
        let change = async |house: &mut House, version: &str, most: i64| {
            if restarts {
                house.stop().await;
                write_pack(house.rules.path(), "guard", version, &limit(most, ""));
                house.start_again().await;
            } else {
                load(house, version, &limit(most, "")).await;
            }
        };
        change(&mut house, "1.1.0", 100).await;
        let carried = say(&house, "allowed", 2, pays(&[190])).await;
        assert_eq!((carried.pack_version.as_str(), effects(&carried)), ("1.1.0", vec![Allow]));
        assert!(hits(&carried).is_empty(), "{carried:?}");
        // The next call of that kind is denied, and told.
        let next = say(&house, "allowed", 3, proposal(2, 0, 1, 190)).await;
        assert_eq!((effects(&next), hits(&next)), (vec![Deny], vec![("MOST".to_owned(), 0)]));
        change(&mut house, "1.2.0", 500).await;
        let carried = say(&house, "denied", 2, pays(&[300])).await;
        assert_eq!((carried.pack_version.as_str(), effects(&carried)), ("1.2.0", vec![Deny]));
        assert_eq!(effects(&say(&house, "denied", 3, proposal(2, 0, 1, 300)).await), [Allow]);
        house.stop().await;
    }
}

/// The first answer since a move may be lost: asked for again, it says so again.
#[tokio::test]
async fn a_move_is_told_again_to_whoever_asks_again() {
    let house = House::start().await;
    load(&house, "1.0.0", &limit(200, "")).await;
    let first = say(&house, "s", 0, pays(&[1])).await;
    load(&house, "1.1.0", &limit(100, "")).await;
    let moved = say(&house, "s", 1, pays(&[150])).await;
    assert_eq!(moved.previous_pack_digest, first.pack_digest);
    assert_eq!(say(&house, "s", 1, pays(&[150])).await, moved);
    assert_eq!(say(&house, "s", 2, pays(&[150])).await.previous_pack_digest, "");
}

/// A restart onto other rules is like a reload: what was answered is answered as before, and hits are counted on.
#[tokio::test]
async fn what_was_answered_before_a_restart_onto_other_rules_stays_as_it_was() {
    for (before, after) in [(100, 1000), (1000, 100)] {
        let mut house = House::start().await;
        load(&house, "1.0.0", &limit(before, "")).await;
        let answers = [say(&house, "s", 0, pays(&[500])).await, say(&house, "s", 1, pays(&[2000])).await];
        let counted = u32::try_from(answers.iter().flat_map(hits).count()).unwrap();
        house.stop().await;
        write_pack(house.rules.path(), "guard", "1.1.0", &limit(after, ""));
        house.start_again().await;
        for (seq, amount) in [(0, 500), (1, 2000)] {
            let again = say(&house, "s", seq, pays(&[amount])).await;
            assert_eq!(again.results, answers[usize::try_from(seq).unwrap()].results);
        }
        let next = say(&house, "s", 2, pays(&[2000])).await;
        assert_eq!(next.previous_pack_digest, answers[0].pack_digest);
        assert_eq!(hits(&next), [("MOST".to_owned(), counted)]);
        house.stop().await;
    }
}
