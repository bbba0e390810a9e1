//! The drift half of packs as their authors see it: files, commands and whole sessions.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

#[path = "../command/mod.rs"]
mod command;
mod evaluate;
mod library;
mod redaction;
