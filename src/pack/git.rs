//! The edge to git: the files of a folder as they were at a commit.
//!
//! Asked is the `git` program, which knows work trees, alternates, partial clones and what is to come. Nothing of
//! a repository is changed, and none of its hooks, filters and converters is run.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    io::{BufRead, BufReader, Write},
    path::{Component, Path, PathBuf},
    process::{Command, Stdio},
};

use super::{
    folder::{MANIFEST, MAX_FILES, MAX_PACK_BYTES, is_hidden},
    layout::Part,
};

/// Files as they were at a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitFiles {
    /// The commit's id.
    pub commit: String,
    /// The files by their path below the folder.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
}

/// Why there are no such files.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The program cannot be run.
    #[error("git cannot be run: {0}")]
    Missing(std::io::Error),
    /// It says no.
    #[error("{0}")]
    Refused(String),
    /// No commit has that name.
    #[error("git knows no commit `{0}`")]
    Reference(String),
    /// There is no such folder at the commit.
    #[error("there is no folder {folder} at {reference}")]
    Folder {
        /// Which folder.
        folder: PathBuf,
        /// At which commit, as it was asked for.
        reference: String,
    },
    /// A link, which leads out of what is looked at.
    #[error("{0} is a symbolic link at that commit; rules that are read from git hold files alone")]
    Link(String),
    /// More than packs may have.
    #[error("there are more or larger files than packs may have")]
    TooLarge,
    /// An answer that is no answer.
    #[error("git answers in a way that is not understood")]
    Answer,
}

/// The id of the commit that a commit, tag or branch stands for, in the repository of a folder.
pub fn resolve(folder: &Path, reference: &str) -> Result<String, GitError> {
    if !folder.is_dir() {
        return Err(GitError::Refused(format!("there is no repository at {}", folder.display())));
    }
    commit(&standing(folder).0, reference)
}

/// Where a repository keeps what its branches and tags stand for, but for those that it has packed into one file.
pub fn references(repository: &Path) -> Result<PathBuf, GitError> {
    let inside = text(ask(repository, &["rev-parse", "--git-common-dir"])?)?;
    Ok(repository.join(inside).join("refs"))
}

fn commit(here: &Path, reference: &str) -> Result<String, GitError> {
    // What is asked for by name is never taken for an option.
    let commit = format!("{reference}^{{commit}}");
    match ask(here, &["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]) {
        Err(GitError::Refused(words)) if words.is_empty() => Err(GitError::Reference(reference.to_owned())),
        other => text(other?),
    }
}

/// The files of a folder, which need not exist any more, as they were at a commit, tag or branch.
pub fn read_folder(folder: &Path, reference: &str) -> Result<GitFiles, GitError> {
    list(folder, reference)?.read(|_| true)
}

/// The files of a folder of a repository as they were at a commit, whatever stands in its work tree. Names that begin
/// with a dot are passed over.
pub fn read_inside(repository: &Path, reference: &str, folder: &Path) -> Result<GitFiles, GitError> {
    let commit = resolve(repository, reference)?;
    let inside = folder.to_str().ok_or(GitError::Answer)?;
    tree(repository.to_owned(), commit, inside, folder, reference)?.read(|path| !is_hidden(path))
}

/// The packs of a folder as they were at a commit, and nothing else that it holds: it may be the root of a repository.
pub fn read_packs(folder: &Path, reference: &str) -> Result<GitFiles, GitError> {
    let listed = list(folder, reference)?;
    let manifest = |path: &Path| path.ends_with(MANIFEST) && path.iter().count() == 2;
    let manifests = listed.files()?.filter(|file| manifest(file.path));
    let packs: BTreeSet<&Path> = manifests.filter_map(|file| file.path.parent()).collect();
    let is_read = |path: &Path| {
        let mut names = path.components();
        let pack = names.next().map(|name| Path::new(name.as_os_str()));
        pack.is_some_and(|pack| packs.contains(pack)) && Part::of(names.as_path()).is_read()
    };
    listed.read(is_read)
}

/// What a folder holds at a commit.
struct Listing {
    here: PathBuf,
    commit: String,
    answer: Vec<u8>,
}

/// A file in a listing.
struct Listed<'l> {
    is_link: bool,
    id: &'l str,
    path: &'l Path,
}

