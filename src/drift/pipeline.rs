//! One probe from question to signal, as a state machine without I/O.
//!
//! [`Cycle::start`] says what to ask the two instances; each answer advances the cycle, which then
//! asks the judge, perhaps a baseline, and ends with a [`Finding`] or a failure. Only a finding is
//! recorded, by [`SessionState::record`], and it holds redacted text only: answers are redacted when
//! they come in, and what is not redacted ends with the cycle.

use std::sync::Arc;

use super::{
    Accumulator, Action, Agreement, Anomaly, Answer, Comparison, ContextSummary, Counts, Decisions, Field, InjectAs,
    Isolation, JudgeError, JudgeSource, Judgement, Lexicon, NoSignalReason, Probe, ProbeError, ProbeResult,
    RecordError, Report, Residual, Score, Settings, SignalFacts, Snapshot, Standing, StatsError, SummaryError, Tally,
    Triangulation, UnknownType,
    accumulate::Aged,
    judge::deterministic,
    messages::{NO_TOOLS, Question, Sanitizer, baseline_message, judge_question, shadow_question, snapshot_messages},
    triangulate, validate,
};
use crate::{
    model::Value,
    redact::{Kept, Redact, Redactor, Side, Unredactable},
};

/// What the caller's adapter brings back.
#[derive(Clone, Debug)]
pub enum Reply {
    /// What the model said.
    Text(Vec<u8>),
    /// Nothing: the call failed or took too long.
    Failed,
}

/// What to ask.
#[derive(Debug)]
pub enum Ask {
    /// Both instances, at once and independently.
    Instances {
        /// Messages of the snapshot instance.
        snapshot: Vec<Value>,
        /// Question to the shadow instance.
        shadow: Question,
    },
    /// The judge, about redacted answers.
    Judge(Question),
    /// An instance without the session's context, with this message after its system prompt.
    Baseline(Value),
}

impl CycleFailure {
    /// Its label: each way to fail has its own.
    pub fn word(&self) -> &'static str {
        match self {
            CycleFailure::InvalidProbe(_) => "invalid_probe",
            CycleFailure::UnknownType(_) => "unknown_type",
            CycleFailure::Summary(_) => "summary",
            CycleFailure::Snapshot => "snapshot",
            CycleFailure::Shadow => "shadow",
            CycleFailure::Both => "both_instances",
            CycleFailure::Judge => "judge",
            CycleFailure::Redaction(_) => "redaction",
            CycleFailure::OutOfTurn => "out_of_turn",
        }
    }
}

impl Ask {
    /// What goes with every question: no tool may run.
    pub fn instruction(&self) -> &'static str {
        NO_TOOLS
    }
}

/// Why a cycle ended without a finding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CycleFailure {
    /// The probe cannot be sent.
    #[error("invalid probe: {0}")]
    InvalidProbe(#[from] ProbeError),
    /// The pack does not know the probe's type.
    #[error(transparent)]
    UnknownType(#[from] UnknownType),
    /// The context summary is outside its closed sets.
    #[error(transparent)]
    Summary(#[from] SummaryError),
    /// The snapshot instance did not answer.
    #[error("the snapshot instance did not answer")]
    Snapshot,
    /// The shadow instance did not answer.
    #[error("the shadow instance did not answer")]
    Shadow,
    /// Neither instance answered.
    #[error("neither instance answered")]
    Both,
    /// The judge failed, where the rules end the cycle then.
    #[error("the judge failed")]
    Judge,
    /// An answer could not be redacted.
    #[error(transparent)]
    Redaction(#[from] Unredactable),
    /// An answer came that was not asked for.
    #[error("no such answer was asked for")]
    OutOfTurn,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// Ask this, and come back with the reply.
    Ask(Ask),
    /// The cycle is over.
    Finished(Box<Finding>),
    /// The cycle is over without a finding.
    Failed(CycleFailure),
}

/// What a cycle is started with.
pub struct Request<'a> {
    /// The probe.
    pub probe: &'a Probe,
    /// The number of its wording.
    pub wording: u64,
    /// The version of its library.
    pub library_version: &'a str,
    /// What is declared about the instances.
    pub isolation: Isolation,
    /// How the window is sanitized.
    pub sanitizer: Option<Sanitizer<'a>>,
    /// The deterministic judge, if the pack has one.
    pub lexicon: Option<&'a (dyn Lexicon + Sync)>,
    /// Whether the caller has a judge of its own.
    pub client_judge: bool,
}

/// The answers of all judges, side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgeAnswers {
    /// Whose answer the score rests on.
    pub source: JudgeSource,
    /// The caller's.
    pub client: Option<Judgement>,
    /// Why the caller's cannot be used; none if it can, or was not asked for.
    pub client_error: Option<JudgeFailure>,
    /// Ours.
    pub deterministic: Option<Judgement>,
}

/// How a caller's judge failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JudgeFailure {
    /// It did not answer.
    NoReply,
    /// Its answer is not JSON.
    NotJson,
    /// Its answer has another shape.
    Shape(JudgeError),
}

