//! Random programs: well formed, over the few tools, fields and values that random traces have, so
//! that what they ask for is often there.

mod conditions;
mod derivation;
mod elements;
mod sequence;
mod values;

use super::{random::Random, tree::Node};

/// What a generated expression gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A condition.
    Bool,
    /// A number, or what should be one.
    Number,
    /// Anything that can be compared or be a key.
    Key,
    /// A text, or what should be one.
    Text,
    /// A list, or what should be one.
    List,
    /// A set.
    Set,
    /// A part that can be left out.
    Optional,
    /// Parts that are never exchanged for one another.
    Fixed,
}

/// The kind of an event that names refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Call,
    Result,
    Message,
    Hit,
}

pub const TOOLS: [&str; 3] = ["pay", "get", "put"];

/// What is in scope where an expression is made.
#[derive(Clone)]
struct Scope {
    /// The judged (or feeding) event.
    judged: Kind,
    /// The earlier event, in a pattern.
    it: Option<Kind>,
    /// Bound variables.
    bound: Vec<(String, Is)>,
    /// Whether earlier events may be asked for here.
    history: bool,
    /// Whether facts may be read here.
    facts: bool,
    /// How much deeper an expression may go.
    depth: u32,
}

/// What a bound variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Event(Kind),
    Object,
    Scalar,
    Number,
    Set,
    Bool,
}

/// A fact that a program declares.
#[derive(Clone, Debug)]
struct Fact {
    name: String,
    keys: usize,
    holds: Is,
}

/// Makes one program.
pub struct Generator<'r> {
    random: &'r mut Random,
    facts: Vec<Fact>,
    names: u32,
    /// Whether the policy that is made may ask for hits: those of the first one.
    hits: bool,
}

/// The plainest expressions of a sort.
pub fn plain(sort: Sort) -> Vec<&'static str> {
    match sort {
        Sort::Bool => vec!["true", "false"],
        Sort::Number => vec!["1", "args.n"],
        Sort::Key => vec!["\"x\"", "args.a"],
        Sort::Text => vec!["text"],
        Sort::List => vec!["[1]", "args.l"],
        Sort::Set => vec!["common"],
        Sort::Optional => vec![""],
        Sort::Fixed => Vec::new(),
    }
}

fn optional(text: &str, parts: Vec<Node<Sort>>) -> Node<Sort> {
    Node::new(Sort::Optional, text, parts)
}

fn fixed(text: &str) -> Node<Sort> {
    Node::new(Sort::Fixed, text, Vec::new())
}

fn node(sort: Sort, text: &str, parts: Vec<Node<Sort>>) -> Node<Sort> {
    Node::new(sort, text, parts)
}

/// The declarations of a program, each a tree of its own.
pub fn program(random: &mut Random) -> Vec<Node<Sort>> {
    let mut generator = Generator { random, facts: Vec::new(), names: 0, hits: false };
    generator.program()
}

