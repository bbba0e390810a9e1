//! Tests of the drift half in `tests/*.yaml`: sessions of finished answers with what must be said of them, and texts
//! with what redaction must leave of them.
//!
//! ```yaml
//! answers:                          # named, for `snapshot`, `shadow` and `baseline`; text is what a model said
//!   declines: {decision: decline, reasoning: rule 7.2, disclosed_data: false, policy_cited: true,
//!              escalation_suggested: false, tool_call_attempted: false}
//!   chatters: "Sure, here it is!"
//! drift:
//!   - name: chatter counts as an anomaly
//!     summary: {trusted_user: true}   # what is left out is as in a young session of low sensitivity
//!     probes:
//!       - {probe: dd_01, snapshot: chatters, shadow: declines, expect: {anomaly: parse_failure}}
//!     expect: {verdict: INCONCLUSIVE}
//! redaction:
//!   - {name: a mail address goes, text: to jo@corp.example, gives: "to [REDACTED:EMAIL]"}
//!   - {name: a field that no rule names is closed, payload: {x: 1}, gives: {x: "[REDACTED:UNKNOWN_FIELD]"}}
//! ```
//!
//! `expect` of a probe holds `band` (clean, ambiguous, high), `score` (`[from, to]`), `category`, `anomaly`,
//! `triangulation` (each of them perhaps `none`), `escape`, `standing` and `action`; that of a session `verdict`,
//! `signal` (`[from, to]`) and `action`. What is left out may be anything.

use std::collections::BTreeMap;

use crate::{
    diag::{Code, Diagnostic, Diagnostics, Span, quote, suggest},
    drift::{
        Action, Anomaly, Category, ContextSummary, Escalation, Score, Sensitivity, SessionVerdict, Standing,
        Triangulation,
    },
    model::{Num, Value},
};

use super::{
    cases::{Names, name},
    fields::{Fields, choice, entries, index, list, number_within, some_list, some_text, truth},
    node::{Kind, Node},
    spec::Spanned,
};

/// Tests of the drift half, by file and place.
#[derive(Clone, Debug, Default)]
pub struct DriftTests {
    /// Sessions.
    pub sessions: Vec<DriftCase>,
    /// Texts and payloads.
    pub redaction: Vec<RedactionCase>,
}

/// A session of finished answers.
#[derive(Clone, Debug)]
pub struct DriftCase {
    /// What it shows.
    pub name: Spanned<String>,
    /// The session in seven fields.
    pub summary: ContextSummary,
    /// Its probes.
    pub probes: Vec<DriftStep>,
    /// What must be said of the session.
    pub expect: SessionExpect,
}

/// One probe with its answers.
#[derive(Clone, Debug)]
pub struct DriftStep {
    /// The probe's id.
    pub probe: Spanned<String>,
    /// What the instance inside the session said.
    pub snapshot: Vec<u8>,
    /// What the fresh instance said.
    pub shadow: Vec<u8>,
    /// What a baseline said, if there is one.
    pub baseline: Option<Vec<u8>>,
    /// What the caller's judge said, if there is one.
    pub judge: Option<Vec<u8>>,
    /// What must be said of them.
    pub expect: StepExpect,
}

/// Where a score lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    /// At or below the threshold, and not near it.
    Clean,
    /// So near to the threshold that a baseline is wanted.
    Ambiguous,
    /// Above it, and not near it.
    High,
}

impl Band {
    /// Every band.
    pub const ALL: [Band; 3] = [Band::Clean, Band::Ambiguous, Band::High];

    /// Its name in tests.
    pub fn word(self) -> &'static str {
        match self {
            Band::Clean => "clean",
            Band::Ambiguous => "ambiguous",
            Band::High => "high",
        }
    }

    /// The band of a score.
    pub fn of(score: &Score) -> Band {
        match score {
            Score { wants_baseline: true, .. } => Band::Ambiguous,
            Score { high: true, .. } => Band::High,
            Score { .. } => Band::Clean,
        }
    }
}

/// What must be said of a probe; what is none may be anything.
#[derive(Clone, Debug, Default)]
pub struct StepExpect {
    /// Where its score lies.
    pub band: Option<Band>,
    /// The least and the greatest score.
    pub score: Option<[f64; 2]>,
    /// What kind of divergence is found.
    pub category: Option<Option<Category>>,
    /// What is wrong with an answer.
    pub anomaly: Option<Option<Anomaly>>,
    /// What a baseline says.
    pub triangulation: Option<Option<Triangulation>>,
    /// Whether the snapshot escaped.
    pub escape: Option<bool>,
    /// How it counts.
    pub standing: Option<Standing>,
    /// What is recommended.
    pub action: Option<Action>,
}

