//! The command line as scripts see it: the real binary, its output, its exit codes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod command;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use command::{Ran, probity as probity_with};
use serde_json::{Value, json};

fn probity(args: &[&str]) -> Ran {
    probity_with(args, "")
}

/// A folder of packs with one pack in it.
struct Rules(tempfile::TempDir);

const MANIFEST: &str = "name: desk\nversion: 1.2.3\nformat: 1\n";
const POLICY: &str = r#"
policy P1 "no large payments" {
  severity 0.9
  on call pay
  deny if args.amount > 100
  message "{args.amount} to {args.to}"
}
policy R1 "who is that?" { severity 0 on call pay review unless args.to in { "anna", "bert" } }
policy S1 "be kind" { severity 0.4 judge "Is the agent kind?" }
"#;
const TESTS: &str = "
tests:
  - name: large payments
    messages:
      - call: {pay: {amount: 101, to: anna}}
      - call: {pay: {amount: 100, to: bert}}
    expect:
      hits: {P1: 0}
";

impl Rules {
    fn new(files: &[(&str, &str)]) -> Rules {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join("desk").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Rules(folder)
    }

    fn desk() -> Rules {
        Rules::new(&[("pack.yaml", MANIFEST), ("policies/p.policy", POLICY), ("tests/p.yaml", TESTS)])
    }

    fn broken() -> Rules {
        let policy = "policy P1 \"x\" { severity 1 on call pay deny if amount > 1 }\n";
        Rules::new(&[("pack.yaml", &format!("{MANIFEST}nmae: x\n")), ("policies/p.policy", policy)])
    }

    fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }
}

fn pay(id: &str, amounts: &[(f64, &str)]) -> String {
    let messages: Vec<Value> = amounts
        .iter()
        .map(|(amount, to)| {
            let arguments = json!({"amount": amount, "to": to}).to_string();
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "pay", "arguments": arguments}}]})
        })
        .collect();
    json!({"episode_id": id, "messages": messages}).to_string()
}

fn replay<'a>(rules: &'a Rules, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["replay", "--rules", rules.path(), "--pack", "desk"];
    args.extend(more);
    args
}

// ---- replay against what traces must give ----

fn traces() -> PathBuf {
    env::var_os("PROBITY_TRACES").map_or_else(|| "tests/data/traces".into(), PathBuf::from)
}

fn read_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Turns with a reason, by episode; episodes without any are left out.
fn turns_by_episode(entries: &[Value]) -> BTreeMap<String, BTreeSet<u64>> {
    let turns =
        |entry: &Value| entry["reasons"].as_array().unwrap().iter().map(|r| r["turn"].as_u64().unwrap()).collect();
    entries
        .iter()
        .map(|entry| (entry["episode_id"].as_str().unwrap().to_owned(), turns(entry)))
        .filter(|(_, turns): &(_, BTreeSet<u64>)| !turns.is_empty())
        .collect()
}

fn traces_agree(folder: &str, pack: &str) {
    let folder = traces().join(folder);
    let scratch = tempfile::tempdir().unwrap();
    let metrics = scratch.path().join("metrics.json");
    let episodes = folder.join("episodes.jsonl");
    let ran = probity(&[
        "replay",
        "--rules",
        "rules",
        "--pack",
        pack,
        "--format",
        "jsonl",
        "--metrics",
        metrics.to_str().unwrap(),
        episodes.to_str().unwrap(),
    ]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let expected = read_lines(&folder.join("expected.jsonl"));
    let found = ran.lines();
    assert!(!expected.is_empty());
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        let id = &expected["episode_id"];
        assert_eq!(&found["episode_id"], id);
        let mut hits = found["hits"].clone();
        for hit in hits.as_array_mut().unwrap() {
            assert!(hit.as_object_mut().unwrap().remove("message").unwrap().is_string());
        }
        assert_eq!(hits, expected["hits"], "{id}");
        assert_eq!(found["violation_reward"].as_f64(), expected["violation_reward"].as_f64(), "{id}");
    }
    let wanted: Value = serde_json::from_str(&fs::read_to_string(folder.join("metrics.json")).unwrap()).unwrap();
    let figures: Value = serde_json::from_str(&fs::read_to_string(&metrics).unwrap()).unwrap();
    for (key, value) in wanted.as_object().unwrap() {
        if key != "malformed" {
            assert_eq!(&figures[key], value, "{key}");
        }
    }
    let malformed = if folder.join("malformed.jsonl").exists() {
        read_lines(&folder.join("malformed.jsonl"))
    } else {
        wanted["malformed"].as_array().cloned().unwrap_or_default()
    };
    let malformed = turns_by_episode(&malformed);
    assert_eq!(turns_by_episode(figures["malformed"].as_array().unwrap()), malformed);
    let mut listed: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for episode in &found {
        for entry in ["malformed", "undecided"].iter().flat_map(|key| episode[key].as_array().unwrap()) {
            let id = episode["episode_id"].as_str().unwrap().to_owned();
            listed.entry(id).or_default().insert(entry["turn"].as_u64().unwrap());
        }
    }
    assert_eq!(listed, malformed);
    println!("{}: {} episodes", folder.display(), expected.len());
}

