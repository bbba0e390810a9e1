//! `probes.yaml` and `scoring.yaml`.

use serde_json::Value;

use super::shapes::*;
use crate::drift::{Action, Field, InjectAs, JsonType};

pub(super) fn probes() -> Value {
    let answer = || {
        map(
            "What an answer must look like: fields with their types.",
            words("A type.", JsonType::ALL.map(JsonType::word)),
        )
    };
    let probe = object(
        "A situation that puts a rule under pressure.",
        [
            required("id", text("Its id, unique in the library.")),
            required("type", text("Its type, one of `score.types` in scoring.yaml.")),
            required(
                "inject_as",
                words("How it reaches the agent.", [InjectAs::UserMessage, InjectAs::ToolResult].map(InjectAs::word)),
            ),
            required("stress", text("The kind of pressure.")),
            required("constraint", text("The rule that is under pressure.")),
            required("scenario", text("What is asked.")),
            optional("wordings", some("The same question in other words.", text("A wording."))),
            optional("schema", answer()),
        ],
    );
    object(
        "The probe library.",
        [
            required("version", text("The library's version. Results of different versions are never added up.")),
            optional("schema", answer()),
            required("probes", some("The probes.", probe)),
        ],
    )
}

fn weight(key: &'static str, about: &str) -> Key {
    required(key, number(about, 0.0, None))
}

fn figure(key: &'static str, about: &str) -> Key {
    required(key, any_number(about))
}

fn size(key: &'static str, about: &str) -> Key {
    required(key, whole(about, 0))
}

pub(super) fn scoring() -> Value {
    object(
        "Every number and switch of the drift half. They are estimates until pack.yaml says CALIBRATED.",
        [
            required(
                "limits",
                object(
                    "Bounds of one answer.",
                    [
                        size("bytes", "Bytes of its text."),
                        size("depth", "How deep it nests."),
                        size("number_chars", "Characters of a number."),
                    ],
                ),
            ),
            required(
                "compare",
                object(
                    "How answers are compared.",
                    [required("normalize_decision", flag("Whether case and blanks of a decision mean nothing."))],
                ),
            ),
            required("score", score()),
            required("isolation", isolation()),
            required("longitudinal", longitudinal()),
            required(
                "action",
                object(
                    "What is recommended, by the session's signal.",
                    [
                        figure("elevated", "From this signal on: a closer look."),
                        figure("restricted", "From this signal on: restricted mode, in a calibrated pack."),
                        size("min_scored_probes", "No recommendation before so many scored probes."),
                        required(
                            "on_escape",
                            words(
                                "What one escape leads to.",
                                [Action::LogOnly, Action::ElevatedReview, Action::RestrictedMode].map(Action::word),
                            ),
                        ),
                    ],
                ),
            ),
            required(
                "consistency",
                object(
                    "When answers are too much alike.",
                    [
                        size("streak", "So many equal answers one after the other."),
                        figure("expected_variance", "How much honest answers differ."),
                    ],
                ),
            ),
            required(
                "report",
                object(
                    "What a report says of a session.",
                    [
                        size("min_probes", "Below so many probes it is inconclusive."),
                        figure("max_malformed_share", "Above this share of malformed answers it is inconclusive."),
                        size("timeline", "How many entries its timeline has."),
                        figure("z", "Of the confidence interval: 1.96 is 95 per cent."),
                    ],
                ),
            ),
            required(
                "schedule",
                object(
                    "When a probe is due; seconds and tokens.",
                    [
                        required("growth_tokens", signed("After so many tokens of context.")),
                        required("external_tokens", signed("After so many tokens from outside.")),
                        figure("max_interval", "After so many seconds."),
                        figure("cooldown", "Not sooner than so many seconds after the last one."),
                        figure("jitter", "So many seconds more or less."),
                        size("max_probes", "So many in one session."),
                        figure("reputation", "Below this reputation probes come more often."),
                    ],
                ),
            ),
            required(
                "sensitivity",
                object(
                    "How sensitive a session is that reads much from outside.",
                    [
                        required(
                            "high_reads_when_tainted",
                            signed("More reads than this make a tainted session high."),
                        ),
                        required("medium_reads", signed("More reads than this make it medium.")),
                    ],
                ),
            ),
            optional("judge", judge()),
            required("readout", readout()),
            optional("parity", parity()),
        ],
    )
}

fn score() -> Value {
    let weights = Field::ALL.map(|field| weight(field.word(), "What a difference in this field weighs."));
    let numbers = object(
        "The numbers of a probe type.",
        [figure("threshold", "A score above it is high."), weight("multiplier", "What scores are multiplied by.")],
    );
    object(
        "How far two answers are apart.",
        [
            required("weights", object("What each differing field weighs.", weights)),
            required(
                "judge",
                object(
                    "What the three answers of a judge weigh.",
                    [
                        weight("policy", "Whether both cite the same policy."),
                        weight("direction", "Whether both decide in the same direction."),
                        weight("context", "Whether one contradicts the session."),
                        weight("blend", "How much of the judge's score is added."),
                    ],
                ),
            ),
            required("types", map("Probe types by name.", numbers)),
            figure("ambiguity_band", "This near to the threshold a baseline is asked for."),
            required("triangulate", flag("Whether a baseline is asked for at all.")),
        ],
    )
}

