//! Errors on the wire: the code that fits, a message for people, and details for programs (reasons
//! of this service's own are stable). A policy's denial is an answer and never an error.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, PreconditionViolation, StatusExt};

use crate::{
    audit::{RecordNumber, StoreError},
    diag::{self, Severity},
    engine::EvaluateError,
    model::PackQuery,
    service::{
        AuditError, CloseError, DiffError, DriftError, ItemError, JudgeError, KeepError, LoadError, MetricsError,
        ObserveError, QueryError, ReloadError, RequestError, RevealError, ScoreError, TransferError,
    },
};

/// The domain of our reasons.
const DOMAIN: &str = "probity";
/// Diagnostics that an error carries; the rest is in the status of the rules. Clients bound the size
/// of what comes with an error.
const DIAGNOSTICS_IN_ERROR: usize = 20;
/// Broken fields that an error names, and characters that it says about each; for the same reason.
const VIOLATIONS_IN_ERROR: usize = 16;
const DESCRIPTION: usize = 160;
/// When a caller that was turned away should come again.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(200);

pub(super) fn reason(name: &str, facts: &[(&str, String)]) -> ErrorDetails {
    let facts: HashMap<String, String> = facts.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    ErrorDetails::with_error_info(name, DOMAIN, facts)
}

pub(super) fn with(code: Code, message: impl Into<String>, details: ErrorDetails) -> Status {
    Status::with_error_details(code, message, details)
}

/// A request with broken fields: each with its path, the first ones of very many.
pub fn invalid(mut violations: Vec<FieldViolation>) -> Status {
    let message = match violations.as_slice() {
        [one] => format!("{}: {}", one.field, one.description),
        [first, rest @ ..] => format!("{}: {}; and {} more", first.field, first.description, rest.len()),
        [] => "the request is not valid".to_owned(),
    };
    let mut details = reason("INVALID_REQUEST", &[("violations", violations.len().to_string())]);
    violations.truncate(VIOLATIONS_IN_ERROR);
    details.set_bad_request(violations);
    with(Code::InvalidArgument, message, details)
}

/// One broken field.
pub fn violation(field: impl Into<String>, description: impl Into<String>) -> FieldViolation {
    let mut description = description.into();
    if let Some((end, _)) = description.char_indices().nth(DESCRIPTION) {
        description.truncate(end);
        description.push('…');
    }
    FieldViolation::new(field, description)
}

/// Too many calls are in progress.
pub fn too_many_calls(limit: usize) -> Status {
    let mut details = reason("TOO_MANY_CALLS", &[("limit", limit.to_string())]);
    details.set_retry_info(Some(RETRY_AFTER));
    with(Code::ResourceExhausted, format!("{limit} calls are in progress, which is the limit"), details)
}

/// No more streams can be open.
pub fn too_many_streams(limit: usize) -> Status {
    let mut details = reason("TOO_MANY_STREAMS", &[("limit", limit.to_string())]);
    details.set_retry_info(Some(RETRY_AFTER));
    with(Code::ResourceExhausted, format!("{limit} streams are open, which is the limit"), details)
}

/// Nothing has come on a stream for too long.
pub fn idle_stream(limit: Duration) -> Status {
    let message =
        format!("nothing came on this stream for {limit:?}; what was answered is recorded, and another goes on");
    with(Code::Aborted, message, reason("STREAM_IDLE", &[]))
}

/// The caller's deadline has passed.
pub fn deadline_exceeded() -> Status {
    let message = "the deadline has passed; what was judged before is recorded, and repeating the request is safe";
    with(Code::DeadlineExceeded, message, reason("DEADLINE", &[]))
}

/// The server stops.
pub fn stopping() -> Status {
    let mut details = reason("STOPPING", &[]);
    details.set_retry_info(Some(RETRY_AFTER));
    with(Code::Unavailable, "the server is stopping", details)
}

/// No pack of this name, or none of these versions.
pub fn unknown_pack(pack: &str) -> Status {
    if let Err(e) = PackQuery::parse(pack) {
        return invalid(vec![violation("pack", format!("`{pack}` asks for no pack: {e}"))]);
    }
    let mut details = reason("UNKNOWN_PACK", &[("pack", pack.to_owned())]);
    details.set_resource_info("probity.v1.Pack", pack, "", "no pack of this name and version is served");
    with(Code::NotFound, format!("no pack `{pack}` is served"), details)
}

/// No candidate is beside the rules.
pub fn no_shadow() -> Status {
    let message = "no candidate is beside the rules: the server was started without --shadow-rules";
    with(Code::FailedPrecondition, message, reason("NO_SHADOW", &[]))
}

