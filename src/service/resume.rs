//! Sessions over a restart: those with a journal are taken up when somebody asks for them, and closed when nobody does
//! within the idle time. Closing, whatever the reason, is recorded, and drops what was kept.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::audit::{CloseReason, Closed, Draft, JournalChange, JournalEntry, JournalWrite, Mode, PackRef};

use super::{
    QueryError, Service,
    drift::is_snapshot,
    follow::{Luggage, Moved},
    journal::{self, Head, Journal, Kept, Unread},
    judging::Judging,
    observe::ObserveError,
    requests::{Named, RequestError, Turn},
    rules::Served,
    session_key::SessionKey,
    sessions::{Full, Live, Opening, Put, SessionLimits, Slot},
    writer::{AuditError, Place},
};

/// Sessions that are read from the store at once.
const AT_ONCE: usize = 1024;

/// Sessions that were open before the service began, or under other rules, and that nobody has asked for since.
#[derive(Debug, Default)]
pub struct Dormant(Mutex<HashMap<Arc<str>, Asleep>>);

#[derive(Debug)]
struct Asleep {
    since: Duration,
    /// What it had with it, if it fell asleep in this process.
    luggage: Option<Luggage>,
}

impl Dormant {
    fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, Asleep>> {
        // Each change is one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn len(&self) -> usize {
        self.table().len()
    }

    pub(super) fn holds(&self, session: &str) -> bool {
        self.table().contains_key(session)
    }

    /// Takes one in.
    pub(super) fn sleeps(&self, session: Arc<str>, since: Duration, luggage: Luggage) {
        self.table().insert(session, Asleep { since, luggage: Some(luggage) });
    }

    /// What a session has with it; nothing if it is not here.
    fn luggage(&self, session: &str) -> Option<Option<Luggage>> {
        self.table().get(session).map(|asleep| asleep.luggage.clone())
    }

    /// Takes one out; tells whether it was there. If so, `then` is called before anybody can find it gone.
    pub(super) fn wakes(&self, session: &str, then: impl FnOnce()) -> bool {
        let mut table = self.table();
        let woken = table.remove(session).is_some();
        if woken {
            then();
        }
        woken
    }

    /// Those that have waited for the idle time.
    fn idle(&self, now: Duration, ttl: Duration) -> Vec<Arc<str>> {
        let table = self.table();
        let idle = table.iter().filter(|(_, asleep)| now.saturating_sub(asleep.since) > ttl);
        idle.map(|(session, _)| session.clone()).collect()
    }

    /// Takes out those that have waited for the idle time.
    pub(super) fn take_idle(&self, now: Duration, ttl: Duration) -> Vec<Arc<str>> {
        let idle = |asleep: &Asleep| now.saturating_sub(asleep.since) > ttl;
        self.table().extract_if(|_, asleep| idle(asleep)).map(|(session, _)| session).collect()
    }
}

/// Why a session is not open any more, or never was.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// Nothing is known of it.
    #[error("session `{session}` is not open")]
    NotOpen {
        /// The session.
        session: String,
    },
    /// The store cannot be read, or the request's name stands for another one.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The end could not be recorded.
    #[error("not recorded: {0}")]
    Audit(#[from] AuditError),
}

/// What becomes of a session that is asked for after a restart.
enum TakenUp {
    /// It goes on.
    Live(Head, Box<Live>),
    /// It cannot.
    Not(Option<Arc<PackRef>>, CloseReason),
}

impl Service {
    /// Finds out which sessions were open when the service ended. To be called before anybody asks for one.
    pub async fn find_dormant(&self) -> Result<usize, QueryError> {
        let mut after: Option<String> = None;
        loop {
            let from = after.clone();
            let found = self.read(move |store| store.journaled(from.as_deref(), AT_ONCE)).await?;
            let Some(last) = found.last().cloned() else { return Ok(self.dormant.len() + self.drift.dormant.len()) };
            after = Some(last);
            let now = self.now();
            let (probes, items): (Vec<String>, Vec<String>) = found.into_iter().partition(|name| is_snapshot(name));
            for (dormant, names) in [(&self.drift.dormant, probes), (&self.dormant, items)] {
                let asleep = |name: String| (Arc::from(name), Asleep { since: now, luggage: None });
                dormant.table().extend(names.into_iter().map(asleep));
            }
        }
    }

