//! An episode with two sides in the service: who may take which side, what it sends, judging and recording it on the
//! way to the other side, and the end.
//!
//! One message at a time is judged, whoever sent it, and it reaches the other side once its record is stored.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, MutexGuard, watch},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    audit::{CloseReason, Mode},
    engine::Pack,
    model::{Digest, json},
    service::{
        Service,
        judging::{Item, ItemBody, ItemError},
        observe::ObserveError,
        sessions::{Full, Opening, Slot},
        writer::AuditError,
    },
};

use super::{
    outbox::NotKept,
    public::{EndReason, ToAuditor},
    room::{Delivery, Judgement, NoSeat, Outlet, Room, ToTarget},
};

/// SHA-256 of the secret of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secrets {
    /// Of the auditor's.
    pub auditor: [u8; 32],
    /// Of the target's.
    pub target: [u8; 32],
}

/// What the two sides of an episode share, with all that is needed to change it.
#[derive(Debug)]
pub struct Episode {
    room: watch::Sender<Room>,
    /// Held while something is judged.
    turn: Mutex<()>,
    secrets: Secrets,
    pack: Arc<Pack>,
    deadline: Instant,
}

/// Somebody who wants to take a side.
#[derive(Debug)]
pub struct JoinAsk {
    /// The episode, which is the session that is recorded.
    pub episode: String,
    /// Its pack; may be empty where the episode is open.
    pub pack: String,
    /// The agent, where the episode opens; may be empty.
    pub agent: String,
    /// The secrets.
    pub secrets: Secrets,
    /// How many messages the side has received before.
    pub received: u64,
}

/// What the target sends.
#[derive(Debug)]
pub enum TargetInput {
    /// Something that the auditor hears: a message of the assistant.
    Say(String),
    /// A private message, or a call that it wants to make; with its fingerprint.
    Do(Digest, ItemBody),
}

/// A side that is taken.
#[derive(Debug)]
pub struct JoinedAs<M: Outlet> {
    /// The number of the message of its own that comes next.
    pub next: u64,
    /// Where its messages come from. Whoever drops it leaves.
    pub seat: Seat<M>,
    /// Where it speaks.
    pub speaker: Speaker<M>,
}

/// Where the messages for a side come from.
#[derive(Debug)]
pub struct Seat<M: Outlet> {
    slot: Arc<Slot>,
    episode: Arc<Episode>,
    changes: watch::Receiver<Room>,
    ended: bool,
    _leaves: DropGuard,
    _presence: Arc<Presence<M>>,
}

/// Where a side speaks.
#[derive(Debug)]
pub struct Speaker<M: Outlet> {
    slot: Arc<Slot>,
    episode: Arc<Episode>,
    gone: CancellationToken,
    _presence: Arc<Presence<M>>,
}

/// The side is taken until nothing of it is left, so that whoever takes it next finds what it sent settled.
#[derive(Debug)]
struct Presence<M: Outlet> {
    episode: Arc<Episode>,
    side: PhantomData<fn() -> M>,
}

impl<M: Outlet> Drop for Presence<M> {
    fn drop(&mut self) {
        self.episode.room.send_modify(Room::leave::<M>);
    }
}

/// Why a side cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The id is of a session that is none of the caller's, or the secrets are not those of the episode.
    #[error("the episode cannot be joined with these secrets")]
    Refused,
    /// The episode is under another pack.
    #[error("the episode is under another pack")]
    OtherPack,
    /// Somebody is there.
    #[error("somebody is on this side of the episode")]
    Present,
    /// What the side has not received is not kept.
    #[error("messages are kept from {} on, and the next is {}", .0.first, .0.next)]
    NotKept(NotKept),
    /// An episode of this id was open before a restart; it is closed.
    #[error("the episode was open before a restart and is closed")]
    Closed,
    /// It cannot be opened.
    #[error(transparent)]
    Open(ObserveError),
    /// The service cannot do it now.
    #[error("the episode cannot be reached now")]
    Unavailable,
    /// What the target comes with cannot be judged.
    #[error(transparent)]
    Setup(TargetFault),
}

/// Why a message of the target was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetFault {
    /// It is not the one that comes next.
    #[error("message {got} came where message {expected} was expected")]
    Order {
        /// The number that must come.
        expected: u64,
        /// The number that came.
        got: u64,
    },
    /// It contradicts what was proposed.
    #[error(transparent)]
    Item(ItemError),
    /// It could not be recorded; nothing of it was judged.
    #[error(transparent)]
    Audit(AuditError),
    /// The episode has ended, or the side has left.
    #[error("the episode has ended")]
    Over,
}

