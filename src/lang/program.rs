//! The compiled form of a pack's policies: immutable, shared by all sessions of the pack.
//!
//! Names are gone: variables are slots, facts and history functions are numbered stores whose state
//! lives in a session's `State`. Equal history functions of different policies share one store.

mod derivation;
mod sequence;

use std::{collections::HashMap, sync::Arc};

pub use derivation::{DerivedAsk, TextIndex};
pub use sequence::{Asked, Gap, Guard, Sequence, SequenceAsk, Step};

use super::{
    ast::{BinaryOp, FoldOp, HistoryOp, Quantity, Type},
    builtin::Builtin,
    dispatch::Dispatch,
    val::Val,
};
use crate::{
    diag::{Sources, Span},
    keywords::{Categories, CategoryId},
    model::{Effect, Event, EventKind, Num, PolicyId, Value},
    redact::{Detector, Finder},
};

/// Everything that judging needs and that never changes.
#[derive(Debug)]
pub struct Program {
    /// The policies, in the order of their files.
    pub policies: Vec<Policy>,
    /// What fills facts.
    pub facts: Vec<Fact>,
    /// Removals from facts.
    pub forgets: Vec<Forget>,
    /// Stores of earlier events.
    pub cells: Vec<Cell>,
    /// Order patterns.
    pub sequences: Vec<Sequence>,
    /// Indexes of tokens.
    pub indexes: Vec<TextIndex>,
    /// Who is concerned by an event.
    pub dispatch: Dispatch,
    /// Whether something in the pack reads hits: only then are they events.
    pub keeps_hits: bool,
    /// The keyword categories of the pack.
    pub categories: Arc<Categories>,
    /// The pack's fixed clock: seconds since 1970.
    pub clock: Option<Num>,
    /// The files, for reasons in words.
    pub sources: Arc<Sources>,
}

/// Index of a policy, fact or cell in its list.
pub type Id = usize;

/// A compiled policy.
#[derive(Debug)]
pub struct Policy {
    /// Its id.
    pub id: PolicyId,
    /// Its title.
    pub title: Arc<str>,
    /// What happens when it fires.
    pub effect: Effect,
    /// Its severity, at least 0.
    pub severity: Num,
    /// Its tags.
    pub tags: Vec<Arc<str>>,
    /// What the judge of a semantic policy is asked.
    pub question: Option<Arc<str>>,
    /// Which events it judges.
    pub on: Vec<SourceSpec>,
    /// `when`s and the effect's condition; all must hold. Empty for a semantic policy.
    pub conditions: Vec<Cond>,
    /// Which of them is the effect's.
    pub decides: usize,
    /// `once per`: what it is reported once a session for. Empty if each time counts.
    pub once_per: Vec<Node>,
    /// Definitions of `let`, evaluated when first used.
    pub lets: Vec<Node>,
    /// The names of those, and where what they stand for is written.
    pub let_names: Vec<(Arc<str>, Span)>,
    /// How many variables its quantifiers bind.
    pub slots: usize,
    /// The message.
    pub message: Vec<MessagePart>,
    /// The history stores that it reads.
    pub cells: Vec<Id>,
    /// The facts that it reads.
    pub facts: Vec<Id>,
    /// Whether it reads hits: then its own are none that can be read.
    pub reads_hits: bool,
    /// Where its id stands.
    pub span: Span,
    /// The whole declaration.
    pub whole: Span,
}

/// A part of a message.
#[derive(Debug)]
pub enum MessagePart {
    /// Letters.
    Text(Arc<str>),
    /// A value to fill in.
    Hole(Node),
}

/// A condition, down to the leaves that evidence speaks of.
#[derive(Debug)]
pub enum Cond {
    /// All hold.
    And(Vec<Cond>),
    /// At least one holds.
    Or(Vec<Cond>),
    /// It does not hold.
    Not(Box<Cond>),
    /// Anything else.
    Leaf(Node, Arc<str>),
}

