//! Probity: a policy engine for LLM agents.
//!
//! Rules written in packs are compiled ([`engine::load_rules`]) and judge an agent's messages, tool calls
//! and results as they come ([`engine::Session`]), or a finished episode ([`engine::run_episode`]). The
//! rooms and who may import whom stand in `ARCHITECTURE.md`.

pub mod audit;
pub mod cli;
pub mod config;
pub mod diag;
pub mod drift;
pub mod engine;
pub mod grpc;
pub mod ingest;
pub mod keywords;
pub mod lang;
pub mod model;
pub mod pack;
pub mod redact;
pub mod reward;
pub mod scrape;
pub mod service;
pub mod telemetry;