    /// The session of an id, taken up from the store if need be.
    pub(super) async fn find(&self, session: &str) -> Result<Option<Arc<Slot>>, ObserveError> {
        if let Some(slot) = self.sessions.find(session, self.now())
            && !self.sends_on(&slot)
        {
            return Ok(Some(slot));
        }
        let Some(luggage) = self.dormant.luggage(session) else { return Ok(None) };
        if luggage.is_some() {
            // Its journal may still be on its way into the store.
            let behind_all = self.audit.place().await.map_err(ObserveError::Audit)?.record_durably(Vec::new());
            behind_all.done().await.map_err(ObserveError::Audit)?;
        }
        let unread = |_: QueryError| ObserveError::Unread { session: session.to_owned() };
        let id = session.to_owned();
        let entries = self.read(move |store| store.journal(&id)).await.map_err(unread)?;
        match self.taken_up(session, luggage, entries, || self.dormant.wakes(session, || ())).await? {
            Ok(Put::Ours(slot) | Put::Found(slot)) => Ok(Some(slot)),
            Ok(Put::Unwanted(_)) => Ok(None),
            Err((pack, reason)) => {
                let place = self.audit.place().await.map_err(ObserveError::Audit)?;
                if self.dormant.wakes(session, || ()) {
                    let recorded = self.record_closed(place, session.into(), pack, reason, None).await;
                    recorded.map_err(ObserveError::Audit)?;
                }
                Err(ObserveError::Closed { session: session.to_owned(), reason })
            }
        }
    }

    /// Puts a session into the table that a journal of elsewhere tells of; false if there is one of its id. `hand_in` is
    /// called when it is certain that it is this one, before anybody can find it.
    pub(super) async fn wake(
        &self,
        session: &str,
        entries: Vec<JournalEntry>,
        hand_in: impl FnOnce(),
    ) -> Result<bool, ObserveError> {
        let wanted = || {
            hand_in();
            true
        };
        match self.taken_up(session, None, entries, wanted).await? {
            Ok(put) => Ok(matches!(put, Put::Ours(_))),
            Err((_, reason)) => Err(ObserveError::Closed { session: session.to_owned(), reason }),
        }
    }

    /// Makes a session of a journal and puts it into the table, if it is still wanted then. Or why it cannot go on.
    async fn taken_up(
        &self,
        session: &str,
        luggage: Option<Luggage>,
        entries: Vec<JournalEntry>,
        wanted: impl FnOnce() -> bool,
    ) -> Result<Result<Put, (Option<Arc<PackRef>>, CloseReason)>, ObserveError> {
        let (key, served, limits) = (self.keys.session.clone(), self.rules.current(), *self.sessions.limits());
        let (id, seed, of) = (Arc::<str>::from(session), self.seed(session), served.clone());
        // Judging a long session again takes its time.
        let take_up = move || take_up(&key, &of, &limits, (&id, seed), luggage, &entries);
        let taken_up = tokio::task::spawn_blocking(take_up).await;
        let taken_up = taken_up.map_err(|_| ObserveError::Broken { session: session.to_owned() })?;
        let (head, live) = match taken_up {
            TakenUp::Live(head, live) => (head, live),
            TakenUp::Not(pack, reason) => return Ok(Err((pack, reason))),
        };
        let Some(pack) = served.set.get(&head.asked) else {
            return Ok(Err((Some(head.pack), CloseReason::RulesGone)));
        };
        let opening = Opening::again(session, &head, &served, pack);
        // Another call may have taken it up meanwhile; then that one is found. Or closed it; then it is not wanted.
        let put = self.sessions.put(&opening, *live, self.now(), wanted);
        put.map(Ok).map_err(|Full { limit }| ObserveError::SessionsFull { limit })
    }