/// Which events: kinds and tools.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSpec {
    /// The kinds.
    pub kinds: Vec<EventKind>,
    /// The tools.
    pub tools: ToolSpec,
}

/// Which tools.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolSpec {
    /// Any, or none at all.
    Any,
    /// One of these.
    OneOf(Vec<Arc<str>>),
    /// What the pattern matches.
    Glob(Arc<str>),
}

/// A compiled fact.
#[derive(Debug)]
pub struct Fact {
    /// Its name.
    pub name: Arc<str>,
    /// The key, over the feeding event (scope `This`).
    pub key: Vec<Node>,
    /// True if it collects a set.
    pub collects: bool,
    /// The value, over the feeding event.
    pub value: Node,
    /// Key or value read the event's JSON.
    pub reads_json: bool,
    /// Which events feed it.
    pub from: Vec<SourceSpec>,
    /// Which of those do.
    pub when: Option<Node>,
    /// Secondary indexes, for quantifiers that ask for entries of which something equals a value.
    pub indexes: Vec<FactIndex>,
    /// Where it is declared.
    pub span: Span,
}

/// A secondary index of a fact.
#[derive(Debug)]
pub struct FactIndex {
    /// What is indexed, over the entry's value and key alone.
    pub node: Node,
    /// The slot of the value.
    pub value: usize,
    /// The slot of the key, if it has one.
    pub key: Option<usize>,
}

impl Fact {
    /// Whether a result whose call is unknown may have been meant for it.
    pub fn fed_by_results(&self) -> bool {
        self.from.iter().any(|s| s.kinds.contains(&EventKind::Result))
    }
}

/// A compiled `forget`.
#[derive(Debug)]
pub struct Forget {
    /// Of which fact.
    pub fact: Id,
    /// The key, over the event.
    pub key: Vec<Node>,
    /// The condition.
    pub when: Option<Node>,
    /// Which events.
    pub from: Vec<SourceSpec>,
}

/// A store of earlier events that one or more history functions read.
#[derive(Debug)]
pub struct Cell {
    /// What is asked.
    pub op: HistoryOp,
    /// Which events.
    pub sources: Vec<SourceSpec>,
    /// Conditions on the earlier event alone; scope `It`.
    pub local: Vec<Node>,
    /// Join keys of the earlier event; scope `It`. The reader brings the present side.
    pub key: Vec<Node>,
    /// The value that is summed, compared or counted; scope `It`.
    pub element: Option<Node>,
    /// The list in the earlier event whose elements are taken in one by one, with conditions on event and
    /// element alone; only for `Running`, else the asker walks.
    pub walk: Option<Walk>,
    /// The windows.
    pub window: Window,
    /// How it is kept.
    pub plan: Plan,
    /// Where it is first written.
    pub span: Span,
}

/// Windows of a history function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// At most so many seconds before the judged event.
    pub time: Option<Num>,
    /// At most so many turns before.
    pub turns: Option<u32>,
    /// At most so many events before.
    pub events: Option<u32>,
    /// Only in earlier turns.
    pub before_turn: bool,
    /// The judged event counts as well.
    pub including_this: bool,
}

/// How a cell is kept.
#[derive(Debug)]
pub enum Plan {
    /// Running aggregates per key: a constant cost per event and per question.
    Running {
        /// Conditions that open the window anew; over the opening event (scope `It`).
        since: Option<Opening>,
    },
    /// The last events per key, as many as the session's limits say, looked at one by one. For questions whose condition
    /// compares more than equality joins can index.
    LookBack {
        /// The opening, which may depend on the present event.
        since: Option<Opening>,
        /// The value may read the present event, so it is evaluated when asked.
        late_element: bool,
    },
}

/// What opens a `since` window.
#[derive(Debug)]
pub struct Opening {
    /// Which events.
    pub sources: Vec<SourceSpec>,
    /// Conditions on the event alone; scope `It`.
    pub local: Vec<Node>,
}

