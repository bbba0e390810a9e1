#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::ops::ControlFlow;

use tokio::sync::watch;

use super::*;
use crate::{
    audit::{self, Activation, Body, Checkpoint, FaultyStore, ItemKind, MemoryStore, Mode, PackRef, scan},
    model::{Digest, Step},
};

fn settings() -> WriterSettings {
    WriterSettings {
        queue: 64,
        group: 32,
        durability: Durability::Disk,
        when_full: WhenFull::Block,
        checkpoints: Checkpoints { every: 1_000_000, key: None, file: None },
    }
}

fn start(store: &Arc<FaultyStore>, settings: WriterSettings) -> (AuditLog, Writer) {
    AuditLog::start(store.clone(), settings).unwrap()
}

/// Closes the log and waits for the writer.
async fn end(log: AuditLog, writer: Writer) -> bool {
    log.close();
    tokio::task::spawn_blocking(move || writer.join()).await.unwrap()
}

fn judged(session: &str, seq: u64) -> Draft {
    Draft::Judged {
        session: session.into(),
        agent: "".into(),
        pack: Arc::new(PackRef { name: "p".into(), version: "1".into(), digest: Digest::new([0; 32]) }),
        mode: Mode::Gate,
        item: ItemKind::Message,
        seq,
        input: Digest::new([0; 32]),
        step: Arc::new(Step::default()),
    }
}

fn draft(name: &str) -> Draft {
    Draft::Activated(Activation {
        pack: Arc::new(PackRef { name: name.into(), version: "1".into(), digest: Digest::new([0; 32]) }),
        commit: None,
    })
}

