//! The figures, each with its name, its help and its labels. Labels name packs, versions, digests and policies, and never
//! a session or a value.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

use crate::{
    audit::StoreError,
    service::{LoadCounts, Service, ShadowStatus, Status},
};

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub(super) enum FiguresError {
    /// The store does not answer.
    #[error("the store cannot be read: {0}")]
    Store(#[from] StoreError),
    /// The page cannot be written.
    #[error("the figures cannot be written")]
    Written(#[from] fmt::Error),
}

/// The page, in the text form of OpenMetrics.
pub(super) fn page(service: &Service) -> Result<String, FiguresError> {
    let mut figures = Figures(Registry::with_prefix("probity"));
    figures.status(&service.status()?);
    if let Some(shadow) = service.shadow() {
        figures.shadow(&shadow.status());
    }
    let mut page = String::new();
    encode(&mut page, &figures.0)?;
    Ok(page)
}

type Labels = Vec<(&'static str, String)>;

struct Figures(Registry);

impl Figures {
    fn status(&mut self, status: &Status) {
        let Status { served, location: _, stale, loads, generations, in_memory, most_in_memory, sleeping, last_record } =
            status;
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        self.gauges("server", "The version of the server", [(version, 1)]);
        self.gauge("rules_generation", "Counts the sets that were served since the start", served.generation);
        self.moment("rules_loaded", "When the served set was loaded", Some(served.loaded_at));
        let LoadCounts { accepted, refused } = *loads;
        let results = [("accepted", accepted), ("refused", refused)];
        let results = results.map(|(result, n)| (vec![("result", result.to_owned())], n));
        self.counters("rules_loads", "Loads of rules since the start", results);
        let is_stale = u64::from(stale.is_some() || served.last_good);
        self.gauge("rules_stale", "1 while the rules on disk are refused, or the last good set serves", is_stale);
        self.moment("rules_stale_since", "Since when they are", stale.as_ref().map(|stale| stale.since));
        let packs = served.set.iter().map(|pack| {
            let version = ("version", pack.version().to_string());
            (vec![("pack", pack.name().to_string()), version, ("digest", pack.digest().to_string())], 1)
        });
        self.gauges("rules_pack", "The served packs", packs);
        self.gauge("rules_generations_in_memory", "Sets of rules in memory", *in_memory);
        self.gauge("rules_generations_limit", "How many there may be", *most_in_memory);
        self.gauge("sessions", "Open sessions", generations.iter().map(|(_, sessions)| sessions).sum());
        self.gauge("sessions_asleep", "Sessions that wait for somebody to ask for them", *sleeping);
        self.gauge("audit_last_record", "Number of the last stored record", *last_record);
    }

    fn shadow(&mut self, status: &ShadowStatus) {
        let ShadowStatus { location: _, candidate: _, stale, totals } = status;
        let is_stale = u64::from(stale.is_some());
        self.gauge("shadow_stale", "1 while the candidate's files are refused", is_stale);
        let items = [
            ("compared", totals.items),
            ("differing", totals.differing_items),
            ("skipped", totals.skipped),
            ("unfollowed", totals.unfollowed),
            ("absent", totals.absent),
        ];
        let items = items.map(|(outcome, n)| (vec![("outcome", outcome.to_owned())], n));
        // From each candidate on they begin anew, as counters may.
        self.counters("shadow_items", "What became of items that the candidate was handed", items);
        let verdicts = totals.policies.iter().flat_map(|((pack, policy), totals)| {
            [("gained", totals.gained), ("lost", totals.lost)].map(|(change, n)| {
                (vec![("pack", pack.to_string()), ("policy", policy.to_string()), ("change", change.to_owned())], n)
            })
        });
        self.counters("shadow_verdicts", "Verdicts that the candidate alone gives, or does not give", verdicts);
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.gauges(name, help, [(Labels::new(), value)]);
    }

    fn gauges(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, u64)>) {
        let family = Family::<Labels, Gauge>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        self.0.register(name, help, family);
    }

    fn counters(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, u64)>) {
        let family = Family::<Labels, Counter>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(value);
        }
        self.0.register(name, help, family);
    }

    /// A moment, in seconds since 1970-01-01T00:00:00Z; nothing if there is none.
    fn moment(&mut self, name: &str, help: &str, at: Option<SystemTime>) {
        let seconds = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|since| since.as_secs());
        let family = Family::<Labels, Gauge>::default();
        if let Some(seconds) = seconds {
            family.get_or_create(&Labels::new()).set(i64::try_from(seconds).unwrap_or(i64::MAX));
        }
        self.0.register_with_unit(name, help, Unit::Seconds, family);
    }
}
