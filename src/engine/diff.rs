//! What differs between two packs: in what they say, and in what they mean.
//!
//! Compared is what was read, not how it is written: comments, layout, order of declarations and spelling of
//! numbers are no difference, or one of layout. What a policy rests on (definitions, sets, facts, keyword
//! categories) counts as its meaning.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Pack;
use crate::{
    diag::FileId,
    lang::{
        self,
        ast::Module,
        outline::{Outline, PolicyOutline, Use},
    },
    pack::Values,
};

/// What a pack says, kept for comparison with another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Its policy files. They are read anew for a comparison, so that loading a pack does not pay for one.
    pub policies: Vec<FileId>,
    /// Its keyword categories, by name: what they mean.
    pub categories: BTreeMap<String, String>,
    /// Its settings, as written.
    pub values: Values,
    /// What its probes mean; none if it has no drift half.
    pub probes: Option<BTreeSet<String>>,
}

/// What became of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Only the second one has it.
    Added,
    /// Only the first one has it.
    Removed,
    /// Both have it, and it is not the same.
    Changed,
}

impl Change {
    /// `+`, `-` or `~`.
    pub fn sign(self) -> char {
        match self {
            Change::Added => '+',
            Change::Removed => '-',
            Change::Changed => '~',
        }
    }
}

/// A pack of one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Version {
    /// Its version.
    pub version: String,
    /// The digest of its meaning.
    pub digest: String,
}

/// What differs between two packs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackDiff {
    /// The name of the pack.
    pub pack: String,
    /// The first one.
    pub before: Version,
    /// The second one.
    pub after: Version,
    /// Whether they mean different things.
    pub meaning_changed: bool,
    /// Whether the probes of the two differ: results of the two libraries never accumulate together.
    pub probes_changed: bool,
    /// Policies that differ, by id.
    pub policies: Vec<PolicyChange>,
    /// Other declarations that differ, by name.
    pub declarations: Vec<DeclarationChange>,
    /// Values of YAML files that differ, by file and place.
    pub settings: Vec<SettingChange>,
}

/// A policy that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyChange {
    /// Its id.
    pub policy: String,
    /// Its title.
    pub title: String,
    /// What became of it.
    pub change: Change,
    /// In what it differs, if both have it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aspects: Vec<Aspect>,
}

/// In what the two sides of a policy differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Aspect {
    /// In when it fires, and what happens then. Statements that only one side has, in canonical spelling.
    Meaning {
        /// Those of the first.
        before: Vec<String>,
        /// Those of the second.
        after: Vec<String>,
    },
    /// In what it rests on: `def cabin`, `category affirmation`.
    Through {
        /// What of that differs.
        names: Vec<String>,
    },
    /// In its severity.
    Severity(Pair),
    /// In its title.
    Title(Pair),
    /// In its message.
    Message(Pair),
    /// In its tags.
    Tags(Pair),
    /// In comments and layout alone.
    Layout,
}

/// Two values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// Of the first.
    pub before: String,
    /// Of the second.
    pub after: String,
}

/// A set, table, constant, fact or definition that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeclarationChange {
    /// `set`, `table`, `const`, `fact` or `def`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// What became of it.
    pub change: Change,
    /// Its text on the first side, or the elements that only that one has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The same of the second.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// A value of a YAML file that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingChange {
    /// The file in the pack.
    pub file: String,
    /// Where in it: `limits.look_back`, `categories.consent.terms["yes"]`.
    pub at: String,
    /// What became of it.
    pub change: Change,
    /// The first value; empty for an item of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The second value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl PackDiff {
    /// True if the two say the same in the same words, but for comments and layout outside of policies.
    pub fn is_empty(&self) -> bool {
        let same = self.before == self.after && !self.meaning_changed;
        same && self.policies.is_empty() && self.declarations.is_empty() && self.settings.is_empty()
    }
}

/// Compares two packs, which need not have the same name.
pub fn diff(before: &Pack, after: &Pack) -> PackDiff {
    let version = |pack: &Pack| Version { version: pack.version().to_string(), digest: pack.digest().to_string() };
    let (old, new) = (before.said(), after.said());
    let (declared, declares) = (outline(before), outline(after));
    PackDiff {
        pack: after.name().to_string(),
        before: version(before),
        after: version(after),
        meaning_changed: before.digest() != after.digest(),
        probes_changed: old.probes != new.probes,
        policies: policies((old, &declared), (new, &declares)),
        declarations: declarations(&declared, &declares),
        settings: settings(&old.values, &new.values),
    }
}

fn outline(pack: &Pack) -> Outline {
    let sources = &pack.program().sources;
    let modules: Vec<Module> =
        pack.said().policies.iter().map(|file| lang::parse(*file, sources.text(*file)).0).collect();
    Outline::new(&modules, &pack.inherited().left_out, sources)
}

/// A pack's settings and its declarations.
type Side<'s> = (&'s Said, &'s Outline);

/// Keys of two maps with what each has under them, in order.
fn sides<'m, K: Ord, V>(
    before: &'m BTreeMap<K, V>,
    after: &'m BTreeMap<K, V>,
) -> Vec<(&'m K, Option<&'m V>, Option<&'m V>)> {
    let keys: BTreeSet<&K> = before.keys().chain(after.keys()).collect();
    keys.into_iter().map(|key| (key, before.get(key), after.get(key))).collect()
}

