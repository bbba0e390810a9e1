//! Finished answers: compared, accumulated, recorded, answered, in this order.

use std::sync::{Arc, MutexGuard};

use crate::{
    audit::{About, Draft, DriftRecord},
    drift::{Canary, CycleFailure, ModelOutput, Recorded, Report, SessionState, Signal, StatsError},
    engine::{self, EvaluateError, FinishedProbe, Pack},
    model::Digest,
    pack::DriftSpec,
    redact::{Keeper, Mode, Redactor, SealKey, Sealer, Unredactable},
    service::{AuditError, Served, Service, keys, sessions::Full, writer::Ticket},
};

use super::memory::{DriftSlot, Evaluated, Memory};

/// Finished answers of one probe.
#[derive(Debug)]
pub struct DriftAsk {
    /// The rule pack.
    pub pack: String,
    /// The agent; may be empty.
    pub agent: String,
    /// The answers.
    pub finished: FinishedProbe,
    /// The caller's name for the evaluation; may be empty.
    pub request_id: String,
    /// A fingerprint of the request, to tell a repetition from a contradiction.
    pub print: Digest,
}

/// A baseline for an earlier evaluation.
#[derive(Debug)]
pub struct Baseline {
    /// The session.
    pub session: String,
    /// The rule pack.
    pub pack: String,
    /// The evaluation.
    pub evaluation: String,
    /// What the baseline instance gave back.
    pub output: ModelOutput,
    /// Planted secrets.
    pub canaries: Vec<Canary>,
}

/// Why a probe has no result. Says nothing of an answer's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriftError {
    /// No pack of this name is served.
    #[error("no pack `{pack}` is served")]
    UnknownPack {
        /// The name.
        pack: String,
    },
    /// The pack has no drift half.
    #[error("pack `{pack}` has no probes")]
    NoProbes {
        /// The pack.
        pack: String,
    },
    /// The pack seals answers, and there is no key for that.
    #[error("pack `{pack}` keeps answers encrypted, and this server has no payload key")]
    NoPayloadKey {
        /// The pack.
        pack: String,
    },
    /// The table of sessions is full.
    #[error("{limit} sessions with probes are open, which is the limit")]
    SessionsFull {
        /// The limit.
        limit: usize,
    },
    /// Nothing is known of the session.
    #[error("nothing is known of session `{session}` under pack `{pack}`; sessions are dropped when idle")]
    UnknownSession {
        /// The session.
        session: String,
        /// The pack.
        pack: String,
    },
    /// Nothing is known of the evaluation.
    #[error("nothing is known of this evaluation; the last ones of a session are kept")]
    UnknownEvaluation,
    /// A repeated name with other content.
    #[error("`{request_id}` was evaluated before with other content")]
    OtherContent {
        /// The name.
        request_id: String,
    },
    /// The evaluation itself broke; nothing was counted.
    #[error("the evaluation broke")]
    Broke,
    /// An earlier probe broke; the session cannot go on.
    #[error("session `{session}` broke and cannot go on")]
    Broken {
        /// The session.
        session: String,
    },
    /// The answers could not be evaluated.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// A figure of the report cannot be computed.
    #[error("the session cannot be reported")]
    Report,
    /// The result could not be recorded.
    #[error("not recorded: {0}")]
    Audit(#[from] AuditError),
}

impl From<StatsError> for DriftError {
    fn from(_: StatsError) -> DriftError {
        DriftError::Report
    }
}

impl From<Full> for DriftError {
    fn from(full: Full) -> DriftError {
        DriftError::SessionsFull { limit: full.limit }
    }
}

/// A served pack with probes.
pub(super) struct Probing {
    pub(super) served: Arc<Served>,
    pub(super) pack: Arc<Pack>,
    pub(super) spec: Arc<DriftSpec>,
    redactor: Redactor,
    /// Seals answers, if the pack wants them sealed.
    key: Option<SealKey>,
}

impl Probing {
    /// What redacts the answers of one evaluation.
    pub(super) fn keeper(&self, session: &str, evaluation: &Arc<str>) -> Result<Keeper, CycleFailure> {
        let sealer = |key: &SealKey| {
            let random = keys::random().map_err(|_| Unredactable)?;
            Ok::<_, Unredactable>(Sealer::new(key.clone(), Arc::from(session), evaluation.clone(), random))
        };
        Ok(Keeper::new(self.redactor.clone(), self.key.as_ref().map(sealer).transpose()?))
    }
}

impl Service {
    /// Evaluates finished answers; the result is stored once this returns.
    pub async fn evaluate(&self, ask: DriftAsk) -> Result<Arc<DriftRecord>, DriftError> {
        let probing = self.probing(&ask.pack)?;
        let slot = self.drift_slot(&ask.finished.session, &probing)?;
        let known = memory(&slot)?.repeated(&ask.request_id, ask.print)?;
        let evaluation = slot.evaluation();
        let finding = match known {
            Some(_) => None,
            None => {
                let keeper = probing.keeper(&slot.id, &evaluation).map_err(EvaluateError::from)?;
                // Redacting and comparing long answers takes its time: off the serving threads, and without the session.
                let (spec, finished) = (probing.spec.clone(), ask.finished);
                let compare = move || engine::evaluate(&spec, &keeper, finished);
                Some(tokio::task::spawn_blocking(compare).await.map_err(|_| DriftError::Broke)??)
            }
        };
        // A place in the queue before anything is counted: what is counted can then always be recorded.
        let place = self.audit.place().await?;
        let (record, ticket) = {
            let mut memory = memory(&slot)?;
            // Asked once more: the same request may have come twice at once.
            match (memory.repeated(&ask.request_id, ask.print)?, finding) {
                (Some(record), _) => (record, place.record(Vec::new())),
                (None, Some(finding)) => {
                    let recorded =
                        memory.state.record(*finding, &probing.spec.settings).map_err(|_| DriftError::Report)?;
                    let named = (ask.request_id, ask.print);
                    let record = memory.answer(evaluation, &probing, ask.agent.into(), recorded, named)?;
                    (record.clone(), place.record(vec![Draft::Drift(record)]))
                }
                // It was answered a moment ago, and is kept no more.
                (None, None) => return Err(DriftError::UnknownEvaluation),
            }
        };
        stored(ticket, record).await
    }

