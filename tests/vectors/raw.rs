//! The readout file.

use probity::drift::{Canary, ReadoutLimits, readout};
use serde_json::{Value as Json, json};

use crate::{
    row::{Row, same, value},
    scoring::to_json,
};

pub(crate) const LIMITS: ReadoutLimits = ReadoutLimits { bytes: 1 << 20, layers: 2 };

/// A string or a list of strings; what is null counts for nothing, other types are refused. Of an
/// object the reference takes the names.
fn canaries(json: &Json) -> Option<Vec<Canary>> {
    if let Json::Object(o) = json {
        return Some(o.keys().filter_map(|t| Canary::new(t).ok()).collect());
    }
    let words: Vec<&Json> = match json {
        Json::Array(items) => items.iter().collect(),
        other => vec![other],
    };
    let texts: Option<Vec<&str>> = words.into_iter().filter(|w| !w.is_null()).map(Json::as_str).collect();
    Some(texts?.into_iter().filter_map(|t| Canary::new(t).ok()).collect())
}

pub(crate) fn readout(row: &Row) -> Result<(), String> {
    let wanted = row.wanted();
    let Some(canaries) = canaries(&row.input["canaries"]) else {
        return if wanted["raised"].is_string() { Ok(()) } else { Err("canaries of another type".to_owned()) };
    };
    let read = readout::read(&value(&row.input["output"]), &canaries, &LIMITS);
    let mut got = to_json(&read.answer());
    if !wanted["reasoning"].is_string() {
        got["reasoning"] = json!(null);
    }
    same(&wanted, &got)
}