#[test]
fn traces_of_the_airline_replay_as_expected() {
    traces_agree("airline", "airline");
}

#[test]
fn traces_at_the_edge_replay_as_expected() {
    traces_agree("airline/edge", "airline");
}

#[test]
fn traces_of_the_travel_desk_replay_as_expected() {
    traces_agree("fixture12", "traveldesk");
}

// ---- replay, shape and exit codes ----

#[test]
fn an_episode_is_a_line_with_its_keys_in_order() {
    let rules = Rules::desk();
    let input = pay("e1", &[(100.5, "anna"), (1e2, "carl"), (200.0, "anna"), (300.0, "anna")]);
    let ran = probity_with(&replay(&rules, &["--format", "jsonl", "-"]), &input);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let digest = ran.lines()[0]["pack_digest"].as_str().unwrap().to_owned();
    assert_eq!(digest.len(), 64);
    let expected = format!(r#"{{"episode_id":"e1","pack":"desk","pack_version":"1.2.3","pack_digest":"{digest}","#)
        + r#""hits":[{"policy":"P1","turn":0,"n":0,"reward":0.9,"message":"100.5 to anna"},"#
        + r#"{"policy":"P1","turn":2,"n":1,"reward":0.45,"message":"200 to anna"},"#
        + r#"{"policy":"P1","turn":3,"n":2,"reward":0.0,"message":"300 to anna"}],"#
        + r#""undecided":[],"malformed":[],"#
        + r#""signals":[{"policy":"R1","turn":1,"effect":"review","message":""}],"violation_reward":1.35}"#
        + "\n";
    assert_eq!(ran.out, expected);
    // `json` is the same form.
    assert_eq!(probity_with(&replay(&rules, &["--format", "json", "-"]), &input).out, expected);
}

#[test]
fn the_parts_of_a_reward_are_apart_where_the_pack_declares_them() {
    let policy = r#"
policy PAY "no large payments" { severity 0.9  on call pay  deny if args.amount > 100 }
policy OFF "about something else" { severity 0  on user  flag if text contains "weather" }
policy PAID "something was paid" { severity 2  on call pay  milestone if true }
"#;
    let reward = "
components:
  violation: {weight: 2}
  plausibility: {weight: 0.5, policies: [OFF]}
  progress: {weight: 0.1, policies: [PAID]}
  diversity: {weight: 0.25}
";
    let rules = Rules::new(&[("pack.yaml", MANIFEST), ("policies/p.policy", policy), ("reward.yaml", reward)]);
    let mut episode: Value = serde_json::from_str(&pay("e", &[(101.0, "anna"), (102.0, "anna")])).unwrap();
    let said = |text: &str| json!({"role": "user", "content": text});
    let messages = episode["messages"].as_array_mut().unwrap();
    messages.insert(0, said("pay it"));
    messages.push(said("and the weather?"));
    messages.push(said("thanks"));
    messages.push(json!({"role": "user"}));
    let expected = |diversity: u32, total: f64| {
        json!({
            "violation": {"value": 1.35, "weight": 2.0},
            "plausibility": {"value": 0.75, "weight": 0.5},
            "progress": {"value": 2.0, "weight": 0.1},
            "diversity": {"value": f64::from(diversity), "weight": 0.25},
            "total": total,
        })
    };
    let args = replay(&rules, &["--format", "jsonl", "-"]);
    let line = &probity_with(&args, &episode.to_string()).lines()[0];
    assert_eq!((&line["reward"], &line["violation_reward"]), (&expected(1, 3.525), &json!(1.35)));
    // What the caller knows is not new; what it names in vain changes nothing.
    let args = replay(&rules, &["--format", "jsonl", "--known-hits", "PAY,OTHER", "-"]);
    assert_eq!(probity_with(&args, &episode.to_string()).lines()[0]["reward"], expected(0, 3.275));
    let table = probity_with(&replay(&rules, &["-"]), &episode.to_string()).out;
    let parts =
        "reward: violation 1.35 x 2, plausibility 0.75 x 0.5, progress 2 x 0.1, diversity 1 x 0.25, total 3.525";
    assert!(table.contains(parts), "{table}");
}

#[test]
fn a_broken_line_stands_in_its_place_and_the_rest_is_judged() {
    let rules = Rules::desk();
    let input = format!("{}\n[1]\n\n{{\"secret\": \n{{\"messages\": 3}}\n\n\n", pay("e1", &[(1.0, "anna")]));
    let ran = probity_with(&replay(&rules, &["--format", "jsonl", "-"]), &input);
    assert_eq!(ran.code, 2);
    let lines = ran.lines();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0]["episode_id"], "e1");
    assert_eq!(lines[1], json!({"line": 2, "error": "a JSON object was expected, this is a list"}));
    assert_eq!(lines[2]["line"], 3);
    assert_eq!(lines[3]["line"], 4);
    assert!(!ran.out.contains("secret"), "{}", ran.out);
    assert_eq!(lines[4]["episode_id"], "line-5");
    assert_eq!(lines[4]["malformed"], json!([{"turn": 0, "reason": "messages is no list"}]));
    // For people the same is said on standard error.
    let ran = probity_with(&replay(&rules, &["-"]), &input);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("<stdin>:2: a JSON object was expected"), "{}", ran.err);
}

