//! `probity client evaluate`, `probe`, `report` and `watch`: drift on a running server.

use std::{collections::BTreeMap, path::PathBuf};

use comfy_table::{Table, presets};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};

use crate::{
    cli::{Exit, Failure, Format, Outcome, evaluate::request_message, lines::Lines, output, signal},
    grpc::wire::{
        self, audit_client::AuditClient, policy_engine_client::PolicyEngineClient, probe_answer, probe_request,
        probe_response,
    },
};

use super::refused;

/// Arguments of `evaluate`.
#[derive(clap::Args)]
pub struct EvaluateArgs {
    /// The rule pack
    #[arg(long)]
    pack: String,
    /// Files of requests, one a line, as `probity evaluate` takes them; `-` is standard input
    #[arg(required = true, value_name = "REQUESTS")]
    requests: Vec<PathBuf>,
}

/// Arguments of `probe`.
#[derive(clap::Args)]
pub struct ProbeArgs {
    /// The rule pack
    #[arg(long, default_value = "default")]
    pack: String,
    /// The session's id
    #[arg(long, default_value = "client")]
    session: String,
    /// A probe of the library; without one the server chooses
    #[arg(long, default_value = "")]
    probe: String,
    /// How many probes to run
    #[arg(long, default_value_t = 1)]
    count: u32,
    /// A JSON file with the answers of a scripted model: an object with `snapshot`, `shadow`, and perhaps `judge` and
    /// `baseline`; text stands for itself, null for a call that fails, anything else for its JSON
    script: PathBuf,
}

/// Arguments of `report`.
#[derive(clap::Args)]
pub struct ReportArgs {
    /// The rule pack
    #[arg(long)]
    pack: String,
    /// The session
    session: String,
}

/// Arguments of `watch`.
#[derive(clap::Args)]
pub struct WatchArgs {
    /// Only this pack
    #[arg(long, default_value = "")]
    pack: String,
    /// Only this session
    #[arg(long, default_value = "")]
    session: String,
    /// Go on behind this cursor
    #[arg(long, default_value_t = 0)]
    cursor: u64,
    /// Begin with what comes from now on
    #[arg(long)]
    new: bool,
    /// End after so many signals; without it, never
    #[arg(long)]
    count: Option<u64>,
}

/// Sends finished answers.
pub async fn evaluate(channel: Channel, args: EvaluateArgs, format: Format) -> Outcome {
    let mut client = PolicyEngineClient::new(channel);
    let mut shown = Shown::new(format);
    let mut broken = 0;
    for path in &args.requests {
        let at = |e: std::io::Error| Failure::bad_input(format!("{}: {e}", path.display()));
        let mut lines = Lines::open(path).map_err(at)?;
        while let Some((number, line)) = lines.next().map_err(at)? {
            let answer = match request_message(line, &args.pack) {
                Ok(request) => client.evaluate(request).await.map_err(|status| status.message().to_owned()),
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) => shown.signal(answer.into_inner().signal.unwrap_or_default()),
                Err(error) => {
                    broken += 1;
                    match format {
                        Format::Json => println!("{}", json!({"line": number, "error": error})),
                        Format::Table => eprintln!("{}:{number}: {error}", path.display()),
                    }
                }
            }
        }
    }
    shown.end();
    Ok(if broken > 0 { Exit::BadInput } else { Exit::Fine })
}

/// Runs probes with a scripted model. No tool is run here either.
pub async fn probe(channel: Channel, args: ProbeArgs, format: Format) -> Outcome {
    let at = |e: String| Failure::bad_input(format!("{}: {e}", args.script.display()));
    let text = std::fs::read_to_string(&args.script).map_err(|e| at(e.to_string()))?;
    let script: Script = serde_json::from_str(&text).map_err(|e| at(e.to_string()))?;
    let mut stream = ProbeStream::open(channel).await?;
    let mut shown = Shown::new(format);
    let mut failed = false;
    for _ in 0..args.count {
        match stream.run(start(&args, script.contains_key("judge")), &script).await? {
            Ok(sent) => shown.signal(sent),
            Err(wire::ProbeFailure { probe_id, label, message }) => {
                failed = true;
                match format {
                    Format::Json => println!("{}", json!({"probe_id": probe_id, "failure": label})),
                    Format::Table => eprintln!("{probe_id}: {message}"),
                }
            }
        }
    }
    shown.end();
    Ok(if failed { Exit::No } else { Exit::Fine })
}

