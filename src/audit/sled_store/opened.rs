//! A folder of a store that is open in sled.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::audit::{
    chain::{Head, StoreId},
    journal::{JournalChange, JournalWrite},
    memory::end_of,
    store::StoreError,
    tally::Tally,
};

use super::{
    FORMAT,
    folder::SLED_FILE,
    keys::{KeyWrites, block_of, drop_all, failed, head_bytes, of_session, parts, place, tally_of},
};

/// The opened folder.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) db: sled::Db,
    pub(super) file: File,
    /// Readers need not wait for a commit to know it.
    pub(super) head: Mutex<Head>,
}

impl Opened {
    pub(super) fn config(folder: &Path, cache_bytes: u64) -> sled::Config {
        sled::Config::new().path(folder).cache_capacity(cache_bytes).flush_every_ms(None)
    }

    /// Opens the folder of a store that there must be.
    pub(super) fn existing(folder: &Path, cache_bytes: u64) -> Result<Opened, StoreError> {
        // sled would make an empty one in its place.
        if fs::metadata(folder.join(SLED_FILE)).map_or(0, |file| file.len()) == 0 {
            return Err(StoreError::Damaged(format!("{} holds no store", folder.display())));
        }
        let db = sled_at(folder, cache_bytes)?;
        match db.get(b"format").map_err(failed)? {
            Some(_) => Opened::made_or(db, folder, None),
            None => Err(StoreError::Damaged(format!("{} holds no store", folder.display()))),
        }
    }

    /// Opens the folder of a store, or makes a store in it: one that begins behind `base`, or a new one. With a base
    /// there must not be one.
    pub(super) fn at(folder: &Path, cache_bytes: u64, base: Option<Head>) -> Result<Opened, StoreError> {
        Opened::made_or(sled_at(folder, cache_bytes)?, folder, base)
    }

    fn made_or(db: sled::Db, folder: &Path, base: Option<Head>) -> Result<Opened, StoreError> {
        let at = |source| StoreError::Open { path: folder.to_owned(), source };
        match db.get(b"format").map_err(failed)? {
            Some(_) if base.is_some() => return Err(StoreError::Exists { path: folder.to_owned() }),
            Some(found) if found == FORMAT.to_be_bytes() => {}
            Some(found) => {
                let found = match <[u8; 4]>::try_from(found.as_ref()) {
                    Ok(bytes) => u32::from_be_bytes(bytes).to_string(),
                    Err(_) => "unreadable".to_owned(),
                };
                return Err(StoreError::Format { found, known: FORMAT });
            }
            None if !db.is_empty() => {
                return Err(StoreError::Format { found: "unknown".to_owned(), known: FORMAT });
            }
            None => {
                let base = match base {
                    Some(base) => base,
                    None => {
                        let mut id = [0; 16];
                        getrandom::fill(&mut id).map_err(|e| at(io::Error::other(e)))?;
                        Head::genesis(StoreId::new(id))
                    }
                };
                let genesis = head_bytes(base);
                let mut first = sled::Batch::default();
                first.insert(b"format", &FORMAT.to_be_bytes());
                first.insert(b"head", genesis.as_slice());
                first.insert(b"origin", genesis.as_slice());
                db.apply_batch(first).map_err(failed)?;
                db.flush().map_err(failed)?;
                let made = Opened::over(db, folder)?;
                made.sync_all(folder)?;
                return Ok(made);
            }
        }
        Opened::over(db, folder)
    }

    /// Takes up what a folder holds.
    pub(super) fn over(db: sled::Db, folder: &Path) -> Result<Opened, StoreError> {
        let at = |source| StoreError::Open { path: folder.to_owned(), source };
        let file = File::open(folder.join(SLED_FILE)).map_err(at)?;
        let head = place(&db, b"head")?;
        let last = match db.scan_prefix(b"b").next_back() {
            None => place(&db, b"origin")?,
            Some(entry) => {
                let (key, bytes) = entry.map_err(failed)?;
                end_of(&block_of(&key, &bytes)?, head)?
            }
        };
        if last != head {
            let (says, ends) = (head.last, last.last);
            let what =
                format!("its head is at record {says}, its last block ends at record {ends} or has another link");
            return Err(StoreError::Damaged(what));
        }
        Ok(Opened { db, file, head: Mutex::new(head) })
    }

    /// Puts the file and its name to disk. A file's name is durable only once its folder is, and that of the folder
    /// only once the one above is.
    pub(super) fn sync_all(&self, folder: &Path) -> Result<(), StoreError> {
        self.file.sync_all()?;
        File::open(folder)?.sync_all()?;
        match folder.parent() {
            Some(above) if !above.as_os_str().is_empty() => File::open(above)?.sync_all()?,
            _ => {}
        }
        Ok(())
    }

    pub(super) fn head(&self) -> Head {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn size(&self) -> Result<u64, StoreError> {
        let found = self.db.get(b"size").map_err(failed)?;
        let number = |bytes: sled::IVec| <[u8; 8]>::try_from(bytes.as_ref()).map(u64::from_be_bytes);
        let damaged = |_| StoreError::Damaged("`size` is unreadable".to_owned());
        found.map(number).transpose().map_err(damaged).map(Option::unwrap_or_default)
    }

    /// What becomes of each key of the journals that change.
    pub(super) fn journal_writes<'a>(&self, journal: &'a [JournalWrite]) -> Result<KeyWrites<&'a [u8]>, StoreError> {
        let mut writes = KeyWrites::new();
        for JournalWrite { session, change } in journal {
            match change {
                JournalChange::Add { number, bytes } => {
                    writes.extend(parts(b'j', session, *number, bytes).map(|(key, part)| (key, Some(part))));
                }
                JournalChange::Drop => drop_all(&self.db, &mut writes, &of_session(b'j', session))?,
            }
        }
        Ok(writes)
    }

    pub(super) fn stored_tally(&self, key: &[u8]) -> Result<Tally, StoreError> {
        self.db.get(key).map_err(failed)?.map_or(Ok(Tally::default()), |bytes| tally_of(&bytes))
    }
}

/// Opens sled. It keeps snapshots beside its log, to open faster, and makes all of them of the log: one that it could not
/// write to its end, as on a full disk, must not keep it from opening.
pub(super) fn sled_at(folder: &Path, cache_bytes: u64) -> Result<sled::Db, StoreError> {
    let open = || Opened::config(folder, cache_bytes).open();
    remove_snapshots(folder, |name| name.ends_with(".generating"))?;
    match open() {
        Err(sled::Error::Corruption { .. }) => {
            remove_snapshots(folder, |_| true)?;
            open()
        }
        opened => opened,
    }
    .map_err(|e| opening(folder, e))
}

fn remove_snapshots(folder: &Path, which: impl Fn(&str) -> bool) -> Result<(), StoreError> {
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with("snap.") && which(name)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

pub(super) fn opening(path: &Path, e: sled::Error) -> StoreError {
    let path: PathBuf = path.to_owned();
    match e {
        // sled wraps the failed lock in an error of its own words; the kind inside is lost.
        sled::Error::Io(e) if e.kind() == io::ErrorKind::WouldBlock || e.to_string().contains("lock") => {
            StoreError::Locked { path }
        }
        sled::Error::Io(source) => StoreError::Open { path, source },
        other => StoreError::Damaged(other.to_string()),
    }
}
