//! Probity.
pub mod model;
