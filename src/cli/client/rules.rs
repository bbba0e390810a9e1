//! `probity client status` and `probity client reload`.

use comfy_table::{Table, presets};
use serde_json::{Value, json};
use tonic::{Code, transport::Channel};

use crate::{
    cli::{
        Exit, Failure, Format, Outcome,
        output::{Output, plain},
    },
    grpc::wire::{
        Diagnostic, DiagnosticSeverity, GenerationSessions, GetStatusRequest, GetStatusResponse, Pack, ReloadRequest,
        rules_client::RulesClient,
    },
};

use super::refused;

/// Prints what is served.
pub async fn status(channel: Channel, format: Format) -> Outcome {
    let status = RulesClient::new(channel).get_status(GetStatusRequest {}).await.map_err(refused)?.into_inner();
    let mut out = Output::new();
    match format {
        Format::Json => out.line(status_json(&status))?,
        Format::Table => {
            let (generation, loaded) = (status.generation, time(&status.loaded_at));
            let version = &status.server_version;
            out.line(format_args!("probity {version}, rules generation {generation}, loaded at {loaded}"))?;
            match status.commit.as_str() {
                "" => out.line(format_args!("rules from {}", status.rules_location))?,
                commit => out.line(format_args!("rules from {}, commit {commit}", status.rules_location))?,
            }
            let (open, sleeping) = (status.session_count, status.sleeping_session_count);
            out.line(format_args!("{open} open sessions, {sleeping} asleep, {} records", status.last_record))?;
            if status.generations_in_memory > 1 {
                out.line(generations(&status))?;
            }
            packs(&status.packs, &mut out)?;
            diagnostics(&status.warnings, &mut out)?;
            if status.last_good {
                out.line("these are the last good rules from the store: those on disk were refused at start")?;
            }
            if let Some(load) = &status.refused {
                let (since, at) = (time(&status.stale_since), time(&load.refused_at));
                out.line(format_args!(
                    "STALE since {since}: the last load was refused at {at}; the rules before serve"
                ))?;
                if !load.commit.is_empty() {
                    out.line(format_args!("refused is commit {}", load.commit))?;
                }
                out.line(load.rendered.trim_end())?;
            }
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}

/// Makes the server load its rules anew.
pub async fn reload(channel: Channel, format: Format) -> Outcome {
    let loaded = match RulesClient::new(channel).reload(ReloadRequest::default()).await {
        Ok(loaded) => loaded.into_inner(),
        Err(status) => {
            let no = status.code() == Code::FailedPrecondition;
            let failure = refused(status);
            return Err(if no { Failure { exit: Exit::No, ..failure } } else { failure });
        }
    };
    let mut out = Output::new();
    match format {
        Format::Json => {
            let packs: Vec<Value> = loaded.packs.iter().map(pack_json).collect();
            let warnings: Vec<Value> = loaded.warnings.iter().map(diagnostic_json).collect();
            out.line(json!({"generation": loaded.generation, "packs": packs, "warnings": warnings}))?;
        }
        Format::Table => {
            out.line(format_args!("rules generation {} is served", loaded.generation))?;
            packs(&loaded.packs, &mut out)?;
            diagnostics(&loaded.warnings, &mut out)?;
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}

/// Which sets of rules are in memory besides the served one, and for how many sessions.
fn generations(status: &GetStatusResponse) -> String {
    let named = |of: &GenerationSessions| match of.generation {
        0 => format!("{} under a pack from the store", of.session_count),
        generation => format!("{} under generation {generation}", of.session_count),
    };
    let sessions: Vec<String> = status.generations.iter().map(named).collect();
    let (held, most) = (status.generations_in_memory, status.max_generations);
    format!("{held} sets of rules in memory, of at most {most}; sessions: {}", sessions.join(", "))
}

/// A moment as RFC 3339, in UTC and to the second.
pub(super) fn time(moment: &Option<prost_types::Timestamp>) -> String {
    let at = moment.as_ref().and_then(|at| jiff::Timestamp::from_second(at.seconds).ok());
    at.map(|at| at.to_string()).unwrap_or_default()
}

/// A line for each pack.
pub(super) fn packs(packs: &[Pack], out: &mut Output) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["PACK", "VERSION", "POLICIES", "DIGEST"]);
    for pack in packs {
        table.add_row([&pack.name, &pack.version, &pack.policy_count.to_string(), &pack.digest]);
    }
    out.text(plain(&table))
}

pub(super) fn diagnostics(diagnostics: &[Diagnostic], out: &mut Output) -> Result<(), Failure> {
    for d in diagnostics {
        let place = format_args!("{}:{}:{}", d.file, d.line, d.column);
        out.line(format_args!("{}: {place}: {} [{}]", severity(d), d.message, d.code))?;
        if !d.help.is_empty() {
            out.line(format_args!("  help: {}", d.help))?;
        }
    }
    Ok(())
}

fn severity(d: &Diagnostic) -> &'static str {
    match d.severity() {
        DiagnosticSeverity::Warning => "warning",
        DiagnosticSeverity::Error | DiagnosticSeverity::Unspecified => "error",
    }
}

fn status_json(status: &GetStatusResponse) -> Value {
    let packs: Vec<Value> = status.packs.iter().map(pack_json).collect();
    let warnings: Vec<Value> = status.warnings.iter().map(diagnostic_json).collect();
    let by_generation: Vec<Value> = status
        .generations
        .iter()
        .map(|of| json!({"generation": of.generation, "sessions": of.session_count}))
        .collect();
    let refused = status.refused.as_ref().map(|load| load.diagnostics.iter().map(diagnostic_json).collect::<Vec<_>>());
    json!({
        "server_version": status.server_version,
        "generation": status.generation,
        "loaded_at": time(&status.loaded_at),
        "stale_since": status.stale_since.map(|since| time(&Some(since))),
        "last_good": status.last_good,
        "rules": status.rules_location,
        "commit": status.commit,
        "accepted_loads": status.accepted_load_count,
        "refused_loads": status.refused_load_count,
        "packs": packs,
        "warnings": warnings,
        "refused": refused,
        "sessions": status.session_count,
        "sleeping_sessions": status.sleeping_session_count,
        "generations": by_generation,
        "generations_in_memory": status.generations_in_memory,
        "max_generations": status.max_generations,
        "last_record": status.last_record,
    })
}

pub(super) fn pack_json(pack: &Pack) -> Value {
    json!({"name": pack.name, "version": pack.version, "digest": pack.digest, "policies": pack.policy_count})
}

pub(super) fn diagnostic_json(d: &Diagnostic) -> Value {
    json!({
        "severity": severity(d), "code": d.code, "file": d.file, "line": d.line, "column": d.column,
        "message": d.message, "help": d.help,
    })
}
