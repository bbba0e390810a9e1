//! One letter wrong in a key of a YAML file, or in the name of a category, fact, set, table, constant, definition or
//! function: whatever shipped pack it is in and wherever it stands, loading says so.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use probity::{engine::load_pack_files, lang::builtin};
use regex::Regex;
use serde_yaml::Value;

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn packs() -> Vec<(String, Files)> {
    let mut packs: Vec<(String, Files)> = fs::read_dir("rules")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("pack.yaml").exists())
        .map(|folder| (folder.file_name().unwrap().to_str().unwrap().to_owned(), files(&folder)))
        .collect();
    packs.sort();
    assert!(packs.len() >= 3);
    packs
}

/// The files of a pack, by their paths in it.
fn files(folder: &Path) -> Files {
    let mut found = Files::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "yaml" || e == "policy") {
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Whether loading the files has anything to say.
fn is_noticed(files: &Files) -> bool {
    !load_pack_files(Path::new("pack"), files).diagnostics.is_empty()
}

/// Two ways to get a word wrong: another letter in it, and one letter less.
fn misspelt(word: &str) -> Vec<String> {
    let middle = word.len() / 2;
    if !word.is_ascii() || word.is_empty() {
        return Vec::new();
    }
    let other = if word.as_bytes()[middle] == b'q' { 'x' } else { 'q' };
    let replaced = format!("{}{other}{}", &word[..middle], &word[middle + 1..]);
    let shorter = format!("{}{}", &word[..middle], &word[middle + 1..]);
    [replaced, shorter].into_iter().filter(|w| !w.is_empty()).collect()
}

/// Where a key stands, list places left out: `tests.messages.call`.
type Place = Vec<String>;

/// Every document that differs from this one in one letter of one key. `is_data` says of a place whether what lies
/// below it belongs to somebody else: arguments of a tool, say.
fn with_a_key_misspelt(
    value: &Value,
    place: &mut Place,
    is_data: &dyn Fn(&Place) -> bool,
    each: &mut dyn FnMut(&Place, &str, Value),
) {
    if is_data(place) {
        return;
    }
    match value {
        Value::Mapping(map) => {
            for (key, inner) in map {
                let Some(name) = key.as_str() else { continue };
                for wrong in misspelt(name).into_iter().filter(|w| !map.contains_key(w.as_str())) {
                    // In the same order: only the one letter differs.
                    let changed = map
                        .iter()
                        .map(|(k, v)| (if k == key { Value::String(wrong.clone()) } else { k.clone() }, v.clone()));
                    each(place, name, Value::Mapping(changed.collect()));
                }
                place.push(name.to_owned());
                with_a_key_misspelt(inner, place, is_data, &mut |at, name, changed| {
                    let mut whole = map.clone();
                    whole.insert(key.clone(), changed);
                    each(at, name, Value::Mapping(whole));
                });
                place.pop();
            }
        }
        Value::Sequence(items) => {
            for (n, inner) in items.iter().enumerate() {
                with_a_key_misspelt(inner, place, is_data, &mut |at, name, changed| {
                    let mut whole = items.clone();
                    whole[n] = changed;
                    each(at, name, Value::Sequence(whole));
                });
            }
        }
        _ => {}
    }
}

/// The short forms of messages in tests. Other keys of a message are the trace's, whose format allows any.
const SHORT_FORMS: [&str; 7] = ["system", "user", "assistant", "call", "calls", "result", "time"];

/// What belongs to a trace or an answer and not to the pack.
fn is_data(file: &Path, place: &Place) -> bool {
    let place: Vec<&str> = place.iter().map(String::as_str).collect();
    let data = matches!(
        place.as_slice(),
        ["tests", "messages", _, ..]
            | ["answers", _, ..]
            | ["drift", "probes", "judge", ..]
            | ["redaction", "payload" | "gives", ..]
    );
    file.starts_with("tests") && data
}

#[test]
fn a_misspelt_key_of_a_yaml_file_is_noticed() {
    let mut tried = 0;
    for (pack, files) in packs() {
        let yaml = files.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "yaml"));
        for (path, text) in yaml {
            let document: Value = serde_yaml::from_slice(text).unwrap();
            let mut seen: BTreeSet<(Place, String)> = BTreeSet::new();
            with_a_key_misspelt(
                &document,
                &mut Vec::new(),
                &|place| is_data(path, place),
                &mut |place, key, changed| {
                    // Tests repeat the same few keys: each is tried once at each kind of place.
                    let in_tests = path.starts_with("tests");
                    let of_trace = place.last().is_some_and(|p| p == "messages") && !SHORT_FORMS.contains(&key);
                    let repeated = !seen.insert((place.clone(), key.to_owned()));
                    if in_tests && (of_trace || repeated) {
                        return;
                    }
                    let mut files = files.clone();
                    files.insert(path.clone(), serde_yaml::to_string(&changed).unwrap().into_bytes());
                    assert!(is_noticed(&files), "{pack}/{}: `{key}` in {place:?} can be misspelt", path.display());
                    tried += 1;
                },
            );
        }
    }
    println!("{tried} misspelt keys, each noticed");
    assert!(tried > 200, "only {tried} were tried");
}

