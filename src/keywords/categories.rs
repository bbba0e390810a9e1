//! All categories of a pack, compiled.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use regex::Regex;

use super::{
    automaton::{Automaton, MAX_TERM_BYTES, Occurrence, Owner, Role},
    mapped::Mapped,
    normalise::{Prepared, for_patterns, needle},
    pattern,
    spec::{CategoryError, CategoryPart, CategorySpec, MatchMode, Problem, RepeatedTerm, Steps},
};

/// A category of a [`Categories`] collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CategoryId(u32);

/// A set of categories of one collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CategorySet(Vec<u64>);

impl CategorySet {
    /// Whether a category is in it.
    pub fn contains(&self, id: CategoryId) -> bool {
        let (word, bit) = CategorySet::place(id);
        self.0.get(word).is_some_and(|w| w & bit != 0)
    }

    /// The categories in it, in the order of the pack.
    pub fn iter(&self) -> impl Iterator<Item = CategoryId> {
        (0..self.0.len() * 64).filter_map(|i| u32::try_from(i).ok()).map(CategoryId).filter(|id| self.contains(*id))
    }

    /// True if it holds none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|w| *w == 0)
    }

    fn insert(&mut self, id: CategoryId) {
        let (word, bit) = CategorySet::place(id);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(w) = self.0.get_mut(word) {
            *w |= bit;
        }
    }

    fn place(id: CategoryId) -> (usize, u64) {
        (usize::try_from(id.0 / 64).unwrap_or(usize::MAX), 1 << (id.0 % 64))
    }
}

/// One occurrence of a category.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Offset of the first byte in the original text.
    pub start: usize,
    /// Offset just after the last byte in the original text.
    pub end: usize,
    /// What matched.
    pub by: MatchedBy,
}

/// A part of a category's specification, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchedBy {
    /// A term.
    Term(usize),
    /// A pattern.
    Pattern(usize),
}

#[derive(Debug)]
struct Category {
    name: String,
    steps: Steps,
    mode: MatchMode,
    /// The automaton that has its terms; none if it has patterns only.
    automaton: Option<usize>,
    has_except: bool,
    patterns: Vec<Regex>,
}

/// The keyword categories of a pack.
#[derive(Debug, Default)]
pub struct Categories {
    by_name: HashMap<String, CategoryId>,
    list: Vec<Category>,
    automata: Vec<Automaton>,
    repeated: Vec<RepeatedTerm>,
}

/// An occurrence of a term or an exception, kept until all exceptions are known.
struct Found {
    role: Role,
    run: Range<usize>,
    border_before: bool,
    border_after: bool,
}

impl Categories {
    /// Compiles all categories of a pack. All errors come at once.
    pub fn compile(specs: &[CategorySpec]) -> Result<Categories, Vec<CategoryError>> {
        let mut errors = Vec::new();
        let mut made = Categories::default();
        let mut terms: BTreeMap<Steps, BTreeMap<String, Vec<Owner>>> = BTreeMap::new();
        let mut bytes = 0usize;
        for (category, spec) in specs.iter().enumerate() {
            let mut refuse = |part, problem| errors.push(CategoryError { category, part, problem });
            let id = CategoryId(u32::try_from(category).unwrap_or(u32::MAX));
            if made.by_name.contains_key(&spec.name) {
                refuse(CategoryPart::Name, Problem::NameTwice);
            } else {
                made.by_name.insert(spec.name.clone(), id);
            }
            if spec.terms.is_empty() && spec.patterns.is_empty() {
                refuse(CategoryPart::Whole, Problem::Empty);
            }
            let steps = spec.steps.canonical();
            let shared = terms.entry(steps).or_default();
            let within_limit = bytes <= MAX_TERM_BYTES;
            let all = spec.terms.iter().map(|t| (true, t)).chain(spec.except.iter().map(|t| (false, t)));
            for (index, (is_term, text)) in all.enumerate() {
                let index = if is_term { index } else { index - spec.terms.len() };
                let part = if is_term { CategoryPart::Term(index) } else { CategoryPart::Except(index) };
                let normalised = needle(text, steps);
                if normalised.trim().is_empty() {
                    refuse(part, Problem::Nothing);
                    continue;
                }
                if normalised.starts_with(' ') || normalised.ends_with(' ') {
                    refuse(part, Problem::Blank);
                    continue;
                }
                bytes += normalised.len();
                let role = if is_term { Role::Term(u32::try_from(index).unwrap_or(u32::MAX)) } else { Role::Except };
                let owners = shared.entry(normalised).or_default();
                let same = owners.iter().find(|o| o.category == id.0 && o.role.same_kind(role));
                match (same.map(|o| o.role), role) {
                    (Some(Role::Term(first)), Role::Term(_)) => made.repeated.push(RepeatedTerm {
                        category,
                        first: usize::try_from(first).unwrap_or(usize::MAX),
                        again: index,
                    }),
                    (Some(_), _) => {}
                    (None, role) => owners.push(Owner { category: id.0, role }),
                }
            }
            if within_limit && bytes > MAX_TERM_BYTES {
                refuse(CategoryPart::Whole, Problem::TooLarge);
            }
            let mut patterns = Vec::with_capacity(spec.patterns.len());
            for (index, source) in spec.patterns.iter().enumerate() {
                match pattern::compile(source, steps) {
                    Ok(regex) => patterns.push(regex),
                    Err(problem) => refuse(CategoryPart::Pattern(index), problem),
                }
            }
            made.list.push(Category {
                name: spec.name.clone(),
                steps,
                mode: spec.mode,
                automaton: None,
                has_except: !spec.except.is_empty(),
                patterns,
            });
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        for (steps, terms) in terms {
            made.add_automaton(steps, terms)?;
        }
        Ok(made)
    }

    fn add_automaton(&mut self, steps: Steps, terms: BTreeMap<String, Vec<Owner>>) -> Result<(), Vec<CategoryError>> {
        if terms.is_empty() {
            return Ok(());
        }
        let owners: Vec<usize> = terms.values().flatten().filter_map(|o| usize::try_from(o.category).ok()).collect();
        let first = owners.iter().min().copied().unwrap_or_default();
        let automaton = Automaton::build(steps, terms).map_err(|_| {
            // The only way to fail is to run out of state numbers, which the limit on bytes prevents.
            vec![CategoryError { category: first, part: CategoryPart::Whole, problem: Problem::TooLarge }]
        })?;
        for owner in owners {
            if let Some(category) = self.list.get_mut(owner) {
                category.automaton = Some(self.automata.len());
            }
        }
        self.automata.push(automaton);
        Ok(())
    }

    /// The category of a name.
    pub fn id(&self, name: &str) -> Option<CategoryId> {
        self.by_name.get(name).copied()
    }

    /// The name of a category; empty for an id of another collection.
    pub fn name(&self, id: CategoryId) -> &str {
        self.category(id).map(|c| c.name.as_str()).unwrap_or_default()
    }

    /// Every category with its name, in the order of the pack.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (CategoryId, &str)> {
        self.list.iter().enumerate().map(|(i, c)| (CategoryId(u32::try_from(i).unwrap_or(u32::MAX)), c.name.as_str()))
    }

