//! Reports of sessions.

use std::sync::Arc;

use crate::{
    audit::PackRef,
    drift::{Agreement, Calibration, Report, SignalFacts},
    service::Service,
};

use super::evaluate::DriftError;

/// What the probes of a session found so far.
#[derive(Clone, Debug)]
pub struct SessionReport {
    /// The session.
    pub session: Arc<str>,
    /// The agent of the last probe.
    pub agent: Arc<str>,
    /// The rules.
    pub pack: Arc<PackRef>,
    /// Whether their numbers were fitted.
    pub calibration: Calibration,
    /// The version of the probe library.
    pub library: String,
    /// The figures.
    pub report: Report,
    /// How often the judges agreed.
    pub agreement: Agreement,
    /// The newest signals, oldest first.
    pub timeline: Vec<SignalFacts>,
}

impl Service {
    /// The report of a session under a pack.
    pub async fn session_report(&self, session: &str, pack: &str) -> Result<SessionReport, DriftError> {
        let probing = self.probing(pack)?;
        let unknown = || DriftError::UnknownSession { session: session.to_owned(), pack: pack.to_owned() };
        let slot = self.find_drift(session, &probing).await?.ok_or_else(unknown)?;
        let memory = slot.memory().ok_or_else(|| DriftError::Broken { session: session.to_owned() })?;
        let state = &memory.state;
        Ok(SessionReport {
            session: slot.id.clone(),
            agent: memory.agent.clone(),
            pack: probing.served.pack_ref(&probing.pack),
            calibration: probing.spec.settings.calibration,
            library: state.accumulator.library_version().to_owned(),
            report: state.report(&probing.spec.settings)?,
            agreement: state.agreement,
            timeline: state.tally.timeline().cloned().collect(),
        })
    }
}
