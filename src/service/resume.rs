//! Sessions over a restart: those with a journal are taken up when somebody asks for them, and closed when nobody does
//! within the idle time. Closing, whatever the reason, is recorded, and drops what was kept.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    audit::{
        Body, CloseReason, Closed, Draft, JournalChange, JournalEntry, JournalWrite, PackRef, Posting, Store,
        StoreError, scan_posted,
    },
    engine::Told,
};

use super::{
    QueryError, Service,
    barrier::Episode,
    drift::is_snapshot,
    follow::{Luggage, Moved},
    journal::{self, Head, Journal, Kept, Unread},
    judging::Judging,
    observe::ObserveError,
    requests::{Named, RequestError, Turn},
    rules::SessionRules,
    session_key::SessionKey,
    sessions::{Full, Live, Opening, Put, SessionLimits, Slot},
    writer::{AuditError, Place, Ticket},
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

    pub(super) fn len(&self) -> usize {
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

/// A session as its journal tells of it.
struct Was {
    head: Head,
    entries: Vec<JournalEntry>,
    kept: Vec<Kept>,
    /// Under which rules it was last.
    rules: Arc<PackRef>,
    /// And limits.
    limits: String,
}

/// A session cannot go on: under which rules it was, if that is known, and why.
type Not = (Option<Arc<PackRef>>, CloseReason);

/// The end of a session, on its way into the store.
#[must_use = "its two sides wait for it"]
pub(super) struct Ending {
    ticket: Ticket,
    episode: Option<Arc<Episode>>,
    reason: CloseReason,
}

impl Ending {
    /// Waits until it is recorded.
    pub(super) async fn done(self) -> Result<(), AuditError> {
        let recorded = self.ticket.done().await;
        // Recorded or not, its two sides must not wait for what never comes.
        if let Some(episode) = self.episode {
            episode.closed(self.reason);
        }
        recorded.map(|_| ())
    }
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
                if reason == CloseReason::Outlived {
                    self.sessions.note_outlived(session.into(), self.now());
                }
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
    ) -> Result<Result<Put, Not>, ObserveError> {
        let broken = |_| ObserveError::Broken { session: session.to_owned() };
        let (key, id) = (self.keys.session.clone(), Arc::<str>::from(session));
        let (of, seed, limits) = (id.clone(), self.seed(session), *self.sessions.limits());
        let was = match tokio::task::spawn_blocking(move || read(&key, &of, entries)).await.map_err(broken)? {
            Ok(was) => was,
            Err(not) => return Ok(Err(not)),
        };
        let rules = match self.served_rules(was.head.mode, &was.head.asked, &was.rules) {
            Some(rules) => Ok(rules),
            None => {
                self.old_rules(&was.rules).await.map_err(|_| ObserveError::Unread { session: session.to_owned() })?
            }
        };
        let rules = match rules {
            Ok(rules) => rules,
            Err(reason) => return Ok(Err((Some(was.rules), reason))),
        };
        let was = Arc::new(was);
        // Judging a long session again takes its time.
        let judge = async |rules: SessionRules, luggage: Option<Luggage>| {
            let (was, id) = (was.clone(), id.clone());
            let judge = move || judge_again(&was, &rules, &limits, (&id, seed), luggage);
            tokio::task::spawn_blocking(judge).await.map_err(broken)
        };
        let luggage = match luggage {
            // After a restart under other rules: what it had with it is what the rules of before make of it.
            None if rules.named != was.rules => {
                let unread = |_: QueryError| ObserveError::Unread { session: session.to_owned() };
                let before = match self.old_rules(&was.rules).await.map_err(unread)? {
                    Ok(before) => judge(before, None).await?.ok(),
                    Err(_) => None,
                };
                Some(match before {
                    Some((_, mut live)) => Luggage {
                        told: live.judging.told(),
                        answered: live.judging.take_answered(),
                        ..Luggage::default()
                    },
                    // Without these, the records say what callers were told; what they ask for again is refused.
                    None => {
                        let of = id.clone();
                        let told = self.read(move |store| told(store, &of)).await.map_err(unread)?;
                        Luggage { told, ..Luggage::default() }
                    }
                })
            }
            luggage => luggage,
        };
        let (head, live) = match judge(rules.clone(), luggage).await? {
            Ok(judged) => judged,
            Err(not) => return Ok(Err(not)),
        };
        let opening = Opening::again(session, &head, &rules);
        // Another call may have taken it up meanwhile; then that one is found. Or closed it; then it is not wanted.
        let put = self.sessions.put(&opening, live, self.now(), wanted);
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

    /// Drops idle sessions, and those under the oldest rules where too many are in memory; gives their number. To be called
    /// now and then, and when other rules serve.
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
        dropped += self.end_outlived().await?;
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
        self.hand_in_end(place, slot, reason, named).done().await
    }

    /// The same, without waiting for the record.
    pub(super) fn hand_in_end(
        &self,
        place: Place<'_>,
        slot: &Slot,
        reason: CloseReason,
        named: Option<Named>,
    ) -> Ending {
        // A session that broke has nothing more to say, and is dropped all the same.
        let mut live = slot.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.closed = true;
        // It may have been put to sleep since it left the table.
        if live.left {
            self.dormant.wakes(&slot.id, || ());
        }
        // Whoever still holds the session does not hold its rules.
        live.judging.stop();
        let closed = Closed { session: slot.id.clone(), pack: Some(slot.pack.clone()), reason };
        // Under the session's lock: whoever still holds the session finds it closed.
        if let Some(shadow) = &self.shadow {
            shadow.closed(slot.id.clone());
        }
        let ticket = self.ending(&slot.id, reason, |mut dropped| {
            dropped.extend(live.journal.closed());
            place.answer(named, vec![Draft::Closed(closed)], dropped)
        });
        Ending { ticket, episode: slot.episode.clone(), reason }
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

/// Reads what a session was.
fn read(key: &SessionKey, session: &str, entries: Vec<JournalEntry>) -> Result<Was, Not> {
    let (head, kept) = journal::read(key, session, &entries);
    let Some(head) = head else { return Err((None, CloseReason::Unreadable)) };
    let kept = kept.map_err(|unread| {
        let reason = match unread {
            Unread::TooLong => CloseReason::TooLong,
            Unread::Gap => CloseReason::Lost,
            Unread::Broken => CloseReason::Unreadable,
        };
        (Some(head.pack.clone()), reason)
    })?;
    let last = kept.iter().rev().find_map(|kept| match kept {
        Kept::Moved(moved) => Some((&moved.pack, &moved.limits)),
        _ => None,
    });
    let (rules, limits) = last.unwrap_or((&head.pack, &head.limits));
    Ok(Was { rules: rules.clone(), limits: limits.clone(), head, entries, kept })
}

/// What the callers of a session were told since it began, as its records say.
fn told(store: &dyn Store, session: &Arc<str>) -> Result<Told, StoreError> {
    let (mut hits, mut turn, mut answers) = (BTreeMap::new(), 0, BTreeMap::new());
    scan_posted(store, &Posting::Session(session.clone()), 1, |record| {
        if let Body::Judged(judged) = record.body
            && judged.session == *session
        {
            if judged.seq == 0 {
                hits.clear();
            }
            if judged.seq == 0 || judged.turn != turn {
                turn = judged.turn;
                answers.clear();
            }
            answers.extend(judged.calls.iter().map(|call| (call.index, call.gate)));
            for hit in judged.hits {
                hits.insert(hit.policy, hit.n.saturating_add(1));
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(Told { hits: hits.into_iter().collect(), turn, answers: answers.into_iter().collect() })
}

/// Makes a session what it was, under its rules or newer ones.
fn judge_again(
    was: &Was,
    rules: &SessionRules,
    limits: &SessionLimits,
    (session, seed): (&Arc<str>, u64),
    luggage: Option<Luggage>,
) -> Result<(Head, Live), Not> {
    let Was { head, entries, kept, rules: before, limits: limits_before } = was;
    let opening = Opening::again(session, head, rules);
    let now = opening.head(limits);
    let moves = now.pack != *before;
    if !moves && now.limits != *limits_before {
        return Err((Some(before.clone()), CloseReason::OtherLimits));
    }
    let mut judging = Judging::new(rules.pack.clone(), limits, seed);
    for kept in kept {
        match kept {
            Kept::GivenBack => judging.give_back(),
            Kept::Moved(moved) => judging.set_told(&moved.told),
            // What was judged once is judged again: an error means that the journal is of something else.
            Kept::Items(items) if judging.answer(items, &mut Vec::new()).is_ok() => {}
            Kept::Items(_) => return Err((Some(before.clone()), CloseReason::Unreadable)),
        }
    }
    let journal = Journal::after(session.clone(), now.clone(), limits.journal, entries);
    let mut live = Live::new(judging, journal);
    if let Some(Luggage { answered, named, told }) = luggage {
        live.judging.set_answered(answered);
        live.named = named;
        if moves {
            live.judging.set_told(&told);
            live.moved = Some(Moved { from: before.clone(), told });
        }
    }
    Ok((now, live))
}