    /// Closes a session: it takes nothing more, and nothing of it is kept but its records. What probes of it have led to
    /// ends with it; an item or a probe under its id that comes later begins anew.
    pub async fn close_session(&self, session: &str, named: Option<Named>) -> Result<(), CloseError> {
        let Turn::New(_turn) = self.turn(named.as_ref()).await? else { return Ok(()) };
        // First the place in the queue: what is taken out of the table can then always be recorded.
        let place = self.audit.place().await?;
        if self.dormant.wakes(session, || ()) {
            return Ok(self.record_closed(place, session.into(), None, CloseReason::Asked, named).await?);
        }
        match self.sessions.take(session) {
            None => self.close_probed(place, session, named, false).await,
            Some((_, true)) => self.close_probed(place, session, named, true).await,
            Some((slot, false)) => Ok(self.close_slot(place, &slot, CloseReason::Asked, named).await?),
        }
    }

    /// Closes a session of which only its probes are left: it has ended, or nothing but probes came of it.
    async fn close_probed(
        &self,
        place: Place<'_>,
        session: &str,
        named: Option<Named>,
        ended: bool,
    ) -> Result<(), CloseError> {
        let ticket = self.ending(session, CloseReason::Asked, |dropped| {
            let closed = Closed { session: session.into(), pack: None, reason: CloseReason::Asked };
            // A request with a name is remembered by a record.
            let remembered = ended && named.is_some();
            let drafts = if ended && !remembered { Vec::new() } else { vec![Draft::Closed(closed)] };
            (remembered || !dropped.is_empty()).then(|| place.answer(named, drafts, dropped))
        });
        match ticket {
            Some(ticket) => Ok(ticket.done().await.map(|_| ())?),
            None if ended => Ok(()),
            None => Err(CloseError::NotOpen { session: session.to_owned() }),
        }
    }

    /// Hands in the end of a session together with what drops its probes' memory: who closes a session ends that too.
    /// One that is closed because it is idle may still be probed.
    fn ending<T>(&self, session: &str, reason: CloseReason, hand_in: impl FnOnce(Vec<JournalWrite>) -> T) -> T {
        if reason != CloseReason::Asked {
            return hand_in(Vec::new());
        }
        let served = self.rules.current();
        self.drift.close(session, served.set.iter().map(|pack| pack.line()), hand_in)
    }

    /// Drops idle sessions; gives their number. To be called now and then.
    pub async fn sweep(&self) -> Result<usize, AuditError> {
        let now = self.now();
        let mut dropped = self.sessions.forget_idle_ended(now);
        // A session leaves its table once there is a place for its record: while nothing can be recorded, it stays.
        for slot in self.sessions.idle(now) {
            let place = self.audit.place().await?;
            if self.sessions.take_idle(&slot, now) {
                self.close_slot(place, &slot, CloseReason::Idle, None).await?;
                dropped += 1;
            }
        }
        let ttl = self.sessions.limits().ttl;
        for session in self.dormant.idle(now, ttl) {
            let place = self.audit.place().await?;
            if self.dormant.wakes(&session, || ()) {
                self.record_closed(place, session, None, CloseReason::Idle, None).await?;
                dropped += 1;
            }
        }
        Ok(dropped + self.sweep_drift(now).await?)
    }

    /// Closes a session that is out of the table, and records that.
    pub(super) async fn close_slot(
        &self,
        place: Place<'_>,
        slot: &Slot,
        reason: CloseReason,
        named: Option<Named>,
    ) -> Result<(), AuditError> {
        let recorded = self.record_end(place, slot, reason, named).await;
        // Recorded or not, its two sides must not wait for what never comes.
        if let Some(episode) = &slot.episode {
            episode.closed(reason);
        }
        recorded
    }

