//! How each construct is laid out: on one line if it fits, and else where its lines break.
//!
//! Operators stand at the start of a line, aligned with the first operand; brackets that do not fit are opened.
//! In a set or table of several lines the author's lines stay: what stands side by side belongs together.

use super::doc::Doc;
use crate::lang::parse::concrete::{Gap, Kind, Node, Part, Token};

/// By how much what belongs to a construct is indented.
const INDENT: usize = 2;
/// By how much an operator and its right side are, so that they are not taken for a condition of their own.
const CONTINUED: usize = 4;

/// A declaration, a statement or a part of one.
pub(super) fn shape(part: Part) -> Doc {
    let Node { kind, parts } = match part {
        Part::Token(token) => return word(token),
        Part::Node(node) => node,
    };
    match kind {
        Kind::Set | Kind::Table => enumeration(parts),
        Kind::Fact => fact(parts),
        Kind::Def | Kind::Let => definition(parts),
        Kind::Policy => policy(parts),
        Kind::Condition | Kind::Effect => last_aligned(parts),
        Kind::Template => Doc::flat(tight(parts)),
        Kind::Hole | Kind::Joined => tight(parts),
        Kind::Step if parts.first().is_some_and(|p| p.is("[")) => listed(parts, false),
        Kind::Step => tight(parts),
        Kind::Sources | Kind::Or | Kind::And => chain(parts, 0),
        Kind::Operators => chain(parts, CONTINUED),
        Kind::Collection if parts.iter().all(|p| p.kind() != Some(Kind::Further)) => listed(parts, true),
        Kind::Listed => listed(parts, false),
        Kind::Collection | Kind::Asking => asking(parts),
        Kind::Parenthesised => parenthesised(parts),
        Kind::Pattern | Kind::Binder => Doc::align(Doc::group(filtered(parts))),
        Kind::Comparison => comparison(parts),
        Kind::Quantifier => Doc::align(quantifier(parts)),
        Kind::Row | Kind::Further | Kind::Elements | Kind::Tested | Kind::Compared | Kind::Cast | Kind::Spaced => {
            spaced(parts)
        }
    }
}

/// A declaration or statement with the comment behind it, which is no reason to break its lines.
pub(super) fn line(mut part: Part) -> Doc {
    let trailing = take_trailing(&mut part);
    let comment = trailing.map_or(Doc::Nothing, |text| Doc::Comment { text, own_line: false });
    Doc::All(vec![shape(part), comment])
}

fn word(token: Token) -> Doc {
    let mut out: Vec<Doc> = Vec::new();
    out.extend(token.before.comments.into_iter().map(|c| Doc::Comment { text: c.text, own_line: true }));
    out.push(Doc::Text(token.text));
    out.extend(token.trailing.map(|text| Doc::Comment { text, own_line: false }));
    Doc::All(out)
}

/// What stands before the first token, taken away from it.
pub(super) fn take_before(part: &mut Part) -> Gap {
    part.first_token().map(|token| std::mem::take(&mut token.before)).unwrap_or_default()
}

/// The comment that ends the line of the last token, taken away from it.
fn take_trailing(part: &mut Part) -> Option<String> {
    part.last_token().and_then(|token| token.trailing.take())
}

/// The line breaks and comments before what begins a line; `first` says that no empty line may stand there.
pub(super) fn lines_before(gap: Gap, mut first: bool) -> Doc {
    let mut out = Vec::new();
    let mut line_break = |blank: bool| {
        let suppressed = std::mem::take(&mut first);
        if blank && !suppressed { Doc::Blank } else { Doc::Hard }
    };
    for comment in gap.comments {
        out.push(line_break(comment.blank));
        out.push(Doc::Comment { text: comment.text, own_line: true });
    }
    out.push(line_break(gap.blank));
    Doc::All(out)
}

/// Parts up to and with the first bracket that opens, and the others.
fn opened(parts: Vec<Part>, brackets: &[&str]) -> (Vec<Part>, std::vec::IntoIter<Part>) {
    let mut rest = parts.into_iter();
    let mut head = Vec::new();
    for part in rest.by_ref() {
        let opens = brackets.iter().any(|bracket| part.is(bracket));
        head.push(part);
        if opens {
            break;
        }
    }
    (head, rest)
}

// ---- declarations ----

