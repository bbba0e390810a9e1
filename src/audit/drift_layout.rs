//! The bytes of a drift signal's record: the part of the layout that is told in [`super::layout`] under kind 4.
//!
//! ```text
//! drift     = session:text agent:text pack calibration:text evaluation:text settles:byte
//!             probe:text type:text library:text library_changed:byte inject_as:text
//!             field:real semantic:maybe real score:real threshold:real high:byte wants_baseline:byte
//!             category:text divergences:words malformed:words anomaly:text
//!             residual:words reverse:words unreadable:words escape:byte
//!             triangulation:text reason:text needs_baseline:byte
//!             judge:text client:judgement client_error:text deterministic:judgement pairs:number agree:number
//!             confidence:real standing:text longitudinal:real action:text
//!             verdict:text max_score:real probes_sent:number
//!             answers:maybe digest
//! answers   = snapshot:text shadow:text baseline:text
//!             sealed:list of (side:text key:text nonce:24 bytes length:number bytes)
//! words     = list of text        real  = 8 bytes, a double, little-endian
//! judgement = 0 none, else 1 and a bit (2, 4, 8) for each question that is answered with yes
//! maybe x   = 0, or 1 and x
//! ```
//!
//! Where nothing is said, a text is empty. The answers are the record's payload (see `payload`), of which the record
//! holds the digest.

use crate::{
    drift::{
        Action, Anomaly, Calibration, Category, Field, InjectAs, JudgeSource, Judgement, NoSignalReason, Residual,
        Score, SessionVerdict, Standing, Triangulation,
    },
    model::Digest,
};

use crate::redact::{Sealed, Side};

use super::{
    bytes::{Reader, put_len, put_number, put_text},
    drift::{Answers, DriftRecord, JudgeRecord, SessionFacts},
    layout::{LayoutError, put_pack, read_bool, read_pack},
};

/// Appends a record; its answers are told by the digest of its payload.
pub(super) fn put_drift(out: &mut Vec<u8>, record: &DriftRecord, payload: Option<Digest>) {
    let DriftRecord {
        session,
        agent,
        pack,
        calibration,
        evaluation,
        settles,
        probe,
        probe_type,
        library,
        library_changed,
        inject_as,
        score,
        category,
        divergences,
        malformed,
        anomaly,
        residual: Residual { fields, reverse, unreadable },
        escape,
        triangulation,
        needs_baseline,
        judge,
        confidence,
        standing,
        longitudinal,
        action,
        session_facts: SessionFacts { verdict, max_score, probes_sent },
        answers: _,
    } = record;
    put_text(out, session);
    put_text(out, agent);
    put_pack(out, pack);
    put_text(out, calibration.word());
    put_text(out, evaluation);
    out.push((*settles).into());
    put_text(out, probe);
    put_text(out, probe_type);
    put_text(out, library);
    out.push((*library_changed).into());
    put_text(out, inject_as.word());
    let Score { field, semantic, drift, threshold, high, wants_baseline } = score;
    put_real(out, *field);
    out.push(semantic.is_some().into());
    semantic.iter().for_each(|part| put_real(out, *part));
    put_real(out, *drift);
    put_real(out, *threshold);
    out.push((*high).into());
    out.push((*wants_baseline).into());
    put_text(out, category.map(Category::word).unwrap_or_default());
    put_words(out, divergences);
    put_words(out, malformed);
    put_text(out, anomaly.map(Anomaly::word).unwrap_or_default());
    put_words(out, fields);
    put_words(out, reverse);
    put_words(out, unreadable);
    out.push((*escape).into());
    put_text(out, triangulation.map(|(t, _)| t.word()).unwrap_or_default());
    put_text(out, triangulation.and_then(|(_, why)| why).map(NoSignalReason::word).unwrap_or_default());
    out.push((*needs_baseline).into());
    let JudgeRecord { source, client, client_error, deterministic, pairs, agree } = judge;
    put_text(out, source.word());
    out.push(judgement_byte(*client));
    put_text(out, client_error);
    out.push(judgement_byte(*deterministic));
    put_number(out, *pairs);
    put_number(out, *agree);
    put_real(out, *confidence);
    put_text(out, standing.word());
    put_real(out, *longitudinal);
    put_text(out, action.word());
    put_text(out, verdict.word());
    put_real(out, *max_score);
    put_number(out, *probes_sent);
    out.push(payload.is_some().into());
    payload.iter().for_each(|digest| out.extend_from_slice(digest.bytes()));
}

