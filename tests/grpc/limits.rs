//! Limits: each is an answer that names it.

use std::{sync::Arc, time::Duration};

use probity::{audit::FaultyStore, grpc::wire::ScoreEpisodesRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::support::{House, end, fields, items, message, reason, request, user, write_pack};

#[tokio::test]
async fn a_message_that_is_too_large_names_limit_and_size() {
    let house = House::with(|s| s.max_message_bytes = 1000).await;
    let large = message(&format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(5000)));
    let refused = house.engine().await.observe(request("s", items(0, [large]))).await.unwrap_err();
    assert!(refused.message().contains("1000") && refused.message().contains("50"), "{refused:?}");
    assert_eq!(refused.code(), Code::OutOfRange);
}

#[tokio::test]
async fn too_many_items_or_episodes_are_refused() {
    let house = House::with(|s| s.max_items = 3).await;
    let mut engine = house.engine().await;
    let refused = engine.observe(request("s", items(0, (0..4).map(|_| user("a"))))).await.unwrap_err();
    assert_eq!((refused.code(), fields(&refused)), (Code::InvalidArgument, vec!["items".to_owned()]));
    let episodes =
        ScoreEpisodesRequest { pack: "guard".to_owned(), episodes_json: vec!["{}".into(); 4], ..Default::default() };
    let refused = engine.score_episodes(episodes).await.unwrap_err();
    assert_eq!(fields(&refused), ["episodes_json"]);
}

#[tokio::test]
async fn one_call_too_many_is_turned_away_and_health_still_answers() {
    let store = Arc::new(FaultyStore::default());
    let house = House::over_with(store.clone(), |s| s.max_calls = 2).await;
    store.hold(true);
    let mut waiting = tokio::task::JoinSet::new();
    for session in ["a", "b"] {
        let mut engine = house.engine().await;
        waiting.spawn(async move { engine.observe(request(session, items(0, [user("a")]))).await });
    }
    let mut engine = house.engine().await;
    let ask = request("s", items(0, [user("a")]));
    // The two arrive when they do.
    let refused = loop {
        let mut once = tonic::Request::new(ask.clone());
        once.set_timeout(Duration::from_millis(200));
        let refused = engine.observe(once).await.unwrap_err();
        if refused.code() != Code::DeadlineExceeded {
            break refused;
        }
    };
    assert_eq!((refused.code(), reason(&refused).0.as_str()), (Code::ResourceExhausted, "TOO_MANY_CALLS"));
    assert_eq!(crate::manners::health(&house, "").await, crate::manners::SERVING);
    store.hold(false);
    while let Some(answer) = waiting.join_next().await {
        answer.unwrap().unwrap();
    }
    engine.observe(ask).await.unwrap();
}

#[tokio::test]
async fn streams_that_are_held_open_leave_room_for_calls_and_end_when_nothing_comes() {
    let house = House::with(|s| s.max_streams = 2).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let (send, requests) = mpsc::channel(1);
        let mut engine = house.engine().await;
        streams.push((engine.observe_stream(ReceiverStream::new(requests)).await.unwrap(), send));
    }
    let mut engine = house.engine().await;
    engine.observe(request("s", items(0, [user("a")]))).await.unwrap();
    let none = || tokio_stream::iter(Vec::new());
    let refused = engine.observe_stream(none()).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).0.as_str()), (Code::ResourceExhausted, "TOO_MANY_STREAMS"));
    streams.pop();
    // The server hears of the end of the stream a moment later.
    let mut tries = 0;
    while engine.observe_stream(none()).await.is_err() {
        tries += 1;
        assert!(tries < 200, "the place was never free again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let house = House::with(|s| s.stream_idle = Duration::from_millis(50)).await;
    let (_send, requests) = mpsc::channel(1);
    let mut silent = house.engine().await.observe_stream(ReceiverStream::new(requests)).await.unwrap().into_inner();
    let ended = silent.message().await.unwrap_err();
    assert_eq!((ended.code(), reason(&ended).0.as_str()), (Code::Aborted, "STREAM_IDLE"));
    let (_send, requests) = mpsc::channel(1);
    let mut silent = house.engine().await.join_episode(ReceiverStream::new(requests)).await.unwrap().into_inner();
    let ended = silent.message().await.unwrap_err();
    assert_eq!((ended.code(), reason(&ended).0.as_str()), (Code::Aborted, "STREAM_IDLE"));
}

#[tokio::test]
async fn sessions_are_bounded_and_ended_ones_make_room() {
    let house = House::with(|s| s.max_sessions = 2).await;
    let mut engine = house.engine().await;
    for session in ["a", "b"] {
        engine.observe(request(session, items(0, [user("x")]))).await.unwrap();
    }
    let refused = engine.observe(request("c", items(0, [user("x")]))).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).0.as_str()), (Code::ResourceExhausted, "TOO_MANY_SESSIONS"));
    engine.observe(request("a", items(1, [end()]))).await.unwrap();
    engine.observe(request("c", items(0, [user("x")]))).await.unwrap();
    let gone = engine.observe(request("a", items(1, [end()]))).await.unwrap_err();
    assert_eq!(reason(&gone).0, "SESSION_NOT_OPEN");
}

#[tokio::test]
async fn what_a_session_may_cost_is_the_smaller_of_the_packs_and_the_servers_limit() {
    let policies = r#"policy RISE "r" {
      severity 1
      on user
      deny if once(user where it.text contains "go" and len(it.text) > len(text) within 50 events)
    }"#;
    // The pack's limit is 256.
    for (look_back, undecided) in [(1, vec!["budget ran out: look_back".to_owned()]), (4096, Vec::new())] {
        let house = House::with(|s| s.limits.look_back = look_back).await;
        write_pack(house.rules.path(), "guard", "1.1.0", policies);
        house.service().reload().await.unwrap();
        let texts = ["going far", "go on", "listen"];
        let asked = request("s", items(0, texts.map(user)));
        let answer = house.engine().await.observe(asked).await.unwrap().into_inner();
        let last = answer.results.last().unwrap();
        let reasons: Vec<String> = last.undecided.iter().map(|u| u.reason.clone()).collect();
        assert_eq!(reasons, undecided, "{look_back}");
    }
}

#[tokio::test]
async fn an_idle_session_is_dropped_and_its_id_can_be_opened_anew() {
    let house = House::with(|s| s.session_ttl = Duration::from_millis(200)).await;
    let mut engine = house.engine().await;
    engine.observe(request("s", items(0, [user("x")]))).await.unwrap();
    for _ in 0..400 {
        if house.service().status().unwrap().generations.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let gone = engine.observe(request("s", items(1, [user("y")]))).await.unwrap_err();
    assert_eq!(reason(&gone).0, "SESSION_NOT_OPEN");
    engine.observe(request("s", items(0, [user("z")]))).await.unwrap();
}
