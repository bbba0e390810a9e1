//! The redaction file, and what the shipped rules do beyond it.

use probity::{
    model::{Value, json as json_text},
    redact::{Detector, Mode, Redactor, Rules},
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

fn standard() -> Redactor {
    Redactor::new(Rules::standard(), [3; 32]).unwrap()
}

#[test]
fn every_detector_finds_its_kind_and_leaves_lookalikes() {
    let redactor = standard();
    for (text, wanted) in [
        ("card 4111 1111 1111 1111 today", "card [REDACTED:CARD] today"),
        ("pay to DE89 3704 0044 0532 0130 00 please", "pay to [REDACTED:IBAN] please"),
        ("GB82WEST12345698765432", "[REDACTED:IBAN]"),
        ("from 10.0.0.1 and 2001:db8::1.", "from [REDACTED:IP] and [REDACTED:IP]."),
        ("key sk-proj-abcdefghijklmnop1234567890", "key [REDACTED:SECRET]"),
        ("id AKIAIOSFODNN7EXAMPLE ok", "id [REDACTED:SECRET] ok"),
        ("order 4111111111111112 stays", "order 4111111111111112 stays"),
        ("version 1.2.3 at 10:30:00", "version 1.2.3 at 10:30:00"),
        ("GB82WEST12345698765433", "GB82WEST12345698765433"),
    ] {
        assert_eq!(redactor.text(text).get(), wanted);
    }
}

#[test]
fn n25_n26_plain_fields_hold_no_free_text_and_other_values_become_json() {
    let redactor = standard();
    let payload = value(&json!({"decision": {"to": "jane.doe@example.com"}, "reasoning": {"a": [null, true]}, "x": 1}));
    let redacted = redactor.payload(&payload).into_inner();
    assert_eq!(
        redacted.to_string(),
        r#"{"decision":{"to":"[REDACTED:EMAIL]"},"reasoning":"{\"a\":[null,true]}","x":"[REDACTED:UNKNOWN_FIELD]"}"#
    );
}

#[test]
fn json_in_a_string_is_read_and_written_again() {
    let redacted =
        standard().text(r#"{"note": "{\"mail\": \"jane.doe\u0040example.com\"}", "n": 4155550132}"#).into_inner();
    assert_eq!(redacted, r#"{"n":"[REDACTED:PHONE]","note":"{\"mail\":\"[REDACTED:EMAIL]\"}"}"#);
    let parsed = json_text::parse(redacted.as_bytes()).unwrap();
    assert!(parsed.get("note").is_some());
}

#[test]
fn categorical_and_hashed_modes_keep_no_text() {
    let payload = value(&json!({"decision": "decline", "reasoning": "because of Jane", "disclosed_data": true}));
    let of = |mode| Redactor::new(Rules { mode, ..Rules::standard() }, [3; 32]).unwrap().payload(&payload).into_inner();
    assert_eq!(
        of(Mode::Categorical).to_string(),
        r#"{"decision":"decline","disclosed_data":true,"reasoning":"[REDACTED:TEXT]"}"#
    );
    let hashed = of(Mode::Hashed);
    assert!(hashed.get("reasoning").unwrap().as_str().unwrap().starts_with("[HASH:"));
    assert_eq!(hashed, of(Mode::Hashed));
    let free = value(&json!({"decision": "ask Jane"}));
    let kept = Redactor::new(Rules { mode: Mode::Categorical, ..Rules::standard() }, [3; 32]).unwrap();
    assert_eq!(kept.payload(&free).get().to_string(), r#"{"decision":"[REDACTED:TEXT]"}"#);
}

#[test]
fn names_that_become_alike_are_kept_apart() {
    let payload = value(&json!({"415-555-0132": 1, "415-555-0133": 2}));
    assert_eq!(standard().payload(&payload).get().as_object().unwrap().len(), 2);
}

#[test]
fn lookalikes_stay_and_other_spellings_go() {
    let redactor = redactor();
    let mut wrong = Vec::new();
    for gone in [
        "o'brien@example.com",
        "jane!doe@example.com",
        "user@xn--bcher-kva.example",
        "root@[127.0.0.1]",
        "jane (at) example (dot) com",
        "jane[at]example.com",
        "jane&#64;example&#46;com",
        "jane%40example.com",
        "ja\u{ad}ne@example.com",
        "jane@sub.example.co.uk",
        "JANE@LOCALHOST",
        "jane dot doe at example dot org",
        "0044 20 7946 0958",
        "+1 (415) 555-0132 ext. 5",
        "call 555-0132",
        "tel:+14155550132",
        "(0)20 7946 0958",
        "415\u{2013}555\u{2013}0132",
        "1-800-GO-FEDEX",
        "06 12 34 56 78",
        "mobile: 0151 23456789",
        "４１５-５５５-０１３２",
        "+972 3-123-4567",
        "+86 138 0013 8000",
        "+55 11 91234-5678",
        "+39 06 1234 5678",
    ] {
        let out = redactor.text(&format!("Please use {gone} today")).into_inner();
        if !out.contains("[REDACTED:") {
            wrong.push(format!("{gone} stays"));
        }
    }
    for stays in [
        "logo@2x.png",
        "git@github.com:acme/tool.git",
        "react@18.2.0",
        "npm@latest",
        "java.lang.Object@6d06d69c",
        "user@pkg.module.Handler",
        "@mention and me @noon",
        "price 5 @ 10",
        "order 4155550132",
        "SKU 415-555-0132",
        "epoch 1732982400",
        "ISBN 0306406152",
        "build 202.401.1530",
        "2026-01-15 10:30",
        "10.0.0.1",
        "trace 12345678-1234-1234-1234-123456789012",
        "0x4155550132ab",
        "rule 7.2 applies",
        "$1,234,567,890",
        "total 1 234 567.89",
        "id 9876543210",
        "case #4155550132",
        "v1.2.3.4567",
        "37.7749,-122.4194",
        "serial 020 7946 0958",
    ] {
        let out = redactor.text(stays).into_inner();
        if out != stays {
            wrong.push(format!("{stays} becomes {out}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn numbers_in_a_row_are_all_found() {
    let redactor = redactor();
    for (text, wanted) in [
        ("415-555-0132 415-555-0199", "[REDACTED:PHONE] [REDACTED:PHONE]"),
        ("line 5 415-555-0132", "line 5 [REDACTED:PHONE]"),
        ("+14155550132 2025550199", "[REDACTED:PHONE] [REDACTED:PHONE]"),
        ("call 415 555 0132 415 555 0199 415 555 0177", "call [REDACTED:PHONE] [REDACTED:PHONE] [REDACTED:PHONE]"),
        ("trace 12345678-1234-1234-1234-123456789012", "trace 12345678-1234-1234-1234-123456789012"),
        ("lot 555 123 4567 555 123 4568", "lot 555 123 4567 555 123 4568"),
    ] {
        assert_eq!(redactor.text(text).get(), wanted);
    }
}