/// Why a message of the auditor was not taken. It cannot say more than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditorFault {
    /// It is not the one that comes next.
    #[error("message {got} came where message {expected} was expected")]
    Order {
        /// The number that must come.
        expected: u64,
        /// The number that came.
        got: u64,
    },
    /// The service cannot take it now; it can be sent again.
    #[error("the message cannot be taken now")]
    Unavailable,
    /// The episode has ended, or the side has left.
    #[error("the episode has ended")]
    Over,
}

impl From<TargetFault> for AuditorFault {
    fn from(fault: TargetFault) -> AuditorFault {
        match fault {
            TargetFault::Order { expected, got } => AuditorFault::Order { expected, got },
            TargetFault::Item(_) | TargetFault::Audit(_) => AuditorFault::Unavailable,
            TargetFault::Over => AuditorFault::Over,
        }
    }
}

impl Episode {
    fn new(id: &str, secrets: Secrets, pack: Arc<Pack>) -> Episode {
        let rules = *pack.episode();
        let (room, _) = watch::channel(Room::new(id, rules));
        let deadline = Instant::now() + Duration::from_secs(rules.seconds as u64);
        Episode { room, turn: Mutex::new(()), secrets, pack, deadline }
    }

    /// Its session was closed.
    pub fn closed(&self, reason: CloseReason) {
        let reason = match reason {
            CloseReason::Idle => EndReason::Idle,
            CloseReason::Asked => EndReason::Asked,
            CloseReason::Limit => EndReason::Limit,
            CloseReason::RulesGone
            | CloseReason::Unreadable
            | CloseReason::Lost
            | CloseReason::OtherLimits
            | CloseReason::TooLong => EndReason::Failed,
        };
        self.room.send_modify(|room| room.close(reason));
    }

    fn sit<M: Outlet>(self: &Arc<Self>, slot: Arc<Slot>, received: u64) -> Result<JoinedAs<M>, JoinError> {
        let mut entered = Err(NoSeat::Present);
        self.room.send_if_modified(|room| {
            entered = room.enter::<M>(received);
            entered.is_ok()
        });
        let next = entered.map_err(|why| match why {
            NoSeat::Present => JoinError::Present,
            NoSeat::NotKept(which) => JoinError::NotKept(which),
        })?;
        let presence = Arc::new(Presence { episode: self.clone(), side: PhantomData });
        let gone = CancellationToken::new();
        let speaker =
            Speaker { slot: slot.clone(), episode: self.clone(), gone: gone.clone(), _presence: presence.clone() };
        let seat = Seat {
            slot,
            episode: self.clone(),
            changes: self.room.subscribe(),
            ended: false,
            _leaves: gone.drop_guard(),
            _presence: presence,
        };
        Ok(JoinedAs { next, seat, speaker })
    }
}

impl<M: Outlet> Seat<M> {
    /// What the side is sent next; nothing after the end.
    pub async fn next(&mut self) -> Option<Delivery<M>> {
        while !self.ended {
            self.changes.mark_unchanged();
            let mut found = None;
            self.episode.room.send_if_modified(|room| {
                found = room.deliver::<M>();
                // A place is free for whoever waits for one.
                matches!(found, Some(Delivery::Message(..)))
            });
            if let Some(found) = found {
                self.ended = matches!(found, Delivery::End(_));
                return Some(found);
            }
            // The sender is in the episode, which this seat holds.
            self.changes.changed().await.ok()?;
        }
        None
    }

    /// When the episode is closed at the latest.
    pub fn deadline(&self) -> Instant {
        self.episode.deadline
    }
}

impl<M: Outlet> Speaker<M> {
    /// Done when nobody receives the side's messages any more.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Waits for the right to send message `number`, and for a place for what it leads to.
    async fn turn(&self, number: u64, may: fn(&Room) -> bool) -> Result<MutexGuard<'_, ()>, TargetFault> {
        let expected = M::side(&self.episode.room.borrow()).taken;
        if number != expected {
            return Err(TargetFault::Order { expected, got: number });
        }
        let mut changes = self.episode.room.subscribe();
        loop {
            tokio::select! {
                biased;
                () = self.gone() => return Err(TargetFault::Over),
                () = until(&mut changes, |room| room.has_ended() || may(room)) => {}
            }
            let turn = self.episode.turn.lock().await;
            let room = self.episode.room.borrow();
            if room.has_ended() {
                return Err(TargetFault::Over);
            }
            if may(&room) {
                return Ok(turn);
            }
        }
    }
}

async fn until(changes: &mut watch::Receiver<Room>, holds: impl FnMut(&Room) -> bool) {
    // Fails where the sender is gone; whoever waits holds the episode.
    let _ = changes.wait_for(holds).await;
}

