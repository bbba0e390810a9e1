//! A disk that is full, and a folder that cannot be written: a clear error, nothing that was answered lost, and service
//! again, in the same process, once there is room.

use std::{
    ops::ControlFlow,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use probity::{
    audit::{Body, SledStore, Trust, scan, verify_store},
    grpc::wire::policy_engine_client::PolicyEngineClient,
};
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{
    kill::{address, open_stopped},
    support::{GUARD, connect, items, pays, reason, request, write_pack},
};

/// A server whose files may grow to so many KiB.
fn serve(rules: &Path, data: &Path, kib: u64) -> (Child, String) {
    let program = env!("CARGO_BIN_EXE_probity");
    let mut child = Command::new("bash")
        .args(["-c", &format!("ulimit -S -f {kib}; exec \"$@\""), "bash", program])
        .args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--rules"])
        .arg(rules)
        .arg("--data")
        .arg(data)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let address = address(&mut child);
    (child, address)
}

/// The items that records tell of, in their order.
fn judged(store: &SledStore) -> Vec<u64> {
    let mut seqs = Vec::new();
    scan(store, 1, |record| {
        if let Body::Judged(judged) = record.body {
            seqs.push(judged.seq);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    seqs
}

async fn serving(address: &str) -> i32 {
    let ask = HealthCheckRequest { service: String::new() };
    HealthClient::new(connect(address).await).check(ask).await.unwrap().into_inner().status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_told_loses_nothing_and_is_outlasted() {
    let (rules, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_pack(rules.path(), "guard", "1.0.0", GUARD);
    let kib = std::env::var("PROBITY_DISK_KIB").ok().map_or(2_048, |kib| kib.parse().unwrap());
    let (mut child, address) = serve(rules.path(), data.path(), kib);
    let mut engine = PolicyEngineClient::new(connect(&address).await);
    let mut acknowledged = 0;
    let refused = loop {
        // Many records at once, so that the file grows fast.
        let bodies = std::iter::repeat_with(|| pays(&[500; 20])).take(200);
        match engine.observe(request("s", items(acknowledged, bodies))).await {
            Ok(answer) => acknowledged += answer.into_inner().results.len() as u64,
            Err(status) => break status,
        }
        assert!(acknowledged < 200_000, "the limit on the file's size has no effect");
    };
    assert_eq!((refused.code(), reason(&refused).0.as_str()), (Code::Unavailable, "AUDIT_STORE_FAILED"));
    while serving(&address).await == 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Room again, for the same process.
    let raised =
        Command::new("prlimit").arg(format!("--pid={}", child.id())).arg("--fsize=unlimited:unlimited").status();
    assert!(raised.unwrap().success());
    let bodies = std::iter::repeat_with(|| pays(&[500; 20])).take(200);
    let ask = request("s", items(acknowledged, bodies));
    let mut tries = 0;
    let answer = loop {
        tries += 1;
        assert!(tries < 1_000, "the store does not work again");
        match engine.observe(ask.clone()).await {
            Ok(answer) => break answer.into_inner(),
            Err(status) => assert_eq!(status.code(), Code::Unavailable),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    acknowledged += answer.results.len() as u64;
    while serving(&address).await != 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let store = open_stopped(data.path());
    assert_eq!(judged(&store), (0..acknowledged).collect::<Vec<_>>());
    let verified = verify_store(&store, Trust::default()).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
}

#[test]
fn a_folder_that_cannot_be_written_stops_the_start_and_says_so() {
    let (rules, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_pack(rules.path(), "guard", "1.0.0", GUARD);
    // A file where the folder should be: that holds for root too, who may write anywhere.
    let path = data.path().join("store");
    std::fs::write(&path, "").unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(["serve", "--listen", "127.0.0.1:0", "--rules"])
        .arg(rules.path())
        .arg("--data")
        .arg(&path)
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(3), "{err}");
    assert!(err.contains("cannot be opened") && err.contains(&path.display().to_string()), "{err}");
    assert!(SledStore::open(&path, 1 << 20).is_err());
}

/// Runs the program to its end; gives its code and what it said.
fn probity(args: &[&str]) -> (Option<i32>, String, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_probity")).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_store_is_refused_or_set_aside_and_what_was_exported_takes_its_place() {
    let (rules, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_pack(rules.path(), "guard", "1.0.0", GUARD);
    let folder = data.path().join("data");
    let (rules, path) = (rules.path().to_str().unwrap(), folder.to_str().unwrap());
    let (mut child, address) = serve(Path::new(rules), &folder, 1 << 20);
    let mut engine = PolicyEngineClient::new(connect(&address).await);
    engine.observe(request("s", items(0, [pays(&[500]), pays(&[20])]))).await.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    drop(open_stopped(&folder));
    let (code, export, err) = probity(&["audit", "export", "--data", path]);
    assert_eq!(code, Some(0), "{err}");
    let exported = data.path().join("export.jsonl");
    std::fs::write(&exported, export).unwrap();
    let (code, said, err) = probity(&["audit", "compact", "--data", path]);
    assert!(code == Some(0) && said.contains("bytes before"), "{said}{err}");

    // The last block is gone, and the head still tells of it.
    let store = std::fs::read_to_string(folder.join("store.current")).unwrap();
    assert_eq!(store, "store-2\n");
    let db = sled::open(folder.join(store.trim())).unwrap();
    let (last, _) = db.scan_prefix(b"b").next_back().unwrap().unwrap();
    db.remove(last).unwrap();
    drop(db);
    let serve_args = ["serve", "--listen", "127.0.0.1:0", "--rules", rules, "--data", path];
    let (code, _, err) = probity(&serve_args);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("damaged") && err.contains("audit set-aside") && err.contains("audit rebuild"), "{err}");
    assert!(folder.join("store-2").exists());

    let mut child = Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(serve_args)
        .args(["--log", "off", "--audit-when-damaged", "set-aside"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let anew = self::address(&mut child);
    let mut engine = PolicyEngineClient::new(connect(&anew).await);
    engine.observe(request("s", items(0, [pays(&[500])]))).await.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let store = open_stopped(&folder);
    let mut first = None;
    scan(&store, 1, |record| {
        first = Some(record.body);
        ControlFlow::Break(())
    })
    .unwrap();
    let Some(Body::SetAside(aside)) = first else { panic!("{first:?}") };
    assert!(&*aside.folder == "damaged-1" && aside.reason.contains("its head is at record"), "{aside:?}");
    drop(store);

    // What was exported before takes the place of both.
    let (code, _, err) = probity(&["audit", "set-aside", "--data", path]);
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = probity(&["audit", "rebuild", "--data", path, exported.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{err}");
    let store = open_stopped(&folder);
    assert!(verify_store(&store, Trust::default()).unwrap().is_whole());
    assert_eq!(judged(&store), [0, 1]);
}
