//! Metrics over the recorded sessions of a pack.

use std::{
    collections::{BTreeSet, HashMap},
    ops::ControlFlow,
    sync::Arc,
};

use crate::{
    audit::{Body, JudgeReport, Judged, PackRef, Posting, Record, Store, StoreError, scan, scan_posted},
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
    /// Metrics over recorded sessions that were judged by a pack as it is served now.
    pub async fn metrics(&self, pack: &str, selection: Selection) -> Result<Measured, MetricsError> {
        let served = self.rules.current();
        let pack = served.set.get(pack).ok_or_else(|| MetricsError::UnknownPack { pack: pack.to_owned() })?;
        let policies = pack.counted();
        let reference = served.pack_ref(pack);
        let wanted = reference.clone();
        let sessions = self.read(move |store| sessions(store, &wanted, &selection)).await?;
        Ok(Measured { pack: reference, metrics: figures(&policies, &sessions) })
    }
}

/// Which sessions count.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only those that were opened from this time on, in milliseconds since 1970-01-01T00:00:00Z.
    pub since_millis: Option<u64>,
    /// Only those that were opened before this time.
    pub until_millis: Option<u64>,
    /// Only these; all if there is none.
    pub sessions: BTreeSet<String>,
}

impl Selection {
    /// Whether a session counts that was opened then.
    fn counts(&self, at_millis: u64) -> bool {
        self.since_millis.is_none_or(|since| at_millis >= since)
            && self.until_millis.is_none_or(|until| at_millis < until)
    }
}

fn figures(policies: &[Counted], sessions: &[Recorded]) -> Metrics {
    let mut figures = metrics(policies, sessions.iter().map(|s| &s.figures));
    let judged = sessions.iter().map(|s| (&s.figures, s.judge.as_slice()));
    figures.judge = judge_metrics(policies, &figures, judged);
    figures
}

/// Recorded sessions, in the order of their openings.
#[derive(Debug)]
struct Sessions<'a> {
    pack: &'a PackRef,
    selection: &'a Selection,
    found: Vec<Recorded>,
    /// The latest session of each id, by its place; nothing while that does not count.
    open: HashMap<Arc<str>, Option<usize>>,
}

#[derive(Debug)]
struct Recorded {
    figures: EpisodeFigures,
    judge: Vec<JudgeVerdict>,
}

fn sessions(store: &dyn Store, pack: &PackRef, selection: &Selection) -> Result<Vec<Recorded>, StoreError> {
    let mut sessions = Sessions { pack, selection, found: Vec::new(), open: HashMap::new() };
    if selection.sessions.is_empty() {
        scan(store, 1, |record| sessions.add(record))?;
    }
    for session in &selection.sessions {
        let posting = Posting::Session(session.as_str().into());
        scan_posted(store, &posting, 1, |record| match record.names().sessions.iter().any(|id| ***id == **session) {
            true => sessions.add(record),
            false => ControlFlow::Continue(()),
        })?;
    }
    Ok(sessions.found)
}

impl Sessions<'_> {
    fn add(&mut self, Record { at_millis, body, .. }: Record) -> ControlFlow<()> {
        match body {
            Body::Judged(judged) => {
                if judged.seq == 0 {
                    let ours = judged.pack.name == self.pack.name && judged.pack.digest == self.pack.digest;
                    let counts = ours && self.selection.counts(at_millis);
                    self.open.insert(judged.session.clone(), counts.then_some(self.found.len()));
                    if counts {
                        let figures =
                            EpisodeFigures { episode_id: judged.session.to_string(), ..EpisodeFigures::default() };
                        self.found.push(Recorded { figures, judge: Vec::new() });
                    }
                }
                if let Some(session) = self.session(&judged.session.clone()) {
                    add(&mut session.figures, judged);
                }
            }
            Body::Judge(JudgeReport { session, pack: _, policy, turn, hit, judge_id }) => {
                if let Some(session) = self.session(&session) {
                    session.judge.push(JudgeVerdict { policy, turn, hit, judge_id: Some(judge_id) });
                }
            }
            Body::Activated(_)
            | Body::Drift(_)
            | Body::Reading(_)
            | Body::Lost(_)
            | Body::Checkpoint(_)
            | Body::Closed(_)
            | Body::Erased { .. }
            | Body::Pruned { .. }
            | Body::SetAside(_)
            | Body::Refused(_)
            | Body::Moved { .. }
            | Body::Imported { .. } => {}
        }
        ControlFlow::Continue(())
    }

    /// The latest session of an id, if it counts.
    fn session(&mut self, id: &str) -> Option<&mut Recorded> {
        let place = self.open.get(id).copied().flatten()?;
        self.found.get_mut(place)
    }
}

fn add(figures: &mut EpisodeFigures, judged: Judged) {
    figures.hits.extend(judged.hits.into_iter().map(|h| (h.policy, h.turn, h.reward)));
    figures.undecided.extend(judged.undecided);
    figures.malformed.extend(judged.malformed);
    figures.signals.extend(judged.signals.into_iter().map(|s| (s.policy, s.effect, s.turn)));
}