/// What a scripted model says, by role: text stands for itself, null and nothing for a call that fails, anything
/// else for its JSON.
pub type Script = BTreeMap<String, Value>;

/// An open stream of probes.
pub struct ProbeStream {
    requests: mpsc::Sender<wire::ProbeRequest>,
    answers: Streaming<wire::ProbeResponse>,
}

impl ProbeStream {
    /// Opens a stream.
    pub async fn open(channel: Channel) -> Result<ProbeStream, Failure> {
        let (requests, waiting) = mpsc::channel(4);
        let opened = PolicyEngineClient::new(channel).probe(ReceiverStream::new(waiting)).await;
        Ok(ProbeStream { requests, answers: opened.map_err(refused)?.into_inner() })
    }

    /// Runs one probe.
    pub async fn run(
        &mut self,
        start: wire::ProbeStart,
        script: &Script,
    ) -> Result<Result<wire::DriftSignal, wire::ProbeFailure>, Failure> {
        self.send(probe_request::Message::Start(start)).await?;
        loop {
            let message = self.answers.message().await.map_err(refused)?.and_then(|m| m.message);
            match message {
                None => return Err(Failure::environment("the server ended the stream")),
                Some(probe_response::Message::Question(question)) => {
                    self.send(probe_request::Message::Answer(scripted(script, question.role()))).await?;
                }
                Some(probe_response::Message::Result(result)) => return Ok(Ok(result.signal.unwrap_or_default())),
                Some(probe_response::Message::Failure(failure)) => return Ok(Err(failure)),
            }
        }
    }

    async fn send(&self, message: probe_request::Message) -> Result<(), Failure> {
        let request = wire::ProbeRequest { message: Some(message) };
        self.requests.send(request).await.map_err(|_| Failure::environment("the server ended the stream"))
    }
}

fn start(args: &ProbeArgs, client_judge: bool) -> wire::ProbeStart {
    wire::ProbeStart { probe_id: args.probe.clone(), client_judge, ..harmless(&args.session, &args.pack) }
}

/// The start of a probe in a session of which nothing special is known.
pub fn harmless(session: &str, pack: &str) -> wire::ProbeStart {
    wire::ProbeStart {
        session_id: session.to_owned(),
        pack: pack.to_owned(),
        summary: Some(wire::ContextSummary {
            data_sensitivity: wire::DataSensitivity::Low.into(),
            escalation_chain: wire::EscalationChain::None.into(),
            session_depth: 1,
            ..wire::ContextSummary::default()
        }),
        ..wire::ProbeStart::default()
    }
}

fn scripted(script: &Script, role: wire::ProbeRole) -> wire::ProbeAnswer {
    let key = match role {
        wire::ProbeRole::Snapshot => "snapshot",
        wire::ProbeRole::Shadow => "shadow",
        wire::ProbeRole::Judge => "judge",
        wire::ProbeRole::Baseline => "baseline",
        wire::ProbeRole::Unspecified => "",
    };
    let outcome = match script.get(key) {
        None | Some(Value::Null) => probe_answer::Outcome::Failure(wire::ModelFailure {}),
        Some(said) => {
            let text = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
            probe_answer::Outcome::Output(wire::ModelOutput { text: text.into(), ..wire::ModelOutput::default() })
        }
    };
    wire::ProbeAnswer { role: role.into(), outcome: Some(outcome) }
}

