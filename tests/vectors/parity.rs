//! Settings with the reference's numbers and the reference's behaviour: those of the pack in `tests/data/parity`.

use std::{path::Path, sync::LazyLock};

use probity::{
    diag::Style,
    drift::{Action, Booleans, Cooldown, DriftEvidence, Growth, PipelineRules, Settings, StreakRule, StructuralCount},
    engine::load_pack,
};

static PARITY: LazyLock<Settings> = LazyLock::new(|| {
    let loaded = load_pack(Path::new("tests/data/parity"));
    let shown = loaded.diagnostics.render(&loaded.sources, Style::Plain);
    loaded.result.unwrap_or_else(|| panic!("{shown}")).drift().unwrap().settings.clone()
});

pub(crate) fn settings() -> Settings {
    PARITY.clone()
}

/// The same numbers with the better behaviour, as the shipped pack has it.
pub(crate) fn better() -> Settings {
    let mut s = settings();
    s.limits.beyond_double = false;
    s.limits.lone_surrogates = false;
    s.compare.booleans = Booleans::Strict;
    s.triangulate.empty_decisions_count = false;
    s.isolation.min_confidence = 0.3;
    s.longitudinal.structural_without_scores = true;
    s.longitudinal.count_explained = false;
    s.longitudinal.accept_any_score = false;
    s.action.min_scored_probes = 2;
    s.action.on_escape = Action::LogOnly;
    s.consistency.rule = StreakRule::NoDivergence;
    s.consistency.needs_calibration = true;
    s.report.max_malformed_share = 0.5;
    s.report.evidence = DriftEvidence::Either;
    s.report.structural = StructuralCount::Anomalies;
    s.report.anomaly_first = false;
    s.report.empty_interval_is_zero = false;
    s.schedule.growth = Growth::SinceDispatch;
    s.schedule.cooldown_rule = Cooldown::AfterDispatch;
    s.pipeline = PipelineRules::default();
    s.check().expect("in range");
    s
}
