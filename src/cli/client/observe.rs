//! `probity client observe`: sends JSON lines, messages of one session or whole episodes, and prints
//! how each item is judged.

use std::{
    fs, io,
    io::Read,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use clap::ValueEnum;
use comfy_table::{Table, presets};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tonic::{Status, transport::Channel};

use crate::{
    cli::{
        Exit, Failure, Format, Outcome,
        output::{Output, plain},
    },
    grpc::wire::{
        CallAnswer, Effect, End, Item, Mode, ObserveRequest, ObserveResponse, PolicyEffect, Result as Judged, item,
        policy_engine_client::PolicyEngineClient,
    },
    ingest::{Episode, Messages},
    model::json as trace_json,
};

use super::refused;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// The rule pack
    #[arg(long)]
    pack: String,
    /// How the session treats newly loaded rules
    #[arg(long, value_enum, default_value = "episode")]
    mode: ModeArg,
    /// The session's id, where the lines are messages
    #[arg(long, default_value = "client")]
    session: String,
    /// Items in one request
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    batch: u16,
    /// Send the requests over one stream
    #[arg(long)]
    stream: bool,
    /// Leave sessions open
    #[arg(long)]
    no_end: bool,
    /// End with 1 if a policy was violated
    #[arg(long)]
    fail_on_hit: bool,
    /// JSON lines: messages of one session, or episodes with `messages`; - reads standard input
    file: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArg {
    /// Guards a running agent
    Gate,
    /// Pinned to the rules that it begins with
    Episode,
}

/// Runs the command.
pub async fn run(channel: Channel, args: Args, format: Format) -> Outcome {
    let text = read(&args.file).map_err(|e| Failure::bad_input(format!("{}: {e}", args.file.display())))?;
    let requests = requests(&args, &sessions(&args, &text)?);
    let mut client = PolicyEngineClient::new(channel).max_decoding_message_size(64 << 20);
    let mut report = Report::new(format);
    if args.stream {
        let answers = client.observe_stream(stream::iter(requests)).await.map_err(refused)?;
        let mut answers = answers.into_inner();
        while let Some(answer) = answers.next().await {
            report.add(answer)?;
        }
    } else {
        for request in requests {
            report.add(client.observe(request).await.map(tonic::Response::into_inner))?;
        }
    }
    report.end()?;
    Ok(if args.fail_on_hit && report.hits > 0 { Exit::No } else { Exit::Fine })
}

fn read(file: &Path) -> io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        Ok(text)
    } else {
        fs::read_to_string(file)
    }
}

/// Sessions with their messages, each as JSON text.
type Sessions = Vec<(String, Vec<Bytes>)>;

fn sessions(args: &Args, text: &str) -> Result<Sessions, Failure> {
    let mut sessions: Sessions = Vec::new();
    let mut lines = (1u64..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).peekable();
    let is_episode = |line: &str| trace_json::parse(line.as_bytes()).is_ok_and(|v| v.get("messages").is_some());
    if lines.peek().is_none_or(|(_, line)| !is_episode(line)) {
        let messages = lines.map(|(_, line)| Bytes::copy_from_slice(line.as_bytes())).collect();
        return Ok(vec![(args.session.clone(), messages)]);
    }
    for (number, line) in lines {
        let place = |words: String| Failure::bad_input(format!("{}:{number}: {words}", args.file.display()));
        let episode = Episode::from_line(number, line.as_bytes()).map_err(|e| place(e.to_string()))?;
        let Messages::List(messages) = episode.messages else {
            return Err(place("`messages` is not a list".to_owned()));
        };
        sessions.push((episode.id, messages.iter().map(|m| Bytes::from(m.to_string())).collect()));
    }
    Ok(sessions)
}

fn requests(args: &Args, sessions: &Sessions) -> Vec<ObserveRequest> {
    let mode = match args.mode {
        ModeArg::Gate => Mode::Gate,
        ModeArg::Episode => Mode::Episode,
    };
    let mut requests = Vec::new();
    for (session, messages) in sessions {
        let messages = messages.iter().map(|m| item::Item::MessageJson(m.clone()));
        let end = (!args.no_end).then_some(item::Item::End(End {}));
        let items: Vec<Item> =
            (0u64..).zip(messages.chain(end)).map(|(seq, item)| Item { seq, item: Some(item) }).collect();
        for chunk in items.chunks(args.batch.into()) {
            requests.push(ObserveRequest {
                session_id: session.clone(),
                pack: args.pack.clone(),
                mode: mode.into(),
                items: chunk.to_vec(),
                request_id: String::new(),
                agent_id: String::new(),
            });
        }
    }
    requests
}

