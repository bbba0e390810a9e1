//! Packs by path or by name, for commands that work on rules without a server.

use std::{
    collections::BTreeMap,
    fmt::Display,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    diag::suggest,
    engine::{Loaded, Pack, RuleSet, load_pack, load_pack_files, load_rules},
    model::PackQuery,
    pack::read_folder,
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

/// Loads the packs of a version: a folder, or `git:REF:PATH` for one as it was at a commit. Without a path it is
/// `folder`. They must be usable.
pub fn version(which: &str, folder: Option<&Path>) -> Result<Vec<Arc<Pack>>, Failure> {
    let Some(at) = which.strip_prefix("git:") else { return usable(Path::new(which)) };
    let (reference, path) = match (at.split_once(':'), folder) {
        (Some((reference, path)), _) => (reference, Path::new(path)),
        (None, Some(folder)) => (at, folder),
        (None, None) => return Err(Failure::bad_input(format!("`{which}` names no folder: write git:REF:PATH"))),
    };
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let read = read_folder(path, reference).map_err(|e| Failure::bad_input(format!("{which}: {e}")))?;
    let shown = Path::new(which);
    if read.files.keys().any(|file| file.starts_with("pack.yaml") || file.starts_with("policies")) {
        return Ok(vec![must(which, load_pack_files(shown, &read.files))?]);
    }
    let mut packs: BTreeMap<PathBuf, BTreeMap<PathBuf, Vec<u8>>> = BTreeMap::new();
    for (file, bytes) in read.files {
        let mut parts = file.components();
        let first = parts.next().map(|part| PathBuf::from(part.as_os_str()));
        // What stands beside the folders of packs belongs to none.
        if let (Some(first), inside) = (first, parts.as_path())
            && !inside.as_os_str().is_empty()
            && !first.as_os_str().as_encoded_bytes().starts_with(b".")
        {
            packs.entry(first).or_default().insert(inside.to_owned(), bytes);
        }
    }
    packs.iter().map(|(name, files)| must(which, load_pack_files(&shown.join(name), files))).collect()
}

/// Loads packs that must be usable: their errors go to standard error and end the command.
pub fn usable(path: &Path) -> Result<Vec<Arc<Pack>>, Failure> {
    must(&path.display(), load(path)?)
}

fn must<T>(which: &(impl Display + ?Sized), loaded: Loaded<T>) -> Result<T, Failure> {
    match loaded.result {
        Some(packs) => Ok(packs),
        None => {
            eprint!("{}", loaded.diagnostics.render(&loaded.sources, output::style(&io::stderr())));
            let (errors, _) = loaded.diagnostics.counts();
            let errors = output::counted(errors, "error", "errors");
            Err(Failure::bad_input(format!("{which}: the rules have {errors} and cannot be used")))
        }
    }
}

/// The pack of a rules folder that is asked for as `NAME` or `NAME@RANGE`; without that the only one there is.
pub fn select(rules: &Path, name: Option<&str>) -> Result<Arc<Pack>, Failure> {
    let packs = usable(rules)?;
    let names: Vec<&str> = packs.iter().map(|p| p.name().as_ref()).collect();
    let all = || packs.iter().map(|p| format!("{} {}", p.name(), p.version())).collect::<Vec<_>>().join(", ");
    let Some(name) = name else {
        return match packs.as_slice() {
            [only] => Ok(only.clone()),
            _ => Err(Failure::bad_input(format!("{} holds several packs ({}): say which", rules.display(), all()))),
        };
    };
    let query = PackQuery::parse(name).map_err(|e| Failure::bad_input(format!("`{name}` asks for no pack: {e}")))?;
    RuleSet::new(packs.iter().cloned()).find(&query).cloned().ok_or_else(|| {
        let help = match suggest(query.name(), names.iter().copied()) {
            Some(near) if near != query.name() => format!("did you mean `{near}`?"),
            _ => format!("there is {}", all()),
        };
        Failure::bad_input(format!("{} holds no pack `{name}`; {help}", rules.display()))
    })
}
