//! The canonical layout: of every file that the project ships, and of examples with their expected layout.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use probity::{
    diag::{Sources, Style},
    lang::{FormatError, format_policies, parse, print_item},
};

fn formatted(path: &Path, text: &str) -> String {
    let mut sources = Sources::new();
    let file = sources.add(path.display().to_string(), text);
    match format_policies(file, text) {
        Ok(formatted) => formatted,
        Err(FormatError::Broken(problems)) => panic!("{}", problems.render(&sources, Style::Plain)),
        Err(e) => panic!("{}: {e}", path.display()),
    }
}

fn policy_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "policy") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// What the declarations of a text say, one after the other.
fn meaning(text: &str) -> Vec<String> {
    let (module, _) = parse(Sources::new().add("x", ""), text);
    module.items.iter().map(print_item).collect()
}

/// Words of comments, wherever they stand.
fn comments(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.trim().strip_prefix('#')).map(str::trim).collect()
}

#[test]
fn shipped_files_are_formatted() {
    let mut files = policy_files(Path::new("rules"));
    files.push("src/cli/init/main.policy".into());
    assert!(files.len() > 10, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(formatted(&path, &text), text, "run `probity fmt {}`", path.display());
    }
}

#[test]
fn a_layout_says_the_same_and_is_its_own_layout() {
    let mut files: Vec<PathBuf> =
        ["rules", "tests/data", "tests/fixtures/format"].into_iter().map(Path::new).flat_map(policy_files).collect();
    files.push("src/cli/init/main.policy".into());
    assert!(files.len() > 40, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let once = formatted(&path, &text);
        assert_eq!(meaning(&once), meaning(&text), "{}", path.display());
        assert_eq!(formatted(&path, &once), once, "{}", path.display());
        assert_eq!(comments(&once), comments(&text), "{}", path.display());
    }
}

/// `tests/fixtures/format` holds files as somebody wrote them, and beside each what becomes of it.
#[test]
fn layouts_are_as_expected() {
    let files = policy_files(Path::new("tests/fixtures/format"));
    assert!(!files.is_empty());
    for path in files {
        let found = formatted(&path, &fs::read_to_string(&path).unwrap());
        let expected = path.with_extension("formatted");
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            fs::write(&expected, &found).unwrap();
        }
        assert_eq!(
            found,
            fs::read_to_string(&expected).unwrap(),
            "{}: read the difference, then run with UPDATE_FIXTURES=1",
            path.display()
        );
    }
}

#[test]
fn a_broken_file_is_refused() {
    for text in ["policy P \"x\" { severity 1 on call pay deny if }\n", "set a = { b\n", "def f() = g(\n# x\n"] {
        let file = Sources::new().add("x", text);
        assert!(
            matches!(format_policies(file, text), Err(FormatError::Broken(problems)) if problems.has_errors()),
            "{text}"
        );
    }
}
