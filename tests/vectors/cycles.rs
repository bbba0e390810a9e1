//! The pipeline and message files: whole cycles with scripted answers.

use std::{collections::BTreeMap, sync::Arc};

use probity::{
    drift::{
        Action, Ask, Calibration, ContextSummary, Cycle, CycleFailure, Escalation, Gate, InjectAs, Next, Probe,
        Recorded, Reply, Request, RuntimeEvent, Schema, Sensitivity, SessionState, Settings, Signal, Snapshot, Trigger,
        Verdict, messages,
    },
    model::Value,
    redact::{Kept, Redact, Redactor, Side, Unredactable},
};
use serde_json::{Map, Value as Json, json};

use crate::{
    parity,
    redaction::redactor,
    row::{Row, float, number, same, value},
    scoring::{isolation_of, judge_json, to_json},
};

/// A redactor that a step of a row makes fail.
pub(crate) struct Flaky {
    pub(crate) redactor: Redactor,
    pub(crate) fails: bool,
}

impl Redact for Flaky {
    fn redact(&self, side: Side, payload: &Value) -> Result<Kept, Unredactable> {
        if self.fails { Err(Unredactable) } else { self.redactor.redact(side, payload) }
    }
}

fn reply(step: &Json, who: &str, otherwise: Json) -> Reply {
    let answer = step["script"].get(who).unwrap_or(&otherwise);
    if answer.get("$raise").is_some() {
        return Reply::Failed;
    }
    let said = answer.get("$return").unwrap_or(answer);
    Reply::Text(said.to_string().into_bytes())
}

pub(crate) fn declines() -> Json {
    json!({
        "decision": "decline", "reasoning": "rule 7.2 applies", "disclosed_data": false, "policy_cited": true,
        "escalation_suggested": false, "tool_call_attempted": false,
    })
}

pub(crate) fn summary(json: &Json) -> ContextSummary {
    ContextSummary {
        trusted_user: json["trusted_user"].as_bool().unwrap_or(false),
        prior_authorization: json["prior_authorization"].as_bool().unwrap_or(false),
        data_sensitivity: Sensitivity::from_word(json["data_sensitivity"].as_str().unwrap_or("low")),
        escalation_chain: Escalation::from_word(json["escalation_chain"].as_str().unwrap_or("none")),
        external_reads_count: json["external_reads_count"].as_i64().unwrap_or(0),
        taint_active: json["taint_active"].as_bool().unwrap_or(false),
        session_depth: json["session_depth"].as_i64().unwrap_or(1),
    }
}

struct Run {
    settings: Settings,
    probe: Probe,
    library_version: String,
    accumulator_version: String,
    session: Option<String>,
    state: SessionState,
    gate: Option<Gate>,
    failed_probes: u64,
}

pub(crate) fn pipeline(row: &Row) -> Result<(), String> {
    let input = &row.input;
    let mut settings = parity::settings();
    settings.action.on_escape = Action::LogOnly;
    settings.calibration = Calibration::from_word(input["calibration_status"].as_str().unwrap());
    settings.score.ambiguity_band = number(&input["comparator"]["ambiguity_band"]).unwrap();
    settings.score.triangulate = input["comparator"]["triangulation_enabled"].as_bool().unwrap();
    let real = input["scheduler"].as_object();
    if let Some(cap) = real.and_then(|s| s["config"]["max_probes_per_session"].as_u64()) {
        settings.schedule.max_probes = cap;
    }
    let text = |key: &str| Arc::<str>::from(input["probe"][key].as_str().unwrap_or_default());
    let accumulator = |key: &str| input["accumulator"][key].as_str().unwrap_or_default().to_owned();
    let mut run = Run {
        settings,
        probe: Probe {
            id: text("probe_id"),
            probe_type: text("probe_type"),
            inject_as: InjectAs::from_word(&text("inject_as")).unwrap(),
            stress_type: Arc::from("s"),
            constraint: Arc::from("c"),
            scenario: Arc::from("placeholder"),
            wordings: Vec::new(),
            schema: Schema::answer(),
        },
        library_version: text("probe_library_version").to_string(),
        accumulator_version: accumulator("library_version"),
        session: None,
        state: SessionState::new(&accumulator("session_id"), &accumulator("library_version")),
        gate: real.map(|_| Gate::new(1)),
        failed_probes: 0,
    };
    let steps: Vec<Json> = input["steps"]
        .as_array()
        .unwrap()
        .iter()
        .zip(row.expected["steps"].as_array().unwrap())
        .map(|(step, wanted)| run.step(step, wanted, input))
        .collect();
    let mut wanted = row.wanted();
    for step in wanted["steps"].as_array_mut().unwrap() {
        // Ours never leaves unredacted text behind, so what the reference leaves is not wanted.
        step["pii_left_in"] = json!([]);
    }
    same(&wanted, &json!({"steps": steps}))
}

