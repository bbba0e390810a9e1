//! Diagnostics as SARIF 2.1.0, which code hosts show beside the lines that they are about.

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::{Value, json};

use super::{Code, Place, Record, Severity};

/// A log of one run.
pub fn sarif(records: &[Record]) -> Value {
    let codes: BTreeSet<Code> = records.iter().map(|record| record.code).collect();
    let rules: Vec<Value> =
        codes.iter().map(|code| json!({"id": code.text(), "shortDescription": {"text": code.about()}})).collect();
    let results: Vec<Value> = records
        .iter()
        .map(|record| {
            let related: Vec<Value> =
                record.related.iter().map(|related| location(&related.place, Some(&related.message))).collect();
            json!({
                "ruleId": record.code.text(),
                "ruleIndex": codes.iter().position(|code| *code == record.code),
                "level": match record.severity { Severity::Error => "error", Severity::Warning => "warning" },
                "message": {"text": words(record)},
                "locations": [location(&record.place, None)],
                "relatedLocations": related,
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "probity", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

/// Everything that is said, in one text.
fn words(record: &Record) -> String {
    let mut words = record.message.clone();
    if !record.label.is_empty() {
        words.push_str(&format!(": {}", record.label));
    }
    if let Some(help) = &record.help {
        words.push_str(&format!("\nhelp: {help}"));
    }
    words
}

fn location(place: &Place, message: Option<&str>) -> Value {
    let Place { file, line, column, end_line, end_column } = place;
    let physical = json!({
        "artifactLocation": {"uri": uri(file)},
        "region": {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column},
    });
    match message {
        Some(message) => json!({"physicalLocation": physical, "message": {"text": message}}),
        None => json!({"physicalLocation": physical}),
    }
}

/// A path as a reference of a URI: relative to where the command ran, unless it is absolute.
fn uri(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => out.push(char::from(byte)),
            // Writing to a String cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::diag::{Diagnostic, Diagnostics, Sources, Span};

    #[test]
    fn results_have_rules_levels_and_places() {
        let mut sources = Sources::new();
        let file = sources.add("rules/a b/é.policy", "one\ntwo é x\n");
        let mut problems = Diagnostics::new();
        let at = Span::new(file, 11..12);
        problems.push(
            Diagnostic::warning(Code::Unused, at, "nothing uses `x`")
                .label("here")
                .help("leave it out")
                .secondary(Span::new(file, 0..3), "see"),
        );
        problems.push(Diagnostic::error(Code::UnknownName, Span::new(file, 0..3), "what is `one`?"));
        let log = sarif(&problems.records(&sources));
        let run = &log["runs"][0];
        let rules = run["tool"]["driver"]["rules"].as_array().map(Vec::len);
        assert_eq!((log["version"].as_str(), rules), (Some("2.1.0"), Some(2)));
        let (first, second) = (&run["results"][0], &run["results"][1]);
        assert_eq!(
            (&first["ruleId"], &first["level"], &first["ruleIndex"]),
            (&json!("P0301"), &json!("error"), &json!(0))
        );
        assert_eq!(second["message"]["text"], "nothing uses `x`: here\nhelp: leave it out");
        let place = &second["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "rules/a%20b/%C3%A9.policy");
        assert_eq!(place["region"], json!({"startLine": 2, "startColumn": 7, "endLine": 2, "endColumn": 8}));
        assert_eq!(second["relatedLocations"][0]["message"]["text"], "see");
    }
}
