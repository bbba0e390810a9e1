//! Which rules may serve: those whose tests pass, that are pinned or signed where that is asked for, and what is recorded
//! and kept of them.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use probity::{
    audit::{Activation, Body, FaultyStore, MemoryStore, Store, scan},
    config::{OnTestFailure, Pin},
    engine::load_rules,
    grpc::{
        self, StartError,
        wire::{
            GetStatusRequest, GetStatusResponse, QueryRecordsRequest, ReloadRequest, ValidateRequest,
            record::Body as Told,
        },
    },
    service::LoadError,
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{
    kill::address,
    support::{GUARD, House, hits, items, pays, reason, request, write_pack},
};

const BROKEN: &str = "policy X { deny unless unless }";

/// The codes of a refused load.
fn codes(refused: &Status) -> Vec<String> {
    assert_eq!((refused.code(), reason(refused).0.as_str()), (Code::FailedPrecondition, "RULES_REFUSED"), "{refused}");
    refused.get_error_details().precondition_failure().unwrap().violations.iter().map(|v| v.r#type.clone()).collect()
}

async fn reload(house: &House) -> Result<u64, Status> {
    let loaded = house.rules_api().await.reload(ReloadRequest::default()).await?;
    Ok(loaded.into_inner().generation)
}

async fn status(house: &House) -> GetStatusResponse {
    house.rules_api().await.get_status(GetStatusRequest {}).await.unwrap().into_inner()
}

/// The pack `guard` with another limit, and the digest that it then has.
fn change(rules: &Path, limit: u64) -> probity::model::Digest {
    write_pack(rules, "guard", "1.1.0", &GUARD.replace("> 100", &format!("> {limit}")));
    *load_rules(rules).result.unwrap().get("guard").unwrap().digest()
}

/// A test of `guard` that expects a hit at turn 0.
fn write_test(rules: &Path, amount: u64) {
    let folder = rules.join("guard/tests");
    fs::create_dir_all(&folder).unwrap();
    let text = format!(
        "tests:\n  - name: too much is paid\n    policies: [P01]\n    messages:\n      - call: {{pay: {{amount: {amount}, payee: \
         bob}}}}\n    expect:\n      hits: {{P01: 0}}\n"
    );
    fs::write(folder.join("pays.yaml"), text).unwrap();
}

#[tokio::test]
async fn a_set_whose_own_tests_fail_is_refused_or_warned_of() {
    let house = House::with(|settings| {
        settings.on_test_failure = OnTestFailure::Refuse;
        write_test(settings.rules.path(), 500);
    })
    .await;
    change(house.rules.path(), 1000);
    let refused = reload(&house).await.unwrap_err();
    assert_eq!(codes(&refused), ["P0501"]);
    let told = status(&house).await;
    let rendered = told.refused.unwrap().rendered;
    assert!(rendered.contains("pays.yaml") && rendered.contains("too much is paid"), "{rendered}");
    assert!(rendered.contains("P01 must be a hit at turn 0, and is not"), "{rendered}");
    assert!(!house.rules_api().await.validate(ValidateRequest {}).await.unwrap().into_inner().valid);
    change(house.rules.path(), 400);
    assert_eq!(reload(&house).await.unwrap(), 2);

    let house = House::with(|settings| {
        write_test(settings.rules.path(), 50);
    })
    .await;
    let warnings: Vec<String> = status(&house).await.warnings.into_iter().map(|w| w.code).collect();
    assert_eq!(warnings, ["P0501"]);
}

#[tokio::test]
async fn tests_that_take_too_long_count_as_failing() {
    let house = House::with(|settings| {
        settings.on_test_failure = OnTestFailure::Refuse;
        settings.test_limit = std::time::Duration::from_nanos(1);
    })
    .await;
    write_test(house.rules.path(), 500);
    assert_eq!(codes(&reload(&house).await.unwrap_err()), ["P0502"]);
}

#[tokio::test]
async fn only_pinned_digests_serve() {
    let pins = tempfile::NamedTempFile::new().unwrap();
    let house = House::with(|settings| {
        let digest = *load_rules(settings.rules.path()).result.unwrap().get("guard").unwrap().digest();
        settings.rules_digest = vec![Pin { pack: "guard".to_owned(), digest }];
        settings.rules_digest_file = pins.path().to_owned();
    })
    .await;
    let next = change(house.rules.path(), 1000);
    let refused = reload(&house).await.unwrap_err();
    assert_eq!(codes(&refused), ["P0503"]);
    let rendered = status(&house).await.refused.unwrap().rendered;
    assert!(rendered.contains(&format!("guard={next}")), "it says what to pin: {rendered}");
    // The same files under another pin: asked again, the answer is another one.
    fs::write(pins.path(), format!("# the next ones\nguard = {next}\n")).unwrap();
    assert_eq!(reload(&house).await.unwrap(), 2);
    // A pack that nobody pinned, and a pinned one that is not there.
    write_pack(house.rules.path(), "other", "1.0.0", GUARD);
    assert_eq!(codes(&reload(&house).await.unwrap_err()), ["P0503"]);
    fs::remove_dir_all(house.rules.path().join("guard")).unwrap();
    let mut found = codes(&reload(&house).await.unwrap_err());
    found.sort();
    assert_eq!(found, ["P0503", "P0504"]);
    // A file that cannot be used lets nothing serve.
    fs::remove_dir_all(house.rules.path().join("other")).unwrap();
    change(house.rules.path(), 1000);
    for text in ["guard\n", "guard=12\n"] {
        fs::write(pins.path(), text).unwrap();
        assert_eq!(codes(&reload(&house).await.unwrap_err()), ["P0507"]);
    }
    pins.close().unwrap();
    assert_eq!(codes(&reload(&house).await.unwrap_err()), ["P0507"]);
}

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_probity")).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[tokio::test]
async fn only_signed_packs_serve() {
    let keys = tempfile::tempdir().unwrap();
    let path = |name: &str| keys.path().join(name).display().to_string();
    let public = |name: &str| {
        let (code, printed) = run(&["audit", "key", &path(name)]);
        assert_eq!(code, Some(0), "{printed}");
        printed.split_whitespace().find(|word| word.len() == 64).unwrap().to_owned()
    };
    let (trusted, _) = (public("trusted.key"), public("stranger.key"));
    fs::write(keys.path().join("public"), format!("# ours\n{trusted}\n")).unwrap();
    let sign = |key: &str, rules: &Path| {
        let (code, printed) = run(&["sign", "--key-file", &path(key), &rules.display().to_string()]);
        assert_eq!(code, Some(0), "{printed}");
    };
    let house = House::with(|settings| {
        sign("trusted.key", settings.rules.path());
        settings.rules_public_key_file = keys.path().join("public");
    })
    .await;
    let rules = house.rules.path();
    let before = status(&house).await.packs[0].digest.clone();
    // The signature is no part of what it signs.
    assert_eq!(load_rules(rules).result.unwrap().get("guard").unwrap().digest().to_string(), before);
    change(rules, 1000);
    assert_eq!(codes(&reload(&house).await.unwrap_err()), ["P0506"], "the signature of before");
    sign("stranger.key", rules);
    assert_eq!(codes(&reload(&house).await.unwrap_err()), ["P0506"], "nobody who is trusted");
    let rendered = status(&house).await.refused.unwrap().rendered;
    assert!(rendered.contains("pack.sig") && rendered.contains("not trusted"), "{rendered}");
    fs::remove_file(rules.join("guard/pack.sig")).unwrap();
    assert_eq!(codes(&reload(&house).await.unwrap_err()), ["P0505"]);
    fs::write(rules.join("guard/pack.sig"), "signed, I say").unwrap();
    assert_eq!(codes(&reload(&house).await.unwrap_err()), ["P0506"]);
    sign("trusted.key", rules);
    assert_eq!(reload(&house).await.unwrap(), 2);
    fs::write(keys.path().join("public"), "nonsense\n").unwrap();
    assert_eq!(codes(&reload(&house).await.unwrap_err()), ["P0507"]);
}

#[tokio::test]
async fn what_was_accepted_and_what_was_refused_is_recorded_in_its_order_and_without_its_text() {
    let mut house = House::start().await;
    let observe = async |house: &House, session: &str| {
        house.engine().await.observe(request(session, items(0, [pays(&[500])]))).await.unwrap();
    };
    observe(&house, "a").await;
    write_pack(house.rules.path(), "guard", "1.1.0", BROKEN);
    reload(&house).await.unwrap_err();
    observe(&house, "b").await;
    change(house.rules.path(), 1000);
    reload(&house).await.unwrap();
    observe(&house, "c").await;
    let ask = QueryRecordsRequest { page_size: 100, ..QueryRecordsRequest::default() };
    let records = house.audit_api().await.query_records(ask).await.unwrap().into_inner().records;
    let told: Vec<String> = records
        .iter()
        .map(|record| match record.body.as_ref().unwrap() {
            Told::Activation(_) => format!("activated {}", record.pack_version),
            Told::Judged(_) => format!("judged under {}", record.pack_version),
            Told::RulesRefused(refused) => {
                assert_eq!(refused.fingerprint.len(), 64);
                format!("refused {} {:?}", refused.error_count, refused.codes)
            }
            other => format!("{other:?}"),
        })
        .collect();
    let refused = told[2].clone();
    assert!(refused.starts_with("refused 1 [\"P02"), "{refused}");
    assert_eq!(
        told,
        [
            "activated 1.0.0",
            "judged under 1.0.0",
            &refused,
            "judged under 1.0.0",
            "activated 1.1.0",
            "judged under 1.1.0"
        ]
    );
    let verified = house.service().verify(Default::default()).await.unwrap();
    assert!(verified.is_whole(), "{verified:?}");
    let counts = status(&house).await;
    assert_eq!((counts.accepted_load_count, counts.refused_load_count), (2, 1));

    house.stop().await;
    let data = house.data.path().join("store").display().to_string();
    let export = house.data.path().join("export.jsonl");
    let (code, lines) = run(&["audit", "export", "--data", &data]);
    assert_eq!(code, Some(0), "{lines}");
    assert!(lines.contains("\"kind\":\"refused\"") && !lines.contains("unless"), "{lines}");
    fs::write(&export, lines).unwrap();
    let python = Command::new("python3").arg("examples/python/verify_export.py").arg(&export).output().unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stdout));
}

