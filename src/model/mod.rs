//! The vocabulary: numbers, values, events of a trace. Everything above speaks in these words;
//! nothing here knows about rules, storage or the wire.

pub(crate) mod bytes;
mod digest;
mod episode;
mod event;
pub mod json;
mod limits;
mod num;
mod pack_query;
mod time;
mod value;
mod verdict;

pub use digest::Digest;
pub use episode::{AuditorSees, EpisodeRules};
pub use event::{Args, Event, EventBody, EventKind, Malformed, Seq, Turn};
pub use json::JsonError;
pub use limits::{Limit, Limits};
pub use num::{DIVISION_DIGITS, Num, NumError};
pub use pack_query::{PackQuery, PackQueryError};
pub use time::rfc3339;
pub use value::{Object, Value};
pub use verdict::{CallAnswer, Condition, Effect, Evidence, Firing, Gate, Hit, PolicyId, Signal, Step, Undecided};
