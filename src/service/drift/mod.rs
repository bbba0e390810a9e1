//! Drift in the running service: sessions that accumulate, finished answers, whole probes, reports, and those who
//! watch.

mod evaluate;
mod feed;
mod memory;
mod probe;
mod report;
mod resume;
mod saved;
mod schedule;

pub use evaluate::{Baseline, DriftAsk, DriftError};
pub use feed::SignalPage;
pub use memory::DriftSessions;
pub use probe::{Adapter, ProbeAsk, ProbeEnd, ProbeQuestion, ProbeRole};
pub use report::SessionReport;
pub(super) use saved::is_snapshot;
pub use schedule::{Occurrence, ProbeAnswer, Schedule};
