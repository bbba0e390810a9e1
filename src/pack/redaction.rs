//! `redaction.yaml`: what may leave a call, and what is looked for in texts.
//!
//! ```yaml
//! mode: text                          # or categorical, hashed, encrypted
//! fields:
//!   plain: [decision, disclosed_data]
//!   scrubbed: [reasoning]
//!   hashed: [customer_id]
//!   words: {decision: [comply, decline]}
//! detectors:
//!   email: {}
//!   phone: {replacement: "[PHONE]"}
//! ```
//!
//! A field that is not named is closed, and a detector that is not named does not look. A pack without the
//! file has [`Rules::standard`].

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    diag::{Code, Diagnostic, Diagnostics, Span, quote, suggest},
    redact::{Detector, FieldRule, Mode, Redactor, Rules, RulesError},
};

use super::{
    fields::{Fields, among, choice, entries, index, list, some_list, some_text, texts, unknown_key},
    node::{Entry, Kind, Node},
};

/// Hashes of a pack that is not served are nobody's secret: whoever serves it puts a key of its own in.
const NO_KEY: [u8; 32] = [0; 32];

/// Rules of a pack that says nothing.
pub(super) fn standard() -> Option<Arc<Redactor>> {
    Redactor::new(Rules::standard(), NO_KEY).ok().map(Arc::new)
}

/// Reads `redaction.yaml`; nothing if it has an error.
pub(super) fn read(root: &Node, diags: &mut Diagnostics) -> Option<Arc<Redactor>> {
    let before = diags.counts().0;
    let mut top = Fields::of(root, "redaction.yaml", diags)?;
    let mut rules =
        Rules { fields: BTreeMap::new(), closed_words: BTreeMap::new(), detectors: Vec::new(), ..Rules::standard() };
    let modes = [
        (Mode::Text, "text"),
        (Mode::Categorical, "categorical"),
        (Mode::Hashed, "hashed"),
        (Mode::Encrypted, "encrypted"),
    ];
    rules.mode = top.get("mode").and_then(|n| choice(n, "`mode`", &modes, diags)).unwrap_or_default();
    if let Some(node) = top.need("fields", "fields: {plain: [decision], scrubbed: [reasoning]}", diags) {
        field_rules(node, &mut rules, diags);
    }
    let mut places: Vec<(Detector, Span)> = Vec::new();
    if let Some(node) = top.need("detectors", "detectors: {email: {}, phone: {}}", diags) {
        for entry in entries(node, "`detectors`", diags).unwrap_or_default() {
            if let Some(detector) = detector(entry, &mut rules, diags) {
                places.push((detector, entry.value.span));
            }
        }
    }
    if let Some(mut limits) = top.get("limits").and_then(|n| Fields::of(n, "`limits`", diags)) {
        let mut limit = |key, diags: &mut Diagnostics| {
            let node = limits.get(key)?;
            Some((index(node, &format!("`{key}`"), diags)?, node.span))
        };
        match limit("max_bytes", diags) {
            Some((0, span)) => {
                diags.push(Diagnostic::error(Code::NumberRange, span, "`max_bytes` must be at least 1, found 0"));
            }
            Some((bytes, _)) => rules.max_bytes = usize::try_from(bytes).unwrap_or(usize::MAX),
            None => {}
        }
        if let Some((depth, _)) = limit("max_embedding", diags) {
            rules.max_embedding = depth;
        }
        limits.finish(diags);
    }
    top.finish(diags);
    // In one order whatever the file's, so that the same rules have the same digest.
    rules.detectors = Detector::ALL.into_iter().filter(|d| places.iter().any(|(p, _)| p == d)).collect();
    if diags.counts().0 > before {
        return None;
    }
    match Redactor::new(rules, NO_KEY) {
        Ok(redactor) => Some(Arc::new(redactor)),
        Err(error) => {
            let place = match &error {
                RulesError::Replacement { detector } => places.iter().find(|(d, _)| d == detector).map(|(_, s)| *s),
                RulesError::Pattern(_) | RulesError::Length => None,
            };
            let span = place.unwrap_or(root.span);
            let diagnostic = Diagnostic::error(Code::WrongValue, span, error.to_string());
            diags.push(diagnostic.help("use a word in brackets that looks like nothing else: `[PHONE]`"));
            None
        }
    }
}