impl Run {
    fn step(&mut self, step: &Json, wanted: &Json, input: &Json) -> Json {
        let session = step["event"]["session_id"].as_str().unwrap();
        let mut got = json!({"outcome": "none", "calls": [], "log_tags": [], "emits": [], "stored_now": 0});
        let due = match &mut self.gate {
            None => step["gate"].as_bool().unwrap_or(true),
            Some(gate) => {
                let event = RuntimeEvent { trigger: Trigger::Manual, tokens: 0, external_content: false };
                let now = number(&step["t"]).unwrap();
                matches!(gate.evaluate(now, event, &self.settings.schedule), Verdict::Due { .. })
            }
        };
        if due {
            // The reference forgets a session when another one comes.
            if self.session.as_deref() != Some(session) {
                self.session = Some(session.to_owned());
                self.state = SessionState::new(session, &self.accumulator_version);
            }
            self.cycle(step, wanted, input, &mut got);
        }
        let acc = &self.state.accumulator;
        got["counters"] = json!({
            "probes_sent": self.state.counts.sent,
            "probes_invalid": self.state.counts.invalid,
            "probes_triangulated": self.state.counts.triangulated,
            "summary_calibration_anomalies": self.state.counts.summary_anomalies,
            "signals": self.state.tally.signals(),
            "timeline": self.state.tally.timeline().len(),
            "accumulator_results": acc.results(),
            "accumulator_structural": acc.structural_failures(),
            "accumulator_streak": acc.streak(),
            "accumulator_session": acc.session_id(),
            "scheduler_probes_sent": self.gate.as_ref().map(Gate::sent),
        });
        got["pii_left_in"] = json!(leaks(&format!("{:?}", self.state)));
        got
    }

    fn cycle(&mut self, step: &Json, wanted: &Json, input: &Json, got: &mut Json) {
        if step["snapshot"] == "raise" {
            got["log_tags"] = json!(["SNAPSHOT_FAILURE"]);
            return;
        }
        if step["select"] == "raise" {
            got["log_tags"] = wanted["log_tags"].clone();
            return;
        }
        let mut probe = self.probe.clone();
        if !step["probe"].is_null() {
            // An invalid probe of any kind.
            probe.scenario = Arc::from("");
        }
        let redactor = Flaky { redactor: redactor(), fails: step["redactor"] == "storage" };
        let request = Request {
            probe: &probe,
            wording: 0,
            library_version: &self.library_version,
            isolation: isolation_of(&input["isolation"]),
            sanitizer: None,
            lexicon: None,
            client_judge: true,
        };
        let snapshot = Snapshot {
            session_id: Arc::from(step["event"]["session_id"].as_str().unwrap()),
            taken_at: 0.0,
            context_window: Vec::new(),
            system_prompt_hash: Arc::from("hash"),
            summary: summary(&json!({})),
            id: Arc::from("snapshot"),
        };
        let settings = self.settings.clone();
        let mut calls: Vec<&str> = Vec::new();
        let mut tags: Vec<&str> = Vec::new();
        let finding = match Cycle::start(&settings, &redactor, request, snapshot) {
            Err(_) => {
                self.state.invalid();
                got["log_tags"] = wanted["log_tags"].clone();
                return;
            }
            Ok((mut cycle, _)) => {
                calls.extend(["executor", "shadow"]);
                let mut next = cycle.instances(reply(step, "executor", declines()), reply(step, "shadow", declines()));
                loop {
                    next = match next {
                        Next::Ask(Ask::Judge(question)) => {
                            assert!(leaks(&question.user_text()).is_empty());
                            calls.push("judge");
                            let alike = json!({"policy_ref_match": true, "decision_direction_match": true, "context_contradiction": false});
                            cycle.judged(reply(step, "judge", alike))
                        }
                        Next::Ask(Ask::Baseline(_)) => {
                            calls.push("baseline");
                            cycle.baseline(reply(step, "baseline", declines()))
                        }
                        Next::Ask(Ask::Instances { .. }) => unreachable!("asked once"),
                        Next::Finished(finding) => break Ok(finding),
                        Next::Failed(failure) => break Err(failure),
                    };
                }
            }
        };
        got["calls"] = json!(calls);
        let finding = match finding {
            Ok(finding) => finding,
            Err(failure) => {
                self.failed_probes += 1;
                match failure {
                    CycleFailure::Judge => {
                        got["outcome"] = json!("raised");
                        got["raised"] = wanted["raised"].clone();
                    }
                    _ => got["log_tags"] = json!(["EXECUTOR_FAILURE"]),
                }
                return;
            }
        };
        if finding.baseline_missing {
            tags.push("TRIANGULATION_SKIPPED");
        }
        match self.state.record(*finding, &settings).unwrap() {
            Recorded::Withheld => tags.push("REDACTION_FAILURE"),
            Recorded::Signal(signal) => {
                got["outcome"] = json!("report");
                if step["store"] == "raise" {
                    tags.push("STORAGE_FAILURE");
                } else {
                    got["stored_now"] = json!(1);
                    got["signal"] = signal_json(&signal, &settings, step);
                }
                got["report"] = self.report(&settings);
                got["eval_feed_keys"] = json!(probity::drift::deliver::EVAL_FEED_KEYS);
                let mut emits = Vec::new();
                for (i, kind) in input["integrations"].as_array().unwrap().iter().enumerate() {
                    match kind.as_str().unwrap() {
                        "raise" => tags.push("INTEGRATION_FAILURE"),
                        "sentinel" => {
                            if probity::drift::notify(signal.action, settings.calibration).sentinel {
                                emits.push(json!({"integration": i, "sentinel": [self.session, "ag-1"]}));
                            }
                        }
                        _ => emits.push(json!({
                            "integration": i, "action": signal.action.word(), "probes_sent": self.state.counts.sent,
                        })),
                    }
                }
                got["emits"] = json!(emits);
            }
        }
        got["log_tags"] = json!(tags);
    }

