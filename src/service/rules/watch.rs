//! Watching the rules folder: hints and polls lead to readings, readings to what is at rest, and that is loaded.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::{sleep, sleep_until};

use crate::service::{ReloadError, Service, Shadow};

use super::{
    LiveRules, LoadError, Trigger,
    hints::Hints,
    settle::{Seen, Settling, rest_after},
};

/// How long a folder may go on changing before that is worth a word.
const RESTLESS: Duration = Duration::from_secs(30);
/// When to try again what failed for a reason that is not in the rules.
const RETRY: Duration = Duration::from_secs(2);
/// Stands for never.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// How the rules folder is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchSettings {
    /// Whether the operating system is asked for hints.
    pub hints: bool,
    /// How often it is read without a hint; `None` for never.
    pub poll: Option<Duration>,
    /// How long it must stay as it is before it is loaded.
    pub settle: Duration,
}

/// Whose folder is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// That of the rules that serve.
    Rules,
    /// That of the candidate beside them.
    Shadow,
}

impl Service {
    /// Watches a folder and loads what comes to rest in it, for as long as it is polled.
    pub async fn watch(self: Arc<Self>, watched: Watched, settings: WatchSettings) {
        let Some(rules) = self.watched(watched) else { return };
        let began = Instant::now();
        let poll = settings.poll.unwrap_or(NEVER);
        let loader = rules.loader.clone();
        let Ok(watched_folder) = tokio::task::spawn_blocking(move || loader.watched()).await else { return };
        let mut hints = Hints::new(&watched_folder, settings.hints);
        let arrived = hints.arrived();
        let mut settling = Settling::new(settings.settle);
        let mut restless = false;
        let mut wait = Duration::ZERO;
        loop {
            tokio::select! {
                () = arrived.notified() => {}
                () = sleep(wait) => {}
            }
            let read_from = began.elapsed();
            let loader = rules.loader.clone();
            let reading = tokio::task::spawn_blocking(move || {
                hints.arm();
                let print = loader.read().fingerprint;
                (hints, print)
            });
            let Ok((armed, print)) = reading.await else {
                tracing::error!("reading the rules folder broke: it is watched no longer");
                return;
            };
            hints = armed;
            let read_until = began.elapsed();
            let rested = tokio::time::Instant::now() + rest_after(read_until.saturating_sub(read_from));
            wait = match settling.saw(print, (read_from, read_until), rules.knows(&print)) {
                Seen::Known => {
                    restless = false;
                    poll
                }
                Seen::Moving { again_in, since } => {
                    if since > RESTLESS && !restless {
                        restless = true;
                        tracing::warn!("somebody keeps writing to the rules folder; it is loaded once it is at rest");
                    }
                    again_in
                }
                Seen::Settled => match self.load(watched, Trigger::Settled(print)).await {
                    Ok(()) | Err(ReloadError::Load(LoadError::Refused(_))) => poll,
                    Err(ReloadError::Load(LoadError::Unsettled)) => Duration::ZERO,
                    Err(e) => {
                        tracing::warn!(error = %e, "the changed rules were not loaded; this is tried again");
                        RETRY
                    }
                },
            };
            sleep_until(rested).await;
        }
    }

    fn watched(&self, watched: Watched) -> Option<&LiveRules> {
        match watched {
            Watched::Rules => Some(&self.rules),
            Watched::Shadow => self.shadow.as_ref().map(Shadow::rules),
        }
    }

    async fn load(&self, watched: Watched, trigger: Trigger) -> Result<(), ReloadError> {
        match (watched, &self.shadow) {
            (Watched::Rules, _) => self.reload_for(trigger, None).await.map(drop),
            (Watched::Shadow, Some(shadow)) => Ok(shadow.reload(trigger).await?),
            (Watched::Shadow, None) => Ok(()),
        }
    }
}
