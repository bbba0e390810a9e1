//! Structured logs, to standard error.
//!
//! Log lines name sessions' packs, policies, counts, codes and durations; values of a trace and
//! messages of hits never enter one.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, filter::ParseError, util::SubscriberInitExt};

use crate::config::LogFormat;

/// Why logging did not start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter cannot be read.
    #[error("the log filter `{filter}` cannot be read: {source}")]
    Filter {
        /// What was written.
        filter: String,
        /// Why.
        source: ParseError,
    },
}

/// Starts logging for the whole process. A second call changes nothing.
pub fn init(format: LogFormat, filter: &str) -> Result<(), TelemetryError> {
    let parsed =
        EnvFilter::try_new(filter).map_err(|source| TelemetryError::Filter { filter: filter.to_owned(), source })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // The error says that logging is up already, as when two servers run in one test process.
    let _ = match format {
        LogFormat::Text => builder.finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    };
    Ok(())
}
