//! Between the wire and the house. Wire messages are taken apart without `..`, so that a new field
//! does not compile until somebody decides what it means. Requests report every broken field at once.

use std::{collections::BTreeSet, time::SystemTime};

use tonic::Status;
use tonic_types::FieldViolation;

use crate::{
    audit::{self, RequestKey},
    diag,
    engine::{Pack, PolicyInfo},
    ingest::Episode,
    model::{self, Digest, Effect, Gate, Num, PackQuery, Value, json},
    reward::{self, EpisodeReward, Part},
    service::{
        Answer, Ask, Item, ItemBody, JudgeAsk, Named, Observed, Prints, ProposedCall, Recorded, Scored, ScoredEpisode,
    },
};

use super::{
    convert_drift,
    status::{invalid, violation},
    wire,
};

/// Bytes of the longest id, name or request id.
const MAX_NAME: usize = 256;

/// Collects what is wrong with a request.
#[derive(Debug, Default)]
pub struct Faults(Vec<FieldViolation>);

impl Faults {
    /// Notes a broken field.
    pub fn add(&mut self, field: impl Into<String>, description: impl Into<String>) {
        self.0.push(violation(field, description));
    }

    /// A name that must be there.
    pub fn name(&mut self, field: &str, name: &str) {
        if name.is_empty() {
            self.add(field, "must not be empty");
        } else {
            self.optional_name(field, name);
        }
    }

    /// A name that may be empty.
    pub fn optional_name(&mut self, field: &str, name: &str) {
        if name.len() > MAX_NAME {
            self.add(field, format!("is {} bytes long; the limit is {MAX_NAME}", name.len()));
        } else if name.chars().any(char::is_control) {
            self.add(field, "must not hold control characters");
        }
    }

    /// A pack as it is asked for, which may be left out.
    pub fn optional_pack(&mut self, field: &str, asked: &str) -> Option<PackQuery> {
        self.optional_name(field, asked);
        if asked.is_empty() {
            return None;
        }
        PackQuery::parse(asked).map_err(|e| self.add(field, e.to_string())).ok()
    }

    /// The value, if nothing is wrong.
    pub fn or<T>(self, value: T) -> Result<T, Status> {
        if self.0.is_empty() { Ok(value) } else { Err(invalid(self.0)) }
    }
}

/// A request with the name that its caller gave it; nothing if it has none. The name is told apart by method.
pub fn named<M: prost::Message>(
    method: &'static str,
    request_id: &str,
    request: &M,
    prints: &Prints,
) -> Result<Option<Named>, Status> {
    let mut faults = Faults::default();
    faults.optional_name("request_id", request_id);
    let named = (!request_id.is_empty()).then(|| Named {
        key: RequestKey { method, id: request_id.into() },
        print: prints.request(&request.encode_to_vec()),
    });
    faults.or(named)
}

/// Reads a request of `Observe`.
pub fn ask(request: wire::ObserveRequest, prints: &Prints, now: f64, max_items: usize) -> Result<Ask, Status> {
    let wire::ObserveRequest { session_id, pack, mode, items, request_id, agent_id } = request;
    let mut faults = Faults::default();
    faults.name("session_id", &session_id);
    faults.optional_name("pack", &pack);
    faults.optional_name("request_id", &request_id);
    faults.optional_name("agent_id", &agent_id);
    let mode = match wire::Mode::try_from(mode) {
        Ok(wire::Mode::Unspecified) => None,
        Ok(wire::Mode::Gate) => Some(audit::Mode::Gate),
        Ok(wire::Mode::Episode) => Some(audit::Mode::Episode),
        Err(_) => {
            faults.add("mode", format!("{mode} is no mode"));
            None
        }
    };
    if items.is_empty() {
        faults.add("items", "must hold at least one item");
    }
    let mut read = Vec::with_capacity(items.len().min(max_items));
    if items.len() > max_items {
        faults.add("items", format!("holds {} items; the limit is {max_items}", items.len()));
    } else {
        for (place, wire::Item { seq, item }) in items.into_iter().enumerate() {
            if let Some((print, body)) = item_body(item, &format!("items[{place}]"), prints, now, &mut faults) {
                read.push(Item { seq, print, body });
            }
        }
    }
    let named = (!request_id.is_empty()).then(|| {
        let content: Vec<u8> =
            read.iter().flat_map(|item| item.seq.to_be_bytes().into_iter().chain(*item.print.bytes())).collect();
        Named { key: RequestKey { method: "Observe", id: request_id.into() }, print: prints.request(&content) }
    });
    faults.or(Ask { session: session_id, pack, mode, agent: agent_id, items: read, named })
}

