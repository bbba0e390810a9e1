//! The server: rules first, then the store, then the port; SERVING once all three are there, and
//! an end within a limit that loses nothing that was acknowledged.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::{
    service::InterceptorLayer,
    transport::{Server, server::TcpIncoming},
};

use crate::{
    audit::{SledStore, Store, StoreError, Tidied},
    config::{Settings, Watch, WhenDamaged},
    service::{
        AuditError, AuditLog, Checkpoints, KeyError, Keys, LiveRules, LoadError, PayloadKeys, QueryError, RedactionKey,
        Retention, Service, SessionKey, SessionLimits, Shadow, Trigger, WatchSettings, Watched, Writer, WriterSettings,
        read_checkpoint_key, record_set_aside,
    },
};

use super::{
    admission::{Admission, Most, note_deadline},
    audit::AuditApi,
    engine::{EngineApi, RequestLimits},
    health::Health,
    rules::RulesApi,
    wire::{
        DESCRIPTORS, audit_server::AuditServer, policy_engine_server::PolicyEngineServer, rules_server::RulesServer,
    },
};

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The rules have errors.
    #[error(transparent)]
    Rules(#[from] LoadError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The start could not be recorded.
    #[error("the start could not be recorded: {0}")]
    Audit(#[from] AuditError),
    /// Open sessions of before cannot be found.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A key cannot be had.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The port cannot be bound.
    #[error("cannot listen on {listen}: {source}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A thread cannot be had.
    #[error("no thread for the candidate beside the rules: {0}")]
    Thread(io::Error),
    /// The reflection service cannot be built.
    #[error("reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// How the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Every call had ended within the limit.
    pub drained: bool,
    /// Everything that was judged is stored.
    pub kept: bool,
}

/// A running server.
pub struct Running {
    address: SocketAddr,
    service: Arc<Service>,
    writer: Writer,
    health: Health,
    admission: Admission,
    draining: CancellationToken,
    closing: CancellationToken,
    transport: JoinHandle<Result<(), tonic::transport::Error>>,
    helpers: Vec<JoinHandle<()>>,
    wait: Duration,
    limit: Duration,
}

/// How long answers that are ready may take to reach their callers once all calls have ended: what is recorded should be
/// known to its caller, on a busy machine too.
const LAST_BYTES: Duration = Duration::from_secs(3);

/// Loads the rules in the settings' folder, opens the store in theirs, and serves.
pub async fn start(settings: &Settings) -> Result<Running, StartError> {
    let given = settings.clone();
    let opened = tokio::task::spawn_blocking(move || open(&given)).await;
    let (rules, store) = opened.unwrap_or(Err(StartError::Rules(LoadError::Broke)))?;
    start_with(settings, rules, Arc::new(store)).await
}

/// The rules, and the store. Broken rules are found before anything is created or bound; where the settings say so, the
/// last good ones of a store that is there serve in their place.
fn open(settings: &Settings) -> Result<(LiveRules, SledStore), StartError> {
    let refused = match LiveRules::load(settings) {
        Ok(rules) => return Ok((rules, open_store(settings)?)),
        Err(LoadError::Refused(refused)) if settings.start_with_last_good && SledStore::is_in(&settings.data) => {
            refused
        }
        Err(e) => return Err(e.into()),
    };
    let store = open_store(settings)?;
    match LiveRules::last_good(settings, &store, refused.clone())? {
        Some(rules) => {
            tracing::error!(
                errors = refused.errors(),
                "the rules were refused; the last good ones serve\n{}",
                refused.rendered
            );
            Ok((rules, store))
        }
        None => Err(LoadError::Refused(refused).into()),
    }
}

/// Opens the store. If the settings say so, a damaged one is set aside, and a new one begins with a record of that.
fn open_store(settings: &Settings) -> Result<SledStore, StoreError> {
    let open = || SledStore::open(&settings.data, settings.store_cache_bytes);
    match (open(), settings.audit_when_damaged) {
        (Err(damage), WhenDamaged::SetAside) if damage.is_damage() => {
            let folder = SledStore::set_aside(&settings.data)?;
            tracing::error!(error = %damage, folder = %folder.display(), "the audit store is damaged and was set aside");
            let store = open()?;
            record_set_aside(&store, &folder, &damage)?;
            Ok(store)
        }
        (opened, _) => opened,
    }
}

/// The keys of hashes and of open sessions: the files that the settings name, or ones beside the store, which are made
/// if need be. And the keys of sealed answers, if the settings name a file.
async fn keys(settings: &Settings) -> Result<Keys, StartError> {
    let settings = settings.clone();
    let read = move || {
        let hash = match given(&settings.redaction_key_file) {
            None => RedactionKey::read_or_make(&settings.data.join("redaction.key")),
            Some(file) => RedactionKey::read(&file),
        }?;
        let session = match given(&settings.session_key_file) {
            None => SessionKey::read_or_make(&settings.data.join("session.key")),
            Some(file) => SessionKey::read(&file),
        }?;
        if settings.session_key_file.as_os_str().is_empty() && settings.session_journal_bytes > 0 {
            tracing::info!(
                "open sessions are kept encrypted under a key in the data folder; --session-key-file names another"
            );
        }
        let payload = given(&settings.payload_key_file).map(|file| PayloadKeys::read(&file)).transpose()?;
        Ok::<_, KeyError>(Keys { hash, session, payload: payload.unwrap_or_default() })
    };
    let unread = |e: tokio::task::JoinError| StoreError::Damaged(e.to_string());
    Ok(tokio::task::spawn_blocking(read).await.map_err(unread)??)
}

/// A path that a setting names.
fn given(path: &Path) -> Option<PathBuf> {
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}

/// Serves loaded rules over an open store.
pub async fn start_with(settings: &Settings, rules: LiveRules, store: Arc<dyn Store>) -> Result<Running, StartError> {
    let listening = |source| StartError::Listen { listen: settings.listen, source };
    let listener = TcpListener::bind(settings.listen).await.map_err(listening)?;
    let address = listener.local_addr().map_err(listening)?;

    let writing = WriterSettings {
        queue: settings.audit_queue,
        group: settings.audit_group,
        durability: settings.audit_durability,
        when_full: settings.audit_when_full,
        checkpoints: Checkpoints {
            every: settings.audit_checkpoint_every,
            key: given(&settings.audit_checkpoint_key_file).map(|file| read_checkpoint_key(&file)).transpose()?,
            file: given(&settings.audit_checkpoint_file),
        },
    };
    let (audit, writer) = AuditLog::start(store.clone(), writing)?;
    let failure = audit.failure();
    let limits = SessionLimits {
        sessions: settings.max_sessions,
        ttl: settings.session_ttl,
        retained: settings.retained_results,
        each: settings.limits,
        journal: settings.session_journal_bytes,
        generations: settings.max_generations,
    };
    let keys = keys(settings).await?;
    let shadow = settings.shadow_rules.as_ref();
    let shadow = shadow.map(|at| Shadow::start(settings, at, store.clone(), &keys, limits)).transpose();
    let shadow = shadow.map_err(StartError::Thread)?;
    let service = Arc::new(Service::new(rules, store, audit, limits, keys).beside(shadow));

    let (health, health_service) = Health::new().await;
    let [draining, closing] = std::array::from_fn(|_| CancellationToken::new());
    let admission = Admission::new(
        Most { calls: settings.max_calls, streams: settings.max_streams, idle: settings.stream_idle },
        draining.clone(),
    );
    let engine = EngineApi {
        service: service.clone(),
        admission: admission.clone(),
        limits: RequestLimits {
            items: settings.max_items,
            stream_window: settings.stream_window,
            probe_timeout: settings.probe_timeout,
        },
    };
    let rules = RulesApi { service: service.clone(), admission: admission.clone(), max_episodes: settings.max_items };
    let records = AuditApi { service: service.clone(), admission: admission.clone() };
    let most = settings.max_message_bytes;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let router = Server::builder()
        .layer(InterceptorLayer::new(note_deadline))
        .http2_keepalive_interval(Some(Duration::from_secs(60)))
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .add_service(PolicyEngineServer::new(engine).max_decoding_message_size(most))
        .add_service(RulesServer::new(rules).max_decoding_message_size(most))
        .add_service(AuditServer::new(records).max_decoding_message_size(most));
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let close = closing.clone().cancelled_owned();
    let dormant = service.find_dormant().await?;
    if dormant > 0 {
        tracing::info!(sessions = dormant, "open sessions of before can go on");
    }
    // Recorded before the first call can be judged under these rules.
    service.activate().await?;

    let transport = tokio::spawn(router.serve_with_incoming_shutdown(incoming, close));
    health.serving().await;
    tracing::info!(%address, packs = service.served().pack_refs().len(), "serving");

    let most = (!settings.max_staleness.is_zero()).then_some(settings.max_staleness);
    let mut helpers = vec![
        tokio::spawn(load_shadow(service.clone())),
        tokio::spawn(health.clone().keep(failure, service.stale(), most, draining.clone())),
        tokio::spawn(sweep_sessions(service.clone(), settings.session_ttl)),
        tokio::spawn(keep_house(
            service.clone(),
            Retention {
                age: (!settings.audit_keep_for.is_zero()).then_some(settings.audit_keep_for),
                bytes: (settings.audit_keep_bytes > 0).then_some(settings.audit_keep_bytes),
            },
        )),
    ];
    if settings.watch != Watch::Off {
        let watching = WatchSettings {
            hints: settings.watch == Watch::On,
            poll: (!settings.watch_poll.is_zero()).then_some(settings.watch_poll),
            settle: settings.watch_settle,
        };
        helpers.push(tokio::spawn(service.clone().watch(Watched::Rules, watching)));
        helpers.push(tokio::spawn(service.clone().watch(Watched::Shadow, watching)));
    }
    Ok(Running {
        address,
        service,
        writer,
        health,
        admission,
        draining,
        closing,
        transport,
        helpers,
        wait: settings.shutdown_wait,
        limit: settings.shutdown_limit,
    })
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it serves.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Ends it: NOT_SERVING, a pause for load balancers, no new connections or stream messages,
    /// calls in progress up to the limit, and all that was judged to disk.
    pub async fn shut_down(self) -> Ended {
        tracing::info!("stopping");
        self.health.not_serving().await;
        tokio::time::sleep(self.wait).await;
        self.draining.cancel();
        self.closing.cancel();
        let drained = timeout(self.limit, self.admission.close_when_idle()).await.is_ok();
        self.admission.cut();
        let mut transport = self.transport;
        // Watchers of health keep their connections for ever, so these are cut.
        if timeout(LAST_BYTES, &mut transport).await.is_err() {
            transport.abort();
        }
        for helper in &self.helpers {
            helper.abort();
        }
        let failure = self.service.audit().failure();
        let (service, writer) = (self.service, self.writer);
        let written = async {
            service.audit().close();
            tokio::task::spawn_blocking(move || writer.join()).await.unwrap_or(false)
        };
        // A disk that hangs must not hang the end.
        let written = timeout(self.limit.max(LAST_BYTES), written).await.unwrap_or(false);
        let ended = Ended { drained, kept: written && failure.borrow().is_none() };
        tracing::info!(drained = ended.drained, kept = ended.kept, "stopped");
        ended
    }
}

/// Drops what is not to be kept and gives its room back, a little after the start and then each minute.
async fn keep_house(service: Arc<Service>, retention: Retention) {
    let mut ticks = tokio::time::interval(Duration::from_secs(60));
    loop {
        ticks.tick().await;
        if retention != Retention::default()
            && let Err(e) = service.retain(retention).await
        {
            tracing::warn!(error = %e, "old records were not dropped");
        }
        match service.tidy().await {
            Ok(None) => {}
            Ok(Some(Tidied { before, after })) => tracing::info!(before, after, "the audit store takes less room"),
            Err(e) => tracing::warn!(error = %e, "the audit store still takes more room than it needs"),
        }
    }
}

/// Loads the candidate beside the rules, if there is to be one: nobody waits for it.
async fn load_shadow(service: Arc<Service>) {
    if let Some(shadow) = service.shadow()
        && let Err(e) = shadow.reload(Trigger::Asked).await
    {
        tracing::error!(error = %e, "there is no candidate beside the rules yet");
    }
}

async fn sweep_sessions(service: Arc<Service>, ttl: Duration) {
    let mut ticks = tokio::time::interval((ttl / 8).clamp(Duration::from_millis(50), Duration::from_secs(30)));
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = service.rules_changed() => {}
        }
        match service.sweep().await {
            Ok(0) => {}
            Ok(dropped) => tracing::debug!(dropped, "idle sessions, or under the oldest rules, were dropped"),
            Err(e) => {
                tracing::warn!(error = %e, "the end of idle sessions, or under the oldest rules, was not recorded")
            }
        }
    }
}