    /// Terms that say the same as an earlier term of their category.
    pub fn repeated_terms(&self) -> &[RepeatedTerm] {
        &self.repeated
    }

    /// Every category that a text mentions. The text is read once for each distinct normalisation that the
    /// pack's terms have, and once for each pattern of a category that no term has decided.
    pub fn scan(&self, text: &str) -> CategorySet {
        let mut set = CategorySet::default();
        let mut gaps: HashMap<u32, Vec<Range<usize>>> = HashMap::new();
        for (index, automaton) in self.automata.iter().enumerate() {
            let prepared = automaton.prepare(text);
            let mut kept: BTreeMap<u32, Vec<Found>> = BTreeMap::new();
            automaton.visit(&prepared, |owner, occurrence| {
                let id = CategoryId(owner.category);
                let Some(category) = self.category(id) else { return true };
                if category.has_except {
                    kept.entry(owner.category).or_default().push(Found::new(owner.role, occurrence));
                } else if !set.contains(id) && category.allows(occurrence) {
                    set.insert(id);
                }
                true
            });
            for (number, found) in kept {
                let id = CategoryId(number);
                let Some(category) = self.category(id).filter(|c| c.automaton == Some(index)) else { continue };
                let taken_out = category.gaps(&found);
                if category.standing(&found, &taken_out).next().is_some() {
                    set.insert(id);
                } else if !category.patterns.is_empty() {
                    gaps.insert(number, in_source(&prepared, &taken_out));
                }
            }
        }
        // Categories without exceptions in this text share the text that their patterns see.
        let mut whole: Vec<(Steps, Mapped<'_>)> = Vec::new();
        for ((id, _), category) in self.iter().zip(&self.list) {
            if category.patterns.is_empty() || set.contains(id) {
                continue;
            }
            let hit = match gaps.get(&id.0).filter(|g| !g.is_empty()) {
                Some(gaps) => category.matches_pattern(for_patterns(text, category.steps, gaps).text()),
                None => {
                    if !whole.iter().any(|(steps, _)| *steps == category.steps) {
                        whole.push((category.steps, for_patterns(text, category.steps, &[])));
                    }
                    let shared = whole.iter().find(|(steps, _)| *steps == category.steps);
                    shared.is_some_and(|(_, text)| category.matches_pattern(text.text()))
                }
            };
            if hit {
                set.insert(id);
            }
        }
        set
    }

    /// Whether a text mentions a category. To ask about several, [`Categories::scan`] once.
    pub fn mentions(&self, text: &str, id: CategoryId) -> bool {
        let Some(category) = self.category(id) else { return false };
        let mut gaps = Vec::new();
        if let Some(automaton) = category.automaton.and_then(|i| self.automata.get(i)) {
            let prepared = automaton.prepare(text);
            if category.has_except {
                let found = category.found(id, automaton, &prepared);
                let taken_out = category.gaps(&found);
                if category.standing(&found, &taken_out).next().is_some() {
                    return true;
                }
                gaps = in_source(&prepared, &taken_out);
            } else {
                let mut hit = false;
                automaton.visit(&prepared, |owner, occurrence| {
                    hit = owner.category == id.0 && category.allows(occurrence);
                    !hit
                });
                if hit {
                    return true;
                }
            }
        }
        !category.patterns.is_empty() && category.matches_pattern(for_patterns(text, category.steps, &gaps).text())
    }

    /// Every occurrence of a category in a text: all occurrences of each term, overlapping ones too, and
    /// the leftmost ones that do not overlap of each pattern. By start, longer ones first.
    pub fn find(&self, text: &str, id: CategoryId) -> Vec<Match> {
        let Some(category) = self.category(id) else { return Vec::new() };
        let mut matches = Vec::new();
        let mut gaps = Vec::new();
        if let Some(automaton) = category.automaton.and_then(|i| self.automata.get(i)) {
            let prepared = automaton.prepare(text);
            let found = category.found(id, automaton, &prepared);
            let taken_out = category.gaps(&found);
            for (term, run) in category.standing(&found, &taken_out) {
                let place = prepared.source(run);
                matches.push(Match { start: place.start, end: place.end, by: MatchedBy::Term(term) });
            }
            gaps = in_source(&prepared, &taken_out);
        }
        if !category.patterns.is_empty() {
            let seen = for_patterns(text, category.steps, &gaps);
            for (index, regex) in category.patterns.iter().enumerate() {
                matches.extend(regex.find_iter(seen.text()).map(|m| Match {
                    start: seen.source_of_start(m.start()),
                    end: seen.source_of_end(m.end()),
                    by: MatchedBy::Pattern(index),
                }));
            }
        }
        matches.sort_by_key(|m| (m.start, std::cmp::Reverse(m.end), m.by));
        matches
    }

    fn category(&self, id: CategoryId) -> Option<&Category> {
        self.list.get(usize::try_from(id.0).ok()?)
    }
}

impl Category {
    /// Whether an occurrence has the borders that the category asks for.
    fn allows(&self, occurrence: &Occurrence<'_>) -> bool {
        self.mode == MatchMode::Substring || (occurrence.border_after() && occurrence.border_before())
    }

