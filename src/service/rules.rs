//! The served set of rule packs and what became of the last load.
//!
//! A set is swapped in whole. Each call loads the set once; each session is under
//! one pack of a set at a time (see `follow`). How a new set comes in is told in `reload`.

mod admit;
mod hints;
mod load;
mod old;
mod origin;
mod settle;
mod watch;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwap;
use tokio::sync::{Mutex, MutexGuard, oneshot, watch as told};

use crate::{
    audit::{KeptSet, PackRef, Store, StoreError},
    config::Settings,
    diag::{self, Severity},
    engine::{Pack, RuleSet},
    model::Digest,
};

pub use load::{Candidate, RefusedLoad};
pub use old::OldRules;
pub use watch::{WatchSettings, Watched};

use load::{Loader, Read};

/// How long a folder may go on changing under somebody who asks for its rules to be loaded.
const PATIENCE: Duration = Duration::from_secs(10);
/// The settle time of somebody who asks, once two readings did not agree.
const ASKED_SETTLE: Duration = Duration::from_millis(250);

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
    /// The fingerprint of what it was loaded from.
    pub fingerprint: Digest,
    /// The id of the commit that it was loaded from, if that was in git.
    pub commit: Option<Arc<str>>,
    /// It comes from the store, since the rules on disk were refused at start.
    pub last_good: bool,
    /// What records say about the packs, in their order.
    refs: Vec<Arc<PackRef>>,
}

impl Served {
    fn new(candidate: Candidate, generation: u64, last_good: bool) -> (Arc<Served>, Option<Arc<KeptSet>>) {
        let Candidate { set, warnings, fingerprint, commit, kept } = candidate;
        let refs = set.iter().map(|pack| Arc::new(reference(pack))).collect();
        let loaded_at = SystemTime::now();
        let served = Served { set, generation, loaded_at, warnings, fingerprint, commit, last_good, refs };
        (Arc::new(served), kept)
    }

    /// What records say about a pack of this set.
    pub fn pack_ref(&self, pack: &Pack) -> Arc<PackRef> {
        let place = self.set.iter().position(|served| std::ptr::eq(&**served, pack));
        place.and_then(|place| self.refs.get(place)).cloned().unwrap_or_else(|| Arc::new(reference(pack)))
    }

    /// A pack of this set as the rules of a session.
    pub fn rules(&self, pack: &Arc<Pack>) -> SessionRules {
        SessionRules { pack: pack.clone(), named: self.pack_ref(pack), generation: self.number() }
    }

    /// Its number.
    pub fn number(&self) -> Generation {
        Generation::Loaded(self.generation)
    }

    /// What records say about the packs, by name and then from the least version.
    pub fn pack_refs(&self) -> Vec<Arc<PackRef>> {
        self.refs.clone()
    }
}

/// Rules that are in memory together and leave it together; in the order of their age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// A pack that served before the start, by the number of those that were compiled again since.
    Stored(u64),
    /// A set that was loaded since the start, by its number.
    Loaded(u64),
}

impl Generation {
    /// Its number where it was loaded since the start; 0 otherwise.
    pub fn loaded(self) -> u64 {
        match self {
            Generation::Stored(_) => 0,
            Generation::Loaded(number) => number,
        }
    }
}

/// The rules that a session is under.
#[derive(Clone, Debug)]
pub struct SessionRules {
    /// The pack.
    pub pack: Arc<Pack>,
    /// What its records say about it.
    pub named: Arc<PackRef>,
    /// What the pack is in memory with.
    pub generation: Generation,
}

/// What records say about a pack.
pub fn reference(pack: &Pack) -> PackRef {
    PackRef { name: pack.name().clone(), version: pack.version().to_string().into(), digest: *pack.digest() }
}

/// The rules on disk are not those that are served.
#[derive(Clone, Debug)]
pub struct Stale {
    /// Since when: the first load that was refused, with none accepted since.
    pub since: SystemTime,
    /// The same on a clock that is not set.
    pub since_instant: Instant,
    /// The last load.
    pub refused: RefusedLoad,
}

impl Stale {
    fn since_now(refused: RefusedLoad) -> Stale {
        Stale { since: refused.at, since_instant: Instant::now(), refused }
    }
}

/// What loading came to since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadCounts {
    /// Sets that began to serve.
    pub accepted: u64,
    /// Loads that were refused.
    pub refused: u64,
}

/// Why rules were not loaded.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    /// They have errors.
    #[error("the rules have {} error(s)", .0.errors())]
    Refused(RefusedLoad),
    /// Somebody is writing them.
    #[error("the rules folder does not come to rest: somebody is still writing to it")]
    Unsettled,
    /// The loading itself broke; nothing is known about the rules.
    #[error("loading the rules broke")]
    Broke,
}

/// Why rules are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Somebody asks for it.
    Asked,
    /// The folder changed, and came to rest at this fingerprint.
    Settled(Digest),
}

