//! Values: keys, numbers, lists, sets, and what walks over collections.

use super::{Fact, Generator, Is, Kind, Scope, Sort, deeper, fixed, node, optional};
use crate::differential::tree::Node;

impl Generator<'_> {
    // ---- values ----

    /// Something to compare or to use as a key.
    pub(super) fn key(&mut self, scope: &Scope) -> Node<Sort> {
        let scope = &deeper(scope);
        match self.random.below(23) {
            0 => node(Sort::Key, "\"x\"", Vec::new()),
            1 => node(Sort::Key, ["1", "null", "\"y\"", "true", "\"\""][self.random.index(5)], Vec::new()),
            2 => self.any_path(scope, "n"),
            3 => self.any_path(scope, "l"),
            4 => self.any_path(scope, "o"),
            5 => {
                let (event, kind) = match scope.it {
                    Some(kind) if self.random.chance(60) => ("it.", kind),
                    _ => ("", scope.judged),
                };
                let fields: &[&str] = match kind {
                    Kind::Call => &["turn", "tool", "text", "seq", "id"],
                    Kind::Result => &["turn", "tool", "text", "seq"],
                    Kind::Message => &["turn", "text"],
                    Kind::Hit => &["turn", "seq"],
                };
                let field = fields[self.random.index(fields.len())];
                node(Sort::Key, &format!("{event}{field}"), Vec::new())
            }
            6 if scope.depth > 0 => {
                let base = self.any_path(scope, "o");
                node(Sort::Key, "@[\"a\"]", vec![base])
            }
            7 if scope.depth > 0 => {
                let list = self.any_path(scope, "l");
                node(Sort::Key, "@[0]", vec![list])
            }
            8 if scope.depth > 0 => {
                let parts = vec![self.key(scope), self.key(scope)];
                node(Sort::Key, "(@ default @)", parts)
            }
            9 | 10 => match self.fact_read(scope) {
                Some((read, Is::Object)) => node(Sort::Key, "@.a", vec![read]),
                Some((read, Is::Scalar | Is::Number)) => read,
                _ => self.any_path(scope, "a"),
            },
            11 => match self.bound(scope, Is::Scalar) {
                Some(name) => node(Sort::Key, &name, Vec::new()),
                None => self.any_path(scope, "a"),
            },
            12 | 13 => match self.bound(scope, Is::Object) {
                Some(name) => node(Sort::Key, &format!("{name}.{}", ["a", "n"][self.random.index(2)]), Vec::new()),
                None => self.any_path(scope, "a"),
            },
            14 => self.any_path(scope, "b"),
            15 if scope.depth > 0 => {
                let inner = self.any_path(scope, "a");
                node(Sort::Key, &format!("(@ as {})", ["string", "number", "whole"][self.random.index(3)]), vec![inner])
            }
            16 if scope.history && scope.depth > 0 => {
                let (pattern, kind) = self.pattern(scope, false);
                let op = ["first", "last"][self.random.index(2)];
                let field = match kind {
                    Kind::Call => "args.a",
                    Kind::Result => "json.a",
                    Kind::Message => "text",
                    Kind::Hit => "policy",
                };
                node(Sort::Key, &format!("{op}(@).{field}"), vec![pattern])
            }
            17 if scope.depth > 0 => {
                let key = self.key(scope);
                node(Sort::Key, "worth(@)", vec![key])
            }
            18 if scope.depth > 0 => {
                let parts = vec![self.key(scope), self.any_path(scope, "n")];
                node(Sort::Key, "rate(@, @)", parts)
            }
            22 if scope.depth > 0 => {
                let parts = vec![self.any_path(scope, "a"), self.any_path(scope, "n")];
                node(Sort::Key, ["[join([@, @], \"\")][0]", "[join([@, @], \"/\")][0]"][self.random.index(2)], parts)
            }
            _ => self.any_path(scope, "a"),
        }
    }

    /// A day, hour or weekday: of the judged event, or of the earlier one.
    pub(super) fn calendar(&mut self, event: &str) -> Node<Sort> {
        let function = ["day", "hour", "weekday"][self.random.index(3)];
        let offset = ["", "", ", \"+23:59\"", ", -10s", ", 30s"][self.random.index(5)];
        node(Sort::Number, &format!("{function}({event}time{offset})"), Vec::new())
    }

    pub(super) fn number(&mut self, scope: &Scope) -> Node<Sort> {
        let scope = &deeper(scope);
        match self.random.below(18) {
            16 => {
                let event = if scope.it.is_some() { "it." } else { "" };
                self.calendar(event)
            }
            0 | 1 => node(Sort::Number, ["0", "1", "2", "0.5", "-1", "limit"][self.random.index(6)], Vec::new()),
            2 if scope.depth > 0 => {
                let op = ["+", "-", "*", "/", "mod"][self.random.index(5)];
                let parts = vec![self.number(scope), self.number(scope)];
                node(Sort::Number, &format!("(@ {op} @)"), parts)
            }
            3 if scope.depth > 0 => {
                let parts = vec![self.number(scope), self.number(scope)];
                node(Sort::Number, ["max(@, @)", "min(@, @)"][self.random.index(2)], parts)
            }
            4 | 5 if scope.history => {
                let (pattern, _) = self.events(scope);
                node(Sort::Number, "count(@)", vec![pattern])
            }
            6 | 7 if scope.history => self.over(scope),
            8 if scope.depth > 0 => {
                let list = self.list(scope);
                node(Sort::Number, "len(@)", vec![list])
            }
            9 | 10 if scope.depth > 0 => self.fold(scope),
            11 => match self.bound(scope, Is::Number) {
                Some(name) => node(Sort::Number, &name, Vec::new()),
                None => self.any_path(scope, "n"),
            },
            12 => match self.bound(scope, Is::Object) {
                Some(name) => node(Sort::Number, &format!("{name}.n"), Vec::new()),
                None => self.any_path(scope, "n"),
            },
            13 => match self.fact_read(scope) {
                Some((read, Is::Number)) => read,
                Some((read, Is::Object)) => node(Sort::Number, "@.n", vec![read]),
                _ => self.any_path(scope, "n"),
            },
            14 if scope.depth > 0 => {
                let parts = vec![self.number(scope), self.number(scope)];
                node(Sort::Number, "(@ default @)", parts)
            }
            _ => self.any_path(scope, "n"),
        }
    }

    pub(super) fn list(&mut self, scope: &Scope) -> Node<Sort> {
        let scope = &deeper(scope);
        match self.random.below(10) {
            0 if scope.depth > 0 => {
                let parts = vec![self.key(scope), self.key(scope)];
                node(Sort::List, "[@, @]", parts)
            }
            1 if scope.depth > 0 => {
                let base = self.any_path(scope, "m");
                node(Sort::List, "@[*].a", vec![base])
            }
            2 if scope.depth > 0 => {
                let base = self.any_path(scope, "m");
                node(Sort::List, "(@[*].n as number)", vec![base])
            }
            3 if scope.depth > 0 => {
                let base = self.any_path(scope, "o");
                node(Sort::List, ["keys(@)", "values(@)"][self.random.index(2)], vec![base])
            }
            4 if scope.depth > 0 => self.comprehension(scope, true),
            5 if scope.depth > 0 => {
                let parts = vec![self.list(scope), self.list(scope)];
                node(Sort::List, "(@ concat @)", parts)
            }
            6 => self.any_path(scope, "m"),
            _ => self.any_path(scope, "l"),
        }
    }

    pub(super) fn set(&mut self, scope: &Scope) -> Node<Sort> {
        let scope = &deeper(scope);
        match self.random.below(8) {
            0 => node(Sort::Set, "common", Vec::new()),
            1 if scope.depth > 0 => {
                let parts = vec![self.key(scope), self.key(scope)];
                node(Sort::Set, "{ @, @ }", parts)
            }
            2 | 3 if scope.depth > 0 => self.comprehension(scope, false),
            4 if scope.depth > 0 => {
                let parts = vec![self.set(scope), self.list(scope)];
                node(Sort::Set, "(@ union @)", parts)
            }
            5 => match self.bound(scope, Is::Set) {
                Some(name) => node(Sort::Set, &name, Vec::new()),
                None => node(Sort::Set, "common", Vec::new()),
            },
            _ => {
                let sets: Vec<Fact> = self.facts.iter().filter(|f| f.holds == Is::Set).cloned().collect();
                if sets.is_empty() || !scope.facts {
                    return node(Sort::Set, "{ \"x\", 1 }", Vec::new());
                }
                let fact = sets[self.random.index(sets.len())].clone();
                self.read_of(&fact, scope)
            }
        }
    }

    /// `NAME in COLLECTION` and what the names are, with the collection.
    pub(super) fn binder(&mut self, scope: &Scope) -> (String, Node<Sort>, Scope) {
        let mut inside = Scope { depth: scope.depth.min(2), history: false, ..scope.clone() };
        let name = self.fresh("e");
        let keyed: Vec<Fact> = self.facts.iter().filter(|f| f.keys > 0).cloned().collect();
        if scope.facts && !keyed.is_empty() && self.random.chance(40) {
            let fact = &keyed[self.random.index(keyed.len())];
            inside.bound.push((name.clone(), fact.holds));
            let collection = fixed(&fact.name);
            if self.random.chance(30) {
                let key = self.fresh("k");
                inside.bound.push((key.clone(), Is::Scalar));
                return (format!("{key}, {name}"), collection, inside);
            }
            return (name, collection, inside);
        }
        match self.random.below(6) {
            0 => {
                let key = self.fresh("k");
                inside.bound.push((key.clone(), Is::Scalar));
                inside.bound.push((name.clone(), Is::Scalar));
                let object = self.any_path(scope, "o");
                (format!("{key}, {name}"), node(Sort::Fixed, "@", vec![object]), inside)
            }
            1 => {
                inside.bound.push((name.clone(), Is::Scalar));
                let set = self.set(scope);
                (name, set, inside)
            }
            2 | 3 => {
                inside.bound.push((name.clone(), Is::Object));
                (name, self.any_path(scope, "m"), inside)
            }
            _ => {
                inside.bound.push((name.clone(), Is::Scalar));
                let list = self.list(scope);
                (name, list, inside)
            }
        }
    }

    /// `@ in @ where @` with the parts, the last ones being the collection and the condition.
    pub(super) fn walk(&mut self, scope: &Scope) -> (String, Vec<Node<Sort>>, Scope) {
        let (names, collection, inside) = self.binder(scope);
        let mut parts = vec![collection];
        let mut text = format!("{names} in @");
        if self.random.chance(60) {
            let condition = match inside.bound.last().cloned() {
                // An equality with something of the present: what an index would be made for.
                Some((name, is)) if self.random.chance(40) => {
                    let field = if is == Is::Object { ".a" } else { "" };
                    let present = match self.fact_read(scope) {
                        Some((read, Is::Scalar | Is::Number)) if self.random.chance(60) => read,
                        _ => self.any_path(scope, "a"),
                    };
                    let joined = node(Sort::Bool, &format!("{name}{field} == @"), vec![present]);
                    let more = self.boolean(&inside);
                    if self.random.chance(40) { node(Sort::Bool, "@ and @", vec![joined, more]) } else { joined }
                }
                _ => self.boolean(&inside),
            };
            text.push('@');
            parts.push(optional(" where @", vec![condition]));
        }
        (text, parts, inside)
    }

    pub(super) fn comprehension(&mut self, scope: &Scope, list: bool) -> Node<Sort> {
        let (text, mut parts, inside) = self.walk(scope);
        parts.insert(0, self.key(&inside));
        let (open, close, sort) = if list { ("[", "]", Sort::List) } else { ("{", "}", Sort::Set) };
        node(sort, &format!("{open} @ for {text} {close}"), parts)
    }

    pub(super) fn fold(&mut self, scope: &Scope) -> Node<Sort> {
        let (text, mut parts, inside) = self.walk(scope);
        let op = ["count", "sum", "min", "max", "distinct"][self.random.index(5)];
        if op == "count" {
            return node(Sort::Number, &format!("count({text})"), parts);
        }
        parts.insert(0, if op == "distinct" { self.key(&inside) } else { self.number(&inside) });
        node(Sort::Number, &format!("{op}(@ for {text})"), parts)
    }
}
