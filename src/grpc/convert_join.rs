//! Between the wire and an episode with two sides. What goes to the auditor is taken apart without `..` and without a
//! default arm: whatever is added to it has to be added here by hand.

use sha2::{Digest as _, Sha256};
use tonic::{Code, Status};

use crate::{
    model::{Digest, Value},
    service::{
        AuditorEnd, AuditorFault, Delivery, EndReason, ItemBody, JoinAsk, JoinError, NotKept, Prints, Secrets, Shown,
        ShownHit, TargetEnd, TargetFault, TargetInput, TargetJoinError, ToAuditor, ToTarget, Verdict,
    },
};

use super::{
    convert::{self, Faults, episode_score, recording, result, rounded},
    status::{RETRY_AFTER, invalid, reason, too_many_sessions, unknown_pack, violation, with},
    wire::{self, episode_input, episode_join, join_episode_response},
};

/// Bytes of the longest public text.
const MOST_TEXT: usize = 64 * 1024;
/// Messages that a target may come with; fewer than an episode keeps for a side.
const MOST_SETUP: usize = 32;
/// Bytes of a secret.
const SECRET: std::ops::RangeInclusive<usize> = 16..=256;

/// Somebody who wants to take a side.
#[derive(Debug)]
pub enum Join {
    /// The auditor's, with what it says of the situation.
    Auditor(JoinAsk, Option<String>),
    /// The target's, with the messages that it comes with.
    Target(JoinAsk, Vec<(Digest, ItemBody)>),
}

/// Reads the message that joins.
pub fn join(join: wire::EpisodeJoin, prints: &Prints) -> Result<Join, Status> {
    let wire::EpisodeJoin { episode_id, pack, agent_id, secret, other_secret_sha256, received, side } = join;
    let mut faults = Faults::default();
    faults.name("join.episode_id", &episode_id);
    faults.optional_name("join.pack", &pack);
    faults.optional_name("join.agent_id", &agent_id);
    if !SECRET.contains(&secret.len()) {
        faults.add("join.secret", format!("must be {} to {} bytes long", SECRET.start(), SECRET.end()));
    }
    let other: [u8; 32] = other_secret_sha256.as_ref().try_into().unwrap_or_else(|_| {
        faults.add("join.other_secret_sha256", "must be 32 bytes long");
        [0; 32]
    });
    let own: [u8; 32] = Sha256::digest(&secret).into();
    let ask = |secrets| JoinAsk { episode: episode_id, pack, agent: agent_id, secrets, received };
    match side {
        Some(episode_join::Side::Auditor(wire::AuditorSide { scenario })) => {
            public_text("join.auditor.scenario", &scenario, &mut faults);
            let ask = ask(Secrets { auditor: own, target: other });
            faults.or(Join::Auditor(ask, Some(scenario).filter(|text| !text.is_empty())))
        }
        Some(episode_join::Side::Target(wire::TargetSide { setup_json })) => {
            if setup_json.len() > MOST_SETUP {
                let what = format!("holds {} messages; the limit is {MOST_SETUP}", setup_json.len());
                faults.add("join.target.setup_json", what);
            }
            let mut setup = Vec::new();
            for (place, json) in setup_json.into_iter().take(MOST_SETUP).enumerate() {
                let item = wire::item::Item::MessageJson(json);
                setup.extend(private(item, &format!("join.target.setup[{place}]"), prints, &mut faults));
            }
            faults.or(Join::Target(ask(Secrets { auditor: other, target: own }), setup))
        }
        None => {
            faults.add("join.side", "must be an auditor or a target");
            faults.or(Join::Auditor(ask(Secrets { auditor: own, target: other }), None))
        }
    }
}

/// What a side sends: something to take, or the end.
#[derive(Debug)]
pub enum Input<T> {
    /// Something to take.
    Take(T),
    /// The end.
    End,
}

/// Reads what an auditor sends.
pub fn auditor_input(input: wire::EpisodeInput) -> Result<(u64, Input<String>), Status> {
    let wire::EpisodeInput { number, input } = input;
    let mut faults = Faults::default();
    match input {
        Some(episode_input::Input::Say(text)) => {
            public_text("input.say", &text, &mut faults);
            faults.or((number, Input::Take(text)))
        }
        Some(episode_input::Input::End(wire::End {})) => Ok((number, Input::End)),
        Some(episode_input::Input::MessageJson(_) | episode_input::Input::Proposal(_)) | None => {
            faults.add("input", "an auditor sends text or the end");
            faults.or((number, Input::End))
        }
    }
}

