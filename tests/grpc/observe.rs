//! Observe: answers, hits, and the rules of sequence.

use probity::grpc::wire::{Effect, Item, Mode, ObserveRequest};
use tonic::Code;

use crate::support::{House, effects, end, fields, hits, items, message, pays, proposal, reason, request, user};

#[tokio::test]
async fn calls_are_answered_one_by_one_and_hits_once_a_turn() {
    let house = House::start().await;
    let mut engine = house.engine().await;
    let ask = request("s", items(0, [user("hello"), pays(&[10, 60, 500, 700]), pays(&[500]), end()]));
    let answer = engine.observe(ask).await.unwrap().into_inner();
    assert_eq!(
        (answer.session_id.as_str(), answer.pack.as_str(), answer.pack_version.as_str()),
        ("s", "guard", "1.0.0")
    );
    assert_eq!(answer.pack_digest.len(), 64);
    assert_eq!(answer.results.iter().map(|r| (r.seq, r.turn)).collect::<Vec<_>>(), [(0, 0), (1, 1), (2, 2), (3, 2)]);
    use Effect::{Allow, Deny, Review};
    assert_eq!(effects(&answer), [Allow, Review, Deny, Deny, Deny]);
    assert_eq!(hits(&answer), ["P01@1 n0", "P01@2 n1"]);
    let hit = &answer.results[1].hits[0];
    assert_eq!(hit.message, "paid 500 to bob");
    assert_eq!((hit.reward, answer.results[2].hits[0].reward), (1.0, 0.5));
    assert!(!hit.evidence.as_ref().unwrap().conditions.is_empty());
    assert_eq!(answer.results[1].calls[2].call_id, "call-2");
    let signal = &answer.results[1].signals[0];
    assert_eq!((signal.policy.as_str(), signal.message.as_str()), ("R01", "large: 60"));
}

#[tokio::test]
async fn a_proposed_call_is_answered_before_its_message_and_not_judged_again() {
    let house = House::start().await;
    let mut engine = house.engine().await;
    let first = items(0, [user("pay"), proposal(1, 0, 2, 500), proposal(1, 1, 2, 10)]);
    let answer = engine.observe(request("s", first)).await.unwrap().into_inner();
    assert_eq!(effects(&answer), [Effect::Deny, Effect::Allow]);
    assert_eq!(hits(&answer), ["P01@1 n0"]);
    let same = engine.observe(request("s", items(3, [pays(&[500, 10])]))).await.unwrap().into_inner();
    assert_eq!(effects(&same), [Effect::Deny, Effect::Allow], "the answers that were given stand");
    assert_eq!(hits(&same), Vec::<String>::new(), "and the hit is not told twice");

    let changed = items(4, [proposal(2, 0, 1, 10), pays(&[500])]);
    let refused = engine.observe(request("s", changed)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(reason(&refused), ("PROPOSAL_CONFLICT".to_owned(), vec![("seq".to_owned(), "5".to_owned())]));
    assert!(!refused.message().contains("500"), "an error quotes no argument: {}", refused.message());
    // The proposal before it was judged, and the refused message can be replaced by a truthful one.
    let mended = items(4, [proposal(2, 0, 1, 10), pays(&[10])]);
    let answer = engine.observe(request("s", mended)).await.unwrap().into_inner();
    assert_eq!(effects(&answer), [Effect::Allow, Effect::Allow]);
}

#[tokio::test]
async fn what_cannot_be_decided_is_reviewed_and_said() {
    let house = House::start().await;
    let text = r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"pay","arguments":"{\"amount\":"}}]}"#;
    let answer = house.engine().await.observe(request("s", items(0, [message(text)]))).await.unwrap().into_inner();
    assert_eq!(effects(&answer), [Effect::Review]);
    assert!(answer.results[0].undecided.iter().any(|u| u.policy == "P01"));
}

#[tokio::test]
async fn an_item_that_was_judged_is_answered_as_before_and_judged_once() {
    let house = House::start().await;
    let mut engine = house.engine().await;
    let ask = request("s", items(0, [user("hello"), pays(&[500])]));
    let first = engine.observe(ask.clone()).await.unwrap().into_inner();
    let again = engine.observe(ask).await.unwrap().into_inner();
    assert_eq!(first, again);
    // A repetition may go on to what is new.
    let longer = items(1, [pays(&[500]), pays(&[500])]);
    let answer = engine.observe(request("s", longer)).await.unwrap().into_inner();
    assert_eq!(hits(&answer), ["P01@1 n0", "P01@2 n1"]);
    let stats = house.service().tallies("guard".to_owned(), probity::audit::Span::AllTime).await.unwrap();
    assert_eq!(stats.iter().find(|(p, _)| p == "P01").unwrap().1.hits, 2);
}