#[test]
fn several_files_are_one_run_and_broken_lines_name_theirs() {
    let rules = Rules::desk();
    let scratch = tempfile::tempdir().unwrap();
    let (a, b) = (scratch.path().join("a.jsonl"), scratch.path().join("b.jsonl"));
    fs::write(&a, format!("{}\n", pay("a", &[(101.0, "anna")]))).unwrap();
    fs::write(&b, format!("x\n{}", pay("b", &[(101.0, "anna")]))).unwrap();
    let metrics = scratch.path().join("m.json");
    let (a, b, metrics) = (a.to_str().unwrap(), b.to_str().unwrap(), metrics.to_str().unwrap());
    let ran = probity(&replay(&rules, &["--format", "jsonl", "--metrics", metrics, a, b]));
    assert_eq!(ran.code, 2);
    let lines = ran.lines();
    assert_eq!((&lines[0]["episode_id"], &lines[2]["episode_id"]), (&json!("a"), &json!("b")));
    assert_eq!((&lines[1]["line"], &lines[1]["file"]), (&json!(1), &json!(b)));
    let figures: Value = serde_json::from_str(&fs::read_to_string(metrics).unwrap()).unwrap();
    assert_eq!((&figures["episodes"], &figures["raw_hits"], &figures["coverage"]), (&json!(2), &json!(2), &json!(0.5)));
    assert!(figures.get("judge").is_none());
}

#[test]
fn exit_codes_of_replay() {
    let rules = Rules::desk();
    let (hit, clean) = (pay("e", &[(101.0, "anna")]), pay("e", &[(1.0, "carl")]));
    let code = |more: &[&str], input: &str| probity_with(&replay(&rules, more), input).code;
    assert_eq!(code(&["-"], &hit), 0);
    assert_eq!(code(&["--fail-on-hit", "-"], &hit), 1);
    // A review is no violation.
    assert_eq!(code(&["--fail-on-hit", "-"], &clean), 0);
    // Bad input is said before violations.
    assert_eq!(code(&["--fail-on-hit", "-"], &format!("{hit}\nx")), 2);
    assert_eq!(code(&["--format", "xml", "-"], &hit), 2);
    assert_eq!(code(&[], &hit), 2);
    assert_eq!(code(&["missing.jsonl"], ""), 2);
    assert_eq!(code(&[rules.path()], ""), 2);
    assert_eq!(code(&["--metrics", "/dev/null/m.json", "-"], &hit), 3);
    assert_eq!(probity(&["replay", "--rules", rules.path(), "--pack", "desc", "-"]).code, 2);
    assert_eq!(probity(&["replay", "--rules", "/missing", "--pack", "desk", "-"]).code, 2);
    // The only pack of a folder need not be named.
    assert_eq!(probity_with(&["replay", "--rules", rules.path(), "-"], &clean).code, 0);
    let broken = Rules::broken();
    let ran = probity_with(&replay(&broken, &["--format", "jsonl", "-"]), &hit);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("unknown key") && ran.err.contains("P0301"), "{}", ran.err);
}