/// Reads what a target sends.
pub fn target_input(input: wire::EpisodeInput, prints: &Prints) -> Result<(u64, Input<TargetInput>), Status> {
    let wire::EpisodeInput { number, input } = input;
    let mut faults = Faults::default();
    let item = match input {
        Some(episode_input::Input::Say(text)) => {
            public_text("input.say", &text, &mut faults);
            return faults.or((number, Input::Take(TargetInput::Say(text))));
        }
        Some(episode_input::Input::End(wire::End {})) => return Ok((number, Input::End)),
        Some(episode_input::Input::MessageJson(json)) => wire::item::Item::MessageJson(json),
        Some(episode_input::Input::Proposal(call)) => wire::item::Item::Proposal(call),
        None => {
            faults.add("input", "a target sends text, a message, a proposal or the end");
            return faults.or((number, Input::End));
        }
    };
    let done = private(item, "input", prints, &mut faults);
    faults.or((number, done.map_or(Input::End, |(print, body)| Input::Take(TargetInput::Do(print, body)))))
}

fn public_text(field: &str, text: &str, faults: &mut Faults) {
    if text.len() > MOST_TEXT {
        faults.add(field, format!("is {} bytes long; the limit is {MOST_TEXT}", text.len()));
    }
}

/// Something private of the target. Nobody but the auditor speaks as the user.
fn private(item: wire::item::Item, path: &str, prints: &Prints, faults: &mut Faults) -> Option<(Digest, ItemBody)> {
    // No runtime event comes here, so the time is not read.
    let (print, body) = convert::item_body(Some(item), path, prints, 0.0, faults)?;
    if body.message().is_some_and(speaks_as_user) {
        faults.add(format!("{path}.message_json"), "is a user message, which only the auditor's words are");
        return None;
    }
    Some((print, body))
}

/// True of a user message with anything but results of tools, which some formats put there.
fn speaks_as_user(message: &Value) -> bool {
    let is_result = |block: &Value| block.get("type").and_then(Value::as_str) == Some("tool_result");
    let blocks = message.get("content").and_then(Value::as_list);
    message.get("role").and_then(Value::as_str) == Some("user")
        && !blocks.is_some_and(|blocks| !blocks.is_empty() && blocks.iter().all(is_result))
}

/// The side is taken.
pub fn joined(next_number: u64) -> wire::JoinEpisodeResponse {
    response(join_episode_response::Message::Joined(wire::EpisodeJoined { next_number }))
}

/// What an auditor is sent.
pub fn to_auditor(delivery: Delivery<ToAuditor>) -> wire::JoinEpisodeResponse {
    use wire::to_auditor::Message;
    let (number, message) = match delivery {
        Delivery::Message(number, ToAuditor::Taken { input }) => (number, Message::Taken(input)),
        Delivery::Message(number, ToAuditor::Said(text)) => (number, Message::Said(text.to_string())),
        Delivery::End(AuditorEnd { reason, shown }) => {
            let sum = |total: Option<crate::model::Num>| Some(total.map_or(f64::NAN, rounded));
            let (total, hits) = match shown {
                Shown::Nothing => (None, Vec::new()),
                Shown::Total(total) => (sum(total), Vec::new()),
                Shown::Hits(total, hits) => (sum(total), hits.iter().map(auditor_hit).collect()),
            };
            (0, Message::End(wire::AuditorEnd { reason: end_reason(reason).into(), total, hits }))
        }
    };
    response(join_episode_response::Message::Auditor(wire::ToAuditor { number, message: Some(message) }))
}

fn auditor_hit(hit: &ShownHit) -> wire::AuditorHit {
    let ShownHit { policy, turn, reward } = hit;
    wire::AuditorHit { policy: policy.to_string(), turn: *turn, reward: rounded(*reward) }
}

