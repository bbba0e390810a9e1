//! From syntax trees to a program: names are resolved, types checked, definitions expanded, history
//! functions planned. Whatever is wrong becomes a diagnostic; a mistake gives one, not a chain.

mod check;
mod constant;
mod derivation;
mod detector;
mod expr;
mod forms;
mod hits;
mod hollow;
mod items;
mod pattern;
mod policy;
mod sequence;
mod shapes;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    ast::{Constant, DefItem, Item, Literal, Module, Name, Source, Tools},
    dispatch::Dispatch,
    program::{
        Cell, Fact, Forget, Id, Node, NodeKind, Policy, Program, Sequence, SourceSpec, Table, TextIndex, ToolSpec,
    },
    schema::{Shape, ToolSchemas},
    types::Ty,
    val::{Val, WhyKind},
};
use crate::{
    diag::{Code, Diagnostic, Diagnostics, Sources, Span, suggest},
    keywords::Categories,
    model::{EventKind, Num, Value},
    redact::{Finder, Redactor},
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
    /// What the agent's tools take and give, if the pack says so.
    pub tools: Option<Arc<ToolSchemas>>,
    /// What the pack redacts, if it says so: then its detectors are the ones that policies may name.
    pub redaction: Option<Arc<Redactor>>,
}

/// Compiles the files of a pack together. There is a program unless there is an error among the
/// diagnostics, or a declaration that could not be read.
pub fn compile(modules: &[Module], around: &Surroundings) -> (Option<Program>, Diagnostics) {
    let mut compiler = Compiler::new(around);
    let items: Vec<&Item> = modules.iter().flat_map(|m| &m.items).collect();
    let unread: Vec<&Option<Arc<str>>> = modules.iter().flat_map(|m| &m.unread).collect();
    compiler.unusable = unread.iter().copied().flatten().cloned().collect();
    compiler.declare(&items);
    compiler.facts(&items);
    compiler.policies(&items);
    compiler.check_unused_defs(&items);
    compiler.check_hit_policies(&items);
    // What uses a declaration is not known while a part of the pack is wrong.
    if unread.is_empty() && !compiler.problems.has_errors() {
        compiler.warn_unused();
        compiler.warn_of_meaning();
    }
    let Compiler { problems, policies, facts, forgets, cells, sequences, indexes, keeps_hits, .. } = compiler;
    if !unread.is_empty() || problems.has_errors() {
        return (None, problems);
    }
    let dispatch = Dispatch::new(&policies, &facts, &forgets, &cells, &sequences, &indexes);
    let program = Program {
        policies,
        facts,
        forgets,
        cells,
        sequences,
        indexes,
        dispatch,
        keeps_hits,
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
    /// Names whose declaration is wrong: what uses them is not wrong for that.
    unusable: HashSet<Arc<str>>,
    used: HashSet<Arc<str>>,
    used_categories: HashSet<String>,
    policies: Vec<Policy>,
    facts: Vec<Fact>,
    forgets: Vec<Forget>,
    cells: Vec<Cell>,
    /// Cells by what they keep, so that equal questions share one.
    shapes: HashMap<String, Id>,
    sequences: Vec<Sequence>,
    /// Order patterns by what they keep.
    sequence_shapes: HashMap<String, Id>,
    indexes: Vec<TextIndex>,
    /// Indexes of tokens by what they keep.
    index_shapes: HashMap<String, Id>,
    /// Definitions that are being expanded, and where the outermost of them is used.
    expanding: Vec<Arc<str>>,
    expanded_at: Option<Span>,
    /// Nodes made for the present policy: definitions expand.
    nodes: usize,
    /// Nodes made for the whole pack.
    all_nodes: usize,
    /// How deep the expression that is being compiled stands, definitions expanded.
    level: u32,
    /// Whether the present policy's depth was already complained of.
    deep: bool,
    /// Variables that the present policy has bound so far.
    slots: usize,
    /// The `let`s of the present policy.
    lets: Vec<Node>,
    /// What is known of those, of variables, and of the values of facts.
    let_shapes: Vec<Option<Arc<Shape>>>,
    slot_shapes: HashMap<usize, Arc<Shape>>,
    fact_shapes: Vec<Option<Arc<Shape>>>,
    /// Tools that were said to be unknown: a definition is compiled wherever it is used.
    unknown_tools: HashSet<(Arc<str>, Span)>,
    /// The detectors, once something asks for them.
    finder: Option<Arc<Finder>>,
    /// Whether something reads hits.
    keeps_hits: bool,
    /// Names of policies that hits are compared with.
    hit_policies: Vec<(Arc<str>, Span)>,
    /// Names that a `let` further down in the present policy binds.
    later: Vec<&'a Name>,
}

/// Nodes that one policy may have, once its definitions are expanded.
const MAX_NODES: usize = 20_000;

/// Nodes that the policies of a pack may have together.
const MAX_PACK_NODES: usize = 2_000_000;

/// How deep an expression may nest, once its definitions are expanded. More than the syntax tree
/// allows, and little enough that evaluation may recurse on a thread with a stack of 2 MiB.
const MAX_DEPTH: u32 = 400;

/// What a name stands for inside a policy.
#[derive(Clone)]
enum Binding {
    /// A variable of a quantifier.
    Slot(usize),
    /// A `let`.
    Let(usize),
    /// An argument of a definition, compiled where it was given, and what is known of it.
    Argument(Node, Option<Arc<Shape>>),
}

/// Where an expression stands.
#[derive(Clone)]
struct Env {
    /// Names from inner to outer, the innermost last.
    names: Vec<(Arc<str>, Binding, Ty)>,
    /// Kinds of the judged event.
    this: Vec<EventKind>,
    /// Its sources, where they are known.
    this_sources: Arc<[SourceSpec]>,
    /// Kinds of the pattern's event, inside a pattern.
    it: Option<Vec<EventKind>>,
    /// Its sources.
    it_sources: Arc<[SourceSpec]>,
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
    /// What is known of it by the schemas of tools; of a projection, of its elements.
    shape: Option<Arc<Shape>>,
    /// Whether its type is what a schema says, and not what was tested.
    by_schema: bool,
}

impl Typed {
    fn new(at: Span, kind: NodeKind, ty: Ty) -> Typed {
        Typed { node: Node::new(at, kind), ty, each: false, shape: None, by_schema: false }
    }

    /// Whether it stands in place of an expression that has an error.
    fn is_broken(&self) -> bool {
        matches!(self.node.kind, NodeKind::Const(Val::Unknown(_)))
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
            unusable: HashSet::new(),
            used: HashSet::new(),
            used_categories: HashSet::new(),
            policies: Vec::new(),
            facts: Vec::new(),
            forgets: Vec::new(),
            cells: Vec::new(),
            shapes: HashMap::new(),
            sequences: Vec::new(),
            sequence_shapes: HashMap::new(),
            indexes: Vec::new(),
            index_shapes: HashMap::new(),
            expanding: Vec::new(),
            expanded_at: None,
            nodes: 0,
            all_nodes: 0,
            level: 0,
            deep: false,
            slots: 0,
            lets: Vec::new(),
            let_shapes: Vec::new(),
            slot_shapes: HashMap::new(),
            fact_shapes: Vec::new(),
            unknown_tools: HashSet::new(),
            finder: None,
            keeps_hits: false,
            hit_policies: Vec::new(),
            later: Vec::new(),
        }
    }

    /// Begins a declaration: what it may cost is counted anew.
    fn begin(&mut self) {
        self.nodes = 0;
        self.level = 0;
        self.deep = false;
    }

    /// Counts nodes; false, with a diagnostic the first time, if there are too many.
    fn afford(&mut self, nodes: usize, at: Span) -> bool {
        let within = |count: usize, most: usize| count <= most;
        let (policy, pack) = (within(self.nodes, MAX_NODES), within(self.all_nodes, MAX_PACK_NODES));
        self.nodes = self.nodes.saturating_add(nodes);
        self.all_nodes = self.all_nodes.saturating_add(nodes);
        let (policy_now, pack_now) = (within(self.nodes, MAX_NODES), within(self.all_nodes, MAX_PACK_NODES));
        if policy && pack && !(policy_now && pack_now) {
            let message = if policy_now {
                "the policies of the pack are too large together, once their definitions are expanded"
            } else {
                "this is too large once its definitions are expanded"
            };
            let at = self.expanded_at.unwrap_or(at);
            let problem =
                Diagnostic::error(Code::TooLarge, at, message).help("use `let` for what is used more than once");
            self.problems.push(problem);
        }
        policy_now && pack_now
    }

    /// Complains, once, that an expression nests too deep.
    fn too_deep(&mut self, at: Span) {
        if !std::mem::replace(&mut self.deep, true) {
            let at = self.expanded_at.unwrap_or(at);
            let problem =
                Diagnostic::error(Code::TooDeep, at, "this is nested too deep once its definitions are expanded")
                    .label(format!("more than {MAX_DEPTH} levels"))
                    .help("let definitions use each other less, or split the policy");
            self.problems.push(problem);
        }
    }

    /// The candidate that was probably meant. Each search goes through all candidates, so once nobody
    /// will read on there are no more of them.
    fn near<'c>(&self, name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
        if self.problems.len() > Diagnostics::MOST {
            return None;
        }
        suggest(name, candidates).map(str::to_owned)
    }

    fn error(&mut self, code: Code, at: Span, message: impl Into<String>) {
        self.problems.push(Diagnostic::error(code, at, message));
    }

    /// The events that sources name.
    fn sources(&mut self, sources: &[Source]) -> Vec<SourceSpec> {
        sources.iter().flat_map(|source| self.source(source)).collect()
    }

    /// The events that a source names: those of the tools that it names and, for each of its patterns,
    /// those of the tools that fit.
    fn source(&mut self, source: &Source) -> Vec<SourceSpec> {
        let mut patterns = Vec::new();
        let tools = match &source.tools {
            Tools::Any => ToolSpec::Any,
            Tools::Glob(pattern) => ToolSpec::Glob(pattern.text.clone()),
            Tools::OneOf(tools) => {
                let (globs, names): (Vec<_>, Vec<_>) = tools.iter().partition(|tool| tool.is_glob);
                patterns = globs.iter().map(|tool| ToolSpec::Glob(tool.name.text.clone())).collect();
                ToolSpec::OneOf(names.iter().map(|tool| tool.name.text.clone()).collect())
            }
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
        self.known_tools(source);
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
        if !patterns.is_empty() && tools == ToolSpec::OneOf(Vec::new()) {
            return patterns.into_iter().map(|tools| SourceSpec { kinds: kinds.clone(), tools }).collect();
        }
        let named = std::iter::once(tools);
        named.chain(patterns).map(|tools| SourceSpec { kinds: kinds.clone(), tools }).collect()
    }

    fn unknown_set(&mut self, name: &Name, found: Option<&str>) {
        if self.unusable.contains(&name.text) {
            return;
        }
        let message = match found {
            Some(word) => format!("`{}` is a {word}, not a set", name.text),
            None => format!("there is no set `{}`", name.text),
        };
        let names: Vec<&str> =
            self.decls.iter().filter(|(_, (d, _))| matches!(d, Decl::Set(..))).map(|(n, _)| n.as_ref()).collect();
        let near = self.near(&name.text, names);
        let problem = Diagnostic::error(Code::UnknownSet, name.span, message);
        self.problems.push(match near {
            Some(near) => problem.did_you_mean(Some(&near)),
            None => problem.help(format!("for one tool leave out `in`: `call {}`", name.text)),
        });
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
