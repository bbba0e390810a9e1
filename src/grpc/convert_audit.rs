//! Records, counters and metrics, as they cross the wire.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use data_encoding::HEXLOWER;
use tonic::Status;

use crate::{
    audit::{self, Body, ConditionRecord, Judged, SetAside, Tally, Trust, Verified},
    drift::Action,
    reward::{self, JudgeMetrics, Metrics},
    service::{Measured, Outcome, RecordQuery, Selection, SessionAccount, SessionState},
};

use super::{
    convert::{Faults, effect, policy_effect, rounded, timestamp},
    convert_drift,
    pages::{self, Pages},
    wire,
};

fn mode(mode: audit::Mode) -> wire::Mode {
    match mode {
        audit::Mode::Gate => wire::Mode::Gate,
        audit::Mode::Episode => wire::Mode::Episode,
    }
}

/// A session.
pub fn session(session_id: String, account: SessionAccount) -> wire::Session {
    let SessionAccount { agent, pack, mode, state, first, last, items, evaluations, judge_verdicts, tallies } = account;
    let (state, close_reason) = match state {
        SessionState::Open => (wire::SessionState::Open, ""),
        SessionState::Ended => (wire::SessionState::Ended, ""),
        SessionState::Closed(reason) => (wire::SessionState::Closed, reason.word()),
        SessionState::Gone => (wire::SessionState::Gone, ""),
    };
    let at = |millis| Some(timestamp(UNIX_EPOCH + Duration::from_millis(millis)));
    wire::Session {
        session_id,
        agent_id: agent.to_string(),
        pack: pack.as_ref().map(|pack| pack.name.to_string()).unwrap_or_default(),
        pack_version: pack.as_ref().map(|pack| pack.version.to_string()).unwrap_or_default(),
        pack_digest: pack.as_ref().map(|pack| pack.digest.to_string()).unwrap_or_default(),
        mode: mode.map_or(wire::Mode::Unspecified, self::mode).into(),
        state: state.into(),
        close_reason: close_reason.to_owned(),
        first_record: first.0,
        first_time: at(first.1),
        last_record: last.0,
        last_time: at(last.1),
        items,
        evaluations,
        judge_verdicts,
        stats: tallies.into_iter().map(stats).collect(),
    }
}

/// A record.
pub fn record(record: &audit::Record) -> wire::Record {
    let audit::Record { number, at_millis, body, erased } = record;
    let body = match body {
        Body::Judged(judged) => wire::record::Body::Judged(judged_item(judged)),
        Body::Judge(report) => {
            let audit::JudgeReport { session, pack: _, policy, turn, hit, judge_id } = report;
            let verdict = wire::JudgeVerdict {
                session_id: session.to_string(),
                policy: policy.to_string(),
                turn: *turn,
                hit: *hit,
                judge_id: judge_id.to_string(),
            };
            wire::record::Body::Judge(verdict)
        }
        Body::Activated(audit::Activation { pack: _, commit }) => {
            let commit = commit.as_deref().unwrap_or_default().to_owned();
            wire::record::Body::Activation(wire::Activation { commit })
        }
        Body::Drift(signal) => wire::record::Body::Drift(convert_drift::signal(signal)),
        Body::Reading(reading) => {
            let audit::Reading { session, pack: _, record, principal, reason } = reading;
            wire::record::Body::PayloadReading(wire::PayloadReading {
                session_id: session.to_string(),
                record: *record,
                principal: principal.to_string(),
                reason: reason.to_string(),
            })
        }
        Body::Lost(audit::Loss { count, sessions }) => wire::record::Body::Loss(wire::Loss {
            count: *count,
            sessions: sessions
                .iter()
                .map(|(session, first, last)| wire::LostItems {
                    session_id: session.to_string(),
                    first_seq: *first,
                    last_seq: *last,
                })
                .collect(),
        }),
        Body::Checkpoint(checkpoint) => wire::record::Body::Checkpoint(checkpoint_of(checkpoint)),
        Body::Erased { session } => {
            wire::record::Body::PayloadsErased(wire::PayloadsErased { session_id: session.to_string() })
        }
        Body::Imported { session, entries } => wire::record::Body::SessionImported(wire::SessionImported {
            session_id: session.to_string(),
            entries: *entries,
        }),
        Body::Moved { session, from, to: _ } => wire::record::Body::SessionMoved(wire::SessionMoved {
            session_id: session.to_string(),
            previous_version: from.version.to_string(),
            previous_digest: from.digest.to_string(),
        }),
        Body::SetAside(SetAside { folder, reason }) => wire::record::Body::StoreSetAside(wire::StoreSetAside {
            folder: folder.to_string(),
            reason: reason.to_string(),
        }),
        Body::Pruned { first } => wire::record::Body::RecordsPruned(wire::RecordsPruned { first_record: *first }),
        Body::Refused(audit::Refusal { fingerprint, errors, codes }) => {
            wire::record::Body::RulesRefused(wire::RulesRefused {
                fingerprint: fingerprint.to_string(),
                error_count: *errors,
                codes: codes.iter().map(ToString::to_string).collect(),
            })
        }
        Body::Closed(audit::Closed { session, pack: _, reason }) => wire::record::Body::Closed(wire::SessionClosed {
            session_id: session.to_string(),
            reason: reason.word().to_owned(),
        }),
    };
    let text = |of: fn(&audit::PackRef) -> String| record.names().pack.map(|pack| of(pack)).unwrap_or_default();
    wire::Record {
        number: *number,
        time: Some(moment(*at_millis)),
        pack: text(|pack| pack.name.to_string()),
        pack_version: text(|pack| pack.version.to_string()),
        pack_digest: text(|pack| pack.digest.to_string()),
        body: Some(body),
        payload_erased: *erased,
    }
}

