//! `probity init`: the skeleton of a rule pack, with policies that work, tests that pass and settings for
//! editors. Nothing that exists is written over.

use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use super::{Exit, Failure, Outcome, output::Output};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the new pack, such as rules/my_agent; its last part is the pack's name
    folder: PathBuf,
}

/// The files of the skeleton. `NAME` stands for the pack's name in its manifest.
const FILES: &[(&str, &str)] = &[
    ("pack.yaml", include_str!("init/pack.yaml")),
    ("keywords.yaml", include_str!("init/keywords.yaml")),
    ("reward.yaml", include_str!("init/reward.yaml")),
    ("policies/main.policy", include_str!("init/main.policy")),
    ("tests/main.yaml", include_str!("init/main.yaml")),
    (".editorconfig", include_str!("init/editorconfig")),
    (".vscode/settings.json", include_str!("init/vscode.json")),
];

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let folder = &args.folder;
    let name = pack_name(folder)?;
    if let Some((path, _)) = FILES.iter().find(|(path, _)| folder.join(path).exists()) {
        return Err(Failure::bad_input(format!("{} exists: nothing was written", folder.join(path).display())));
    }
    for (path, text) in FILES {
        write(&folder.join(path), &text.replace("NAME", name))?;
    }
    let mut out = Output::new();
    out.line(format_args!("{} holds the pack {name}; next:", folder.display()))?;
    let shown = folder.display();
    for (command, what) in [
        (format!("probity check {shown}"), "what is wrong with it"),
        (format!("probity test {shown}"), "its own tests"),
        (format!("probity explain {shown} ASK"), "what a policy means and costs"),
    ] {
        out.line(format_args!("  {command:<width$}  {what}", width = 24 + shown.to_string().len()))?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}

/// The last part of the folder, if that can be the name of a pack.
fn pack_name(folder: &Path) -> Result<&str, Failure> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
        && name.len() <= 64;
    if fits {
        Ok(name)
    } else {
        Err(Failure::bad_input(format!(
            "{}: the folder's name becomes the pack's: letters, digits, `_` and `-`, with a letter first, at most 64",
            folder.display()
        )))
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |e: std::io::Error| match e.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => Failure::bad_input(format!("{}: {e}", path.display())),
        _ => Failure::environment(format!("{}: {e}", path.display())),
    };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    // Also where two of these run at once, neither writes over the other's file.
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
