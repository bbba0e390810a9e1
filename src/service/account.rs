//! What the records and counters tell of one session.

use std::{ops::ControlFlow, sync::Arc};

use crate::audit::{
    Body, CloseReason, ItemKind, Mode, PackRef, Posting, Record, RecordNumber, Span, Store, StoreError, Tally,
    scan_posted,
};

use super::{Service, query::QueryError};

/// What is stored of a session. An id that was opened again after its session was closed has one account.
#[derive(Clone, Debug)]
pub struct SessionAccount {
    /// The agent, as the caller last named it; may be empty.
    pub agent: Arc<str>,
    /// The rules of the last judged item, or of the last probe if none was judged; nothing if no record tells of them.
    pub pack: Option<Arc<PackRef>>,
    /// How it treats newly loaded rules; nothing if no item of it was judged.
    pub mode: Option<Mode>,
    /// What became of it.
    pub state: SessionState,
    /// The first record, and when it was stored, in milliseconds since 1970-01-01T00:00:00Z.
    pub first: (RecordNumber, u64),
    /// The last record, and when it was stored.
    pub last: (RecordNumber, u64),
    /// Judged items.
    pub items: u64,
    /// Evaluations of probes, each once.
    pub evaluations: u64,
    /// Verdicts of judges.
    pub judge_verdicts: u64,
    /// Counters of the policies that hit, fired or were undecided.
    pub tallies: Vec<(String, Tally)>,
}

/// What became of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// It can go on.
    Open,
    /// Its end was judged.
    Ended,
    /// It was closed.
    Closed(CloseReason),
    /// It was neither ended nor closed, and cannot go on: nothing was kept of it when the server stopped, or only probes
    /// tell of it.
    Gone,
}

impl Service {
    /// What is known of a session; nothing if no record tells of it.
    pub async fn session_account(&self, session: &str) -> Result<Option<SessionAccount>, QueryError> {
        let id: Arc<str> = session.into();
        let of_store = id.clone();
        let account = self.read(move |store| account(store, &of_store)).await?;
        let open = self.sessions.holds(&id) || self.dormant.holds(&id);
        Ok(account.map(|account| match account.state {
            SessionState::Gone if open => SessionAccount { state: SessionState::Open, ..account },
            _ => account,
        }))
    }
}

fn account(store: &dyn Store, session: &Arc<str>) -> Result<Option<SessionAccount>, StoreError> {
    let mut found: Option<SessionAccount> = None;
    scan_posted(store, &Posting::Session(session.clone()), 1, |record| {
        if record.names().sessions.contains(&session) {
            let at = (record.number, record.at_millis);
            found.get_or_insert_with(|| SessionAccount::begun(at)).add(record);
        }
        ControlFlow::Continue(())
    })?;
    if let Some(SessionAccount { pack: Some(pack), tallies, .. }) = &mut found {
        *tallies = store.tallies(&pack.name, &Span::Session(session.clone()))?;
    }
    Ok(found)
}

impl SessionAccount {
    fn begun(first: (RecordNumber, u64)) -> SessionAccount {
        SessionAccount {
            agent: "".into(),
            pack: None,
            mode: None,
            state: SessionState::Gone,
            first,
            last: first,
            items: 0,
            evaluations: 0,
            judge_verdicts: 0,
            tallies: Vec::new(),
        }
    }

    fn add(&mut self, record: Record) {
        self.last = (record.number, record.at_millis);
        match record.body {
            Body::Judged(judged) => {
                self.items += 1;
                self.pack = Some(judged.pack);
                self.mode = Some(judged.mode);
                self.state = if judged.item == ItemKind::End { SessionState::Ended } else { SessionState::Gone };
                if !judged.agent.is_empty() {
                    self.agent = judged.agent;
                }
            }
            // A baseline that came later is a record of the same evaluation.
            Body::Drift(drift) => {
                self.evaluations += u64::from(!drift.settles);
                if self.mode.is_none() {
                    (self.pack, self.agent) = (Some(drift.pack), drift.agent);
                }
            }
            Body::Judge(_) => self.judge_verdicts += 1,
            Body::Closed(closed) => self.state = SessionState::Closed(closed.reason),
            Body::Activated(_)
            | Body::Reading(_)
            | Body::Lost(_)
            | Body::Checkpoint(_)
            | Body::Erased { .. }
            | Body::Pruned { .. }
            | Body::SetAside(_)
            | Body::Refused(_)
            | Body::Moved { .. }
            | Body::Imported { .. } => {}
        }
    }
}