    async fn record_end(
        &self,
        place: Place<'_>,
        slot: &Slot,
        reason: CloseReason,
        named: Option<Named>,
    ) -> Result<(), AuditError> {
        let ticket = {
            // A session that broke has nothing more to say, and is dropped all the same.
            let mut live = slot.live.lock().unwrap_or_else(PoisonError::into_inner);
            live.closed = true;
            let closed = Closed { session: slot.id.clone(), pack: Some(slot.pack.clone()), reason };
            // Under the session's lock: whoever still holds the session finds it closed.
            self.ending(&slot.id, reason, |mut dropped| {
                dropped.extend(live.journal.closed());
                place.answer(named, vec![Draft::Closed(closed)], dropped)
            })
        };
        ticket.done().await.map(|_| ())
    }

    /// Records the end of a session of which nothing but its journal is there.
    pub(super) async fn record_closed(
        &self,
        place: Place<'_>,
        session: Arc<str>,
        pack: Option<Arc<PackRef>>,
        reason: CloseReason,
        named: Option<Named>,
    ) -> Result<(), AuditError> {
        let ticket = self.ending(&session.clone(), reason, |mut dropped| {
            dropped.push(JournalWrite { session: session.clone(), change: JournalChange::Drop });
            place.answer(named, vec![Draft::Closed(Closed { session, pack, reason })], dropped)
        });
        ticket.done().await.map(|_| ())
    }
}

/// Makes a session what its journal says that it was.
fn take_up(
    key: &SessionKey,
    served: &Served,
    limits: &SessionLimits,
    (session, seed): (&Arc<str>, u64),
    luggage: Option<Luggage>,
    entries: &[JournalEntry],
) -> TakenUp {
    let (head, kept) = journal::read(key, session, entries);
    let Some(head) = head else { return TakenUp::Not(None, CloseReason::Unreadable) };
    let not = |reason| TakenUp::Not(Some(head.pack.clone()), reason);
    let kept = match kept {
        Ok(kept) => kept,
        Err(Unread::TooLong) => return not(CloseReason::TooLong),
        Err(Unread::Gap) => return not(CloseReason::Lost),
        Err(Unread::Broken) => return not(CloseReason::Unreadable),
    };
    // Under which rules it was last.
    let (before, limits_before) = kept
        .iter()
        .rev()
        .find_map(|kept| match kept {
            Kept::Moved(moved) => Some((&moved.pack, &moved.limits)),
            _ => None,
        })
        .unwrap_or((&head.pack, &head.limits));
    let not = |reason| TakenUp::Not(Some(before.clone()), reason);
    let Some(pack) = served.set.get(&head.asked) else { return not(CloseReason::RulesGone) };
    let opening = Opening::again(session, &head, served, pack);
    let now = opening.head(limits);
    let moves = now.pack != *before;
    match (moves, head.mode) {
        (true, Mode::Episode) => return not(CloseReason::RulesGone),
        (false, _) if now.limits != *limits_before => return not(CloseReason::OtherLimits),
        _ => {}
    }
    let mut judging = Judging::new(pack.clone(), limits, seed);
    for kept in &kept {
        match kept {
            Kept::GivenBack => judging.give_back(),
            Kept::Moved(moved) => judging.set_hits(&moved.hits),
            // What was judged once is judged again: an error means that the journal is of something else.
            Kept::Items(items) if judging.answer(items, &mut Vec::new()).is_ok() => {}
            Kept::Items(_) => return not(CloseReason::Unreadable),
        }
    }
    let journal = Journal::after(session.clone(), now.clone(), limits.journal, entries);
    let mut live = Live::new(judging, journal);
    if let Some(Luggage { answered, named, hits }) = luggage {
        live.judging.set_answered(answered);
        live.judging.set_hits(&hits);
        live.named = named;
    }
    if moves {
        live.moved = Some(Moved { from: before.clone(), hits: live.judging.hits() });
    }
    TakenUp::Live(now, Box::new(live))
}
