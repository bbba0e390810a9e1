//! A candidate beside the rules that answer: it judges the same items, after they were answered and on a thread of its
//! own; in what it differs is counted and told. Nothing of it is enforced, recorded or paid, and where it does not keep
//! up, items are passed over and counted: callers never wait for it.
//!
//! What it judges is the pack that the session asked for, as the candidate's folder has it. One that means the same is
//! not judged again.

mod beside;
mod compare;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread,
};

use tokio::sync::broadcast;

use crate::{
    audit::Store,
    config::{OnTestFailure, RulesAt, Settings},
    model::Step,
};

use super::{
    judging::{Answer, Item},
    keys::Keys,
    rules::{LiveRules, LoadError, Prepared, Served, Stale, Trigger},
    sessions::{SessionLimits, Slot},
};

use beside::{Answered, Beside, Shared};
pub use compare::{CallDifference, Difference, PolicyTotals, Totals};

/// Requests that may wait to be judged again, and bytes of what they hold.
const WAITING: usize = 1024;
const WAITING_BYTES: usize = 64 << 20;
/// Differences that somebody who listens may be behind.
const TOLD: usize = 1024;

/// A candidate beside the rules that answer.
pub struct Shadow {
    rules: LiveRules,
    queue: SyncSender<Answered>,
    told: broadcast::Sender<Arc<Difference>>,
    shared: Arc<Shared>,
    /// Counts what is handed over.
    order: AtomicU64,
    /// The thread that judges has ended.
    broke: AtomicBool,
}

/// How a candidate stands.
#[derive(Debug)]
pub struct ShadowStatus {
    /// Where it is.
    pub location: String,
    /// The candidate; empty while none could be loaded.
    pub candidate: Arc<Served>,
    /// What became of its files, if they are not those of the candidate.
    pub stale: Option<Stale>,
    /// What there was to compare.
    pub totals: Totals,
}

impl Shadow {
    /// A candidate that is at this place; it is loaded by [`Shadow::reload`].
    pub fn start(
        settings: &Settings,
        at: &RulesAt,
        store: Arc<dyn Store>,
        keys: &Keys,
        limits: SessionLimits,
    ) -> io::Result<Shadow> {
        // A candidate is there to be tried: what must be shown before rules serve is not asked of it.
        let settings = Settings {
            rules: at.clone(),
            on_test_failure: OnTestFailure::Warn,
            rules_digest: Vec::new(),
            rules_digest_file: Default::default(),
            rules_public_key_file: Default::default(),
            ..settings.clone()
        };
        let (queue, waiting) = sync_channel(WAITING);
        let (told, _) = broadcast::channel(TOLD);
        let shared = Arc::<Shared>::default();
        let beside = Beside {
            store,
            key: keys.session.clone(),
            // Nobody asks it for an answer again.
            limits: SessionLimits { retained: 0, ..limits },
            told: told.clone(),
            shared: shared.clone(),
        };
        thread::Builder::new().name("shadow".to_owned()).spawn(move || beside.run(&waiting))?;
        let rules = LiveRules::none_yet(&settings);
        Ok(Shadow { rules, queue, told, shared, order: AtomicU64::new(0), broke: AtomicBool::new(false) })
    }

    /// The rules of the candidate.
    pub(super) fn rules(&self) -> &LiveRules {
        &self.rules
    }

    /// Loads the candidate as it now stands.
    pub async fn reload(&self, trigger: Trigger) -> Result<(), LoadError> {
        let alone = self.rules.alone().await;
        match self.rules.prepare(&alone, trigger).await? {
            Prepared::Same(_) => self.rules.confirm(&alone),
            Prepared::New { served, .. } => {
                // What is counted from now on is of this candidate.
                *self.shared.totals() = Totals { generation: served.generation, ..Totals::default() };
                self.rules.serve(&alone, served);
            }
            Prepared::Refused(refused) => {
                self.rules.refuse(&alone, refused.clone());
                return Err(LoadError::Refused(refused));
            }
        }
        Ok(())
    }

    /// How it stands.
    pub fn status(&self) -> ShadowStatus {
        ShadowStatus {
            location: self.rules.location(),
            candidate: self.rules.current(),
            stale: self.rules.stale().borrow().clone(),
            totals: self.shared.totals().clone(),
        }
    }

    /// Differences from now on.
    pub fn differences(&self) -> broadcast::Receiver<Arc<Difference>> {
        self.told.subscribe()
    }

    /// Hands items over that were answered. `seed` is the session's.
    pub(super) fn answered(&self, slot: &Slot, seed: u64, items: Vec<Item>, answers: &[Answer]) {
        let candidates = self.rules.current();
        let now = answers.iter().filter(|answer| answer.judged.is_some());
        let steps: Vec<(u64, Arc<Step>)> = now.map(|answer| (answer.seq, answer.step.clone())).collect();
        if steps.is_empty() || candidates.set.is_empty() {
            return;
        }
        let Some(candidate) = candidates.set.get(&slot.asked) else {
            self.shared.totals().absent += steps.len() as u64;
            return;
        };
        if *candidate.digest() == slot.pack.digest {
            return;
        }
        let bytes = items.iter().map(|item| item.body.size()).sum::<usize>()
            + steps.iter().map(|(_, step)| weight(step)).sum::<usize>();
        let count = steps.len() as u64;
        let answered = Answered {
            order: self.order.fetch_add(1, Ordering::Relaxed),
            session: slot.id.clone(),
            agent: slot.agent.clone(),
            live: slot.pack.clone(),
            candidate: candidate.clone(),
            generation: candidates.generation,
            seed,
            items,
            steps,
            bytes,
        };
        let full = self.shared.add(bytes) > WAITING_BYTES;
        let taken = if full { Err(TrySendError::Full(answered)) } else { self.queue.try_send(answered) };
        if let Err(error) = taken {
            self.shared.remove(bytes);
            self.shared.totals().skipped += count;
            if matches!(error, TrySendError::Disconnected(_)) && !self.broke.swap(true, Ordering::Relaxed) {
                tracing::error!(
                    "judging by the candidate broke: nothing more is compared until the server starts again"
                );
            }
        }
    }

    /// Notes that a session was closed: what is known of it is let go.
    pub(super) fn closed(&self, session: Arc<str>) {
        // Nobody takes notice any more.
        if self.broke.load(Ordering::Relaxed) {
            return;
        }
        let order = self.order.fetch_add(1, Ordering::Relaxed);
        self.shared.closed().insert(session, order);
    }
}

/// About how many bytes a judgement takes.
fn weight(step: &Step) -> usize {
    let calls = step.calls.iter().map(|call| call.call_id.len());
    let messages = step.hits.iter().map(|hit| hit.firing.message.len());
    256 + calls.chain(messages).map(|bytes| bytes + 64).sum::<usize>()
}
