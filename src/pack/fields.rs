//! Reading shapes from a tree: each reader takes a node, and either gives what it asked for or reports why
//! not, so that one reading finds every mistake.

use crate::{
    diag::{Code, Diagnostic, Diagnostics, Span, quote, suggest},
    model::Num,
};

use super::node::{Entry, Kind, Node, exact};

/// The keys of a mapping, each to be asked for by name; [`Fields::finish`] reports those nobody asked for.
pub(super) struct Fields<'n> {
    span: Span,
    entries: &'n [Entry],
    known: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// The keys of a node, which must be a mapping. `what` names it in messages.
    pub(super) fn of(node: &'n Node, what: &str, diags: &mut Diagnostics) -> Option<Fields<'n>> {
        match &node.kind {
            Kind::Map(entries) => Some(Fields { span: node.span, entries, known: Vec::new() }),
            _ => {
                wrong_type(node, what, "a mapping (`key: value`)", None, diags);
                None
            }
        }
    }

    /// A mapping without keys.
    pub(super) fn none(span: Span) -> Fields<'n> {
        Fields { span, entries: &[], known: Vec::new() }
    }

    /// The mapping's place.
    pub(super) fn span(&self) -> Span {
        self.span
    }

    /// The value of a key that may be left out.
    pub(super) fn get(&mut self, key: &'static str) -> Option<&'n Node> {
        self.known.push(key);
        self.entries.iter().find(|e| e.key == key).map(|e| &e.value)
    }

    /// The value of a key that must be there. `example` shows how to write it.
    pub(super) fn need(&mut self, key: &'static str, example: &str, diags: &mut Diagnostics) -> Option<&'n Node> {
        let value = self.get(key);
        if value.is_none() {
            diags.push(
                Diagnostic::error(Code::KeyMissing, self.span, format!("the key `{key}` is missing"))
                    .help(format!("add `{example}`")),
            );
        }
        value
    }

    /// Reports every key that was not asked for.
    pub(super) fn finish(self, diags: &mut Diagnostics) {
        for entry in self.entries.iter().filter(|e| !self.known.contains(&e.key.as_str())) {
            diags.push(unknown_key(entry, &self.known));
        }
    }
}

/// A key that has no meaning, with the ones that have.
pub(super) fn unknown_key(entry: &Entry, known: &[&str]) -> Diagnostic {
    let diagnostic = Diagnostic::error(Code::KeyUnknown, entry.key_span, format!("unknown key {}", quote(&entry.key)));
    match suggest(&entry.key, known.iter().copied()) {
        Some(near) => diagnostic.did_you_mean(Some(near)),
        None => diagnostic.help(format!("known here: {}", among(known))),
    }
}

/// Names in backquotes, with commas.
pub(super) fn among(names: &[&str]) -> String {
    names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}

/// Reports that a value is of the wrong type, unless it is reported already.
pub(super) fn wrong_type(node: &Node, what: &str, wanted: &str, help: Option<String>, diags: &mut Diagnostics) {
    if node.kind == Kind::Reported {
        return;
    }
    let message = format!("{what} must be {wanted}, found {}", node.found());
    let diagnostic = Diagnostic::error(Code::WrongType, node.span, message);
    diags.push(match help {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    });
}

/// Text. What looks like text but is read as something else gets the hint to quote it.
pub(super) fn text<'n>(node: &'n Node, what: &str, diags: &mut Diagnostics) -> Option<&'n str> {
    let help = match &node.kind {
        Kind::Text(text) => return Some(text),
        Kind::Number(written) => Some(format!("put it in quotes: \"{written}\"")),
        Kind::Bool(written) => Some(format!("put it in quotes: \"{written}\"")),
        _ => None,
    };
    wrong_type(node, what, "text", help, diags);
    None
}

/// Text that is more than white space.
pub(super) fn some_text<'n>(node: &'n Node, what: &str, diags: &mut Diagnostics) -> Option<&'n str> {
    let text = text(node, what, diags)?;
    if text.trim().is_empty() {
        diags.push(Diagnostic::error(Code::Empty, node.span, format!("{what} must not be empty")));
        return None;
    }
    Some(text)
}

/// A name: an ASCII letter or `_`, then ASCII letters, digits and `_`, and `-` if `dashes`.
pub(super) fn name<'n>(
    text: &'n str,
    span: Span,
    what: &str,
    dashes: bool,
    diags: &mut Diagnostics,
) -> Option<&'n str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || (dashes && c == '-');
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts && text.chars().all(fits) && text.len() <= 64 {
        return Some(text);
    }
    let signs = if dashes { "letters, digits, `_` and `-`" } else { "letters, digits and `_`" };
    diags.push(
        Diagnostic::error(Code::WrongValue, span, format!("{} cannot be {what}", quote(text)))
            .help(format!("use ASCII {signs}, a letter first, at most 64 in all")),
    );
    None
}

