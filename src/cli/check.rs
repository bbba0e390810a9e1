//! `probity check`: everything that is wrong with one or more packs.

use std::{io, path::PathBuf};

use serde::Serialize;

use crate::{diag::Record, engine::Pack};

use super::{
    Exit, Format, Outcome,
    output::{self, Output, counted},
    packs,
};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folders of packs, or folders that hold several
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The report.
#[derive(Debug, Default, Serialize)]
struct Report {
    errors: usize,
    warnings: usize,
    /// The packs that can be used.
    packs: Vec<Summary>,
    diagnostics: Vec<Record>,
}

#[derive(Debug, Serialize)]
struct Summary {
    name: String,
    version: String,
    digest: String,
    policies: usize,
    tests: usize,
}

impl Summary {
    fn of(pack: &Pack) -> Summary {
        Summary {
            name: pack.name().to_string(),
            version: pack.version().to_string(),
            digest: pack.digest().to_string(),
            policies: pack.policies().len(),
            tests: pack.tests().len() + pack.drift_tests().sessions.len() + pack.drift_tests().redaction.len(),
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let loaded = args.paths.iter().map(|path| packs::load(path)).collect::<Result<Vec<_>, _>>()?;
    let mut out = Output::new();
    let mut report = Report::default();
    for load in &loaded {
        let (errors, warnings) = load.diagnostics.counts();
        report.errors += errors;
        report.warnings += warnings;
        report.packs.extend(load.result.iter().flatten().map(|pack| Summary::of(pack)));
        match args.format {
            Format::Json => report.diagnostics.extend(load.diagnostics.records(&load.sources)),
            Format::Table if load.diagnostics.is_empty() => {}
            Format::Table => {
                out.line(load.diagnostics.render(&load.sources, output::style(&io::stdout())))?;
            }
        }
    }
    match args.format {
        Format::Json => out.line(serde_json::json!(report))?,
        Format::Table => {
            for pack in &report.packs {
                let digest = pack.digest.get(..12).unwrap_or_default();
                let policies = counted(pack.policies, "policy", "policies");
                let tests = counted(pack.tests, "test", "tests");
                out.line(format_args!("{} {}  {policies}, {tests}, digest {digest}", pack.name, pack.version))?;
            }
            let errors = counted(report.errors, "error", "errors");
            out.line(format_args!("{errors}, {}", counted(report.warnings, "warning", "warnings")))?;
        }
    }
    out.flush()?;
    Ok(if report.errors > 0 { Exit::No } else { Exit::Fine })
}
