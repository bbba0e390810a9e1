//! What the audit store costs: `cargo bench --bench audit -- RECORDS` (100,000 without a number). Prints one table: what
//! the records weigh and the folder takes, how fast they are appended at each level, how long it takes to open the
//! store, to verify it, and to find the records of a session and of a policy.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a bench")]

use std::{
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use probity::{
    audit::{
        BatchBuilder, Draft, ItemKind, Mode, PackRef, Posting, Safety, SledStore, Store, Trust, scan_posted,
        verify_store,
    },
    model::{CallAnswer, Condition, Digest, Evidence, Firing, Gate, Hit, Step},
};

/// Records of one group commit, as under load.
const GROUP: u64 = 64;
/// Items of a session.
const SESSION: u64 = 40;

fn draft(n: u64, pack: &Arc<PackRef>) -> Draft {
    let hits = if n.is_multiple_of(20) { vec![hit(n)] } else { Vec::new() };
    let gate = if hits.is_empty() { Gate::Allow } else { Gate::Deny };
    let calls = vec![CallAnswer { index: 0, call_id: String::new(), gate }];
    let turn = u32::try_from(n % SESSION).unwrap();
    Draft::Judged {
        session: format!("session-{}", n / SESSION).into(),
        agent: "agent-1".into(),
        pack: pack.clone(),
        mode: Mode::Gate,
        item: ItemKind::Message,
        seq: n % SESSION,
        input: Digest::new(*blake3::hash(&n.to_be_bytes()).as_bytes()),
        step: Arc::new(Step { turn, calls, hits, ..Step::default() }),
    }
}

fn hit(n: u64) -> Hit {
    let evidence = Evidence {
        seq: n,
        conditions: vec![Condition { source: "".into(), holds: true, rests_on: vec![n / 2, n / 2 + 7] }],
    };
    let firing = Firing { policy: format!("A{:02}", n % 17).into(), message: String::new(), evidence };
    Hit { firing, turn: 1, n: 0, reward: "0.5".parse().unwrap() }
}

fn append(folder: &Path, records: u64, safety: Safety) -> (u64, Duration) {
    let digest = Digest::new([7; 32]);
    let pack = Arc::new(PackRef { name: "airline".into(), version: "1.0.0".into(), digest });
    let store = SledStore::open(folder, 64 << 20).unwrap();
    let mut builder = BatchBuilder::new(store.head().unwrap(), [1; 32]);
    let began = Instant::now();
    for group in 0..records.div_ceil(GROUP) {
        for n in group * GROUP..((group + 1) * GROUP).min(records) {
            builder.push(&draft(n, &pack), 1_700_000_000_000 + n);
        }
        store.append(&builder.finish(), safety).unwrap();
    }
    (store.size().unwrap(), began.elapsed())
}

fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|e| if e.path().is_dir() { folder_bytes(&e.path()) } else { e.metadata().unwrap().len() }).sum()
}

/// Resident memory in MiB, where the system tells.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() / 1024
}

fn find(store: &SledStore, posting: &Posting, most: usize) -> (usize, Duration) {
    let began = Instant::now();
    let mut found = 0;
    scan_posted(store, posting, 1, |record| {
        let names = record.names();
        let hit = match posting {
            Posting::Session(id) => names.sessions.contains(&id),
            Posting::Policy { policy, .. } => names.policies.contains(&policy),
        };
        found += usize::from(hit);
        if found < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .unwrap();
    (found, began.elapsed())
}

fn main() {
    let records: u64 = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(100_000);
    let folder = tempfile::tempdir().unwrap();
    let (raw, took) = append(folder.path(), records, Safety::Process);
    let rate = |records: u64, took: Duration| records as f64 / took.as_secs_f64();
    println!("{records} records, {GROUP} a commit: {raw} bytes in blocks, {} a record", raw / records);
    println!("append, process level    {:>12.0} records/s", rate(records, took));
    let disk = tempfile::tempdir().unwrap();
    let few = (records / 20).max(GROUP);
    println!("append, disk level       {:>12.0} records/s", rate(few, append(disk.path(), few, Safety::Disk).1));
    let bytes = folder_bytes(folder.path());
    println!("folder                   {bytes:>12} bytes, {:.2} times the blocks", bytes as f64 / raw as f64);
    let began = Instant::now();
    let store = SledStore::open(folder.path(), 64 << 20).unwrap();
    println!("open                     {:>12.3} s", began.elapsed().as_secs_f64());
    println!("resident memory          {:>12} MiB", resident());
    let session = Posting::Session(format!("session-{}", records / SESSION / 2).into());
    let (found, took) = find(&store, &session, usize::MAX);
    println!("records of a session     {:>12.3} ms for {found}", took.as_secs_f64() * 1e3);
    let policy = Posting::Policy { pack: "airline".into(), policy: "A06".into() };
    let (found, took) = find(&store, &policy, 100);
    println!("first 100 of a policy    {:>12.3} ms for {found}", took.as_secs_f64() * 1e3);
    let began = Instant::now();
    assert!(verify_store(&store, Trust::default()).unwrap().is_whole());
    println!("verify                   {:>12.0} records/s", rate(records, began.elapsed()));
}
