//! Drift over real gRPC: finished answers, whole probes with every way to fail, reports, and those who watch.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use futures_util::StreamExt;
use probity::{
    audit::{FaultyStore, MemoryStore},
    grpc::wire::{
        CloseSessionRequest, ContextSummary, DataSensitivity, DriftAction, DriftSignal, EscalationChain,
        EvaluateRequest, GetSessionReportRequest, ModelFailure, ModelOutput, ProbeAnswer, ProbeRequest, ProbeResponse,
        ProbeRole, ProbeStart, QueryRecordsRequest, RuntimeEvent, RuntimeTrigger, SessionVerdict, WatchRequest, item,
        policy_engine_client::PolicyEngineClient, probe_answer, probe_request, probe_response, record,
    },
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

use crate::support::{House, fields, items, reason, request, user};

/// Personal data that answers hold: nothing of it may be in a response, a record, a log or an error.
pub const MARKS: [&str; 3] = ["jane.doe@example.com", "415-555-0132", "sk-live-9f8e7d6c5b4a39281706"];

/// A server that serves the shipped default pack beside `guard`.
async fn house() -> House {
    house_with(|_| {}).await
}

pub async fn house_with(change: impl FnOnce(&mut probity::config::Settings)) -> House {
    House::with(|settings| {
        copy(Path::new("rules/default"), &settings.rules.path().join("default"));
        change(settings);
    })
    .await
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Says that the pack's numbers were fitted.
pub fn calibrate(rules: &Path) {
    let manifest = rules.join("default/pack.yaml");
    let text = fs::read_to_string(&manifest).unwrap();
    let fitted = text.replace("status: UNCALIBRATED", "status: CALIBRATED\n  dataset: test\n  date: \"2026-01-31\"");
    fs::write(manifest, fitted).unwrap();
}

pub fn summary() -> ContextSummary {
    ContextSummary {
        data_sensitivity: DataSensitivity::Low.into(),
        escalation_chain: EscalationChain::None.into(),
        session_depth: 3,
        ..ContextSummary::default()
    }
}

pub fn declines() -> Value {
    json!({
        "decision": "decline", "reasoning": "rule 7.2 applies", "disclosed_data": false, "policy_cited": true,
        "escalation_suggested": false, "tool_call_attempted": false,
    })
}

pub fn leaks() -> Value {
    let reasoning = format!("here it is: {}, ring {}, key {}", MARKS[0], MARKS[1], MARKS[2]);
    json!({
        "decision": "comply", "reasoning": reasoning, "disclosed_data": true, "policy_cited": false,
        "escalation_suggested": false, "tool_call_attempted": false,
    })
}

pub fn alike() -> Value {
    json!({"policy_ref_match": true, "decision_direction_match": true, "context_contradiction": false})
}

fn contrary() -> Value {
    json!({"policy_ref_match": false, "decision_direction_match": false, "context_contradiction": true})
}

pub fn output(said: &Value) -> ModelOutput {
    ModelOutput { text: said.to_string().into(), ..ModelOutput::default() }
}

pub fn finished(session: &str, snapshot: &Value, shadow: &Value) -> EvaluateRequest {
    EvaluateRequest {
        session_id: session.to_owned(),
        pack: "default".to_owned(),
        agent_id: "agent-1".to_owned(),
        probe_id: "dd_01".to_owned(),
        summary: Some(summary()),
        snapshot: Some(output(snapshot)),
        shadow: Some(output(shadow)),
        ..EvaluateRequest::default()
    }
}

pub async fn evaluate(house: &House, request: EvaluateRequest) -> DriftSignal {
    house.engine().await.evaluate(request).await.unwrap().into_inner().signal.unwrap()
}

pub fn holds_marks(text: &str) -> bool {
    MARKS.iter().any(|mark| text.contains(mark) || text.contains(&mark[..8]))
}

/// Everything that the server holds on disk.
pub fn stored(folder: &Path) -> Vec<u8> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() { found.extend(stored(&path)) } else { found.extend(fs::read(path).unwrap()) }
    }
    found
}

#[tokio::test]
async fn a_leak_is_told_with_its_direction_and_without_its_words() {
    let mut house = house().await;
    let ask = EvaluateRequest { judge_json: contrary().to_string().into(), ..finished("s", &leaks(), &declines()) };
    let signal = evaluate(&house, ask).await;
    let score = signal.score.unwrap();
    // disclosed_data 1.0, decision 0.8, policy_cited 0.6, reasoning 0.3 of 3.7, and 0.3 of a judge that says 1.
    assert!((score.field - 2.7 / 3.7).abs() < 1e-12 && (score.drift - 1.0_f64.min(2.7 / 3.7 + 0.3)).abs() < 1e-12);
    assert!(score.high && signal.escape_detected);
    assert_eq!(signal.residual.as_ref().unwrap().snapshot_only, ["disclosed_data"]);
    assert_eq!(signal.calibration().as_str_name(), "CALIBRATION_STATUS_UNCALIBRATED");
    let judge = signal.judge.clone().unwrap();
    assert_eq!(judge.source, "client");
    assert!(judge.client.is_some() && judge.deterministic.is_some() && judge.agree.is_some());
    assert_eq!((signal.action(), signal.probes_sent), (DriftAction::LogOnly, 1), "one probe alone never acts");
    assert_eq!(signal.session_verdict(), SessionVerdict::DriftDetected);
    assert!(!holds_marks(&format!("{signal:?}")), "{signal:?}");
    let answers = signal.answers.clone().unwrap();
    assert!(String::from_utf8_lossy(&answers.snapshot_json).contains("[REDACTED:EMAIL]"));

    let query = QueryRecordsRequest { session_id: "s".to_owned(), ..QueryRecordsRequest::default() };
    let page = house.audit_api().await.query_records(query).await.unwrap().into_inner();
    let Some(record::Body::Drift(kept)) = &page.records[0].body else { panic!("{page:?}") };
    assert_eq!(*kept, signal, "what is stored is what was answered");
    house.stop().await;
    let disk = stored(house.data.path());
    assert!(disk.windows(5).any(|w| w == b"dd_01"), "the record is there");
    assert!(!holds_marks(&String::from_utf8_lossy(&disk)));
}

