//! `pack.yaml`: what a pack is.

use jiff::civil::Date;
use semver::Version;

use crate::{
    diag::{Code, Diagnostic, Diagnostics, FileId, Span, quote},
    model::{AuditorSees, EpisodeRules, Gate, Limit, Limits, Num, rfc3339},
};

use super::{
    fields::{Fields, choice, count_up_to, index, list, name, some_text, text},
    node::Node,
    spec::{Calibration, ErrorRule, PackSpec, Spanned},
};

/// What `pack.yaml` says; fields that could not be read are `None` or at their defaults.
pub(super) struct Manifest {
    pub(super) name: Option<Spanned<String>>,
    pub(super) version: Option<Spanned<Version>>,
    pub(super) description: String,
    pub(super) clock: Option<Num>,
    pub(super) errors: ErrorRule,
    pub(super) on_undecided: Gate,
    pub(super) calibration: Calibration,
    pub(super) limits: Limits,
    pub(super) episode: EpisodeRules,
}

impl Default for Manifest {
    fn default() -> Manifest {
        Manifest {
            name: None,
            version: None,
            description: String::new(),
            clock: None,
            errors: ErrorRule::default(),
            on_undecided: Gate::Review,
            calibration: Calibration::default(),
            limits: Limits::default(),
            episode: EpisodeRules::default(),
        }
    }
}

/// Reads `pack.yaml`.
pub(super) fn read(root: &Node, diags: &mut Diagnostics) -> Manifest {
    let mut manifest = Manifest::default();
    let Some(mut fields) = Fields::of(root, "pack.yaml", diags) else { return manifest };
    if let Some(node) = fields.need("name", "name: my_pack", diags) {
        manifest.name = text(node, "`name`", diags)
            .and_then(|t| name(t, node.span, "the name of a pack", true, diags))
            .map(|t| Spanned { value: t.to_owned(), span: node.span });
    }
    if let Some(node) = fields.need("version", "version: 0.1.0", diags) {
        manifest.version = version(node, diags).map(|value| Spanned { value, span: node.span });
    }
    if let Some(node) = fields.need("format", &format!("format: {}", PackSpec::FORMAT), diags) {
        format_number(node, diags);
    }
    if let Some(node) = fields.get("description") {
        manifest.description = text(node, "`description`", diags).unwrap_or_default().trim().to_owned();
    }
    if let Some(node) = fields.get("clock") {
        manifest.clock = clock(node, diags);
    }
    if let Some(node) = fields.get("errors") {
        manifest.errors = errors(node, diags);
    }
    if let Some(node) = fields.get("on_undecided") {
        let words = [(Gate::Allow, "allow"), (Gate::Review, "review"), (Gate::Deny, "deny")];
        manifest.on_undecided = choice(node, "`on_undecided`", &words, diags).unwrap_or(manifest.on_undecided);
    }
    if let Some(node) = fields.get("calibration") {
        manifest.calibration = calibration(node, diags);
    }
    if let Some(node) = fields.get("limits") {
        manifest.limits = limits(node, diags);
    }
    if let Some(node) = fields.get("episode") {
        manifest.episode = episode(node, diags);
    }
    if let Some(node) = fields.get("extends") {
        extends(node, diags);
    }
    fields.finish(diags);
    manifest
}

fn version(node: &Node, diags: &mut Diagnostics) -> Option<Version> {
    let written = text(node, "`version`", diags)?;
    match Version::parse(written) {
        Ok(version) => Some(version),
        Err(error) => {
            diags.push(
                Diagnostic::error(Code::WrongValue, node.span, format!("{} is no version", quote(written)))
                    .label(error.to_string())
                    .help("three numbers, as semver has it: `version: 1.0.0`"),
            );
            None
        }
    }
}

fn format_number(node: &Node, diags: &mut Diagnostics) {
    let Some(format) = index(node, "`format`", diags) else { return };
    if format != PackSpec::FORMAT {
        let known = PackSpec::FORMAT;
        diags.push(
            Diagnostic::error(
                Code::NotSupported,
                node.span,
                format!("format {format} of the rules language is not known"),
            )
            .help(format!("this version of Probity reads `format: {known}`")),
        );
    }
}

fn clock(node: &Node, diags: &mut Diagnostics) -> Option<Num> {
    let mut fields = Fields::of(node, "`clock`", diags)?;
    let fixed = fields.need("fixed", "fixed: \"2024-05-15T15:00:00Z\"", diags).and_then(|node| {
        let written = text(node, "`fixed`", diags)?;
        // Without an offset it is UTC.
        let seconds = rfc3339(written).or_else(|| rfc3339(&format!("{written}Z")));
        if seconds.is_none() {
            diags.push(
                Diagnostic::error(Code::WrongValue, node.span, format!("{} is no time", quote(written)))
                    .help("as RFC 3339 has it, UTC if no offset is given: `2024-05-15T15:00:00`"),
            );
        }
        seconds
    });
    fields.finish(diags);
    fixed
}

