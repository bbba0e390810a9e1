//! The syntax tree of a `.policy` file: what is written, with where it stands, and nothing resolved.
//!
//! Made by `parse`, read by the checker and the compiler. Names of constructs follow
//! `grammar/README.md`.

use std::sync::Arc;

use crate::{
    diag::Span,
    model::{Effect, EventKind, Num},
};

/// Everything that one file declares, in source order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// The declarations.
    pub items: Vec<Item>,
    /// The names of those that could not be read, as far as they have one. What uses them is not wrong
    /// for that.
    pub unread: Vec<Option<Arc<str>>>,
}

/// One top-level declaration.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `set NAME = { .. }`
    Set(SetItem),
    /// `table NAME(a, b) = { (x, y): v, .. }`
    Table(TableItem),
    /// `const NAME = literal`
    Const(ConstItem),
    /// `fact NAME[key] = value from ..`
    Fact(FactItem),
    /// `forget NAME[key] from ..`
    Forget(ForgetItem),
    /// `def NAME(a, b) = expr`
    Def(DefItem),
    /// `policy ID "title" { .. }`
    Policy(PolicyItem),
}

/// A name with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// The letters.
    pub text: Arc<str>,
    /// Where.
    pub span: Span,
}

/// A literal value.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number.
    Number(Num),
    /// Text, escapes resolved.
    String(Arc<str>),
    /// Seconds.
    Duration(Num),
}

/// A literal with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// The value.
    pub value: Literal,
    /// Where.
    pub span: Span,
}

/// A set of constants.
#[derive(Clone, Debug, PartialEq)]
pub struct SetItem {
    /// Its name.
    pub name: Name,
    /// Its elements.
    pub items: Vec<Constant>,
}

/// A table from tuples of constants to a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct TableItem {
    /// Its name.
    pub name: Name,
    /// What the columns of a key mean.
    pub params: Vec<Name>,
    /// Key and value of each row.
    pub rows: Vec<(Vec<Constant>, Constant)>,
}

/// A named constant.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstItem {
    /// Its name.
    pub name: Name,
    /// Its value.
    pub value: Constant,
}

/// State that earlier events fill.
#[derive(Clone, Debug, PartialEq)]
pub struct FactItem {
    /// Its name.
    pub name: Name,
    /// The key expressions, over the feeding event; empty for a fact of one cell.
    pub key: Vec<Expr>,
    /// True if it collects a set; false if the last value wins.
    pub collects: bool,
    /// The value, over the feeding event.
    pub value: Expr,
    /// Which events feed it.
    pub from: Vec<Source>,
    /// Which of those do.
    pub when: Option<Expr>,
}

/// Removal of what a fact holds under a key.
#[derive(Clone, Debug, PartialEq)]
pub struct ForgetItem {
    /// The fact's name.
    pub name: Name,
    /// The key, over the event.
    pub key: Vec<Expr>,
    /// Which events.
    pub from: Vec<Source>,
    /// Which of those.
    pub when: Option<Expr>,
}

/// A helper definition; not recursive.
#[derive(Clone, Debug, PartialEq)]
pub struct DefItem {
    /// Its name.
    pub name: Name,
    /// Its parameters.
    pub params: Vec<Name>,
    /// What it stands for.
    pub body: Expr,
}

/// A policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyItem {
    /// The id, unique in its pack.
    pub id: Name,
    /// The title.
    pub title: Arc<str>,
    /// The whole item.
    pub span: Span,
    /// Its statements, in source order.
    pub statements: Vec<Statement>,
}

/// One statement of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Where.
    pub span: Span,
    /// What.
    pub kind: StatementKind,
}

impl Statement {
    /// The name that it binds, if it is a `let`.
    pub fn let_name(&self) -> Option<&Name> {
        match &self.kind {
            StatementKind::Let(name, _) => Some(name),
            _ => None,
        }
    }
}

/// The kinds of statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// `severity 0.9`
    Severity(Num),
    /// `tags a, b`
    Tags(Vec<Name>),
    /// `on call in writes`
    On(Vec<Source>),
    /// `let x = expr`
    Let(Name, Expr),
    /// `when expr`
    When(Expr),
    /// `deny if expr`, `deny unless expr`, `deny once per key if expr`; `unless` is `negated`.
    Effect {
        /// What happens when it holds.
        effect: Effect,
        /// What it is reported once a session for; empty if each time counts.
        once_per: Vec<Expr>,
        /// True for `unless`.
        negated: bool,
        /// The condition as written.
        condition: Expr,
    },
    /// `message "text {expr}"`
    Message(Vec<TemplatePart>),
    /// `judge "what the judge is asked"`
    Judge(Arc<str>),
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum TemplatePart {
    /// Letters.
    Text(Arc<str>),
    /// A value to fill in.
    Hole(Expr),
}