fn list(folder: &Path, reference: &str) -> Result<Listing, GitError> {
    let (here, below) = standing(folder);
    let commit = commit(&here, reference)?;
    let prefix = text(ask(&here, &["rev-parse", "--show-prefix"])?)?;
    let inside = Path::new(&prefix).join(below);
    let inside = inside.to_str().ok_or(GitError::Answer)?;
    tree(here, commit, inside, folder, reference)
}

/// What a tree holds. It is named by its path in the repository, and shown as `folder`.
fn tree(here: PathBuf, commit: String, inside: &str, folder: &Path, reference: &str) -> Result<Listing, GitError> {
    let tree = format!("{commit}:{}", inside.trim_end_matches('/'));
    let answer = ask(&here, &["ls-tree", "-r", "-z", "--full-tree", &tree]).map_err(|error| match error {
        GitError::Refused(_) => GitError::Folder { folder: folder.to_owned(), reference: reference.to_owned() },
        other => other,
    })?;
    Ok(Listing { here, commit, answer })
}

impl Listing {
    /// The files and links: `MODE blob ID<tab>PATH<nul>`, ... Another repository inside of this one has its own rules.
    fn files(&self) -> Result<impl Iterator<Item = Listed<'_>>, GitError> {
        let answer = std::str::from_utf8(&self.answer).map_err(|_| GitError::Answer)?;
        let mut files = Vec::new();
        for line in answer.split_terminator('\0') {
            let (about, path) = line.split_once('\t').ok_or(GitError::Answer)?;
            let mut about = about.split(' ');
            let (mode, kind, id) = (about.next(), about.next(), about.next().ok_or(GitError::Answer)?);
            if kind == Some("blob") {
                files.push(Listed { is_link: mode == Some("120000"), id, path: Path::new(path) });
            }
        }
        Ok(files.into_iter())
    }

    /// The contents of the files that are wanted.
    fn read(&self, is_wanted: impl Fn(&Path) -> bool) -> Result<GitFiles, GitError> {
        let mut blobs = Vec::new();
        for Listed { is_link, id, path } in self.files()?.filter(|file| is_wanted(file.path)) {
            if is_link {
                return Err(GitError::Link(path.display().to_string()));
            }
            if path.components().any(|part| !matches!(part, Component::Normal(_))) {
                return Err(GitError::Answer);
            }
            blobs.push((id.to_owned(), path.to_owned()));
            if blobs.len() > MAX_FILES {
                return Err(GitError::TooLarge);
            }
        }
        Ok(GitFiles { commit: self.commit.clone(), files: contents(&self.here, blobs)? })
    }
}

/// The nearest folder that exists, and what is below it.
fn standing(folder: &Path) -> (PathBuf, PathBuf) {
    let mut here = folder.to_owned();
    let mut below = PathBuf::new();
    while !here.is_dir() {
        let Some(name) = here.file_name().map(PathBuf::from) else { break };
        below = name.join(below);
        here.pop();
    }
    if here.as_os_str().is_empty() {
        here.push(".");
    }
    (here, below)
}

/// What `git` answers.
fn ask(here: &Path, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
    let answer = git(here).args(arguments).stdin(Stdio::null()).output().map_err(GitError::Missing)?;
    if answer.status.success() {
        return Ok(answer.stdout);
    }
    let words = String::from_utf8_lossy(&answer.stderr);
    Err(GitError::Refused(words.lines().next().unwrap_or_default().trim_start_matches("fatal: ").to_owned()))
}

/// What tells `git` of another repository than the one that stands in a folder, as its hooks are told.
const ELSEWHERE: [&str; 17] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

fn git(here: &Path) -> Command {
    let mut command = Command::new("git");
    // What these print would stand among the reasons why it says no.
    let traces =
        std::env::vars_os().map(|(name, _)| name).filter(|name| name.as_encoded_bytes().starts_with(b"GIT_TRACE"));
    for variable in ELSEWHERE.into_iter().map(OsString::from).chain(traces) {
        command.env_remove(variable);
    }
    command.arg("-C").arg(here).args(["-c", "core.fsmonitor=false"]).env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0");
    command
}

fn text(answer: Vec<u8>) -> Result<String, GitError> {
    let text = String::from_utf8(answer).map_err(|_| GitError::Answer)?;
    Ok(text.trim_end_matches('\n').to_owned())
}