/// An expression.
#[derive(Clone)]
pub struct Node {
    /// Where it is written.
    pub at: Span,
    /// What.
    pub kind: NodeKind,
    /// How deep it nests, definitions expanded; the compiler bounds it, so that evaluation may recurse.
    pub depth: u32,
    /// How many nodes it has, itself included.
    pub size: u32,
}

/// Which event a field is read of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The judged (or feeding) event.
    This,
    /// The earlier event of a pattern.
    It,
}

/// Fields of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventField {
    /// `text`
    Text,
    /// `calls`
    Calls,
    /// `tool`
    Tool,
    /// `args`
    Args,
    /// `id`
    Id,
    /// `json`
    Json,
    /// `is_error`
    IsError,
    /// `call`
    Call,
    /// `turn`
    Turn,
    /// `seq`
    Seq,
    /// `time`
    Time,
    /// `policy`
    Policy,
    /// `severity`
    Severity,
    /// `tags`
    Tags,
}

impl EventField {
    /// Every field with its word.
    pub const ALL: [(&'static str, EventField); 14] = [
        ("text", EventField::Text),
        ("calls", EventField::Calls),
        ("tool", EventField::Tool),
        ("args", EventField::Args),
        ("id", EventField::Id),
        ("json", EventField::Json),
        ("is_error", EventField::IsError),
        ("call", EventField::Call),
        ("turn", EventField::Turn),
        ("seq", EventField::Seq),
        ("time", EventField::Time),
        ("policy", EventField::Policy),
        ("severity", EventField::Severity),
        ("tags", EventField::Tags),
    ];

    /// The field of a word.
    pub fn named(word: &str) -> Option<EventField> {
        EventField::ALL.iter().find(|(w, _)| *w == word).map(|(_, f)| *f)
    }
}

/// The kinds of expression.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// A constant.
    Const(Val),
    /// The event itself.
    Event(Scope),
    /// The pack's clock, or the judged event's time.
    Now,
    /// A variable of a quantifier.
    Slot(usize),
    /// A `let` of the policy.
    Let(usize),
    /// `x.name`: of an event or an object.
    Field {
        /// Of what.
        base: Box<Node>,
        /// The name.
        name: Arc<str>,
        /// The event field of that name, if there is one.
        event: Option<EventField>,
        /// Whether it is taken of every element of a projection.
        each: bool,
    },
    /// `x[i]`
    Index {
        /// Of what.
        base: Box<Node>,
        /// Which.
        key: Box<Node>,
        /// Whether it is taken of every element of a projection.
        each: bool,
    },
    /// `x[*]`
    Each(Box<Node>),
    /// `x as TYPE`
    Cast {
        /// What.
        base: Box<Node>,
        /// To what.
        to: Type,
        /// Whether it is done to every element of a projection.
        each: bool,
    },
    /// `x is TYPE`
    Is(Box<Node>, Type),
    /// `x default y`
    Default(Box<Node>, Box<Node>),
    /// `-x`
    Neg(Box<Node>),
    /// `not x`
    Not(Box<Node>),
    /// All.
    And(Vec<Node>),
    /// At least one.
    Or(Vec<Node>),
    /// `a OP b`
    Binary(BinaryOp, Box<Node>, Box<Node>),
    /// `x mentions CATEGORY`
    Mentions(Box<Node>, CategoryId),
    /// `x detects DETECTOR`
    Detects(Box<Node>, DetectorRef),
    /// `x matches /re/`
    Matches(Box<Node>, Pattern),
    /// A table's row.
    Table(Arc<Table>, Vec<Node>),
    /// A builtin function.
    Builtin(BuiltinRef, Vec<NodeArg>),
    /// `[a, b]`
    List(Vec<Node>),
    /// `{a, b}`
    Set(Vec<Node>),
    /// `fact[key]`
    Fact(Id, Vec<Node>),
    /// `seen(fact[key])`
    Seen(Id, Vec<Node>),
    /// `any x in C where W: B`
    Quantifier(Quantity, Walk, Box<Node>),
    /// `{e for x in C where W}`, `[..]`
    Comprehension {
        /// True for a list.
        list: bool,
        /// What is collected.
        element: Box<Node>,
        /// Over what.
        walk: Walk,
    },
    /// `sum(e for x in C where W)`
    Fold(FoldOp, Option<Box<Node>>, Walk),
    /// A history function.
    History(Box<Ask>),
    /// Events in order.
    Sequence(Box<SequenceAsk>),
    /// A question about derivation.
    Derived(Box<DerivedAsk>),
}

