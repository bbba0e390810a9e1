//! JSON values as the rules see them: exact numbers, object keys in order, cheap to clone.

use std::{fmt, sync::Arc};

use super::Num;

/// A JSON value. Clones share their content. Equality, order and hash are by value; the order is
/// only for determinism and means nothing in the rules language.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// `null`, which is a value: it is neither absent nor unknown.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number of at most 38 significant digits.
    Number(Num),
    /// A number with more digits than can be compared exactly, as written. It is a number by type;
    /// everything else about it is unknown.
    Huge(Arc<str>),
    /// Text.
    String(Arc<str>),
    /// A list.
    List(Arc<[Value]>),
    /// An object.
    Object(Arc<Object>),
}

/// A JSON object: entries sorted by key, each key once.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object(Vec<(Arc<str>, Value)>);

impl Object {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let at = self.0.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok()?;
        self.0.get(at).map(|(_, v)| v)
    }

    /// Entries in key order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Value)> {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if it has no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Arc<str>, Value)> for Object {
    /// The last of several entries with the same key wins, as JSON parsers in the field have it.
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Value)>>(entries: I) -> Object {
        let mut entries: Vec<_> = entries.into_iter().collect();
        // Stable, so that among equal keys the last written stays last.
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut kept: Vec<(Arc<str>, Value)> = Vec::with_capacity(entries.len());
        for entry in entries {
            match kept.last_mut() {
                Some(last) if last.0 == entry.0 => *last = entry,
                _ => kept.push(entry),
            }
        }
        Object(kept)
    }
}

impl Value {
    /// A string value.
    pub fn string(s: &str) -> Value {
        Value::String(Arc::from(s))
    }

    /// A list value.
    pub fn list(items: Vec<Value>) -> Value {
        Value::List(Arc::from(items))
    }

    /// An object value; the last of equal keys wins.
    pub fn object<I: IntoIterator<Item = (Arc<str>, Value)>>(entries: I) -> Value {
        Value::Object(Arc::new(entries.into_iter().collect()))
    }

    /// The JSON type's name.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) | Value::Huge(_) => "number",
            Value::String(_) => "string",
            Value::List(_) => "list",
            Value::Object(_) => "object",
        }
    }

    /// The field of an object, if this is one and has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// The entries, if this is an object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Value::Object(o) => Some(o),
            _ => None,
        }
    }

    /// The items, if this is a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// A rough size in bytes, for memory limits.
    pub fn weight(&self) -> usize {
        match self {
            Value::Null | Value::Bool(_) | Value::Number(_) => 32,
            Value::Huge(text) | Value::String(text) => 40 + text.len(),
            Value::List(items) => 40 + items.iter().map(Value::weight).sum::<usize>(),
            Value::Object(o) => 40 + o.iter().map(|(k, v)| 24 + k.len() + v.weight()).sum::<usize>(),
        }
    }

    /// True if no part of it is a number beyond exact reach, so that it can be compared and used as
    /// a key.
    pub fn is_exact(&self) -> bool {
        match self {
            Value::Huge(_) => false,
            Value::List(items) => items.iter().all(Value::is_exact),
            Value::Object(o) => o.iter().all(|(_, v)| v.is_exact()),
            _ => true,
        }
    }
}

impl fmt::Display for Value {
    /// Compact JSON, keys in order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Number(n) => write!(f, "{n}"),
            Value::Huge(text) => f.write_str(text),
            Value::String(s) => write_json_string(f, s),
            Value::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_str("]")
            }
            Value::Object(o) => {
                f.write_str("{")?;
                for (i, (key, value)) in o.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    write_json_string(f, key)?;
                    write!(f, ":{value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn write_json_string(f: &mut fmt::Formatter<'_>, s: &str) -> fmt::Result {
    // Writing a str as JSON has no failing case but that of the writer, which is a String here.
    f.write_str(&serde_json::to_string(s).map_err(|_| fmt::Error)?)
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
