//! The rules language: from text to verdicts, in stages that are files here.

pub mod ast;
pub mod builtin;
pub mod ops;
mod parse;
pub mod types;
pub mod val;

pub use parse::{MAX_NESTING, parse, parse_expr};
