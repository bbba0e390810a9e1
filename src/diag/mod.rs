//! Diagnostics: what is wrong with a rule pack, where, and what to write instead.
//!
//! Every reader of pack files (YAML shapes, the `.policy` grammar, the checks of the rules language)
//! reports through this room, so that all errors look alike, carry a stable [`Code`], point at their
//! source and come all at once. Nothing here knows what a pack is.

mod code;
mod diagnostic;
mod record;
mod sarif;
mod source;
mod suggest;
mod text;

pub use code::Code;
pub use diagnostic::{Diagnostic, Diagnostics, Label, Severity};
pub use record::{Place, Record, Related};
pub use sarif::sarif;
pub use source::{FileId, Position, Source, Sources, Span};
pub use suggest::{quote, suggest};
pub use text::Style;