/// A policy: a line for each statement.
fn policy(parts: Vec<Part>) -> Doc {
    let (head, statements) = opened(parts, &["{"]);
    let mut body = Vec::new();
    let mut close = Doc::Nothing;
    for mut part in statements {
        let gap = take_before(&mut part);
        if part.is("}") {
            // An empty line before the bracket would say nothing.
            body.push(lines_before(Gap { blank: false, ..gap }, body.is_empty()));
            close = shape(part);
        } else {
            body.push(lines_before(gap, body.is_empty()));
            body.push(line(part));
        }
    }
    // The last line break is that of the bracket, which stands further left.
    Doc::All(vec![Doc::nest(INDENT, spaced(head)), Doc::nest(INDENT, Doc::All(body)), Doc::Hard, close])
}

/// A set or table. If it stands on several lines, those are the author's, and longer ones are broken.
fn enumeration(parts: Vec<Part>) -> Doc {
    let (head, rest) = opened(parts, &["{"]);
    let head = Doc::nest(INDENT, call_like(head));
    let (mut items, close) = items(rest);
    if items.is_empty() {
        return Doc::All(vec![head, shape(close)]);
    }
    let several = items.iter_mut().any(|item| item.part.first_token().is_some_and(|t| t.before.line_break));
    if !several {
        return braces(head, items, close, Doc::fill);
    }
    let mut body = Vec::new();
    for mut item in items {
        let gap = take_before(&mut item.part);
        let first = body.is_empty();
        body.push(if first || gap.line_break { lines_before(gap, first) } else { Doc::fill() });
        item.put(Doc::text(","), &mut body);
    }
    close_body(close, Doc::Hard, |lines| Doc::nest(INDENT, Doc::All(body.into_iter().chain([lines]).collect())), head)
}

/// Head, what stands between the brackets, a line, and the closing bracket; comments before it belong inside.
fn close_body(mut close: Part, line: Doc, body: impl FnOnce(Doc) -> Doc, head: Doc) -> Doc {
    let gap = take_before(&mut close);
    let inside = match gap.comments.is_empty() {
        true => Doc::Nothing,
        false => lines_before(Gap { blank: false, ..gap }, false),
    };
    Doc::All(vec![head, body(inside), line, shape(close)])
}

/// A fact, or what it forgets: on one line if no condition follows, else what it is and what feeds it.
fn fact(parts: Vec<Part>) -> Doc {
    let conditional = parts.iter().any(|part| part.is("when"));
    let mut head = Vec::new();
    let mut rest = parts.into_iter().peekable();
    while let Some(part) = rest.next_if(|part| !part.is("from")) {
        let value = part.kind() == Some(Kind::Spaced);
        if !head.is_empty() && part.kind() != Some(Kind::Listed) {
            head.push(Doc::Space);
        }
        head.push(match part {
            Part::Node(node) if value => last_aligned(node.parts),
            part => shape(part),
        });
    }
    let mut feeding = Vec::new();
    for part in rest {
        match part.kind() {
            None if part.is("when") => feeding.extend([Doc::Line, shape(part)]),
            None if part.is("from") => feeding.push(shape(part)),
            _ => feeding.extend([Doc::Space, Doc::align(shape(part))]),
        }
    }
    let feeding = Doc::group(Doc::All(feeding));
    let line = if conditional { Doc::Hard } else { Doc::Line };
    let all = Doc::All(vec![Doc::All(head), line, feeding]);
    Doc::nest(INDENT, if conditional { all } else { Doc::group(all) })
}

/// `def` and `let`: what does not fit begins on a line of its own, unless it opens a bracket.
fn definition(mut parts: Vec<Part>) -> Doc {
    let body = parts.pop();
    let head = Doc::nest(INDENT, call_like(parts));
    let body = match body {
        Some(body) if opens_bracket(&body) => Doc::All(vec![Doc::Space, shape(body)]),
        Some(body) => Doc::nest(INDENT, Doc::group(Doc::All(vec![Doc::Line, shape(body)]))),
        None => Doc::Nothing,
    };
    Doc::All(vec![head, body])
}

/// Whether it has a bracket around it that can be opened.
fn opens_bracket(part: &Part) -> bool {
    matches!(part.kind(), Some(Kind::Listed | Kind::Collection | Kind::Asking | Kind::Parenthesised))
}

/// Words, and what the lines of belong below its first word.
fn last_aligned(mut parts: Vec<Part>) -> Doc {
    let last = parts.pop();
    let mut out = vec![spaced(parts), Doc::Space];
    out.extend(last.map(|last| Doc::align(shape(last))));
    Doc::All(out)
}

// ---- parts without layout ----

fn tight(parts: Vec<Part>) -> Doc {
    let mut out = Vec::new();
    for part in parts {
        if part.kind() == Some(Kind::Cast) {
            out.push(Doc::Space);
        }
        out.push(shape(part));
    }
    Doc::All(out)
}

