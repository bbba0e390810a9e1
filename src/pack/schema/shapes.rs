//! What schemas are put together from. Each has a description: an editor shows it.

use serde_json::{Map, Value, json};

/// A key of a mapping, its schema, and whether it must be there.
pub(super) type Key = (&'static str, Value, bool);

pub(super) fn required(key: &'static str, schema: Value) -> Key {
    (key, schema, true)
}

pub(super) fn optional(key: &'static str, schema: Value) -> Key {
    (key, schema, false)
}

/// A mapping of these keys and no others.
pub(super) fn object(about: &str, keys: impl IntoIterator<Item = Key>) -> Value {
    let (mut properties, mut needed) = (Map::new(), Vec::new());
    for (key, schema, must) in keys {
        properties.insert(key.to_owned(), schema);
        if must {
            needed.push(key);
        }
    }
    let mut object =
        json!({"description": about, "type": "object", "properties": properties, "additionalProperties": false});
    if let (Some(object), false) = (object.as_object_mut(), needed.is_empty()) {
        object.insert("required".to_owned(), json!(needed));
    }
    object
}

/// A mapping whose keys are the author's own.
pub(super) fn map(about: &str, values: Value) -> Value {
    json!({"description": about, "type": "object", "additionalProperties": values})
}

pub(super) fn list(about: &str, items: Value) -> Value {
    json!({"description": about, "type": "array", "items": items})
}

/// A list that must not be empty.
pub(super) fn some(about: &str, items: Value) -> Value {
    json!({"description": about, "type": "array", "items": items, "minItems": 1})
}

pub(super) fn text(about: &str) -> Value {
    json!({"description": about, "type": "string"})
}

/// Text that is more than white space.
pub(super) fn some_text(about: &str) -> Value {
    pattern(about, r"\S")
}

pub(super) fn pattern(about: &str, pattern: &str) -> Value {
    json!({"description": about, "type": "string", "pattern": pattern})
}

/// A name: a letter, then letters, digits and `_`, and `-` if `dashes`.
pub(super) fn name(about: &str, dashes: bool) -> Value {
    let more = if dashes { "-" } else { "" };
    pattern(about, &format!("^[A-Za-z_][A-Za-z0-9_{more}]{{0,63}}$"))
}

pub(super) fn words<const N: usize>(about: &str, words: [&'static str; N]) -> Value {
    json!({"description": about, "enum": words.as_slice()})
}

pub(super) fn flag(about: &str) -> Value {
    json!({"description": about, "type": "boolean"})
}

pub(super) fn number(about: &str, least: f64, most: Option<f64>) -> Value {
    let mut schema = json!({"description": about, "type": "number", "minimum": least});
    if let (Some(schema), Some(most)) = (schema.as_object_mut(), most) {
        schema.insert("maximum".to_owned(), json!(most));
    }
    schema
}

/// Any number.
pub(super) fn any_number(about: &str) -> Value {
    json!({"description": about, "type": "number"})
}

pub(super) fn whole(about: &str, least: u64) -> Value {
    json!({"description": about, "type": "integer", "minimum": least})
}

/// A whole number of either sign.
pub(super) fn signed(about: &str) -> Value {
    json!({"description": about, "type": "integer"})
}

/// From 1 to `most`.
pub(super) fn count(about: &str, most: usize) -> Value {
    json!({"description": about, "type": "integer", "minimum": 1, "maximum": most})
}

/// Anything at all.
pub(super) fn anything(about: &str) -> Value {
    json!({"description": about})
}

pub(super) fn or_null(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

pub(super) fn any_of(about: &str, schemas: impl IntoIterator<Item = Value>) -> Value {
    json!({"description": about, "anyOf": schemas.into_iter().collect::<Vec<_>>()})
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/definitions/{name}")})
}
