//! Probity.
pub mod audit;
pub mod config;
pub mod diag;
pub mod ingest;
pub mod keywords;
pub mod lang;
pub mod model;
pub mod telemetry;