impl Service {
    /// Takes the auditor's side. What it says of the situation counts when it comes for the first time.
    pub async fn join_as_auditor(
        &self,
        ask: JoinAsk,
        scenario: Option<String>,
    ) -> Result<JoinedAs<ToAuditor>, JoinError> {
        let (slot, episode) = self.episode(&ask).await?;
        let joined = episode.sit(slot, ask.received)?;
        episode.room.send_modify(|room| room.describe(scenario));
        Ok(joined)
    }

    /// Takes the target's side. What it comes with is judged before anything else, when it comes for the first time.
    pub async fn join_as_target(
        &self,
        ask: JoinAsk,
        setup: Vec<(Digest, ItemBody)>,
    ) -> Result<JoinedAs<ToTarget>, JoinError> {
        let (slot, episode) = self.episode(&ask).await?;
        let joined: JoinedAs<ToTarget> = episode.sit(slot, ask.received)?;
        let _turn = episode.turn.lock().await;
        let settled = {
            let room = episode.room.borrow();
            room.has_begun() || room.has_ended()
        };
        if !settled {
            let judged = match setup.is_empty() {
                true => Vec::new(),
                false => self.judge_next(&joined.speaker, setup).await.map_err(JoinError::Setup)?,
            };
            episode.room.send_modify(|room| room.begin(judged));
        }
        Ok(joined)
    }

    /// Takes a message of the auditor: it is judged as a user message and goes to the target.
    pub async fn auditor_says(
        &self,
        speaker: &Speaker<ToAuditor>,
        number: u64,
        text: String,
    ) -> Result<(), AuditorFault> {
        let _turn = speaker.turn(number, Room::auditor_may_speak).await?;
        let judged = self.judge_one(speaker, self.spoken("user", &text)?).await?;
        speaker.episode.room.send_modify(|room| room.auditor_said(text.into(), judged));
        self.close_if_full(speaker).await;
        Ok(())
    }

    /// Takes what the target sends: it is judged, and what it says publicly goes to the auditor.
    pub async fn target_sends(
        &self,
        speaker: &Speaker<ToTarget>,
        number: u64,
        input: TargetInput,
    ) -> Result<(), TargetFault> {
        let may = match input {
            TargetInput::Say(_) => Room::target_may_speak,
            TargetInput::Do(..) => Room::target_may_act,
        };
        let _turn = speaker.turn(number, may).await?;
        let room = &speaker.episode.room;
        match input {
            TargetInput::Say(text) => {
                let judged = self.judge_one(speaker, self.spoken("assistant", &text)?).await?;
                room.send_modify(|room| room.target_said(text.into(), judged));
            }
            TargetInput::Do(print, body) => {
                let judged = self.judge_one(speaker, (print, body)).await?;
                room.send_modify(|room| room.target_did(judged));
            }
        }
        self.close_if_full(speaker).await;
        Ok(())
    }

    /// A side ends the episode with a message of its own.
    pub async fn end_episode<M: Outlet>(
        &self,
        speaker: &Speaker<M>,
        number: u64,
        reason: EndReason,
    ) -> Result<(), TargetFault> {
        let _turn = speaker.turn(number, |_| true).await?;
        self.finish_episode(&speaker.slot, &speaker.episode, reason).await;
        Ok(())
    }

    /// Closes an episode whose time is over.
    pub async fn end_at_deadline<M: Outlet>(&self, seat: &Seat<M>) {
        let _turn = seat.episode.turn.lock().await;
        self.finish_episode(&seat.slot, &seat.episode, EndReason::Limit).await;
    }

    /// The episode of an id, opened if there is none.
    async fn episode(&self, ask: &JoinAsk) -> Result<(Arc<Slot>, Arc<Episode>), JoinError> {
        let found = self.find(&ask.episode).await.map_err(|e| match e {
            ObserveError::Closed { .. } => JoinError::Closed,
            _ => JoinError::Unavailable,
        })?;
        let slot = match found {
            Some(slot) => slot,
            None => self.open_episode(ask)?,
        };
        let episode = slot.episode.clone().filter(|e| e.secrets == ask.secrets).ok_or(JoinError::Refused)?;
        if !ask.pack.is_empty() && *ask.pack != *slot.pack.name {
            return Err(JoinError::OtherPack);
        }
        Ok((slot, episode))
    }

