//! The one audit writer: a thread that takes what waits, numbers and links it, stores it as one group commit,
//! and then wakes the callers.
//!
//! No timer forms a group: while one commit is made safe, the next group gathers in the queue. The queue is bounded;
//! what happens at the bound is a setting. When the store fails, callers are told at once and nothing more is taken
//! in; what was taken in before is kept and stored as soon as the store works again. A store that does not come back is
//! told as one that fails, to all but those whose commit it holds up: they wait until their deadline.

mod queue;
mod run;
mod stall;
#[cfg(test)]
mod tests;

use std::{
    path::PathBuf,
    sync::Arc,
    thread::{self, JoinHandle},
};

use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use crate::{
    audit::{CheckpointKey, Draft, JournalWrite, KeptSet, RecordNumber, Store, StoreError},
    config::{Durability, WhenFull},
};

use super::requests::Named;
use queue::{Entry, Queue};
use run::Run;

/// Why something was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// The store fails; holds its words.
    #[error("{0}")]
    Store(Arc<str>),
    /// The queue is full, and the settings say to refuse.
    #[error("{limit} requests wait for the audit store, which is the limit")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// The writer has stopped.
    #[error("the audit writer has stopped")]
    Stopped,
}

/// How the writer works.
#[derive(Clone, Debug)]
pub struct WriterSettings {
    /// Requests that may wait.
    pub queue: usize,
    /// Requests of one group commit.
    pub group: usize,
    /// When a ticket counts as done.
    pub durability: Durability,
    /// What happens when the queue is full.
    pub when_full: WhenFull,
    /// How checkpoints are made.
    pub checkpoints: Checkpoints,
}

/// How checkpoints are made.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    /// After how many records.
    pub every: u64,
    /// What signs them.
    pub key: Option<CheckpointKey>,
    /// A file that each is appended to, to be kept elsewhere.
    pub file: Option<PathBuf>,
}

/// Where callers hand in what is to be recorded. Clones share one writer.
#[derive(Clone, Debug)]
pub struct AuditLog {
    queue: Arc<Queue>,
    failure: watch::Receiver<Option<AuditError>>,
    signals: watch::Receiver<RecordNumber>,
    durability: Durability,
    when_full: WhenFull,
}

/// The writer's thread.
#[derive(Debug)]
pub struct Writer {
    thread: JoinHandle<bool>,
}

/// A place in the queue.
#[derive(Debug)]
pub struct Place<'a> {
    log: &'a AuditLog,
    permit: OwnedSemaphorePermit,
}

/// What a caller waits for after handing in drafts.
#[derive(Debug)]
#[must_use = "an answer must not leave before its record is stored"]
pub struct Ticket(Option<oneshot::Receiver<Acknowledged>>);

/// What became of drafts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// They are stored, as safe as the settings ask for; with the number of the last of them,
    /// or of the last record before where there are none.
    Stored(RecordNumber),
    /// They will be; the settings say not to wait.
    Queued,
    /// They were given up, because the queue was full and the settings say so.
    Lost,
}

type Acknowledged = Result<Recorded, AuditError>;

impl AuditLog {
    /// Starts the writer on a store.
    pub fn start(store: Arc<dyn Store>, settings: WriterSettings) -> Result<(AuditLog, Writer), StoreError> {
        let queue = Arc::new(Queue::new(settings.queue));
        let (durability, when_full) = (settings.durability, settings.when_full);
        let (failed, failure) = watch::channel(None);
        let (stored, signals) = watch::channel(store.last()?);
        let run = Run::new(store, queue.clone(), settings, failed, stored)?;
        let thread = thread::Builder::new().name("audit-writer".to_owned()).spawn(move || run.serve())?;
        Ok((AuditLog { queue, failure, signals, durability, when_full }, Writer { thread }))
    }

