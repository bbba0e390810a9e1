//! `probity audit verify`.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    audit::{self, Checkpoint, ExportError, Trust, Verified},
    cli::{Exit, Failure, Format, Outcome, client::refused, output::Output},
    grpc::wire::{VerifyRequest, VerifyResponse},
};

use super::{Opened, Place, store_failed};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Verify the lines that `probity audit export` wrote, instead of a store
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server"])]
    export: Option<PathBuf>,
    /// Checkpoints that were kept elsewhere, as --audit-checkpoint-file has them: only they show a store that was cut,
    /// rolled back or written anew. The chain must go through one of them
    #[arg(long, value_name = "FILE")]
    checkpoints: Option<PathBuf>,
    /// The Ed25519 public key, 64 hexadecimal digits, that must have signed checkpoints, and one at least that the
    /// chain goes through
    #[arg(long, value_name = "HEX")]
    public_key: Option<String>,
}

/// Runs the command.
pub async fn run(args: Args, format: Format) -> Outcome {
    let lines = args.checkpoints.as_deref().map(read_lines).transpose()?.unwrap_or_default();
    let held_against = lines.len();
    let report = match &args.export {
        Some(path) => told(verify_export(path, trust(&lines, args.public_key.as_deref())?)?),
        None => match args.place.open().await? {
            Opened::Store(store) => {
                let trust = trust(&lines, args.public_key.as_deref())?;
                told(audit::verify_store(&store, trust).map_err(store_failed)?)
            }
            Opened::Server(mut server) => {
                let public_key = args.public_key.unwrap_or_default();
                let ask = VerifyRequest { checkpoints: lines, public_key };
                server.verify(ask).await.map_err(refused)?.into_inner()
            }
        },
    };
    print(&report, held_against, format)
}

fn read_lines(path: &Path) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(path).map_err(|e| Failure::bad_input(format!("{}: {e}", path.display())))?;
    Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
}

fn trust(lines: &[String], public_key: Option<&str>) -> Result<Trust, Failure> {
    let mut checkpoints = Vec::with_capacity(lines.len());
    for (line, text) in (1..).zip(lines) {
        let read = Checkpoint::from_json(text);
        checkpoints.push(read.map_err(|e| Failure::bad_input(format!("line {line} of the checkpoints: {e}")))?);
    }
    let key = |text: &str| {
        let wrong = || Failure::bad_input("--public-key must be 64 hexadecimal digits");
        audit::public_key(text).ok_or_else(wrong)
    };
    Ok(Trust { checkpoints, public_key: public_key.map(key).transpose()? })
}

/// Why an export was not verified.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is none.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] audit::StoreError),
}

impl ImportError {
    /// As a failure of a command on a file.
    pub fn of(self, path: &Path) -> Failure {
        match self {
            ImportError::Store(e) => store_failed(e),
            other => Failure::bad_input(format!("{}: {other}", path.display())),
        }
    }
}

/// The lines of a file.
pub fn lines(path: &Path) -> Result<impl Iterator<Item = Result<String, ImportError>>, ImportError> {
    Ok(BufReader::new(fs::File::open(path)?).lines().map(|line| line.map_err(ImportError::Io)))
}

fn verify_export(path: &Path, trust: Trust) -> Result<Verified, Failure> {
    lines(path).and_then(|lines| audit::verify_export(lines, trust, |_| Ok(()), |_, _| Ok(()))).map_err(|e| e.of(path))
}

fn told(verified: Verified) -> VerifyResponse {
    crate::grpc::verified(&verified)
}

fn print(report: &VerifyResponse, held_against: usize, format: Format) -> Outcome {
    let mut out = Output::new();
    match format {
        Format::Json => out.line(as_json(report))?,
        Format::Table => {
            let VerifyResponse { first_record, last_record, store_id, link, .. } = report;
            match first_record > last_record {
                true => out.line(format_args!("store {store_id}: no records"))?,
                false => out.line(format_args!("store {store_id}: records {first_record} to {last_record}"))?,
            }
            out.line(format_args!("the chain ends with {link}"))?;
            out.line(format_args!(
                "{} checkpoints in the chain, {} of them signed; {} erased payloads",
                report.checkpoints, report.signed_checkpoints, report.erased_payloads
            ))?;
            out.line(format_args!(
                "{} of {held_against} checkpoints from elsewhere confirmed",
                report.confirmed_checkpoints
            ))?;
            for fault in &report.faults {
                out.line(format_args!("FAULT: {fault}"))?;
            }
            match (report.whole, held_against) {
                (false, _) => out.line("the store is not what was recorded")?,
                (true, 0) => out.line(
                    "whole; without checkpoints from elsewhere a store that was cut, rolled back or written anew looks \
                     whole too",
                )?,
                (true, _) => out.line("whole")?,
            }
        }
    }
    out.flush()?;
    Ok(if report.whole { Exit::Fine } else { Exit::No })
}

fn as_json(report: &VerifyResponse) -> Value {
    json!({
        "whole": report.whole, "store": report.store_id, "first_record": report.first_record,
        "last_record": report.last_record, "link": report.link, "checkpoints": report.checkpoints,
        "signed_checkpoints": report.signed_checkpoints, "confirmed_checkpoints": report.confirmed_checkpoints,
        "erased_payloads": report.erased_payloads, "faults": report.faults,
    })
}
