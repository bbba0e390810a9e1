//! The golden vectors of the drift half, row by row.
//!
//! Reads every `*.jsonl` of the folder that `PROBITY_VECTORS` names (default `tests/data/vectors`).
//! `ideal` wins over `expected`. Rows are compared under settings that hold the reference's numbers
//! and, where the shipped default differs by a switch, the reference's behaviour; the better
//! behaviour has tests of its own beside the code and in `better.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod better;
mod cycles;
mod laws;
mod leaks;
mod parity;
mod raw;
mod redaction;
mod row;
mod scoring;
mod secrets;
mod sessions;

use std::{fmt::Write, path::PathBuf};

use row::Row;

type Check = fn(&Row) -> Result<(), String>;

/// Which function compares the rows of a file; none if that part is not built.
fn check_of(name: &str) -> Option<Check> {
    Some(match name {
        "compare_score" => scoring::compare_score,
        "validate" => scoring::validate,
        "triangulate" => scoring::triangulate,
        "isolation" => scoring::isolation,
        "residual" => scoring::residual,
        "stats" => scoring::stats,
        "readout" => raw::readout,
        "messages" => cycles::messages,
        "pipeline" => cycles::pipeline,
        "redact" => redaction::redact,
        "sessions" => sessions::sessions,
        "report" => sessions::report,
        "report_escape" => sessions::report_escape,
        "scheduler" => sessions::scheduler,
        "scheduler_trigger" => sessions::scheduler_trigger,
        "integration" => sessions::integration,
        _ => return None,
    })
}

fn folder() -> PathBuf {
    std::env::var_os("PROBITY_VECTORS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/vectors"), PathBuf::from)
}

#[test]
fn vectors_every_row_of_every_file() {
    let folder = folder();
    let mut names: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no *.jsonl in {}", folder.display());
    let mut failures = String::new();
    for path in names {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let rows = Row::read_all(&path);
        if rows.is_empty() {
            writeln!(failures, "{name}: empty file").unwrap();
            continue;
        }
        let Some(check) = check_of(&name) else {
            println!("skipped {name} {}", rows.len());
            continue;
        };
        let mut failed = 0;
        for row in &rows {
            if let Err(why) = check(row) {
                failed += 1;
                if failed <= 12 {
                    writeln!(failures, "{name} {}: {why}", row.id).unwrap();
                }
            }
        }
        println!("compared {name} {} ({failed} differ)", rows.len());
        if failed > 12 {
            writeln!(failures, "{name}: {failed} of {} rows differ", rows.len()).unwrap();
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}
