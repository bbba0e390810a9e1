//! Finished answers to a probe, judged by a pack: what the server and the command line both run.

use std::sync::Arc;

use crate::{
    drift::{
        Answer, Ask, Canary, ContextSummary, Cycle, CycleFailure, Finding, Isolation, Lexicon, ModelOutput, Next,
        Probe, Reply, Request, SessionState, Settled, Snapshot, Unsettled, validate,
    },
    model::Value,
    pack::DriftSpec,
    redact::{Kept, Redact, Side, Unredactable},
};

/// A probe that was asked and answered.
#[derive(Clone, Debug)]
pub struct FinishedProbe {
    /// The session.
    pub session: Arc<str>,
    /// The probe's id.
    pub probe: String,
    /// The version of the library that it was taken from; empty if that is not known.
    pub library_version: String,
    /// The session in seven fields.
    pub summary: ContextSummary,
    /// What weakens the comparison.
    pub isolation: Isolation,
    /// The answer of the instance inside the session.
    pub snapshot: ModelOutput,
    /// The answer of the fresh instance.
    pub shadow: ModelOutput,
    /// The answer of an instance without the session's context.
    pub baseline: Option<ModelOutput>,
    /// What the caller's judge said, as JSON text.
    pub judge: Option<Vec<u8>>,
    /// Planted secrets.
    pub canaries: Vec<Canary>,
}

/// Why answers were not evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluateError {
    /// The library has no such probe.
    #[error("the probe library has no probe `{probe}`")]
    UnknownProbe {
        /// The id.
        probe: String,
    },
    /// The answers belong to another version of the library.
    #[error("the answers are to probe library {asked}; {served} is in use")]
    OtherLibrary {
        /// The version that was named.
        asked: String,
        /// The version in use.
        served: String,
    },
    /// The comparison failed.
    #[error(transparent)]
    Cycle(#[from] CycleFailure),
    /// A baseline that is no answer.
    #[error("the baseline's answer is no JSON object")]
    Baseline,
    /// A baseline for something that does not wait for one.
    #[error("this evaluation does not wait for a baseline")]
    NotOpen,
}

/// The probe of an id, taken from a version of the library.
pub fn find_probe<'a>(spec: &'a DriftSpec, probe: &str, version: &str) -> Result<&'a Probe, EvaluateError> {
    let served = spec.library.version();
    if !version.is_empty() && version != served {
        return Err(EvaluateError::OtherLibrary { asked: version.to_owned(), served: served.to_owned() });
    }
    spec.library.probe(probe).ok_or_else(|| EvaluateError::UnknownProbe { probe: probe.to_owned() })
}

/// Compares finished answers.
pub fn evaluate(
    spec: &DriftSpec,
    redactor: &(dyn Redact + Sync),
    finished: FinishedProbe,
) -> Result<Box<Finding>, EvaluateError> {
    let probe = find_probe(spec, &finished.probe, &finished.library_version)?;
    let request = Request {
        probe,
        wording: 0,
        library_version: spec.library.version(),
        isolation: finished.isolation,
        sanitizer: None,
        lexicon: lexicon(spec),
        client_judge: finished.judge.is_some(),
    };
    let snapshot = Snapshot {
        session_id: finished.session,
        taken_at: 0.0,
        // The instances have been asked already.
        context_window: Vec::new(),
        system_prompt_hash: Arc::from(""),
        summary: finished.summary,
        id: Arc::from(""),
    };
    let canaries = finished.canaries;
    let reply = |output: ModelOutput| output.reply(&canaries, &spec.output, &spec.settings.limits);
    let (mut cycle, _) = Cycle::start(&spec.settings, redactor, request, snapshot)?;
    let mut next = cycle.instances(reply(finished.snapshot), reply(finished.shadow));
    let (mut judge, mut baseline) = (finished.judge, finished.baseline);
    loop {
        next = match next {
            Next::Ask(Ask::Judge(_)) => cycle.judged(judge.take().map_or(Reply::Failed, Reply::Text)),
            Next::Ask(Ask::Baseline(_)) => cycle.baseline(baseline.take().map_or(Reply::Failed, reply)),
            Next::Ask(Ask::Instances { .. }) => return Err(CycleFailure::OutOfTurn.into()),
            Next::Finished(finding) => return Ok(finding),
            Next::Failed(failure) => return Err(failure.into()),
        };
    }
}

/// Settles a signal whose baseline came later; gives how it stands, and the baseline's answer.
pub fn settle(
    spec: &DriftSpec,
    redactor: &dyn Redact,
    state: &mut SessionState,
    signal: Option<&Unsettled>,
    baseline: ModelOutput,
    canaries: &[Canary],
) -> Result<(Settled, Kept), EvaluateError> {
    let signal = signal.ok_or(EvaluateError::NotOpen)?;
    let text = match baseline.reply(canaries, &spec.output, &spec.settings.limits) {
        Reply::Text(text) => text,
        Reply::Failed => return Err(EvaluateError::Baseline),
    };
    let said = validate::parse_answer(&text, &spec.settings.limits).ok().filter(|v: &Value| v.as_object().is_some());
    let answer = Answer::extract(&said.ok_or(EvaluateError::Baseline)?);
    let baseline =
        redactor.redact(Side::Baseline, &answer.payload()).map_err(|e: Unredactable| CycleFailure::from(e))?;
    let classified = signal.decisions.triangulate(answer.decision(), &spec.settings.triangulate);
    let settled = state.settle(signal, classified, &spec.settings).ok_or(EvaluateError::NotOpen)?;
    Ok((settled, baseline))
}

/// The deterministic judge of a pack, if it has one.
pub fn lexicon(spec: &DriftSpec) -> Option<&(dyn Lexicon + Sync)> {
    spec.lexicon.as_ref().map(|lexicon| lexicon as &(dyn Lexicon + Sync))
}
