//! Between the wire and the house, for drift: requests into checked values, signals and reports into messages.

use std::sync::Arc;

use tonic::Status;

use crate::{
    audit::{self, Answers, DriftRecord, JudgeRecord, SessionFacts},
    drift::{
        self, Action, Calibration, Canary, ContextSummary, Escalation, Field, Judgement, Score, Sensitivity,
        SignalFacts,
    },
    engine::FinishedProbe,
    model::{Digest, Num, Value, json},
    redact::Side,
    service::{
        Baseline, DriftAsk, Occurrence, ProbeAnswer, ProbeAsk, ProbeQuestion, ProbeRole, Revealed, SessionReport,
    },
};

use super::{convert::Faults, wire};

/// Secrets that one request may name.
const MOST_CANARIES: usize = 64;
/// Messages of a context window.
const MOST_WINDOW: usize = 1_000;

/// A request of `Evaluate`: answers, or a baseline for earlier ones.
pub enum Evaluate {
    /// Finished answers.
    Finished(Box<DriftAsk>),
    /// A baseline.
    Baseline(Baseline),
}

/// Reads a request of `Evaluate`. `print` is the fingerprint of its bytes.
pub fn evaluate(request: wire::EvaluateRequest, print: Digest) -> Result<Evaluate, Status> {
    let mut faults = Faults::default();
    faults.name("session_id", &request.session_id);
    faults.name("pack", &request.pack);
    if !request.evaluation_id.is_empty() {
        return baseline(request, faults);
    }
    let wire::EvaluateRequest {
        session_id,
        pack,
        agent_id,
        probe_id,
        library_version,
        summary,
        isolation,
        snapshot,
        shadow,
        baseline,
        judge_json,
        canaries,
        evaluation_id: _,
        request_id,
    } = request;
    faults.optional_name("agent_id", &agent_id);
    faults.name("probe_id", &probe_id);
    faults.optional_name("library_version", &library_version);
    faults.optional_name("request_id", &request_id);
    let summary = read_summary("summary", summary, &mut faults);
    let canaries = read_canaries(canaries, &mut faults);
    let snapshot = output("snapshot", snapshot, &mut faults);
    let shadow = output("shadow", shadow, &mut faults);
    let baseline = baseline.and_then(|given| output("baseline", Some(given), &mut faults));
    let read = (summary, snapshot, shadow);
    let (Some(summary), Some(snapshot), Some(shadow)) = faults.or(read)? else {
        return Err(super::status::broke("a request was read in part"));
    };
    Ok(Evaluate::Finished(Box::new(DriftAsk {
        pack,
        agent: agent_id,
        finished: FinishedProbe {
            session: Arc::from(session_id),
            probe: probe_id,
            library_version,
            summary,
            isolation: read_isolation(isolation.unwrap_or_default()),
            snapshot,
            shadow,
            baseline,
            judge: (!judge_json.is_empty()).then(|| judge_json.to_vec()),
            canaries,
        },
        request_id,
        print,
    })))
}

/// Reads a request of `Evaluate` that no server is asked for; in words, what is wrong with it.
pub fn finished(request: wire::EvaluateRequest) -> Result<DriftAsk, String> {
    // Nothing is repeated here, so that nothing has to be recognised.
    match evaluate(request, Digest::new([0; 32])) {
        Ok(Evaluate::Finished(ask)) => Ok(*ask),
        Ok(Evaluate::Baseline(_)) => Err("evaluation_id: only a server knows earlier evaluations".to_owned()),
        Err(status) => Err(status.message().to_owned()),
    }
}

