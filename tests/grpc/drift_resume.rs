//! Drift over a restart: sums, selection, stored answers and evaluations that wait for a baseline go on where they were.

use std::{collections::BTreeSet, time::Duration};

use probity::{
    audit::{SledStore, Store},
    grpc::wire::{DriftSignal, EvaluateRequest, GetSessionReportRequest, GetSessionReportResponse, ProbeStart},
};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::{
    drift::{
        Prober, alike, calibrate, declines, evaluate, finished, found, holds_marks, house_with, leaks, output, script,
        start, stored,
    },
    support::{House, reason},
};

async fn report(house: &House, session: &str) -> Result<GetSessionReportResponse, Status> {
    let ask = GetSessionReportRequest { session_id: session.to_owned(), pack: "default".to_owned() };
    house.engine().await.get_session_report(ask).await.map(|report| report.into_inner())
}

/// An answer that is near its type's threshold beside one that declines: it waits for a baseline.
fn near() -> Value {
    let mut near = declines();
    near["decision"] = json!("comply");
    near["policy_cited"] = json!(false);
    near
}

fn named(session: &str, request: &str, snapshot: &Value) -> EvaluateRequest {
    EvaluateRequest {
        request_id: request.to_owned(),
        judge_json: alike().to_string().into(),
        ..finished(session, snapshot, &declines())
    }
}

fn baseline(evaluation: &str, said: &Value) -> EvaluateRequest {
    EvaluateRequest {
        session_id: "s".to_owned(),
        pack: "default".to_owned(),
        evaluation_id: evaluation.to_owned(),
        baseline: Some(output(said)),
        ..EvaluateRequest::default()
    }
}

#[tokio::test]
async fn a_session_goes_on_exactly_as_one_that_was_never_interrupted() {
    let (mut house, unbroken) = (house_with(|_| {}).await, house_with(|_| {}).await);
    let steps = [leaks(), declines(), near(), json!({}), declines(), near(), leaks(), declines(), leaks(), near()];
    let (mut seen, mut expected): (Vec<DriftSignal>, Vec<DriftSignal>) = Default::default();
    for (n, step) in steps.iter().enumerate() {
        let name = format!("r{n}");
        seen.push(evaluate(&house, named("s", &name, step)).await);
        expected.push(evaluate(&unbroken, named("s", &name, step)).await);
        if n.is_multiple_of(3) {
            let before = report(&house, "s").await.unwrap();
            house.restart().await;
            assert_eq!(report(&house, "s").await.unwrap(), before);
        }
        // The first that waits is settled two steps and a restart later, the others not at all.
        if n == 4 {
            for (house, signals) in [(&house, &mut seen), (&unbroken, &mut expected)] {
                let settled = evaluate(house, baseline(&signals[2].evaluation_id, &near())).await;
                assert_eq!((settled.standing.as_str(), settled.settles), ("summary_anomaly", true));
                signals.push(settled);
            }
        }
    }
    house.restart().await;
    assert_eq!(report(&house, "s").await.unwrap(), report(&unbroken, "s").await.unwrap());
    // What the server names itself is another name each time.
    seen.iter_mut().chain(&mut expected).for_each(|signal| signal.evaluation_id.clear());
    assert_eq!(seen, expected);
    house.stop().await;
    assert!(!holds_marks(&String::from_utf8_lossy(&stored(house.data.path()))));
}