/// Prints a session's report.
pub async fn report(channel: Channel, args: ReportArgs, format: Format) -> Outcome {
    let request = wire::GetSessionReportRequest { session_id: args.session, pack: args.pack };
    let report = PolicyEngineClient::new(channel).get_session_report(request).await.map_err(refused)?.into_inner();
    match format {
        Format::Json => println!("{}", report_json(&report)),
        Format::Table => {
            let (verdict, status) = (signal::verdict(report.verdict()), signal::calibration(report.calibration()));
            println!("{} under {} {}, {status}: {verdict}", report.session_id, report.pack, report.pack_version);
            println!(
                "{} probes, {} malformed, {} escapes (rate {:.2}, {:.2} to {:.2}), largest score {:.3}, signal {:.3}",
                report.probes_sent,
                report.structural_failures,
                report.escapes,
                report.escape_rate,
                report.escape_rate_low,
                report.escape_rate_high,
                report.max_drift_score,
                report.longitudinal_signal
            );
            println!("{}", signal::CAVEAT);
        }
    }
    Ok(Exit::Fine)
}

fn report_json(report: &wire::GetSessionReportResponse) -> Value {
    let timeline: Vec<Value> = report
        .timeline
        .iter()
        .map(|entry| {
            json!({
                "probe_id": entry.probe_id,
                "probe_type": entry.probe_type,
                "drift_score": entry.drift_score,
                "divergence_category": entry.category,
                "structural_anomaly": entry.anomaly,
                "escape_detected": entry.escape_detected,
                "triangulation": entry.triangulation,
                "standing": entry.standing,
                "recommended_action": signal::action(entry.action()),
            })
        })
        .collect();
    json!({
        "session_id": report.session_id,
        "agent_id": report.agent_id,
        "pack": report.pack,
        "pack_version": report.pack_version,
        "pack_digest": report.pack_digest,
        "probe_library_version": report.library_version,
        "calibration_status": signal::calibration(report.calibration()),
        "overall_verdict": signal::verdict(report.verdict()),
        "longitudinal_signal": report.longitudinal_signal,
        "probes_sent": report.probes_sent,
        "probes_invalid": report.probes_invalid,
        "probes_triangulated": report.probes_triangulated,
        "summary_calibration_anomalies": report.summary_calibration_anomalies,
        "consistency_anomaly_detected": report.consistency_anomaly,
        "max_drift_score": report.max_drift_score,
        "drift_by_probe_type": report.drift_by_probe_type.iter().collect::<BTreeMap<_, _>>(),
        "drift_by_category": report.drift_by_category.iter().collect::<BTreeMap<_, _>>(),
        "structural_failures": report.structural_failures,
        "escapes": report.escapes,
        "escape_rate": report.escape_rate,
        "escape_rate_interval": [report.escape_rate_low, report.escape_rate_high],
        "judge_pairs": report.judge_pairs,
        "judge_agreements": report.judge_agreements,
        "timeline": timeline,
    })
}

/// Prints signals that somebody should look at, as they come.
pub async fn watch(channel: Channel, args: WatchArgs, format: Format) -> Outcome {
    let WatchArgs { pack, session, cursor, new, count } = args;
    let request = wire::WatchRequest { pack, session_id: session, cursor, only_new: new };
    let mut signals = AuditClient::new(channel).watch(request).await.map_err(refused)?.into_inner();
    let mut seen = 0;
    while count.is_none_or(|count| seen < count) {
        let Some(told) = signals.next().await else { break };
        let told = told.map_err(refused)?;
        seen += 1;
        let sent = told.signal.unwrap_or_default();
        match format {
            Format::Json => println!("{}", json!({"cursor": told.cursor, "signal": signal::json(&sent)})),
            Format::Table => println!("{}  {}", told.cursor, signal::row(&sent).join("  ")),
        }
    }
    Ok(Exit::Fine)
}

/// Signals as they are shown.
struct Shown {
    format: Format,
    table: Table,
}

impl Shown {
    fn new(format: Format) -> Shown {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(signal::HEADER);
        Shown { format, table }
    }

    fn signal(&mut self, sent: wire::DriftSignal) {
        match self.format {
            Format::Json => println!("{}", signal::json(&sent)),
            Format::Table => {
                self.table.add_row(signal::row(&sent));
            }
        }
    }

    fn end(&self) {
        if self.format == Format::Table && !self.table.is_empty() {
            print!("{}", output::plain(&self.table));
            println!("{}", signal::CAVEAT);
        }
    }
}
