//! The commands as scripts see them: exit codes and output.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::support::{GUARD, House, write_pack};

fn probity() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
    command.env_clear();
    command
}

fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (
        status.code().unwrap(),
        String::from_utf8_lossy(&stdout).into_owned(),
        String::from_utf8_lossy(&stderr).into_owned(),
    )
}

fn serve(rules: &Path, data: &Path) -> Command {
    let mut command = probity();
    command.arg("serve").arg("--rules").arg(rules).arg("--data").arg(data);
    command
}

#[test]
fn serve_does_not_start_on_broken_rules_a_taken_port_or_an_open_door() {
    let (rules, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_pack(rules.path(), "guard", "1.0.0", GUARD);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, _, words) = run(serve(rules.path(), data.path()).args(["--listen", &address]));
    assert_eq!(code, 3, "{words}");
    assert!(words.contains(&address), "{words}");

    let (code, _, words) = run(serve(rules.path(), data.path()).args(["--listen", "0.0.0.0:0"]));
    assert_eq!(code, 2, "{words}");
    assert!(words.contains("--insecure"), "{words}");

    let (code, _, words) = run(serve(rules.path(), data.path()).args(["--listen", "here"]));
    assert_eq!(code, 2, "{words}");
    let (code, ..) = run(serve(rules.path(), data.path()).arg("--lisen=127.0.0.1:0"));
    assert_eq!(code, 2);

    let fresh = data.path().join("fresh");
    write_pack(rules.path(), "broken", "1.0.0", "policy X {");
    let (code, _, words) = run(serve(rules.path(), &fresh).args(["--listen", "127.0.0.1:0"]));
    assert_eq!(code, 2, "{words}");
    assert!(words.contains("all.policy:1:"), "{words}");
    assert!(!fresh.exists(), "nothing is created for rules that cannot serve");
}

#[test]
fn serve_stops_on_a_signal_with_all_kept_and_reloads_on_another() {
    let (rules, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_pack(rules.path(), "guard", "1.0.0", GUARD);
    let mut command = serve(rules.path(), data.path());
    command.args(["--listen", "127.0.0.1:0", "--log-format", "json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("probity is serving on 127.0.0.1:"), "{line}");
    let address = line.trim().rsplit(' ').next().unwrap().to_owned();
    let status = |format: &str| run(probity().args(["client", "--server", &address, "--format", format, "status"]));

    let (code, report, _) = status("table");
    assert!(code == 0 && report.contains("guard") && report.contains("1.0.0"), "{report}");
    write_pack(rules.path(), "guard", "1.2.0", GUARD);
    let signal = |name: &str| {
        let done = Command::new("kill").arg(name).arg(child.id().to_string()).status().unwrap();
        assert!(done.success());
    };
    signal("-HUP");
    let mut versions = String::new();
    for _ in 0..300 {
        versions = status("json").1;
        if versions.contains("1.2.0") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(versions.contains("\"generation\":2"), "{versions}");

    write_pack(rules.path(), "broken", "1.0.0", "policy X {");
    let (code, _, words) = run(probity().args(["client", "--server", &address, "reload"]));
    assert!(code == 1 && words.contains("all.policy:1:"), "{code} {words}");
    let (code, report, _) = status("table");
    assert!(code == 0 && report.contains("the last load was refused"), "{report}");

    signal("-TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let log = String::from_utf8_lossy(&output.stderr);
    for line in log.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert!(entry["level"].is_string());
    }
    assert!(log.contains("\"kept\":true"), "{log}");
    let (code, _, words) = run(probity().args(["client", "--server", &address, "status"]));
    assert_eq!(code, 3, "{words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_observe_reports_messages_and_episodes_and_says_no_on_request() {
    let house = House::start().await;
    let folder = tempfile::tempdir().unwrap();
    let pay = r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"pay","arguments":"{\"amount\":500,\"payee\":\"bob\"}"}}]}"#;
    let messages = folder.path().join("messages.jsonl");
    fs::write(&messages, format!("{{\"role\":\"user\",\"content\":\"hi\"}}\n\n{pay}\n")).unwrap();
    let episodes = folder.path().join("episodes.jsonl");
    let episode = |id: &str| format!("{{\"episode_id\":\"{id}\",\"messages\":[{pay},{pay}]}}\n");
    fs::write(&episodes, episode("e1") + &episode("e2")).unwrap();
    let address = house.address();
    tokio::task::spawn_blocking(move || {
        let client = |arguments: &[&str], file: &Path| {
            let mut command = probity();
            command.args(["client", "--server", &address, "observe"]).args(arguments).arg(file);
            command
        };
        let (code, report, words) = run(&mut client(&["--pack", "guard"], &messages));
        assert_eq!(code, 0, "{words}");
        assert!(report.contains("DENY") && report.contains("paid 500 to bob"), "{report}");
        assert!(report.contains("3 items, 1 hits"), "{report}");

        let arguments = ["--pack", "guard", "--format", "json", "--batch", "1", "--fail-on-hit", "--stream"];
        let (code, report, words) = run(&mut client(&arguments, &episodes));
        assert_eq!(code, 1, "{words}");
        let lines: Vec<serde_json::Value> = report.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines.len(), 6);
        assert_eq!((lines[3]["session_id"].as_str(), lines[3]["seq"].as_u64()), (Some("e2"), Some(0)));
        assert_eq!(lines[3]["calls"][0]["effect"], "DENY");

        let (code, _, words) = run(&mut client(&["--pack", "guard"], &folder.path().join("missing")));
        assert_eq!(code, 2, "{words}");
        let (code, _, words) = run(&mut client(&["--pack", "none", "--session", "fresh"], &messages));
        assert!(code == 2 && words.contains("no pack `none`"), "{code} {words}");
    })
    .await
    .unwrap();
}

#[test]
fn config_show_tells_where_each_value_comes_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("probity.toml");
    fs::write(&file, "max-items = 5\nlog = \"warn\"\n").unwrap();
    let mut command = probity();
    command.args(["config", "show", "--format", "json", "--listen", "127.0.0.1:9", "--config"]).arg(&file);
    let (code, report, words) = run(command.env("PROBITY_MAX_ITEMS", "7"));
    assert_eq!(code, 0, "{words}");
    let settings: Vec<serde_json::Value> = serde_json::from_str(&report).unwrap();
    let find = |name: &str| {
        let s = settings.iter().find(|s| s["setting"] == name).unwrap();
        (s["value"].as_str().unwrap().to_owned(), s["origin"].as_str().unwrap().to_owned())
    };
    assert_eq!(find("listen"), ("127.0.0.1:9".to_owned(), "flag --listen".to_owned()));
    assert_eq!(find("max-items"), ("7".to_owned(), "environment PROBITY_MAX_ITEMS".to_owned()));
    assert_eq!(find("log"), ("warn".to_owned(), format!("file {}", file.display())));
    assert_eq!(find("data").1, "default");
    let (code, _, words) = run(probity().args(["config", "show", "--max-items", "none"]));
    assert_eq!(code, 2, "{words}");
}
