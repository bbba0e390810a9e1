//! `probity audit`: looks after what is stored, in the folder of a stopped server or over gRPC in a running one.

mod export;
mod rebuild;
mod stats;
mod verify;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use tonic::transport::Channel;

use crate::{
    audit::{SledStore, StoreError, Tidied},
    grpc::wire::{ErasePayloadsRequest, PruneRequest, audit_client::AuditClient},
    service::{erase_in, prune_in, read_or_make_checkpoint_key},
};

use super::{
    Exit, Failure, Format, Outcome,
    client::{connect, refused},
    output::Output,
};

/// Page cache of a store that is opened for one command.
const CACHE_BYTES: u64 = 64 << 20;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Form of the report
    #[arg(long, global = true, value_enum, default_value_t)]
    format: Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find out whether records were changed, removed or cut off
    Verify(verify::Args),
    /// Write the records as lines of JSON
    Export(export::Args),
    /// Print how often each policy of a pack hit
    Stats(stats::Args),
    /// Drop the oldest records; the chain of the others still verifies
    Prune(PruneArgs),
    /// Erase what the records of a session carry, such as answers to probes; the chain still verifies
    Erase(EraseArgs),
    /// Print the public key of the key that signs checkpoints; makes that key if the file is not there
    Key(KeyArgs),
    /// Make a store anew from an export
    Rebuild(rebuild::Args),
    /// Write the store of a stopped server anew, so that it takes no more room than it needs
    Compact(StoppedArgs),
    /// Set a damaged store aside, whole, so that another can be made in its place
    SetAside(StoppedArgs),
}

/// Where the records are.
#[derive(clap::Args)]
struct Place {
    /// Folder of the store of a stopped server
    #[arg(long, value_name = "DIR", env = "PROBITY_DATA", default_value = "probity-data", conflicts_with = "server")]
    data: PathBuf,
    /// Address of a running server
    #[arg(long)]
    server: Option<String>,
}

/// A place that was opened.
enum Opened {
    Store(SledStore),
    Server(AuditClient<Channel>),
}

impl Place {
    async fn open(&self) -> Result<Opened, Failure> {
        match &self.server {
            Some(server) => Ok(Opened::Server(AuditClient::new(connect(server).await?))),
            None => Ok(Opened::Store(open(&self.data)?)),
        }
    }
}

/// Opens the store in a folder, which must hold one.
fn open(folder: &Path) -> Result<SledStore, Failure> {
    // Opening makes a store where there is none; here that would be a slip of the pen.
    if !SledStore::is_in(folder) {
        return Err(no_store(folder));
    }
    SledStore::open(folder, CACHE_BYTES).map_err(|e| match e {
        StoreError::Locked { .. } => {
            Failure::environment(format!("{e}: stop the server, or name its address with --server"))
        }
        other => store_failed(other),
    })
}

fn no_store(folder: &Path) -> Failure {
    Failure::bad_input(format!("there is no audit store in {}", folder.display()))
}

/// A store that fails is the environment's fault; one that is damaged is an answer.
fn store_failed(e: StoreError) -> Failure {
    match e {
        damage if damage.is_damage() => Failure { exit: Exit::No, message: damage.to_string() },
        other => Failure::environment(other),
    }
}

#[derive(clap::Args)]
struct PruneArgs {
    #[command(flatten)]
    place: Place,
    /// The first record to keep
    #[arg(long, value_name = "NUMBER")]
    before: u64,
}

#[derive(clap::Args)]
struct EraseArgs {
    #[command(flatten)]
    place: Place,
    /// The session
    #[arg(long)]
    session: String,
}

#[derive(clap::Args)]
struct StoppedArgs {
    /// Folder of the store of a stopped server
    #[arg(long, value_name = "DIR", env = "PROBITY_DATA", default_value = "probity-data")]
    data: PathBuf,
}

#[derive(clap::Args)]
struct KeyArgs {
    /// The file of the secret key, as --audit-checkpoint-key-file names it
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::environment)?;
    let format = args.format;
    runtime.block_on(async {
        match args.command {
            Command::Verify(args) => verify::run(args, format).await,
            Command::Export(args) => export::run(args).await,
            Command::Stats(args) => stats::run(args, format).await,
            Command::Prune(args) => prune(args, format).await,
            Command::Erase(args) => erase(args, format).await,
            Command::Key(args) => key(&args, format),
            Command::Rebuild(args) => rebuild::run(&args, format),
            Command::Compact(args) => compact(&args, format),
            Command::SetAside(args) => set_aside(&args, format),
        }
    })
}

async fn prune(args: PruneArgs, format: Format) -> Outcome {
    let first = match args.place.open().await? {
        Opened::Store(store) => prune_in(&store, args.before).map_err(store_failed)?,
        Opened::Server(mut server) => {
            let ask = PruneRequest { first_kept_record: args.before, request_id: String::new() };
            server.prune(ask).await.map_err(refused)?.into_inner().first_record
        }
    };
    say(format, &format!("the records now begin with {first}"), &serde_json::json!({ "first_record": first }))
}

async fn erase(args: EraseArgs, format: Format) -> Outcome {
    let record = match args.place.open().await? {
        Opened::Store(store) => erase_in(&store, &args.session).map_err(store_failed)?,
        Opened::Server(mut server) => {
            let ask = ErasePayloadsRequest { session_id: args.session, request_id: String::new() };
            server.erase_payloads(ask).await.map_err(refused)?.into_inner().record
        }
    };
    say(format, &format!("erased; record {record} says so"), &serde_json::json!({ "record": record }))
}

fn key(args: &KeyArgs, format: Format) -> Outcome {
    let key = read_or_make_checkpoint_key(&args.file).map_err(Failure::bad_input)?;
    let public = data_encoding::HEXLOWER.encode(&key.public());
    say(format, &public, &serde_json::json!({ "public_key": public }))
}

fn compact(args: &StoppedArgs, format: Format) -> Outcome {
    let Tidied { before, after } = open(&args.data)?.compact().map_err(store_failed)?;
    let json = serde_json::json!({ "bytes_before": before, "bytes_after": after });
    say(format, &format!("{before} bytes before, {after} now"), &json)
}

fn set_aside(args: &StoppedArgs, format: Format) -> Outcome {
    if !SledStore::is_in(&args.data) {
        return Err(no_store(&args.data));
    }
    let folder = SledStore::set_aside(&args.data).map_err(store_failed)?;
    let folder = folder.display();
    say(format, &format!("the store is in {folder}"), &serde_json::json!({ "folder": folder.to_string() }))
}

/// Prints one result.
fn say(format: Format, text: &str, json: &serde_json::Value) -> Outcome {
    let mut out = Output::new();
    match format {
        Format::Table => out.line(text)?,
        Format::Json => out.line(json)?,
    }
    out.flush()?;
    Ok(Exit::Fine)
}