    /// Adds a baseline to an earlier evaluation, which is not counted again.
    pub async fn add_baseline(&self, baseline: Baseline) -> Result<Arc<DriftRecord>, DriftError> {
        let place = self.audit.place().await?;
        let probing = self.probing(&baseline.pack)?;
        let unknown = || DriftError::UnknownSession { session: baseline.session.clone(), pack: baseline.pack.clone() };
        let slot = self.drift.find(&baseline.session, &baseline.pack, self.now()).ok_or_else(unknown)?;
        let (record, ticket) = {
            let mut memory = memory(&slot)?;
            let known = memory.evaluation(&baseline.evaluation).ok_or(DriftError::UnknownEvaluation)?.clone();
            let keeper = probing.keeper(&slot.id, &known.record.evaluation).map_err(EvaluateError::from)?;
            let settled = engine::settle(
                &probing.spec,
                &keeper,
                &mut memory.state,
                &known.signal,
                baseline.output,
                &baseline.canaries,
            )?;
            let record = memory.record(&known.record.agent, &probing, &known.record.evaluation, &settled, true)?;
            if let Some(kept) = memory.evaluation(&baseline.evaluation) {
                (kept.signal, kept.record) = (settled, record.clone());
            }
            (record.clone(), place.record(vec![Draft::Drift(record)]))
        };
        stored(ticket, record).await
    }

    /// A served pack that has probes.
    pub(super) fn probing(&self, pack: &str) -> Result<Probing, DriftError> {
        let served = self.rules.current();
        let found = served.set.get(pack).cloned();
        let pack = found.ok_or_else(|| DriftError::UnknownPack { pack: pack.to_owned() })?;
        let spec = pack.drift().cloned().ok_or_else(|| DriftError::NoProbes { pack: pack.name().to_string() })?;
        let redactor = pack.redactor().with_key(self.keys.hash.bytes());
        let key = match redactor.rules().mode {
            Mode::Encrypted => {
                let none = || DriftError::NoPayloadKey { pack: pack.name().to_string() };
                Some(self.keys.payload.sealing().cloned().ok_or_else(none)?)
            }
            Mode::Text | Mode::Categorical | Mode::Hashed => None,
        };
        Ok(Probing { served, pack, spec, redactor, key })
    }

    /// A session's memory under a pack.
    pub(super) fn drift_slot(&self, session: &str, probing: &Probing) -> Result<Arc<DriftSlot>, DriftError> {
        let (pack, version) = (probing.pack.name(), probing.spec.library.version());
        Ok(self.drift.open(session, pack, version, self.seed(session), self.now())?)
    }
}

/// A session's memory; refused if a panic has left it half-way.
pub(super) fn memory(slot: &DriftSlot) -> Result<MutexGuard<'_, Memory>, DriftError> {
    slot.memory().ok_or_else(|| DriftError::Broken { session: slot.id.to_string() })
}

/// Waits until a result is stored.
pub(super) async fn stored(ticket: Ticket, record: Arc<DriftRecord>) -> Result<Arc<DriftRecord>, DriftError> {
    ticket.done().await?;
    Ok(record)
}

impl Memory {
    /// The answer of an evaluation that was made before under that name; refused if it was of other content.
    fn repeated(&self, request_id: &str, print: Digest) -> Result<Option<Arc<DriftRecord>>, DriftError> {
        match self.named(request_id) {
            Some(known) if known.print != print => Err(DriftError::OtherContent { request_id: request_id.to_owned() }),
            known => Ok(known.map(|known| known.record.clone())),
        }
    }

    /// What a recorded finding is answered with; kept for repetitions and baselines.
    pub(super) fn answer(
        &mut self,
        evaluation: Arc<str>,
        probing: &Probing,
        agent: Arc<str>,
        recorded: Recorded,
        (request_id, print): (String, Digest),
    ) -> Result<Arc<DriftRecord>, DriftError> {
        let signal = match recorded {
            Recorded::Signal(signal) => *signal,
            Recorded::Withheld => {
                return Err(EvaluateError::Cycle(CycleFailure::Redaction(Unredactable)).into());
            }
        };
        self.agent = agent.clone();
        let record = self.record(&agent, probing, &evaluation, &signal, false)?;
        self.keep(Evaluated { request_id, print, signal, record: record.clone() });
        Ok(record)
    }

    fn record(
        &self,
        agent: &Arc<str>,
        probing: &Probing,
        evaluation: &Arc<str>,
        signal: &Signal,
        settles: bool,
    ) -> Result<Arc<DriftRecord>, DriftError> {
        let settings = &probing.spec.settings;
        let report: Report = self.state.report(settings)?;
        let state: &SessionState = &self.state;
        let about = About {
            session: Arc::from(state.accumulator.session_id()),
            agent: agent.clone(),
            pack: probing.served.pack_ref(&probing.pack),
            calibration: settings.calibration,
            evaluation: evaluation.clone(),
        };
        Ok(Arc::new(DriftRecord::new(about, signal, settles, state.agreement, &report)))
    }
}
