//! The real traces over gRPC: batches of any size and streams give the expected hits and rewards,
//! and the metrics of the service are those of the metrics file.

use std::{collections::BTreeMap, env, fs, path::PathBuf};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use probity::{
    config::Settings,
    grpc::{
        self,
        wire::{
            GetMetricsRequest, Metrics, Mode, ObserveRequest, Result as Judged, ScoreEpisodesRequest,
            audit_client::AuditClient, item, policy_engine_client::PolicyEngineClient,
        },
    },
    ingest::{Episode, Messages},
};
use serde_json::{Value, json};

use crate::support::{connect, end, items};

fn folder(name: &str) -> PathBuf {
    let root = env::var_os("PROBITY_TRACES").map_or_else(|| PathBuf::from("tests/data/traces"), PathBuf::from);
    root.join(name)
}

fn lines(name: &str, file: &str) -> Vec<String> {
    let text = fs::read_to_string(folder(name).join(file)).unwrap();
    text.lines().filter(|l| !l.trim().is_empty()).map(str::to_owned).collect()
}

/// An episode's id and items: its messages and the end.
fn episode(line: &str) -> (String, Vec<item::Item>) {
    let episode = Episode::from_line(1, line.as_bytes()).unwrap();
    let Messages::List(messages) = episode.messages else { panic!("{} has no messages", episode.id) };
    let messages = messages.iter().map(|m| item::Item::MessageJson(Bytes::from(m.to_string())));
    (episode.id, messages.chain([end()]).collect())
}

fn cut(
    session: &str,
    pack: &str,
    bodies: &[item::Item],
    sizes: &mut impl Iterator<Item = usize>,
) -> Vec<ObserveRequest> {
    let mut rest: &[_] = &items(0, bodies.to_vec());
    let mut requests = Vec::new();
    while !rest.is_empty() {
        let (now, later) = rest.split_at(sizes.next().unwrap().min(rest.len()));
        requests.push(ObserveRequest {
            session_id: session.to_owned(),
            pack: pack.to_owned(),
            mode: Mode::Episode.into(),
            items: now.to_vec(),
            request_id: String::new(),
            agent_id: String::new(),
        });
        rest = later;
    }
    requests
}

/// Sizes of 1 to 16 from a small generator of a fixed seed.
fn sizes(seed: u64) -> impl Iterator<Item = usize> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1 + (state >> 60) as usize
    })
}

/// The line that is expected of an episode.
fn verdict(id: &str, results: &[Judged]) -> Value {
    let mut hits: Vec<_> = results.iter().flat_map(|r| &r.hits).collect();
    hits.sort_by(|a, b| (a.turn, &a.policy).cmp(&(b.turn, &b.policy)));
    let sum = hits.iter().fold(0.0, |sum, h| sum + h.reward);
    let hits: Vec<Value> =
        hits.iter().map(|h| json!({"policy": h.policy, "turn": h.turn, "n": h.n, "reward": h.reward})).collect();
    floats(json!({"episode_id": id, "hits": hits, "violation_reward": (sum * 1e6).round() / 1e6}))
}

/// The same with every number as a double: `1` and `1.0` are one number.
fn floats(value: Value) -> Value {
    match value {
        Value::Number(n) => json!(n.as_f64()),
        Value::Array(entries) => entries.into_iter().map(floats).collect(),
        Value::Object(entries) => entries.into_iter().map(|(k, v)| (k, floats(v))).collect(),
        other => other,
    }
}

