//! Top-level declarations: sets, tables, constants, facts, definitions.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::{Compiler, Decl, Env, Reads, json_constant, literal};
use crate::{
    diag::{Code, Diagnostic, Span},
    lang::{
        ast::{Binder, FactItem, ForgetItem, Item, Name, SetItem, TableItem},
        program::{EventField, Fact, Forget, Node, NodeKind, Scope, SourceSpec, Table},
        types::Ty,
        val::{Datum, Val, WhyKind},
    },
    model::EventKind,
};

impl<'a> Compiler<'a> {
    /// Makes all top-level names known, so that files and declarations may come in any order.
    pub(super) fn declare(&mut self, items: &[&'a Item]) {
        let mut facts = 0;
        for item in items {
            match item {
                Item::Set(set) => {
                    let decl = self.set(set);
                    self.name(&set.name, decl);
                }
                Item::Table(table) => {
                    let decl = self.table(table);
                    self.name(&table.name, decl);
                }
                Item::Const(constant) => {
                    let (val, ty) = literal(&constant.value.value);
                    self.name(&constant.name, Decl::Const(val, ty));
                }
                Item::Fact(fact) => {
                    self.name(&fact.name, Decl::Fact(facts));
                    facts += 1;
                }
                Item::Def(def) => self.name(&def.name, Decl::Def(def)),
                Item::Forget(_) | Item::Policy(_) => {}
            }
        }
    }

    fn name(&mut self, name: &Name, decl: Decl<'a>) {
        if name.text.as_ref() == "it"
            || name.text.as_ref() == "now"
            || EventField::named(&name.text).is_some()
            || crate::lang::builtin::find(&name.text).is_some()
        {
            let problem = Diagnostic::error(
                Code::ReservedMeaning,
                name.span,
                format!("`{}` already means something in every expression", name.text),
            )
            .help("choose another name");
            self.problems.push(problem);
            self.unusable.insert(name.text.clone());
            return;
        }
        if let Some((earlier, span)) = self.decls.get(&name.text) {
            let problem =
                Diagnostic::error(Code::DeclaredTwice, name.span, format!("`{}` is declared twice", name.text))
                    .secondary(*span, format!("first declared here, as a {}", earlier.word()));
            self.problems.push(problem);
            return;
        }
        self.decls.insert(name.text.clone(), (decl, name.span));
    }

    fn set(&mut self, set: &SetItem) -> Decl<'a> {
        let mut values = BTreeSet::new();
        let mut tools = Vec::new();
        if let Some(item) = set.items.iter().find(|item| json_constant(item).is_none()) {
            self.error(Code::TypeMismatch, item.span, "a duration cannot be an element of a set");
        }
        for item in &set.items {
            let Some(value) = json_constant(item) else { continue };
            if let Some(text) = value.as_str() {
                tools.push(Arc::from(text));
            }
            if !values.insert(value) {
                let problem = Diagnostic::warning(Code::RowTwice, item.span, "this element is given twice");
                self.problems.push(problem);
            }
        }
        Decl::Set(Val::Known(Datum::Set(Arc::new(values), None)), tools)
    }

