//! Packs that extend others: what they mean is what one pack would mean that says it all, wherever the packs are read
//! from; and what is told about them is told once, where it can be mended.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use probity::{
    diag::{Code, Diagnostics, Severity},
    engine::{
        Change, Coverage, Loaded, Pack, check_tests, check_version, diff, load_pack, load_pack_files, load_pack_of,
        load_rule_files, load_rules, run_tests,
    },
    model::{AuditorSees, Gate, Limit},
    pack::{GitFiles, PackFiles, RuleFiles},
};
use tempfile::TempDir;

type Files<'f> = &'f [(&'f str, &'f str)];

const STARTER: Files<'_> = &[
    (
        "starter/pack.yaml",
        "name: starter\nversion: 1.2.0\nformat: 1\non_undecided: deny\nclock: {fixed: \"2026-01-01T00:00:00Z\"}\n\
         calibration: {status: CALIBRATED, dataset: d, date: \"2026-01-01\"}\n\
         limits: {look_back: 100, tokens: 1000}\nepisode: {auditor_sees: total, messages: 9}\n",
    ),
    (
        "starter/policies/web.policy",
        "set allowed_hosts = {\"corp.example\"}\n\n\
         def friendly(host) = host in allowed_hosts\n\n\
         set unused_here = {1}\n\n\
         fact open_orders[json.id as string] = json as object from result order\nforget open_orders[call.args.id as string] from result cancel\n\n\
         policy SHELL_FROM_WEB \"hosts\" {\n  severity 0.5\n  on call fetch\n  deny unless friendly(args.host)\n}\n\n\
         policy RETRY_STORM \"retries\" {\n  severity 0.25\n  on call fetch\n  deny if count(call fetch) > 2\n}\n\n\
         policy RUDE \"rude\" {\n  severity 0.125\n  on user\n  flag if text mentions insult\n}\n\n\
         policy OPEN \"open orders alone\" {\n  severity 0.5\n  on call pay\n  deny unless known(open_orders[args.id as string])\n}\n",
    ),
    ("starter/keywords.yaml", "categories:\n  insult: {terms: [oaf]}\n  unused: {terms: [never]}\n"),
    ("starter/reward.yaml", "discount: [1, 0.25]\n"),
    (
        "starter/tests/t.yaml",
        "tests:\n  - name: rude\n    messages: [{user: you oaf}]\n    expect: {signals: {RUDE: [0]}}\n",
    ),
];

fn folder(files: &[Files<'_>]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files.iter().copied().flatten() {
        write(dir.path(), path, text);
    }
    dir
}

fn write(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn manifest(name: &str, version: &str, more: &str) -> String {
    format!("name: {name}\nversion: {version}\nformat: 1\n{more}")
}

/// A pack that must load, without a warning.
fn usable(loaded: Loaded<Arc<Pack>>) -> Arc<Pack> {
    let told = loaded.diagnostics.render(&loaded.sources, probity::diag::Style::Plain);
    assert!(loaded.diagnostics.is_empty(), "{told}");
    loaded.result.unwrap()
}

fn policies(pack: &Pack) -> Vec<String> {
    let mut ids: Vec<String> = pack.policies().map(|p| p.id.to_string()).collect();
    ids.sort();
    ids
}

fn errors(found: &Diagnostics) -> Vec<Code> {
    found.sorted().iter().filter(|d| d.severity == Severity::Error).map(|d| d.code).collect()
}

/// The pack `shop`, which extends `starter` and says something of its own.
const SHOP: Files<'_> = &[
    (
        "shop/pack.yaml",
        "name: shop\nversion: 0.1.0\nformat: 1\nextends:\n  - pack: starter@^1\n    \
         override: [allowed_hosts, RUDE, insult, open_orders]\n    without: [RETRY_STORM]\nlimits: {look_back: 50}\nepisode: {items: 7}\n",
    ),
    (
        "shop/policies/shop.policy",
        "set allowed_hosts = {\"shop.example\"}\n\n\
         fact open_orders[json.number as string] = json as object from result order\n\n\
         policy RUDE \"ruder\" {\n  severity 1\n  on user\n  flag if text mentions insult\n}\n\n\
         policy LIMIT \"a limit\" {\n  severity 0.5\n  on call pay\n  deny if args.amount > 100 or not friendly(args.host)\n}\n",
    ),
    ("shop/keywords.yaml", "categories:\n  insult: {terms: [lout]}\n"),
    (
        "shop/tests/t.yaml",
        "tests:\n  - name: its own host\n    messages:\n      - {user: you lout}\n      - call: {fetch: {host: shop.example}}\n      \
         - call: {pay: {host: shop.example, amount: 200, id: \"7\"}}\n    \
         expect:\n      hits: {LIMIT: [2], OPEN: [2]}\n      signals: {RUDE: [0]}\n",
    ),
];

