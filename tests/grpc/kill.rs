//! A server that is killed under load: what it acknowledged is in its store, once, the chain is whole, and sessions go
//! on where they were.

use std::{
    collections::{BTreeMap, HashMap},
    io::{BufRead, BufReader},
    ops::ControlFlow,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use probity::{
    audit::{Body, SledStore, Span, Store, StoreError, TallyKey, Trust, scan, verify_store},
    grpc::wire::policy_engine_client::PolicyEngineClient,
};

use tonic::Code;

use crate::support::{GUARD, connect, items, pays, request, write_pack};

const CALLERS: usize = 8;

/// The address that a server tells once it serves.
pub fn address(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.trim().rsplit(' ').next().unwrap().to_owned()
}

/// The store of a server that has just ended.
pub fn open_stopped(data: &Path) -> SledStore {
    for _ in 0..200 {
        match SledStore::open(data, 1 << 20) {
            Err(StoreError::Locked { .. }) => std::thread::sleep(Duration::from_millis(20)),
            opened => return opened.unwrap(),
        }
    }
    panic!("the store stays locked");
}

pub fn serve(rules: &Path, data: &Path, durability: &str) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--audit-durability", durability])
        .args(["--audit-checkpoint-every", "50", "--rules"])
        .arg(rules)
        .arg("--data")
        .arg(data)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let address = address(&mut child);
    (child, address)
}

/// Sends items until the server is gone, from the first on that was not acknowledged; notes the last seq that was,
/// plus one. The session goes on where it was: its hits are counted on.
async fn load(address: String, session: String, acknowledged: Arc<AtomicU64>) {
    let mut engine = PolicyEngineClient::new(connect(&address).await);
    for seq in acknowledged.load(Ordering::SeqCst).. {
        let answer = match engine.observe(request(&session, items(seq, [pays(&[500])]))).await {
            Ok(answer) => answer.into_inner(),
            Err(status) if status.code() == Code::FailedPrecondition => panic!("{status:?}"),
            Err(_) => return,
        };
        assert_eq!((answer.results[0].hits.len(), u64::from(answer.results[0].hits[0].n)), (1, seq));
        acknowledged.store(seq + 1, Ordering::SeqCst);
    }
}

/// A server under load that ends as `end` says. Half of the sessions are new, the others those of the round before.
/// Adds up what was acknowledged of each session.
async fn round(
    rules: &Path,
    data: &Path,
    number: u64,
    sessions: &mut BTreeMap<String, u64>,
    end: impl FnOnce(&mut Child),
) {
    // Both levels promise as much where only the process ends.
    let (mut child, address) = serve(rules, data, if number.is_multiple_of(2) { "disk" } else { "process" });
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let since = if caller % 2 == 0 { number } else { 0 };
        let session = format!("since-{since}-caller-{caller}");
        let acknowledged = Arc::new(AtomicU64::new(sessions.get(&session).copied().unwrap_or_default()));
        let task = tokio::spawn(load(address.clone(), session.clone(), acknowledged.clone()));
        callers.push((session.clone(), acknowledged, sessions.get(&session).copied().unwrap_or_default(), task));
    }
    // Until each caller has an answer, and somewhat longer: the end comes in full flight.
    while callers.iter().any(|(_, n, before, task)| n.load(Ordering::SeqCst) < before + 2 && !task.is_finished()) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(Duration::from_micros(number.wrapping_mul(7_919) % 90_000)).await;
    end(&mut child);
    child.wait().unwrap();
    for (session, acknowledged, _, task) in callers {
        task.await.unwrap();
        sessions.insert(session, acknowledged.load(Ordering::SeqCst));
    }
}

/// How many records of a session may be there beyond the acknowledged ones.
fn check(store: &SledStore, expected: &BTreeMap<String, u64>, beyond: u64) -> u64 {
    let mut stored: HashMap<String, Vec<u64>> = HashMap::new();
    let mut numbers = Vec::new();
    scan(store, 1, |record| {
        numbers.push(record.number);
        if let Body::Judged(judged) = record.body {
            assert_eq!(judged.hits.len(), 1);
            stored.entry(judged.session.to_string()).or_default().push(judged.seq);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "no number is missing or given twice");
    let mut total = 0;
    for (session, acknowledged) in expected {
        let seqs = &stored[session];
        assert_eq!(*seqs, (0..seqs.len() as u64).collect::<Vec<_>>(), "{session}");
        assert!(seqs.len() as u64 >= *acknowledged, "{session}: {acknowledged} acknowledged, {} stored", seqs.len());
        assert!(seqs.len() as u64 <= acknowledged + beyond, "{session}");
        let key = TallyKey { pack: "guard".into(), span: Span::Session(session.as_str().into()), policy: "P01".into() };
        assert_eq!(store.tally(&key).unwrap().hits, seqs.len() as u64, "counters and records change together");
        total += acknowledged;
    }
    // The chain is whole, and counters are those that the records tell of.
    let verified = verify_store(store, Trust::default()).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
    assert!(verified.checkpoints > 0);
    total
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_decision_survives_a_kill() {
    let (rules, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_pack(rules.path(), "guard", "1.0.0", GUARD);
    let rounds = std::env::var("PROBITY_KILL_ROUNDS").ok().map_or(10, |n| n.parse().unwrap());
    let mut expected = BTreeMap::new();
    for number in 0..rounds {
        round(rules.path(), data.path(), number, &mut expected, |child| child.kill().unwrap()).await;
        if number % 50 == 49 {
            check(&open_stopped(data.path()), &expected, 1);
        }
    }
    // One more a session at most: judged and stored, and killed before the answer left.
    let total = check(&open_stopped(data.path()), &expected, 1);
    println!("{total} acknowledged decisions over {rounds} kills, all stored, the chain whole");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orderly_end_under_load_acknowledges_just_what_it_stores() {
    let (rules, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_pack(rules.path(), "guard", "1.0.0", GUARD);
    let mut expected = BTreeMap::new();
    round(rules.path(), data.path(), 0, &mut expected, |child| {
        let ended = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(ended.unwrap().success());
    })
    .await;
    check(&open_stopped(data.path()), &expected, 0);
}
