//! Derivation: values that come from earlier texts, and texts that carry values.

use super::{Generator, Kind, Scope, Sort, TOOLS, node, optional};
use crate::differential::tree::Node;

impl Generator<'_> {
    /// `derived_from(..)` or `carries(..)`
    pub(super) fn derivation(&mut self, scope: &Scope) -> Node<Sort> {
        let scope = Scope { history: false, ..scope.clone() };
        let tool = TOOLS[self.random.index(3)];
        let (sources, kind) = match self.random.below(8) {
            0..3 => (format!("result {tool}"), Kind::Result),
            3 => ("result".to_owned(), Kind::Result),
            4 | 5 => (format!("call {tool}"), Kind::Call),
            6 => ("assistant".to_owned(), Kind::Message),
            _ => ("any".to_owned(), Kind::Message),
        };
        let value = match self.random.below(6) {
            0 => node(Sort::Text, "text", Vec::new()),
            1 => node(Sort::Fixed, ["\"acct 1\"", "\"done, X-1\"", "1000"][self.random.index(3)], Vec::new()),
            2 => self.any_path(&scope, "b"),
            3 => self.any_path(&scope, "n"),
            _ => self.any_path(&scope, "a"),
        };
        let value = Node::new(Sort::Fixed, "[@][0]", vec![value]);
        let mut text = format!("@, {sources}@");
        let condition = match (self.random.below(4), kind) {
            (0, Kind::Call) => Some("it.args.n == 1"),
            (0, Kind::Result) => Some("not it.is_error"),
            (1, Kind::Result) => Some("it.json.a == \"x\""),
            _ => None,
        };
        let condition = condition.map(|c| node(Sort::Bool, c, Vec::new()));
        let mut parts = vec![value];
        parts.push(optional(if condition.is_some() { " where @" } else { "" }, condition.into_iter().collect()));
        let word = if self.random.chance(50) {
            "derived_from"
        } else {
            let field = ["a", "b", "l", "l", "n"][self.random.index(5)];
            text.push_str(", @");
            parts.push(Node::new(Sort::Fixed, "@", vec![self.event_path("it.", kind, field)]));
            "carries"
        };
        node(Sort::Bool, &format!("{word}({text})"), parts)
    }
}
