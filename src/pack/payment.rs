//! `reward.yaml`: how violations are paid, and what is paid beside them.
//!
//! ```yaml
//! severity: {min: 0, max: 1}            # the scale that severities must keep to
//! discount: [1, 0.5, 0]                 # of the first, second, any later hit of a policy in an episode
//! components:                           # optional; what is left out is not paid
//!   violation: {weight: 1}
//!   plausibility: {weight: 0.2, policies: [OFF_TOPIC]}   # flag policies that speak against a user message
//!   progress: {weight: 0.5, policies: [SIGNED_IN]}       # milestone policies, each once
//!   diversity: {weight: 0.1}            # for each policy hit that the caller does not know yet
//! ```

use crate::{
    diag::{Code, Diagnostic, Diagnostics},
    model::Num,
    reward::Discount,
};

use super::{
    fields::{Fields, number_within, some_list, texts},
    node::Node,
    spec::{ComponentsSpec, RewardSpec, Spanned},
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
            match Discount::new(read) {
                Ok(discount) => reward.discount = discount,
                Err(e) => diags.push(Diagnostic::error(Code::WrongValue, root.span, e.to_string())),
            }
        }
    }
    if let Some(node) = fields.get("components") {
        reward.components = components(node, diags);
    }
    fields.finish(diags);
    reward
}

fn components(node: &Node, diags: &mut Diagnostics) -> ComponentsSpec {
    let mut components = ComponentsSpec::default();
    let Some(mut fields) = Fields::of(node, "`components`", diags) else { return components };
    if let Some(node) = fields.get("violation") {
        components.violation = weight_alone(node, "`violation`", diags).unwrap_or(components.violation);
    }
    components.plausibility = fields.get("plausibility").and_then(|n| weighed(n, "`plausibility`", diags));
    components.progress = fields.get("progress").and_then(|n| weighed(n, "`progress`", diags));
    components.diversity = fields.get("diversity").and_then(|n| weight_alone(n, "`diversity`", diags));
    fields.finish(diags);
    components
}

fn weight_alone(node: &Node, what: &str, diags: &mut Diagnostics) -> Option<Num> {
    let mut fields = Fields::of(node, what, diags)?;
    let weight = weight(&mut fields, diags);
    fields.finish(diags);
    weight
}

fn weighed(node: &Node, what: &str, diags: &mut Diagnostics) -> Option<(Num, Vec<Spanned<String>>)> {
    let mut fields = Fields::of(node, what, diags)?;
    let weight = weight(&mut fields, diags);
    let policies = fields.need("policies", "policies: [ID]", diags);
    let policies = policies.and_then(|n| some_list(n, "`policies`", diags));
    let named = policies.map(|items| texts(items, "the id of a policy", diags));
    fields.finish(diags);
    Some((weight?, named?.into_iter().map(|(value, span)| Spanned { value, span }).collect()))
}

fn weight(fields: &mut Fields<'_>, diags: &mut Diagnostics) -> Option<Num> {
    let node = fields.need("weight", "weight: 1", diags)?;
    number_within(node, "`weight`", Num::ZERO, None, diags)
}
