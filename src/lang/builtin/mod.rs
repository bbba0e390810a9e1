//! Builtin functions: one table of self-describing values.
//!
//! Each entry carries its parameters, what it gives, what it depends on, its documentation, examples
//! that run as tests, and its evaluation. A new function is one entry in the file of its family; the
//! checker, the compiler, the reference (its table of functions is [`reference`]) and the tests read
//! it from here.

mod address;
mod collection;
mod number;
mod path;
mod presence;
mod text;
pub mod time;

pub use address::URL_FIELDS;
pub(crate) use number::pick;

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
    /// Text with the name of a domain.
    Domain,
    /// Text with an absolute path.
    Root,
    /// A distance from UTC: a duration, or text such as `"+02:00"`; anything else gives unknown.
    Offset,
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

/// What the result of a builtin depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependsOn {
    /// Its arguments and nothing else: equal arguments, equal results, in every event.
    Arguments,
    /// What earlier events have put into a fact.
    Facts,
}

/// A builtin function.
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
    /// What the result depends on.
    pub depends_on: DependsOn,
    /// One sentence, or two.
    pub doc: &'static str,
    /// Expressions and what they give, as source text; `?` stands for unknown, `(absent)` for absent.
    pub examples: &'static [(&'static str, &'static str)],
    /// The evaluation; the span is that of the call.
    pub eval: fn(&[Arg<'_>], Span) -> Val,
}

/// Every builtin, by family.
pub fn all() -> impl Iterator<Item = &'static Builtin> {
    [
        presence::FUNCTIONS,
        text::FUNCTIONS,
        number::FUNCTIONS,
        collection::FUNCTIONS,
        time::FUNCTIONS,
        address::FUNCTIONS,
        path::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
}

/// The builtin of a name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    all().find(|b| b.name == name)
}

impl Takes {
    /// What is wrong with a text that a policy gives here, if something is: it would be unknown, or false, in every
    /// event.
    pub fn refuses(self, text: &str) -> Option<&'static str> {
        match self {
            Takes::Offset if time::parse_offset(text).is_none() => {
                Some("a distance from UTC is written \"+02:00\", or as a duration")
            }
            Takes::Domain if address::parse(text).is_none() => Some("the name of a domain: \"corp.example\""),
            Takes::Root if !text.starts_with('/') => Some("an absolute path: \"/srv\""),
            _ => None,
        }
    }

    /// Whether a value of that type could be of use.
    pub fn admits(self, ty: Ty) -> bool {
        match self {
            Takes::Value(wanted) => ty.fits(wanted),
            Takes::Domain | Takes::Root => ty.fits(Ty::String),
            Takes::Offset => ty.fits(Ty::Duration) || ty.fits(Ty::String),
            Takes::Regex | Takes::FactRead => false,
        }
    }

    /// What may be given, with its article.
    pub fn a(self) -> String {
        match self {
            Takes::Value(ty) => ty.a(),
            other => format!("a {}", other.words()),
        }
    }

    /// What may be given, in a word or two.
    pub fn words(self) -> &'static str {
        match self {
            Takes::Value(ty) => ty.word(),
            Takes::Domain | Takes::Root => "string",
            Takes::Offset => "duration or string",
            Takes::Regex => "pattern",
            Takes::FactRead => "fact",
        }
    }
}

impl Builtin {
    /// How it is called and what it gives: `day(t: time, offset?: duration or string) -> number`.
    pub fn signature(&self) -> String {
        let least = self.params.len() - self.optional;
        let params = self.params.iter().enumerate().map(|(i, param)| {
            let optional = if i >= least { "?" } else { "" };
            match param.takes {
                // Their names say what they are.
                Takes::Regex | Takes::FactRead => param.name.to_owned(),
                takes => format!("{}{optional}: {}", param.name, takes.words()),
            }
        });
        let more = if self.repeats { ", .." } else { "" };
        format!("{}({}{more}) -> {}", self.name, params.collect::<Vec<_>>().join(", "), self.gives.word())
    }
}

/// The table of functions of the reference, as Markdown.
pub fn reference() -> String {
    let mut table = "| function | gives |\n| --- | --- |\n".to_owned();
    for function in all() {
        table.push_str(&format!("| `{}` | {} |\n", function.signature(), function.doc));
    }
    table
}

/// A value parameter.
const fn value(name: &'static str, ty: Ty) -> Param {
    Param { name, takes: Takes::Value(ty) }
}

/// The first argument, or absent.
fn first<'a>(args: &'a [Arg<'_>]) -> &'a Val {
    args.first().map_or(&Val::Absent, Arg::val)
}
