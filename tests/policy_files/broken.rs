//! Fixtures: a broken policy file and exactly what a person is told about it.
//!
//! `tests/fixtures/broken_policies/NAME.policy` has one mistake, `NAME.txt` is the text that it gives.
//! `UPDATE_FIXTURES=1` writes the texts anew; read them before they are kept.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use probity::diag::{Code, Diagnostic, Severity, Style};

use super::read;

/// Every fixture, by name.
fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/broken_policies");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "policy"));
    files.sort();
    files
}

/// The diagnostics of a fixture, and their text.
fn told(path: &Path) -> (Vec<Diagnostic>, String) {
    let text = fs::read_to_string(path).unwrap();
    let (_, problems, sources) = read(path.file_name().unwrap().to_str().unwrap(), &text);
    let shown = problems.render(&sources, Style::Plain);
    (problems.sorted().into_iter().cloned().collect(), shown)
}

#[test]
fn each_mistake_is_told_in_these_words() {
    let update = std::env::var_os("UPDATE_FIXTURES").is_some();
    let mut different = Vec::new();
    for path in fixtures() {
        let (_, shown) = told(&path);
        let expected = path.with_extension("txt");
        if update {
            fs::write(&expected, &shown).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != shown {
            different.push(format!("{}\n{shown}", path.display()));
        }
    }
    assert!(different.is_empty(), "{} differ:\n\n{}", different.len(), different.join("\n"));
}

#[test]
fn one_mistake_is_told_once() {
    let mut chains = Vec::new();
    for path in fixtures() {
        let (problems, shown) = told(&path);
        // A name that says `several` holds several mistakes, to show that none hides another.
        let several = path.file_stem().unwrap().to_str().unwrap().starts_with("several");
        if problems.is_empty() || (problems.len() > 1 && !several) {
            chains.push(format!("{}\n{shown}", path.display()));
        }
    }
    assert!(chains.is_empty(), "{} have not one:\n\n{}", chains.len(), chains.join("\n"));
}

#[test]
fn every_code_about_policies_has_a_fixture() {
    let shown: BTreeSet<Code> = fixtures().iter().flat_map(|path| told(path).0).map(|problem| problem.code).collect();
    let expected = Code::ALL.iter().filter(|code| ("P0200".."P0500").contains(&code.text()));
    let missing: Vec<&str> = expected.filter(|code| !shown.contains(code)).map(|code| code.text()).collect();
    assert_eq!(
        missing,
        ["P0322", "P0323", "P0324"],
        "codes without a fixture; these are about tools.yaml and `extends`"
    );
}

#[test]
fn texts_are_plain() {
    for path in fixtures() {
        let (problems, _) = told(&path);
        for problem in problems {
            let texts = [&problem.message, &problem.primary.text].into_iter().chain(&problem.help);
            for text in texts {
                assert!(!text.ends_with('.') || text.ends_with(".."), "{}: {text}", path.display());
                assert!(!text.contains("_expr") && !text.contains("Rule::"), "{}: {text}", path.display());
            }
            assert!(problem.severity == Severity::Warning || problem.code.text() < "P0400", "{}", problem.message);
        }
    }
}