fn baseline(request: wire::EvaluateRequest, mut faults: Faults) -> Result<Evaluate, Status> {
    let wire::EvaluateRequest {
        session_id,
        pack,
        agent_id,
        probe_id,
        library_version,
        summary,
        isolation,
        snapshot,
        shadow,
        baseline,
        judge_json,
        canaries,
        evaluation_id,
        request_id,
    } = request;
    for (field, given) in [
        ("agent_id", !agent_id.is_empty()),
        ("probe_id", !probe_id.is_empty()),
        ("library_version", !library_version.is_empty()),
        ("summary", summary.is_some()),
        ("isolation", isolation.is_some()),
        ("snapshot", snapshot.is_some()),
        ("shadow", shadow.is_some()),
        ("judge_json", !judge_json.is_empty()),
        ("request_id", !request_id.is_empty()),
    ] {
        if given {
            faults.add(field, "must not be set beside evaluation_id");
        }
    }
    let canaries = read_canaries(canaries, &mut faults);
    let output = output("baseline", baseline, &mut faults);
    let output = faults.or(output)?.ok_or_else(|| super::status::broke("a request was read in part"))?;
    Ok(Evaluate::Baseline(Baseline { session: session_id, pack, evaluation: evaluation_id, output, canaries }))
}

/// Reads the start of a probe.
pub fn probe_start(start: wire::ProbeStart) -> Result<ProbeAsk, Status> {
    let wire::ProbeStart {
        session_id,
        pack,
        agent_id,
        probe_id,
        wording,
        summary,
        isolation,
        context_window_json,
        system_prompt_hash,
        client_judge,
        canaries,
        scheduled,
    } = start;
    let mut faults = Faults::default();
    faults.name("start.session_id", &session_id);
    faults.name("start.pack", &pack);
    faults.optional_name("start.agent_id", &agent_id);
    faults.optional_name("start.probe_id", &probe_id);
    faults.optional_name("start.system_prompt_hash", &system_prompt_hash);
    let summary = read_summary("start.summary", summary, &mut faults);
    let canaries = read_canaries(canaries, &mut faults);
    let mut context_window = Vec::new();
    if context_window_json.len() > MOST_WINDOW {
        let what = format!("holds {} messages; the limit is {MOST_WINDOW}", context_window_json.len());
        faults.add("start.context_window_json", what);
    } else {
        for (place, text) in context_window_json.iter().enumerate() {
            // Numbers stay as the session has them.
            let reading = json::Reading { depth: json::MAX_DEPTH, numbers: json::Numbers::AsWrittenAnySize };
            match json::parse_with(text, reading) {
                Ok(message) => context_window.push(message),
                Err(_) => faults.add(format!("start.context_window_json[{place}]"), "is not JSON"),
            }
        }
    }
    let summary = faults.or(summary)?.ok_or_else(|| super::status::broke("a request was read in part"))?;
    Ok(ProbeAsk {
        session: session_id,
        pack,
        agent: agent_id,
        probe: probe_id,
        wording,
        summary,
        isolation: read_isolation(isolation.unwrap_or_default()),
        context_window,
        system_prompt_hash,
        client_judge,
        canaries,
        scheduled,
    })
}

fn read_summary(path: &str, summary: Option<wire::ContextSummary>, faults: &mut Faults) -> Option<ContextSummary> {
    let Some(summary) = summary else {
        faults.add(path, "must be set");
        return None;
    };
    let wire::ContextSummary {
        trusted_user,
        prior_authorization,
        data_sensitivity,
        escalation_chain,
        external_reads_count,
        taint_active,
        session_depth,
    } = summary;
    let sensitivity = match wire::DataSensitivity::try_from(data_sensitivity) {
        Ok(wire::DataSensitivity::Low) => Some(Sensitivity::Low),
        Ok(wire::DataSensitivity::Medium) => Some(Sensitivity::Medium),
        Ok(wire::DataSensitivity::High) => Some(Sensitivity::High),
        Ok(wire::DataSensitivity::Critical) => Some(Sensitivity::Critical),
        Ok(wire::DataSensitivity::Unspecified) | Err(_) => {
            faults.add(format!("{path}.data_sensitivity"), "must be low, medium, high or critical");
            None
        }
    };
    let chain = match wire::EscalationChain::try_from(escalation_chain) {
        Ok(wire::EscalationChain::None) => Some(Escalation::None),
        Ok(wire::EscalationChain::Pending) => Some(Escalation::Pending),
        Ok(wire::EscalationChain::Active) => Some(Escalation::Active),
        Ok(wire::EscalationChain::Unspecified) | Err(_) => {
            faults.add(format!("{path}.escalation_chain"), "must be none, pending or active");
            None
        }
    };
    if session_depth == 0 {
        faults.add(format!("{path}.session_depth"), "must be at least 1");
    }
    Some(ContextSummary {
        trusted_user,
        prior_authorization,
        data_sensitivity: sensitivity?,
        escalation_chain: chain?,
        external_reads_count: external_reads_count.into(),
        taint_active,
        session_depth: session_depth.into(),
    })
}

