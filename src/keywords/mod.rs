//! Keyword categories: which of a pack's categories a text mentions, and where.
//!
//! A category is a list of terms (and patterns) with a way to compare; [`Categories`] holds all of a
//! pack. Their terms form one automaton for each distinct normalisation, so a text is read once for
//! each of these, whatever the number of terms. The rules language asks through `mentions`, the
//! readout of free-text answers through [`Categories::scan`] and [`Categories::find`].
//!
//! What a term means: see [`CategorySpec`].

mod automaton;
mod categories;
#[cfg(test)]
mod laws;
mod mapped;
mod normalise;
mod pattern;
mod spec;
mod token;

pub use categories::{Categories, CategoryId, CategorySet, Match, MatchedBy};
pub use spec::{CategoryError, CategoryPart, CategorySpec, MatchMode, Problem, RepeatedTerm, Step, Steps};
pub use token::tokens;
