//! What a pack has from the packs that it extends, and what is told about it.

use std::collections::BTreeSet;

use semver::Version;

use crate::diag::{Diagnostics, FileId, Severity, Span};

/// What a pack has from the packs that it extends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inherited {
    /// Those packs, in the order of `pack.yaml`.
    pub bases: Vec<Base>,
    /// The declarations of them that do not count, by the places of their names: overridden or left out.
    pub left_out: BTreeSet<Span>,
}

/// A pack that another one extends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Version,
    /// Where it is asked for.
    pub at: Span,
    /// Its files, and those of the packs that it extends in turn.
    pub files: BTreeSet<FileId>,
}

impl Inherited {
    /// Whether a file is one of another pack.
    pub fn has(&self, file: FileId) -> bool {
        self.bases.iter().any(|base| base.files.contains(&file))
    }

    /// Of what was found about a pack, what is to be told: no warnings about files of other packs, whose own checks tell
    /// them. An error in one of them is due to the pack that extends it, since that one has none by itself.
    pub fn told(&self, found: Diagnostics) -> Diagnostics {
        let one = |mut problem: crate::diag::Diagnostic| {
            let file = problem.primary.span.file;
            if let Some(base) = self.bases.iter().find(|base| base.files.contains(&file)) {
                if problem.severity == Severity::Warning {
                    return None;
                }
                problem = problem.secondary(base.at, "an error in this pack, not in the one that it extends");
            }
            Some(problem)
        };
        found.into_iter().filter_map(one).collect()
    }
}