/// The names that a pack declares, and those of the language's functions.
fn names(files: &Files) -> BTreeSet<String> {
    let declared = Regex::new(r"(?m)^\s*(?:set|table|const|fact|def)\s+(\w+)").unwrap();
    let mut names: BTreeSet<String> = builtin::all().map(|b| b.name.to_owned()).collect();
    for (path, text) in files {
        let text = std::str::from_utf8(text).unwrap();
        if path.extension().is_some_and(|e| e == "policy") {
            names.extend(declared.captures_iter(text).map(|c| c[1].to_owned()));
        }
        if path == Path::new("keywords.yaml") {
            let document: Value = serde_yaml::from_str(text).unwrap();
            let categories = document["categories"].as_mapping().unwrap();
            names.extend(categories.keys().map(|name| name.as_str().unwrap().to_owned()));
        }
    }
    names
}

/// The places of a name in a policy file: as a word, outside of texts, patterns and comments; no field, and no column
/// of a table, which is called as its author likes.
fn places(text: &str, name: &str) -> Vec<usize> {
    let masked = [
        r#""(?:[^"\\\n]|\\.)*""#,
        r"#.*$",
        r"\bmatches\s+/(?:[^/\\\n]|\\.)+/",
        r",\s*/(?:[^/\\\n]|\\.)+/",
        r"\([\w\s,]*\)\s*=\s*\{",
    ];
    let masked = Regex::new(&format!("(?m){}", masked.join("|"))).unwrap();
    let hidden: Vec<(usize, usize)> = masked.find_iter(text).map(|m| (m.start(), m.end())).collect();
    let word = Regex::new(&format!(r"\b{}\b", regex::escape(name))).unwrap();
    word.find_iter(text)
        .map(|m| m.start())
        .filter(|at| !hidden.iter().any(|(start, end)| (start..end).contains(&at)))
        .filter(|at| !text[..*at].ends_with('.'))
        .collect()
}

#[test]
fn a_misspelt_name_in_a_policy_is_noticed() {
    let mut tried = 0;
    for (pack, files) in packs() {
        let names = names(&files);
        let is_function: BTreeSet<&str> = builtin::all().map(|b| b.name).collect();
        for (path, text) in files.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "policy")) {
            let text = std::str::from_utf8(text).unwrap();
            for name in &names {
                for at in places(text, name) {
                    let after = text[at + name.len()..].trim_start();
                    // A function is one where it is called: `time` is a field of events as well.
                    if is_function.contains(name.as_str()) && !after.starts_with('(') {
                        continue;
                    }
                    for wrong in misspelt(name).into_iter().filter(|w| !names.contains(w)) {
                        let changed = format!("{}{wrong}{}", &text[..at], &text[at + name.len()..]);
                        let mut files = files.clone();
                        files.insert(path.clone(), changed.into_bytes());
                        let line = text[..at].lines().count();
                        assert!(
                            is_noticed(&files),
                            "{pack}/{}:{line}: `{name}` can be written `{wrong}`",
                            path.display()
                        );
                        tried += 1;
                    }
                }
            }
        }
    }
    println!("{tried} misspelt names, each noticed");
    assert!(tried > 100, "only {tried} were tried");
}
