//! Episodes of trace files, for commands that judge them without a server.

use std::path::{Path, PathBuf};

use crate::ingest::{Episode, Messages};

use super::{Failure, lines::Lines};

/// Gives every episode of some files, in order; `-` is standard input. Lines that are none are told on standard
/// error and counted.
pub fn each(files: &[PathBuf], mut judge: impl FnMut(&Episode)) -> Result<usize, Failure> {
    let mut broken = 0;
    for path in files {
        let refused = |e: std::io::Error| Failure::bad_input(format!("{}: {e}", path.display()));
        if path.is_dir() {
            let help = format!("give the files in it, such as {}/*.jsonl", path.display());
            return Err(Failure::bad_input(format!("{}: a folder; {help}", path.display())));
        }
        let mut lines = Lines::open(path).map_err(refused)?;
        while let Some((number, line)) = lines.next().map_err(refused)? {
            match Episode::from_line(number, line) {
                Ok(Episode { messages: Messages::NotAList, .. }) => {
                    eprintln!("{}:{number}: no `messages`: an episode a line, {{\"messages\": [...]}}", shown(path));
                    broken += 1;
                }
                Ok(episode) => judge(&episode),
                Err(e) => {
                    eprintln!("{}:{number}: {e}", shown(path));
                    broken += 1;
                }
            }
        }
    }
    Ok(broken)
}

fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" { "<stdin>".to_owned() } else { path.display().to_string() }
}