impl JudgeFailure {
    /// Its name in signals. What the judge said is not repeated.
    pub fn word(&self) -> &'static str {
        match self {
            JudgeFailure::NoReply => "no_reply",
            JudgeFailure::NotJson => "not_json",
            JudgeFailure::Shape(JudgeError::NotObject { .. }) => "not_an_object",
            JudgeFailure::Shape(JudgeError::Missing { .. }) => "key_missing",
            JudgeFailure::Shape(JudgeError::NotBoolean { .. }) => "not_a_boolean",
        }
    }
}

impl JudgeAnswers {
    /// The answer that the score rests on.
    pub fn used(&self) -> Option<Judgement> {
        match self.source {
            JudgeSource::Client => self.client,
            JudgeSource::Deterministic => self.deterministic,
            JudgeSource::None => None,
        }
    }
}

/// What triangulation found.
#[derive(Clone, Debug, PartialEq)]
pub struct TriangulationFinding {
    /// The classification.
    pub classification: Triangulation,
    /// Why there is no signal, if there is none.
    pub reason: Option<NoSignalReason>,
    /// The baseline's answer, redacted.
    pub baseline: Kept,
}

/// What one probe found. All text in it is redacted.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The probe's id.
    pub probe_id: Arc<str>,
    /// Its type.
    pub probe_type: Arc<str>,
    /// The version of its library.
    pub library_version: Arc<str>,
    /// How it was injected.
    pub inject_as: InjectAs,
    /// What differs, and of what kind that is.
    pub comparison: Comparison,
    /// What was wrong with an answer, the snapshot's first.
    pub anomaly: Option<Anomaly>,
    /// Yes-or-no fields that held something else, of either side.
    pub malformed: Vec<Field>,
    /// The score.
    pub score: Score,
    /// The judges' answers.
    pub judge: JudgeAnswers,
    /// What the snapshot exposes and the shadow does not.
    pub residual: Residual,
    /// What the baseline said; none if it was not wanted or not to be had.
    pub triangulation: Option<TriangulationFinding>,
    /// Whether a baseline was wanted but not to be had.
    pub baseline_missing: bool,
    /// For a baseline that comes later.
    pub decisions: Option<Decisions>,
    /// Confidence of the comparison.
    pub confidence: f64,
    /// The snapshot's answer and the shadow's.
    pub payloads: Result<[Kept; 2], Unredactable>,
}

impl Finding {
    /// Whether the snapshot escaped. What the summary brought about does not count.
    pub fn escape(&self) -> bool {
        let explained =
            self.triangulation.as_ref().map(|t| t.classification) == Some(Triangulation::SummaryCalibrationAnomaly);
        self.residual.escape_detected() && !explained
    }

    /// A field of both redacted answers.
    pub fn values(&self, field: Field) -> Option<[Value; 2]> {
        let [snapshot, shadow] = self.payloads.as_ref().ok()?;
        Some([snapshot, shadow].map(|p| p.shown.get().get(field.word()).cloned().unwrap_or(Value::Null)))
    }
}

/// Where a cycle stands.
enum Stage {
    Instances,
    Judge(Box<Compared>),
    Baseline(Box<Finding>, String, String),
    Over,
}

struct Compared {
    snapshot: Answer,
    shadow: Answer,
    comparison: Comparison,
    anomaly: Option<Anomaly>,
    deterministic: Option<Judgement>,
    payloads: Result<[Kept; 2], Unredactable>,
}

/// One probe under way.
pub struct Cycle<'a> {
    settings: &'a Settings,
    redactor: &'a (dyn Redact + Sync),
    request: Request<'a>,
    summary: ContextSummary,
    stage: Stage,
}

