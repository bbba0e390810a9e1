//! `.policy` files that are wrong: each mistake has its message, and nothing that stands in a file
//! makes the reader or the compiler fail, hang or overflow its stack.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod broken;
mod robust;

use std::sync::Arc;

use probity::{
    diag::{Diagnostics, Sources},
    keywords::{Categories, CategorySpec},
    lang::{Program, Surroundings, compile, parse},
};

/// What one file compiles to, beside the keyword categories `affirmation` and `injection`.
fn read(name: &str, text: &str) -> (Option<Program>, Diagnostics, Arc<Sources>) {
    let mut sources = Sources::new();
    let file = sources.add(name, text);
    let (module, mut problems) = parse(file, text);
    let sources = Arc::new(sources);
    let category = |name: &str, term: &str| CategorySpec {
        name: name.to_owned(),
        terms: vec![term.to_owned()],
        ..CategorySpec::default()
    };
    let categories = [category("affirmation", "yes"), category("injection", "ignore previous")];
    let around = Surroundings {
        sources: sources.clone(),
        categories: Arc::new(Categories::compile(&categories).unwrap()),
        category_spans: Vec::new(),
        clock: None,
        tools: None,
        redaction: None,
    };
    let (program, more) = compile(&[module], &around);
    problems.extend(more);
    (program.filter(|_| !problems.has_errors()), problems, sources)
}