/// An exact number.
pub(super) fn number(node: &Node, what: &str, diags: &mut Diagnostics) -> Option<Num> {
    let help = match &node.kind {
        Kind::Number(written) => return exact(written, node.span, diags),
        Kind::Text(written) if written.parse::<Num>().is_ok() => Some("leave out the quotes".to_owned()),
        _ => None,
    };
    wrong_type(node, what, "a number", help, diags);
    None
}

/// An exact number between two bounds, both included.
pub(super) fn number_within(
    node: &Node,
    what: &str,
    least: Num,
    most: Option<Num>,
    diags: &mut Diagnostics,
) -> Option<Num> {
    let number = number(node, what, diags)?;
    if number >= least && most.is_none_or(|most| number <= most) {
        return Some(number);
    }
    let range = match most {
        Some(most) => format!("from {least} to {most}"),
        None => format!("at least {least}"),
    };
    diags.push(Diagnostic::error(Code::NumberRange, node.span, format!("{what} must be {range}, found {number}")));
    None
}

/// A whole number from 0 to 2^32 - 1.
pub(super) fn index(node: &Node, what: &str, diags: &mut Diagnostics) -> Option<u32> {
    let number = number(node, what, diags)?;
    let index = number.as_whole().and_then(|n| u32::try_from(n).ok());
    if index.is_none() {
        let message = format!("{what} must be a whole number from 0, found {number}");
        diags.push(Diagnostic::error(Code::NumberRange, node.span, message));
    }
    index
}

/// True or false.
pub(super) fn truth(node: &Node, what: &str, diags: &mut Diagnostics) -> Option<bool> {
    if let Kind::Bool(b) = node.kind {
        return Some(b);
    }
    wrong_type(node, what, "true or false", None, diags);
    None
}

/// A whole number from 1 to `most`.
pub(super) fn count_up_to(node: &Node, what: &str, most: usize, diags: &mut Diagnostics) -> Option<usize> {
    let number = number(node, what, diags)?;
    let count = number.as_whole().and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=most).contains(n));
    if count.is_none() {
        let message = format!("{what} must be a whole number from 1 to {most}, found {number}");
        diags.push(Diagnostic::error(Code::NumberRange, node.span, message));
    }
    count
}

/// The items of a list.
pub(super) fn list<'n>(node: &'n Node, what: &str, diags: &mut Diagnostics) -> Option<&'n [Node]> {
    let help = match &node.kind {
        Kind::List(items) => return Some(items),
        Kind::Text(_) | Kind::Number(_) | Kind::Bool(_) => Some("put it in brackets: `[...]`".to_owned()),
        _ => None,
    };
    wrong_type(node, what, "a list", help, diags);
    None
}

/// The items of a list that must have some.
pub(super) fn some_list<'n>(node: &'n Node, what: &str, diags: &mut Diagnostics) -> Option<&'n [Node]> {
    let items = list(node, what, diags)?;
    if items.is_empty() {
        diags.push(
            Diagnostic::error(Code::Empty, node.span, format!("{what} must not be an empty list"))
                .help("list something, or leave the key out"),
        );
        return None;
    }
    Some(items)
}

/// The entries of a mapping whose keys are the author's own.
pub(super) fn entries<'n>(node: &'n Node, what: &str, diags: &mut Diagnostics) -> Option<&'n [Entry]> {
    match &node.kind {
        Kind::Map(entries) => Some(entries),
        _ => {
            wrong_type(node, what, "a mapping (`name: value`)", None, diags);
            None
        }
    }
}

/// One of a few words.
pub(super) fn choice<T: Copy>(
    node: &Node,
    what: &str,
    words: &[(T, &'static str)],
    diags: &mut Diagnostics,
) -> Option<T> {
    let written = text(node, what, diags)?;
    if let Some((value, _)) = words.iter().find(|(_, word)| *word == written) {
        return Some(*value);
    }
    let known: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
    let diagnostic = Diagnostic::error(Code::WrongValue, node.span, format!("{what} cannot be {}", quote(written)));
    diags.push(match suggest(written, known.iter().copied()) {
        Some(near) => diagnostic.did_you_mean(Some(near)),
        None => diagnostic.help(format!("one of: {}", among(&known))),
    });
    None
}

/// Texts of a list, each with its place; items of another type are reported and left out.
pub(super) fn texts(items: &[Node], what: &str, diags: &mut Diagnostics) -> Vec<(String, Span)> {
    items.iter().filter_map(|item| Some((text(item, what, diags)?.to_owned(), item.span))).collect()
}
