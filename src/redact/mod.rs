//! Redaction: what may leave a call, and the type that proves it.
mod redacted;
pub use redacted::Redacted;