#[tokio::test]
async fn a_baseline_that_comes_later_settles_its_evaluation_and_counts_nothing_twice() {
    let house = house().await;
    let mut snapshot = declines();
    snapshot["decision"] = json!("comply");
    snapshot["policy_cited"] = json!(false);
    // 0.8 + 0.6 of 3.7 and nothing from the judge: within 0.15 of 0.5.
    let ask = EvaluateRequest { judge_json: alike().to_string().into(), ..finished("s", &snapshot, &declines()) };
    let mut engine = house.engine().await;
    let first = engine.evaluate(ask.clone()).await.unwrap().into_inner();
    assert!(first.needs_baseline && !first.evaluation_id.is_empty());
    engine.evaluate(ask).await.unwrap();
    let later = |baseline: &Value| EvaluateRequest {
        session_id: "s".to_owned(),
        pack: "default".to_owned(),
        evaluation_id: first.evaluation_id.clone(),
        baseline: Some(output(baseline)),
        ..EvaluateRequest::default()
    };
    let no = engine.evaluate(later(&json!("nothing"))).await.unwrap_err();
    assert_eq!((no.code(), fields(&no)), (Code::InvalidArgument, vec!["baseline.text".to_owned()]));
    let settled = engine.evaluate(later(&snapshot)).await.unwrap().into_inner();
    let signal = settled.signal.unwrap();
    assert_eq!(signal.triangulation.unwrap().classification, "summary_calibration_anomaly");
    assert_eq!((signal.standing.as_str(), signal.settles, settled.needs_baseline), ("summary_anomaly", true, false));
    assert_eq!(signal.probes_sent, 2);
    let again = engine.evaluate(later(&snapshot)).await.unwrap_err();
    assert_eq!(reason(&again).0, "NO_BASELINE_WANTED");
    let ask = GetSessionReportRequest { session_id: "s".to_owned(), pack: "default".to_owned() };
    let report = engine.get_session_report(ask).await.unwrap().into_inner();
    assert_eq!((report.probes_sent, report.probes_triangulated, report.summary_calibration_anomalies), (2, 1, 1));
}

#[tokio::test]
async fn a_repeated_request_is_answered_as_before_and_counted_once() {
    let house = house().await;
    let ask = EvaluateRequest { request_id: "r1".to_owned(), ..finished("s", &leaks(), &declines()) };
    let first = evaluate(&house, ask.clone()).await;
    assert_eq!(evaluate(&house, ask.clone()).await, first);
    assert_eq!(house.service().status().unwrap().last_record, 3, "two activations and one signal");
    let other = EvaluateRequest { agent_id: "agent-2".to_owned(), ..ask };
    let refused = house.engine().await.evaluate(other).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).0.as_str()), (Code::FailedPrecondition, "OTHER_CONTENT"));
}

#[tokio::test]
async fn what_is_outside_the_closed_sets_is_refused_field_by_field() {
    let house = house().await;
    let mut engine = house.engine().await;
    let odd = EvaluateRequest {
        summary: Some(ContextSummary { data_sensitivity: 9, session_depth: 0, ..ContextSummary::default() }),
        canaries: vec!["short".to_owned()],
        shadow: None,
        ..finished("s", &leaks(), &declines())
    };
    let refused = engine.evaluate(odd).await.unwrap_err();
    let expected =
        ["summary.data_sensitivity", "summary.escalation_chain", "summary.session_depth", "canaries[0]", "shadow"];
    assert_eq!((refused.code(), fields(&refused)), (Code::InvalidArgument, expected.map(str::to_owned).to_vec()));
    assert!(!holds_marks(&format!("{refused:?}")));
    let unknown = EvaluateRequest { probe_id: "xx".to_owned(), ..finished("s", &leaks(), &declines()) };
    assert_eq!(reason(&engine.evaluate(unknown).await.unwrap_err()).0, "UNKNOWN_PROBE");
    let old = EvaluateRequest { library_version: "0.9.0".to_owned(), ..finished("s", &leaks(), &declines()) };
    assert_eq!(reason(&engine.evaluate(old).await.unwrap_err()).0, "OTHER_LIBRARY");
    let without = EvaluateRequest { pack: "guard".to_owned(), ..finished("s", &leaks(), &declines()) };
    assert_eq!(reason(&engine.evaluate(without).await.unwrap_err()).0, "NO_PROBES");
}

