//! What the demo tells: what was asked and answered, what it adds up to, and what to try next.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, IsTerminal},
    net::SocketAddr,
};

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use serde_json::{Value, json};

use crate::{
    cli::{
        Failure,
        output::{Output, counted, plain, style},
        signal,
    },
    diag::Style,
    grpc::wire::{DriftSignal, Effect, Hit, PolicyEffect},
    reward::rounded,
};

use super::{
    Conversation, drift,
    drive::{Call, Driven, Session},
};

/// Everything that is told.
pub struct Story<'c> {
    pub address: SocketAddr,
    /// Where the rules are from.
    pub rules: String,
    pub conversations: &'c [Conversation],
    pub driven: Driven,
    /// Signals of the drift session; none where the rules have no probes.
    pub drift: Vec<DriftSignal>,
}

impl Story<'_> {
    /// For people.
    pub fn text(&self, out: &mut Output) -> Result<(), Failure> {
        self.opening(out)?;
        heading(out, "What the agent was told, where it was not ALLOW")?;
        out.text(plain(&self.answers()))?;
        self.evidence(out)?;
        heading(out, "The conversations")?;
        out.text(plain(&self.overview()))?;
        self.solved(out)?;
        heading(out, "The policies that hit")?;
        out.text(plain(&self.policies()))?;
        self.figures(out)?;
        drift::text(&self.drift, out)?;
        self.next(out)
    }

    fn sessions(&self) -> impl Iterator<Item = (&Conversation, &Session)> {
        self.conversations.iter().zip(&self.driven.sessions)
    }

    fn count(&self, wanted: Effect) -> usize {
        self.driven.sessions.iter().flat_map(|s| &s.calls).filter(|c| c.answer == wanted).count()
    }

    fn opening(&self, out: &mut Output) -> Result<(), Failure> {
        let recorded = self.conversations.iter().filter(|c| c.recorded).count();
        let made_up = self.conversations.len() - recorded;
        let pack = &self.driven.pack;
        out.line(format_args!(
            "{recorded} recorded conversations of a GPT-4o airline agent (tau-bench), and {made_up} made-up one.\n\
             Before each tool call the agent asks the service; a policy answers ALLOW, REVIEW or DENY.\n\
             These traces are history: nothing was stopped, the gate says what it would have answered.\n"
        ))?;
        let judged = self.driven.policies.iter().filter(|p| p.effect() == PolicyEffect::Judge).count();
        out.line(format_args!(
            "rules    {} {}: {}, {judged} of them only for a judge; from {}",
            pack.name,
            pack.version,
            counted(self.driven.policies.len(), "policy", "policies"),
            self.rules
        ))?;
        out.line(format_args!("service  gRPC on {}, in this process, over one stream", self.address))?;
        out.line("store    sled, in a temporary folder; an answer leaves once its record is on disk")
    }

    /// Calls that were not simply allowed.
    fn answers(&self) -> Table {
        let mut table = table(&["CONVERSATION", "TURN", "CALL", "ANSWER", "POLICY", "WHY"]);
        for (conversation, session) in self.sessions() {
            for call in session.calls.iter().filter(|c| c.answer != Effect::Allow) {
                let (first, more) = match call.because.split_first() {
                    Some((first, more)) => (Some(first), more),
                    None => (None, [].as_slice()),
                };
                // What speaks against the whole message was said with its first call.
                let (policy, why) = first.map_or(("", "as for the call before".to_owned()), |b| self.why(b));
                let turn = call.turn.to_string();
                let answer = coloured(call.answer);
                let cells = [&conversation.id, &turn, &call.tool].map(Cell::new);
                table.add_row(cells.into_iter().chain([answer, Cell::new(policy), Cell::new(why)]));
                for because in more {
                    let (policy, why) = self.why(because);
                    table.add_row(["", "", "", "", policy, &why]);
                }
            }
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    fn why<'b>(&self, (policy, message): &'b (String, String)) -> (&'b str, String) {
        let title = self.title(policy);
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        (policy, if message.is_empty() { title.to_owned() } else { format!("{title}: {message}") })
    }

    fn title(&self, policy: &str) -> &str {
        self.driven.policies.iter().find(|p| p.id == policy).map_or("", |p| p.title.as_str())
    }

    /// The evidence of the hit that has most of it.
    fn evidence(&self, out: &mut Output) -> Result<(), Failure> {
        let conditions = |hit: &Hit| hit.evidence.as_ref().map_or(0, |e| e.conditions.len());
        let all = self.sessions().flat_map(|(c, s)| s.hits.iter().map(move |h| (c, h)));
        let Some((conversation, hit)) = all.max_by_key(|(_, hit)| conditions(hit)) else { return Ok(()) };
        let heading_text = format!("Why {} hit in {} at turn {}", hit.policy, conversation.id, hit.turn);
        heading(out, &heading_text)?;
        for condition in hit.evidence.iter().flat_map(|e| &e.conditions) {
            let events: Vec<String> = condition.rests_on.iter().map(ToString::to_string).collect();
            let rests =
                if events.is_empty() { String::new() } else { format!("   (from event {})", events.join(", ")) };
            out.line(format_args!("{:<6} {}{rests}", condition.holds, condition.source))?;
        }
        Ok(())
    }

    fn overview(&self) -> Table {
        let mut table =
            table(&["CONVERSATION", "MESSAGES", "CALLS", "DENY", "REVIEW", "VIOLATION REWARD", "BENCHMARK'S REWARD"]);
        for (conversation, session) in self.sessions() {
            let count = |wanted: Effect| session.calls.iter().filter(|c| c.answer == wanted).count().to_string();
            table.add_row([
                conversation.id.clone(),
                conversation.messages.len().to_string(),
                session.calls.len().to_string(),
                count(Effect::Deny),
                count(Effect::Review),
                reward(&session.hits).to_string(),
                conversation.task_reward.clone().unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        right(table, 1..=6)
    }

    /// Conversations that the benchmark paid in full although a policy was violated on the way.
    fn solved(&self, out: &mut Output) -> Result<(), Failure> {
        let paid =
            |c: &Conversation| c.task_reward.as_deref().and_then(|r| r.parse().ok()).is_some_and(|r: f64| r >= 1.0);
        let both = self.sessions().filter(|(c, s)| paid(c) && !s.hits.is_empty());
        match both.count() {
            0 => Ok(()),
            n => out.line(format_args!(
                "\n{n} of them reached the end state that the benchmark pays for, and violated a policy on the way."
            )),
        }
    }

    fn policies(&self) -> Table {
        let mut by_policy: BTreeMap<&str, Vec<&Hit>> = BTreeMap::new();
        for hit in self.driven.sessions.iter().flat_map(|s| &s.hits) {
            by_policy.entry(&hit.policy).or_default().push(hit);
        }
        let mut table = table(&["POLICY", "SEVERITY", "HITS", "REWARD", "TITLE"]);
        for (policy, hits) in by_policy {
            let severity = self.driven.policies.iter().find(|p| p.id == policy).map_or(0.0, |p| p.severity);
            let (severity, count) = (severity.to_string(), hits.len().to_string());
            table.add_row([policy, &severity, &count, &reward(hits).to_string(), self.title(policy)]);
        }
        right(table, 1..=3)
    }

    fn figures(&self, out: &mut Output) -> Result<(), Failure> {
        let metrics = &self.driven.metrics;
        let records = &self.driven.records;
        let latency = &self.driven.latency;
        let calls: usize = self.driven.sessions.iter().map(|s| s.calls.len()).sum();
        heading(out, "What it adds up to")?;
        out.line(format_args!(
            "calls     {calls}: {} allowed, {} for review, {} denied",
            self.count(Effect::Allow),
            self.count(Effect::Review),
            self.count(Effect::Deny)
        ))?;
        out.line(format_args!(
            "coverage  {}: {} of {} declared policies hit",
            metrics.coverage, metrics.covered_policies, metrics.declared_policies
        ))?;
        out.line(format_args!(
            "hits      {}, worth {} with repeats discounted; {} of {} conversations have one",
            metrics.raw_hits, metrics.total_violation_reward, metrics.episodes_with_hits, metrics.episodes
        ))?;
        out.line(format_args!(
            "stored    {} records, read back over the Audit service; {} name a hit, none holds text of a conversation",
            records.judged, records.with_hits
        ))?;
        out.line(format_args!(
            "latency   {} answers: {} in the middle, 90 % within {}, 99 % within {}, slowest {}",
            latency.len(),
            Micros(latency.value_at_quantile(0.5)),
            Micros(latency.value_at_quantile(0.9)),
            Micros(latency.value_at_quantile(0.99)),
            Micros(latency.max())
        ))
    }

    fn next(&self, out: &mut Output) -> Result<(), Failure> {
        heading(out, "What to try next (in a clone, `probity` is `cargo run --release --`)")?;
        for (command, does) in [
            ("probity explain airline", "what each policy costs; none scans history"),
            ("probity explain airline A12", "what one of them means, and how its state is kept"),
            ("probity replay --pack airline examples/traces/airline.jsonl", "the same traces without a server"),
            ("probity test rules", "the packs' own tests"),
            ("probity serve", "the service; then `probity client --help`, or examples/python/gate.py"),
        ] {
            out.line(format_args!("{command:<61}{does}"))?;
        }
        out.line("Change a rule in rules/airline/policies and run the demo again. The language: grammar/README.md")
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let driven = &self.driven;
        let metrics = &driven.metrics;
        let latency = &driven.latency;
        let because = |call: &Call| -> Vec<Value> {
            call.because.iter().map(|(policy, words)| json!({"policy": policy, "words": words})).collect()
        };
        let call = |call: &Call| {
            let answer = word(call.answer);
            json!({"turn": call.turn, "tool": call.tool, "answer": answer, "because": because(call)})
        };
        let hit = |h: &Hit| json!({"policy": h.policy, "turn": h.turn, "n": h.n, "reward": h.reward});
        let conversations: Vec<Value> = self
            .sessions()
            .map(|(conversation, session)| {
                json!({
                    "episode_id": conversation.id,
                    "recorded": conversation.recorded,
                    "calls": session.calls.iter().map(call).collect::<Vec<_>>(),
                    "hits": session.hits.iter().map(hit).collect::<Vec<_>>(),
                    "violation_reward": reward(&session.hits),
                })
            })
            .collect();
        json!({
            "pack": driven.pack.name,
            "pack_version": driven.pack.version,
            "pack_digest": driven.pack.digest,
            "conversations": conversations,
            "metrics": {
                "episodes": metrics.episodes,
                "declared_policies": metrics.declared_policies,
                "covered_policies": metrics.covered_policies,
                "coverage": metrics.coverage,
                "raw_hits": metrics.raw_hits,
                "total_violation_reward": metrics.total_violation_reward,
                "episodes_with_hits": metrics.episodes_with_hits,
                "raw_hits_by_policy": metrics.raw_hits_by_policy.iter().collect::<BTreeMap<_, _>>(),
            },
            "records": {"judged": driven.records.judged, "with_hits": driven.records.with_hits},
            "drift": self.drift.iter().map(signal::json).collect::<Vec<_>>(),
            "latency_micros": {
                "answers": latency.len(),
                "p50": latency.value_at_quantile(0.5),
                "p90": latency.value_at_quantile(0.9),
                "p99": latency.value_at_quantile(0.99),
                "max": latency.max(),
            },
        })
    }
}

fn coloured(effect: Effect) -> Cell {
    let cell = Cell::new(word(effect));
    match (style(&io::stdout()), effect) {
        (Style::Colour, Effect::Deny) => cell.fg(Color::Red),
        (Style::Colour, Effect::Review) => cell.fg(Color::Yellow),
        _ => cell,
    }
}

fn word(effect: Effect) -> &'static str {
    match effect {
        Effect::Unspecified => "?",
        Effect::Allow => "ALLOW",
        Effect::Review => "REVIEW",
        Effect::Deny => "DENY",
    }
}

fn reward<'h>(hits: impl IntoIterator<Item = &'h Hit>) -> f64 {
    // Begins with 0: the sum of no floats is -0.
    rounded(hits.into_iter().fold(0.0, |sum, h| sum + h.reward))
}

/// Words around it are bold where that can be seen.
pub(super) fn heading(out: &mut Output, text: &str) -> Result<(), Failure> {
    match style(&io::stdout()) {
        Style::Colour => out.line(format_args!("\n\u{1b}[1m{text}\u{1b}[0m")),
        Style::Plain => out.line(format_args!("\n{text}")),
    }
}

pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    if io::stdout().is_terminal() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    table
}

fn right(mut table: Table, columns: std::ops::RangeInclusive<usize>) -> Table {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A time for people.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n < 1_000 => write!(f, "{n} µs"),
            n => write!(f, "{}.{} ms", n / 1_000, n % 1_000 / 100),
        }
    }
}
