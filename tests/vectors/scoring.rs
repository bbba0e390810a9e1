//! Files about one answer or one comparison.

use std::sync::Arc;

use probity::drift::{
    self, Action, Anomaly, Answer, AnswerError, Booleans, Field, InjectAs, Isolation, JsonType, JudgeError, Judgement,
    Probe, ProbeError, Residual, Schema, Slot, StatsError, StatsRules,
};
use serde_json::{Value as Json, json};

use crate::{
    parity,
    row::{Row, float, number, same, value},
};

fn names(fields: &[Field]) -> Vec<&'static str> {
    fields.iter().map(|f| f.word()).collect()
}

pub(crate) fn to_json(v: &probity::model::Value) -> Json {
    serde_json::from_str(&v.to_string()).unwrap()
}

pub(crate) fn compare_score(row: &Row) -> Result<(), String> {
    let input = &row.input;
    let mut settings = parity::settings();
    settings.score.ambiguity_band = number(&input["config"]["ambiguity_band"]).unwrap();
    settings.score.triangulate = input["config"]["triangulation_enabled"].as_bool().unwrap();
    let probe_type = input["probe_type"].as_str().unwrap();
    let (snapshot, shadow) = (Answer::extract(&value(&input["snapshot"])), Answer::extract(&value(&input["shadow"])));
    let anomaly = input["structural_anomaly"].as_str().map(|w| Anomaly::from_word(w).unwrap());
    let comparison = drift::compare(&snapshot, &shadow, anomaly, &settings.compare);
    let judgement = Judgement::read(&value(&input["judge"]), Booleans::Strict);
    let score = settings.score.score(probe_type, &comparison.divergences, judgement.as_ref().ok().copied()).unwrap();
    let weight = |f: &Field| json!({"name": f.word(), "weight": settings.score.weights.of(*f).to_f64()});
    let mut got = json!({
        "snapshot_payload": to_json(&snapshot.payload()),
        "shadow_payload": to_json(&shadow.payload()),
        "field_divergences": comparison.divergences.iter().map(weight).collect::<Vec<_>>(),
        "divergence_category": comparison.category.map(|c| c.word()),
        "field_score": float(score.field),
    });
    let mut wanted = row.wanted();
    match judgement {
        Ok(j) => {
            got["judge"] = judge_json(&j);
            got["semantic_score"] = float(score.semantic.unwrap());
            got["drift_score"] = float(score.drift);
            got["threshold"] = float(score.threshold);
            got["high_drift"] = json!(score.high);
            got["should_triangulate"] = json!(score.wants_baseline);
            let exact = wanted["drift_score_exact"].take();
            wanted.as_object_mut().unwrap().remove("drift_score_exact");
            let (above, below) = exact.as_str().unwrap().split_once('/').unwrap();
            let exact = above.parse::<f64>().unwrap() / below.parse::<f64>().unwrap();
            if (exact - score.drift).abs() > 1e-12 {
                return Err(format!("exact score {exact}, got {}", score.drift));
            }
        }
        Err(error) => {
            got["judge_error"] = json!(match error {
                JudgeError::NotBoolean { .. } => "judge answer is not a boolean",
                JudgeError::NotObject { .. } | JudgeError::Missing { .. } => "ValueError",
            });
            // A judge that failed leaves nothing that rests on its answer.
            if row.ideal.is_some() {
                for key in [
                    "judge",
                    "semantic_score",
                    "semantic_score_repr",
                    "drift_score",
                    "drift_score_repr",
                    "threshold",
                    "high_drift",
                    "should_triangulate",
                    "drift_score_exact",
                ] {
                    wanted.as_object_mut().unwrap().remove(key);
                }
            }
        }
    }
    same(&wanted, &got)
}

pub(crate) fn judge_json(j: &Judgement) -> Json {
    json!({
        "policy_ref_match": j.policy_ref_match,
        "decision_direction_match": j.decision_direction_match,
        "context_contradiction": j.context_contradiction,
    })
}

fn schema(json: &Json) -> Schema {
    match json {
        Json::Object(o) => Schema::new(o.iter().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()))),
        _ => Schema::answer(),
    }
}

fn raw_text(response: &Json) -> Option<String> {
    let base = || response["base"].as_str().unwrap();
    let times = |key: &str| usize::try_from(response[key].as_u64().unwrap()).unwrap();
    Some(match (response["kind"].as_str().unwrap(), response["pattern"].as_str().unwrap_or_default()) {
        ("raw", _) => response["text"].as_str().unwrap().to_owned(),
        (_, "open_brackets") => "[".repeat(times("depth")),
        (_, "nest_objects") => format!("{}1{}", "{\"a\":".repeat(times("depth")), "}".repeat(times("depth"))),
        (_, "nest_decision") => {
            let nest = format!("{}{}", "[".repeat(times("depth")), "]".repeat(times("depth")));
            base().replacen("\"decline\"", &nest, 1)
        }
        (_, "decision_digits") => base().replacen("\"decline\"", &"9".repeat(times("count")), 1),
        _ => return None,
    })
}

