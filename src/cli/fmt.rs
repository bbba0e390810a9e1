//! `probity fmt`: the canonical layout of `.policy` files.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    diag::{Record, Sources},
    lang::{FormatError, format_policies},
};

use super::{
    Exit, Failure, Format, Outcome,
    output::{self, Output, counted},
};

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "Comments stay, and so does the meaning: a file that cannot be read is left as it is. \
                        The YAML files of a pack have no canonical layout and are left alone.")]
pub struct Args {
    /// Files, or folders with `.policy` files in them or below; `-` reads standard input and writes standard output
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Change nothing: name the files whose layout is another one, and end with 1 if there are any
    #[arg(long)]
    check: bool,
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The report.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// How many files were looked at.
    files: usize,
    /// Those whose layout was another one.
    changed: Vec<String>,
    /// Those that cannot be read.
    refused: Vec<String>,
    /// Why.
    diagnostics: Vec<Record>,
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    if args.paths.iter().any(|path| path.as_os_str() == "-") {
        return standard_input(&args);
    }
    let mut files = Vec::new();
    for path in &args.paths {
        find(path, true, &mut files)?;
    }
    files.sort();
    files.dedup();
    let mut report = Report { files: files.len(), ..Report::default() };
    for file in files {
        let name = file.display().to_string();
        let text = fs::read_to_string(&file).map_err(|e| Failure::bad_input(format!("{name}: {e}")))?;
        let Some(formatted) = formatted(&name, &text, args.format, &mut report)? else { continue };
        if formatted == text {
            continue;
        }
        if !args.check {
            replace(&file, &formatted).map_err(|e| Failure::environment(format!("{name}: {e}")))?;
        }
        report.changed.push(name);
    }
    finish(&report, &args)
}

fn finish(report: &Report, args: &Args) -> Outcome {
    let mut out = Output::new();
    match args.format {
        Format::Json => out.line(serde_json::json!(report))?,
        Format::Table => {
            let word = if args.check { "not formatted" } else { "formatted" };
            for name in &report.changed {
                out.line(format_args!("{word}: {name}"))?;
            }
            let files = counted(report.files, "file", "files");
            out.line(format_args!("{files}, {} {word}", report.changed.len()))?;
        }
    }
    out.flush()?;
    Ok(match (report.refused.is_empty(), args.check && !report.changed.is_empty()) {
        (false, _) => Exit::BadInput,
        (true, true) => Exit::No,
        (true, false) => Exit::Fine,
    })
}

/// From standard input to standard output; nothing is written if it cannot be read.
fn standard_input(args: &Args) -> Outcome {
    if args.paths.len() > 1 {
        return Err(Failure::bad_input("`-` stands alone: standard input is one file"));
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(|e| Failure::bad_input(format!("standard input: {e}")))?;
    let name = "standard input";
    let mut report = Report { files: 1, ..Report::default() };
    let formatted = formatted(name, &text, args.format, &mut report)?;
    if let (Some(formatted), false) = (&formatted, args.check) {
        let mut out = Output::new();
        out.text(formatted)?;
        out.flush()?;
        return Ok(Exit::Fine);
    }
    if !args.check && args.format == Format::Table {
        return Ok(Exit::BadInput);
    }
    report.changed.extend(formatted.filter(|formatted| *formatted != text).map(|_| name.to_owned()));
    finish(&report, args)
}

/// The canonical layout of a text; `None` if it cannot be read, which the report then says.
fn formatted(name: &str, text: &str, format: Format, report: &mut Report) -> Result<Option<String>, Failure> {
    let mut sources = Sources::new();
    let file = sources.add(name, text);
    match format_policies(file, text) {
        Ok(formatted) => return Ok(Some(formatted)),
        Err(FormatError::Differs) => return Err(Failure::environment(format!("{name}: {}", FormatError::Differs))),
        Err(FormatError::Broken(problems)) => match format {
            Format::Json => report.diagnostics.extend(problems.records(&sources)),
            Format::Table => eprint!("{}", problems.render(&sources, output::style(&io::stderr()))),
        },
    }
    report.refused.push(name.to_owned());
    Ok(None)
}

/// The `.policy` files of a folder and of those below it; hidden folders and links to folders are left out.
fn find(path: &Path, named: bool, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let failed = |e: io::Error| Failure::bad_input(format!("{}: {e}", path.display()));
    let is_policy = path.extension().is_some_and(|extension| extension == "policy");
    let kind = if named { fs::metadata(path) } else { fs::symlink_metadata(path) }.map_err(failed)?.file_type();
    if kind.is_dir() {
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !entry.file_name().as_encoded_bytes().starts_with(b".") {
                find(&entry.path(), false, files)?;
            }
        }
    } else if is_policy && (named || kind.is_file()) {
        files.push(path.to_owned());
    } else if named {
        let help = "only `.policy` files have a canonical layout";
        return Err(Failure::bad_input(format!("{}: {help}", path.display())));
    }
    Ok(())
}

/// Puts a text in the place of a file: a reader sees the old one or the new one, whatever happens.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    // Through a link, the file that it names is replaced, not the link.
    let path = path.canonicalize()?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(fs::metadata(&path)?.permissions())?;
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(())
}
