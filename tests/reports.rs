//! What commands say of rules, word by word: each is run on the packs and traces in `tests/fixtures/reports`, and its
//! output held to a file there. `UPDATE_FIXTURES=1` writes these files; read the difference before committing.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

mod command;

use std::fs;

use command::probity;

const FOLDER: &str = "tests/fixtures/reports";

/// Name of the expected output, exit code, arguments. `BEFORE`, `AFTER` and `TRACE` stand for what is in the folder.
const REPORTS: [(&str, i32, &str); 16] = [
    ("diff.txt", 0, "diff BEFORE AFTER"),
    ("diff_trace.txt", 0, "diff BEFORE AFTER --trace TRACE"),
    ("diff_trace.json", 0, "diff BEFORE AFTER --trace TRACE --format json"),
    ("diff_back.txt", 0, "diff AFTER BEFORE"),
    ("diff_none.txt", 0, "diff AFTER AFTER --trace TRACE"),
    ("explain.txt", 0, "explain AFTER"),
    ("explain_policy.txt", 0, "explain AFTER OWNER"),
    ("explain_policy.json", 0, "explain AFTER OWNER --format json"),
    ("explain_trace.txt", 0, "explain AFTER OWNER --trace TRACE"),
    ("explain_trace.json", 0, "explain AFTER TWICE --trace TRACE --format json"),
    ("check_trace.txt", 0, "check AFTER --trace TRACE"),
    ("check_against.txt", 1, "check BEFORE --against AFTER"),
    ("check_against.sarif", 1, "check BEFORE --against AFTER --format sarif"),
    ("test_coverage.txt", 0, "test BEFORE --coverage"),
    ("test_coverage.json", 0, "test BEFORE --coverage --format json"),
    ("test_failing.xml", 1, "test AFTER --format junit"),
];

#[test]
fn commands_say_what_they_must_say() {
    let update = std::env::var_os("UPDATE_FIXTURES").is_some();
    let mut different = Vec::new();
    for (name, code, arguments) in REPORTS {
        let places = [("BEFORE", "before"), ("AFTER", "after"), ("TRACE", "trace.jsonl")];
        let arguments: Vec<String> = arguments
            .split(' ')
            .map(|word| match places.iter().find(|(place, _)| *place == word) {
                Some((_, path)) => format!("{FOLDER}/{path}"),
                None => word.to_owned(),
            })
            .collect();
        let ran = probity(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), "");
        assert_eq!(ran.code, code, "{arguments:?}\n{}{}", ran.out, ran.err);
        let found = if name.ends_with("json") || name.ends_with("sarif") { pretty(ran.lines()) } else { ran.out };
        let path = format!("{FOLDER}/{name}");
        if update {
            fs::write(&path, &found).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != found {
            different.push(format!("{path}\n{found}"));
        }
    }
    assert!(different.is_empty(), "{} differ:\n\n{}", different.len(), different.join("\n"));
}

/// JSON, one document a line, as a person can compare it; the version of the program is of no interest here.
fn pretty(documents: Vec<serde_json::Value>) -> String {
    let documents = documents.into_iter().map(|mut value| {
        if let Some(version) = value.pointer_mut("/runs/0/tool/driver/version") {
            *version = "VERSION".into();
        }
        format!("{}\n", serde_json::to_string_pretty(&value).unwrap())
    });
    documents.collect()
}
