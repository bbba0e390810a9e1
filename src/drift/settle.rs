//! Baselines that come later: what is kept of a signal for one, and how the signal stands once it has come.

use super::{Action, Decisions, NoSignalReason, SessionState, Settings, Signal, Standing, Triangulation};

/// What is kept of a signal as long as a baseline may settle it. No text of an answer is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// The signal's number in the session.
    pub number: u64,
    /// The decisions to compare the baseline's with.
    pub decisions: Decisions,
    /// Whether the snapshot exposed what the shadow did not.
    pub exposed: bool,
}

/// How a signal stands once its baseline has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settled {
    /// What triangulation found.
    pub classification: Triangulation,
    /// Why there is no signal, if there is none.
    pub reason: Option<NoSignalReason>,
    /// Whether the snapshot escaped. What the summary brought about does not count.
    pub escape: bool,
    /// How it counts.
    pub standing: Standing,
    /// The session's signal afterwards.
    pub longitudinal: f64,
    /// What is recommended.
    pub action: Action,
}

impl Signal {
    /// What a baseline that comes later needs; nothing if none is wanted.
    pub fn unsettled(&self) -> Option<Unsettled> {
        let decisions = self.finding.decisions.clone()?;
        Some(Unsettled { number: self.number, decisions, exposed: self.finding.residual.escape_detected() })
    }
}

impl SessionState {
    /// Settles a signal whose baseline came later, as if it had come with the other answers; the probe is not
    /// counted again. Nothing if that signal is settled, or too long ago.
    pub fn settle(
        &mut self,
        signal: &Unsettled,
        (classification, reason): (Triangulation, Option<NoSignalReason>),
        settings: &Settings,
    ) -> Option<Settled> {
        self.keep_window(settings);
        let standing = self.accumulator.settle(signal.number, classification, &settings.longitudinal)?;
        let explained = classification == Triangulation::SummaryCalibrationAnomaly;
        self.counts.triangulated += 1;
        self.counts.summary_anomalies += u64::from(explained);
        let escape = signal.exposed && !explained;
        let longitudinal = self.accumulator.signal(&settings.longitudinal);
        let action = self.action(longitudinal, escape, standing, settings);
        self.tally.settle(signal.number, classification, standing, action);
        Some(Settled { classification, reason, escape, standing, longitudinal, action })
    }
}