/// The same by hand.
const FLAT: Files<'_> = &[
    (
        "flat/pack.yaml",
        "name: shop\nversion: 9.9.9\nformat: 1\non_undecided: deny\nclock: {fixed: \"2026-01-01T00:00:00Z\"}\n\
         limits: {look_back: 50, tokens: 1000}\nepisode: {auditor_sees: total, messages: 9, items: 7}\n",
    ),
    (
        "flat/policies/all.policy",
        "set allowed_hosts = {\"shop.example\"}\n\nset unused_here = {1}\n\n\
         def friendly(host) = host in allowed_hosts\n\n\
         fact open_orders[json.number as string] = json as object from result order\n\n\
         policy SHELL_FROM_WEB \"hosts\" {\n  severity 0.5\n  on call fetch\n  deny unless friendly(args.host)\n}\n\n\
         policy OPEN \"open orders alone\" {\n  severity 0.5\n  on call pay\n  deny unless known(open_orders[args.id as string])\n}\n\n\
         policy RUDE \"ruder\" {\n  severity 1\n  on user\n  flag if text mentions insult\n}\n\n\
         policy LIMIT \"a limit\" {\n  severity 0.5\n  on call pay\n  deny if args.amount > 100 or not friendly(args.host)\n}\n",
    ),
    ("flat/keywords.yaml", "categories:\n  unused: {terms: [never]}\n  insult: {terms: [lout]}\n"),
    ("flat/reward.yaml", "discount: [1, 0.25]\n"),
];

#[test]
fn a_pack_that_extends_means_what_the_same_pack_means_that_is_written_out() {
    let dir = folder(&[STARTER, SHOP, FLAT]);
    let shop = usable(load_pack(&dir.path().join("shop")));
    assert_eq!(policies(&shop), ["LIMIT", "OPEN", "RUDE", "SHELL_FROM_WEB"]);
    let flat = load_pack(&dir.path().join("flat")).result.unwrap();
    assert_eq!(shop.digest(), flat.digest());
    let between = diff(&flat, &shop);
    assert!(!between.meaning_changed && between.declarations.is_empty(), "{between:#?}");
    assert!(between.policies.is_empty(), "{:#?}", between.policies);
    let only_in_one: Vec<&str> = between.settings.iter().map(|setting| setting.at.as_str()).collect();
    assert!(only_in_one.iter().all(|at| at.starts_with("extends[0]")), "{only_in_one:?}");
    // Each part of its own that is taken away means something else.
    for (from, to) in [
        ("override: [allowed_hosts, ", "override: ["),
        ("without: [RETRY_STORM]", "without: [OPEN]"),
        ("{look_back: 50}", "{look_back: 51}"),
        ("{items: 7}", "{items: 8}"),
        ("starter@^1", "starter@^2"),
    ] {
        let text = SHOP[0].1.replace(from, to);
        assert_ne!(text, SHOP[0].1);
        write(dir.path(), "shop/pack.yaml", &text);
        let changed = load_pack(&dir.path().join("shop")).result;
        assert!(changed.is_none_or(|changed| changed.digest() != flat.digest()), "{from} -> {to}");
    }
}

#[test]
fn the_tests_of_a_pack_run_over_the_whole_and_those_of_its_base_do_not() {
    let dir = folder(&[STARTER, SHOP]);
    let shop = usable(load_pack(&dir.path().join("shop")));
    let report = run_tests(&shop);
    assert_eq!(report.results.len(), 1);
    assert!(report.results.iter().all(|result| result.faults.is_empty()), "{:#?}", report.results);
    // `SHELL_FROM_WEB` of the base fires in no test of this pack, and that is nothing to warn of here.
    assert_eq!(report.never_fired.iter().map(ToString::to_string).collect::<Vec<_>>(), ["SHELL_FROM_WEB"]);
    assert_eq!(check_tests(&shop), []);
    let warned = |pack: &Arc<Pack>| Coverage::new(Arc::clone(pack)).warnings().len();
    assert_eq!(warned(&shop), 2, "its own two policies, about no event of no episode");
    // The base is told of its own affairs.
    let base = load_pack(&dir.path().join("starter"));
    let codes: Vec<Code> = base.diagnostics.sorted().iter().map(|d| d.code).collect();
    assert_eq!(codes, [Code::Unused, Code::Unused]);
    assert_eq!(check_tests(&base.result.unwrap()).len(), 3);
}

