//! The thread on which the candidate judges what was answered already. It takes what it is handed in the order in which
//! that was answered, and knows each session as the rules do that answer: from its first item, or from its journal.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::Receiver,
    },
};

use tokio::sync::broadcast;

use crate::{
    audit::{PackRef, Store},
    engine::Pack,
    model::Step,
    service::{
        journal::{self, Kept, Unread},
        judging::{Answer, Item, Judging},
        rules::reference,
        session_key::SessionKey,
        sessions::SessionLimits,
    },
};

use super::compare::{Difference, Totals, differ};

/// Sessions that are followed at once. One more, and the one that was silent for the longest is let go; it is taken up
/// from its journal when it speaks again.
const FOLLOWED: usize = 1024;

/// Items that were answered, and how.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) session: Arc<str>,
    pub(super) agent: Arc<str>,
    pub(super) live: Arc<PackRef>,
    pub(super) candidate: Arc<Pack>,
    /// The number of the candidate.
    pub(super) generation: u64,
    pub(super) seed: u64,
    pub(super) items: Vec<Item>,
    /// Of the items that were judged now, each with its seq.
    pub(super) steps: Vec<(u64, Arc<Step>)>,
    pub(super) bytes: usize,
}

/// A session as the candidate knows it.
#[derive(Debug)]
struct Followed {
    candidate: Arc<Pack>,
    reference: Arc<PackRef>,
    /// Nothing if its past cannot be known.
    judging: Option<Judging>,
    /// When it last spoke, as a count.
    spoke: u64,
}

/// What the thread works with.
pub(super) struct Beside {
    pub(super) store: Arc<dyn Store>,
    pub(super) key: SessionKey,
    pub(super) limits: SessionLimits,
    pub(super) totals: Arc<Mutex<Totals>>,
    pub(super) told: broadcast::Sender<Arc<Difference>>,
    /// Bytes of what waits.
    pub(super) waiting: Arc<AtomicUsize>,
}

impl Beside {
    /// Judges what is handed in until nobody hands in any more.
    pub(super) fn run(self, queue: &Receiver<Answered>) {
        let mut followed: HashMap<Arc<str>, Followed> = HashMap::new();
        for (count, answered) in (0..).zip(queue) {
            let bytes = answered.bytes;
            self.take(&mut followed, count, answered);
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn take(&self, followed: &mut HashMap<Arc<str>, Followed>, count: u64, answered: Answered) {
        let Some(first) = answered.steps.first().map(|(seq, _)| *seq) else { return };
        // A newer candidate counts from its beginning.
        if answered.generation != self.totals().generation {
            return;
        }
        let fits = followed.get(&answered.session).is_some_and(|known| {
            Arc::ptr_eq(&known.candidate, &answered.candidate)
                && known.judging.as_ref().is_none_or(|judging| judging.next() == first)
                && first > 0
        });
        if !fits {
            if followed.len() >= FOLLOWED && !followed.contains_key(&answered.session) {
                let oldest = followed.iter().min_by_key(|(_, known)| known.spoke).map(|(session, _)| session.clone());
                oldest.map(|session| followed.remove(&session));
            }
            let judging = match self.begin(&answered, first) {
                Ok(judging) => Some(judging),
                // What is still on its way into the store is looked for again at the next item.
                Err(Unfollowed::Behind) => {
                    followed.remove(&answered.session);
                    self.totals().unfollowed += answered.steps.len() as u64;
                    return;
                }
                Err(Unfollowed::Unknown) => None,
            };
            self.totals().sessions += u64::from(judging.is_some());
            let known = Followed {
                reference: Arc::new(reference(&answered.candidate)),
                candidate: answered.candidate.clone(),
                judging,
                spoke: count,
            };
            followed.insert(answered.session.clone(), known);
        }
        let Some(known) = followed.get_mut(&answered.session) else { return };
        known.spoke = count;
        let Some(judging) = &mut known.judging else {
            self.totals().unfollowed += answered.steps.len() as u64;
            return;
        };
        let new = answered.items.iter().position(|item| item.seq == first).unwrap_or(answered.items.len());
        let new = answered.items.get(new..).unwrap_or_default();
        let mut judged = Vec::with_capacity(new.len());
        let whole = judging.answer(new, &mut judged).is_ok();
        self.compare(&answered, &known.reference, &judged);
        if judging.has_ended() || !whole {
            followed.remove(&answered.session);
        }
    }

    /// Compares, counts and tells.
    fn compare(&self, answered: &Answered, candidate: &Arc<PackRef>, judged: &[Answer]) {
        let mut totals = self.totals();
        for ((seq, live), other) in answered.steps.iter().zip(judged) {
            totals.count(live);
            let (calls, gained, lost) = differ(live, &other.step);
            if calls.is_empty() && gained.is_empty() && lost.is_empty() {
                continue;
            }
            let difference = Difference {
                session: answered.session.clone(),
                agent: answered.agent.clone(),
                live: answered.live.clone(),
                candidate: candidate.clone(),
                seq: *seq,
                turn: live.turn,
                calls,
                gained,
                lost,
            };
            totals.differs(&difference);
            // Nobody may be listening.
            let _ = self.told.send(Arc::new(difference));
        }
        totals.unfollowed += answered.steps.len().saturating_sub(judged.len()) as u64;
    }

    /// The session as it was before an item, as the candidate sees it.
    fn begin(&self, answered: &Answered, first: u64) -> Result<Judging, Unfollowed> {
        let mut judging = Judging::new(answered.candidate.clone(), &self.limits, answered.seed);
        if first == 0 {
            return Ok(judging);
        }
        let entries = self.store.journal(&answered.session).map_err(|_| Unfollowed::Behind)?;
        let kept = match journal::read(&self.key, &answered.session, &entries) {
            (Some(_), Ok(kept)) => kept,
            // Nothing is kept, or nothing yet.
            (None, _) if entries.is_empty() && self.limits.journal > 0 => return Err(Unfollowed::Behind),
            (_, Err(Unread::Gap)) => return Err(Unfollowed::Behind),
            _ => return Err(Unfollowed::Unknown),
        };
        for kept in kept {
            match kept {
                Kept::GivenBack => judging.give_back(),
                Kept::Moved(_) => {}
                Kept::Items(mut items) => {
                    items.retain(|item| item.seq < first);
                    judging.answer(&items, &mut Vec::new()).map_err(|_| Unfollowed::Unknown)?;
                }
            }
        }
        if judging.next() == first { Ok(judging) } else { Err(Unfollowed::Behind) }
    }

    fn totals(&self) -> std::sync::MutexGuard<'_, Totals> {
        // At worst a count is off by one.
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a session is not followed.
enum Unfollowed {
    /// What was answered is not stored yet.
    Behind,
    /// It is not kept in full, or cannot be read.
    Unknown,
}
