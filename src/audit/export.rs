//! Records as lines of JSON, for other programs and for rebuilding a store.
//!
//! ```text
//! {"probity_audit_export":1,"store":HEX,"base":{"last":N,"link":HEX}}
//! {"number":N,"time":"2026-01-02T03:04:05.678Z","kind":"judged","reads":{..},"record":BASE64,"link":HEX}
//! ...
//! {"end":{"last":N,"link":HEX}}
//! ```
//!
//! `record` holds the bytes that the chain covers, `payload` (BASE64) what the record carries beside them, where it was
//! not erased. `number`, `time`, `kind` and `reads` show what the bytes say; a verifier compares.

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE as HEX};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::Digest;

use super::{
    chain::{Head, StoreId},
    layout::{Entry, LayoutError, decode_record, fill},
    payload::Payload,
    reading,
    record::{Record, RecordNumber},
    verify::{Fault, Trust, Verified, Verifier},
};

/// The version of the form.
const VERSION: u8 = 1;

/// Why lines are not an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A line is not the JSON that it should be.
    #[error("line {line}: {source}")]
    Json {
        /// The line, from 1.
        line: u64,
        /// Why.
        source: serde_json::Error,
    },
    /// A line does not hold what it should.
    #[error("line {line}: {what}")]
    Form {
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The lines end without the line that says where the chain ends.
    #[error("the export is cut: its last line must say where the chain ends")]
    Cut,
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Head { probity_audit_export: u8, store: String, base: Place },
    Record(Box<Told>),
    End { end: Place },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    last: RecordNumber,
    link: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    number: RecordNumber,
    time: String,
    kind: String,
    reads: Value,
    record: String,
    link: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
}

fn written(line: &Line) -> String {
    // Texts and numbers: nothing in it can fail to be written.
    serde_json::to_string(line).unwrap_or_default()
}

/// The first line.
pub fn head_line(base: Head) -> String {
    let place = Place { last: base.last, link: base.link.to_string() };
    written(&Line::Head { probity_audit_export: VERSION, store: base.store.to_string(), base: place })
}

/// The last line.
pub fn end_line(head: Head) -> String {
    written(&Line::End { end: Place { last: head.last, link: head.link.to_string() } })
}

/// The line of a record.
pub fn record_line(entry: &Entry<'_>, payload: Option<&Payload>) -> Result<String, LayoutError> {
    let record = whole(entry, payload)?;
    Ok(written(&Line::Record(Box::new(Told {
        number: record.number,
        time: reading::time(record.at_millis),
        kind: record.kind().to_owned(),
        reads: reading::body(&record),
        record: BASE64.encode(entry.bytes),
        link: entry.link.to_string(),
        payload: payload.map(|payload| BASE64.encode(payload.bytes())),
    }))))
}

/// The record with its payload.
fn whole(entry: &Entry<'_>, payload: Option<&Payload>) -> Result<Record, LayoutError> {
    let decoded = decode_record(entry.bytes)?;
    let mut record = decoded.record;
    match payload {
        Some(payload) => fill(&mut record, payload.content())?,
        None => record.erased = decoded.payload.is_some(),
    }
    Ok(record)
}

/// A record of an export, read.
#[derive(Debug)]
pub struct Imported {
    /// The bytes that the chain covers.
    pub bytes: Vec<u8>,
    /// Its link.
    pub link: Digest,
    /// Its payload, if it is there.
    pub payload: Option<Payload>,
}

/// Verifies an export, and shows each record that holds. Its last line must be the one that says where the chain ends.
pub fn verify_export<E: From<ExportError>>(
    lines: impl IntoIterator<Item = Result<String, E>>,
    trust: Trust,
    mut begin: impl FnMut(Head) -> Result<(), E>,
    mut visit: impl FnMut(&Record, Imported) -> Result<(), E>,
) -> Result<Verified, E> {
    let mut lines = (1u64..).zip(lines);
    let mut read = |(line, text): (u64, Result<String, E>)| -> Result<(u64, Line), E> {
        let read = serde_json::from_str(&text?).map_err(|source| ExportError::Json { line, source })?;
        Ok((line, read))
    };
    let base = match lines.next().map(&mut read).transpose()? {
        Some((_, Line::Head { probity_audit_export: VERSION, store, base })) => {
            let store = StoreId::new(unhex(1, "`store` is not 32 hexadecimal digits", &store)?);
            Head { store, last: base.last, link: Digest::new(unhex(1, LINK, &base.link)?) }
        }
        Some((line, _)) => return Err(ExportError::Form { line, what: "this is not the head of an export" }.into()),
        None => return Err(ExportError::Cut.into()),
    };
    begin(base)?;
    let mut verifier = Verifier::new(base, trust);
    let mut going = true;
    while let Some(line) = lines.next() {
        let (line, told) = match read(line)? {
            (line, Line::Record(told)) => (line, told),
            (line, Line::End { end }) => {
                let end = Head { store: base.store, last: end.last, link: Digest::new(unhex(line, LINK, &end.link)?) };
                // Nothing vouches for what stands there, and somebody may take it for a part of the export.
                if let Some((line, text)) = lines.next() {
                    text?;
                    return Err(ExportError::Form {
                        line,
                        what: "a line behind the one that says where the chain ends",
                    }
                    .into());
                }
                return Ok(verifier.finish(end));
            }
            (line, Line::Head { .. }) => {
                return Err(ExportError::Form { line, what: "a second head" }.into());
            }
        };
        if !going {
            continue;
        }
        let decode = |what, text: &str| BASE64.decode(text.as_bytes()).map_err(|_| ExportError::Form { line, what });
        let bytes = decode("`record` is not base64", &told.record)?;
        let link = Digest::new(unhex(line, LINK, &told.link)?);
        let payload = told.payload.as_deref().map(|text| decode("`payload` is not base64", text)).transpose()?;
        let (shows_payload, mut payload) = (payload.is_some(), payload.and_then(Payload::from_bytes));
        let entry = Entry { number: told.number, bytes: &bytes, link };
        let mut has_payload = false;
        going = verifier.take(&entry, |_| {
            has_payload = true;
            payload.clone()
        });
        if !going {
            continue;
        }
        let number = told.number;
        match (shows_payload, has_payload) {
            (true, false) => {
                verifier.tell(Fault::Stray { number });
                payload = None;
            }
            // Too short to be one, which is not the same as erased.
            (true, true) if payload.is_none() => verifier.tell(Fault::Payload { number }),
            _ => {}
        }
        let record = match whole(&entry, payload.as_ref()) {
            Ok(record) => record,
            Err(source) => {
                verifier.tell(Fault::Unreadable { number, source });
                continue;
            }
        };
        let shown = told.time == reading::time(record.at_millis)
            && told.kind == record.kind()
            && told.reads == read_again(&reading::body(&record));
        if !shown {
            verifier.tell(Fault::Shown { number });
        }
        visit(&record, Imported { bytes, link, payload })?;
    }
    Err(ExportError::Cut.into())
}

/// As it is after a way through text: what is compared with it has gone that way, and a double may change its last bit.
fn read_again(value: &Value) -> Value {
    serde_json::from_str(&value.to_string()).unwrap_or(Value::Null)
}

const LINK: &str = "`link` is not 64 hexadecimal digits";

fn unhex<const N: usize>(line: u64, what: &'static str, text: &str) -> Result<[u8; N], ExportError> {
    let bytes = HEX.decode(text.as_bytes()).ok().and_then(|bytes| <[u8; N]>::try_from(bytes).ok());
    bytes.ok_or(ExportError::Form { line, what })
}
