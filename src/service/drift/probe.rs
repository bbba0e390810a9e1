//! Whole probes: Probity says what to ask, an adapter asks, and the answers take the same way as finished ones.

use std::sync::Arc;

use crate::{
    audit::{Draft, DriftRecord},
    drift::{
        Ask, Canary, ContextSummary, Cycle, CycleFailure, Finding, Isolation, ModelOutput, Next, Probe, Reply, Request,
        Schema, Snapshot, judge, messages,
    },
    engine::{EvaluateError, find_probe, lexicon},
    model::{Digest, Value},
    pack::DriftSpec,
    redact::Keeper,
    service::Service,
};

use super::{
    evaluate::{DriftError, Probing, stored},
    memory::DriftSlot,
};

/// A probe to be run.
#[derive(Debug)]
pub struct ProbeAsk {
    /// The session.
    pub session: String,
    /// The rule pack.
    pub pack: String,
    /// The agent; may be empty.
    pub agent: String,
    /// A probe of the library; empty for the next by the session's selection.
    pub probe: String,
    /// Which wording of it.
    pub wording: u64,
    /// The session in seven fields.
    pub summary: ContextSummary,
    /// What weakens the comparison.
    pub isolation: Isolation,
    /// The last messages of the session.
    pub context_window: Vec<Value>,
    /// Hash of the system prompt.
    pub system_prompt_hash: String,
    /// Whether the caller has a judge.
    pub client_judge: bool,
    /// Planted secrets.
    pub canaries: Vec<Canary>,
    /// Whether the probe was due by a runtime event: if it fails, its place is given back.
    pub scheduled: bool,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeRole {
    /// The instance inside the session.
    Snapshot,
    /// The fresh instance.
    Shadow,
    /// The judge.
    Judge,
    /// An instance without the session's context.
    Baseline,
}

/// What to ask.
#[derive(Clone, Debug)]
pub struct ProbeQuestion {
    /// Whom.
    pub role: ProbeRole,
    /// Which probe.
    pub probe: Arc<str>,
    /// The messages, a list.
    pub messages: Value,
    /// Said with the question.
    pub instruction: String,
    /// Field names of the answer with their types, an object.
    pub schema: Value,
}

/// Asks models. A question without an answer has failed.
pub trait Adapter: Send {
    /// Asks all of them at once, and gives the answers in their order.
    fn ask(&mut self, questions: Vec<ProbeQuestion>) -> impl Future<Output = Vec<Option<ModelOutput>>> + Send;
}

/// How a probe ended.
#[derive(Clone, Debug)]
pub enum ProbeEnd {
    /// This was found, and is stored.
    Found(Arc<DriftRecord>),
    /// Nothing: it does not count.
    Failed {
        /// The probe.
        probe: Arc<str>,
        /// Why.
        failure: CycleFailure,
    },
}

impl Service {
    /// Runs one probe.
    pub async fn probe(&self, ask: ProbeAsk, adapter: &mut impl Adapter) -> Result<ProbeEnd, DriftError> {
        let probing = self.probing(&ask.pack)?;
        let slot = self.drift_slot(&ask.session, &probing).await?;
        let (probe, wording) = chosen(&ask, &probing, &slot)?;
        let (agent, session, scheduled) = (Arc::from(ask.agent.as_str()), ask.session.clone(), ask.scheduled);
        let evaluation = slot.evaluation();
        let found = match probing.keeper(&slot.id, &evaluation) {
            Ok(keeper) => run(ask, &probing.spec, &keeper, (probe, wording), adapter).await,
            Err(failure) => Err(failure),
        };
        let end = match found {
            Ok(finding) => self.found(&probing, &slot, evaluation, *finding, agent).await,
            Err(failure) => Ok(ProbeEnd::Failed { probe: probe.id.clone(), failure }),
        };
        if let Ok(ProbeEnd::Failed { failure, .. }) = &end {
            tracing::info!(label = failure.word(), probe = %probe.id, "a probe failed");
            if matches!(failure, CycleFailure::InvalidProbe(_) | CycleFailure::UnknownType(_)) {
                self.invalid(&slot, &probing).await?;
            }
            if scheduled {
                self.give_back(&session).await;
            }
        }
        end
    }

    async fn found(
        &self,
        probing: &Probing,
        slot: &DriftSlot,
        evaluation: Arc<str>,
        finding: Finding,
        agent: Arc<str>,
    ) -> Result<ProbeEnd, DriftError> {
        let place = self.audit.place().await?;
        let probe = finding.probe_id.clone();
        let (record, ticket) = {
            let mut memory = slot.memory().ok_or_else(|| broken(slot))?;
            let recorded = memory.state.record(finding, &probing.spec.settings).map_err(|_| DriftError::Report)?;
            // It has no name, so that no request can repeat it.
            match memory.answer(evaluation, probing, agent, recorded, self.asked(String::new(), Digest::new([0; 32]))) {
                Ok(record) => {
                    let saved = self.snapshot(slot, &memory, probing);
                    (record.clone(), place.record_with(vec![Draft::Drift(record)], saved))
                }
                Err(DriftError::Evaluate(EvaluateError::Cycle(failure))) => {
                    return Ok(ProbeEnd::Failed { probe, failure });
                }
                Err(other) => return Err(other),
            }
        };
        stored(ticket, record).await.map(ProbeEnd::Found)
    }