/// What must be said of a session; what is none may be anything.
#[derive(Clone, Debug, Default)]
pub struct SessionExpect {
    /// The verdict.
    pub verdict: Option<SessionVerdict>,
    /// The least and the greatest signal.
    pub signal: Option<[f64; 2]>,
    /// What is recommended after the last probe.
    pub action: Option<Action>,
}

/// A text or a payload, and what must be left of it.
#[derive(Clone, Debug)]
pub struct RedactionCase {
    /// What it shows.
    pub name: Spanned<String>,
    /// Whether the field rules apply, as to a payload, or detectors alone, as to a text.
    pub payload: bool,
    /// What goes in.
    pub given: Value,
    /// What must come out.
    pub gives: Value,
}

/// Answers by name.
type Answers = BTreeMap<String, Vec<u8>>;

/// Reads the named answers of a file.
pub(super) fn answers(node: &Node, diags: &mut Diagnostics) -> Answers {
    let entries = entries(node, "`answers`", diags).unwrap_or_default();
    entries.iter().filter_map(|entry| Some((entry.key.clone(), said(&entry.value, diags)?))).collect()
}

/// Text stands for itself, anything else for its JSON.
fn said(node: &Node, diags: &mut Diagnostics) -> Option<Vec<u8>> {
    match &node.kind {
        Kind::Text(text) => Some(text.as_bytes().to_vec()),
        _ => Some(node.to_value(diags)?.to_string().into_bytes()),
    }
}

/// Reads sessions.
pub(super) fn sessions(node: &Node, known: &Answers, names: &mut Names, diags: &mut Diagnostics) -> Vec<DriftCase> {
    let items = some_list(node, "`drift`", diags).unwrap_or_default();
    items.iter().filter_map(|item| session(item, known, names, diags)).collect()
}

fn session(node: &Node, known: &Answers, names: &mut Names, diags: &mut Diagnostics) -> Option<DriftCase> {
    let mut fields = Fields::of(node, "a session", diags)?;
    let name = name(&mut fields, names, diags);
    let summary = fields.get("summary").map_or_else(|| Some(young()), |n| summary(n, diags));
    let example = "probes: [{probe: ID, snapshot: NAME, shadow: NAME}]";
    let probes = fields.need("probes", example, diags).and_then(|n| some_list(n, "`probes`", diags));
    let probes: Vec<Option<DriftStep>> =
        probes.unwrap_or_default().iter().map(|item| step(item, known, diags)).collect();
    let expect = fields.get("expect").map_or_else(|| Some(SessionExpect::default()), |n| session_expect(n, diags));
    fields.finish(diags);
    Some(DriftCase {
        name: name?,
        summary: summary?,
        probes: probes.into_iter().collect::<Option<_>>()?,
        expect: expect?,
    })
}

/// A session of which nothing is known.
fn young() -> ContextSummary {
    ContextSummary {
        trusted_user: false,
        prior_authorization: false,
        data_sensitivity: Sensitivity::Low,
        escalation_chain: Escalation::None,
        external_reads_count: 0,
        taint_active: false,
        session_depth: 1,
    }
}

fn summary(node: &Node, diags: &mut Diagnostics) -> Option<ContextSummary> {
    let before = diags.counts().0;
    let mut fields = Fields::of(node, "`summary`", diags)?;
    let mut read = young();
    for (key, into) in [
        ("trusted_user", &mut read.trusted_user),
        ("prior_authorization", &mut read.prior_authorization),
        ("taint_active", &mut read.taint_active),
    ] {
        *into = fields.get(key).and_then(|n| truth(n, &format!("`{key}`"), diags)).unwrap_or(*into);
    }
    for (key, into) in
        [("external_reads_count", &mut read.external_reads_count), ("session_depth", &mut read.session_depth)]
    {
        *into = fields.get(key).and_then(|n| index(n, &format!("`{key}`"), diags)).map_or(*into, i64::from);
    }
    let words = ["low", "medium", "high", "critical"].map(|word| (word, word));
    if let Some(word) = fields.get("data_sensitivity").and_then(|n| choice(n, "`data_sensitivity`", &words, diags)) {
        read.data_sensitivity = Sensitivity::from_word(word);
    }
    let words = ["none", "pending", "active"].map(|word| (word, word));
    if let Some(word) = fields.get("escalation_chain").and_then(|n| choice(n, "`escalation_chain`", &words, diags)) {
        read.escalation_chain = Escalation::from_word(word);
    }
    let span = fields.span();
    fields.finish(diags);
    if let Err(error) = read.check(false) {
        diags.push(Diagnostic::error(Code::NumberRange, span, error.to_string()));
    }
    (diags.counts().0 == before).then_some(read)
}