#[test]
fn settings_are_those_of_the_base_where_the_pack_says_nothing_and_what_a_pack_is_never_is() {
    let dir = folder(&[STARTER, SHOP]);
    let shop = usable(load_pack(&dir.path().join("shop")));
    assert_eq!((shop.name().as_ref(), shop.version().to_string().as_str(), shop.description()), ("shop", "0.1.0", ""));
    assert_eq!(shop.calibration().word(), "UNCALIBRATED");
    assert_eq!(shop.on_undecided(), Gate::Deny);
    assert_eq!((shop.limits().get(Limit::LookBack), shop.limits().get(Limit::Tokens)), (50, 1000));
    let episode = shop.episode();
    assert_eq!((episode.auditor_sees, episode.messages, episode.items), (AuditorSees::Total, 9, 7));
    // A file of settings is taken as a whole, or not at all.
    write(dir.path(), "shop/reward.yaml", "severity: {min: 0, max: 1}\n");
    let own = usable(load_pack(&dir.path().join("shop")));
    assert_eq!(own.said().values["reward.yaml"].keys().collect::<Vec<_>>(), ["severity.max", "severity.min"]);
    assert_eq!(shop.said().values["reward.yaml"].len(), 2);
    assert_ne!(own.digest(), shop.digest());
}

#[test]
fn each_shipped_pack_means_the_same_to_one_that_extends_it_and_says_no_more() {
    let mut compared = 0;
    for entry in fs::read_dir("rules").unwrap() {
        let pack = entry.unwrap().path();
        let Some(base) = load_pack(&pack).result else { continue };
        let dir = tempfile::tempdir().unwrap();
        copy(&pack, &dir.path().join("base"));
        let mut text = manifest("heir", "1.0.0", &format!("extends: [{}]\n", base.name()));
        if let probity::pack::Calibration::Calibrated { dataset, date } = base.calibration() {
            text.push_str(&format!("calibration: {{status: CALIBRATED, dataset: {dataset:?}, date: {date:?}}}\n"));
        }
        write(dir.path(), "heir/pack.yaml", &text);
        let heir = usable(load_pack(&dir.path().join("heir")));
        assert_eq!(policies(&heir), policies(&base));
        // Under the name of its heir the base is the same.
        let path = dir.path().join("base/pack.yaml");
        let own = fs::read_to_string(&path).unwrap();
        fs::write(&path, own.replace(&format!("name: {}\n", base.name()), "name: heir\n")).unwrap();
        let renamed = load_pack(&dir.path().join("base")).result.unwrap();
        assert_eq!((renamed.name(), renamed.digest()), (heir.name(), heir.digest()), "{}", base.name());
        compared += 1;
    }
    assert!(compared >= 3, "{compared}");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, to).unwrap();
        }
    }
}

#[test]
fn the_highest_version_that_fits_is_extended() {
    let dir = tempfile::tempdir().unwrap();
    let policy = |id: &str| format!("policy {id} \"p\" {{ severity 1 on call {id} deny if true }}\n");
    for (folder, version, id) in
        [("a", "1.0.0", "A"), ("b", "1.10.0", "B"), ("c", "1.9.0", "C"), ("d", "2.0.0-rc.1", "D")]
    {
        write(dir.path(), &format!("{folder}/pack.yaml"), &manifest("money", version, ""));
        write(dir.path(), &format!("{folder}/policies/p.policy"), &policy(id));
    }
    for (asked, expected) in [
        ("money", "B"),
        ("money@1", "B"),
        ("money@<1.10", "C"),
        ("money@1.0.0", "A"),
        ("money@>=2.0.0-rc", "D"),
        ("money@2.0.0-rc.1", "D"),
    ] {
        write(dir.path(), "shop/pack.yaml", &manifest("shop", "1.0.0", &format!("extends: [\"{asked}\"]\n")));
        assert_eq!(policies(&usable(load_pack(&dir.path().join("shop")))), [expected], "{asked}");
    }
    // A later version of a pack may build on an earlier one.
    write(dir.path(), "next/pack.yaml", &manifest("money", "3.0.0", "extends: [money@^1]\n"));
    assert_eq!(policies(&usable(load_pack(&dir.path().join("next")))), ["B"]);
    write(dir.path(), "next/pack.yaml", &manifest("money", "3.0.0", "extends: [money]\n"));
    assert_eq!(errors(&load_pack(&dir.path().join("next")).diagnostics), [Code::ExtendsItself]);
}

