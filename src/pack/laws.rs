//! What must hold for whole packs: what is read, what is refused, and that nothing panics.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use proptest::prelude::*;

use super::{node::Kind, *};
use crate::{
    diag::{Code, Diagnostics, Severity, Sources, Style},
    keywords::{MatchMode, Step},
    model::{Gate, Num, Value, json},
};

const MANIFEST: &str = "name: shop\nversion: 1.2.0\nformat: 1\n";

fn files(all: &[(&str, &str)]) -> BTreeMap<PathBuf, Vec<u8>> {
    all.iter().map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec())).collect()
}

fn read(all: &[(&str, &str)]) -> (PackSources, Diagnostics) {
    read_pack_files(Path::new("shop"), &files(all))
}

/// Codes, and the source text under each caret.
fn told(sources: &Sources, diags: &Diagnostics) -> Vec<(Code, String)> {
    diags
        .sorted()
        .iter()
        .map(|d| (d.code, sources.get(d.primary.span.file).unwrap().slice(d.primary.span).to_owned()))
        .collect()
}

fn problems(all: &[(&str, &str)]) -> Vec<(Code, String)> {
    let (read, diags) = read(all);
    told(&read.sources, &diags)
}

fn in_manifest(more: &str) -> Vec<(Code, String)> {
    problems(&[("pack.yaml", &format!("{MANIFEST}{more}"))])
}

fn num(text: &str) -> Num {
    text.parse().unwrap()
}

#[test]
fn a_whole_pack_is_read() {
    let (read, diags) = read(&[
        (
            "pack.yaml",
            "name: shop\nversion: 1.2.0-rc.1\nformat: 1\ndescription: >\n  Rules of\n  a shop.\nclock:\n  fixed: 2024-05-15T15:00:00\n\
             errors: {prefix: \"Error\"}\non_undecided: deny\ncalibration: {status: CALIBRATED, dataset: shop-7, date: 2026-01-31}\nextends: []\n",
        ),
        (
            "keywords.yaml",
            "categories:\n  yes_words:\n    normalize: [ascii_case, nfkc]\n    terms: [yes, \"no\", go  ahead]\n    patterns: ['\\bok(ay)?\\b']\n\
             \x20   except: [not yes]\n  any:\n    match: substring\n    terms: [x]\n",
        ),
        ("reward.yaml", "severity: {min: 0.1, max: 1}\ndiscount: [1, 0.30000000000000000001]\n"),
        ("policies/b.policy", "policy B"),
        ("policies/a/c.policy", "policy C"),
        ("tests/t.yaml", "tests:\n  - name: one\n    messages: [{user: hi}]\n    expect: {}\n"),
        ("README.md", "notes"),
    ]);
    assert_eq!(told(&read.sources, &diags), []);
    let pack = read.pack;
    assert_eq!(pack.name.value, "shop");
    assert_eq!(pack.version.to_string(), "1.2.0-rc.1");
    assert_eq!(pack.description, "Rules of a shop.");
    assert_eq!(pack.clock, Some(num("1715785200")));
    assert_eq!(pack.errors.prefix.as_deref(), Some("Error"));
    assert_eq!(pack.on_undecided, Gate::Deny);
    assert_eq!(pack.calibration, Calibration::Calibrated { dataset: "shop-7".into(), date: "2026-01-31".into() });
    let categories = pack.keywords.compiled.unwrap();
    let yes = categories.id("yes_words").unwrap();
    assert!(categories.mentions("OKAY", yes) && categories.mentions("go\nahead", yes));
    assert!(!categories.mentions("not yes", yes));
    assert_eq!(pack.keywords.specs[1].value.mode, MatchMode::Substring);
    assert!(pack.keywords.specs[0].value.steps.has(Step::Nfkc));
    assert_eq!(pack.reward.severity_min, num("0.1"));
    assert_eq!(pack.reward.severity_max, Some(Num::ONE));
    assert_eq!(pack.reward.discount.values(), [Num::ONE, num("0.30000000000000000001")]);
    assert_eq!(pack.reward.discount.of(9), num("0.30000000000000000001"));
    let policies: Vec<&str> = pack.policies.iter().map(|id| read.sources.text(*id)).collect();
    assert_eq!(policies, ["policy C", "policy B"]);
    assert_eq!(pack.tests.len(), 1);
}

