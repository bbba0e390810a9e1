//! Rules that are served no longer: sessions that began under them go on over a restart, and no more of them stay in memory
//! than may.

use std::{
    fs,
    path::Path,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use probity::{
    audit::{BatchBuilder, Draft, FaultyStore, KeptPack, KeptSet, Safety, Store},
    config::Settings,
    engine::Pack,
    grpc::wire::{
        GetSessionRequest, GetStatusRequest, GetStatusResponse, Mode, ObserveRequest, ObserveResponse, ReloadRequest,
        Result as Judged, item, policy_engine_client::PolicyEngineClient,
    },
    service::Served,
};
use serde_json::Value;
use tonic::{Code, Status};

use crate::{
    kill::{open_stopped, serve},
    support::{GUARD, House, closed, connect, end, items, message, pays, reason, request, user, write_pack},
};

/// Much longer than anything here should take.
const BOUND: Duration = Duration::from_secs(60);

/// `GUARD` of a round: payments over 100 + round are denied.
fn guard(round: u64) -> String {
    GUARD.replace("> 100", &format!("> {}", 100 + round))
}

fn version(round: u64) -> String {
    format!("1.{round}.0")
}

/// Writes and loads the rules of a round.
async fn load(house: &House, round: u64) {
    write_pack(house.rules.path(), "guard", &version(round), &guard(round));
    house.rules_api().await.reload(ReloadRequest::default()).await.unwrap();
}

async fn status(house: &House) -> GetStatusResponse {
    house.rules_api().await.get_status(GetStatusRequest {}).await.unwrap().into_inner()
}

/// Waits until so many sets of rules are in memory at most.
async fn until_in_memory(house: &House, most: u64) -> GetStatusResponse {
    let began = Instant::now();
    loop {
        let told = status(house).await;
        if told.generations_in_memory <= most {
            return told;
        }
        assert!(began.elapsed() < BOUND, "{told:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn by_generation(told: &GetStatusResponse) -> Vec<(u64, u64)> {
    told.generations.iter().map(|g| (g.generation, g.session_count)).collect()
}

fn episode(session: &str, from: u64, bodies: Vec<item::Item>) -> ObserveRequest {
    ObserveRequest { mode: Mode::Episode.into(), ..request(session, items(from, bodies)) }
}

async fn observe(house: &House, ask: ObserveRequest) -> Result<ObserveResponse, Status> {
    house.engine().await.observe(ask).await.map(|answer| answer.into_inner())
}

/// The reason of an error, and why its session was closed.
fn why(status: &Status) -> (String, String) {
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
    let (reason, facts) = reason(status);
    let closed = facts.into_iter().find(|(name, _)| name == "close_reason").unwrap_or_default();
    (reason, closed.1)
}

fn closed_as(reason: &str) -> (String, String) {
    ("SESSION_CLOSED".to_owned(), reason.to_owned())
}

/// The messages of the recorded episodes under `airline`, with their ids.
fn airline_episodes() -> Vec<(String, Vec<item::Item>)> {
    let text = fs::read_to_string("tests/data/traces/airline/episodes.jsonl").unwrap();
    let read = |line: &str| {
        let episode: Value = serde_json::from_str(line).unwrap();
        let messages = episode["messages"].as_array().unwrap().iter().map(|m| message(&m.to_string()));
        (episode["episode_id"].as_str().unwrap().to_owned(), messages.chain([end()]).collect())
    };
    text.lines().map(read).collect()
}

fn airline(session: &str, from: usize, bodies: &[item::Item]) -> ObserveRequest {
    ObserveRequest { pack: "airline".to_owned(), ..episode(session, from as u64, bodies.to_vec()) }
}

/// Puts other rules in the place of a pack, or none.
fn replace(rules: &Path, pack: &str, by: Option<&str>) {
    fs::remove_dir_all(rules.join(pack)).ok();
    if let Some(policies) = by {
        write_pack(rules, pack, "9.0.0", policies);
    }
}

#[tokio::test]
async fn other_rules_at_a_restart_change_nothing_in_the_middle_of_an_episode() {
    let mut house = House::with(|settings| {
        crate::drift::copy(Path::new("rules/airline"), &settings.rules.path().join("airline"));
    })
    .await;
    let episodes = airline_episodes();
    let (mut whole, mut parts): (Vec<Vec<Judged>>, Vec<Vec<Judged>>) = (Vec::new(), vec![Vec::new(); episodes.len()]);
    let mut digest = String::new();
    for (id, bodies) in &episodes {
        let answer = observe(&house, airline(&format!("{id}-unbroken"), 0, bodies)).await.unwrap();
        digest = answer.pack_digest;
        whole.push(answer.results);
    }
    // A third under the rules that it begins with, one while others stand in their place, one while none do.
    for third in 0..3 {
        for (n, (id, bodies)) in episodes.iter().enumerate() {
            let at = |third: usize| bodies.len() * third / 3;
            let part = &bodies[at(third)..at(third + 1)];
            let answer = observe(&house, airline(id, at(third), part)).await.unwrap();
            assert_eq!((&answer.pack_digest, answer.pack_version.as_str()), (&digest, "1.0.0"), "{id}");
            parts[n].extend(answer.results);
            if third > 0 {
                // All of them share the rules that were compiled again.
                assert!(status(&house).await.generations_in_memory <= 2, "{id}");
            }
        }
        house.stop().await;
        replace(house.rules.path(), "airline", (third == 0).then_some(GUARD));
        house.start_again().await;
    }
    assert_eq!(parts, whole);
    let hits: usize = whole.iter().flatten().map(|result| result.hits.len()).sum();
    assert!(hits > 20, "{hits}");
    assert_eq!(closed(&house).await, []);
}

/// The same where the server is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_rules_after_a_kill_change_nothing_either() {
    let (rules, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_pack(rules.path(), "guard", "1.0.0", GUARD);
    write_pack(rules.path(), "other", "1.0.0", GUARD);
    for round in 0..4 {
        let (mut child, address) = serve(rules.path(), data.path(), "disk");
        let mut engine = PolicyEngineClient::new(connect(&address).await);
        let answer = engine.observe(episode("e", round, vec![pays(&[105])])).await.unwrap().into_inner();
        let hit = &answer.results[0].hits[0];
        assert_eq!((u64::from(hit.n), hit.policy.as_str(), answer.pack_version.as_str()), (round, "P01", "1.0.0"));
        child.kill().unwrap();
        child.wait().unwrap();
        drop(open_stopped(data.path()));
        match round {
            0 => write_pack(rules.path(), "guard", "1.1.0", &guard(10)),
            1 => replace(rules.path(), "guard", None),
            _ => write_pack(rules.path(), "guard", "1.2.0", &guard(20)),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_of_before_are_compiled_once_for_all_who_ask_at_once() {
    let mut house = House::start().await;
    for n in 0..8 {
        observe(&house, episode(&format!("e{n}"), 0, vec![pays(&[105])])).await.unwrap();
    }
    house.stop().await;
    write_pack(house.rules.path(), "guard", "1.1.0", &guard(10));
    house.start_again().await;
    let mut callers = tokio::task::JoinSet::new();
    for n in 0..8 {
        let mut engine = house.engine().await;
        callers.spawn(async move { engine.observe(episode(&format!("e{n}"), 1, vec![pays(&[105])])).await });
    }
    while let Some(answer) = callers.join_next().await {
        assert_eq!(answer.unwrap().unwrap().into_inner().results[0].hits[0].n, 1);
    }
    let told = status(&house).await;
    assert_eq!((by_generation(&told), told.generations_in_memory), (vec![(0, 8)], 2));
}

#[tokio::test]
async fn a_version_that_means_the_same_needs_no_rules_of_before() {
    let mut house = House::start().await;
    observe(&house, episode("e", 0, vec![pays(&[105])])).await.unwrap();
    house.stop().await;
    write_pack(house.rules.path(), "guard", "1.0.1", &format!("# said in other words\n{GUARD}"));
    house.start_again().await;
    let answer = observe(&house, episode("e", 1, vec![pays(&[105])])).await.unwrap();
    assert_eq!((answer.pack_version.as_str(), answer.results[0].hits[0].n), ("1.0.0", 1));
    assert_eq!(by_generation(&status(&house).await), [(1, 1)]);
}

#[tokio::test]
async fn a_gate_whose_pack_is_gone_keeps_its_rules_over_a_restart_and_follows_once_the_pack_is_back() {
    let mut house = House::with(|settings| write_pack(settings.rules.path(), "other", "1.0.0", GUARD)).await;
    // One of any version, one of a range of them.
    let of_range = |seq| ObserveRequest { pack: "guard@1".to_owned(), ..request("r", items(seq, [pays(&[105])])) };
    let first = observe(&house, request("g", items(0, [pays(&[105])]))).await.unwrap();
    assert_eq!(first.results[0].hits.len(), 1);
    observe(&house, of_range(0)).await.unwrap();
    replace(house.rules.path(), "guard", None);
    house.rules_api().await.reload(ReloadRequest::default()).await.unwrap();
    for seq in 1..4 {
        let next = observe(&house, request("g", items(seq, [pays(&[105])]))).await.unwrap();
        assert_eq!((&next.pack_digest, u64::from(next.results[0].hits[0].n)), (&first.pack_digest, seq));
        observe(&house, of_range(seq)).await.unwrap();
        house.restart().await;
    }
    write_pack(house.rules.path(), "guard", "2.0.0", &guard(10));
    house.rules_api().await.reload(ReloadRequest::default()).await.unwrap();
    let moved = observe(&house, request("g", items(4, [pays(&[105])]))).await.unwrap();
    assert_eq!((moved.pack_version.as_str(), &moved.previous_pack_digest), ("2.0.0", &first.pack_digest));
    assert_eq!(moved.results[0].hits.len(), 0);
    for seq in 4..6 {
        let kept = observe(&house, of_range(seq)).await.unwrap();
        assert_eq!((kept.pack_version.as_str(), u64::from(kept.results[0].hits[0].n)), ("1.0.0", seq));
        house.restart().await;
    }
}

#[tokio::test]
async fn an_episode_whose_rules_the_store_keeps_no_longer_is_closed() {
    let mut house = House::with(|settings| settings.max_generations = 100).await;
    observe(&house, episode("old", 0, vec![pays(&[105])])).await.unwrap();
    // The store keeps 64 packs besides those that serve.
    for round in 1..=65 {
        load(&house, round).await;
    }
    observe(&house, episode("old", 1, vec![pays(&[105])])).await.unwrap();
    observe(&house, episode("young", 0, vec![pays(&[500])])).await.unwrap();
    load(&house, 66).await;
    house.restart().await;
    let gone = observe(&house, episode("old", 2, vec![pays(&[105])])).await.unwrap_err();
    assert_eq!(why(&gone), closed_as("rules_gone"));
    observe(&house, episode("young", 1, vec![pays(&[500])])).await.unwrap();
    assert_eq!(closed(&house).await, [("old".to_owned(), "rules_gone".to_owned())]);
}

/// As if another version of the server had compiled them to something else.
#[tokio::test]
async fn sources_that_mean_something_else_are_not_the_rules_of_a_session() {
    let mut house = House::start().await;
    for session in ["a", "b"] {
        observe(&house, episode(session, 0, vec![pays(&[105])])).await.unwrap();
    }
    load(&house, 1).await;
    house.stop().await;
    {
        let store = open_stopped(&house.data.path().join("store"));
        let set = store.last_set().unwrap();
        let served = KeptPack { sources: store.sources(&set[0].digest).unwrap().unwrap(), pack: set[0].clone() };
        let mut first = (*served.pack).clone();
        let other = probity::pack::RuleFiles::read(house.rules.path());
        first.digest = {
            write_pack(house.rules.path(), "guard", "1.0.0", GUARD);
            *probity::engine::load_rules(house.rules.path()).result.unwrap().get("guard").unwrap().digest()
        };
        let sources = other.pack(&house.rules.path().join("guard")).unwrap().to_bytes();
        let packs = vec![KeptPack { pack: Arc::new(first), sources }];
        let mut builder = BatchBuilder::new(store.head().unwrap(), [1; 32]);
        builder.push(&Draft::Erased { session: "nobody".into() }, 1);
        builder.keep(Arc::new(KeptSet { packs }));
        builder.keep(Arc::new(KeptSet { packs: vec![served] }));
        store.append(&builder.finish(), Safety::Disk).unwrap();
    }
    write_pack(house.rules.path(), "guard", &version(1), &guard(1));
    house.start_again().await;
    for session in ["a", "b"] {
        let gone = observe(&house, episode(session, 1, vec![pays(&[105])])).await.unwrap_err();
        assert_eq!(why(&gone), closed_as("rules_gone"));
    }
    assert_eq!(status(&house).await.generations_in_memory, 1);
}

/// What a set of rules is held by.
struct Held {
    served: Weak<Served>,
    pack: Weak<Pack>,
}

fn held(house: &House) -> Held {
    let served = house.service().served();
    Held { pack: Arc::downgrade(served.set.get("guard").unwrap()), served: Arc::downgrade(&served) }
}

async fn until_gone(what: &str, gone: impl Fn() -> bool) {
    let began = Instant::now();
    while !gone() {
        assert!(began.elapsed() < BOUND, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_under_the_oldest_rules_end_where_too_many_are_in_memory() {
    const MOST: u64 = 4;
    const ROUNDS: u64 = MOST + 3;
    let mut house = House::with(|settings| {
        settings.max_generations = usize::try_from(MOST).unwrap();
        write_pack(settings.rules.path(), "other", "1.0.0", GUARD);
        write_pack(settings.rules.path(), "guard", &version(0), &guard(0));
        settings.session_journal_bytes = 2_000;
    })
    .await;
    let other = |ask: ObserveRequest| ObserveRequest { pack: "other".to_owned(), ..ask };
    // These can go on: their pack is served as it was, or they follow.
    for ask in [
        other(episode("other-episode", 0, vec![pays(&[105])])),
        other(request("other-gate", items(0, [pays(&[105])]))),
        request("gate", items(0, [pays(&[105])])),
    ] {
        observe(&house, ask).await.unwrap();
    }
    // This one cannot: its journal is too long to be judged again.
    for seq in 0..3 {
        observe(&house, request("long", items(seq, [user(&"x".repeat(1_000))]))).await.unwrap();
    }
    let mut all = vec![held(&house)];
    for round in 0..ROUNDS {
        let session = format!("e{round}");
        let answer = observe(&house, episode(&session, 0, vec![pays(&[500]), pays(&[500])])).await.unwrap();
        assert_eq!(answer.pack_version, version(round));
        // One that has ended is remembered for a while, and does not hold its rules.
        observe(&house, episode(&format!("ended{round}"), 0, vec![pays(&[500]), end()])).await.unwrap();
        if round + 1 < ROUNDS {
            load(&house, round + 1).await;
            all.push(held(&house));
            let told = until_in_memory(&house, MOST).await;
            assert_eq!(told.max_generations, MOST);
        }
    }
    let told = status(&house).await;
    let newest: Vec<(u64, u64)> = (ROUNDS - MOST + 1..=ROUNDS).map(|generation| (generation, 1)).collect();
    assert_eq!((by_generation(&told), told.generations_in_memory), (newest, MOST));
    for (round, Held { served, pack }) in (0u64..).zip(&all) {
        let old = round + MOST < ROUNDS;
        let gone = || (served.upgrade().is_none() || round + 1 == ROUNDS) && pack.upgrade().is_none() == old;
        until_gone(&format!("round {round}"), gone).await;
    }
    // Whoever asks for one that has ended is told, as often as it asks; the others go on under their rules.
    let ended = ROUNDS - MOST;
    for round in 0..ROUNDS {
        let session = format!("e{round}");
        for seq in 2..4 {
            let answer = observe(&house, episode(&session, seq, vec![pays(&[500])])).await;
            match answer {
                Err(status) if round < ended => assert_eq!(why(&status), closed_as("outlived")),
                answer => assert_eq!(answer.unwrap().pack_version, version(round)),
            }
        }
    }
    let long = observe(&house, request("long", items(3, [pays(&[500])]))).await.unwrap_err();
    assert_eq!(why(&long), closed_as("outlived"));
    for (ask, version, hits) in [
        (other(episode("other-episode", 1, vec![pays(&[105])])), "1.0.0".to_owned(), 1),
        (other(request("other-gate", items(1, [pays(&[105])]))), "1.0.0".to_owned(), 1),
        (request("gate", items(1, [pays(&[105])])), version(ROUNDS - 1), 0),
    ] {
        let answer = observe(&house, ask).await.unwrap();
        assert_eq!((answer.pack_version, answer.results[0].hits.len()), (version, hits));
    }
    // It is recorded, and its id is free.
    let mut told = closed(&house).await;
    told.sort();
    let mut expected: Vec<String> = (0..ended).map(|round| format!("e{round}")).collect();
    expected.push("long".to_owned());
    assert_eq!(told, expected.into_iter().map(|session| (session, "outlived".to_owned())).collect::<Vec<_>>());
    let ask = GetSessionRequest { session_id: "e0".to_owned() };
    let account = house.audit_api().await.get_session(ask).await.unwrap().into_inner();
    assert!(format!("{account:?}").contains("outlived"), "{account:?}");
    observe(&house, episode("e0", 0, vec![pays(&[500])])).await.unwrap();
    house.restart().await;
    observe(&house, episode("e0", 1, vec![pays(&[500])])).await.unwrap();
    let gone = observe(&house, episode("e1", 2, vec![pays(&[500])])).await.unwrap_err();
    assert_eq!(why(&gone).0, "SESSION_NOT_OPEN");
}

#[tokio::test]
async fn rules_of_before_count_among_those_in_memory() {
    let mut house = House::start().await;
    for round in 0..4 {
        load(&house, round).await;
        observe(&house, episode(&format!("e{round}"), 0, vec![pays(&[500])])).await.unwrap();
        observe(&house, episode(&format!("f{round}"), 0, vec![pays(&[500])])).await.unwrap();
    }
    house.stop().await;
    house.change(|settings: &mut Settings| settings.max_generations = 3);
    write_pack(house.rules.path(), "guard", &version(4), &guard(4));
    house.start_again().await;
    let next = |session: &str, seq: u64| episode(session, seq, vec![pays(&[500])]);
    for session in ["e3", "e1", "f1"] {
        observe(&house, next(session, 1)).await.unwrap();
    }
    let full = observe(&house, next("e0", 1)).await.unwrap_err();
    assert_eq!(why(&full), closed_as("outlived"));
    let told = status(&house).await;
    assert_eq!((by_generation(&told), told.generations_in_memory), (vec![(0, 1), (0, 2)], 3));
    // The next set: the rules that were taken up first are the oldest.
    load(&house, 5).await;
    observe(&house, episode("young", 0, vec![pays(&[500])])).await.unwrap();
    load(&house, 6).await;
    until_in_memory(&house, 3).await;
    assert_eq!(why(&observe(&house, next("e3", 2)).await.unwrap_err()), closed_as("outlived"));
    for session in ["e1", "f1"] {
        assert_eq!(observe(&house, next(session, 2)).await.unwrap().pack_version, version(1));
    }
    let ended = |session: &str| (session.to_owned(), "outlived".to_owned());
    assert_eq!(closed(&house).await, [ended("e0"), ended("e3")]);
}

#[tokio::test]
async fn while_nothing_can_be_recorded_sessions_under_old_rules_stay_and_their_end_is_recorded_once() {
    let store = Arc::new(FaultyStore::default());
    let house = House::over_with(store.clone(), |settings| {
        settings.max_generations = 2;
        // Such an end is tried again now and then.
        settings.session_ttl = Duration::from_secs(24);
    })
    .await;
    for round in 0..2 {
        load(&house, round).await;
        observe(&house, episode(&format!("e{round}"), 0, vec![pays(&[500])])).await.unwrap();
    }
    write_pack(house.rules.path(), "guard", &version(2), &guard(2));
    store.fail();
    // The failure shows with this activation, which is stored first once the store works.
    house.rules_api().await.reload(ReloadRequest::default()).await.unwrap();
    let failure = house.service().audit().failure();
    until_gone("the store fails", || failure.borrow().is_some()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(by_generation(&status(&house).await), [(1, 1), (2, 1)]);
    store.heal();
    until_gone("the store works", || failure.borrow().is_none()).await;
    until_in_memory(&house, 2).await;
    assert_eq!(why(&observe(&house, episode("e0", 1, vec![pays(&[500])])).await.unwrap_err()), closed_as("outlived"));
    observe(&house, episode("e1", 1, vec![pays(&[500])])).await.unwrap();
    assert_eq!(closed(&house).await, [("e0".to_owned(), "outlived".to_owned())]);
}