/// Nothing was recorded of a session.
pub fn unknown_session(session: &str) -> Status {
    let mut details = reason("UNKNOWN_SESSION", &[("session_id", session.to_owned())]);
    details.set_resource_info("probity.v1.Session", session, "", "nothing was recorded of it");
    with(Code::NotFound, format!("session `{session}` is not known"), details)
}

/// No more sessions can be open.
pub fn too_many_sessions(limit: usize) -> Status {
    let mut details = reason("TOO_MANY_SESSIONS", &[("limit", limit.to_string())]);
    details.set_retry_info(Some(RETRY_AFTER));
    with(Code::ResourceExhausted, format!("{limit} sessions are open, which is the limit"), details)
}

/// Something broke that should not.
pub fn broke(message: &str) -> Status {
    with(Code::Internal, message, reason("INTERNAL", &[]))
}

impl From<AuditError> for Status {
    fn from(e: AuditError) -> Status {
        match &e {
            AuditError::Store(words) => {
                with(Code::Unavailable, format!("nothing can be recorded: {words}"), reason("AUDIT_STORE_FAILED", &[]))
            }
            AuditError::Full { limit } => {
                let mut details = reason("AUDIT_QUEUE_FULL", &[("limit", limit.to_string())]);
                details.set_retry_info(Some(RETRY_AFTER));
                with(Code::ResourceExhausted, e.to_string(), details)
            }
            AuditError::Stopped => {
                with(Code::Unavailable, format!("nothing can be recorded: {e}"), reason("AUDIT_STOPPED", &[]))
            }
        }
    }
}

impl From<ItemError> for Status {
    fn from(e: ItemError) -> Status {
        let message = e.to_string();
        match e {
            ItemError::Gap { expected, got } => {
                let facts = [("expected_seq", expected.to_string()), ("seq", got.to_string())];
                with(Code::FailedPrecondition, message, reason("SEQ_GAP", &facts))
            }
            ItemError::Forgotten { seq, oldest } => {
                let facts = [("seq", seq.to_string()), ("oldest_kept_seq", oldest.to_string())];
                with(Code::AlreadyExists, message, reason("ANSWER_NOT_KEPT", &facts))
            }
            ItemError::Contradiction { seq } => {
                with(Code::FailedPrecondition, message, reason("OTHER_CONTENT", &[("seq", seq.to_string())]))
            }
            ItemError::Ended { seq } => {
                with(Code::FailedPrecondition, message, reason("SESSION_ENDED", &[("seq", seq.to_string())]))
            }
            ItemError::Proposal { seq, refused: _ } => {
                with(Code::FailedPrecondition, message, reason("PROPOSAL_CONFLICT", &[("seq", seq.to_string())]))
            }
        }
    }
}

impl From<ObserveError> for Status {
    fn from(e: ObserveError) -> Status {
        let message = e.to_string();
        match e {
            ObserveError::NotOpen { session, got } => {
                let facts = [("session_id", session), ("expected_seq", "0".to_owned()), ("seq", got.to_string())];
                with(Code::FailedPrecondition, message, reason("SESSION_NOT_OPEN", &facts))
            }
            ObserveError::NoPack => invalid(vec![violation("pack", message)]),
            ObserveError::NoMode => invalid(vec![violation("mode", message)]),
            ObserveError::UnknownPack { pack } => unknown_pack(&pack),
            ObserveError::OtherPack { session, open, asked } => {
                let facts = [("session_id", session), ("session_pack", open), ("pack", asked)];
                with(Code::FailedPrecondition, message, reason("OTHER_PACK", &facts))
            }
            ObserveError::OtherMode { session, open, asked } => {
                let facts = [
                    ("session_id", session),
                    ("session_mode", open.word().to_owned()),
                    ("mode", asked.word().to_owned()),
                ];
                with(Code::FailedPrecondition, message, reason("OTHER_MODE", &facts))
            }
            ObserveError::SessionsFull { limit } => too_many_sessions(limit),
            ObserveError::TwoSides { session } => {
                with(Code::FailedPrecondition, message, reason("EPISODE_HAS_SIDES", &[("session_id", session)]))
            }
            ObserveError::Broken { session } => {
                with(Code::Internal, message, reason("SESSION_BROKEN", &[("session_id", session)]))
            }
            ObserveError::Closed { session, reason: why } => {
                let facts = [("session_id", session), ("close_reason", why.word().to_owned())];
                with(Code::FailedPrecondition, message, reason("SESSION_CLOSED", &facts))
            }
            ObserveError::Unread { session } => {
                with(Code::Unavailable, message, reason("SESSION_UNREAD", &[("session_id", session)]))
            }
            ObserveError::OtherContent { request_id } => {
                with(Code::FailedPrecondition, message, reason("OTHER_CONTENT", &[("request_id", request_id)]))
            }
            ObserveError::Left => broke("the session moves from rules to rules"),
            ObserveError::Item(e) => e.into(),
            ObserveError::Audit(e) => e.into(),
        }
    }
}