/// What a target is sent.
pub fn to_target(delivery: Delivery<ToTarget>) -> wire::JoinEpisodeResponse {
    use wire::to_target::Message;
    let told = |Verdict { answer, recorded }: &Verdict| (Some(result(answer)), recording(*recorded).into());
    let (number, message) = match delivery {
        Delivery::Message(number, ToTarget::Scenario(text)) => (number, Message::Scenario(text.to_string())),
        Delivery::Message(number, ToTarget::Heard { text, verdict }) => {
            let (result, recording) = told(&verdict);
            (number, Message::Heard(wire::EpisodeHeard { text: text.to_string(), result, recording }))
        }
        Delivery::Message(number, ToTarget::Judged { input, verdict }) => {
            let (result, recording) = told(&verdict);
            (number, Message::Judged(wire::EpisodeJudged { input, result, recording }))
        }
        Delivery::End(TargetEnd { reason, score }) => {
            let score = score.as_deref().map(episode_score);
            (0, Message::End(wire::TargetEnd { reason: end_reason(reason).into(), score }))
        }
    };
    response(join_episode_response::Message::Target(wire::ToTarget { number, message: Some(message) }))
}

fn response(message: join_episode_response::Message) -> wire::JoinEpisodeResponse {
    wire::JoinEpisodeResponse { message: Some(message) }
}

fn end_reason(reason: EndReason) -> wire::EpisodeEndReason {
    match reason {
        EndReason::Auditor => wire::EpisodeEndReason::Auditor,
        EndReason::Target => wire::EpisodeEndReason::Target,
        EndReason::Limit => wire::EpisodeEndReason::Limit,
        EndReason::Idle => wire::EpisodeEndReason::Idle,
        EndReason::Asked => wire::EpisodeEndReason::Asked,
        EndReason::Outlived => wire::EpisodeEndReason::Outlived,
        EndReason::Failed => wire::EpisodeEndReason::Failed,
    }
}

impl From<JoinError> for Status {
    fn from(e: JoinError) -> Status {
        let message = e.to_string();
        match e {
            JoinError::Refused => with(Code::PermissionDenied, message, reason("EPISODE_REFUSED", &[])),
            JoinError::OtherPack => with(Code::FailedPrecondition, message, reason("OTHER_PACK", &[])),
            JoinError::Present => {
                let mut details = reason("SIDE_PRESENT", &[]);
                details.set_retry_info(Some(RETRY_AFTER));
                with(Code::AlreadyExists, message, details)
            }
            JoinError::NotKept(NotKept { first, next }) => {
                let facts = [("first_kept", first.to_string()), ("next", next.to_string())];
                with(Code::OutOfRange, message, reason("MESSAGES_NOT_KEPT", &facts))
            }
            JoinError::Closed => with(Code::FailedPrecondition, message, reason("EPISODE_CLOSED", &[])),
            JoinError::NoPack => invalid(vec![violation("join.pack", message)]),
            JoinError::UnknownPack { pack } => unknown_pack(&pack),
            JoinError::Full { limit } => too_many_sessions(limit),
            JoinError::Unavailable => unavailable(message),
        }
    }
}

impl From<TargetJoinError> for Status {
    fn from(e: TargetJoinError) -> Status {
        match e {
            TargetJoinError::Side(e) => e.into(),
            TargetJoinError::Setup(fault) => {
                let words = fault.to_string();
                target_fault(fault).unwrap_or_else(|| unavailable(words))
            }
        }
    }
}

/// What a target is told of a refused input; nothing where it is told of the end.
pub fn target_fault(fault: TargetFault) -> Option<Status> {
    match fault {
        TargetFault::Order { expected, got } => Some(order(expected, got)),
        TargetFault::Item(e) => Some(e.into()),
        TargetFault::Audit(e) => Some(e.into()),
        TargetFault::Over => None,
    }
}

/// What an auditor is told of a refused input; nothing where it is told of the end.
pub fn auditor_fault(fault: AuditorFault) -> Option<Status> {
    match fault {
        AuditorFault::Order { expected, got } => Some(order(expected, got)),
        AuditorFault::Unavailable => Some(unavailable(fault.to_string())),
        AuditorFault::Over => None,
    }
}

fn order(expected: u64, got: u64) -> Status {
    let facts = [("expected", expected.to_string()), ("number", got.to_string())];
    let message = format!("input {got} came where input {expected} was expected");
    with(Code::FailedPrecondition, message, reason("INPUT_OUT_OF_ORDER", &facts))
}

fn unavailable(message: String) -> Status {
    let mut details = reason("EPISODE_UNAVAILABLE", &[]);
    details.set_retry_info(Some(RETRY_AFTER));
    with(Code::Unavailable, message, details)
}