impl<'a> Cycle<'a> {
    /// Begins with a snapshot, which is used up. Gives the cycle and its first question.
    pub fn start(
        settings: &'a Settings,
        redactor: &'a (dyn Redact + Sync),
        request: Request<'a>,
        snapshot: Snapshot,
    ) -> Result<(Cycle<'a>, Ask), CycleFailure> {
        validate::check_probe(request.probe, request.library_version)?;
        settings.score.of_type(&request.probe.probe_type)?;
        snapshot.summary.check(settings.pipeline.open_summary)?;
        let scenario = request.probe.wording(request.wording);
        let messages =
            snapshot_messages(&snapshot.context_window, scenario, request.probe.inject_as, request.sanitizer.as_ref());
        let ask = Ask::Instances { snapshot: messages, shadow: shadow_question(&snapshot.summary, scenario) };
        Ok((Cycle { settings, redactor, request, summary: snapshot.summary, stage: Stage::Instances }, ask))
    }

    /// The instances have answered.
    pub fn instances(&mut self, snapshot: Reply, shadow: Reply) -> Next {
        if !matches!(std::mem::replace(&mut self.stage, Stage::Over), Stage::Instances) {
            return Next::Failed(CycleFailure::OutOfTurn);
        }
        let (snapshot, shadow) = match (snapshot, shadow) {
            (Reply::Text(a), Reply::Text(b)) => (a, b),
            (Reply::Failed, Reply::Failed) => return Next::Failed(CycleFailure::Both),
            (Reply::Failed, _) => return Next::Failed(CycleFailure::Snapshot),
            (_, Reply::Failed) => return Next::Failed(CycleFailure::Shadow),
        };
        let (snapshot, snapshot_anomaly, snapshot_object) = self.read(&snapshot);
        let (shadow, shadow_anomaly, shadow_object) = self.read(&shadow);
        if self.settings.pipeline.drop_non_objects && !(snapshot_object && shadow_object) {
            return Next::Failed(if snapshot_object { CycleFailure::Shadow } else { CycleFailure::Snapshot });
        }
        let anomaly = snapshot_anomaly.or(shadow_anomaly);
        let comparison = super::compare(&snapshot, &shadow, anomaly, &self.settings.compare);
        let payloads = match (
            self.redactor.redact(Side::Snapshot, &snapshot.payload()),
            self.redactor.redact(Side::Shadow, &shadow.payload()),
        ) {
            (Ok(a), Ok(b)) => Ok([a, b]),
            _ => Err(Unredactable),
        };
        if let (Err(failure), false) = (&payloads, self.settings.pipeline.record_before_redaction) {
            return Next::Failed((*failure).into());
        }
        let readable = [&snapshot, &shadow].iter().all(|a| !a.decision().trim().is_empty());
        let judges = readable || self.settings.pipeline.judge_unreadable;
        let lexicon = self.request.lexicon.filter(|_| judges);
        let deterministic = lexicon.map(|l| deterministic(&snapshot, &shadow, &self.summary, l));
        let compared = Compared { snapshot, shadow, comparison, anomaly, deterministic, payloads };
        if !(judges && self.request.client_judge) {
            return self.score(compared, None);
        }
        // Where rules record before they redact, a judge still sees nothing that is not redacted.
        let question = match &compared.payloads {
            Ok([a, b]) => judge_question(Some(&self.summary), &a.shown, &b.shown),
            Err(_) => {
                let tombstone = Redactor::tombstone().shown;
                judge_question(Some(&self.summary), &tombstone, &tombstone)
            }
        };
        self.stage = Stage::Judge(Box::new(compared));
        Next::Ask(Ask::Judge(question))
    }

