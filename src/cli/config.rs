//! `probity config show`: each setting of the server, and where its value comes from.

use clap::Subcommand;
use comfy_table::{Table, presets};
use serde_json::json;

use crate::config::{Config, Origin, SETTINGS};

use super::{
    Exit, Format, Outcome,
    output::{Output, plain},
    settings::SettingFlags,
};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print each setting's value and where it came from
    Show(Show),
}

#[derive(clap::Args)]
struct Show {
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    flags: SettingFlags,
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let Command::Show(show) = args.command;
    let config = show.flags.load()?;
    let mut out = Output::new();
    out.text(report(&config, show.format))?;
    out.flush()?;
    Ok(Exit::Fine)
}

fn report(config: &Config, format: Format) -> String {
    match format {
        Format::Json => {
            let settings: Vec<_> = config
                .origins
                .iter()
                .map(|(key, value, origin)| json!({"setting": key, "value": value, "origin": origin_text(key, origin)}))
                .collect();
            format!("{}\n", json!(settings))
        }
        Format::Table => {
            let mut table = Table::new();
            table.load_style(presets::NOTHING).set_header(["SETTING", "VALUE", "FROM"]);
            for (key, value, origin) in &config.origins {
                table.add_row([(*key).to_owned(), value.clone(), origin_text(key, origin)]);
            }
            plain(&table)
        }
    }
}

fn origin_text(key: &str, origin: &Origin) -> String {
    match origin {
        Origin::Flag => format!("flag --{key}"),
        Origin::Environment => {
            let variable = SETTINGS.iter().find(|s| s.key == key).map(|s| s.variable()).unwrap_or_default();
            format!("environment {variable}")
        }
        Origin::File(path) => format!("file {}", path.display()),
        Origin::Default => "default".to_owned(),
    }
}