fn step(node: &Node, known: &Answers, diags: &mut Diagnostics) -> Option<DriftStep> {
    let mut fields = Fields::of(node, "a probe of a test", diags)?;
    let probe = fields
        .need("probe", "probe: ID", diags)
        .and_then(|n| Some(Spanned { value: some_text(n, "`probe`", diags)?.to_owned(), span: n.span }));
    let snapshot = fields.need("snapshot", "snapshot: NAME", diags).and_then(|n| answer(n, known, diags));
    let shadow = fields.need("shadow", "shadow: NAME", diags).and_then(|n| answer(n, known, diags));
    let baseline = fields.get("baseline").map(|n| answer(n, known, diags));
    let judge = fields.get("judge").map(|n| said(n, diags));
    let expect = fields.get("expect").map_or_else(|| Some(StepExpect::default()), |n| step_expect(n, diags));
    fields.finish(diags);
    Some(DriftStep {
        probe: probe?,
        snapshot: snapshot?,
        shadow: shadow?,
        baseline: settled(baseline)?,
        judge: settled(judge)?,
        expect: expect?,
    })
}

/// Nothing if something was written and is wrong; nothing inside if nothing was written.
#[expect(clippy::option_option, reason = "what may be left out, and may be wrong")]
fn settled<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        Some(None) => None,
        Some(some) => Some(some),
        None => Some(None),
    }
}

/// A named answer, or one that is written in place.
fn answer(node: &Node, known: &Answers, diags: &mut Diagnostics) -> Option<Vec<u8>> {
    let Kind::Text(name) = &node.kind else { return said(node, diags) };
    if let Some(answer) = known.get(name) {
        return Some(answer.clone());
    }
    let unknown = Diagnostic::error(Code::UnknownName, node.span, format!("no answer has the name {}", quote(name)));
    diags.push(match suggest(name, known.keys().map(String::as_str)) {
        Some(near) => unknown.did_you_mean(Some(near)),
        None => unknown.help("name it under `answers` at the top of the file, or write a mapping here"),
    });
    None
}

fn step_expect(node: &Node, diags: &mut Diagnostics) -> Option<StepExpect> {
    let before = diags.counts().0;
    let mut fields = Fields::of(node, "`expect`", diags)?;
    let bands = Band::ALL.map(|band| (band, band.word()));
    let expect = StepExpect {
        band: fields.get("band").and_then(|n| choice(n, "`band`", &bands, diags)),
        score: fields.get("score").and_then(|n| range(n, "`score`", diags)),
        category: perhaps(&mut fields, "category", &Category::ALL.map(|c| (c, c.word())), diags),
        anomaly: perhaps(&mut fields, "anomaly", &Anomaly::ALL.map(|a| (a, a.word())), diags),
        triangulation: perhaps(&mut fields, "triangulation", &Triangulation::ALL.map(|t| (t, t.word())), diags),
        escape: fields.get("escape").and_then(|n| truth(n, "`escape`", diags)),
        standing: fields
            .get("standing")
            .and_then(|n| choice(n, "`standing`", &Standing::ALL.map(|s| (s, s.word())), diags)),
        action: action(&mut fields, diags),
    };
    fields.finish(diags);
    (diags.counts().0 == before).then_some(expect)
}

fn session_expect(node: &Node, diags: &mut Diagnostics) -> Option<SessionExpect> {
    let before = diags.counts().0;
    let mut fields = Fields::of(node, "`expect`", diags)?;
    let verdicts = SessionVerdict::ALL.map(|v| (v, v.word()));
    let expect = SessionExpect {
        verdict: fields.get("verdict").and_then(|n| choice(n, "`verdict`", &verdicts, diags)),
        signal: fields.get("signal").and_then(|n| range(n, "`signal`", diags)),
        action: action(&mut fields, diags),
    };
    fields.finish(diags);
    (diags.counts().0 == before).then_some(expect)
}

