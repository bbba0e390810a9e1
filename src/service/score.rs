//! Scoring whole episodes: stateless, off the serving threads.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    audit::PackRef,
    engine::{EpisodeOutcome, run_episode},
    ingest::{Episode, Messages},
    model::Value,
    reward::EpisodeReward,
};

use super::Service;

/// Scored episodes.
#[derive(Debug)]
pub struct Scored {
    /// The rules.
    pub pack: Arc<PackRef>,
    /// In the order of the episodes.
    pub episodes: Vec<ScoredEpisode>,
}

/// One scored episode.
#[derive(Debug)]
pub struct ScoredEpisode {
    /// What it gave.
    pub outcome: EpisodeOutcome,
    /// Its reward, part by part.
    pub reward: EpisodeReward,
    /// Digest of its messages, in hex: equal for equal messages, however they are written.
    pub input_digest: String,
}

/// Why episodes were not scored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScoreError {
    /// No pack of this name is served.
    #[error("no pack `{pack}` is served")]
    UnknownPack {
        /// The name.
        pack: String,
    },
    /// The scoring itself broke.
    #[error("scoring broke")]
    Broke,
}

impl Service {
    /// Scores episodes by a served pack; hits of `known` policies are not new. Keeps and records nothing.
    pub async fn score(
        &self,
        pack: &str,
        episodes: Vec<Episode>,
        known: BTreeSet<String>,
    ) -> Result<Scored, ScoreError> {
        let served = self.rules.current();
        let pack = served.set.get(pack).ok_or_else(|| ScoreError::UnknownPack { pack: pack.to_owned() })?.clone();
        let reference = served.pack_ref(&pack);
        let score = move || -> Vec<ScoredEpisode> {
            let one = |episode: &Episode| {
                let outcome = run_episode(&pack, episode);
                let reward = outcome.reward(&pack, &known);
                ScoredEpisode { outcome, reward, input_digest: input_digest(episode) }
            };
            episodes.iter().map(one).collect()
        };
        let episodes = tokio::task::spawn_blocking(score).await.map_err(|_| ScoreError::Broke)?;
        Ok(Scored { pack: reference, episodes })
    }
}

fn input_digest(episode: &Episode) -> String {
    let mut digest = InputDigest::default();
    if let Messages::List(messages) = &episode.messages {
        messages.iter().for_each(|message| digest.add(message));
    }
    digest.finish()
}

/// BLAKE3 over the messages in compact JSON with sorted keys and numbers in their one exact form,
/// each followed by a line break.
#[derive(Debug, Default)]
pub(super) struct InputDigest(blake3::Hasher);

impl InputDigest {
    pub(super) fn add(&mut self, message: &Value) {
        self.0.update(message.to_string().as_bytes()).update(b"\n");
    }

    pub(super) fn finish(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}
