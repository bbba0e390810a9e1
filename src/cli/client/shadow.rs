//! `probity client shadow`: what a candidate beside the rules would answer in another way.

use serde_json::{Value, json};
use tonic::transport::Channel;

use crate::{
    cli::{
        Exit, Failure, Format, Outcome,
        output::{Output, counted},
    },
    grpc::wire::{
        Effect, GetShadowRequest, GetShadowResponse, ShadowDifference, WatchShadowRequest, WatchShadowResponse,
        rules_client::RulesClient,
    },
};

use super::{refused, rules};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Print differences as they come, until interrupted
    #[arg(long)]
    follow: bool,
}

/// Runs the command.
pub async fn run(channel: Channel, args: Args, format: Format) -> Outcome {
    let mut client = RulesClient::new(channel);
    let mut out = Output::new();
    if !args.follow {
        let status = client.get_shadow(GetShadowRequest {}).await.map_err(refused)?.into_inner();
        match format {
            Format::Json => out.line(status_json(&status))?,
            Format::Table => people(&status, &mut out)?,
        }
        out.flush()?;
        return Ok(Exit::Fine);
    }
    let mut told = client.watch_shadow(WatchShadowRequest {}).await.map_err(refused)?.into_inner();
    while let Some(WatchShadowResponse { difference, missed_count }) = told.message().await.map_err(refused)? {
        match (difference, format) {
            (Some(difference), Format::Json) => out.line(difference_json(&difference))?,
            (Some(difference), Format::Table) => line(&difference, &mut out)?,
            (None, Format::Json) => out.line(json!({ "missed": missed_count }))?,
            (None, Format::Table) => out.line(format_args!("({missed_count} missed)"))?,
        }
        out.flush()?;
    }
    Ok(Exit::Fine)
}

fn people(status: &GetShadowResponse, out: &mut Output) -> Result<(), Failure> {
    match status.commit.as_str() {
        "" => out.line(format_args!("candidate from {}", status.rules_location))?,
        commit => out.line(format_args!("candidate from {}, commit {commit}", status.rules_location))?,
    }
    rules::packs(&status.packs, out)?;
    rules::diagnostics(&status.warnings, out)?;
    if let Some(load) = &status.refused {
        out.line(format_args!("the last load of it was refused at {}", rules::time(&load.refused_at)))?;
        out.line(load.rendered.trim_end())?;
    }
    let count = |n: u64, one: &str, many: &str| counted(usize::try_from(n).unwrap_or(usize::MAX), one, many);
    let (items, sessions) =
        (count(status.item_count, "item", "items"), count(status.session_count, "session", "sessions"));
    out.line(format_args!(
        "{items} of {sessions} compared since {}: {} judged in another way",
        rules::time(&status.loaded_at),
        status.differing_item_count
    ))?;
    for changed in &status.changed_calls {
        let calls = count(changed.count, "call", "calls");
        out.line(format_args!("  {calls}: {} -> {}", word(changed.live()), word(changed.candidate())))?;
    }
    for policy in &status.policies {
        let (pack, id) = (&policy.pack, &policy.policy);
        out.line(format_args!("  {pack} {id}: {} gained, {} lost", policy.gained_count, policy.lost_count))?;
    }
    if status.skipped_item_count > 0 {
        let items = count(status.skipped_item_count, "item", "items");
        out.line(format_args!("{items} not compared: the candidate did not keep up"))?;
    }
    if status.unfollowed_item_count > 0 {
        let items = count(status.unfollowed_item_count, "item", "items");
        out.line(format_args!("{items} not compared: the past of their sessions is not known in full"))?;
    }
    if status.absent_item_count > 0 {
        let items = count(status.absent_item_count, "item", "items");
        out.line(format_args!("{items} not compared: the candidate does not have their pack"))?;
    }
    Ok(())
}

fn line(difference: &ShadowDifference, out: &mut Output) -> Result<(), Failure> {
    let d = difference;
    let place = format!("{} item {} turn {}", d.session_id, d.seq, d.turn);
    let versions = format!("{} {} -> {}", d.pack, d.pack_version, d.candidate_version);
    let calls = d.calls.iter().map(|c| format!("call {}: {} -> {}", c.index, word(c.live()), word(c.candidate())));
    let verdicts = d.verdicts.iter().map(|v| format!("{}{} {}", if v.gained { '+' } else { '-' }, v.policy, v.verdict));
    let what: Vec<String> = calls.chain(verdicts).collect();
    out.line(format_args!("{place} ({versions})  {}", what.join(", ")))
}

fn word(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "allow",
        Effect::Review => "review",
        Effect::Deny => "deny",
        Effect::Unspecified => "?",
    }
}

fn status_json(status: &GetShadowResponse) -> Value {
    let calls = status
        .changed_calls
        .iter()
        .map(|c| json!({ "live": word(c.live()), "candidate": word(c.candidate()), "count": c.count }));
    let policies = status
        .policies
        .iter()
        .map(|p| json!({ "pack": p.pack, "policy": p.policy, "gained": p.gained_count, "lost": p.lost_count }));
    let refused = status.refused.as_ref().map(|load| load.diagnostics.iter().map(rules::diagnostic_json));
    json!({
        "rules": status.rules_location,
        "commit": status.commit,
        "loaded_at": rules::time(&status.loaded_at),
        "packs": status.packs.iter().map(rules::pack_json).collect::<Vec<_>>(),
        "warnings": status.warnings.iter().map(rules::diagnostic_json).collect::<Vec<_>>(),
        "refused": refused.map(Iterator::collect::<Vec<_>>),
        "sessions": status.session_count,
        "items": status.item_count,
        "differing_items": status.differing_item_count,
        "calls": status.call_count,
        "changed_calls": calls.collect::<Vec<_>>(),
        "policies": policies.collect::<Vec<_>>(),
        "skipped_items": status.skipped_item_count,
        "unfollowed_items": status.unfollowed_item_count,
        "absent_items": status.absent_item_count,
    })
}

fn difference_json(d: &ShadowDifference) -> Value {
    let calls =
        d.calls.iter().map(|c| json!({ "index": c.index, "live": word(c.live()), "candidate": word(c.candidate()) }));
    let verdicts = d
        .verdicts
        .iter()
        .map(|v| json!({ "turn": v.turn, "policy": v.policy, "verdict": v.verdict, "gained": v.gained }));
    json!({
        "session": d.session_id,
        "agent": d.agent_id,
        "pack": d.pack,
        "version": d.pack_version,
        "digest": d.pack_digest,
        "candidate_version": d.candidate_version,
        "candidate_digest": d.candidate_digest,
        "seq": d.seq,
        "turn": d.turn,
        "calls": calls.collect::<Vec<_>>(),
        "verdicts": verdicts.collect::<Vec<_>>(),
    })
}
