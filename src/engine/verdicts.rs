//! Verdicts as a set, so that those of two packs on the same events can be told apart.

use std::collections::BTreeSet;

use crate::model::{Hit, PolicyId, Signal, Turn, Undecided};

/// A turn, a policy, and what it says there: `hit`, `review`, `flag`, `milestone` or `undecided`.
pub type Verdict = (Turn, PolicyId, &'static str);

/// All verdicts among these.
pub fn verdicts(hits: &[Hit], signals: &[Signal], undecided: &[Undecided]) -> BTreeSet<Verdict> {
    let hits = hits.iter().map(|hit| (hit.turn, hit.firing.policy.clone(), "hit"));
    let signals = signals.iter().map(|s| (s.turn, s.firing.policy.clone(), s.effect.word()));
    let undecided = undecided.iter().map(|u| (u.turn, u.policy.clone(), "undecided"));
    hits.chain(signals).chain(undecided).collect()
}