fn read_isolation(isolation: wire::Isolation) -> drift::Isolation {
    let wire::Isolation {
        shared_memory,
        shared_tool_state,
        shared_raw_context,
        other_model_version,
        other_sampling_config,
        other_system_prompt,
        other_tool_schema,
        other_output_schema,
        no_canonical_summary,
    } = isolation;
    drift::Isolation {
        shared_memory,
        shared_tool_state,
        shared_raw_context,
        same_model_version: !other_model_version,
        same_sampling_config: !other_sampling_config,
        same_system_prompt_hash: !other_system_prompt,
        same_tool_schema_hash: !other_tool_schema,
        same_output_schema: !other_output_schema,
        receives_canonical_summary: !no_canonical_summary,
    }
}

fn read_canaries(canaries: Vec<String>, faults: &mut Faults) -> Vec<Canary> {
    if canaries.len() > MOST_CANARIES {
        faults.add("canaries", format!("holds {} secrets; the limit is {MOST_CANARIES}", canaries.len()));
        return Vec::new();
    }
    let mut read = Vec::new();
    for (place, text) in canaries.iter().enumerate() {
        match Canary::new(text) {
            Ok(canary) => read.push(canary),
            // The secret itself is not repeated.
            Err(error) => faults.add(format!("canaries[{place}]"), error.to_string()),
        }
    }
    read
}

fn output(path: &str, output: Option<wire::ModelOutput>, faults: &mut Faults) -> Option<drift::ModelOutput> {
    let Some(wire::ModelOutput { text, tool_calls_json }) = output else {
        faults.add(path, "must be set");
        return None;
    };
    let tool_calls = if tool_calls_json.is_empty() {
        None
    } else {
        match json::parse(&tool_calls_json) {
            Ok(calls) => Some(calls),
            Err(_) => {
                faults.add(format!("{path}.tool_calls_json"), "is not JSON");
                None
            }
        }
    };
    Some(drift::ModelOutput { text: text.to_vec(), tool_calls })
}

/// Reads an answer of a probe: who answers, and what; nothing for a call that failed.
pub fn probe_answer(answer: wire::ProbeAnswer) -> Result<(ProbeRole, Option<drift::ModelOutput>), Status> {
    let wire::ProbeAnswer { role, outcome } = answer;
    let mut faults = Faults::default();
    let role = match wire::ProbeRole::try_from(role) {
        Ok(wire::ProbeRole::Snapshot) => Some(ProbeRole::Snapshot),
        Ok(wire::ProbeRole::Shadow) => Some(ProbeRole::Shadow),
        Ok(wire::ProbeRole::Judge) => Some(ProbeRole::Judge),
        Ok(wire::ProbeRole::Baseline) => Some(ProbeRole::Baseline),
        Ok(wire::ProbeRole::Unspecified) | Err(_) => {
            faults.add("answer.role", "must say who answers");
            None
        }
    };
    let output = match outcome {
        Some(wire::probe_answer::Outcome::Output(given)) => output("answer.output", Some(given), &mut faults),
        Some(wire::probe_answer::Outcome::Failure(wire::ModelFailure {})) => None,
        None => {
            faults.add("answer", "must hold an output or a failure");
            None
        }
    };
    let role = faults.or(role)?.ok_or_else(|| super::status::broke("a request was read in part"))?;
    Ok((role, output))
}

