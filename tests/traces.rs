//! Whole traces with the verdicts, rewards and sums that they must have.
//!
//! The folder named by `PROBITY_TRACES` (default `tests/data/traces`) holds `airline/`,
//! `airline/edge/` and `fixture12/`, each with `episodes.jsonl`, `expected.jsonl` and perhaps
//! `malformed.jsonl` (which holds undecided and malformed turns together and may be empty; where it is
//! missing, the key `malformed` of `metrics.json` says the same).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod judges;
mod naive;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use judges::{Judge, ListedHit, data_folder, engine, interpreter, lines};
use probity::{
    engine::{load_pack, run_episode},
    ingest::Episode,
    model::{Malformed, Num, Turn, Value, json},
    pack::read_pack,
};

/// What is expected of an episode.
#[derive(Debug, PartialEq)]
struct Expected {
    hits: Vec<ListedHit>,
    sum: Num,
}

fn naive_judge(pack: &str) -> Box<dyn Judge> {
    Box::new(interpreter(read_pack(&Path::new("rules").join(pack))))
}

fn engine_judge(pack: &str) -> Box<dyn Judge> {
    Box::new(engine(load_pack(&Path::new("rules").join(pack))))
}

fn number(value: &Value) -> Num {
    match value {
        Value::Number(n) => *n,
        other => panic!("{other} is no number"),
    }
}

fn whole(value: &Value) -> u32 {
    u32::try_from(number(value).as_whole().unwrap()).unwrap()
}

fn key<'v>(row: &'v Value, name: &str) -> &'v Value {
    row.get(name).unwrap_or_else(|| panic!("no {name}"))
}

fn expected(folder: &Path) -> BTreeMap<String, Expected> {
    let read = |line: String| {
        let row = json::parse(line.as_bytes()).unwrap();
        let hits = key(&row, "hits").as_list().unwrap().iter().map(|hit| ListedHit {
            turn: whole(key(hit, "turn")),
            policy: key(hit, "policy").as_str().unwrap().to_owned(),
            n: whole(key(hit, "n")),
            reward: number(key(hit, "reward")),
        });
        let id = key(&row, "episode_id").as_str().unwrap().to_owned();
        (id, Expected { hits: hits.collect(), sum: number(key(&row, "violation_reward")) })
    };
    lines(&folder.join("expected.jsonl")).into_iter().map(read).collect()
}

/// Turns with undecided or malformed entries, by episode; none if the folder does not say.
fn open_turns(folder: &Path) -> Option<BTreeMap<String, BTreeSet<Turn>>> {
    let rows: Vec<Value> = match fs::read_to_string(folder.join("malformed.jsonl")) {
        Ok(text) => {
            let lines = text.lines().filter(|l| !l.trim().is_empty());
            lines.map(|line| json::parse(line.as_bytes()).unwrap()).collect()
        }
        Err(_) => {
            let metrics = json::parse(&fs::read(folder.join("metrics.json")).ok()?).unwrap();
            metrics.get("malformed")?.as_list().unwrap().to_vec()
        }
    };
    let mut open: BTreeMap<String, BTreeSet<Turn>> = BTreeMap::new();
    for row in rows {
        let reasons = key(&row, "reasons").as_list().unwrap();
        let turns = reasons.iter().map(|reason| whole(key(reason, "turn")));
        open.entry(key(&row, "episode_id").as_str().unwrap().to_owned()).or_default().extend(turns);
    }
    Some(open)
}

/// Runs every episode of a folder through a pack and lists what differs.
fn compare(name: &str, judge: &dyn Judge) {
    let folder = data_folder("PROBITY_TRACES", "tests/data/traces").join(name);
    let mut expected = expected(&folder);
    let open = open_turns(&folder);
    let (mut compared, mut wrong) = (0, Vec::new());
    for (line, number) in lines(&folder.join("episodes.jsonl")).iter().zip(1..) {
        let episode = Episode::from_line(number, line.as_bytes()).unwrap();
        let found = judge.judge(&episode.messages);
        let sum = found.hits.iter().try_fold(Num::ZERO, |sum, hit| sum.add(hit.reward)).unwrap();
        let id = episode.id;
        let wanted = expected.remove(&id).unwrap_or_else(|| panic!("nothing is expected of {id}"));
        compared += 1;
        let found_hits = Expected { hits: found.hits, sum };
        if found_hits != wanted {
            wrong.push(format!("{id}: found {found_hits:?}\n  expected {wanted:?}"));
        }
        if let Some(open) = &open {
            let wanted = open.get(&id).cloned().unwrap_or_default();
            if found.open != wanted {
                wrong.push(format!("{id}: undecided or malformed {:?}, expected {wanted:?}", found.open));
            }
        }
    }
    println!("{name}/episodes.jsonl: {compared} episodes compared by the {}", judge.name());
    assert!(expected.is_empty(), "{name}: no episode for {:?}", expected.keys());
    assert!(wrong.is_empty(), "{} differences in {name}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn traces_of_the_airline_by_the_engine() {
    compare("airline", &*engine_judge("airline"));
}

#[test]
fn traces_of_the_airline_by_the_naive_interpreter() {
    compare("airline", &*naive_judge("airline"));
}

#[test]
fn traces_at_the_airline_boundaries_by_the_engine() {
    compare("airline/edge", &*engine_judge("airline"));
}

#[test]
fn traces_at_the_airline_boundaries_by_the_naive_interpreter() {
    compare("airline/edge", &*naive_judge("airline"));
}

#[test]
fn traces_of_the_travel_desk_by_the_engine() {
    compare("fixture12", &*engine_judge("traveldesk"));
}

#[test]
fn traces_of_the_travel_desk_by_the_naive_interpreter() {
    compare("fixture12", &*naive_judge("traveldesk"));
}

/// Hits with their messages and evidence, undecided policies and malformed turns: on traces of the
/// field both evaluators say the same.
#[test]
fn traces_are_explained_alike() {
    for (pack, name) in [("airline", "airline"), ("airline", "airline/edge"), ("traveldesk", "fixture12")] {
        let folder = Path::new("rules").join(pack);
        let (naive, engine) = (interpreter(read_pack(&folder)), engine(load_pack(&folder)));
        let file = data_folder("PROBITY_TRACES", "tests/data/traces").join(name).join("episodes.jsonl");
        for (line, number) in lines(&file).iter().zip(1..) {
            let episode = Episode::from_line(number, line.as_bytes()).unwrap();
            let (expected, found) = (naive.report(&episode.messages), run_episode(&engine, &episode));
            assert_eq!(found.hits, expected.hits, "{}", episode.id);
            assert_eq!(found.signals, expected.signals, "{}", episode.id);
            let undecided: Vec<_> = found.undecided.iter().map(|u| (u.turn, u.policy.clone())).collect();
            assert_eq!(undecided, expected.undecided, "{}", episode.id);
            let turns = |malformed: &[Malformed]| malformed.iter().map(|m| m.turn).collect::<Vec<_>>();
            assert_eq!(turns(&found.malformed), turns(&expected.malformed), "{}", episode.id);
        }
    }
}
