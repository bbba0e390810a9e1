//! A server that is killed under load: what it acknowledged is in its store.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use probity::{
    audit::{Body, SledStore, scan},
    grpc::wire::policy_engine_client::PolicyEngineClient,
};

use crate::support::{GUARD, connect, items, pays, request, write_pack};

const CALLERS: usize = 8;

fn serve(rules: &Path, data: &Path) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--rules"])
        .arg(rules)
        .arg("--data")
        .arg(data)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap().to_owned();
    (child, address)
}

/// Sends items until the server is gone; notes the last seq that was acknowledged, plus one.
async fn load(address: String, session: String, acknowledged: Arc<AtomicU64>) {
    let mut engine = PolicyEngineClient::new(connect(&address).await);
    for seq in 0.. {
        let Ok(answer) = engine.observe(request(&session, items(seq, [pays(&[500])]))).await else { return };
        assert_eq!(answer.into_inner().results[0].hits.len(), 1);
        acknowledged.store(seq + 1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_decision_survives_a_kill() {
    let (rules, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_pack(rules.path(), "guard", "1.0.0", GUARD);
    let mut expected: Vec<(String, u64)> = Vec::new();
    for round in 0..3 {
        let (mut child, address) = serve(rules.path(), data.path());
        let mut callers = Vec::new();
        for caller in 0..CALLERS {
            let acknowledged = Arc::new(AtomicU64::new(0));
            let session = format!("round-{round}-caller-{caller}");
            let task = tokio::spawn(load(address.clone(), session.clone(), acknowledged.clone()));
            callers.push((session, acknowledged, task));
        }
        // Until each caller has an answer, and somewhat longer: the kill comes in full flight.
        while callers.iter().any(|(_, n, _)| n.load(Ordering::SeqCst) < 5) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(150 + 70 * round)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        for (session, acknowledged, task) in callers {
            task.await.unwrap();
            expected.push((session, acknowledged.load(Ordering::SeqCst)));
        }
    }

    let store = SledStore::open(data.path(), 1 << 20).unwrap();
    let mut stored: std::collections::HashMap<String, Vec<u64>> = std::collections::HashMap::new();
    let mut numbers = Vec::new();
    scan(&store, 1, |record| {
        numbers.push(record.number);
        if let Body::Judged(judged) = record.body {
            assert_eq!(judged.hits.len(), 1);
            stored.entry(judged.session.to_string()).or_default().push(judged.seq);
        }
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "no number is missing or given twice");
    let mut total = 0;
    for (session, acknowledged) in &expected {
        let seqs = &stored[session];
        assert_eq!(*seqs, (0..seqs.len() as u64).collect::<Vec<_>>(), "{session}");
        assert!(seqs.len() as u64 >= *acknowledged, "{session}: {acknowledged} acknowledged, {} stored", seqs.len());
        // One more at most: judged and stored, and killed before the answer left.
        assert!(seqs.len() as u64 <= acknowledged + 1, "{session}");
        let key = probity::audit::TallyKey {
            pack: "guard".into(),
            span: probity::audit::Span::Session(session.as_str().into()),
            policy: "P01".into(),
        };
        let counted = probity::audit::Store::tally(&store, &key).unwrap().hits;
        assert_eq!(counted, seqs.len() as u64, "counters and records change together");
        total += acknowledged;
    }
    println!("{total} acknowledged decisions, all stored");
}