fn policies(old: Side<'_>, new: Side<'_>) -> Vec<PolicyChange> {
    let changed = changed_names(old, new);
    let one = |(id, before, after): (&std::sync::Arc<str>, Option<&PolicyOutline>, Option<&PolicyOutline>)| {
        let (change, title, aspects) = match (before, after) {
            (Some(before), Some(after)) => {
                let mut rests_on = old.1.rests_on(before);
                rests_on.extend(new.1.rests_on(after));
                let through: Vec<String> = changed
                    .iter()
                    .filter(|(used, _)| rests_on.contains(used))
                    .map(|(_, shown)| shown.clone())
                    .collect();
                let aspects = aspects(before, after, through);
                if aspects.is_empty() {
                    return None;
                }
                (Change::Changed, &after.title, aspects)
            }
            (None, Some(after)) => (Change::Added, &after.title, Vec::new()),
            (Some(before), None) => (Change::Removed, &before.title, Vec::new()),
            (None, None) => return None,
        };
        Some(PolicyChange { policy: id.to_string(), title: title.clone(), change, aspects })
    };
    sides(&old.1.policies, &new.1.policies).into_iter().filter_map(one).collect()
}

/// What policies can rest on and what differs, as `def cabin`.
fn changed_names(old: Side<'_>, new: Side<'_>) -> Vec<(Use, String)> {
    let declarations = sides(&old.1.declarations, &new.1.declarations).into_iter();
    let declarations = declarations.filter(|(_, a, b)| a.map(|d| &d.says) != b.map(|d| &d.says)).map(|(name, a, b)| {
        let kind = b.or(a).map_or("", |declaration| declaration.kind);
        (Use::Declaration(name.clone()), format!("{kind} {name}"))
    });
    let categories = sides(&old.0.categories, &new.0.categories).into_iter().filter(|(_, a, b)| a != b);
    let categories = categories.map(|(name, ..)| (Use::Category(name.as_str().into()), format!("category {name}")));
    declarations.chain(categories).collect()
}

fn aspects(before: &PolicyOutline, after: &PolicyOutline, through: Vec<String>) -> Vec<Aspect> {
    let mut out = Vec::new();
    if before.says != after.says {
        let only =
            |these: &[String], others: &[String]| these.iter().filter(|l| !others.contains(l)).cloned().collect();
        out.push(Aspect::Meaning { before: only(&before.says, &after.says), after: only(&after.says, &before.says) });
    }
    if !through.is_empty() {
        out.push(Aspect::Through { names: through });
    }
    let mut pair = |make: fn(Pair) -> Aspect, before: &str, after: &str| {
        if before != after {
            out.push(make(Pair { before: before.to_owned(), after: after.to_owned() }));
        }
    };
    pair(Aspect::Severity, &before.severity, &after.severity);
    pair(Aspect::Title, &before.title, &after.title);
    pair(Aspect::Message, &before.message, &after.message);
    pair(Aspect::Tags, &before.tags, &after.tags);
    if out.is_empty() && before.source != after.source {
        out.push(Aspect::Layout);
    }
    out
}

fn declarations(old: &Outline, new: &Outline) -> Vec<DeclarationChange> {
    let mut out = Vec::new();
    for (name, before, after) in sides(&old.declarations, &new.declarations) {
        let (change, before, after) = match (before, after) {
            (Some(a), Some(b)) if a.says == b.says => continue,
            (Some(a), Some(b)) => (Change::Changed, Some(a), Some(b)),
            (None, b) => (Change::Added, None, b),
            (a, None) => (Change::Removed, a, None),
        };
        let Some(kind) = after.or(before).map(|declaration| declaration.kind) else { continue };
        let (said, says) = match (before, after) {
            // Of two sets the elements are told, of anything else the text.
            (Some(a), Some(b)) if a.kind == "set" && b.kind == "set" => (
                a.elements.difference(&b.elements).cloned().collect(),
                b.elements.difference(&a.elements).cloned().collect(),
            ),
            (a, b) => {
                let only = |these: Option<&BTreeSet<String>>, others: Option<&BTreeSet<String>>| {
                    let others = others.cloned().unwrap_or_default();
                    these.into_iter().flatten().filter(|text| !others.contains(*text)).cloned().collect::<Vec<_>>()
                };
                let (a, b) = (a.map(|d| &d.says), b.map(|d| &d.says));
                (only(a, b), only(b, a))
            }
        };
        out.push(DeclarationChange { kind, name: name.to_string(), change, before: said, after: says });
    }
    out
}

fn settings(old: &Values, new: &Values) -> Vec<SettingChange> {
    let mut out = Vec::new();
    let none = BTreeMap::new();
    for (file, before, after) in sides(old, new) {
        for (at, before, after) in sides(before.unwrap_or(&none), after.unwrap_or(&none)) {
            // The version is told before everything else.
            if before == after || (file == "pack.yaml" && at == "version") {
                continue;
            }
            let change = match (before, after) {
                (None, _) => Change::Added,
                (_, None) => Change::Removed,
                _ => Change::Changed,
            };
            let (before, after) = (before.cloned(), after.cloned());
            out.push(SettingChange { file: file.clone(), at: at.clone(), change, before, after });
        }
    }
    out
}