/// `bottom`, two packs that extend it, and one that extends both.
fn diamond(left: &str, right: &str, top: &str, policy: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let one = |id: &str, title: &str| format!("policy {id} \"{title}\" {{ severity 1 on call {id} deny if true }}\n");
    write(dir.path(), "bottom/pack.yaml", &manifest("bottom", "1.0.0", "limits: {tokens: 9}\n"));
    write(dir.path(), "bottom/policies/p.policy", &(one("X", "bottom") + &one("Y", "bottom")));
    write(dir.path(), "bottom/reward.yaml", "discount: [1]\n");
    write(dir.path(), "left/pack.yaml", &manifest("left", "1.0.0", left));
    write(
        dir.path(),
        "left/policies/p.policy",
        &if left.contains("override") { one("X", "left") } else { one("L", "left") },
    );
    write(dir.path(), "right/pack.yaml", &manifest("right", "1.0.0", right));
    write(dir.path(), "right/policies/p.policy", &one("R", "right"));
    write(dir.path(), "top/pack.yaml", &manifest("top", "1.0.0", top));
    if !policy.is_empty() {
        write(dir.path(), "top/policies/p.policy", &one(policy, "top"));
    }
    dir
}

fn titles(pack: &Pack) -> Vec<String> {
    let mut titles: Vec<String> = pack.policies().map(|p| format!("{} {}", p.id, p.title)).collect();
    titles.sort();
    titles
}

#[test]
fn a_pack_that_is_reached_twice_counts_once() {
    let both = "extends: [left, right]\n";
    let dir = diamond("extends: [bottom]\n", "extends: [bottom]\n", both, "");
    let top = usable(load_pack(&dir.path().join("top")));
    assert_eq!(titles(&top), ["L left", "R right", "X bottom", "Y bottom"]);
    assert_eq!(top.limits().get(Limit::Tokens), 9);

    let overriding = "extends: [{pack: bottom, override: [X], without: [Y]}]\n";
    let dir = diamond(overriding, "extends: [bottom]\n", both, "");
    let top = usable(load_pack(&dir.path().join("top")));
    assert_eq!(titles(&top), ["R right", "X left"], "what one path leaves out is out");

    let third = "extends: [{pack: left, override: [X]}, right]\n";
    let dir = diamond(overriding, "extends: [bottom]\n", third, "X");
    assert_eq!(titles(&usable(load_pack(&dir.path().join("top")))), ["R right", "X top"]);

    let dir =
        diamond("extends: [bottom]\n", "extends: [bottom]\n", "extends: [{pack: right, override: [R]}, left]\n", "R");
    assert_eq!(titles(&usable(load_pack(&dir.path().join("top")))), ["L left", "R top", "X bottom", "Y bottom"]);
}

#[test]
fn a_rules_folder_tells_each_mistake_once_and_one_word_of_it_to_each_pack_that_is_hit() {
    let dir = folder(&[STARTER, SHOP]);
    write(dir.path(), "broken/pack.yaml", &manifest("broken", "1.0.0", "clok: 1\n"));
    write(
        dir.path(),
        "broken/policies/p.policy",
        "policy P \"p\" {\n  severity 1\n  on call x\n  deny if nothing_such\n}\n",
    );
    write(dir.path(), "heir/pack.yaml", &manifest("heir", "1.0.0", "extends: [broken]\n"));
    write(
        dir.path(),
        "heir/policies/p.policy",
        "policy Q \"q\" {\n  severity 1\n  on call x\n  deny if nothing_either\n}\n",
    );
    write(dir.path(), "second/pack.yaml", &manifest("second", "1.0.0", "extends: [heir]\n"));
    let loaded = load_rules(dir.path());
    let mut found = errors(&loaded.diagnostics);
    found.sort();
    assert!(loaded.result.is_none());
    assert_eq!(found, [Code::BaseBroken, Code::BaseBroken, Code::KeyUnknown, Code::UnknownName]);
    // Mended, the next mistake is told, again at once and once.
    write(dir.path(), "broken/pack.yaml", &manifest("broken", "1.0.0", ""));
    let mut found = errors(&load_rules(dir.path()).diagnostics);
    found.sort();
    assert_eq!(found, [Code::BaseBroken, Code::BaseBroken, Code::UnknownName, Code::UnknownName]);
}

