//! Runtime events of an observed session: one gate and one selection for all of its triggers.

use std::sync::Arc;

use crate::{
    drift::{Gate, RuntimeEvent, Selector, Trigger, Verdict},
    engine::Pack,
};

/// Something that happened at runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct Occurrence {
    /// What, with the size of the context.
    pub event: RuntimeEvent,
    /// The agent's reputation, if one is known.
    pub reputation: Option<f64>,
    /// When, in seconds.
    pub at: f64,
}

/// Whether a probe is due.
#[derive(Clone, Debug, PartialEq)]
pub enum ProbeAnswer {
    /// Yes.
    Due {
        /// The probe.
        probe: Arc<str>,
        /// Which wording of it.
        wording: u64,
        /// Seconds to wait before it is sent.
        delay: f64,
        /// Why.
        reason: &'static str,
    },
    /// No, and why.
    NotDue(&'static str),
}

/// The gate and the selection of one session.
#[derive(Debug)]
pub struct Schedule {
    gate: Gate,
    selector: Selector,
    /// Probes that were due and whose fate is not known.
    outstanding: u64,
}

impl Schedule {
    /// Nothing has happened yet. Delays and probes follow from the seed.
    pub fn new(seed: u64) -> Schedule {
        Schedule { gate: Gate::new(seed), selector: Selector::new(seed), outstanding: 0 }
    }

    /// Whether a probe of the pack is due now.
    pub fn occurs(&mut self, occurrence: &Occurrence, pack: &Pack) -> ProbeAnswer {
        const NO_PROBES: ProbeAnswer = ProbeAnswer::NotDue("no_probes");
        let Some(spec) = pack.drift() else { return NO_PROBES };
        let (settings, Occurrence { event, reputation, at }) = (&spec.settings.schedule, occurrence);
        let verdict = match event.trigger {
            Trigger::Reputation => self.gate.reputation(*at, *event, *reputation, settings),
            _ => self.gate.evaluate(*at, *event, settings),
        };
        match verdict {
            Verdict::NotDue(why) => ProbeAnswer::NotDue(why.word()),
            Verdict::Due { reason, delay } => match self.selector.next(&spec.library) {
                None => NO_PROBES,
                Some(selection) => {
                    self.outstanding += 1;
                    let (probe, wording) = (selection.probe.id.clone(), selection.wording);
                    ProbeAnswer::Due { probe, wording, delay, reason: reason.word() }
                }
            },
        }
    }

    /// A probe that was due has failed: its place is free again. The cooldown stays.
    pub fn give_back(&mut self) {
        if self.outstanding > 0 {
            self.outstanding -= 1;
            self.gate.give_back();
        }
    }
}
