//! Notices a store that does not come back. A device can hold a write up for ever instead of failing it; then the writer
//! waits in the middle of a commit, and nobody but another thread can say so.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::AuditError;

/// A commit that takes longer than this is told as a failure.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

/// Watches the commits of one writer.
#[derive(Debug)]
pub(super) struct Stall {
    commit: Arc<Mutex<Commit>>,
    failed: watch::Sender<Option<AuditError>>,
}

#[derive(Debug, Default)]
struct Commit {
    since: Option<Instant>,
    told: bool,
}

fn lock(commit: &Mutex<Commit>) -> MutexGuard<'_, Commit> {
    // Each change is one step.
    commit.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stall {
    /// Begins to watch; `failed` is where it is told.
    pub(super) fn new(failed: watch::Sender<Option<AuditError>>, limit: Duration) -> std::io::Result<Stall> {
        let commit = Arc::new(Mutex::new(Commit::default()));
        let (watched, tells) = (Arc::downgrade(&commit), failed.clone());
        let look = move || {
            // Until the writer is gone.
            while let Some(commit) = watched.upgrade() {
                let mut commit = lock(&commit);
                if !commit.told && commit.since.is_some_and(|since| since.elapsed() > limit) {
                    commit.told = true;
                    tracing::error!(limit_ms = limit.as_millis() as u64, "the audit store does not come back");
                    let why = format!("the store has been at one commit for more than {limit:?}");
                    tells.send_replace(Some(AuditError::Store(why.into())));
                }
                drop(commit);
                thread::sleep((limit / 8).min(Duration::from_millis(250)));
            }
        };
        thread::Builder::new().name("audit-watch".to_owned()).spawn(look)?;
        Ok(Stall { commit, failed })
    }

    /// Does a commit under watch. If it was told as a failure, its end is told as well.
    pub(super) fn during<T>(&self, commit: impl FnOnce() -> T) -> T {
        lock(&self.commit).since = Some(Instant::now());
        let done = commit();
        let told = std::mem::take(&mut *lock(&self.commit)).told;
        if told {
            tracing::info!("the audit store has come back");
            self.failed.send_replace(None);
        }
        done
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_does_not_end_is_told_and_so_is_its_end() {
        let (failed, failure) = watch::channel(None);
        let stall = Stall::new(failed, Duration::from_millis(20)).unwrap();
        let seen = stall.during(|| {
            loop {
                if let Some(e) = failure.borrow().clone() {
                    return e;
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        assert!(seen.to_string().contains("at one commit"), "{seen}");
        assert!(failure.borrow().is_none());
        stall.during(|| ());
        assert!(failure.borrow().is_none());
    }
}