/// Appends the answers.
pub(super) fn put_answers(out: &mut Vec<u8>, Answers { snapshot, shadow, baseline, sealed }: &Answers) {
    put_text(out, snapshot);
    put_text(out, shadow);
    put_text(out, baseline);
    put_len(out, sealed.len());
    for (side, Sealed { key, nonce, bytes }) in sealed {
        put_text(out, side.word());
        put_text(out, key);
        out.extend_from_slice(nonce);
        put_len(out, bytes.len());
        out.extend_from_slice(bytes);
    }
}

/// Reads the answers.
pub(super) fn read_answers(bytes: &[u8]) -> Result<Answers, LayoutError> {
    let mut reader = Reader::new(bytes);
    let answers = Answers {
        snapshot: reader.text()?.to_owned(),
        shadow: reader.text()?.to_owned(),
        baseline: reader.text()?.to_owned(),
        sealed: reader.list(read_sealed)?,
    };
    if reader.is_empty() { Ok(answers) } else { Err(LayoutError::Broken("bytes behind the answers")) }
}

/// Reads a record without its answers, and the digest of the payload that holds them.
pub(super) fn read_drift(reader: &mut Reader<'_>) -> Result<(DriftRecord, Option<Digest>), LayoutError> {
    let record = DriftRecord {
        session: reader.text()?.into(),
        agent: reader.text()?.into(),
        pack: read_pack(reader)?,
        calibration: Calibration::from_word(reader.text()?),
        evaluation: reader.text()?.into(),
        settles: read_bool(reader)?,
        probe: reader.text()?.into(),
        probe_type: reader.text()?.into(),
        library: reader.text()?.into(),
        library_changed: read_bool(reader)?,
        inject_as: word(reader, InjectAs::from_word)?,
        score: read_score(reader)?,
        category: maybe_word(reader, Category::from_word)?,
        divergences: read_words(reader)?,
        malformed: read_words(reader)?,
        anomaly: maybe_word(reader, Anomaly::from_word)?,
        residual: Residual {
            fields: read_words(reader)?,
            reverse: read_words(reader)?,
            unreadable: read_words(reader)?,
        },
        escape: read_bool(reader)?,
        triangulation: {
            let classification = maybe_word(reader, Triangulation::from_word)?;
            let reason = maybe_word(reader, NoSignalReason::from_word)?;
            classification.map(|c| (c, reason))
        },
        needs_baseline: read_bool(reader)?,
        judge: JudgeRecord {
            source: word(reader, JudgeSource::from_word)?,
            client: read_judgement(reader)?,
            client_error: reader.text()?.into(),
            deterministic: read_judgement(reader)?,
            pairs: reader.number()?,
            agree: reader.number()?,
        },
        confidence: read_real(reader)?,
        standing: word(reader, Standing::from_word)?,
        longitudinal: read_real(reader)?,
        action: word(reader, Action::from_word)?,
        session_facts: SessionFacts {
            verdict: word(reader, SessionVerdict::from_word)?,
            max_score: read_real(reader)?,
            probes_sent: reader.number()?,
        },
        answers: Answers::default(),
    };
    let payload = if read_bool(reader)? { Some(Digest::new(reader.array()?)) } else { None };
    Ok((record, payload))
}

fn read_sealed(reader: &mut Reader<'_>) -> Result<(Side, Sealed), LayoutError> {
    let side = word(reader, Side::from_word)?;
    let (key, nonce) = (reader.text()?.into(), reader.array()?);
    let len = reader.len()?;
    Ok((side, Sealed { key, nonce, bytes: reader.bytes(len)?.to_vec() }))
}

fn read_score(reader: &mut Reader<'_>) -> Result<Score, LayoutError> {
    Ok(Score {
        field: read_real(reader)?,
        semantic: if read_bool(reader)? { Some(read_real(reader)?) } else { None },
        drift: read_real(reader)?,
        threshold: read_real(reader)?,
        high: read_bool(reader)?,
        wants_baseline: read_bool(reader)?,
    })
}

fn put_real(out: &mut Vec<u8>, real: f64) {
    out.extend_from_slice(&real.to_le_bytes());
}

fn read_real(reader: &mut Reader<'_>) -> Result<f64, LayoutError> {
    Ok(f64::from_le_bytes(reader.array()?))
}

fn put_words(out: &mut Vec<u8>, fields: &[Field]) {
    put_len(out, fields.len());
    fields.iter().for_each(|field| put_text(out, field.word()));
}

fn read_words(reader: &mut Reader<'_>) -> Result<Vec<Field>, LayoutError> {
    reader.list(|r| word(r, Field::from_word))
}

fn word<T>(reader: &mut Reader<'_>, of: impl Fn(&str) -> Option<T>) -> Result<T, LayoutError> {
    of(reader.text()?).ok_or(LayoutError::Broken("a word that is not known"))
}

