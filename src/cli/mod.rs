//! The command line: one file per command, each with its arguments and a `run` that says how it
//! went. A new command is its file and two lines here.

mod audit;
mod check;
mod client;
mod config;
mod demo;
mod diff;
mod episodes;
mod evaluate;
mod explain;
mod fmt;
mod init;
mod lines;
mod output;
mod packs;
mod redact;
mod replay;
mod schema;
mod serve;
mod settings;
mod sign;
mod signal;
mod test;

use std::{fmt::Display, process::ExitCode};

use clap::{Parser, Subcommand, ValueEnum};

/// How a command went, as scripts see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Fine.
    Fine = 0,
    /// The answer is no: errors found, violations, failing tests.
    No = 1,
    /// Bad usage or input.
    BadInput = 2,
    /// The environment failed: port, disk, network.
    Environment = 3,
}

/// Why a command did not do its work.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    /// For people.
    pub message: String,
}

impl Failure {
    /// Bad usage or input.
    pub fn bad_input(message: impl Display) -> Failure {
        Failure { exit: Exit::BadInput, message: message.to_string() }
    }

    /// The environment failed.
    pub fn environment(message: impl Display) -> Failure {
        Failure { exit: Exit::Environment, message: message.to_string() }
    }
}

/// How a command goes.
pub type Outcome = Result<Exit, Failure>;

/// Form of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs: JSON, one object a line where there are many.
    Json,
}

/// A policy engine for LLM agents.
#[derive(Parser)]
#[command(name = "probity", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Watch recorded agents being judged: the real service, in this process
    Demo(demo::Args),
    /// Find everything that is wrong with rule packs
    Check(check::Args),
    /// Run the packs' own tests
    Test(test::Args),
    /// Lay policies out in the one canonical way
    Fmt(fmt::Args),
    /// Judge finished traces
    Replay(replay::Args),
    /// Compare finished answers to probes
    Evaluate(evaluate::Args),
    /// Cut out of JSON lines what a pack says must not leave
    Redact(redact::Args),
    /// Say what a policy means and costs, and how it fared on a trace
    Explain(explain::Args),
    /// Say what differs between two versions of packs, and what that does to recorded traces
    Diff(diff::Args),
    /// Write the skeleton of a rule pack
    Init(init::Args),
    /// Sign rule packs, for servers that serve no others
    Sign(sign::Args),
    /// Print JSON Schemas of a pack's YAML files, for editors
    Schema(schema::Args),
    /// Serve rule packs over gRPC
    Serve(serve::Args),
    /// Try a running server
    Client(client::Args),
    /// Look after what is stored: verify, export, count, prune
    Audit(audit::Args),
    /// Show settings
    Config(config::Args),
}

/// Runs the command of the process's arguments.
pub fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Demo(args) => demo::run(args),
        Command::Check(args) => check::run(args),
        Command::Test(args) => test::run(args),
        Command::Fmt(args) => fmt::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Evaluate(args) => evaluate::run(args),
        Command::Redact(args) => redact::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Init(args) => init::run(args),
        Command::Sign(args) => sign::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Client(args) => client::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Config(args) => config::run(args),
    };
    let exit = outcome.unwrap_or_else(|failure| {
        if !failure.message.is_empty() {
            eprintln!("error: {}", failure.message);
        }
        failure.exit
    });
    ExitCode::from(exit as u8)
}
