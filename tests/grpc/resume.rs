//! Sessions over a restart: they go on where they were, and what is kept of them is in clear
//! nowhere.

use std::{fs, path::Path, time::Duration};

use probity::grpc::wire::{
    CloseSessionRequest, End, ExportSessionRequest, ImportSessionRequest, Item, Mode, ObserveRequest, ObserveResponse,
    QueryRecordsRequest, Recording, Result, item, record::Body,
};
use serde_json::Value;
use tonic::{Code, Status};

use crate::{
    drift::stored,
    support::{GUARD, House, closed, end, items, message, pays, proposal, reason, request, user, write_pack},
};

const MARK: &str = "mia.li.4711@example.com";

async fn observe(house: &House, ask: ObserveRequest) -> std::result::Result<ObserveResponse, Status> {
    house.engine().await.observe(ask).await.map(|answer| answer.into_inner())
}

fn ask(pack: &str, session: &str, from: u64, bodies: Vec<item::Item>) -> ObserveRequest {
    ObserveRequest { pack: pack.to_owned(), mode: Mode::Gate.into(), ..request(session, items(from, bodies)) }
}

#[tokio::test]
async fn a_restart_in_the_middle_of_each_recorded_episode_changes_no_verdict() {
    let mut house = House::with(|settings| {
        for pack in ["airline", "starter"] {
            crate::drift::copy(&Path::new("rules").join(pack), &settings.rules.path().join(pack));
        }
        settings.retained_results = 1000;
    })
    .await;
    let mut sessions: Vec<(String, Vec<item::Item>)> = Vec::new();
    for folder in ["airline", "fixture12"] {
        let text = fs::read_to_string(Path::new("tests/data/traces").join(folder).join("episodes.jsonl")).unwrap();
        for line in text.lines() {
            let episode: Value = serde_json::from_str(line).unwrap();
            let id = format!("{folder}-{}", episode["episode_id"].as_str().unwrap());
            let messages = episode["messages"].as_array().unwrap().iter().map(|m| message(&m.to_string()));
            sessions.push((id, messages.chain([item::Item::End(End {})]).collect()));
        }
    }
    let pack = |n: usize| if n.is_multiple_of(3) { "starter" } else { "airline" };
    let mut whole: Vec<Vec<Result>> = Vec::new();
    let mut halves: Vec<Vec<Result>> = Vec::new();
    for (n, (id, bodies)) in sessions.iter().enumerate() {
        let unbroken = format!("{id}-unbroken");
        whole.push(observe(&house, ask(pack(n), &unbroken, 0, bodies.clone())).await.unwrap().results);
        let first = bodies[..bodies.len() / 2].to_vec();
        halves.push(observe(&house, ask(pack(n), id, 0, first)).await.unwrap().results);
    }
    house.restart().await;
    for (n, (id, bodies)) in sessions.iter().enumerate() {
        let middle = bodies.len() / 2;
        // The last answer before the restart may have been lost on its way: it is repeated.
        let from = middle.saturating_sub(1);
        let then = observe(&house, ask(pack(n), id, from as u64, bodies[from..].to_vec())).await.unwrap().results;
        halves[n].truncate(from);
        halves[n].extend(then);
        assert_eq!(halves[n], whole[n], "{id}");
    }
    assert!(sessions.len() >= 100, "{}", sessions.len());
    let hits: usize = whole.iter().flatten().map(|result| result.hits.len()).sum();
    println!("{} episodes with {hits} hits", sessions.len());
    assert!(hits > 40);
}

