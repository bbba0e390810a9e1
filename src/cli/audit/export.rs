//! `probity audit export`.

use crate::{
    cli::{Exit, Outcome, client::refused, output::Output},
    grpc::wire::ExportRequest,
    service::{begin_export, export_part},
};

use super::{Opened, Place, store_failed};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Begin with this record; without it, with the first that is held
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    from: u64,
}

/// Runs the command.
pub async fn run(args: Args) -> Outcome {
    let mut out = Output::new();
    match args.place.open().await? {
        Opened::Store(store) => {
            let mut from = Some(begin_export(&store, args.from).map_err(store_failed)?);
            while let Some(at) = from {
                let (lines, next) = export_part(&store, at).map_err(store_failed)?;
                lines.iter().try_for_each(|line| out.line(line))?;
                from = next;
            }
        }
        Opened::Server(mut server) => {
            let mut parts =
                server.export(ExportRequest { first_record: args.from }).await.map_err(refused)?.into_inner();
            while let Some(part) = parts.message().await.map_err(refused)? {
                part.lines.iter().try_for_each(|line| out.line(line))?;
            }
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}
