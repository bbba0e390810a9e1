//! Adds to a pack what it extends.
//!
//! Names add up: policies, other declarations and keyword categories of all packs together. A name that is declared
//! twice is an error, unless the pack lists it as overridden: then the base's declaration is left out. Other files of
//! settings are taken as a whole, the pack's own before those of bases; of `pack.yaml` the keys in [`INHERITED`] are.
//! All of that is done with trees, so that whatever is read afterwards is read as if it stood in one pack.

use std::{collections::BTreeMap, path::Path, rc::Rc, sync::Arc};

use super::{
    beside::{MAX_BASES, NoOffer},
    declared::{self, Declared, Key, Space},
    inherited::Base,
    layout::Part,
    manifest::{self, Extends},
    node::{Entry, Kind, Node},
    read::{Parts, Reading, Settings, Whole},
    spec::PackSpec,
};
use crate::{
    diag::{Code, Diagnostic, Span, quote, suggest},
    model::PackQuery,
};

/// The keys of `pack.yaml` that hold for packs that extend it; mappings key by key.
const INHERITED: [(&str, bool); 5] =
    [("clock", false), ("errors", false), ("on_undecided", false), ("limits", true), ("episode", true)];

/// Files that are taken as a whole.
const WHOLE: [Part; 5] = [Part::Probes, Part::Scoring, Part::Redaction, Part::Reward, Part::Tools];

/// A base with what it is asked for.
struct Added {
    asked: Extends,
    whole: Rc<Whole>,
    declared: Declared,
}

impl Added {
    fn name(&self) -> &str {
        &self.whole.spec.name.value
    }
}

impl Reading {
    /// Adds what a pack extends to its own parts. If something of that cannot be used, nothing is added.
    pub(super) fn extend_pack(&mut self, root: &Path, own: Parts) -> Parts {
        let Some(manifest) = own.settings.get(&Part::Manifest) else { return own };
        let asked = match &manifest.root {
            Some(root) => manifest::extends(root, &mut self.diags),
            // It is no YAML. What it may extend is missing then, and that is not to be told again.
            None if self.sources.text(manifest.file).contains("extends") => None,
            None => Some(Vec::new()),
        };
        if asked.as_ref().is_some_and(Vec::is_empty) {
            return own;
        }
        if self.looks_around {
            self.offers.look_around(root);
        }
        let wanted = asked.as_ref().map(Vec::len);
        let added: Vec<Added> = asked
            .into_iter()
            .flatten()
            .filter_map(|asked| {
                let whole = self.base(root, &asked)?;
                let declared = Declared::of(&whole.parts, &self.sources);
                Some(Added { asked, whole, declared })
            })
            .collect();
        if wanted != Some(added.len()) {
            return Parts { complete: false, extended: false, ..own };
        }
        self.join(own, &added)
    }

    /// A pack to extend, if it can be used.
    fn base(&mut self, root: &Path, asked: &Extends) -> Option<Rc<Whole>> {
        let at = asked.at;
        let found = match self.offers.choose(root, &asked.query) {
            Ok(offer) => offer.root.clone(),
            Err(why) => {
                let problem = not_found(&asked.query, at, &why);
                self.diags.push(problem);
                return None;
            }
        };
        let name = quote(asked.query.name());
        if found == root || self.offers.reached(&found).iter().any(|offer| offer.root == root) {
            let what = "this pack extends itself";
            let problem = Diagnostic::error(Code::ExtendsItself, at, what);
            self.diags.push(match found == root {
                true => problem.help("ask for an earlier version of it, or for another pack"),
                false => problem.label(format!("{name} extends this pack, by itself or through others")),
            });
            return None;
        }
        match self.offers.depth(&found) {
            Some(depth) if depth < MAX_BASES => {}
            Some(_) => {
                let what = format!("packs extend each other more than {MAX_BASES} deep");
                self.diags.push(Diagnostic::error(Code::ExtendsDeep, at, what).help("let packs extend fewer others"));
                return None;
            }
            None => {
                self.diags.push(base_broken(&name, at));
                return None;
            }
        }
        let whole = self.whole(&found);
        let errors = whole.problems.sorted().into_iter().find(|d| d.severity == crate::diag::Severity::Error).cloned();
        let Some(first) = errors else { return Some(whole) };
        self.diags.push(base_broken(&name, at).secondary(first.primary.span, first.message));
        None
    }

