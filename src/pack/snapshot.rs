//! A rules folder as it was read at one moment. What is fingerprinted is what is compiled and what is kept: the folder
//! may change between two readings, a snapshot does not.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::model::{
    Digest,
    bytes::{BytesError, Reader, put_len, put_text},
};

use super::{
    beside::{Offers, extends_others},
    folder::{FileProblem, Folder, KEPT_BASES, is_hidden, sorted_names},
    git::{self, GitError, GitFiles},
    layout::Part,
};

/// The version of kept sources.
const SOURCES_VERSION: u8 = 1;

/// The files of a rules folder, in memory.
#[derive(Clone, Debug)]
pub struct RuleFiles {
    /// The folder, as shown.
    pub(super) dir: PathBuf,
    /// What it holds, by name.
    pub(super) entries: Vec<(PathBuf, Entry)>,
    /// Why it could not be listed.
    pub(super) problem: Option<FileProblem>,
    /// The commit that it is of, if it was read from git.
    commit: Option<Arc<str>>,
}

/// What a rules folder holds under a name.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// A pack.
    Pack(Folder),
    /// Something that is no folder; its content does not matter.
    Stray,
}

impl RuleFiles {
    /// Reads a rules folder, within the limits of each pack. What could not be read is part of the result.
    pub fn read(dir: &Path) -> RuleFiles {
        let (names, problem) = match sorted_names(dir) {
            Ok(names) => (names, None),
            Err(error) => (Vec::new(), Some(FileProblem::from(error))),
        };
        let entry = |name| {
            let path = dir.join(name);
            let entry = if path.is_dir() { Entry::Pack(Folder::read(&path, dir)) } else { Entry::Stray };
            (path, entry)
        };
        RuleFiles { dir: dir.to_owned(), entries: names.into_iter().map(entry).collect(), problem, commit: None }
    }

    /// Packs from kept sources, by the name of their folder in `dir`, where diagnostics show them.
    pub fn of_packs(dir: &Path, packs: impl IntoIterator<Item = (String, PackFiles)>) -> RuleFiles {
        let entry = |(name, files): (String, PackFiles)| (dir.join(name), Entry::Pack(Folder::from(&files.0)));
        RuleFiles { dir: dir.to_owned(), entries: packs.into_iter().map(entry).collect(), problem: None, commit: None }
    }

    /// A folder of a repository, as it is at a commit, tag or branch. `dir` is where diagnostics show it.
    pub fn in_git(dir: &Path, repository: &Path, reference: &str, folder: &Path) -> RuleFiles {
        RuleFiles::of_commit(dir, git::read_inside(repository, reference, folder))
    }

    /// A rules folder as it was at a commit, held to the same limits. `dir` is where diagnostics show it.
    pub fn of_commit(dir: &Path, read: Result<GitFiles, GitError>) -> RuleFiles {
        let GitFiles { commit, files } = match read {
            Ok(read) => read,
            Err(error) => {
                let problem = Some(FileProblem::Git(error.to_string()));
                return RuleFiles { dir: dir.to_owned(), entries: Vec::new(), problem, commit: None };
            }
        };
        let mut folders: BTreeMap<PathBuf, BTreeMap<PathBuf, Vec<u8>>> = BTreeMap::new();
        let mut entries = Vec::new();
        for (path, bytes) in files.into_iter().filter(|(path, _)| !is_hidden(path)) {
            let mut parts = path.iter();
            let Some(first) = parts.next() else { continue };
            match parts.as_path() {
                inside if inside.as_os_str().is_empty() => entries.push((dir.join(first), Entry::Stray)),
                inside => drop(folders.entry(first.into()).or_default().insert(inside.to_owned(), bytes)),
            }
        }
        let pack = |(name, files): (PathBuf, BTreeMap<_, _>)| (dir.join(name), Entry::Pack(Folder::from(&files)));
        entries.extend(folders.into_iter().map(pack));
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        RuleFiles { dir: dir.to_owned(), entries, problem: None, commit: Some(commit.into()) }
    }

    /// The id of the commit that they are of, if they were read from git.
    pub fn commit(&self) -> Option<&Arc<str>> {
        self.commit.as_ref()
    }

    /// Whether it holds no pack.
    pub fn is_empty(&self) -> bool {
        self.packs().next().is_none()
    }