    /// A probe could not be sent.
    async fn invalid(&self, slot: &DriftSlot, probing: &Probing) -> Result<(), DriftError> {
        let place = self.audit.place().await?;
        let mut memory = slot.memory().ok_or_else(|| broken(slot))?;
        memory.state.invalid();
        // Nobody waits for it: it is a count, and saved again with the next record.
        drop(place.record_with(Vec::new(), self.snapshot(slot, &memory, probing)));
        Ok(())
    }

    /// A scheduled probe failed: the session's gate counts it no more.
    async fn give_back(&self, session: &str) {
        let (Ok(Some(slot)), Ok(place)) = (self.find(session).await, self.audit.place().await) else { return };
        if let Ok(mut live) = slot.live.lock() {
            live.judging.give_back();
            let kept = live.journal.given_back(&self.keys.session);
            // Nobody waits for it: what is lost with the process is a place in a schedule.
            drop(place.record_with(Vec::new(), kept));
        };
    }
}

fn broken(slot: &DriftSlot) -> DriftError {
    DriftError::Broken { session: slot.id.to_string() }
}

fn chosen<'a>(ask: &ProbeAsk, probing: &'a Probing, slot: &DriftSlot) -> Result<(&'a Probe, u64), DriftError> {
    if !ask.probe.is_empty() {
        return Ok((find_probe(&probing.spec, &ask.probe, "")?, ask.wording));
    }
    let mut memory = slot.memory().ok_or_else(|| broken(slot))?;
    let selection = memory.selector.next(&probing.spec.library);
    let none = || EvaluateError::UnknownProbe { probe: String::new() };
    let selection = selection.ok_or_else(none)?;
    Ok((selection.probe, selection.wording))
}

/// From the first question to a finding. What the caller sent is gone once the questions are built.
async fn run(
    ask: ProbeAsk,
    spec: &DriftSpec,
    keeper: &Keeper,
    (probe, wording): (&Probe, u64),
    adapter: &mut impl Adapter,
) -> Result<Box<Finding>, CycleFailure> {
    let canaries = ask.canaries;
    let request = Request {
        probe,
        wording,
        library_version: spec.library.version(),
        isolation: ask.isolation,
        sanitizer: None,
        lexicon: lexicon(spec),
        client_judge: ask.client_judge,
    };
    let snapshot = Snapshot {
        session_id: Arc::from(ask.session),
        taken_at: 0.0,
        context_window: ask.context_window,
        system_prompt_hash: Arc::from(ask.system_prompt_hash),
        summary: ask.summary,
        id: Arc::from(""),
    };
    let (mut cycle, first) = Cycle::start(&spec.settings, keeper, request, snapshot)?;
    let reply = |output: Option<ModelOutput>| {
        output.map_or(Reply::Failed, |output| output.reply(&canaries, &spec.output, &spec.settings.limits))
    };
    let question = |role, messages| ask_of(role, probe, messages, !canaries.is_empty());
    let mut next = Next::Ask(first);
    loop {
        next = match next {
            Next::Ask(Ask::Instances { snapshot, shadow }) => {
                let both = vec![
                    question(ProbeRole::Snapshot, Value::list(snapshot)),
                    question(ProbeRole::Shadow, said(&shadow)),
                ];
                let mut answers = adapter.ask(both).await.into_iter().map(&reply);
                let mut answer = || answers.next().unwrap_or(Reply::Failed);
                let (snapshot, shadow) = (answer(), answer());
                cycle.instances(snapshot, shadow)
            }
            Next::Ask(Ask::Judge(asked)) => {
                let asked = ask_judge(probe, &asked);
                let answer = adapter.ask(vec![asked]).await.into_iter().next().flatten();
                cycle.judged(answer.map_or(Reply::Failed, |output| Reply::Text(output.text)))
            }
            Next::Ask(Ask::Baseline(message)) => {
                let asked = question(ProbeRole::Baseline, Value::list(vec![message]));
                let answer = adapter.ask(vec![asked]).await.into_iter().next().flatten();
                cycle.baseline(reply(answer))
            }
            Next::Finished(finding) => return Ok(finding),
            Next::Failed(failure) => return Err(failure),
        };
    }
}

fn ask_of(role: ProbeRole, probe: &Probe, messages: Value, raw: bool) -> ProbeQuestion {
    // Where canaries are looked for, the model speaks as it always does.
    let instruction = match raw {
        true => messages::NO_TOOLS.to_owned(),
        false => format!("{} {}", messages::NO_TOOLS, messages::answer_form(&probe.schema)),
    };
    let schema = if raw { Value::object(Vec::new()) } else { schema_value(&probe.schema) };
    ProbeQuestion { role, probe: probe.id.clone(), messages, instruction, schema }
}

fn ask_judge(probe: &Probe, asked: &messages::Question) -> ProbeQuestion {
    let schema = Schema::new(judge::QUESTIONS.map(|key| (key, "boolean")));
    ProbeQuestion {
        role: ProbeRole::Judge,
        probe: probe.id.clone(),
        messages: said(asked),
        instruction: format!("{} {}", messages::NO_TOOLS, messages::answer_form(&schema)),
        schema: schema_value(&schema),
    }
}

fn schema_value(schema: &Schema) -> Value {
    Value::object(schema.iter().map(|(name, word)| (Arc::from(name), Value::string(word))).collect::<Vec<_>>())
}

/// A question as chat messages.
fn said(question: &messages::Question) -> Value {
    let message = |role: &str, text: &str| {
        Value::object([(Arc::from("role"), Value::string(role)), (Arc::from("content"), Value::string(text))])
    };
    let system = question.system.iter().map(|text| message("system", text));
    Value::list(system.chain([message("user", &question.user_text())]).collect())
}