fn maybe_word<T>(reader: &mut Reader<'_>, of: impl Fn(&str) -> Option<T>) -> Result<Option<T>, LayoutError> {
    match reader.text()? {
        "" => Ok(None),
        known => of(known).map(Some).ok_or(LayoutError::Broken("a word that is not known")),
    }
}

fn judgement_byte(judgement: Option<Judgement>) -> u8 {
    judgement.map_or(0, |j| {
        1 | u8::from(j.policy_ref_match) << 1
            | u8::from(j.decision_direction_match) << 2
            | u8::from(j.context_contradiction) << 3
    })
}

fn read_judgement(reader: &mut Reader<'_>) -> Result<Option<Judgement>, LayoutError> {
    match reader.byte()? {
        0 => Ok(None),
        bits if bits & 1 == 1 && bits < 16 => Ok(Some(Judgement {
            policy_ref_match: bits & 2 != 0,
            decision_direction_match: bits & 4 != 0,
            context_contradiction: bits & 8 != 0,
        })),
        _ => Err(LayoutError::Broken("a judgement that is none")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
pub(in crate::audit) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{audit::PackRef, redact::NONCE};

    pub(in crate::audit) fn record(full: bool) -> DriftRecord {
        let judgement =
            Judgement { policy_ref_match: full, decision_direction_match: false, context_contradiction: true };
        DriftRecord {
            session: "s".into(),
            agent: "a".into(),
            pack: Arc::new(PackRef { name: "p".into(), version: "1.0.0".into(), digest: Digest::new([3; 32]) }),
            calibration: if full { Calibration::Calibrated } else { Calibration::Uncalibrated },
            evaluation: "e-1".into(),
            settles: full,
            probe: "dd_01".into(),
            probe_type: "data_disclosure".into(),
            library: "1.0.0".into(),
            library_changed: full,
            inject_as: InjectAs::ToolResult,
            score: Score {
                field: 0.1 + 0.2,
                semantic: full.then_some(0.4),
                drift: f64::MIN_POSITIVE,
                threshold: 0.5,
                high: full,
                wants_baseline: !full,
            },
            category: full.then_some(Category::PolicyDisagreement),
            divergences: if full { Field::ALL.to_vec() } else { Vec::new() },
            malformed: vec![Field::DisclosedData],
            anomaly: full.then_some(Anomaly::FieldMissing),
            residual: Residual { fields: vec![Field::DisclosedData], reverse: Vec::new(), unreadable: Vec::new() },
            escape: full,
            triangulation: full.then_some((Triangulation::NoSignal, Some(NoSignalReason::EmptyDecision))),
            needs_baseline: !full,
            judge: JudgeRecord {
                source: JudgeSource::Deterministic,
                client: full.then_some(judgement),
                client_error: if full { "" } else { "no_reply" }.into(),
                deterministic: Some(judgement),
                pairs: 300,
                agree: 7,
            },
            confidence: 0.3,
            standing: Standing::LowConfidence,
            longitudinal: 0.25,
            action: Action::ElevatedReview,
            session_facts: SessionFacts { verdict: SessionVerdict::Inconclusive, max_score: 1.0, probes_sent: 12 },
            answers: Answers {
                snapshot: "{}".to_owned(),
                shadow: String::new(),
                baseline: "\u{e9}".to_owned(),
                sealed: match full {
                    true => vec![(Side::Shadow, Sealed { key: "a".into(), nonce: [9; NONCE], bytes: vec![0, 255] })],
                    false => Vec::new(),
                },
            },
        }
    }

    #[test]
    fn a_record_reads_back_and_no_part_of_one_is_a_record() {
        for full in [false, true] {
            let (mut bytes, mut answers) = (Vec::new(), Vec::new());
            let payload = full.then_some(Digest::new([9; 32]));
            put_drift(&mut bytes, &record(full), payload);
            put_answers(&mut answers, &record(full).answers);
            let mut reader = Reader::new(&bytes);
            let (mut read, digest) = read_drift(&mut reader).unwrap();
            read.answers = read_answers(&answers).unwrap();
            assert_eq!((read, digest), (record(full), payload));
            assert!(reader.is_empty());
            for cut in 0..bytes.len() {
                assert!(read_drift(&mut Reader::new(bytes.get(..cut).unwrap())).is_err(), "{cut}");
            }
        }
    }

    #[test]
    fn a_significant_signal_asks_for_somebody() {
        let with = |action, calibration| DriftRecord { action, calibration, ..record(true) }.is_significant();
        assert!(!with(Action::LogOnly, Calibration::Calibrated));
        assert!(with(Action::ElevatedReview, Calibration::Uncalibrated));
        assert!(with(Action::RestrictedMode, Calibration::Calibrated));
    }
}
