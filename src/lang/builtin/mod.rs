//! Builtin functions: one table of self-describing values.
//!
//! Each entry carries its parameters, what it gives, its documentation, examples that run as tests,
//! and its evaluation. A new function is one entry in the file of its family; the checker, the
//! compiler, the reference and the tests read it from here.

mod collection;
mod number;
mod presence;
mod text;
pub mod time;

use super::{types::Ty, val::Val};
use crate::diag::Span;

/// A parameter of a builtin.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name in the documentation.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// A value of a type; another type gives unknown.
    Value(Ty),
    /// A pattern between slashes.
    Regex,
    /// A fact read, `fact[key]`.
    FactRead,
}

/// An evaluated argument.
pub enum Arg<'a> {
    /// A value.
    Val(Val),
    /// A compiled pattern.
    Regex(&'a regex::Regex),
}

impl Arg<'_> {
    /// The value; a pattern counts as absent, which the checker has excluded.
    pub fn val(&self) -> &Val {
        match self {
            Arg::Val(v) => v,
            Arg::Regex(_) => &Val::Absent,
        }
    }
}

/// A builtin function. All are pure.
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// How many of them may be left out, from the right.
    pub optional: usize,
    /// True if the last parameter may be repeated.
    pub repeats: bool,
    /// The type of the result.
    pub gives: Ty,
    /// One or two sentences.
    pub doc: &'static str,
    /// Expressions and what they give, as source text; `?` stands for unknown, `(absent)` for absent.
    pub examples: &'static [(&'static str, &'static str)],
    /// The evaluation; the span is that of the call.
    pub eval: fn(&[Arg<'_>], Span) -> Val,
}

/// Every builtin, by family.
pub fn all() -> impl Iterator<Item = &'static Builtin> {
    [presence::FUNCTIONS, text::FUNCTIONS, number::FUNCTIONS, collection::FUNCTIONS, time::FUNCTIONS]
        .into_iter()
        .flatten()
}

/// The builtin of a name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    all().find(|b| b.name == name)
}

/// A value parameter.
const fn value(name: &'static str, ty: Ty) -> Param {
    Param { name, takes: Takes::Value(ty) }
}

/// The first argument, or absent.
fn first<'a>(args: &'a [Arg<'_>]) -> &'a Val {
    args.first().map_or(&Val::Absent, Arg::val)
}
pub(crate) use number::pick;
