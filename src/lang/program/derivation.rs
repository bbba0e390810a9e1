//! Indexes of tokens, and questions to them, in compiled form.

use super::{Id, Node, SourceSpec};
use crate::diag::Span;

/// An index of the tokens of earlier events.
#[derive(Debug)]
pub struct TextIndex {
    /// Of which events.
    pub sources: Vec<SourceSpec>,
    /// Conditions on the event; scope `It`.
    pub local: Vec<Node>,
    /// Where the values stand that are kept; none if whole texts are.
    pub path: Option<Node>,
    /// Where it is first written.
    pub span: Span,
}

/// Whether a value comes from earlier events, or a text carries a value of theirs.
#[derive(Clone, Debug)]
pub struct DerivedAsk {
    /// The index of those events.
    pub index: Id,
    /// The index of user and system texts.
    pub cleared_by: Id,
    /// The value, or the text.
    pub value: Node,
    /// True for `carries`.
    pub carries: bool,
}