    fn matches_pattern(&self, text: &str) -> bool {
        self.patterns.iter().any(|p| p.is_match(text))
    }

    /// Everything of this category that stands in a text, exceptions included.
    fn found<'t>(&self, id: CategoryId, automaton: &'t Automaton, text: &'t Prepared<'t>) -> Vec<Found> {
        let mut found = Vec::new();
        automaton.visit(text, |owner, occurrence| {
            if owner.category == id.0 {
                found.push(Found::new(owner.role, occurrence));
            }
            true
        });
        found
    }

    /// What is taken out of the text, ascending and apart.
    fn gaps(&self, found: &[Found]) -> Vec<Range<usize>> {
        let standing = |f: &&Found| self.mode == MatchMode::Substring || (f.border_before && f.border_after);
        joined(found.iter().filter(|f| f.role == Role::Except).filter(standing).map(|f| f.run.clone()).collect())
    }

    /// The terms that stand in what is left, with their runs.
    fn standing<'f>(
        &self,
        found: &'f [Found],
        gaps: &'f [Range<usize>],
    ) -> impl Iterator<Item = (usize, &'f Range<usize>)> {
        let anywhere = self.mode == MatchMode::Substring;
        found.iter().filter_map(move |f| {
            let Role::Term(index) = f.role else { return None };
            // The gap that ends after the start, if any, is the only one that can overlap; the one before
            // it is the only one that can end at the start.
            let next = gaps.partition_point(|g| g.end <= f.run.start);
            if gaps.get(next).is_some_and(|g| g.start < f.run.end) {
                return None;
            }
            let gap_before = gaps.get(next.wrapping_sub(1)).is_some_and(|g| g.end == f.run.start);
            let gap_after = gaps.get(next).is_some_and(|g| g.start == f.run.end);
            let stands = anywhere || ((f.border_before || gap_before) && (f.border_after || gap_after));
            stands.then_some((usize::try_from(index).unwrap_or(usize::MAX), &f.run))
        })
    }
}

impl Found {
    fn new(role: Role, occurrence: &Occurrence<'_>) -> Found {
        Found {
            role,
            run: occurrence.run(),
            border_before: occurrence.border_before(),
            border_after: occurrence.border_after(),
        }
    }
}

/// Runs of the prepared text as runs of the source.
fn in_source(text: &Prepared<'_>, runs: &[Range<usize>]) -> Vec<Range<usize>> {
    joined(runs.iter().map(|run| text.source(run)).collect())
}

/// Runs that overlap or touch made one, ascending.
fn joined(mut runs: Vec<Range<usize>>) -> Vec<Range<usize>> {
    runs.sort_by_key(|run| (run.start, run.end));
    let mut out: Vec<Range<usize>> = Vec::with_capacity(runs.len());
    for run in runs {
        match out.last_mut() {
            Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
            _ => out.push(run),
        }
    }
    out
}
