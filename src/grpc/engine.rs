//! The handlers of `PolicyEngine`.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt, stream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::service::{Pending, Service};

use super::{
    admission::Admission,
    convert,
    convert_drift::{self, Evaluate},
    join, probe, status,
    wire::{self, policy_engine_server::PolicyEngine},
};

/// Bounds of requests.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Items or episodes in one request.
    pub items: usize,
    /// Requests of one stream that may wait for storage.
    pub stream_window: usize,
    /// How long an answer of a probe may take.
    pub probe_timeout: Duration,
}

/// Serves `PolicyEngine`.
#[derive(Clone)]
pub struct EngineApi {
    pub(super) service: Arc<Service>,
    pub(super) admission: Admission,
    pub(super) limits: RequestLimits,
}

impl EngineApi {
    async fn submit(&self, request: wire::ObserveRequest) -> Result<Pending, Status> {
        let ask = convert::ask(request, self.service.prints(), self.service.seconds(), self.limits.items)?;
        Ok(self.service.submit(ask).await?)
    }

    /// The next request of a stream, judged; nothing at its end. While the server stops, a stream
    /// ends with that.
    async fn next(&self, requests: &mut Streaming<wire::ObserveRequest>) -> Option<Result<Pending, Status>> {
        let request = tokio::select! {
            biased;
            () = self.admission.draining() => return Some(Err(status::stopping())),
            request = requests.next() => request?,
        };
        Some(match request {
            Ok(request) => self.submit(request).await,
            Err(broken) => Err(broken),
        })
    }
}

async fn finish(pending: Result<Pending, Status>) -> Result<wire::ObserveResponse, Status> {
    Ok(convert::observed(&pending?.finish().await?))
}