fn checkpoint_of(checkpoint: &audit::Checkpoint) -> wire::Checkpoint {
    let audit::Checkpoint { head: audit::Head { store, last, link }, at_millis, seal } = checkpoint;
    wire::Checkpoint {
        store_id: store.to_string(),
        last_record: *last,
        link: link.to_string(),
        time: Some(moment(*at_millis)),
        public_key: seal.map(|seal| HEXLOWER.encode(&seal.public_key)).unwrap_or_default(),
        signature: seal.map(|seal| HEXLOWER.encode(&seal.signature)).unwrap_or_default(),
    }
}

/// The counters of a policy.
pub fn stats((policy, tally): (String, Tally)) -> wire::PolicyStats {
    let Tally { hits, signals, undecided, sessions, reward, last_hit_millis } = tally;
    wire::PolicyStats {
        policy,
        hits,
        signals,
        undecided,
        sessions_with_hits: sessions,
        violation_reward: rounded(reward),
        last_hit_time: (last_hit_millis > 0).then(|| moment(last_hit_millis)),
    }
}

/// The answer of `Verify`.
pub fn verified(verified: &Verified) -> wire::VerifyResponse {
    let Verified { base, head, checkpoints, signed, erased, confirmed, faults } = verified;
    wire::VerifyResponse {
        whole: verified.is_whole(),
        store_id: base.store.to_string(),
        first_record: base.last + 1,
        last_record: head.last,
        link: head.link.to_string(),
        checkpoints: *checkpoints,
        signed_checkpoints: *signed,
        erased_payloads: *erased,
        confirmed_checkpoints: *confirmed,
        faults: faults.iter().map(ToString::to_string).collect(),
    }
}

/// Reads a request of `Verify`.
pub fn trust(request: wire::VerifyRequest) -> Result<Trust, Status> {
    let wire::VerifyRequest { checkpoints, public_key } = request;
    let mut faults = Faults::default();
    let mut read = Vec::with_capacity(checkpoints.len());
    for (place, line) in checkpoints.iter().enumerate() {
        match audit::Checkpoint::from_json(line) {
            Ok(checkpoint) => read.push(checkpoint),
            Err(e) => faults.add(format!("checkpoints[{place}]"), e.to_string()),
        }
    }
    let public_key = (!public_key.is_empty()).then(|| audit::public_key(&public_key));
    if let Some(None) = public_key {
        faults.add("public_key", "must be 64 hexadecimal digits");
    }
    faults.or(Trust { checkpoints: read, public_key: public_key.flatten() })
}