fn errors(node: &Node, diags: &mut Diagnostics) -> ErrorRule {
    let Some(mut fields) = Fields::of(node, "`errors`", diags) else { return ErrorRule::default() };
    let prefix = fields
        .need("prefix", "prefix: \"Error\"", diags)
        .and_then(|node| some_text(node, "`prefix`", diags))
        .map(str::to_owned);
    fields.finish(diags);
    ErrorRule { prefix }
}

fn calibration(node: &Node, diags: &mut Diagnostics) -> Calibration {
    let Some(mut fields) = Fields::of(node, "`calibration`", diags) else { return Calibration::default() };
    let words = [(true, "CALIBRATED"), (false, "UNCALIBRATED")];
    let status = fields.need("status", "status: UNCALIBRATED", diags);
    let calibrated = status.and_then(|node| choice(node, "`status`", &words, diags)).unwrap_or(false);
    let (dataset, date) = if calibrated {
        (fields.need("dataset", "dataset: NAME", diags), fields.need("date", "date: \"2026-01-31\"", diags))
    } else {
        (fields.get("dataset"), fields.get("date"))
    };
    let dataset = dataset.and_then(|node| some_text(node, "`dataset`", diags));
    let date = date.and_then(|node| {
        let written = text(node, "`date`", diags)?;
        let valid = written.len() == 10 && written.parse::<Date>().is_ok();
        if !valid {
            diags.push(
                Diagnostic::error(Code::WrongValue, node.span, format!("{} is no date", quote(written)))
                    .help("write it as `2026-01-31`"),
            );
        }
        valid.then_some(written)
    });
    fields.finish(diags);
    match (calibrated, dataset, date) {
        (true, Some(dataset), Some(date)) => {
            Calibration::Calibrated { dataset: dataset.to_owned(), date: date.to_owned() }
        }
        _ => Calibration::Uncalibrated,
    }
}

/// What one session may cost.
///
/// ```yaml
/// limits: {event_steps: 100000, turn_steps: 1000000, state_bytes: 4194304, tokens: 50000, look_back: 1000}
/// ```
fn limits(node: &Node, diags: &mut Diagnostics) -> Limits {
    let mut limits = Limits::default();
    let Some(mut fields) = Fields::of(node, "`limits`", diags) else { return limits };
    for limit in Limit::ALL {
        let written = fields.get(limit.key());
        let read = written.and_then(|node| count_up_to(node, &format!("`{}`", limit.key()), limit.most(), diags));
        if let Some(figure) = read {
            limits.set(limit, figure);
        }
    }
    fields.finish(diags);
    limits
}

/// How an episode with an auditor and a target runs.
///
/// ```yaml
/// episode: {auditor_sees: total, messages: 50, items: 1000, seconds: 600}
/// ```
fn episode(node: &Node, diags: &mut Diagnostics) -> EpisodeRules {
    let mut rules = EpisodeRules::default();
    let Some(mut fields) = Fields::of(node, "`episode`", diags) else { return rules };
    if let Some(node) = fields.get("auditor_sees") {
        let words = AuditorSees::ALL.map(|sees| (sees, sees.word()));
        rules.auditor_sees = choice(node, "`auditor_sees`", &words, diags).unwrap_or_default();
    }
    let most = EpisodeRules::MOST;
    for (key, figure, most) in [
        ("messages", &mut rules.messages, most.messages),
        ("items", &mut rules.items, most.items),
        ("seconds", &mut rules.seconds, most.seconds),
    ] {
        let read = fields.get(key).and_then(|node| count_up_to(node, &format!("`{key}`"), most, diags));
        *figure = read.unwrap_or(*figure);
    }
    fields.finish(diags);
    rules
}

fn extends(node: &Node, diags: &mut Diagnostics) {
    let Some(packs) = list(node, "`extends`", diags) else { return };
    if !packs.is_empty() {
        diags.push(
            Diagnostic::error(Code::NotSupported, node.span, "packs that extend other packs are not yet supported")
                .help("copy what is needed into this pack, and leave `extends` out"),
        );
    }
}

/// A name to go on with where the manifest has none that can be used: the folder's.
pub(super) fn stand_in_name(folder: &str, file: FileId) -> Spanned<String> {
    Spanned { value: folder.to_owned(), span: Span::start_of(file) }
}
