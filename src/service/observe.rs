//! Observe: find or open the session, judge, hand the records in, wait until they are stored.

use std::sync::Arc;

use crate::audit::{CloseReason, Draft, Mode, PackRef};

use super::{
    Service,
    follow::Moved,
    judging::{Answer, Item, ItemError},
    requests::Named,
    sessions::{Full, Live, Opening, Slot},
    writer::{AuditError, Place, Recorded, Ticket},
};

/// A request.
#[derive(Debug)]
pub struct Ask {
    /// The session.
    pub session: String,
    /// The pack, as `NAME` or `NAME@RANGE`; empty if the session is open.
    pub pack: String,
    /// The mode; nothing if the session is open.
    pub mode: Option<Mode>,
    /// The agent, where the session opens; may be empty.
    pub agent: String,
    /// The items, at least one.
    pub items: Vec<Item>,
    /// The caller's name for the request, if it has one.
    pub named: Option<Named>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Observed {
    /// The session.
    pub session: Arc<str>,
    /// The rules.
    pub pack: Arc<PackRef>,
    /// The rules that the session was under before, if this is the first answer since it moved to others.
    pub followed: Option<Arc<PackRef>>,
    /// One answer an item.
    pub answers: Vec<Answer>,
    /// What became of their records.
    pub recorded: Recorded,
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObserveError {
    /// The session is not open, and the first item does not open it.
    #[error("session `{session}` is not open; item 0 opens it, and item {got} came")]
    NotOpen {
        /// The session.
        session: String,
        /// The seq that came.
        got: u64,
    },
    /// A session was to be opened without the name of a pack.
    #[error("the request that opens a session must name its pack")]
    NoPack,
    /// A session was to be opened without a mode.
    #[error("the request that opens a session must say its mode")]
    NoMode,
    /// No pack of this name is served.
    #[error("no pack `{pack}` is served")]
    UnknownPack {
        /// The name.
        pack: String,
    },
    /// The session is under another pack.
    #[error("session `{session}` is under pack `{open}`, not `{asked}`")]
    OtherPack {
        /// The session.
        session: String,
        /// Its pack.
        open: String,
        /// The pack of the request.
        asked: String,
    },
    /// The session has another mode.
    #[error("session `{session}` was opened as {open}, not as {asked}", open = open.word(), asked = asked.word())]
    OtherMode {
        /// The session.
        session: String,
        /// Its mode.
        open: Mode,
        /// The mode of the request.
        asked: Mode,
    },
    /// The table of sessions is full.
    #[error("{limit} sessions are open, which is the limit")]
    SessionsFull {
        /// The limit.
        limit: usize,
    },
    /// The session could not be taken up after a restart, or its rules were too old.
    #[error("session `{session}` could not go on ({why}) and is closed", why = reason.word())]
    Closed {
        /// The session.
        session: String,
        /// Why.
        reason: CloseReason,
    },
    /// The store cannot be read.
    #[error("session `{session}` cannot be read")]
    Unread {
        /// The session.
        session: String,
    },
    /// Its auditor and its target join it, and nobody else reaches it.
    #[error("`{session}` is an episode with two sides: they join it")]
    TwoSides {
        /// The session.
        session: String,
    },
    /// Judging broke in an earlier request; the session cannot go on.
    #[error("session `{session}` broke and cannot go on")]
    Broken {
        /// The session.
        session: String,
    },
    /// The request's name was given to other items.
    #[error("`{request_id}` was sent before with other content")]
    OtherContent {
        /// The name.
        request_id: String,
    },
    /// The session goes on under other rules: it is to be looked for again.
    #[error("the session has moved to other rules")]
    Left,
    /// An item was refused; those before it are judged.
    #[error("{0}")]
    Item(ItemError),
    /// The judgement could not be recorded.
    #[error("not recorded: {0}")]
    Audit(AuditError),
}

/// A request that is judged and waits for its records to be stored.
#[derive(Debug)]
#[must_use = "the answer may leave only once the records are stored"]
pub struct Pending {
    ticket: Ticket,
    outcome: Result<Observed, ObserveError>,
    /// What was judged before an item that was refused.
    unanswered: Vec<Answer>,
}

impl Pending {
    /// True if an item was refused.
    pub fn is_refused(&self) -> bool {
        self.outcome.is_err()
    }

    /// Waits until what was judged is stored, and gives the answer.
    pub async fn finish(self) -> Result<Observed, ObserveError> {
        let recorded = self.ticket.done().await.map_err(ObserveError::Audit)?;
        self.outcome.map(|observed| Observed { recorded, ..observed })
    }
}

impl Service {
    /// Judges a request and waits until that is stored.
    pub async fn observe(&self, ask: Ask) -> Result<Observed, ObserveError> {
        self.submit(ask).await?.finish().await
    }

    /// Judges a request. Requests of one session must be submitted in their order; they may be
    /// finished together.
    pub async fn submit(&self, ask: Ask) -> Result<Pending, ObserveError> {
        loop {
            // Whoever takes a session up needs a place of its own: nobody waits for one while holding another.
            let found = self.find(&ask.session).await?;
            // First the place in the queue: what is judged can then always be recorded.
            let place = self.audit.place().await.map_err(ObserveError::Audit)?;
            let slot = match found {
                Some(slot) => fits(slot, &ask)?,
                None => self.open(&ask)?,
            };
            match self.judge_in(&slot, &ask.items, ask.named.as_ref(), place) {
                // It has moved to other rules since it was found.
                Err(ObserveError::Left) => {}
                judged => {
                    if let (Some(shadow), Ok(Pending { outcome, unanswered, .. })) = (&self.shadow, &judged) {
                        let answers = outcome.as_ref().map_or(unanswered, |observed| &observed.answers);
                        shadow.answered(&slot, self.seed(&slot.id), ask.items, answers);
                    }
                    return judged;
                }
            }
        }
    }

    /// Judges items of a session that is found, and hands their records in.
    pub(super) fn judge_in(
        &self,
        slot: &Arc<Slot>,
        items: &[Item],
        named: Option<&Named>,
        place: Place<'_>,
    ) -> Result<Pending, ObserveError> {
        let mut answers = Vec::with_capacity(items.len());
        let mut told_from = None;
        let (outcome, ticket, ended) = {
            let mut live = slot.live.lock().map_err(|_| ObserveError::Broken { session: slot.id.to_string() })?;
            if live.closed {
                let got = items.first().map_or(0, |item| item.seq);
                return Err(self.not_open(&slot.id, got));
            }
            if live.left {
                return Err(ObserveError::Left);
            }
            let Live { judging, journal, named: recent, moved, followed, .. } = &mut *live;
            if let Some(named) = named
                && recent.contradicts(named)
            {
                return Err(ObserveError::OtherContent { request_id: named.key.id.to_string() });
            }
            let before = judging.next();
            let outcome = judging.answer(items, &mut answers);
            let drafts = answers.iter().filter_map(|answer| {
                answer.judged.map(|(item, input)| Draft::Judged {
                    session: slot.id.clone(),
                    agent: slot.agent.clone(),
                    pack: slot.pack.clone(),
                    mode: slot.mode,
                    item,
                    seq: answer.seq,
                    input,
                    step: answer.step.clone(),
                })
            });
            if let (Some(named), Ok(())) = (named, &outcome) {
                recent.note(named, self.sessions.kept_answers());
            }
            let mut drafts: Vec<Draft> = drafts.collect();
            let judged = before..judging.next();
            let judged: Vec<&Item> = items.iter().filter(|item| judged.contains(&item.seq)).collect();
            let mut kept = Vec::new();
            if let Some(Moved { from, told }) = moved.take_if(|_| !drafts.is_empty()) {
                let to = slot.pack.clone();
                kept.extend(journal.moved(&self.keys.session, &told));
                drafts.insert(0, Draft::Moved { session: slot.id.clone(), from: from.clone(), to });
                *followed = Some((before, from));
            }
            // Whoever asks for the first answer since the move once more may not have had it.
            if let Some((first, from)) = followed.as_ref()
                && answers.iter().any(|answer| answer.seq == *first)
            {
                told_from = Some(from.clone());
            }
            kept.extend(match judging.has_ended() {
                true => journal.closed(),
                false => journal.judged(&self.keys.session, &judged),
            });
            // Under the session's lock, so that its records are in the order of its items.
            (outcome, place.record_with(drafts, kept), judging.has_ended())
        };
        if ended {
            self.sessions.ended(slot);
        }
        let (outcome, unanswered) = match outcome {
            Ok(()) => {
                let recorded = Recorded::Queued;
                let (session, pack) = (slot.id.clone(), slot.pack.clone());
                (Ok(Observed { session, pack, followed: told_from, answers, recorded }), Vec::new())
            }
            Err(e) => (Err(ObserveError::Item(e)), answers),
        };
        Ok(Pending { ticket, outcome, unanswered })
    }

    /// Why an item of a session is refused that is not open.
    fn not_open(&self, session: &str, got: u64) -> ObserveError {
        let session = session.to_owned();
        match self.sessions.has_outlived(&session) {
            true => ObserveError::Closed { session, reason: CloseReason::Outlived },
            false => ObserveError::NotOpen { session, got },
        }
    }

    fn open(&self, ask: &Ask) -> Result<Arc<Slot>, ObserveError> {
        let got = ask.items.first().map_or(0, |item| item.seq);
        if got != 0 {
            return Err(self.not_open(&ask.session, got));
        }
        if ask.pack.is_empty() {
            return Err(ObserveError::NoPack);
        }
        let mode = ask.mode.ok_or(ObserveError::NoMode)?;
        let served = self.rules.current();
        let pack = served.set.get(&ask.pack).ok_or_else(|| ObserveError::UnknownPack { pack: ask.pack.clone() })?;
        let rules = served.rules(pack);
        let opening =
            Opening { id: &ask.session, agent: &ask.agent, mode, asked: &ask.pack, rules: &rules, episode: None };
        let opened = self.sessions.open(&opening, self.seed(&ask.session), self.now());
        // Another call may have opened it just now, in its own way.
        fits(opened.map_err(|Full { limit }| ObserveError::SessionsFull { limit })?, ask)
    }
}

fn fits(slot: Arc<Slot>, ask: &Ask) -> Result<Arc<Slot>, ObserveError> {
    if slot.episode.is_some() {
        return Err(ObserveError::TwoSides { session: ask.session.clone() });
    }
    if !ask.pack.is_empty() && !slot.fits(&ask.pack) {
        return Err(ObserveError::OtherPack {
            session: ask.session.clone(),
            open: slot.asked.to_string(),
            asked: ask.pack.clone(),
        });
    }
    match ask.mode {
        Some(asked) if asked != slot.mode => {
            Err(ObserveError::OtherMode { session: ask.session.clone(), open: slot.mode, asked })
        }
        _ => Ok(slot),
    }
}
