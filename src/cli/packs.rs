//! Packs by path or by name, for commands that work on rules without a server.

use std::{
    collections::BTreeMap,
    fmt::Display,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    config::RulesAt,
    diag::suggest,
    engine::{Loaded, Pack, RuleSet, load_pack, load_pack_of, load_rule_files, load_rules},
    model::PackQuery,
    pack::{GitError, GitFiles, RuleFiles, extends_others, read_folder, read_packs},
};

use super::{Failure, output};

/// Loads the pack in a folder, or all packs of a folder of packs, which may be `git:REPOSITORY@REF:FOLDER`.
pub fn load(path: &Path) -> Result<Loaded<Vec<Arc<Pack>>>, Failure> {
    let given = path.to_str().filter(|given| given.starts_with("git:"));
    if let Some(given) = given {
        let Some(RulesAt::Git { repository, reference, folder }) = RulesAt::read(given) else {
            return Err(Failure::bad_input(format!("`{given}` is not git:REPOSITORY@REF:FOLDER")));
        };
        return Ok(listed(load_rule_files(RuleFiles::in_git(path, &repository, &reference, &folder))));
    }
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
        listed(load_rules(path))
    })
}

fn listed(Loaded { result, diagnostics, sources }: Loaded<RuleSet>) -> Loaded<Vec<Arc<Pack>>> {
    Loaded { result: result.map(|set| set.iter().cloned().collect()), diagnostics, sources }
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
    let failed = |e: GitError| Failure::bad_input(format!("{which}: {e}"));
    let read = read_folder(path, reference).map_err(failed)?;
    if !read.files.keys().any(|file| file.starts_with("pack.yaml") || file.starts_with("policies")) {
        let files = RuleFiles::of_commit(Path::new(which), Ok(read));
        if files.is_empty() {
            return Ok(Vec::new());
        }
        return must(which, listed(load_rule_files(files)));
    }
    let (holder, name) = holder(path);
    // What it extends stands beside it, at the same commit.
    let beside = match extends_others(&read.files) {
        true => read_packs(&holder, reference).map_err(failed)?.files,
        false => BTreeMap::new(),
    };
    let GitFiles { commit, files } = read;
    let own = files.into_iter().map(|(file, bytes)| (name.join(file), bytes));
    let files = beside.into_iter().filter(|(file, _)| !file.starts_with(&name)).chain(own).collect();
    let shown = PathBuf::from(format!("git:{reference}:{}", holder.display()));
    let files = RuleFiles::of_commit(&shown, Ok(GitFiles { commit, files }));
    Ok(vec![must(which, load_pack_of(files, &shown.join(name)))?])
}

/// The folder that holds a folder, and the name of that in it.
fn holder(path: &Path) -> (PathBuf, PathBuf) {
    // Of `.` and the like the system knows the name.
    let path = if path.file_name().is_some() { path.to_owned() } else { path.canonicalize().unwrap_or_default() };
    let holder = path.parent().filter(|holder| !holder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (holder.to_owned(), path.file_name().map_or_else(|| "pack".into(), PathBuf::from))
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