#[test]
fn a_name_that_is_near_is_suggested() {
    let rules = Rules::desk();
    let ran = probity(&["replay", "--rules", rules.path(), "--pack", "desc", "-"]);
    assert!(ran.err.contains("did you mean `desk`?"), "{}", ran.err);
}

#[test]
fn judges_are_counted_apart() {
    let rules = Rules::desk();
    let mut episode: Value = serde_json::from_str(&pay("e", &[(101.0, "anna"), (1.0, "anna")])).unwrap();
    episode["judge"] = json!([
        {"policy": "P1", "turn": 0, "hit": true, "judge_id": "j"},
        {"policy": "P1", "turn": 1, "hit": true, "judge_id": "j"},
        {"policy": "S1", "turn": 1, "hit": true, "judge_id": "j"},
        {"policy": "S1", "turn": "x", "hit": true}]);
    let scratch = tempfile::tempdir().unwrap();
    let metrics = scratch.path().join("m.json");
    let metrics = metrics.to_str().unwrap();
    let args = replay(&rules, &["--rescore", "--metrics", metrics, "--format", "jsonl", "-"]);
    let ran = probity_with(&args, &episode.to_string());
    assert_eq!(ran.code, 0);
    // Standard output holds the episodes alone.
    assert_eq!(ran.lines().len(), 1);
    assert!(ran.err.contains("<stdin>:1: judge[3].turn is missing or not a message index"), "{}", ran.err);
    assert!(ran.err.contains("coverage without the judge   0.5\n"), "{}", ran.err);
    assert!(ran.err.contains("coverage with the judge      1\n"), "{}", ran.err);
    let figures: Value = serde_json::from_str(&fs::read_to_string(metrics).unwrap()).unwrap();
    assert_eq!(figures["raw_hits"], 1);
    assert_eq!(figures["coverage"], 0.5);
    assert_eq!(figures["judge"]["precision"], 0.5);
    assert_eq!(figures["judge"]["unverified"], 1);
    let ran = probity_with(&replay(&rules, &["--rescore", "-"]), &pay("e", &[]));
    assert!(ran.out.ends_with("no episode carries a judge's verdict\n"), "{}", ran.out);
}

#[test]
fn a_pipe_gets_plain_text_and_may_close() {
    let rules = Rules::desk();
    let ran = probity_with(&replay(&rules, &["-"]), &pay("e", &[(101.0, "anna")]));
    assert_eq!(ran.err, "");
    assert!(ran.out.contains("turn   0  hit") && ran.out.contains("101 to anna"), "{}", ran.out);
    assert!(!ran.out.contains('\u{1b}'));
    // More than a pipe holds, for a reader that takes one line.
    let mut child = Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(replay(&rules, &["--format", "jsonl", "-"]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        let line = pay("e", &[(101.0, "anna"); 5]) + "\n";
        (0..5_000).all(|_| input.write_all(line.as_bytes()).is_ok())
    });
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("{\"episode_id\":\"e\""));
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8(ended.stderr).unwrap().as_str()), (Some(0), ""));
    feeder.join().unwrap();
}

// ---- check ----

