//! From syntax trees to a program: names are resolved, types checked, definitions expanded, history
//! functions planned. Whatever is wrong becomes a diagnostic; a mistake gives one, not a chain.

mod expr;
mod items;
mod pattern;
mod policy;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    ast::{Constant, DefItem, Item, Literal, Module, Name, Source, Tools},
    dispatch::Dispatch,
    program::{Cell, Fact, Forget, Id, Node, NodeKind, Policy, Program, SourceSpec, Table, ToolSpec},
    types::Ty,
    val::{Val, WhyKind},
};
use crate::{
    diag::{Code, Diagnostic, Diagnostics, Sources, Span, suggest},
    keywords::Categories,
    model::{EventKind, Num, Value},
};

/// What a pack brings beside its policies.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The files, for reasons in words.
    pub sources: Arc<Sources>,
    /// The keyword categories.
    pub categories: Arc<Categories>,
    /// Where each category is declared, for those that nothing uses.
    pub category_spans: Vec<(String, Span)>,
    /// The fixed clock: seconds since 1970.
    pub clock: Option<Num>,
}

/// Compiles the files of a pack together. Without an error among the diagnostics there is a program.
pub fn compile(modules: &[Module], around: &Surroundings) -> (Option<Program>, Diagnostics) {
    let mut compiler = Compiler::new(around);
    let items: Vec<&Item> = modules.iter().flat_map(|m| &m.items).collect();
    compiler.declare(&items);
    compiler.facts(&items);
    compiler.check_unused_defs(&items);
    compiler.policies(&items);
    compiler.warn_unused();
    let Compiler { problems, policies, facts, forgets, cells, .. } = compiler;
    if problems.has_errors() {
        return (None, problems);
    }
    let dispatch = Dispatch::new(&policies, &facts, &forgets, &cells);
    let program = Program {
        policies,
        facts,
        forgets,
        cells,
        dispatch,
        categories: around.categories.clone(),
        clock: around.clock,
        sources: around.sources.clone(),
    };
    (Some(program), problems)
}

/// What a top-level name stands for.
#[derive(Clone)]
enum Decl<'a> {
    Set(Val, Vec<Arc<str>>),
    Table(Arc<Table>, usize, Ty),
    Const(Val, Ty),
    Fact(Id),
    Def(&'a DefItem),
}

impl Decl<'_> {
    fn word(&self) -> &'static str {
        match self {
            Decl::Set(..) => "set",
            Decl::Table(..) => "table",
            Decl::Const(..) => "constant",
            Decl::Fact(_) => "fact",
            Decl::Def(_) => "definition",
        }
    }
}

struct Compiler<'a> {
    around: &'a Surroundings,
    problems: Diagnostics,
    decls: HashMap<Arc<str>, (Decl<'a>, Span)>,
    used: HashSet<Arc<str>>,
    used_categories: HashSet<String>,
    policies: Vec<Policy>,
    facts: Vec<Fact>,
    forgets: Vec<Forget>,
    cells: Vec<Cell>,
    /// Cells by what they keep, so that equal questions share one.
    shapes: HashMap<String, Id>,
    /// Definitions that are being expanded.
    expanding: Vec<Arc<str>>,
    /// Nodes made for the present policy: definitions expand.
    nodes: usize,
    /// Variables that the present policy has bound so far.
    slots: usize,
    /// The `let`s of the present policy.
    lets: Vec<Node>,
}

/// Nodes that one policy may have, once its definitions are expanded.
const MAX_NODES: usize = 20_000;

/// What a name stands for inside a policy.
#[derive(Clone)]
enum Binding {
    /// A variable of a quantifier.
    Slot(usize),
    /// A `let`.
    Let(usize),
    /// An argument of a definition, compiled where it was given.
    Argument(Node),
}

/// Where an expression stands.
#[derive(Clone)]
struct Env {
    /// Names from inner to outer, the innermost last.
    names: Vec<(Arc<str>, Binding, Ty)>,
    /// Kinds of the judged event.
    this: Vec<EventKind>,
    /// Kinds of the pattern's event, inside a pattern.
    it: Option<Vec<EventKind>>,
    /// Whether facts and history may be read: not where they are filled.
    reads: Reads,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// In policies.
    All,
    /// In a pattern's condition: facts, but no history.
    Facts,
    /// In a fact: the feeding event alone.
    Nothing,
}

/// A compiled expression with its type.
struct Typed {
    node: Node,
    ty: Ty,
    /// True for a projection: what follows applies to every element.
    each: bool,
}

impl Typed {
    fn new(at: Span, kind: NodeKind, ty: Ty) -> Typed {
        Typed { node: Node { at, kind }, ty, each: false }
    }

    /// In place of an expression that has an error: it fits everywhere, so that nothing else is said.
    fn broken(at: Span) -> Typed {
        Typed::new(at, NodeKind::Const(Val::unknown(WhyKind::Missing, at)), Ty::Any)
    }
}

