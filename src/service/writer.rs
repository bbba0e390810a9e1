//! The one audit writer: a thread that takes what waits, numbers it, stores it as one group commit,
//! and then wakes the callers.
//!
//! No timer forms a group: while one commit is made durable, the next group gathers in the queue.
//! The queue is bounded, so a slow disk slows callers down instead of filling memory. After a store
//! has failed once nothing more is written: whether the failed group is on disk is not known, and a
//! number must never stand for two records.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    audit::{BatchBuilder, Draft, RecordNumber, Store, StoreError},
    config::AuditWait,
};

/// Why something was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// The store failed, now or before; holds its words.
    #[error("{0}")]
    Store(Arc<str>),
    /// The writer has stopped.
    #[error("the audit writer has stopped")]
    Stopped,
}

/// How the writer works.
#[derive(Clone, Copy, Debug)]
pub struct WriterSettings {
    /// Requests that may wait.
    pub queue: usize,
    /// Requests of one group commit.
    pub group: usize,
    /// When a ticket counts as done.
    pub wait: AuditWait,
}

/// Where callers hand in what is to be recorded. Clones share one writer.
#[derive(Clone, Debug)]
pub struct AuditLog {
    queue: mpsc::Sender<Entry>,
    failure: watch::Receiver<Option<AuditError>>,
    signals: watch::Receiver<RecordNumber>,
    wait: AuditWait,
}

/// The writer's thread.
#[derive(Debug)]
pub struct Writer {
    thread: JoinHandle<()>,
}

/// A place in the queue.
#[derive(Debug)]
pub struct Place<'a> {
    permit: mpsc::Permit<'a, Entry>,
    wait: AuditWait,
}

/// What a caller waits for after handing in drafts.
#[derive(Debug)]
#[must_use = "an answer must not leave before its record is stored"]
pub struct Ticket(Option<oneshot::Receiver<Acknowledged>>);

type Acknowledged = Result<RecordNumber, AuditError>;

#[derive(Debug)]
enum Entry {
    Record { drafts: Vec<Draft>, done: Option<oneshot::Sender<Acknowledged>> },
    Close,
}

impl AuditLog {
    /// Starts the writer on a store.
    pub fn start(store: Arc<dyn Store>, settings: WriterSettings) -> Result<(AuditLog, Writer), StoreError> {
        let last = store.last()?;
        let (queue, entries) = mpsc::channel(settings.queue);
        let (failed, failure) = watch::channel(None);
        let (stored, signals) = watch::channel(last);
        let run = move || Run { store, entries, failed, stored, builder: BatchBuilder::new(last) };
        let group = settings.group;
        let thread = thread::Builder::new().name("audit-writer".to_owned()).spawn(move || run().serve(group))?;
        Ok((AuditLog { queue, failure, signals, wait: settings.wait }, Writer { thread }))
    }

    /// Waits for a place in the queue. To be taken before anything is judged: then what was judged
    /// can always be handed in.
    pub async fn place(&self) -> Result<Place<'_>, AuditError> {
        let permit = self.queue.reserve().await.map_err(|_| self.stopped())?;
        match self.failure.borrow().clone() {
            Some(failure) => Err(failure),
            None => Ok(Place { permit, wait: self.wait }),
        }
    }

    /// Takes nothing more; what was handed in before is still stored. Then [`Writer::join`] returns.
    pub async fn close(&self) {
        // A queue that is closed already needs no second word.
        if let Ok(permit) = self.queue.reserve().await {
            permit.send(Entry::Close);
        }
    }

    /// Changes to `Some` when the store fails; its sender is gone when the writer has stopped.
    pub fn failure(&self) -> watch::Receiver<Option<AuditError>> {
        self.failure.clone()
    }

    /// Changes when drift signals have been stored; its sender is gone when the writer has stopped.
    pub fn signals_stored(&self) -> watch::Receiver<RecordNumber> {
        self.signals.clone()
    }

    fn stopped(&self) -> AuditError {
        self.failure.borrow().clone().unwrap_or(AuditError::Stopped)
    }
}

impl Place<'_> {
    /// Hands in drafts. Those of one call are stored together, and behind all that was handed in
    /// before; without drafts the ticket stands for all of that.
    pub fn record(self, drafts: Vec<Draft>) -> Ticket {
        let (done, ticket) = match self.wait {
            AuditWait::Durable => {
                let (done, ticket) = oneshot::channel();
                (Some(done), Some(ticket))
            }
            AuditWait::Queued => (None, None),
        };
        self.permit.send(Entry::Record { drafts, done });
        Ticket(ticket)
    }

    /// Hands in drafts and waits for them whatever the settings say.
    pub fn record_durably(self, drafts: Vec<Draft>) -> Ticket {
        Place { wait: AuditWait::Durable, ..self }.record(drafts)
    }
}

