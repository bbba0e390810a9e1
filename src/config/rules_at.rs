//! Where rules are: in a folder, or in a folder of a git repository at a commit, tag or branch.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// How a place in a git repository begins.
const GIT: &str = "git:";

/// Where rules are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulesAt {
    /// In a folder, as it now is.
    Folder(PathBuf),
    /// In a folder of a repository, as it is at a commit.
    Git {
        /// The repository's folder, with or without a work tree.
        repository: PathBuf,
        /// The commit, tag or branch.
        reference: String,
        /// The folder inside the repository; empty for all of it.
        folder: PathBuf,
    },
}

impl RulesAt {
    /// Reads `FOLDER` or `git:REPOSITORY@REF:FOLDER`; nothing if the text is neither.
    pub fn read(text: &str) -> Option<RulesAt> {
        let Some(at) = text.strip_prefix(GIT) else {
            return (!text.is_empty()).then(|| RulesAt::Folder(PathBuf::from(text)));
        };
        // The path of a repository may have the sign in it, the name of a commit has neither of the two.
        let (repository, at) = at.rsplit_once('@')?;
        let (reference, folder) = at.split_once(':').unwrap_or((at, ""));
        let relative = Path::new(folder).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let complete = !repository.is_empty() && !reference.is_empty() && relative;
        complete.then(|| RulesAt::Git {
            repository: repository.into(),
            reference: reference.to_owned(),
            folder: folder.into(),
        })
    }

    /// The folder, or that of the repository.
    pub fn path(&self) -> &Path {
        match self {
            RulesAt::Folder(folder) => folder,
            RulesAt::Git { repository, .. } => repository,
        }
    }
}

impl From<PathBuf> for RulesAt {
    fn from(folder: PathBuf) -> RulesAt {
        RulesAt::Folder(folder)
    }
}

impl fmt::Display for RulesAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RulesAt::Folder(folder) => folder.display().fmt(f),
            RulesAt::Git { repository, reference, folder } => {
                write!(f, "{GIT}{}@{reference}:{}", repository.display(), folder.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_in_a_folder_or_in_git() {
        let git = |repository: &str, reference: &str, folder: &str| {
            Some(RulesAt::Git { repository: repository.into(), reference: reference.to_owned(), folder: folder.into() })
        };
        assert_eq!(RulesAt::read("rules"), Some(RulesAt::Folder("rules".into())));
        assert_eq!(RulesAt::read("git:/srv/r@v1.2.0:rules/a"), git("/srv/r", "v1.2.0", "rules/a"));
        assert_eq!(RulesAt::read("git:/home/a@b/r@refs/heads/main:"), git("/home/a@b/r", "refs/heads/main", ""));
        assert_eq!(RulesAt::read("git:.@main"), git(".", "main", ""));
        for bad in [
            "",
            "git:",
            "git:/srv/r",
            "git:@main:rules",
            "git:/srv/r@:rules",
            "git:/srv/r@main:../x",
            "git:/srv/r@main:/x",
        ] {
            assert_eq!(RulesAt::read(bad), None, "{bad}");
        }
        for text in ["rules", "git:/srv/r@v1.2.0:rules/a"] {
            assert_eq!(RulesAt::read(text).map(|at| at.to_string()).as_deref(), Some(text));
        }
    }
}
