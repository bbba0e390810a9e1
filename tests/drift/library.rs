//! The shipped default pack.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use probity::{
    diag::Style,
    drift::{Calibration, InjectAs},
    engine::{Pack, load_pack},
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

#[test]
fn thresholds_out_of_reach_are_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir("rules/default").unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    let scoring = folder.path().join("scoring.yaml");
    let text = fs::read_to_string(&scoring).unwrap();
    fs::write(&scoring, text.replace("  frequency: 0.5", "  frequency: 0.3")).unwrap();
    let loaded = load_pack(folder.path());
    let shown = loaded.diagnostics.render(&loaded.sources, Style::Plain);
    assert!(loaded.result.is_some() && shown.contains("P0119"), "{shown}");
    assert!(shown.contains("action.restricted is 0.7, but a session that drifts in every probe stays at"), "{shown}");
}