impl Ticket {
    /// Waits until the drafts are durable, and gives the number of the last record at that point;
    /// nothing if the settings say not to wait.
    pub async fn done(self) -> Result<Option<RecordNumber>, AuditError> {
        match self.0 {
            None => Ok(None),
            Some(ticket) => ticket.await.unwrap_or(Err(AuditError::Stopped)).map(Some),
        }
    }
}

impl Writer {
    /// Blocks until everything that was handed in is stored, once [`AuditLog::close`] was called or
    /// every [`AuditLog`] is gone. False if the writer's thread broke.
    pub fn join(self) -> bool {
        self.thread.join().is_ok()
    }
}

struct Run {
    store: Arc<dyn Store>,
    entries: mpsc::Receiver<Entry>,
    failed: watch::Sender<Option<AuditError>>,
    stored: watch::Sender<RecordNumber>,
    builder: BatchBuilder,
}

impl Run {
    fn serve(mut self, group: usize) {
        let mut waiting: Vec<oneshot::Sender<Acknowledged>> = Vec::new();
        let mut failure: Option<AuditError> = None;
        while let Some(first) = self.entries.blocking_recv() {
            let now = unix_millis();
            let mut taken = 0;
            let mut signals = false;
            let mut next = Some(first);
            while let Some(entry) = next {
                taken += 1;
                match entry {
                    Entry::Record { drafts, done } => {
                        for draft in &drafts {
                            signals |= matches!(draft, Draft::Drift(_));
                            self.builder.push(draft, now);
                        }
                        waiting.extend(done);
                    }
                    // What is queued behind is still given out, and nothing more is let in.
                    Entry::Close => self.entries.close(),
                }
                next = if taken < group { self.entries.try_recv().ok() } else { None };
            }
            let batch = self.builder.finish();
            if failure.is_none() && !batch.blocks.is_empty() {
                failure = self.store.append(&batch).err().map(|e| {
                    tracing::error!(error = %e, "the audit store failed; nothing more is recorded");
                    AuditError::Store(e.to_string().into())
                });
                if failure.is_some() {
                    self.failed.send_replace(failure.clone());
                }
            }
            if signals && failure.is_none() {
                self.stored.send_replace(self.builder.last());
            }
            let result = failure.clone().map_or(Ok(self.builder.last()), Err);
            for done in waiting.drain(..) {
                // A caller that has gone away needs no answer.
                let _ = done.send(result.clone());
            }
        }
    }
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use std::{
        ops::ControlFlow,
        sync::{Condvar, Mutex},
    };

    use super::*;
    use crate::audit::{Batch, Block, Body, MemoryStore, Opening, PackRef, Span, Tally, TallyKey, scan};
    use crate::model::Digest;

    const SETTINGS: WriterSettings = WriterSettings { queue: 64, group: 32, wait: AuditWait::Durable };

    /// A memory store whose appends wait for a gate, count themselves, and fail on request.
    #[derive(Default)]
    struct Gated {
        inner: MemoryStore,
        gate: Mutex<(bool, usize, bool)>,
        opened: Condvar,
    }

    impl Gated {
        fn open(&self) {
            self.gate.lock().unwrap().0 = true;
            self.opened.notify_all();
        }

        fn fail(&self) {
            self.gate.lock().unwrap().2 = true;
        }

        fn appends(&self) -> usize {
            self.gate.lock().unwrap().1
        }
    }

    impl Store for Gated {
        fn append(&self, batch: &Batch) -> Result<(), StoreError> {
            let mut gate = self.opened.wait_while(self.gate.lock().unwrap(), |g| !g.0).unwrap();
            gate.1 += 1;
            if gate.2 {
                return Err(StoreError::Damaged("no space".to_owned()));
            }
            self.inner.append(batch)
        }
        fn last(&self) -> Result<RecordNumber, StoreError> {
            self.inner.last()
        }
        fn blocks(&self, from: RecordNumber, max: usize) -> Result<Vec<Block>, StoreError> {
            self.inner.blocks(from, max)
        }
        fn tally(&self, key: &TallyKey) -> Result<Tally, StoreError> {
            self.inner.tally(key)
        }
        fn opening(&self, session: &str) -> Result<Option<Opening>, StoreError> {
            self.inner.opening(session)
        }
        fn tallies(&self, pack: &str, span: &Span) -> Result<Vec<(String, Tally)>, StoreError> {
            self.inner.tallies(pack, span)
        }
    }

    fn draft(name: &str) -> Draft {
        Draft::Activated(Arc::new(PackRef { name: name.into(), version: "1".into(), digest: Digest::new([0; 32]) }))
    }

