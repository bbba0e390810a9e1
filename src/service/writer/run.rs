//! The writer's thread.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::sync::{oneshot, watch};

use crate::{
    audit::{Batch, BatchBuilder, Checkpoint, Draft, Head, RecordNumber, Safety, Store, StoreError, decode_block},
    config::Durability,
};

use super::{
    Acknowledged, AuditError, Named, Recorded, WriterSettings,
    queue::{Group, Queue, Taken},
    stall::{self, Stall},
};

/// How long the writer waits for something to do before it thinks of checkpoints.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pauses between attempts to take up a store that failed.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Who waits, and the number of the record that it waits for.
type Waiter = (oneshot::Sender<Acknowledged>, RecordNumber);

/// All that the thread has.
pub(super) struct Run {
    store: Arc<dyn Store>,
    queue: Arc<Queue>,
    settings: WriterSettings,
    failed: watch::Sender<Option<AuditError>>,
    stall: Stall,
    stored: watch::Sender<RecordNumber>,
    builder: BatchBuilder,
    /// The time of the last record: times never go back, whatever the clock does.
    at_millis: u64,
    /// The last record that a checkpoint tells of, or that is one.
    checked: RecordNumber,
}

impl Run {
    pub(super) fn new(
        store: Arc<dyn Store>,
        queue: Arc<Queue>,
        settings: WriterSettings,
        failed: watch::Sender<Option<AuditError>>,
        stored: watch::Sender<RecordNumber>,
    ) -> Result<Run, StoreError> {
        let head = store.head()?;
        let mut salt_key = [0; 32];
        getrandom::fill(&mut salt_key).map_err(|e| StoreError::Io(io::Error::other(e)))?;
        let builder = BatchBuilder::new(head, salt_key);
        let at_millis = last_time(store.as_ref(), head)?;
        let stall = Stall::new(failed.clone(), stall::LIMIT)?;
        Ok(Run { store, queue, settings, failed, stall, stored, builder, at_millis, checked: head.last })
    }

    /// Stores what is handed in until the queue is closed; true if all of it was stored.
    pub(super) fn serve(mut self) -> bool {
        let _finish = Finish(self.queue.clone());
        loop {
            let Group { entries, lost, drops, at_leisure, last } = self.queue.take(self.settings.group, PATIENCE);
            self.at_millis = self.at_millis.max(unix_millis());
            let mut waiting = Vec::with_capacity(entries.len());
            let mut signals = false;
            if let Some(lost) = lost {
                tracing::error!(judgements = lost.count, "the audit queue was full: judgements were not recorded");
                self.builder.push(&Draft::Lost(Arc::new(lost)), self.at_millis);
            }
            self.builder.journal(drops);
            for Taken { drafts, journal, named, rules, done } in entries {
                for draft in &drafts {
                    signals |= matches!(draft, Draft::Drift(_));
                    self.builder.push(draft, self.at_millis);
                }
                self.builder.journal(journal);
                if let Some(rules) = rules {
                    self.builder.keep(rules);
                }
                if let Some(Named { key, print }) = named {
                    self.builder.answers(key, print);
                }
                // Of its own last record, or of the last before it.
                let number = self.builder.head().last;
                waiting.extend(done.map(|done| (done, number)));
            }
            let checkpoint = self.checkpoint(at_leisure);
            let batch = self.builder.finish();
            if !batch.is_empty() {
                if let Err(e) = self.stall.during(|| self.store.append(&batch, self.safety()))
                    && !self.outlast(e, &batch, &mut waiting)
                {
                    return false;
                }
                if signals {
                    self.stored.send_replace(batch.after.last);
                }
            }
            for (done, number) in waiting {
                // A caller that has gone away needs no answer.
                let _ = done.send(Ok(Recorded::Stored(number)));
            }
            self.hand_out(checkpoint);
            if last {
                return true;
            }
        }
    }

    fn safety(&self) -> Safety {
        match self.settings.durability {
            Durability::Disk => Safety::Disk,
            Durability::Process | Durability::Async => Safety::Process,
        }
    }

    /// Adds a checkpoint where enough records have come since the last, or some have and there is time for it.
    fn checkpoint(&mut self, at_leisure: bool) -> Option<Checkpoint> {
        let head = self.builder.head();
        let since = head.last - self.checked;
        if since == 0 || (since < self.settings.checkpoints.every && !at_leisure) {
            return None;
        }
        let checkpoint = Checkpoint::new(head, self.at_millis, self.settings.checkpoints.key.as_ref());
        self.builder.push(&Draft::Checkpoint(Arc::new(checkpoint)), self.at_millis);
        self.checked = self.builder.head().last;
        Some(checkpoint)
    }

    /// Appends a checkpoint to the file that is kept elsewhere.
    fn hand_out(&self, checkpoint: Option<Checkpoint>) {
        if let (Some(checkpoint), Some(file)) = (checkpoint, &self.settings.checkpoints.file)
            && let Err(e) = append_line(file, &checkpoint.to_json())
        {
            tracing::error!(error = %e, file = %file.display(), "a checkpoint was not written");
        }
    }

    /// Tells callers that the store fails, and tries until it works again and holds the batch. False if it holds
    /// something else, or the end came first.
    fn outlast(&self, first: StoreError, batch: &Batch, waiting: &mut Vec<Waiter>) -> bool {
        tracing::error!(error = %first, "the audit store fails: nothing more is judged until it works again");
        let (mut error, mut pause) = (first, FIRST_PAUSE);
        loop {
            let told = AuditError::Store(error.to_string().into());
            self.failed.send_replace(Some(told.clone()));
            for done in waiting.drain(..).map(|(done, _)| done).chain(self.queue.take_callers()) {
                let _ = done.send(Err(told.clone()));
            }
            if self.queue.is_closed() {
                return false;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
            let stored = match self.store.recover() {
                Ok(head) if head == batch.after => Ok(()),
                Ok(head) if head == batch.before => self.stall.during(|| self.store.append(batch, self.safety())),
                Ok(Head { last, .. }) => {
                    tracing::error!(last, "the audit store does not hold what was written; nothing more is recorded");
                    return false;
                }
                Err(e) => Err(e),
            };
            match stored {
                Ok(()) => {
                    tracing::info!("the audit store works again");
                    self.failed.send_replace(None);
                    return true;
                }
                Err(e) => {
                    tracing::warn!(error = %e, "the audit store still fails");
                    error = e;
                }
            }
        }
    }
}

/// Says that the writer is gone, however it went.
struct Finish(Arc<Queue>);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// The time of a store's last record.
fn last_time(store: &dyn Store, head: Head) -> Result<u64, StoreError> {
    let Some(block) = store.blocks(head.last, 1)?.pop() else { return Ok(0) };
    let records = decode_block(&block.bytes).map_err(|source| StoreError::Layout { first: block.first, source })?;
    Ok(records.last().map_or(0, |decoded| decoded.record.at_millis))
}

fn append_line(file: &Path, line: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(file)?;
    writeln!(file, "{line}")?;
    file.sync_data()
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
