//! Giving room back: what is held is copied into a new store beside the old one, which then takes its place.
//!
//! sled gives no room of its file back, and pages that are half empty stay so. The copy is made while records are
//! appended: what changes meanwhile is noted and copied again, the last of it while no append is let in. Nothing waits
//! longer than for that.

use std::{collections::BTreeSet, fs, ops::Bound, path::Path, sync::PoisonError, thread};

use crate::audit::store::{StoreError, Tidied};

use super::{
    SledStore,
    keys::failed,
    opened::{Opened, sled_at},
};

/// Below this size of the folder nothing is looked at.
pub(super) const LEAST: u64 = 64 << 20;
/// How many times the bytes of what is held the folder may take.
const FACTOR: u64 = 3;
/// Keys that are copied at once.
const AT_ONCE: usize = 512;
/// Changes that are copied while appends wait.
const FEW: usize = 512;
/// How often what changed meanwhile is copied before appends are made to wait whatever is left.
const ROUNDS: usize = 16;

/// Keys that changed since a copy began; nothing while there is none.
pub(super) type Changed = Option<BTreeSet<Vec<u8>>>;

/// Ends the noting of changes however a copy ends.
struct Noting<'a>(&'a SledStore);

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        *self.0.appending.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl SledStore {
    /// Writes the store anew if it takes more than three times the room of what it holds, and more than `least` bytes.
    pub(super) fn compact_if_worth(&self, least: u64) -> Result<Option<Tidied>, StoreError> {
        let mut look_at = self.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.bytes_on_disk()?;
        if before < (*look_at).max(least) {
            return Ok(None);
        }
        let live = self.live_bytes()?;
        if before <= live.saturating_mul(FACTOR) {
            // Looked at again once it has grown by a quarter, so that looking costs little for what is appended.
            *look_at = before.saturating_add(before / 4);
            return Ok(None);
        }
        let tidied = self.rewrite()?;
        *look_at = tidied.after.saturating_mul(2);
        Ok(Some(tidied))
    }

    /// Writes the store anew.
    pub fn compact(&self) -> Result<Tidied, StoreError> {
        let _alone = self.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        self.rewrite()
    }

    /// The bytes of keys and values.
    fn live_bytes(&self) -> Result<u64, StoreError> {
        let mut bytes = 0;
        self.walk(|key, value| {
            bytes += (key.len() + value.len()) as u64;
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Visits every key, without holding up who opens the folder anew for longer than some of them take.
    fn walk(&self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut behind: Option<sled::IVec> = None;
        loop {
            let last = self.with(|open| {
                let start = behind.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                let mut last = None;
                for entry in open.db.range::<&sled::IVec, _>((start, Bound::Unbounded)).take(AT_ONCE) {
                    let (key, value) = entry.map_err(failed)?;
                    visit(&key, &value)?;
                    last = Some(key);
                }
                Ok(last)
            })?;
            if last.is_none() {
                return Ok(());
            }
            behind = last;
        }
    }

    /// Copies, and puts the copy in the place of what it was made of. To be called under the lock of copies.
    fn rewrite(&self) -> Result<Tidied, StoreError> {
        let before = self.bytes_on_disk()?;
        let folder = self.folder.next()?;
        let copied = self.copy_into(&folder);
        // A copy that may already be the store by name is left alone: the store is closed then, so that the two hold the
        // same until the name is settled.
        if copied.is_err() && self.with(|_| Ok(())).is_ok() {
            let _ = fs::remove_dir_all(&folder);
        }
        copied?;
        Ok(Tidied { before, after: self.bytes_on_disk()? })
    }

    fn copy_into(&self, folder: &Path) -> Result<(), StoreError> {
        *self.appending.lock().unwrap_or_else(PoisonError::into_inner) = Some(BTreeSet::new());
        let noting = Noting(self);
        let db = sled_at(folder, self.cache_bytes)?;
        let (mut batch, mut waiting) = (sled::Batch::default(), 0);
        self.walk(|key, value| {
            batch.insert(key, value);
            waiting += 1;
            if waiting == AT_ONCE {
                waiting = 0;
                db.apply_batch(std::mem::take(&mut batch)).map_err(failed)?;
            }
            Ok(())
        })?;
        db.apply_batch(batch).map_err(failed)?;
        db.flush().map_err(failed)?;
        for _ in 0..ROUNDS {
            let changed = self.appending.lock().unwrap_or_else(PoisonError::into_inner).replace(BTreeSet::new());
            let changed = changed.unwrap_or_default();
            self.copy_keys(&db, &changed)?;
            if changed.len() <= FEW {
                break;
            }
        }
        // From here on nothing is appended until the new store is in its place.
        let mut appending = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        self.copy_keys(&db, &appending.take().unwrap_or_default())?;
        let anew = Opened::over(db, folder)?;
        if anew.head() != self.with(|open| Ok(open.head()))? {
            return Err(StoreError::Damaged("its copy ends elsewhere than it does".to_owned()));
        }
        anew.db.flush().map_err(failed)?;
        anew.sync_all(folder)?;
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let old_folder = self.folder.store();
        if let Err(e) = self.folder.advance() {
            *open = None;
            return Err(e.into());
        }
        let old = open.replace(anew);
        drop(open);
        drop(appending);
        drop(noting);
        // sled takes its time to let go, and nobody needs to wait for it.
        thread::spawn(move || {
            drop(old);
            let _ = fs::remove_dir_all(old_folder);
        });
        Ok(())
    }

    /// Copies what some keys lead to now.
    fn copy_keys(&self, to: &sled::Db, keys: &BTreeSet<Vec<u8>>) -> Result<(), StoreError> {
        let mut batch = sled::Batch::default();
        self.with(|open| {
            for key in keys {
                match open.db.get(key).map_err(failed)? {
                    Some(value) => batch.insert(key.as_slice(), value),
                    None => batch.remove(key.as_slice()),
                }
            }
            Ok(())
        })?;
        to.apply_batch(batch).map_err(failed)
    }
}
