//! `probity audit stats`.

use comfy_table::{Table, presets};
use serde_json::json;

use crate::{
    audit::{Span, Store},
    cli::{
        Exit, Format, Outcome,
        client::refused,
        output::{Output, plain},
    },
    grpc::{
        stats,
        wire::{GetPolicyStatsRequest, PolicyStats, get_policy_stats_request},
    },
};

use super::{Opened, Place, store_failed};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// The pack
    #[arg(long)]
    pack: String,
    /// Only what was judged under this version of the pack
    #[arg(long, value_name = "VERSION", conflicts_with = "session")]
    version: Option<String>,
    /// Only this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

/// Runs the command.
pub async fn run(args: Args, format: Format) -> Outcome {
    let found: Vec<PolicyStats> = match args.place.open().await? {
        Opened::Store(store) => {
            let span = match (&args.version, &args.session) {
                (Some(version), _) => Span::Version(version.as_str().into()),
                (None, Some(session)) => Span::Session(session.as_str().into()),
                (None, None) => Span::AllTime,
            };
            store.tallies(&args.pack, &span).map_err(store_failed)?.into_iter().map(stats).collect()
        }
        Opened::Server(mut server) => {
            let span = args
                .version
                .map(get_policy_stats_request::Span::PackVersion)
                .or(args.session.map(get_policy_stats_request::Span::SessionId));
            let ask = GetPolicyStatsRequest { pack: args.pack, span };
            server.get_policy_stats(ask).await.map_err(refused)?.into_inner().stats
        }
    };
    let mut out = Output::new();
    match format {
        Format::Json => {
            for s in &found {
                out.line(json!({
                    "policy": s.policy, "hits": s.hits, "sessions_with_hits": s.sessions_with_hits,
                    "signals": s.signals, "undecided": s.undecided, "violation_reward": s.violation_reward,
                    "last_hit": s.last_hit_time.as_ref().map(ToString::to_string),
                }))?;
            }
        }
        Format::Table => {
            let mut table = Table::new();
            let header = ["POLICY", "HITS", "SESSIONS", "SIGNALS", "UNDECIDED", "REWARD", "LAST HIT"];
            table.load_style(presets::NOTHING).set_header(header);
            for s in &found {
                table.add_row([
                    s.policy.clone(),
                    s.hits.to_string(),
                    s.sessions_with_hits.to_string(),
                    s.signals.to_string(),
                    s.undecided.to_string(),
                    s.violation_reward.to_string(),
                    s.last_hit_time.as_ref().map(ToString::to_string).unwrap_or_default(),
                ]);
            }
            out.text(plain(&table))?;
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}