    fn table(&mut self, table: &TableItem) -> Decl<'a> {
        let mut rows = HashMap::new();
        let mut ty: Option<Ty> = None;
        for (key, value) in &table.rows {
            let at = key.first().map_or(value.span, |k| k.span);
            if key.len() != table.params.len() {
                let columns = table.params.len();
                let message = format!("this row has {}, not {columns}", counted(key.len(), "key"));
                self.error(Code::ArgumentCount, at, message);
                continue;
            }
            let Some(key) = key.iter().map(json_constant).collect::<Option<Vec<_>>>() else {
                self.error(Code::TypeMismatch, at, "a duration cannot be the key of a table");
                continue;
            };
            let (val, row_ty) = literal(&value.value);
            ty = Some(ty.map_or(row_ty, |t| if t == row_ty { t } else { Ty::Any }));
            if rows.insert(key, val).is_some() {
                self.error(Code::RowTwice, at, "this row is given twice");
            }
        }
        let compiled = Table { name: table.name.text.clone(), rows };
        Decl::Table(Arc::new(compiled), table.params.len(), ty.unwrap_or(Ty::Any))
    }

    /// Compiles what fills and empties facts.
    pub(super) fn facts(&mut self, items: &[&'a Item]) {
        for item in items {
            if let Item::Fact(fact) = item {
                let compiled = self.fact(fact);
                self.facts.push(compiled);
            }
        }
        for item in items {
            if let Item::Forget(forget) = item {
                self.forget(forget);
            }
        }
    }

    fn fact(&mut self, fact: &FactItem) -> Fact {
        self.begin();
        self.no_hits(&fact.from);
        let from = self.sources(&fact.from);
        let env = feeding(&from);
        let key: Vec<Node> = fact.key.iter().map(|k| self.expr(k, &env).node).collect();
        let value = self.expr(&fact.value, &env);
        if !fact.collects && (value.ty == Ty::Any || value.by_schema) && !value.is_broken() {
            let problem = Diagnostic::error(
                Code::FactValueType,
                fact.value.span,
                format!("the fact `{}` does not say of which type its value is", fact.name.text),
            )
            .help("write `as object`, `as string`, ..: a result whose value is of another type is then malformed");
            self.problems.push(problem);
        }
        let when = fact.when.as_ref().map(|w| self.condition(w, &env));
        self.fact_shapes.push(if fact.collects { None } else { value.shape.clone() });
        let reads_json = key.iter().chain([&value.node]).any(reads_json);
        Fact {
            name: fact.name.text.clone(),
            key,
            collects: fact.collects,
            value: value.node,
            reads_json,
            from,
            when,
            indexes: Vec::new(),
            span: fact.name.span,
        }
    }

    fn forget(&mut self, forget: &ForgetItem) {
        self.begin();
        self.no_hits(&forget.from);
        let from = self.sources(&forget.from);
        let env = feeding(&from);
        let key: Vec<Node> = forget.key.iter().map(|k| self.expr(k, &env).node).collect();
        let when = forget.when.as_ref().map(|w| self.condition(w, &env));
        match self.decls.get(&forget.name.text) {
            Some((Decl::Fact(id), _)) => {
                let columns = self.facts.get(*id).map_or(0, |f| f.key.len());
                let fact = *id;
                if columns != key.len() {
                    self.error(
                        Code::ArgumentCount,
                        forget.name.span,
                        wrong_keys(&forget.name.text, columns, key.len()),
                    );
                }
                self.forgets.push(Forget { fact, key, when, from });
            }
            _ => self.unknown_fact(&forget.name.text, forget.name.span, &[]),
        }
    }

    /// Something is read or emptied like a fact and is none; `names` are variables that could be meant.
    pub(super) fn unknown_fact(&mut self, name: &str, at: Span, names: &[&str]) {
        if self.unusable.contains(name) {
            return;
        }
        let facts: Vec<&str> =
            self.decls.iter().filter(|(_, (d, _))| matches!(d, Decl::Fact(_))).map(|(n, _)| n.as_ref()).collect();
        let near = self.near(name, facts.into_iter().chain(names.iter().copied()));
        let problem = Diagnostic::error(Code::UnknownFact, at, format!("there is no fact `{name}`"));
        self.problems.push(problem.did_you_mean(near.as_deref()));
    }

    /// Definitions that nothing uses are compiled as well, so that their mistakes are seen.
    pub(super) fn check_unused_defs(&mut self, items: &[&'a Item]) {
        for item in items {
            let Item::Def(def) = item else { continue };
            if self.used.contains(&def.name.text) {
                continue;
            }
            self.begin();
            let mut env = Env::judging(EventKind::ALL.to_vec(), Arc::from([]));
            for param in &def.params {
                let unknown = NodeKind::Const(Val::unknown(WhyKind::Missing, param.span));
                let node = Node::new(param.span, unknown);
                env.names.push((param.text.clone(), super::Binding::Argument(node, None), Ty::Any));
            }
            self.expanding.push(def.name.text.clone());
            self.expr(&def.body, &env);
            self.expanding.pop();
        }
    }
}

/// `1 key`, `2 keys`.
pub(super) fn counted(n: usize, word: &str) -> String {
    if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") }
}

/// That a fact is read or emptied with a wrong number of keys.
pub(super) fn wrong_keys(fact: &str, columns: usize, given: usize) -> String {
    match columns {
        0 => format!("the fact `{fact}` has no key"),
        _ => format!("the fact `{fact}` has {}, not {given}", counted(columns, "key")),
    }
}

/// The surroundings of a fact's parts: the feeding event and nothing else.
fn feeding(sources: &[SourceSpec]) -> Env {
    let kinds = sources.iter().flat_map(|s| s.kinds.iter().copied()).collect();
    Env { reads: Reads::Nothing, ..Env::judging(kinds, Arc::from(sources)) }
}

/// Whether an expression reads the event's own JSON.
fn reads_json(node: &Node) -> bool {
    if let NodeKind::Field { base, event: Some(EventField::Json), .. } = &node.kind
        && matches!(base.kind, NodeKind::Event(Scope::This))
    {
        return true;
    }
    let mut found = false;
    node.for_each_child(&mut |child| found = found || reads_json(child));
    found
}

impl Binder {
    /// The names that it binds, the value last.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.key.iter().chain([&self.value])
    }
}