#[test]
fn packs_in_a_circle_and_a_line_that_is_too_long_are_told_where_they_can_be_mended() {
    let dir = tempfile::tempdir().unwrap();
    let extends = |name: &str, base: &str| {
        write(dir.path(), &format!("{name}/pack.yaml"), &manifest(name, "1.0.0", &format!("extends: [{base}]\n")));
    };
    let one = |name: &str| errors(&load_pack(&dir.path().join(name)).diagnostics);
    extends("a", "b");
    extends("b", "c");
    extends("c", "a");
    extends("outside", "a");
    assert_eq!(one("a"), [Code::ExtendsItself]);
    assert_eq!(one("c"), [Code::ExtendsItself]);
    assert_eq!(one("outside"), [Code::BaseBroken]);
    let mut all = errors(&load_rules(dir.path()).diagnostics);
    all.sort();
    assert_eq!(all, [Code::BaseBroken, Code::ExtendsItself, Code::ExtendsItself, Code::ExtendsItself]);
    extends("self", "self");
    assert_eq!(one("self"), [Code::ExtendsItself]);

    for n in 0..150 {
        extends(&format!("p{n}"), &format!("p{}", n + 1));
    }
    write(dir.path(), "p150/pack.yaml", &manifest("p150", "1.0.0", ""));
    assert_eq!(one("p142"), [], "eight below it");
    assert_eq!(one("p141"), [Code::ExtendsDeep]);
    assert_eq!(one("p140"), [Code::BaseBroken]);
    assert_eq!(one("p0"), [Code::BaseBroken]);
    let all = errors(&load_rules(dir.path()).diagnostics);
    assert_eq!(all.iter().filter(|code| **code == Code::ExtendsDeep).count(), 1);
}

#[test]
fn a_file_of_the_pack_that_cannot_be_read_is_told_alone() {
    let torn = SHOP[0].1.replace("name: shop", "name: [shop");
    let damaged = SHOP[1].1.replace("{\"shop.example\"}", "}");
    for (path, text, code) in [
        ("shop/keywords.yaml", b"categories: [".as_slice(), Code::YamlSyntax),
        ("shop/policies/shop.policy", b"\xff", Code::FileNotUtf8),
        ("shop/policies/shop.policy", damaged.as_bytes(), Code::Syntax),
        ("shop/pack.yaml", torn.as_bytes(), Code::YamlSyntax),
    ] {
        let dir = folder(&[STARTER, SHOP]);
        fs::remove_file(dir.path().join("shop/tests/t.yaml")).unwrap();
        fs::write(dir.path().join(path), text).unwrap();
        let loaded = load_pack(&dir.path().join("shop"));
        let told = loaded.diagnostics.render(&loaded.sources, probity::diag::Style::Plain);
        assert_eq!(errors(&loaded.diagnostics), [code], "{path}\n{told}");
    }
}

/// A rules folder that is in memory.
fn in_memory(dir: &str, files: impl Iterator<Item = (PathBuf, Vec<u8>)>) -> RuleFiles {
    RuleFiles::of_commit(Path::new(dir), Ok(GitFiles { commit: "c".to_owned(), files: files.collect() }))
}

