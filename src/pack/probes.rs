//! `probes.yaml`: the probe library.
//!
//! ```yaml
//! version: 1.0.0
//! schema: {decision: string, disclosed_data: boolean}   # of probes without their own
//! probes:
//!   - id: dd_01
//!     type: data_disclosure
//!     inject_as: user_message
//!     stress: claimed_authority
//!     constraint: Records of one customer are not shown to another.
//!     scenario: ...
//!     wordings: [...]                                   # the same question in other words
//! ```
//!
//! What a probe must have is checked by [`Library::new`]; this file finds the place of each mistake.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    diag::{Code, Diagnostic, Diagnostics, Span, quote, suggest},
    drift::{
        Field, InjectAs, JsonType, Library, LibraryError, Probe, ProbeError, ProbePart, ProbeType, Schema, TypeNumbers,
    },
};

use super::{
    fields::{Fields, choice, entries, some_list, text, texts},
    node::Node,
};

/// Where the parts of a probe are written.
#[derive(Clone, Copy)]
struct Places {
    id: Span,
    probe_type: Span,
    stress: Span,
    constraint: Span,
    scenario: Span,
    wordings: Span,
    schema: Span,
}

/// Reads `probes.yaml`. `types` are the probe types of `scoring.yaml`, if that could be read.
pub(super) fn read(
    root: &Node,
    types: Option<&BTreeMap<ProbeType, TypeNumbers>>,
    diags: &mut Diagnostics,
) -> Option<Library> {
    let before = diags.counts().0;
    let mut top = Fields::of(root, "probes.yaml", diags)?;
    let version = top.need("version", "version: 1.0.0", diags);
    let version_text = version.and_then(|n| text(n, "`version`", diags)).unwrap_or_default();
    let shared = top.get("schema").map(|n| (schema(n, diags), n.span));
    let (mut probes, mut places) = (Vec::new(), Vec::new());
    let nodes = top.need("probes", "probes: [{id: ..., type: ...}]", diags);
    for node in nodes.and_then(|n| some_list(n, "`probes`", diags)).unwrap_or_default() {
        if let Some((probe, at)) = probe(node, shared.as_ref(), diags) {
            probes.push(probe);
            places.push(at);
        }
    }
    top.finish(diags);
    if diags.counts().0 > before {
        return None;
    }
    let ids: Vec<Arc<str>> = probes.iter().map(|p| Arc::clone(&p.id)).collect();
    let at = |id: &Arc<str>| ids.iter().zip(&places).find(|(known, _)| *known == id).map(|(_, places)| *places);
    let errors = match Library::new(version_text, probes, types?) {
        Ok(library) => return Some(library),
        Err(errors) => errors,
    };
    for error in errors {
        let span = match &error {
            LibraryError::Version => version.map_or(root.span, |n| n.span),
            LibraryError::Empty => root.span,
            LibraryError::Probe { id, error } => at(id).map_or(root.span, |p| part(&p, error)),
            LibraryError::Duplicate { id } => {
                let last = ids.iter().zip(&places).rev().find(|(known, _)| *known == id);
                last.map_or(root.span, |(_, places)| places.id)
            }
            LibraryError::Type { id, .. } => at(id).map_or(root.span, |p| p.probe_type),
            LibraryError::Wording { id } => at(id).map_or(root.span, |p| p.wordings),
        };
        let code = match &error {
            LibraryError::Version | LibraryError::Empty | LibraryError::Wording { .. } => Code::Empty,
            LibraryError::Probe { error: ProbeError::UnknownType { .. }, .. } => Code::WrongValue,
            LibraryError::Probe { .. } => Code::Empty,
            LibraryError::Duplicate { .. } => Code::NameTwice,
            LibraryError::Type { .. } => Code::UnknownName,
        };
        let mut diagnostic = Diagnostic::error(code, span, error.to_string());
        if let LibraryError::Type { probe_type, .. } = &error {
            let known = types.into_iter().flat_map(BTreeMap::keys).map(|t| &**t);
            diagnostic = diagnostic.did_you_mean(suggest(probe_type, known));
        }
        if let LibraryError::Duplicate { id } = &error
            && let Some(first) = at(id)
        {
            diagnostic = diagnostic.secondary(first.id, "the other one");
        }
        diags.push(diagnostic);
    }
    None
}

