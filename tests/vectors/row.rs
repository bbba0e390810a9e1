//! A row, and how an answer of ours is compared with it.

use std::{path::Path, sync::Arc};

use probity::model::{Value, json};
use serde_json::Value as Json;

pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) input: Json,
    pub(crate) expected: Json,
    pub(crate) ideal: Option<Json>,
    pub(crate) tags: Vec<String>,
}

impl Row {
    pub(crate) fn read_all(path: &Path) -> Vec<Row> {
        let bytes = std::fs::read(path).unwrap();
        let bytes = json::replace_lone_surrogates(&bytes);
        let text = std::str::from_utf8(&bytes).unwrap();
        text.lines().filter(|l| !l.trim().is_empty()).map(Row::read).collect()
    }

    fn read(line: &str) -> Row {
        let mut row: Json = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let words = |row: &Json, key: &str| {
            row[key].as_array().into_iter().flatten().filter_map(|w| w.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        Row {
            id: row["id"].as_str().unwrap().to_owned(),
            tags: words(&row, "tags").into_iter().chain(words(&row, "flags")).collect(),
            input: row["input"].take(),
            expected: row["expected"].take(),
            ideal: Some(row["ideal"].take()).filter(|i| !i.is_null()),
        }
    }

    pub(crate) fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|t| t == tag)
    }

    /// `expected` with the keys of `ideal` over it.
    pub(crate) fn wanted(&self) -> Json {
        let mut wanted = self.expected.clone();
        if let Some(Json::Object(ideal)) = &self.ideal {
            for (key, value) in ideal {
                wanted[key] = value.clone();
            }
        }
        wanted
    }
}

/// A number of a row, however it is written.
pub(crate) fn number(value: &Json) -> Option<f64> {
    match value {
        Json::Number(n) => n.as_f64(),
        Json::Object(o) => o.get("$float").or_else(|| o.get("$bigint"))?.as_str()?.parse().ok(),
        _ => None,
    }
}

/// A row's JSON as a value whose numbers are kept as written.
pub(crate) fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => Value::Huge(Arc::from(n.to_string())),
        Json::String(s) => Value::string(s),
        Json::Array(items) => Value::list(items.iter().map(value).collect()),
        Json::Object(o) => match o.get("$float").or_else(|| o.get("$bigint")) {
            Some(Json::String(text)) if o.len() == 1 => Value::Huge(Arc::from(text.as_str())),
            _ => Value::object(o.iter().map(|(k, v)| (Arc::from(k.as_str()), value(v)))),
        },
    }
}

/// A double as rows write it.
pub(crate) fn float(f: f64) -> Json {
    if f.is_finite() {
        serde_json::json!(f)
    } else if f.is_nan() {
        serde_json::json!({"$float": "NaN"})
    } else {
        serde_json::json!({"$float": if f > 0.0 { "Infinity" } else { "-Infinity" }})
    }
}

/// Every key of `wanted` must be in `got` and alike; `got` may not have keys that `wanted` lacks.
/// Numbers may differ by 1e-12. A key `x_repr` is compared with our number `x`.
pub(crate) fn same(wanted: &Json, got: &Json) -> Result<(), String> {
    differs(wanted, got, "").map_or(Ok(()), Err)
}

fn differs(wanted: &Json, got: &Json, at: &str) -> Option<String> {
    if let (Some(a), Some(b)) = (number(wanted), number(got)) {
        let alike = (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= 1e-12;
        return (!alike).then(|| format!("{at}: wanted {a}, got {b}"));
    }
    match (wanted, got) {
        (Json::Object(w), Json::Object(g)) => {
            for (key, value) in w {
                let at = format!("{at}.{key}");
                if let Some(base) = key.strip_suffix("_repr") {
                    if let Some(bad) = repr_differs(value, g.get(base)?, &at) {
                        return Some(bad);
                    }
                    continue;
                }
                match g.get(key) {
                    None => return Some(format!("{at}: wanted {value}, got nothing")),
                    Some(ours) => {
                        if let Some(bad) = differs(value, ours, &at) {
                            return Some(bad);
                        }
                    }
                }
            }
            let extra = g.keys().find(|k| !w.contains_key(*k) && !w.contains_key(&format!("{k}_repr")))?;
            Some(format!("{at}.{extra}: not wanted, got {}", g[extra]))
        }
        (Json::Array(w), Json::Array(g)) => {
            if w.len() != g.len() {
                return Some(format!("{at}: wanted {wanted}, got {got}"));
            }
            w.iter().zip(g).enumerate().find_map(|(i, (a, b))| differs(a, b, &format!("{at}[{i}]")))
        }
        _ => (wanted != got).then(|| format!("{at}: wanted {wanted}, got {got}")),
    }
}

fn repr_differs(wanted: &Json, ours: &Json, at: &str) -> Option<String> {
    match (wanted, ours) {
        (Json::String(text), ours) => {
            let (a, b) = (text.parse::<f64>().unwrap(), number(ours)?);
            let alike = (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= 1e-12;
            (!alike).then(|| format!("{at}: wanted {a}, got {b}"))
        }
        (Json::Array(w), Json::Array(g)) if w.len() == g.len() => {
            w.iter().zip(g).find_map(|(a, b)| repr_differs(a, b, at))
        }
        _ => Some(format!("{at}: wanted {wanted}, got {ours}")),
    }
}
