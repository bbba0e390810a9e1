//! Reading what is stored: records page by page, counters, judges' reports.

use std::{ops::ControlFlow, sync::Arc};

use crate::audit::{Body, Draft, JudgeReport, PackRef, Record, RecordNumber, Span, Store, StoreError, Tally, scan};

use super::{Service, writer::AuditError};

/// Records looked at for one page, so that a query that finds little still returns.
const SCANNED_PER_PAGE: usize = 20_000;

/// Which records.
#[derive(Clone, Debug, Default)]
pub struct RecordQuery {
    /// Only this session.
    pub session: Option<String>,
    /// Only this pack.
    pub pack: Option<String>,
    /// Only where this policy hit, fired or was undecided.
    pub policy: Option<String>,
    /// At most this many.
    pub size: usize,
    /// From this record on.
    pub from: RecordNumber,
}

/// Records, and where the next page begins.
#[derive(Debug)]
pub struct RecordPage {
    /// The records.
    pub records: Vec<Record>,
    /// Nothing after the last page.
    pub next: Option<RecordNumber>,
}

/// Why stored records were not read.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The reading itself broke.
    #[error("reading the store broke")]
    Broke,
}

/// Why a judge's report was not taken.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// Nothing was recorded of this session.
    #[error("session `{session}` is not known")]
    UnknownSession {
        /// The session.
        session: String,
    },
    /// The session's pack has no such policy.
    #[error("pack `{pack}` has no policy `{policy}`")]
    UnknownPolicy {
        /// The pack.
        pack: String,
        /// The policy.
        policy: String,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The report could not be recorded.
    #[error("not recorded: {0}")]
    Audit(AuditError),
}

/// A judge's report.
#[derive(Clone, Debug)]
pub struct JudgeAsk {
    /// The session.
    pub session: String,
    /// The policy.
    pub policy: String,
    /// The message index.
    pub turn: u32,
    /// Whether the judge saw a violation.
    pub hit: bool,
    /// Who judged.
    pub judge_id: String,
}

impl Service {
    /// A page of records.
    pub async fn records(&self, query: RecordQuery) -> Result<RecordPage, QueryError> {
        self.read(move |store| page(store, &query)).await
    }

    /// Counters of a pack's policies.
    pub async fn tallies(&self, pack: String, span: Span) -> Result<Vec<(String, Tally)>, QueryError> {
        self.read(move |store| store.tallies(&pack, &span)).await
    }

    /// Records what a judge found; gives the record's number.
    pub async fn report_judge(&self, ask: JudgeAsk) -> Result<RecordNumber, JudgeError> {
        let pack = self.session_pack(&ask.session).await?;
        let pack = pack.ok_or_else(|| JudgeError::UnknownSession { session: ask.session.clone() })?;
        let served = self.rules.current();
        // A session may be under rules that are no longer served; then the judge's word stands.
        let known = served.set.get(&pack.name).filter(|p| served.pack_ref(p).digest == pack.digest);
        if known.is_some_and(|p| p.policies().all(|policy| *policy.id != *ask.policy)) {
            return Err(JudgeError::UnknownPolicy { pack: pack.name.to_string(), policy: ask.policy });
        }
        let report = JudgeReport {
            session: ask.session.into(),
            pack,
            policy: ask.policy.into(),
            turn: ask.turn,
            hit: ask.hit,
            judge_id: ask.judge_id.into(),
        };
        let place = self.audit.place().await.map_err(JudgeError::Audit)?;
        let number = place.record_durably(vec![Draft::Judge(report)]).done().await.map_err(JudgeError::Audit)?;
        Ok(number.unwrap_or_default())
    }

    async fn session_pack(&self, session: &str) -> Result<Option<Arc<PackRef>>, QueryError> {
        if let Some(slot) = self.sessions.find(session, self.now()) {
            return Ok(Some(slot.pack.clone()));
        }
        let session = session.to_owned();
        self.read(move |store| {
            let Some(opening) = store.opening(&session)? else { return Ok(None) };
            let mut found = None;
            scan(store, opening.latest, |record| {
                if let Body::Judged(judged) = record.body {
                    found = Some(judged.pack);
                }
                ControlFlow::Break(())
            })?;
            Ok(found)
        })
        .await
    }

    /// Reads the store off the serving threads.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, QueryError> {
        let store = self.store.clone();
        let read = tokio::task::spawn_blocking(move || work(store.as_ref())).await;
        read.map_err(|_| QueryError::Broke)?.map_err(QueryError::Store)
    }
}

fn page(store: &dyn Store, query: &RecordQuery) -> Result<RecordPage, StoreError> {
    let mut from = query.from;
    if let Some(session) = &query.session {
        // A session that was only ever probed has no opening.
        if let Some(opening) = store.opening(session)? {
            from = from.max(opening.first);
        }
    }
    let (mut records, mut looked_at, mut next) = (Vec::new(), 0, None);
    scan(store, from, |record| {
        if records.len() >= query.size || looked_at >= SCANNED_PER_PAGE {
            next = Some(record.number);
            return ControlFlow::Break(());
        }
        looked_at += 1;
        if matches(&record, query) {
            records.push(record);
        }
        ControlFlow::Continue(())
    })?;
    Ok(RecordPage { records, next })
}

fn matches(record: &Record, query: &RecordQuery) -> bool {
    let (session, pack) = match &record.body {
        Body::Judged(judged) => (Some(&judged.session), &judged.pack),
        Body::Judge(report) => (Some(&report.session), &report.pack),
        Body::Activated(pack) => (None, pack),
        Body::Drift(drift) => (Some(&drift.session), &drift.pack),
        Body::Reading(reading) => (Some(&reading.session), &reading.pack),
    };
    let names = |policy: &str| match &record.body {
        Body::Judged(judged) => {
            judged.hits.iter().any(|h| *h.policy == *policy)
                || judged.signals.iter().any(|s| *s.policy == *policy)
                || judged.undecided.iter().any(|(p, _, _)| **p == *policy)
        }
        Body::Judge(report) => *report.policy == *policy,
        Body::Activated(_) | Body::Drift(_) | Body::Reading(_) => false,
    };
    query.session.as_ref().is_none_or(|s| session.is_some_and(|have| **have == **s))
        && query.pack.as_ref().is_none_or(|p| *pack.name == **p)
        && query.policy.as_ref().is_none_or(|p| names(p))
}
