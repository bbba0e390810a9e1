//! Hints from the operating system that the rules folder may have changed. One may be missing, or stand for nothing:
//! whoever is told reads the folder, and reads it now and then without being told.
//!
//! What a hint says beyond that is not used, so no debouncer stands between: a hint wakes the reader, and any number of
//! them while it reads wake it once more.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use notify::{
    Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use tokio::sync::Notify;

/// Watches a folder, whether or not it is there.
#[derive(Debug)]
pub struct Hints {
    folder: PathBuf,
    arrived: Arc<Notify>,
    watcher: Option<Watched>,
    /// Which folder is watched: another one may come under the same path.
    root: Option<(u64, u64)>,
    complained: bool,
    wanted: bool,
}

/// A watcher and the folder that it watches, without links.
#[derive(Debug)]
struct Watched {
    watcher: RecommendedWatcher,
    real: PathBuf,
}

impl Hints {
    /// Hints about a folder, if they are wanted; none before [`Hints::arm`].
    pub fn new(folder: &Path, wanted: bool) -> Hints {
        // What the system reports has absolute paths.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Hints { folder, arrived: Arc::default(), watcher: None, root: None, complained: false, wanted }
    }

    /// Where hints arrive.
    pub fn arrived(&self) -> Arc<Notify> {
        self.arrived.clone()
    }

    /// Watches what is there now. To be called before each reading: what changes afterwards gives a hint.
    pub fn arm(&mut self) {
        if !self.wanted {
            return;
        }
        let root = fs::metadata(&self.folder).ok().map(|meta| (meta.dev(), meta.ino()));
        let armed = match &mut self.watcher {
            // Folders that came since; the others are watched already.
            Some(Watched { watcher, real }) if root.is_some() && root == self.root => {
                watcher.watch(real, RecursiveMode::Recursive)
            }
            Some(_) if root == self.root => Ok(()),
            // A watcher of before would hold on to the folder of before.
            _ => self.watcher().map(|watcher| self.watcher = Some(watcher)),
        };
        self.root = root;
        match armed {
            Ok(()) => self.complained = false,
            Err(e) => {
                // Made anew the next time.
                self.watcher = None;
                if !self.complained {
                    tracing::warn!(error = %e, "the rules folder cannot be watched; it is only polled");
                }
                self.complained = true;
            }
        }
    }

    /// A watcher of the folder, of its name, and of the links that lead to it.
    fn watcher(&self) -> notify::Result<Watched> {
        let names: Vec<PathBuf> =
            self.folder.ancestors().filter(|p| *p == self.folder || p.is_symlink()).map(Path::to_owned).collect();
        let parents: Vec<PathBuf> = names.iter().filter_map(|name| name.parent()).map(Path::to_owned).collect();
        // Links in the folder are not followed: what they may lead to is in the folder too, and one that leads out of it
        // must not have the rest of the file system watched.
        let config = Config::default().with_follow_symlinks(false);
        let real = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        let (arrived, folder) = (self.arrived.clone(), real.clone());
        let tell = move |event: notify::Result<Event>| {
            // An error may stand for events that were lost.
            if event.map_or(true, |event| concerns(&event, &folder, &names)) {
                arrived.notify_one();
            }
        };
        let mut watcher = RecommendedWatcher::new(tell, config)?;
        for parent in &parents {
            // Where that is not allowed, a folder that comes under this name is found by polling.
            let _ = watcher.watch(parent, RecursiveMode::NonRecursive);
        }
        if real.is_dir() {
            watcher.watch(&real, RecursiveMode::Recursive)?;
        }
        Ok(Watched { watcher, real })
    }
}

/// True if content may have changed: of something in the folder, or of one of these names. Reading gives events too.
fn concerns(event: &Event, folder: &Path, names: &[PathBuf]) -> bool {
    let changes = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => true,
    };
    let here = |path: &PathBuf| path.starts_with(folder) || names.contains(path);
    event.need_rescan() || (changes && (event.paths.is_empty() || event.paths.iter().any(here)))
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange, Flag, ModifyKind};

    use super::*;

    #[test]
    fn changes_here_are_hints_and_reading_is_none() {
        let folder = Path::new("/srv/rules");
        let names = [folder.to_owned(), PathBuf::from("/srv")];
        let tell = |kind, path: &str| concerns(&Event::new(kind).add_path(path.into()), folder, &names);
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        assert!(tell(written, "/srv/rules/a/pack.yaml"));
        assert!(tell(EventKind::Create(CreateKind::Folder), "/srv/rules"));
        assert!(tell(EventKind::Access(AccessKind::Close(AccessMode::Write)), "/srv/rules/a"));
        assert!(tell(written, "/srv"));
        assert!(!tell(EventKind::Access(AccessKind::Open(AccessMode::Any)), "/srv/rules/a"));
        assert!(!tell(EventKind::Access(AccessKind::Close(AccessMode::Read)), "/srv/rules/a"));
        assert!(!tell(written, "/srv/other"));
        assert!(!tell(written, "/srv/rules2"));
        assert!(concerns(&Event::new(EventKind::Other).set_flag(Flag::Rescan), folder, &names));
    }
}
