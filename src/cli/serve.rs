//! `probity serve`: the service in the foreground, until SIGTERM or SIGINT. SIGHUP reloads the rules.

use std::{
    io::{self, Write},
    num::NonZero,
    sync::Arc,
};

use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{
    config::Settings,
    grpc::{self, StartError},
    scrape,
    service::{LoadError, Service},
    telemetry,
};

use super::{Exit, Failure, Outcome, settings::SettingFlags};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    flags: SettingFlags,
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let config = args.flags.load()?;
    let settings = config.settings;
    settings.check_exposure().map_err(Failure::bad_input)?;
    telemetry::init(settings.log_format, &settings.log).map_err(Failure::bad_input)?;
    for unknown in &config.unknown_variables {
        tracing::warn!(variable = unknown.name, "no setting has this name; did you mean {}?", unknown.near);
    }
    let runtime = runtime(settings.threads).map_err(Failure::environment)?;
    let outcome = runtime.block_on(serve(&settings));
    // A thread that hangs on a dead disk is left behind.
    runtime.shutdown_background();
    outcome
}

/// One thread without work stealing is the fastest where there are few cores.
fn runtime(threads: usize) -> io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    match threads {
        0 if cores > 2 => Builder::new_multi_thread().worker_threads(cores).enable_all().build(),
        0 | 1 => Builder::new_current_thread().enable_all().build(),
        threads => Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
    }
}

async fn serve(settings: &Settings) -> Outcome {
    // Asked for before anything else, so that an early signal is not lost.
    let mut term = signal(SignalKind::terminate()).map_err(Failure::environment)?;
    let mut int = signal(SignalKind::interrupt()).map_err(Failure::environment)?;
    let mut hup = signal(SignalKind::hangup()).map_err(Failure::environment)?;
    // A file that has reached its size limit is an error like a full disk, and no reason to die: with somebody who
    // listens, the kernel's signal does not end the process.
    let _too_large = file_too_large().map_err(Failure::environment)?;
    let figures = match settings.metrics_listen {
        Some(address) => Some(
            scrape::bind(address)
                .await
                .map_err(|e| Failure::environment(format!("cannot listen on {address} for figures: {e}")))?,
        ),
        None => None,
    };
    let running = grpc::start(settings).await.map_err(failure)?;
    if let Some(listener) = figures {
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "figures are at /metrics");
        }
        // It ends with the process: until then, how the end goes can be seen.
        scrape::serve(listener, running.service().clone());
    }
    // A server goes on without somebody who reads this.
    let _ = writeln!(io::stdout(), "probity is serving on {}", running.address());
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            _ = hup.recv() => reload(running.service()),
        }
    }
    let ended = running.shut_down().await;
    if ended.kept {
        Ok(Exit::Fine)
    } else {
        Err(Failure::environment("not everything that was judged could be stored"))
    }
}

/// Listens for the signal that a file has reached the limit of its size.
fn file_too_large() -> io::Result<Signal> {
    /// SIGXFSZ has this number on Linux, on macOS and on the BSDs.
    const SIGXFSZ: i32 = 25;
    signal(SignalKind::from_raw(SIGXFSZ))
}

fn reload(service: &Arc<Service>) {
    let service = service.clone();
    // How it went is in the log and in the status of the rules.
    tokio::spawn(async move { service.reload().await.is_ok() });
}

/// Why the server does not start, as a failure of the command.
pub(super) fn failure(e: StartError) -> Failure {
    match e {
        StartError::Rules(LoadError::Refused(load)) => {
            Failure::bad_input(format!("the rules cannot be served\n{}", load.rendered.trim_end()))
        }
        StartError::Store(damage) if damage.is_damage() => Failure::environment(format!(
            "{damage}\n`probity audit export` writes what can be read of it, `probity audit set-aside` makes room for \
             another, which `probity audit rebuild` makes from an export; or start with --audit-when-damaged set-aside"
        )),
        other => Failure::environment(other),
    }
}