/// Parts with blanks between them, and none inside of parentheses and before commas.
fn spaced(parts: Vec<Part>) -> Doc {
    between_words(parts, false)
}

/// The same, with parentheses that follow a name directly.
fn call_like(parts: Vec<Part>) -> Doc {
    between_words(parts, true)
}

fn between_words(parts: Vec<Part>, call: bool) -> Doc {
    let mut out = Vec::new();
    let mut before = Some(Doc::Nothing);
    for part in parts {
        let tight = part.is(",") || part.is(":") || part.is(")") || (call && part.is("("));
        let tight = tight || matches!(part.kind(), Some(Kind::Elements));
        let blank = before.take().unwrap_or(Doc::Space);
        out.push(if tight { Doc::Nothing } else { blank });
        if part.is("(") {
            before = Some(Doc::Nothing);
        } else if part.is(",") {
            before = Some(Doc::fill());
        }
        out.push(shape(part));
    }
    Doc::All(out)
}

// ---- brackets ----

/// An item between brackets, and the comma behind it.
struct Item {
    part: Part,
    comma: Option<Token>,
}

impl Item {
    /// Writes the item and what separates it from the next one; comments before a comma go behind it.
    fn put(self, separator: Doc, out: &mut Vec<Doc>) {
        let Item { mut part, comma } = self;
        let trailing = take_trailing(&mut part);
        out.extend([shape(part), separator]);
        out.extend(trailing.map(|text| Doc::Comment { text, own_line: false }));
        if let Some(comma) = comma {
            out.extend(comma.before.comments.into_iter().map(|c| Doc::Comment { text: c.text, own_line: true }));
            out.extend(comma.trailing.map(|text| Doc::Comment { text, own_line: false }));
        }
    }
}

/// What stands between brackets, and the one that closes.
fn items(parts: impl Iterator<Item = Part>) -> (Vec<Item>, Part) {
    let mut items: Vec<Item> = Vec::new();
    let mut parts: Vec<Part> = parts.collect();
    let close = parts.pop().unwrap_or_else(|| Part::Token(Token::default()));
    for part in parts {
        match part {
            Part::Token(comma) if comma.text == "," => {
                if let Some(last) = items.last_mut() {
                    last.comma = Some(comma);
                }
            }
            part => items.push(Item { part, comma: None }),
        }
    }
    (items, close)
}

/// Items in brackets: on one line, or opened with the items on lines of their own. `is_value` says that it is a list
/// or set, in which the grammar lets a comma stand behind the last item, as in a list of tools.
fn listed(parts: Vec<Part>, is_value: bool) -> Doc {
    let (head, rest) = opened(parts, &["(", "[", "{"]);
    let braced = head.last().is_some_and(|p| p.is("{"));
    let head = call_like(head);
    let (mut items, close) = items(rest);
    let only = items.len() == 1 && items.iter().all(|item| opens_bracket(&item.part) || item.part.is("*"));
    if items.is_empty() || (only && !braced && items.iter().all(|item| item.comma.is_none())) {
        let mut out = vec![head];
        out.extend(items.pop().map(|item| shape(item.part)));
        out.push(shape(close));
        return Doc::All(out);
    }
    let words = items.iter().all(|item| item.part.kind().is_none());
    let between = || if words { Doc::fill() } else { Doc::Line };
    if braced {
        braces(head, items, close, between)
    } else {
        in_brackets(head, items, close, between, is_value, || Doc::Soft)
    }
}

fn braces(head: Doc, items: Vec<Item>, close: Part, between: impl Fn() -> Doc) -> Doc {
    in_brackets(head, items, close, between, true, || Doc::Line)
}

/// `last_comma` says whether the grammar lets a comma stand behind the last item.
fn in_brackets(
    head: Doc,
    items: Vec<Item>,
    close: Part,
    between: impl Fn() -> Doc,
    last_comma: bool,
    edge: impl Fn() -> Doc,
) -> Doc {
    let mut body = vec![edge()];
    let last = items.len().saturating_sub(1);
    for (i, mut item) in items.into_iter().enumerate() {
        if i > 0 {
            // Where they would stand if they had been written before the comma.
            let comments = take_before(&mut item.part).comments;
            body.extend(comments.into_iter().map(|c| Doc::Comment { text: c.text, own_line: true }));
            body.push(between());
        }
        let separator = match (i == last, last_comma) {
            (false, _) => Doc::text(","),
            (true, true) => Doc::IfBroken(","),
            (true, false) => Doc::Nothing,
        };
        item.put(separator, &mut body);
    }
    Doc::group(close_body(
        close,
        edge(),
        |inside| Doc::nest(INDENT, Doc::All(body.into_iter().chain([inside]).collect())),
        head,
    ))
}

