//! Packs that keep answers encrypted: what is stored says nothing, and whoever reads leaves a record first.

use std::{fs, path::Path, process::Command, sync::Arc};

use probity::{
    config::Settings,
    grpc::wire::{EvaluateRequest, QueryRecordsRequest, RevealPayloadsRequest, RevealPayloadsResponse, record},
};
use serde_json::Value;
use tonic::{Code, Status};

use crate::{
    drift::{MARKS, alike, copy, declines, evaluate, finished, holds_marks, leaks, output, stored},
    support::{House, fields, reason},
};

const KEY_FILE: &str = "payload.keys";

fn key(id: &str, digit: char) -> String {
    format!("{id} {}\n", digit.to_string().repeat(64))
}

fn encrypted(settings: &mut Settings) {
    copy(Path::new("rules/default"), &settings.rules.path().join("default"));
    let rules = settings.rules.path().join("default/redaction.yaml");
    let text = fs::read_to_string(&rules).unwrap();
    assert!(text.contains("mode: text"));
    fs::write(rules, text.replace("mode: text", "mode: encrypted")).unwrap();
}

fn with_key(settings: &mut Settings) {
    encrypted(settings);
    settings.payload_key_file = settings.data.parent().unwrap().join(KEY_FILE);
    fs::write(&settings.payload_key_file, key("2026-01", 'a')).unwrap();
}

async fn reveal(house: &House, record: u64) -> Result<RevealPayloadsResponse, Status> {
    let ask = RevealPayloadsRequest {
        record,
        principal: "kim".to_owned(),
        reason: "case 7".to_owned(),
        ..Default::default()
    };
    house.audit_api().await.reveal_payloads(ask).await.map(tonic::Response::into_inner)
}

/// The numbers of the records of a session, with what they say.
async fn records(house: &House, session: &str) -> Vec<(u64, record::Body)> {
    let ask = QueryRecordsRequest { session_id: session.to_owned(), ..QueryRecordsRequest::default() };
    let page = house.audit_api().await.query_records(ask).await.unwrap().into_inner();
    page.records.into_iter().map(|r| (r.number, r.body.unwrap())).collect()
}

#[tokio::test]
async fn answers_are_read_with_the_key_and_every_reading_is_recorded() {
    let mut house = House::with(with_key).await;
    let signal = evaluate(&house, finished("s", &leaks(), &declines())).await;
    let answers = signal.answers.clone().unwrap();
    assert_eq!(answers.sealed_with, "2026-01");
    let shown: Value = serde_json::from_slice(&answers.snapshot_json).unwrap();
    assert_eq!((&shown["decision"], &shown["reasoning"]), (&"comply".into(), &"[REDACTED:TEXT]".into()));
    let before = records(&house, "s").await;
    assert!(!holds_marks(&format!("{signal:?} {before:?}")), "{before:?}");

    let (number, _) = before[0];
    let revealed = reveal(&house, number).await.unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&revealed.snapshot_json).unwrap(), leaks());
    assert_eq!(serde_json::from_slice::<Value>(&revealed.shadow_json).unwrap(), declines());
    assert!(revealed.baseline_json.is_empty());
    assert_eq!((revealed.session_id.as_str(), revealed.evaluation_id), ("s", signal.evaluation_id));
    let after = records(&house, "s").await;
    let [_, (reading, record::Body::PayloadReading(told))] = &after[..] else { panic!("{after:?}") };
    assert_eq!((*reading, told.record), (revealed.reading, number));
    assert_eq!((told.principal.as_str(), told.reason.as_str()), ("kim", "case 7"));

    house.stop().await;
    let bytes = stored(house.data.path());
    for mark in MARKS {
        assert!(!bytes.windows(mark.len()).any(|w| w == mark.as_bytes()), "{mark} is on disk");
    }
    let clear = leaks()["reasoning"].as_str().unwrap().as_bytes()[..12].to_vec();
    assert!(!bytes.windows(clear.len()).any(|w| w == clear));
}

#[tokio::test]
async fn a_baseline_that_comes_later_is_sealed_with_the_evaluation() {
    let house = House::with(with_key).await;
    let mut close = declines();
    (close["decision"], close["policy_cited"]) = ("comply".into(), false.into());
    let judged = EvaluateRequest { judge_json: alike().to_string().into(), ..finished("s", &close, &declines()) };
    let first = house.engine().await.evaluate(judged).await.unwrap().into_inner();
    assert!(first.needs_baseline);
    close["reasoning"] = MARKS[0].into();
    let later = EvaluateRequest {
        session_id: "s".to_owned(),
        pack: "default".to_owned(),
        evaluation_id: first.evaluation_id.clone(),
        baseline: Some(output(&close)),
        ..EvaluateRequest::default()
    };
    evaluate(&house, later).await;
    let told = records(&house, "s").await;
    let revealed = reveal(&house, told[1].0).await.unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&revealed.baseline_json).unwrap(), close);
    assert_eq!(serde_json::from_slice::<Value>(&revealed.shadow_json).unwrap(), declines());
    assert_eq!(revealed.evaluation_id, first.evaluation_id);
}

