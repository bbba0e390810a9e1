//! Rules that served before the start, for sessions that began under them and go on: compiled again from the sources that
//! the store keeps, once for all sessions, and in memory for as long as one of these is open.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    audit::{CloseReason, PackRef},
    engine::{self, Pack},
    model::Digest,
    pack::PackFiles,
    service::{QueryError, Service},
};

use super::{Generation, SessionRules, apart};

/// The packs that were compiled again.
#[derive(Debug, Default)]
pub struct OldRules {
    /// One at a time is compiled: that takes memory, and who waits finds what was compiled meanwhile.
    turn: tokio::sync::Mutex<()>,
    compiled: Mutex<Compiled>,
}

#[derive(Debug, Default)]
struct Compiled {
    /// By the digest of their meaning.
    packs: HashMap<Digest, (Arc<Pack>, Generation)>,
    /// How many there have been.
    count: u64,
    /// Digests that this version cannot make from what is kept: it is not tried again for each session.
    lost: HashMap<Digest, NotAgain>,
}

/// Why a pack cannot be compiled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NotAgain {
    #[error("the store does not keep what they were compiled from")]
    NotKept,
    #[error("this version refuses what they were compiled from")]
    Refused,
    #[error("what they were compiled from means something else to this version")]
    OtherMeaning,
}

impl OldRules {
    /// How many are in memory.
    pub fn in_memory(&self) -> usize {
        self.compiled().packs.len()
    }

    /// Drops those that no session is under. Until this is called, now and then, they wait for the next one.
    pub fn drop_unused(&self) {
        let unused: Vec<_> = {
            let mut compiled = self.compiled();
            compiled.lost.clear();
            compiled.packs.extract_if(|_, (pack, _)| Arc::strong_count(pack) == 1).collect()
        };
        if !unused.is_empty() {
            tracing::info!(packs = unused.len(), "rules of before the start are needed no longer");
        }
    }

    fn find(&self, named: &Arc<PackRef>) -> Option<SessionRules> {
        let compiled = self.compiled();
        let (pack, generation) = compiled.packs.get(&named.digest)?;
        Some(SessionRules { pack: pack.clone(), named: named.clone(), generation: *generation })
    }

    /// Takes a pack in, or notes why there is none.
    fn note(&self, named: &Arc<PackRef>, made: Result<Arc<Pack>, NotAgain>) -> Result<SessionRules, NotAgain> {
        let mut compiled = self.compiled();
        match made {
            Ok(pack) => {
                compiled.count += 1;
                let generation = Generation::Stored(compiled.count);
                compiled.packs.insert(named.digest, (pack.clone(), generation));
                Ok(SessionRules { pack, named: named.clone(), generation })
            }
            Err(why) => {
                compiled.lost.insert(named.digest, why);
                Err(why)
            }
        }
    }

    fn compiled(&self) -> MutexGuard<'_, Compiled> {
        // Each change is one step.
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Rules of before, for a session that goes on under them; or why it cannot.
    pub(in crate::service) async fn old_rules(
        &self,
        named: &Arc<PackRef>,
    ) -> Result<Result<SessionRules, CloseReason>, QueryError> {
        if let Some(same) = self.served_same(named) {
            return Ok(Ok(same));
        }
        let _turn = self.old_rules.turn.lock().await;
        if let Some(found) = self.old_rules.find(named) {
            return Ok(Ok(found));
        }
        let (name, version, digest) = (&named.name, &named.version, &named.digest);
        if !self.makes_room() {
            tracing::warn!(pack = %name, %version, %digest, "a session ends: too many sets of rules are in memory for its own");
            return Ok(Err(CloseReason::Outlived));
        }
        let lost = self.old_rules.compiled().lost.get(digest).copied();
        let made = match lost {
            Some(why) => Err(why),
            None => self.compile_again(named.digest, name).await?,
        };
        Ok(match self.old_rules.note(named, made) {
            Ok(rules) => {
                tracing::info!(pack = %name, %version, %digest, "rules of before the start are in memory for their sessions");
                Ok(rules)
            }
            Err(why) => {
                tracing::error!(pack = %name, %version, %digest, "a session cannot go on under its rules: {why}");
                Err(CloseReason::RulesGone)
            }
        })
    }

    /// What once served under a digest, compiled again; nothing if that cannot be.
    pub(in crate::service) async fn kept_pack(&self, digest: Digest) -> Result<Option<Arc<Pack>>, QueryError> {
        let _turn = self.old_rules.turn.lock().await;
        Ok(self.compile_again(digest, "by-digest").await?.ok())
    }

    async fn compile_again(&self, wanted: Digest, name: &str) -> Result<Result<Arc<Pack>, NotAgain>, QueryError> {
        let Some(sources) = self.read(move |store| store.sources(&wanted)).await? else {
            return Ok(Err(NotAgain::NotKept));
        };
        let shown = Path::new("kept").join(name);
        let compile = move || {
            let files = PackFiles::from_bytes(&sources).ok_or(NotAgain::Refused)?;
            let pack = engine::load_pack_files(&shown, files.files()).result.ok_or(NotAgain::Refused)?;
            if *pack.digest() == wanted { Ok(pack) } else { Err(NotAgain::OtherMeaning) }
        };
        apart(compile).await.map_err(|_| QueryError::Broke)
    }
}
