//! `probity client`: a thin gRPC client for trying a running server.

pub(super) mod drift;
mod observe;
mod reveal;
mod rules;
mod shadow;

use std::time::Duration;

use clap::Subcommand;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt;

use crate::config::DEFAULT_ADDRESS;

use super::{Exit, Failure, Format, Outcome};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Address of the server
    #[arg(long, global = true, env = "PROBITY_SERVER", default_value = DEFAULT_ADDRESS)]
    server: String,
    /// Form of the report
    #[arg(long, global = true, value_enum, default_value_t)]
    format: Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Send messages or episodes and print how they are judged
    Observe(observe::Args),
    /// Send finished answers to probes and print what they say
    Evaluate(drift::EvaluateArgs),
    /// Run probes with a scripted model
    Probe(drift::ProbeArgs),
    /// Print what a session's probes found
    Report(drift::ReportArgs),
    /// Print drift signals that somebody should look at, as they come
    Watch(drift::WatchArgs),
    /// Print the answers that a record keeps encrypted; that you did is recorded
    Reveal(reveal::Args),
    /// Print what is served, and how the last load of rules went
    Status,
    /// Make the server load its rules anew
    Reload,
    /// Print what a candidate beside the rules would answer in another way
    Shadow(shadow::Args),
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::environment)?;
    runtime.block_on(async {
        let channel = connect(&args.server).await?;
        let format = args.format;
        match args.command {
            Command::Observe(observe) => observe::run(channel, observe, args.format).await,
            Command::Evaluate(args) => drift::evaluate(channel, args, format).await,
            Command::Probe(args) => drift::probe(channel, args, format).await,
            Command::Report(args) => drift::report(channel, args, format).await,
            Command::Watch(args) => drift::watch(channel, args, format).await,
            Command::Reveal(args) => reveal::run(channel, args, format).await,
            Command::Status => rules::status(channel, args.format).await,
            Command::Reload => rules::reload(channel, args.format).await,
            Command::Shadow(args) => shadow::run(channel, args, format).await,
        }
    })
}

/// Connects to a server.
pub(super) async fn connect(server: &str) -> Result<Channel, Failure> {
    let uri = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let endpoint = Endpoint::from_shared(uri)
        .map_err(|e| Failure::bad_input(format!("`{server}` is no address: {e}")))?
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true);
    endpoint.connect().await.map_err(|e| Failure::environment(format!("no server at {server}: {}", root_cause(&e))))
}

fn root_cause(e: &dyn std::error::Error) -> String {
    let mut cause = e;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// A refused call as a failure of the command.
pub(super) fn refused(status: Status) -> Failure {
    let details = status.get_error_details();
    let mut message = format!("{:?}: {}", status.code(), status.message());
    let fields = details.bad_request().map(|b| b.field_violations.as_slice()).unwrap_or_default();
    if fields.len() > 1 {
        for field in fields {
            message.push_str(&format!("\n  {}: {}", field.field, field.description));
        }
    }
    let conditions = details.precondition_failure().map(|p| p.violations.as_slice()).unwrap_or_default();
    for condition in conditions {
        message.push_str(&format!("\n  {}: {} [{}]", condition.subject, condition.description, condition.r#type));
    }
    let exit = match status.code() {
        Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition | Code::AlreadyExists | Code::OutOfRange => {
            Exit::BadInput
        }
        _ => Exit::Environment,
    };
    Failure { exit, message }
}
