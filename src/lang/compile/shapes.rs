//! What the schemas of tools say of a policy's tools, paths and types.

use std::sync::Arc;

use super::{Compiler, Decl, Env, Typed};
use crate::{
    diag::{Code, Diagnostic, Span, suggest},
    lang::{
        ast::{Name, Source, Tools},
        program::{EventField, Node, NodeKind, Scope, SourceSpec, glob},
        schema::{Shape, ShapeField},
        types::Ty,
    },
    model::EventKind,
};

/// A path that no tool has; said already.
pub(super) struct NoSuchField;

impl Env {
    /// Around a policy's parts: the judged event and nothing else.
    pub(super) fn judging(this: Vec<EventKind>, this_sources: Arc<[SourceSpec]>) -> Env {
        let it_sources = Arc::from([]);
        Env { names: Vec::new(), this, this_sources, it: None, it_sources, reads: super::Reads::All }
    }
}

impl Typed {
    /// With what a schema says of it.
    pub(super) fn of_shape(self, shape: Option<Arc<Shape>>) -> Typed {
        match shape {
            Some(shape) if self.ty == Ty::Any && shape.ty != Ty::Any => {
                Typed { ty: shape.ty, by_schema: true, shape: Some(shape), ..self }
            }
            shape => Typed { shape, ..self },
        }
    }
}

impl Compiler<'_> {
    /// What is known of a field of events of these sources.
    pub(super) fn event_shape(&self, field: EventField, sources: &[SourceSpec]) -> Option<Arc<Shape>> {
        let tools = self.around.tools.as_ref()?;
        match field {
            EventField::Args => tools.args(sources),
            EventField::Json => tools.json(sources),
            _ => None,
        }
    }

    /// The sources of the event that an expression gives, where they are known.
    pub(super) fn sources_of(&self, node: &Node, env: &Env) -> Option<Arc<[SourceSpec]>> {
        match &node.kind {
            NodeKind::Event(Scope::This) => Some(env.this_sources.clone()),
            NodeKind::Event(Scope::It) => Some(env.it_sources.clone()),
            NodeKind::History(ask) => self.cells.get(ask.cell).map(|cell| Arc::from(cell.sources.as_slice())),
            NodeKind::Let(i) => self.lets.get(*i).and_then(|node| self.sources_of(node, env)),
            // The call that a result answers is one of the same tool.
            NodeKind::Field { base, event: Some(EventField::Call), .. } => {
                let results = self.sources_of(base, env)?;
                let results = results.iter().filter(|source| source.kinds.contains(&EventKind::Result));
                let calls = results.map(|s| SourceSpec { kinds: vec![EventKind::Call], tools: s.tools.clone() });
                Some(calls.collect())
            }
            _ => None,
        }
    }

    /// What is known of a field of an object; an error if it has none of that name.
    pub(super) fn shape_field(&mut self, base: &Typed, name: &Name) -> Result<Option<Arc<Shape>>, NoSuchField> {
        let Some(shape) = &base.shape else { return Ok(None) };
        if shape.ty == Ty::List {
            return Ok(None);
        }
        match shape.field(&name.text) {
            ShapeField::Known(shape) => Ok(Some(shape)),
            ShapeField::Open => Ok(None),
            ShapeField::Missing => {
                let near = suggest(&name.text, shape.fields.keys().map(AsRef::as_ref));
                let message = format!("tools.yaml knows no `{}` here", name.text);
                let problem = Diagnostic::error(Code::PathUnknown, name.span, message);
                let known: Vec<String> = shape.fields.keys().take(8).map(|name| format!("`{name}`")).collect();
                self.problems.push(match near {
                    Some(near) => problem.did_you_mean(Some(near)),
                    None if known.is_empty() => problem.help("it has no fields"),
                    None => problem.help(format!("it has {}", known.join(", "))),
                });
                Err(NoSuchField)
            }
        }
    }

    /// Refuses tools that the agent does not have.
    pub(super) fn known_tools(&mut self, source: &Source) {
        let Some(tools) = self.around.tools.clone() else { return };
        let known = |name: &str| tools.tools.contains_key(name);
        let fits = |pattern: &str| tools.tools.keys().any(|name| glob(pattern, name));
        let mut unknown: Vec<(Arc<str>, Span, Option<Span>)> = Vec::new();
        match &source.tools {
            Tools::Any => {}
            Tools::Named(name) if !known(&name.text) => unknown.push((name.text.clone(), name.span, None)),
            Tools::Glob(name) if !fits(&name.text) => unknown.push((name.text.clone(), name.span, None)),
            Tools::Named(_) | Tools::Glob(_) => {}
            Tools::OneOf(listed) => {
                let wrong = listed.iter().filter(|tool| {
                    let name = tool.name.text.as_ref();
                    !(if tool.is_glob { fits(name) } else { known(name) })
                });
                unknown.extend(wrong.map(|tool| (tool.name.text.clone(), tool.name.span, None)));
            }
            Tools::Set(set) => {
                if let Some((Decl::Set(_, members), declared)) = self.decls.get(&set.text) {
                    let wrong = members.iter().filter(|name| !known(name));
                    unknown.extend(wrong.map(|name| (name.clone(), *declared, Some(set.span))));
                }
            }
        }
        for (name, at, used) in unknown {
            if !self.unknown_tools.insert((name.clone(), at)) {
                continue;
            }
            let problem = Diagnostic::error(Code::ToolUnknown, at, format!("tools.yaml has no tool `{name}`"));
            let problem = match used {
                Some(used) => problem.secondary(used, "used as a set of tools here"),
                None => problem,
            };
            let near = self.near(&name, tools.tools.keys().map(AsRef::as_ref));
            self.problems.push(problem.did_you_mean(near.as_deref()));
        }
    }
}
