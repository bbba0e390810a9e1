//! Where in a data folder the store is.
//!
//! | file | holds |
//! | --- | --- |
//! | `store.lock` | nothing; who has the store open holds a lock on it |
//! | `store.current` | the name of the store's folder: `store-1` |
//! | `store-N` | the store |
//! | `damaged-N` | a store that was set aside; nothing here reads it |
//!
//! A store that takes too much room is written anew beside itself. `store.current` is replaced in one step, so that at
//! each moment one of the two is the store, and the other one is nothing.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::audit::store::StoreError;

use super::FORMAT;

const LOCK: &str = "store.lock";
const CURRENT: &str = "store.current";
const STORE: &str = "store-";
const DAMAGED: &str = "damaged-";
/// What sled calls its file; format 2 and those before had it in the data folder itself.
pub(super) const SLED_FILE: &str = "db";

/// A data folder that is locked for as long as this lives.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    current: Mutex<u64>,
    _lock: File,
}

impl Folder {
    /// Creates the folder if it is missing, and locks it.
    pub(super) fn open(path: &Path) -> Result<Folder, StoreError> {
        let at = |source| StoreError::Open { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(at)?;
        let lock = lock(path)?;
        if path.join(SLED_FILE).exists() {
            return Err(StoreError::Format { found: "2 or older".to_owned(), known: FORMAT });
        }
        let current = match named(path).map_err(at)? {
            Some(name) => numbered(name.trim()).filter(|n| path.join(store(*n)).is_dir()).ok_or_else(|| {
                StoreError::Damaged(format!("{CURRENT} names `{}`, which is no store here", name.trim().escape_debug()))
            })?,
            // The name is written once the store is there: without one, the first was not begun or not finished.
            None => match stores(path).map_err(at)?.as_slice() {
                [] => 1,
                [only] => *only,
                several => {
                    let count = several.len();
                    return Err(StoreError::Damaged(format!("{CURRENT} is missing, and there are {count} stores")));
                }
            },
        };
        Ok(Folder { path: path.to_owned(), current: Mutex::new(current), _lock: lock })
    }

    /// Whether it is written down which store is the one: then it was made to its end.
    pub(super) fn is_named(&self) -> bool {
        named(&self.path).is_ok_and(|name| name.is_some())
    }

    /// The folder of the store.
    pub(super) fn store(&self) -> PathBuf {
        self.path.join(store(self.current()))
    }

    /// A folder for the next store, without what an earlier attempt left in it.
    pub(super) fn next(&self) -> io::Result<PathBuf> {
        let next = self.path.join(store(self.current() + 1));
        match fs::remove_dir_all(&next) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(next),
        }
    }

    /// Makes the store that is there the one that is opened from now on, also after a loss of power.
    pub(super) fn settle(&self) -> io::Result<()> {
        let says = named(&self.path)?;
        if says.as_deref().and_then(|name| numbered(name.trim())) == Some(self.current()) {
            return Ok(());
        }
        name(&self.path, self.current())
    }

    /// Makes the next store the current one. After an error it is not known which of the two a restart would find, until
    /// [`Folder::settle`] succeeds.
    pub(super) fn advance(&self) -> io::Result<()> {
        let next = self.current() + 1;
        name(&self.path, next)?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// Removes what a copy has left: the one that it was made of, or the one that was not made to its end. Nothing reads
    /// them, so what cannot be removed now can wait.
    pub(super) fn sweep(&self) {
        let current = self.current();
        for other in [current.checked_sub(1), current.checked_add(1)].into_iter().flatten() {
            let _ = fs::remove_dir_all(self.path.join(store(other)));
        }
    }

    fn current(&self) -> u64 {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True if a data folder holds a store.
pub(super) fn holds_store(path: &Path) -> bool {
    path.join(CURRENT).exists() || path.join(SLED_FILE).exists() || stores(path).is_ok_and(|found| !found.is_empty())
}

/// Sets the store of a data folder that nobody has open aside, and gives the folder that it is in from now on.
pub(super) fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let at = |source| StoreError::Open { path: path.to_owned(), source };
    let _lock = lock(path)?;
    let aside = (1u64..).map(|n| path.join(format!("{DAMAGED}{n}"))).find(|folder| folder.symlink_metadata().is_err());
    let aside = aside.ok_or_else(|| at(io::Error::other("no name is left")))?;
    let parts = || -> io::Result<()> {
        fs::create_dir(&aside)?;
        // Whatever is there and whatever its state: all of it, and the name last, which tells that there is a store.
        for n in stores(path)? {
            fs::rename(path.join(store(n)), aside.join(store(n)))?;
        }
        match fs::rename(path.join(CURRENT), aside.join(CURRENT)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        File::open(&aside)?.sync_all()?;
        File::open(path)?.sync_all()
    };
    parts().map_err(at)?;
    Ok(aside)
}

/// Locks a data folder for as long as what is given lives.
fn lock(path: &Path) -> Result<File, StoreError> {
    let at = |source| StoreError::Open { path: path.to_owned(), source };
    let lock = File::options().create(true).append(true).open(path.join(LOCK)).map_err(at)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(at(source)),
    }
}

fn store(number: u64) -> String {
    format!("{STORE}{number}")
}

fn numbered(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(STORE)?;
    // The last number has no next one.
    digits.parse().ok().filter(|n: &u64| n.to_string() == digits && *n < u64::MAX)
}

/// The numbers of the stores in a folder.
fn stores(path: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        found.extend(entry?.file_name().to_str().and_then(numbered));
    }
    found.sort_unstable();
    Ok(found)
}

/// What `store.current` says.
fn named(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path.join(CURRENT)) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::InvalidData => Ok(Some(String::new())),
        Err(e) => Err(e),
    }
}

/// Writes it: to a file beside, which then takes its place.
fn name(path: &Path, number: u64) -> io::Result<()> {
    let beside = path.join(format!("{CURRENT}.new"));
    let mut file = File::create(&beside)?;
    writeln!(file, "{}", store(number))?;
    file.sync_all()?;
    fs::rename(&beside, path.join(CURRENT))?;
    File::open(path)?.sync_all()
}
