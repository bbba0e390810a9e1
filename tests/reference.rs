//! The language reference is true: every example in it compiles, and gives the verdicts that it shows.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

mod drawn;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use drawn::drawn;
use probity::{
    config::{Config, Given, SETTINGS, Setting},
    diag::Style,
    engine::{load_pack_files, run_tests},
    lang::builtin::{self, DependsOn},
    model::{Limit, Limits},
};

/// The fenced blocks of a text, with what stands after the fence.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(word)) => open = Some((word.trim().to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, body)), None) => {
                body.push_str(line);
                body.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// A test of a pack: its body, one level deeper, under a name.
fn as_test(body: &str) -> String {
    let indented: String = body.lines().map(|line| format!("    {line}\n")).collect();
    format!("tests:\n  - name: the example\n{indented}")
}

#[test]
fn every_example_of_the_reference_gives_what_it_shows() {
    let text = fs::read_to_string("grammar/README.md").unwrap();
    let blocks = blocks(&text);
    let (mut compiled, mut run) = (0, 0);
    let (mut keywords, mut tools, mut limits) = (String::new(), None, None);
    for (at, (word, body)) in blocks.iter().enumerate() {
        match word.as_str() {
            "keywords" => keywords = body.clone(),
            "tools" => tools = Some(body.clone()),
            "limits" => limits = Some(body.clone()),
            "policy" => {
                let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
                let manifest = "name: example\nversion: 1.0.0\nformat: 1\ndescription: x\nerrors: {prefix: Error}\n";
                let manifest = manifest.to_owned() + &limits.take().unwrap_or_default();
                files.insert("pack.yaml".into(), manifest.into_bytes());
                if body.contains("mentions") {
                    files.insert("keywords.yaml".into(), keywords.clone().into_bytes());
                }
                files.extend(tools.take().map(|tools| ("tools.yaml".into(), tools.into_bytes())));
                files.insert("policies/example.policy".into(), body.clone().into_bytes());
                if let Some((_, test)) = blocks.get(at + 1).filter(|(word, _)| word == "test") {
                    files.insert("tests/example.yaml".into(), as_test(test).into_bytes());
                }
                let loaded = load_pack_files(Path::new("example"), &files);
                let shown = loaded.diagnostics.render(&loaded.sources, Style::Plain);
                let pack = loaded.result.unwrap_or_else(|| panic!("{shown}\n{body}"));
                // Nobody copies an example that the checker complains of.
                assert!(shown.is_empty(), "{shown}\n{body}");
                compiled += 1;
                for result in run_tests(&pack).results {
                    assert!(result.faults.is_empty(), "{:?}\n{body}", result.faults);
                    run += 1;
                }
            }
            _ => {}
        }
    }
    println!("{compiled} examples compiled, {run} run");
    assert!(compiled >= 10 && run >= 10, "{compiled} examples compiled, {run} run");
}

/// The table of functions is the one that the program has. `UPDATE_FIXTURES=1` writes it.
#[test]
fn the_table_of_functions_is_that_of_the_program() {
    drawn("grammar/README.md", "functions", &builtin::reference());
}

/// The figures of the table of limits, and the settings of the server that it names.
#[test]
fn the_table_of_limits_is_that_of_the_program() {
    let text = fs::read_to_string("grammar/README.md").unwrap();
    for limit in Limit::ALL {
        let row = text.lines().find(|line| line.starts_with(&format!("| `{}` |", limit.key()))).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let flag = cells[2].trim_matches('`').trim_start_matches("--");
        assert_eq!(cells[3..5], [limit.default().to_string(), limit.most().to_string()], "{row}");
        let mut given = Given::default();
        assert!(given.set(flag, "1"), "{row}");
        let limits = Config::load(&given, [], None).unwrap().settings.limits;
        let mut expected = Limits::most();
        expected.set(limit, 1);
        assert_eq!(limits, expected, "{row}");
    }
}

/// The table of settings is the one that the program has. `UPDATE_FIXTURES=1` writes it.
#[test]
fn the_table_of_settings_is_that_of_the_program() {
    let row = |setting: &Setting| {
        let default = if setting.default.is_empty() { String::new() } else { format!("`{}`", setting.default) };
        format!("| `--{}` | {default} | {} |\n", setting.key, setting.help)
    };
    let rows: String = SETTINGS.iter().map(row).collect();
    drawn("docs/operations.md", "settings", &format!("| setting | default | |\n| --- | --- | --- |\n{rows}"));
}

/// A function is one sentence to whoever looks it up, and something that can be tried.
#[test]
fn every_function_says_what_it_does_and_shows_it() {
    for function in builtin::all() {
        assert!(function.doc.ends_with('.') && !function.doc.contains('|'), "{}", function.name);
        let shown = function.depends_on == DependsOn::Facts || !function.examples.is_empty();
        assert!(shown, "{} has no example", function.name);
    }
}

#[test]
fn the_examples_of_every_function_give_what_they_show() {
    let mut run = 0;
    for function in builtin::all() {
        for (expression, expected) in function.examples {
            // An example holds if it equals what it shows; unknown and absent values equal nothing.
            let condition = match *expected {
                "?" | "(absent)" => format!("not known({expression})"),
                value => format!("({expression}) == {value}"),
            };
            let policy = format!("policy P \"p\" {{ severity 1 on user deny if {condition} }}\n");
            let manifest = "name: example\nversion: 1.0.0\nformat: 1\ndescription: x\n";
            let test = as_test("messages:\n  - user: x\nexpect:\n  hits: {P: 0}\n");
            let files: BTreeMap<PathBuf, Vec<u8>> =
                [("pack.yaml", manifest.to_owned()), ("policies/p.policy", policy.clone()), ("tests/t.yaml", test)]
                    .into_iter()
                    .map(|(path, text)| (PathBuf::from(path), text.into_bytes()))
                    .collect();
            let loaded = load_pack_files(Path::new("example"), &files);
            let Some(pack) = loaded.result else {
                // An example of a wrong type is refused before it runs, which says as much.
                let codes: Vec<_> = loaded.diagnostics.sorted().iter().map(|d| d.code.text()).collect();
                assert_eq!(*expected, "?", "{expression}: {codes:?}");
                run += 1;
                continue;
            };
            for result in run_tests(&pack).results {
                assert!(result.faults.is_empty(), "{}: {expression} is not {expected}", function.name);
                run += 1;
            }
        }
    }
    assert!(run >= 15, "{run} examples");
    println!("{run} examples of functions run");
}
