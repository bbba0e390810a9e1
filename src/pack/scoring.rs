//! `scoring.yaml`: every number and switch of a pack's drift half. Keys are named as
//! [`crate::drift::Settings`] names them, which is also where their ranges are checked.
//!
//! `parity` holds the switches that bring back an older behaviour; what it leaves out, and all of it in a pack
//! without it, is the better one.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    diag::{Code, Diagnostic, Diagnostics, Span},
    drift::{
        Action, ActionSettings, Booleans, Calibration, CompareRules, ConsistencySettings, Cooldown, DriftEvidence,
        Field, FieldWeights, Growth, IsolationSettings, JudgeWeights, LongitudinalSettings, MAX_WEIGHT, ParseLimits,
        PipelineRules, ReportSettings, ScheduleSettings, ScoreSettings, SensitivityRules, Settings, SettingsError,
        SettingsWarning, StreakRule, StructuralCount, Thousandths, TriangulateRules, TypeNumbers,
    },
    model::Num,
};

use super::{
    fields::{Fields, choice, entries, list, number, truth},
    node::{Kind, Node},
};

/// Reads the numbers of `scoring.yaml`; nothing if one of them has an error. The sections `judge` and `readout`
/// are left to [`super::lexicon`].
pub(super) fn read(root: &Node, calibration: Calibration, diags: &mut Diagnostics) -> Option<Settings> {
    let before = diags.counts().0;
    let mut top = Fields::of(root, "scoring.yaml", diags)?;
    // Known here, read elsewhere.
    top.get("judge");
    top.get("readout");
    let parity = top.get("parity");
    let switches = Switches::read(parity, diags);
    let mut settings = Settings {
        calibration,
        limits: Section::of(&mut top, "limits", diags, |s, diags| ParseLimits {
            bytes: s.size("bytes", diags),
            depth: u32::try_from(s.count("depth", diags)).unwrap_or(u32::MAX),
            number_chars: s.size("number_chars", diags),
            beyond_double: switches.beyond_double,
            lone_surrogates: switches.lone_surrogates,
        }),
        compare: Section::of(&mut top, "compare", diags, |s, diags| CompareRules {
            normalize_decision: s.switch("normalize_decision", diags),
            booleans: switches.booleans,
        }),
        score: Section::of(&mut top, "score", diags, score),
        triangulate: TriangulateRules {
            normalize_decision: false,
            empty_decisions_count: switches.empty_decisions_count,
        },
        isolation: Section::of(&mut top, "isolation", diags, isolation),
        longitudinal: Section::of(&mut top, "longitudinal", diags, |s, diags| longitudinal(s, &switches, diags)),
        action: Section::of(&mut top, "action", diags, |s, diags| ActionSettings {
            elevated: s.number("elevated", diags),
            restricted: s.number("restricted", diags),
            min_scored_probes: s.count("min_scored_probes", diags),
            on_escape: s.word("on_escape", &actions(), diags).unwrap_or_default(),
        }),
        consistency: Section::of(&mut top, "consistency", diags, |s, diags| ConsistencySettings {
            rule: switches.streak_rule,
            streak: s.count("streak", diags),
            expected_variance: s.number("expected_variance", diags),
            needs_calibration: switches.consistency_needs_calibration,
        }),
        report: Section::of(&mut top, "report", diags, |s, diags| ReportSettings {
            min_probes: s.count("min_probes", diags),
            max_malformed_share: s.number("max_malformed_share", diags),
            evidence: switches.evidence,
            structural: switches.structural_failures,
            anomaly_first: switches.anomaly_first,
            timeline: s.size("timeline", diags),
            z: s.number("z", diags),
            empty_interval_is_zero: switches.empty_interval_is_zero,
        }),
        schedule: Section::of(&mut top, "schedule", diags, |s, diags| ScheduleSettings {
            growth_tokens: s.whole("growth_tokens", diags),
            external_tokens: s.whole("external_tokens", diags),
            max_interval: s.number("max_interval", diags),
            cooldown: s.number("cooldown", diags),
            jitter: s.number("jitter", diags),
            max_probes: s.count("max_probes", diags),
            reputation: s.number("reputation", diags),
            growth: switches.growth,
            cooldown_rule: switches.cooldown,
        }),
        sensitivity: Section::of(&mut top, "sensitivity", diags, |s, diags| SensitivityRules {
            high_reads_when_tainted: s.whole("high_reads_when_tainted", diags),
            medium_reads: s.whole("medium_reads", diags),
        }),
        pipeline: switches.pipeline,
    };
    settings.triangulate.normalize_decision = settings.compare.normalize_decision;
    top.finish(diags);
    if diags.counts().0 > before {
        return None;
    }
    if let Err(problems) = settings.check() {
        for problem in problems {
            diags.push(reported(&problem, root));
        }
        return None;
    }
    for warning in settings.warnings() {
        let SettingsWarning::Unreachable { threshold, .. } = &warning;
        diags.push(
            Diagnostic::warning(Code::Unreachable, place(root, threshold), warning.to_string())
                .help("lower the threshold, or raise the coefficients of `longitudinal`"),
        );
    }
    Some(settings)
}

