//! The starter pack on traces: what it catches of injected instructions, what it misses, and what it says of traces
//! in which nobody attacks. The tables in the pack's README are drawn here; `UPDATE_FIXTURES=1` writes them there.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

mod drawn;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
};

use probity::{
    engine::{EpisodeOutcome, Pack, load_pack, run_episode},
    ingest::Episode,
    model::Effect,
};

use drawn::drawn;

const README: &str = "rules/starter/README.md";

fn pack() -> Arc<Pack> {
    load_pack(Path::new("rules/starter")).result.unwrap()
}

/// The episodes of a file, with their lines.
fn episodes(path: &str) -> Vec<(Episode, serde_json::Value)> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let read =
        |(n, line): (u64, &str)| (Episode::from_line(n, line.as_bytes()).unwrap(), serde_json::from_str(line).unwrap());
    (1u64..).zip(lines).map(read).collect()
}

/// The most that the pack says of an episode: `deny`, `review`, or nothing.
fn answer(outcome: &EpisodeOutcome) -> &'static str {
    let reviews = outcome.signals.iter().any(|s| s.effect == Effect::Review) || !outcome.undecided.is_empty();
    match (outcome.hits.is_empty(), reviews) {
        (false, _) => "deny",
        (true, true) => "review",
        (true, false) => "nothing",
    }
}

/// The policies that say something.
fn speaking(outcome: &EpisodeOutcome) -> BTreeSet<&str> {
    let hits = outcome.hits.iter().map(|h| h.firing.policy.as_ref());
    let signals = outcome.signals.iter().map(|s| s.firing.policy.as_ref());
    hits.chain(signals).chain(outcome.undecided.iter().map(|u| u.policy.as_ref())).collect()
}

fn injected() -> String {
    let pack = pack();
    let mut kinds: BTreeMap<String, [u32; 3]> = BTreeMap::new();
    let mut rows = String::new();
    for (episode, line) in episodes("examples/traces/injected.jsonl") {
        let outcome = run_episode(&pack, &episode);
        let answer = answer(&outcome);
        let place = ["deny", "review", "nothing"].iter().position(|a| *a == answer).unwrap();
        kinds.entry(line["kind"].as_str().unwrap().to_owned()).or_default()[place] += 1;
        let policies = speaking(&outcome).into_iter().collect::<Vec<_>>().join(", ");
        rows.push_str(&format!("| {} | {} | {answer} | {policies} |\n", episode.id, line["note"].as_str().unwrap()));
    }
    assert!(kinds.len() >= 5, "five kinds of attack at least");
    assert!(kinds.values().flatten().sum::<u32>() >= 30, "thirty traces at least");
    let mut out = "| kind | traces | denied | for review | missed |\n| --- | --: | --: | --: | --: |\n".to_owned();
    for (kind, [denied, review, missed]) in &kinds {
        out.push_str(&format!("| {kind} | {} | {denied} | {review} | {missed} |\n", denied + review + missed));
    }
    format!("{out}\n| trace | what happens | answer | by |\n| --- | --- | --- | --- |\n{rows}")
}

fn benign() -> String {
    let pack = pack();
    let mut out = "| trace | what happens | answer | by |\n| --- | --- | --- | --- |\n".to_owned();
    for (episode, line) in episodes("examples/traces/benign.jsonl") {
        let outcome = run_episode(&pack, &episode);
        let policies = speaking(&outcome).into_iter().collect::<Vec<_>>().join(", ");
        let note = line["note"].as_str().unwrap();
        out.push_str(&format!("| {} | {note} | {} | {policies} |\n", episode.id, answer(&outcome)));
    }
    out
}

fn airline() -> String {
    let pack = pack();
    let mut out = "| set | episodes | policy | turns |\n| --- | --: | --- | --: |\n".to_owned();
    let sets = ["tests/data/traces/airline/episodes.jsonl", "tests/data/traces/fewshot/airline.jsonl"];
    for (set, name) in sets.iter().zip(["airline", "few-shot"]) {
        let episodes = episodes(set);
        let mut turns: BTreeMap<String, u32> = BTreeMap::new();
        for (episode, _) in &episodes {
            let outcome = run_episode(&pack, episode);
            let hits = outcome.hits.iter().map(|h| h.firing.policy.to_string());
            let signals = outcome.signals.iter().map(|s| s.firing.policy.to_string());
            let undecided = outcome.undecided.iter().map(|u| format!("{} (undecided)", u.policy));
            hits.chain(signals).chain(undecided).for_each(|p| *turns.entry(p).or_default() += 1);
        }
        if turns.is_empty() {
            out.push_str(&format!("| {name} | {} | none | 0 |\n", episodes.len()));
        }
        for (policy, n) in turns {
            out.push_str(&format!("| {name} | {} | {policy} | {n} |\n", episodes.len()));
        }
    }
    out
}

#[test]
fn the_readme_says_what_is_caught_and_what_is_missed() {
    drawn(README, "injected", &injected());
    drawn(README, "benign", &benign());
    drawn(README, "traces", &airline());
}
