//! Metrics over the recorded sessions of a pack.

use std::{collections::HashMap, ops::ControlFlow, sync::Arc};

use crate::{
    audit::{Body, JudgeReport, Judged, PackRef, Record, Store, StoreError, scan},
    ingest::JudgeVerdict,
    reward::{Counted, EpisodeFigures, Metrics, judge_metrics, metrics},
};

use super::{Service, query::QueryError};

/// Metrics of a served pack.
#[derive(Debug)]
pub struct Measured {
    /// The rules.
    pub pack: Arc<PackRef>,
    /// The figures.
    pub metrics: Metrics,
}

/// Why there are no metrics.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// No pack of this name is served.
    #[error("no pack `{pack}` is served")]
    UnknownPack {
        /// The name.
        pack: String,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl Service {
    /// Metrics over the recorded sessions that were judged by a pack as it is served now.
    pub async fn metrics(&self, pack: &str) -> Result<Measured, MetricsError> {
        let served = self.rules.current();
        let pack = served.set.get(pack).ok_or_else(|| MetricsError::UnknownPack { pack: pack.to_owned() })?;
        let policies = pack.counted();
        let reference = served.pack_ref(pack);
        let wanted = reference.clone();
        let sessions = self.read(move |store| sessions(store, &wanted)).await?;
        Ok(Measured { pack: reference, metrics: figures(&policies, &sessions) })
    }
}

fn figures(policies: &[Counted], sessions: &Sessions) -> Metrics {
    let mut figures = metrics(policies, sessions.0.iter().map(|s| &s.figures));
    let judged = sessions.0.iter().map(|s| (&s.figures, s.judge.as_slice()));
    figures.judge = judge_metrics(policies, &figures, judged);
    figures
}

/// Recorded sessions, in the order of their openings.
#[derive(Debug, Default)]
struct Sessions(Vec<Recorded>);

#[derive(Debug)]
struct Recorded {
    figures: EpisodeFigures,
    judge: Vec<JudgeVerdict>,
}

fn sessions(store: &dyn Store, pack: &PackRef) -> Result<Sessions, StoreError> {
    let mut sessions = Sessions::default();
    // The latest session of each id, by its place; nothing while that is under another pack.
    let mut open: HashMap<Arc<str>, Option<usize>> = HashMap::new();
    scan(store, 1, |Record { body, .. }| {
        match body {
            Body::Judged(judged) => {
                if judged.seq == 0 {
                    let ours = judged.pack.name == pack.name && judged.pack.digest == pack.digest;
                    open.insert(judged.session.clone(), ours.then_some(sessions.0.len()));
                    if ours {
                        let figures =
                            EpisodeFigures { episode_id: judged.session.to_string(), ..EpisodeFigures::default() };
                        sessions.0.push(Recorded { figures, judge: Vec::new() });
                    }
                }
                if let Some(session) = at(&open, &judged.session).and_then(|n| sessions.0.get_mut(n)) {
                    add(&mut session.figures, judged);
                }
            }
            Body::Judge(JudgeReport { session, pack: _, policy, turn, hit, judge_id }) => {
                if let Some(session) = at(&open, &session).and_then(|n| sessions.0.get_mut(n)) {
                    session.judge.push(JudgeVerdict { policy, turn, hit, judge_id: Some(judge_id) });
                }
            }
            Body::Activated(_)
            | Body::Drift(_)
            | Body::Reading(_)
            | Body::Lost(_)
            | Body::Checkpoint(_)
            | Body::Closed(_) => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(sessions)
}

fn at(open: &HashMap<Arc<str>, Option<usize>>, session: &str) -> Option<usize> {
    open.get(session).copied().flatten()
}

fn add(figures: &mut EpisodeFigures, judged: Judged) {
    figures.hits.extend(judged.hits.into_iter().map(|h| (h.policy, h.turn, h.reward)));
    figures.undecided.extend(judged.undecided);
    figures.malformed.extend(judged.malformed);
    figures.signals.extend(judged.signals.into_iter().map(|s| (s.policy, s.effect, s.turn)));
}
