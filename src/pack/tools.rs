//! `tools.yaml`: the agent's tools, as the JSON Schemas that it was given.
//!
//! Of a schema only that is used which says where a value stands and of which type it is. An object has the
//! fields that are listed and no others, unless `additionalProperties` says so: a schema that leaves it out is
//! seldom meant to allow everything. What combines schemas (`anyOf`, `$ref`, ..) stands for anything.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    diag::{Code, Diagnostic, Diagnostics},
    lang::{Shape, ToolSchema, ToolSchemas, types::Ty},
};

use super::{
    fields::{Fields, choice, entries, text, wrong_type},
    node::{Kind, Node},
};

/// How deep schemas may nest.
const MAX_DEPTH: usize = 32;

/// Keys of a schema that say nothing about places and types.
pub(super) const UNUSED: [&str; 27] = [
    "title",
    "description",
    "default",
    "examples",
    "enum",
    "const",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "required",
    "nullable",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$comment",
];

/// Keys that combine schemas.
pub(super) const COMBINING: [&str; 9] =
    ["anyOf", "oneOf", "allOf", "not", "if", "$ref", "$defs", "definitions", "patternProperties"];

/// Reads `tools.yaml`.
pub(super) fn read(root: &Node, diags: &mut Diagnostics) -> ToolSchemas {
    let mut schemas = ToolSchemas::default();
    let Some(mut fields) = Fields::of(root, "tools.yaml", diags) else { return schemas };
    let tools = fields.need("tools", "tools: {NAME: {args: {type: object}}}", diags);
    for entry in tools.and_then(|node| entries(node, "`tools`", diags)).unwrap_or_default() {
        let Some(mut tool) = Fields::of(&entry.value, "a tool", diags) else { continue };
        tool.get("description").map(|node| text(node, "`description`", diags));
        let args = tool.need("args", "args: {type: object, properties: {}}", diags);
        let args = args.and_then(|node| schema(node, 0, diags)).unwrap_or_else(Shape::any);
        let result = tool.get("result").and_then(|node| schema(node, 0, diags)).map(Arc::new);
        tool.finish(diags);
        if !args.ty.fits(Ty::Object) {
            let message = format!("the arguments of `{}` must be an object", entry.key);
            diags.push(Diagnostic::error(Code::WrongValue, entry.value.span, message).help("write `type: object`"));
        }
        schemas.tools.insert(Arc::from(entry.key.as_str()), ToolSchema { args: Arc::new(args), result });
    }
    fields.finish(diags);
    schemas
}

fn schema(node: &Node, depth: usize, diags: &mut Diagnostics) -> Option<Shape> {
    // `true` is the schema of everything.
    if matches!(&node.kind, Kind::Bool(_)) || depth > MAX_DEPTH {
        return Some(Shape::any());
    }
    let mut fields = Fields::of(node, "a schema", diags)?;
    let stated = fields.get("type").and_then(|node| types(node, diags));
    let properties = fields.get("properties");
    let listed = properties.and_then(|node| entries(node, "`properties`", diags)).unwrap_or_default();
    let mut shapes = BTreeMap::new();
    for entry in listed {
        let shape = schema(&entry.value, depth + 1, diags).unwrap_or_else(Shape::any);
        shapes.insert(Arc::from(entry.key.as_str()), Arc::new(shape));
    }
    let mut items = None;
    if let Some(node) = fields.get("items") {
        items = schema(node, depth + 1, diags).map(Arc::new);
    }
    // An object that lists nothing says nothing about its fields.
    let mut open = properties.is_none();
    if let Some(node) = fields.get("additionalProperties") {
        match &node.kind {
            Kind::Bool(allowed) => open = *allowed,
            _ => {
                open = true;
                items = schema(node, depth + 1, diags).map(Arc::new);
            }
        }
    }
    for key in UNUSED {
        fields.get(key);
    }
    let combined = COMBINING.map(|key| fields.get(key).is_some()).contains(&true);
    fields.finish(diags);
    if combined {
        return Some(Shape::any());
    }
    let ty = stated.unwrap_or(if properties.is_some() { Ty::Object } else { Ty::Any });
    Some(Shape { ty, fields: shapes, open, items })
}

/// The type that a schema states; `Any` for several.
fn types(node: &Node, diags: &mut Diagnostics) -> Option<Ty> {
    const WORDS: [(Ty, &str); 7] = [
        (Ty::String, "string"),
        (Ty::Number, "number"),
        (Ty::Number, "integer"),
        (Ty::Bool, "boolean"),
        (Ty::List, "array"),
        (Ty::Object, "object"),
        (Ty::Null, "null"),
    ];
    match &node.kind {
        Kind::Text(_) => choice(node, "`type`", &WORDS, diags),
        // The word `null` without quotes is no text in YAML.
        Kind::Null => Some(Ty::Null),
        Kind::List(items) => {
            let named = items.iter().filter_map(|item| types(item, diags)).collect::<Vec<_>>();
            match named.as_slice() {
                [only] => Some(*only),
                _ => Some(Ty::Any),
            }
        }
        _ => {
            wrong_type(node, "`type`", "a word or a list of words", None, diags);
            None
        }
    }
}