    /// The folder, as shown.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The digest of everything that matters for loading: names and content of files, what could not be read, and of
    /// which commit they are. Two snapshots of equal fingerprint load alike, wherever their folders are.
    pub fn fingerprint(&self) -> Digest {
        let mut hasher = blake3::Hasher::new_derive_key("probity rules folder v1");
        // Length first, so that parts cannot run into each other.
        let mut part = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        let problem = |path: &Path, problem: &FileProblem, part: &mut dyn FnMut(&[u8])| {
            part(b"problem");
            part(path.as_os_str().as_encoded_bytes());
            part(problem.to_string().as_bytes());
        };
        if let Some(commit) = &self.commit {
            part(b"commit");
            part(commit.as_bytes());
        }
        if let Some(found) = &self.problem {
            problem(Path::new(""), found, &mut part);
        }
        for (path, entry) in &self.entries {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            let Entry::Pack(folder) = entry else {
                part(b"stray");
                part(name);
                continue;
            };
            let kept =
                folder.bases.iter().map(|(name, base)| (b"base".as_slice(), name.as_os_str().as_encoded_bytes(), base));
            for (what, name, folder) in std::iter::once((b"pack".as_slice(), name, folder)).chain(kept) {
                part(what);
                part(name);
                for (path, bytes) in &folder.files {
                    part(b"file");
                    part(path.as_os_str().as_encoded_bytes());
                    part(bytes);
                }
                for path in &folder.unread {
                    part(b"unread");
                    part(path.as_os_str().as_encoded_bytes());
                }
                for (path, found) in &folder.problems {
                    problem(path, found, &mut part);
                }
            }
        }
        Digest::new(*hasher.finalize().as_bytes())
    }

    /// The files of the pack in a folder, with those of the packs that it extends; none if there is no such pack.
    pub fn pack(&self, root: &Path) -> Option<PackFiles> {
        let folder = self.packs().find(|(path, _)| *path == root)?.1;
        let mut files = folder.files.clone();
        let mut keep = |name: &Path, base: &Folder| {
            let inside = Path::new(KEPT_BASES).join(name);
            let read = base.files.iter().filter(|(path, _)| Part::of(path) != Part::Test);
            files.extend(read.map(|(path, bytes)| (inside.join(path), bytes.clone())));
        };
        if !folder.bases.is_empty() {
            folder.bases.iter().for_each(|(name, base)| keep(name, base));
        } else if extends_others(&folder.files) {
            let offers = Offers::of(self.packs());
            for base in offers.reached(root) {
                let found = self.packs().find(|(path, _)| *path == base.root);
                found.into_iter().for_each(|(_, folder)| keep(Path::new(&base.id()), folder));
            }
        }
        Some(PackFiles(files))
    }

    /// The folders that are packs.
    fn packs(&self) -> impl Iterator<Item = (&Path, &Folder)> {
        self.entries.iter().filter_map(|(path, entry)| match entry {
            Entry::Pack(folder) => Some((path.as_path(), folder)),
            Entry::Stray => None,
        })
    }
}

/// The files of one pack by their path in it. What it extends stands below `.bases`, a folder `NAME@VERSION` for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackFiles(BTreeMap<PathBuf, Vec<u8>>);

impl PackFiles {
    /// The files.
    pub fn files(&self) -> &BTreeMap<PathBuf, Vec<u8>> {
        &self.0
    }

    /// Without the pack's tests: what its meaning rests on. Tests hold whatever their authors tried the rules with.
    pub fn without_tests(self) -> PackFiles {
        PackFiles(self.0.into_iter().filter(|(path, _)| Part::of(path) != Part::Test).collect())
    }

