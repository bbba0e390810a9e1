//! `keywords.yaml`: the keyword categories.

use std::sync::Arc;

use crate::{
    diag::{Code, Diagnostic, Diagnostics, Span},
    keywords::{Categories, CategoryError, CategoryPart, CategorySpec, MatchMode, MatchedBy, Problem, Step, Steps},
};

use super::{
    fields::{Fields, choice, entries, list, name, some_list, texts},
    node::{Entry, Node},
    spec::{Keywords, Spanned},
};

/// Where the parts of a category are written.
struct Places {
    name: Span,
    terms: Vec<Span>,
    patterns: Vec<Span>,
    except: Vec<Span>,
}

impl Places {
    fn of(&self, part: CategoryPart) -> Span {
        let item = match part {
            CategoryPart::Name | CategoryPart::Whole => None,
            CategoryPart::Term(i) => self.terms.get(i),
            CategoryPart::Pattern(i) => self.patterns.get(i),
            CategoryPart::Except(i) => self.except.get(i),
        };
        item.copied().unwrap_or(self.name)
    }
}

/// Reads `keywords.yaml`.
pub(super) fn read(root: &Node, diags: &mut Diagnostics) -> Keywords {
    let Some(mut fields) = Fields::of(root, "keywords.yaml", diags) else { return Keywords::UNREADABLE };
    let example = "categories: {greeting: {terms: [hello]}}";
    let categories = fields.need("categories", example, diags).and_then(|n| entries(n, "`categories`", diags));
    fields.finish(diags);
    let before = diags.counts().0;
    let (mut specs, mut places) = (Vec::new(), Vec::new());
    for entry in categories.unwrap_or_default() {
        let (spec, at) = category(entry, diags);
        specs.push(spec);
        places.push(at);
    }
    let plain: Vec<CategorySpec> = specs.iter().map(|s: &Spanned<CategorySpec>| s.value.clone()).collect();
    let compiled = match Categories::compile(&plain) {
        Ok(categories) => {
            for repeated in categories.repeated_terms() {
                let Some(at) = places.get(repeated.category) else { continue };
                diags.push(
                    Diagnostic::warning(
                        Code::TermTwice,
                        at.of(CategoryPart::Term(repeated.again)),
                        "this term says the same as an earlier one of its category",
                    )
                    .secondary(at.of(CategoryPart::Term(repeated.first)), "the earlier one"),
                );
            }
            covered_terms(&categories, &plain, &places, diags);
            Some(Arc::new(categories))
        }
        Err(errors) => {
            let known = diags.counts().0 > before;
            for error in errors {
                // A category whose terms could not be read is empty for that reason only.
                if known && error.problem == Problem::Empty {
                    continue;
                }
                if let Some(at) = places.get(error.category) {
                    diags.push(reported(&error, at.of(error.part)));
                }
            }
            None
        }
    };
    Keywords { specs, compiled: compiled.filter(|_| diags.counts().0 == before) }
}

/// Warns of terms in which another term of their category stands: wherever the one is found, so is the other.
fn covered_terms(categories: &Categories, specs: &[CategorySpec], places: &[Places], diags: &mut Diagnostics) {
    let is_repeated = |category: usize, term: usize| {
        categories.repeated_terms().iter().any(|repeated| repeated.category == category && repeated.again == term)
    };
    for (category, ((id, _), (spec, at))) in categories.iter().zip(specs.iter().zip(places)).enumerate() {
        for (term, text) in spec.terms.iter().enumerate().filter(|(term, _)| !is_repeated(category, *term)) {
            let found = categories.find(text, id);
            let other = found.iter().find_map(|found| match found.by {
                MatchedBy::Term(other) if other != term => Some(other),
                MatchedBy::Term(_) | MatchedBy::Pattern(_) => None,
            });
            if let Some(other) = other {
                diags.push(
                    Diagnostic::warning(
                        Code::TermCovered,
                        at.of(CategoryPart::Term(term)),
                        "another term of the category is found wherever this one is",
                    )
                    .secondary(at.of(CategoryPart::Term(other)), "the other one")
                    .help("leave this one out"),
                );
            }
        }
    }
}

fn category(entry: &Entry, diags: &mut Diagnostics) -> (Spanned<CategorySpec>, Places) {
    let mut spec = CategorySpec { name: entry.key.clone(), ..CategorySpec::default() };
    let mut places = Places { name: entry.key_span, terms: vec![], patterns: vec![], except: vec![] };
    name(&entry.key, entry.key_span, "the name of a category", false, diags);
    if let Some(mut fields) = Fields::of(&entry.value, &format!("category `{}`", entry.key), diags) {
        let modes = [(MatchMode::Word, "word"), (MatchMode::Substring, "substring")];
        let mode = fields.get("match").and_then(|n| choice(n, "`match`", &modes, diags));
        spec.mode = mode.unwrap_or_default();
        if let Some(items) = fields.get("normalize").and_then(|n| list(n, "`normalize`", diags)) {
            spec.steps =
                items.iter().filter_map(|n| choice(n, "a step of `normalize`", &Step::ALL, diags)).collect::<Steps>();
        }
        let mut part = |key, what| {
            let items = fields.get(key).and_then(|n| some_list(n, &format!("`{key}`"), diags)).unwrap_or_default();
            texts(items, what, diags).into_iter().unzip()
        };
        (spec.terms, places.terms) = part("terms", "a term");
        (spec.patterns, places.patterns) = part("patterns", "a pattern");
        (spec.except, places.except) = part("except", "an exception");
        for (pattern, span) in spec.patterns.iter().zip(&places.patterns) {
            if pattern.contains('\u{8}') {
                diags.push(
                    Diagnostic::error(Code::Pattern, *span, "the pattern holds a backspace, not a word boundary")
                        .help("in double quotes `\\b` is a backspace: use single quotes"),
                );
            }
        }
        fields.finish(diags);
    }
    (Spanned { value: spec, span: entry.key_span }, places)
}

fn reported(error: &CategoryError, span: Span) -> Diagnostic {
    let (code, help) = match &error.problem {
        Problem::NameTwice => (Code::NameTwice, "give it another name"),
        Problem::Empty => (Code::Empty, "add `terms: [...]`, or remove the category"),
        Problem::Nothing => (Code::Term, "remove it, or normalise less"),
        Problem::Blank => (Code::Term, "leave the white space out: `match: word` asks for whole words"),
        Problem::Pattern(_) => {
            (Code::Pattern, "the syntax is that of Rust's regex crate: no look-around, no back-references")
        }
        Problem::MatchesNothing => (Code::Pattern, "make it match at least one character"),
        Problem::TooLarge => (Code::FileTooLarge, "a pack is read into memory: keep large lists outside"),
    };
    Diagnostic::error(code, span, error.problem.to_string()).help(help)
}