impl<'a> Compiler<'a> {
    fn new(around: &'a Surroundings) -> Compiler<'a> {
        Compiler {
            around,
            problems: Diagnostics::new(),
            decls: HashMap::new(),
            used: HashSet::new(),
            used_categories: HashSet::new(),
            policies: Vec::new(),
            facts: Vec::new(),
            forgets: Vec::new(),
            cells: Vec::new(),
            shapes: HashMap::new(),
            expanding: Vec::new(),
            nodes: 0,
            slots: 0,
            lets: Vec::new(),
        }
    }

    fn error(&mut self, code: Code, at: Span, message: impl Into<String>) {
        self.problems.push(Diagnostic::error(code, at, message));
    }

    /// The events that a source names.
    fn source(&mut self, source: &Source) -> SourceSpec {
        let tools = match &source.tools {
            Tools::Any => ToolSpec::Any,
            Tools::Glob(pattern) => ToolSpec::Glob(pattern.text.clone()),
            Tools::OneOf(names) => ToolSpec::OneOf(names.iter().map(|n| n.text.clone()).collect()),
            Tools::Named(name) => {
                if let Some((Decl::Set(..), declared)) = self.decls.get(&name.text) {
                    let problem = Diagnostic::warning(
                        Code::ToolIsSet,
                        name.span,
                        format!("this is the tool `{0}`, not the set `{0}`", name.text),
                    )
                    .secondary(*declared, "the set is declared here")
                    .help(format!("for the tools in the set write `in {}`", name.text));
                    self.problems.push(problem);
                }
                ToolSpec::OneOf(vec![name.text.clone()])
            }
            Tools::Set(name) => {
                self.used.insert(name.text.clone());
                match self.decls.get(&name.text) {
                    Some((Decl::Set(_, tools), _)) => ToolSpec::OneOf(tools.clone()),
                    other => {
                        let found = other.map(|(decl, _)| decl.word());
                        self.unknown_set(name, found);
                        ToolSpec::Any
                    }
                }
            }
        };
        if tools != ToolSpec::Any
            && let Some(kind) = source.kinds.iter().find(|k| !matches!(k, EventKind::Call | EventKind::Result))
            && source.kinds.len() == 1
        {
            let problem = Diagnostic::error(Code::NotHere, source.span, format!("{} events have no tool", kind.word()))
                .help("only call and result have one");
            self.problems.push(problem);
        }
        // `any TOOL` is the calls and results of the tool.
        let kinds = match &tools {
            ToolSpec::Any => source.kinds.clone(),
            _ => source.kinds.iter().filter(|k| matches!(k, EventKind::Call | EventKind::Result)).copied().collect(),
        };
        SourceSpec { kinds, tools }
    }

    fn unknown_set(&mut self, name: &Name, found: Option<&str>) {
        let message = match found {
            Some(word) => format!("`{}` is a {word}, not a set", name.text),
            None => format!("there is no set `{}`", name.text),
        };
        let names: Vec<&str> =
            self.decls.iter().filter(|(_, (d, _))| matches!(d, Decl::Set(..))).map(|(n, _)| n.as_ref()).collect();
        let near = suggest(&name.text, names).map(str::to_owned);
        self.problems.push(Diagnostic::error(Code::UnknownSet, name.span, message).did_you_mean(near.as_deref()));
    }

    /// Warns about declarations that nothing reads.
    fn warn_unused(&mut self) {
        let mut unused: Vec<(Span, String)> = self
            .decls
            .iter()
            .filter(|(name, _)| !self.used.contains(*name))
            .map(|(name, (decl, span))| (*span, format!("nothing uses the {} `{name}`", decl.word())))
            .collect();
        let categories = &self.around.category_spans;
        unused.extend(
            categories
                .iter()
                .filter(|(name, _)| !self.used_categories.contains(name))
                .map(|(name, span)| (*span, format!("nothing uses the keyword category `{name}`"))),
        );
        for (span, message) in unused {
            self.problems.push(Diagnostic::warning(Code::Unused, span, message));
        }
    }
}

/// The value of a literal.
fn literal(value: &Literal) -> (Val, Ty) {
    match value {
        Literal::Null => (Val::json(Value::Null), Ty::Null),
        Literal::Bool(b) => (Val::bool(*b), Ty::Bool),
        Literal::Number(n) => (Val::num(*n), Ty::Number),
        Literal::String(s) => (Val::json(Value::String(s.clone())), Ty::String),
        Literal::Duration(d) => (Val::Known(super::val::Datum::Duration(*d)), Ty::Duration),
    }
}

/// A constant as a JSON value; durations have none.
fn json_constant(constant: &Constant) -> Option<Value> {
    literal(&constant.value).0.as_json().cloned()
}
