//! An episode with two sides in the service: joining, judging and recording what a side sends on its way to the other,
//! and the end.
//!
//! One message at a time is judged, whoever sent it, and it reaches the other side once its record is stored.

use std::sync::Arc;

use crate::{
    audit::{CloseReason, Mode},
    model::{Digest, json},
    service::{
        Service,
        judging::{Item, ItemBody},
        observe::ObserveError,
        sessions::{Full, Opening, Slot},
        writer::AuditError,
    },
};

use super::{
    fault::{AuditorFault, JoinError, TargetFault, TargetJoinError},
    public::{EndReason, ToAuditor},
    room::{Judgement, Outlet, Room, ToTarget},
    side::{Episode, JoinedAs, Seat, Secrets, Speaker},
};

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
    ) -> Result<JoinedAs<ToTarget>, TargetJoinError> {
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
                false => self.judge_next(&joined.speaker, setup).await?,
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
        self.finish_episode(&speaker.slot, &speaker.episode, reason).await.map_err(TargetFault::Audit)
    }

    /// Closes an episode whose time is over.
    pub async fn end_at_deadline<M: Outlet>(&self, seat: &Seat<M>) {
        let _turn = seat.episode.turn.lock().await;
        self.close_at_limit(&seat.slot, &seat.episode).await;
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
        if !ask.pack.is_empty() && !slot.fits(&ask.pack) {
            return Err(JoinError::OtherPack);
        }
        Ok((slot, episode))
    }

    fn open_episode(&self, ask: &JoinAsk) -> Result<Arc<Slot>, JoinError> {
        if ask.pack.is_empty() {
            return Err(JoinError::NoPack);
        }
        let served = self.served();
        let unknown = || JoinError::UnknownPack { pack: ask.pack.clone() };
        let rules = served.rules(served.set.get(&ask.pack).ok_or_else(unknown)?);
        let opening = Opening {
            id: &ask.episode,
            agent: &ask.agent,
            mode: Mode::Episode,
            asked: &ask.pack,
            rules: &rules,
            episode: Some(Arc::new(Episode::new(&ask.episode, ask.secrets, *rules.pack.episode()))),
        };
        // Another call may have opened it just now; then that one is found.
        let opened = self.sessions.open(&opening, self.seed(&ask.episode), self.now());
        opened.map_err(|Full { limit }| JoinError::Full { limit })
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
        let observed = match self.judge_in(slot, &items, None, place) {
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
            // Whoever closes it says why.
            Err(ObserveError::NotOpen { .. } | ObserveError::Closed { .. }) => Err(TargetFault::Over),
            Err(_) => {
                self.give_up(slot, episode).await;
                Err(TargetFault::Over)
            }
        }
    }

    async fn close_if_full<M: Outlet>(&self, speaker: &Speaker<M>) {
        let full = speaker.episode.room.borrow().is_full();
        if full {
            self.close_at_limit(&speaker.slot, &speaker.episode).await;
        }
    }

    async fn close_at_limit(&self, slot: &Arc<Slot>, episode: &Episode) {
        if let Err(e) = self.finish_episode(slot, episode, EndReason::Limit).await {
            // The next input tries again, or it is idle in the end.
            tracing::warn!(error = %e, "an episode is not closed at its limit");
        }
    }

    /// Ends the session as its last item, and scores it. To be called by whoever holds the turn. After an error it is
    /// open as before.
    async fn finish_episode(&self, slot: &Arc<Slot>, episode: &Episode, reason: EndReason) -> Result<(), AuditError> {
        if episode.room.borrow().has_ended() {
            return Ok(());
        }
        let place = self.audit.place().await?;
        // Where the end has two records there is a place for each before the first is handed in.
        let second = if reason == EndReason::Limit { Some(self.audit.place().await?) } else { None };
        let seq = episode.room.borrow().next_item();
        // Once it has ended it holds no rules.
        let pack = slot.live.lock().ok().and_then(|live| live.judging.pack().cloned());
        let end = Item { seq, print: self.prints().end(), body: ItemBody::End };
        let judged = async {
            let observed = self.judge_in(slot, std::slice::from_ref(&end), None, place)?.finish().await?;
            if let Some(place) = second {
                let pack = Some(slot.pack.clone());
                let closed = self.record_closed(place, slot.id.clone(), pack, CloseReason::Limit, None);
                closed.await.map_err(ObserveError::Audit)?;
            }
            Ok::<_, ObserveError>(observed)
        };
        match judged.await.map(|observed| (observed.recorded, observed.answers.into_iter().next().zip(pack))) {
            Ok((recorded, Some((answer, pack)))) => {
                let last = Judgement { item: end.body, answer, recorded };
                episode.room.send_modify(|room| room.score(reason, &pack, last));
            }
            Err(ObserveError::NotOpen { .. } | ObserveError::Closed { .. }) => {}
            _ => self.give_up(slot, episode).await,
        }
        Ok(())
    }

    /// Closes an episode that cannot go on.
    async fn give_up(&self, slot: &Arc<Slot>, episode: &Episode) {
        episode.closed(CloseReason::Lost);
        // Closed for another reason, it is out of the table already.
        let recorded = async {
            let place = self.audit.place().await?;
            match self.sessions.take_this(slot) {
                Some((slot, false)) => self.close_slot(place, &slot, CloseReason::Lost, None).await,
                _ => Ok(()),
            }
        };
        if let Err(e) = recorded.await {
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
