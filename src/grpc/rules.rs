//! The handlers of `Rules`.

use std::{pin::Pin, sync::Arc};

use futures_util::{Stream, stream};
use tokio::sync::broadcast::error::RecvError;
use tonic::{Request, Response, Status};

use crate::service::{LoadError, Served, Service, Trigger};

use super::{
    admission::Admission,
    convert::{self, Faults},
    convert_rules,
    pages::{self, Pages},
    status,
    wire::{self, rules_server::Rules},
};

/// Serves `Rules`.
#[derive(Clone)]
pub struct RulesApi {
    pub(super) service: Arc<Service>,
    pub(super) admission: Admission,
    pub(super) max_episodes: usize,
}

fn packs(served: &Served) -> Vec<wire::Pack> {
    let mut packs: Vec<wire::Pack> = served.set.iter().map(|pack| convert::pack(pack)).collect();
    packs.sort_by(|a, b| a.name.cmp(&b.name));
    packs
}

#[tonic::async_trait]
impl Rules for RulesApi {
    async fn list_packs(
        &self,
        request: Request<wire::ListPacksRequest>,
    ) -> Result<Response<wire::ListPacksResponse>, Status> {
        let _admitted = self.admission.admit(&request)?;
        let wire::ListPacksRequest { page_size, page_token } = request.into_inner();
        let mut faults = Faults::default();
        let size = pages::size(&mut faults, page_size, 100, 1000);
        let pages = Pages::of("ListPacks", &wire::ListPacksRequest::default());
        let start = pages.begins_at(&mut faults, &page_token, 0);
        let start = faults.or(usize::try_from(start).unwrap_or(usize::MAX))?;
        let all = packs(&self.service.served());
        let more = all.len() > start.saturating_add(size);
        let packs = all.into_iter().skip(start).take(size).collect();
        let next_page_token = if more { pages.token((start + size) as u64) } else { String::new() };
        Ok(Response::new(wire::ListPacksResponse { packs, next_page_token }))
    }

    async fn get_pack(
        &self,
        request: Request<wire::GetPackRequest>,
    ) -> Result<Response<wire::GetPackResponse>, Status> {
        let _admitted = self.admission.admit(&request)?;
        let wire::GetPackRequest { name } = request.into_inner();
        let mut faults = Faults::default();
        faults.name("name", &name);
        let name = faults.or(name)?;
        let served = self.service.served();
        let pack = served.set.get(&name).ok_or_else(|| status::unknown_pack(&name))?;
        let mut policies: Vec<wire::Policy> = pack.policies().map(|policy| convert::policy(&policy)).collect();
        policies.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(Response::new(wire::GetPackResponse { pack: Some(convert::pack(pack)), policies }))
    }

    async fn get_status(
        &self,
        request: Request<wire::GetStatusRequest>,
    ) -> Result<Response<wire::GetStatusResponse>, Status> {
        let _admitted = self.admission.admit(&request)?;
        // The store may be in the middle of a commit: it is asked off the serving threads.
        let service = self.service.clone();
        let now = tokio::task::spawn_blocking(move || service.status())
            .await
            .map_err(|_| Status::from(crate::service::QueryError::Broke))?
            .map_err(|e| Status::from(crate::service::QueryError::Store(e)))?;
        let generation = |(generation, session_count): &(u64, u64)| wire::GenerationSessions {
            generation: *generation,
            session_count: *session_count,
        };
        Ok(Response::new(wire::GetStatusResponse {
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            generation: now.served.generation,
            loaded_at: Some(convert::timestamp(now.served.loaded_at)),
            packs: packs(&now.served),
            warnings: now.served.warnings.iter().map(convert::diagnostic).collect(),
            last_good: now.served.last_good,
            rules_location: now.location,
            commit: now.served.commit.as_deref().unwrap_or_default().to_owned(),
            accepted_load_count: now.loads.accepted,
            refused_load_count: now.loads.refused,
            stale_since: now.stale.as_ref().map(|stale| convert::timestamp(stale.since)),
            refused: now.stale.map(|stale| convert_rules::refused_load(&stale.refused)),
            session_count: now.generations.iter().map(|(_, sessions)| sessions).sum(),
            last_record: now.last_record,
            sleeping_session_count: now.sleeping,
            generations: now.generations.iter().map(generation).collect(),
            generations_in_memory: now.in_memory,
            max_generations: now.most_in_memory,
        }))
    }