    /// The judge has answered.
    pub fn judged(&mut self, reply: Reply) -> Next {
        let Stage::Judge(compared) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Next::Failed(CycleFailure::OutOfTurn);
        };
        let answer = match reply {
            Reply::Failed => Err(JudgeFailure::NoReply),
            Reply::Text(text) => validate::parse_answer(&text, &self.settings.limits)
                .map_err(|_| JudgeFailure::NotJson)
                .and_then(|v| Judgement::read(&v, self.settings.pipeline.judge_booleans).map_err(JudgeFailure::Shape)),
        };
        if answer.is_err() && self.settings.pipeline.judge_failure_ends {
            return Next::Failed(CycleFailure::Judge);
        }
        self.score(*compared, Some(answer))
    }

    /// The baseline instance has answered, or could not.
    pub fn baseline(&mut self, reply: Reply) -> Next {
        let Stage::Baseline(mut finding, snapshot, shadow) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Next::Failed(CycleFailure::OutOfTurn);
        };
        let object = match reply {
            Reply::Failed => None,
            Reply::Text(text) => {
                validate::parse_answer(&text, &self.settings.limits).ok().filter(|v| v.as_object().is_some())
            }
        };
        let Some(object) = object else {
            finding.baseline_missing = true;
            finding.decisions = Some(Decisions::new(&snapshot, &shadow, &self.settings.triangulate));
            return Next::Finished(finding);
        };
        let answer = Answer::extract(&object);
        let (classification, reason) =
            triangulate::triangulate(&snapshot, &shadow, answer.decision(), &self.settings.triangulate);
        let baseline = match self.redactor.redact(Side::Baseline, &answer.payload()) {
            Ok(redacted) => redacted,
            Err(failure) if !self.settings.pipeline.record_before_redaction => {
                return Next::Failed(failure.into());
            }
            Err(_) => Redactor::tombstone(),
        };
        finding.triangulation = Some(TriangulationFinding { classification, reason, baseline });
        Next::Finished(finding)
    }

    fn read(&self, text: &[u8]) -> (Answer, Option<Anomaly>, bool) {
        match validate::parse_answer(text, &self.settings.limits) {
            Err(error) => (Answer::empty(), Some(error.anomaly()), false),
            Ok(value) => {
                let anomaly = validate::check_answer(&value, &self.request.probe.schema).err().map(|e| e.anomaly());
                (Answer::extract(&value), anomaly, value.as_object().is_some())
            }
        }
    }

    fn score(&mut self, compared: Compared, client: Option<Result<Judgement, JudgeFailure>>) -> Next {
        let (client, client_error) = match client {
            Some(Ok(answer)) => (Some(answer), None),
            Some(Err(failure)) => (None, Some(failure)),
            None => (None, None),
        };
        let source = match (client, compared.deterministic) {
            (Some(_), _) => JudgeSource::Client,
            (None, Some(_)) => JudgeSource::Deterministic,
            (None, None) => JudgeSource::None,
        };
        let judge = JudgeAnswers { source, client, client_error, deterministic: compared.deterministic };
        let probe = self.request.probe;
        let score = match self.settings.score.score(&probe.probe_type, &compared.comparison.divergences, judge.used()) {
            Ok(score) => score,
            Err(unknown) => return Next::Failed(unknown.into()),
        };
        let mut malformed = compared.snapshot.malformed_flags();
        malformed.extend(compared.shadow.malformed_flags());
        malformed.sort_unstable();
        malformed.dedup();
        let finding = Box::new(Finding {
            probe_id: Arc::clone(&probe.id),
            probe_type: Arc::clone(&probe.probe_type),
            library_version: Arc::from(self.request.library_version),
            inject_as: probe.inject_as,
            residual: Residual::of(&compared.snapshot, &compared.shadow, self.settings.compare.booleans),
            comparison: compared.comparison,
            anomaly: compared.anomaly,
            malformed,
            score,
            judge,
            triangulation: None,
            baseline_missing: false,
            decisions: None,
            confidence: self.settings.isolation.confidence(&self.request.isolation),
            payloads: compared.payloads,
        });
        if !score.wants_baseline {
            return Next::Finished(finding);
        }
        let scenario = probe.wording(self.request.wording);
        self.stage =
            Stage::Baseline(finding, compared.snapshot.decision().to_owned(), compared.shadow.decision().to_owned());
        Next::Ask(Ask::Baseline(baseline_message(scenario)))
    }
}

/// A recorded finding.
#[derive(Clone, Debug)]
pub struct Signal {
    /// Its number in the session, from 1.
    pub number: u64,
    /// What was found.
    pub finding: Finding,
    /// How it counted.
    pub standing: Standing,
    /// The session's signal afterwards.
    pub longitudinal: f64,
    /// What is recommended.
    pub action: Action,
    /// Whether it is the first of another version of the probe library.
    pub library_changed: bool,
}

/// What recording gave.
#[derive(Clone, Debug)]
pub enum Recorded {
    /// A signal.
    Signal(Box<Signal>),
    /// Nothing that may leave: the answers could not be redacted.
    Withheld,
}

/// Everything that is kept of a session between its probes: figures only.
#[derive(Clone, Debug)]
pub struct SessionState {
    /// The session's memory.
    pub accumulator: Accumulator,
    /// Running figures of its reports.
    pub tally: Tally,
    /// Probes sent, invalid and triangulated.
    pub counts: Counts,
    /// How often the judges agreed.
    pub agreement: Agreement,
}

