//! The one composition: a compiled pack and a session's state give verdicts.
//!
//! `pack` is what was loaded, immutable and shared; `session` takes messages and proposals in and
//! answers; `episode` runs a whole trace through a session. The server, the command line and the
//! tests all judge here.

mod episode;
mod pack;
mod session;

#[cfg(test)]
mod tests;

pub use episode::{EpisodeOutcome, run_episode};
pub use pack::{Digest, Pack, PackParts, PolicyInfo, RewardDigits};
pub use session::{Session, SessionError};