/// Calls and content blocks that one message may hold: far more than any model writes, and few enough
/// that judging them all takes no longer than a call may wait.
const MOST_ENTRIES: usize = 1_000;

fn entries(message: &Value) -> usize {
    let listed = |key: &str| message.get(key).and_then(Value::as_list).map_or(0, <[Value]>::len);
    listed("tool_calls") + listed("content")
}

pub(super) fn item_body(
    item: Option<wire::item::Item>,
    path: &str,
    prints: &Prints,
    now: f64,
    faults: &mut Faults,
) -> Option<(Digest, ItemBody)> {
    match item {
        None => {
            faults.add(path, "must hold a message, a proposal, a runtime event or an end");
            None
        }
        Some(wire::item::Item::MessageJson(text)) => match json::parse(&text) {
            // One message is judged without a pause, call by call.
            Ok(message) if entries(&message) > MOST_ENTRIES => {
                let what = format!("holds {} calls and blocks; the limit is {MOST_ENTRIES}", entries(&message));
                faults.add(format!("{path}.message_json"), what);
                None
            }
            Ok(message) => Some((prints.message(&text), ItemBody::Message { message, json: text })),
            Err(e) => {
                faults.add(format!("{path}.message_json"), format!("is not JSON: {e}"));
                None
            }
        },
        Some(wire::item::Item::Proposal(wire_call)) => {
            let call = proposed_call(wire_call, &format!("{path}.proposal"), faults)?;
            Some((prints.proposal(&call), ItemBody::Proposal(call)))
        }
        Some(wire::item::Item::RuntimeEvent(event)) => {
            let path = format!("{path}.runtime_event");
            let (occurrence, timed) = convert_drift::occurrence(event, &path, now, faults)?;
            Some((prints.occurrence(&occurrence, timed), ItemBody::RuntimeEvent(occurrence)))
        }
        Some(wire::item::Item::End(wire::End {})) => Some((prints.end(), ItemBody::End)),
    }
}

fn proposed_call(call: wire::Proposal, path: &str, faults: &mut Faults) -> Option<ProposedCall> {
    let wire::Proposal { turn, index, calls, call_id, tool, arguments_json, message_text, time } = call;
    let mut fine = true;
    let mut fault = |field: &str, words: String| {
        faults.add(format!("{path}.{field}"), words);
        fine = false;
    };
    if tool.is_empty() {
        fault("tool", "must not be empty".to_owned());
    }
    if index >= calls {
        fault("index", format!("is {index}, but the message carries {calls} calls"));
    }
    let seconds = time.map(|time| exact_seconds(&time));
    if seconds == Some(None) {
        fault("time", "is not a timestamp".to_owned());
    }
    let time = seconds.flatten();
    fine.then_some(ProposedCall { turn, index, calls, call_id, tool, arguments_json, message_text, time })
}

/// Seconds since 1970-01-01T00:00:00Z, exactly; nothing beyond the years 1 to 9999, where a
/// timestamp ends.
pub(super) fn exact_seconds(time: &prost_types::Timestamp) -> Option<Num> {
    let prost_types::Timestamp { seconds, nanos } = *time;
    let in_range = (-62_135_596_800..=253_402_300_799).contains(&seconds) && (0..1_000_000_000).contains(&nanos);
    if !in_range {
        return None;
    }
    Num::from(seconds).add(Num::new(i128::from(nanos), -9))
}

/// Reads a request of `ReportJudge`.
pub fn judge_ask(request: wire::ReportJudgeRequest) -> Result<JudgeAsk, Status> {
    let wire::ReportJudgeRequest { session_id, policy, turn, hit, judge_id, request_id: _ } = request;
    let mut faults = Faults::default();
    faults.name("session_id", &session_id);
    faults.name("policy", &policy);
    faults.name("judge_id", &judge_id);
    faults.or(JudgeAsk { session: session_id, policy, turn, hit, judge_id })
}

/// A request of `ScoreEpisodes`, read.
#[derive(Debug)]
pub struct ScoreAsk {
    /// The rule pack.
    pub pack: String,
    /// The episodes, at least one.
    pub episodes: Vec<Episode>,
    /// Policies whose hits are not new.
    pub known: BTreeSet<String>,
}

