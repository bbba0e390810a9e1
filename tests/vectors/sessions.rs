//! Files about what many probes say together, and when they are due.

use std::{collections::BTreeMap, sync::Arc};

use probity::drift::{
    Accumulator, Action, Anomaly, Arrival, Calibration, Category, Counts, DriftEvidence, Gate, ProbeResult,
    RuntimeEvent, Settings, SignalFacts, Standing, StreakRule, Tally, Trigger, Verdict, schedule,
};
use serde_json::{Map, Value as Json, json};

use crate::{
    parity,
    row::{Row, float, number, same},
};

fn result(step: &Json, settings: &Settings) -> ProbeResult {
    let probe_type = step["probe_type"].as_str().unwrap();
    ProbeResult {
        probe_type: Arc::from(probe_type),
        score: number(&step["drift_score"]),
        // The reference holds a score of an undeclared type against 1.
        threshold: settings.score.of_type(probe_type).map_or(1.0, |t| t.threshold),
        category: step["divergence_category"].as_str().map(|w| Category::from_word(w).unwrap()),
        anomaly: step["structural_anomaly"].as_str().map(|w| Anomaly::from_word(w).unwrap()),
        diverged: !step["divergence_category"].is_null(),
        triangulation: None,
        escape: step["escape_detected"].as_bool().unwrap_or(false),
        confidence: 1.0,
    }
}

fn record(acc: &mut Accumulator, step: &Json, settings: &Settings) -> bool {
    acc.record(
        step["session_id"].as_str(),
        step["library_version"].as_str().unwrap_or(acc.library_version().to_owned().as_str()),
        &result(step, settings),
        &settings.longitudinal,
        &settings.consistency,
        settings.isolation.min_confidence,
    )
    .is_ok()
}

pub(crate) fn sessions(row: &Row) -> Result<(), String> {
    let settings = parity::settings();
    let mut acc = Accumulator::new(
        row.input["session_id"].as_str().unwrap_or_default(),
        row.input["library_version"].as_str().unwrap(),
    );
    let mut steps = Vec::new();
    for step in row.input["steps"].as_array().unwrap() {
        let recorded = record(&mut acc, step, &settings);
        let signal = acc.signal(&settings.longitudinal);
        let by_category: BTreeMap<&str, u64> = acc.scored_by_category().iter().map(|(c, n)| (c.word(), *n)).collect();
        let action = |c| settings.action.action(signal, c, acc.scored()).word();
        steps.push(json!({
            "recorded": recorded,
            "n_results": acc.results(),
            "structural_failure_count": acc.structural_failures(),
            "category_scores": by_category,
            "streak": acc.streak(),
            "consistency_anomaly": acc.consistency_anomaly(&settings.consistency, Calibration::Uncalibrated),
            "longitudinal": float(signal),
            "action_uncalibrated": action(Calibration::Uncalibrated),
            "action_calibrated": action(Calibration::Calibrated),
        }));
    }
    same(&row.wanted(), &json!({"steps": steps}))
}

fn facts(step: &Json, settings: &Settings) -> SignalFacts {
    let r = result(step, settings);
    SignalFacts {
        probe_id: Arc::from("p"),
        probe_type: r.probe_type,
        score: r.score,
        threshold: r.threshold,
        category: r.category,
        anomaly: r.anomaly,
        escape: r.escape,
        triangulation: None,
        standing: Standing::Counted,
        action: Action::LogOnly,
    }
}

fn floats_by_name<'a>(map: impl IntoIterator<Item = (&'a Arc<str>, &'a f64)>) -> Json {
    Json::Object(map.into_iter().map(|(k, v)| (k.to_string(), float(*v))).collect::<Map<_, _>>())
}

