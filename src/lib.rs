//! Probity.
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
pub mod service;
pub mod telemetry;
