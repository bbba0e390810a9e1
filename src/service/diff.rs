//! What differs between two packs that the service knows. Nothing is changed or recorded.

use std::sync::Arc;

use crate::{
    engine::{self, Pack, PackDiff, Recount, TraceDiff},
    ingest::Episode,
    model::{Digest, PackQuery},
};

use super::{QueryError, Service, rules::LoadError};

/// Where a pack comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackSource {
    /// It is served.
    Served(PackQuery),
    /// It is among the rules as they now stand on disk.
    OnDisk(PackQuery),
    /// It is among the candidate's.
    Shadow(PackQuery),
    /// It served once.
    Kept(Digest),
}

/// Two packs, compared.
#[derive(Debug)]
pub struct Compared {
    /// The first.
    pub before: Arc<Pack>,
    /// The second.
    pub after: Arc<Pack>,
    /// What they differ in.
    pub diff: PackDiff,
    /// What that does to episodes, if there are any.
    pub traces: Option<TraceDiff>,
}

/// Why two packs are not compared.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// There is no such pack there.
    #[error("there is no pack `{0}` there")]
    UnknownPack(PackQuery),
    /// No candidate is beside the rules.
    #[error("no candidate is beside the rules")]
    NoShadow,
    /// The store does not keep what had that digest, or it means something else by now.
    #[error("what had the digest {0} is kept no longer")]
    NotKept(Digest),
    /// The rules on disk have errors.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The store cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The comparing itself broke.
    #[error("comparing broke")]
    Broke,
}

impl Service {
    /// Compares two packs, and what they make of episodes.
    pub async fn diff(
        &self,
        before: PackSource,
        after: PackSource,
        episodes: Vec<Episode>,
    ) -> Result<Compared, DiffError> {
        let (before, after) = (self.pack_of(before).await?, self.pack_of(after).await?);
        let compare = move || {
            let mut recount = Recount::new(before.clone(), after.clone());
            episodes.iter().for_each(|episode| recount.add(episode));
            let traces = (!episodes.is_empty()).then(|| recount.finish());
            Compared { diff: engine::diff(&before, &after), before, after, traces }
        };
        tokio::task::spawn_blocking(compare).await.map_err(|_| DiffError::Broke)
    }

    async fn pack_of(&self, source: PackSource) -> Result<Arc<Pack>, DiffError> {
        let find = |set: &engine::RuleSet, query: PackQuery| {
            let found = set.find(&query).cloned();
            found.ok_or(DiffError::UnknownPack(query))
        };
        match source {
            PackSource::Served(query) => find(&self.rules.current().set, query),
            PackSource::OnDisk(query) => find(&self.rules.on_disk().await?.set, query),
            PackSource::Shadow(query) => {
                let shadow = self.shadow.as_ref().ok_or(DiffError::NoShadow)?;
                find(&shadow.status().candidate.set, query)
            }
            PackSource::Kept(digest) => self.kept_pack(digest).await?.ok_or(DiffError::NotKept(digest)),
        }
    }
}
