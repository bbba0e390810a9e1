//! A YAML document as a tree with spans: what [`super::yaml`] gives and the shapes read.

use std::collections::BTreeMap;

use crate::{
    diag::{Code, Diagnostic, Diagnostics, Span, quote},
    model::{Num, NumError, Value},
};

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// Where it stands; for a value that is not written, its key.
    pub(super) span: Span,
    pub(super) kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// `null`, `~`, or nothing at all.
    Null,
    Bool(bool),
    /// A number as written; not every one is a number of JSON.
    Number(String),
    Text(String),
    List(Vec<Node>),
    /// Entries in the order of writing, each key once.
    Map(Vec<Entry>),
    /// Something that was reported already: nobody says more about it.
    Reported,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Span,
    pub(super) value: Node,
}

impl Node {
    /// What it is, in words.
    pub(super) fn found(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "true or false",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
            Kind::Reported => "something else",
        }
    }

    /// The value of a key, if this is a mapping that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|e| e.key == key).map(|e| &e.value),
            _ => None,
        }
    }

    /// Every value in it that is no mapping and no list, by where it stands: `limits.look_back`, `probes[dd_01].type`.
    /// Items of a list are told apart by their `id` or `name`, texts by themselves, other items by their place.
    pub(super) fn leaves(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        self.collect_leaves(String::new(), &mut out);
        out
    }

    fn collect_leaves(&self, at: String, out: &mut BTreeMap<String, String>) {
        match &self.kind {
            Kind::Map(entries) => {
                for entry in entries {
                    let at = if at.is_empty() { entry.key.clone() } else { format!("{at}.{}", entry.key) };
                    entry.value.collect_leaves(at, out);
                }
            }
            Kind::List(items) => {
                for (place, item) in items.iter().enumerate() {
                    let named = ["id", "name"].into_iter().find_map(|key| item.get(key)?.written());
                    match (&item.kind, named) {
                        (Kind::Text(text), _) => {
                            out.insert(format!("{at}[{}]", quoted(text)), String::new());
                        }
                        (_, Some(name)) => item.collect_leaves(format!("{at}[{name}]"), out),
                        (_, None) => item.collect_leaves(format!("{at}[{place}]"), out),
                    }
                }
            }
            _ => {
                let value = match &self.kind {
                    Kind::Text(text) => quoted(text),
                    _ => self.written().unwrap_or_else(|| "null".to_owned()),
                };
                out.insert(at, value);
            }
        }
    }

    /// A text, number or truth value as words; equal numbers have equal ones.
    fn written(&self) -> Option<String> {
        match &self.kind {
            Kind::Text(text) => Some(text.clone()),
            Kind::Number(text) => Some(text.parse::<Num>().map_or_else(|_| text.clone(), |n| n.to_string())),
            Kind::Bool(b) => Some(b.to_string()),
            Kind::Null | Kind::List(_) | Kind::Map(_) | Kind::Reported => None,
        }
    }

    /// As a JSON value. Numbers that JSON does not have are reported.
    pub(super) fn to_value(&self, diags: &mut Diagnostics) -> Option<Value> {
        match &self.kind {
            Kind::Reported => None,
            Kind::Null => Some(Value::Null),
            Kind::Bool(b) => Some(Value::Bool(*b)),
            Kind::Text(text) => Some(Value::string(text)),
            Kind::Number(text) => match text.parse::<Num>() {
                Err(NumError::Digits) => Some(Value::Huge(text.as_str().into())),
                _ => exact(text, self.span, diags).map(Value::Number),
            },
            // Every part is looked at, so that all mistakes are found.
            Kind::List(items) => {
                let read: Vec<Option<Value>> = items.iter().map(|n| n.to_value(diags)).collect();
                read.into_iter().collect::<Option<Vec<_>>>().map(Value::list)
            }
            Kind::Map(entries) => {
                let read: Vec<Option<_>> =
                    entries.iter().map(|e| Some((e.key.as_str().into(), e.value.to_value(diags)?))).collect();
                read.into_iter().collect::<Option<Vec<_>>>().map(Value::object)
            }
        }
    }
}

/// As JSON has it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The number that a text of [`Kind::Number`] is, or what is wrong with it.
pub(super) fn exact(text: &str, span: Span, diags: &mut Diagnostics) -> Option<Num> {
    let problem = match text.parse::<Num>() {
        Ok(number) => return Some(number),
        Err(problem) => problem,
    };
    let lower = text.to_ascii_lowercase();
    let (what, help) = match problem {
        NumError::Syntax if lower.contains("nan") || lower.contains("inf") => {
            (format!("{} is no number that can be compared", quote(text)), "write a finite decimal number")
        }
        NumError::Syntax => (
            format!("{} is not written as a plain decimal number", quote(text)),
            "write digits, with a point or an exponent if need be: `0.5`, `12`, `1e3`",
        ),
        NumError::Range => (format!("{} is beyond the range of a double", quote(text)), "write a smaller number"),
        NumError::Digits => (format!("{} has more than 38 significant digits", quote(text)), "write fewer digits"),
    };
    diags.push(Diagnostic::error(Code::NumberForm, span, what).help(help));
    None
}