    async fn validate(
        &self,
        request: Request<wire::ValidateRequest>,
    ) -> Result<Response<wire::ValidateResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let (valid, diagnostics) = match self.service.validate().await {
                    Ok(warnings) => (true, warnings),
                    Err(LoadError::Refused(load)) => (false, load.diagnostics.to_vec()),
                    Err(other) => return Err(other.into()),
                };
                let diagnostics = diagnostics.iter().map(convert::diagnostic).collect();
                Ok(Response::new(wire::ValidateResponse { valid, diagnostics }))
            })
            .await
    }

    async fn reload(&self, request: Request<wire::ReloadRequest>) -> Result<Response<wire::ReloadResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        let request = request.into_inner();
        let named = convert::named("Reload", &request.request_id, &request, self.service.prints())?;
        let service = self.service.clone();
        // A task of its own: a caller who gives up does not stop it half-way.
        let reload = tokio::spawn(async move { service.reload_for(Trigger::Asked, named).await });
        admitted
            .run(async {
                let served = reload.await.map_err(|_| Status::from(LoadError::Broke))??;
                Ok(Response::new(wire::ReloadResponse {
                    generation: served.generation,
                    packs: packs(&served),
                    warnings: served.warnings.iter().map(convert::diagnostic).collect(),
                }))
            })
            .await
    }

    async fn diff(&self, request: Request<wire::DiffRequest>) -> Result<Response<wire::DiffResponse>, Status> {
        let admitted = self.admission.admit(&request)?;
        admitted
            .run(async {
                let ask = convert_rules::diff_ask(request.into_inner(), self.max_episodes)?;
                let compared = self.service.diff(ask.before, ask.after, ask.episodes).await?;
                Ok(Response::new(convert_rules::compared(&compared)))
            })
            .await
    }

    async fn get_shadow(
        &self,
        request: Request<wire::GetShadowRequest>,
    ) -> Result<Response<wire::GetShadowResponse>, Status> {
        let _admitted = self.admission.admit(&request)?;
        let shadow = self.service.shadow().ok_or_else(status::no_shadow)?;
        Ok(Response::new(convert_rules::shadow(&shadow.status())))
    }

    type WatchShadowStream = Pin<Box<dyn Stream<Item = Result<wire::WatchShadowResponse, Status>> + Send>>;

    async fn watch_shadow(
        &self,
        request: Request<wire::WatchShadowRequest>,
    ) -> Result<Response<Self::WatchShadowStream>, Status> {
        let admitted = self.admission.admit_stream(&request)?;
        let shadow = self.service.shadow().ok_or_else(status::no_shadow)?;
        let state = Some((shadow.differences(), self.admission.clone()));
        let told = stream::unfold(state, |state| async move {
            let (mut differences, admission) = state?;
            let received = tokio::select! {
                biased;
                () = admission.draining() => return Some((Err(status::stopping()), None)),
                received = differences.recv() => received,
            };
            let answer = match received {
                Ok(difference) => wire::WatchShadowResponse {
                    difference: Some(convert_rules::difference(&difference)),
                    missed_count: 0,
                },
                Err(RecvError::Lagged(missed)) => wire::WatchShadowResponse { difference: None, missed_count: missed },
                Err(RecvError::Closed) => return None,
            };
            Some((Ok(answer), Some((differences, admission))))
        });
        Ok(Response::new(admitted.stream(told)))
    }
}