fn names(store: &dyn Store) -> Vec<String> {
    let mut names = Vec::new();
    scan(store, 1, |record| {
        if let Body::Activated(Activation { pack, .. }) = record.body {
            names.push(pack.name.to_string());
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    names
}

/// Polls a future once.
async fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(cx) {
            std::task::Poll::Ready(out) => Some(out),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

async fn failing(failure: &mut watch::Receiver<Option<AuditError>>, fails: bool) {
    failure.wait_for(|f| f.is_some() == fails).await.unwrap();
}

#[tokio::test]
async fn a_ticket_is_done_once_its_records_are_stored() {
    let store = Arc::new(FaultyStore::default());
    let (log, writer) = start(&store, settings());
    let ticket = log.place().await.unwrap().record(vec![draft("a"), draft("b")]);
    assert_eq!(ticket.done().await, Ok(Recorded::Stored(2)));
    assert_eq!(names(store.as_ref()), ["a", "b"]);
    assert!(end(log, writer).await);
}

#[tokio::test]
async fn what_waits_is_stored_in_one_commit_in_the_order_it_came() {
    let store = Arc::new(FaultyStore::default());
    store.hold(true);
    let (log, writer) = start(&store, settings());
    let mut tickets = Vec::new();
    for n in 0..20 {
        tickets.push(log.place().await.unwrap().record(vec![draft(&n.to_string())]));
    }
    store.hold(false);
    for ticket in tickets {
        ticket.done().await.unwrap();
    }
    assert_eq!(names(store.as_ref()), (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    // The first may have gone alone; the rest waited and went together.
    assert!(store.appends() <= 2, "{}", store.appends());
    assert!(end(log, writer).await);
}

#[tokio::test]
async fn a_ticket_without_drafts_stands_for_all_before_it() {
    let store = Arc::new(FaultyStore::default());
    store.hold(true);
    let (log, _writer) = start(&store, settings());
    let first = log.place().await.unwrap().record(vec![draft("a")]);
    let barrier = log.place().await.unwrap().record(Vec::new());
    let mut done = Box::pin(barrier.done());
    assert!(poll(&mut done).await.is_none());
    store.hold(false);
    assert_eq!(done.await, Ok(Recorded::Stored(1)));
    assert_eq!(first.done().await, Ok(Recorded::Stored(1)));
}

/// Fills a queue of two behind a store that is held up, and the writer's hands.
async fn fill(log: &AuditLog, mut draft: impl FnMut(u64) -> Draft) -> Vec<Ticket> {
    let mut tickets = Vec::new();
    while tickets.len() < 3 {
        match poll(&mut Box::pin(log.place())).await {
            Some(place) => tickets.push(place.unwrap().record(vec![draft(tickets.len() as u64)])),
            None => tokio::task::yield_now().await,
        }
        // The writer takes the first alone.
        let both_free = || log.queue.try_permit().is_some_and(|_one| log.queue.try_permit().is_some());
        while tickets.len() == 1 && !both_free() {
            tokio::task::yield_now().await;
        }
    }
    tickets
}

#[tokio::test]
async fn a_full_queue_makes_callers_wait() {
    let store = Arc::new(FaultyStore::default());
    store.hold(true);
    let (log, _writer) = start(&store, WriterSettings { queue: 2, group: 1, ..settings() });
    let mut tickets = fill(&log, |_| draft("x")).await;
    let mut full = Box::pin(log.place());
    assert!(poll(&mut full).await.is_none());
    store.hold(false);
    tickets.push(full.await.unwrap().record(vec![draft("last")]));
    for ticket in tickets {
        ticket.done().await.unwrap();
    }
    assert_eq!(names(store.as_ref()).len(), 4);
}

#[tokio::test]
async fn a_full_queue_refuses_where_the_settings_say_so() {
    let store = Arc::new(FaultyStore::default());
    store.hold(true);
    let settings = WriterSettings { queue: 2, group: 1, when_full: WhenFull::Refuse, ..settings() };
    let (log, _writer) = start(&store, settings);
    let tickets = fill(&log, |_| draft("x")).await;
    assert_eq!(log.place().await.err(), Some(AuditError::Full { limit: 2 }));
    store.hold(false);
    for ticket in tickets {
        ticket.done().await.unwrap();
    }
    assert!(log.place().await.is_ok());
}

#[tokio::test]
async fn a_full_queue_gives_up_the_oldest_judgements_and_says_so_in_the_chain() {
    let store = Arc::new(FaultyStore::default());
    store.hold(true);
    let settings = WriterSettings { queue: 2, group: 1, when_full: WhenFull::DropOldest, ..settings() };
    let (log, writer) = start(&store, settings);
    let mut tickets = fill(&log, |n| if n == 1 { draft("kept") } else { judged("s", n) }).await;
    for seq in 3..6 {
        tickets.push(log.place().await.unwrap().record(vec![judged("s", seq)]));
    }
    store.hold(false);
    let mut became = Vec::new();
    for ticket in tickets {
        became.push(ticket.done().await.unwrap() == Recorded::Lost);
    }
    // The first was with the writer; what is no judgement is never given up.
    assert_eq!(became, [false, false, true, true, true, false]);
    assert!(end(log, writer).await);
    let (mut lost, mut seqs) = (Vec::new(), Vec::new());
    scan(store.as_ref(), 1, |record| {
        match record.body {
            Body::Lost(loss) => lost.push(loss),
            Body::Judged(judged) => seqs.push(judged.seq),
            _ => {}
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(seqs, [0, 5]);
    let told: u64 = lost.iter().map(|loss| loss.count).sum();
    assert_eq!((told, lost[0].sessions[0].1), (3, 2));
    assert_eq!(lost.last().unwrap().sessions[0].2, 4);
}

#[tokio::test]
async fn while_the_store_fails_nothing_is_taken_in_and_then_everything_is_stored_once() {
    for late in [false, true] {
        let store = Arc::new(FaultyStore::default());
        if late {
            store.fail_late();
        } else {
            store.fail();
        }
        let (log, writer) = start(&store, settings());
        let mut failure = log.failure();
        let early = log.place().await.unwrap();
        let failed = log.place().await.unwrap().record(vec![draft("a")]).done().await;
        let told = Err(AuditError::Store("the audit store failed: no space left on device".into()));
        assert_eq!(failed, told);
        failing(&mut failure, true).await;
        // What was judged meanwhile is kept; its caller is told at once.
        assert_eq!(early.record(vec![draft("b")]).done().await, told);
        assert_eq!(log.place().await.err(), told.err());
        store.heal();
        failing(&mut failure, false).await;
        let barrier = log.place().await.unwrap().record(Vec::new());
        assert_eq!(barrier.done().await, Ok(Recorded::Stored(2)));
        assert_eq!(names(store.as_ref()), ["a", "b"], "late: {late}");
        assert!(end(log, writer).await);
    }
}

#[tokio::test]
async fn an_end_while_the_store_fails_is_told() {
    let store = Arc::new(FaultyStore::default());
    store.fail();
    let (log, writer) = start(&store, settings());
    assert!(log.place().await.unwrap().record(vec![draft("a")]).done().await.is_err());
    assert!(!end(log.clone(), writer).await);
    assert!(matches!(log.place().await.err(), Some(AuditError::Store(_))));
}

#[tokio::test]
async fn async_does_not_wait_and_still_stores_all_before_the_end() {
    let store = Arc::new(FaultyStore::default());
    store.hold(true);
    let (log, writer) = start(&store, WriterSettings { durability: Durability::Async, ..settings() });
    assert_eq!(log.place().await.unwrap().record(vec![draft("a")]).done().await, Ok(Recorded::Queued));
    assert_eq!(store.last().unwrap(), 0);
    store.hold(false);
    assert_eq!(log.place().await.unwrap().record_durably(vec![draft("b")]).done().await, Ok(Recorded::Stored(2)));
    assert!(end(log, writer).await);
    assert_eq!(names(store.as_ref()), ["a", "b"]);
}

#[tokio::test]
async fn closing_stores_what_was_handed_in_waits_for_places_and_refuses_the_rest() {
    let store = Arc::new(FaultyStore::default());
    store.hold(true);
    let (log, writer) = start(&store, settings());
    let ticket = log.place().await.unwrap().record(vec![draft("a")]);
    let judging = log.place().await.unwrap();
    log.close();
    assert_eq!(log.place().await.err(), Some(AuditError::Stopped));
    store.hold(false);
    ticket.done().await.unwrap();
    assert_eq!(judging.record(vec![draft("b")]).done().await, Ok(Recorded::Stored(2)));
    assert!(end(log.clone(), writer).await);
    assert_eq!(names(store.as_ref()), ["a", "b"]);
    assert_eq!(log.place().await.err(), Some(AuditError::Stopped));
}

#[tokio::test]
async fn checkpoints_come_after_so_many_records_and_at_the_end_and_are_kept_elsewhere_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("checkpoints.jsonl");
    let key = CheckpointKey::new([5; 32]);
    let checkpoints = Checkpoints { every: 3, key: Some(key.clone()), file: Some(file.clone()) };
    let store = Arc::new(MemoryStore::default());
    let (log, writer) = AuditLog::start(store.clone(), WriterSettings { checkpoints, ..settings() }).unwrap();
    for n in 0..4 {
        log.place().await.unwrap().record(vec![draft(&n.to_string())]).done().await.unwrap();
    }
    assert!(end(log, writer).await);
    let mut kinds = Vec::new();
    scan(store.as_ref(), 1, |record| {
        kinds.push(record.kind());
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(kinds, ["activated", "activated", "activated", "checkpoint", "activated", "checkpoint"]);
    let lines = std::fs::read_to_string(file).unwrap();
    let kept: Vec<Checkpoint> = lines.lines().map(|line| Checkpoint::from_json(line).unwrap()).collect();
    assert_eq!(kept.iter().map(|c| c.head.last).collect::<Vec<_>>(), [3, 5]);
    let trust = audit::Trust { checkpoints: kept, public_key: Some(key.public()) };
    let verified = audit::verify_store(store.as_ref(), trust).unwrap();
    assert!(verified.is_whole(), "{verified:?}");
    assert_eq!((verified.confirmed, verified.signed), (2, 2));
}
