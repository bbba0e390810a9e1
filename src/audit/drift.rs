//! The record of a drift signal: what a probe found in a session, with redacted answers only.
//!
//! It is made from a [`drift::Signal`], whose answers went through redaction, and from nothing else; it is also
//! what leaves to the caller, so that what is answered and what is stored cannot differ.

use std::sync::Arc;

use crate::{
    drift::{
        Action, Agreement, Anomaly, Calibration, Category, Field, Finding, InjectAs, JudgeSource, Judgement,
        NoSignalReason, Report, Residual, Score, SessionVerdict, Settled, Signal, Standing, Triangulation,
        pipeline::JudgeFailure,
    },
    redact::{Kept, Sealed, Side},
};

use super::PackRef;

/// A drift signal.
#[derive(Clone, Debug, PartialEq)]
pub struct DriftRecord {
    /// The session.
    pub session: Arc<str>,
    /// The agent, as the caller names it; may be empty.
    pub agent: Arc<str>,
    /// The rules.
    pub pack: Arc<PackRef>,
    /// Whether the pack's numbers were fitted.
    pub calibration: Calibration,
    /// Names the evaluation within the session's memory.
    pub evaluation: Arc<str>,
    /// Whether it settles an evaluation that was recorded before, by a baseline that came later.
    pub settles: bool,
    /// The probe.
    pub probe: Arc<str>,
    /// Its type.
    pub probe_type: Arc<str>,
    /// The version of its library.
    pub library: Arc<str>,
    /// Whether the session's memory began anew, because that version is another one than before.
    pub library_changed: bool,
    /// How it was injected.
    pub inject_as: InjectAs,
    /// The score.
    pub score: Score,
    /// What kind of divergence was found.
    pub category: Option<Category>,
    /// Fields that differ.
    pub divergences: Vec<Field>,
    /// Yes-or-no fields that held something else.
    pub malformed: Vec<Field>,
    /// What was wrong with an answer.
    pub anomaly: Option<Anomaly>,
    /// What one side exposes beyond the other.
    pub residual: Residual,
    /// Whether the snapshot escaped.
    pub escape: bool,
    /// What a baseline said.
    pub triangulation: Option<(Triangulation, Option<NoSignalReason>)>,
    /// Whether a baseline is wanted and was not given.
    pub needs_baseline: bool,
    /// The judges.
    pub judge: JudgeRecord,
    /// Confidence of the comparison.
    pub confidence: f64,
    /// How it counted.
    pub standing: Standing,
    /// The session's signal afterwards.
    pub longitudinal: f64,
    /// What is recommended.
    pub action: Action,
    /// The session as it stands.
    pub session_facts: SessionFacts,
    /// The answers.
    pub answers: Answers,
}

/// The judges' answers, side by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JudgeRecord {
    /// Whose answer the score rests on.
    pub source: JudgeSource,
    /// The caller's.
    pub client: Option<Judgement>,
    /// Why the caller's cannot be used; empty if it can, or was not given.
    pub client_error: Arc<str>,
    /// Ours.
    pub deterministic: Option<Judgement>,
    /// Pairs of both in this session.
    pub pairs: u64,
    /// Of these, how many agree on all three questions.
    pub agree: u64,
}

/// The session's report in short, for those who watch.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionFacts {
    /// The verdict.
    pub verdict: SessionVerdict,
    /// The largest score.
    pub max_score: f64,
    /// Probes sent.
    pub probes_sent: u64,
}

/// Redacted answers as JSON text, empty where there is none; and the whole answers of packs that seal them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// The snapshot instance's.
    pub snapshot: String,
    /// The shadow instance's.
    pub shadow: String,
    /// The baseline's.
    pub baseline: String,
    /// The whole answers, sealed.
    pub sealed: Vec<(Side, Sealed)>,
}

impl SessionFacts {
    fn of(report: &Report) -> SessionFacts {
        SessionFacts { verdict: report.verdict, max_score: report.max_drift_score, probes_sent: report.counts.sent }
    }
}

