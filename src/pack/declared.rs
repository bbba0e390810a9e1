//! The names that the files of a pack declare, with their places.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    layout::Part,
    node::{Entry, Kind, Node},
    read::Parts,
};
use crate::{
    diag::{Diagnostics, FileId, Sources, Span},
    lang::{self, ast::Item},
};

/// Names of different kinds do not get in each other's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Space {
    Policy,
    /// Sets, tables, constants, facts and definitions.
    Declaration,
    /// Keyword categories.
    Category,
}

/// A name of a kind.
pub(super) type Key = (Space, Arc<str>);

/// What stands under a name.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Where it is declared; the first place, if there are several.
    pub(super) declared: Option<Span>,
    /// Every place that goes with it: where a fact forgets as well.
    pub(super) all: Vec<Span>,
}

/// The names that files declare.
#[derive(Debug, Default)]
pub(super) struct Declared {
    pub(super) names: BTreeMap<Key, Places>,
    /// Names of declarations that cannot be read; of some not even that.
    unread: Vec<Option<Arc<str>>>,
}

impl Declared {
    /// Of the parts of a pack, without what is left out of them.
    pub(super) fn of(parts: &Parts, sources: &Sources) -> Declared {
        let mut declared = Declared::default();
        let left_out = &parts.inherited.left_out;
        parts.policies.iter().for_each(|file| declared.policies(*file, sources, left_out));
        let keywords = parts.settings.get(&Part::Keywords);
        if !parts.complete || keywords.is_some_and(|keywords| keywords.root.is_none()) {
            declared.unread.push(None);
        }
        // Categories that are left out are not among them any more.
        for category in categories(parts) {
            declared.add(Space::Category, category.key.as_str().into(), category.key_span, true);
        }
        declared
    }

    fn policies(&mut self, file: FileId, sources: &Sources, left_out: &BTreeSet<Span>) {
        // What is wrong with it is told where it is compiled.
        let (module, _): (_, Diagnostics) = lang::parse(file, sources.text(file));
        for item in module.items.iter().filter(|item| !left_out.contains(&item.name().span)) {
            let (space, declares) = match item {
                Item::Policy(_) => (Space::Policy, true),
                Item::Forget(_) => (Space::Declaration, false),
                _ => (Space::Declaration, true),
            };
            self.add(space, item.name().text.clone(), item.name().span, declares);
        }
        self.unread.extend(module.unread);
    }

    fn add(&mut self, space: Space, name: Arc<str>, at: Span, declares: bool) {
        let places = self.names.entry((space, name)).or_default();
        places.all.push(at);
        places.declared = places.declared.or(declares.then_some(at));
    }

    /// Where a name is declared.
    pub(super) fn get(&self, key: &Key) -> Option<Span> {
        self.names.get(key)?.declared
    }

    /// The kinds in which something is declared under a name, with the places.
    pub(super) fn under<'d>(&'d self, name: &str) -> impl Iterator<Item = (&'d Key, &'d Places)> {
        self.names.iter().filter(move |((_, own), places)| **own == *name && places.declared.is_some())
    }

    /// Whether a name may be declared by what cannot be read.
    pub(super) fn may_have(&self, name: &str) -> bool {
        self.unread.iter().any(|unread| unread.as_deref().is_none_or(|unread| unread == name))
    }
}

/// The keyword categories, as they are written.
pub(super) fn categories(parts: &Parts) -> &[Entry] {
    let root = parts.settings.get(&Part::Keywords).and_then(|settings| settings.root.as_deref());
    match root.and_then(|root| root.get("categories")) {
        Some(Node { kind: Kind::Map(entries), .. }) => entries,
        _ => &[],
    }
}
