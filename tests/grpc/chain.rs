//! The hash chain as its keepers see it: over gRPC while the server runs, on the command line once it is stopped.

use std::{fs, path::Path, process::Command};

use data_encoding::HEXLOWER;
use probity::{
    audit::{
        BatchBuilder, CheckpointKey, Draft, ExportError, Head, SledStore, Store, StoreId, Trust, end_line, entries,
        head_line, record_line, verify_export,
    },
    grpc::wire::{
        CloseSessionRequest, ErasePayloadsRequest, ExportRequest, GetPolicyStatsRequest, GetSessionRequest,
        JudgedOutcome, Mode, PruneRequest, QueryRecordsRequest, SessionState, VerifyRequest, record::Body,
    },
    model::Digest,
};
use serde_json::Value;
use tonic::Code;

use crate::{
    drift::{copy, declines, evaluate, finished, leaks},
    support::{House, end, fields, items, pays, reason, request, user},
};

/// A server with some judgements, of two sessions, and a drift signal.
async fn lived_in() -> House {
    let house = House::with(|settings| copy(Path::new("rules/default"), &settings.rules.path().join("default"))).await;
    let mut engine = house.engine().await;
    for session in ["a", "b"] {
        let bodies = [user("hello"), pays(&[500]), pays(&[60]), pays(&[700]), end()];
        let mut ask = request(session, items(0, bodies));
        ask.agent_id = "agent-7".to_owned();
        engine.observe(ask).await.unwrap();
    }
    evaluate(&house, finished("probed", &leaks(), &declines())).await;
    house
}

#[tokio::test]
async fn a_session_is_known_by_what_is_recorded_of_it() {
    let mut house = lived_in().await;
    let get = async |house: &House, id: &str| {
        let ask = GetSessionRequest { session_id: id.to_owned() };
        house.audit_api().await.get_session(ask).await.map(|answer| answer.into_inner().session.unwrap())
    };
    let ended = get(&house, "a").await.unwrap();
    assert_eq!((ended.state(), ended.mode(), ended.items), (SessionState::Ended, Mode::Gate, 5));
    assert_eq!(
        (ended.agent_id.as_str(), ended.pack.as_str(), ended.pack_version.as_str()),
        ("agent-7", "guard", "1.0.0")
    );
    assert_eq!((ended.stats[0].policy.as_str(), ended.stats[0].hits), ("P01", 2));
    assert!(ended.first_record < ended.last_record && ended.first_time.is_some() && ended.last_time.is_some());
    // Two packs know of this one: the one that judges it is told.
    let probed = get(&house, "probed").await.unwrap();
    assert_eq!((probed.pack.as_str(), probed.items, probed.evaluations), ("default", 0, 1));
    house.engine().await.observe(request("probed", items(0, [pays(&[500])]))).await.unwrap();
    let probed = get(&house, "probed").await.unwrap();
    assert_eq!((probed.pack.as_str(), probed.items, probed.evaluations), ("guard", 1, 1));
    assert_eq!(probed.state(), SessionState::Open);
    // It can go on after a restart, until it is closed.
    house.restart().await;
    assert_eq!(get(&house, "probed").await.unwrap().state(), SessionState::Open);
    let close = CloseSessionRequest { session_id: "probed".to_owned(), request_id: String::new() };
    house.engine().await.close_session(close).await.unwrap();
    let closed = get(&house, "probed").await.unwrap();
    assert_eq!((closed.state(), closed.close_reason.as_str()), (SessionState::Closed, "asked"));
    let unknown = get(&house, "nobody").await.unwrap_err();
    assert_eq!((unknown.code(), reason(&unknown).0.as_str()), (Code::NotFound, "UNKNOWN_SESSION"));
    assert_eq!(fields(&get(&house, "").await.unwrap_err()), ["session_id"]);
}

async fn export(house: &House, first: u64) -> Vec<String> {
    let ask = ExportRequest { first_record: first };
    let mut parts = house.audit_api().await.export(ask).await.unwrap().into_inner();
    let mut lines = Vec::new();
    while let Some(part) = parts.message().await.unwrap() {
        lines.extend(part.lines);
    }
    lines
}

