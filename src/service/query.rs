//! Reading what is stored: records page by page, counters, judges' reports.

use std::{ops::ControlFlow, sync::Arc};

use crate::audit::{
    Body, Draft, JudgeReport, PackRef, Posting, Record, RecordNumber, Span, Store, StoreError, Tally, scan, scan_posted,
};

use crate::{drift::Action, model::Gate};

use super::{
    Service,
    requests::{Named, RequestError, Turn},
    writer::AuditError,
};

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
    /// Only judgements with this outcome.
    pub outcome: Option<Outcome>,
    /// Only drift signals with this action.
    pub action: Option<Action>,
    /// Only from this time on, in milliseconds since 1970-01-01T00:00:00Z.
    pub since_millis: Option<u64>,
    /// Only before this time.
    pub until_millis: Option<u64>,
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
    /// The store cannot be read, or the request's name stands for another one.
    #[error(transparent)]
    Request(#[from] RequestError),
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
    pub async fn report_judge(&self, ask: JudgeAsk, named: Option<Named>) -> Result<RecordNumber, JudgeError> {
        let _turn = match self.turn(named.as_ref()).await? {
            Turn::Repeated(record) => return Ok(record),
            new => new,
        };
        let pack = self.session_pack(&ask.session).await.map_err(RequestError::from)?;
        let pack = pack.ok_or_else(|| JudgeError::UnknownSession { session: ask.session.clone() })?;
        let served = self.rules.current();
        // A session may be under rules that are no longer served; then the judge's word stands.
        let known = served.set.versions(&pack.name).iter().find(|p| *p.digest() == pack.digest);
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
        let recorded =
            place.answer(named, vec![Draft::Judge(report)], Vec::new()).done().await.map_err(JudgeError::Audit)?;
        Ok(recorded.number().unwrap_or_default())
    }

    async fn session_pack(&self, session: &str) -> Result<Option<Arc<PackRef>>, QueryError> {
        if let Some(slot) = self.sessions.find(session, self.now()) {
            return Ok(Some(slot.pack.clone()));
        }
        let posting = Posting::Session(session.into());
        self.read(move |store| {
            // The last of its blocks that tells of a judgement; a session can have been probed, or closed, since.
            let mut before = RecordNumber::MAX;
            while let Some(block) = store.postings(&posting, before, 1)?.pop().filter(|first| *first <= before) {
                let mut found = None;
                scan_posted(store, &posting, block, |record| {
                    if record.number > before {
                        return ControlFlow::Break(());
                    }
                    if let Body::Judged(judged) = record.body
                        && Posting::Session(judged.session) == posting
                    {
                        found = Some(judged.pack);
                    }
                    ControlFlow::Continue(())
                })?;
                if found.is_some() || block == 0 {
                    return Ok(found);
                }
                before = block - 1;
            }
            Ok(None)
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
    let (mut records, mut looked_at, mut next) = (Vec::new(), 0, None);
    let visit = |record: Record| {
        if records.len() >= query.size || looked_at >= SCANNED_PER_PAGE {
            next = Some(record.number);
            return ControlFlow::Break(());
        }
        looked_at += 1;
        if query.asks_for(&record) {
            records.push(record);
        }
        ControlFlow::Continue(())
    };
    match query.posting() {
        Some(posting) => scan_posted(store, &posting, query.from, visit)?,
        None => scan(store, query.from, visit)?,
    }
    Ok(RecordPage { records, next })
}

impl RecordQuery {
    /// Under what the records that are asked for are found; nothing if all have to be looked at.
    fn posting(&self) -> Option<Posting> {
        match (&self.session, &self.pack, &self.policy) {
            (Some(session), ..) => Some(Posting::Session(session.as_str().into())),
            (None, Some(pack), Some(policy)) => {
                Some(Posting::Policy { pack: pack.as_str().into(), policy: policy.as_str().into() })
            }
            _ => None,
        }
    }

    fn asks_for(&self, record: &Record) -> bool {
        let names = record.names();
        self.session.as_ref().is_none_or(|s| names.sessions.iter().any(|have| ***have == **s))
            && self.pack.as_ref().is_none_or(|p| names.pack.is_some_and(|have| *have.name == **p))
            && self.policy.as_ref().is_none_or(|p| names.policies.iter().any(|have| ***have == **p))
            && self.outcome.is_none_or(|outcome| outcome.is_in(&record.body))
            && self.action.is_none_or(|action| matches!(&record.body, Body::Drift(drift) if drift.action == action))
            && self.since_millis.is_none_or(|since| record.at_millis >= since)
            && self.until_millis.is_none_or(|until| record.at_millis < until)
    }
}

/// What came of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A violation.
    Hit,
    /// A call that was denied.
    Denied,
    /// A call that somebody should look at first.
    Reviewed,
    /// A firing of a `review`, `flag` or `milestone` policy.
    Signal,
    /// Something that could not be decided.
    Undecided,
}

impl Outcome {
    fn is_in(self, body: &Body) -> bool {
        let Body::Judged(judged) = body else { return false };
        match self {
            Outcome::Hit => !judged.hits.is_empty(),
            Outcome::Denied => judged.calls.iter().any(|call| call.gate == Gate::Deny),
            Outcome::Reviewed => judged.calls.iter().any(|call| call.gate == Gate::Review),
            Outcome::Signal => !judged.signals.is_empty(),
            Outcome::Undecided => !judged.undecided.is_empty(),
        }
    }
}