/// A reader's side of a cell.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The cell.
    pub cell: Id,
    /// What is asked.
    pub op: HistoryOp,
    /// Conditions on the present alone.
    pub present: Vec<Node>,
    /// The present side of the join keys.
    pub key: Vec<Node>,
    /// Conditions on both events; only for `LookBack`.
    pub rest: Vec<Node>,
    /// The whole condition, over `It` and `This`: for the judged event itself under `including this`.
    pub whole: Vec<Node>,
    /// The `since` conditions that read the present event; only for `LookBack`.
    pub since_rest: Vec<Node>,
    /// The value; only read for `LookBack` with a late element, and for the judged event itself.
    pub element: Option<Node>,
    /// The list whose elements are candidates of their own, with the whole condition on them.
    pub walk: Option<Walk>,
}

/// What a quantifier, comprehension or fold walks over.
#[derive(Clone, Debug)]
pub struct Walk {
    /// The collection.
    pub over: Over,
    /// The slot of the key, if two names are bound.
    pub key: Option<usize>,
    /// The slot of the value.
    pub value: usize,
    /// Which elements.
    pub filter: Option<Box<Node>>,
}

impl Walk {
    /// The variables that it binds.
    pub fn slots(&self) -> Vec<usize> {
        self.key.into_iter().chain([self.value]).collect()
    }
}

/// The collection of a walk.
#[derive(Clone, Debug)]
pub enum Over {
    /// A value.
    Value(Box<Node>),
    /// The entries of a fact; through an index if one fits the filter.
    Fact {
        /// Which.
        fact: Id,
        /// Which index, and the present side of its equality.
        index: Option<(usize, Box<Node>)>,
    },
}

/// An argument of a builtin.
#[derive(Clone, Debug)]
pub enum NodeArg {
    /// A value.
    Val(Node),
    /// A pattern.
    Pattern(Pattern),
}

/// A compiled regular expression; shown by its source.
#[derive(Clone)]
pub struct Pattern(pub Arc<regex::Regex>);

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}/", self.0.as_str())
    }
}

/// A detector; shown by its name.
#[derive(Clone)]
pub struct DetectorRef {
    /// Which one.
    pub detector: Detector,
    /// Who finds.
    pub finder: Arc<Finder>,
}

impl std::fmt::Debug for DetectorRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.detector.word())
    }
}

/// A builtin; shown by its name.
#[derive(Clone, Copy)]
pub struct BuiltinRef(pub &'static Builtin);

impl std::fmt::Debug for BuiltinRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name)
    }
}

/// A table, by key tuple.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: Arc<str>,
    /// The rows.
    pub rows: HashMap<Vec<Value>, Val>,
}

impl SourceSpec {
    /// Whether an event is of this source. A result whose call is unknown may be of any tool: that is
    /// `None`, where the source names tools.
    pub fn matches(&self, event: &Event) -> Option<bool> {
        if !self.kinds.contains(&event.kind()) {
            return Some(false);
        }
        match (&self.tools, event.tool()) {
            (ToolSpec::Any, _) => Some(true),
            (_, None) if event.is_unpaired() => None,
            (_, None) => Some(false),
            (ToolSpec::OneOf(names), Some(tool)) => Some(names.contains(tool)),
            (ToolSpec::Glob(pattern), Some(tool)) => Some(glob(pattern, tool)),
        }
    }
}

