//! The two sides of an episode as streams use them: a seat, where a side's messages come from, and a speaker, where it
//! sends. Both together are its presence.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, MutexGuard, watch},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{audit::CloseReason, model::EpisodeRules, service::sessions::Slot};

use super::{
    fault::{JoinError, TargetFault},
    public::EndReason,
    room::{Delivery, NoSeat, Outlet, Room},
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
    pub(super) room: watch::Sender<Room>,
    /// Held while something is judged.
    pub(super) turn: Mutex<()>,
    pub(super) secrets: Secrets,
    deadline: Instant,
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
    pub(super) slot: Arc<Slot>,
    pub(super) episode: Arc<Episode>,
    changes: watch::Receiver<Room>,
    ended: bool,
    _leaves: DropGuard,
    _presence: Arc<Presence<M>>,
}

/// Where a side speaks.
#[derive(Debug)]
pub struct Speaker<M: Outlet> {
    pub(super) slot: Arc<Slot>,
    pub(super) episode: Arc<Episode>,
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

impl Episode {
    /// An episode that nobody has joined.
    pub(super) fn new(id: &str, secrets: Secrets, rules: EpisodeRules) -> Episode {
        let (room, _) = watch::channel(Room::new(id, rules));
        let deadline = Instant::now() + Duration::from_secs(rules.seconds as u64);
        Episode { room, turn: Mutex::new(()), secrets, deadline }
    }

    /// Its session was closed.
    pub fn closed(&self, reason: CloseReason) {
        let reason = match reason {
            CloseReason::Idle => EndReason::Idle,
            CloseReason::Asked => EndReason::Asked,
            CloseReason::Limit => EndReason::Limit,
            CloseReason::Outlived => EndReason::Outlived,
            CloseReason::RulesGone
            | CloseReason::Unreadable
            | CloseReason::Lost
            | CloseReason::OtherLimits
            | CloseReason::TooLong => EndReason::Failed,
        };
        self.room.send_modify(|room| room.close(reason));
    }

    /// Takes a side.
    pub(super) fn sit<M: Outlet>(self: &Arc<Self>, slot: Arc<Slot>, received: u64) -> Result<JoinedAs<M>, JoinError> {
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
    pub(super) async fn turn(&self, number: u64, may: fn(&Room) -> bool) -> Result<MutexGuard<'_, ()>, TargetFault> {
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
