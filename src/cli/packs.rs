//! Packs by path or by name, for commands that work on rules without a server.

use std::{io, path::Path, sync::Arc};

use crate::{
    diag::suggest,
    engine::{Loaded, Pack, load_pack, load_rules},
};

use super::{Failure, output};

/// Loads the pack in a folder, or all packs of a folder of packs.
pub fn load(path: &Path) -> Result<Loaded<Vec<Arc<Pack>>>, Failure> {
    match path.metadata() {
        Err(e) => return Err(Failure::bad_input(format!("{}: {e}", path.display()))),
        Ok(meta) if !meta.is_dir() => {
            let help = "give the folder of a pack, or a folder of packs";
            return Err(Failure::bad_input(format!("{}: not a folder; {help}", path.display())));
        }
        Ok(_) => {}
    }
    Ok(if is_pack(path) {
        let Loaded { result, diagnostics, sources } = load_pack(path);
        Loaded { result: result.map(|pack| vec![pack]), diagnostics, sources }
    } else {
        let Loaded { result, diagnostics, sources } = load_rules(path);
        Loaded { result: result.map(|set| set.iter().cloned().collect()), diagnostics, sources }
    })
}

/// A folder with a manifest is a pack, and so is one that has only lost it.
fn is_pack(path: &Path) -> bool {
    path.join("pack.yaml").exists() || path.join("policies").is_dir()
}

/// Loads packs that must be usable: their errors go to standard error and end the command.
pub fn usable(path: &Path) -> Result<Vec<Arc<Pack>>, Failure> {
    let loaded = load(path)?;
    match loaded.result {
        Some(packs) => Ok(packs),
        None => {
            eprint!("{}", loaded.diagnostics.render(&loaded.sources, output::style(&io::stderr())));
            let (errors, _) = loaded.diagnostics.counts();
            let errors = output::counted(errors, "error", "errors");
            Err(Failure::bad_input(format!("{}: the rules have {errors} and cannot be used", path.display())))
        }
    }
}

/// The pack of a name in a rules folder; without a name the only one there is.
pub fn select(rules: &Path, name: Option<&str>) -> Result<Arc<Pack>, Failure> {
    let packs = usable(rules)?;
    let names: Vec<&str> = packs.iter().map(|p| p.name().as_ref()).collect();
    let found = match (name, packs.as_slice()) {
        (Some(name), packs) => packs.iter().find(|p| p.name().as_ref() == name),
        (None, [only]) => Some(only),
        (None, _) => {
            let all = names.join(", ");
            return Err(Failure::bad_input(format!("{} holds several packs ({all}): say which", rules.display())));
        }
    };
    found.cloned().ok_or_else(|| {
        let name = name.unwrap_or_default();
        let help = match suggest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there is {}", names.join(", ")),
        };
        Failure::bad_input(format!("{} holds no pack `{name}`; {help}", rules.display()))
    })
}
