//! The handlers of `Audit`.

use std::{pin::Pin, sync::Arc};

use futures_util::{Stream, StreamExt, stream};
use tokio::sync::watch;

use tonic::{Request, Response, Status};

use crate::{
    audit::{RecordNumber, Span, Tally},
    service::{RecordQuery, RevealAsk, Service},
};

use super::{
    admission::Admission,
    convert::{self, Faults},
    convert_drift, pages, status,
    wire::{self, audit_server::Audit, get_policy_stats_request},
};

/// Serves `Audit`.
#[derive(Clone)]
pub struct AuditApi {
    pub(super) service: Arc<Service>,
    pub(super) admission: Admission,
}

fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

#[tonic::async_trait]
impl Audit for AuditApi {
    async fn query_records(
        &self,
        request: Request<wire::QueryRecordsRequest>,
    ) -> Result<Response<wire::QueryRecordsResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let wire::QueryRecordsRequest { session_id, pack, policy, page_size, page_token } =
                    request.into_inner();
                let mut faults = Faults::default();
                let size = pages::size(&mut faults, page_size, 100, 1000);
                let from = pages::begins_at(&mut faults, &page_token, 1);
                let (session, pack, policy) = (given(session_id), given(pack), given(policy));
                let query = faults.or(RecordQuery { session, pack, policy, size, from })?;
                let page = self.service.records(query).await?;
                Ok(Response::new(wire::QueryRecordsResponse {
                    records: page.records.iter().map(convert::record).collect(),
                    next_page_token: page.next.map(pages::token).unwrap_or_default(),
                }))
            })
            .await
    }

    async fn get_policy_stats(
        &self,
        request: Request<wire::GetPolicyStatsRequest>,
    ) -> Result<Response<wire::GetPolicyStatsResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let wire::GetPolicyStatsRequest { pack, span } = request.into_inner();
                let mut faults = Faults::default();
                faults.name("pack", &pack);
                let span = match span {
                    None => Span::AllTime,
                    Some(get_policy_stats_request::Span::PackVersion(version)) => {
                        faults.name("pack_version", &version);
                        Span::Version(version.into())
                    }
                    Some(get_policy_stats_request::Span::SessionId(session)) => {
                        faults.name("session_id", &session);
                        Span::Session(session.into())
                    }
                };
                let (pack, span) = faults.or((pack, span))?;
                let tallies = self.service.tallies(pack, span).await?;
                let stats = tallies
                    .into_iter()
                    .map(|(policy, Tally { hits, signals, undecided })| wire::PolicyStats {
                        policy,
                        hits,
                        signals,
                        undecided,
                    })
                    .collect();
                Ok(Response::new(wire::GetPolicyStatsResponse { stats }))
            })
            .await
    }

    async fn get_metrics(
        &self,
        request: Request<wire::GetMetricsRequest>,
    ) -> Result<Response<wire::GetMetricsResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let wire::GetMetricsRequest { pack } = request.into_inner();
                let mut faults = Faults::default();
                faults.name("pack", &pack);
                let pack = faults.or(pack)?;
                let measured = self.service.metrics(&pack).await?;
                Ok(Response::new(convert::measured(&measured)))
            })
            .await
    }

    async fn reveal_payloads(
        &self,
        request: Request<wire::RevealPayloadsRequest>,
    ) -> Result<Response<wire::RevealPayloadsResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let wire::RevealPayloadsRequest { record, principal, reason } = request.into_inner();
                let mut faults = Faults::default();
                faults.name("principal", principal.trim());
                faults.name("reason", reason.trim());
                let ask = faults.or(RevealAsk { record, principal, reason })?;
                let revealed = self.service.reveal(ask).await?;
                Ok(Response::new(convert_drift::revealed(revealed)))
            })
            .await
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<wire::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<wire::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let admitted = self.admission.admit(&request)?;
        let wire::WatchRequest { pack, session_id, cursor, only_new } = request.into_inner();
        let mut faults = Faults::default();
        faults.optional_name("pack", &pack);
        faults.optional_name("session_id", &session_id);
        let (pack, session) = faults.or((pack, session_id))?;
        let stored = self.service.signals_stored();
        let cursor = if only_new { self.service.last_record().await? } else { cursor };
        let watcher = Watcher { api: self.clone(), stored, cursor, pack, session };
        let pages = stream::unfold(Some(watcher), |watcher| async move {
            let mut watcher = watcher?;
            match watcher.page().await {
                Ok(page) => Some((page, Some(watcher))),
                Err(status) => Some((vec![Err(status)], None)),
            }
        });
        Ok(Response::new(admitted.stream(pages.flat_map(stream::iter))))
    }
}

/// One that watches.
struct Watcher {
    api: AuditApi,
    stored: watch::Receiver<RecordNumber>,
    cursor: RecordNumber,
    pack: String,
    session: String,
}

impl Watcher {
    /// The next signals; waits until there are some.
    async fn page(&mut self) -> Result<Vec<Result<wire::WatchResponse, Status>>, Status> {
        loop {
            // Before the reading: what is stored meanwhile is then read once more.
            self.stored.borrow_and_update();
            let (pack, session) = (self.pack.clone(), self.session.clone());
            let page = self.api.service.significant(self.cursor, pack, session).await?;
            self.cursor = page.reached;
            if !page.signals.is_empty() {
                return Ok(page.signals.iter().map(|(at, signal)| Ok(convert_drift::watched(*at, signal))).collect());
            }
            if page.more {
                continue;
            }
            tokio::select! {
                biased;
                () = self.api.admission.draining() => return Err(status::stopping()),
                changed = self.stored.changed() => changed.map_err(|_| status::stopping())?,
            }
        }
    }
}