/// Events by kind and tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Where.
    pub span: Span,
    /// Which kinds; `any` is all of them but `hit` and `end`.
    pub kinds: Vec<EventKind>,
    /// Which tools.
    pub tools: Tools,
}

/// Which tools a source names.
#[derive(Clone, Debug, PartialEq)]
pub enum Tools {
    /// Any, or none at all.
    Any,
    /// One, by name.
    Named(Name),
    /// A pattern with `*` for any run of characters.
    Glob(Name),
    /// The members of a declared set.
    Set(Name),
    /// The listed ones.
    OneOf(Vec<ToolName>),
}

/// A tool in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolName {
    /// As written.
    pub name: Name,
    /// True for a pattern with `*`; in a text in quotes the sign is a letter.
    pub is_glob: bool,
}

/// Earlier events: by source, by condition, by window.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// Where.
    pub span: Span,
    /// By kind and tool.
    pub sources: Vec<Source>,
    /// The condition: `it` is the earlier event, bare fields are the judged one's.
    pub filter: Option<Box<Expr>>,
    /// `within 30m`: at most this far back in time, inclusive.
    pub within_time: Option<Within>,
    /// `within 4 turns`
    pub within_turns: Option<u32>,
    /// `within 10 events`
    pub within_events: Option<u32>,
    /// `since PATTERN`: only what came after its latest match.
    pub since: Option<Box<Pattern>>,
    /// `before this turn`
    pub before_turn: bool,
    /// `including this`: the judged event counts as well, if it matches.
    pub including_this: bool,
    /// `, x in it.args.to`: each element of a list in the event is a candidate of its own.
    pub elements: Option<Binder>,
}

/// The bound of a time window.
#[derive(Clone, Debug, PartialEq)]
pub enum Within {
    /// Seconds.
    Duration(Num, Span),
    /// A named constant.
    Named(Name),
}

/// Whether a value comes from earlier events, or a text carries a value of theirs.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// The value, or the text.
    pub value: Expr,
    /// Which earlier events.
    pub pattern: Pattern,
    /// For `carries`: where the values stand in them.
    pub path: Option<Expr>,
}

impl Derived {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        if self.path.is_some() { "carries" } else { "derived_from" }
    }
}

/// Events in order: each step after the one before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// The steps.
    pub steps: Vec<Step>,
    /// `then this`: what lies between the last step and the judged event.
    pub this: Option<Gap>,
}

/// A step of an order.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Where.
    pub span: Span,
    /// By kind and tool.
    pub sources: Vec<Source>,
    /// `as NAME`: what later steps call its event.
    pub name: Option<Name>,
    /// The condition: `it` is the event, bare fields are the judged one's.
    pub filter: Option<Box<Expr>>,
    /// What lies between the step before and this one.
    pub gap: Gap,
}

/// What lies between two steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gap {
    /// `within 30m`
    pub within_time: Option<Within>,
    /// `within 4 turns`
    pub within_turns: Option<u32>,
    /// `within 10 events`
    pub within_events: Option<u32>,
    /// `without PATTERN`: no event that matches comes between.
    pub without: Option<Without>,
}

/// What may not come between two steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Without {
    /// By kind and tool.
    pub sources: Vec<Source>,
    /// The condition: `it` is the event, bare fields are the judged one's.
    pub filter: Option<Box<Expr>>,
}

impl Gap {
    fn for_each_child<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        let filter = self.without.as_ref().and_then(|without| without.filter.as_ref());
        filter.iter().for_each(|e| f(e));
    }
}

/// Types that a value can be read as or tested for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Text.
    String,
    /// Any number.
    Number,
    /// An integral number of at most 2^53.
    Whole,
    /// A boolean.
    Bool,
    /// A list.
    List,
    /// An object.
    Object,
    /// Null.
    Null,
}

impl Type {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::Number => "number",
            Type::Whole => "whole",
            Type::Bool => "bool",
            Type::List => "list",
            Type::Object => "object",
            Type::Null => "null",
        }
    }
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Where.
    pub span: Span,
    /// How deep it nests; the parser bounds it, so that walking a tree needs no guard.
    pub depth: u16,
    /// What.
    pub kind: ExprKind,
}

