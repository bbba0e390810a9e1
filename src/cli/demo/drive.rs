//! Plays recorded conversations to the service as a gate in front of the agent would: every call is
//! proposed before the message that carries it, and each answer is waited for.

use std::time::Instant;

use bytes::Bytes;
use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, transport::Channel};

use crate::{
    cli::{Failure, client::refused},
    grpc::wire::{
        Effect, End, GetMetricsRequest, GetPackRequest, Hit, Item, Metrics, Mode, ObserveRequest, ObserveResponse,
        Pack, Policy, Proposal, QueryRecordsRequest, Result as Judged, audit_client::AuditClient, item,
        policy_engine_client::PolicyEngineClient, record, rules_client::RulesClient,
    },
    model::Value,
};

use super::Conversation;

/// What driving the conversations gave.
pub struct Driven {
    pub pack: Pack,
    pub policies: Vec<Policy>,
    /// By conversation, in their order.
    pub sessions: Vec<Session>,
    pub metrics: Metrics,
    pub records: Records,
    /// Microseconds from asking to answer.
    pub latency: Histogram<u64>,
}

/// One conversation.
#[derive(Default)]
pub struct Session {
    pub calls: Vec<Call>,
    pub hits: Vec<Hit>,
}

/// A proposed call and its answer.
pub struct Call {
    pub turn: u32,
    pub tool: String,
    pub answer: Effect,
    /// Policies that speak against it, with their messages or reasons.
    pub because: Vec<(String, String)>,
}

/// What is stored, as the audit service tells it.
#[derive(Default)]
pub struct Records {
    /// Judged items.
    pub judged: usize,
    /// Those in which a policy hit.
    pub with_hits: usize,
}

/// Plays all conversations, then asks what was stored.
pub async fn all(channel: Channel, pack: &str, conversations: &[Conversation]) -> Result<Driven, Failure> {
    let mut rules = RulesClient::new(channel.clone());
    let found = rules.get_pack(GetPackRequest { name: pack.to_owned() }).await.map_err(refused)?.into_inner();
    let mut line = Line::open(channel.clone(), pack).await?;
    let mut sessions = Vec::new();
    for conversation in conversations {
        sessions.push(line.play(conversation).await?);
    }
    let latency = line.latency;
    let mut audit = AuditClient::new(channel);
    let request = GetMetricsRequest { pack: pack.to_owned(), ..Default::default() };
    let metrics = audit.get_metrics(request).await.map_err(refused)?.into_inner().metrics.unwrap_or_default();
    let records = records(&mut audit, pack).await?;
    Ok(Driven { pack: found.pack.unwrap_or_default(), policies: found.policies, sessions, metrics, records, latency })
}

/// Reads every record of the pack, page by page.
async fn records(audit: &mut AuditClient<Channel>, pack: &str) -> Result<Records, Failure> {
    let mut found = Records::default();
    let mut page_token = String::new();
    loop {
        let request = QueryRecordsRequest { pack: pack.to_owned(), page_token, ..QueryRecordsRequest::default() };
        let page = audit.query_records(request).await.map_err(refused)?.into_inner();
        for record in page.records {
            if let Some(record::Body::Judged(judged)) = record.body {
                found.judged += 1;
                found.with_hits += usize::from(judged.result.is_some_and(|r| !r.hits.is_empty()));
            }
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(found);
        }
    }
}

/// An open stream to the service.
struct Line {
    pack: String,
    requests: mpsc::Sender<ObserveRequest>,
    answers: Streaming<ObserveResponse>,
    latency: Histogram<u64>,
}

impl Line {
    async fn open(channel: Channel, pack: &str) -> Result<Line, Failure> {
        let (requests, waiting) = mpsc::channel(1);
        let mut engine = PolicyEngineClient::new(channel);
        let answers = engine.observe_stream(ReceiverStream::new(waiting)).await.map_err(refused)?.into_inner();
        // Up to a minute, to three digits.
        let latency = Histogram::new_with_bounds(1, 60_000_000, 3).map_err(Failure::environment)?;
        Ok(Line { pack: pack.to_owned(), requests, answers, latency })
    }

    async fn play(&mut self, conversation: &Conversation) -> Result<Session, Failure> {
        let mut session = Session::default();
        let mut seq = 0;
        for (turn, message) in (0u32..).zip(&conversation.messages) {
            for proposal in proposals(turn, message) {
                let tool = proposal.tool.clone();
                let judged = self.ask(conversation, &mut seq, item::Item::Proposal(proposal)).await?;
                session.calls.extend(answered(turn, tool, &judged));
                session.hits.extend(judged.hits);
            }
            let message = Bytes::from(message.to_string());
            let judged = self.ask(conversation, &mut seq, item::Item::MessageJson(message)).await?;
            session.hits.extend(judged.hits);
        }
        let judged = self.ask(conversation, &mut seq, item::Item::End(End {})).await?;
        session.hits.extend(judged.hits);
        Ok(session)
    }

    async fn ask(&mut self, to: &Conversation, seq: &mut u64, item: item::Item) -> Result<Judged, Failure> {
        let request = ObserveRequest {
            session_id: to.id.clone(),
            pack: self.pack.clone(),
            mode: Mode::Gate.into(),
            items: vec![Item { seq: *seq, item: Some(item) }],
            request_id: String::new(),
            agent_id: String::new(),
        };
        *seq += 1;
        let ended = || refused(Status::unavailable("the stream ended"));
        let asked = Instant::now();
        // A closed channel means that the stream has ended: its status says why.
        let sent = self.requests.send(request).await;
        let answer = self.answers.message().await.map_err(refused)?.ok_or_else(ended)?;
        sent.map_err(|_| ended())?;
        let took = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.latency.saturating_record(took.max(1));
        answer.results.into_iter().next().ok_or_else(ended)
    }
}

/// The calls of a message, as they are proposed before it.
fn proposals(turn: u32, message: &Value) -> Vec<Proposal> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let listed = message.get("tool_calls").and_then(Value::as_list).unwrap_or_default();
    let calls = u32::try_from(listed.len()).unwrap_or(u32::MAX);
    (0u32..)
        .zip(listed)
        .map(|(index, call)| {
            let function = call.get("function");
            Proposal {
                turn,
                index,
                calls,
                call_id: text(call.get("id")),
                tool: text(function.and_then(|f| f.get("name"))),
                arguments_json: text(function.and_then(|f| f.get("arguments"))).into(),
                message_text: text(message.get("content")),
                time: None,
            }
        })
        .collect()
}

fn answered(turn: u32, tool: String, judged: &Judged) -> Option<Call> {
    let answer = judged.calls.first()?.effect();
    let hits = judged.hits.iter().map(|h| (h.policy.clone(), h.message.clone()));
    let signals = judged.signals.iter().map(|s| (s.policy.clone(), s.message.clone()));
    let undecided = judged.undecided.iter().map(|u| (u.policy.clone(), format!("undecided: {}", u.reason)));
    Some(Call { turn, tool, answer, because: hits.chain(signals).chain(undecided).collect() })
}