/// The rules that are served.
#[derive(Debug)]
pub struct LiveRules {
    loader: Loader,
    /// They are a candidate that answers nobody.
    candidate: bool,
    current: ArcSwap<Served>,
    stale: told::Sender<Option<Stale>>,
    /// One load at a time, whoever asks: a large set takes memory to compile.
    loading: Mutex<()>,
    /// What is to be kept of the first set, until it is recorded.
    first: std::sync::Mutex<Option<Arc<KeptSet>>>,
    accepted: AtomicU64,
    refused: AtomicU64,
}

/// The right to load, for one at a time.
pub type Alone<'a> = MutexGuard<'a, ()>;

/// What a load led to.
#[derive(Debug)]
pub enum Prepared {
    /// The rules on disk are served already.
    Same(Arc<Served>),
    /// They can be served.
    New {
        /// The set.
        served: Arc<Served>,
        /// What is to be kept of it.
        kept: Option<Arc<KeptSet>>,
    },
    /// They cannot.
    Refused(RefusedLoad),
}

impl LiveRules {
    /// Loads the first set; blocks while it compiles.
    pub fn load(settings: &Settings) -> Result<LiveRules, LoadError> {
        let loader = Loader::new(settings);
        let mut read = loader.read();
        let until = Instant::now() + PATIENCE;
        loop {
            let again = loader.read();
            if again.fingerprint == read.fingerprint {
                break;
            }
            if Instant::now() > until {
                return Err(LoadError::Unsettled);
            }
            thread::sleep(ASKED_SETTLE);
            read = again;
        }
        let candidate = loader.load(read).map_err(LoadError::Refused)?;
        Ok(LiveRules::first(loader, candidate, None))
    }

    /// The last set that served, from what a store kept of it, in place of one that is refused; nothing if there is none
    /// that can serve. Blocks while it compiles.
    pub fn last_good(
        settings: &Settings,
        store: &dyn Store,
        refused: RefusedLoad,
    ) -> Result<Option<LiveRules>, StoreError> {
        let loader = Loader::new(settings);
        let candidate = loader.last_good(store)?;
        Ok(candidate.map(|candidate| LiveRules::first(loader, candidate, Some(Stale::since_now(refused)))))
    }

    /// No rules yet: the first that are loaded begin to serve.
    pub fn none_yet(settings: &Settings) -> LiveRules {
        let nothing = Candidate {
            set: RuleSet::default(),
            warnings: Vec::new(),
            fingerprint: Digest::new([0; 32]),
            commit: None,
            kept: None,
        };
        LiveRules { candidate: true, ..LiveRules::first(Loader::new(settings), nothing, None) }
    }

    fn first(loader: Loader, candidate: Candidate, stale: Option<Stale>) -> LiveRules {
        let refused = u64::from(stale.is_some());
        let (served, kept) = Served::new(candidate, 1, stale.is_some());
        LiveRules {
            loader,
            candidate: false,
            current: ArcSwap::new(served),
            stale: told::Sender::new(stale),
            loading: Mutex::new(()),
            first: std::sync::Mutex::new(kept),
            accepted: AtomicU64::new(1),
            refused: AtomicU64::new(refused),
        }
    }

    /// What is to be kept of the first set; given once.
    pub fn take_first(&self) -> Option<Arc<KeptSet>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What loading came to since the start.
    pub fn counts(&self) -> LoadCounts {
        let [accepted, refused] = [&self.accepted, &self.refused].map(|n| n.load(Ordering::Relaxed));
        LoadCounts { accepted, refused }
    }

    /// Where the rules are.
    pub fn location(&self) -> String {
        self.loader.location()
    }

    /// The served set. To be called once per decision.
    pub fn current(&self) -> Arc<Served> {
        self.current.load_full()
    }

    /// How the rules on disk stand to those that are served: `Some` while they are refused.
    pub fn stale(&self) -> told::Receiver<Option<Stale>> {
        self.stale.subscribe()
    }

