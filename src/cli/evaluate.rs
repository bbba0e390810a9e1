//! `probity evaluate`: finished answers to probes, from files, through the same comparison as the server's.

mod request;

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use comfy_table::{Table, presets};
use serde_json::json;

use crate::{
    audit::{About, DriftRecord, PackRef},
    drift::{Recorded, SessionState},
    engine::{self, Pack},
    grpc::{finished, wire},
    pack::DriftSpec,
    redact::Redactor,
    service::{DriftAsk, reference},
};

use super::{
    Exit, Failure, Format, Outcome,
    lines::Lines,
    output::{self, Output},
    packs, redact, signal,
};

pub use request::request_message;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of rule packs
    #[arg(long, value_name = "DIR", env = "PROBITY_RULES", default_value = "rules")]
    rules: PathBuf,
    /// The pack whose probes were asked; may be left out if there is only one
    #[arg(long, value_name = "NAME")]
    pack: Option<String>,
    /// File with the key of hashes: 64 hexadecimal digits; without one, a key of this run alone
    #[arg(long, value_name = "FILE", env = "PROBITY_REDACTION_KEY_FILE")]
    redaction_key_file: Option<PathBuf>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Files of requests, one a line; `-` is standard input
    #[arg(required = true, value_name = "REQUESTS")]
    requests: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let pack = packs::select(&args.rules, args.pack.as_deref())?;
    let Some(spec) = pack.drift().cloned() else {
        return Err(Failure::bad_input(format!("pack `{}` has no probes", pack.name())));
    };
    let redactor = redact::keyed(pack.redactor(), args.redaction_key_file.as_deref())?;
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(signal::HEADER);
    let mut evaluation = Evaluation {
        reference: Arc::new(reference(&pack)),
        pack,
        spec,
        redactor,
        format: args.format,
        sessions: HashMap::new(),
        evaluated: 0,
        broken: 0,
        table,
        out: Output::new(),
    };
    args.requests.iter().try_for_each(|path| evaluation.file(path))?;
    let Evaluation { mut out, table, pack, sessions, broken, .. } = evaluation;
    if args.format == Format::Table {
        out.text(output::plain(&table))?;
        let count = output::counted(sessions.len(), "session", "sessions");
        out.line(format_args!("\n{} {}, {}: {count}", pack.name(), pack.version(), pack.calibration().word()))?;
        out.line(signal::CAVEAT)?;
    }
    out.flush()?;
    Ok(if broken > 0 { Exit::BadInput } else { Exit::Fine })
}

struct Evaluation {
    pack: Arc<Pack>,
    reference: Arc<PackRef>,
    spec: Arc<DriftSpec>,
    redactor: Redactor,
    format: Format,
    sessions: HashMap<String, SessionState>,
    evaluated: u64,
    broken: u64,
    table: Table,
    out: Output,
}

impl Evaluation {
    fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let mut lines = Lines::open(path).map_err(|e| Failure::bad_input(format!("{}: {e}", path.display())))?;
        let unreadable = |e: io::Error| Failure::environment(format!("{}: {e}", path.display()));
        while let Some((number, line)) = lines.next().map_err(unreadable)? {
            let result = request_message(line, self.pack.name()).and_then(|request| self.evaluate(request));
            match (result, self.format) {
                (Ok(record), Format::Json) => self.out.line(signal::json(&signal::wire(&record)))?,
                (Ok(record), Format::Table) => {
                    self.table.add_row(signal::row(&signal::wire(&record)));
                }
                (Err(error), format) => {
                    self.broken += 1;
                    match format {
                        Format::Json => self.out.line(json!({"line": number, "error": error}))?,
                        Format::Table => eprintln!("{}:{number}: {error}", path.display()),
                    }
                }
            }
        }
        Ok(())
    }

    /// Evaluates one request. What goes wrong is told without a word of the answers.
    fn evaluate(&mut self, request: wire::EvaluateRequest) -> Result<DriftRecord, String> {
        let DriftAsk { agent, finished, .. } = finished(request)?;
        let session = finished.session.clone();
        let finding = engine::evaluate(&self.spec, &self.redactor, finished).map_err(|e| e.to_string())?;
        let fresh = || SessionState::new(&session, self.spec.library.version());
        let state = self.sessions.entry(session.to_string()).or_insert_with(fresh);
        let settings = &self.spec.settings;
        let signal = match state.record(*finding, settings).map_err(|e| e.to_string())? {
            Recorded::Signal(signal) => signal,
            Recorded::Withheld => return Err("the answers could not be redacted".to_owned()),
        };
        self.evaluated += 1;
        let about = About {
            session,
            agent: Arc::from(agent),
            pack: self.reference.clone(),
            calibration: settings.calibration,
            evaluation: Arc::from(format!("evaluation-{}", self.evaluated)),
        };
        let report = state.report(settings).map_err(|e| e.to_string())?;
        Ok(DriftRecord::new(about, &signal, state.agreement, &report))
    }
}
