//! The command line: one file per command, each with its arguments and a `run` that says how it
//! went. A new command is its file and two lines here.

mod client;
mod config;
mod serve;
mod settings;

use std::{fmt, process::ExitCode};

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
    pub fn bad_input(message: impl fmt::Display) -> Failure {
        Failure { exit: Exit::BadInput, message: message.to_string() }
    }

    /// The environment failed.
    pub fn environment(message: impl fmt::Display) -> Failure {
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
    /// Serve rule packs over gRPC
    Serve(serve::Args),
    /// Try a running server
    Client(client::Args),
    /// Show settings
    Config(config::Args),
}

/// Runs the command of the process's arguments.
pub fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Client(args) => client::run(args),
        Command::Config(args) => config::run(args),
    };
    let exit = outcome.unwrap_or_else(|failure| {
        eprintln!("error: {}", failure.message);
        failure.exit
    });
    ExitCode::from(exit as u8)
}
