//! `probity replay`: finished traces through the same engine as the server, line by line.

mod report;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    engine::{Pack, run_episode},
    ingest::{Episode, LineError},
    reward::{JudgeTally, Metrics, MetricsTally},
};

use super::{Exit, Failure, Outcome, lines::Lines, output::Output, packs};
use report::{BrokenLine, EpisodeLine};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of rule packs
    #[arg(long, value_name = "DIR", env = "PROBITY_RULES", default_value = "rules")]
    rules: PathBuf,
    /// The pack that judges; may be left out if there is only one
    #[arg(long, value_name = "NAME")]
    pack: Option<String>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// Write the metrics to this file, as JSON
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// Also compare with the verdicts of judges that the episodes carry (with JSON lines: on standard error)
    #[arg(long)]
    rescore: bool,
    /// Policies whose hits are not new, for the diversity component of the reward
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    known_hits: Vec<String>,
    /// Exit with 1 if there is a violation
    #[arg(long)]
    fail_on_hit: bool,
    /// Files of traces, one episode a line; `-` is standard input
    #[arg(required = true, value_name = "TRACES")]
    traces: Vec<PathBuf>,
}

/// Form of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    #[default]
    Table,
    /// One JSON object an episode, in the order of the input
    #[value(alias = "json")]
    Jsonl,
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let pack = packs::select(&args.rules, args.pack.as_deref())?;
    let inputs = args.traces.iter().map(|path| Input::open(path)).collect::<Result<Vec<_>, _>>()?;
    // Before the work, so that a long run does not end in a file that cannot be written.
    let metrics_file = args.metrics.as_deref().map(|path| File::create(path).map_err(|e| at(path, &e))).transpose()?;
    let counted = pack.counted();
    let mut replay = Replay {
        form: args.format,
        several: inputs.len() > 1,
        progress: progress(&inputs),
        out: Output::new(),
        metrics: MetricsTally::new(&counted),
        judges: JudgeTally::new(&counted),
        broken: 0,
        known: args.known_hits.into_iter().collect(),
        pack,
    };
    inputs.into_iter().try_for_each(|input| replay.input(input))?;
    replay.progress.finish_and_clear();
    let mut figures = replay.metrics.finish();
    figures.judge = replay.judges.finish(&figures);
    if let (Some(file), Some(path)) = (metrics_file, &args.metrics) {
        write(file, &figures).map_err(|e| at(path, &e))?;
    }
    let mut out = replay.out;
    match args.format {
        Form::Table => {
            report::summary(&replay.pack, &figures, &mut out)?;
            if args.rescore {
                out.text(report::judges(&figures))?;
            }
        }
        Form::Jsonl if args.rescore => eprint!("{}", report::judges(&figures)),
        Form::Jsonl => {}
    }
    out.flush()?;
    Ok(if replay.broken > 0 {
        Exit::BadInput
    } else if args.fail_on_hit && figures.raw_hits > 0 {
        Exit::No
    } else {
        Exit::Fine
    })
}

/// What a run has gathered so far.
struct Replay {
    pack: Arc<Pack>,
    form: Form,
    several: bool,
    progress: ProgressBar,
    out: Output,
    metrics: MetricsTally,
    judges: JudgeTally,
    broken: u64,
    known: BTreeSet<String>,
}

impl Replay {
    fn input(&mut self, input: Input) -> Result<(), Failure> {
        let Input { name, mut lines, .. } = input;
        let unreadable = |e: io::Error| Failure::environment(format!("{name}: {e}"));
        while let Some((number, line)) = lines.next().map_err(unreadable)? {
            self.progress.inc(u64::try_from(line.len()).unwrap_or(0) + 1);
            match Episode::from_line(number, line) {
                Ok(episode) => self.episode(&episode, &name, number)?,
                Err(e) => self.broken(&name, number, &e)?,
            }
        }
        Ok(())
    }

    fn episode(&mut self, episode: &Episode, name: &str, number: u64) -> Result<(), Failure> {
        for fault in &episode.judge_faults {
            self.progress.suspend(|| eprintln!("{name}:{number}: {fault}; left out"));
        }
        let outcome = run_episode(&self.pack, episode);
        let figures = outcome.figures();
        self.metrics.add(&figures);
        self.judges.add(&figures, &outcome.judge);
        match self.form {
            Form::Jsonl => self.out.line(EpisodeLine::of(&self.pack, &outcome, &self.known).json()),
            Form::Table => report::episode(&self.pack, &outcome, &self.known, &mut self.out),
        }
    }

    fn broken(&mut self, name: &str, number: u64, error: &LineError) -> Result<(), Failure> {
        self.broken += 1;
        match self.form {
            Form::Jsonl => {
                let file = self.several.then(|| name.to_owned());
                self.out.line(BrokenLine { file, line: number, error: error.to_string() }.json())
            }
            Form::Table => {
                self.progress.suspend(|| eprintln!("{name}:{number}: {error}"));
                Ok(())
            }
        }
    }
}

fn write(file: File, figures: &Metrics) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    serde_json::to_writer_pretty(&mut file, figures)?;
    file.write_all(b"\n")?;
    file.flush()
}

fn at(path: &Path, e: &io::Error) -> Failure {
    Failure::environment(format!("{}: {e}", path.display()))
}

/// An opened file of traces.
struct Input {
    name: String,
    lines: Lines,
    /// Its size, where that is known.
    bytes: Option<u64>,
}

impl Input {
    fn open(path: &Path) -> Result<Input, Failure> {
        if path.as_os_str() == "-" {
            let lines = Lines::new(Box::new(io::stdin()));
            return Ok(Input { name: "<stdin>".to_owned(), lines, bytes: None });
        }
        let name = path.display().to_string();
        let refused = |e: io::Error| Failure::bad_input(format!("{}: {e}", path.display()));
        let meta = fs::metadata(path).map_err(refused)?;
        if meta.is_dir() {
            return Err(Failure::bad_input(format!("{name}: a folder; give the files in it, such as {name}/*.jsonl")));
        }
        let file = File::open(path).map_err(refused)?;
        Ok(Input { name, lines: Lines::new(Box::new(file)), bytes: meta.is_file().then_some(meta.len()) })
    }
}

/// A bar on a terminal, nothing anywhere else; nor where the report itself goes to the terminal.
fn progress(inputs: &[Input]) -> ProgressBar {
    if !io::stderr().is_terminal() || io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    let total: Option<u64> = inputs.iter().map(|i| i.bytes).sum();
    match total {
        Some(total) => {
            let bar = ProgressBar::new(total);
            // The template is fixed, and a bar without one still works.
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent}%  {bytes_per_sec}  {eta} left") {
                bar.set_style(style);
            }
            bar
        }
        None => ProgressBar::new_spinner(),
    }
}