#[tokio::test]
async fn an_old_key_opens_what_it_sealed_and_another_does_not() {
    let mut house = House::with(with_key).await;
    evaluate(&house, finished("s", &leaks(), &declines())).await;
    let (number, _) = records(&house, "s").await[0];
    let keys = house.data.path().join(KEY_FILE);

    fs::write(&keys, key("2026-02", 'b') + &key("2026-01", 'a')).unwrap();
    house.restart().await;
    reveal(&house, number).await.unwrap();
    let signal = evaluate(&house, finished("t", &leaks(), &declines())).await;
    assert_eq!(signal.answers.unwrap().sealed_with, "2026-02");

    fs::write(&keys, key("2026-02", 'b')).unwrap();
    house.restart().await;
    let status = reveal(&house, number).await.unwrap_err();
    assert_eq!(reason(&status).0, "NO_PAYLOAD_KEY");
    assert!(status.message().contains("2026-01"), "{status}");

    fs::write(&keys, key("2026-01", 'c')).unwrap();
    house.restart().await;
    let status = reveal(&house, number).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).0.as_str()), (Code::DataLoss, "SEAL_BROKEN"));
    let readings = records(&house, "s").await.len() - 1;
    assert_eq!(readings, 1, "what was not read is no reading");
}

#[tokio::test]
async fn without_a_key_nothing_is_probed_and_nothing_is_read() {
    let house = House::with(encrypted).await;
    let status = house.engine().await.evaluate(finished("s", &leaks(), &declines())).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(reason(&status), ("NO_PAYLOAD_KEY".to_owned(), vec![("pack".to_owned(), "default".to_owned())]));
    assert!(records(&house, "s").await.is_empty());
}

#[tokio::test]
async fn a_reading_names_a_record_a_reader_and_a_reason() {
    let house = House::with(with_key).await;
    let ask =
        RevealPayloadsRequest { record: 1, principal: " ".to_owned(), reason: String::new(), ..Default::default() };
    let status = house.audit_api().await.reveal_payloads(ask).await.unwrap_err();
    assert_eq!(fields(&status), ["principal", "reason"]);
    // The first records say which packs serve.
    assert_eq!(reason(&reveal(&house, 1).await.unwrap_err()).0, "NOT_SEALED");
    for number in [0, 99] {
        let status = reveal(&house, number).await.unwrap_err();
        assert_eq!((status.code(), reason(&status).0.as_str()), (Code::NotFound, "UNKNOWN_RECORD"));
    }
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_read() {
    let store = Arc::new(probity::audit::FaultyStore::default());
    let house = House::over_with(store.clone(), with_key).await;
    evaluate(&house, finished("s", &leaks(), &declines())).await;
    let (number, _) = records(&house, "s").await[0];
    store.fail();
    let status = reveal(&house, number).await.unwrap_err();
    assert_eq!(reason(&status).0, "AUDIT_STORE_FAILED");
    assert!(!holds_marks(&format!("{status:?}")), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_reads_a_record_and_says_so() {
    let house = House::with(with_key).await;
    evaluate(&house, finished("s", &leaks(), &declines())).await;
    let (number, _) = records(&house, "s").await[0];
    let client = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
        let server = house.address();
        command.env_clear().args(["client", "--server", &server, "reveal", "--format", "json"]).args(args);
        let ran = command.output().unwrap();
        (ran.status.code().unwrap(), serde_json::from_slice::<Value>(&ran.stdout).unwrap_or(Value::Null))
    };
    let record = number.to_string();
    let (code, line) = client(&["--principal", "kim", "--reason", "case 7", &record]);
    assert_eq!((code, &line["answers"]["snapshot"]), (0, &leaks()));
    assert_eq!((&line["reading"], &line["answers"]["baseline"]), (&(number + 1).into(), &Value::Null));
    assert_eq!(client(&["--principal", "kim", "--reason", "case 7", "1"]).0, 2);
    assert_eq!(client(&[&record]).0, 2, "a reader and a reason are needed");
}