    fn open_episode(&self, ask: &JoinAsk) -> Result<Arc<Slot>, JoinError> {
        if ask.pack.is_empty() {
            return Err(JoinError::Open(ObserveError::NoPack));
        }
        let served = self.served();
        let unknown = || JoinError::Open(ObserveError::UnknownPack { pack: ask.pack.clone() });
        let pack = served.set.get(&ask.pack).ok_or_else(unknown)?;
        let opening = Opening {
            id: &ask.episode,
            agent: &ask.agent,
            mode: Mode::Episode,
            served: &served,
            pack,
            episode: Some(Arc::new(Episode::new(&ask.episode, ask.secrets, pack.clone()))),
        };
        // Another call may have opened it just now; then that one is found.
        let opened = self.sessions.open(&opening, self.seed(&ask.episode), self.now());
        opened.map_err(|Full { limit }| JoinError::Open(ObserveError::SessionsFull { limit }))
    }

    async fn judge_one<M: Outlet>(
        &self,
        speaker: &Speaker<M>,
        body: (Digest, ItemBody),
    ) -> Result<Judgement, TargetFault> {
        self.judge_next(speaker, vec![body]).await?.pop().ok_or(TargetFault::Over)
    }

    /// Judges and records what comes next in the session. Where that goes wrong in the middle, the episode is closed:
    /// its sides would not know what was judged.
    async fn judge_next<M: Outlet>(
        &self,
        speaker: &Speaker<M>,
        bodies: Vec<(Digest, ItemBody)>,
    ) -> Result<Vec<Judgement>, TargetFault> {
        let Speaker { slot, episode, .. } = speaker;
        let place = self.audit.place().await.map_err(TargetFault::Audit)?;
        // It is in use.
        self.sessions.find(&slot.id, self.now());
        let first = episode.room.borrow().next_item();
        let items: Vec<Item> = (first..).zip(bodies).map(|(seq, (print, body))| Item { seq, print, body }).collect();
        let observed = match self.judge_in(slot, &items, place) {
            Ok(pending) => pending.finish().await,
            Err(e) => Err(e),
        };
        match observed {
            Ok(observed) => {
                let recorded = observed.recorded;
                let judged = items.into_iter().zip(observed.answers);
                Ok(judged.map(|(item, answer)| Judgement { item: item.body, answer, recorded }).collect())
            }
            Err(ObserveError::Item(refused)) => Err(TargetFault::Item(refused)),
            Err(_) => {
                self.give_up(slot, episode).await;
                Err(TargetFault::Over)
            }
        }
    }

    async fn close_if_full<M: Outlet>(&self, speaker: &Speaker<M>) {
        let full = speaker.episode.room.borrow().is_full();
        if full {
            self.finish_episode(&speaker.slot, &speaker.episode, EndReason::Limit).await;
        }
    }

    /// Ends the session as its last item, and scores it. To be called by whoever holds the turn.
    async fn finish_episode(&self, slot: &Arc<Slot>, episode: &Arc<Episode>, reason: EndReason) {
        if episode.room.borrow().has_ended() {
            return;
        }
        let seq = episode.room.borrow().next_item();
        let end = Item { seq, print: self.prints().end(), body: ItemBody::End };
        let judged = async {
            let place = self.audit.place().await.map_err(ObserveError::Audit)?;
            let observed = self.judge_in(slot, std::slice::from_ref(&end), place)?.finish().await?;
            if reason == EndReason::Limit {
                let closed = self.record_closed(slot.id.clone(), Some(slot.pack.clone()), CloseReason::Limit, None);
                closed.await.map_err(ObserveError::Audit)?;
            }
            Ok::<_, ObserveError>(observed)
        };
        match judged.await.map(|observed| (observed.recorded, observed.answers.into_iter().next())) {
            Ok((recorded, Some(answer))) => {
                let last = Judgement { item: end.body, answer, recorded };
                episode.room.send_modify(|room| room.score(reason, &episode.pack, last));
            }
            _ => self.give_up(slot, episode).await,
        }
    }

    /// Closes an episode that cannot go on.
    async fn give_up(&self, slot: &Arc<Slot>, episode: &Episode) {
        episode.closed(CloseReason::Lost);
        // Closed for another reason, it is out of the table already.
        if let Some((slot, false)) = self.sessions.take_this(slot)
            && let Err(e) = self.close_slot(&slot, CloseReason::Lost, None).await
        {
            tracing::warn!(error = %e, "the end of an episode was not recorded");
        }
    }

    /// Text as a message of a role.
    fn spoken(&self, role: &str, text: &str) -> Result<(Digest, ItemBody), TargetFault> {
        let json = serde_json::json!({ "role": role, "content": text }).to_string();
        // What serde_json writes is JSON.
        let message = json::parse(json.as_bytes()).map_err(|_| TargetFault::Over)?;
        Ok((self.prints().message(json.as_bytes()), ItemBody::Message { message, json: json.into() }))
    }
}
