//! The gRPC service: conversion between the wire and the house, handlers of a few lines, errors with
//! details, and the server that holds them.

mod admission;
mod audit;
mod convert;
mod convert_audit;
mod convert_drift;
mod convert_join;
mod convert_rules;
mod engine;
mod health;
mod join;
mod pages;
mod probe;
mod rules;
mod server;
mod status;
pub mod wire;

pub use convert_audit::{stats, verified};
pub use convert_drift::{finished, signal};
pub use server::{Ended, Running, StartError, start, start_with};
