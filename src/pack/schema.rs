//! JSON Schemas of a pack's YAML files, for editors: completion, descriptions and mistakes while one types.
//!
//! They are draft 7, which the YAML language server knows best. What they say of keys is held to the readers by
//! `tests/schema.rs`, key by key. They say less than `probity check` does: what depends on another file, or on another
//! place of the same one, is not theirs.

mod cases;
mod drift;
mod shapes;

use serde_json::{Value, json};

use crate::{
    keywords::Step,
    model::{AuditorSees, EpisodeRules, Limit},
    redact::Detector,
};

use super::spec::PackSpec;
use shapes::*;

/// A kind of YAML file in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// `pack.yaml`
    Pack,
    /// `keywords.yaml`
    Keywords,
    /// `reward.yaml`
    Reward,
    /// `redaction.yaml`
    Redaction,
    /// `tools.yaml`
    Tools,
    /// `probes.yaml`
    Probes,
    /// `scoring.yaml`
    Scoring,
    /// `tests/*.yaml`
    Tests,
}

impl FileKind {
    /// Every kind.
    pub const ALL: [FileKind; 8] = [
        FileKind::Pack,
        FileKind::Keywords,
        FileKind::Reward,
        FileKind::Redaction,
        FileKind::Tools,
        FileKind::Probes,
        FileKind::Scoring,
        FileKind::Tests,
    ];

    /// Its name: that of the file, or of the folder of such files.
    pub fn word(self) -> &'static str {
        match self {
            FileKind::Pack => "pack",
            FileKind::Keywords => "keywords",
            FileKind::Reward => "reward",
            FileKind::Redaction => "redaction",
            FileKind::Tools => "tools",
            FileKind::Probes => "probes",
            FileKind::Scoring => "scoring",
            FileKind::Tests => "tests",
        }
    }

    /// The kind of that name.
    pub fn from_word(word: &str) -> Option<FileKind> {
        FileKind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Its schema.
    pub fn schema(self) -> Value {
        let mut schema = match self {
            FileKind::Pack => pack(),
            FileKind::Keywords => keywords(),
            FileKind::Reward => reward(),
            FileKind::Redaction => redaction(),
            FileKind::Tools => tools(),
            FileKind::Probes => drift::probes(),
            FileKind::Scoring => drift::scoring(),
            FileKind::Tests => cases::tests(),
        };
        if let Some(top) = schema.as_object_mut() {
            top.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
            top.insert("title".to_owned(), json!(format!("Probity: {}", self.word())));
            if self == FileKind::Tools {
                top.insert("definitions".to_owned(), json!({"schema": tool_schema()}));
            }
        }
        schema
    }
}

fn pack() -> Value {
    let limit = |limit: Limit| {
        let about = format!("{} at most; {} if it is left out", limit.most(), limit.default());
        optional(limit.key(), count(&about, limit.most()))
    };
    let most = EpisodeRules::MOST;
    object(
        "What a pack is.",
        [
            required("name", name("The pack's name, by which sessions ask for it.", true)),
            required("version", text("The pack's version, as semver has it: another meaning needs another version.")),
            required("format", json!({"description": "The version of the rules language.", "const": PackSpec::FORMAT})),
            optional("description", text("One line on what the pack is for.")),
            optional(
                "clock",
                object(
                    "The fixed `now` of value expressions, for worlds that stand still.",
                    [required("fixed", text("A time as RFC 3339 has it; without an offset it is UTC."))],
                ),
            ),
            optional(
                "errors",
                object(
                    "What an error result is, where the trace's format does not say so.",
                    [required("prefix", some_text("A result whose text begins with this is an error."))],
                ),
            ),
            optional(
                "on_undecided",
                words(
                    "What a call gets that a policy cannot decide on. Left out: review.",
                    ["allow", "review", "deny"],
                ),
            ),
            optional(
                "calibration",
                object(
                    "Whether the numbers of the pack were fitted to data.",
                    [
                        required(
                            "status",
                            words("CALIBRATED needs `dataset` and `date`.", ["CALIBRATED", "UNCALIBRATED"]),
                        ),
                        optional("dataset", some_text("The data that they were fitted to.")),
                        optional("date", pattern("When: `2026-01-31`.", r"^\d{4}-\d{2}-\d{2}$")),
                    ],
                ),
            ),
            optional("limits", object("What one session may cost.", Limit::ALL.map(limit))),
            optional(
                "episode",
                object(
                    "How an episode with an auditor and a target runs.",
                    [
                        optional(
                            "auditor_sees",
                            words("What of judgements the auditor is told.", AuditorSees::ALL.map(AuditorSees::word)),
                        ),
                        optional("messages", count("How many messages it may have.", most.messages)),
                        optional("items", count("How many items it may have.", most.items)),
                        optional("seconds", count("How long it may last.", most.seconds)),
                    ],
                ),
            ),
            optional("extends", list("Packs beside this one that it builds on.", base())),
        ],
    )
}

/// An entry of `extends`.
fn base() -> Value {
    let asked = "Which pack: NAME, NAME@1.2.0, or NAME@^1 and other ranges of semver.";
    let entry = object(
        "A pack, and what of it is not taken.",
        [
            required("pack", some_text(asked)),
            optional("override", some("Names that this pack declares in its place.", text("A name."))),
            optional("without", some("Policies of it that are left out.", text("The id of a policy."))),
        ],
    );
    any_of("A pack that this one builds on.", [some_text(asked), entry])
}

