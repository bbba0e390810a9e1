//! From the files of a rules folder to a set that may serve, or to the reasons why it may not. Synchronous: it is run off
//! the serving threads.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use crate::{
    audit::{KeptPack, KeptSet, Refusal, Store, StoreError},
    config::Settings,
    diag::{self, Code, Severity, Style},
    engine::{self, Loaded, RuleSet},
    model::Digest,
    pack::{PackFiles, RuleFiles},
};

use super::{
    admit::{Beside, Conditions},
    origin::Origin,
    reference,
};

/// Bytes of the largest set whose sources are kept.
const MOST_KEPT: usize = 64 << 20;
/// Codes of errors that a record of a refusal names.
const CODES_TOLD: usize = 8;

/// Loads rules from a folder.
#[derive(Clone, Debug)]
pub struct Loader {
    origin: Origin,
    conditions: Conditions,
}

/// All that a load depends on, as it was read at one moment.
#[derive(Clone, Debug)]
pub struct Read {
    files: RuleFiles,
    beside: Beside,
    /// The digest of all of that.
    pub fingerprint: Digest,
}

/// A set that may serve.
#[derive(Debug)]
pub struct Candidate {
    /// The packs.
    pub set: RuleSet,
    /// Warnings about it.
    pub warnings: Vec<diag::Record>,
    /// The fingerprint of what was read.
    pub fingerprint: Digest,
    /// The id of the commit that it was read from, if that was in git.
    pub commit: Option<Arc<str>>,
    /// What is to be kept of it; nothing of a set that is too large for that.
    pub kept: Option<Arc<KeptSet>>,
}

/// A load that was refused.
#[derive(Clone, Debug)]
pub struct RefusedLoad {
    /// When.
    pub at: SystemTime,
    /// The fingerprint of what was read.
    pub fingerprint: Digest,
    /// The id of the commit that it was read from, if that was in git.
    pub commit: Option<Arc<str>>,
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

    /// What a record says about it.
    pub fn refusal(&self) -> Refusal {
        let mut codes: Vec<Code> = Vec::new();
        for d in self.diagnostics.iter().filter(|d| d.severity == Severity::Error) {
            if codes.len() < CODES_TOLD && !codes.contains(&d.code) {
                codes.push(d.code);
            }
        }
        let codes = codes.into_iter().map(|code| code.text().into()).collect();
        Refusal { fingerprint: self.fingerprint, errors: self.errors() as u64, codes }
    }
}

impl Loader {
    /// As the settings say.
    pub fn new(settings: &Settings) -> Loader {
        let given = |path: &Path| (!path.as_os_str().is_empty()).then(|| path.to_owned());
        Loader {
            origin: Origin::new(settings.rules.clone()),
            conditions: Conditions {
                on_test_failure: settings.on_test_failure,
                test_limit: settings.test_limit,
                pins: settings.rules_digest.clone(),
                pin_file: given(&settings.rules_digest_file),
                public_keys: given(&settings.rules_public_key_file),
            },
        }
    }

    /// Where the rules are.
    pub fn location(&self) -> String {
        self.origin.shown().display().to_string()
    }

    /// The folder in which changes show first.
    pub fn watched(&self) -> PathBuf {
        self.origin.watched()
    }

    /// Reads what a load depends on.
    pub fn read(&self) -> Read {
        self.with(self.origin.read())
    }

    /// Compiles what was read, and holds it to the conditions.
    pub fn load(&self, read: Read) -> Result<Candidate, RefusedLoad> {
        let Read { files, beside, fingerprint } = read;
        let Loaded { result, mut diagnostics, mut sources } = engine::load_rule_files(files.clone());
        if let Some(set) = &result {
            diagnostics.extend(self.conditions.check(set, &files, &beside, &mut sources));
        }
        let records = diagnostics.records(&sources);
        match result.filter(|_| !diagnostics.has_errors()) {
            Some(set) => Ok(Candidate {
                kept: kept(&set, &files),
                set,
                warnings: records,
                fingerprint,
                commit: files.commit().cloned(),
            }),
            None => Err(RefusedLoad {
                at: SystemTime::now(),
                fingerprint,
                commit: files.commit().cloned(),
                diagnostics: records.into(),
                rendered: diagnostics.render(&sources, Style::Plain).into(),
            }),
        }
    }

    /// The last set that served, from what a store kept of it, held to the conditions of now. Nothing if there is none
    /// that still means what it meant.
    pub fn last_good(&self, store: &dyn Store) -> Result<Option<Candidate>, StoreError> {
        let set = store.last_set()?;
        let mut packs: Vec<(Digest, String, PackFiles)> = Vec::with_capacity(set.len());
        for pack in &set {
            // Of versions that mean the same the store keeps the sources of one, and that one serves.
            if packs.iter().any(|(kept, ..)| *kept == pack.digest) {
                tracing::warn!(pack = %pack.name, version = %pack.version, "one of several versions that mean the same serves");
                continue;
            }
            let Some(files) = store.sources(&pack.digest)?.and_then(|bytes| PackFiles::from_bytes(&bytes)) else {
                tracing::error!(pack = %pack.name, "the store does not hold what the pack was compiled from");
                return Ok(None);
            };
            packs.push((pack.digest, format!("{}@{}", pack.name, pack.version), files));
        }
        if packs.is_empty() {
            return Ok(None);
        }
        let folders = packs.into_iter().map(|(_, folder, files)| (folder, files));
        let candidate = match self.load(self.with(RuleFiles::of_packs(&self.origin.shown(), folders))) {
            Ok(candidate) => candidate,
            Err(refused) => {
                tracing::error!(errors = refused.errors(), "the last good rules are refused as well");
                return Ok(None);
            }
        };
        // The name is part of the meaning.
        let was: BTreeSet<&Digest> = set.iter().map(|pack| &pack.digest).collect();
        let means_the_same = was == candidate.set.iter().map(|pack| pack.digest()).collect();
        if !means_the_same {
            tracing::error!("the last good rules mean something else to this version");
        }
        Ok(means_the_same.then_some(candidate))
    }

    fn with(&self, files: RuleFiles) -> Read {
        let beside = self.conditions.read();
        let fingerprint = beside.fingerprint(files.fingerprint());
        Read { files, beside, fingerprint }
    }
}

/// What is to be kept of a set, by name.
fn kept(set: &RuleSet, files: &RuleFiles) -> Option<Arc<KeptSet>> {
    let packs = set.iter().map(|pack| {
        let sources = files.pack(pack.root())?.without_tests().to_bytes();
        Some(KeptPack { pack: Arc::new(reference(pack)), sources })
    });
    let packs: Vec<KeptPack> = packs.collect::<Option<_>>()?;
    let bytes: usize = packs.iter().map(|pack| pack.sources.len()).sum();
    if bytes > MOST_KEPT {
        tracing::warn!(bytes, "the rules are too large for the store to keep a copy of them");
    }
    (bytes <= MOST_KEPT).then(|| Arc::new(KeptSet { packs }))
}
