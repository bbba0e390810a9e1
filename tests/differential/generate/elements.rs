//! Questions about earlier events and about the elements of lists in them.

use super::{Generator, Is, Kind, Scope, Sort, node, optional};
use crate::differential::tree::Node;

impl Generator<'_> {
    /// A pattern, with the elements of a list in its events now and then, and the surroundings of a value.
    pub(super) fn events(&mut self, scope: &Scope) -> (Node<Sort>, Scope) {
        let (pattern, kind) = self.pattern(scope, false);
        let mut inside = Scope { it: Some(kind), history: false, depth: 1, ..scope.clone() };
        if self.random.chance(60) {
            return (pattern, inside);
        }
        let name = self.fresh("e");
        let (names, list) = match self.random.below(8) {
            0 => {
                let key = self.fresh("k");
                inside.bound.push((key.clone(), Is::Scalar));
                inside.bound.push((name.clone(), Is::Scalar));
                (format!("{key}, {name}"), self.event_path("it.", kind, "o"))
            }
            1..3 => {
                inside.bound.push((name.clone(), Is::Object));
                (name.clone(), self.event_path("it.", kind, "m"))
            }
            3 => {
                inside.bound.push((name.clone(), Is::Scalar));
                let parts = vec![self.event_path("it.", kind, "l"), self.event_path("", scope.judged, "l")];
                (name.clone(), node(Sort::Fixed, "(@ concat @)", parts))
            }
            4 => {
                inside.bound.push((name.clone(), Is::Scalar));
                (name.clone(), node(Sort::Fixed, "@[*].a", vec![self.event_path("it.", kind, "m")]))
            }
            _ => {
                inside.bound.push((name.clone(), Is::Scalar));
                (name.clone(), self.event_path("it.", kind, "l"))
            }
        };
        // Not for a list that stands in for another one: the list is one of the earlier event.
        let list = Node::new(Sort::Fixed, "@", vec![list]);
        let mut parts = vec![pattern, list];
        let mut text = format!("@, {names} in @");
        if self.random.chance(70) {
            let is = inside.bound.last().map(|(_, is)| *is);
            let field = if is == Some(Is::Object) { ".a" } else { "" };
            let joined = |this: &mut Self| {
                let judged = this.path(scope.judged, "a");
                node(Sort::Bool, &format!("{name}{field} == @"), vec![judged])
            };
            let condition = match self.random.below(6) {
                0..2 => joined(self),
                2 => node(Sort::Bool, &format!("{name} is string"), Vec::new()),
                3 => {
                    let parts = vec![joined(self), self.boolean(&inside)];
                    node(Sort::Bool, "@ and @", parts)
                }
                _ => self.boolean(&inside),
            };
            text.push('@');
            parts.push(optional(" where @", vec![condition]));
        }
        (node(Sort::Fixed, &text, parts), inside)
    }

    /// `sum`, `min`, `max`, `distinct` over earlier events.
    pub(super) fn over(&mut self, scope: &Scope) -> Node<Sort> {
        let (pattern, inside) = self.events(scope);
        let kind = inside.it.unwrap_or(Kind::Message);
        let op = ["sum", "min", "max", "distinct"][self.random.index(4)];
        let bound = inside.bound.len() > scope.bound.len();
        let element = match inside.bound.last() {
            Some((name, Is::Scalar)) if bound && self.random.chance(70) => node(Sort::Fixed, name, Vec::new()),
            Some((name, Is::Object)) if bound && self.random.chance(70) => {
                let field = if op == "distinct" { "a" } else { "n" };
                node(Sort::Fixed, &format!("{name}.{field}"), Vec::new())
            }
            _ if op == "distinct" => self.key(&inside),
            _ => self.event_path("it.", kind, "n"),
        };
        node(Sort::Number, &format!("{op}(@ over @)"), vec![element, pattern])
    }
}
