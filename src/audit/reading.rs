//! What a record says, as JSON for people and programs.

use serde_json::{Value, json};

use super::{
    checkpoint::Checkpoint,
    drift::DriftRecord,
    record::{
        Activation, Body, Closed, ConditionRecord, JudgeReport, Judged, Loss, PackRef, Reading, Record, Refusal,
        SetAside,
    },
};
use crate::model::Gate;

/// A moment as RFC 3339, in UTC and to the millisecond.
pub(super) fn time(millis: u64) -> String {
    let at = i64::try_from(millis).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    // Beyond the year 9999 there is only the number.
    at.map_or_else(|| millis.to_string(), |at| format!("{at:.3}"))
}

/// What a record says.
pub(super) fn body(record: &Record) -> Value {
    let mut said = match &record.body {
        Body::Judged(judged) => judged_item(judged),
        Body::Judge(report) => judge(report),
        Body::Activated(Activation { pack, commit }) => match commit {
            None => json!({ "pack": self::pack(pack) }),
            Some(commit) => json!({ "pack": self::pack(pack), "commit": **commit }),
        },
        Body::Drift(drift) => signal(drift),
        Body::Reading(Reading { session, pack, record, principal, reason }) => json!({
            "session": **session, "pack": self::pack(pack), "record": record, "principal": **principal,
            "reason": **reason,
        }),
        Body::Lost(Loss { count, sessions }) => {
            let sessions = sessions
                .iter()
                .map(|(id, first, last)| json!({ "session": **id, "first_seq": first, "last_seq": last }));
            json!({ "count": count, "sessions": sessions.collect::<Vec<_>>() })
        }
        Body::Erased { session } => json!({ "session": **session }),
        Body::Pruned { first } => json!({ "first_record": first }),
        Body::Refused(Refusal { fingerprint, errors, codes }) => {
            let codes: Vec<&str> = codes.iter().map(|code| &**code).collect();
            json!({ "fingerprint": fingerprint.to_string(), "errors": errors, "codes": codes })
        }
        Body::Imported { session, entries } => json!({ "session": **session, "entries": entries }),
        Body::Moved { session, from, to } => {
            json!({ "session": **session, "from": self::pack(from), "to": self::pack(to) })
        }
        Body::SetAside(SetAside { folder, reason }) => json!({ "folder": **folder, "reason": **reason }),
        // A checkpoint has its own line of JSON, which is what is kept elsewhere too.
        Body::Checkpoint(checkpoint) => checkpoint_line(checkpoint),
        Body::Closed(Closed { session, pack, reason }) => {
            json!({ "session": **session, "pack": pack.as_ref().map(|p| self::pack(p)), "reason": reason.word() })
        }
    };
    if let (true, Value::Object(fields)) = (record.erased, &mut said) {
        fields.insert("erased".to_owned(), Value::Bool(true));
    }
    said
}

fn pack(pack: &PackRef) -> Value {
    json!({ "name": *pack.name, "version": *pack.version, "digest": pack.digest.to_string() })
}

fn conditions(conditions: &[ConditionRecord]) -> Vec<Value> {
    conditions.iter().map(|c| json!({ "holds": c.holds, "rests_on": c.rests_on })).collect()
}

fn judged_item(judged: &Judged) -> Value {
    let Judged { session, agent, pack, mode, item, seq, input, turn, calls, hits, signals, undecided, malformed } =
        judged;
    let gate = |gate: Gate| match gate {
        Gate::Allow => "allow",
        Gate::Review => "review",
        Gate::Deny => "deny",
    };
    let calls = calls.iter().map(|c| json!({ "index": c.index, "effect": gate(c.gate) }));
    let hits = hits.iter().map(|hit| {
        json!({
            "policy": *hit.policy, "turn": hit.turn, "n": hit.n, "reward": hit.reward.to_string(),
            "event": hit.event, "conditions": conditions(&hit.conditions),
        })
    });
    let signals = signals.iter().map(|signal| {
        json!({
            "policy": *signal.policy, "turn": signal.turn, "effect": signal.effect.word(),
            "event": signal.event, "conditions": conditions(&signal.conditions),
        })
    });
    let undecided =
        undecided.iter().map(|(policy, turn, why)| json!({ "policy": **policy, "turn": turn, "reason": why }));
    let malformed = malformed.iter().map(|(turn, reason)| json!({ "turn": turn, "reason": reason }));
    json!({
        "session": **session, "agent": **agent, "pack": self::pack(pack), "mode": mode.word(), "item": item.word(),
        "seq": seq, "input": input.to_string(), "turn": turn, "calls": calls.collect::<Vec<_>>(),
        "hits": hits.collect::<Vec<_>>(), "signals": signals.collect::<Vec<_>>(),
        "undecided": undecided.collect::<Vec<_>>(), "malformed": malformed.collect::<Vec<_>>(),
    })
}

fn judge(report: &JudgeReport) -> Value {
    let JudgeReport { session, pack, policy, turn, hit, judge_id } = report;
    json!({
        "session": **session, "pack": self::pack(pack), "policy": **policy, "turn": turn, "hit": hit,
        "judge": **judge_id,
    })
}

fn signal(drift: &DriftRecord) -> Value {
    let words = |fields: &[crate::drift::Field]| fields.iter().map(|field| field.word()).collect::<Vec<_>>();
    let read = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
    json!({
        "session": *drift.session, "agent": *drift.agent, "pack": pack(&drift.pack),
        "calibration": drift.calibration.word(), "evaluation": *drift.evaluation, "settles": drift.settles,
        "probe": *drift.probe, "probe_type": *drift.probe_type, "library": *drift.library,
        "score": drift.score.drift, "high": drift.score.high, "category": drift.category.map(|c| c.word()),
        "divergences": words(&drift.divergences), "anomaly": drift.anomaly.map(|a| a.word()),
        "escape": drift.escape, "triangulation": drift.triangulation.map(|(t, _)| t.word()),
        "needs_baseline": drift.needs_baseline, "confidence": drift.confidence, "standing": drift.standing.word(),
        "longitudinal": drift.longitudinal, "action": drift.action.word(),
        "verdict": drift.session_facts.verdict.word(), "probes_sent": drift.session_facts.probes_sent,
        "snapshot": read(&drift.answers.snapshot), "shadow": read(&drift.answers.shadow),
        "baseline": read(&drift.answers.baseline),
    })
}

fn checkpoint_line(checkpoint: &Checkpoint) -> Value {
    serde_json::from_str(&checkpoint.to_json()).unwrap_or(Value::Null)
}