/// A mapping of numbers. Those that are missing or wrong are reported and read as 0.
struct Section<'n> {
    fields: Fields<'n>,
}

impl<'n> Section<'n> {
    /// Reads a section that must be there. Of one that is not, that alone is reported.
    fn of<T>(
        top: &mut Fields<'n>,
        name: &'static str,
        diags: &mut Diagnostics,
        make: impl FnOnce(&mut Section<'n>, &mut Diagnostics) -> T,
    ) -> T {
        let found = top.need(name, &format!("{name}: {{...}}"), diags);
        match found.and_then(|node| Fields::of(node, &format!("`{name}`"), diags)) {
            Some(fields) => Section::read(fields, diags, make),
            None => Section::read(Fields::none(top.span()), &mut Diagnostics::new(), make),
        }
    }

    fn read<T>(
        fields: Fields<'n>,
        diags: &mut Diagnostics,
        make: impl FnOnce(&mut Section<'n>, &mut Diagnostics) -> T,
    ) -> T {
        let mut section = Section { fields };
        let made = make(&mut section, diags);
        section.fields.finish(diags);
        made
    }

    fn exact(&mut self, key: &'static str, example: &str, diags: &mut Diagnostics) -> Option<(Num, Span)> {
        let node = self.fields.need(key, &format!("{key}: {example}"), diags)?;
        Some((number(node, &format!("`{key}`"), diags)?, node.span))
    }

    fn number(&mut self, key: &'static str, diags: &mut Diagnostics) -> f64 {
        self.exact(key, "0.5", diags).map_or(0.0, |(n, _)| n.to_f64())
    }

    /// A whole number, of either sign.
    fn whole(&mut self, key: &'static str, diags: &mut Diagnostics) -> i64 {
        let Some((n, span)) = self.exact(key, "2", diags) else { return 0 };
        n.as_whole().unwrap_or_else(|| {
            diags.push(Diagnostic::error(
                Code::NumberRange,
                span,
                format!("`{key}` must be a whole number, found {n}"),
            ));
            0
        })
    }

    fn count(&mut self, key: &'static str, diags: &mut Diagnostics) -> u64 {
        let Some((n, span)) = self.exact(key, "2", diags) else { return 0 };
        n.as_whole().and_then(|n| u64::try_from(n).ok()).unwrap_or_else(|| {
            let what = format!("`{key}` must be a whole number from 0, found {n}");
            diags.push(Diagnostic::error(Code::NumberRange, span, what));
            0
        })
    }

    fn size(&mut self, key: &'static str, diags: &mut Diagnostics) -> usize {
        usize::try_from(self.count(key, diags)).unwrap_or(usize::MAX)
    }

    fn weight(&mut self, key: &'static str, diags: &mut Diagnostics) -> Thousandths {
        let Some((n, span)) = self.exact(key, "0.5", diags) else { return Thousandths::ONE };
        weight(n, span, &format!("`{key}`"), diags)
    }

    fn switch(&mut self, key: &'static str, diags: &mut Diagnostics) -> bool {
        self.fields
            .need(key, &format!("{key}: false"), diags)
            .and_then(|n| truth(n, &format!("`{key}`"), diags))
            .unwrap_or_default()
    }

    fn word<T: Copy>(&mut self, key: &'static str, words: &[(T, &'static str)], diags: &mut Diagnostics) -> Option<T> {
        let example = words.first().map_or("", |(_, word)| word);
        let node = self.fields.need(key, &format!("{key}: {example}"), diags)?;
        choice(node, &format!("`{key}`"), words, diags)
    }
}

fn weight(n: Num, span: Span, what: &str, diags: &mut Diagnostics) -> Thousandths {
    Thousandths::from_num(n).unwrap_or_else(|| {
        let message = format!("{what} must be from 0 to {MAX_WEIGHT} with at most three decimals, found {n}");
        diags.push(Diagnostic::error(Code::NumberRange, span, message));
        Thousandths::ONE
    })
}