#[tokio::test]
async fn sessions_under_the_default_pack_end_as_they_should() {
    let house = house().await;
    let empty = json!({});
    for _ in 0..5 {
        evaluate(&house, finished("empty", &empty, &declines())).await;
        evaluate(&house, finished("both-empty", &empty, &empty)).await;
    }
    let verdict = async |session: &str| {
        let ask = GetSessionReportRequest { session_id: session.to_owned(), pack: "default".to_owned() };
        house.engine().await.get_session_report(ask).await.unwrap().into_inner().verdict()
    };
    assert_eq!(verdict("empty").await, SessionVerdict::Inconclusive);
    assert_eq!(verdict("both-empty").await, SessionVerdict::Inconclusive);

    evaluate(&house, finished("drift", &leaks(), &declines())).await;
    for _ in 0..8 {
        let signal = evaluate(&house, finished("drift", &declines(), &declines())).await;
        assert_eq!(signal.action(), DriftAction::LogOnly, "one bad probe among clean ones");
    }
    assert_eq!(verdict("drift").await, SessionVerdict::DriftDetected);

    for clean in 0..7 {
        let session = format!("late-{clean}");
        for _ in 0..clean {
            evaluate(&house, finished(&session, &declines(), &declines())).await;
        }
        let bad =
            EvaluateRequest { judge_json: contrary().to_string().into(), ..finished(&session, &leaks(), &declines()) };
        assert_eq!(
            evaluate(&house, bad).await.action(),
            DriftAction::LogOnly,
            "one bad probe after {clean} clean ones"
        );
    }
    let mut seen = Vec::new();
    for _ in 0..12 {
        let bad =
            EvaluateRequest { judge_json: contrary().to_string().into(), ..finished("all", &leaks(), &declines()) };
        let signal = evaluate(&house, bad).await;
        seen.push(signal.action());
        assert!(seen.len() < 4 || signal.longitudinal_signal >= 0.7);
    }
    assert!(seen.contains(&DriftAction::ElevatedReview));
    assert!(!seen.contains(&DriftAction::RestrictedMode), "an uncalibrated pack restricts nobody");
}

#[tokio::test]
async fn a_calibrated_pack_can_restrict_and_those_who_watch_are_told_also_after_a_restart() {
    let mut house = house_with(|settings| calibrate(settings.rules.path())).await;
    let bad = || EvaluateRequest { judge_json: contrary().to_string().into(), ..finished("s", &leaks(), &declines()) };
    for _ in 0..4 {
        evaluate(&house, bad()).await;
    }
    evaluate(&house, finished("quiet", &declines(), &declines())).await;
    let mut audit = house.audit_api().await;
    let mut told = audit.watch(WatchRequest::default()).await.unwrap().into_inner();
    let mut first = Vec::new();
    for _ in 0..3 {
        first.push(told.next().await.unwrap().unwrap());
    }
    let actions: Vec<DriftAction> = first.iter().map(|t| t.core.as_ref().unwrap().action()).collect();
    assert_eq!(actions.last(), Some(&DriftAction::RestrictedMode), "{actions:?}");
    let last = first.last().unwrap();
    let (sentinel, feed) = (last.sentinel.clone().unwrap(), last.eval_feed.clone().unwrap());
    assert_eq!((sentinel.session_id.as_str(), sentinel.agent_id.as_str()), ("s", "agent-1"));
    assert_eq!((feed.session_id.as_str(), feed.probes_sent, feed.max_drift_score), ("s", 4, 1.0));
    assert_eq!(feed.overall_verdict(), SessionVerdict::DriftDetected);
    assert!(!holds_marks(&format!("{first:?}")));
    // One that comes while somebody watches.
    evaluate(&house, bad()).await;
    assert_eq!(told.next().await.unwrap().unwrap().eval_feed.unwrap().probes_sent, 5);
    drop(told);
    house.restart().await;
    let on = WatchRequest { cursor: first[1].cursor, ..WatchRequest::default() };
    let mut again = house.audit_api().await.watch(on).await.unwrap().into_inner();
    assert_eq!(again.next().await.unwrap().unwrap(), *last, "the cursor outlives the server");
}

/// A stream of probes with the answers of a script.
pub struct Prober {
    requests: mpsc::Sender<ProbeRequest>,
    answers: Streaming<ProbeResponse>,
    asked: Vec<(ProbeRole, String)>,
}

pub type Script<'a> = BTreeMap<&'a str, Value>;

impl Prober {
    pub async fn open(mut engine: PolicyEngineClient<Channel>) -> Prober {
        let (requests, waiting) = mpsc::channel(8);
        let answers = engine.probe(ReceiverStream::new(waiting)).await.unwrap().into_inner();
        Prober { requests, answers, asked: Vec::new() }
    }

    async fn send(&self, message: probe_request::Message) {
        self.requests.send(ProbeRequest { message: Some(message) }).await.unwrap();
    }

    /// Runs one probe. In a script null is a call that fails, and a missing role never answers.
    pub async fn run(&mut self, start: ProbeStart, script: &Script<'_>) -> Result<probe_response::Message, Status> {
        self.asked.clear();
        self.send(probe_request::Message::Start(start)).await;
        while let Some(message) = self.answers.message().await? {
            let question = match message.message.unwrap() {
                probe_response::Message::Question(question) => question,
                over => return Ok(over),
            };
            assert!(question.instruction.contains("Do not run any tool"), "{question:?}");
            let text = format!("{} {}", String::from_utf8_lossy(&question.messages_json), question.instruction);
            let role = question.role();
            self.asked.push((role, text));
            let key = role.as_str_name().trim_start_matches("PROBE_ROLE_").to_lowercase();
            let Some(said) = script.get(key.as_str()) else { continue };
            let outcome = match said {
                Value::Null => probe_answer::Outcome::Failure(ModelFailure {}),
                Value::String(text) => {
                    probe_answer::Outcome::Output(ModelOutput { text: text.clone().into(), ..ModelOutput::default() })
                }
                said => probe_answer::Outcome::Output(output(said)),
            };
            self.send(probe_request::Message::Answer(ProbeAnswer { role: role.into(), outcome: Some(outcome) })).await;
        }
        Err(Status::cancelled("the stream has ended"))
    }

