//! `probity demo`: the real service on loopback, asked by recorded agents before each of their calls.

mod drift;
mod drive;
mod report;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use include_dir::{Dir, include_dir};
use tokio::runtime::Builder;

use crate::{
    config::Settings,
    grpc,
    ingest::{Episode, Messages},
    model::{Value, json},
};

use super::{Exit, Failure, Format, Outcome, client, output::Output, serve};

/// The rules of this project, for a program that runs far from its sources.
static RULES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/rules");
/// Recorded conversations; where they come from stands beside them.
const RECORDED: &str = include_str!("../../examples/traces/airline.jsonl");
const MADE_UP: &str = include_str!("../../examples/traces/made-up.jsonl");
/// The pack that judges them.
const PACK: &str = "airline";

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of rule packs [default: ./rules if it holds the airline pack, else a built-in copy]
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A conversation to be judged.
struct Conversation {
    id: String,
    recorded: bool,
    /// What the benchmark that it comes from paid for it.
    task_reward: Option<String>,
    messages: Vec<Value>,
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let scratch = tempfile::Builder::new().prefix("probity-demo-").tempdir().map_err(Failure::environment)?;
    let rules = rules(args.rules, scratch.path())?;
    let mut settings = Settings::defaults();
    settings.rules = rules.folder.into();
    settings.data = scratch.path().join("data");
    settings.listen.set_port(0);
    let conversations = conversations()?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Failure::environment)?;
    let outcome = runtime.block_on(async {
        let running = grpc::start(&settings).await.map_err(serve::failure)?;
        let address = running.address();
        let channel = client::connect(&address.to_string()).await?;
        let driven = drive::all(channel.clone(), PACK, &conversations).await;
        let drift = drift::session(channel).await;
        let ended = running.shut_down().await;
        let told = report::Story {
            address,
            rules: rules.shown,
            conversations: &conversations,
            driven: driven?,
            drift: drift?,
        };
        let mut out = Output::new();
        match args.format {
            Format::Table => told.text(&mut out)?,
            Format::Json => out.line(told.json())?,
        }
        out.flush()?;
        if ended.kept { Ok(Exit::Fine) } else { Err(Failure::environment("the store could not keep everything")) }
    });
    runtime.shutdown_background();
    outcome
}

/// Where the rules are, and how that is told.
struct Rules {
    folder: PathBuf,
    shown: String,
}

fn rules(given: Option<PathBuf>, scratch: &Path) -> Result<Rules, Failure> {
    let here = Path::new("rules");
    if let Some(folder) = given.or_else(|| here.join(PACK).join("pack.yaml").exists().then(|| here.to_owned())) {
        let shown = folder.display().to_string();
        return Ok(Rules { folder, shown });
    }
    let folder = scratch.join("rules");
    let extracted: io::Result<()> = fs::create_dir(&folder).and_then(|()| RULES.extract(&folder));
    extracted.map_err(Failure::environment)?;
    Ok(Rules { folder, shown: "a built-in copy".to_owned() })
}

fn conversations() -> Result<Vec<Conversation>, Failure> {
    let recorded = RECORDED.lines().map(|line| (line, true));
    let all = recorded.chain(MADE_UP.lines().map(|line| (line, false)));
    all.map(|(line, recorded)| {
        let episode = Episode::from_line(1, line.as_bytes()).map_err(Failure::bad_input)?;
        let task_reward = json::parse(line.as_bytes()).ok().and_then(|v| v.get("task_reward").map(Value::to_string));
        let messages = match episode.messages {
            Messages::List(messages) => messages.to_vec(),
            Messages::NotAList => Vec::new(),
        };
        Ok(Conversation { id: episode.id, recorded, task_reward, messages })
    })
    .collect()
}