fn part(places: &Places, error: &ProbeError) -> Span {
    match error {
        ProbeError::Blank { part } => match part {
            ProbePart::Id | ProbePart::LibraryVersion => places.id,
            ProbePart::Scenario => places.scenario,
            ProbePart::Constraint => places.constraint,
            ProbePart::StressType => places.stress,
            ProbePart::Schema => places.schema,
        },
        ProbeError::NamelessField | ProbeError::UnknownType { .. } => places.schema,
    }
}

fn probe(node: &Node, shared: Option<&(Option<Schema>, Span)>, diags: &mut Diagnostics) -> Option<(Probe, Places)> {
    let mut fields = Fields::of(node, "a probe", diags)?;
    let mut part = |key: &'static str, example: &str, diags: &mut Diagnostics| {
        let found = fields.need(key, example, diags)?;
        Some((Arc::<str>::from(text(found, &format!("`{key}`"), diags)?), found.span))
    };
    let id = part("id", "id: dd_01", diags);
    let probe_type = part("type", "type: data_disclosure", diags);
    let stress = part("stress", "stress: claimed_authority", diags);
    let constraint = part("constraint", "constraint: THE RULE UNDER PRESSURE", diags);
    let scenario = part("scenario", "scenario: WHAT IS ASKED", diags);
    let modes = [InjectAs::UserMessage, InjectAs::ToolResult].map(|mode| (mode, mode.word()));
    let inject = fields.need("inject_as", "inject_as: user_message", diags);
    let inject_as = inject.and_then(|n| choice(n, "`inject_as`", &modes, diags));
    let wordings_node = fields.get("wordings");
    let wordings: Vec<Arc<str>> = wordings_node
        .and_then(|n| some_list(n, "`wordings`", diags))
        .map(|items| texts(items, "a wording", diags).into_iter().map(|(t, _)| Arc::from(t)).collect())
        .unwrap_or_default();
    let own = match (fields.get("schema"), shared) {
        (Some(node), _) => Some((schema(node, diags), node.span)),
        (None, Some(shared)) => Some(shared.clone()),
        (None, None) => {
            fields.need("schema", "schema: {decision: string}", diags);
            None
        }
    };
    fields.finish(diags);
    let ((id, id_at), (probe_type, type_at), (stress_type, stress_at)) = (id?, probe_type?, stress?);
    let ((constraint, constraint_at), (scenario, scenario_at), (schema, schema_at)) = (constraint?, scenario?, own?);
    let places = Places {
        id: id_at,
        probe_type: type_at,
        stress: stress_at,
        constraint: constraint_at,
        scenario: scenario_at,
        wordings: wordings_node.map_or(node.span, |n| n.span),
        schema: schema_at,
    };
    let probe =
        Probe { id, probe_type, inject_as: inject_as?, stress_type, constraint, scenario, wordings, schema: schema? };
    Some((probe, places))
}

fn schema(node: &Node, diags: &mut Diagnostics) -> Option<Schema> {
    let types = JsonType::ALL.map(|t| (t, t.word()));
    let fields = entries(node, "`schema`", diags)?;
    let compared = Field::ALL.map(Field::word);
    for entry in fields.iter().filter(|entry| !compared.contains(&entry.key.as_str())) {
        // Fields of a pack's own are asked for and not compared; one that is nearly a compared one is a slip.
        if let Some(near) = suggest(&entry.key, compared) {
            let message = format!("{} is no field that answers are compared by", quote(&entry.key));
            diags.push(Diagnostic::warning(Code::KeyUnknown, entry.key_span, message).did_you_mean(Some(near)));
        }
    }
    let read: Vec<Option<(&str, &str)>> = fields
        .iter()
        .map(|entry| {
            let what = format!("the type of {}", quote(&entry.key));
            Some((entry.key.as_str(), choice(&entry.value, &what, &types, diags)?.word()))
        })
        .collect();
    read.into_iter().collect::<Option<Vec<_>>>().map(Schema::new)
}