async fn compare(name: &str, pack: &str) {
    let data = tempfile::tempdir().unwrap();
    let mut settings = Settings::defaults();
    settings.data = data.path().join("store");
    settings.listen.set_port(0);
    let running = grpc::start(&settings).await.unwrap_or_else(|e| panic!("{e}"));
    let channel = connect(&running.address().to_string()).await;
    let mut engine = PolicyEngineClient::new(channel.clone()).max_decoding_message_size(64 << 20);
    let expected: BTreeMap<String, Value> = lines(name, "expected.jsonl")
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|row| (row["episode_id"].as_str().unwrap().to_owned(), row))
        .collect();
    let episodes = lines(name, "episodes.jsonl");
    assert_eq!(episodes.len(), expected.len());

    for (place, line) in episodes.iter().enumerate() {
        let (id, bodies) = episode(line);
        let mut results = Vec::new();
        // One third as unary batches, one streamed in parts, one streamed item by item.
        if place % 3 == 0 {
            for ask in cut(&id, pack, &bodies, &mut sizes(place as u64)) {
                results.extend(engine.observe(ask).await.unwrap().into_inner().results);
            }
        } else {
            let mut ones = std::iter::repeat(1);
            let requests = if place % 3 == 1 {
                cut(&id, pack, &bodies, &mut sizes(place as u64))
            } else {
                cut(&id, pack, &bodies, &mut ones)
            };
            let mut answers = engine.observe_stream(stream::iter(requests)).await.unwrap().into_inner();
            while let Some(answer) = answers.next().await {
                results.extend(answer.unwrap().results);
            }
        }
        assert_eq!(results.len(), bodies.len());
        assert_eq!(verdict(&id, &results), floats(expected[&id].clone()), "{id}");
    }

    let ask = ScoreEpisodesRequest {
        pack: pack.to_owned(),
        episodes_json: episodes.iter().map(|line| Bytes::from(line.clone())).collect(),
        known_policies: Vec::new(),
    };
    let mut scorer = PolicyEngineClient::new(channel.clone()).max_decoding_message_size(64 << 20);
    // A request has a limit in bytes; a training loop sends parts.
    for part in ask.episodes_json.chunks(10) {
        let part = ScoreEpisodesRequest { pack: pack.to_owned(), episodes_json: part.to_vec(), ..ask.clone() };
        for score in scorer.score_episodes(part).await.unwrap().into_inner().scores {
            let wanted = &expected[&score.episode_id];
            assert_eq!(Some(score.violation_reward), wanted["violation_reward"].as_f64(), "{}", score.episode_id);
            let by_turn: f64 = score.turn_rewards.iter().sum();
            assert!((by_turn - score.violation_reward).abs() < 1e-6, "{}", score.episode_id);
        }
    }

    let ask = GetMetricsRequest { pack: pack.to_owned(), ..Default::default() };
    let metrics = AuditClient::new(channel).get_metrics(ask).await.unwrap().into_inner().metrics.unwrap();
    compare_metrics(name, &metrics);
    println!("{name}/episodes.jsonl: {} episodes compared over gRPC", episodes.len());
    assert!(running.shut_down().await.kept);
}

fn compare_metrics(name: &str, found: &Metrics) {
    let wanted: Value = serde_json::from_str(&fs::read_to_string(folder(name).join("metrics.json")).unwrap()).unwrap();
    let shown = json!({
        "episodes": found.episodes,
        "declared_policies": found.declared_policies,
        "implemented_policies": found.implemented_policies,
        "unsupported_policies": found.unsupported_policies,
        "covered_policies": found.covered_policies,
        "coverage": found.coverage,
        "raw_hits": found.raw_hits,
        "violation_yield_per_100_episodes": found.violation_yield_per_100_episodes,
        "distinct_episode_policy_hits": found.distinct_episode_policy_hits,
        "distinct_yield_per_100_episodes": found.distinct_yield_per_100_episodes,
        "episodes_with_hits": found.episodes_with_hits,
        "episodes_without_hits": found.episodes_without_hits,
        "episode_hit_fraction": found.episode_hit_fraction,
        "total_violation_reward": found.total_violation_reward,
        "raw_hits_by_policy": found.raw_hits_by_policy,
        "distinct_hits_by_policy": found.distinct_hits_by_policy,
    });
    for (key, value) in wanted.as_object().unwrap() {
        if key != "malformed" {
            assert_eq!(floats(shown[key].clone()), floats(value.clone()), "{name}: {key}");
        }
    }
    // Compared by episode and turn only, where the file says.
    let Some(wanted) = wanted["malformed"].as_array() else { return };
    let turns = |episodes: &[(String, Vec<u64>)]| -> BTreeMap<String, std::collections::BTreeSet<u64>> {
        episodes.iter().map(|(id, turns)| (id.clone(), turns.iter().copied().collect())).collect()
    };
    let found: Vec<(String, Vec<u64>)> = found
        .malformed
        .iter()
        .map(|e| (e.episode_id.clone(), e.reasons.iter().map(|r| u64::from(r.turn)).collect()))
        .collect();
    let wanted: Vec<(String, Vec<u64>)> = wanted
        .iter()
        .map(|e| {
            let turns = e["reasons"].as_array().unwrap().iter().map(|r| r["turn"].as_u64().unwrap()).collect();
            (e["episode_id"].as_str().unwrap().to_owned(), turns)
        })
        .collect();
    assert_eq!(turns(&found), turns(&wanted), "{name}: malformed");
}

#[tokio::test]
async fn traces_of_the_airline_over_grpc() {
    compare("airline", "airline").await;
}

#[tokio::test]
async fn traces_at_the_airline_boundaries_over_grpc() {
    compare("airline/edge", "airline").await;
}

#[tokio::test]
async fn traces_of_the_travel_desk_over_grpc() {
    compare("fixture12", "traveldesk").await;
}