    /// As kept: `version:byte=1  files:list of (path:text  content:bytes)`, with lengths and numbers as in audit
    /// records.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![SOURCES_VERSION];
        put_len(&mut out, self.0.len());
        for (path, content) in &self.0 {
            put_text(&mut out, &path.to_string_lossy());
            put_len(&mut out, content.len());
            out.extend_from_slice(content);
        }
        out
    }

    /// From kept bytes; nothing if they are not in this form.
    pub fn from_bytes(bytes: &[u8]) -> Option<PackFiles> {
        let mut reader = Reader::new(bytes);
        if reader.byte().ok()? != SOURCES_VERSION {
            return None;
        }
        let files = reader.list(|r| {
            let path = PathBuf::from(r.text()?);
            let len = r.len()?;
            Ok::<_, BytesError>((path, r.bytes(len)?.to_vec()))
        });
        let files = files.ok()?;
        reader.is_empty().then(|| PackFiles(files.into_iter().collect()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use std::fs;

    use super::*;

    /// A folder with one pack of two files.
    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/policies")).unwrap();
        fs::write(dir.path().join("a/pack.yaml"), "name: a\n").unwrap();
        fs::write(dir.path().join("a/policies/x.policy"), "x").unwrap();
        dir
    }

    #[test]
    fn whatever_matters_for_loading_changes_the_fingerprint_and_nothing_else_does() {
        let dir = folder();
        let print = || RuleFiles::read(dir.path()).fingerprint();
        let mut last = print();
        assert_eq!(last, print());
        assert_eq!(last, RuleFiles::read(folder().path()).fingerprint(), "wherever the folder is");
        let path = |name: &str| dir.path().join(name);
        let changes: [(&str, &dyn Fn()); 7] = [
            ("content", &|| fs::write(path("a/policies/x.policy"), "y").unwrap()),
            ("a name", &|| fs::rename(path("a/policies/x.policy"), path("a/policies/z.policy")).unwrap()),
            ("a file that nothing reads", &|| fs::write(path("a/odd.txt"), "1").unwrap()),
            ("a stray file", &|| fs::write(path("odd.txt"), "1").unwrap()),
            ("the name of a pack", &|| fs::rename(path("a"), path("b")).unwrap()),
            ("another pack", &|| fs::create_dir(path("c")).unwrap()),
            ("a link that leads nowhere", &|| std::os::unix::fs::symlink("gone", path("b/tools.yaml")).unwrap()),
        ];
        for (what, change) in changes {
            change();
            let now = print();
            assert_ne!(now, last, "{what}");
            last = now;
        }
        fs::write(path("b/odd.txt"), "2").unwrap();
        fs::write(path("odd.txt"), "2").unwrap();
        fs::write(path("b/.hidden"), "2").unwrap();
        assert_eq!(print(), last, "what nothing reads");
        fs::remove_dir_all(dir.path()).unwrap();
        assert_ne!(print(), last);
    }

    #[test]
    fn content_cannot_move_from_one_file_into_the_next_unnoticed() {
        let print = |x: &str, y: &str| {
            let files = [("policies/x.policy", x), ("policies/y.policy", y)];
            let files = files.map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec()));
            RuleFiles::of_packs(Path::new("r"), [("a".to_owned(), PackFiles(files.into()))]).fingerprint()
        };
        assert_ne!(print("ab", "c"), print("a", "bc"));
    }

    #[test]
    fn what_is_kept_with_a_pack_counts() {
        let print = |base: &str, path: &str| {
            let files = [("pack.yaml", "name: a\n"), (path, base)];
            let files = files.map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec()));
            RuleFiles::of_packs(Path::new("r"), [("a".to_owned(), PackFiles(files.into()))]).fingerprint()
        };
        let all = [
            print("x", ".bases/b@1.0.0/pack.yaml"),
            print("y", ".bases/b@1.0.0/pack.yaml"),
            print("x", ".bases/b@1.0.1/pack.yaml"),
            print("x", ".bases/b@1.0.0/tools.yaml"),
            print("x", "tools.yaml"),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn kept_sources_read_back_and_strange_bytes_do_not() {
        let dir = folder();
        let files = RuleFiles::read(dir.path());
        let pack = files.pack(&dir.path().join("a")).unwrap();
        assert_eq!(pack.files().len(), 2);
        let with = PackFiles([("pack.yaml", "a"), ("tests/a.yaml", "b")].map(|(p, t)| (p.into(), t.into())).into());
        assert_eq!(with.without_tests().files().keys().collect::<Vec<_>>(), [Path::new("pack.yaml")]);
        let bytes = pack.to_bytes();
        assert_eq!(PackFiles::from_bytes(&bytes), Some(pack.clone()));
        let again = RuleFiles::of_packs(dir.path(), [("a".to_owned(), pack)]);
        assert_eq!(again.fingerprint(), files.fingerprint());
        assert_eq!(PackFiles::from_bytes(&bytes[..bytes.len() - 1]), None);
        assert_eq!(PackFiles::from_bytes(&[bytes.as_slice(), &[0]].concat()), None);
        assert_eq!(PackFiles::from_bytes(&[2]), None);
        assert!(files.pack(&dir.path().join("b")).is_none());
    }
}
