//! `pack.yaml`: what a pack is.

use jiff::civil::Date;
use semver::Version;

use crate::{
    diag::{Code, Diagnostic, Diagnostics, FileId, Span, quote},
    model::{AuditorSees, EpisodeRules, Gate, Limit, Limits, Num, PackQuery, rfc3339},
};

use super::{
    fields::{Fields, choice, count_up_to, index, list, name, some_list, some_text, text, texts},
    node::{Kind, Node},
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

/// A pack that this one builds on.
#[derive(Clone, Debug)]
pub(super) struct Extends {
    /// Which one.
    pub(super) query: PackQuery,
    /// Where it is asked for.
    pub(super) at: Span,
    /// What this pack declares in place of the base.
    pub(super) overrides: Vec<Spanned<String>>,
    /// The policies of the base that are left out.
    pub(super) without: Vec<Spanned<String>>,
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
    // What it extends is read, and added, before the rest: see `extends`.
    fields.get("extends");
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

/// The packs that `pack.yaml` builds on; `None` if an entry cannot be read.
///
/// ```yaml
/// extends:
///   - starter@^1
///   - pack: money
///     override: [LIMIT]
///     without: [RETRY_STORM]
/// ```
pub(super) fn extends(root: &Node, diags: &mut Diagnostics) -> Option<Vec<Extends>> {
    let Some(node) = root.get("extends") else { return Some(Vec::new()) };
    let before = diags.counts().0;
    let mut all: Vec<Extends> = Vec::new();
    for item in list(node, "`extends`", diags)? {
        let Some(one) = one_base(item, diags) else { continue };
        match all.iter().find(|other| other.query.name() == one.query.name()) {
            Some(first) => diags.push(
                Diagnostic::error(Code::NameTwice, one.at, format!("{} is extended twice", quote(one.query.name())))
                    .secondary(first.at, "the first time"),
            ),
            None => all.push(one),
        }
    }
    (diags.counts().0 == before).then_some(all)
}

fn one_base(item: &Node, diags: &mut Diagnostics) -> Option<Extends> {
    if !matches!(item.kind, Kind::Map(_)) {
        return Some(Extends { query: query(item, diags)?, at: item.span, overrides: Vec::new(), without: Vec::new() });
    }
    let mut fields = Fields::of(item, "an entry of `extends`", diags)?;
    let pack = fields.need("pack", "pack: NAME", diags);
    let mut names = |key| {
        let items = fields.get(key).and_then(|node| some_list(node, &format!("`{key}`"), diags)).unwrap_or_default();
        let read = texts(items, "a name", diags).into_iter();
        let mut seen: Vec<Spanned<String>> = Vec::new();
        for (value, span) in read {
            name_once(&value, span, &seen, diags);
            seen.push(Spanned { value, span });
        }
        seen
    };
    let (overrides, without) = (names("override"), names("without"));
    fields.finish(diags);
    for Spanned { value, span } in &without {
        name_once(value, *span, &overrides, diags);
    }
    let pack = pack?;
    Some(Extends { query: query(pack, diags)?, at: pack.span, overrides, without })
}

/// Reports a name that stands among others already.
fn name_once(name: &str, at: Span, others: &[Spanned<String>], diags: &mut Diagnostics) {
    if let Some(first) = others.iter().find(|other| other.value == name) {
        diags.push(
            Diagnostic::error(Code::NameTwice, at, format!("{} is listed twice", quote(name)))
                .secondary(first.span, "the first time")
                .help("a name is overridden or left out, and once"),
        );
    }
}

fn query(node: &Node, diags: &mut Diagnostics) -> Option<PackQuery> {
    let written = some_text(node, "a pack to extend", diags)?;
    match PackQuery::parse(written) {
        Ok(query) => Some(query),
        Err(error) => {
            diags.push(
                Diagnostic::error(Code::WrongValue, node.span, format!("{} asks for no pack", quote(written)))
                    .label(error.to_string())
                    .help("write `NAME`, `NAME@1.2.0` or a range of versions: `NAME@^1`"),
            );
            None
        }
    }
}

/// A name to go on with where the manifest has none that can be used: the folder's.
pub(super) fn stand_in_name(folder: &str, file: FileId) -> Spanned<String> {
    Spanned { value: folder.to_owned(), span: Span::start_of(file) }
}
