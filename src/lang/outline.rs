//! What each declaration of a pack says by itself, in its canonical spelling: what two versions of a pack are
//! compared by.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    ast::{Item, Module, PolicyItem, StatementKind},
    parse::concrete::{Kind, Node, Part, concrete},
    print::{ordered, print_item},
};
use crate::diag::{Sources, Span};

/// The declarations of a pack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Policies by id.
    pub policies: BTreeMap<Arc<str>, PolicyOutline>,
    /// Everything else by name.
    pub declarations: BTreeMap<Arc<str>, Declaration>,
}

/// What a policy says, in parts that mean different things to those who read a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyOutline {
    /// Its title.
    pub title: String,
    /// Its severity as text.
    pub severity: String,
    /// Its tags, as text.
    pub tags: String,
    /// Its message; empty if it has none.
    pub message: String,
    /// When it fires and what happens then: its other statements, a line each.
    pub says: Vec<String>,
    /// As it is written.
    pub source: String,
    /// What it rests on.
    pub uses: BTreeSet<Use>,
}

/// What a declaration that is no policy says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// `set`, `table`, `const`, `fact` or `def`.
    pub kind: &'static str,
    /// Its text; of a fact, with what it forgets.
    pub says: BTreeSet<String>,
    /// The elements of a set.
    pub elements: BTreeSet<String>,
    /// What it rests on.
    pub uses: BTreeSet<Use>,
}

/// A name that something rests on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Of another declaration.
    Declaration(Arc<str>),
    /// Of a keyword category.
    Category(Arc<str>),
}

impl Outline {
    /// Of files that were read without a mistake; without the declarations whose names stand in places that are left out.
    pub fn new<'m>(
        modules: impl IntoIterator<Item = &'m Module>,
        left_out: &BTreeSet<Span>,
        sources: &Sources,
    ) -> Outline {
        let mut outline = Outline::default();
        for module in modules {
            // The words of a declaration, from the text that it was read from.
            let Some(file) = module.items.first().map(|item| item.name().span.file) else { continue };
            let read = concrete(sources.text(file)).map(|file| file.items).unwrap_or_default();
            let items = module.items.iter().zip(read);
            for (item, node) in items.filter(|(item, _)| !left_out.contains(&item.name().span)) {
                let mut uses = BTreeSet::new();
                words(&node, &mut uses);
                outline.add(item, uses, sources);
            }
        }
        outline.keep_known();
        outline
    }

    fn add(&mut self, item: &Item, uses: BTreeSet<Use>, sources: &Sources) {
        let ordered = ordered(item);
        let name = item.name().text.clone();
        if let Item::Policy(policy) = &ordered {
            let source = sources.get(policy.span.file).map(|file| file.slice(policy.span).to_owned());
            let source = source.unwrap_or_default();
            self.policies.insert(name, PolicyOutline { source, uses, ..PolicyOutline::of(policy) });
            return;
        }
        let declaration = self.declarations.entry(name).or_default();
        declaration.uses.extend(uses);
        declaration.says.insert(print_item(&ordered));
        declaration.kind = match &ordered {
            Item::Set(set) => {
                let one = |constant: &super::ast::Constant| super::print::constant(&constant.value);
                declaration.elements = set.items.iter().map(one).collect();
                "set"
            }
            Item::Table(_) => "table",
            Item::Const(_) => "const",
            Item::Def(_) => "def",
            Item::Fact(_) | Item::Forget(_) | Item::Policy(_) => "fact",
        };
    }

    /// Leaves out words that are names of nothing, and what sets and tables hold.
    fn keep_known(&mut self) {
        let names: BTreeSet<Arc<str>> = self.declarations.keys().cloned().collect();
        let known = |own: &str, uses: &mut BTreeSet<Use>| {
            uses.retain(|used| match used {
                Use::Declaration(name) => names.contains(name) && **name != *own,
                Use::Category(_) => true,
            });
        };
        for (name, declaration) in &mut self.declarations {
            match declaration.kind {
                "set" | "table" | "const" => declaration.uses.clear(),
                _ => known(name, &mut declaration.uses),
            }
        }
        self.policies.values_mut().for_each(|policy| known("", &mut policy.uses));
    }

    /// Everything that a policy rests on, through other declarations as well.
    pub fn rests_on(&self, policy: &PolicyOutline) -> BTreeSet<Use> {
        let mut all = policy.uses.clone();
        let mut open: Vec<Use> = all.iter().cloned().collect();
        while let Some(used) = open.pop() {
            let Use::Declaration(name) = used else { continue };
            let further = self.declarations.get(&name).map(|d| &d.uses);
            open.extend(further.into_iter().flatten().filter(|u| all.insert((*u).clone())).cloned());
        }
        all
    }
}

impl PolicyOutline {
    fn of(policy: &PolicyItem) -> PolicyOutline {
        let only = |keep: &dyn Fn(&StatementKind) -> bool| {
            let mut part = policy.clone();
            part.title = Arc::from("");
            part.statements.retain(|statement| keep(&statement.kind));
            let text = print_item(&Item::Policy(part));
            // What stands between the line of the head and that of the last bracket.
            let lines: Vec<String> = text.lines().skip(1).map(|line| line.trim().to_owned()).collect();
            lines.split_last().map(|(_, lines)| lines.to_vec()).unwrap_or_default()
        };
        let value = |word: &str, lines: Vec<String>| {
            let shown = lines.iter().map(|line| line.strip_prefix(word).unwrap_or(line).trim());
            shown.collect::<Vec<_>>().join(" ")
        };
        PolicyOutline {
            title: policy.title.to_string(),
            severity: value("severity", only(&|s| matches!(s, StatementKind::Severity(_)))),
            tags: value("tags", only(&|s| matches!(s, StatementKind::Tags(_)))),
            message: value("message", only(&|s| matches!(s, StatementKind::Message(_)))),
            says: only(&|s| {
                !matches!(s, StatementKind::Severity(_) | StatementKind::Tags(_) | StatementKind::Message(_))
            }),
            ..PolicyOutline::default()
        }
    }
}

impl Item {
    /// The name or id that it declares.
    pub fn name(&self) -> &super::ast::Name {
        match self {
            Item::Set(item) => &item.name,
            Item::Table(item) => &item.name,
            Item::Const(item) => &item.name,
            Item::Fact(item) => &item.name,
            Item::Forget(item) => &item.name,
            Item::Def(item) => &item.name,
            Item::Policy(item) => &item.id,
        }
    }
}

/// The words of a construct that can be names of declarations. Fields, tags and the letters of messages cannot.
fn words(node: &Node, out: &mut BTreeSet<Use>) {
    let begins = |word: &str| node.parts.first().is_some_and(|part| part.is(word));
    if begins("tags") || (node.kind == Kind::Step && begins(".")) {
        return;
    }
    let category = begins("mentions");
    for part in &node.parts {
        match part {
            Part::Node(inner) => words(inner, out),
            Part::Token(_) if node.kind == Kind::Template => {}
            Part::Token(token) if category => {
                out.insert(Use::Category(token.text.as_str().into()));
            }
            Part::Token(token) => {
                out.insert(Use::Declaration(token.text.as_str().into()));
            }
        }
    }
    out.remove(&Use::Category(Arc::from("mentions")));
}
