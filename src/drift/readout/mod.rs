//! The readout of a model's raw output: whether planted canaries got out, and whether tools were to
//! be run. What the output says about itself is ignored.
//!
//! Parsed values are walked, each on its own, names too; JSON in strings is read, and the usual
//! encodings are undone. A canary split over several values is put together along the values of one
//! name and of all names.

mod decode;
mod scan;

pub use scan::{Canary, CanaryError, MIN_CANARY, Readout, ReadoutLimits, read};