/// A question of a probe.
pub fn question(question: &ProbeQuestion) -> wire::ProbeQuestion {
    let ProbeQuestion { role, probe, messages, instruction, schema } = question;
    let role = match role {
        ProbeRole::Snapshot => wire::ProbeRole::Snapshot,
        ProbeRole::Shadow => wire::ProbeRole::Shadow,
        ProbeRole::Judge => wire::ProbeRole::Judge,
        ProbeRole::Baseline => wire::ProbeRole::Baseline,
    };
    let text = |value: &Value| value.to_string().into();
    wire::ProbeQuestion {
        role: role.into(),
        probe_id: probe.to_string(),
        messages_json: text(messages),
        instruction: instruction.clone(),
        schema_json: text(schema),
    }
}

/// The answer of `Evaluate`.
pub fn evaluated(record: &DriftRecord) -> wire::EvaluateResponse {
    wire::EvaluateResponse {
        needs_baseline: record.needs_baseline,
        evaluation_id: record.evaluation.to_string(),
        signal: Some(signal(record)),
    }
}

/// A signal.
pub fn signal(record: &DriftRecord) -> wire::DriftSignal {
    let DriftRecord {
        session,
        agent,
        pack,
        calibration,
        evaluation,
        settles,
        probe,
        probe_type,
        library,
        library_changed,
        inject_as,
        score,
        category,
        divergences,
        malformed,
        anomaly,
        residual,
        escape,
        triangulation,
        needs_baseline: _,
        judge,
        confidence,
        standing,
        longitudinal,
        action: recommended,
        session_facts: SessionFacts { verdict: session_verdict, max_score, probes_sent },
        answers: Answers { snapshot, shadow, baseline, sealed },
    } = record;
    let Score { field, semantic, drift, threshold, high, wants_baseline: _ } = *score;
    let drift::Residual { fields, reverse, unreadable } = residual;
    wire::DriftSignal {
        session_id: session.to_string(),
        agent_id: agent.to_string(),
        evaluation_id: evaluation.to_string(),
        pack: pack.name.to_string(),
        pack_version: pack.version.to_string(),
        pack_digest: pack.digest.to_string(),
        calibration: calibration_status(*calibration).into(),
        probe_id: probe.to_string(),
        probe_type: probe_type.to_string(),
        library_version: library.to_string(),
        library_changed: *library_changed,
        inject_as: inject_as.word().to_owned(),
        score: Some(wire::DriftScore { drift, field, semantic, threshold, high }),
        category: category.map(|c| c.word()).unwrap_or_default().to_owned(),
        divergences: words(divergences),
        malformed_fields: words(malformed),
        anomaly: anomaly.map(|a| a.word()).unwrap_or_default().to_owned(),
        residual: Some(wire::Residual {
            snapshot_only: words(fields),
            shadow_only: words(reverse),
            unreadable: words(unreadable),
        }),
        escape_detected: *escape,
        triangulation: triangulation.map(|(classification, reason)| wire::TriangulationResult {
            classification: classification.word().to_owned(),
            reason: reason.map(|r| r.word()).unwrap_or_default().to_owned(),
        }),
        judge: Some(judges(judge)),
        isolation_confidence: *confidence,
        standing: standing.word().to_owned(),
        longitudinal_signal: *longitudinal,
        action: action(*recommended, *calibration).into(),
        session_verdict: verdict(*session_verdict).into(),
        probes_sent: *probes_sent,
        max_drift_score: *max_score,
        answers: Some(wire::RedactedAnswers {
            snapshot_json: snapshot.clone().into(),
            shadow_json: shadow.clone().into(),
            baseline_json: baseline.clone().into(),
            sealed_with: sealed.first().map(|(_, sealed)| sealed.key.to_string()).unwrap_or_default(),
        }),
        settles: *settles,
    }
}

/// Sealed answers that were opened.
pub fn revealed(revealed: Revealed) -> wire::RevealPayloadsResponse {
    let Revealed { reading, session, evaluation, answers } = revealed;
    let mut response = wire::RevealPayloadsResponse {
        reading,
        session_id: session.to_string(),
        evaluation_id: evaluation.to_string(),
        ..wire::RevealPayloadsResponse::default()
    };
    for (side, text) in answers {
        let answer = match side {
            Side::Snapshot => &mut response.snapshot_json,
            Side::Shadow => &mut response.shadow_json,
            Side::Baseline => &mut response.baseline_json,
        };
        *answer = text.into();
    }
    response
}

