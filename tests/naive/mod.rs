//! A naive interpreter of the rules language, written to be obviously right.
//!
//! It knows a policy's syntax tree and the list of events, and for every event it looks at the whole
//! trace again: plain recursion over the tree, lists of earlier events, no index, no running state.
//! What a fact holds is found by folding over all earlier events whenever it is read. Operators,
//! builtin functions and keyword matching are those of the library, since they mean the same for any
//! evaluator; everything about history, facts, order and evidence is written here a second time, and
//! the engine is compared with it.

#![allow(dead_code, unused_imports, reason = "each test binary uses the part that it needs")]

mod derivation;
mod eval;
mod evidence;
mod facts;
mod history;
mod hits;
mod names;
mod program;
mod run;
mod sequence;

pub use program::{Mentions, Program};
pub use run::{EventVerdict, Report};
