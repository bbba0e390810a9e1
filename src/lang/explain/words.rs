//! Parts of the compiled program in words, and as they are written.

use crate::{
    diag::Span,
    lang::{
        ast::HistoryOp,
        print::duration,
        program::{Node, Program, SourceSpec, ToolSpec, Window},
    },
    model::EventKind,
};

impl Program {
    /// The source text of an expression on one line.
    pub(super) fn written(&self, node: &Node) -> String {
        self.source_text(node.at)
    }

    /// The source text of a span on one line.
    pub(super) fn source_text(&self, at: Span) -> String {
        let text = self.sources.get(at.file).map_or("", |source| source.slice(at));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// File and line of a span.
    pub(super) fn place(&self, span: Span) -> String {
        let Some(source) = self.sources.get(span.file) else { return String::new() };
        format!("{}:{}", source.name(), source.position(source.clamp(span).start).line)
    }
}

/// Which events a source names.
pub(super) fn events(source: &SourceSpec) -> String {
    let tools = match &source.tools {
        ToolSpec::Any => None,
        ToolSpec::OneOf(names) => match names.as_slice() {
            [only] => Some(only.to_string()),
            [] => Some("no tool".to_owned()),
            names => Some(one_of(names.iter().map(AsRef::as_ref))),
        },
        ToolSpec::Glob(pattern) => Some(format!("a tool named {pattern}")),
    };
    if tools.is_none() && source.kinds.len() == EventKind::OF_THE_TRACE.len() {
        return "each event".to_owned();
    }
    let kinds: Vec<String> = source.kinds.iter().map(|kind| of_kind(*kind, tools.as_deref())).collect();
    kinds.join(" and ")
}

fn of_kind(kind: EventKind, tools: Option<&str>) -> String {
    match (kind, tools) {
        (EventKind::End, _) => "the end of the session".to_owned(),
        (EventKind::Hit, _) => "each violation of an earlier turn".to_owned(),
        (EventKind::Call, None) => "each call".to_owned(),
        (EventKind::Call, Some(tools)) => format!("each call of {tools}"),
        (EventKind::Result, None) => "each result".to_owned(),
        (EventKind::Result, Some(tools)) => format!("each result of {tools}"),
        (kind, _) => format!("each {} message", kind.word()),
    }
}

/// `a, b or c`.
fn one_of<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let last = names.len().saturating_sub(1);
    let mut out = String::new();
    for (i, name) in names.enumerate() {
        match i {
            0 => {}
            i if i == last => out.push_str(" or "),
            _ => out.push_str(", "),
        }
        out.push_str(name);
    }
    out
}

/// The windows of a history function.
pub(super) fn windows(window: &Window) -> Vec<String> {
    let counted = |n: u32, word: &str| format!("within {n} {word}{}", if n == 1 { "" } else { "s" });
    let mut out = Vec::new();
    out.extend(window.time.map(|seconds| format!("within {}", duration(seconds))));
    out.extend(window.turns.map(|n| counted(n, "turn")));
    out.extend(window.events.map(|n| counted(n, "event")));
    if window.before_turn {
        out.push("before this turn".to_owned());
    }
    if window.including_this {
        out.push("including the judged event".to_owned());
    }
    out
}

/// What a store keeps.
pub(super) fn keeps(op: HistoryOp, look_back: Option<usize>, element: Option<&str>, joins: usize) -> String {
    let element = element.unwrap_or("it");
    let kept = if let Some(most) = look_back {
        format!("the last {most} such events")
    } else {
        match op {
            HistoryOp::Once | HistoryOp::Count => "how many there were".to_owned(),
            HistoryOp::First => "the first one".to_owned(),
            HistoryOp::Last | HistoryOp::Previous => "the latest one".to_owned(),
            HistoryOp::Sum => format!("the sum of `{element}`"),
            HistoryOp::Distinct => format!("the different values of `{element}`"),
            HistoryOp::Min => format!("the least `{element}`"),
            HistoryOp::Max => format!("the greatest `{element}`"),
        }
    };
    if joins > 0 { format!("{kept}, for each value that is joined on") } else { kept }
}
