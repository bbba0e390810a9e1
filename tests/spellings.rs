//! Odd spellings of a keyword against each way of normalising: what is caught and what is not. The table that
//! this draws is the one in the language's reference; `UPDATE_FIXTURES=1` writes it there.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

mod drawn;

use drawn::drawn;
use probity::keywords::{Categories, CategorySpec, MatchMode, Step, Steps};

/// Columns: what `normalize` lists.
const WAYS: [(&str, &[Step]); 6] = [
    ("nothing", &[]),
    ("`ascii_case`", &[Step::AsciiCase]),
    ("`case`, `nfkc`", &[Step::Case, Step::Nfkc]),
    ("`ignorables`", &[Step::Ignorables]),
    ("`confusables`", &[Step::Confusables]),
    ("all of them", &[Step::Case, Step::Nfkc, Step::Confusables, Step::Ignorables]),
];

/// Rows: spellings of `wire money`.
const SPELLINGS: [(&str, &str); 15] = [
    ("as it is", "wire money"),
    ("in capitals", "WIRE Money"),
    ("several blanks, a line break", "wire \u{a0}\n money"),
    ("full-width letters", "\u{ff57}\u{ff49}\u{ff52}\u{ff45} money"),
    ("mathematical bold", "\u{1d430}\u{1d422}\u{1d42b}\u{1d41e} money"),
    ("a Cyrillic е in it", "wir\u{435} money"),
    ("Greek and Cyrillic look-alikes, in capitals", "WIR\u{395} \u{39c}\u{41e}N\u{415}Y"),
    ("a zero-width space in a word", "wi\u{200b}re money"),
    ("a soft hyphen in a word", "wire mo\u{ad}ney"),
    ("a tag character in a word", "wire mon\u{e0065}ey"),
    ("a digit for a letter", "wire m0ney"),
    ("a hyphen between the words", "wire-money"),
    ("spaced out", "w i r e  m o n e y"),
    ("an accent over a letter", "wire m\u{f3}ney"),
    ("backwards", "yenom eriw"),
];

fn categories(steps: &[Step]) -> Categories {
    let steps = steps.iter().fold(Steps::default(), |so_far, step| so_far.with(*step));
    let spec = CategorySpec {
        name: "transfer".to_owned(),
        mode: MatchMode::Word,
        steps,
        terms: vec!["wire money".to_owned()],
        ..CategorySpec::default()
    };
    Categories::compile(&[spec]).unwrap()
}

fn table() -> String {
    let ways: Vec<Categories> = WAYS.iter().map(|(_, steps)| categories(steps)).collect();
    let names: Vec<&str> = WAYS.iter().map(|(name, _)| *name).collect();
    let mut table = format!("| `wire money`, {} | {} |\n", "written", names.join(" | "));
    table.push_str(&format!("| --- |{}\n", " :-: |".repeat(WAYS.len())));
    for (what, text) in SPELLINGS {
        let caught = ways.iter().map(|c| if c.mentions(text, c.id("transfer").unwrap()) { "yes" } else { "-" });
        table.push_str(&format!("| {what} | {} |\n", caught.collect::<Vec<_>>().join(" | ")));
    }
    table
}

#[test]
fn the_reference_says_which_spellings_are_caught() {
    drawn("grammar/README.md", "spellings", &table());
}
