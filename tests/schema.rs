//! The JSON Schemas for editors, held to what the readers of packs say: files that are shipped validate, and of every
//! mapping in a pack with every key (`tests/fixtures/schema`) the schema and the reader know the same keys, need the
//! same ones, and take the same words. `UPDATE_FIXTURES=1` writes the files in `schema/`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use boon::{Compiler, SchemaIndex, Schemas};
use probity::{diag::Record, engine::load_pack_files, pack::FileKind};
use serde_json::{Value, json};

const SAMPLE: &str = "tests/fixtures/schema/pack";

/// A key and a word that mean nothing, and are like nothing.
const NOTHING: &str = "zzqqzz";

/// The YAML files of a pack by their path in it, with their kinds.
fn files(pack: &Path) -> BTreeMap<PathBuf, FileKind> {
    let mut files = BTreeMap::new();
    for kind in FileKind::ALL.into_iter().filter(|kind| *kind != FileKind::Tests) {
        let name = PathBuf::from(format!("{}.yaml", kind.word()));
        if pack.join(&name).exists() {
            files.insert(name, kind);
        }
    }
    for entry in fs::read_dir(pack.join("tests")).unwrap() {
        files.insert(Path::new("tests").join(entry.unwrap().file_name()), FileKind::Tests);
    }
    files
}

fn packs() -> Vec<PathBuf> {
    let mut packs: Vec<PathBuf> = fs::read_dir("rules").unwrap().map(|entry| entry.unwrap().path()).collect();
    packs.retain(|path| path.is_dir());
    packs.sort();
    packs
}

fn document(path: &Path) -> Value {
    serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// All schemas, ready to validate.
struct Validators(Schemas, Vec<SchemaIndex>);

impl Validators {
    fn new() -> Validators {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        let indices = FileKind::ALL.map(|kind| {
            let name = format!("http://localhost/{}.json", kind.word());
            compiler.add_resource(&name, kind.schema()).unwrap();
            compiler.compile(&name, &mut schemas).unwrap()
        });
        Validators(schemas, indices.to_vec())
    }

    fn takes(&self, kind: FileKind, document: &Value) -> Result<(), String> {
        let at = FileKind::ALL.iter().position(|k| *k == kind).unwrap();
        self.0.validate(document, self.1[at]).map_err(|e| format!("{e:#}"))
    }
}

#[test]
fn schemas_in_the_repository_are_those_of_the_program() {
    for kind in FileKind::ALL {
        let path = format!("schema/{}.schema.json", kind.word());
        let text = format!("{}\n", serde_json::to_string_pretty(&kind.schema()).unwrap());
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            fs::create_dir_all("schema").unwrap();
            fs::write(&path, &text).unwrap();
        }
        assert!(fs::read_to_string(&path).unwrap() == text, "{path}: run with UPDATE_FIXTURES=1");
    }
}

#[test]
fn shipped_files_name_their_schema_and_validate() {
    let validators = Validators::new();
    let mut count = 0;
    for pack in packs().into_iter().chain([SAMPLE.into()]) {
        for (path, kind) in files(&pack) {
            let file = pack.join(&path);
            validators.takes(kind, &document(&file)).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            if pack != Path::new(SAMPLE) {
                let up = "../".repeat(1 + path.components().count());
                let modeline = format!("# yaml-language-server: $schema={up}schema/{}.schema.json", kind.word());
                let text = fs::read_to_string(&file).unwrap();
                assert_eq!(text.lines().next(), Some(modeline.as_str()), "{}", file.display());
                assert!(file.parent().unwrap().join(format!("{up}schema/{}.schema.json", kind.word())).exists());
            }
            count += 1;
        }
    }
    assert!(count > 30, "{count} files");
}

/// The schema that applies to a value: references followed, and of alternatives the one that fits its type and keys.
fn fitting<'s>(root: &'s Value, schema: &'s Value, value: &Value) -> &'s Value {
    if let Some(reference) = schema["$ref"].as_str() {
        return fitting(root, root.pointer(reference.trim_start_matches('#')).unwrap(), value);
    }
    let Some(alternatives) = schema["anyOf"].as_array() else { return schema };
    let fits = |schema: &&Value| {
        let ty = schema["type"].as_str().unwrap_or_default();
        match value {
            Value::Object(map) => {
                let known = |key: &String| schema["properties"].get(key).is_some();
                ty == "object" && (schema["additionalProperties"] != json!(false) || map.keys().all(known))
            }
            Value::Array(_) => ty == "array",
            Value::Null => ty == "null",
            Value::String(_) => ty == "string" || schema.get("enum").is_some(),
            Value::Number(_) => ty == "integer" || ty == "number",
            Value::Bool(_) => ty == "boolean",
        }
    };
    fitting(root, alternatives.iter().map(|a| fitting(root, a, value)).find(fits).unwrap_or(&Value::Null), value)
}

/// Calls `each` with every value of a document, where it stands, and its schema.
fn walk<'s>(
    root: &'s Value,
    schema: &'s Value,
    value: &Value,
    at: &str,
    each: &mut dyn FnMut(&str, &'s Value, &Value),
) {
    let schema = fitting(root, schema, value);
    each(at, schema, value);
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let own = schema["properties"].get(key).or(schema.get("additionalProperties"));
                if let Some(own) = own.filter(|schema| schema.is_object()) {
                    walk(root, own, inner, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), each);
                }
            }
        }
        Value::Array(items) => {
            for (place, inner) in items.iter().enumerate() {
                walk(root, &schema["items"], inner, &format!("{at}/{place}"), each);
            }
        }
        _ => {}
    }
}

