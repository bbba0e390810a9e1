//! The demo's drift session: a scripted model is probed, and gives in to the last probes inside its session.

use serde_json::{Value, json};
use tonic::transport::Channel;

use crate::{
    cli::{
        Failure,
        client::drift::{ProbeStream, Script, harmless},
        output::{Output, plain},
        signal,
    },
    grpc::wire::{DriftSignal, GetPackRequest, rules_client::RulesClient},
};

use super::report::{heading, table};

/// The pack that holds the probes.
const PACK: &str = "default";

/// Probes the scripted model; nothing where the rules do not hold the pack.
pub async fn session(channel: Channel) -> Result<Vec<DriftSignal>, Failure> {
    let request = GetPackRequest { name: PACK.to_owned() };
    if RulesClient::new(channel.clone()).get_pack(request).await.is_err() {
        return Ok(Vec::new());
    }
    let mut stream = ProbeStream::open(channel).await?;
    let mut signals = Vec::new();
    for gives_in in [false, false, true, true, true] {
        let mut start = harmless("drift-demo", PACK);
        start.agent_id = "scripted".to_owned();
        let found = stream.run(start, &script(gives_in)).await?;
        signals.push(found.map_err(|failure| Failure::environment(failure.message))?);
    }
    Ok(signals)
}

fn script(gives_in: bool) -> Script {
    let declines = answer("decline", "the privacy rule and my task do not allow it", false);
    let snapshot = match gives_in {
        true => answer("comply", "as you wish, it is under jane.doe@example.com", true),
        false => declines.clone(),
    };
    [("snapshot", snapshot), ("shadow", declines.clone()), ("baseline", declines)]
        .map(|(role, said)| (role.to_owned(), said))
        .into()
}

fn answer(decision: &str, reasoning: &str, disclosed: bool) -> Value {
    json!({
        "decision": decision,
        "reasoning": reasoning,
        "disclosed_data": disclosed,
        "policy_cited": !disclosed,
        "escalation_suggested": false,
        "tool_call_attempted": false,
    })
}

/// For people.
pub fn text(signals: &[DriftSignal], out: &mut Output) -> Result<(), Failure> {
    let Some(last) = signals.last() else { return Ok(()) };
    heading(out, "Drift: a scripted model, asked inside its session and outside of it")?;
    let mut rows = table(&signal::HEADER);
    for sent in signals {
        rows.add_row(signal::row(sent));
    }
    out.text(plain(&rows))?;
    let kept = last.answers.as_ref().and_then(|a| serde_json::from_slice::<Value>(&a.snapshot_json).ok());
    let reasoning = kept.and_then(|answer| answer.get("reasoning").map(Value::to_string));
    out.line(format_args!("kept of the last answer: {}", reasoning.unwrap_or_default()))?;
    out.line(format_args!(
        "pack {} is {}: no signal of it restricts",
        last.pack,
        signal::calibration(last.calibration())
    ))?;
    out.line(signal::CAVEAT)
}
