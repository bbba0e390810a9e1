//! The packs under `rules/`: each loads without a warning and passes its own tests, and those tests notice
//! every change of its rules.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod judges;
mod mutants;
mod naive;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    thread,
};

use judges::interpreter;
use mutants::{Files, Mutant};
use probity::{
    diag::Style,
    engine::{RuleSet, TestReport, load_pack_files, load_rules, run_episode, run_tests},
    ingest::{Episode, Messages},
    model::{Effect, Malformed, Turn},
    pack::read_pack,
};

fn rules() -> RuleSet {
    let loaded = load_rules(Path::new("rules"));
    assert!(loaded.diagnostics.is_empty(), "{}", loaded.diagnostics.render(&loaded.sources, Style::Plain));
    loaded.result.unwrap()
}

/// One line for each fault of a test.
fn faults(report: &TestReport) -> Vec<String> {
    let failed = report.results.iter().filter(|r| !r.faults.is_empty());
    failed.flat_map(|r| r.faults.iter().map(move |fault| format!("{}: {fault}", r.name))).collect()
}

#[test]
fn every_pack_passes_its_tests_and_they_fire_every_policy_and_ask_every_probe() {
    let rules = rules();
    assert!(rules.iter().len() > 0, "no packs");
    for pack in rules.iter() {
        let report = run_tests(pack);
        let faults = faults(&report);
        println!(
            "{}: {} tests, {} policies, {} of them never fired",
            pack.name(),
            report.results.len(),
            pack.policies().len(),
            report.never_fired.len()
        );
        assert!(!report.results.is_empty(), "{} has no tests", pack.name());
        assert!(report.never_asked.is_empty(), "{}: never asked: {:?}", pack.name(), report.never_asked);
        assert!(faults.is_empty(), "{}: {} faults\n{}", pack.name(), faults.len(), faults.join("\n"));
        assert!(report.passed());
        assert!(report.never_fired.is_empty(), "{}: never fired: {:?}", pack.name(), report.never_fired);
    }
}

/// What a test names is one policy's business; what all the others say of its messages is compared here.
#[test]
fn the_engine_and_the_naive_interpreter_agree_on_every_test() {
    let rules = rules();
    for pack in rules.iter() {
        let naive = interpreter(read_pack(&Path::new("rules").join(&**pack.name())));
        for test in pack.tests() {
            let name = &test.name.value;
            let messages = Messages::List(test.messages.as_list().unwrap().to_vec().into());
            let episode = Episode { id: name.clone(), messages, judge: Vec::new(), judge_faults: Vec::new() };
            let (expected, found) = (naive.report(&episode.messages), run_episode(pack, &episode));
            assert_eq!(found.hits, expected.hits, "{name}");
            assert_eq!(found.signals, expected.signals, "{name}");
            let undecided: Vec<_> = found.undecided.iter().map(|u| (u.turn, u.policy.clone())).collect();
            assert_eq!(undecided, expected.undecided, "{name}");
            let turns = |malformed: &[Malformed]| malformed.iter().map(|m| m.turn).collect::<BTreeSet<Turn>>();
            assert_eq!(turns(&found.malformed), turns(&expected.malformed), "{name}");
        }
    }
}

fn read(folder: &Path, inside: &Path, files: &mut Files) {
    for entry in fs::read_dir(folder.join(inside)).unwrap() {
        let entry = entry.unwrap();
        let path = inside.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            read(folder, &path, files);
        } else {
            files.insert(path, fs::read(entry.path()).unwrap());
        }
    }
}