pub(crate) fn report(row: &Row) -> Result<(), String> {
    let input = &row.input;
    let mut settings = parity::settings();
    if row.ideal.is_some() {
        // The right answers: a drift is not hidden, and only malformed answers are failures.
        settings.report.anomaly_first = false;
        settings.report.structural = parity::better().report.structural;
    }
    let mut acc = Accumulator::new(input["session_id"].as_str().unwrap(), input["library_version"].as_str().unwrap());
    let mut tally = Tally::default();
    for signal in input["signals"].as_array().unwrap() {
        record(&mut acc, signal, &settings);
        tally.add(facts(signal, &settings), &settings.report);
    }
    let count = |key: &str| input[key].as_u64().unwrap();
    let counts = Counts {
        sent: count("probes_sent"),
        invalid: count("probes_invalid"),
        triangulated: count("probes_triangulated"),
        summary_anomalies: count("summary_calibration_anomalies"),
    };
    let anomaly = input["consistency_anomaly_detected"].as_bool().unwrap();
    let longitudinal = acc.signal(&settings.longitudinal);
    let report = tally.report(counts, longitudinal, anomaly, &settings.report).unwrap();
    let calibration = Calibration::from_word(input["calibration_status"].as_str().unwrap());
    let by_category: BTreeMap<&str, u64> = report.signals_by_category.iter().map(|(c, n)| (c.word(), *n)).collect();
    let got = json!({
        "probes_sent": report.counts.sent,
        "probes_invalid": report.counts.invalid,
        "probes_triangulated": report.counts.triangulated,
        "summary_calibration_anomalies": report.counts.summary_anomalies,
        "consistency_anomaly_detected": report.consistency_anomaly,
        "max_drift_score": float(report.max_drift_score),
        "drift_by_probe_type": floats_by_name(&report.drift_by_type),
        "drift_by_category": by_category,
        "structural_failures": report.structural_failures,
        "accumulator_structural_failures": acc.structural_failures(),
        "longitudinal": float(report.longitudinal),
        "timeline_len": tally.timeline().len(),
        "signals_len": report.signals,
        "overall_verdict": report.verdict.word(),
        "calibration_status": calibration.word(),
    });
    same(&row.wanted(), &got)
}

pub(crate) fn report_escape(row: &Row) -> Result<(), String> {
    let mut settings = parity::settings();
    settings.report.evidence = DriftEvidence::Escapes;
    settings.consistency.rule = StreakRule::NoEscape;
    let mut acc = Accumulator::new("s", "1");
    let mut tally = Tally::default();
    for signal in row.input["signals"].as_array().unwrap() {
        record(&mut acc, signal, &settings);
        tally.add(facts(signal, &settings), &settings.report);
    }
    let anomaly = acc.consistency_anomaly(&settings.consistency, Calibration::Uncalibrated);
    let counts = Counts { sent: row.input["probes_sent"].as_u64().unwrap(), ..Counts::default() };
    let report = tally.report(counts, 0.0, anomaly, &settings.report).unwrap();
    let by_type: BTreeMap<&str, [u64; 2]> = report.escapes_by_type.iter().map(|(t, (k, n))| (&**t, [*k, *n])).collect();
    let got = json!({
        "escape_count": report.escapes,
        "escape_rate": float(report.escape_rate),
        "escape_rate_ci": [float(report.escape_interval.0), float(report.escape_interval.1)],
        "escape_by_type": by_type,
        "max_drift_score": float(report.max_drift_score),
        "drift_by_probe_type": floats_by_name(&report.drift_by_type),
        "streak": acc.streak(),
        "consistency_anomaly": report.consistency_anomaly,
        "overall_verdict": report.verdict.word(),
    });
    same(&row.wanted(), &got)
}

/// What the reference's caller makes of a token count; ours takes whole numbers only, and the
/// service refuses the rest before the gate.
fn tokens(json: Option<&Json>) -> Option<i64> {
    let Some(json) = json else { return Some(0) };
    if let Some(b) = json.as_bool() {
        return Some(i64::from(b));
    }
    if let Some(text) = json.as_str() {
        let text = text.trim();
        let odd = text.starts_with('_') || text.ends_with('_') || text.contains("__");
        return if odd { None } else { text.replace('_', "").parse().ok() };
    }
    let n = number(json)?;
    n.is_finite().then(|| n.trunc() as i64)
}

fn truth(json: Option<&Json>) -> bool {
    match json {
        None | Some(Json::Null) => false,
        Some(Json::Bool(b)) => *b,
        Some(Json::String(s)) => !s.is_empty(),
        Some(Json::Array(a)) => !a.is_empty(),
        Some(other) => number(other) != Some(0.0),
    }
}

pub(crate) fn scheduler(row: &Row) -> Result<(), String> {
    let mut settings = parity::settings().schedule;
    configure(&mut settings, &row.input["config"]);
    let mut gate = Gate::new(1);
    let mut events = Vec::new();
    for (event, wanted) in
        row.input["events"].as_array().unwrap().iter().zip(row.expected["events"].as_array().unwrap())
    {
        let word = event["event_type"].as_str().unwrap_or_default();
        let Some(count) = tokens(event.get("token_count")) else {
            // Refused before the gate, as the reference raises before its own.
            events.push(json!({"raised": wanted["raised"].as_str().unwrap_or("refused"), "probes_sent": gate.sent()}));
            continue;
        };
        let event_of = RuntimeEvent {
            trigger: Trigger::from_word(word).unwrap_or(Trigger::ContextGrowth),
            tokens: count,
            external_content: truth(event.get("has_external_content")),
        };
        let verdict = gate.evaluate(number(&event["t"]).unwrap(), event_of, &settings);
        events.push(json!({"dispatch": matches!(verdict, Verdict::Due { .. }), "probes_sent": gate.sent()}));
    }
    same(&row.wanted(), &json!({"events": events}))
}

