//! `probity audit rebuild`: a store anew from an export, for one that is damaged, or to take less room.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    audit::{self, BatchBuilder, Imported, Safety, SledStore, Store, StoreError, Trust, Verified},
    cli::{Exit, Failure, Format, Outcome},
};

use super::{
    CACHE_BYTES, say, store_failed,
    verify::{ImportError, lines},
};

/// Records of one commit.
const RECORDS_AT_ONCE: u64 = 4096;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// The folder of the new store, which must not hold one
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// What `probity audit export` wrote
    #[arg(value_name = "EXPORT")]
    export: PathBuf,
}

/// A store that is being made.
struct Making {
    store: SledStore,
    builder: BatchBuilder,
    waiting: u64,
}

impl Making {
    fn commit(&mut self) -> Result<(), ImportError> {
        self.waiting = 0;
        Ok(self.store.append(&self.builder.finish(), Safety::Disk)?)
    }
}

/// Runs the command. All of the export is in the new store, or there is none.
pub fn run(args: &Args, format: Format) -> Outcome {
    let before = Before::of(&args.data).map_err(Failure::environment)?;
    let failure = match make(args) {
        Ok(verified) if verified.is_whole() => return made(args, verified, format),
        // Somebody else's.
        Err(ImportError::Store(e @ (StoreError::Locked { .. } | StoreError::Exists { .. }))) => {
            return Err(store_failed(e));
        }
        Err(e) => e.of(&args.export),
        Ok(Verified { faults, .. }) => {
            let fault = faults.first().map(ToString::to_string).unwrap_or_default();
            Failure { exit: Exit::No, message: format!("{}: {fault}; no store was made", args.export.display()) }
        }
    };
    Err(match before.restore() {
        Ok(()) => failure,
        Err(e) => Failure { message: format!("{}; what was begun is left: {e}", failure.message), ..failure },
    })
}

fn made(args: &Args, Verified { base, head, .. }: Verified, format: Format) -> Outcome {
    if base.last > 0 {
        eprintln!(
            "warning: the export begins with record {}, and counters are not in it: those of the new store tell of \
             nothing that records before it counted",
            base.last + 1
        );
    }
    let text = format!("records {} to {} are in {}", base.last + 1, head.last, args.data.display());
    say(format, &text, &json!({ "first_record": base.last + 1, "last_record": head.last }))
}

/// Makes the store, and lets go of it; what it then holds is whole only if what was verified is.
fn make(args: &Args) -> Result<Verified, ImportError> {
    // Both steps of the reading write to it.
    let making: RefCell<Option<Making>> = RefCell::new(None);
    let verified = lines(&args.export).and_then(|lines| {
        audit::verify_export(
            lines,
            Trust::default(),
            |base| {
                let store = SledStore::create(&args.data, CACHE_BYTES, base)?;
                // Payloads bring their salts along: this key makes none.
                let builder = BatchBuilder::new(base, [0; 32]);
                *making.borrow_mut() = Some(Making { store, builder, waiting: 0 });
                Ok(())
            },
            |record, Imported { bytes, payload, .. }| {
                let mut making = making.borrow_mut();
                let Some(making) = making.as_mut() else { return Ok(()) };
                making.builder.push_recorded(record, &bytes, payload);
                making.waiting += 1;
                if making.waiting >= RECORDS_AT_ONCE { making.commit() } else { Ok(()) }
            },
        )
    });
    if let (Ok(Verified { faults, .. }), Some(making)) = (&verified, &mut making.into_inner())
        && faults.is_empty()
    {
        making.commit()?;
    }
    verified
}

/// What a folder held before a store was to be made in it.
struct Before<'a> {
    folder: &'a Path,
    /// Nothing if the folder was not there.
    names: Option<BTreeSet<OsString>>,
}

impl Before<'_> {
    fn of(folder: &Path) -> io::Result<Before<'_>> {
        let names = match names(folder) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            names => Some(names?),
        };
        Ok(Before { folder, names })
    }

    /// Removes what came since; a folder above that was missing too stays.
    fn restore(&self) -> io::Result<()> {
        let now = match names(self.folder) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            now => now?,
        };
        let held = self.names.clone().unwrap_or_default();
        for name in now.difference(&held) {
            let path = self.folder.join(name);
            if path.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
        }
        match self.names {
            Some(_) => Ok(()),
            None => fs::remove_dir(self.folder),
        }
    }
}

fn names(folder: &Path) -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::{
        audit::{Activation, Draft, Entry, MemoryStore, end_line, entries, head_line, record_line},
        model::Digest,
    };

    /// An export of some records; of those that are held.
    fn export(first: u64) -> Vec<String> {
        let store = MemoryStore::default();
        for n in 0..5 {
            let mut builder = BatchBuilder::new(store.head().unwrap(), [1; 32]);
            let pack =
                audit::PackRef { name: format!("p{n}").into(), version: "1.0.0".into(), digest: Digest::new([n; 32]) };
            builder.push(&Draft::Activated(Activation { pack: pack.into(), commit: None }), 1_700_000_000_000);
            store.append(&builder.finish(), Safety::Disk).unwrap();
        }
        store.prune(first).unwrap();
        let mut lines = vec![head_line(store.base().unwrap())];
        for block in store.blocks(1, 100).unwrap() {
            let told = |entry: &Entry<'_>| record_line(entry, None).unwrap();
            lines.extend(entries(&block.bytes).unwrap().1.iter().map(told));
        }
        lines.push(end_line(store.head().unwrap()));
        lines
    }

    fn rebuild(data: &Path, lines: &[String]) -> Outcome {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), lines.join("\n")).unwrap();
        run(&Args { data: data.to_owned(), export: file.path().to_owned() }, Format::Json)
    }

    #[test]
    fn what_cannot_be_rebuilt_leaves_the_folder_as_it_was_and_the_next_attempt_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let (missing, there) = (folder.path().join("missing"), folder.path().join("there"));
        fs::create_dir_all(there.join("damaged-1")).unwrap();
        fs::write(there.join("damaged-1/db"), "kept").unwrap();
        fs::write(there.join("note"), "kept").unwrap();
        let lines = export(1);
        let changed = [&lines[..2], &[lines[2].replace("p1", "p2")], &lines[3..]].concat();
        let without = [&lines[..2], &lines[3..]].concat();
        let behind = [lines.as_slice(), &lines[1..2]].concat();
        for (broken, exit) in [
            (&lines[..4], Exit::BadInput),
            (&lines[..0], Exit::BadInput),
            (&behind, Exit::BadInput),
            (&changed, Exit::No),
            (&without, Exit::No),
        ] {
            for data in [&missing, &there] {
                let failure = rebuild(data, broken).unwrap_err();
                assert_eq!(failure.exit, exit, "{}", failure.message);
            }
            assert!(!missing.exists());
            assert_eq!(names(&there).unwrap(), ["damaged-1", "note"].map(OsString::from).into());
            assert_eq!(fs::read_to_string(there.join("damaged-1/db")).unwrap(), "kept");
        }
        for data in [&missing, &there] {
            assert_eq!(rebuild(data, &lines).unwrap(), Exit::Fine);
            // What is there now is no leftover.
            let failure = rebuild(data, &lines).unwrap_err();
            assert_eq!(failure.exit, Exit::Environment, "{}", failure.message);
            assert!(SledStore::is_in(data));
        }
    }

    #[test]
    fn an_export_of_what_pruning_left_is_rebuilt() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(rebuild(folder.path(), &export(3)).unwrap(), Exit::Fine);
    }
}
