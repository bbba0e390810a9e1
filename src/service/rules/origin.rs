//! Where the rules are read from: a folder, or a folder of a git repository at a commit, tag or branch.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    config::RulesAt,
    pack::{self, RuleFiles},
};

/// Reads rules from where they are.
#[derive(Clone, Debug)]
pub struct Origin {
    at: RulesAt,
    /// What was read last from git: a commit does not change.
    known: Arc<Mutex<Option<RuleFiles>>>,
}

impl Origin {
    /// Of a place.
    pub fn new(at: RulesAt) -> Origin {
        Origin { at, known: Arc::default() }
    }

    /// Under which folder diagnostics show the rules.
    pub fn shown(&self) -> PathBuf {
        match &self.at {
            RulesAt::Folder(folder) => folder.clone(),
            RulesAt::Git { .. } => PathBuf::from(self.at.to_string()),
        }
    }

    /// The folder in which changes show first. What a branch or tag stands for is in files of the repository.
    pub fn watched(&self) -> PathBuf {
        match &self.at {
            RulesAt::Folder(folder) => folder.clone(),
            RulesAt::Git { repository, .. } => pack::references(repository).unwrap_or_else(|_| repository.clone()),
        }
    }

    /// Reads the rules as they now stand.
    pub fn read(&self) -> RuleFiles {
        let RulesAt::Git { repository, reference, folder } = &self.at else {
            return RuleFiles::read(self.at.path());
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(files), Ok(commit)) = (known.as_ref(), pack::resolve(repository, reference))
            && files.commit().is_some_and(|of| **of == *commit)
        {
            return files.clone();
        }
        let files = RuleFiles::in_git(&self.shown(), repository, reference, folder);
        *known = files.commit().is_some().then(|| files.clone());
        files
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{fs, path::Path, process::Command};

    use super::*;
    use crate::{diag::Style, engine::load_rule_files};

    fn git(repository: &Path, arguments: &[&str]) {
        let author = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"];
        let ran = Command::new("git").current_dir(repository).args(author).args(arguments).output().unwrap();
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    fn commit(repository: &Path, version: &str) {
        fs::create_dir_all(repository.join("house/rules/guard/policies")).unwrap();
        let manifest = format!("name: guard\nversion: {version}\nformat: 1\n");
        fs::write(repository.join("house/rules/guard/pack.yaml"), manifest).unwrap();
        let policy = "policy G1 \"Little is sent\" {\n  severity 1\n  on call send\n  deny if args.amount > 1\n}\n";
        fs::write(repository.join("house/rules/guard/policies/g.policy"), policy).unwrap();
        fs::write(repository.join("house/rules/README.md"), "about").unwrap();
        git(repository, &["add", "."]);
        git(repository, &["commit", "--quiet", "-m", version]);
    }

    fn version(files: &RuleFiles) -> Option<String> {
        let loaded = load_rule_files(files.clone());
        let said = loaded.diagnostics.render(&loaded.sources, Style::Plain);
        assert!(loaded.result.is_some(), "{said}");
        loaded.result.and_then(|set| set.iter().next().map(|pack| pack.version().to_string()))
    }

    #[test]
    fn rules_are_read_as_they_are_at_a_tag_or_branch() {
        let repository = tempfile::tempdir().unwrap();
        let folder = repository.path();
        git(folder, &["init", "--quiet", "--initial-branch", "main"]);
        commit(folder, "1.0.0");
        git(folder, &["tag", "v1"]);
        let at = |reference: &str| {
            let text = format!("git:{}@{reference}:house/rules", folder.display());
            Origin::new(RulesAt::read(&text).unwrap())
        };
        let (tag, branch, wrong) = (at("v1"), at("main"), at("v2"));
        let first = branch.read();
        assert_eq!(first.fingerprint(), tag.read().fingerprint());
        assert_eq!(first.commit().unwrap().len(), 40);
        commit(folder, "1.1.0");
        // Work trees play no part.
        fs::remove_dir_all(folder.join("house")).unwrap();
        let second = branch.read();
        assert_ne!(second.commit(), first.commit());
        assert_eq!(version(&second).as_deref(), Some("1.1.0"));
        assert_eq!(version(&tag.read()).as_deref(), Some("1.0.0"));
        // Nor does what stands there in its place.
        std::os::unix::fs::symlink("/tmp", folder.join("house")).unwrap();
        assert_eq!(version(&at("main").read()).as_deref(), Some("1.1.0"));
        // Another commit of the same content is told apart.
        git(folder, &["commit", "--quiet", "--allow-empty", "-m", "nothing"]);
        assert_ne!(branch.read().fingerprint(), second.fingerprint());
        assert!(branch.watched().ends_with(".git/refs"));

        let refused = load_rule_files(wrong.read());
        assert!(refused.result.is_none());
        let said = refused.diagnostics.render(&refused.sources, Style::Plain);
        assert!(said.contains("cannot be read from git: git knows no commit `v2`"), "{said}");
        // A repository without a work tree.
        let bare = tempfile::tempdir().unwrap();
        git(bare.path(), &["clone", "--quiet", "--bare", &folder.display().to_string(), "."]);
        let text = format!("git:{}@v1:house/rules", bare.path().display());
        assert_eq!(version(&Origin::new(RulesAt::read(&text).unwrap()).read()).as_deref(), Some("1.0.0"));
    }
}
