//! Answers that cannot be redacted: a tombstone leaves, and nothing else of them.

use std::path::Path;

use probity::grpc::wire::QueryRecordsRequest;
use serde_json::{Value, json};

use crate::{
    drift::{MARKS, copy, declines, evaluate, finished, holds_marks, leaks, stored},
    support::House,
};

/// JSON in strings of JSON, deeper than the rules look.
fn buried() -> Value {
    let mut said = leaks()["reasoning"].clone();
    for _ in 0..6 {
        said = json!({ "said": said.to_string() });
    }
    let mut answer = leaks();
    answer["reasoning"] = json!(said.to_string());
    answer
}

#[tokio::test]
async fn what_cannot_be_redacted_leaves_as_a_tombstone() {
    let mut house =
        House::with(|settings| copy(Path::new("rules/default"), &settings.rules.path().join("default"))).await;
    let signal = evaluate(&house, finished("s", &buried(), &declines())).await;
    let answers = signal.answers.clone().unwrap();
    let shown: Value = serde_json::from_slice(&answers.snapshot_json).unwrap();
    assert!(shown["reasoning"].as_str().unwrap().contains("[REDACTED:FAILED]"), "{shown}");
    assert!(signal.escape_detected, "it counts all the same");
    let page = house.audit_api().await.query_records(QueryRecordsRequest::default()).await.unwrap().into_inner();
    assert!(!holds_marks(&format!("{signal:?} {page:?}")), "{signal:?}");
    house.stop().await;
    let bytes = stored(house.data.path());
    assert!(MARKS.iter().all(|mark| !bytes.windows(mark.len()).any(|w| w == mark.as_bytes())));
}
