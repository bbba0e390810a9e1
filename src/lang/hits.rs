//! Violations as events: what a turn was found to hold becomes history once the turn is complete.
//!
//! Only then, so that the answers for the calls of one message do not depend on the order in which they
//! were asked for. Policies that read hits make none, so that no verdict rests on itself.

use std::{collections::BTreeMap, sync::Arc};

use super::{judge::Judged, program::Program};
use crate::{
    ingest::Ingest,
    model::{Effect, Event, Num, PolicyId, Turn},
};

/// The hits of the turn that is being judged.
#[derive(Clone, Debug, Default)]
pub struct TurnHits {
    /// One for each policy, with the turn and time of the event that it was found at.
    found: BTreeMap<PolicyId, Found>,
}

#[derive(Clone, Debug)]
struct Found {
    turn: Turn,
    time: Option<Num>,
    severity: Num,
    tags: Vec<Arc<str>>,
}

impl TurnHits {
    /// Takes note of what judging an event gave.
    pub fn note(&mut self, program: &Program, event: &Event, judged: &Judged) {
        if !program.keeps_hits {
            return;
        }
        for (id, _) in &judged.firings {
            let Some(policy) = program.policies.get(*id) else { continue };
            if policy.effect == Effect::Deny && !policy.reads_hits {
                self.found.entry(policy.id.clone()).or_insert_with(|| Found {
                    turn: event.turn,
                    time: event.time,
                    severity: policy.severity,
                    tags: policy.tags.clone(),
                });
            }
        }
    }

    /// The turn is complete: its hits as events, by policy id. They are to be taken in before anything else.
    pub fn complete(&mut self, ingest: &mut Ingest) -> Vec<Arc<Event>> {
        let found = std::mem::take(&mut self.found);
        found.into_iter().map(|(policy, f)| ingest.hit(f.turn, f.time, policy, f.severity, &f.tags)).collect()
    }
}
