//! `redaction.yaml` and `probity redact`.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use probity::{
    diag::Style,
    engine::{Pack, load_pack_files},
    model::json,
    redact::{Detector, FieldRule, Mode, Rules},
};

use crate::command::probity;

const MANIFEST: &str = "name: shop\nversion: 1.0.0\nformat: 1\n";
const RULES: &str = "\
mode: text
fields:
  plain: [decision, disclosed_data]
  scrubbed: [reasoning]
  hashed: [customer]
  words: {decision: [decline, comply]}
detectors:
  phone: {replacement: \"[PHONE]\", cues: [ring]}
  email:
limits: {max_bytes: 4096, max_embedding: 2}
";

fn pack(redaction: Option<&str>) -> Arc<Pack> {
    let mut files = BTreeMap::from([("pack.yaml".into(), MANIFEST.as_bytes().to_vec())]);
    if let Some(text) = redaction {
        files.insert("redaction.yaml".into(), text.as_bytes().to_vec());
    }
    let loaded = load_pack_files(Path::new("shop"), &files);
    assert!(loaded.diagnostics.is_empty(), "{}", loaded.diagnostics.render(&loaded.sources, Style::Plain));
    loaded.result.unwrap()
}

#[test]
fn a_file_says_which_fields_stay_and_what_is_looked_for() {
    let pack = pack(Some(RULES));
    let rules = pack.redactor().rules();
    assert_eq!(rules.mode, Mode::Text);
    assert_eq!(rules.detectors, [Detector::Email, Detector::Phone]);
    assert_eq!(rules.fields["customer"], FieldRule::Hash);
    assert_eq!((rules.max_bytes, rules.max_embedding), (4096, 2));
    assert_eq!(rules.phone.cues, ["ring"]);
    assert_eq!(rules.phone.units, Rules::standard().phone.units);
    let payload =
        r#"{"decision":"decline","reasoning":"ring 415-555-0132 or jane@example.com","customer":"jane","x":1}"#;
    let redacted = pack.redactor().payload(&json::parse(payload.as_bytes()).unwrap()).into_inner();
    assert_eq!(redacted.get("reasoning").unwrap().as_str().unwrap(), "ring [PHONE] or [REDACTED:EMAIL]");
    assert_eq!(redacted.get("x").unwrap().as_str().unwrap(), "[REDACTED:UNKNOWN_FIELD]");
    let hash = redacted.get("customer").unwrap().as_str().unwrap();
    assert!(hash.starts_with("[HASH:") && !hash.contains("jane"), "{hash}");
}

#[test]
fn a_pack_without_the_file_is_closed_and_looks_for_everything() {
    assert_eq!(*pack(None).redactor().rules(), Rules::standard());
}

#[test]
fn the_rules_are_part_of_the_digest_and_their_layout_is_not() {
    let digest = |text: &str| *pack(Some(text)).digest();
    let turned = RULES.replace("[decline, comply]", "[comply, decline]");
    let (phone, email) = (turned.find("  phone").unwrap(), turned.find("  email").unwrap());
    let end = turned.find("limits").unwrap();
    let turned = format!("{}{}{}{}", &turned[..phone], &turned[email..end], &turned[phone..email], &turned[end..]);
    assert_eq!(digest(RULES), digest(&turned));
    for (from, to) in [
        ("mode: text", "mode: hashed"),
        ("[decision, disclosed_data]", "[decision]"),
        ("\"[PHONE]\"", "\"[TEL]\""),
        ("cues: [ring]", "cues: [bell]"),
        ("  email:\n", ""),
        ("4096", "4097"),
    ] {
        assert_ne!(digest(RULES), digest(&RULES.replace(from, to)), "{from}");
    }
}

#[test]
fn lines_come_out_redacted_and_a_bad_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let shop = folder.path().join("shop");
    fs::create_dir(&shop).unwrap();
    fs::write(shop.join("pack.yaml"), MANIFEST).unwrap();
    fs::write(shop.join("redaction.yaml"), RULES).unwrap();
    let rules = folder.path().to_str().unwrap();
    let input = "{\"reasoning\":\"jane@example.com\",\"customer\":\"jane\"}\n{broken jane@example.com\n\n\
                 {\"reasoning\":7,\"customer\":\"jane\"}\n\"write to jane@example.com\"\n";
    let ran = probity(&["redact", "--rules", rules, "--pack", "shop"], input);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(!ran.out.contains("jane") && !ran.err.contains("jane@"), "{}", ran.out);
    let lines = ran.lines();
    assert_eq!(lines[0]["reasoning"], "[REDACTED:EMAIL]");
    assert_eq!((&lines[1]["line"], &lines[2]["line"]), (&2.into(), &3.into()));
    assert_eq!(lines[3]["reasoning"], "7");
    assert_eq!(lines[0]["customer"], lines[3]["customer"]);
    assert_eq!(lines[4], "write to [REDACTED:EMAIL]");

    let key = folder.path().join("key");
    fs::write(&key, "ab".repeat(32)).unwrap();
    let file = folder.path().join("in.jsonl");
    fs::write(&file, "{\"customer\":\"jane\"}\n").unwrap();
    let args = ["redact", "--rules", rules, "--redaction-key-file", key.to_str().unwrap(), file.to_str().unwrap()];
    let (first, again) = (probity(&args, ""), probity(&args, ""));
    assert_eq!((first.code, &first.out), (0, &again.out));
    assert_ne!(first.lines()[0]["customer"], lines[0]["customer"], "another key");
    fs::write(&key, "short").unwrap();
    assert_eq!(probity(&args, "").code, 2);
}
