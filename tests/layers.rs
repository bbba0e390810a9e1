//! Who may import whom: the layers and doors of ARCHITECTURE.md, held against the code.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The layers, low to high. A room imports itself and lower layers.
const LAYERS: [&[&str]; 9] = [
    &["model"],
    &["diag", "ingest", "config"],
    &["keywords", "redact"],
    &["lang", "drift", "reward"],
    &["pack"],
    &["engine", "audit", "telemetry"],
    &["service"],
    &["grpc", "scrape"],
    &["cli"],
];

/// Foreign crates that only some rooms may know: a format or a runtime has one door.
const DOORS: [(&str, &[&str]); 12] = [
    ("pest", &["lang"]),
    ("serde_yaml", &["pack"]),
    ("saphyr_parser", &["pack"]),
    ("sled", &["audit"]),
    ("tonic", &["grpc", "cli"]),
    ("prost", &["grpc", "cli"]),
    ("tokio", &["service", "grpc", "scrape", "cli"]),
    ("arc_swap", &["service"]),
    ("axum", &["scrape"]),
    ("prometheus_client", &["scrape"]),
    ("url", &["lang"]),
    ("chacha20poly1305", &["redact", "service"]),
];

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// The room of a file: the first folder or file name below `src`.
fn room(path: &Path) -> String {
    let below = path.strip_prefix("src").unwrap();
    below.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

/// Words that follow `prefix` anywhere in code; comments left out.
fn names_after<'t>(text: &'t str, prefix: &str) -> Vec<&'t str> {
    let mut names = Vec::new();
    for line in text.lines().filter(|l| !l.trim_start().starts_with("//")) {
        for (at, _) in line.match_indices(prefix) {
            let rest = &line[at + prefix.len()..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            names.push(&rest[..end]);
        }
    }
    names
}

/// Rooms named by `crate::room` or inside `use crate::{..}`.
fn imports(text: &str) -> Vec<String> {
    let mut found: Vec<String> = names_after(text, "crate::").into_iter().map(str::to_owned).collect();
    for (at, _) in text.match_indices("use crate::{") {
        let rest = &text[at + "use crate::{".len()..];
        let mut depth = 1;
        let mut word = String::new();
        let mut fresh = true;
        for c in rest.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            if depth == 1 && (c.is_alphanumeric() || c == '_') && fresh {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                found.push(std::mem::take(&mut word));
                fresh = false;
            }
            if depth == 1 && c == ',' {
                fresh = true;
            }
        }
        if !word.is_empty() {
            found.push(word);
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

#[test]
fn rooms_import_only_what_is_below_them() {
    let level: BTreeMap<&str, usize> =
        LAYERS.iter().enumerate().flat_map(|(i, rooms)| rooms.iter().map(move |r| (*r, i))).collect();
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files);
    let mut faults = Vec::new();
    for path in files {
        let room = room(&path);
        if matches!(room.as_str(), "lib" | "main") {
            continue;
        }
        let Some(own) = level.get(room.as_str()) else {
            faults.push(format!("{}: the room `{room}` is in no layer", path.display()));
            continue;
        };
        let text = fs::read_to_string(&path).unwrap();
        for import in imports(&text) {
            let Some(theirs) = level.get(import.as_str()) else { continue };
            let allowed = import == room || theirs < own;
            if !allowed {
                faults.push(format!("{}: `{room}` imports `{import}`", path.display()));
            }
        }
        for (krate, doors) in DOORS {
            let uses = text.lines().any(|line| {
                let line = line.trim_start();
                !line.starts_with("//")
                    && (line.contains(&format!("{krate}::")) || line.starts_with(&format!("use {krate}")))
                    && !line.contains(&format!("_{krate}::"))
            });
            if uses && !doors.contains(&room.as_str()) {
                faults.push(format!("{}: `{room}` knows `{krate}`", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
