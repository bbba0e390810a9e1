//! `reward.yaml`: how violations are paid.

use crate::{
    diag::{Code, Diagnostic, Diagnostics},
    model::Num,
};

use super::{
    fields::{Fields, number_within, some_list},
    node::Node,
    spec::RewardSpec,
};

/// Reads `reward.yaml`; what it leaves out is at its default.
pub(super) fn read(root: &Node, diags: &mut Diagnostics) -> RewardSpec {
    let mut reward = RewardSpec::default();
    let Some(mut fields) = Fields::of(root, "reward.yaml", diags) else { return reward };
    if let Some(mut scale) = fields.get("severity").and_then(|n| Fields::of(n, "`severity`", diags)) {
        let min = scale.get("min").and_then(|n| number_within(n, "`min`", Num::ZERO, None, diags));
        reward.severity_min = min.unwrap_or(reward.severity_min);
        let max_node = scale.get("max");
        reward.severity_max = max_node.and_then(|n| number_within(n, "`max`", Num::ZERO, None, diags));
        if let (Some(node), Some(max)) = (max_node, reward.severity_max)
            && max < reward.severity_min
        {
            let min = reward.severity_min;
            let message = format!("`max` is below `min`, so no severity is allowed: {max} < {min}");
            diags.push(Diagnostic::error(Code::NumberRange, node.span, message));
        }
        scale.finish(diags);
    }
    if let Some(items) = fields.get("discount").and_then(|n| some_list(n, "`discount`", diags)) {
        let one = Some(Num::ONE);
        let read: Vec<Num> =
            items.iter().filter_map(|n| number_within(n, "a share of `discount`", Num::ZERO, one, diags)).collect();
        if read.len() == items.len() {
            reward.discount = read;
        }
    }
    fields.finish(diags);
    reward
}