/// What is said of the sample with one of its files replaced.
fn said(path: &Path, document: &Value) -> Vec<Record> {
    let mut sample: BTreeMap<PathBuf, Vec<u8>> = files(Path::new(SAMPLE))
        .into_keys()
        .map(|path| (path.clone(), fs::read(Path::new(SAMPLE).join(&path)).unwrap()))
        .collect();
    let policies = Path::new("policies/sample.policy");
    sample.insert(policies.to_owned(), fs::read(Path::new(SAMPLE).join(policies)).unwrap());
    for (name, version) in [("plain", "1.2.0"), ("base", "1.0.0")] {
        let folder = PathBuf::from(format!(".bases/{name}@{version}"));
        let manifest = format!("name: {name}\nversion: {version}\nformat: 1\n");
        sample.insert(folder.join("pack.yaml"), manifest.into_bytes());
        if name == "base" {
            let policy = |id: &str| format!("policy {id} \"p\" {{ severity 0.1 on call {id} deny if true }}\n");
            let policies = policy("BASE") + &policy("LEFT_OUT");
            sample.insert(folder.join("policies/base.policy"), policies.into_bytes());
        }
    }
    // JSON is YAML.
    sample.insert(path.to_owned(), document.to_string().into_bytes());
    let loaded = load_pack_files(Path::new("sample"), &sample);
    loaded.diagnostics.records(&loaded.sources)
}

/// The names in backquotes in a text.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_sample_has_no_mistake() {
    let path = Path::new("pack.yaml");
    let said = said(path, &document(&Path::new(SAMPLE).join(path)));
    assert!(said.is_empty(), "{said:#?}");
}

#[test]
fn schemas_and_readers_know_the_same_keys_and_words() {
    let mut faults = Vec::new();
    // By schema: the properties that no document of the sample has.
    let mut unseen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut keys, mut needed, mut words) = (0, 0, 0);
    for (path, kind) in files(Path::new(SAMPLE)) {
        let sample = document(&Path::new(SAMPLE).join(&path));
        let schema = kind.schema();
        let mut places: Vec<(String, Value)> = Vec::new();
        walk(&schema, &schema, &sample, "", &mut |at, schema, _| places.push((at.to_owned(), schema.clone())));
        for (at, schema) in places {
            let changed = |change: &dyn Fn(&mut Value)| {
                let mut document = sample.clone();
                change(document.pointer_mut(&at).unwrap());
                said(&path, &document)
            };
            let here = format!("{}: {at}", path.display());
            let value = sample.pointer(&at).unwrap();
            if let (Some(word), Some(known)) = (value.as_str(), schema["enum"].as_array()) {
                let known: BTreeSet<String> = known.iter().map(|w| w.as_str().unwrap().to_owned()).collect();
                assert!(known.contains(word), "{here}");
                let told = changed(&|value| *value = NOTHING.into());
                let help = told.iter().find(|r| r.message.contains(NOTHING)).and_then(|r| r.help.clone());
                if help.as_deref().map(quoted) != Some(known) {
                    faults.push(format!("{here}: words\n{told:#?}"));
                }
                words += 1;
            }
            let (Some(map), true) = (value.as_object(), schema["additionalProperties"] == json!(false)) else {
                continue;
            };
            let properties: BTreeSet<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
            let open = unseen.entry(schema["description"].to_string()).or_insert_with(|| properties.clone());
            open.retain(|key| !map.contains_key(key));
            // What else a message may have depends on which it is.
            let is_message = schema["description"] == "A message in short.";
            let told = changed(&|value| drop(value.as_object_mut().unwrap().insert(NOTHING.into(), json!(1))));
            let help =
                told.iter().find(|r| r.message.contains(NOTHING)).and_then(|r| r.help.clone()).unwrap_or_default();
            let known = quoted(&help);
            if if is_message { !known.is_subset(&properties) } else { known != properties } {
                faults.push(format!("{here}: keys\n{known:?}\n{properties:?}"));
            }
            keys += 1;
            let required: Vec<&str> =
                schema["required"].as_array().into_iter().flatten().map(|k| k.as_str().unwrap()).collect();
            for key in map.keys().filter(|_| !is_message) {
                let told = changed(&|value| drop(value.as_object_mut().unwrap().remove(key)));
                let missing = format!("the key `{key}` is missing");
                let is_needed = told.iter().any(|r| r.code == probity::diag::Code::KeyMissing && r.message == missing);
                // Which tests a file holds is its own affair, as long as it holds some.
                if is_needed != required.contains(&key.as_str()) && !(at.is_empty() && kind == FileKind::Tests) {
                    faults.push(format!("{here}: {key} is {}needed\n{told:#?}", if is_needed { "" } else { "not " }));
                }
                needed += usize::from(is_needed);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    unseen.remove("\"A JSON Schema.\"");
    unseen.retain(|_, keys| !keys.is_empty());
    assert!(unseen.is_empty(), "keys that the sample does not have: {unseen:#?}");
    println!("{keys} mappings, {needed} needed keys, {words} words");
    assert!(keys > 60 && needed > 60 && words > 20, "{keys} {needed} {words}");
}
