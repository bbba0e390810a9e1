//! Runs the tests again whenever the files of the packs change.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::mpsc::{RecvTimeoutError, channel},
    time::{Duration, SystemTime},
};

use notify::{Event, EventKind, RecursiveMode, Watcher};

use super::{Args, once};
use crate::cli::{Failure, Outcome};

/// How long nothing must have changed before the tests run: a change often is several files.
const REST: Duration = Duration::from_millis(150);
/// Every so often the tests run if a hint was lost, as it is on network file systems.
const ANYWAY: Duration = Duration::from_secs(10);

/// Runs until the process is stopped. Packs that cannot be used are told and waited for.
pub(super) fn run(args: &Args) -> Outcome {
    let (hint, hints) = channel();
    let told = move |event: notify::Result<Event>| {
        // Reading a file is no change of it; the tests themselves do.
        if !matches!(&event, Ok(Event { kind: EventKind::Access(_), .. })) {
            // Nobody listens only when the process ends.
            let _ = hint.send(());
        }
    };
    let failed = |e: notify::Error| Failure::environment(format!("the folders cannot be watched: {e}"));
    let mut watcher = notify::recommended_watcher(told).map_err(failed)?;
    for path in &args.paths {
        watcher.watch(path, RecursiveMode::Recursive).map_err(failed)?;
    }
    let mut seen = None;
    loop {
        let now = fingerprint(&args.paths);
        if seen.as_ref() != Some(&now) {
            seen = Some(now);
            if let Err(failure) = once(args) {
                eprintln!("error: {}", failure.message);
            }
            eprintln!("waiting for changes; Ctrl-C ends this\n");
        }
        match hints.recv_timeout(ANYWAY) {
            Ok(()) => while hints.recv_timeout(REST).is_ok() {},
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::environment("the folders are watched no more"));
            }
        }
    }
}

/// Size and time of every file, by path: whether something changed.
type Fingerprint = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

fn fingerprint(paths: &[PathBuf]) -> Fingerprint {
    let mut out = Fingerprint::new();
    paths.iter().for_each(|path| take(path, &mut out));
    out
}

/// What cannot be read is no part of it: running the tests says so.
fn take(path: &Path, out: &mut Fingerprint) {
    let Ok(meta) = fs::metadata(path) else { return };
    if !meta.is_dir() {
        out.insert(path.to_owned(), (meta.len(), meta.modified().ok()));
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            take(&entry.path(), out);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn files_that_come_go_and_change_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().to_owned()];
        let nothing = fingerprint(&paths);
        fs::create_dir(folder.path().join("policies")).unwrap();
        let file = folder.path().join("policies/a.policy");
        fs::write(&file, "a").unwrap();
        let one = fingerprint(&paths);
        assert_ne!(one, nothing);
        assert_eq!(fingerprint(&paths), one);
        fs::write(&file, "ab").unwrap();
        assert_ne!(fingerprint(&paths), one);
        fs::write(folder.path().join(".a.policy.swp"), "").unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(fingerprint(&paths), nothing);
    }
}
