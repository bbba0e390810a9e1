//! `probity test`: packs' own tests.

use std::{path::PathBuf, sync::Arc};

use serde::Serialize;

use crate::engine::{Pack, TestReport, run_tests};

use super::{
    Exit, Format, Outcome,
    output::{Output, counted},
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
#[derive(Debug, Serialize)]
struct Report {
    passed: usize,
    failed: usize,
    packs: Vec<Tested>,
}

#[derive(Debug, Serialize)]
struct Tested {
    pack: String,
    version: String,
    tests: Vec<Test>,
    /// Policies with a predicate that fired in no test.
    never_fired: Vec<String>,
    /// Probes that no test asks.
    never_asked: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Test {
    name: String,
    passed: bool,
    faults: Vec<String>,
}

impl Tested {
    fn of(pack: &Arc<Pack>) -> Tested {
        let TestReport { results, never_fired, never_asked } = run_tests(pack);
        let tests = results.into_iter().map(|r| Test { name: r.name, passed: r.faults.is_empty(), faults: r.faults });
        Tested {
            pack: pack.name().to_string(),
            version: pack.version().to_string(),
            tests: tests.collect(),
            never_fired: never_fired.iter().map(ToString::to_string).collect(),
            never_asked,
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let mut packs = Vec::new();
    for path in &args.paths {
        packs.extend(packs::usable(path)?);
    }
    let packs: Vec<Tested> = packs.iter().map(Tested::of).collect();
    let all = packs.iter().flat_map(|p| &p.tests);
    let passed = all.clone().filter(|t| t.passed).count();
    let report = Report { passed, failed: all.count() - passed, packs };
    let mut out = Output::new();
    match args.format {
        Format::Json => out.line(serde_json::json!(report))?,
        Format::Table => table(&report, &mut out)?,
    }
    out.flush()?;
    Ok(if report.failed > 0 { Exit::No } else { Exit::Fine })
}

fn table(report: &Report, out: &mut Output) -> Result<(), super::Failure> {
    for pack in &report.packs {
        out.line(format_args!("{} {}", pack.pack, pack.version))?;
        for test in &pack.tests {
            out.line(format_args!("  {}  {}", if test.passed { "ok  " } else { "FAIL" }, test.name))?;
            for fault in &test.faults {
                out.line(format_args!("          {fault}"))?;
            }
        }
        if pack.tests.is_empty() {
            out.line("  no tests")?;
        } else {
            let untouched: Vec<&str> = pack.never_fired.iter().chain(&pack.never_asked).map(String::as_str).collect();
            if !untouched.is_empty() {
                out.line(format_args!("  reached by no test: {}", untouched.join(", ")))?;
            }
        }
        out.line("")?;
    }
    out.line(format_args!("{}, {} failed", counted(report.passed, "test passed", "tests passed"), report.failed))
}