/// Whether a name matches a pattern in which `*` stands for any run of characters.
pub fn glob(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    // The text before the first star is a prefix, that after the last a suffix, the others follow in order.
    let Some(first) = parts.next() else { return name.is_empty() };
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let middle: Vec<&str> = parts.collect();
    let Some((last, middle)) = middle.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Without places: equal expressions look equal, which is how cells are shared.
impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.kind.fmt(f)
    }
}

impl Node {
    /// A node over its parts, one deeper than the deepest of them.
    pub fn new(at: Span, kind: NodeKind) -> Node {
        let mut node = Node { at, kind, depth: 0, size: 0 };
        let (mut depth, mut size) = (1u32, 1u32);
        node.for_each_child(&mut |child: &Node| {
            depth = depth.max(child.depth.saturating_add(1));
            size = size.saturating_add(child.size);
        });
        (node.depth, node.size) = (depth, size);
        node
    }

    /// Calls `f` with each direct part.
    pub fn for_each_child<'n>(&'n self, f: &mut dyn FnMut(&'n Node)) {
        let walk = |walk: &'n Walk, f: &mut dyn FnMut(&'n Node)| {
            match &walk.over {
                Over::Value(node) => f(node),
                Over::Fact { index, .. } => index.iter().for_each(|(_, node)| f(node)),
            }
            walk.filter.iter().for_each(|node| f(node));
        };
        match &self.kind {
            NodeKind::Const(_) | NodeKind::Event(_) | NodeKind::Now | NodeKind::Slot(_) | NodeKind::Let(_) => {}
            NodeKind::Field { base, .. }
            | NodeKind::Each(base)
            | NodeKind::Cast { base, .. }
            | NodeKind::Is(base, _)
            | NodeKind::Neg(base)
            | NodeKind::Not(base)
            | NodeKind::Mentions(base, _)
            | NodeKind::Detects(base, _)
            | NodeKind::Matches(base, _) => f(base),
            NodeKind::Index { base: a, key: b, .. } | NodeKind::Default(a, b) | NodeKind::Binary(_, a, b) => {
                f(a);
                f(b);
            }
            NodeKind::And(nodes)
            | NodeKind::Or(nodes)
            | NodeKind::List(nodes)
            | NodeKind::Set(nodes)
            | NodeKind::Table(_, nodes)
            | NodeKind::Fact(_, nodes)
            | NodeKind::Seen(_, nodes) => nodes.iter().for_each(f),
            NodeKind::Builtin(_, args) => {
                for arg in args {
                    if let NodeArg::Val(node) = arg {
                        f(node);
                    }
                }
            }
            NodeKind::Quantifier(_, w, body) => {
                walk(w, f);
                f(body);
            }
            NodeKind::Comprehension { element, walk: w, .. } => {
                walk(w, f);
                f(element);
            }
            NodeKind::Fold(_, element, w) => {
                walk(w, f);
                element.iter().for_each(|node| f(node));
            }
            NodeKind::History(ask) => {
                ask.present.iter().chain(&ask.key).chain(&ask.whole).for_each(&mut *f);
                ask.since_rest.iter().chain(&ask.element).for_each(&mut *f);
                ask.walk.iter().for_each(|w| walk(w, f));
            }
            NodeKind::Sequence(ask) => ask.nodes().for_each(f),
            NodeKind::Derived(ask) => f(&ask.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn stars_stand_for_any_run() {
        for (pattern, name, expected) in [
            ("db_*", "db_drop", true),
            ("db_*", "db_", true),
            ("db_*", "adb_x", false),
            ("*_delete", "row_delete", true),
            ("*_delete", "delete", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("*", "anything", true),
        ] {
            assert_eq!(glob(pattern, name), expected, "{pattern} {name}");
        }
    }
}