/// A function over events or elements, or a comprehension: what it consists of stands in a column.
fn asking(parts: Vec<Part>) -> Doc {
    let (head, rest) = opened(parts, &["(", "[", "{"]);
    let blank = if head.last().is_some_and(|p| p.is("{")) { Doc::Space } else { Doc::Nothing };
    let also = if matches!(blank, Doc::Space) { Doc::Space } else { Doc::Nothing };
    let mut rest: Vec<Part> = rest.collect();
    let close = rest.pop();
    let mut inner = Vec::new();
    for part in rest {
        if part.kind() == Some(Kind::Further) {
            inner.push(Doc::Line);
        }
        inner.push(shape(part));
    }
    let mut out = vec![call_like(head), blank, Doc::align(Doc::group(Doc::All(inner))), also];
    out.extend(close.map(shape));
    Doc::All(out)
}

fn parenthesised(parts: Vec<Part>) -> Doc {
    Doc::All(parts.into_iter().map(|part| if part.is("(") { shape(part) } else { Doc::align(shape(part)) }).collect())
}

// ---- expressions ----

/// Operands with operators at the starts of the lines; `indent` is that of all lines but the first.
fn chain(parts: Vec<Part>, indent: usize) -> Doc {
    let mut parts = parts.into_iter();
    let mut out = Vec::new();
    out.extend(parts.next().map(operand));
    let mut rest = Vec::new();
    while let Some(operator) = parts.next() {
        rest.extend([Doc::Line, shape(operator), Doc::Space]);
        rest.extend(parts.next().map(operand));
    }
    out.push(Doc::nest(indent, Doc::All(rest)));
    Doc::group(Doc::All(out))
}

/// An operand of a chain. The `and`s of an alternative stand further right than the `or` before it.
fn operand(part: Part) -> Doc {
    match part.kind() {
        Some(Kind::And) => Doc::nest(CONTINUED, shape(part)),
        _ => shape(part),
    }
}

fn comparison(parts: Vec<Part>) -> Doc {
    let mut out = Vec::new();
    for part in parts {
        match part {
            Part::Node(Node { kind: Kind::Compared, mut parts }) => {
                let Some(right) = parts.pop() else { continue };
                let line = if opens_bracket(&right) { Doc::Space } else { Doc::Line };
                out.push(Doc::nest(CONTINUED, Doc::All(vec![line, spaced(parts), Doc::Space, shape(right)])));
            }
            Part::Node(Node { kind: Kind::Tested, parts }) => out.extend([Doc::Space, spaced(parts)]),
            part => out.push(shape(part)),
        }
    }
    Doc::group(Doc::All(out))
}

/// Events with their condition and windows, or elements with their condition.
fn filtered(parts: Vec<Part>) -> Doc {
    let mut out = Vec::new();
    let mut condition = false;
    for mut part in parts {
        let named = part.first_token().is_some_and(|token| token.text == "as");
        let window = !condition && !named && part.kind() == Some(Kind::Spaced);
        if part.is("where") || (window && !out.is_empty()) {
            out.push(Doc::Line);
        } else if !out.is_empty() && !part.is(",") {
            out.push(Doc::Space);
        }
        let after_where = std::mem::replace(&mut condition, part.is("where"));
        out.push(if after_where { Doc::align(shape(part)) } else { shape(part) });
    }
    Doc::All(out)
}

/// Quantifiers within one another stand on one line as long as they fit; their condition follows, or stands
/// below them.
fn quantifier(mut parts: Vec<Part>) -> Doc {
    let body = parts.pop();
    let mut out = Vec::new();
    for part in parts {
        if part.is("where") {
            out.push(Doc::fill());
        } else if !out.is_empty() && !part.is(",") && !part.is(":") {
            out.push(Doc::Space);
        }
        out.push(shape(part));
    }
    let head = Doc::nest(CONTINUED, Doc::All(out));
    let body = match body {
        Some(Part::Node(Node { kind: Kind::Quantifier, mut parts })) => {
            let gap = parts.first_mut().map(take_before).unwrap_or_default();
            let comments = gap.comments.into_iter().map(|c| Doc::Comment { text: c.text, own_line: true });
            Doc::All([Doc::fill()].into_iter().chain(comments).chain([quantifier(parts)]).collect())
        }
        Some(body) => Doc::nest(INDENT, Doc::group(Doc::All(vec![Doc::Line, shape(body)]))),
        None => Doc::Nothing,
    };
    Doc::All(vec![head, body])
}
