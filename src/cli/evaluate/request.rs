//! One request of `probity evaluate`, a line of JSON, as the message that the server takes. README.md shows its shape;
//! a key that it does not have is an error, so that a mistyped one is not passed over.

use crate::{
    diag::suggest,
    drift::ContextSummary,
    grpc::wire,
    model::{Object, Value, json},
};

const KEYS: [&str; 16] = [
    "session_id",
    "agent_id",
    "probe_id",
    "library_version",
    "summary",
    "isolation",
    "snapshot",
    "snapshot_tool_calls",
    "shadow",
    "shadow_tool_calls",
    "baseline",
    "baseline_tool_calls",
    "judge",
    "canaries",
    "evaluation_id",
    "request_id",
];

const ISOLATION: [&str; 9] = [
    "shared_memory",
    "shared_tool_state",
    "shared_raw_context",
    "other_model_version",
    "other_sampling_config",
    "other_system_prompt",
    "other_tool_schema",
    "other_output_schema",
    "no_canonical_summary",
];

/// Reads a line. Errors name keys and never repeat a value.
pub fn request_message(line: &[u8], pack: &str) -> Result<wire::EvaluateRequest, String> {
    // Numbers of answers are kept as they are written: `1.0` is no integer.
    let reading = json::Reading { depth: json::MAX_DEPTH, numbers: json::Numbers::AsWrittenAnySize };
    let value = json::parse_with(line, reading).map_err(|e| e.to_string())?;
    let object = value.as_object().ok_or("a request is a JSON object")?;
    known(object, "", &KEYS)?;
    Ok(wire::EvaluateRequest {
        session_id: text(object, "session_id")?,
        pack: pack.to_owned(),
        agent_id: text(object, "agent_id")?,
        probe_id: text(object, "probe_id")?,
        library_version: text(object, "library_version")?,
        summary: object.get("summary").map(summary).transpose()?,
        isolation: object.get("isolation").map(isolation).transpose()?,
        snapshot: output(object, "snapshot", "snapshot_tool_calls"),
        shadow: output(object, "shadow", "shadow_tool_calls"),
        baseline: output(object, "baseline", "baseline_tool_calls"),
        judge_json: object.get("judge").filter(|v| **v != Value::Null).map(said).unwrap_or_default().into(),
        canaries: canaries(object.get("canaries"))?,
        evaluation_id: text(object, "evaluation_id")?,
        request_id: text(object, "request_id")?,
    })
}

fn known(object: &Object, within: &str, keys: &[&str]) -> Result<(), String> {
    match object.iter().find(|(key, _)| !keys.contains(&&***key)) {
        None => Ok(()),
        Some((key, _)) => Err(match suggest(key, keys.iter().copied()) {
            Some(near) => format!("an unknown key{within}; did you mean `{near}`?"),
            None => format!("an unknown key{within}; known are {}", keys.join(", ")),
        }),
    }
}

/// Text that is given is the model's as it is; anything else is its JSON.
fn said(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        other => other.to_string().into_bytes(),
    }
}

fn output(object: &Object, key: &str, calls: &str) -> Option<wire::ModelOutput> {
    let (value, calls) = (object.get(key).filter(|v| **v != Value::Null), object.get(calls));
    (value.is_some() || calls.is_some()).then(|| wire::ModelOutput {
        text: value.map(said).unwrap_or_default().into(),
        tool_calls_json: calls.map(|v| v.to_string().into_bytes()).unwrap_or_default().into(),
    })
}

fn text(object: &Object, key: &str) -> Result<String, String> {
    match object.get(key) {
        None => Ok(String::new()),
        Some(Value::String(s)) => Ok(s.to_string()),
        Some(_) => Err(format!("`{key}` must be text")),
    }
}

fn truth(object: &Object, within: &str, key: &str) -> Result<Option<bool>, String> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::Bool(b)) => Ok(Some(*b)),
        Some(_) => Err(format!("`{within}.{key}` must be true or false")),
    }
}

fn summary(value: &Value) -> Result<wire::ContextSummary, String> {
    let object = value.as_object().ok_or("`summary` must be an object")?;
    known(object, " in `summary`", &ContextSummary::KEYS)?;
    let need = |key: &str| format!("`summary.{key}` is missing");
    let flag = |key: &str| truth(object, "summary", key)?.ok_or_else(|| need(key));
    let count = |key: &str| match object.get(key) {
        None => Err(need(key)),
        Some(Value::Huge(digits)) => {
            digits.parse().map_err(|_| format!("`summary.{key}` must be a whole number from 0"))
        }
        Some(_) => Err(format!("`summary.{key}` must be a whole number from 0")),
    };
    let word = |key: &str, prefix: &str| {
        let word = object.get(key).ok_or_else(|| need(key))?.as_str().unwrap_or_default();
        // Only a word of the closed set is a name of the enum; anything else stays unspecified and is refused.
        let fits = word.chars().all(|c| c.is_ascii_lowercase()) && word != "unspecified";
        Ok::<String, String>(if fits { format!("{prefix}_{}", word.to_uppercase()) } else { String::new() })
    };
    let sensitivity = wire::DataSensitivity::from_str_name(&word("data_sensitivity", "DATA_SENSITIVITY")?);
    let chain = wire::EscalationChain::from_str_name(&word("escalation_chain", "ESCALATION_CHAIN")?);
    Ok(wire::ContextSummary {
        trusted_user: flag("trusted_user")?,
        prior_authorization: flag("prior_authorization")?,
        data_sensitivity: sensitivity.unwrap_or_default().into(),
        escalation_chain: chain.unwrap_or_default().into(),
        external_reads_count: count("external_reads_count")?,
        taint_active: flag("taint_active")?,
        session_depth: count("session_depth")?,
    })
}

fn isolation(value: &Value) -> Result<wire::Isolation, String> {
    let object = value.as_object().ok_or("`isolation` must be an object")?;
    known(object, " in `isolation`", &ISOLATION)?;
    let weakens = |key: &str| Ok::<bool, String>(truth(object, "isolation", key)?.unwrap_or(false));
    Ok(wire::Isolation {
        shared_memory: weakens("shared_memory")?,
        shared_tool_state: weakens("shared_tool_state")?,
        shared_raw_context: weakens("shared_raw_context")?,
        other_model_version: weakens("other_model_version")?,
        other_sampling_config: weakens("other_sampling_config")?,
        other_system_prompt: weakens("other_system_prompt")?,
        other_tool_schema: weakens("other_tool_schema")?,
        other_output_schema: weakens("other_output_schema")?,
        no_canonical_summary: weakens("no_canonical_summary")?,
    })
}

fn canaries(value: Option<&Value>) -> Result<Vec<String>, String> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let items = value.as_list().ok_or("`canaries` must be a list of texts")?;
    items.iter().map(|v| Ok(v.as_str().ok_or("a canary must be text")?.to_owned())).collect()
}