    /// Waits for a place in the queue. To be taken before anything is judged: then what was judged
    /// can always be handed in.
    pub async fn place(&self) -> Result<Place<'_>, AuditError> {
        let permit = loop {
            if let Some(permit) = self.queue.try_permit() {
                break permit;
            }
            match self.when_full {
                WhenFull::Refuse => return Err(self.refused(AuditError::Full { limit: self.queue.bound() })),
                // Its place is free now, unless somebody else was faster.
                WhenFull::DropOldest if self.queue.drop_oldest() => {}
                WhenFull::DropOldest | WhenFull::Block => {
                    break self.queue.permit().await.ok_or_else(|| self.refused(AuditError::Stopped))?;
                }
            }
        };
        match self.failure.borrow().clone() {
            Some(failure) => Err(failure),
            None => Ok(Place { log: self, permit }),
        }
    }

    /// Takes nothing more; what was handed in before is still stored. Then [`Writer::join`] returns.
    pub fn close(&self) {
        self.queue.close();
    }

    /// `Some` while the store fails; its sender is gone when the writer has stopped.
    pub fn failure(&self) -> watch::Receiver<Option<AuditError>> {
        self.failure.clone()
    }

    /// Changes when drift signals have been stored; its sender is gone when the writer has stopped.
    pub fn signals_stored(&self) -> watch::Receiver<RecordNumber> {
        self.signals.clone()
    }

    /// A failure of the store says more than what follows from it.
    fn refused(&self, otherwise: AuditError) -> AuditError {
        self.failure.borrow().clone().unwrap_or(otherwise)
    }
}

impl Place<'_> {
    /// Hands in drafts. Those of one call are stored together, and behind all that was handed in
    /// before; without drafts the ticket stands for all of that.
    pub fn record(self, drafts: Vec<Draft>) -> Ticket {
        self.record_with(drafts, Vec::new())
    }

    /// Hands in drafts, and changes of sessions' journals that are stored together with them.
    pub fn record_with(self, drafts: Vec<Draft>, journal: Vec<JournalWrite>) -> Ticket {
        let waits = self.log.durability != Durability::Async;
        self.hand_in(drafts, journal, None, None, waits)
    }

    /// Hands in drafts and waits for them whatever the settings say.
    pub fn record_durably(self, drafts: Vec<Draft>) -> Ticket {
        self.answer(None, drafts, Vec::new())
    }

    /// Hands in the records of rules that begin to serve, with what is to be kept of those, and waits for them whatever
    /// the settings say.
    pub fn activate(self, named: Option<Named>, drafts: Vec<Draft>, rules: Option<Arc<KeptSet>>) -> Ticket {
        self.hand_in(drafts, Vec::new(), named, rules, true)
    }

    /// Hands in what answers a request, which may have a name, and waits for it whatever the settings say.
    pub fn answer(self, named: Option<Named>, drafts: Vec<Draft>, journal: Vec<JournalWrite>) -> Ticket {
        self.hand_in(drafts, journal, named, None, true)
    }

    fn hand_in(
        self,
        drafts: Vec<Draft>,
        journal: Vec<JournalWrite>,
        named: Option<Named>,
        rules: Option<Arc<KeptSet>>,
        waits: bool,
    ) -> Ticket {
        let (done, ticket) = match waits {
            true => {
                let (done, ticket) = oneshot::channel();
                (Some(done), Some(ticket))
            }
            false => (None, None),
        };
        self.log.queue.push(Entry { drafts, journal, named, rules, done, _permit: self.permit });
        Ticket(ticket)
    }
}

impl Ticket {
    /// Waits until the drafts are as safe as the settings ask for.
    pub async fn done(self) -> Acknowledged {
        match self.0 {
            None => Ok(Recorded::Queued),
            Some(ticket) => ticket.await.unwrap_or(Err(AuditError::Stopped)),
        }
    }
}

impl Recorded {
    /// The number of the last record, if there was something to wait for.
    pub fn number(self) -> Option<RecordNumber> {
        match self {
            Recorded::Stored(number) => Some(number),
            Recorded::Queued | Recorded::Lost => None,
        }
    }
}

impl Writer {
    /// Blocks until everything that was handed in is stored, once [`AuditLog::close`] was called. False if something
    /// could not be stored.
    pub fn join(self) -> bool {
        self.thread.join().unwrap_or(false)
    }
}
