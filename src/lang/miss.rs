//! How far a policy was from firing: the fewest of its conditions that would have to turn out otherwise.

use super::{judge::Leaf, program::Cond, val::Tri};

/// The places, among the leaves of `conditions` in source order, of a smallest set of leaves that would
/// have to change for all conditions to hold; of several such sets the first. Empty if they hold.
/// A leaf that is unknown would have to change as well.
pub(super) fn short_of(conditions: &[Cond], leaves: &[Leaf]) -> Vec<usize> {
    let mut next = 0;
    conditions.iter().flat_map(|c| missing(c, true, leaves, &mut next)).collect()
}

fn missing(condition: &Cond, wanted: bool, leaves: &[Leaf], next: &mut usize) -> Vec<usize> {
    let (parts, all) = match condition {
        Cond::And(parts) => (parts, wanted),
        Cond::Or(parts) => (parts, !wanted),
        Cond::Not(inner) => return missing(inner, !wanted, leaves, next),
        Cond::Leaf(..) => {
            let place = *next;
            *next += 1;
            let is_so = leaves.get(place).is_some_and(|leaf| leaf.truth == Tri::from_bool(wanted));
            return if is_so { Vec::new() } else { vec![place] };
        }
    };
    // Each part is walked, so that places are counted in source order.
    let short: Vec<Vec<usize>> = parts.iter().map(|part| missing(part, wanted, leaves, next)).collect();
    if all { short.concat() } else { short.into_iter().min_by_key(Vec::len).unwrap_or_default() }
}
