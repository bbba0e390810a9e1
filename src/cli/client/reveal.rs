//! `probity client reveal`: the answers that a record keeps encrypted.

use serde_json::{Value, json};
use tonic::transport::Channel;

use crate::{
    cli::{Exit, Format, Outcome, output::Output},
    grpc::wire::{RevealPayloadsRequest, audit_client::AuditClient},
};

use super::refused;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Who reads; it is recorded
    #[arg(long)]
    principal: String,
    /// Why; it is recorded
    #[arg(long)]
    reason: String,
    /// The number of the record
    record: u64,
}

/// Prints the answers of one record.
pub async fn run(channel: Channel, args: Args, format: Format) -> Outcome {
    let Args { principal, reason, record } = args;
    let ask = RevealPayloadsRequest { record, principal, reason, request_id: String::new() };
    let revealed = AuditClient::new(channel).reveal_payloads(ask).await.map_err(refused)?.into_inner();
    let answers = [
        ("snapshot", &revealed.snapshot_json),
        ("shadow", &revealed.shadow_json),
        ("baseline", &revealed.baseline_json),
    ];
    let mut out = Output::new();
    match format {
        Format::Json => {
            let answer = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap_or(Value::Null);
            let answers: serde_json::Map<String, Value> =
                answers.into_iter().map(|(side, json)| (side.to_owned(), answer(json))).collect();
            out.line(json!({
                "record": record, "reading": revealed.reading, "session_id": revealed.session_id,
                "evaluation_id": revealed.evaluation_id, "answers": answers,
            }))?;
        }
        Format::Table => {
            let session = &revealed.session_id;
            out.line(format_args!("record {record}, session {session}; this reading is record {}", revealed.reading))?;
            for (side, json) in answers.iter().filter(|(_, json)| !json.is_empty()) {
                out.line(format_args!("{side}  {}", String::from_utf8_lossy(json)))?;
            }
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}