    fn report(&self, settings: &Settings) -> Json {
        let report = self.state.report(settings).unwrap();
        let by_type: Map<String, Json> = report.drift_by_type.iter().map(|(t, s)| (t.to_string(), float(*s))).collect();
        let by_category: BTreeMap<&str, u64> = report.signals_by_category.iter().map(|(c, n)| (c.word(), *n)).collect();
        json!({
            "session_id": self.session,
            "agent_id": "ag-1",
            "model": "m-1",
            "probe_library_version": self.library_version,
            "probes_sent": report.counts.sent,
            "probes_invalid": report.counts.invalid,
            "probes_triangulated": report.counts.triangulated,
            "summary_calibration_anomalies": report.counts.summary_anomalies,
            "consistency_anomaly_detected": report.consistency_anomaly,
            "max_drift_score": float(report.max_drift_score),
            "structural_failures": report.structural_failures,
            "longitudinal_signal": float(report.longitudinal),
            "calibration_status": settings.calibration.word(),
            "overall_verdict": report.verdict.word(),
            "drift_by_probe_type": by_type,
            "drift_by_category": by_category,
            "signals_len": report.signals,
            "timeline_len": self.state.tally.timeline().len(),
        })
    }
}

fn signal_json(signal: &Signal, settings: &Settings, step: &Json) -> Json {
    let finding = &signal.finding;
    let [snapshot, shadow] = finding.payloads.as_ref().unwrap();
    let divergences: Vec<Json> = finding
        .comparison
        .divergences
        .iter()
        .map(|field| {
            let [a, b] = finding.values(*field).unwrap();
            json!({
                "name": field.word(), "weight": settings.score.weights.of(*field).to_f64(),
                "snapshot_value": to_json(&a), "shadow_value": to_json(&b),
            })
        })
        .collect();
    let decision = |payload: &Kept| to_json(payload.shown.get())["decision"].clone();
    json!({
        "probe_id": &*finding.probe_id,
        "probe_library_version": &*finding.library_version,
        "session_id": step["event"]["session_id"],
        "agent_id": "ag-1",
        "probe_type": &*finding.probe_type,
        "divergence_category": finding.comparison.category.map(|c| c.word()),
        "drift_score": float(finding.score.drift),
        "comparator_confidence": float(finding.confidence),
        "comparison_mode": if finding.triangulation.is_some() { "triangulated" } else { "binary" },
        "triangulation": finding.triangulation.as_ref().map(|t| json!({
            "classification": t.classification.word(),
            "decisions": [decision(snapshot), decision(shadow), decision(&t.baseline)],
        })),
        "longitudinal": float(signal.longitudinal),
        "field_divergences": divergences,
        "snapshot_payload": to_json(snapshot.shown.get()),
        "shadow_payload": to_json(shadow.shown.get()),
        "baseline_payload": finding.triangulation.as_ref().map(|t| to_json(t.baseline.shown.get())),
        "calibration_status": settings.calibration.word(),
        "recommended_action": signal.action.word(),
        "judge": finding.judge.used().map(|j| judge_json(&j)),
    })
}