struct Report {
    format: Format,
    out: Output,
    table: Table,
    items: u64,
    hits: u64,
    undecided: u64,
    malformed: u64,
}

impl Report {
    fn new(format: Format) -> Report {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(["SESSION", "TURN", "POLICY", "VERDICT", "MESSAGE"]);
        Report { format, out: Output::new(), table, items: 0, hits: 0, undecided: 0, malformed: 0 }
    }

    fn add(&mut self, answer: Result<ObserveResponse, Status>) -> Result<(), Failure> {
        let answer = answer.map_err(refused)?;
        for result in &answer.results {
            self.items += 1;
            self.hits += result.hits.len() as u64;
            self.undecided += result.undecided.len() as u64;
            self.malformed += result.malformed.len() as u64;
            match self.format {
                Format::Json => self.out.line(result_json(&answer, result))?,
                Format::Table => self.rows(&answer.session_id, result),
            }
        }
        // An answer is shown when it comes, not when the next one does.
        self.out.flush()
    }

    fn rows(&mut self, session: &str, result: &Judged) {
        let mut row = |turn: u32, policy: &str, verdict: String, message: &str| {
            self.table.add_row([session.to_owned(), turn.to_string(), policy.to_owned(), verdict, message.to_owned()]);
        };
        for call in result.calls.iter().filter(|c| c.effect() != Effect::Allow) {
            row(result.turn, "", format!("{} call {}", effect_word(call), call.index), "");
        }
        for hit in &result.hits {
            row(hit.turn, &hit.policy, format!("hit, reward {}", hit.reward), &hit.message);
        }
        for signal in &result.signals {
            row(signal.turn, &signal.policy, policy_effect_word(signal.effect()).to_owned(), &signal.message);
        }
        for undecided in &result.undecided {
            row(undecided.turn, &undecided.policy, "undecided".to_owned(), &undecided.reason);
        }
        for malformed in &result.malformed {
            row(malformed.turn, "", "malformed".to_owned(), &malformed.reason);
        }
    }

    fn end(&mut self) -> Result<(), Failure> {
        let Report { format, out, table, items, hits, undecided, malformed } = self;
        if *format == Format::Table {
            if !table.is_empty() {
                out.text(plain(table))?;
            }
            out.line(format_args!("{items} items, {hits} hits, {undecided} undecided, {malformed} malformed"))?;
        }
        out.flush()
    }
}

fn effect_word(call: &CallAnswer) -> &'static str {
    match call.effect() {
        Effect::Allow => "ALLOW",
        Effect::Review => "REVIEW",
        Effect::Deny => "DENY",
        Effect::Unspecified => "UNSPECIFIED",
    }
}

fn policy_effect_word(effect: PolicyEffect) -> &'static str {
    match effect {
        PolicyEffect::Deny => "deny",
        PolicyEffect::Review => "review",
        PolicyEffect::Flag => "flag",
        PolicyEffect::Milestone => "milestone",
        PolicyEffect::Judge => "judge",
        PolicyEffect::Unspecified => "unspecified",
    }
}

fn result_json(answer: &ObserveResponse, result: &Judged) -> Value {
    let calls = result.calls.iter().map(|c| json!({"index": c.index, "call_id": c.call_id, "effect": effect_word(c)}));
    let hits = result
        .hits
        .iter()
        .map(|h| json!({"policy": h.policy, "turn": h.turn, "n": h.n, "reward": h.reward, "message": h.message}));
    let undecided = result.undecided.iter().map(|u| json!({"policy": u.policy, "turn": u.turn, "reason": u.reason}));
    let malformed = result.malformed.iter().map(|m| json!({"turn": m.turn, "reason": m.reason}));
    let signals = result.signals.iter().map(|s| {
        json!({
            "policy": s.policy, "turn": s.turn, "effect": policy_effect_word(s.effect()), "message": s.message,
        })
    });
    json!({
        "session_id": answer.session_id,
        "pack": answer.pack,
        "pack_version": answer.pack_version,
        "pack_digest": answer.pack_digest,
        "seq": result.seq,
        "turn": result.turn,
        "calls": calls.collect::<Vec<_>>(),
        "hits": hits.collect::<Vec<_>>(),
        "undecided": undecided.collect::<Vec<_>>(),
        "malformed": malformed.collect::<Vec<_>>(),
        "signals": signals.collect::<Vec<_>>(),
    })
}