#[test]
fn what_is_kept_of_a_pack_holds_what_it_extends() {
    let dir = folder(&[STARTER, SHOP]);
    write(dir.path(), "branch/pack.yaml", &manifest("branch", "2.0.0", "extends: [shop]\n"));
    write(dir.path(), "other/pack.yaml", &manifest("other", "1.0.0", ""));
    let files = RuleFiles::read(dir.path());
    let set = load_rule_files(files.clone()).result.unwrap();
    let branch = set.get("branch").unwrap();
    let kept = files.pack(&dir.path().join("branch")).unwrap().without_tests();
    let read = PackFiles::from_bytes(&kept.to_bytes()).unwrap();
    assert_eq!(read, kept);
    let paths: Vec<&str> = read.files().keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(
        paths,
        [
            ".bases/shop@0.1.0/keywords.yaml",
            ".bases/shop@0.1.0/pack.yaml",
            ".bases/shop@0.1.0/policies/shop.policy",
            ".bases/starter@1.2.0/keywords.yaml",
            ".bases/starter@1.2.0/pack.yaml",
            ".bases/starter@1.2.0/policies/web.policy",
            ".bases/starter@1.2.0/reward.yaml",
            "pack.yaml",
        ]
    );
    // By itself, and among packs of which one has changed: it is what it was.
    let again = usable(load_pack_files(Path::new("branch"), read.files()));
    assert_eq!(again.digest(), branch.digest());
    let changed = BTreeMap::from([(PathBuf::from("pack.yaml"), manifest("shop", "0.1.0", "").into_bytes())]);
    let changed = in_memory("kept", changed.into_iter().map(|(path, bytes)| (Path::new("shop").join(path), bytes)));
    let changed = changed.pack(Path::new("kept/shop")).unwrap();
    let beside = || [("branch".to_owned(), read.clone()), ("shop".to_owned(), changed.clone())];
    let among = RuleFiles::of_packs(Path::new("kept"), beside());
    assert_eq!(load_rule_files(among.clone()).result.unwrap().get("branch").unwrap().digest(), branch.digest());
    assert_eq!(among.pack(Path::new("kept/branch")), Some(read.clone()), "kept again, it is the same");
    // What is kept counts, for what it means and for whether it is read anew.
    let mut other = read.files().clone();
    other.insert(PathBuf::from(".bases/starter@1.2.0/reward.yaml"), b"discount: [1]\n".to_vec());
    assert_ne!(load_pack_files(Path::new("branch"), &other).result.unwrap().digest(), branch.digest());
}

#[test]
fn one_pack_of_several_in_memory_is_read_with_those_beside_it() {
    let files = STARTER.iter().chain(SHOP).map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec()));
    let files = in_memory("memory", files);
    let dir = folder(&[STARTER, SHOP]);
    let shop = usable(load_pack_of(files, Path::new("memory/shop")));
    assert_eq!(shop.digest(), usable(load_pack(&dir.path().join("shop"))).digest());
    // A pack alone in memory has none beside it.
    let alone = SHOP.iter().map(|(path, text)| (path.strip_prefix("shop/").unwrap(), text));
    let alone = alone.map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec())).collect();
    assert_eq!(errors(&load_pack_files(Path::new("shop"), &alone).diagnostics), [Code::BaseMissing]);
}

#[cfg(unix)]
#[test]
fn links_out_of_the_folder_that_holds_the_packs_are_not_followed() {
    let outside = folder(&[STARTER]);
    let dir = folder(&[SHOP]);
    std::os::unix::fs::symlink(outside.path().join("starter"), dir.path().join("starter")).unwrap();
    assert_eq!(errors(&load_pack(&dir.path().join("shop")).diagnostics), [Code::BaseMissing]);
    // Within the folder they are.
    fs::remove_file(dir.path().join("starter")).unwrap();
    copy(&outside.path().join("starter"), &dir.path().join(".kept/starter"));
    std::os::unix::fs::symlink(".kept/starter", dir.path().join("starter")).unwrap();
    assert!(load_pack(&dir.path().join("shop")).result.is_some());
}

#[test]
fn a_changed_base_is_a_change_of_what_extends_it() {
    let dir = folder(&[STARTER, SHOP]);
    let before = usable(load_pack(&dir.path().join("shop")));
    let text = STARTER[1].1.replace("severity 0.5\n  on call fetch", "severity 0.75\n  on call fetch");
    write(dir.path(), "starter/policies/web.policy", &text);
    let after = usable(load_pack(&dir.path().join("shop")));
    assert_eq!(check_version(&before, &after).iter().map(|d| d.code).collect::<Vec<_>>(), [Code::VersionSame]);
    let between = diff(&before, &after);
    let changed: Vec<_> = between.policies.iter().map(|p| (p.policy.as_str(), p.change)).collect();
    assert_eq!(changed, [("SHELL_FROM_WEB", Change::Changed)]);
    // What is overridden or left out may change as it likes.
    let text =
        STARTER[1].1.replace("count(call fetch) > 2", "count(call fetch) > 3").replace("corp.example", "x.example");
    write(dir.path(), "starter/policies/web.policy", &text);
    let after = usable(load_pack(&dir.path().join("shop")));
    assert_eq!(after.digest(), before.digest());
}
