//! What a pack says of the agent's tools: the shapes of their arguments and results.
//!
//! Only the checker reads this: a path that no tool has is a mistake, and the type of one that it has is
//! known before anything runs. What a trace holds is judged as it is, whatever a schema says of it.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    program::{SourceSpec, ToolSpec, glob},
    types::Ty,
};
use crate::model::EventKind;

/// What is known of a JSON value.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Its type; `Any` if it may have several.
    pub ty: Ty,
    /// The fields of an object.
    pub fields: BTreeMap<Arc<str>, Arc<Shape>>,
    /// Whether an object may have fields that are not listed.
    pub open: bool,
    /// What the elements of a list, or the unlisted fields of an object, are.
    pub items: Option<Arc<Shape>>,
}

/// A field of an object, as far as its shape tells.
#[derive(Clone, Debug, PartialEq)]
pub enum ShapeField {
    /// It is this.
    Known(Arc<Shape>),
    /// It may be there.
    Open,
    /// There is none of that name.
    Missing,
}

impl Shape {
    /// Of a value that may be anything.
    pub fn any() -> Shape {
        Shape { ty: Ty::Any, fields: BTreeMap::new(), open: true, items: None }
    }

    /// The field of a name.
    pub fn field(&self, name: &str) -> ShapeField {
        match (self.fields.get(name), &self.items) {
            (Some(shape), _) => ShapeField::Known(shape.clone()),
            (None, Some(shape)) if self.open && self.ty == Ty::Object => ShapeField::Known(shape.clone()),
            _ if self.open => ShapeField::Open,
            _ => ShapeField::Missing,
        }
    }

    /// What is known of a value that is one or the other.
    fn or(&self, other: &Shape) -> Shape {
        let mut fields = self.fields.clone();
        for (name, shape) in &other.fields {
            let both = match fields.get(name) {
                Some(mine) => Arc::new(mine.or(shape)),
                None => shape.clone(),
            };
            fields.insert(name.clone(), both);
        }
        Shape {
            ty: if self.ty == other.ty { self.ty } else { Ty::Any },
            fields,
            open: self.open || other.open,
            items: match (&self.items, &other.items) {
                (Some(a), Some(b)) => Some(Arc::new(a.or(b))),
                _ => None,
            },
        }
    }
}

/// A tool's arguments and, if they are stated, its results.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSchema {
    /// The arguments, an object.
    pub args: Arc<Shape>,
    /// What its results are as JSON.
    pub result: Option<Arc<Shape>>,
}

/// The tools of an agent, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolSchemas {
    /// Each tool.
    pub tools: BTreeMap<Arc<str>, ToolSchema>,
}

impl ToolSchemas {
    /// The tools of the events of a kind that sources name. None if one of them is not known.
    fn of(&self, sources: &[SourceSpec], kind: EventKind) -> Option<Vec<&ToolSchema>> {
        let mut found = Vec::new();
        for source in sources.iter().filter(|source| source.kinds.contains(&kind)) {
            match &source.tools {
                ToolSpec::Any => found.extend(self.tools.values()),
                ToolSpec::OneOf(names) => {
                    for name in names {
                        found.push(self.tools.get(name)?);
                    }
                }
                ToolSpec::Glob(pattern) => {
                    found.extend(self.tools.iter().filter(|(name, _)| glob(pattern, name)).map(|(_, tool)| tool));
                }
            }
        }
        Some(found)
    }

    /// What the arguments of calls of these sources are.
    pub fn args(&self, sources: &[SourceSpec]) -> Option<Arc<Shape>> {
        join(self.of(sources, EventKind::Call)?.into_iter().map(|tool| Some(&tool.args)))
    }

    /// What the results of these sources are as JSON.
    pub fn json(&self, sources: &[SourceSpec]) -> Option<Arc<Shape>> {
        join(self.of(sources, EventKind::Result)?.into_iter().map(|tool| tool.result.as_ref()))
    }
}

/// What is known of a value that has one of these shapes; nothing if one of them is not known.
fn join<'s>(mut shapes: impl Iterator<Item = Option<&'s Arc<Shape>>>) -> Option<Arc<Shape>> {
    let first = shapes.next()??.clone();
    shapes.try_fold(first, |so_far, shape| {
        let shape = shape?;
        Some(if Arc::ptr_eq(&so_far, shape) { so_far } else { Arc::new(so_far.or(shape)) })
    })
}