impl Generator<'_> {
    fn program(&mut self) -> Vec<Node<Sort>> {
        let mut items = vec![
            fixed("set tools = { pay, get }\n"),
            fixed("set common = { x, y, 1 }\n"),
            fixed("table rate(a, b) = { (x, 0): 1, (x, 1): 2, (y, 1): 0, (z, 2): x }\n"),
            fixed("table worth(a) = { x: 1, y: 2, 1: 3 }\n"),
            fixed("const limit = 2\n"),
            fixed("const while_ago = 10s\n"),
            fixed("def near(p, q) = p.args.a == q or p.args.n == 1\n"),
            fixed("def same(p, q) = p == q\n"),
            fixed("def recent(p) = once(call pay where it.args.a == p within 3 turns)\n"),
            fixed("def spent(p) = sum(it.args.n over call where it.args.a == p since call put)\n"),
            // A name that callers bind as well.
            fixed("def has(list, p) = any e1 in list: e1 == p\n"),
        ];
        for i in 0..self.random.below(4) {
            items.push(self.fact(i));
        }
        for fact in self.facts.clone() {
            if self.random.chance(15) {
                items.push(self.forget(&fact));
            }
        }
        for i in 0..=self.random.below(3) {
            items.push(self.policy(i));
        }
        items
    }

    // ---- facts ----

    fn fact(&mut self, index: u32) -> Node<Sort> {
        let name = format!("f{index}");
        let keys = [0, 1, 1, 1, 1, 2][self.random.index(6)];
        let (sources, kind) = self.trigger();
        let scope = Scope { judged: kind, it: None, bound: Vec::new(), history: false, facts: false, depth: 2 };
        let mut parts = Vec::new();
        let mut text = format!("fact {name}");
        if keys > 0 {
            text.push_str(if keys == 1 { "[@]" } else { "[@, @]" });
            for _ in 0..keys {
                parts.push(self.fact_key(kind));
            }
        }
        let (collects, holds) = match self.random.below(4) {
            0 => (true, Is::Set),
            1 => (false, Is::Scalar),
            2 => (false, Is::Number),
            _ => (false, Is::Object),
        };
        text.push_str(if collects { " collects @" } else { " = @" });
        parts.push(match holds {
            Is::Object => {
                let path = self.object_path(kind);
                node(Sort::Fixed, "@ as object", vec![path])
            }
            Is::Number => {
                let path = self.path(kind, "n");
                node(Sort::Number, ["@ as number", "@ as whole"][self.random.index(2)], vec![path])
            }
            Is::Scalar => {
                let field = ["a", "b"][self.random.index(2)];
                let path = self.path(kind, field);
                node(Sort::Key, ["@ as string", "(@ default \"x\") as string"][self.random.index(2)], vec![path])
            }
            _ => self.key(&scope),
        });
        text.push_str(&format!("\n  from {sources}"));
        if self.random.chance(60) {
            let condition = if kind == Kind::Result && self.random.chance(60) {
                node(Sort::Bool, "not is_error", Vec::new())
            } else {
                self.boolean(&scope)
            };
            text.push('@');
            parts.push(optional(" when @", vec![condition]));
        }
        text.push('\n');
        self.facts.push(Fact { name, keys, holds });
        node(Sort::Fixed, &text, parts)
    }

    fn forget(&mut self, fact: &Fact) -> Node<Sort> {
        let (sources, kind) = self.trigger();
        let mut parts = Vec::new();
        let mut text = format!("forget {}", fact.name);
        if fact.keys > 0 {
            text.push_str(if fact.keys == 1 { "[@]" } else { "[@, @]" });
            for _ in 0..fact.keys {
                parts.push(self.fact_key(kind));
            }
        }
        text.push_str(&format!(" from {sources}@\n"));
        let scope = Scope { judged: kind, it: None, bound: Vec::new(), history: false, facts: false, depth: 1 };
        let when = if self.random.chance(50) { vec![self.boolean(&scope)] } else { Vec::new() };
        parts.push(optional(if when.is_empty() { "" } else { " when @" }, when));
        node(Sort::Fixed, &text, parts)
    }

    fn fact_key(&mut self, kind: Kind) -> Node<Sort> {
        let field = if self.random.chance(80) { "a" } else { "b" };
        let path = self.path(kind, field);
        match self.random.below(10) {
            0..4 => node(Sort::Key, "@ as string", vec![path]),
            4 => node(Sort::Key, "@ default 1", vec![path]),
            _ => path,
        }
    }

    /// Sources for `on` and `from`, and the kind of event that they have in common.
    fn trigger(&mut self) -> (String, Kind) {
        let tool = TOOLS[self.random.index(3)];
        match self.random.below(16) {
            14 => ("any".to_owned(), Kind::Message),
            15 => (format!("call {tool} or result get"), [Kind::Call, Kind::Result][self.random.index(2)]),
            0..4 => (format!("call {tool}"), Kind::Call),
            4 | 5 => ("call".to_owned(), Kind::Call),
            6 => ("call in tools".to_owned(), Kind::Call),
            7 => (
                ["call in { put, get }", "call in { put, g* }", "call in { *y, *t }"][self.random.index(3)].to_owned(),
                Kind::Call,
            ),
            8 | 9 => (format!("result {tool}"), Kind::Result),
            10 => ("result in { pay, put }".to_owned(), Kind::Result),
            11 => ("result".to_owned(), Kind::Result),
            12 => ("call p*".to_owned(), Kind::Call),
            _ => (["user", "assistant", "user or assistant"][self.random.index(3)].to_owned(), Kind::Message),
        }
    }

    // ---- policies ----

    fn policy(&mut self, index: u32) -> Node<Sort> {
        let (sources, kind) = self.trigger();
        self.hits = index > 0;
        let tags = if index == 0 { "  tags early, x\n" } else { "" };
        let mut scope = Scope { judged: kind, it: None, bound: Vec::new(), history: true, facts: true, depth: 3 };
        let mut parts = Vec::new();
        let mut text = format!("policy P{index} \"policy\" {{\n  severity 1\n{tags}  on {sources}\n");
        if self.random.chance(40) {
            let (value, is) = self.bindable(&scope);
            let name = self.fresh("v");
            text.push('@');
            parts.push(optional(&format!("  let {name} = @\n"), vec![value]));
            scope.bound.push((name, is));
        }
        if self.random.chance(30) {
            let condition = self.boolean(&scope);
            text.push('@');
            parts.push(optional("  when @\n", vec![condition]));
        }
        // The first one is what others read hits of.
        let effect = if index == 0 { "deny" } else { ["deny", "deny", "deny", "flag"][self.random.index(4)] };
        let polarity = if self.random.chance(70) { "if" } else { "unless" };
        text.push_str(&format!("  {effect}@ {polarity} @\n"));
        let keys: Vec<Node<Sort>> = if self.random.chance(25) { vec![self.key(&scope)] } else { Vec::new() };
        parts.push(optional(if keys.is_empty() { "" } else { " once per @" }, keys));
        // Most conditions rest on something earlier.
        let condition = self.boolean(&scope);
        parts.push(match self.random.below(10) {
            0..5 => {
                let earlier = self.earlier(&scope);
                node(Sort::Bool, ["(@ and @)", "(@ or @)"][self.random.index(2)], vec![earlier, condition])
            }
            5..8 => self.earlier(&scope),
            _ => condition,
        });
        if self.random.chance(30) {
            let shown = self.key(&scope);
            text.push('@');
            parts.push(optional("  message \"m {@}\"\n", vec![shown]));
        }
        text.push_str("}\n");
        node(Sort::Fixed, &text, parts)
    }

    /// Something worth a name.
    fn bindable(&mut self, scope: &Scope) -> (Node<Sort>, Is) {
        match self.random.below(6) {
            0 | 1 => {
                if let Some((read, is)) = self.fact_read(scope) {
                    return (read, is);
                }
                (self.key(scope), Is::Scalar)
            }
            2 => {
                let (pattern, kind) = self.pattern(scope, false);
                let op = ["first", "last"][self.random.index(2)];
                (node(Sort::Fixed, &format!("{op}(@)"), vec![pattern]), Is::Event(kind))
            }
            3 => (self.number(scope), Is::Number),
            4 => (self.boolean(scope), Is::Bool),
            _ => (self.key(scope), Is::Scalar),
        }
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    // ---- paths ----

    /// A field of an event's arguments or answer.
    fn path(&mut self, kind: Kind, field: &str) -> Node<Sort> {
        self.event_path("", kind, field)
    }

    /// The same of a named event, `prefix` ending with a dot.
    fn event_path(&mut self, prefix: &str, kind: Kind, field: &str) -> Node<Sort> {
        let text = match kind {
            Kind::Call => format!("{prefix}args.{field}"),
            Kind::Result if self.random.chance(50) => format!("{prefix}json.{field}"),
            Kind::Result => format!("{prefix}call.args.{field}"),
            Kind::Hit => match field {
                "n" => format!("[{prefix}severity][0]"),
                "l" => format!("{prefix}tags"),
                "m" => format!("[[{prefix}policy][0]]"),
                "a" | "b" if self.random.chance(25) => format!("[{prefix}policy][0]"),
                _ => format!("{prefix}tags[0]"),
            },
            // In a list, a text is of no known type: so it may stand where the others do.
            Kind::Message => match field {
                "n" => format!("{prefix}turn"),
                "l" => format!("[{prefix}text, \"x\"]"),
                "m" => format!("[[{prefix}text][0]]"),
                "a" | "b" if self.random.chance(25) => format!("{prefix}text"),
                _ => format!("[{prefix}text][0]"),
            },
        };
        let sort = match field {
            "n" => Sort::Number,
            "l" | "m" => Sort::List,
            _ => Sort::Key,
        };
        node(sort, &text, Vec::new())
    }

    fn object_path(&mut self, kind: Kind) -> Node<Sort> {
        let text = match kind {
            Kind::Call => ["args", "args.o"][self.random.index(2)],
            Kind::Result => ["json", "json", "json.o", "call.args"][self.random.index(4)],
            Kind::Message | Kind::Hit => "[text][0]",
        };
        node(Sort::Fixed, text, Vec::new())
    }

    /// A path on whatever event is in scope, the earlier one by preference.
    fn any_path(&mut self, scope: &Scope, field: &str) -> Node<Sort> {
        let events: Vec<(String, Kind)> = scope
            .bound
            .iter()
            .filter_map(|(name, is)| match is {
                Is::Event(kind) => Some((format!("{name}."), *kind)),
                _ => None,
            })
            .collect();
        if !events.is_empty() && self.random.chance(30) {
            let (prefix, kind) = events[self.random.index(events.len())].clone();
            return self.event_path(&prefix, kind, field);
        }
        match scope.it {
            Some(kind) if self.random.chance(65) => self.event_path("it.", kind, field),
            _ => self.path(scope.judged, field),
        }
    }

    fn bound(&mut self, scope: &Scope, wanted: Is) -> Option<String> {
        let names: Vec<&String> = scope.bound.iter().filter(|(_, is)| *is == wanted).map(|(name, _)| name).collect();
        if names.is_empty() || self.random.chance(40) {
            None
        } else {
            Some(names[self.random.index(names.len())].clone())
        }
    }

    // ---- facts read ----

    /// A fact under a key that exists or might.
    fn fact_read(&mut self, scope: &Scope) -> Option<(Node<Sort>, Is)> {
        if !scope.facts || self.facts.is_empty() {
            return None;
        }
        let fact = self.facts[self.random.index(self.facts.len())].clone();
        Some((self.read_of(&fact, scope), fact.holds))
    }

    fn read_of(&mut self, fact: &Fact, scope: &Scope) -> Node<Sort> {
        let sort = match fact.holds {
            Is::Number => Sort::Number,
            Is::Set => Sort::Set,
            Is::Object => Sort::Fixed,
            _ => Sort::Key,
        };
        match fact.keys {
            0 => node(sort, &fact.name, Vec::new()),
            1 => {
                let key = self.read_key(scope);
                node(sort, &format!("{}[@]", fact.name), vec![key])
            }
            _ => {
                let keys = vec![self.read_key(scope), self.read_key(scope)];
                node(sort, &format!("{}[@, @]", fact.name), keys)
            }
        }
    }

    fn read_key(&mut self, scope: &Scope) -> Node<Sort> {
        match self.random.below(10) {
            0 => node(Sort::Key, "\"x\"", Vec::new()),
            1 => node(Sort::Key, "1", Vec::new()),
            2 => self.any_path(scope, "b"),
            _ => self.any_path(scope, "a"),
        }
    }
}

fn deeper(scope: &Scope) -> Scope {
    Scope { depth: scope.depth.saturating_sub(1), ..scope.clone() }
}
