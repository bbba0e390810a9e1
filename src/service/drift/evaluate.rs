//! Finished answers: compared, accumulated, recorded, answered, in this order.

use std::sync::{Arc, MutexGuard};

use crate::{
    audit::{About, Draft, DriftRecord, RecordNumber},
    drift::{Canary, CycleFailure, ModelOutput, Recorded, Report, Selector, SessionState, StatsError},
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
    /// What is kept of the session could not be read.
    #[error("what is kept of session `{session}` cannot be read now")]
    Unread {
        /// The session.
        session: String,
    },
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
    /// The digest of the rules.
    pub(super) fn digest(&self) -> Digest {
        self.served.pack_ref(&self.pack).digest
    }

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
        let slot = self.drift_slot(&ask.finished.session, &probing).await?;
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
                    let asked = self.asked(ask.request_id, ask.print);
                    let record = memory.answer(evaluation, &probing, ask.agent.into(), recorded, asked)?;
                    let saved = self.snapshot(&slot, &memory, &probing);
                    (record.clone(), place.record_with(vec![Draft::Drift(record)], saved))
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
        let slot = self.find_drift(&baseline.session, &probing).await?.ok_or_else(unknown)?;
        let (record, ticket) = {
            let mut memory = memory(&slot)?;
            let known = memory.evaluation(&baseline.evaluation).ok_or(DriftError::UnknownEvaluation)?.clone();
            let keeper = probing.keeper(&slot.id, &known.record.evaluation).map_err(EvaluateError::from)?;
            let (settled, said) = engine::settle(
                &probing.spec,
                &keeper,
                &mut memory.state,
                known.unsettled.as_ref(),
                baseline.output,
                &baseline.canaries,
            )?;
            let (pack, settings) = (probing.served.pack_ref(&probing.pack), &probing.spec.settings);
            let (agreement, report) = (memory.state.agreement, memory.state.report(settings)?);
            let record = known.record.settled((&settled, &said), pack, settings.calibration, agreement, &report);
            let record = Arc::new(record);
            if let Some(kept) = memory.evaluation(&baseline.evaluation) {
                (kept.unsettled, kept.record) = (None, record.clone());
            }
            let saved = self.snapshot(&slot, &memory, &probing);
            (record.clone(), place.record_with(vec![Draft::Drift(record)], saved))
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

    /// A session's memory under a pack; a new one if there is none.
    pub(super) async fn drift_slot(&self, session: &str, probing: &Probing) -> Result<Arc<DriftSlot>, DriftError> {
        if let Some(found) = self.find_drift(session, probing).await? {
            return Ok(found);
        }
        let state = SessionState::new(session, probing.spec.library.version());
        let memory = Memory::new(state, Selector::new(self.seed(session)), self.sessions.limits().retained);
        Ok(self.drift.put(session, &probing.pack.line(), memory, self.now())?)
    }

    /// How an evaluation that is recorded next is found again.
    pub(super) fn asked(&self, request_id: String, print: Digest) -> Asked {
        // Where the end of the records is not known, they are looked through from the start.
        Asked { request_id, print, behind: self.store.last().unwrap_or_default() }
    }
}

/// How an evaluation is found again.
pub(super) struct Asked {
    /// The caller's name for it; may be empty.
    request_id: String,
    /// A fingerprint of its content.
    print: Digest,
    /// A record before its own.
    behind: RecordNumber,
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
        asked: Asked,
    ) -> Result<Arc<DriftRecord>, DriftError> {
        let signal = match recorded {
            Recorded::Signal(signal) => *signal,
            Recorded::Withheld => {
                return Err(EvaluateError::Cycle(CycleFailure::Redaction(Unredactable)).into());
            }
        };
        self.agent = agent.clone();
        let settings = &probing.spec.settings;
        let report: Report = self.state.report(settings)?;
        let about = About {
            session: Arc::from(self.state.accumulator.session_id()),
            agent,
            pack: probing.served.pack_ref(&probing.pack),
            calibration: settings.calibration,
            evaluation,
        };
        let record = Arc::new(DriftRecord::new(about, &signal, self.state.agreement, &report));
        let Asked { request_id, print, behind } = asked;
        self.keep(Evaluated { request_id, print, unsettled: signal.unsettled(), record: record.clone(), behind });
        Ok(record)
    }
}
