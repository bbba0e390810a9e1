//! The service as a whole: what its parts share.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::sync::Notify;

use crate::audit::{RecordNumber, Store, StoreError};

use super::{
    drift::DriftSessions,
    judging::Prints,
    keys::Keys,
    requests::Requests,
    resume::Dormant,
    rules::{LiveRules, LoadCounts, OldRules, Served, Stale},
    sessions::{SessionLimits, Sessions},
    shadow::Shadow,
    writer::AuditLog,
};

/// Decides and records.
pub struct Service {
    pub(super) rules: LiveRules,
    pub(super) old_rules: OldRules,
    pub(super) rules_changed: Notify,
    pub(super) sessions: Sessions,
    pub(super) dormant: Dormant,
    pub(super) drift: DriftSessions,
    pub(super) keys: Keys,
    pub(super) audit: AuditLog,
    pub(super) store: Arc<dyn Store>,
    pub(super) requests: Requests,
    pub(super) shadow: Option<Shadow>,
    prints: Prints,
    began: Instant,
    began_at: SystemTime,
}

/// The state of the service.
#[derive(Debug)]
pub struct Status {
    /// The served set.
    pub served: Arc<Served>,
    /// Where its rules are.
    pub location: String,
    /// What became of the rules on disk, if they are not those that are served.
    pub stale: Option<Stale>,
    /// What loading rules came to since the start.
    pub loads: LoadCounts,
    /// Open sessions per generation of rules. Each pack that served before the start is one, and has the number 0.
    pub generations: Vec<(u64, u64)>,
    /// Sessions that were open before the start, or under other rules, and that nobody has asked for since.
    pub sleeping: u64,
    /// Sets of rules in memory: the served one, and those of open sessions, with each pack of before the start for one.
    pub in_memory: u64,
    /// How many there may be.
    pub most_in_memory: u64,
    /// The number of the last stored record.
    pub last_record: RecordNumber,
}

impl Service {
    /// A service over loaded rules and a store with its writer.
    pub fn new(rules: LiveRules, store: Arc<dyn Store>, audit: AuditLog, limits: SessionLimits, keys: Keys) -> Service {
        let (sessions, drift) = (Sessions::new(limits), DriftSessions::new(limits));
        let prints = Prints::new(keys.hash);
        Service {
            rules,
            old_rules: OldRules::default(),
            rules_changed: Notify::new(),
            sessions,
            dormant: Dormant::default(),
            drift,
            keys,
            audit,
            store,
            requests: Requests::default(),
            shadow: None,
            prints,
            began: Instant::now(),
            began_at: SystemTime::now(),
        }
    }

    /// With a candidate beside its rules.
    pub fn beside(self, shadow: Option<Shadow>) -> Service {
        Service { shadow, ..self }
    }

    /// The candidate beside its rules, if there is one.
    pub fn shadow(&self) -> Option<&Shadow> {
        self.shadow.as_ref()
    }

    /// The served set.
    pub fn served(&self) -> Arc<Served> {
        self.rules.current()
    }

    /// Changes when the rules on disk become others than those that are served, and when they are the same again.
    pub fn stale(&self) -> tokio::sync::watch::Receiver<Option<Stale>> {
        self.rules.stale()
    }

    /// The state.
    pub fn status(&self) -> Result<Status, StoreError> {
        Ok(Status {
            served: self.rules.current(),
            location: self.rules.location(),
            stale: self.rules.stale().borrow().clone(),
            loads: self.rules.counts(),
            generations: self.sessions.generations().into_iter().map(|(of, n)| (of.loaded(), n)).collect(),
            in_memory: self.in_memory() as u64,
            most_in_memory: self.sessions.limits().generations as u64,
            sleeping: self.dormant.len() as u64,
            last_record: self.store.last()?,
        })
    }

    /// Fingerprints for items.
    pub fn prints(&self) -> &Prints {
        &self.prints
    }

    /// Where records are handed in.
    pub fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// Seconds since 1970-01-01T00:00:00Z: what counts where a runtime event has no time. They run evenly while the
    /// service does, whatever becomes of the machine's clock, and go on over a restart.
    pub fn seconds(&self) -> f64 {
        let began = self.began_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        (began + self.now()).as_secs_f64()
    }

    /// What decides a session's probes and their delays: the same for a session every time, and not to be foreseen
    /// without the key.
    pub(super) fn seed(&self, session: &str) -> u64 {
        let hash = blake3::keyed_hash(&self.keys.hash.bytes(), session.as_bytes());
        hash.as_bytes().iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte))
    }

    /// Time on the service's clock.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }
}
