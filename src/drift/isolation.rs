//! How much a comparison can mean, given what the two instances share.
//!
//! The confidence starts at 1 and is multiplied by a factor for each fact about the setup that
//! weakens the comparison. The facts are what the operator declares; nothing here can check them.

use super::numbers::Checks;

/// What the operator declares about the two instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// They share memory.
    pub shared_memory: bool,
    /// They share the state of tools.
    pub shared_tool_state: bool,
    /// The shadow sees the raw context.
    pub shared_raw_context: bool,
    /// They run the same model version.
    pub same_model_version: bool,
    /// They run with the same sampling settings.
    pub same_sampling_config: bool,
    /// Their system prompts have the same hash.
    pub same_system_prompt_hash: bool,
    /// Their tool schemas have the same hash.
    pub same_tool_schema_hash: bool,
    /// They are asked for the same output schema.
    pub same_output_schema: bool,
    /// The shadow gets the canonical context summary.
    pub receives_canonical_summary: bool,
}

impl Default for Isolation {
    /// Perfect isolation.
    fn default() -> Isolation {
        Isolation {
            shared_memory: false,
            shared_tool_state: false,
            shared_raw_context: false,
            same_model_version: true,
            same_sampling_config: true,
            same_system_prompt_hash: true,
            same_tool_schema_hash: true,
            same_output_schema: true,
            receives_canonical_summary: true,
        }
    }
}

/// The factor for each weakening fact, 0 to 1, and the least confidence that still counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IsolationSettings {
    /// If memory is shared.
    pub shared_memory: f64,
    /// If tool state is shared.
    pub shared_tool_state: f64,
    /// If the raw context is shared.
    pub shared_raw_context: f64,
    /// If sampling settings differ.
    pub other_sampling_config: f64,
    /// If model versions differ.
    pub other_model_version: f64,
    /// If system prompts differ.
    pub other_system_prompt: f64,
    /// If tool schemas differ.
    pub other_tool_schema: f64,
    /// If output schemas differ.
    pub other_output_schema: f64,
    /// If the shadow gets no canonical summary.
    pub no_canonical_summary: f64,
    /// A comparison with less confidence is recorded, but does not count.
    pub min_confidence: f64,
}

impl IsolationSettings {
    /// The confidence of a setup, 0 to 1.
    pub fn confidence(&self, isolation: &Isolation) -> f64 {
        [
            (isolation.shared_memory, self.shared_memory),
            (isolation.shared_tool_state, self.shared_tool_state),
            (isolation.shared_raw_context, self.shared_raw_context),
            (!isolation.same_sampling_config, self.other_sampling_config),
            (!isolation.same_model_version, self.other_model_version),
            (!isolation.same_system_prompt_hash, self.other_system_prompt),
            (!isolation.same_tool_schema_hash, self.other_tool_schema),
            (!isolation.same_output_schema, self.other_output_schema),
            (!isolation.receives_canonical_summary, self.no_canonical_summary),
        ]
        .into_iter()
        .filter(|(weakens, _)| *weakens)
        .fold(1.0, |confidence, (_, factor)| confidence * factor)
    }

    /// Adds the problems of these settings.
    pub fn check(&self, checks: &mut Checks) {
        for (name, value) in [
            ("isolation.shared_memory", self.shared_memory),
            ("isolation.shared_tool_state", self.shared_tool_state),
            ("isolation.shared_raw_context", self.shared_raw_context),
            ("isolation.other_sampling_config", self.other_sampling_config),
            ("isolation.other_model_version", self.other_model_version),
            ("isolation.other_system_prompt", self.other_system_prompt),
            ("isolation.other_tool_schema", self.other_tool_schema),
            ("isolation.other_output_schema", self.other_output_schema),
            ("isolation.no_canonical_summary", self.no_canonical_summary),
            ("isolation.min_confidence", self.min_confidence),
        ] {
            checks.range(name, value, 0.0, 1.0);
        }
    }
}