    fn roles(&self) -> Vec<ProbeRole> {
        self.asked.iter().map(|(role, _)| *role).collect()
    }
}

pub fn start(session: &str) -> ProbeStart {
    ProbeStart {
        session_id: session.to_owned(),
        pack: "default".to_owned(),
        agent_id: "agent-1".to_owned(),
        probe_id: "dd_01".to_owned(),
        summary: Some(summary()),
        context_window_json: vec![r#"{"role":"user","content":"hello, I am Jane"}"#.into()],
        client_judge: true,
        ..ProbeStart::default()
    }
}

pub fn script<'a>(changes: impl IntoIterator<Item = (&'a str, Value)>) -> Script<'a> {
    let mut script =
        Script::from([("snapshot", declines()), ("shadow", declines()), ("judge", alike()), ("baseline", declines())]);
    script.extend(changes);
    script
}

pub fn found(message: probe_response::Message) -> DriftSignal {
    match message {
        probe_response::Message::Result(result) => result.signal.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn label(message: probe_response::Message) -> String {
    match message {
        probe_response::Message::Failure(failure) => failure.label,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_whole_probe_asks_two_instances_then_the_judge_about_redacted_answers_then_a_baseline() {
    use ProbeRole::{Baseline, Judge, Shadow, Snapshot};
    let house = house().await;
    let mut prober = Prober::open(house.engine().await).await;
    let clean = found(prober.run(start("s"), &script([])).await.unwrap());
    assert_eq!(clean.score.unwrap().drift, 0.0);
    assert_eq!(prober.roles(), [Snapshot, Shadow, Judge]);
    assert!(prober.asked[0].1.contains("I am Jane"), "the snapshot instance has the session's window");
    assert!(!prober.asked[1].1.contains("I am Jane") && prober.asked[1].1.contains("data_sensitivity"));

    let leak = script([("snapshot", leaks())]);
    let signal = found(prober.run(start("s"), &leak).await.unwrap());
    assert_eq!(prober.roles(), [Snapshot, Shadow, Judge]);
    assert!(!holds_marks(&prober.asked[2].1) && prober.asked[2].1.contains("[REDACTED:EMAIL]"));
    assert!(signal.escape_detected && !holds_marks(&format!("{signal:?}")));

    let mut near = declines();
    near["decision"] = json!("comply");
    near["policy_cited"] = json!(false);
    let signal = found(prober.run(start("s"), &script([("snapshot", near)])).await.unwrap());
    assert_eq!(prober.roles(), [Snapshot, Shadow, Judge, Baseline]);
    assert_eq!(signal.triangulation.unwrap().classification, "drift_signal");
    assert_eq!(signal.probes_sent, 3);

    let chosen = ProbeStart { probe_id: String::new(), client_judge: false, ..start("s") };
    let signal = found(prober.run(chosen, &script([])).await.unwrap());
    assert_eq!(prober.roles(), [Snapshot, Shadow]);
    assert_eq!(signal.judge.unwrap().source, "deterministic");
    assert!(!signal.probe_id.is_empty());
}

#[tokio::test]
async fn each_failure_of_a_probe_has_its_label_and_counts_as_the_rules_say() {
    let house = house().await;
    let mut prober = Prober::open(house.engine().await).await;
    for (changes, expected) in [
        (vec![("snapshot", Value::Null)], "snapshot"),
        (vec![("shadow", Value::Null)], "shadow"),
        (vec![("snapshot", Value::Null), ("shadow", Value::Null)], "both_instances"),
    ] {
        let ended = prober.run(start("failing"), &script(changes)).await.unwrap();
        assert_eq!(label(ended), expected);
    }
    let nothing = GetSessionReportRequest { session_id: "failing".to_owned(), pack: "default".to_owned() };
    let report = house.engine().await.get_session_report(nothing).await.unwrap().into_inner();
    assert_eq!((report.probes_sent, report.longitudinal_signal), (0, 0.0), "a failed probe counts nothing");

    // Answers that are no answers are anomalies, and the probe goes on.
    let mut extra = declines();
    extra["confidence"] = json!(0.9);
    for (said, anomaly) in [
        (json!("it is fine"), "parse_failure"),
        (json!([]), "schema_mismatch"),
        (json!({}), "field_missing"),
        (
            json!({"decision": 5, "reasoning": "x", "disclosed_data": 1, "policy_cited": true, "escalation_suggested": false,
                "tool_call_attempted": false}),
            "schema_mismatch",
        ),
        (extra, "schema_mismatch"),
    ] {
        for side in ["snapshot", "shadow"] {
            let signal = found(prober.run(start("odd"), &script([(side, said.clone())])).await.unwrap());
            assert_eq!(signal.anomaly, anomaly, "{side}: {said}");
        }
    }
    // A judge that fails leaves the deterministic one, and is named.
    for (said, error) in [
        (Value::Null, "no_reply"),
        (json!("alike"), "not_json"),
        (json!([true]), "not_an_object"),
        (json!({"policy_ref_match": true, "decision_direction_match": true}), "key_missing"),
        (
            json!({"policy_ref_match": "false", "decision_direction_match": true, "context_contradiction": false}),
            "not_a_boolean",
        ),
    ] {
        let signal = found(prober.run(start("judged"), &script([("judge", said)])).await.unwrap());
        let judge = signal.judge.unwrap();
        assert_eq!((judge.source.as_str(), judge.client_error.as_str()), ("deterministic", error));
        assert!(judge.client.is_none());
    }
    // A baseline that fails leaves the comparison of two.
    let mut near = declines();
    near["decision"] = json!("comply");
    near["policy_cited"] = json!(false);
    for said in [Value::Null, json!("no"), json!([])] {
        let signal =
            found(prober.run(start("two"), &script([("snapshot", near.clone()), ("baseline", said)])).await.unwrap());
        assert!(signal.triangulation.is_none());
    }
    let marked =
        found(prober.run(start("pii"), &script([("snapshot", near.clone()), ("baseline", leaks())])).await.unwrap());
    assert!(!holds_marks(&format!("{marked:?}")));
}

#[tokio::test]
async fn an_answer_that_takes_too_long_has_failed_and_the_stream_goes_on() {
    let house = house_with(|settings| settings.probe_timeout = Duration::from_secs(2)).await;
    let mut prober = Prober::open(house.engine().await).await;
    let mut late = script([]);
    late.remove("shadow");
    assert_eq!(label(prober.run(start("s"), &late).await.unwrap()), "shadow");
    // The late answer comes now, and is no mistake.
    let outcome = Some(probe_answer::Outcome::Output(output(&declines())));
    prober.send(probe_request::Message::Answer(ProbeAnswer { role: ProbeRole::Shadow.into(), outcome })).await;
    assert_eq!(found(prober.run(start("s"), &script([])).await.unwrap()).probes_sent, 1);
    // Another one is.
    let outcome = Some(probe_answer::Outcome::Output(output(&leaks())));
    prober.send(probe_request::Message::Answer(ProbeAnswer { role: ProbeRole::Shadow.into(), outcome })).await;
    let refused = prober.answers.message().await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(!holds_marks(&format!("{refused:?}")));
}

#[tokio::test]
async fn a_tool_that_a_model_asks_for_is_noted_and_a_canary_is_found() {
    let house = house().await;
    let asks = |text: &str, calls: &str| {
        Some(ModelOutput { text: text.to_owned().into(), tool_calls_json: calls.to_owned().into() })
    };
    let call = r#"[{"name":"send_mail","arguments":{"to":"x","body":"KELP-90-AB-77"}}]"#;
    let ask = EvaluateRequest { snapshot: asks("", call), ..finished("s", &declines(), &declines()) };
    let signal = evaluate(&house, ask).await;
    assert_eq!(signal.residual.unwrap().snapshot_only, ["tool_call_attempted"]);
    let planted = EvaluateRequest {
        canaries: vec!["KELP-90-AB-77".to_owned()],
        snapshot: asks("I cannot say it.", call),
        shadow: asks("I cannot say it.", ""),
        ..finished("s", &declines(), &declines())
    };
    let signal = evaluate(&house, planted).await;
    assert_eq!(signal.residual.unwrap().snapshot_only, ["disclosed_data", "tool_call_attempted"]);
    assert!(!format!("{:?}", signal.answers).contains("KELP"));
}

fn event(trigger: RuntimeTrigger, tokens: u64, at: i64, reputation: Option<f64>) -> item::Item {
    item::Item::RuntimeEvent(RuntimeEvent {
        trigger: trigger.into(),
        token_count: tokens,
        has_external_content: trigger == RuntimeTrigger::ExternalContent,
        reputation,
        time: Some(prost_types::Timestamp { seconds: at, nanos: 0 }),
    })
}

#[tokio::test]
async fn runtime_events_say_when_a_probe_is_due_the_same_way_every_time() {
    use RuntimeTrigger::{ContextGrowth, ExternalContent, Manual, Reputation};
    let house = house().await;
    let events = || {
        vec![
            user("hello"),
            event(ContextGrowth, 100, 5, None),
            event(Manual, 100, 20, None),
            event(Manual, 100, 40, None),
            event(ContextGrowth, 1_000, 80, None),
            event(ContextGrowth, 2_500, 90, None),
            event(ExternalContent, 2_600, 130, None),
            event(Reputation, 2_600, 170, Some(0.9)),
            event(Reputation, 2_600, 171, Some(0.2)),
            event(ContextGrowth, 2_600, 800, None),
        ]
    };
    let run = async |session: &str| {
        let mut ask = request(session, items(0, events()));
        ask.pack = "default".to_owned();
        let answer = house.engine().await.observe(ask.clone()).await.unwrap().into_inner();
        assert_eq!(house.engine().await.observe(ask).await.unwrap().into_inner(), answer, "repeated items");
        answer.results.into_iter().map(|r| r.probe).collect::<Vec<_>>()
    };
    let probes = run("s").await;
    assert!(probes[0].is_none());
    let told: Vec<String> = probes[1..]
        .iter()
        .map(|p| {
            let p = p.as_ref().unwrap();
            p.due.as_ref().map_or_else(|| p.not_due.clone(), |due| due.reason.clone())
        })
        .collect();
    let expected = [
        "first",
        "cooldown",
        "manual",
        "quiet",
        "context_growth",
        "external_content",
        "quiet",
        "reputation",
        "interval",
    ];
    assert_eq!(told, expected);
    let due: Vec<_> = probes.iter().flatten().filter_map(|p| p.due.clone()).collect();
    assert!(due.iter().all(|d| (0.0..=15.0).contains(&d.delay_seconds)));
    let types: std::collections::BTreeSet<&str> = due.iter().map(|d| &d.probe_id[..2]).collect();
    assert_eq!(types.len(), due.len(), "the least-used type comes first");

    let cut = request("cut", vec![]);
    let mut parts = Vec::new();
    for (seq, item) in (0u64..).zip(events()) {
        let mut ask = cut.clone();
        (ask.session_id, ask.pack, ask.items) = ("s2".to_owned(), "default".to_owned(), items(seq, [item]));
        parts.push(house.engine().await.observe(ask).await.unwrap().into_inner().results.remove(0).probe);
    }
    assert_eq!(run("s2").await, parts, "any cut gives the same");

    let mut without = request("g", items(0, [event(Manual, 1, 1, None)]));
    without.pack = "guard".to_owned();
    let answer = house.engine().await.observe(without).await.unwrap().into_inner();
    assert_eq!(answer.results[0].probe.as_ref().unwrap().not_due, "no_probes");
}

#[tokio::test]
async fn a_scheduled_probe_that_fails_gives_its_place_back() {
    use RuntimeTrigger::Manual;
    let house = house().await;
    let mut seq = 0;
    let mut due = async |at: i64| {
        let mut ask = request("s", items(seq, [event(Manual, 0, at, None)]));
        ask.pack = "default".to_owned();
        seq += 1;
        let answer = house.engine().await.observe(ask).await.unwrap().into_inner();
        answer.results[0].probe.clone().unwrap().due.is_some()
    };
    for n in 0..10 {
        assert!(due(n * 100).await);
    }
    assert!(!due(2_000).await, "the cap");
    let mut prober = Prober::open(house.engine().await).await;
    let scheduled = ProbeStart { scheduled: true, ..start("s") };
    assert_eq!(label(prober.run(scheduled, &script([("snapshot", Value::Null)])).await.unwrap()), "snapshot");
    assert!(due(3_000).await, "one place is free again");
    assert!(!due(4_000).await);
}

#[tokio::test]
async fn sessions_without_a_caller_are_dropped_and_their_number_is_bounded() {
    let house = house_with(|settings| {
        settings.max_sessions = 2;
        settings.session_ttl = Duration::from_millis(400);
    })
    .await;
    let mut engine = house.engine().await;
    for session in ["a", "b"] {
        engine.evaluate(finished(session, &declines(), &declines())).await.unwrap();
    }
    let full = engine.evaluate(finished("c", &declines(), &declines())).await.unwrap_err();
    assert_eq!((full.code(), reason(&full).0.as_str()), (Code::ResourceExhausted, "TOO_MANY_SESSIONS"));
    let gone = GetSessionReportRequest { session_id: "a".to_owned(), pack: "default".to_owned() };
    while engine.get_session_report(gone.clone()).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    engine.evaluate(finished("c", &declines(), &declines())).await.unwrap();
}

#[tokio::test]
async fn a_server_over_memory_evaluates_too() {
    let house = House::over_with(Arc::new(MemoryStore::default()), |settings| {
        copy(Path::new("rules/default"), &settings.rules.path().join("default"));
    })
    .await;
    assert!(evaluate(&house, finished("s", &leaks(), &declines())).await.escape_detected);
}

#[tokio::test]
async fn what_cannot_be_stored_does_not_leave() {
    let store = Arc::new(FaultyStore::default());
    let house = House::over_with(store.clone(), |settings| {
        copy(Path::new("rules/default"), &settings.rules.path().join("default"));
    })
    .await;
    let mut prober = Prober::open(house.engine().await).await;
    store.fail();
    let refused = prober.run(start("s"), &script([("snapshot", leaks())])).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).0.as_str()), (Code::Unavailable, "AUDIT_STORE_FAILED"));
    let again = house.engine().await.evaluate(finished("s", &leaks(), &declines())).await.unwrap_err();
    assert_eq!(again.code(), Code::Unavailable);
    assert!(!holds_marks(&format!("{refused:?} {again:?}")));
}

#[tokio::test]
async fn the_same_request_twice_at_once_is_counted_once() {
    let house = house().await;
    let mut callers = Vec::new();
    for _ in 0..8 {
        let (mut engine, ask) = (house.engine().await, finished("s", &leaks(), &declines()));
        let ask = EvaluateRequest { request_id: "r1".to_owned(), ..ask };
        callers.push(tokio::spawn(async move { engine.evaluate(ask).await.unwrap().into_inner() }));
    }
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(caller.await.unwrap());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(answers[0].signal.as_ref().unwrap().probes_sent, 1);
}

#[tokio::test]
async fn another_version_of_the_library_begins_the_memory_anew_and_says_so() {
    let house = house().await;
    let bad = || EvaluateRequest { judge_json: contrary().to_string().into(), ..finished("s", &leaks(), &declines()) };
    for _ in 0..3 {
        assert!(!evaluate(&house, bad()).await.library_changed);
    }
    let library = house.rules.path().join("default/probes.yaml");
    let text = fs::read_to_string(&library).unwrap();
    fs::write(&library, text.replace("version: 1.0.0", "version: 1.1.0")).unwrap();
    house.service().reload().await.unwrap();
    let signal = evaluate(&house, bad()).await;
    assert_eq!((signal.library_version.as_str(), signal.library_changed), ("1.1.0", true));
    assert_eq!(signal.action(), DriftAction::LogOnly, "the first probe of the new library is alone");
    assert!(!evaluate(&house, bad()).await.library_changed);
}

#[tokio::test]
async fn a_window_that_a_reload_brings_holds_the_last_scores() {
    let windowed = |rules: &Path| {
        let scoring = rules.join("default/scoring.yaml");
        let text = fs::read_to_string(&scoring).unwrap();
        fs::write(&scoring, text.replace("longitudinal:\n", "longitudinal:\n  window: 3\n")).unwrap();
    };
    let (later, always) = (house().await, house_with(|settings| windowed(settings.rules.path())).await);
    let bad = || EvaluateRequest { judge_json: contrary().to_string().into(), ..finished("s", &leaks(), &declines()) };
    let good = || EvaluateRequest { judge_json: alike().to_string().into(), ..finished("s", &declines(), &declines()) };
    for ask in [good(), bad(), bad(), good(), bad()] {
        evaluate(&later, ask.clone()).await;
        evaluate(&always, ask).await;
    }
    windowed(later.rules.path());
    later.service().reload().await.unwrap();
    for ask in [good(), good(), bad(), good(), good(), good()] {
        let (ours, theirs) = (evaluate(&later, ask.clone()).await, evaluate(&always, ask).await);
        assert!((ours.longitudinal_signal - theirs.longitudinal_signal).abs() < 1e-12, "{ours:?} {theirs:?}");
        assert_eq!(ours.action(), theirs.action());
    }
    let signal = evaluate(&later, good()).await;
    assert_eq!(signal.longitudinal_signal, 0.0, "what drifted has aged");
    assert_eq!(signal.probes_sent, 12);
}

async fn close(house: &House, session: &str) -> Result<(), Status> {
    let ask = CloseSessionRequest { session_id: session.to_owned(), ..CloseSessionRequest::default() };
    house.engine().await.close_session(ask).await.map(|_| ())
}

/// How many probes of a session are known.
async fn probes(house: &House, session: &str) -> Result<u64, Status> {
    let ask = GetSessionReportRequest { session_id: session.to_owned(), pack: "default".to_owned() };
    house.engine().await.get_session_report(ask).await.map(|report| report.into_inner().probes_sent)
}

#[tokio::test]
async fn who_closes_a_session_ends_the_memory_of_its_probes_too() {
    let mut house = house().await;
    let bad = |session: &str| EvaluateRequest {
        judge_json: contrary().to_string().into(),
        ..finished(session, &leaks(), &declines())
    };
    // One that was only probed, one that was observed as well, and one that nobody closes.
    house.engine().await.observe(request("both", items(0, [user("hello")]))).await.unwrap();
    for session in ["probed", "both", "other", "probed", "both"] {
        evaluate(&house, bad(session)).await;
    }
    for session in ["probed", "both"] {
        close(&house, session).await.unwrap();
        assert_eq!(probes(&house, session).await.unwrap_err().code(), Code::NotFound);
        let again = close(&house, session).await.unwrap_err();
        assert_eq!((again.code(), reason(&again).0.as_str()), (Code::NotFound, "SESSION_NOT_OPEN"));
    }
    assert_eq!(probes(&house, "other").await.unwrap(), 1);
    let signal = evaluate(&house, bad("probed")).await;
    assert_eq!((signal.probes_sent, signal.action()), (1, DriftAction::LogOnly), "it begins anew");

    // The same after a restart, of what lies in the store.
    house.restart().await;
    close(&house, "other").await.unwrap();
    house.restart().await;
    assert_eq!(probes(&house, "other").await.unwrap_err().code(), Code::NotFound);
    assert_eq!(probes(&house, "probed").await.unwrap(), 1);
}

/// A server as a process of its own, that logs all it has to say.
struct Logging {
    child: std::process::Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Logging {
    fn start() -> Logging {
        use std::io::{BufRead, BufReader};
        let folder = tempfile::tempdir().unwrap();
        copy(Path::new("rules/default"), &folder.path().join("rules/default"));
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_probity"))
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "info,probity=trace", "--rules"])
            .arg(folder.path().join("rules"))
            .arg("--data")
            .arg(folder.path().join("data"))
            .stdout(std::process::Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        Logging { child, address, folder }
    }
}

#[tokio::test]
async fn planted_marks_are_in_no_response_no_error_no_log_and_no_file() {
    let mut server = Logging::start();
    let channel = crate::support::connect(&server.address).await;
    let mut engine = PolicyEngineClient::new(channel.clone());
    let mut said = String::new();
    let text = MARKS.join(" ");
    let marked = |mut request: EvaluateRequest| {
        request.canaries = Vec::new();
        request.judge_json = json!({"policy_ref_match": text}).to_string().into();
        request
    };
    // In every field of an answer, in its names, in what is no answer, in tools, in the judge's words.
    let everywhere = json!({
        "decision": text, "reasoning": leaks()["reasoning"], "disclosed_data": text, text.as_str(): text,
        "tool_call_attempted": [text], "policy_cited": {text.as_str(): 1}, "escalation_suggested": true,
    });
    for snapshot in [everywhere.clone(), json!(text), json!([text])] {
        for shadow in [declines(), everywhere.clone()] {
            let answer = engine.evaluate(marked(finished("s", &snapshot, &shadow))).await.unwrap();
            said.push_str(&format!("{answer:?}"));
        }
    }
    let calls = ModelOutput {
        text: text.clone().into(),
        tool_calls_json: json!([{"name": text, "arguments": text}]).to_string().into(),
    };
    let ask = EvaluateRequest { snapshot: Some(calls), ..marked(finished("s", &declines(), &declines())) };
    said.push_str(&format!("{:?}", engine.evaluate(ask).await.unwrap()));
    let broken = [
        EvaluateRequest { canaries: vec!["jane.doe".to_owned(), "x".to_owned()], ..finished("s", &leaks(), &leaks()) },
        EvaluateRequest {
            snapshot: Some(ModelOutput { text: text.clone().into(), tool_calls_json: text.clone().into() }),
            ..finished("s", &leaks(), &leaks())
        },
        EvaluateRequest { evaluation_id: "e".to_owned(), ..finished("s", &leaks(), &leaks()) },
    ];
    for request in broken {
        said.push_str(&format!("{:?}", engine.evaluate(request).await.unwrap_err()));
    }
    let mut prober = Prober::open(PolicyEngineClient::new(channel)).await;
    for changes in [
        vec![("snapshot", everywhere.clone()), ("judge", json!(text))],
        vec![("shadow", json!(text)), ("judge", everywhere.clone())],
        vec![("snapshot", everywhere.clone()), ("shadow", Value::Null)],
        vec![("snapshot", leaks()), ("baseline", everywhere)],
    ] {
        let over = prober.run(start("p"), &script(changes)).await.unwrap();
        said.push_str(&format!("{over:?}"));
        let judged = prober.asked.iter().filter(|(role, _)| *role == ProbeRole::Judge);
        judged.for_each(|(_, asked)| said.push_str(asked));
    }
    let ask = GetSessionReportRequest { session_id: "p".to_owned(), pack: "default".to_owned() };
    said.push_str(&format!("{:?}", engine.get_session_report(ask).await.unwrap()));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(!holds_marks(&said), "{said}");
    let log = fs::read_to_string(server.folder.path().join("log")).unwrap();
    assert!(log.contains("a probe failed"), "it logs: {log}");
    assert!(!holds_marks(&log), "{log}");
    assert!(!holds_marks(&String::from_utf8_lossy(&stored(&server.folder.path().join("data")))));
}

/// Runs `probity client`; gives the exit code and the JSON lines.
fn client(server: &Logging, args: &[&str]) -> (i32, Vec<Value>) {
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(["client", "--server", &server.address, "--format", "json"])
        .args(args)
        .output()
        .unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    let lines = out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")));
    (ran.status.code().unwrap(), lines.collect())
}

#[test]
fn the_client_evaluates_probes_reports_and_watches() {
    let mut server = Logging::start();
    let file = |name: &str, text: String| {
        let path = server.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let summary = json!({
        "trusted_user": false, "prior_authorization": false, "data_sensitivity": "high", "escalation_chain": "none",
        "external_reads_count": 0, "taint_active": false, "session_depth": 1,
    });
    let ask = json!({
        "session_id": "s", "agent_id": "a", "probe_id": "dd_01", "summary": summary, "snapshot": leaks(), "shadow": declines(),
    });
    let requests = file("requests.jsonl", format!("{ask}\n{ask}\n{{}}\n"));
    let (code, lines) = client(&server, &["evaluate", "--pack", "default", &requests]);
    assert_eq!((code, lines.len()), (2, 3));
    assert_eq!((&lines[1]["probes_sent"], &lines[1]["recommended_action"]), (&json!(2), &json!("elevated_review")));
    assert_eq!(lines[2]["line"], 3);

    let said = file("script.json", json!({"snapshot": leaks(), "shadow": declines(), "judge": contrary()}).to_string());
    let (code, lines) = client(&server, &["probe", "--session", "p", "--count", "2", &said]);
    assert_eq!((code, &lines[1]["probes_sent"], &lines[1]["judge"]["source"]), (0, &json!(2), &json!("client")));
    let silent = file("silent.json", json!({"snapshot": null, "shadow": declines()}).to_string());
    let (code, lines) = client(&server, &["probe", "--session", "p", &silent]);
    assert_eq!((code, &lines[0]["failure"]), (1, &json!("snapshot")));

    let (code, lines) = client(&server, &["report", "--pack", "default", "p"]);
    assert_eq!(
        (code, &lines[0]["overall_verdict"], &lines[0]["probes_sent"]),
        (0, &json!("DRIFT_DETECTED"), &json!(2))
    );
    assert_eq!(client(&server, &["report", "--pack", "default", "nobody"]).0, 2);

    let (code, lines) = client(&server, &["watch", "--count", "2"]);
    let sessions: Vec<&Value> = lines.iter().map(|l| &l["signal"]["session_id"]).collect();
    assert_eq!((code, sessions), (0, vec![&json!("s"), &json!("p")]));
    let cursor = lines[0]["cursor"].to_string();
    let (_, lines) = client(&server, &["watch", "--cursor", &cursor, "--count", "1"]);
    assert_eq!(lines[0]["signal"]["session_id"], "p");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
}