fn field_rules(node: &Node, rules: &mut Rules, diags: &mut Diagnostics) {
    let Some(mut fields) = Fields::of(node, "`fields`", diags) else { return };
    let mut first: BTreeMap<String, Span> = BTreeMap::new();
    for (key, rule) in [("plain", FieldRule::Plain), ("scrubbed", FieldRule::Scrub), ("hashed", FieldRule::Hash)] {
        let items = fields.get(key).and_then(|n| list(n, &format!("`{key}`"), diags)).unwrap_or_default();
        for (name, span) in texts(items, "the name of a field", diags) {
            if let Some(earlier) = first.get(&name) {
                let what = format!("the field {} is named twice", quote(&name));
                let twice = Diagnostic::error(Code::NameTwice, span, what).secondary(*earlier, "the other one");
                diags.push(twice.help("a field is plain, scrubbed or hashed"));
                continue;
            }
            first.insert(name.clone(), span);
            rules.fields.insert(name, rule);
        }
    }
    for entry in fields.get("words").and_then(|n| entries(n, "`words`", diags)).unwrap_or_default() {
        let Some(items) = some_list(&entry.value, &format!("the words of `{}`", entry.key), diags) else { continue };
        if rules.fields.get(&entry.key) != Some(&FieldRule::Plain) {
            let plain = rules.fields.iter().filter(|(_, rule)| **rule == FieldRule::Plain).map(|(name, _)| name);
            let what = format!("{} is no plain field", quote(&entry.key));
            let unknown = Diagnostic::error(Code::UnknownName, entry.key_span, what);
            diags.push(unknown.did_you_mean(suggest(&entry.key, plain.map(String::as_str))));
            continue;
        }
        let mut words: Vec<String> = texts(items, "a word", diags).into_iter().map(|(word, _)| word).collect();
        words.sort();
        rules.closed_words.insert(entry.key.clone(), words);
    }
    fields.finish(diags);
}

fn detector(entry: &Entry, rules: &mut Rules, diags: &mut Diagnostics) -> Option<Detector> {
    let Some(detector) = Detector::from_word(&entry.key) else {
        let known: Vec<&str> = Detector::ALL.into_iter().map(Detector::word).collect();
        diags.push(match suggest(&entry.key, known.iter().copied()) {
            Some(_) => unknown_key(entry, &known),
            None => {
                let what = format!("there is no detector {}", quote(&entry.key));
                Diagnostic::error(Code::UnknownName, entry.key_span, what).help(format!("there are {}", among(&known)))
            }
        });
        return None;
    };
    if entry.value.kind == Kind::Null {
        return Some(detector);
    }
    let mut fields = Fields::of(&entry.value, &format!("detector `{}`", entry.key), diags)?;
    if let Some(text) = fields.get("replacement").and_then(|n| some_text(n, "`replacement`", diags)) {
        rules.replacements.insert(detector, text.to_owned());
    }
    let mut words = |key, into: &mut Vec<String>| {
        if let Some(items) = fields.get(key).and_then(|n| list(n, &format!("`{key}`"), diags)) {
            *into = texts(items, "a word", diags).into_iter().map(|(word, _)| word).collect();
        }
    };
    match detector {
        Detector::Phone => {
            words("cues", &mut rules.phone.cues);
            words("others", &mut rules.phone.others);
            words("weak_others", &mut rules.phone.weak_others);
            words("units", &mut rules.phone.units);
        }
        Detector::Email => {
            words("file_suffixes", &mut rules.email.file_suffixes);
            words("version_names", &mut rules.email.version_names);
            words("spelled_domains", &mut rules.email.spelled_domains);
        }
        Detector::Card | Detector::Iban | Detector::Ip | Detector::Secret => {}
    }
    fields.finish(diags);
    Some(detector)
}