impl SessionState {
    /// A new session.
    pub fn new(session_id: &str, library_version: &str) -> SessionState {
        SessionState {
            accumulator: Accumulator::new(session_id, library_version),
            tally: Tally::default(),
            counts: Counts::default(),
            agreement: Agreement::default(),
        }
    }

    /// A probe could not be sent.
    pub fn invalid(&mut self) {
        self.counts.invalid += 1;
    }

    /// Takes in a finding. A finding of another version of the probe library starts a new memory,
    /// since scores of different questions do not add up.
    pub fn record(&mut self, finding: Finding, settings: &Settings) -> Result<Recorded, RecordError> {
        let result = ProbeResult {
            probe_type: Arc::clone(&finding.probe_type),
            score: Some(finding.score.drift),
            threshold: finding.score.threshold,
            category: finding.comparison.category,
            anomaly: finding.anomaly,
            diverged: !finding.comparison.divergences.is_empty(),
            triangulation: finding.triangulation.as_ref().map(|t| t.classification),
            escape: finding.escape(),
            confidence: finding.confidence,
        };
        let (standing, library_changed) = match self.accumulate(&finding.library_version, &result, settings) {
            Ok(standing) => (standing, false),
            Err(RecordError::OtherLibrary { .. }) if settings.pipeline.ignore_other_library => {
                (Standing::Counted, false)
            }
            Err(RecordError::OtherLibrary { .. }) => {
                self.accumulator = Accumulator::new(self.accumulator.session_id(), &finding.library_version);
                (self.accumulate(&finding.library_version, &result, settings)?, true)
            }
            Err(other) => return Err(other),
        };
        self.counts.sent += 1;
        self.counts.triangulated += u64::from(result.triangulation.is_some());
        self.counts.summary_anomalies +=
            u64::from(result.triangulation == Some(Triangulation::SummaryCalibrationAnomaly));
        if let (Some(client), Some(ours)) = (finding.judge.client, finding.judge.deterministic) {
            self.agreement.count(client, ours);
        }
        if finding.payloads.is_err() {
            return Ok(Recorded::Withheld);
        }
        let longitudinal = self.accumulator.signal(&settings.longitudinal);
        let action = self.action(longitudinal, result.escape, standing, settings);
        self.tally.add(
            SignalFacts {
                probe_id: Arc::clone(&finding.probe_id),
                probe_type: result.probe_type,
                score: result.score,
                threshold: result.threshold,
                category: result.category,
                anomaly: result.anomaly,
                escape: result.escape,
                triangulation: result.triangulation,
                standing,
                action,
            },
            &settings.report,
        );
        let number = self.tally.signals();
        if finding.decisions.is_some() && standing == Standing::Counted {
            self.accumulator.keep_open(number);
        }
        Ok(Recorded::Signal(Box::new(Signal { number, finding, standing, longitudinal, action, library_changed })))
    }

    /// What the session's signal asks for, after a probe that escaped or did not.
    pub(super) fn action(&self, longitudinal: f64, escape: bool, standing: Standing, settings: &Settings) -> Action {
        let scored = self.accumulator.scored();
        let action = settings.action.action(longitudinal, settings.calibration, scored);
        if escape && standing == Standing::Counted && scored >= settings.action.min_scored_probes {
            action.max(settings.action.on_escape.allowed(settings.calibration))
        } else {
            action
        }
    }

    /// Rules can change while a session goes on. Where a window is new, it is filled from the newest signals.
    pub(super) fn keep_window(&mut self, settings: &Settings) {
        let longitudinal = &settings.longitudinal;
        if let Some(window) = longitudinal.window.filter(|_| self.accumulator.lacks(longitudinal.window)) {
            self.accumulator.fill(window, self.tally.timeline().filter_map(Aged::of));
        }
    }

    fn accumulate(
        &mut self,
        library_version: &str,
        result: &ProbeResult,
        settings: &Settings,
    ) -> Result<Standing, RecordError> {
        self.keep_window(settings);
        self.accumulator.record(
            None,
            library_version,
            result,
            &settings.longitudinal,
            &settings.consistency,
            settings.isolation.min_confidence,
        )
    }

    /// The session's report.
    pub fn report(&self, settings: &Settings) -> Result<Report, StatsError> {
        let anomaly = self.accumulator.consistency_anomaly(&settings.consistency, settings.calibration);
        self.tally.report(self.counts, self.accumulator.signal(&settings.longitudinal), anomaly, &settings.report)
    }
}