    fn names(store: &dyn Store) -> Vec<String> {
        let mut names = Vec::new();
        scan(store, 1, |record| {
            if let Body::Activated(pack) = record.body {
                names.push(pack.name.to_string());
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        names
    }

    #[tokio::test]
    async fn a_ticket_is_done_once_its_records_are_stored() {
        let store = Arc::new(MemoryStore::default());
        let (log, writer) = AuditLog::start(store.clone(), SETTINGS).unwrap();
        let ticket = log.place().await.unwrap().record(vec![draft("a"), draft("b")]);
        assert_eq!(ticket.done().await, Ok(Some(2)));
        assert_eq!(names(store.as_ref()), ["a", "b"]);
        drop(log);
        assert!(writer.join());
    }

    #[tokio::test]
    async fn what_waits_is_stored_in_one_commit_in_the_order_it_came() {
        let store = Arc::new(Gated::default());
        let (log, writer) = AuditLog::start(store.clone(), SETTINGS).unwrap();
        let mut tickets = Vec::new();
        for n in 0..20 {
            tickets.push(log.place().await.unwrap().record(vec![draft(&n.to_string())]));
        }
        store.open();
        for ticket in tickets {
            ticket.done().await.unwrap();
        }
        assert_eq!(names(store.as_ref()), (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
        // The first may have gone alone; the rest waited and went together.
        assert!(store.appends() <= 2, "{}", store.appends());
        drop(log);
        assert!(writer.join());
    }

    #[tokio::test]
    async fn a_ticket_without_drafts_stands_for_all_before_it() {
        let store = Arc::new(Gated::default());
        let (log, _writer) = AuditLog::start(store.clone(), SETTINGS).unwrap();
        let first = log.place().await.unwrap().record(vec![draft("a")]);
        let barrier = log.place().await.unwrap().record(Vec::new());
        let mut done = Box::pin(barrier.done());
        assert!(futures_poll(&mut done).await.is_none());
        store.open();
        assert_eq!(done.await, Ok(Some(1)));
        assert_eq!(first.done().await, Ok(Some(1)));
    }

    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        std::future::poll_fn(|cx| {
            std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(cx) {
                std::task::Poll::Ready(out) => Some(out),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }

    #[tokio::test]
    async fn a_full_queue_makes_callers_wait() {
        let store = Arc::new(Gated::default());
        let settings = WriterSettings { queue: 2, group: 1, ..SETTINGS };
        let (log, _writer) = AuditLog::start(store.clone(), settings).unwrap();
        let mut tickets = Vec::new();
        // Two in the queue and at most one with the writer.
        let full = loop {
            let mut place = Box::pin(log.place());
            match futures_poll(&mut place).await {
                Some(place) => tickets.push(place.unwrap().record(vec![draft("x")])),
                None if tickets.len() == 3 => break place,
                None => tokio::task::yield_now().await,
            }
            assert!(tickets.len() <= 3);
        };
        store.open();
        tickets.push(full.await.unwrap().record(vec![draft("last")]));
        for ticket in tickets {
            ticket.done().await.unwrap();
        }
        assert_eq!(names(store.as_ref()).len(), 4);
    }

    #[tokio::test]
    async fn after_a_failure_nothing_more_is_recorded() {
        let store = Arc::new(Gated::default());
        store.fail();
        store.open();
        let (log, writer) = AuditLog::start(store.clone(), SETTINGS).unwrap();
        let mut failure = log.failure();
        let early = log.place().await.unwrap();
        let failed = log.place().await.unwrap().record(vec![draft("a")]).done().await;
        let words: Arc<str> = "the audit store is damaged: no space".into();
        assert_eq!(failed, Err(AuditError::Store(words.clone())));
        assert_eq!(early.record(vec![draft("b")]).done().await, Err(AuditError::Store(words.clone())));
        assert_eq!(log.place().await.err(), Some(AuditError::Store(words)));
        assert!(failure.borrow_and_update().is_some());
        assert_eq!(store.appends(), 1);
        drop(log);
        assert!(writer.join());
    }

    #[tokio::test]
    async fn queued_does_not_wait_and_still_stores_all_before_the_end() {
        let store = Arc::new(Gated::default());
        let settings = WriterSettings { wait: AuditWait::Queued, ..SETTINGS };
        let (log, writer) = AuditLog::start(store.clone(), settings).unwrap();
        assert_eq!(log.place().await.unwrap().record(vec![draft("a")]).done().await, Ok(None));
        assert_eq!(store.last().unwrap(), 0);
        store.open();
        assert_eq!(log.place().await.unwrap().record_durably(vec![draft("b")]).done().await, Ok(Some(2)));
        drop(log);
        assert!(writer.join());
        assert_eq!(names(store.as_ref()), ["a", "b"]);
    }

    #[tokio::test]
    async fn closing_stores_what_was_handed_in_and_refuses_the_rest() {
        let store = Arc::new(Gated::default());
        let (log, writer) = AuditLog::start(store.clone(), SETTINGS).unwrap();
        let tickets =
            [log.place().await.unwrap().record(vec![draft("a")]), log.place().await.unwrap().record(vec![draft("b")])];
        log.close().await;
        store.open();
        for ticket in tickets {
            ticket.done().await.unwrap();
        }
        assert!(writer.join());
        assert_eq!(names(store.as_ref()), ["a", "b"]);
        assert_eq!(log.place().await.err(), Some(AuditError::Stopped));
        log.close().await;
    }
}