/// The reference's word for a type.
fn type_word(t: Option<JsonType>) -> &'static str {
    match t {
        Some(JsonType::String) => "str",
        Some(JsonType::Boolean) => "bool",
        Some(JsonType::Integer) => "int",
        Some(JsonType::Number) | None => "float",
        Some(JsonType::Object) => "dict",
        Some(JsonType::Array) => "list",
        Some(JsonType::Null) => "NoneType",
    }
}

pub(crate) fn validate(row: &Row) -> Result<(), String> {
    let wanted = row.wanted();
    let got = if row.input["stage"] == "pre_dispatch" {
        let p = &row.input["probe"];
        let text = |key: &str| Arc::<str>::from(p[key].as_str().unwrap_or_default());
        let probe = Probe {
            id: text("probe_id"),
            probe_type: Arc::from("data_disclosure"),
            inject_as: InjectAs::UserMessage,
            stress_type: text("stress_type"),
            constraint: text("constraint"),
            scenario: text("scenario"),
            wordings: Vec::new(),
            schema: schema(&p["expected_schema"]),
        };
        let detail = match drift::check_probe(&probe, &text("probe_library_version")) {
            Ok(()) => json!({"class": "none"}),
            Err(ProbeError::Blank { part }) => json!({"class": "empty", "field": part.word()}),
            Err(ProbeError::NamelessField | ProbeError::UnknownType { .. }) => json!({"class": "schema"}),
        };
        json!({"valid": detail["class"] == "none", "anomaly": null, "detail": detail})
    } else {
        let limits = parity::settings().limits;
        let response = &row.input["response"];
        let schema = schema(&row.input["schema"]);
        let result = match raw_text(response) {
            Some(text) => drift::parse_answer(text.as_bytes(), &limits).and_then(|v| drift::check_answer(&v, &schema)),
            None => drift::check_answer(&value(&response["value"]), &schema),
        };
        match result {
            Ok(()) => json!({"valid": true, "anomaly": null, "detail": {"class": "none"}}),
            Err(error) => {
                let detail = match &error {
                    AnswerError::TooLong { .. } | AnswerError::Parse(_) | AnswerError::LongNumber { .. } => {
                        json!({"class": "json_parse_error"})
                    }
                    AnswerError::NotObject { got } => json!({"class": "not_object", "got": type_word(*got)}),
                    AnswerError::Missing { fields } => json!({"class": "missing_fields", "fields": words(fields)}),
                    AnswerError::Unexpected { fields } => {
                        json!({"class": "unexpected_fields", "fields": words(fields)})
                    }
                    AnswerError::WrongType { fields } => {
                        json!({"class": "type_mismatch_fields", "fields": words(fields)})
                    }
                };
                json!({"valid": false, "anomaly": error.anomaly().word(), "detail": detail})
            }
        }
    };
    match &row.ideal {
        // The reference's detail explains an answer that the ideal one replaces.
        Some(ideal) => ideal.as_object().unwrap().iter().try_for_each(|(key, v)| same(v, &got[key])),
        None => same(&wanted, &got),
    }
}

fn words(fields: &[Arc<str>]) -> Vec<String> {
    fields.iter().map(|f| f.to_string()).collect()
}

pub(crate) fn triangulate(row: &Row) -> Result<(), String> {
    let word = |key: &str| row.input[key].as_str().unwrap();
    let rules = parity::settings().triangulate;
    let (found, _) = drift::triangulate(word("snapshot"), word("shadow"), word("baseline"), &rules);
    same(&row.wanted(), &json!({"classification": found.word()}))
}

pub(crate) fn isolation_of(input: &Json) -> Isolation {
    let perfect = Isolation::default();
    let flag = |key: &str, default: bool| input[key].as_bool().unwrap_or(default);
    Isolation {
        shared_memory: flag("shared_memory", perfect.shared_memory),
        shared_tool_state: flag("shared_tool_state", perfect.shared_tool_state),
        shared_raw_context: flag("shared_raw_context", perfect.shared_raw_context),
        same_model_version: flag("same_model_version", perfect.same_model_version),
        same_sampling_config: flag("same_sampling_config", perfect.same_sampling_config),
        same_system_prompt_hash: flag("same_system_prompt_hash", perfect.same_system_prompt_hash),
        same_tool_schema_hash: flag("same_tool_schema_hash", perfect.same_tool_schema_hash),
        same_output_schema: flag("same_output_schema", perfect.same_output_schema),
        receives_canonical_summary: flag("receives_canonical_summary", perfect.receives_canonical_summary),
    }
}

