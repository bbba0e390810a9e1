//! Diagnostics as data: for `--format json`, the wire and the log. All places are in lines and
//! columns, so that a reader needs no source text.

use serde::Serialize;

use super::{Code, Diagnostics, Label, Position, Severity, Sources};

/// A place in lines and columns, both from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file's name as shown.
    pub file: String,
    /// Line of the first character.
    pub line: u32,
    /// Column of the first character.
    pub column: u32,
    /// Line just after the last character.
    pub end_line: u32,
    /// Column just after the last character.
    pub end_column: u32,
}

/// One diagnostic as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// The kind of mistake.
    pub code: Code,
    /// `error` or `warning`.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// Words about the place itself; empty if there are none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Other places that explain it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Related>,
}

/// Another place that explains a mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Related {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// What is to be said about it.
    pub message: String,
}

impl Diagnostics {
    /// As data, by file and place.
    pub fn records(&self, sources: &Sources) -> Vec<Record> {
        self.sorted()
            .into_iter()
            .map(|d| Record {
                place: place(&d.primary, sources),
                code: d.code,
                severity: d.severity,
                message: d.message.clone(),
                label: d.primary.text.clone(),
                help: d.help.clone(),
                related: d
                    .secondary
                    .iter()
                    .map(|l| Related { place: place(l, sources), message: l.text.clone() })
                    .collect(),
            })
            .collect()
    }

    /// As a JSON list, by file and place.
    pub fn to_json(&self, sources: &Sources) -> serde_json::Value {
        serde_json::json!(self.records(sources))
    }
}

fn place(label: &Label, sources: &Sources) -> Place {
    let first = Position { line: 1, column: 1 };
    let Some(source) = sources.get(label.span.file) else {
        return Place { file: String::new(), line: 1, column: 1, end_line: 1, end_column: 1 };
    };
    let bytes = source.clamp(label.span);
    let (start, end) =
        if source.has_text() { (source.position(bytes.start), source.position(bytes.end)) } else { (first, first) };
    Place {
        file: source.name().to_owned(),
        line: start.line,
        column: start.column,
        end_line: end.line,
        end_column: end.column,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::{Diagnostic, Span};

    #[test]
    fn a_record_has_lines_columns_and_words() {
        let mut sources = Sources::new();
        let file = sources.add("p/pack.yaml", "name: é\nnmae: x\n");
        let mut all = Diagnostics::new();
        all.push(
            Diagnostic::error(Code::KeyUnknown, Span::new(file, 9..13), "unknown key `nmae`")
                .did_you_mean(Some("name"))
                .secondary(Span::new(file, 6..8), "here"),
        );
        assert_eq!(
            all.to_json(&sources),
            serde_json::json!([{
                "file": "p/pack.yaml", "line": 2, "column": 1, "end_line": 2, "end_column": 5,
                "code": "P0104", "severity": "error", "message": "unknown key `nmae`",
                "help": "did you mean `name`?",
                "related": [{"file": "p/pack.yaml", "line": 1, "column": 7, "end_line": 1, "end_column": 8, "message": "here"}],
            }])
        );
    }
}