#[test]
fn check_finds_nothing_in_the_packs_of_this_project() {
    let ran = probity(&["check", "rules", "--format", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    let report = &ran.lines()[0];
    assert_eq!((&report["errors"], &report["warnings"]), (&json!(0), &json!(0)));
    let packs: Vec<&str> = report["packs"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(packs.contains(&"airline") && packs.contains(&"traveldesk"), "{packs:?}");
}

#[test]
fn check_shows_every_mistake_of_every_pack_at_once() {
    let (good, bad) = (Rules::desk(), Rules::broken());
    let ran = probity(&["check", good.path(), bad.path()]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    for words in
        ["pack.yaml:4:1", "unknown key", "did you mean `name`?", "p.policy:1:", "^^^^^^", "2 errors, 1 warning\n"]
    {
        assert!(ran.out.contains(words), "{words}\n{}", ran.out);
    }
    assert!(!ran.out.contains('\u{1b}'));
    let ran = probity(&["check", "--format", "json", bad.path()]);
    assert_eq!(ran.code, 1);
    let report = &ran.lines()[0];
    let codes: Vec<&str> =
        report["diagnostics"].as_array().unwrap().iter().map(|d| d["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["P0104", "P0301"]);
    assert_eq!(report["packs"], json!([]));
}

#[test]
fn a_warning_is_no_error_and_a_wrong_path_is_bad_usage() {
    let policy = format!("{POLICY}\nset nobody_asks = {{ a }}\n");
    let rules = Rules::new(&[("pack.yaml", MANIFEST), ("policies/p.policy", &policy)]);
    // A folder of packs, or the pack itself.
    for path in [rules.path().to_owned(), format!("{}/desk", rules.path())] {
        let ran = probity(&["check", &path]);
        assert_eq!(ran.code, 0);
        assert!(ran.out.contains("0 errors, 2 warnings\n"), "{}", ran.out);
        assert!(ran.out.contains("P0401") && ran.out.contains("P0609"), "{}", ran.out);
    }
    assert_eq!(probity(&["check", "/missing"]).code, 2);
    assert_eq!(probity(&["check", "Cargo.toml"]).code, 2);
    assert_eq!(probity(&["check"]).code, 2);
    assert_eq!(probity(&["chek", "rules"]).code, 2);
}

/// What a server would refuse is known before: a test that fails is told, too.
#[test]
fn check_tells_of_tests_that_fail() {
    let rules = Rules::new(&[
        ("pack.yaml", MANIFEST),
        ("policies/p.policy", POLICY),
        ("tests/p.yaml", &TESTS.replace("P1: 0", "P1: 1")),
    ]);
    let ran = probity(&["check", rules.path()]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("P0501") && ran.out.contains("this test fails"), "{}", ran.out);
}

// ---- test ----

#[test]
fn tests_of_packs_pass_fail_or_cannot_run() {
    let rules = Rules::desk();
    let ran = probity(&["test", rules.path()]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains("  ok    large payments\n"), "{}", ran.out);
    assert!(ran.out.contains("reached by no test: R1\n"), "{}", ran.out);
    assert!(ran.out.ends_with("1 test passed, 0 failed\n"), "{}", ran.out);

    let tests = TESTS.replace("{P1: 0}", "{P1: 1}");
    let rules = Rules::new(&[("pack.yaml", MANIFEST), ("policies/p.policy", POLICY), ("tests/p.yaml", &tests)]);
    let ran = probity(&["test", rules.path()]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("  FAIL  large payments\n"), "{}", ran.out);
    assert!(ran.out.contains("P1 must be a hit at turn 1, and is not\n"), "{}", ran.out);
    let ran = probity(&["test", "--format", "json", rules.path()]);
    assert_eq!(ran.code, 1);
    let report = &ran.lines()[0];
    assert_eq!((&report["passed"], &report["failed"]), (&json!(0), &json!(1)));
    assert_eq!(report["packs"][0]["tests"][0]["faults"].as_array().unwrap().len(), 2);

    assert_eq!(probity(&["test", Rules::broken().path()]).code, 2);
    assert_eq!(probity(&["test", "/missing"]).code, 2);
}

#[test]
fn the_packs_of_this_project_pass_their_tests() {
    let ran = probity(&["test", "rules"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
}

// ---- explain ----

#[test]
fn no_policy_of_the_airline_scans_history() {
    let ran = probity(&["explain", "airline", "--format", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let all: Value = serde_json::from_str(&ran.out).unwrap();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 20);
    for policy in all {
        assert_eq!(policy["cost"]["scans_history"], false, "{policy}");
        let class = policy["cost"]["class"].as_str().unwrap();
        let judged = policy["effect"] == "judge";
        // One of them walks over the reservations of a user, through an index and within a bound.
        let expected = if judged {
            "none"
        } else if policy["policy"] == "A13" {
            "bounded"
        } else {
            "constant"
        };
        assert_eq!(class, expected, "{policy}");
    }
    let ran = probity(&["explain", "airline"]);
    assert!(ran.out.contains("none of them scans history"), "{}", ran.out);
}

#[test]
fn a_policy_is_explained_in_words() {
    let ran = probity(&["explain", "rules/airline", "A12"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for words in [
        "judges    each call of cancel_reservation\n",
        "where     r = held(args.reservation_id)\n",
        "  known(r)\n",
        "  (r.insurance as string) != \"yes\"\n",
        "    read    by its key: one look-up\n",
        "cost      constant per event, no scan of history\n",
    ] {
        assert!(ran.out.contains(words), "{words}\n{}", ran.out);
    }
    let ran = probity(&["explain", "airline", "A13"]);
    assert!(ran.out.contains("found by an index: at most 256"), "{}", ran.out);
    let ran = probity(&["explain", "airline", "A99"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("did you mean `A09`?"), "{}", ran.err);
    assert_eq!(probity(&["explain", "nowhere", "A12"]).code, 2);
    assert_eq!(probity(&["explain", "airline", "--trace", "x"]).code, 2);
}

#[test]
fn a_policy_is_explained_on_a_trace() {
    let rules = Rules::desk();
    let desk = format!("{}/desk", rules.path());
    let scratch = tempfile::tempdir().unwrap();
    let trace = scratch.path().join("t.jsonl");
    let other = r#"{"episode_id":"u","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"pay","arguments":"x"}}]}]}"#;
    fs::write(&trace, format!("{}\n{other}\n", pay("e", &[(101.0, "anna"), (1.0, "anna")]))).unwrap();
    let trace = trace.to_str().unwrap();
    let ran = probity(&["explain", &desk, "P1", "--trace", trace]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for words in [
        "FIRES\n",
        "    true     args.amount > 100\n",
        "passes\n",
        "    false    args.amount > 100\n",
        "UNDECIDED: `args`",
    ] {
        assert!(ran.out.contains(words), "{words}\n{}", ran.out);
    }
    let end = "fires 1, passes 1, undecided 1 times in 2 episodes\n\
               nearest miss: e, turn 1, call pay: 1 condition short\n    false    args.amount > 100\n";
    assert!(ran.out.ends_with(end), "{}", ran.out);
    let ran = probity(&["explain", &desk, "P1", "--trace", trace, "--episode", "e", "--format", "json"]);
    let lines = ran.lines();
    assert_eq!(lines.len(), 1);
    let judged = &lines[0]["judged"];
    assert_eq!(judged[0]["outcome"], "fires");
    assert_eq!(
        judged[1]["conditions"],
        json!([{"source": "args.amount > 100", "holds": false, "short": true, "rests_on_turns": []}])
    );
    assert_eq!(probity(&["explain", &desk, "P1", "--trace", trace, "--episode", "z"]).code, 2);
    assert_eq!(probity(&["explain", &desk, "P1", "--trace", "/missing"]).code, 2);
}

// ---- demo ----

#[test]
fn the_demo_judges_as_replay_does_and_leaves_nothing_behind() {
    let scratch = tempfile::tempdir().unwrap();
    let demo = |args: &[&str]| {
        let ended = Command::new(env!("CARGO_BIN_EXE_probity"))
            .args(args)
            .env("TMPDIR", scratch.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let shown = String::from_utf8(ended.stdout).unwrap();
        assert_eq!((ended.status.code(), String::from_utf8(ended.stderr).unwrap().as_str()), (Some(0), ""));
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        shown
    };
    let told: Value = serde_json::from_str(&demo(&["demo", "--format", "json"])).unwrap();
    let files = ["examples/traces/airline.jsonl", "examples/traces/made-up.jsonl"];
    let replayed = probity(&["replay", "--pack", "airline", "--format", "jsonl", files[0], files[1]]).lines();
    let conversations = told["conversations"].as_array().unwrap();
    assert_eq!(conversations.len(), replayed.len());
    let brief = |hits: &Value| -> BTreeSet<(u64, String, u64)> {
        let hits = hits.as_array().unwrap().iter();
        let brief = |h: &Value| {
            (h["turn"].as_u64().unwrap(), h["policy"].as_str().unwrap().to_owned(), h["n"].as_u64().unwrap())
        };
        hits.map(brief).collect()
    };
    for (gated, replayed) in conversations.iter().zip(&replayed) {
        assert_eq!(gated["episode_id"], replayed["episode_id"]);
        assert_eq!(brief(&gated["hits"]), brief(&replayed["hits"]));
        assert_eq!(gated["violation_reward"].as_f64(), replayed["violation_reward"].as_f64());
    }
    assert_eq!(told["pack_digest"], replayed[0]["pack_digest"]);
    // A call whose policies cannot be decided waits for a human.
    let answers: Vec<&str> = conversations
        .iter()
        .flat_map(|c| c["calls"].as_array().unwrap())
        .map(|call| call["answer"].as_str().unwrap())
        .collect();
    for answer in ["ALLOW", "REVIEW", "DENY"] {
        assert!(answers.contains(&answer), "{answer}");
    }
    // One record for each answer, and the service's own figures say the same.
    assert_eq!(told["records"]["judged"], told["latency_micros"]["answers"]);
    let hits: usize = replayed.iter().map(|e| e["hits"].as_array().unwrap().len()).sum();
    assert_eq!(told["metrics"]["raw_hits"], hits);
    assert!(told["metrics"]["covered_policies"].as_u64().unwrap() >= 5);

    let text = demo(&["demo"]);
    for words in ["REVIEW  A09", "DENY    A12", "What to try next", "read back over the Audit service"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains(" -0\n"), "{text}");
}

#[test]
fn the_demo_on_broken_rules_says_what_is_wrong() {
    let ran = probity(&["demo", "--rules", Rules::broken().path()]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("pack.yaml:4:1"), "{}", ran.err);
    // Rules without the pack of the conversations.
    assert_eq!(probity(&["demo", "--rules", Rules::desk().path()]).code, 2);
}

#[test]
fn the_nearest_miss_is_where_the_fewest_conditions_are_short() {
    let policy = r#"
policy NEAR "two ways" {
  severity 1
  on call pay
  when args.to != "bank"
  deny if (args.amount > 100 and args.to == "carl") or not args.amount > 0
}
"#;
    let rules = Rules::new(&[("pack.yaml", MANIFEST), ("policies/p.policy", policy)]);
    let desk = format!("{}/desk", rules.path());
    let scratch = tempfile::tempdir().unwrap();
    let trace = scratch.path().join("t.jsonl");
    // Of the first, two conditions are short whichever way it goes; of the others one.
    fs::write(&trace, pay("e", &[(50.0, "bank"), (50.0, "anna"), (101.0, "anna")])).unwrap();
    let ran = probity(&["explain", &desk, "NEAR", "--trace", trace.to_str().unwrap()]);
    let end = "nearest miss: e, turn 1, call pay: 1 condition short\n    true     args.amount > 0\n";
    assert!(ran.out.ends_with(end), "{}", ran.out);
    fs::write(&trace, pay("e", &[(50.0, "bank"), (200.0, "carl")])).unwrap();
    let ran = probity(&["explain", &desk, "NEAR", "--trace", trace.to_str().unwrap()]);
    let end = "nearest miss: e, turn 0, call pay: 2 conditions short\n    \
               false    args.to != \"bank\"\n    true     args.amount > 0\n";
    assert!(ran.out.ends_with(end), "{}", ran.out);
}

// ---- init ----

#[test]
fn a_new_pack_has_no_mistakes_and_its_tests_pass() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("my-agent");
    let folder = folder.to_str().unwrap();
    let made = probity(&["init", folder]);
    assert_eq!((made.code, made.err.as_str()), (0, ""));
    let checked = probity(&["check", folder]);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
    assert!(checked.out.contains("0 errors, 0 warnings"), "{}", checked.out);
    let tested = probity(&["test", folder]);
    assert_eq!(tested.code, 0, "{}{}", tested.out, tested.err);
    assert!(fs::read_to_string(format!("{folder}/pack.yaml")).unwrap().contains("name: \"my-agent\""));
    // Nothing is written over.
    fs::write(format!("{folder}/pack.yaml"), "mine").unwrap();
    let again = probity(&["init", folder]);
    assert_eq!(again.code, 2);
    assert!(again.err.contains("exists: nothing was written"), "{}", again.err);
    assert_eq!(fs::read_to_string(format!("{folder}/pack.yaml")).unwrap(), "mine");
    for bad in ["1x", "a b", "é", ".."] {
        assert_eq!(probity(&["init", scratch.path().join(bad).to_str().unwrap()]).code, 2, "{bad}");
    }
    assert_eq!(probity(&["init", "/dev/null/x"]).code, 2);
}
