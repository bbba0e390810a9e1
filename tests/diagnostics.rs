//! Every folder of `tests/fixtures/broken` holds a `pack` with exactly one mistake, and beside it what a person is
//! told about it, in `expected.txt`. `UPDATE_FIXTURES=1` writes these files; read the difference before committing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{fs, path::Path};

use probity::{diag::Style, engine::load_pack};

#[test]
fn every_broken_pack_says_what_is_wrong_and_nothing_else() {
    // Relative, so that names in the output do not depend on where the project lies.
    let root = Path::new("tests/fixtures/broken");
    let update = std::env::var_os("UPDATE_FIXTURES").is_some();
    let mut names: Vec<String> =
        fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let mut failures = Vec::new();
    for name in &names {
        let folder = root.join(name);
        let loaded = load_pack(&folder.join("pack"));
        let text = loaded.diagnostics.render(&loaded.sources, Style::Plain);
        let expected = folder.join("expected.txt");
        if update {
            fs::write(&expected, &text).unwrap();
        }
        let (errors, _) = loaded.diagnostics.counts();
        assert!(loaded.result.is_none() || errors == 0, "{name} loads in spite of an error");
        if errors != 1 {
            failures.push(format!("{name}: {errors} errors instead of one\n{text}"));
        }
        let expected = fs::read_to_string(&expected).unwrap_or_default();
        if expected != text {
            failures.push(format!("{name}: expected\n{expected}\nbut found\n{text}"));
        }
    }
    assert!(names.len() >= 40, "only {} fixtures were found", names.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("{} broken packs, each with its one error", names.len());
}
