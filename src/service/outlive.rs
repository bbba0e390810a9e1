//! A bound on the rules in memory. The served set is there, and those under which open sessions are: episodes that keep
//! their rules, gates that could not follow or were not asked since. Where these are too many, sessions that can as well go
//! on under the served rules let go of theirs; if that is not enough, those under the oldest end.

use std::sync::Arc;

use crate::audit::{CloseReason, Mode, PackRef};

use super::{
    Service,
    rules::{Generation, SessionRules},
    sessions::Slot,
    writer::AuditError,
};

/// Sessions whose ends are recorded together.
const AT_ONCE: usize = 64;

impl Service {
    /// Returns when other rules have begun to serve since it did so last.
    pub async fn rules_changed(&self) {
        self.rules_changed.notified().await;
    }

    /// Sets of rules in memory: the served one, and those of open sessions, with each pack of before the start for one.
    pub(super) fn in_memory(&self) -> usize {
        let served = self.rules.current().number();
        let old = |of: &Generation| *of != served && matches!(of, Generation::Loaded(_));
        1 + self.sessions.generations().keys().filter(|of| old(of)).count() + self.old_rules.in_memory()
    }

    /// Whether there may be one more in memory, once what can go has gone.
    pub(super) fn makes_room(&self) -> bool {
        let has_room = || self.in_memory() < self.sessions.limits().generations;
        has_room() || {
            self.let_go();
            self.old_rules.drop_unused();
            has_room()
        }
    }

    /// The served rules under which a session of these can go on: those of now for a gate, and for an episode ones that
    /// mean the same.
    pub(super) fn served_rules(&self, mode: Mode, asked: &str, named: &Arc<PackRef>) -> Option<SessionRules> {
        let served = self.rules.current();
        match mode {
            Mode::Gate => served.set.get(asked).map(|pack| served.rules(pack)),
            Mode::Episode => self.served_same(named),
        }
    }

    /// Served rules that mean the same as others, under the name and version of these: records go on naming them.
    pub(super) fn served_same(&self, named: &Arc<PackRef>) -> Option<SessionRules> {
        let served = self.rules.current();
        let same = served.set.versions(&named.name).iter().find(|pack| *pack.digest() == named.digest);
        same.map(|pack| SessionRules { named: named.clone(), ..served.rules(pack) })
    }

    /// Ends the sessions under the oldest rules, where more are in memory than may be; gives their number.
    pub(super) async fn end_outlived(&self) -> Result<usize, AuditError> {
        self.old_rules.drop_unused();
        let most = self.sessions.limits().generations;
        if self.in_memory() <= most {
            return Ok(0);
        }
        let old = self.let_go();
        let beyond = (old.len() + 1).saturating_sub(most);
        let outlived: Vec<Arc<Slot>> = old.into_iter().take(beyond).flatten().collect();
        let mut ended = 0;
        for part in outlived.chunks(AT_ONCE) {
            let (mut endings, mut outcome) = (Vec::new(), Ok(()));
            for slot in part {
                // A session leaves its table once there is a place for its record: while nothing can be recorded, it
                // stays.
                match self.audit.place().await {
                    Ok(place) if self.sessions.take_outlived(slot, self.now()) => {
                        endings.push(self.hand_in_end(place, slot, CloseReason::Outlived, None));
                    }
                    Ok(_) => {}
                    Err(e) => {
                        outcome = Err(e);
                        break;
                    }
                }
            }
            ended += endings.len();
            for ending in endings {
                outcome = outcome.and(ending.done().await);
            }
            outcome?;
        }
        if ended > 0 {
            self.old_rules.drop_unused();
            tracing::warn!(
                sessions = ended,
                most,
                "sessions under the oldest rules were ended: too many are in memory"
            );
        }
        Ok(ended)
    }

    /// Puts the sessions under old rules to sleep that go on under the served ones when they are asked for next. Gives the
    /// others, for each set that is still in memory, the oldest first.
    fn let_go(&self) -> Vec<Vec<Arc<Slot>>> {
        let goes_on = |slot: &Arc<Slot>| {
            slot.episode.is_none()
                && self.served_rules(slot.mode, &slot.asked, &slot.pack).is_some()
                && self.sleeps(slot)
        };
        let mut old: Vec<_> = self.sessions.under_old(self.rules.current().number()).into_values().collect();
        old.iter_mut().for_each(|slots| slots.retain(|slot| !goes_on(slot)));
        old.retain(|slots| !slots.is_empty());
        old
    }
}