#[tokio::test]
async fn a_gap_says_what_was_expected() {
    let house = House::start().await;
    let mut engine = house.engine().await;
    engine.observe(request("s", items(0, [user("a"), user("b")]))).await.unwrap();
    let gap = engine.observe(request("s", items(4, [user("c")]))).await.unwrap_err();
    assert_eq!(gap.code(), Code::FailedPrecondition);
    let facts = vec![("expected_seq".to_owned(), "2".to_owned()), ("seq".to_owned(), "4".to_owned())];
    assert_eq!(reason(&gap), ("SEQ_GAP".to_owned(), facts.clone()));
    // Inside a request as well, and then nothing of it is judged.
    let mut broken = items(2, [user("c"), user("d")]);
    broken[1].seq = 4;
    let gap = engine.observe(request("s", broken)).await.unwrap_err();
    assert_eq!(reason(&gap).1[0].1, "3");
    engine.observe(request("s", items(2, [user("other")]))).await.unwrap();

    let unknown = engine.observe(request("nobody", items(7, [user("a")]))).await.unwrap_err();
    assert_eq!(unknown.code(), Code::FailedPrecondition);
    assert_eq!(reason(&unknown).0, "SESSION_NOT_OPEN");
}

#[tokio::test]
async fn other_content_under_a_used_seq_is_refused() {
    let house = House::start().await;
    let mut engine = house.engine().await;
    engine.observe(request("s", items(0, [user("a")]))).await.unwrap();
    let other = engine.observe(request("s", items(0, [user("b")]))).await.unwrap_err();
    assert_eq!((other.code(), reason(&other).0.as_str()), (Code::FailedPrecondition, "OTHER_CONTENT"));
}

#[tokio::test]
async fn a_name_is_of_one_request_of_a_session() {
    let house = House::start().await;
    let mut engine = house.engine().await;
    let named = |session: &str, seq: u64, amount: i64| {
        let mut ask = request(session, items(seq, [pays(&[amount])]));
        ask.request_id = "first".to_owned();
        ask
    };
    let answer = engine.observe(named("s", 0, 500)).await.unwrap().into_inner();
    assert_eq!(engine.observe(named("s", 0, 500)).await.unwrap().into_inner(), answer);
    let refused = engine.observe(named("s", 1, 500)).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).0.as_str()), (Code::FailedPrecondition, "OTHER_CONTENT"));
    // What was refused was not judged, and another session has names of its own.
    let next = engine.observe(request("s", items(1, [pays(&[20])]))).await.unwrap().into_inner();
    assert_eq!(next.results[0].seq, 1);
    engine.observe(named("t", 0, 20)).await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_no_longer_kept_is_already_exists_but_the_last_request_always_repeats() {
    let house = House::with(|s| s.retained_results = 2).await;
    let mut engine = house.engine().await;
    let many = request("s", items(0, (0..10).map(|n| user(&n.to_string()))));
    let first = engine.observe(many.clone()).await.unwrap().into_inner();
    assert_eq!(engine.observe(many).await.unwrap().into_inner(), first);
    // Its last part, and on from there.
    let longer = request("s", items(4, (4..11).map(|n| user(&n.to_string()))));
    assert_eq!(engine.observe(longer).await.unwrap().into_inner().results[..6], first.results[4..]);
    engine.observe(request("s", items(11, [user("x")]))).await.unwrap();
    let old = engine.observe(request("s", items(3, [user("3")]))).await.unwrap_err();
    assert_eq!(old.code(), Code::AlreadyExists);
    assert_eq!(reason(&old).0, "ANSWER_NOT_KEPT");
}

#[tokio::test]
async fn after_the_end_nothing_new_is_taken() {
    let house = House::start().await;
    let mut engine = house.engine().await;
    let ended = request("s", items(0, [user("a"), end()]));
    let answer = engine.observe(ended.clone()).await.unwrap().into_inner();
    assert_eq!(engine.observe(ended).await.unwrap().into_inner(), answer);
    let late = engine.observe(request("s", items(2, [user("b")]))).await.unwrap_err();
    assert_eq!((late.code(), reason(&late).0.as_str()), (Code::FailedPrecondition, "SESSION_ENDED"));
}