fn words(fields: &[Field]) -> Vec<String> {
    fields.iter().map(|field| field.word().to_owned()).collect()
}

fn judges(judge: &JudgeRecord) -> wire::JudgeResult {
    let JudgeRecord { source, client, client_error, deterministic, pairs, agree } = judge;
    let answers = |judgement: Judgement| {
        let Judgement { policy_ref_match, decision_direction_match, context_contradiction } = judgement;
        wire::Judgement { policy_ref_match, decision_direction_match, context_contradiction }
    };
    wire::JudgeResult {
        source: source.word().to_owned(),
        client: client.map(answers),
        client_error: client_error.to_string(),
        deterministic: deterministic.map(answers),
        agree: client.zip(*deterministic).map(|(a, b)| a.agrees_with(b)),
        session_pairs: *pairs,
        session_agreements: *agree,
    }
}

/// An action. An uncalibrated pack restricts nobody, whatever a record says.
pub fn action(action: Action, calibration: Calibration) -> wire::DriftAction {
    match action.allowed(calibration) {
        Action::LogOnly => wire::DriftAction::LogOnly,
        Action::ElevatedReview => wire::DriftAction::ElevatedReview,
        Action::RestrictedMode => wire::DriftAction::RestrictedMode,
    }
}

fn calibration_status(calibration: Calibration) -> wire::CalibrationStatus {
    match calibration {
        Calibration::Uncalibrated => wire::CalibrationStatus::Uncalibrated,
        Calibration::Calibrated => wire::CalibrationStatus::Calibrated,
    }
}

fn verdict(verdict: drift::SessionVerdict) -> wire::SessionVerdict {
    match verdict {
        drift::SessionVerdict::DriftDetected => wire::SessionVerdict::DriftDetected,
        drift::SessionVerdict::ConsistencyAnomaly => wire::SessionVerdict::ConsistencyAnomaly,
        drift::SessionVerdict::Inconclusive => wire::SessionVerdict::Inconclusive,
        drift::SessionVerdict::Consistent => wire::SessionVerdict::Consistent,
    }
}

/// The answer of `GetSessionReport`.
pub fn report(report: &SessionReport) -> wire::GetSessionReportResponse {
    let SessionReport { session, agent, pack, calibration, library, report: figures, agreement, timeline } = report;
    let f = figures.clone();
    wire::GetSessionReportResponse {
        session_id: session.to_string(),
        agent_id: agent.to_string(),
        pack: pack.name.to_string(),
        pack_version: pack.version.to_string(),
        pack_digest: pack.digest.to_string(),
        calibration: calibration_status(*calibration).into(),
        library_version: library.clone(),
        verdict: verdict(f.verdict).into(),
        longitudinal_signal: f.longitudinal,
        probes_sent: f.counts.sent,
        probes_invalid: f.counts.invalid,
        probes_triangulated: f.counts.triangulated,
        summary_calibration_anomalies: f.counts.summary_anomalies,
        consistency_anomaly: f.consistency_anomaly,
        max_drift_score: f.max_drift_score,
        drift_by_probe_type: f.drift_by_type.iter().map(|(name, score)| (name.to_string(), *score)).collect(),
        drift_by_category: f.signals_by_category.iter().map(|(c, n)| (c.word().to_owned(), *n)).collect(),
        structural_failures: f.structural_failures,
        escapes: f.escapes,
        escape_rate: f.escape_rate,
        escape_rate_low: f.escape_interval.0,
        escape_rate_high: f.escape_interval.1,
        judge_pairs: agreement.pairs,
        judge_agreements: agreement.full,
        timeline: timeline.iter().map(|facts| entry(facts, *calibration)).collect(),
    }
}

