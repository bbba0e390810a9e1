//! The handlers of `Audit`.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use crate::{
    audit::{Span, Tally},
    service::{RecordQuery, Service},
};

use super::{
    admission::Admission,
    convert::{self, Faults},
    pages,
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
}
