//! `probity check`: everything that is wrong with one or more packs; by themselves, beside an earlier version, and
//! beside recorded traces.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::ValueEnum;
use serde::Serialize;

use crate::{
    diag::{Record, sarif},
    engine::{Coverage, Loaded, Pack, check_tests, check_version, predecessor},
};

use super::{
    Exit, Failure, Outcome, episodes,
    output::{self, Output, counted},
    packs,
};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folders of packs, or folders that hold several
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// An earlier version: git:REF (of the same folders), git:REF:PATH or a folder. Another meaning must have another
    /// version, another probe library a minor one at least
    #[arg(long, value_name = "VERSION")]
    against: Option<String>,
    /// Also say which policies do nothing, or always the same, in the episodes of these files
    #[arg(long, value_name = "FILE", num_args = 1..)]
    trace: Vec<PathBuf>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

/// Form of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    #[default]
    Table,
    /// One JSON object
    Json,
    /// SARIF 2.1.0, for code hosts and editors
    Sarif,
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

type Packs = Loaded<Vec<Arc<Pack>>>;

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let mut loaded = args.paths.iter().map(|path| packs::load(path)).collect::<Result<Vec<_>, _>>()?;
    for load in &mut loaded {
        let packs = load.result.clone().unwrap_or_default();
        load.diagnostics.extend(packs.iter().flat_map(check_tests));
    }
    if let Some(version) = &args.against {
        args.paths.iter().zip(&mut loaded).try_for_each(|(path, load)| against(version, path, load))?;
    }
    let broken = beside_traces(&args.trace, &mut loaded)?;
    let mut out = Output::new();
    let mut report = Report::default();
    for load in &loaded {
        let (errors, warnings) = load.diagnostics.counts();
        report.errors += errors;
        report.warnings += warnings;
        report.packs.extend(load.result.iter().flatten().map(|pack| Summary::of(pack)));
        match args.format {
            Form::Json | Form::Sarif => report.diagnostics.extend(load.diagnostics.records(&load.sources)),
            Form::Table if load.diagnostics.is_empty() => {}
            Form::Table => {
                out.line(load.diagnostics.render(&load.sources, output::style(&io::stdout())))?;
            }
        }
    }
    match args.format {
        Form::Json => out.line(serde_json::json!(report))?,
        Form::Sarif => out.line(sarif(&report.diagnostics))?,
        Form::Table => {
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
    Ok(match (broken, report.errors) {
        (1.., _) => Exit::BadInput,
        (0, 1..) => Exit::No,
        (0, 0) => Exit::Fine,
    })
}

/// Holds the versions of packs to those of an earlier version. A pack that is new has nothing to be held to.
fn against(version: &str, path: &Path, load: &mut Packs) -> Result<(), Failure> {
    let earlier = packs::version(version, Some(path))?;
    for pack in load.result.iter().flatten() {
        let only = earlier.len() == 1 && load.result.iter().flatten().count() == 1;
        let old = if only { earlier.first() } else { predecessor(&earlier, pack) };
        if let Some(old) = old {
            load.diagnostics.extend(check_version(old, pack));
        }
    }
    Ok(())
}

/// Looks at what every pack does with recorded episodes; gives how many lines are none.
fn beside_traces(traces: &[PathBuf], loaded: &mut [Packs]) -> Result<usize, Failure> {
    if traces.is_empty() {
        return Ok(0);
    }
    let mut coverages: Vec<Vec<Coverage>> = loaded
        .iter()
        .map(|load| load.result.iter().flatten().map(|pack| Coverage::new(Arc::clone(pack))).collect())
        .collect();
    let broken = episodes::each(traces, |episode| coverages.iter_mut().flatten().for_each(|c| c.add(episode)))?;
    for (load, coverages) in loaded.iter_mut().zip(coverages) {
        load.diagnostics.extend(coverages.iter().flat_map(Coverage::warnings));
    }
    Ok(broken)
}
