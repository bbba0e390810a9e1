//! The canonical layout of `.policy` files.
//!
//! Where lines break, how they are indented and where blanks stand is decided here; words, their order and their
//! spelling stay as they are written, and so do comments and, one at most, empty lines between declarations. (The
//! one sign that comes and goes is the comma behind the last element.) `print`, which makes the text that digests
//! are made of, is not concerned: it has one spelling too, and no comments.

mod doc;
#[cfg(test)]
mod laws;
mod shape;

use super::{
    parse::{
        concrete::{Gap, Kind, Part, concrete},
        parse,
    },
    print::print_item,
};
use crate::diag::{Diagnostics, FileId};
use doc::Doc;

/// Why a file is not laid out anew.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It cannot be read.
    #[error("the file cannot be read")]
    Broken(Diagnostics),
    /// What came out would not say the same: a fault of the formatter, which keeps its hands off then.
    #[error("the new layout would not say the same as the file; please report this file")]
    Differs,
}

/// The text of a file in its canonical layout. It means the same, and its layout is the same again.
pub fn format_policies(file: FileId, text: &str) -> Result<String, FormatError> {
    let (module, problems) = parse(file, text);
    if !problems.is_empty() {
        return Err(FormatError::Broken(problems));
    }
    let read = concrete(text).ok_or(FormatError::Differs)?;
    let kept = read.comments();
    let parts = read.items.into_iter().map(Part::Node).collect();
    let formatted = doc::print(&whole(parts, read.end));
    let (again, problems) = parse(file, &formatted);
    let same = problems.is_empty()
        && again.items.iter().map(print_item).eq(module.items.iter().map(print_item))
        && concrete(&formatted).is_some_and(|again| again.comments() == kept);
    if same { Ok(formatted) } else { Err(FormatError::Differs) }
}

/// Declarations one after the other, policies with an empty line around them.
fn whole(items: Vec<Part>, end: Gap) -> Doc {
    let mut out = Vec::new();
    let mut before = None;
    for mut item in items {
        let kind = item.kind();
        let mut gap = shape::take_before(&mut item);
        let around_policy = before == Some(Kind::Policy) || kind == Some(Kind::Policy);
        if around_policy && !gap.blank && !gap.comments.iter().any(|comment| comment.blank) {
            // The comments right above a declaration are about it.
            match gap.comments.first_mut() {
                Some(first) => first.blank = true,
                None => gap.blank = true,
            }
        }
        out.push(shape::lines_before(gap, before.is_none()));
        out.push(shape::line(item));
        before = kind;
    }
    if !end.comments.is_empty() {
        out.push(shape::lines_before(Gap { blank: false, ..end }, before.is_none()));
    }
    Doc::All(out)
}