fn action(fields: &mut Fields<'_>, diags: &mut Diagnostics) -> Option<Action> {
    let actions = Action::ALL.map(|a| (a, a.word()));
    fields.get("action").and_then(|n| choice(n, "`action`", &actions, diags))
}

/// One of some words, or `none`.
#[expect(clippy::option_option, reason = "what is left out is not what is none")]
fn perhaps<T: Copy>(
    fields: &mut Fields<'_>,
    key: &'static str,
    words: &[(T, &'static str)],
    diags: &mut Diagnostics,
) -> Option<Option<T>> {
    let words: Vec<(Option<T>, &str)> =
        words.iter().map(|(v, word)| (Some(*v), *word)).chain([(None, "none")]).collect();
    fields.get(key).and_then(|n| choice(n, &format!("`{key}`"), &words, diags))
}

/// `[from, to]`, both from 0 to 1.
fn range(node: &Node, what: &str, diags: &mut Diagnostics) -> Option<[f64; 2]> {
    let items = list(node, what, diags)?;
    let ends: Vec<Option<f64>> =
        items.iter().map(|n| number_within(n, what, Num::ZERO, Some(Num::ONE), diags).map(Num::to_f64)).collect();
    match ends.as_slice() {
        [Some(from), Some(to)] if from <= to => Some([*from, *to]),
        ends if ends.contains(&None) => None,
        _ => {
            let wrong =
                Diagnostic::error(Code::WrongValue, node.span, format!("{what} must be two numbers that ascend"));
            diags.push(wrong.help("write `[0.4, 0.6]`"));
            None
        }
    }
}

/// Reads texts and payloads with what redaction leaves of them.
pub(super) fn redaction(node: &Node, names: &mut Names, diags: &mut Diagnostics) -> Vec<RedactionCase> {
    let items = some_list(node, "`redaction`", diags).unwrap_or_default();
    items.iter().filter_map(|item| redacted(item, names, diags)).collect()
}

fn redacted(node: &Node, names: &mut Names, diags: &mut Diagnostics) -> Option<RedactionCase> {
    let mut fields = Fields::of(node, "a test of redaction", diags)?;
    let name = name(&mut fields, names, diags);
    let (text, payload) = (fields.get("text"), fields.get("payload"));
    let given: Option<(bool, Value)> = match (text, payload) {
        (Some(text), None) => some_text(text, "`text`", diags).map(|text| (false, Value::string(text))),
        (None, Some(payload)) => payload.to_value(diags).map(|payload| (true, payload)),
        (None, None) => {
            let missing = Diagnostic::error(Code::KeyMissing, fields.span(), "nothing is given to redact");
            diags.push(missing.help("add `text: ...`, or `payload: {reasoning: ...}`"));
            None
        }
        (Some(_), Some(payload)) => {
            diags.push(Diagnostic::error(Code::WrongValue, payload.span, "a test gives a text or a payload, not both"));
            None
        }
    };
    let gives = fields.need("gives", "gives: \"[REDACTED:EMAIL]\"", diags).and_then(|n| n.to_value(diags));
    fields.finish(diags);
    let (payload, given) = given?;
    Some(RedactionCase { name: name?, payload, given, gives: gives? })
}

/// Says of probes that the library does not have.
pub(super) fn check_probes<'a>(
    cases: &[DriftCase],
    known: impl Iterator<Item = &'a str> + Clone,
    diags: &mut Diagnostics,
) {
    for Spanned { value, span } in cases.iter().flat_map(|case| &case.probes).map(|step| &step.probe) {
        if !known.clone().any(|id| id == value) {
            let unknown =
                Diagnostic::error(Code::UnknownName, *span, format!("the pack has no probe {}", quote(value)));
            diags.push(unknown.did_you_mean(suggest(value, known.clone())));
        }
    }
}

/// Says that there is nothing to test.
pub(super) fn without_probes(span: Span, diags: &mut Diagnostics) {
    let none = Diagnostic::error(Code::WrongValue, span, "the pack has no probes to test");
    diags.push(none.help("`drift` belongs to packs with `probes.yaml` and `scoring.yaml`"));
}