    /// Puts a pack and its bases together.
    fn join(&mut self, own: Parts, added: &[Added]) -> Parts {
        let mut parts = own;
        let declared = Declared::of(&parts, &self.sources);
        for base in added {
            parts.inherited.left_out.extend(&base.whole.parts.inherited.left_out);
        }
        for base in added {
            self.leave_out(base, &declared, &mut parts);
        }
        self.names_once(added, &declared, &mut parts);
        let bases = || added.iter().map(|base| &base.whole.parts);
        let mut policies = Vec::new();
        for file in bases().flat_map(|base| &base.policies).chain(&parts.policies) {
            if !policies.contains(file) {
                policies.push(*file);
            }
        }
        parts.policies = policies;
        for part in WHOLE {
            self.file(part, added, &mut parts);
        }
        join_keywords(added, &mut parts);
        self.join_manifest(added, &mut parts);
        for Added { asked, whole, .. } in added {
            let files = &whole.parts.files;
            let further = whole.parts.inherited.bases.iter().flat_map(|base| &base.files);
            parts.inherited.bases.push(Base {
                name: whole.spec.name.value.clone(),
                version: whole.spec.version.clone(),
                at: asked.at,
                files: files.iter().chain(further).copied().collect(),
            });
            parts.bases.push(Arc::new(PackSpec {
                tests: Vec::new(),
                drift_tests: super::DriftTests::default(),
                ..whole.spec.clone()
            }));
        }
        parts
    }

    /// Finds what is overridden and what is left out of a base.
    fn leave_out(&mut self, base: &Added, own: &Declared, parts: &mut Parts) {
        let left_out = &mut parts.inherited.left_out;
        for name in &base.asked.overrides {
            let there: Vec<_> = base.declared.under(&name.value).collect();
            let anew: Vec<_> = there.iter().filter(|(key, _)| own.get(key).is_some()).collect();
            for (_, places) in &anew {
                left_out.extend(&places.all);
            }
            match (there.first(), anew.is_empty()) {
                (None, _) => {
                    let what = format!("the pack `{}` declares no {}", base.name(), quote(&name.value));
                    let near = suggest(&name.value, base.declared.names.keys().map(|(_, name)| name.as_ref()));
                    self.diags.push(Diagnostic::error(Code::UnknownName, name.span, what).did_you_mean(near));
                }
                (Some(((space, _), places)), true) if !own.may_have(&name.value) => {
                    let what = format!("this pack does not declare {} anew", quote(&name.value));
                    let near = own.names.keys().filter(|(own, _)| own == space).map(|(_, name)| name.as_ref());
                    let near = suggest(&name.value, near).map(|near| format!("it declares `{near}`: is that meant?"));
                    let help = near.as_deref().unwrap_or(match space {
                        Space::Policy => "to leave the policy out, list it under `without`",
                        Space::Declaration => "declare it in this pack, or take it from the list",
                        Space::Category => "write the category in keywords.yaml, or take it from the list",
                    });
                    let mut problem = Diagnostic::error(Code::NotOverridden, name.span, what).help(help);
                    if let Some(place) = places.declared {
                        problem = problem.secondary(place, format!("as `{}` declares it", base.name()));
                    }
                    self.diags.push(problem);
                }
                (Some(_), _) => {}
            }
        }
        for name in &base.asked.without {
            if let Some(places) = base.declared.names.get(&(Space::Policy, name.value.as_str().into())) {
                left_out.extend(&places.all);
                continue;
            }
            let policies = base.declared.names.keys().filter(|(space, _)| *space == Space::Policy);
            let near = suggest(&name.value, policies.map(|(_, name)| name.as_ref()));
            let what = format!("the pack `{}` has no policy {}", base.name(), quote(&name.value));
            let problem = Diagnostic::error(Code::UnknownName, name.span, what);
            self.diags.push(match near {
                Some(_) => problem.did_you_mean(near),
                None => problem.help("only policies can be left out"),
            });
        }
    }

