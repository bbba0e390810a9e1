//! Conditions, and patterns over earlier events.

use super::{Generator, Is, Kind, Scope, Sort, TOOLS, deeper, node, optional};
use crate::differential::tree::Node;

impl Generator<'_> {
    // ---- conditions ----

    pub(super) fn boolean(&mut self, scope: &Scope) -> Node<Sort> {
        let scope = &deeper(scope);
        match self.random.below(44) {
            0..3 if scope.depth > 0 => {
                let op = ["and", "or"][self.random.index(2)];
                let parts = vec![self.boolean(scope), self.boolean(scope)];
                node(Sort::Bool, &format!("(@ {op} @)"), parts)
            }
            3 if scope.depth > 0 => {
                let inner = self.boolean(scope);
                node(Sort::Bool, "(not @)", vec![inner])
            }
            4..8 if scope.history => {
                let (pattern, _) = self.events(scope);
                node(Sort::Bool, "once(@)", vec![pattern])
            }
            8..11 if scope.history => {
                let (pattern, _) = self.events(scope);
                let op = self.order();
                let bound = node(Sort::Number, ["0", "1", "2"][self.random.index(3)], Vec::new());
                node(Sort::Bool, &format!("count(@) {op} @"), vec![pattern, bound])
            }
            11..14 if scope.history => {
                let over = self.over(scope);
                let op = self.order();
                let bound = node(Sort::Number, ["1", "2", "3"][self.random.index(3)], Vec::new());
                node(Sort::Bool, &format!("@ {op} @"), vec![over, bound])
            }
            14..17 if scope.depth > 0 => {
                let (text, mut parts, inside) = self.walk(scope);
                let quantity = ["any", "all", "none"][self.random.index(3)];
                parts.push(self.boolean(&inside));
                node(Sort::Bool, &format!("({quantity} {text}: @)"), parts)
            }
            17 => {
                let parts = vec![self.key(scope), self.set(scope)];
                node(Sort::Bool, ["@ in @", "@ not in @"][self.random.index(2)], parts)
            }
            18 => {
                let parts = vec![self.key(scope), self.list(scope)];
                node(Sort::Bool, "@ in @", parts)
            }
            19 => {
                let key = self.key(scope);
                let ty = ["string", "number", "whole", "list", "object", "null", "bool"][self.random.index(7)];
                node(Sort::Bool, &format!("@ is {ty}"), vec![key])
            }
            20 | 21 => {
                let op = self.order();
                let parts = vec![self.number(scope), self.number(scope)];
                node(Sort::Bool, &format!("@ {op} @"), parts)
            }
            22 | 23 => match self.fact_read(scope) {
                Some((read, _)) => {
                    node(Sort::Bool, ["known(@)", "seen(@)", "(not seen(@))"][self.random.index(3)], vec![read])
                }
                None => node(Sort::Bool, "known(@)", vec![self.any_path(scope, "a")]),
            },
            24 => {
                let text = self.text(scope);
                let test = ["contains \"x\"", "starts with \"y\"", "matches /[xy] ?1/", "mentions yes", "detects ip"]
                    [self.random.index(5)];
                node(Sort::Bool, &format!("@ {test}"), vec![text])
            }
            25 if scope.depth > 0 => {
                let parts =
                    vec![self.boolean(scope), node(Sort::Bool, ["true", "false"][self.random.index(2)], Vec::new())];
                node(Sort::Bool, "((@) default @)", parts)
            }
            26 => match self.bound(scope, Is::Bool) {
                Some(name) => node(Sort::Bool, &name, Vec::new()),
                None => self.comparison(scope),
            },
            27 if scope.depth > 0 => {
                let parts = vec![self.set(scope), self.set(scope)];
                node(Sort::Bool, ["@ == @", "@ != @"][self.random.index(2)], parts)
            }
            28 if scope.depth > 0 => {
                let parts = vec![self.any_path(scope, "a"), self.any_path(scope, "b")];
                node(Sort::Bool, "same(@, @)", parts)
            }
            29 if scope.history && scope.depth > 0 => {
                let (pattern, _) = self.pattern(scope, false);
                node(Sort::Bool, "(last(@).time >= now - while_ago)", vec![pattern])
            }
            42..44 if scope.history => self.derivation(scope),
            39..42 if scope.history => self.sequence(scope),
            33 if scope.history => {
                let key = self.key(scope);
                node(Sort::Bool, "recent(@)", vec![key])
            }
            34 if scope.history => {
                let key = self.key(scope);
                let op = self.order();
                node(Sort::Bool, &format!("spent(@) {op} 1"), vec![key])
            }
            35 if scope.depth > 0 => {
                let parts = vec![self.list(scope), self.key(scope)];
                node(Sort::Bool, "has(@, @)", parts)
            }
            31 => match self.fact_read(scope) {
                Some((read, Is::Object)) => {
                    node(Sort::Bool, ["known(@.a)", "known(@.o.n)"][self.random.index(2)], vec![read])
                }
                _ => {
                    let list = self.any_path(scope, "m");
                    node(Sort::Bool, "known(@[0].a)", vec![list])
                }
            },
            32 if scope.history => {
                let kind = ["call", "user", "result", "assistant"][self.random.index(4)];
                let field = ["text", "turn"][self.random.index(2)];
                let bound = self.path(scope.judged, "a");
                node(Sort::Bool, &format!("previous({kind}).{field} == @"), vec![bound])
            }
            36 if scope.depth > 0 => {
                let parts = vec![self.any_path(scope, "a"), self.any_path(scope, "b")];
                let test = [
                    "path_within(join([\"/\", @, \"/../\", @], \"\"), \"/x\")",
                    "host_within(join([@, \".\", @], \"\"), \"x\")",
                    "url(join([\"http://\", @, \"/\", @], \"\")).host == \"x\"",
                ];
                node(Sort::Bool, test[self.random.index(3)], parts)
            }
            30 if scope.judged == Kind::Result || scope.it == Some(Kind::Result) => {
                let event = if scope.it == Some(Kind::Result) { "it." } else { "" };
                node(Sort::Bool, &format!("{event}is_error"), Vec::new())
            }
            _ => self.comparison(scope),
        }
    }

    /// A condition on earlier events or what they left behind.
    pub(super) fn earlier(&mut self, scope: &Scope) -> Node<Sort> {
        let (pattern, kind) = self.pattern(scope, false);
        match self.random.below(16) {
            10..14 => self.sequence(scope),
            14 | 15 => self.derivation(scope),
            0..4 => {
                let (events, _) = self.events(scope);
                node(Sort::Bool, ["once(@)", "(not once(@))"][self.random.index(2)], vec![events])
            }
            4 => {
                let (pattern, _) = self.events(scope);
                let bound = node(Sort::Number, ["0", "1", "2"][self.random.index(3)], Vec::new());
                let op = self.order();
                node(Sort::Bool, &format!("count(@) {op} @"), vec![pattern, bound])
            }
            5 => {
                let over = self.over(scope);
                let op = self.order();
                let bound = node(Sort::Number, ["1", "2", "3"][self.random.index(3)], Vec::new());
                node(Sort::Bool, &format!("@ {op} @"), vec![over, bound])
            }
            6 => {
                let field = match kind {
                    Kind::Call => "args.a",
                    Kind::Result => "call.args.a",
                    Kind::Message => "text",
                    Kind::Hit => "policy",
                };
                let parts = vec![pattern, self.path(scope.judged, "a")];
                let op = ["first", "last"][self.random.index(2)];
                node(Sort::Bool, &format!("{op}(@).{field} == @"), parts)
            }
            7 => match self.fact_read(scope) {
                Some((read, Is::Object)) => {
                    let parts = vec![read, self.path(scope.judged, "a")];
                    node(Sort::Bool, "@.a == @", parts)
                }
                Some((read, Is::Set)) => {
                    let parts = vec![self.path(scope.judged, "a"), read];
                    node(Sort::Bool, "@ in @", parts)
                }
                Some((read, _)) => node(Sort::Bool, "seen(@)", vec![read]),
                None => node(Sort::Bool, "once(@)", vec![pattern]),
            },
            _ => {
                let (text, mut parts, inside) = self.walk(scope);
                let quantity = ["any", "all", "none"][self.random.index(3)];
                parts.push(self.comparison(&inside));
                node(Sort::Bool, &format!("({quantity} {text}: @)"), parts)
            }
        }
    }

    pub(super) fn comparison(&mut self, scope: &Scope) -> Node<Sort> {
        let op = ["==", "==", "!="][self.random.index(3)];
        let parts = match (scope.it, self.random.chance(50)) {
            (Some(kind), true) => vec![self.event_path("it.", kind, "a"), self.path(scope.judged, "a")],
            _ => vec![self.any_path(scope, "a"), self.key(scope)],
        };
        node(Sort::Bool, &format!("@ {op} @"), parts)
    }

    pub(super) fn order(&mut self) -> &'static str {
        ["<", "<=", ">", ">=", "==", "!="][self.random.index(6)]
    }

    pub(super) fn text(&mut self, scope: &Scope) -> Node<Sort> {
        match self.random.below(4) {
            0 => self.any_path(scope, "a"),
            1 if scope.it.is_some_and(|kind| kind != Kind::Hit) => node(Sort::Text, "it.text", Vec::new()),
            2 => {
                let inner = self.any_path(scope, "a");
                node(Sort::Text, "lower(@)", vec![inner])
            }
            _ => node(Sort::Text, "text", Vec::new()),
        }
    }

    // ---- patterns ----

    /// A pattern over earlier events, and the kind of event that it gives.
    pub(super) fn pattern(&mut self, scope: &Scope, opening: bool) -> (Node<Sort>, Kind) {
        let tool = TOOLS[self.random.index(3)];
        let hits = self.hits && self.random.chance(20);
        let (sources, kind) = match self.random.below(16) {
            _ if hits => ("hit".to_owned(), Kind::Hit),
            0..5 => (format!("call {tool}"), Kind::Call),
            5 => ("call".to_owned(), Kind::Call),
            6 => ("call in tools".to_owned(), Kind::Call),
            7 | 8 => (format!("result {tool}"), Kind::Result),
            9 => ("result".to_owned(), Kind::Result),
            10 => (format!("result get or result {tool}"), Kind::Result),
            11 => (format!("result {tool} or call {tool}"), Kind::Call),
            12 => ("any".to_owned(), Kind::Message),
            13 => ("call *t".to_owned(), Kind::Call),
            _ => (["user", "assistant"][self.random.index(2)].to_owned(), Kind::Message),
        };
        let inside = Scope { it: Some(kind), history: false, depth: 1, ..scope.clone() };
        let mut text = sources;
        let mut parts = Vec::new();
        let conditions = [0, 1, 1, 1, 2, 2, 3][self.random.index(7)];
        let conditions: Vec<Node<Sort>> = (0..conditions).map(|_| self.pattern_condition(&inside, kind)).collect();
        let joined = conditions.into_iter().reduce(|a, b| node(Sort::Bool, "@ and @", vec![a, b]));
        parts.extend(joined.map(|condition| optional(" where @", vec![condition])));
        if !opening && self.random.chance(20) {
            parts.push(optional([" within 5s", " within while_ago", " within 0s"][self.random.index(3)], Vec::new()));
        }
        if !opening && self.random.chance(15) {
            parts.push(optional(
                [" within 1 turns", " within 2 turns", " within 0 turns"][self.random.index(3)],
                Vec::new(),
            ));
        }
        if !opening && self.random.chance(15) {
            parts.push(optional([" within 2 events", " within 4 events"][self.random.index(2)], Vec::new()));
        }
        if !opening && self.random.chance(20) {
            parts.push(match self.random.below(3) {
                0 => {
                    optional([" since user", " since call put", " since result get"][self.random.index(3)], Vec::new())
                }
                _ => {
                    let (since, _) = self.pattern(scope, true);
                    optional(" since (@)", vec![since])
                }
            });
        }
        if !opening && self.random.chance(24) {
            parts.push(optional([" before this turn", " including this"][self.random.index(2)], Vec::new()));
        }
        text.push_str(&"@".repeat(parts.len()));
        (node(Sort::Fixed, &text, parts), kind)
    }

    pub(super) fn pattern_condition(&mut self, scope: &Scope, kind: Kind) -> Node<Sort> {
        let field = ["a", "a", "a", "b", "n", "l", "o"][self.random.index(7)];
        let it = self.event_path("it.", kind, field);
        match self.random.below(23) {
            0..5 => {
                let judged = self.path(scope.judged, field);
                node(Sort::Bool, "@ == @", vec![it, judged])
            }
            5 | 6 => {
                let judged = self.path(scope.judged, field);
                node(Sort::Bool, ["@ != @", "(not @ == @)"][self.random.index(2)], vec![it, judged])
            }
            7 => {
                let list = self.path(scope.judged, "l");
                node(Sort::Bool, ["@ in @", "@ not in @"][self.random.index(2)], vec![it, list])
            }
            8 => {
                let judged = self.path(scope.judged, "a");
                let list = self.event_path("it.", kind, "l");
                node(Sort::Bool, ["@ in @", "@ not in @"][self.random.index(2)], vec![judged, list])
            }
            9 if kind == Kind::Result => {
                node(Sort::Bool, ["it.is_error", "(not it.is_error)"][self.random.index(2)], Vec::new())
            }
            10 if kind == Kind::Call && scope.judged == Kind::Call => node(
                Sort::Bool,
                ["it.args == args", "it.args != args", "it.tool == tool"][self.random.index(3)],
                Vec::new(),
            ),
            11 => {
                let number = self.event_path("it.", kind, "n");
                let op = self.order();
                let bound = if self.random.chance(50) {
                    self.path(scope.judged, "n")
                } else {
                    node(Sort::Number, "1", Vec::new())
                };
                node(Sort::Bool, &format!("@ {op} @"), vec![number, bound])
            }
            15..18 if kind == Kind::Hit => {
                let test =
                    ["it.policy == \"P0\"", "it.policy != \"P0\"", "it.policy in { \"P0\" }", "\"early\" in it.tags"];
                node(Sort::Bool, test[self.random.index(4)], Vec::new())
            }
            12 if kind == Kind::Call => {
                let judged = self.path(scope.judged, "a");
                node(Sort::Bool, "near(it, @)", vec![judged])
            }
            13 => {
                let judged = self.path(scope.judged, "a");
                node(Sort::Bool, "[@, it.turn] == [@, turn]", vec![it, judged])
            }
            22 => {
                let earlier = self.calendar("it.");
                let judged = if self.random.chance(70) { self.calendar("") } else { self.path(scope.judged, "n") };
                node(Sort::Bool, "@ == @", vec![earlier, judged])
            }
            18 => {
                let test =
                    ["it.time == time", "it.time != time", "it.turn == turn", "now - it.time <= 3s", "it.time < now"];
                node(Sort::Bool, test[self.random.index(5)], Vec::new())
            }
            19 => {
                let judged = self.path(scope.judged, field);
                node(
                    Sort::Bool,
                    ["{ @ } == { @ }", "[@] == [@]", "[@, 1] == @"][self.random.index(3)],
                    vec![it, judged],
                )
            }
            20 => {
                let list = self.event_path("it.", kind, "l");
                let number = self.path(scope.judged, "n");
                node(
                    Sort::Bool,
                    ["len(@) == @", "count(e in @ where e == \"x\") == @"][self.random.index(2)],
                    vec![list, number],
                )
            }
            21 => {
                let list = self.event_path("it.", kind, "m");
                let other = ["l", "a"][self.random.index(2)];
                let judged = self.path(scope.judged, other);
                node(Sort::Bool, "@[*].a == @", vec![list, judged])
            }
            14 => node(Sort::Bool, ["@ == \"x\"", "@ in common", "@ is string"][self.random.index(3)], vec![it]),
            _ => self.boolean(scope),
        }
    }
}