#[tokio::test]
async fn what_cannot_be_recorded_does_not_serve() {
    let store = Arc::new(FaultyStore::default());
    let house = House::over(store.clone()).await;
    let before = status(&house).await.packs[0].digest.clone();
    store.fail();
    // Somebody has to find out.
    house.engine().await.observe(request("s", items(0, [pays(&[500])]))).await.unwrap_err();
    change(house.rules.path(), 1000);
    let refused = reload(&house).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).0.as_str()), (Code::Unavailable, "AUDIT_STORE_FAILED"));
    assert_eq!(house.service().served().set.get("guard").unwrap().digest().to_string(), before);
    store.heal();
    let failure = house.service().audit().failure();
    for _ in 0..1_000 {
        if failure.borrow().is_none() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(reload(&house).await.unwrap(), 2);
}

#[tokio::test]
async fn a_reload_with_a_name_happens_once() {
    let house = House::start().await;
    let mut rules = house.rules_api().await;
    let mut ask = async |id: &str| rules.reload(ReloadRequest { request_id: id.to_owned() }).await;
    let first = change(house.rules.path(), 200).to_string();
    let loaded = ask("r1").await.unwrap().into_inner();
    assert_eq!((loaded.generation, loaded.packs[0].digest.clone()), (2, first));
    // Sent again, it loads nothing, whatever the folder holds by now.
    change(house.rules.path(), 300);
    assert_eq!(ask("r1").await.unwrap().into_inner(), loaded);
    let last = house.service().status().unwrap().last_record;
    assert_eq!(ask("r2").await.unwrap().into_inner().generation, 3);
    assert_eq!(house.service().status().unwrap().last_record, last + 1);
    // What is served already is not served anew.
    assert_eq!(ask("r3").await.unwrap().into_inner().generation, 3);
    assert_eq!(house.service().status().unwrap().last_record, last + 1);
    let long = ask(&"x".repeat(300)).await.unwrap_err();
    assert_eq!(crate::support::fields(&long), ["request_id"]);
}

