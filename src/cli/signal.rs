//! Drift signals as the commands show them: one JSON object, or a row of a table.

use serde_json::{Value, json};

use crate::{
    audit::DriftRecord,
    grpc::{self, wire},
};

/// Said with every report.
pub const CAVEAT: &str = "Evidence of drift tendency, out of band: no proof about the live session, blind to a compromise that \
     both instances share,\nand no result calls an agent safe.";

/// The columns of [`row`].
pub const HEADER: [&str; 9] =
    ["SESSION", "PROBE", "TYPE", "SCORE", "ESCAPE", "FOUND", "SIGNAL", "ACTION", "SESSION VERDICT"];

/// A record as it would leave over the wire.
pub fn wire(record: &DriftRecord) -> wire::DriftSignal {
    grpc::signal(record)
}

/// A signal as JSON.
pub fn json(signal: &wire::DriftSignal) -> Value {
    let score = signal.score.unwrap_or_default();
    let residual = signal.residual.clone().unwrap_or_default();
    let judge = signal.judge.clone().unwrap_or_default();
    let answers = signal.answers.clone().unwrap_or_default();
    let answer = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or(Value::Null);
    let judgement = |j: &wire::Judgement| {
        json!({
            "policy_ref_match": j.policy_ref_match,
            "decision_direction_match": j.decision_direction_match,
            "context_contradiction": j.context_contradiction,
        })
    };
    json!({
        "session_id": signal.session_id,
        "agent_id": signal.agent_id,
        "evaluation_id": signal.evaluation_id,
        "pack": signal.pack,
        "pack_version": signal.pack_version,
        "pack_digest": signal.pack_digest,
        "calibration_status": calibration(signal.calibration()),
        "probe_id": signal.probe_id,
        "probe_type": signal.probe_type,
        "probe_library_version": signal.library_version,
        "library_changed": signal.library_changed,
        "inject_as": signal.inject_as,
        "drift_score": score.drift,
        "field_score": score.field,
        "semantic_score": score.semantic,
        "threshold": score.threshold,
        "high": score.high,
        "divergence_category": given(&signal.category),
        "divergences": signal.divergences,
        "malformed_fields": signal.malformed_fields,
        "structural_anomaly": given(&signal.anomaly),
        "residual": {
            "snapshot_only": residual.snapshot_only,
            "shadow_only": residual.shadow_only,
            "unreadable": residual.unreadable,
        },
        "escape_detected": signal.escape_detected,
        "triangulation": signal.triangulation.as_ref().map(|t| {
            json!({"classification": t.classification, "reason": given(&t.reason)})
        }),
        "judge": {
            "source": judge.source,
            "client": judge.client.as_ref().map(judgement),
            "client_error": given(&judge.client_error),
            "deterministic": judge.deterministic.as_ref().map(judgement),
            "agree": judge.agree,
            "session_pairs": judge.session_pairs,
            "session_agreements": judge.session_agreements,
        },
        "isolation_confidence": signal.isolation_confidence,
        "standing": signal.standing,
        "longitudinal_signal": signal.longitudinal_signal,
        "recommended_action": action(signal.action()),
        "session_verdict": verdict(signal.session_verdict()),
        "probes_sent": signal.probes_sent,
        "max_drift_score": signal.max_drift_score,
        "answers": {
            "snapshot": answer(&answers.snapshot_json),
            "shadow": answer(&answers.shadow_json),
            "baseline": answer(&answers.baseline_json),
        },
        "sealed_with": Some(&answers.sealed_with).filter(|id| !id.is_empty()),
        "settles": signal.settles,
    })
}

/// A signal as a row.
pub fn row(signal: &wire::DriftSignal) -> [String; 9] {
    let score = signal.score.unwrap_or_default();
    let found = [signal.anomaly.as_str(), signal.category.as_str()].into_iter().find(|w| !w.is_empty());
    [
        signal.session_id.clone(),
        signal.probe_id.clone(),
        signal.probe_type.clone(),
        format!("{:.3}{}", score.drift, if score.high { " high" } else { "" }),
        if signal.escape_detected { "yes" } else { "-" }.to_owned(),
        found.unwrap_or("-").to_owned(),
        format!("{:.3}", signal.longitudinal_signal),
        action(signal.action()).to_uppercase(),
        verdict(signal.session_verdict()).to_owned(),
    ]
}

fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// An action's name in signals.
pub fn action(action: wire::DriftAction) -> &'static str {
    match action {
        wire::DriftAction::LogOnly => "log_only",
        wire::DriftAction::ElevatedReview => "elevated_review",
        wire::DriftAction::RestrictedMode => "restricted_mode",
        wire::DriftAction::Unspecified => "unspecified",
    }
}

/// A status's name.
pub fn calibration(status: wire::CalibrationStatus) -> &'static str {
    match status {
        wire::CalibrationStatus::Calibrated => "CALIBRATED",
        wire::CalibrationStatus::Uncalibrated => "UNCALIBRATED",
        wire::CalibrationStatus::Unspecified => "UNSPECIFIED",
    }
}

/// A verdict's name.
pub fn verdict(verdict: wire::SessionVerdict) -> &'static str {
    match verdict {
        wire::SessionVerdict::DriftDetected => "DRIFT_DETECTED",
        wire::SessionVerdict::ConsistencyAnomaly => "CONSISTENCY_ANOMALY",
        wire::SessionVerdict::Inconclusive => "INCONCLUSIVE",
        wire::SessionVerdict::Consistent => "CONSISTENT",
        wire::SessionVerdict::Unspecified => "UNSPECIFIED",
    }
}