#[tokio::test]
async fn a_repeated_request_is_answered_and_a_baseline_settles_after_a_restart() {
    let mut house = house_with(|_| {}).await;
    let ask = named("s", "r1", &near());
    let first = evaluate(&house, ask.clone()).await;
    let other = evaluate(&house, named("s", "r2", &leaks())).await;
    house.restart().await;
    let records = house.service().status().unwrap().last_record;
    assert_eq!(evaluate(&house, ask.clone()).await, first);
    assert_eq!(evaluate(&house, named("s", "r2", &leaks())).await, other);
    assert_eq!(house.service().status().unwrap().last_record, records, "nothing was counted twice");
    let contradiction = EvaluateRequest { agent_id: "agent-2".to_owned(), ..ask.clone() };
    let refused = house.engine().await.evaluate(contradiction).await.unwrap_err();
    assert_eq!(reason(&refused).0, "OTHER_CONTENT");

    let settled = evaluate(&house, baseline(&first.evaluation_id, &declines())).await;
    assert_eq!(settled.triangulation.as_ref().unwrap().classification, "drift_signal");
    assert_eq!((settled.probes_sent, settled.evaluation_id.as_str()), (2, first.evaluation_id.as_str()));
    house.restart().await;
    assert_eq!(evaluate(&house, ask).await, settled, "as it was answered last");
    let again = house.engine().await.evaluate(baseline(&first.evaluation_id, &declines())).await.unwrap_err();
    assert_eq!(reason(&again).0, "NO_BASELINE_WANTED");
    let counted = report(&house, "s").await.unwrap();
    assert_eq!((counted.probes_sent, counted.probes_triangulated, counted.agent_id.as_str()), (2, 1, "agent-1"));
}

#[tokio::test]
async fn probes_are_chosen_on_from_where_the_session_was() {
    let mut house = house_with(|_| {}).await;
    let mut types = BTreeSet::new();
    for round in 1..=4 {
        let mut prober = Prober::open(house.engine().await).await;
        let chosen = ProbeStart { probe_id: String::new(), client_judge: false, ..start("s") };
        types.insert(found(prober.run(chosen, &script([])).await.unwrap()).probe_type);
        assert_eq!(types.len(), round, "each time the type that was asked least");
        drop(prober);
        house.restart().await;
    }
}

#[tokio::test]
async fn under_other_rules_a_session_begins_anew_and_what_was_kept_is_gone() {
    let mut house = house_with(|_| {}).await;
    for session in ["asked", "told"] {
        evaluate(&house, finished(session, &leaks(), &declines())).await;
    }
    house.stop().await;
    calibrate(house.rules.path());
    house.start_again().await;
    let unknown = report(&house, "asked").await.unwrap_err();
    assert_eq!((unknown.code(), reason(&unknown).0.as_str()), (Code::NotFound, "UNKNOWN_SESSION"));
    assert_eq!(evaluate(&house, finished("told", &declines(), &declines())).await.probes_sent, 1);
    assert_eq!(kept(&mut house).await, ["\ndefault@1\ntold"]);
}

#[tokio::test]
async fn what_is_kept_goes_with_the_idle_time_and_never_outgrows_its_bound() {
    let mut house = house_with(|settings| settings.session_ttl = Duration::from_millis(1_500)).await;
    for session in ["awake", "asleep"] {
        evaluate(&house, finished(session, &leaks(), &declines())).await;
    }
    house.restart().await;
    evaluate(&house, finished("awake", &leaks(), &declines())).await;
    assert_eq!(kept(&mut house).await.len(), 2);
    house.start_again().await;
    while report(&house, "awake").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(2_500)).await;
    }
    assert_eq!(report(&house, "asleep").await.unwrap_err().code(), Code::NotFound);
    assert_eq!(kept(&mut house).await, [""; 0]);

    house.change(|settings| settings.session_journal_bytes = 1_000);
    house.start_again().await;
    evaluate(&house, finished("s", &declines(), &declines())).await;
    assert_eq!(kept(&mut house).await.len(), 1);
    house.start_again().await;
    for _ in 0..20 {
        evaluate(&house, finished("s", &declines(), &declines())).await;
    }
    assert_eq!(kept(&mut house).await, [""; 0]);
}

/// The names of what is kept of sessions, read from the store of a server that is stopped for it.
async fn kept(house: &mut House) -> Vec<String> {
    house.stop().await;
    // Connections that are still closing hold the store open for a moment.
    let store = loop {
        match SledStore::open(&house.data.path().join("store"), 1 << 20) {
            Ok(store) => break store,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    store.journaled(None, 100).unwrap()
}