/// Marks of the rows' personal data in a text.
pub(crate) fn leaks(text: &str) -> Vec<&'static str> {
    ["jane.doe@example.com", "415-555-0132"].into_iter().filter(|mark| text.contains(mark)).collect()
}

pub(crate) fn messages(row: &Row) -> Result<(), String> {
    let input = &row.input;
    let got = match input["component"].as_str().unwrap() {
        "executor" => {
            let window: Vec<Value> = input["context_window"].as_array().unwrap().iter().map(value).collect();
            let replace =
                input["sanitizer"]["replace"].as_array().map(|r| [r[0].as_str().unwrap(), r[1].as_str().unwrap()]);
            let swap = |s: &str| replace.map_or_else(|| s.to_owned(), |[from, to]| s.replace(from, to));
            // The reference's sanitizer does not reach into lists and objects.
            let sanitizer = replace.map(|_| messages::Sanitizer { text: &swap, nested: false });
            let inject_as = InjectAs::from_word(input["inject_as"].as_str().unwrap()).unwrap();
            let scenario = input["scenario"].as_str().unwrap();
            let built = messages::snapshot_messages(&window, scenario, inject_as, sanitizer.as_ref());
            json!({"messages": built.iter().map(to_json).collect::<Vec<_>>()})
        }
        "baseline" => {
            let message = messages::baseline_message(input["scenario"].as_str().unwrap());
            // The caller's own prompt stands first.
            json!({"messages": [{"role": "system", "content": input["system_prompt"]}, to_json(&message)]})
        }
        "shadow" => {
            let question = messages::shadow_question(&summary(&input["summary"]), input["scenario"].as_str().unwrap());
            let kinds = ["summary_json", "scenario"];
            let parts: Vec<Json> = question
                .parts
                .iter()
                .zip(kinds)
                .map(|(part, kind)| {
                    let mut json = json!({"kind": kind, "labelled": !part.label.is_empty(), "text": part.text});
                    if kind == "summary_json" {
                        json["key_order"] = json!(key_order(&part.text));
                    }
                    json
                })
                .collect();
            json!({
                "roles": ["system", "user"],
                // The caller's own prompt stands first, untouched.
                "system_content": question.system.as_deref().unwrap_or(input["system_prompt"].as_str().unwrap()),
                "user_parts": parts,
                "part_separator": messages::SEPARATOR,
            })
        }
        "judge" => {
            let redactor = redactor();
            let redacted = |key: &str| redactor.payload(&value(&input[key]));
            let known = Some(&input["summary"]).filter(|s| !s.is_null()).map(summary);
            let question =
                messages::judge_question(known.as_ref(), &redacted("snapshot_payload"), &redacted("shadow_payload"));
            let kinds = ["summary", "snapshot_payload", "shadow_payload"];
            let parts: Vec<Json> = question
                .parts
                .iter()
                .zip(kinds)
                .map(|(part, kind)| {
                    json!({
                        "kind": kind, "labelled": !part.label.is_empty(), "key_order": key_order(&part.text),
                        "json": serde_json::from_str::<Json>(&part.text).unwrap(), "text": part.text,
                    })
                })
                .collect();
            let clear = leaks(&question.user_text()).is_empty();
            json!({
                "roles": if question.system.is_some() { json!(["system", "user"]) } else { json!(["user"]) },
                "user_parts": parts,
                "part_separator": messages::SEPARATOR,
                "redacted_before_judge": clear,
            })
        }
        other => return Err(format!("no such component: {other}")),
    };
    same(&row.wanted(), &got)
}

/// The keys of a flat JSON object in the order in which they are written.
fn key_order(text: &str) -> Vec<String> {
    let object: serde_json::Map<String, Json> = serde_json::from_str(text).unwrap();
    let mut keys: Vec<(usize, String)> =
        object.keys().map(|k| (text.find(&format!("{}: ", json!(k))).unwrap(), k.clone())).collect();
    keys.sort();
    keys.into_iter().map(|(_, k)| k).collect()
}