impl Item {
    /// Calls `f` with each expression that stands in it.
    pub fn for_each_expr<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        match self {
            Item::Set(_) | Item::Table(_) | Item::Const(_) => {}
            Item::Fact(fact) => {
                fact.key.iter().for_each(&mut *f);
                f(&fact.value);
                fact.when.iter().for_each(f);
            }
            Item::Forget(forget) => forget.key.iter().chain(&forget.when).for_each(f),
            Item::Def(def) => f(&def.body),
            Item::Policy(policy) => {
                for statement in &policy.statements {
                    match &statement.kind {
                        StatementKind::Let(_, e) | StatementKind::When(e) => f(e),
                        StatementKind::Effect { condition, once_per, .. } => {
                            once_per.iter().for_each(&mut *f);
                            f(condition);
                        }
                        StatementKind::Message(parts) => {
                            for part in parts {
                                if let TemplatePart::Hole(e) = part {
                                    f(e);
                                }
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

impl Expr {
    /// A node over its parts, one deeper than the deepest of them.
    pub fn new(span: Span, kind: ExprKind) -> Expr {
        let mut deepest = 0;
        kind.for_each_child(&mut |child: &Expr| deepest = deepest.max(child.depth));
        Expr { span, depth: deepest.saturating_add(1), kind }
    }
}

impl ExprKind {
    /// Calls `f` with each direct part, in source order.
    pub fn for_each_child<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        match self {
            ExprKind::Literal(_) | ExprKind::Name(_) => {}
            ExprKind::List(items) | ExprKind::Set(items) | ExprKind::And(items) | ExprKind::Or(items) => {
                items.iter().for_each(f);
            }
            ExprKind::Field(e, _)
            | ExprKind::Each(e)
            | ExprKind::Cast(e, _)
            | ExprKind::Is(e, _)
            | ExprKind::Neg(e)
            | ExprKind::Not(e)
            | ExprKind::Mentions(e, _)
            | ExprKind::Detects(e, _)
            | ExprKind::Matches(e, _) => f(e),
            ExprKind::Index(e, keys) => {
                f(e);
                keys.iter().for_each(f);
            }
            ExprKind::Default(a, b) | ExprKind::Binary(_, a, b) => {
                f(a);
                f(b);
            }
            ExprKind::Apply(_, arguments) => {
                for argument in arguments {
                    if let Argument::Expr(e) = argument {
                        f(e);
                    }
                }
            }
            ExprKind::Quantifier(_, binder, body) => {
                binder.for_each_child(f);
                f(body);
            }
            ExprKind::Comprehension { element, binder, .. } => {
                f(element);
                binder.for_each_child(f);
            }
            ExprKind::Fold(_, element, binder) => {
                element.iter().for_each(|e| f(e));
                binder.for_each_child(f);
            }
            ExprKind::History(_, element, pattern) => {
                element.iter().for_each(|e| f(e));
                pattern.for_each_child(f);
            }
            ExprKind::Sequence(sequence) => {
                for step in &sequence.steps {
                    step.filter.iter().for_each(|e| f(e));
                    step.gap.for_each_child(f);
                }
                sequence.this.iter().for_each(|gap| gap.for_each_child(f));
            }
            ExprKind::Derived(derived) => {
                f(&derived.value);
                derived.pattern.for_each_child(f);
                derived.path.iter().for_each(f);
            }
        }
    }
}

impl Binder {
    fn for_each_child<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        f(&self.collection);
        self.filter.iter().for_each(|e| f(e));
    }
}

impl Pattern {
    fn for_each_child<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        self.filter.iter().for_each(|e| f(e));
        if let Some(since) = &self.since {
            since.for_each_child(f);
        }
        if let Some(elements) = &self.elements {
            elements.for_each_child(f);
        }
    }
}

/// Comparison, arithmetic and text operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `in`
    In,
    /// `not in`
    NotIn,
    /// `contains`
    Contains,
    /// `starts with`
    StartsWith,
    /// `ends with`
    EndsWith,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `mod`
    Mod,
    /// `union`
    Union,
    /// `concat`
    Concat,
}

impl BinaryOp {
    /// How it is written.
    pub fn word(self) -> &'static str {
        match self {
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::In => "in",
            BinaryOp::NotIn => "not in",
            BinaryOp::Contains => "contains",
            BinaryOp::StartsWith => "starts with",
            BinaryOp::EndsWith => "ends with",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Mod => "mod",
            BinaryOp::Union => "union",
            BinaryOp::Concat => "concat",
        }
    }
}

/// `any`, `all`, `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// At least one.
    Any,
    /// Every one.
    All,
    /// Not one.
    None,
}

impl Quantity {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Quantity::Any => "any",
            Quantity::All => "all",
            Quantity::None => "none",
        }
    }
}