/// Reads a request of `QueryRecords`.
pub fn query(request: wire::QueryRecordsRequest) -> Result<(RecordQuery, Pages), Status> {
    let all = wire::QueryRecordsRequest { page_size: 0, page_token: String::new(), ..request.clone() };
    let pages = Pages::of("QueryRecords", &all);
    let wire::QueryRecordsRequest {
        session_id,
        pack,
        policy,
        page_size,
        page_token,
        outcome,
        action,
        start_time,
        end_time,
    } = request;
    let mut faults = Faults::default();
    let outcome = match wire::JudgedOutcome::try_from(outcome) {
        Ok(wire::JudgedOutcome::Unspecified) => None,
        Ok(wire::JudgedOutcome::Hit) => Some(Outcome::Hit),
        Ok(wire::JudgedOutcome::Denied) => Some(Outcome::Denied),
        Ok(wire::JudgedOutcome::Reviewed) => Some(Outcome::Reviewed),
        Ok(wire::JudgedOutcome::Signal) => Some(Outcome::Signal),
        Ok(wire::JudgedOutcome::Undecided) => Some(Outcome::Undecided),
        Err(_) => {
            faults.add("outcome", format!("{outcome} is no outcome"));
            None
        }
    };
    let action = match wire::DriftAction::try_from(action) {
        Ok(wire::DriftAction::Unspecified) => None,
        Ok(wire::DriftAction::LogOnly) => Some(Action::LogOnly),
        Ok(wire::DriftAction::ElevatedReview) => Some(Action::ElevatedReview),
        Ok(wire::DriftAction::RestrictedMode) => Some(Action::RestrictedMode),
        Err(_) => {
            faults.add("action", format!("{action} is no action"));
            None
        }
    };
    let since_millis = millis(&mut faults, "start_time", start_time);
    let until_millis = millis(&mut faults, "end_time", end_time);
    let size = pages::size(&mut faults, page_size, 100, 1000);
    let from = pages.begins_at(&mut faults, &page_token, 1);
    let given = |text: String| (!text.is_empty()).then_some(text);
    let query = RecordQuery {
        session: given(session_id),
        pack: given(pack),
        policy: given(policy),
        outcome,
        action,
        since_millis,
        until_millis,
        size,
        from,
    };
    faults.or((query, pages))
}

/// Reads a request of `GetMetrics`.
pub fn selection(request: wire::GetMetricsRequest) -> Result<(String, Selection), Status> {
    let wire::GetMetricsRequest { pack, start_time, end_time, session_ids } = request;
    let mut faults = Faults::default();
    faults.name("pack", &pack);
    for (place, session) in session_ids.iter().enumerate() {
        faults.name(&format!("session_ids[{place}]"), session);
    }
    let selection = Selection {
        since_millis: millis(&mut faults, "start_time", start_time),
        until_millis: millis(&mut faults, "end_time", end_time),
        sessions: session_ids.into_iter().collect(),
    };
    faults.or((pack, selection))
}

/// The first millisecond at or behind a moment: records of the same millisecond lie on its side.
fn millis(faults: &mut Faults, field: &str, time: Option<prost_types::Timestamp>) -> Option<u64> {
    let at = SystemTime::try_from(time?).ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    if at.is_none() {
        faults.add(field, "must not lie before 1970");
    }
    u64::try_from(at?.as_nanos().div_ceil(1_000_000)).ok()
}

fn moment(millis: u64) -> prost_types::Timestamp {
    timestamp(UNIX_EPOCH + Duration::from_millis(millis))
}