fn keywords() -> Value {
    let category = object(
        "A category: `text mentions NAME` asks for it.",
        [
            optional("match", words("Whole words, or anywhere in a text. Left out: word.", ["word", "substring"])),
            optional(
                "normalize",
                list(
                    "What is done to texts and terms before they are compared; nothing else is.",
                    words("A step.", Step::ALL.map(|(_, word)| word)),
                ),
            ),
            optional("terms", some("What is looked for; a blank is one or more blanks.", text("A word or several."))),
            optional("patterns", some("Regular expressions, linear in time.", text("A pattern, in single quotes."))),
            optional("except", some("What is blanked out before anything is looked for.", text("A word or several."))),
        ],
    );
    object("Keyword categories.", [required("categories", map("Categories by name.", category))])
}

fn reward() -> Value {
    let least = |about: &str| number(about, 0.0, None);
    let weight = || required("weight", least("What it is multiplied by."));
    let named = |about: &str| required("policies", some(about, text("The id of a policy.")));
    object(
        "How violations are paid, and what is paid beside them.",
        [
            optional(
                "severity",
                object(
                    "The scale that severities must keep to.",
                    [optional("min", least("The least.")), optional("max", least("The greatest."))],
                ),
            ),
            optional(
                "discount",
                some(
                    "The share of its severity that the first, second, .. and any later hit of a policy in an episode pays.",
                    number("A share.", 0.0, Some(1.0)),
                ),
            ),
            optional(
                "components",
                object(
                    "What a reward is made of; what is left out is not paid.",
                    [
                        optional("violation", object("Violations.", [weight()])),
                        optional(
                            "plausibility",
                            object("Flags that speak against a message.", [weight(), named("`flag` policies.")]),
                        ),
                        optional(
                            "progress",
                            object("Milestones, each once.", [weight(), named("`milestone` policies.")]),
                        ),
                        optional("diversity", object("Policies hit that the caller does not know yet.", [weight()])),
                    ],
                ),
            ),
        ],
    )
}

fn redaction() -> Value {
    let names = |about: &str| list(about, text("The name of a field."));
    let replacement = || optional("replacement", some_text("What stands in its place: a word in brackets."));
    let word_list = |key: &'static str, about: &str| optional(key, list(about, text("A word.")));
    let detector = |detector: Detector| {
        let (about, more) = match detector {
            Detector::Secret => ("Keys, tokens and passwords.", vec![]),
            Detector::Iban => ("Bank accounts.", vec![]),
            Detector::Card => ("Payment cards.", vec![]),
            Detector::Ip => ("IP addresses.", vec![]),
            Detector::Email => (
                "Mail addresses.",
                vec![
                    word_list("file_suffixes", "Endings that make a name with an `@` a file."),
                    word_list("version_names", "Names behind which an `@` gives a version."),
                    word_list("spelled_domains", "Domains of addresses that are spelled out."),
                ],
            ),
            Detector::Phone => (
                "Telephone numbers.",
                vec![
                    word_list("cues", "Words that make a number one."),
                    word_list("others", "Words that make a number something else."),
                    word_list("weak_others", "The same, if no other word speaks for a telephone."),
                    word_list("units", "Units behind a number that is none."),
                ],
            ),
        };
        let detector_keys = object(about, std::iter::once(replacement()).chain(more));
        optional(detector.word(), or_null(detector_keys))
    };
    object(
        "What may leave a call, and what is looked for in texts.",
        [
            optional(
                "mode",
                words("What is left of a value. Left out: text.", ["text", "categorical", "hashed", "encrypted"]),
            ),
            required(
                "fields",
                object(
                    "What is done with each field; one that is not named is closed.",
                    [
                        optional("plain", names("Fields that stay as they are.")),
                        optional("scrubbed", names("Fields from which detectors cut what they find.")),
                        optional("hashed", names("Fields of which a keyed hash is left.")),
                        optional(
                            "words",
                            map("The words that a plain field may hold.", some("Words.", text("A word."))),
                        ),
                    ],
                ),
            ),
            required(
                "detectors",
                object("What is looked for; one that is not named does not look.", Detector::ALL.map(detector)),
            ),
            optional(
                "limits",
                object(
                    "Beyond them a text is closed as a whole.",
                    [
                        optional("max_bytes", whole("Bytes of a text.", 1)),
                        optional("max_embedding", whole("How deep texts stand in texts.", 0)),
                    ],
                ),
            ),
        ],
    )
}

fn tools() -> Value {
    let tool = object(
        "A tool of the agent.",
        [
            optional("description", text("What it does.")),
            required("args", reference("schema")),
            optional("result", reference("schema")),
        ],
    );
    object(
        "The agent's tools, as the JSON Schemas that it was given.",
        [required("tools", map("Tools by name.", tool))],
    )
}

/// A JSON Schema inside of `tools.yaml`. Of its keys those are described that are used.
fn tool_schema() -> Value {
    let one = ["string", "number", "integer", "boolean", "array", "object", "null"];
    let ty = json!({"description": "The type, or several.", "anyOf": [
        {"enum": one},
        {"type": "null"},
        {"type": "array", "items": {"anyOf": [{"enum": one}, {"type": "null"}]}},
    ]});
    let mut keys = vec![
        optional("type", ty),
        optional(
            "properties",
            map("The fields of an object; it has no others, unless it says so.", reference("schema")),
        ),
        optional("items", reference("schema")),
        optional("additionalProperties", reference("schema")),
    ];
    let unused = super::tools::UNUSED.into_iter().chain(super::tools::COMBINING);
    keys.extend(unused.map(|key| optional(key, json!({}))));
    json!({"anyOf": [{"type": "boolean"}, object("A JSON Schema.", keys)]})
}