/// Functions over earlier events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HistoryOp {
    /// Was there one?
    Once,
    /// The first.
    First,
    /// The latest.
    Last,
    /// The latest of that kind, whatever its tool.
    Previous,
    /// How many.
    Count,
    /// The sum of a value.
    Sum,
    /// How many different values.
    Distinct,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
}

impl HistoryOp {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            HistoryOp::Once => "once",
            HistoryOp::First => "first",
            HistoryOp::Last => "last",
            HistoryOp::Previous => "previous",
            HistoryOp::Count => "count",
            HistoryOp::Sum => "sum",
            HistoryOp::Distinct => "distinct",
            HistoryOp::Min => "min",
            HistoryOp::Max => "max",
        }
    }
}

/// Folds over the elements of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FoldOp {
    /// How many.
    Count,
    /// The sum of a value.
    Sum,
    /// How many different values.
    Distinct,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
}

impl FoldOp {
    /// The function over events that does the same.
    pub fn history(self) -> HistoryOp {
        match self {
            FoldOp::Count => HistoryOp::Count,
            FoldOp::Sum => HistoryOp::Sum,
            FoldOp::Distinct => HistoryOp::Distinct,
            FoldOp::Min => HistoryOp::Min,
            FoldOp::Max => HistoryOp::Max,
        }
    }
}

/// `x in LIST where COND`, `k, v in OBJECT where COND`.
#[derive(Clone, Debug, PartialEq)]
pub struct Binder {
    /// The key's name, if two names are bound.
    pub key: Option<Name>,
    /// The element's (or value's) name.
    pub value: Name,
    /// What is walked.
    pub collection: Box<Expr>,
    /// Which elements.
    pub filter: Option<Box<Expr>>,
}

/// An argument of a function: some take a pattern.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A value.
    Expr(Expr),
    /// `/pattern/`
    Regex(Regex),
}

/// A regular expression as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Regex {
    /// The pattern, `\/` resolved.
    pub pattern: Arc<str>,
    /// Whether case is ignored (`/../i`).
    pub ignore_case: bool,
    /// Where.
    pub span: Span,
}

/// The kinds of expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A literal.
    Literal(Literal),
    /// A name: variable, constant, set, fact, or field of the judged event.
    Name(Arc<str>),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `{a, b}`
    Set(Vec<Expr>),
    /// `x.field`
    Field(Box<Expr>, Name),
    /// `x[i]`, `fact[k1, k2]`
    Index(Box<Expr>, Vec<Expr>),
    /// `x[*]`
    Each(Box<Expr>),
    /// `x as TYPE`
    Cast(Box<Expr>, Type),
    /// `x is TYPE`
    Is(Box<Expr>, Type),
    /// `x default y`
    Default(Box<Expr>, Box<Expr>),
    /// `-x`
    Neg(Box<Expr>),
    /// `not x`
    Not(Box<Expr>),
    /// `a and b and c`
    And(Vec<Expr>),
    /// `a or b or c`
    Or(Vec<Expr>),
    /// `a OP b`
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `x mentions CATEGORY`
    Mentions(Box<Expr>, Name),
    /// `x detects DETECTOR`
    Detects(Box<Expr>, Name),
    /// `x matches /re/`
    Matches(Box<Expr>, Regex),
    /// `name(args)`: a builtin function, a definition or a table.
    Apply(Name, Vec<Argument>),
    /// `any x in L where W: B`
    Quantifier(Quantity, Binder, Box<Expr>),
    /// `{ e for x in L where W }`, `[ .. ]`
    Comprehension {
        /// True for `[ .. ]`.
        list: bool,
        /// What is collected.
        element: Box<Expr>,
        /// From where.
        binder: Binder,
    },
    /// `sum(e for x in L where W)`, `count(x in L where W)`
    Fold(FoldOp, Option<Box<Expr>>, Binder),
    /// `sum(e over PATTERN)`, `once(PATTERN)`
    History(HistoryOp, Option<Box<Expr>>, Box<Pattern>),
    /// `once(PATTERN then PATTERN)`
    Sequence(Box<Sequence>),
    /// `derived_from(value, PATTERN)`, `carries(text, PATTERN, path)`
    Derived(Box<Derived>),
}
