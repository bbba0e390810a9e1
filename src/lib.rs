//! Probity.
pub mod diag;
pub mod model;