    /// Sees to it that each name is declared once. What is reported here is left out, so that nothing more is said of it.
    fn names_once(&mut self, added: &[Added], own: &Declared, parts: &mut Parts) {
        let left_out = &mut parts.inherited.left_out;
        let mut live: BTreeMap<&Key, (&Added, Span)> = BTreeMap::new();
        let mut twice: BTreeMap<&Key, Vec<(&Added, Span)>> = BTreeMap::new();
        for base in added {
            for (key, places) in &base.declared.names {
                let Some(place) = places.declared.filter(|place| !left_out.contains(place)) else { continue };
                if own.get(key).is_some() {
                    twice.entry(key).or_default().push((base, place));
                    left_out.extend(&places.all);
                    continue;
                }
                let (first, known) = *live.entry(key).or_insert((base, place));
                // The same declaration is met again where two packs extend a third one.
                if known != place {
                    let what =
                        format!("the packs `{}` and `{}` both declare {}", first.name(), base.name(), quote(&key.1));
                    let help = match key.0 {
                        Space::Policy => "leave it out of one of them, with `without`",
                        _ => "declare it in this pack, and list it under `override` of both",
                    };
                    self.diags.push(
                        Diagnostic::error(Code::DeclaredTwice, base.asked.at, what)
                            .secondary(known, "here")
                            .secondary(place, "and here")
                            .help(help),
                    );
                    left_out.extend(&places.all);
                }
            }
        }
        for (key, bases) in twice {
            let Some(at) = own.get(key) else { continue };
            let what = format!("{} is declared twice", quote(&key.1));
            let names: Vec<String> = bases.iter().map(|(base, _)| format!("`{}`", base.name())).collect();
            let mut problem = Diagnostic::error(Code::DeclaredTwice, at, what);
            for ((_, place), name) in bases.iter().zip(&names) {
                problem = problem.secondary(*place, format!("first declared here, in {name}"));
            }
            let names = names.join(" and of ");
            self.diags.push(problem.help(format!(
                "to take its place, list it under `override` of {names} in pack.yaml; or give it another name"
            )));
        }
    }

    /// Takes a file of settings from a base, if the pack has none.
    fn file(&mut self, part: Part, added: &[Added], parts: &mut Parts) {
        if parts.settings.contains_key(&part) {
            return;
        }
        let mut from: Option<(&Added, &Settings)> = None;
        for base in added {
            let Some(settings) = base.whole.parts.settings.get(&part) else { continue };
            match from {
                Some((first, known)) if known.file != settings.file => {
                    let file = part.file_name().unwrap_or_default();
                    let (one, other) = (first.name(), base.name());
                    let what = format!("the packs `{one}` and `{other}` both have a {file}, and this pack has none");
                    self.diags.push(
                        Diagnostic::error(Code::BasesDisagree, base.asked.at, what)
                            .help(format!("write the {file} of this pack: it takes the place of both")),
                    );
                }
                Some(_) => {}
                None => from = Some((base, settings)),
            }
        }
        if let Some((_, settings)) = from {
            parts.settings.insert(part, settings.clone());
        }
    }

    /// Adds the keys of `pack.yaml` that the pack does not set itself.
    fn join_manifest(&mut self, added: &[Added], parts: &mut Parts) {
        let Some(own) = parts.settings.get_mut(&Part::Manifest) else { return };
        let Some(mut root) = own.root.as_deref().cloned() else { return };
        for (key, by_key) in INHERITED {
            let of =
                |base: &'_ Added| -> Option<Entry> { entry(tree(&base.whole.parts, Part::Manifest)?, key).cloned() };
            let theirs: Vec<(&Added, Entry)> = added.iter().filter_map(|base| Some((base, of(base)?))).collect();
            if by_key && entry(&root, key).is_none() && !theirs.is_empty() {
                let (span, kind) = (root.span, Kind::Map(Vec::new()));
                put(&mut root, Entry { key: key.to_owned(), key_span: span, value: Node { span, kind } });
            }
            let here = entry_mut(&mut root, key).map(|entry| &mut entry.value);
            match (here, by_key) {
                (None, _) => {
                    if let Some(entry) = self.agreed(key, &theirs) {
                        put(&mut root, entry);
                    }
                }
                (Some(here), true) => {
                    let mut keys: BTreeMap<String, Vec<(&Added, Entry)>> = BTreeMap::new();
                    for (base, entry) in theirs {
                        for inner in map(entry.value) {
                            keys.entry(inner.key.clone()).or_default().push((base, inner));
                        }
                    }
                    keys.retain(|inner, _| entry(here, inner).is_none());
                    for (inner, theirs) in keys {
                        if let Some(entry) = self.agreed(&format!("{key}.{inner}"), &theirs) {
                            put(here, entry);
                        }
                    }
                }
                (Some(_), false) => {}
            }
        }
        own.root = Some(Rc::new(root));
    }

