//! Declarations by name, as the interpreter looks them up.

use std::{collections::BTreeMap, sync::Arc};

use probity::{
    diag::{FileId, Sources, Style},
    lang::{
        ast::{
            DefItem, Expr, FactItem, ForgetItem, Item, Literal, Module, PolicyItem, Source, StatementKind, TableItem,
            TemplatePart,
        },
        parse,
    },
    model::{Effect, Num, Value},
    redact::{EmailWords, Finder, PhoneWords},
};

/// Whether a text mentions a keyword category.
pub type Mentions = Box<dyn Fn(&str, &str) -> bool>;

/// Everything that a set of `.policy` files declares.
pub struct Program {
    /// The files, for the text of conditions.
    pub sources: Sources,
    /// Sets of constants.
    pub sets: BTreeMap<Arc<str>, Vec<Value>>,
    /// Tables.
    pub tables: BTreeMap<Arc<str>, TableItem>,
    /// Named constants.
    pub consts: BTreeMap<Arc<str>, Literal>,
    /// Facts, in source order.
    pub facts: Vec<FactItem>,
    /// Removals from facts, in source order.
    pub forgets: Vec<ForgetItem>,
    /// Helper definitions.
    pub defs: BTreeMap<Arc<str>, DefItem>,
    /// Policies, in source order.
    pub policies: Vec<PolicyItem>,
    /// The fixed clock of the pack, if it has one.
    pub clock: Option<Num>,
    /// What a result's text begins with if it is an error.
    pub error_prefix: Option<String>,
    /// The share of its severity that the n-th hit of a policy is paid; the last one repeats.
    pub discounts: Vec<Num>,
    /// The keyword categories.
    pub mentions: Mentions,
    /// The detectors.
    pub finder: Finder,
}

impl Program {
    /// Reads the `.policy` files among some sources.
    ///
    /// Panics on a file that does not parse: the files are the tests' own.
    pub fn read(sources: Sources, files: &[FileId]) -> Program {
        let read = |file: &FileId| {
            let (module, problems) = parse(*file, sources.text(*file));
            assert!(!problems.has_errors(), "{}", problems.render(&sources, Style::Plain));
            module
        };
        let modules = files.iter().map(read).collect();
        Program::new(sources, modules)
    }

    /// From parsed files, with the defaults of a pack.
    pub fn new(sources: Sources, modules: Vec<Module>) -> Program {
        let mut program = Program {
            sources,
            sets: BTreeMap::new(),
            tables: BTreeMap::new(),
            consts: BTreeMap::new(),
            facts: Vec::new(),
            forgets: Vec::new(),
            defs: BTreeMap::new(),
            policies: Vec::new(),
            clock: None,
            error_prefix: Some("Error".to_owned()),
            discounts: vec![Num::ONE, Num::new(5, -1), Num::ZERO],
            mentions: Box::new(|category, _| panic!("no category {category}")),
            finder: Finder::new(EmailWords::english(), PhoneWords::english()).unwrap(),
        };
        for item in modules.into_iter().flat_map(|module| module.items) {
            match item {
                Item::Set(set) => {
                    let items = set.items.iter().map(|c| json(&c.value)).collect();
                    program.sets.insert(set.name.text, items);
                }
                Item::Table(table) => {
                    program.tables.insert(Arc::clone(&table.name.text), table);
                }
                Item::Const(item) => {
                    program.consts.insert(item.name.text, item.value.value);
                }
                Item::Fact(fact) => program.facts.push(fact),
                Item::Forget(forget) => program.forgets.push(forget),
                Item::Def(def) => {
                    program.defs.insert(Arc::clone(&def.name.text), def);
                }
                Item::Policy(policy) => program.policies.push(policy),
            }
        }
        program
    }

    /// The index of a fact.
    pub fn fact(&self, name: &str) -> Option<usize> {
        self.facts.iter().position(|fact| *fact.name.text == *name)
    }
}

/// A constant as a JSON value.
pub fn json(literal: &Literal) -> Value {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(b) => Value::Bool(*b),
        Literal::Number(n) => Value::Number(*n),
        Literal::String(s) => Value::String(Arc::clone(s)),
        Literal::Duration(_) => panic!("a duration is no element of a set and no key of a table"),
    }
}

/// What a policy does when it holds.
pub fn effect(policy: &PolicyItem) -> Effect {
    let stated = policy.statements.iter().find_map(|s| match &s.kind {
        StatementKind::Effect { effect, .. } => Some(*effect),
        _ => None,
    });
    stated.unwrap_or(Effect::Judge)
}

/// A policy's severity; 1 if it does not say.
pub fn severity(policy: &PolicyItem) -> Num {
    let stated = policy.statements.iter().find_map(|s| match s.kind {
        StatementKind::Severity(n) => Some(n),
        _ => None,
    });
    stated.unwrap_or(Num::ONE)
}

/// The sources of all its `on` statements.
pub fn triggers(policy: &PolicyItem) -> impl Iterator<Item = &Source> {
    policy.statements.iter().flat_map(|s| match &s.kind {
        StatementKind::On(sources) => sources.as_slice(),
        _ => &[],
    })
}

/// A condition of a policy, and whether it is stated with `unless`.
pub struct Stated<'p> {
    /// As written.
    pub condition: &'p Expr,
    /// True for `unless`.
    pub negated: bool,
}

/// The parts of a message.
pub fn message(policy: &PolicyItem) -> Option<&[TemplatePart]> {
    policy.statements.iter().find_map(|s| match &s.kind {
        StatementKind::Message(parts) => Some(parts.as_slice()),
        _ => None,
    })
}