    /// Waits until nobody else loads.
    pub async fn alone(&self) -> Alone<'_> {
        self.loading.lock().await
    }

    /// Loads the rules as they now stand on disk, off the serving threads; serves nothing yet.
    pub async fn prepare(&self, _alone: &Alone<'_>, trigger: Trigger) -> Result<Prepared, LoadError> {
        let read = self.settled(trigger).await?;
        let served = self.current();
        if served.fingerprint == read.fingerprint && !served.last_good {
            return Ok(Prepared::Same(served));
        }
        let loader = self.loader.clone();
        Ok(match apart(move || loader.load(read)).await? {
            Ok(candidate) => {
                let (served, kept) = Served::new(candidate, served.generation + 1, false);
                Prepared::New { served, kept }
            }
            Err(refused) => Prepared::Refused(refused),
        })
    }

    /// What is wrong with the rules as they now stand on disk; only warnings if they could serve.
    pub async fn validate(&self) -> Result<Vec<diag::Record>, LoadError> {
        self.on_disk().await.map(|candidate| candidate.warnings)
    }

    /// The rules as they now stand on disk, if they could serve.
    pub async fn on_disk(&self) -> Result<Candidate, LoadError> {
        let _alone = self.alone().await;
        let read = self.settled(Trigger::Asked).await?;
        let loader = self.loader.clone();
        apart(move || loader.load(read)).await?.map_err(LoadError::Refused)
    }

    /// Serves a set that was prepared.
    pub fn serve(&self, _alone: &Alone<'_>, served: Arc<Served>) {
        let before = self.current.swap(served.clone());
        self.stale.send_replace(None);
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let packs: Vec<String> = served.refs.iter().map(|pack| format!("{pack:?}")).collect();
        let (generation, commit, packs) = (served.generation, served.commit.as_deref(), packs.join(", "));
        if self.candidate {
            tracing::info!(generation, commit, %packs, "the candidate beside the rules was loaded");
        } else {
            let lines = |set: &RuleSet| set.iter().map(|pack| pack.line()).collect::<BTreeSet<_>>();
            for gone in lines(&before.set).difference(&lines(&served.set)) {
                tracing::warn!(pack = %gone, "the pack is no longer there: new sessions under it are refused");
            }
            tracing::info!(generation, commit, %packs, "the rules were reloaded");
        }
        log(&served.warnings);
        // A large set takes its time to be freed.
        tokio::task::spawn_blocking(move || drop(before));
    }

    /// The rules on disk are those that are served.
    pub fn confirm(&self, _alone: &Alone<'_>) {
        if self.stale.send_replace(None).is_some() && !self.candidate {
            tracing::info!("the rules on disk are again those that are served");
        }
    }

    /// Notes that a load was refused.
    pub fn refuse(&self, _alone: &Alone<'_>, refused: RefusedLoad) {
        match self.candidate {
            true => tracing::error!(
                errors = refused.errors(),
                commit = refused.commit.as_deref(),
                "the candidate beside the rules cannot be loaded"
            ),
            false => tracing::error!(
                errors = refused.errors(),
                commit = refused.commit.as_deref(),
                "the rules were refused; the set before keeps serving"
            ),
        }
        log(&refused.diagnostics);
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.stale.send_modify(|stale| match stale {
            // Stale since the first of them.
            Some(stale) => stale.refused = refused,
            None => *stale = Some(Stale::since_now(refused)),
        });
    }

    /// True if there is nothing to do about these files: they are served, or they were refused and nothing else
    /// happened since.
    fn knows(&self, fingerprint: &Digest) -> bool {
        match self.stale.borrow().as_ref() {
            Some(stale) => stale.refused.fingerprint == *fingerprint,
            None => self.current.load().fingerprint == *fingerprint,
        }
    }

    /// Reads the folder until two readings agree.
    async fn settled(&self, trigger: Trigger) -> Result<Read, LoadError> {
        let mut before = match trigger {
            Trigger::Asked => self.read().await?.fingerprint,
            Trigger::Settled(fingerprint) => fingerprint,
        };
        let until = Instant::now() + PATIENCE;
        loop {
            let read = self.read().await?;
            if read.fingerprint == before {
                return Ok(read);
            }
            // Whoever watches goes on watching.
            if trigger != Trigger::Asked || Instant::now() > until {
                return Err(LoadError::Unsettled);
            }
            before = read.fingerprint;
            tokio::time::sleep(ASKED_SETTLE).await;
        }
    }

    async fn read(&self) -> Result<Read, LoadError> {
        let loader = self.loader.clone();
        tokio::task::spawn_blocking(move || loader.read()).await.map_err(|_| LoadError::Broke)
    }
}

/// Diagnostics of one load that are logged.
const LOGGED: usize = 20;

/// A log line for each of the first diagnostics; the status shows all.
fn log(diagnostics: &[diag::Record]) {
    if let Some(more @ 1..) = diagnostics.len().checked_sub(LOGGED) {
        tracing::warn!(more, "there are more errors and warnings than are logged; the status of the rules shows all");
    }
    let of = |severity: Severity| diagnostics.iter().filter(move |d| d.severity == severity);
    let errors_first = of(Severity::Error).chain(of(Severity::Warning));
    for diag::Record { place, code, severity, message, help, .. } in errors_first.take(LOGGED) {
        let (code, help) = (code.text(), help.as_deref());
        let diag::Place { file, line, column, .. } = place;
        match severity {
            Severity::Error => tracing::error!(code, %file, line, column, help, "{message}"),
            Severity::Warning => tracing::warn!(code, %file, line, column, help, "{message}"),
        }
    }
}

/// Runs work on a thread of its own, away from those that serve. Compiling takes memory, and such threads, one after the
/// other, use that of the one before; those of a pool would each keep some.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, LoadError> {
    let (done, result) = oneshot::channel();
    let run = move || drop(done.send(work()));
    thread::Builder::new().name("rules".to_owned()).spawn(run).map_err(|_| LoadError::Broke)?;
    result.await.map_err(|_| LoadError::Broke)
}
