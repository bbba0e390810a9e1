//! `probity redact`: JSON lines in, the same lines out without what a pack says must not leave.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{model::json as strict, redact::Redactor, service::RedactionKey};

use super::{Exit, Failure, Outcome, lines::Lines, output::Output, packs};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of rule packs
    #[arg(long, value_name = "DIR", env = "PROBITY_RULES", default_value = "rules")]
    rules: PathBuf,
    /// The pack whose `redaction.yaml` is used; may be left out if there is only one
    #[arg(long, value_name = "NAME")]
    pack: Option<String>,
    /// File with the key of hashes: 64 hexadecimal digits; without one, a key of this run alone
    #[arg(long, value_name = "FILE", env = "PROBITY_REDACTION_KEY_FILE")]
    redaction_key_file: Option<PathBuf>,
    /// Files of JSON lines; standard input if there is none
    #[arg(value_name = "FILES")]
    files: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let pack = packs::select(&args.rules, args.pack.as_deref())?;
    let redactor = keyed(pack.redactor(), args.redaction_key_file.as_deref())?;
    let mut out = Output::new();
    let mut broken = 0;
    let inputs = if args.files.is_empty() { vec![PathBuf::from("-")] } else { args.files };
    for path in &inputs {
        broken += redact(&redactor, path, &mut out)?;
    }
    out.flush()?;
    Ok(if broken > 0 { Exit::BadInput } else { Exit::Fine })
}

/// The pack's rules under the key of a file, or under one of this run alone.
pub fn keyed(redactor: &Redactor, file: Option<&Path>) -> Result<Redactor, Failure> {
    let key = match file {
        Some(path) => RedactionKey::read(path).map_err(Failure::bad_input)?,
        None => RedactionKey::fresh().map_err(Failure::environment)?,
    };
    if file.is_none() && redactor.rules().hashes() {
        eprintln!("note: no --redaction-key-file, so hashes are alike within this run only");
    }
    Ok(redactor.with_key(key.bytes()))
}

/// Redacts the lines of a file; gives the number of those that are no JSON. Nothing of such a line is shown.
fn redact(redactor: &Redactor, path: &Path, out: &mut Output) -> Result<u64, Failure> {
    let mut lines = Lines::open(path).map_err(|e| Failure::bad_input(format!("{}: {e}", path.display())))?;
    let unreadable = |e: io::Error| Failure::environment(format!("{}: {e}", path.display()));
    let reading = strict::Reading { depth: strict::MAX_DEPTH, numbers: strict::Numbers::AsWrittenAnySize };
    let mut broken = 0;
    while let Some((number, line)) = lines.next().map_err(unreadable)? {
        match strict::parse_with(line, reading) {
            Ok(value) => out.line(redactor.payload(&value).get())?,
            Err(error) => {
                broken += 1;
                out.line(json!({"line": number, "error": error.to_string()}))?;
            }
        }
    }
    Ok(broken)
}