#[tokio::test]
async fn proposals_agents_and_probes_that_were_due_are_remembered_and_nothing_is_kept_in_clear() {
    let mut house = House::start().await;
    let mut first = request("s", items(0, [user(MARK), proposal(1, 0, 2, 500)]));
    first.agent_id = "agent-7".to_owned();
    let answers = observe(&house, first.clone()).await.unwrap();
    assert_eq!(answers.recording(), Recording::Stored);
    house.restart().await;
    // Repeated, it is the same; other content under its seq is refused as before.
    assert_eq!(observe(&house, first.clone()).await.unwrap().results, answers.results);
    let other = observe(&house, request("s", items(0, [user("other")]))).await.unwrap_err();
    assert_eq!(reason(&other).0, "OTHER_CONTENT");
    let gap = observe(&house, request("s", items(5, [user("a")]))).await.unwrap_err();
    assert_eq!(reason(&gap), ("SEQ_GAP".into(), vec![("expected_seq".into(), "2".into()), ("seq".into(), "5".into())]));
    // The proposed call has its answer; the message may not carry another one in its place.
    let contradiction = observe(&house, request("s", items(2, [proposal(1, 0, 2, 501)]))).await.unwrap_err();
    assert_eq!(reason(&contradiction).0, "PROPOSAL_CONFLICT");
    let next = observe(&house, request("s", items(2, [proposal(1, 1, 2, 600)]))).await.unwrap();
    assert_eq!(next.results[0].hits.len(), 0, "the policy has its hit in this turn");
    let records = QueryRecordsRequest { session_id: "s".to_owned(), ..Default::default() };
    let records = house.audit_api().await.query_records(records).await.unwrap().into_inner().records;
    let Some(Body::Judged(last)) = &records.last().unwrap().body else { panic!("{records:?}") };
    assert_eq!((last.agent_id.as_str(), records.len()), ("agent-7", 3));
    house.stop().await;
    let bytes = stored(house.data.path());
    assert!(bytes.len() > 1_000 && !bytes.windows(MARK.len()).any(|w| w == MARK.as_bytes()));
}

#[tokio::test]
async fn a_session_that_cannot_be_taken_up_is_closed_with_a_reason() {
    let mut house = House::with(|settings| {
        write_pack(settings.rules.path(), "other", "1.0.0", GUARD);
        settings.session_journal_bytes = 2_000;
    })
    .await;
    observe(&house, request("a", items(0, [user("a")]))).await.unwrap();
    let of_b = |seq| ObserveRequest { mode: Mode::Episode.into(), ..ask("other", "b", seq, vec![user("b")]) };
    observe(&house, of_b(0)).await.unwrap();
    observe(&house, request("long", items(0, [user(&"c".repeat(3_000))]))).await.unwrap();
    observe(&house, request("long", items(1, [user("d")]))).await.unwrap();
    observe(&house, request("ended", items(0, [user("a"), end()]))).await.unwrap();
    house.stop().await;
    let other = GUARD.replace("args.amount > 100", "args.amount > 101");
    write_pack(house.rules.path(), "other", "1.0.1", &other);
    house.start_again().await;
    let why = |status: Status| {
        assert_eq!(status.code(), Code::FailedPrecondition);
        let (reason, facts) = reason(&status);
        format!("{reason} {}", facts.first().map(|(_, fact)| fact.clone()).unwrap_or_default())
    };
    let next = |session: &str, seq: u64| request(session, items(seq, [user("x")]));
    assert_eq!(observe(&house, next("a", 1)).await.unwrap().results.len(), 1);
    // An episode goes on under the rules that it began with.
    assert_eq!(observe(&house, of_b(1)).await.unwrap().pack_version, "1.0.0");
    assert_eq!(why(observe(&house, next("long", 2)).await.unwrap_err()), "SESSION_CLOSED too_long");
    // Once closed it is like any session that is not open.
    assert_eq!(why(observe(&house, next("long", 2)).await.unwrap_err()), "SESSION_NOT_OPEN 0");
    assert_eq!(why(observe(&house, next("ended", 2)).await.unwrap_err()), "SESSION_NOT_OPEN 0");
    let told = |session: &str, reason: &str| (session.to_owned(), reason.to_owned());
    assert_eq!(closed(&house).await, [told("long", "too_long")]);
    // Its id is free.
    observe(&house, next("long", 0)).await.unwrap();

    // Other limits, and a key that is another one.
    house.stop().await;
    house.change(|settings| settings.limits.state_bytes /= 2);
    house.start_again().await;
    assert_eq!(why(observe(&house, next("a", 2)).await.unwrap_err()), "SESSION_CLOSED other_limits");
    house.stop().await;
    fs::remove_file(house.data.path().join("store/session.key")).unwrap();
    house.start_again().await;
    assert_eq!(why(observe(&house, next("long", 1)).await.unwrap_err()), "SESSION_CLOSED unreadable");
}