fn entry(facts: &SignalFacts, calibration: Calibration) -> wire::TimelineEntry {
    wire::TimelineEntry {
        probe_id: facts.probe_id.to_string(),
        probe_type: facts.probe_type.to_string(),
        drift_score: facts.score.unwrap_or_default(),
        threshold: facts.threshold,
        category: facts.category.map(|c| c.word()).unwrap_or_default().to_owned(),
        anomaly: facts.anomaly.map(|a| a.word()).unwrap_or_default().to_owned(),
        escape_detected: facts.escape,
        triangulation: facts.triangulation.map(|t| t.word()).unwrap_or_default().to_owned(),
        standing: facts.standing.word().to_owned(),
        action: action(facts.action, calibration).into(),
    }
}

/// One answer of `Watch`.
pub fn watched(cursor: audit::RecordNumber, record: &DriftRecord) -> wire::WatchResponse {
    let sent = signal(record);
    let notices = drift::notify(record.action, record.calibration);
    let core = notices.core.map(|told| wire::CoreNotice {
        session_id: sent.session_id.clone(),
        action: action(told, record.calibration).into(),
    });
    let sentinel = notices
        .sentinel
        .then(|| wire::SentinelNotice { session_id: sent.session_id.clone(), agent_id: sent.agent_id.clone() });
    let eval_feed = wire::EvalFeed {
        session_id: sent.session_id.clone(),
        agent_id: sent.agent_id.clone(),
        overall_verdict: sent.session_verdict,
        max_drift_score: sent.max_drift_score,
        longitudinal_signal: sent.longitudinal_signal,
        calibration_status: sent.calibration,
        probes_sent: sent.probes_sent,
    };
    wire::WatchResponse { cursor, core, sentinel, eval_feed: Some(eval_feed), signal: Some(sent) }
}

/// Reads a runtime event; the time is the server's where it has none. Gives whether it had one.
pub fn occurrence(event: wire::RuntimeEvent, path: &str, now: f64, faults: &mut Faults) -> Option<(Occurrence, bool)> {
    let wire::RuntimeEvent { trigger, token_count, has_external_content, reputation, time } = event;
    let trigger = match wire::RuntimeTrigger::try_from(trigger) {
        Ok(wire::RuntimeTrigger::ContextGrowth) => Some(drift::Trigger::ContextGrowth),
        Ok(wire::RuntimeTrigger::ExternalContent) => Some(drift::Trigger::ExternalContent),
        Ok(wire::RuntimeTrigger::Manual) => Some(drift::Trigger::Manual),
        Ok(wire::RuntimeTrigger::Reputation) => Some(drift::Trigger::Reputation),
        Ok(wire::RuntimeTrigger::Unspecified) | Err(_) => {
            faults.add(format!("{path}.trigger"), "must say what happened");
            None
        }
    };
    let Ok(tokens) = i64::try_from(token_count) else {
        faults.add(format!("{path}.token_count"), "is too large");
        return None;
    };
    if reputation.is_some_and(|r| !(0.0..=1.0).contains(&r)) {
        faults.add(format!("{path}.reputation"), "must be from 0 to 1");
        return None;
    }
    let given = time.map(|time| super::convert::exact_seconds(&time));
    if given == Some(None) {
        faults.add(format!("{path}.time"), "is not a timestamp");
        return None;
    }
    let event = drift::RuntimeEvent { trigger: trigger?, tokens, external_content: has_external_content };
    let at = given.flatten().map_or(now, Num::to_f64);
    Some((Occurrence { event, reputation, at }, given.is_some()))
}

/// Whether a probe is due.
pub fn schedule(answer: &ProbeAnswer) -> wire::ProbeSchedule {
    match answer {
        ProbeAnswer::NotDue(why) => wire::ProbeSchedule { due: None, not_due: (*why).to_owned() },
        ProbeAnswer::Due { probe, wording, delay, reason } => wire::ProbeSchedule {
            due: Some(wire::ProbeDue {
                probe_id: probe.to_string(),
                wording: *wording,
                delay_seconds: *delay,
                reason: (*reason).to_owned(),
            }),
            not_due: String::new(),
        },
    }
}