impl Answers {
    fn of(finding: &Finding) -> Answers {
        let mut answers = Answers::default();
        if let Ok([snapshot, shadow]) = &finding.payloads {
            answers.keep(Side::Snapshot, snapshot);
            answers.keep(Side::Shadow, shadow);
        }
        if let Some(triangulation) = &finding.triangulation {
            answers.keep(Side::Baseline, &triangulation.baseline);
        }
        answers
    }

    fn keep(&mut self, side: Side, kept: &Kept) {
        let text = match side {
            Side::Snapshot => &mut self.snapshot,
            Side::Shadow => &mut self.shadow,
            Side::Baseline => &mut self.baseline,
        };
        *text = kept.shown.get().to_string();
        self.sealed.extend(kept.sealed.clone().map(|sealed| (side, sealed)));
    }
}

/// Who a signal is about.
#[derive(Clone, Debug)]
pub struct About {
    /// The session.
    pub session: Arc<str>,
    /// The agent; may be empty.
    pub agent: Arc<str>,
    /// The rules.
    pub pack: Arc<PackRef>,
    /// Whether the pack's numbers were fitted.
    pub calibration: Calibration,
    /// Names the evaluation.
    pub evaluation: Arc<str>,
}

impl DriftRecord {
    /// The record of a signal.
    pub fn new(about: About, signal: &Signal, agreement: Agreement, report: &Report) -> DriftRecord {
        let About { session, agent, pack, calibration, evaluation } = about;
        let finding = &signal.finding;
        DriftRecord {
            session,
            agent,
            pack,
            calibration,
            evaluation,
            settles: false,
            probe: Arc::clone(&finding.probe_id),
            probe_type: Arc::clone(&finding.probe_type),
            library: Arc::clone(&finding.library_version),
            library_changed: signal.library_changed,
            inject_as: finding.inject_as,
            score: finding.score,
            category: finding.comparison.category,
            divergences: finding.comparison.divergences.clone(),
            malformed: finding.malformed.clone(),
            anomaly: finding.anomaly,
            residual: finding.residual.clone(),
            escape: finding.escape(),
            triangulation: finding.triangulation.as_ref().map(|t| (t.classification, t.reason)),
            needs_baseline: finding.baseline_missing,
            judge: JudgeRecord {
                source: finding.judge.source,
                client: finding.judge.client,
                client_error: finding.judge.client_error.as_ref().map(JudgeFailure::word).unwrap_or_default().into(),
                deterministic: finding.judge.deterministic,
                pairs: agreement.pairs,
                agree: agreement.full,
            },
            confidence: finding.confidence,
            standing: signal.standing,
            longitudinal: signal.longitudinal,
            action: signal.action,
            session_facts: SessionFacts::of(report),
            answers: Answers::of(finding),
        }
    }

    /// The record of the same signal, settled by a baseline that came later.
    pub fn settled(
        &self,
        (settled, baseline): (&Settled, &Kept),
        pack: Arc<PackRef>,
        calibration: Calibration,
        agreement: Agreement,
        report: &Report,
    ) -> DriftRecord {
        let mut record = DriftRecord {
            pack,
            calibration,
            settles: true,
            escape: settled.escape,
            triangulation: Some((settled.classification, settled.reason)),
            needs_baseline: false,
            standing: settled.standing,
            longitudinal: settled.longitudinal,
            action: settled.action,
            session_facts: SessionFacts::of(report),
            ..self.clone()
        };
        (record.judge.pairs, record.judge.agree) = (agreement.pairs, agreement.full);
        record.answers.keep(Side::Baseline, baseline);
        record
    }

    /// Whether somebody should be told: a human should look, or a calibrated pack restricts.
    pub fn is_significant(&self) -> bool {
        self.action.allowed(self.calibration) != Action::LogOnly
    }
}