fn judged_item(judged: &Judged) -> wire::JudgedItem {
    let Judged { session, agent, pack: _, mode, item, seq, input, turn, calls, hits, signals, undecided, malformed } =
        judged;
    let why = |event: u64, conditions: &[ConditionRecord]| wire::Evidence {
        event_seq: event,
        conditions: conditions
            .iter()
            .map(|ConditionRecord { holds, rests_on }| wire::Condition {
                source: String::new(),
                holds: *holds,
                rests_on: rests_on.clone(),
            })
            .collect(),
    };
    let result = wire::Result {
        seq: *seq,
        turn: *turn,
        calls: calls
            .iter()
            .map(|audit::CallRecord { index, gate }| wire::CallAnswer {
                index: *index,
                call_id: String::new(),
                effect: effect(*gate).into(),
            })
            .collect(),
        hits: hits
            .iter()
            .map(|audit::HitRecord { policy, turn, n, reward, event, conditions }| wire::Hit {
                policy: policy.to_string(),
                turn: *turn,
                n: *n,
                reward: rounded(*reward),
                message: String::new(),
                evidence: Some(why(*event, conditions)),
            })
            .collect(),
        undecided: undecided
            .iter()
            .map(|(policy, turn, reason)| wire::Undecided {
                policy: policy.to_string(),
                turn: *turn,
                reason: reason.clone(),
            })
            .collect(),
        malformed: malformed
            .iter()
            .map(|(turn, reason)| wire::Malformed { turn: *turn, reason: reason.clone() })
            .collect(),
        signals: signals
            .iter()
            .map(|audit::SignalRecord { policy, turn, effect, event, conditions }| wire::Signal {
                policy: policy.to_string(),
                turn: *turn,
                effect: policy_effect(*effect).into(),
                message: String::new(),
                evidence: Some(why(*event, conditions)),
            })
            .collect(),
        probe: None,
    };
    let kind = match item {
        audit::ItemKind::Message => wire::ItemKind::Message,
        audit::ItemKind::Proposal => wire::ItemKind::Proposal,
        audit::ItemKind::End => wire::ItemKind::End,
        audit::ItemKind::RuntimeEvent => wire::ItemKind::RuntimeEvent,
    };
    wire::JudgedItem {
        session_id: session.to_string(),
        mode: self::mode(*mode).into(),
        kind: kind.into(),
        result: Some(result),
        agent_id: agent.to_string(),
        input_digest: input.to_string(),
    }
}

/// The answer of `GetMetrics`.
pub fn measured(measured: &Measured) -> wire::GetMetricsResponse {
    wire::GetMetricsResponse {
        pack: measured.pack.name.to_string(),
        pack_version: measured.pack.version.to_string(),
        pack_digest: measured.pack.digest.to_string(),
        metrics: Some(metrics(&measured.metrics)),
    }
}

fn metrics(metrics: &Metrics) -> wire::Metrics {
    let counts = |counts: &BTreeMap<String, u64>| counts.clone().into_iter().collect();
    let malformed = |episode: &reward::MalformedEpisode| {
        let reward::MalformedEpisode { episode_id, reasons } = episode;
        let reasons = reasons
            .iter()
            .map(|reward::Reason { turn, reason }| wire::Malformed { turn: *turn, reason: reason.clone() });
        wire::MalformedEpisode { episode_id: episode_id.clone(), reasons: reasons.collect() }
    };
    let m = metrics.clone();
    wire::Metrics {
        episodes: m.episodes,
        declared_policies: m.declared_policies,
        implemented_policies: m.implemented_policies,
        unsupported_policies: m.unsupported_policies,
        covered_policies: m.covered_policies,
        coverage: m.coverage,
        raw_hits: m.raw_hits,
        violation_yield_per_100_episodes: m.violation_yield_per_100_episodes,
        distinct_episode_policy_hits: m.distinct_episode_policy_hits,
        distinct_yield_per_100_episodes: m.distinct_yield_per_100_episodes,
        episodes_with_hits: m.episodes_with_hits,
        episodes_without_hits: m.episodes_without_hits,
        episode_hit_fraction: m.episode_hit_fraction,
        total_violation_reward: m.total_violation_reward,
        raw_hits_by_policy: counts(&m.raw_hits_by_policy),
        distinct_hits_by_policy: counts(&m.distinct_hits_by_policy),
        malformed: m.malformed.iter().map(malformed).collect(),
        undecided_by_policy: counts(&m.undecided_by_policy),
        undecided_by_limit: counts(&m.undecided_by_limit),
        signals_by_policy: m
            .signals_by_policy
            .iter()
            .map(|(effect, policies)| (effect.clone(), wire::PolicyCounts { by_policy: counts(policies) }))
            .collect(),
        judge: m.judge.as_ref().map(judge_block),
    }
}

fn judge_block(judge: &JudgeMetrics) -> wire::JudgeMetrics {
    let j = judge.clone();
    wire::JudgeMetrics {
        verdicts: j.verdicts,
        hits: j.hits,
        agreement: j.agreement,
        precision: j.precision,
        recall: j.recall,
        unverified: j.unverified,
        unknown_policy: j.unknown_policy,
        coverage_deterministic: j.coverage_deterministic,
        coverage_with_judge: j.coverage_with_judge,
        hits_by_policy: j.hits_by_policy.into_iter().collect(),
    }
}