/// Reads a request of `ScoreEpisodes`.
pub fn score_ask(request: wire::ScoreEpisodesRequest, max_items: usize) -> Result<ScoreAsk, Status> {
    let wire::ScoreEpisodesRequest { pack, episodes_json, known_policies } = request;
    let mut faults = Faults::default();
    faults.name("pack", &pack);
    if episodes_json.is_empty() {
        faults.add("episodes_json", "must hold at least one episode");
    }
    let episodes = self::episodes(&mut faults, &episodes_json, max_items);
    faults.or(ScoreAsk { pack, episodes, known: known_policies.into_iter().collect() })
}

/// Reads episodes; what is none is a fault.
pub(super) fn episodes(faults: &mut Faults, episodes_json: &[bytes::Bytes], most: usize) -> Vec<Episode> {
    if episodes_json.len() > most {
        faults.add("episodes_json", format!("holds {} episodes; the limit is {most}", episodes_json.len()));
        return Vec::new();
    }
    let mut episodes = Vec::with_capacity(episodes_json.len());
    for (place, text) in episodes_json.iter().enumerate() {
        match Episode::from_line(place as u64 + 1, text) {
            Ok(episode) => episodes.push(episode),
            Err(e) => faults.add(format!("episodes_json[{place}]"), format!("is no episode: {e}")),
        }
    }
    episodes
}

/// The answer of `ScoreEpisodes`.
pub fn scored(scored: &Scored) -> wire::ScoreEpisodesResponse {
    wire::ScoreEpisodesResponse {
        pack: scored.pack.name.to_string(),
        pack_version: scored.pack.version.to_string(),
        pack_digest: scored.pack.digest.to_string(),
        scores: scored.episodes.iter().map(episode_score).collect(),
    }
}

pub(super) fn episode_score(scored: &ScoredEpisode) -> wire::EpisodeScore {
    let ScoredEpisode { outcome, reward, input_digest } = scored;
    wire::EpisodeScore {
        episode_id: outcome.episode_id.clone(),
        input_digest: input_digest.clone(),
        turn_rewards: outcome.reward_by_turn().into_iter().map(rounded).collect(),
        violation_reward: outcome.violation_reward.map_or(f64::NAN, rounded),
        hits: outcome.hits.iter().map(hit).collect(),
        undecided: outcome.undecided.iter().map(undecided_policy).collect(),
        malformed: outcome.malformed.iter().map(malformed_turn).collect(),
        signals: outcome.signals.iter().map(signal).collect(),
        reward: Some(episode_reward(reward)),
    }
}

fn episode_reward(reward: &EpisodeReward) -> wire::EpisodeReward {
    let EpisodeReward { violation, plausibility, progress, diversity, total } = reward;
    let part = |part: &Part| {
        let Part { value, weight } = part;
        wire::RewardPart { value: value.map_or(f64::NAN, rounded), weight: rounded(*weight) }
    };
    wire::EpisodeReward {
        violation: Some(part(violation)),
        plausibility: plausibility.as_ref().map(part),
        progress: progress.as_ref().map(part),
        diversity: diversity.as_ref().map(part),
        total: total.map_or(f64::NAN, rounded),
    }
}

/// The answer of `Observe`.
pub fn observed(observed: &Observed) -> wire::ObserveResponse {
    wire::ObserveResponse {
        session_id: observed.session.to_string(),
        pack: observed.pack.name.to_string(),
        pack_version: observed.pack.version.to_string(),
        pack_digest: observed.pack.digest.to_string(),
        results: observed.answers.iter().map(result).collect(),
        recording: recording(observed.recorded).into(),
        previous_pack_digest: observed.followed.as_ref().map(|pack| pack.digest.to_string()).unwrap_or_default(),
    }
}

/// What became of a record.
pub(super) fn recording(recorded: Recorded) -> wire::Recording {
    match recorded {
        Recorded::Stored(_) => wire::Recording::Stored,
        Recorded::Queued => wire::Recording::Queued,
        Recorded::Lost => wire::Recording::Lost,
    }
}

pub(super) fn result(answer: &Answer) -> wire::Result {
    let model::Step { turn, calls, hits, undecided, malformed, signals, speaker: _ } = answer.step.as_ref();
    wire::Result {
        seq: answer.seq,
        turn: *turn,
        calls: calls.iter().map(call_answer).collect(),
        hits: hits.iter().map(hit).collect(),
        undecided: undecided.iter().map(undecided_policy).collect(),
        malformed: malformed.iter().map(malformed_turn).collect(),
        signals: signals.iter().map(signal).collect(),
        probe: answer.probe.as_ref().map(convert_drift::schedule),
    }
}