/// Changes that change nothing: the pack, the line as it was made, and why it says the same.
const SAME_MEANING: [(&str, &str, &str); 11] = [
    ("airline", "deny unless (last(user).text default \"_\") mentions affirmation", "neither text affirms"),
    ("airline", "table free_bags(membership_, cabin) = {", "only names a column"),
    ("airline", "table free_bags(membership, cabin_) = {", "only names a column"),
    (
        "airline",
        "def flights(list) = { [f.flight_number as string, f.date as string] for f in list }",
        "going through what is no list is unknown as well",
    ),
    (
        "airline",
        "fact new_cabin[json.reservation_id] = call.args.cabin as string",
        "`when` has seen that the id is a text",
    ),
    (
        "airline",
        "when not is_error and call.args.cabin is string and json.reservation_id is not null",
        "an id that is no text makes the turn malformed already, and absence of a new cabin decides nothing",
    ),
    ("starter", "without or name in fetches", "each of them reads or sends too, as long as the settings are these"),
    (
        "starter",
        "review unless u.scheme in { \"http\", \"https\" } and all domain in our_domains: host_within(u.host, domain)",
        "one domain is named",
    ),
    ("traveldesk", "deny unless (last(user).text default \"_\") mentions affirmation", "neither text affirms"),
    ("traveldesk", "prefix: Er", "no policy looks at results"),
    ("traveldesk", "prefix: 'Error:'", "no policy looks at results"),
];

/// Whether a pack's tests notice a mutant; none if it does not load.
fn noticed(files: &Files, mutant: &Mutant) -> Option<bool> {
    let mut files = files.clone();
    files.insert(mutant.path.clone(), mutant.text.clone().into_bytes());
    // Without the tests first: most changes that do not load are found at a small part of the cost.
    let rules = files.iter().filter(|(path, _)| !path.starts_with("tests"));
    let rules: Files = rules.map(|(path, bytes)| (path.clone(), bytes.clone())).collect();
    load_pack_files(Path::new("mutant"), &rules).result?;
    let pack = load_pack_files(Path::new("mutant"), &files).result?;
    Some(!run_tests(&pack).passed())
}

/// The answers of [`noticed`], worked out by two threads.
fn all_noticed(files: &Files, mutants: &[Mutant]) -> Vec<Option<bool>> {
    let judge = |part: &[Mutant]| part.iter().map(|m| noticed(files, m)).collect::<Vec<_>>();
    let (left, right) = mutants.split_at(mutants.len() / 2);
    thread::scope(|scope| {
        let right = scope.spawn(|| judge(right));
        [judge(left), right.join().unwrap()].concat()
    })
}

fn notices_every_change(name: &str) {
    let mut files = Files::new();
    read(&Path::new("rules").join(name), Path::new(""), &mut files);
    let mutants = mutants::of(&files);
    let mut same: BTreeSet<&str> = SAME_MEANING.iter().filter(|(pack, ..)| *pack == name).map(|(_, l, _)| *l).collect();
    // By policy: changes that load, and those that a test notices.
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut missed = Vec::new();
    for (mutant, noticed) in mutants.iter().zip(all_noticed(&files, &mutants)) {
        let Some(noticed) = noticed else { continue };
        let count = counts.entry(mutant.policy.as_deref().unwrap_or("shared")).or_default();
        count.0 += 1;
        count.1 += usize::from(noticed);
        if !noticed && !same.remove(mutant.after.as_str()) {
            missed.push(format!("{}: {}\n  made {}", mutant.path.display(), mutant.before, mutant.after));
        }
    }
    for (policy, (changes, noticed)) in &counts {
        println!("{name} {policy}: {noticed} of {changes} changes noticed");
    }
    assert!(missed.is_empty(), "{name}: no test notices\n{}", missed.join("\n"));
    assert!(same.is_empty(), "{name}: these are noticed, or are no changes any more: {same:?}");
    let pack = load_pack_files(Path::new(name), &files).result.unwrap();
    for policy in pack.policies().filter(|p| p.effect != Effect::Judge) {
        assert!(counts.get(&*policy.id).is_some_and(|(_, noticed)| *noticed > 0), "no change of {}", policy.id);
    }
}

#[test]
fn the_tests_of_the_airline_notice_every_change_of_its_rules() {
    notices_every_change("airline");
}

#[test]
fn the_tests_of_the_starter_notice_every_change_of_its_rules() {
    notices_every_change("starter");
}

#[test]
fn the_tests_of_the_travel_desk_notice_every_change_of_its_rules() {
    notices_every_change("traveldesk");
}
