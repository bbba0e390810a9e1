//! The gRPC service: conversion between the wire and the house, handlers of a few lines, errors with
//! details, and the server that holds them.

mod admission;
mod audit;
mod convert;
mod engine;
mod pages;
mod rules;
mod server;
mod status;
pub mod wire;

pub use server::{Ended, Running, StartError, start, start_with};