#[test]
fn what_a_pack_leaves_out_is_at_its_default() {
    let (read, diags) = read(&[("pack.yaml", MANIFEST)]);
    assert!(diags.is_empty());
    let pack = read.pack;
    assert_eq!((pack.clock, pack.errors, pack.on_undecided), (None, ErrorRule::default(), Gate::Review));
    assert_eq!(pack.calibration, Calibration::Uncalibrated);
    assert!(pack.keywords.compiled.is_some_and(|c| c.iter().len() == 0));
    let shares: Vec<String> = (0..4).map(|n| pack.reward.discount.of(n).to_string()).collect();
    assert_eq!(shares, ["1", "0.5", "0", "0"]);
    assert_eq!((pack.reward.severity_min, pack.reward.severity_max), (Num::ZERO, None));
}

#[test]
fn all_mistakes_come_at_once_each_at_its_place() {
    let found = problems(&[
        ("pack.yaml", "nmae: shop\nversion: 1.2\nformat: two\non_undecided: alow\nname: a b\nname: c\n"),
        (
            "keywords.yaml",
            "categories:\n  a: {terms: []}\n  b: {terms: [1, ok], patterns: ['(']}\n  c-d: {terms: [x], normalise: []}\n",
        ),
        ("reward.yaml", "discount: [1, -0.5, .nan, 2, 0x1, '1']\n"),
    ]);
    let expected = [
        (Code::Empty, "[]"),
        (Code::WrongType, "1"),
        (Code::Pattern, "'('"),
        (Code::WrongValue, "c-d"),
        (Code::KeyUnknown, "normalise"),
        (Code::KeyUnknown, "nmae"),
        (Code::WrongType, "1.2"),
        (Code::WrongType, "two"),
        (Code::WrongValue, "alow"),
        (Code::WrongValue, "a b"),
        (Code::KeyTwice, "name"),
        (Code::NumberRange, "-0.5"),
        (Code::NumberForm, ".nan"),
        (Code::NumberRange, "2"),
        (Code::NumberForm, "0x1"),
        (Code::WrongType, "'1'"),
    ];
    assert_eq!(found, expected.map(|(code, at)| (code, at.to_owned())));
}

#[test]
fn parts_of_yaml_that_packs_do_not_use_are_refused() {
    for (yaml, at) in [
        ("description: &a text\nclock: {fixed: 2024-01-01T00:00:00}\n", "&a"),
        ("description: !!str 1\n", "!!str"),
        ("errors: {<<: {prefix: x}, prefix: y}\n", "<<"),
        ("---\nname: x\n", "---"),
    ] {
        assert_eq!(in_manifest(yaml)[0], (Code::YamlFeature, at.to_owned()), "{yaml}");
    }
    let two = problems(&[("pack.yaml", &format!("---\n{MANIFEST}---\na: 1\n"))]);
    assert_eq!(two, [(Code::YamlFeature, "---".to_owned())]);
    let alias = in_manifest("description: &a text\nextends: *a\n");
    assert_eq!(alias[1], (Code::YamlFeature, "*a".to_owned()));
}