#[tonic::async_trait]
impl PolicyEngine for EngineApi {
    async fn observe(&self, request: Request<wire::ObserveRequest>) -> Result<Response<wire::ObserveResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted.run(async { finish(self.submit(request.into_inner()).await).await.map(Response::new) }).await
    }

    type ObserveStreamStream = Pin<Box<dyn Stream<Item = Result<wire::ObserveResponse, Status>> + Send>>;

    async fn observe_stream(
        &self,
        request: Request<Streaming<wire::ObserveRequest>>,
    ) -> Result<Response<Self::ObserveStreamStream>, Status> {
        let admitted = self.admission.admit_stream(&request)?;
        let state = Some((self.clone(), request.into_inner()));
        // Judged one by one as they come, and no further than the first that is refused.
        let judged = stream::unfold(state, |state| async move {
            let (api, mut requests) = state?;
            let pending = api.next(&mut requests).await?;
            let refused = pending.as_ref().map_or(true, Pending::is_refused);
            Some((pending, (!refused).then_some((api, requests))))
        });
        // While one waits for its record to be stored, the next are judged: a window of them, and
        // beyond that the caller is made to wait.
        let answers = judged.map(finish).buffered(self.limits.stream_window);
        Ok(Response::new(admitted.stream_unless_idle(answers)))
    }

    async fn close_session(
        &self,
        request: Request<wire::CloseSessionRequest>,
    ) -> Result<Response<wire::CloseSessionResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let request = request.into_inner();
                let named = convert::named("CloseSession", &request.request_id, &request, self.service.prints())?;
                let wire::CloseSessionRequest { session_id, request_id: _ } = request;
                let mut faults = convert::Faults::default();
                faults.name("session_id", &session_id);
                let session = faults.or(session_id)?;
                self.service.close_session(&session, named).await?;
                Ok(Response::new(wire::CloseSessionResponse {}))
            })
            .await
    }

    async fn export_session(
        &self,
        request: Request<wire::ExportSessionRequest>,
    ) -> Result<Response<wire::ExportSessionResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let wire::ExportSessionRequest { session_id } = request.into_inner();
                let mut faults = convert::Faults::default();
                faults.name("session_id", &session_id);
                let session = faults.or(session_id)?;
                let state = self.service.export_session(&session).await?;
                Ok(Response::new(wire::ExportSessionResponse { state: state.into() }))
            })
            .await
    }

    async fn import_session(
        &self,
        request: Request<wire::ImportSessionRequest>,
    ) -> Result<Response<wire::ImportSessionResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let request = request.into_inner();
                let named = convert::named("ImportSession", &request.request_id, &request, self.service.prints())?;
                let session_id = self.service.import_session(&request.state, named).await?;
                Ok(Response::new(wire::ImportSessionResponse { session_id }))
            })
            .await
    }

    async fn score_episodes(
        &self,
        request: Request<wire::ScoreEpisodesRequest>,
    ) -> Result<Response<wire::ScoreEpisodesResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let convert::ScoreAsk { pack, episodes, known } =
                    convert::score_ask(request.into_inner(), self.limits.items)?;
                let scored = self.service.score(&pack, episodes, known).await?;
                Ok(Response::new(convert::scored(&scored)))
            })
            .await
    }

    type JoinEpisodeStream = Pin<Box<dyn Stream<Item = Result<wire::JoinEpisodeResponse, Status>> + Send>>;

    async fn join_episode(
        &self,
        request: Request<Streaming<wire::JoinEpisodeRequest>>,
    ) -> Result<Response<Self::JoinEpisodeStream>, Status> {
        let admitted = self.admission.admit_stream(&request)?;
        // What waits for a side waits in the episode.
        let (answers, waiting) = mpsc::channel(1);
        tokio::spawn(join::run(self.service.clone(), self.admission.clone(), request.into_inner(), answers));
        Ok(Response::new(admitted.stream(ReceiverStream::new(waiting))))
    }

    async fn report_judge(
        &self,
        request: Request<wire::ReportJudgeRequest>,
    ) -> Result<Response<wire::ReportJudgeResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let request = request.into_inner();
                let named = convert::named("ReportJudge", &request.request_id, &request, self.service.prints())?;
                let ask = convert::judge_ask(request)?;
                let record = self.service.report_judge(ask, named).await?;
                Ok(Response::new(wire::ReportJudgeResponse { record }))
            })
            .await
    }

    async fn evaluate(
        &self,
        request: Request<wire::EvaluateRequest>,
    ) -> Result<Response<wire::EvaluateResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let request = request.into_inner();
                let print = self.service.prints().request(&prost::Message::encode_to_vec(&request));
                let record = match convert_drift::evaluate(request, print)? {
                    Evaluate::Finished(ask) => self.service.evaluate(*ask).await?,
                    Evaluate::Baseline(baseline) => self.service.add_baseline(baseline).await?,
                };
                Ok(Response::new(convert_drift::evaluated(&record)))
            })
            .await
    }

    type ProbeStream = Pin<Box<dyn Stream<Item = Result<wire::ProbeResponse, Status>> + Send>>;

    async fn probe(
        &self,
        request: Request<Streaming<wire::ProbeRequest>>,
    ) -> Result<Response<Self::ProbeStream>, Status> {
        let admitted = self.admission.admit_stream(&request)?;
        // Two questions at most are open at once.
        let (answers, waiting) = mpsc::channel(2);
        let (service, admission) = (self.service.clone(), self.admission.clone());
        tokio::spawn(probe::run(service, admission, request.into_inner(), answers, self.limits.probe_timeout));
        Ok(Response::new(admitted.stream_unless_idle(ReceiverStream::new(waiting))))
    }

    async fn get_session_report(
        &self,
        request: Request<wire::GetSessionReportRequest>,
    ) -> Result<Response<wire::GetSessionReportResponse>, Status> {
        let _admitted = self.admission.admit(&request)?;
        let wire::GetSessionReportRequest { session_id, pack } = request.into_inner();
        let mut faults = convert::Faults::default();
        faults.name("session_id", &session_id);
        faults.name("pack", &pack);
        let (session, pack) = faults.or((session_id, pack))?;
        let report = self.service.session_report(&session, &pack).await?;
        Ok(Response::new(convert_drift::report(&report)))
    }
}
