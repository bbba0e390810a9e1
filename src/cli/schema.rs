//! `probity schema`: JSON Schemas of a pack's YAML files, for editors.

use std::{fs, path::PathBuf};

use crate::pack::FileKind;

use super::{Exit, Failure, Outcome, output::Output};

/// Arguments.
#[derive(clap::Args)]
#[command(
    after_help = "A YAML file names its schema in its first line, and the YAML language server of an editor reads \
                        it there:\n    # yaml-language-server: $schema=../../schema/pack.schema.json"
)]
pub struct Args {
    /// Kind of file: pack, keywords, reward, redaction, tools, probes, scoring or tests; without one, the kinds
    #[arg(value_parser = kind, conflicts_with = "out")]
    kind: Option<FileKind>,
    /// Write all schemas into this folder, as KIND.schema.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn kind(word: &str) -> Result<FileKind, String> {
    let known = || FileKind::ALL.map(FileKind::word).join(", ");
    FileKind::from_word(word).ok_or_else(|| format!("there is {}", known()))
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let mut out = Output::new();
    match (args.kind, args.out) {
        (Some(kind), _) => out.line(text(kind))?,
        (None, None) => FileKind::ALL.iter().try_for_each(|kind| out.line(kind.word()))?,
        (None, Some(folder)) => {
            let failed = |e: std::io::Error| Failure::environment(format!("{}: {e}", folder.display()));
            fs::create_dir_all(&folder).map_err(failed)?;
            for kind in FileKind::ALL {
                let path = folder.join(format!("{}.schema.json", kind.word()));
                fs::write(&path, format!("{}\n", text(kind))).map_err(failed)?;
                out.line(path.display())?;
            }
        }
    }
    out.flush()?;
    Ok(Exit::Fine)
}

fn text(kind: FileKind) -> String {
    // Text, numbers and lists: nothing that JSON cannot hold.
    serde_json::to_string_pretty(&kind.schema()).unwrap_or_default()
}