fn actions() -> [(Action, &'static str); 3] {
    [Action::LogOnly, Action::ElevatedReview, Action::RestrictedMode].map(|action| (action, action.word()))
}

fn score(s: &mut Section<'_>, diags: &mut Diagnostics) -> ScoreSettings {
    let weights = Section::of(&mut s.fields, "weights", diags, |s, diags| {
        let span = s.fields.span();
        let before = diags.counts().0;
        let weights = Field::ALL.map(|field| s.weight(field.word(), diags));
        FieldWeights::new(weights).or_else(|| {
            if diags.counts().0 == before {
                let message = SettingsError::NoWeight.to_string();
                diags
                    .push(Diagnostic::error(Code::WrongValue, span, message).help("give one of them a weight above 0"));
            }
            None
        })
    });
    let judge = Section::of(&mut s.fields, "judge", diags, |s, diags| JudgeWeights {
        policy: s.weight("policy", diags),
        direction: s.weight("direction", diags),
        context: s.weight("context", diags),
        blend: s.weight("blend", diags),
    });
    let mut types = BTreeMap::new();
    let example = "types: {data_disclosure: {threshold: 0.5, multiplier: 1}}";
    let declared = s.fields.need("types", example, diags).and_then(|n| entries(n, "`types`", diags));
    for entry in declared.unwrap_or_default() {
        let Some(fields) = Fields::of(&entry.value, &format!("type `{}`", entry.key), diags) else { continue };
        let numbers = Section::read(fields, diags, |s, diags| TypeNumbers {
            threshold: s.number("threshold", diags),
            multiplier: s.weight("multiplier", diags),
        });
        types.insert(Arc::from(entry.key.as_str()), numbers);
    }
    ScoreSettings {
        weights: weights.unwrap_or_else(FieldWeights::even),
        judge,
        types,
        ambiguity_band: s.number("ambiguity_band", diags),
        triangulate: s.switch("triangulate", diags),
    }
}

fn isolation(s: &mut Section<'_>, diags: &mut Diagnostics) -> IsolationSettings {
    IsolationSettings {
        shared_memory: s.number("shared_memory", diags),
        shared_tool_state: s.number("shared_tool_state", diags),
        shared_raw_context: s.number("shared_raw_context", diags),
        other_sampling_config: s.number("other_sampling_config", diags),
        other_model_version: s.number("other_model_version", diags),
        other_system_prompt: s.number("other_system_prompt", diags),
        other_tool_schema: s.number("other_tool_schema", diags),
        other_output_schema: s.number("other_output_schema", diags),
        no_canonical_summary: s.number("no_canonical_summary", diags),
        min_confidence: s.number("min_confidence", diags),
    }
}

fn longitudinal(s: &mut Section<'_>, switches: &Switches, diags: &mut Diagnostics) -> LongitudinalSettings {
    let example = "structural_steps: [{from: 1, adds: 0.1}]";
    let steps = s.fields.need("structural_steps", example, diags).and_then(|n| list(n, "`structural_steps`", diags));
    let mut structural_steps = Vec::new();
    for node in steps.unwrap_or_default() {
        if let Some(fields) = Fields::of(node, "a step of `structural_steps`", diags) {
            let step = |s: &mut Section<'_>, diags: &mut Diagnostics| (s.count("from", diags), s.number("adds", diags));
            structural_steps.push(Section::read(fields, diags, step));
        }
    }
    let has_window = s.fields.get("window").is_some();
    LongitudinalSettings {
        frequency: s.number("frequency", diags),
        trend: s.number("trend", diags),
        category: s.number("category", diags),
        structural: s.number("structural", diags),
        trend_scale: s.number("trend_scale", diags),
        trend_min_scores: s.count("trend_min_scores", diags),
        per_policy_disagreement: s.number("per_policy_disagreement", diags),
        structural_steps,
        window: has_window.then(|| s.size("window", diags)),
        structural_without_scores: switches.structural_without_scores,
        count_explained: switches.count_explained,
        accept_any_score: switches.accept_any_score,
    }
}

/// The switches of `parity`.
struct Switches {
    beyond_double: bool,
    lone_surrogates: bool,
    booleans: Booleans,
    empty_decisions_count: bool,
    structural_without_scores: bool,
    count_explained: bool,
    accept_any_score: bool,
    streak_rule: StreakRule,
    consistency_needs_calibration: bool,
    evidence: DriftEvidence,
    structural_failures: StructuralCount,
    anomaly_first: bool,
    empty_interval_is_zero: bool,
    growth: Growth,
    cooldown: Cooldown,
    pipeline: PipelineRules,
}

impl Switches {
    fn read(node: Option<&Node>, diags: &mut Diagnostics) -> Switches {
        let mut fields = node.and_then(|n| Fields::of(n, "`parity`", diags));
        let mut flag = |key: &'static str, better: bool, diags: &mut Diagnostics| {
            fields
                .as_mut()
                .and_then(|f| f.get(key))
                .and_then(|n| truth(n, &format!("`{key}`"), diags))
                .unwrap_or(better)
        };
        let mut switches = Switches {
            beyond_double: flag("beyond_double", false, diags),
            lone_surrogates: flag("lone_surrogates", false, diags),
            booleans: Booleans::Strict,
            empty_decisions_count: flag("empty_decisions_count", false, diags),
            structural_without_scores: flag("structural_without_scores", true, diags),
            count_explained: flag("count_explained", false, diags),
            accept_any_score: flag("accept_any_score", false, diags),
            streak_rule: StreakRule::NoDivergence,
            consistency_needs_calibration: flag("consistency_needs_calibration", true, diags),
            evidence: DriftEvidence::Either,
            structural_failures: StructuralCount::Anomalies,
            anomaly_first: flag("anomaly_first", false, diags),
            empty_interval_is_zero: flag("empty_interval_is_zero", false, diags),
            growth: Growth::SinceDispatch,
            cooldown: Cooldown::AfterDispatch,
            pipeline: PipelineRules {
                judge_unreadable: flag("judge_unreadable", false, diags),
                drop_non_objects: flag("drop_non_objects", false, diags),
                judge_failure_ends: flag("judge_failure_ends", false, diags),
                record_before_redaction: flag("record_before_redaction", false, diags),
                ignore_other_library: flag("ignore_other_library", false, diags),
                open_summary: flag("open_summary", false, diags),
                judge_booleans: Booleans::Strict,
            },
        };
        let Some(mut fields) = fields else { return switches };
        let booleans =
            [(Booleans::Strict, "strict"), (Booleans::ReadFalse, "read_false"), (Booleans::Truthy, "truthy")];
        set(&mut switches.booleans, &mut fields, "booleans", &booleans, diags);
        set(&mut switches.pipeline.judge_booleans, &mut fields, "judge_booleans", &booleans, diags);
        let rules = [
            (StreakRule::NoDivergence, "no_divergence"),
            (StreakRule::UpToThreshold, "up_to_threshold"),
            (StreakRule::NoEscape, "no_escape"),
        ];
        set(&mut switches.streak_rule, &mut fields, "streak_rule", &rules, diags);
        let evidence =
            [(DriftEvidence::Either, "either"), (DriftEvidence::Scores, "scores"), (DriftEvidence::Escapes, "escapes")];
        set(&mut switches.evidence, &mut fields, "evidence", &evidence, diags);
        let counted = [(StructuralCount::Anomalies, "anomalies"), (StructuralCount::Category, "category")];
        set(&mut switches.structural_failures, &mut fields, "structural_failures", &counted, diags);
        let growth = [(Growth::SinceDispatch, "since_dispatch"), (Growth::Absolute, "absolute")];
        set(&mut switches.growth, &mut fields, "growth", &growth, diags);
        let cooldown = [(Cooldown::AfterDispatch, "after_dispatch"), (Cooldown::FromZero, "from_zero")];
        set(&mut switches.cooldown, &mut fields, "cooldown", &cooldown, diags);
        fields.finish(diags);
        switches
    }
}