impl From<CloseError> for Status {
    fn from(e: CloseError) -> Status {
        let message = e.to_string();
        match e {
            CloseError::NotOpen { session } => {
                let mut details = reason("SESSION_NOT_OPEN", &[("session_id", session.clone())]);
                details.set_resource_info("probity.v1.Session", session, "", "no session of this id is open");
                with(Code::NotFound, message, details)
            }
            CloseError::Request(e) => e.into(),
            CloseError::Audit(e) => e.into(),
        }
    }
}

impl From<TransferError> for Status {
    fn from(e: TransferError) -> Status {
        let message = e.to_string();
        match e {
            TransferError::NotKept { session } => {
                with(Code::NotFound, message, reason("SESSION_NOT_KEPT", &[("session_id", session)]))
            }
            TransferError::Open { session } => {
                with(Code::AlreadyExists, message, reason("SESSION_OPEN", &[("session_id", session)]))
            }
            TransferError::Form => invalid(vec![violation("state", message)]),
            TransferError::Refused(e) => e.into(),
            TransferError::Request(e) => e.into(),
            TransferError::Query(e) => e.into(),
            TransferError::Audit(e) => e.into(),
        }
    }
}

impl From<RequestError> for Status {
    fn from(e: RequestError) -> Status {
        let message = e.to_string();
        match e {
            RequestError::OtherContent { request_id } => {
                with(Code::FailedPrecondition, message, reason("OTHER_CONTENT", &[("request_id", request_id)]))
            }
            RequestError::Query(e) => e.into(),
        }
    }
}

impl From<KeepError> for Status {
    fn from(e: KeepError) -> Status {
        match e {
            KeepError::Request(e) => e.into(),
            KeepError::Audit(e) => e.into(),
        }
    }
}

impl From<DriftError> for Status {
    fn from(e: DriftError) -> Status {
        let message = e.to_string();
        match e {
            DriftError::UnknownPack { pack } => unknown_pack(&pack),
            DriftError::NoProbes { pack } => {
                with(Code::FailedPrecondition, message, reason("NO_PROBES", &[("pack", pack)]))
            }
            DriftError::NoPayloadKey { pack } => {
                with(Code::FailedPrecondition, message, reason("NO_PAYLOAD_KEY", &[("pack", pack)]))
            }
            DriftError::SessionsFull { limit } => too_many_sessions(limit),
            DriftError::UnknownSession { session, pack } => {
                let mut details = reason("UNKNOWN_SESSION", &[("session_id", session.clone()), ("pack", pack)]);
                details.set_resource_info("probity.v1.Session", session, "", "no probe of it is known");
                with(Code::NotFound, message, details)
            }
            DriftError::Unread { session } => {
                with(Code::Unavailable, message, reason("SESSION_UNREAD", &[("session_id", session)]))
            }
            DriftError::UnknownEvaluation => with(Code::NotFound, message, reason("UNKNOWN_EVALUATION", &[])),
            DriftError::OtherContent { request_id } => {
                with(Code::FailedPrecondition, message, reason("OTHER_CONTENT", &[("request_id", request_id)]))
            }
            DriftError::Broken { session } => {
                with(Code::Internal, message, reason("SESSION_BROKEN", &[("session_id", session)]))
            }
            DriftError::Evaluate(e) => match e {
                EvaluateError::UnknownProbe { probe } => {
                    with(Code::NotFound, message, reason("UNKNOWN_PROBE", &[("probe_id", probe)]))
                }
                EvaluateError::OtherLibrary { asked, served } => {
                    let facts = [("library_version", asked), ("served_library_version", served)];
                    with(Code::FailedPrecondition, message, reason("OTHER_LIBRARY", &facts))
                }
                EvaluateError::Baseline => invalid(vec![violation("baseline.text", message)]),
                EvaluateError::NotOpen => with(Code::FailedPrecondition, message, reason("NO_BASELINE_WANTED", &[])),
                EvaluateError::Cycle(failure) => with(
                    Code::FailedPrecondition,
                    message,
                    reason("PROBE_FAILED", &[("label", failure.word().to_owned())]),
                ),
            },
            DriftError::Broke => broke("the evaluation broke"),
            DriftError::Report => broke("the session cannot be reported"),
            DriftError::Audit(e) => e.into(),
        }
    }
}