pub(crate) fn isolation(row: &Row) -> Result<(), String> {
    let confidence = parity::settings().isolation.confidence(&isolation_of(&row.input));
    same(&row.wanted(), &json!({"confidence": float(confidence)}))
}

pub(crate) fn residual(row: &Row) -> Result<(), String> {
    let (snapshot, shadow) = (&row.input["snapshot"], &row.input["shadow"]);
    let (a, b) = (Answer::extract(&value(snapshot)), Answer::extract(&value(shadow)));
    let residual = Residual::of(&a, &b, Booleans::Truthy);
    // The reference lists plain differences in another order, and without reading the values.
    let order =
        ["decision", "reasoning", "disclosed_data", "policy_cited", "escalation_suggested", "tool_call_attempted"];
    let symmetric: Vec<&str> = order.into_iter().filter(|k| !alike_in_python(&snapshot[*k], &shadow[*k])).collect();
    let category = category_of(&symmetric);
    let got = json!({
        "residual_fields": names(&residual.fields),
        "escape_detected": residual.escape_detected(),
        "residual_count": residual.fields.len(),
        "drift_score": float(residual.score()),
        "action": residual.action(Action::ElevatedReview).word(),
        "reverse_residual_fields": names(&residual.reverse),
        "symmetric_divergences": symmetric,
        "divergence_category": category,
    });
    same(&row.wanted(), &got)?;
    if row.has_tag("non_bool_truthiness") {
        return better_residual(&a, &b);
    }
    // Where all fields are what they should be, our own comparison finds the same differences.
    let compared = drift::compare(&a, &b, None, &parity::better().compare);
    let mut ours = names(&compared.divergences);
    let mut theirs = symmetric;
    ours.sort_unstable();
    theirs.sort_unstable();
    if ours == theirs && compared.category.map(|c| c.word()) == category {
        Ok(())
    } else {
        Err(format!("our comparison finds {ours:?}"))
    }
}

/// Under the default rules nothing but a real boolean fires, and a field that holds anything else is
/// named.
fn better_residual(a: &Answer, b: &Answer) -> Result<(), String> {
    let strict = Residual::of(a, b, Booleans::Strict);
    for field in [Field::DisclosedData, Field::ToolCallAttempted] {
        let odd = [a, b].iter().any(|x| matches!(x.flag(field), Some(Slot::Malformed(_))));
        let fires = strict.fields.contains(&field) || strict.reverse.contains(&field);
        if odd && (fires || !strict.unreadable.contains(&field)) {
            return Err(format!("strict residual reads {}", field.word()));
        }
    }
    Ok(())
}

/// Equality of the reference's language: booleans are the numbers 0 and 1.
fn alike_in_python(a: &Json, b: &Json) -> bool {
    let as_number = |v: &Json| v.as_bool().map(f64::from).or_else(|| number(v));
    match (as_number(a), as_number(b)) {
        (Some(x), Some(y)) => x == y,
        _ => a == b,
    }
}

fn category_of(differences: &[&str]) -> Option<&'static str> {
    let has = |k: &str| differences.contains(&k);
    if differences.is_empty() {
        None
    } else if has("decision") || has("disclosed_data") {
        Some("policy_disagreement")
    } else if has("reasoning") {
        Some("reasoning_divergence")
    } else {
        Some("structural_instability")
    }
}

pub(crate) fn stats(row: &Row) -> Result<(), String> {
    let input = &row.input;
    let count = |key: &str| input[key].as_i64().unwrap();
    let rules = match row.ideal {
        Some(_) => StatsRules::default(),
        None => StatsRules { accept_any_counts: true, empty_is_zero: true },
    };
    let z = || number(&input["z"]).unwrap_or(1.96);
    let got = match input["fn"].as_str().unwrap() {
        "wilson_ci" => drift::wilson(count("k"), count("n"), z(), rules)
            .map(|(low, high)| json!({"low": float(low), "high": float(high)})),
        "two_proportion_z" => drift::two_proportion_z(count("k_a"), count("n_a"), count("k_b"), count("n_b"), rules)
            .map(|z| json!({"z": float(z)})),
        _ => drift::difference_is_real((count("k_a"), count("n_a")), (count("k_b"), count("n_b")), z(), rules)
            .map(|real| json!({"real": real})),
    };
    match (got, &row.ideal) {
        (Err(StatsError::Counts { .. }), Some(ideal)) => same(ideal, &json!({"error": "invalid_counts"})),
        (Ok(got), Some(ideal)) => same(ideal, &got),
        (Ok(got), None) => same(&row.expected, &got),
        (Err(_), _) if row.expected.get("raised").is_some() => Ok(()),
        (Err(error), _) => Err(error.to_string()),
    }
}