    /// What all bases that set a key say; that they say different things is an error.
    fn agreed(&mut self, key: &str, theirs: &[(&Added, Entry)]) -> Option<Entry> {
        let (first, said) = theirs.first()?;
        let other = theirs.iter().find(|(_, other)| other.value.leaves() != said.value.leaves());
        if let Some((base, other)) = other {
            let (one, two) = (first.name(), base.name());
            let what = format!("the packs `{one}` and `{two}` set `{key}` differently, and this pack does not set it");
            self.diags.push(
                Diagnostic::error(Code::BasesDisagree, base.asked.at, what)
                    .secondary(said.key_span, format!("in `{one}`"))
                    .secondary(other.key_span, format!("in `{two}`"))
                    .help("set it in this pack"),
            );
        }
        Some(said.clone())
    }
}

/// Puts the keyword categories of all together.
fn join_keywords(added: &[Added], parts: &mut Parts) {
    let bases = added.iter().filter_map(|base| base.whole.parts.settings.get(&Part::Keywords)).cloned();
    let Some(base) = bases.into_iter().next() else { return };
    let own = parts.settings.get(&Part::Keywords).cloned();
    // What cannot be read stays as it is.
    if own.as_ref().is_some_and(|own| own.root.is_none()) {
        return;
    }
    let mut entries: Vec<Entry> = Vec::new();
    for category in added.iter().flat_map(|base| declared::categories(&base.whole.parts)) {
        let known = entries.iter().any(|entry| entry.key_span == category.key_span);
        if !known && !parts.inherited.left_out.contains(&category.key_span) {
            entries.push(category.clone());
        }
    }
    entries.extend(declared::categories(parts).iter().cloned());
    let Settings { file, root } = own.unwrap_or(base);
    let Some(mut root) = root.as_deref().cloned() else { return };
    // What is of another type is told when it is read.
    if let Some(Kind::Map(own)) = entry_mut(&mut root, "categories").map(|entry| &mut entry.value.kind) {
        *own = entries;
    }
    parts.settings.insert(Part::Keywords, Settings { file, root: Some(Rc::new(root)) });
}

fn tree(parts: &Parts, part: Part) -> Option<&Node> {
    parts.settings.get(&part)?.root.as_deref()
}

fn map(node: Node) -> Vec<Entry> {
    match node.kind {
        Kind::Map(entries) => entries,
        _ => Vec::new(),
    }
}

fn entry<'n>(node: &'n Node, key: &str) -> Option<&'n Entry> {
    match &node.kind {
        Kind::Map(entries) => entries.iter().find(|entry| entry.key == key),
        _ => None,
    }
}

fn entry_mut<'n>(node: &'n mut Node, key: &str) -> Option<&'n mut Entry> {
    match &mut node.kind {
        Kind::Map(entries) => entries.iter_mut().find(|entry| entry.key == key),
        _ => None,
    }
}

fn put(node: &mut Node, entry: Entry) {
    if let Kind::Map(entries) = &mut node.kind {
        entries.push(entry);
    }
}

/// That a pack is asked for which has errors of its own; its name in quotes.
pub fn base_broken(name: &str, at: Span) -> Diagnostic {
    Diagnostic::error(Code::BaseBroken, at, format!("the pack {name} has errors, and cannot be extended"))
        .help("`probity check` on its folder tells them all")
}

fn not_found(query: &PackQuery, at: Span, why: &NoOffer<'_>) -> Diagnostic {
    let name = quote(query.name());
    match why {
        NoOffer::Name(others) => {
            let problem = Diagnostic::error(Code::BaseMissing, at, format!("there is no pack {name} beside this one"));
            match suggest(query.name(), others.iter().copied()) {
                Some(near) => problem.did_you_mean(Some(near)),
                None => problem.help("a pack to extend stands in the folder that holds this pack"),
            }
        }
        NoOffer::Version(versions) => {
            let shown: Vec<String> = versions.iter().map(ToString::to_string).collect();
            Diagnostic::error(Code::BaseMissing, at, format!("no version of the pack {name} beside this one fits"))
                .help(format!("there is {}", shown.join(", ")))
        }
        NoOffer::Two(one, other) => {
            Diagnostic::error(Code::PackNameTwice, at, format!("two packs beside this one are {name} of one version"))
                .help(format!("they stand in {} and {}", one.display(), other.display()))
        }
    }
}
