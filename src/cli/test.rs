//! `probity test`: packs' own tests, what they reach, and the same again whenever a file changes.

mod junit;
mod watch;

use std::{path::PathBuf, sync::Arc};

use clap::ValueEnum;
use serde::Serialize;

use crate::engine::{Coverage, Miss, Pack, PolicyCoverage, TestReport, run_tests, test_coverage};

use super::{
    Exit, Failure, Outcome,
    output::{Output, counted},
    packs,
};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folders of packs, or folders that hold several
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Also say which policies fired in the tests, which of their conditions were seen true, false and unknown, and
    /// why not
    #[arg(long)]
    coverage: bool,
    /// Run the tests again whenever a file of the folders changes, until the command is stopped
    #[arg(long, conflicts_with = "format")]
    watch: bool,
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
    /// JUnit's XML, which build servers read
    Junit,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<Vec<Covered>>,
}

#[derive(Debug, Serialize)]
struct Test {
    name: String,
    passed: bool,
    faults: Vec<String>,
}

/// A policy in the tests.
#[derive(Debug, Serialize)]
struct Covered {
    #[serde(flatten)]
    policy: PolicyCoverage,
    misses: Vec<Miss>,
}

impl Tested {
    fn of(pack: &Arc<Pack>, coverage: bool) -> Tested {
        let TestReport { results, never_fired, never_asked } = run_tests(pack);
        let tests = results.into_iter().map(|r| Test { name: r.name, passed: r.faults.is_empty(), faults: r.faults });
        let covered = |coverage: Coverage| {
            coverage.policies().map(|p| Covered { misses: p.misses(), policy: p.clone() }).collect()
        };
        Tested {
            pack: pack.name().to_string(),
            version: pack.version().to_string(),
            tests: tests.collect(),
            never_fired: never_fired.iter().map(ToString::to_string).collect(),
            never_asked,
            coverage: coverage.then(|| covered(test_coverage(pack))),
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    if args.watch { watch::run(&args) } else { once(&args) }
}

fn once(args: &Args) -> Outcome {
    let mut packs = Vec::new();
    for path in &args.paths {
        packs.extend(packs::usable(path)?);
    }
    let packs: Vec<Tested> = packs.iter().map(|pack| Tested::of(pack, args.coverage)).collect();
    let all = packs.iter().flat_map(|p| &p.tests);
    let passed = all.clone().filter(|t| t.passed).count();
    let report = Report { passed, failed: all.count() - passed, packs };
    let mut out = Output::new();
    match args.format {
        Form::Json => out.line(serde_json::json!(report))?,
        Form::Junit => out.text(junit::xml(&report))?,
        Form::Table => table(&report, &mut out)?,
    }
    out.flush()?;
    Ok(if report.failed > 0 { Exit::No } else { Exit::Fine })
}

fn table(report: &Report, out: &mut Output) -> Result<(), Failure> {
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
        if let Some(coverage) = &pack.coverage {
            covered(coverage, out)?;
        }
        out.line("")?;
    }
    out.line(format_args!("{}, {} failed", counted(report.passed, "test passed", "tests passed"), report.failed))
}

fn covered(coverage: &[Covered], out: &mut Output) -> Result<(), Failure> {
    let fired = coverage.iter().filter(|c| c.policy.fired > 0).count();
    let conditions = || coverage.iter().flat_map(|c| &c.policy.conditions);
    let both = conditions().filter(|c| c.holds > 0 && c.fails > 0).count();
    let (policies, all) = (coverage.len(), conditions().count());
    out.line(format_args!("  coverage: {fired} of {policies} policies fired"))?;
    out.line(format_args!("            {both} of {all} conditions were seen true and false"))?;
    for Covered { policy, misses } in coverage.iter().filter(|c| !c.misses.is_empty()) {
        out.line(format_args!("  {}", policy.policy))?;
        for Miss { what, why } in misses {
            out.line(format_args!("    never {what}"))?;
            out.line(format_args!("          {why}"))?;
        }
    }
    Ok(())
}
