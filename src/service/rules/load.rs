//! From the files of a rules folder to a set that may serve, or to the reasons why it may not. Synchronous: it is run off
//! the serving threads.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use crate::{
    diag::{self, Severity, Style},
    engine::{self, Loaded, RuleSet},
    model::Digest,
    pack::RuleFiles,
};

/// Loads rules from a folder.
#[derive(Clone, Debug)]
pub struct Loader {
    folder: PathBuf,
}

/// A set that may serve.
#[derive(Debug)]
pub struct Candidate {
    /// The packs.
    pub set: RuleSet,
    /// Warnings about it.
    pub warnings: Vec<diag::Record>,
    /// The fingerprint of the files that it was compiled from.
    pub fingerprint: Digest,
}

/// A load that was refused.
#[derive(Clone, Debug)]
pub struct RefusedLoad {
    /// When.
    pub at: SystemTime,
    /// The fingerprint of the files.
    pub fingerprint: Digest,
    /// Why: errors, and the warnings beside them.
    pub diagnostics: Arc<[diag::Record]>,
    /// The same for people, with source lines and carets.
    pub rendered: Arc<str>,
}

impl RefusedLoad {
    /// How many errors there are.
    pub fn errors(&self) -> usize {
        self.diagnostics.iter().filter(|d| d.severity == Severity::Error).count()
    }
}

impl Loader {
    /// Of a folder.
    pub fn new(folder: &Path) -> Loader {
        Loader { folder: folder.to_owned() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads what a load depends on, and its fingerprint.
    pub fn read(&self) -> (RuleFiles, Digest) {
        let files = RuleFiles::read(&self.folder);
        let fingerprint = files.fingerprint();
        (files, fingerprint)
    }

    /// Compiles what was read.
    pub fn load(&self, files: RuleFiles, fingerprint: Digest) -> Result<Candidate, RefusedLoad> {
        let Loaded { result, diagnostics, sources } = engine::load_rule_files(files);
        let records = diagnostics.records(&sources);
        match result {
            Some(set) => Ok(Candidate { set, warnings: records, fingerprint }),
            None => Err(RefusedLoad {
                at: SystemTime::now(),
                fingerprint,
                diagnostics: records.into(),
                rendered: diagnostics.render(&sources, Style::Plain).into(),
            }),
        }
    }
}
