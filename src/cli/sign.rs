//! `probity sign`: says that packs may serve, in a file of each pack's folder.

use std::{fs, path::PathBuf};

use data_encoding::HEXLOWER;

use crate::{pack::SIGNATURE_FILE, service::read_pack_key};

use super::{Exit, Failure, Outcome, output::Output, packs};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// File with the Ed25519 secret key, 64 hexadecimal digits; `probity audit key FILE` makes one
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    /// Folders of packs, or folders that hold several
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let key = read_pack_key(&args.key_file).map_err(Failure::bad_input)?;
    let mut all = Vec::new();
    for path in &args.paths {
        all.extend(packs::usable(path)?);
    }
    let mut out = Output::new();
    for pack in all {
        let signature = key.sign(pack.digest(), pack.version());
        let path = pack.root().join(SIGNATURE_FILE);
        fs::write(&path, signature.to_text()).map_err(|e| Failure::environment(format!("{}: {e}", path.display())))?;
        out.line(format_args!("{} {}  digest {}", pack.name(), pack.version(), pack.digest()))?;
    }
    out.line(format_args!("signed with the public key {}", HEXLOWER.encode(&key.public())))?;
    out.flush()?;
    Ok(Exit::Fine)
}
