//! Which probe comes next: the least-used type first, no probe twice before its type is exhausted,
//! ties and wordings drawn from the session's seed. The same seed gives the same sequence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Library, Probe, ProbeType};

/// A number drawn from a seed, for a purpose and a position; uniform over all of `u64`.
pub(super) fn draw(seed: u64, purpose: &str, position: u64) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(&position.to_le_bytes()).update(purpose.as_bytes());
    let mut bytes = [0; 8];
    hasher.finalize_xof().fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// What was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection<'a> {
    /// The probe.
    pub probe: &'a Probe,
    /// The number of the wording, for [`Probe::wording`].
    pub wording: u64,
}

/// A session's selector.
#[derive(Clone, Debug)]
pub struct Selector {
    pub(super) seed: u64,
    pub(super) draws: u64,
    pub(super) uses_by_type: BTreeMap<ProbeType, u64>,
    pub(super) uses_by_probe: BTreeMap<Arc<str>, u64>,
    pub(super) used_this_round: BTreeSet<Arc<str>>,
}

impl Selector {
    /// A selector with a seed.
    pub fn new(seed: u64) -> Selector {
        Selector {
            seed,
            draws: 0,
            uses_by_type: BTreeMap::new(),
            uses_by_probe: BTreeMap::new(),
            used_this_round: BTreeSet::new(),
        }
    }

    /// Chooses the next probe; none only from an empty library.
    pub fn next<'a>(&mut self, library: &'a Library) -> Option<Selection<'a>> {
        self.draws += 1;
        let rank = |name: &str| draw(self.seed, name, self.draws);
        let uses = |t: &ProbeType| self.uses_by_type.get(t).copied().unwrap_or_default();
        let probe_type =
            library.probes().iter().map(|p| &p.probe_type).min_by_key(|t| (uses(t), rank(t), Arc::clone(t)))?;
        let of_type = || library.probes().iter().filter(|p| p.probe_type == *probe_type);
        let chosen = of_type()
            .filter(|p| !self.used_this_round.contains(&p.id))
            .min_by_key(|p| (rank(&p.id), Arc::clone(&p.id)))
            .or_else(|| {
                for probe in of_type() {
                    self.used_this_round.remove(&probe.id);
                }
                of_type().min_by_key(|p| (rank(&p.id), Arc::clone(&p.id)))
            })?;
        self.used_this_round.insert(Arc::clone(&chosen.id));
        *self.uses_by_type.entry(Arc::clone(probe_type)).or_default() += 1;
        let used = self.uses_by_probe.entry(Arc::clone(&chosen.id)).or_default();
        // Wordings rotate from a start that the seed gives.
        let wording = (draw(self.seed, &chosen.id, 0) >> 1) + *used;
        *used += 1;
        Some(Selection { probe: chosen, wording })
    }
}
