//! The redaction file.

use probity::{
    model::Value,
    redact::{Detector, Redactor, Rules},
};
use serde_json::{Value as Json, json};

use crate::row::{Row, same, value};

/// The reference knows e-mail addresses and telephone numbers.
pub(crate) fn redactor() -> Redactor {
    let rules = Rules { detectors: vec![Detector::Email, Detector::Phone], ..Rules::standard() };
    Redactor::new(rules, [7; 32]).unwrap()
}

pub(crate) fn redact(row: &Row) -> Result<(), String> {
    let redacted = redactor().payload(&value(&row.input["payload"])).into_inner();
    let wanted = row.ideal.as_ref().unwrap_or(&row.expected["payload"]);
    let object = redacted.as_object().unwrap();
    let got: serde_json::Map<String, Json> = object.iter().map(|(k, v)| (k.to_string(), json_of(v))).collect();
    if row.has_tag("python_str_form") {
        // The reference keeps its own language's spelling of a value; ours is JSON. Both must say
        // the same value.
        let theirs = python_literal(wanted["reasoning"].as_str().unwrap());
        let ours = got["reasoning"].as_str().unwrap();
        let ours: Json = serde_json::from_str(ours).unwrap_or_else(|_| json!(ours));
        return same(&theirs, &ours);
    }
    same(wanted, &Json::Object(got))
}

fn json_of(v: &Value) -> Json {
    match v {
        Value::Null => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Number(_) | Value::Huge(_) => {
            serde_json::from_str(&v.to_string()).unwrap_or_else(|_| json!(v.to_string()))
        }
        Value::String(s) => json!(&**s),
        Value::List(items) => Json::Array(items.iter().map(json_of).collect()),
        Value::Object(o) => Json::Object(o.iter().map(|(k, v)| (k.to_string(), json_of(v))).collect()),
    }
}

/// A literal of the reference's language as JSON.
fn python_literal(text: &str) -> Json {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    let mut word = String::new();
    let flush = |word: &mut String, out: &mut String| {
        let json = match word.as_str() {
            "None" => "null",
            "True" => "true",
            "False" => "false",
            "nan" => "\"NaN\"",
            "inf" => "\"Infinity\"",
            "-inf" => "\"-Infinity\"",
            other => other,
        };
        out.push_str(json);
        word.clear();
    };
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                flush(&mut word, &mut out);
                let mut inner = String::new();
                while let Some(d) = chars.next() {
                    match d {
                        d if d == c => break,
                        '\\' => match chars.next() {
                            Some('n') => inner.push('\n'),
                            Some('t') => inner.push('\t'),
                            Some('r') => inner.push('\r'),
                            Some(other) => inner.push(other),
                            None => {}
                        },
                        d => inner.push(d),
                    }
                }
                out.push_str(&json!(inner).to_string());
            }
            c if c.is_alphanumeric() || matches!(c, '+' | '-' | '.') => word.push(c),
            c => {
                flush(&mut word, &mut out);
                out.push(c);
            }
        }
    }
    flush(&mut word, &mut out);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
}