/// Sets a switch of a few words, where the file has it.
fn set<T: Copy>(
    switch: &mut T,
    fields: &mut Fields<'_>,
    key: &'static str,
    words: &[(T, &'static str)],
    diags: &mut Diagnostics,
) {
    if let Some(chosen) = fields.get(key).and_then(|n| choice(n, &format!("`{key}`"), words, diags)) {
        *switch = chosen;
    }
}

fn reported(problem: &SettingsError, root: &Node) -> Diagnostic {
    let (code, path) = match problem {
        SettingsError::Range { name, .. } => (Code::NumberRange, name.as_str()),
        SettingsError::Order { lower, .. } => (Code::NumberRange, lower.as_str()),
        SettingsError::NoWeight => (Code::WrongValue, "score.weights"),
        SettingsError::NoTypes => (Code::Empty, "score.types"),
        SettingsError::AnyScoreWithWindow => (Code::WrongValue, "parity.accept_any_score"),
        SettingsError::Blank { name } => (Code::Empty, name.as_str()),
        SettingsError::Steps { name } => (Code::WrongValue, name.as_str()),
    };
    Diagnostic::error(code, place(root, path), problem.to_string())
}

/// Where a setting is written, by its dotted path; as near to it as the file goes.
fn place(root: &Node, path: &str) -> Span {
    let (mut node, mut rest) = (root, path);
    while let Kind::Map(entries) = &node.kind {
        // Names of types are the author's own and may hold dots.
        let longest = entries.iter().filter(|e| rest == e.key || rest.starts_with(&format!("{}.", e.key)));
        let Some(entry) = longest.max_by_key(|e| e.key.len()) else { break };
        node = &entry.value;
        rest = rest.get(entry.key.len() + 1..).unwrap_or_default();
    }
    node.span
}