fn configure(settings: &mut probity::drift::ScheduleSettings, config: &Json) {
    let number_of = |key: &str| config.get(key).and_then(number);
    if let Some(n) = number_of("context_growth_tokens") {
        settings.growth_tokens = n as i64;
    }
    if let Some(n) = number_of("external_content_threshold") {
        settings.external_tokens = n as i64;
    }
    if let Some(n) = number_of("max_interval_seconds") {
        settings.max_interval = n;
    }
    if let Some(n) = number_of("cooldown_window_seconds") {
        settings.cooldown = n;
    }
    if let Some(n) = number_of("jitter_seconds") {
        settings.jitter = n;
    }
    if let Some(n) = number_of("max_probes_per_session") {
        settings.max_probes = n as u64;
    }
}

pub(crate) fn scheduler_trigger(row: &Row) -> Result<(), String> {
    let mut settings = parity::settings().schedule;
    configure(&mut settings, &row.input["config"]);
    let mut gate = Gate::new(1);
    let mut waiting: Vec<(f64, String)> = Vec::new();
    let mut dispatches = Vec::new();
    let mut arrivals = row.input["triggers"].as_array().unwrap().iter().peekable();
    loop {
        let next = arrivals.peek().map(|a| number(&a["t"]).unwrap());
        // The earliest sleeper, and of equal ones the one that slept first.
        let first = waiting.iter().enumerate().min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0)).map(|(i, w)| (i, w.0));
        match (next, first) {
            (Some(t), Some((_, until))) if t <= until => {
                arrive(&mut gate, arrivals.next().unwrap(), &settings, &mut waiting)
            }
            (_, Some((i, until))) => {
                let (_, reason) = waiting.remove(i);
                if gate.wake(&settings) {
                    dispatches.push(json!({"t": float(until), "reason": reason}));
                }
            }
            (Some(_), None) => arrive(&mut gate, arrivals.next().unwrap(), &settings, &mut waiting),
            (None, None) => break,
        }
    }
    same(&row.wanted(), &json!({"dispatches": dispatches, "probes_sent": gate.sent()}))
}

fn arrive(
    gate: &mut Gate,
    trigger: &Json,
    settings: &probity::drift::ScheduleSettings,
    waiting: &mut Vec<(f64, String)>,
) {
    let (t, jitter) = (number(&trigger["t"]).unwrap(), number(&trigger["jitter"]).unwrap());
    if let Arrival::Waits { until } = gate.arrive(t, jitter, settings) {
        waiting.push((until, trigger["reason"].as_str().unwrap().to_owned()));
    }
}

pub(crate) fn integration(row: &Row) -> Result<(), String> {
    let settings = parity::settings();
    let input = &row.input;
    let int = |key: &str| input[key].as_i64().unwrap();
    let got = match input["kind"].as_str().unwrap() {
        "view" => {
            let taint = input["taint_active"].as_bool().unwrap();
            let (summary, event) = schedule::from_view(
                int("external_read_count"),
                taint,
                int("turn_index"),
                int("token_count"),
                settings.sensitivity,
            );
            json!({
                "summary": serde_json::from_str::<Json>(&summary.to_json()).unwrap(),
                "event": {
                    "event_type": event.trigger.word(),
                    "token_count": event.tokens,
                    "has_external_content": event.external_content,
                    "model": input["model"].as_str().unwrap_or_default(),
                },
            })
        }
        "action" => {
            let calibration = Calibration::from_word(input["calibration_status"].as_str().unwrap());
            let action = settings.action.action(number(&input["longitudinal"]).unwrap(), calibration, 1);
            json!({"action": action.word()})
        }
        "notify" => {
            let calibration = Calibration::from_word(input["calibration_status"].as_str().unwrap());
            let action = Action::from_word(input["recommended_action"].as_str().unwrap()).unwrap();
            let notices = probity::drift::notify(action, calibration);
            json!({
                "core": notices.core.map(|a| a.word()).into_iter().collect::<Vec<_>>(),
                "sentinel_marked": notices.sentinel,
            })
        }
        other => return Err(format!("no such kind: {other}")),
    };
    same(&row.wanted(), &got)
}