#[test]
fn a_small_file_does_not_unfold_into_a_large_one() {
    let mut bomb = String::from("a0: &a0 [x, x]\n");
    for i in 1..40 {
        bomb.push_str(&format!("a{i}: &a{i} [*a{0}, *a{0}]\n", i - 1));
    }
    assert!(in_manifest(&bomb).iter().all(|(code, _)| matches!(code, Code::YamlFeature | Code::KeyUnknown)));
    let deep = |levels: usize| format!("description: {}{}\n", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(in_manifest(&deep(100))[0].0, Code::YamlDepth);
    assert_eq!(in_manifest(&format!("description:\n{}", "- ".repeat(100)))[0].0, Code::YamlDepth);
    assert!(!in_manifest(&deep(100_000)).is_empty());
    let large = "x".repeat(super::folder::MAX_FILE_BYTES + 1);
    let (_, diags) = read(&[("pack.yaml", MANIFEST), ("keywords.yaml", &large)]);
    assert_eq!(diags.sorted()[0].code, Code::FileTooLarge);
}

#[test]
fn documents_that_two_readers_understand_differently_are_refused() {
    for (text, at) in [("a\u{2028}b", "\u{2028}"), ("a\u{85}b", "\u{85}"), ("'a\u{85}b'", "\u{85}")] {
        let found = in_manifest(&format!("description: {text}\n"));
        assert_eq!(found, [(Code::YamlReadersDisagree, at.to_owned())], "{text:?}");
    }
    // In double quotes, as an escape, it is what it is.
    assert_eq!(in_manifest("description: \"a\\u2028b\"\n"), []);
}

#[test]
fn numbers_are_read_from_their_written_text() {
    let (read, diags) = read(&[
        ("pack.yaml", MANIFEST),
        (
            "tests/t.yaml",
            "tests:\n  - name: n\n    messages:\n      - raw: [0.1, 1e3, 12345678901234567890.123, 1.00000000000000000000000000000000000000001, -0]\n    expect: {}\n",
        ),
    ]);
    assert!(diags.is_empty());
    let expected =
        json::parse(b"[[0.1, 1e3, 12345678901234567890.123, 1.00000000000000000000000000000000000000001, -0]]")
            .unwrap();
    assert_eq!(read.pack.tests[0].messages, expected);
}

#[test]
fn a_byte_order_mark_is_a_warning_and_shifts_nothing() {
    let (read, diags) = read(&[("pack.yaml", "\u{feff}name: shop\nversion: 1.2.0\nformat: 2\n")]);
    let told = told(&read.sources, &diags);
    assert_eq!(told, [(Code::FileMark, String::new()), (Code::NotSupported, "2".to_owned())]);
    assert_eq!(diags.counts(), (1, 1));
}

#[test]
fn bytes_that_are_no_text_are_pointed_at() {
    let mut files = files(&[("pack.yaml", MANIFEST)]);
    files.insert(PathBuf::from("policies/a.policy"), b"policy\n\xff\xfe".to_vec());
    let (read, diags) = read_pack_files(Path::new("shop"), &files);
    let record = &diags.records(&read.sources)[0];
    assert_eq!((record.code, record.place.line, record.place.column), (Code::FileNotUtf8, 2, 1));
    assert!(read.pack.policies.is_empty() && !read.pack.complete);
}

#[test]
fn files_that_nothing_reads_are_named() {
    let (read, diags) = read(&[
        ("pack.yaml", MANIFEST),
        ("keyword.yaml", ""),
        ("policies/a.polcy", ""),
        ("old/a.policy", ""),
        ("old/b.policy", ""),
        (".cache/x", ""),
        ("tests/notes.md", ""),
    ]);
    let told: Vec<(Code, Severity, String, Option<String>)> =
        diags.records(&read.sources).into_iter().map(|r| (r.code, r.severity, r.place.file, r.help)).collect();
    let expected = [
        (Code::FileUnknown, Severity::Warning, "shop/keyword.yaml", "did you mean `keywords.yaml`?"),
        (Code::FileUnknown, Severity::Warning, "shop/old", "remove it, or give it a name that begins with a dot"),
        (Code::FileUnknown, Severity::Warning, "shop/policies/a.polcy", "files in `policies` end in `.policy`"),
    ];
    assert_eq!(told, expected.map(|(c, s, f, h)| (c, s, f.to_owned(), Some(h.to_owned()))));
}

/// The messages of a test, from the short form.
fn expand(items: &str) -> Value {
    let test = format!("tests:\n  - name: n\n    expect: {{}}\n    messages:\n{items}");
    let (read, diags) = read(&[("pack.yaml", MANIFEST), ("tests/t.yaml", &test)]);
    assert!(diags.is_empty(), "{}", diags.render(&read.sources, Style::Plain));
    read.pack.tests[0].messages.clone()
}

#[test]
fn the_short_form_of_messages_is_written_out() {
    let messages = expand(
        "
      - system: be kind
        time: 2024-05-15T15:00:00Z
      - user: [{type: text, text: hi}]
        time: 1.50
      - call: {pay: {amount: 1.10, to: \"bob\"}}
      - calls: [look, {pay: '[1'}, {tool: pay, args: {amount: 2}, id: call_1}, {tool: tool}, tool: {x: 1}]
        assistant: paying
      - result: {ok: true, n: 0.10}
      - result: plain text
        id: call_1
      - result:
      - role: assistant
        tool_calls: [{id: c9, function: {name: f, arguments: '{}'}}]
      - result: [1, 2]
        id: nobody
      - result: 7
      - result: false
      - raw: 42
      - call: ping
        id: z
",
    );
    let expected = r#"[
      {"role":"system","content":"be kind","time":"2024-05-15T15:00:00Z"},
      {"role":"user","content":[{"type":"text","text":"hi"}],"time":1.5},
      {"role":"assistant","content":null,"tool_calls":[
        {"id":"call_2","type":"function","function":{"name":"pay","arguments":{"amount":1.1,"to":"bob"}}}]},
      {"role":"assistant","content":"paying","tool_calls":[
        {"id":"call_3","type":"function","function":{"name":"look","arguments":{}}},
        {"id":"call_4","type":"function","function":{"name":"pay","arguments":"[1"}},
        {"id":"call_1","type":"function","function":{"name":"pay","arguments":{"amount":2}}},
        {"id":"call_5","type":"function","function":{"name":"tool","arguments":{}}},
        {"id":"call_6","type":"function","function":{"name":"tool","arguments":{"x":1}}}]},
      {"role":"tool","tool_call_id":"call_2","content":"{\"n\":0.1,\"ok\":true}"},
      {"role":"tool","tool_call_id":"call_1","content":"plain text"},
      {"role":"tool","tool_call_id":"call_3","content":""},
      {"role":"assistant","tool_calls":[{"id":"c9","function":{"name":"f","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"nobody","content":"[1,2]"},
      {"role":"tool","tool_call_id":"call_4","content":"7"},
      {"role":"tool","tool_call_id":"call_5","content":"false"},
      42,
      {"role":"assistant","content":null,"tool_calls":[
        {"id":"z","type":"function","function":{"name":"ping","arguments":{}}}]}
    ]"#;
    assert_eq!(messages, json::parse(expected.as_bytes()).unwrap());
}

#[test]
fn verdicts_of_a_test_have_a_short_form_too() {
    let test = "tests:\n  - name: n\n    messages: [{user: a}, {user: b}, {user: c}]\n    policies: [A, B]\n    expect:\n      \
                hits: [{policy: A, turn: 1}]\n      undecided: {A: [0, 2], B: 1}\n      malformed: 2\n";
    let (read, diags) = read(&[("pack.yaml", MANIFEST), ("tests/t.yaml", test)]);
    assert!(diags.is_empty(), "{}", diags.render(&read.sources, Style::Plain));
    let expect = &read.pack.tests[0].expect;
    let plain = |all: &[Expected]| all.iter().map(|e| (e.policy.clone(), e.turn)).collect::<Vec<_>>();
    assert_eq!(plain(&expect.hits), [("A".to_owned(), 1)]);
    assert_eq!(plain(&expect.undecided), [("A".to_owned(), 0), ("A".to_owned(), 2), ("B".to_owned(), 1)]);
    assert_eq!(expect.malformed[0].value, 2);
    assert_eq!(read.sources.get(expect.undecided[2].span.file).unwrap().slice(expect.undecided[2].span), "B: 1");
}

#[test]
fn mistakes_in_tests_are_pointed_at() {
    let in_test = |messages: &str, expect: &str| {
        let test = format!("tests:\n  - name: n\n    messages: {messages}\n    expect: {expect}\n");
        problems(&[("pack.yaml", MANIFEST), ("tests/t.yaml", &test)])
    };
    for (messages, expect, code, at) in [
        ("[{usr: hi}]", "{}", Code::KeyUnknown, "usr"),
        ("[{text: hi}]", "{}", Code::Message, "{text: hi}"),
        ("[hi]", "{}", Code::WrongType, "hi"),
        ("[{user: 1}]", "{}", Code::WrongType, "1"),
        ("[{user: a, result: b}]", "{}", Code::Message, "result"),
        ("[{call: f, calls: [g]}]", "{}", Code::Message, "calls"),
        ("[{result: b}]", "{}", Code::Message, "{result: b}"),
        ("[{call: {f: [1]}}]", "{}", Code::WrongType, "[1]"),
        ("[{call: {f: {a: .inf}}}]", "{}", Code::NumberForm, ".inf"),
        ("[{user: a, tme: 1}]", "{}", Code::KeyUnknown, "tme"),
        ("[{user: a}]", "{hits: {A: 1}}", Code::NumberRange, "1"),
        ("[{user: a}]", "{hits: {A: -1}}", Code::NumberRange, "-1"),
        ("[{user: a}]", "{hits: {A: [0, 0]}}", Code::NameTwice, "A: [0, 0"),
        ("[{user: a}]", "{hit: []}", Code::KeyUnknown, "hit"),
        ("[{user: a}]", "{hits: [{policy: A}]}", Code::KeyMissing, "{policy: A}"),
    ] {
        assert_eq!(in_test(messages, expect), [(code, at.to_owned())], "{messages} {expect}");
    }
}

#[test]
fn links_are_followed_inside_the_pack_only() {
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("pack");
    fs::create_dir_all(pack.join("policies")).unwrap();
    fs::create_dir_all(pack.join("..data")).unwrap();
    fs::write(pack.join("..data/pack.yaml"), MANIFEST).unwrap();
    fs::write(folder.path().join("secret.policy"), "secret").unwrap();
    std::os::unix::fs::symlink("..data/pack.yaml", pack.join("pack.yaml")).unwrap();
    std::os::unix::fs::symlink("../../secret.policy", pack.join("policies/a.policy")).unwrap();
    std::os::unix::fs::symlink("nowhere", pack.join("policies/b.policy")).unwrap();
    std::os::unix::fs::symlink("..", pack.join("policies/loop")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(pack.join("policies/c.policy")).unwrap();
    let (read, diags) = read_pack(&pack);
    assert_eq!(read.pack.name.value, "shop");
    assert!(read.pack.policies.is_empty());
    let mut codes: Vec<Code> = diags.sorted().iter().map(|d| d.code).collect();
    codes.dedup();
    assert!(codes.contains(&Code::LinkLeavesPack) && codes.contains(&Code::FileUnreadable), "{codes:?}");
    assert!(!diags.render(&read.sources, Style::Plain).contains("secret\n"));
}

#[test]
fn all_packs_of_a_rules_folder_are_read_and_names_are_theirs_alone() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("a/pack.yaml", MANIFEST);
    write("b/pack.yaml", MANIFEST);
    write("c/pack.yaml", "name: other\nversion: x\nformat: 1\n");
    write("README.md", "notes");
    write("stray.txt", "");
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("d")).unwrap();
    let (read, diags) = read_rules(folder.path());
    let names: Vec<&str> = read.packs.iter().map(|p| p.name.value.as_str()).collect();
    assert_eq!(names, ["shop", "shop", "other", "d"]);
    assert_eq!(
        told(&read.sources, &diags),
        [
            (Code::FileUnknown, String::new()),
            (Code::PackNameTwice, "shop".to_owned()),
            (Code::WrongValue, "x".to_owned()),
            (Code::LinkLeavesPack, String::new()),
        ]
    );
    let (_, diags) = read_rules(&folder.path().join("a"));
    assert_eq!(diags.sorted()[0].code, Code::NoPack);
    let (_, diags) = read_rules(&folder.path().join("gone"));
    assert_eq!(diags.sorted()[0].code, Code::FileUnreadable);
    let (_, diags) = read_pack(&folder.path().join("gone"));
    assert_eq!(diags.counts(), (1, 0));
}

/// Text that is near enough to YAML to get far.
fn yaml_like() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a",
        "name",
        "tests",
        "categories",
        "terms",
        "messages",
        "user",
        ": ",
        ":",
        "\n",
        "\n  ",
        "\n    - ",
        "- ",
        "? ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        "'",
        "\"",
        "#",
        "|",
        ">",
        "|-\n",
        "&a ",
        "*a",
        "!!str ",
        "<<",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "1",
        "0.5",
        ".nan",
        "0x1f",
        "null",
        "true",
        "\t",
        "\r\n",
        "é",
        "\u{feff}",
        "\u{85}",
        "\u{2028}",
        "\\",
        "\u{0}",
        "~",
        "@",
        "`",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|all| all.concat())
}

const PATHS: [&str; 5] = ["pack.yaml", "keywords.yaml", "reward.yaml", "tests/t.yaml", "policies/a.policy"];

fn never_panics(path: &str, bytes: Vec<u8>) {
    let mut files = files(&[("pack.yaml", MANIFEST)]);
    files.insert(PathBuf::from(path), bytes);
    let (read, diags) = read_pack_files(Path::new("p"), &files);
    let shown = diags.render(&read.sources, Style::Plain);
    assert_eq!(shown.is_empty(), diags.is_empty());
    diags.records(&read.sources);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn random_bytes_never_panic(path in prop::sample::select(PATHS.to_vec()), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        never_panics(path, bytes);
    }

    #[test]
    fn text_like_yaml_never_panics(path in prop::sample::select(PATHS.to_vec()), text in yaml_like()) {
        never_panics(path, text.into_bytes());
    }

    #[test]
    fn a_damaged_pack_never_panics(at in 0usize..400, piece in yaml_like(), cut in 0usize..20) {
        let test = "tests:\n  - name: n\n    policies: [A]\n    messages:\n      - user: hi\n      - call: {f: {a: 1}}\n      - result: {b: [1, 2]}\n    \
                    expect:\n      hits: [{policy: A, turn: 1}]\n      malformed: [2]\n";
        let at = at.min(test.len());
        let end = (at + cut).min(test.len());
        never_panics("tests/t.yaml", format!("{}{piece}{}", &test[..at], &test[end..]).into_bytes());
    }

    #[test]
    fn spans_hold_what_was_read(text in yaml_like()) {
        let mut sources = Sources::new();
        let plain = text.trim_start_matches('\u{feff}');
        let file = sources.add("t.yaml", plain);
        let mut diags = Diagnostics::new();
        let Some(root) = yaml::parse(file, sources.text(file), &mut diags) else { return Ok(()) };
        let mut rest = vec![&root];
        while let Some(node) = rest.pop() {
            let written = sources.get(file).unwrap().slice(node.span);
            match &node.kind {
                Kind::Number(number) if diags.is_empty() => prop_assert_eq!(written, number),
                Kind::Bool(b) if diags.is_empty() => prop_assert_eq!(written.to_lowercase(), b.to_string()),
                Kind::Text(t) if diags.is_empty() && !t.contains('\n') && !written.contains(['\n', '\r', '\\', '\'', '|', '>', '"', '\u{85}', '\u{2028}']) => {
                    prop_assert_eq!(written, t);
                }
                Kind::List(items) => rest.extend(items),
                Kind::Map(entries) => {
                    for entry in entries {
                        let key = sources.get(file).unwrap().slice(entry.key_span);
                        prop_assert!(key.contains(&entry.key) || key.contains(['\n', '\\', '\'', '"', '|', '>', '\r']), "{key:?} {:?}", entry.key);
                        rest.push(&entry.value);
                    }
                }
                _ => {}
            }
        }
    }
}
