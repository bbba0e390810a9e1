//! The handlers of `Audit`.

use std::{pin::Pin, sync::Arc};

use futures_util::{Stream, StreamExt, stream};
use tokio::sync::watch;

use tonic::{Request, Response, Status};

use crate::{
    audit::{RecordNumber, Span},
    model::PackQuery,
    service::{ExportFrom, RevealAsk, Service},
};

use super::{
    admission::Admission,
    convert::{self, Faults},
    convert_audit, convert_drift, status,
    wire::{self, audit_server::Audit, get_policy_stats_request},
};

/// Serves `Audit`.
#[derive(Clone)]
pub struct AuditApi {
    pub(super) service: Arc<Service>,
    pub(super) admission: Admission,
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
                let (query, pages) = convert_audit::query(request.into_inner())?;
                let page = self.service.records(query).await?;
                Ok(Response::new(wire::QueryRecordsResponse {
                    records: page.records.iter().map(convert_audit::record).collect(),
                    next_page_token: page.next.map(|next| pages.token(next)).unwrap_or_default(),
                }))
            })
            .await
    }

    async fn get_session(
        &self,
        request: Request<wire::GetSessionRequest>,
    ) -> Result<Response<wire::GetSessionResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let wire::GetSessionRequest { session_id } = request.into_inner();
                let mut faults = Faults::default();
                faults.name("session_id", &session_id);
                let session = faults.or(session_id)?;
                let account = self.service.session_account(&session).await?;
                let account = account.ok_or_else(|| status::unknown_session(&session))?;
                Ok(Response::new(wire::GetSessionResponse { session: Some(convert_audit::session(session, account)) }))
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
                let stats = tallies.into_iter().map(convert_audit::stats).collect();
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
                let (pack, selection) = convert_audit::selection(request.into_inner())?;
                let measured = self.service.metrics(&pack, selection).await?;
                Ok(Response::new(convert_audit::measured(&measured)))
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
                let request = request.into_inner();
                let named = convert::named("RevealPayloads", &request.request_id, &request, self.service.prints())?;
                let wire::RevealPayloadsRequest { record, principal, reason, request_id: _ } = request;
                let mut faults = Faults::default();
                faults.name("principal", principal.trim());
                faults.name("reason", reason.trim());
                let ask = faults.or(RevealAsk { record, principal, reason })?;
                let revealed = self.service.reveal(ask, named).await?;
                Ok(Response::new(convert_drift::revealed(revealed)))
            })
            .await
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<wire::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<wire::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let admitted = self.admission.admit_stream(&request)?;
        let wire::WatchRequest { pack, session_id, cursor, only_new } = request.into_inner();
        let mut faults = Faults::default();
        let pack = faults.optional_pack("pack", &pack);
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

    async fn verify(&self, request: Request<wire::VerifyRequest>) -> Result<Response<wire::VerifyResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let trust = convert_audit::trust(request.into_inner())?;
                let verified = self.service.verify(trust).await?;
                Ok(Response::new(convert_audit::verified(&verified)))
            })
            .await
    }

    type ExportStream = Pin<Box<dyn Stream<Item = Result<wire::ExportResponse, Status>> + Send>>;

    async fn export(&self, request: Request<wire::ExportRequest>) -> Result<Response<Self::ExportStream>, Status> {
        let admitted = self.admission.admit_stream(&request)?;
        let wire::ExportRequest { first_record } = request.into_inner();
        let service = self.service.clone();
        let from = service.export_from(first_record).await?;
        let parts = stream::unfold(Some(from), move |from: Option<ExportFrom>| {
            let service = service.clone();
            async move {
                match service.export(from?).await {
                    Ok((lines, next)) => Some((Ok(wire::ExportResponse { lines }), next)),
                    Err(e) => Some((Err(e.into()), None)),
                }
            }
        });
        Ok(Response::new(admitted.stream(parts)))
    }

    async fn erase_payloads(
        &self,
        request: Request<wire::ErasePayloadsRequest>,
    ) -> Result<Response<wire::ErasePayloadsResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let request = request.into_inner();
                let named = convert::named("ErasePayloads", &request.request_id, &request, self.service.prints())?;
                let wire::ErasePayloadsRequest { session_id, request_id: _ } = request;
                let mut faults = Faults::default();
                faults.name("session_id", &session_id);
                let session = faults.or(session_id)?;
                let record = self.service.erase_payloads(session, named).await?;
                Ok(Response::new(wire::ErasePayloadsResponse { record }))
            })
            .await
    }

    async fn prune(&self, request: Request<wire::PruneRequest>) -> Result<Response<wire::PruneResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let request = request.into_inner();
                let named = convert::named("Prune", &request.request_id, &request, self.service.prints())?;
                let wire::PruneRequest { first_kept_record, request_id: _ } = request;
                let first_record = self.service.prune(first_kept_record, named).await?;
                Ok(Response::new(wire::PruneResponse { first_record }))
            })
            .await
    }
}

/// One that watches.
struct Watcher {
    api: AuditApi,
    stored: watch::Receiver<RecordNumber>,
    cursor: RecordNumber,
    pack: Option<PackQuery>,
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