fn isolation() -> Value {
    let factor = |key, about: &str| figure(key, &format!("The factor if {about}."));
    object(
        "The confidence in a comparison is multiplied by the factor of each fact that weakens it.",
        [
            factor("shared_memory", "both share memory"),
            factor("shared_tool_state", "both share the state of tools"),
            factor("shared_raw_context", "the shadow sees the raw context"),
            factor("other_sampling_config", "sampling differs"),
            factor("other_model_version", "the model's version differs"),
            factor("other_system_prompt", "the system prompt differs"),
            factor("other_tool_schema", "the tools' schemas differ"),
            factor("other_output_schema", "the answers' schema differs"),
            factor("no_canonical_summary", "there is no canonical summary"),
            figure("min_confidence", "A comparison below it is recorded and does not count."),
        ],
    )
}

fn longitudinal() -> Value {
    let step = object("A step.", [size("from", "From so many anomalies on."), figure("adds", "What they add.")]);
    object(
        "How findings of a session add up to its signal.",
        [
            figure("frequency", "The coefficient of how often scores are high."),
            figure("trend", "The coefficient of their trend."),
            figure("category", "The coefficient of their categories."),
            figure("structural", "The coefficient of structural anomalies."),
            figure("trend_scale", "What a slope is multiplied by."),
            size("trend_min_scores", "No trend before so many scores."),
            figure("per_policy_disagreement", "What each policy disagreement adds."),
            required("structural_steps", list("What structural anomalies add, by their number.", step)),
            optional("window", whole("Only so many of the latest probes count; all if it is left out.", 0)),
        ],
    )
}

/// Names of keyword categories.
fn categories(key: &'static str, about: &str) -> Key {
    optional(key, some(about, text("The name of a category.")))
}

fn judge() -> Value {
    let mut flags = Vec::new();
    flags.extend(
        Field::ALL.into_iter().filter(|f| f.is_flag()).map(|f| optional(f.word(), flag("What the answer says."))),
    );
    let when = object(
        "What the summary of the session says.",
        [
            optional("trusted_user", flag("Whether the user is trusted.")),
            optional("prior_authorization", flag("Whether something was authorised.")),
            optional("taint_active", flag("Whether the context holds what strangers wrote.")),
            optional(
                "data_sensitivity",
                some("One of these.", words("A sensitivity.", ["low", "medium", "high", "critical"])),
            ),
            optional("escalation_chain", some("One of these.", words("A state.", ["none", "pending", "active"]))),
        ],
    );
    let contradiction = object(
        "What an answer must not say of such a session; `says`, `answer` or both.",
        [
            required("when", when),
            categories("says", "Categories that the reasoning mentions."),
            optional("answer", object("Flags of the answer.", flags)),
        ],
    );
    object(
        "The deterministic judge: what keyword categories mean to it.",
        [
            categories("toward", "Words that go along."),
            categories("away", "Words that refuse."),
            categories("rules", "Words that name a rule."),
            categories("citations", "Words that cite one by its number."),
            optional("contradictions", list("What contradicts the session.", contradiction)),
        ],
    )
}

fn readout() -> Value {
    object(
        "How raw outputs are read.",
        [
            size("bytes", "Bytes of an output."),
            required("layers", number_of_layers()),
            categories("policy_cited", "Words that cite a policy."),
            categories("escalation_suggested", "Words that suggest to escalate."),
        ],
    )
}

fn number_of_layers() -> Value {
    serde_json::json!({
        "description": "Encodings in encodings that are undone.",
        "type": "integer",
        "minimum": 0,
        "maximum": crate::pack::lexicon::MOST_LAYERS,
    })
}

/// Switches that bring back an older behaviour.
fn parity() -> Value {
    let old = |key| optional(key, flag("A switch of parity: leave it out."));
    let booleans = || words("How booleans of answers are read.", ["strict", "read_false", "truthy"]);
    object(
        "Switches that bring back an older behaviour, for comparison with earlier results. Leave them out.",
        [
            old("beyond_double"),
            old("lone_surrogates"),
            old("empty_decisions_count"),
            old("structural_without_scores"),
            old("count_explained"),
            old("accept_any_score"),
            old("consistency_needs_calibration"),
            old("anomaly_first"),
            old("empty_interval_is_zero"),
            old("judge_unreadable"),
            old("drop_non_objects"),
            old("judge_failure_ends"),
            old("record_before_redaction"),
            old("ignore_other_library"),
            old("open_summary"),
            optional("booleans", booleans()),
            optional("judge_booleans", booleans()),
            optional("streak_rule", words("What ends a streak.", ["no_divergence", "up_to_threshold", "no_escape"])),
            optional("evidence", words("What counts as drift.", ["either", "scores", "escapes"])),
            optional("structural_failures", words("What is counted.", ["anomalies", "category"])),
            optional("growth", words("Since when growth is counted.", ["since_dispatch", "absolute"])),
            optional("cooldown", words("Since when the cooldown runs.", ["after_dispatch", "from_zero"])),
        ],
    )
}
