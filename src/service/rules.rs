//! The served set of rule packs, and its reload: one function for the signal and the RPC.
//!
//! A set is swapped in whole. Each call loads the set once; each session keeps the pack that it
//! began with.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use arc_swap::ArcSwap;

use crate::{
    audit::PackRef,
    diag::{self, Style},
    engine::{self, Loaded, Pack, RuleSet},
};

/// A compiled set and when it began to serve.
#[derive(Debug)]
pub struct Served {
    /// The packs.
    pub set: RuleSet,
    /// Counts sets since the start, from 1.
    pub generation: u64,
    /// When it was loaded.
    pub loaded_at: SystemTime,
    /// Warnings about it.
    pub warnings: Vec<diag::Record>,
    refs: HashMap<Arc<str>, Arc<PackRef>>,
}

impl Served {
    fn new(set: RuleSet, warnings: Vec<diag::Record>, generation: u64) -> Served {
        let refs = set.iter().map(|pack| (pack.name().clone(), Arc::new(reference(pack)))).collect();
        Served { set, generation, loaded_at: SystemTime::now(), warnings, refs }
    }

    /// What records say about a pack of this set.
    pub fn pack_ref(&self, pack: &Pack) -> Arc<PackRef> {
        self.refs.get(pack.name()).cloned().unwrap_or_else(|| Arc::new(reference(pack)))
    }

    /// What records say about the packs, by name.
    pub fn pack_refs(&self) -> Vec<Arc<PackRef>> {
        let mut refs: Vec<_> = self.refs.values().cloned().collect();
        refs.sort_by(|a, b| a.name.cmp(&b.name));
        refs
    }
}

/// What records say about a pack.
pub fn reference(pack: &Pack) -> PackRef {
    PackRef { name: pack.name().clone(), version: pack.version().to_string().into(), digest: *pack.digest() }
}

/// A load that was refused.
#[derive(Clone, Debug)]
pub struct RefusedLoad {
    /// When.
    pub at: SystemTime,
    /// Why: errors, and the warnings beside them.
    pub diagnostics: Arc<[diag::Record]>,
    /// The same for people, with source lines and carets.
    pub rendered: Arc<str>,
}

/// Why rules could not be loaded.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    /// They have errors.
    #[error("the rules have {} error(s)", .0.diagnostics.iter().filter(|d| d.severity == diag::Severity::Error).count())]
    Refused(RefusedLoad),
    /// The loading itself broke; nothing is known about the rules.
    #[error("loading the rules broke")]
    Broke,
}

/// The rules that are served.
#[derive(Debug)]
pub struct LiveRules {
    folder: PathBuf,
    current: ArcSwap<Served>,
    refused: Mutex<Option<RefusedLoad>>,
    /// One compilation at a time.
    reloading: tokio::sync::Mutex<()>,
}

impl LiveRules {
    /// Loads the first set; blocks while it compiles.
    pub fn load(folder: &Path) -> Result<LiveRules, LoadError> {
        let (set, warnings) = compile(folder).map_err(LoadError::Refused)?;
        Ok(LiveRules {
            folder: folder.to_owned(),
            current: ArcSwap::from_pointee(Served::new(set, warnings, 1)),
            refused: Mutex::new(None),
            reloading: tokio::sync::Mutex::new(()),
        })
    }

    /// The served set. To be called once per decision.
    pub fn current(&self) -> Arc<Served> {
        self.current.load_full()
    }

    /// The last load, if it was refused.
    pub fn refused(&self) -> Option<RefusedLoad> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is wrong with the rules as they now stand on disk.
    pub async fn validate(&self) -> Result<Vec<diag::Record>, LoadError> {
        // A large set takes memory to compile: once at a time, whoever asks.
        let _alone = self.reloading.lock().await;
        let folder = self.folder.clone();
        match tokio::task::spawn_blocking(move || compile(&folder)).await {
            Ok(Ok((_, warnings))) => Ok(warnings),
            Ok(Err(refused)) => Err(LoadError::Refused(refused)),
            Err(_) => Err(LoadError::Broke),
        }
    }

    /// Compiles the rules as they now stand on disk, off the serving threads, and serves them; on
    /// any error the set before keeps serving. `activate` is called with the new set before it
    /// serves.
    pub async fn reload<F: Future<Output = ()>>(
        &self,
        activate: impl FnOnce(Arc<Served>) -> F,
    ) -> Result<Arc<Served>, LoadError> {
        let _alone = self.reloading.lock().await;
        let folder = self.folder.clone();
        let compiled = tokio::task::spawn_blocking(move || compile(&folder)).await.map_err(|_| LoadError::Broke)?;
        let (set, warnings) = match compiled {
            Ok(compiled) => compiled,
            Err(refused) => {
                tracing::error!(
                    errors = refused.diagnostics.len(),
                    "the rules were refused; the set before keeps serving"
                );
                for d in refused.diagnostics.iter() {
                    tracing::error!(code = d.code.text(), file = %d.place.file, line = d.place.line, column = d.place.column, "{}", d.message);
                }
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused.clone());
                return Err(LoadError::Refused(refused));
            }
        };
        let served = Arc::new(Served::new(set, warnings, self.current().generation + 1));
        activate(served.clone()).await;
        let before = self.current.swap(served.clone());
        for gone in before.set.iter().filter(|pack| served.set.get(pack.name()).is_none()) {
            tracing::warn!(pack = %gone.name(), "the pack is no longer there: new sessions under it are refused");
        }
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = None;
        tracing::info!(generation = served.generation, packs = served.refs.len(), "the rules were reloaded");
        // A large set takes its time to be freed.
        tokio::task::spawn_blocking(move || drop(before));
        Ok(served)
    }
}

fn compile(folder: &Path) -> Result<(RuleSet, Vec<diag::Record>), RefusedLoad> {
    let Loaded { result, diagnostics, sources } = engine::load_rules(folder);
    let records = diagnostics.records(&sources);
    match result {
        Some(set) => Ok((set, records)),
        None => Err(RefusedLoad {
            at: SystemTime::now(),
            diagnostics: records.into(),
            rendered: diagnostics.render(&sources, Style::Plain).into(),
        }),
    }
}