#[tokio::test]
async fn pack_and_mode_are_said_once_and_cannot_change() {
    let house = House::start().await;
    crate::support::write_pack(house.rules.path(), "other", "1.0.0", crate::support::GUARD);
    house.service().reload().await.unwrap();
    let mut engine = house.engine().await;
    let open = request("s", items(0, [user("a")]));
    let without = |change: fn(&mut ObserveRequest)| {
        let mut ask = open.clone();
        change(&mut ask);
        ask
    };
    let no_pack = engine.observe(without(|r| r.pack.clear())).await.unwrap_err();
    assert_eq!((no_pack.code(), fields(&no_pack)), (Code::InvalidArgument, vec!["pack".to_owned()]));
    let no_mode = engine.observe(without(|r| r.mode = 0)).await.unwrap_err();
    assert_eq!((no_mode.code(), fields(&no_mode)), (Code::InvalidArgument, vec!["mode".to_owned()]));
    let unknown = engine.observe(without(|r| r.pack = "none".to_owned())).await.unwrap_err();
    assert_eq!((unknown.code(), reason(&unknown).0.as_str()), (Code::NotFound, "UNKNOWN_PACK"));

    engine.observe(open.clone()).await.unwrap();
    let mut later = request("s", items(1, [user("b")]));
    later.pack.clear();
    later.mode = 0;
    engine.observe(later).await.unwrap();
    let mut other = request("s", items(2, [user("c")]));
    other.pack = "other".to_owned();
    let refused = engine.observe(other.clone()).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).0.as_str()), (Code::FailedPrecondition, "OTHER_PACK"));
    other.pack = "guard".to_owned();
    other.mode = Mode::Episode.into();
    let refused = engine.observe(other).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).0.as_str()), (Code::FailedPrecondition, "OTHER_MODE"));
}

#[tokio::test]
async fn every_broken_field_is_named_and_nothing_is_judged() {
    let house = House::start().await;
    let mut engine = house.engine().await;
    let mut broken = items(0, [message("{not json"), user("fine"), proposal(0, 3, 1, 5)]);
    broken.push(Item { seq: 3, item: None });
    let mut ask = request("", broken);
    ask.mode = 9;
    let refused = engine.observe(ask).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let expected = ["session_id", "mode", "items[0].message_json", "items[2].proposal.index", "items[3]"];
    assert_eq!(fields(&refused), expected);
    let none = engine.observe(request("s", vec![])).await.unwrap_err();
    assert_eq!(fields(&none), ["items"]);
    assert_eq!(house.service().status().unwrap().generations.len(), 0, "no session was opened");
}

#[tokio::test]
async fn json_that_is_no_message_is_malformed_and_no_error() {
    let house = House::start().await;
    let bodies = [message("7"), message(r#"{"role":"nobody"}"#), message("[]")];
    let answer = house.engine().await.observe(request("s", items(0, bodies))).await.unwrap().into_inner();
    for result in &answer.results {
        assert!(!result.malformed.is_empty(), "{result:?}");
    }
}

#[tokio::test]
async fn callers_of_one_session_at_once_leave_one_order() {
    let house = House::start().await;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let mut engine = house.engine().await;
        tasks.push(tokio::spawn(async move {
            for seq in 0..20u64 {
                // Everybody sends everything; each item is judged for one of them.
                let mut ask = request("s", items(seq, [pays(&[500])]));
                ask.request_id = format!("try-{seq}");
                engine.observe(ask).await.map(|_| ()).or_else(|e| match e.code() {
                    Code::FailedPrecondition => Ok(()),
                    _ => Err(e),
                })?;
            }
            Ok::<(), tonic::Status>(())
        }));
    }
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let records = house.service().records(probity::service::RecordQuery {
        session: Some("s".to_owned()),
        size: 1000,
        ..Default::default()
    });
    let seqs: Vec<u64> = records
        .await
        .unwrap()
        .records
        .iter()
        .map(|r| match &r.body {
            probity::audit::Body::Judged(j) => j.seq,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
    assert!(!seqs.is_empty());
}
