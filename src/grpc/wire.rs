//! The messages and services of `proto/probity/v1`, as generated at build time.
#![allow(missing_docs, clippy::all, reason = "generated; the documentation stands in the .proto files")]

tonic::include_proto!("probity.v1");

/// The descriptors of all files, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
