//! Gates follow the rules: a session that guards a running agent moves to newly loaded rules with its next request, so
//! that a fix reaches agents that run for days. Episodes keep the rules that they began with.
//!
//! It moves as it would over a restart: it is put to sleep, and its journal is judged again, under the new rules. So
//! each policy knows the whole session, a changed or new one too, and one whose meaning is the same has the state that
//! it had. What was answered stays as it was: hits are counted on from what was counted, repeated requests get the
//! answers of before, and nothing of what is judged again is told, recorded or paid. The first answer under the new
//! rules and a record before it say what happened.
//!
//! A session whose journal outgrew its bound cannot be judged again. It keeps its rules, for as long as these may stay in
//! memory (`outlive`).

use std::sync::Arc;

use crate::{
    audit::{Mode, PackRef},
    engine::Told,
};

use super::{
    Service,
    judging::Answered,
    requests::Recent,
    sessions::{Live, Slot},
};

/// What a session takes along to other rules.
#[derive(Clone, Debug, Default)]
pub struct Luggage {
    /// Its last answers.
    pub(super) answered: Answered,
    /// Its last requests that had a name.
    pub(super) named: Recent,
    /// What its callers were told.
    pub(super) told: Told,
}

/// A session that has moved and has not answered since.
#[derive(Clone, Debug)]
pub struct Moved {
    /// The rules of before.
    pub from: Arc<PackRef>,
    /// What its callers were told so far.
    pub told: Told,
}

impl Service {
    /// Puts a gate to sleep whose pack is served in another form by now. True if the session is to be looked for again.
    pub(super) fn sends_on(&self, slot: &Arc<Slot>) -> bool {
        if slot.mode != Mode::Gate || slot.episode.is_some() {
            return false;
        }
        let served = self.rules.current();
        if served.number() == slot.generation {
            return false;
        }
        let newer = served.set.get(&slot.asked).map(|pack| served.pack_ref(pack));
        if newer.is_none_or(|newer| newer == slot.pack) {
            return false;
        }
        self.sleeps(slot)
    }

    /// Puts a session to sleep, if it can be taken up from its journal; whether it is asleep.
    pub(super) fn sleeps(&self, slot: &Arc<Slot>) -> bool {
        // One that broke is left as it is.
        let Ok(mut live) = slot.live.lock() else { return false };
        let Live { judging, journal, named, moved, closed, left, followed: _ } = &mut *live;
        if *left {
            return true;
        }
        if *closed || judging.has_ended() || !journal.is_whole() {
            return false;
        }
        *left = true;
        if judging.next() > 0 {
            // A move that nobody has heard of yet is one with this.
            let told = moved.take().map_or_else(|| judging.told(), |moved| moved.told);
            let luggage = Luggage { answered: judging.take_answered(), named: std::mem::take(named), told };
            self.dormant.sleeps(slot.id.clone(), slot.touched(), luggage);
        }
        self.sessions.take_this(slot);
        true
    }
}