/// The contents of files, asked for in one run.
fn contents(here: &Path, blobs: Vec<(String, PathBuf)>) -> Result<BTreeMap<PathBuf, Vec<u8>>, GitError> {
    let mut run = git(here)
        .args(["cat-file", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(GitError::Missing)?;
    let files = match (run.stdin.take(), run.stdout.take()) {
        (Some(mut asks), Some(answers)) => exchange(&mut asks, BufReader::new(answers), blobs),
        _ => Err(GitError::Answer),
    };
    // It ends by itself once nothing more is asked; after a mistake it is not waited for.
    if files.is_err() {
        let _ = run.kill();
    }
    let _ = run.wait();
    files
}

fn exchange(
    asks: &mut impl Write,
    mut answers: impl BufRead,
    blobs: Vec<(String, PathBuf)>,
) -> Result<BTreeMap<PathBuf, Vec<u8>>, GitError> {
    let broken = |_| GitError::Answer;
    let mut files = BTreeMap::new();
    let mut bytes = 0usize;
    for (id, path) in blobs {
        // One at a time, so that neither side waits for the other with a full pipe.
        writeln!(asks, "{id}").and_then(|()| asks.flush()).map_err(broken)?;
        let mut head = String::new();
        answers.read_line(&mut head).map_err(broken)?;
        let size = head.trim_end().rsplit(' ').next().and_then(|size| size.parse::<usize>().ok());
        let size = size.ok_or(GitError::Answer)?;
        bytes = bytes.saturating_add(size);
        if bytes > MAX_PACK_BYTES {
            return Err(GitError::TooLarge);
        }
        let mut content = vec![0; size];
        answers.read_exact(&mut content).map_err(broken)?;
        let mut end = [0];
        answers.read_exact(&mut end).map_err(broken)?;
        files.insert(path, content);
    }
    Ok(files)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;

    fn run(folder: &Path, arguments: &[&str]) {
        let ran = Command::new("git")
            .current_dir(folder)
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), &["init", "--quiet"]);
        std::fs::create_dir_all(folder.path().join("rules/a b/policies")).unwrap();
        std::fs::write(folder.path().join("rules/a b/pack.yaml"), "one\n").unwrap();
        std::fs::write(folder.path().join("rules/a b/policies/é.policy"), "").unwrap();
        run(folder.path(), &["add", "."]);
        run(folder.path(), &["commit", "--quiet", "-m", "one"]);
        run(folder.path(), &["tag", "v1"]);
        std::fs::write(folder.path().join("rules/a b/pack.yaml"), "two\n").unwrap();
        run(folder.path(), &["commit", "--quiet", "-am", "two"]);
        folder
    }

    #[test]
    fn a_folder_is_read_as_it_was() {
        let repository = repository();
        let pack = repository.path().join("rules/a b");
        let read = read_folder(&pack, "v1").unwrap();
        assert_eq!(read.commit.len(), 40);
        let names: Vec<&str> = read.files.keys().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(names, ["pack.yaml", "policies/é.policy"]);
        assert_eq!(read.files.get(Path::new("pack.yaml")).unwrap(), b"one\n");
        assert_eq!(read_folder(&pack, "HEAD").unwrap().files.get(Path::new("pack.yaml")).unwrap(), b"two\n");
        // A folder that is gone from the work tree, and the whole repository.
        std::fs::remove_dir_all(repository.path().join("rules")).unwrap();
        assert_eq!(read_folder(&pack, "v1").unwrap(), read);
        assert!(read_folder(repository.path(), "v1").unwrap().files.contains_key(Path::new("rules/a b/pack.yaml")));
    }

    #[test]
    fn what_is_not_there_is_refused_with_its_reason() {
        let repository = repository();
        let folder = repository.path().join("rules");
        assert!(matches!(read_folder(&folder, "v2"), Err(GitError::Reference(name)) if name == "v2"));
        assert!(matches!(read_folder(&folder, "--all"), Err(GitError::Reference(_))));
        assert!(matches!(read_folder(&repository.path().join("other"), "v1"), Err(GitError::Folder { .. })));
        let outside = tempfile::tempdir().unwrap();
        let refused = read_folder(outside.path(), "HEAD").unwrap_err();
        assert!(refused.to_string().contains("HEAD") || refused.to_string().contains("repository"), "{refused}");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let repository = repository();
        std::os::unix::fs::symlink("/etc/passwd", repository.path().join("rules/x.yaml")).unwrap();
        run(repository.path(), &["add", "."]);
        run(repository.path(), &["commit", "--quiet", "-m", "link"]);
        assert!(matches!(read_folder(&repository.path().join("rules"), "HEAD"), Err(GitError::Link(_))));
    }
}
