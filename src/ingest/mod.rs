//! From messages to events: what an agent's trace says, in the vocabulary of [`crate::model`].
//!
//! A message comes as a JSON value in any of the shapes that agents write (OpenAI chat and
//! Responses, Anthropic blocks, MCP); [`Ingest`] holds what one session must remember to turn it
//! into events: positions, the clock, calls that wait for a result, calls proposed ahead of their
//! message. [`Episode`] reads one line of a trace file. Nothing here judges, and nothing is refused
//! but what contradicts a proposal: what cannot be used is listed as malformed and the rest is taken.

mod clock;
mod open;
mod proposal;
mod session;
mod shape;
mod trace;

#[cfg(test)]
mod laws;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod script;

pub use proposal::{Difference, Proposal, Refused};
pub use session::{ErrorRule, Ingest, Taken};
pub use trace::{Episode, JudgeFault, JudgeVerdict, LineError, Messages};
