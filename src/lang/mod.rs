//! The rules language: from text to verdicts, in stages that are files here.
//!
//! `parse` (text to syntax tree) -> `compile` (names, types, plans) -> `program` (the compiled form)
//! -> `judge` (one event through the program, with the session's `state`). `eval` evaluates
//! expressions, `history` asks `cell`s, which keep `tally`s; `sequence` holds order patterns, `derivation` tokens of texts,
//! `fact` facts, `hits` makes events of violations. `schema` is what the checker knows of tools. `builtin` is the
//! table of functions, `ops` the operators, `val` what they work on. `outline` is what declarations say by themselves. `print` goes back from tree to
//! text, `format` lays a text out anew, `explain` goes from program to words. Reference: `grammar/README.md`.

pub mod ast;
pub mod builtin;
mod cell;
mod compile;
mod derivation;
mod dispatch;
mod eval;
pub mod explain;
mod fact;
mod format;
mod history;
mod hits;
mod judge;
mod key;
mod miss;
pub mod ops;
pub mod outline;
mod parse;
mod print;
pub mod program;
mod schema;
mod sequence;
mod state;
mod tally;
pub mod types;
pub mod val;

pub use compile::{Surroundings, compile};
pub use eval::event_field;
pub use format::{FormatError, format_policies};
pub use hits::TurnHits;
pub use judge::{Judged, Leaf, Looked, look, step};
pub use parse::{MAX_NESTING, parse, parse_expr};
pub use print::{meaning, print_expr, print_item};
pub use program::Program;
pub use schema::{Shape, ShapeField, ToolSchema, ToolSchemas};
pub use state::State;