fn call_answer(call: &model::CallAnswer) -> wire::CallAnswer {
    let model::CallAnswer { index, call_id, gate } = call;
    wire::CallAnswer { index: *index, call_id: call_id.clone(), effect: effect(*gate).into() }
}

/// A violation.
fn hit(hit: &model::Hit) -> wire::Hit {
    let model::Hit { firing: model::Firing { policy, message, evidence: why }, turn, n, reward } = hit;
    wire::Hit {
        policy: policy.to_string(),
        turn: *turn,
        n: *n,
        reward: rounded(*reward),
        message: message.clone(),
        evidence: Some(evidence(why)),
    }
}

/// A firing of another effect.
fn signal(signal: &model::Signal) -> wire::Signal {
    let model::Signal { firing: model::Firing { policy, message, evidence: why }, turn, effect } = signal;
    wire::Signal {
        policy: policy.to_string(),
        turn: *turn,
        effect: policy_effect(*effect).into(),
        message: message.clone(),
        evidence: Some(evidence(why)),
    }
}

/// A policy that could not be decided.
fn undecided_policy(undecided: &model::Undecided) -> wire::Undecided {
    let model::Undecided { policy, turn, reason } = undecided;
    wire::Undecided { policy: policy.to_string(), turn: *turn, reason: reason.clone() }
}

/// Something that could not be taken in.
fn malformed_turn(malformed: &model::Malformed) -> wire::Malformed {
    let model::Malformed { turn, reason } = malformed;
    wire::Malformed { turn: *turn, reason: reason.clone() }
}

fn evidence(evidence: &model::Evidence) -> wire::Evidence {
    let model::Evidence { seq, conditions } = evidence;
    let condition = |condition: &model::Condition| {
        let model::Condition { source, holds, rests_on } = condition;
        wire::Condition { source: source.to_string(), holds: *holds, rests_on: rests_on.clone() }
    };
    wire::Evidence { event_seq: *seq, conditions: conditions.iter().map(condition).collect() }
}

pub(super) fn effect(gate: Gate) -> wire::Effect {
    match gate {
        Gate::Allow => wire::Effect::Allow,
        Gate::Review => wire::Effect::Review,
        Gate::Deny => wire::Effect::Deny,
    }
}

/// A policy's effect.
pub(super) fn policy_effect(effect: Effect) -> wire::PolicyEffect {
    match effect {
        Effect::Deny => wire::PolicyEffect::Deny,
        Effect::Review => wire::PolicyEffect::Review,
        Effect::Flag => wire::PolicyEffect::Flag,
        Effect::Milestone => wire::PolicyEffect::Milestone,
        Effect::Judge => wire::PolicyEffect::Judge,
    }
}

/// A number as it leaves: rounded to 6 places.
pub(super) fn rounded(n: Num) -> f64 {
    reward::rounded(n.to_f64())
}

/// A moment.
pub fn timestamp(at: SystemTime) -> prost_types::Timestamp {
    at.into()
}

/// A pack.
pub fn pack(pack: &Pack) -> wire::Pack {
    wire::Pack {
        name: pack.name().to_string(),
        version: pack.version().to_string(),
        digest: pack.digest().to_string(),
        policy_count: u32::try_from(pack.policies().count()).unwrap_or(u32::MAX),
    }
}

/// A policy.
pub fn policy(policy: &PolicyInfo) -> wire::Policy {
    let PolicyInfo { id, title, effect, severity, tags } = policy;
    wire::Policy {
        id: id.to_string(),
        title: title.to_string(),
        effect: policy_effect(*effect).into(),
        severity: rounded(*severity),
        tags: tags.iter().map(ToString::to_string).collect(),
    }
}

/// A diagnostic.
pub fn diagnostic(d: &diag::Record) -> wire::Diagnostic {
    let severity = match d.severity {
        diag::Severity::Error => wire::DiagnosticSeverity::Error,
        diag::Severity::Warning => wire::DiagnosticSeverity::Warning,
    };
    wire::Diagnostic {
        code: d.code.text().to_owned(),
        severity: severity.into(),
        file: d.place.file.clone(),
        line: d.place.line,
        column: d.place.column,
        message: d.message.clone(),
        help: d.help.clone().unwrap_or_default(),
    }
}