/// Starts on rules that are broken by now.
async fn start_broken(house: &mut House, last_good: bool) -> Result<grpc::Running, StartError> {
    write_pack(house.rules.path(), "guard", "1.2.0", BROKEN);
    house.change(|settings| settings.start_with_last_good = last_good);
    house.try_start().await
}

#[tokio::test]
async fn the_last_good_set_serves_where_the_rules_are_broken_at_start_if_that_is_asked_for() {
    let mut house = House::start().await;
    let good = change(house.rules.path(), 1000).to_string();
    reload(&house).await.unwrap();
    house.stop().await;
    let refused = start_broken(&mut house, false).await.err().unwrap();
    assert!(matches!(refused, StartError::Rules(LoadError::Refused(_))), "{refused}");

    let running = start_broken(&mut house, true).await.unwrap();
    house.take(running);
    let told = status(&house).await;
    assert_eq!((told.packs[0].version.as_str(), &told.packs[0].digest), ("1.1.0", &good));
    assert!(told.last_good && told.stale_since.is_some());
    assert!(told.refused.unwrap().rendered.contains("all.policy:1:"));
    let answer = house.engine().await.observe(request("s", items(0, [pays(&[500])]))).await.unwrap().into_inner();
    assert_eq!(answer.pack_digest, good);
    assert_eq!(codes(&reload(&house).await.unwrap_err()).len(), 1);

    // The refusal is recorded, then what serves in its place.
    let ask = QueryRecordsRequest { page_size: 100, ..QueryRecordsRequest::default() };
    let records = house.audit_api().await.query_records(ask).await.unwrap().into_inner().records;
    let bodies = records.iter().filter_map(|r| r.body.as_ref());
    let bodies: Vec<_> = bodies.filter(|body| !matches!(body, Told::Checkpoint(_))).collect();
    assert!(
        matches!(
            bodies[..],
            [
                Told::Activation(_),
                Told::Activation(_),
                Told::RulesRefused(_),
                Told::Activation(_),
                Told::Judged(_),
                Told::RulesRefused(_)
            ]
        ),
        "{bodies:?}"
    );

    // The words of before: they serve again, now from the folder.
    change(house.rules.path(), 1000);
    assert_eq!(reload(&house).await.unwrap(), 2);
    let told = status(&house).await;
    assert!(!told.last_good && told.stale_since.is_none() && told.refused.is_none());
    assert_eq!(told.packs[0].digest, good);
}

