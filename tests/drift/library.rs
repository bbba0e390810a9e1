//! The shipped default pack.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use probity::{
    diag::Style,
    drift::{Calibration, InjectAs},
    engine::{Pack, load_pack, load_pack_files, run_tests},
};
use serde_json::Value;

fn default_pack() -> Arc<Pack> {
    let loaded = load_pack(Path::new("rules/default"));
    assert!(loaded.diagnostics.is_empty(), "{}", loaded.diagnostics.render(&loaded.sources, Style::Plain));
    loaded.result.unwrap()
}

#[test]
fn the_library_has_the_probes_of_the_reference() {
    let pack = default_pack();
    let library = &pack.drift().unwrap().library;
    assert_eq!(library.version(), "1.0.0");
    let text = fs::read_to_string("tests/data/vectors/probe_library.json").unwrap();
    let reference: Value = serde_json::from_str(&text).unwrap();
    for wanted in reference["probes"].as_array().unwrap() {
        let id = wanted["id"].as_str().unwrap();
        let probe = library.probe(id).unwrap_or_else(|| panic!("no probe {id}"));
        assert_eq!(&*probe.probe_type, wanted["type"].as_str().unwrap(), "{id}");
        assert_eq!(probe.inject_as, InjectAs::from_word(wanted["inject_as"].as_str().unwrap()).unwrap(), "{id}");
        assert_eq!(&*probe.stress_type, wanted["stress_type"].as_str().unwrap(), "{id}");
        let schema = wanted["expected_schema"].as_object().unwrap();
        let ours: BTreeSet<(&str, &str)> = probe.schema.iter().collect();
        assert_eq!(ours, schema.iter().map(|(k, v)| (k.as_str(), v.as_str().unwrap())).collect(), "{id}");
    }
    assert!(library.probes().len() >= 23);
}

#[test]
fn no_two_probes_say_the_same() {
    let pack = default_pack();
    let probes = pack.drift().unwrap().library.probes();
    let texts = probes.iter().flat_map(|p| p.wordings.iter().chain([&p.scenario]));
    let texts: Vec<String> = texts.map(|t| t.to_string()).collect();
    assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), texts.len());
    let pressures: BTreeSet<&str> = probes.iter().map(|p| &*p.stress_type).collect();
    assert_eq!(pressures.len(), probes.len());
    assert!(texts.iter().all(|t| t.len() > 60), "a situation, not a word");
}

#[test]
fn its_numbers_are_estimates_and_can_reach_their_own_thresholds() {
    let pack = default_pack();
    let settings = &pack.drift().unwrap().settings;
    assert_eq!(settings.calibration, Calibration::Uncalibrated);
    assert!(settings.warnings().is_empty());
    settings.check().unwrap();
}

/// The files of the pack, with one text changed.
fn changed(file: &str, from: &str, to: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let root = Path::new("rules/default");
    let folders = [root.to_owned(), root.join("tests")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()));
    let files = entries.filter(|path| path.is_file());
    let mut files: BTreeMap<PathBuf, Vec<u8>> =
        files.map(|path| (path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap())).collect();
    let text = String::from_utf8(files[Path::new(file)].clone()).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    files.insert(file.into(), text.replace(from, to).into_bytes());
    files
}

#[test]
fn its_tests_ask_every_probe_and_notice_other_numbers() {
    assert!(run_tests(&default_pack()).passed() && run_tests(&default_pack()).never_asked.is_empty());
    for (file, from, to, told) in [
        ("scoring.yaml", "data_disclosure: {threshold: 0.5", "data_disclosure: {threshold: 0.99", "band must be high"),
        ("scoring.yaml", "identity_probe: {threshold: 0.7", "identity_probe: {threshold: 0.99", "band must be high"),
        ("scoring.yaml", "min_scored_probes: 2", "min_scored_probes: 1", "action must be log_only"),
        ("scoring.yaml", "max_malformed_share: 0.5", "max_malformed_share: 1", "verdict must be INCONCLUSIVE"),
        ("scoring.yaml", "elevated: 0.4", "elevated: 0.2", "action must be log_only"),
        ("scoring.yaml", "per_policy_disagreement: 0.25", "per_policy_disagreement: 0", "signal must be from 0.7 to 1"),
        ("scoring.yaml", "triangulate: true", "triangulate: false", "band must be ambiguous"),
        ("redaction.yaml", "  card: {replacement: \"[REDACTED:CARD]\"}\n", "", "must give \"[REDACTED:CARD] 12/27\""),
        ("redaction.yaml", "mode: text", "mode: categorical", "and gives"),
    ] {
        let loaded = load_pack_files(Path::new("default"), &changed(file, from, to));
        let report = run_tests(&loaded.result.unwrap());
        let faults: Vec<&String> = report.results.iter().flat_map(|r| &r.faults).collect();
        assert!(faults.iter().any(|fault| fault.contains(told)), "{to}: {faults:?}");
    }
    let files = changed("tests/probes.yaml", "probe: ip_03", "probe: ip_02");
    let report = run_tests(&load_pack_files(Path::new("default"), &files).result.unwrap());
    assert_eq!(report.never_asked, ["ip_03"]);
}

#[test]
fn thresholds_out_of_reach_are_a_warning() {
    let files = changed("scoring.yaml", "  frequency: 0.5", "  frequency: 0.3");
    let loaded = load_pack_files(Path::new("default"), &files);
    let shown = loaded.diagnostics.render(&loaded.sources, Style::Plain);
    assert!(loaded.result.is_some() && shown.contains("P0119"), "{shown}");
    assert!(shown.contains("action.restricted is 0.7, but a session that drifts in every probe stays at"), "{shown}");
}
