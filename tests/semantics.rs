//! Rules in one plain sentence each, with small traces and the verdicts that they must have.
//!
//! The folder named by `PROBITY_SEMANTICS` (default `tests/data/semantics`) holds `cases.jsonl`; the
//! policy of a row stands in the project, at `tests/data/semantics/policies/ID.policy`.

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
    path::{Path, PathBuf},
    sync::Arc,
};

use judges::{Judge, data_folder, engine, interpreter, lines};
use probity::{
    diag::{Code, Style},
    engine::load_pack_files,
    ingest::Messages,
    model::{Turn, Value, json},
    pack::read_pack_files,
};

const OWN: &str = "tests/data/semantics";
const POLICIES: &str = "tests/data/semantics/policies";

const PACK: &str = "name: cases\nversion: 1.0.0\nformat: 1\nerrors: { prefix: Error }\n";

/// The files of a pack, by their paths in it.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Makes a judge of a pack.
type Ready = fn(&Path, &Files) -> Box<dyn Judge>;

fn naive_judge(shown: &Path, files: &Files) -> Box<dyn Judge> {
    Box::new(interpreter(read_pack_files(shown, files)))
}

fn engine_judge(shown: &Path, files: &Files) -> Box<dyn Judge> {
    let loaded = load_pack_files(shown, files);
    // Each rule means what it says: the checker finds nothing, but that most need few of the categories.
    let told = loaded.diagnostics.sorted().into_iter().find(|problem| problem.code != Code::Unused);
    assert!(told.is_none(), "{}", loaded.diagnostics.render(&loaded.sources, Style::Plain));
    Box::new(engine(loaded))
}

/// A pack of one policy file.
fn files(policy: &Path) -> Files {
    let keywords = Path::new(POLICIES).join("keywords.yaml");
    BTreeMap::from([
        (PathBuf::from("pack.yaml"), PACK.as_bytes().to_vec()),
        (PathBuf::from("keywords.yaml"), fs::read(keywords).unwrap()),
        (PathBuf::from("policies/case.policy"), fs::read(policy).unwrap()),
    ])
}

fn policy_of(id: &str) -> PathBuf {
    Path::new(POLICIES).join(format!("{id}.policy"))
}

fn turns(trace: &Value, key: &str) -> BTreeSet<Turn> {
    let list = trace.get(key).and_then(Value::as_list).unwrap_or_else(|| panic!("{key} is no list"));
    list.iter()
        .map(|turn| match turn {
            Value::Number(n) => Turn::try_from(n.as_whole().unwrap()).unwrap(),
            other => panic!("{other} is no turn"),
        })
        .collect()
}

fn text<'v>(row: &'v Value, key: &str) -> &'v str {
    row.get(key).and_then(Value::as_str).unwrap_or_else(|| panic!("{key} is no string"))
}

/// Runs every trace of every row and lists what differs.
fn compare(ready: Ready) {
    let folder = data_folder("PROBITY_SEMANTICS", OWN);
    let (mut rows, mut traces, mut wrong, mut skipped) = (0, 0, Vec::new(), BTreeSet::new());
    for line in lines(&folder.join("cases.jsonl")) {
        let row = json::parse(line.as_bytes()).unwrap();
        let id = text(&row, "id");
        if !policy_of(id).exists() {
            println!("skipped {id}");
            skipped.insert(id.to_owned());
            continue;
        }
        rows += 1;
        let judge = ready(Path::new(id), &files(&policy_of(id)));
        for trace in row.get("traces").and_then(Value::as_list).unwrap() {
            traces += 1;
            let messages = trace.get("messages").and_then(Value::as_list).unwrap();
            let found = judge.judge(&Messages::List(Arc::from(messages)));
            let hits: BTreeSet<Turn> =
                found.hits.iter().map(|h| h.turn).chain(found.signals.iter().map(|(turn, _)| *turn)).collect();
            let open: BTreeSet<Turn> = turns(trace, "undecided").union(&turns(trace, "malformed")).copied().collect();
            if hits != turns(trace, "hits") || found.open != open {
                wrong.push(format!(
                    "{} {}: hits {hits:?}, expected {:?}; undecided or malformed {:?}, expected {open:?}",
                    text(trace, "episode_id"),
                    text(trace, "name"),
                    turns(trace, "hits"),
                    found.open,
                ));
            }
        }
    }
    println!("cases.jsonl: {rows} rows, {traces} traces compared");
    if folder == Path::new(OWN) {
        assert_eq!(skipped, BTreeSet::new(), "every row has its policy");
    }
    assert!(wrong.is_empty(), "{} of {traces} traces differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn semantics_of_the_engine() {
    compare(engine_judge);
}

#[test]
fn semantics_of_the_naive_interpreter() {
    compare(naive_judge);
}