#[tokio::test]
async fn the_last_good_set_has_to_meet_the_conditions_of_now() {
    let mut house = House::start().await;
    house.stop().await;
    let digest = probity::model::Digest::new([1; 32]);
    house.change(|settings| settings.rules_digest = vec![Pin { pack: "guard".to_owned(), digest }]);
    let refused = start_broken(&mut house, true).await.err().unwrap();
    assert!(matches!(refused, StartError::Rules(LoadError::Refused(_))), "{refused}");
}

#[tokio::test]
async fn without_a_store_there_is_no_last_good_set_and_none_is_made() {
    let mut house = House::unstarted(|_| {});
    let refused = start_broken(&mut house, true).await.err().unwrap();
    assert!(matches!(refused, StartError::Rules(LoadError::Refused(_))), "{refused}");
    assert!(!house.data.path().join("store").exists());
}

#[tokio::test]
async fn sources_of_what_served_are_kept_by_their_meaning() {
    let store = Arc::new(MemoryStore::default());
    let house = House::over(store.clone()).await;
    let first = *house.service().served().set.get("guard").unwrap().digest();
    let second = change(house.rules.path(), 1000);
    reload(&house).await.unwrap();
    write_pack(house.rules.path(), "guard", "1.1.0", BROKEN);
    reload(&house).await.unwrap_err();
    let set: Vec<_> = store.last_set().unwrap().iter().map(|pack| pack.digest).collect();
    assert_eq!(set, [second], "what was refused did not serve");
    for digest in [first, second] {
        let files = probity::pack::PackFiles::from_bytes(&store.sources(&digest).unwrap().unwrap()).unwrap();
        let again = probity::engine::load_pack_files(Path::new("guard"), files.files()).result.unwrap();
        assert_eq!(*again.digest(), digest);
    }
    let mut activated = Vec::new();
    scan(store.as_ref(), 1, |record| {
        if let Body::Activated(Activation { pack, .. }) = record.body {
            activated.push(pack.digest);
        }
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(activated, [first, second]);
}

#[tokio::test]
async fn what_is_kept_of_a_pack_that_extends_serves_when_its_base_is_broken() {
    let mut house = House::start().await;
    write_pack(house.rules.path(), "heir", "1.0.0", "policy OWN \"its own\" { severity 1 on call ship deny if true }");
    let manifest = house.rules.path().join("heir/pack.yaml");
    let text = fs::read_to_string(&manifest).unwrap().replace("errors:\n  prefix: Error\n", "extends: [guard@^1]\n");
    fs::write(&manifest, text).unwrap();
    reload(&house).await.unwrap();
    let good: Vec<_> = status(&house).await.packs.into_iter().map(|pack| (pack.name, pack.digest)).collect();
    assert_eq!(good.len(), 2);
    house.stop().await;
    let running = start_broken(&mut house, true).await.unwrap();
    house.take(running);
    let told = status(&house).await;
    assert!(told.last_good);
    let serves: Vec<_> = told.packs.into_iter().map(|pack| (pack.name, pack.digest)).collect();
    assert_eq!(serves, good);
    let mut ask = request("s", items(0, [pays(&[500])]));
    ask.pack = "heir".to_owned();
    let answer = house.engine().await.observe(ask).await.unwrap().into_inner();
    assert!(hits(&answer).iter().any(|hit| hit.starts_with("P01")), "{answer:?}");
    // Of the one that is broken, and of the one that extends it, one error each.
    assert_eq!(codes(&reload(&house).await.unwrap_err()), ["P0201", "P0012"]);
}

#[test]
fn the_client_tells_how_old_the_rules_are_and_what_is_wrong_with_those_on_disk() {
    let (rules, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_pack(rules.path(), "guard", "1.0.0", GUARD);
    let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--watch", "off", "--rules"]).arg(rules.path());
    command.arg("--data").arg(data.path().join("store"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let server = address(&mut child);
    let client = |arguments: &[&str]| run(&[&["client", "--server", &server], arguments].concat());
    let digest = load_rules(rules.path()).result.unwrap().get("guard").unwrap().digest().to_string();
    let (code, fresh) = client(&["status"]);
    assert_eq!(code, Some(0), "{fresh}");
    assert!(fresh.contains("rules generation 1, loaded at 20") && fresh.contains(&digest), "{fresh}");
    assert!(!fresh.contains("STALE"), "{fresh}");
    write_pack(rules.path(), "guard", "1.1.0", BROKEN);
    assert_eq!(client(&["reload"]).0, Some(1));
    let (_, stale) = client(&["status"]);
    let (_, json) = client(&["--format", "json", "status"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(stale.contains("STALE since 20") && stale.contains("all.policy:1:") && stale.contains('^'), "{stale}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["generation"], &json["refused_loads"]), (&1.into(), &1.into()));
    assert!(json["stale_since"].as_str().unwrap().starts_with("20"), "{json}");
    assert_eq!(json["refused"][0]["line"], 1);
}
