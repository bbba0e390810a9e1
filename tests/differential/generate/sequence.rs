//! Order patterns: two or three steps, with joins, windows and what may not come between.

use super::{Generator, Is, Kind, Scope, Sort, TOOLS, node, optional};
use crate::differential::tree::Node;

impl Generator<'_> {
    /// `once(a then b ..)`
    pub(super) fn sequence(&mut self, scope: &Scope) -> Node<Sort> {
        let mut scope = Scope { history: false, ..scope.clone() };
        let steps = 1 + self.random.index(3);
        let this = steps == 1 || self.random.chance(35);
        let mut text = "once(".to_owned();
        let mut parts = Vec::new();
        let mut before: Vec<(String, Kind)> = Vec::new();
        for i in 0..steps {
            if i > 0 {
                text.push_str(" then ");
            }
            let (sources, kind) = self.step_sources();
            text.push_str(&sources);
            let name = self.random.chance(70).then(|| self.fresh("s"));
            if let Some(name) = &name {
                text.push_str(&format!(" as {name}"));
            }
            let conditions =
                (0..[0, 1, 1, 1, 2][self.random.index(5)]).map(|_| self.step_condition(&scope, kind, &before));
            let conditions: Vec<Node<Sort>> = conditions.collect();
            let joined = conditions.into_iter().reduce(|a, b| node(Sort::Bool, "@ and @", vec![a, b]));
            if let Some(condition) = joined {
                text.push('@');
                parts.push(optional(" where @", vec![condition]));
            }
            if i > 0 {
                self.step_gap(&scope, &before, &mut text, &mut parts);
            }
            if let Some(name) = name {
                scope.bound.push((name.clone(), Is::Event(kind)));
                before.push((name, kind));
            }
        }
        if this {
            text.push_str(" then this");
            self.step_gap(&scope, &before, &mut text, &mut parts);
        }
        text.push(')');
        node(Sort::Bool, &text, parts)
    }

    fn step_sources(&mut self) -> (String, Kind) {
        let tool = TOOLS[self.random.index(3)];
        match self.random.below(12) {
            0..5 => (format!("call {tool}"), Kind::Call),
            5 => ("call".to_owned(), Kind::Call),
            6 => ("call in tools".to_owned(), Kind::Call),
            7 | 8 => (format!("result {tool}"), Kind::Result),
            9 => ("result".to_owned(), Kind::Result),
            10 => ("any".to_owned(), Kind::Message),
            _ => ("user".to_owned(), Kind::Message),
        }
    }

    /// A condition of a step or of what may not come between, often on a step before it.
    fn step_condition(&mut self, scope: &Scope, kind: Kind, before: &[(String, Kind)]) -> Node<Sort> {
        let inside = Scope { it: Some(kind), history: false, depth: 1, ..scope.clone() };
        if before.is_empty() || self.random.chance(40) {
            return self.pattern_condition(&inside, kind);
        }
        let (name, named) = before[self.random.index(before.len())].clone();
        let field = ["a", "a", "a", "b"][self.random.index(4)];
        let earlier = self.event_path(&format!("{name}."), named, field);
        let it = self.event_path("it.", kind, field);
        match self.random.below(8) {
            0..5 => node(Sort::Bool, ["@ == @", "(@ == @)"][self.random.index(2)], vec![it, earlier]),
            5 => node(Sort::Bool, "@ != @", vec![it, earlier]),
            6 => {
                let parts = vec![self.event_path("it.", kind, "n"), self.event_path(&format!("{name}."), named, "n")];
                node(Sort::Bool, &format!("@ {} @", self.order()), parts)
            }
            _ => {
                let judged = self.path(scope.judged, "a");
                node(Sort::Bool, "@ == @", vec![earlier, judged])
            }
        }
    }

    fn step_gap(&mut self, scope: &Scope, before: &[(String, Kind)], text: &mut String, parts: &mut Vec<Node<Sort>>) {
        let mut add = |part: Node<Sort>| {
            text.push('@');
            parts.push(part);
        };
        if self.random.chance(20) {
            add(optional([" within 5s", " within while_ago", " within 0s"][self.random.index(3)], Vec::new()));
        }
        if self.random.chance(15) {
            add(optional([" within 1 turns", " within 3 turns"][self.random.index(2)], Vec::new()));
        }
        if self.random.chance(15) {
            add(optional([" within 3 events", " within 6 events"][self.random.index(2)], Vec::new()));
        }
        if self.random.chance(30) {
            let (sources, kind) = self.step_sources();
            let conditions = (0..[0, 1, 1, 2][self.random.index(4)]).map(|_| self.step_condition(scope, kind, before));
            let conditions: Vec<Node<Sort>> = conditions.collect();
            let joined = conditions.into_iter().reduce(|a, b| node(Sort::Bool, "@ and @", vec![a, b]));
            let condition = joined.map(|condition| optional(" where @", vec![condition]));
            let text =
                if condition.is_some() { format!(" without ({sources}@)") } else { format!(" without {sources}") };
            add(optional(&text, condition.into_iter().collect()));
        }
    }
}
