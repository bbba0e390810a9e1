//! The edge to the file system: a pack's files, read into memory within limits.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::layout::{self, Part};

/// The file that says what a pack is.
pub(super) const MANIFEST: &str = "pack.yaml";

/// Bytes that one file of a pack may have.
pub(super) const MAX_FILE_BYTES: usize = 8 << 20;
/// Bytes that all files of a pack may have.
pub(super) const MAX_PACK_BYTES: usize = 128 << 20;
/// Files that a pack may have.
pub(super) const MAX_FILES: usize = 50_000;
/// Where packs in memory keep those that they extend: `.bases/NAME@VERSION/pack.yaml`. No file of a pack that is read
/// from a folder can stand there, since names that begin with a dot are passed over.
pub(super) const KEPT_BASES: &str = ".bases";
/// How deep folders may nest.
const MAX_FOLDER_DEPTH: usize = 8;

/// The files of a pack by their path in it, and what could not be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Folder {
    pub(super) files: BTreeMap<PathBuf, Vec<u8>>,
    /// Files and folders whose content does not matter.
    pub(super) unread: Vec<PathBuf>,
    pub(super) problems: Vec<(PathBuf, FileProblem)>,
    /// The packs that it extends, where they are kept with it: by the names of their folders in [`KEPT_BASES`].
    pub(super) bases: BTreeMap<PathBuf, Folder>,
    bytes: usize,
}

/// Why a file or folder was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FileProblem {
    #[error("cannot be read: {0}")]
    Unreadable(String),
    #[error("cannot be read from git: {0}")]
    Git(String),
    #[error("is a symbolic link that leads out of the rules")]
    LeavesPack,
    #[error("is neither a file nor a folder")]
    Special,
    #[error("has more than {} MiB", MAX_FILE_BYTES >> 20)]
    LargeFile,
    #[error("makes the pack larger than {} MiB", MAX_PACK_BYTES >> 20)]
    LargePack,
    #[error("makes more than {MAX_FILES} files in one pack")]
    ManyFiles,
    #[error("is nested deeper than {MAX_FOLDER_DEPTH} folders")]
    Deep,
}

impl From<io::Error> for FileProblem {
    fn from(error: io::Error) -> FileProblem {
        FileProblem::Unreadable(error.to_string())
    }
}

impl Folder {
    /// Reads a pack's folder. Names that begin with a dot are passed over. Links are followed within
    /// `boundary`.
    pub(super) fn read(root: &Path, boundary: &Path) -> Folder {
        let mut folder = Folder::default();
        match boundary.canonicalize() {
            Ok(boundary) => match root.canonicalize() {
                Ok(real) if real.starts_with(&boundary) => folder.enter(root, Path::new(""), &boundary, 0),
                Ok(_) => folder.problems.push((PathBuf::new(), FileProblem::LeavesPack)),
                Err(error) => folder.problems.push((PathBuf::new(), error.into())),
            },
            Err(error) => folder.problems.push((PathBuf::new(), error.into())),
        }
        folder
    }

    /// The `pack.yaml` of a pack's folder, if there is one that can be read.
    pub(super) fn read_manifest(root: &Path, boundary: &Path) -> Option<Vec<u8>> {
        let mut folder = Folder::default();
        folder.take(root, Path::new(MANIFEST), &boundary.canonicalize().ok()?, 0);
        folder.files.remove(Path::new(MANIFEST))
    }

    /// Its `pack.yaml`, if it has one.
    pub(super) fn manifest(&self) -> Option<&[u8]> {
        self.files.get(Path::new(MANIFEST)).map(Vec::as_slice)
    }

    /// Without its tests: what others need that extend it.
    pub(super) fn without_tests(mut self) -> Folder {
        self.files.retain(|path, _| Part::of(path) != Part::Test);
        self
    }

    fn enter(&mut self, root: &Path, inside: &Path, boundary: &Path, depth: usize) {
        match sorted_names(&root.join(inside)) {
            Ok(names) => {
                for name in names {
                    self.take(root, &inside.join(name), boundary, depth);
                }
            }
            Err(error) => self.problems.push((inside.to_owned(), error.into())),
        }
    }

    fn take(&mut self, root: &Path, inside: &Path, boundary: &Path, depth: usize) {
        let result = self.try_take(root, inside, boundary, depth);
        if let Err(problem) = result {
            self.problems.push((inside.to_owned(), problem));
        }
    }

    fn try_take(&mut self, root: &Path, inside: &Path, boundary: &Path, depth: usize) -> Result<(), FileProblem> {
        // Where a link leads is settled before anything behind it is looked at.
        let real = root.join(inside).canonicalize()?;
        if !real.starts_with(boundary) {
            return Err(FileProblem::LeavesPack);
        }
        let meta = fs::metadata(&real)?;
        if meta.is_dir() {
            if !layout::is_folder(inside) {
                self.unread.push(inside.to_owned());
            } else if depth == MAX_FOLDER_DEPTH {
                return Err(FileProblem::Deep);
            } else {
                self.enter(root, inside, boundary, depth + 1);
            }
            return Ok(());
        }
        if !meta.is_file() {
            return Err(FileProblem::Special);
        }
        if !Part::of(inside).is_read() {
            self.unread.push(inside.to_owned());
            return Ok(());
        }
        let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        File::open(&real)?.take(limit + 1).read_to_end(&mut bytes)?;
        self.keep(inside, bytes)
    }

    fn put(&mut self, path: &Path, bytes: &[u8]) {
        if !Part::of(path).is_read() {
            self.unread.push(path.to_owned());
        } else if let Err(problem) = self.keep(path, bytes.to_vec()) {
            self.problems.push((path.to_owned(), problem));
        }
    }

    fn keep(&mut self, inside: &Path, bytes: Vec<u8>) -> Result<(), FileProblem> {
        if self.files.len() >= MAX_FILES {
            return Err(FileProblem::ManyFiles);
        }
        if bytes.len() > MAX_FILE_BYTES {
            return Err(FileProblem::LargeFile);
        }
        if self.bytes + bytes.len() > MAX_PACK_BYTES {
            return Err(FileProblem::LargePack);
        }
        self.bytes += bytes.len();
        self.files.insert(inside.to_owned(), bytes);
        Ok(())
    }
}

impl From<&BTreeMap<PathBuf, Vec<u8>>> for Folder {
    /// Files that are in memory already, held to the same limits; so is each pack that is kept with them.
    fn from(files: &BTreeMap<PathBuf, Vec<u8>>) -> Folder {
        let mut folder = Folder::default();
        for (path, bytes) in files {
            let mut names = path.strip_prefix(KEPT_BASES).map(Path::components).into_iter().flatten();
            match names.next() {
                Some(base) => {
                    let inside: PathBuf = names.collect();
                    folder.bases.entry(PathBuf::from(base.as_os_str())).or_default().put(&inside, bytes);
                }
                None => folder.put(path, bytes),
            }
        }
        folder
    }
}

/// Whether a name of a path begins with a dot: such files are passed over.
pub(super) fn is_hidden(path: &Path) -> bool {
    path.iter().any(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// The names in a folder that do not begin with a dot, in order.
pub(super) fn sorted_names(folder: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if !is_hidden(Path::new(&name)) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