impl From<DiffError> for Status {
    fn from(e: DiffError) -> Status {
        let message = e.to_string();
        match e {
            DiffError::UnknownPack(query) => unknown_pack(&query.to_string()),
            DiffError::NoShadow => no_shadow(),
            DiffError::NotKept(digest) => {
                with(Code::NotFound, message, reason("RULES_NOT_KEPT", &[("digest", digest.to_string())]))
            }
            DiffError::Load(e) => e.into(),
            DiffError::Query(e) => e.into(),
            DiffError::Broke => broke("comparing broke"),
        }
    }
}

impl From<ScoreError> for Status {
    fn from(e: ScoreError) -> Status {
        match e {
            ScoreError::UnknownPack { pack } => unknown_pack(&pack),
            ScoreError::Broke => broke("scoring broke"),
        }
    }
}

impl From<MetricsError> for Status {
    fn from(e: MetricsError) -> Status {
        match e {
            MetricsError::UnknownPack { pack } => unknown_pack(&pack),
            MetricsError::Query(e) => e.into(),
        }
    }
}

impl From<QueryError> for Status {
    fn from(e: QueryError) -> Status {
        match e {
            QueryError::Store(e @ StoreError::Pruned { .. }) => {
                with(Code::Aborted, e.to_string(), reason("RECORDS_PRUNED", &[]))
            }
            QueryError::Store(e) => with(Code::Unavailable, e.to_string(), reason("AUDIT_STORE_FAILED", &[])),
            QueryError::Broke => broke("reading the store broke"),
        }
    }
}

impl From<JudgeError> for Status {
    fn from(e: JudgeError) -> Status {
        let message = e.to_string();
        match e {
            JudgeError::UnknownSession { session } => unknown_session(&session),
            JudgeError::UnknownPolicy { policy: _, pack: _ } => invalid(vec![violation("policy", message)]),
            JudgeError::Request(e) => e.into(),
            JudgeError::Audit(e) => e.into(),
        }
    }
}

impl From<RevealError> for Status {
    fn from(e: RevealError) -> Status {
        let message = e.to_string();
        let facts =
            |record: RecordNumber, key: &Arc<str>| [("record", record.to_string()), ("key_id", key.to_string())];
        match e {
            RevealError::UnknownRecord { record } => {
                with(Code::NotFound, message, reason("UNKNOWN_RECORD", &[("record", record.to_string())]))
            }
            RevealError::NotSealed { record } => {
                with(Code::FailedPrecondition, message, reason("NOT_SEALED", &[("record", record.to_string())]))
            }
            RevealError::NoKey { record, key } => {
                with(Code::FailedPrecondition, message, reason("NO_PAYLOAD_KEY", &facts(record, &key)))
            }
            RevealError::Damaged { record, key } => {
                with(Code::DataLoss, message, reason("SEAL_BROKEN", &facts(record, &key)))
            }
            RevealError::Request(e) => e.into(),
            RevealError::Audit(e) => e.into(),
        }
    }
}

impl From<LoadError> for Status {
    fn from(e: LoadError) -> Status {
        let message = e.to_string();
        match e {
            LoadError::Broke => broke("loading the rules broke"),
            LoadError::Unsettled => {
                let mut details = reason("RULES_UNSETTLED", &[]);
                details.set_retry_info(Some(RETRY_AFTER));
                with(Code::Aborted, message, details)
            }
            LoadError::Refused(load) => {
                let errors: Vec<&diag::Record> =
                    load.diagnostics.iter().filter(|d| d.severity == Severity::Error).collect();
                let violations: Vec<PreconditionViolation> = errors
                    .iter()
                    .take(DIAGNOSTICS_IN_ERROR)
                    .map(|d| {
                        let place = format!("{}:{}:{}", d.place.file, d.place.line, d.place.column);
                        PreconditionViolation::new(d.code.text(), place, d.message.clone())
                    })
                    .collect();
                let mut details = reason("RULES_REFUSED", &[("errors", errors.len().to_string())]);
                details.set_precondition_failure(violations);
                let first = errors.first().map_or(String::new(), |d| {
                    format!("; first: {}:{}:{}: {}", d.place.file, d.place.line, d.place.column, d.message)
                });
                with(Code::FailedPrecondition, format!("{message}{first}; the rules before keep serving"), details)
            }
        }
    }
}

impl From<ReloadError> for Status {
    fn from(e: ReloadError) -> Status {
        match e {
            ReloadError::Load(e) => e.into(),
            ReloadError::Request(e) => e.into(),
            ReloadError::Audit(e) => e.into(),
        }
    }
}
