//! What `grpc.health.v1` says: SERVING while judgements can be recorded and the rules are not too old, for the service as
//! a whole and for each of its parts; and under a name of its own, whether the rules on disk are those that are served.

use std::time::{Duration, Instant};

use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;
use tonic::server::NamedService;
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health as HealthService, HealthServer},
    server::HealthReporter,
};

use crate::service::{AuditError, Stale};

use super::{
    audit::AuditApi,
    engine::EngineApi,
    rules::RulesApi,
    wire::{audit_server::AuditServer, policy_engine_server::PolicyEngineServer, rules_server::RulesServer},
};

/// The names under which health is reported.
const SERVICES: [&str; 4] = [
    "",
    <PolicyEngineServer<EngineApi> as NamedService>::NAME,
    <RulesServer<RulesApi> as NamedService>::NAME,
    <AuditServer<AuditApi> as NamedService>::NAME,
];

/// SERVING while the rules on disk are those that are served; no part of the health of the whole.
pub const FRESH_RULES: &str = "probity.v1.Rules/fresh";

/// Stands for never.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Says how the service is.
#[derive(Clone)]
pub struct Health(HealthReporter);

impl Health {
    /// NOT_SERVING, and the service that says so.
    pub async fn new() -> (Health, HealthServer<impl HealthService>) {
        let (reporter, service) = tonic_health::server::health_reporter();
        let health = Health(reporter);
        health.not_serving().await;
        (health, service)
    }

    /// Says SERVING.
    pub async fn serving(&self) {
        self.say(ServingStatus::Serving).await;
    }

    /// Says NOT_SERVING.
    pub async fn not_serving(&self) {
        self.say(ServingStatus::NotServing).await;
    }

    async fn say(&self, status: ServingStatus) {
        for service in SERVICES {
            self.0.set_service_status(service, status).await;
        }
    }

    /// Says what is the case until the service drains: `failure` is `Some` while the store fails, `stale` while the rules
    /// on disk are refused, which may be for `most`.
    pub async fn keep(
        self,
        mut failure: Receiver<Option<AuditError>>,
        mut stale: Receiver<Option<Stale>>,
        most: Option<Duration>,
        draining: CancellationToken,
    ) {
        let mut said = None;
        loop {
            let fails = failure.borrow_and_update().is_some();
            let since = stale.borrow_and_update().as_ref().map(|stale| stale.since_instant);
            let until = since.zip(most).and_then(|(since, most)| since.checked_add(most));
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let too_old = left.is_some_and(|left| left.is_zero());
            if draining.is_cancelled() {
                return;
            }
            let now = (!fails && !too_old, since.is_none());
            if said != Some(now) {
                self.tell(said, now, fails).await;
                said = Some(now);
            }
            tokio::select! {
                () = draining.cancelled() => return,
                changed = failure.changed() => if changed.is_err() {
                    // The writer is gone, which is as bad, and for good.
                    return if !draining.is_cancelled() { self.not_serving().await };
                },
                changed = stale.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(left.filter(|_| !too_old).unwrap_or(NEVER)) => {}
            }
        }
    }

    async fn tell(&self, before: Option<(bool, bool)>, (serving, fresh): (bool, bool), fails: bool) {
        let status = |good| if good { ServingStatus::Serving } else { ServingStatus::NotServing };
        self.0.set_service_status(FRESH_RULES, status(fresh)).await;
        if before.map(|(serving, _)| serving) == Some(serving) {
            return;
        }
        self.say(status(serving)).await;
        match (serving, fails) {
            (true, _) if before.is_some() => tracing::info!("serving again"),
            (true, _) => {}
            (false, true) => tracing::error!("not serving: nothing can be recorded"),
            (false, false) => tracing::error!("not serving: the rules on disk have been refused for too long"),
        }
    }
}
