//! Sessions with probes over a restart: they go on from their snapshot when somebody asks for them, under the same
//! rules; under others they begin anew.

use std::{collections::HashMap, ops::ControlFlow, sync::Arc, time::Duration};

use crate::{
    audit::{Body, DriftRecord, JournalChange, JournalWrite, Posting, Store, StoreError, scan_posted},
    model::Digest,
    service::{AuditError, QueryError, Service, SessionKey},
};

use super::{
    evaluate::{DriftError, Probing},
    memory::{DriftSlot, Evaluated, Memory},
    saved::{self, SavedEvaluation, journal_name},
};

impl Service {
    /// A session's memory under a pack, taken up from the store if need be; nothing if nothing is known of it.
    pub(super) async fn find_drift(
        &self,
        session: &str,
        probing: &Probing,
    ) -> Result<Option<Arc<DriftSlot>>, DriftError> {
        let pack = &probing.pack.line();
        if let Some(found) = self.drift.find(session, pack, self.now()) {
            return Ok(Some(found));
        }
        let name = journal_name(pack, session);
        if !self.drift.dormant.holds(&name) {
            return Ok(None);
        }
        let (key, keep, digest) = (self.keys.session.clone(), self.sessions.limits().retained, probing.digest());
        let (of, id) = (name.clone(), Arc::<str>::from(session));
        let taken_up = self.read(move |store| take_up(store, &key, &of, id, digest, keep)).await;
        match taken_up.map_err(|_: QueryError| DriftError::Unread { session: session.to_owned() })? {
            Some(memory) => {
                // Another call may have taken it up meanwhile; then that one is found.
                let slot = self.drift.put(session, pack, memory, self.now())?;
                self.drift.dormant.wakes(&name, || ());
                Ok(Some(slot))
            }
            None => {
                let place = self.audit.place().await?;
                let dropped = JournalWrite { session: name.clone(), change: JournalChange::Drop };
                // Nobody waits for it: it is dropped again at the next restart if it is still there.
                let drop_it = || drop(place.record_with(Vec::new(), vec![dropped]));
                if self.drift.dormant.wakes(&name, drop_it) {
                    tracing::info!(session, %pack, "the probes of a session begin anew: other rules, or unreadable");
                }
                Ok(None)
            }
        }
    }

    /// Saves a memory together with the record that is handed in beside it.
    pub(super) fn snapshot(&self, slot: &DriftSlot, memory: &Memory, probing: &Probing) -> Vec<JournalWrite> {
        if memory.is_dropped() {
            return Vec::new();
        }
        let bound = self.sessions.limits().journal;
        saved::snapshot(&self.keys.session, slot.journal(), probing.digest(), memory, bound)
    }

    /// Drops idle sessions with probes, and what is kept of them; gives their number.
    pub(in crate::service) async fn sweep_drift(&self, now: Duration) -> Result<usize, AuditError> {
        let place = self.audit.place().await?;
        let (dropped, ticket) = self.drift.sweep(now, |writes| place.record_with(Vec::new(), writes));
        ticket.done().await?;
        Ok(dropped)
    }
}

/// Makes a memory what its snapshot says that it was; nothing if that cannot be.
fn take_up(
    store: &dyn Store,
    key: &SessionKey,
    name: &str,
    session: Arc<str>,
    pack: Digest,
    keep: usize,
) -> Result<Option<Memory>, StoreError> {
    let entries = store.journal(name)?;
    let saved = entries.first().and_then(|(_, sealed)| saved::open(key, name, sealed));
    let Some(saved) = saved.filter(|saved| saved.pack == pack) else { return Ok(None) };
    let mut records: HashMap<Arc<str>, Option<DriftRecord>> =
        saved.evaluations.iter().map(|known| (known.evaluation.clone(), None)).collect();
    if let Some(behind) = saved.evaluations.iter().map(|known| known.behind).min() {
        scan_posted(store, &Posting::Session(session), behind.saturating_add(1), |record| {
            if let Body::Drift(drift) = record.body
                && let Some(known) = records.get_mut(&drift.evaluation)
            {
                // A later one settles the one before.
                *known = Some(*drift);
            }
            ControlFlow::Continue(())
        })?;
    }
    // What was pruned meanwhile is known no more.
    let evaluations = saved.evaluations.into_iter().filter_map(|known| {
        let SavedEvaluation { request_id, print, evaluation, behind, unsettled } = known;
        let record = Arc::new(records.remove(&evaluation)??);
        Some(Evaluated { request_id, print, unsettled, record, behind })
    });
    let mut memory = Memory::new(saved.state, saved.selector, keep);
    memory.agent = saved.agent;
    evaluations.for_each(|evaluated| memory.keep(evaluated));
    Ok(Some(memory))
}
