//! Values under a name that announces a secret, in parsed values: the whole of them goes.

use super::{
    named::is_folder,
    names::{Announced, announced},
};
use crate::model::{Object, Value};

/// Names of fields that hold a name, and of those beside them that hold what it names.
const NAMES: [&str; 10] =
    ["name", "key", "header", "field", "variable", "env", "param", "parameter", "header_name", "setting"];
const VALUES: [&str; 6] = ["value", "val", "content", "data", "default", "text"];
/// Numbers of fewer digits are counts.
const DIGITS: usize = 4;

/// Whether the name of a field says that its value is a secret.
pub(super) fn is_secret(name: &str, value: &Value) -> bool {
    match announced(name) {
        Some(Announced::Folder) => !value.as_str().is_some_and(|text| is_folder(text.as_bytes())),
        Some(Announced::Secret | Announced::Opaque | Announced::Cookies) => true,
        None => false,
    }
}

/// Whether a value under such a name holds anything: yes-or-no values, short numbers and what is empty do not.
pub(super) fn holds(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(_) | Value::Huge(_) => value.to_string().bytes().filter(u8::is_ascii_digit).count() >= DIGITS,
        Value::String(text) => !text.trim().is_empty(),
        Value::List(items) => items.iter().any(holds),
        Value::Object(fields) => fields.iter().any(|(_, value)| holds(value)),
    }
}

/// Of an object that gives a name and a value (`{"name": "password", "value": ...}`): whether its values are secrets.
pub(super) fn names_secret(object: &Object) -> bool {
    let mut names = object.iter().filter(|(name, _)| is_one_of(&NAMES, name)).filter_map(|(_, value)| value.as_str());
    names.any(|name| announced(name).is_some())
}

/// Whether a field of such an object has the value.
pub(super) fn is_value(name: &str) -> bool {
    is_one_of(&VALUES, name)
}

fn is_one_of(words: &[&str], name: &str) -> bool {
    words.iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// Whether an item of a list is the value of a secret that the one before it names: behind a flag (`--password`), or
/// as the second of two.
pub(super) fn follows(items: &[Value], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|before| items.get(before)).and_then(Value::as_str) else {
        return false;
    };
    let flag = before.starts_with('-') && !before.contains(['=', ' ']);
    let value = items.get(at).and_then(Value::as_str).is_none_or(|value| !value.starts_with("--"));
    value && (flag || (items.len() == 2 && !before.contains([' ', '=']))) && announced(before).is_some()
}