#[tokio::test]
async fn closing_is_recorded_and_leaves_nothing_behind() {
    let mut house = House::with(|settings| settings.session_ttl = Duration::from_millis(1_500)).await;
    for session in ["asked", "idle", "asleep", "asked-asleep"] {
        observe(&house, request(session, items(0, [user("a"), pays(&[500])]))).await.unwrap();
    }
    let close = async |house: &House, session: &str| {
        let ask = CloseSessionRequest { session_id: session.to_owned(), ..Default::default() };
        house.engine().await.close_session(ask).await.map(|_| ())
    };
    close(&house, "asked").await.unwrap();
    let again = close(&house, "asked").await.unwrap_err();
    assert_eq!((again.code(), reason(&again).0.as_str()), (Code::NotFound, "SESSION_NOT_OPEN"));
    let more = observe(&house, request("asked", items(2, [user("a")]))).await.unwrap_err();
    assert_eq!(reason(&more).0, "SESSION_NOT_OPEN");
    // Sooner than the others would be dropped.
    house.restart().await;
    close(&house, "asked-asleep").await.unwrap();
    observe(&house, request("idle", items(2, [user("b")]))).await.unwrap();
    while closed(&house).await.len() < 4 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut all = closed(&house).await;
    all.sort();
    let told = |session: &str, reason: &str| (session.to_owned(), reason.to_owned());
    assert_eq!(
        all,
        [told("asked", "asked"), told("asked-asleep", "asked"), told("asleep", "idle"), told("idle", "idle")]
    );
    house.restart().await;
    for session in ["asked", "idle", "asleep", "asked-asleep"] {
        let gone = observe(&house, request(session, items(3, [user("a")]))).await.unwrap_err();
        assert_eq!(reason(&gone).0, "SESSION_NOT_OPEN", "{session}");
    }
}

#[tokio::test]
async fn callers_that_wake_a_session_at_once_find_the_same_one() {
    let mut house = House::start().await;
    observe(&house, request("s", items(0, [pays(&[500])]))).await.unwrap();
    house.restart().await;
    let mut callers = Vec::new();
    for _ in 0..8 {
        let mut engine = house.engine().await;
        callers.push(tokio::spawn(async move { engine.observe(request("s", items(1, [pays(&[500])]))).await }));
    }
    for caller in callers {
        let answer = caller.await.unwrap().unwrap().into_inner();
        assert_eq!(answer.results[0].hits[0].n, 1);
    }
    let next: Vec<Item> = items(2, [pays(&[500])]);
    assert_eq!(observe(&house, request("s", next)).await.unwrap().results[0].hits[0].n, 2);
}

#[tokio::test]
async fn a_session_moves_to_another_server_with_the_same_key_and_nothing_is_shown_on_the_way() {
    let here = House::start().await;
    observe(&here, request("s", items(0, [user(MARK), pays(&[500])]))).await.unwrap();
    let export = ExportSessionRequest { session_id: "s".to_owned() };
    let state = here.engine().await.export_session(export).await.unwrap().into_inner().state;
    assert!(!state.windows(MARK.len()).any(|w| w == MARK.as_bytes()));
    let import = |state: &[u8]| ImportSessionRequest { state: state.to_vec().into(), request_id: String::new() };

    // Without the key it is of no use.
    let stranger = House::start().await;
    let refused = stranger.engine().await.import_session(import(&state)).await.unwrap_err();
    assert_eq!(reason(&refused).0, "SESSION_CLOSED");

    let mut there = House::with(|settings| {
        settings.session_key_file = here.data.path().join("store/session.key");
    })
    .await;
    let named = ImportSessionRequest { request_id: "in".to_owned(), ..import(&state) };
    let moved = there.engine().await.import_session(named.clone()).await.unwrap().into_inner();
    assert_eq!(moved.session_id, "s");
    assert_eq!(there.engine().await.import_session(named).await.unwrap().into_inner(), moved);
    let ask = QueryRecordsRequest { session_id: "s".to_owned(), ..Default::default() };
    let records = there.audit_api().await.query_records(ask).await.unwrap().into_inner().records;
    assert!(matches!(records.as_slice(), [one] if matches!(one.body, Some(Body::SessionImported(_)))), "{records:?}");
    let again = there.engine().await.import_session(import(&state)).await.unwrap_err();
    assert_eq!((again.code(), reason(&again).0.as_str()), (Code::AlreadyExists, "SESSION_OPEN"));
    let next = observe(&there, request("s", items(2, [pays(&[500])]))).await.unwrap();
    assert_eq!(next.results[0].hits[0].n, 1);
    there.restart().await;
    let next = observe(&there, request("s", items(3, [pays(&[500])]))).await.unwrap();
    assert_eq!(next.results[0].hits[0].n, 2);

    for cut in [0, 5, state.len() / 2, state.len() - 1] {
        let broken = here.engine().await.import_session(import(&state[..cut])).await.unwrap_err();
        assert!(matches!(broken.code(), Code::InvalidArgument), "{broken:?}");
    }
    let unknown = ExportSessionRequest { session_id: "nobody".to_owned() };
    let unknown = here.engine().await.export_session(unknown).await.unwrap_err();
    assert_eq!((unknown.code(), reason(&unknown).0.as_str()), (Code::NotFound, "SESSION_NOT_KEPT"));
}

