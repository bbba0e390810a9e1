//! The sections `judge` and `readout` of `scoring.yaml`: what keyword categories mean to the deterministic judge
//! and to the readout of raw outputs.

use std::sync::Arc;

use crate::{
    diag::{Code, Diagnostic, Diagnostics, quote, suggest},
    drift::{
        Contradiction, Escalation, Field, KeywordLexicon, Mentions, OutputRules, ReadoutLimits, Sensitivity,
        SummaryTest,
    },
    keywords::Categories,
};

use super::{
    fields::{Fields, choice, entries, index, list, some_list, texts, truth, unknown_key},
    node::{Entry, Node},
};

/// Reads `judge`; nothing if it has an error.
pub(super) fn judge(node: &Node, categories: &Arc<Categories>, diags: &mut Diagnostics) -> Option<KeywordLexicon> {
    let before = diags.counts().0;
    let mut fields = Fields::of(node, "`judge`", diags)?;
    let mut named =
        |key, diags: &mut Diagnostics| fields.get(key).map(|n| mentions(n, key, categories, diags)).unwrap_or_default();
    let (toward, away) = (named("toward", diags), named("away", diags));
    let (rules, citations) = (named("rules", diags), named("citations", diags));
    let written = fields.get("contradictions").and_then(|n| list(n, "`contradictions`", diags)).unwrap_or_default();
    let contradictions = written.iter().filter_map(|n| contradiction(n, categories, diags)).collect();
    fields.finish(diags);
    let lexicon = KeywordLexicon { categories: Arc::clone(categories), toward, away, rules, citations, contradictions };
    (diags.counts().0 == before).then_some(lexicon)
}

/// Reads `readout`; nothing if it has an error.
pub(super) fn readout(node: &Node, categories: &Arc<Categories>, diags: &mut Diagnostics) -> Option<OutputRules> {
    let before = diags.counts().0;
    let mut fields = Fields::of(node, "`readout`", diags)?;
    let bytes = fields.need("bytes", "bytes: 1048576", diags).and_then(|n| index(n, "`bytes`", diags));
    let layers = fields.need("layers", "layers: 2", diags).and_then(|n| {
        let layers = index(n, "`layers`", diags)?;
        // Each layer of encodings is undone in several ways, so the work grows with their power.
        if layers > MOST_LAYERS {
            let what = format!("`layers` must be from 0 to {MOST_LAYERS}, found {layers}");
            diags.push(Diagnostic::error(Code::NumberRange, n.span, what));
        }
        Some(layers)
    });
    let mut named =
        |key, diags: &mut Diagnostics| fields.get(key).map(|n| mentions(n, key, categories, diags)).unwrap_or_default();
    let policy_cited = named("policy_cited", diags);
    let escalation_suggested = named("escalation_suggested", diags);
    fields.finish(diags);
    let limits = ReadoutLimits { bytes: usize::try_from(bytes?).unwrap_or(usize::MAX), layers: layers? };
    let rules = OutputRules { limits, categories: Arc::clone(categories), policy_cited, escalation_suggested };
    (diags.counts().0 == before).then_some(rules)
}

/// Reports that there is no `readout`.
pub(super) fn missing_readout(scoring: &Node, diags: &mut Diagnostics) -> Option<OutputRules> {
    let mut fields = Fields::of(scoring, "scoring.yaml", diags)?;
    fields.need("readout", "readout: {bytes: 1048576, layers: 2}", diags);
    None
}

/// Encodings in encodings that a pack may ask to be undone.
pub(super) const MOST_LAYERS: u32 = 3;

fn mentions(node: &Node, key: &str, categories: &Categories, diags: &mut Diagnostics) -> Mentions {
    let items = some_list(node, &format!("`{key}`"), diags).unwrap_or_default();
    let mut found = Vec::new();
    for (name, span) in texts(items, "the name of a category", diags) {
        match categories.id(&name) {
            Some(id) => found.push((Arc::from(name), id)),
            None => {
                let what = format!("the pack has no keyword category {}", quote(&name));
                let near = suggest(&name, categories.iter().map(|(_, known)| known));
                diags.push(Diagnostic::error(Code::UnknownCategory, span, what).did_you_mean(near));
            }
        }
    }
    Mentions::new(found)
}

fn contradiction(node: &Node, categories: &Categories, diags: &mut Diagnostics) -> Option<Contradiction> {
    let mut fields = Fields::of(node, "a contradiction", diags)?;
    let when = fields.need("when", "when: {trusted_user: false}", diags);
    let when = when.and_then(|n| entries(n, "`when`", diags)).unwrap_or_default();
    let when = when.iter().filter_map(|entry| summary_test(entry, diags)).collect();
    let says = fields.get("says").map(|n| mentions(n, "says", categories, diags));
    let answer = fields.get("answer").and_then(|n| entries(n, "`answer`", diags));
    if says.is_none() && answer.is_none() {
        let what = "a contradiction must say what contradicts";
        let help = "add `says: [CATEGORY]` or `answer: {disclosed_data: true}`";
        diags.push(Diagnostic::error(Code::KeyMissing, node.span, what).help(help));
    }
    let answer = answer.unwrap_or_default().iter().filter_map(|entry| flag(entry, diags)).collect();
    fields.finish(diags);
    Some(Contradiction { when, says: says.unwrap_or_default(), answer })
}

fn flag(entry: &Entry, diags: &mut Diagnostics) -> Option<(Field, bool)> {
    let flags: Vec<&str> = Field::ALL.into_iter().filter(|f| f.is_flag()).map(Field::word).collect();
    match Field::from_word(&entry.key).filter(|f| f.is_flag()) {
        Some(field) => Some((field, truth(&entry.value, &quote(&entry.key), diags)?)),
        None => {
            diags.push(unknown_key(entry, &flags));
            None
        }
    }
}

fn summary_test(entry: &Entry, diags: &mut Diagnostics) -> Option<SummaryTest> {
    const KNOWN: [&str; 5] =
        ["trusted_user", "prior_authorization", "taint_active", "data_sensitivity", "escalation_chain"];
    let value = &entry.value;
    match entry.key.as_str() {
        "trusted_user" => truth(value, &quote(&entry.key), diags).map(SummaryTest::TrustedUser),
        "prior_authorization" => truth(value, &quote(&entry.key), diags).map(SummaryTest::PriorAuthorization),
        "taint_active" => truth(value, &quote(&entry.key), diags).map(SummaryTest::TaintActive),
        "data_sensitivity" => {
            let words = ["low", "medium", "high", "critical"].map(|w| (w, w));
            let chosen = words_of(value, &entry.key, &words, diags);
            Some(SummaryTest::DataSensitivity(chosen.into_iter().map(Sensitivity::from_word).collect()))
        }
        "escalation_chain" => {
            let words = ["none", "pending", "active"].map(|w| (w, w));
            let chosen = words_of(value, &entry.key, &words, diags);
            Some(SummaryTest::EscalationChain(chosen.into_iter().map(Escalation::from_word).collect()))
        }
        _ => {
            diags.push(unknown_key(entry, &KNOWN));
            None
        }
    }
}

fn words_of(
    node: &Node,
    key: &str,
    words: &[(&'static str, &'static str)],
    diags: &mut Diagnostics,
) -> Vec<&'static str> {
    let items = some_list(node, &format!("`{key}`"), diags).unwrap_or_default();
    items.iter().filter_map(|n| choice(n, &format!("a word of `{key}`"), words, diags)).collect()
}
