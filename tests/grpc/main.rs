//! The service over real gRPC: a server in this process on a free port, with rules and a store in
//! temporary folders.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod admitted;
mod audit;
mod barrier;
mod chain;
mod command;
mod disk;
mod drift;
mod drift_resume;
mod effects;
mod follow;
mod generations;
mod kill;
mod limits;
mod manners;
mod observe;
mod reload;
mod resume;
mod retries;
mod reveal;
mod rules;
mod scrape;
mod shadow;
mod stream;
mod support;
mod tombstone;
mod traces;
mod versions;