fn faults(lines: &[String]) -> Vec<String> {
    let lines = lines.iter().cloned().map(Ok::<_, ExportError>);
    let verified = verify_export(lines, Trust::default(), |_| Ok(()), |_, _| Ok(())).unwrap();
    verified.faults.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_running_server_verifies_exports_erases_and_prunes() {
    let house = lived_in().await;
    let mut audit = house.audit_api().await;
    let verified = audit.verify(VerifyRequest::default()).await.unwrap().into_inner();
    assert!(verified.whole, "{verified:?}");
    // Two packs, ten items, a signal.
    assert_eq!((verified.first_record, verified.last_record), (1, 13));

    let lines = export(&house, 0).await;
    assert_eq!(lines.len(), 15);
    assert_eq!(faults(&lines), [""; 0]);
    let part = export(&house, 5).await;
    assert_eq!((part.len(), faults(&part).len()), (11, 0));
    assert_eq!(part[1], lines[5]);

    let erase = ErasePayloadsRequest { session_id: "probed".to_owned(), request_id: "e1".to_owned() };
    assert_eq!(audit.erase_payloads(erase.clone()).await.unwrap().into_inner().record, 14);
    // The same request again is the same, and another one under its name is refused.
    assert_eq!(audit.erase_payloads(erase.clone()).await.unwrap().into_inner().record, 14);
    let other = ErasePayloadsRequest { session_id: "a".to_owned(), ..erase };
    let other = audit.erase_payloads(other).await.unwrap_err();
    assert_eq!((other.code(), reason(&other).0.as_str()), (Code::FailedPrecondition, "OTHER_CONTENT"));
    let about = QueryRecordsRequest { session_id: "probed".to_owned(), ..Default::default() };
    let records = audit.query_records(about).await.unwrap().into_inner().records;
    let Some(Body::Drift(signal)) = &records[0].body else { panic!("{records:?}") };
    assert!(records[0].payload_erased && signal.escape_detected);
    let verified = audit.verify(VerifyRequest::default()).await.unwrap().into_inner();
    assert_eq!((verified.whole, verified.erased_payloads), (true, 1));

    // Each request was a commit of its own, so its block goes as a whole.
    let named = PruneRequest { first_kept_record: 9, request_id: "p".to_owned() };
    let pruned = audit.prune(named.clone()).await.unwrap().into_inner();
    assert_eq!(audit.prune(named).await.unwrap().into_inner(), pruned, "told again and done once");
    assert_eq!(pruned.first_record, 8);
    let lines = export(&house, 0).await;
    // With the records of erasing and pruning, the head and the end.
    assert_eq!((lines.len(), faults(&lines).len()), (10, 0));
    let verified = audit.verify(VerifyRequest::default()).await.unwrap().into_inner();
    assert_eq!((verified.whole, verified.first_record), (true, 8));

    let kinds = audit.query_records(QueryRecordsRequest::default()).await.unwrap().into_inner().records;
    let kinds: Vec<_> = kinds.iter().filter(|record| record.number >= 14).collect();
    assert!(matches!(&kinds[0].body, Some(Body::PayloadsErased(erased)) if erased.session_id == "probed"));
    assert!(matches!(&kinds[1].body, Some(Body::RecordsPruned(pruned)) if pruned.first_record == 8));

    let bad = VerifyRequest { checkpoints: vec!["{}".to_owned()], public_key: "ab".to_owned() };
    let bad = audit.verify(bad).await.unwrap_err();
    assert_eq!((bad.code(), fields(&bad)), (Code::InvalidArgument, vec!["checkpoints[0]".into(), "public_key".into()]));
}

#[tokio::test]
async fn records_are_asked_for_by_outcome_action_and_time() {
    let house = lived_in().await;
    let mut audit = house.audit_api().await;
    let mut count = async |query: QueryRecordsRequest| {
        audit.query_records(query).await.unwrap().into_inner().records.iter().map(|r| r.number).collect::<Vec<_>>()
    };
    let outcome = |outcome: JudgedOutcome| QueryRecordsRequest { outcome: outcome.into(), ..Default::default() };
    assert_eq!(count(outcome(JudgedOutcome::Hit)).await, [4, 6, 9, 11]);
    assert_eq!(count(outcome(JudgedOutcome::Denied)).await, [4, 6, 9, 11]);
    assert_eq!(count(outcome(JudgedOutcome::Reviewed)).await, [5, 10]);
    assert_eq!(count(outcome(JudgedOutcome::Signal)).await, [4, 5, 6, 9, 10, 11]);
    assert_eq!(count(outcome(JudgedOutcome::Undecided)).await, [0; 0]);
    let of_b = QueryRecordsRequest { session_id: "b".to_owned(), ..outcome(JudgedOutcome::Hit) };
    assert_eq!(count(of_b).await, [9, 11]);
    let policy = QueryRecordsRequest { pack: "guard".to_owned(), policy: "P01".to_owned(), ..Default::default() };
    assert_eq!(count(policy).await, [4, 6, 9, 11]);
    let all = count(QueryRecordsRequest::default()).await;
    let later = prost_types::Timestamp { seconds: 4_000_000_000, nanos: 0 };
    assert_eq!(count(QueryRecordsRequest { start_time: Some(later), ..Default::default() }).await, [0; 0]);
    assert_eq!(count(QueryRecordsRequest { end_time: Some(later), ..Default::default() }).await, all);
    let bad = QueryRecordsRequest { outcome: 77, action: 77, ..Default::default() };
    let bad = house.audit_api().await.query_records(bad).await.unwrap_err();
    assert_eq!(fields(&bad), ["outcome", "action"]);

    let ask = GetPolicyStatsRequest { pack: "guard".to_owned(), span: None };
    let stats = house.audit_api().await.get_policy_stats(ask).await.unwrap().into_inner().stats;
    let p01 = stats.iter().find(|s| s.policy == "P01").unwrap();
    // Paid 1 and 1/2 in each of two sessions.
    assert_eq!((p01.hits, p01.sessions_with_hits, p01.violation_reward), (4, 2, 3.0));
    assert!(p01.last_hit_time.is_some());
}

/// Runs `probity audit`; gives the exit code, the report as JSON, and what was said on standard error.
fn audit(args: &[&str]) -> (i32, Value, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(["audit", "--format", "json"])
        .args(args)
        .env_remove("PROBITY_DATA")
        .output()
        .unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    let json = serde_json::from_str(out.lines().next().unwrap_or("null")).unwrap();
    (ran.status.code().unwrap(), json, String::from_utf8(ran.stderr).unwrap())
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_find_what_was_changed_cut_and_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let (key_file, kept) = (folder.path().join("key"), folder.path().join("checkpoints.jsonl"));
    let (code, made, _) = audit(&["key", key_file.to_str().unwrap()]);
    assert_eq!(code, 0);
    let public = made["public_key"].as_str().unwrap().to_owned();
    assert_eq!(audit(&["key", key_file.to_str().unwrap()]).1, made, "made once");
    let mut house = House::with(|settings| {
        settings.audit_checkpoint_key_file = key_file.clone();
        settings.audit_checkpoint_file = kept.clone();
    })
    .await;
    let data = house.data.path().join("store");
    let data = data.to_str().unwrap();
    let judge = async |house: &House, session: &str| {
        house.engine().await.observe(request(session, items(0, [user("a"), pays(&[500])]))).await.unwrap();
    };
    judge(&house, "a").await;
    // A running server is asked, and its folder is not touched.
    let (code, report, _) = audit(&["verify", "--server", &house.address()]);
    assert_eq!((code, &report["whole"]), (0, &Value::Bool(true)));
    let (code, _, err) = audit(&["verify", "--data", data]);
    assert!(code == 3 && err.contains("--server"), "{code} {err}");

    house.stop().await;
    let early = folder.path().join("early");
    copy(Path::new(data), &early);
    house.start_again().await;
    judge(&house, "b").await;
    house.stop().await;
    let kept = kept.to_str().unwrap();
    let strict = ["--checkpoints", kept, "--public-key", &public];
    let verify = |data: &str| audit(&[["verify", "--data", data].as_slice(), &strict].concat());
    let (code, report, err) = loop {
        // Connections that are still closing hold the store open for a moment.
        let (code, report, err) = verify(data);
        if !err.contains("is open in another process") {
            break (code, report, err);
        }
    };
    assert_eq!(code, 0, "{report} {err}");
    assert_eq!((&report["confirmed_checkpoints"], &report["signed_checkpoints"]), (&2.into(), &2.into()));

    // The folder as it was earlier is whole in itself.
    let early = early.to_str().unwrap();
    assert_eq!(audit(&["verify", "--data", early]).0, 0);
    let (code, report, _) = verify(early);
    assert_eq!(code, 1);
    assert!(
        texts(&report["faults"])[0].ends_with("a checkpoint from elsewhere tells of them, and the chain ends before")
    );
    let other = CheckpointKey::new([1; 32]).public().map(|byte| format!("{byte:02x}")).concat();
    let (code, report, _) = audit(&["verify", "--data", data, "--checkpoints", kept, "--public-key", &other]);
    assert!(code == 1 && texts(&report["faults"])[0].contains("not signed by the key"), "{report}");

    // Counters, statistics, an export and a store made anew from it.
    let (code, stats, _) = audit(&["stats", "--data", data, "--pack", "guard"]);
    assert_eq!((code, &stats["hits"], &stats["sessions_with_hits"]), (0, &2.into(), &2.into()));
    let exported =
        Command::new(env!("CARGO_BIN_EXE_probity")).args(["audit", "export", "--data", data]).output().unwrap();
    let lines = folder.path().join("records.jsonl");
    fs::write(&lines, &exported.stdout).unwrap();
    let lines = lines.to_str().unwrap();
    assert_eq!(audit(&[["verify", "--export", lines].as_slice(), &strict].concat()).0, 0);
    let anew = folder.path().join("anew");
    let anew = anew.to_str().unwrap();
    let (code, made, err) = audit(&["rebuild", "--data", anew, lines]);
    assert_eq!((code, &made["first_record"]), (0, &1.into()), "{err}");
    assert_eq!(verify(anew).0, 0);
    assert_eq!(audit(&["stats", "--data", anew, "--pack", "guard"]).1, stats);
    let (code, _, err) = audit(&["rebuild", "--data", anew, lines]);
    assert!(code == 3 && err.contains("already"), "{err}");

    // What was written anew behind the last checkpoint is not what was recorded.
    let text = String::from_utf8(exported.stdout).unwrap();
    let behind = folder.path().join("behind.jsonl");
    fs::write(&behind, behind_all_checkpoints(&text)).unwrap();
    let behind = behind.to_str().unwrap();
    let (code, report, _) = audit(&["verify", "--export", behind]);
    assert_eq!((code, &report["first_record"]), (0, &1001.into()), "{report}");
    let (code, report, _) = audit(&[["verify", "--export", behind].as_slice(), &strict].concat());
    assert_eq!((code, &report["confirmed_checkpoints"]), (1, &0.into()));
    let said = texts(&report["faults"]);
    assert!(said[0].starts_with("none of the 2 checkpoints from elsewhere lies on the chain"), "{said:?}");
    assert!(said[1].starts_with("no checkpoint that the chain goes through"), "{said:?}");

    // An export that is cut leaves nothing behind; one that was pruned is no way to get counters back.
    let pruned = folder.path().join("pruned");
    let pruned = pruned.to_str().unwrap();
    let (whole, cut) = (fs::read_to_string(lines).unwrap(), folder.path().join("cut.jsonl"));
    fs::write(&cut, whole.lines().take(4).collect::<Vec<_>>().join("\n")).unwrap();
    let (code, _, err) = audit(&["rebuild", "--data", pruned, cut.to_str().unwrap()]);
    assert!(code == 2 && err.contains("the export is cut"), "{code} {err}");
    assert!(!Path::new(pruned).exists());
    let (code, made, err) = audit(&["rebuild", "--data", pruned, behind]);
    assert_eq!((code, &made["first_record"]), (0, &1001.into()), "{err}");
    assert!(err.starts_with("warning: the export begins with record 1001, and counters are not in it"), "{err}");

    // One byte of one record, in the store and in the export.
    change_a_judgement(Path::new(anew));
    let (code, report, _) = audit(&["verify", "--data", anew]);
    assert_eq!((code, texts(&report["faults"])), (1, vec!["record 3 was changed, or its link was"]));
    fs::write(lines, text.replacen("\"policy\":\"P01\"", "\"policy\":\"P02\"", 1)).unwrap();
    let (code, report, _) = audit(&["verify", "--export", lines]);
    assert_eq!((code, texts(&report["faults"])), (1, vec!["what is shown of record 3 is not what its bytes say"]));
    let (code, _, err) = audit(&["verify", "--data", folder.path().to_str().unwrap()]);
    assert!(code == 2 && err.contains("no audit store"), "{code} {err}");
}

/// An export of nothing that was recorded, behind a base that no checkpoint tells of.
fn behind_all_checkpoints(export: &str) -> String {
    let store = serde_json::from_str::<Value>(export.lines().next().unwrap()).unwrap()["store"].take();
    let store = StoreId::new(HEXLOWER.decode(store.as_str().unwrap().as_bytes()).unwrap().try_into().unwrap());
    let base = Head { store, last: 1000, link: Digest::new([7; 32]) };
    let mut builder = BatchBuilder::new(base, [1; 32]);
    builder.push(&Draft::Erased { session: "a".into() }, 1_700_000_000_000);
    let batch = builder.finish();
    let (_, forged) = entries(&batch.blocks[0].bytes).unwrap();
    [head_line(base), record_line(&forged[0], None).unwrap(), end_line(batch.after)].join("\n")
}

/// Turns the policy of the first hit into another one, in the bytes of its block.
fn change_a_judgement(folder: &Path) {
    assert!(SledStore::open(folder, 1 << 20).unwrap().last().unwrap() > 0);
    let db = sled::open(folder.join("store-1")).unwrap();
    for entry in db.scan_prefix(b"b") {
        let (key, mut bytes) = entry.map(|(key, bytes)| (key, bytes.to_vec())).unwrap();
        if let Some(at) = bytes.windows(3).position(|w| w == b"P01") {
            bytes[at + 2] = b'2';
            db.insert(key, bytes).unwrap();
            db.flush().unwrap();
            return;
        }
    }
    panic!("no hit is stored");
}