#[tokio::test]
async fn a_close_that_cannot_be_recorded_closes_nothing_and_can_be_repeated() {
    let store = std::sync::Arc::new(probity::audit::FaultyStore::default());
    let house = House::over(store.clone()).await;
    observe(&house, request("s", items(0, [user("a")]))).await.unwrap();
    let close = |name: &str| CloseSessionRequest { session_id: "s".to_owned(), request_id: name.to_owned() };
    store.fail();
    // The first is on its way when the failure shows; the others find it.
    assert_eq!(observe(&house, request("t", items(0, [user("a")]))).await.unwrap_err().code(), Code::Unavailable);
    for name in ["one", "one", "two"] {
        let failed = house.engine().await.close_session(close(name)).await.unwrap_err();
        assert_eq!(failed.code(), Code::Unavailable);
    }
    store.heal();
    loop {
        match house.engine().await.close_session(close("one")).await {
            Ok(_) => break,
            Err(status) => assert_eq!(status.code(), Code::Unavailable),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    house.engine().await.close_session(close("one")).await.unwrap();
    assert_eq!(closed(&house).await, [("s".to_owned(), "asked".to_owned())]);
    let gone = observe(&house, request("s", items(1, [user("b")]))).await.unwrap_err();
    assert_eq!(reason(&gone).0, "SESSION_NOT_OPEN");
    // One that has ended by itself: its closing has a name as well.
    observe(&house, request("ended", items(0, [user("a"), end()]))).await.unwrap();
    for _ in 0..2 {
        let close = CloseSessionRequest { session_id: "ended".to_owned(), request_id: "three".to_owned() };
        house.engine().await.close_session(close).await.unwrap();
    }
}

/// A session that is taken up takes its time; who closes it meanwhile has closed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_closed_while_it_is_taken_up_stays_closed() {
    let mut house = House::start().await;
    for round in 0..6u64 {
        let session = format!("s{round}");
        for part in 0..4u64 {
            let bodies = (0..100).map(|_| pays(&[500; 10]));
            observe(&house, request(&session, items(part * 100, bodies))).await.unwrap();
        }
        house.restart().await;
        let (mut closer, mut caller) = (house.engine().await, house.engine().await);
        let close = CloseSessionRequest { session_id: session.clone(), request_id: String::new() };
        let next = request(&session, items(400, [user("x")]));
        let (closing, going) = tokio::join!(
            async {
                tokio::time::sleep(Duration::from_millis(round * 7)).await;
                closer.close_session(close).await
            },
            caller.observe(next),
        );
        closing.unwrap();
        let ask = QueryRecordsRequest { session_id: session.clone(), page_size: 1000, ..Default::default() };
        let records = house.audit_api().await.query_records(ask).await.unwrap().into_inner().records;
        assert!(matches!(records.last().unwrap().body, Some(Body::Closed(_))), "{round}: {going:?}");
        let after = observe(&house, request(&session, items(401, [user("y")]))).await.unwrap_err();
        assert_eq!(reason(&after).0, "SESSION_NOT_OPEN");
    }
}
