//! Which file of a pack's folder holds what: the one table.

use std::path::{Component, Path};

use crate::diag::suggest;

use super::signature::SIGNATURE_FILE;

/// What a file of a pack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// `pack.yaml`.
    Manifest,
    /// `keywords.yaml`.
    Keywords,
    /// `probes.yaml`.
    Probes,
    /// `scoring.yaml`.
    Scoring,
    /// `redaction.yaml`.
    Redaction,
    /// `reward.yaml`.
    Reward,
    /// `tools.yaml`.
    Tools,
    /// `policies/**/*.policy`.
    Policy,
    /// `tests/**/*.yaml`.
    Test,
    /// `pack.sig`: who says that the pack may serve.
    Signature,
    /// Notes for people, and names that begin with a dot.
    Ignored,
    /// Nothing that a pack has.
    Unknown,
}

/// Files at the top of a pack.
const TOP: [(&str, Part); 9] = [
    ("pack.yaml", Part::Manifest),
    ("keywords.yaml", Part::Keywords),
    ("reward.yaml", Part::Reward),
    ("probes.yaml", Part::Probes),
    ("scoring.yaml", Part::Scoring),
    ("redaction.yaml", Part::Redaction),
    ("tools.yaml", Part::Tools),
    (SIGNATURE_FILE, Part::Signature),
    ("LICENSE", Part::Ignored),
];

/// The folders of a pack, and the ending of the files in them.
const FOLDERS: [(&str, &str, Part); 2] = [("policies", "policy", Part::Policy), ("tests", "yaml", Part::Test)];

impl Part {
    /// What the file at a path inside a pack is.
    pub(super) fn of(path: &Path) -> Part {
        let names = names(path);
        if names.iter().any(|n| n.starts_with('.')) || path.extension().is_some_and(|e| e == "md") {
            return Part::Ignored;
        }
        match names.as_slice() {
            [name] => TOP.iter().find(|(known, _)| known == name).map_or(Part::Unknown, |(_, part)| *part),
            [folder, ..] => {
                let known = FOLDERS.iter().find(|(known, _, _)| known == folder);
                let fits = known.filter(|(_, ending, _)| path.extension().is_some_and(|e| e == *ending));
                fits.map_or(Part::Unknown, |(_, _, part)| *part)
            }
            [] => Part::Unknown,
        }
    }

    /// The name of such a file at the top of a pack; of other files there is none.
    pub(super) fn file_name(self) -> Option<&'static str> {
        TOP.iter().find(|(_, part)| *part == self).map(|(name, _)| *name)
    }

    /// True if the content of such a file matters.
    pub(super) fn is_read(self) -> bool {
        !matches!(self, Part::Ignored | Part::Unknown)
    }
}

/// True if a pack may have this folder.
pub(super) fn is_folder(path: &Path) -> bool {
    names(path).first().is_none_or(|name| FOLDERS.iter().any(|(known, _, _)| known == name))
}

/// What to do about a file or folder that nothing reads.
pub(super) fn advice(path: &Path) -> String {
    let names = names(path);
    match names.as_slice() {
        [folder, _, ..] => match FOLDERS.iter().find(|(known, _, _)| known == folder) {
            Some((known, ending, _)) => format!("files in `{known}` end in `.{ending}`"),
            None => "a pack has the folders `policies` and `tests`".to_owned(),
        },
        [name] => {
            let known = TOP.iter().map(|(name, _)| *name).chain(FOLDERS.iter().map(|(name, _, _)| *name));
            match suggest(name, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "remove it, or give it a name that begins with a dot".to_owned(),
            }
        }
        [] => String::new(),
    }
}

fn names(path: &Path) -> Vec<&str> {
    path.components()
        .map(|c| match c {
            Component::Normal(name) => name.to_str().unwrap_or("\u{fffd}"),
            _ => ".",
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_part() {
        for (path, part) in [
            ("pack.yaml", Part::Manifest),
            ("policies/a.policy", Part::Policy),
            ("policies/money/b.policy", Part::Policy),
            ("policies/a.txt", Part::Unknown),
            ("policies/README.md", Part::Ignored),
            ("tests/a.yaml", Part::Test),
            ("tests/a.yml", Part::Unknown),
            ("a.policy", Part::Unknown),
            ("tools.yaml", Part::Tools),
            ("pack.sig", Part::Signature),
            ("policies/pack.sig", Part::Unknown),
            ("README.md", Part::Ignored),
            (".git/config", Part::Ignored),
            ("tests/.a.yaml", Part::Ignored),
            ("other/pack.yaml", Part::Unknown),
            ("../pack.yaml", Part::Ignored),
        ] {
            assert_eq!(Part::of(Path::new(path)), part, "{path}");
        }
    }
}
