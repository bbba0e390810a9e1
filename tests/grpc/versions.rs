//! Several versions of a pack side by side, asked for by name and range; and rules that are served from a git
//! repository.

use std::{fs, path::Path, process::Command, time::Duration};

use probity::{
    config::{RulesAt, Watch},
    grpc::wire::{
        Effect::{Allow, Deny},
        GetPackRequest, GetStatusRequest, ListPacksRequest, ObserveRequest, ObserveResponse, QueryRecordsRequest,
        ReloadRequest, ScoreEpisodesRequest,
        record::Body,
    },
};
use tonic::{Code, Status};

use crate::support::{House, effects, fields, items, pays, reason, request};

/// A pack that lets nobody be paid more than so much.
fn write_version(rules: &Path, folder: &str, version: &str, most: i64) {
    let folder = rules.join(folder);
    fs::create_dir_all(folder.join("policies")).unwrap();
    fs::write(folder.join("pack.yaml"), format!("name: guard\nversion: {version}\nformat: 1\n")).unwrap();
    let policy =
        format!("policy MOST \"no more\" {{\n  severity 1\n  on call pay\n  deny if args.amount > {most}\n}}\n");
    fs::write(folder.join("policies/all.policy"), policy).unwrap();
}

fn asking(session: &str, pack: &str, mut request: ObserveRequest) -> ObserveRequest {
    request.session_id = session.to_owned();
    request.pack = pack.to_owned();
    request
}

async fn pay(house: &House, session: &str, pack: &str, seq: u64, amount: i64) -> Result<ObserveResponse, Status> {
    let ask = asking(session, pack, request(session, items(seq, [pays(&[amount])])));
    house.engine().await.observe(ask).await.map(tonic::Response::into_inner)
}

/// With `guard` 1.0.0, which allows 100, and 2.0.0, which allows 10.
async fn two_versions() -> House {
    let house = House::with(|settings| {
        write_version(settings.rules.path(), "guard", "1.0.0", 100);
        write_version(settings.rules.path(), "guard-2", "2.0.0", 10);
    });
    house.await
}

async fn reload(house: &House) {
    house.rules_api().await.reload(ReloadRequest::default()).await.unwrap();
}

#[tokio::test]
async fn versions_are_served_side_by_side_and_asked_for_by_range() {
    let house = two_versions().await;
    for (session, pack, version, effect) in [
        ("bare", "guard", "2.0.0", Deny),
        ("one", "guard@1", "1.0.0", Allow),
        ("two", "guard@^2.0", "2.0.0", Deny),
        ("exact", "guard@1.0.0", "1.0.0", Allow),
        ("between", "guard@>=1, <2", "1.0.0", Allow),
    ] {
        let answer = pay(&house, session, pack, 0, 50).await.unwrap();
        assert_eq!((answer.pack_version.as_str(), effects(&answer)), (version, vec![effect]), "{pack}");
        assert_eq!(answer.pack, "guard");
    }
    // Whoever goes on may ask in any way that the session's rules fit.
    pay(&house, "one", "guard@1.0.0", 1, 50).await.unwrap();
    pay(&house, "one", "guard", 2, 50).await.unwrap();
    pay(&house, "one", "", 3, 50).await.unwrap();
    let other = pay(&house, "one", "guard@2", 4, 50).await.unwrap_err();
    assert_eq!((other.code(), reason(&other).0.as_str()), (Code::FailedPrecondition, "OTHER_PACK"));
    let unknown = pay(&house, "three", "guard@3", 0, 50).await.unwrap_err();
    assert_eq!((unknown.code(), reason(&unknown).0.as_str()), (Code::NotFound, "UNKNOWN_PACK"));
    let wrong = pay(&house, "three", "guard@newest", 0, 50).await.unwrap_err();
    assert_eq!((wrong.code(), fields(&wrong)), (Code::InvalidArgument, vec!["pack".to_owned()]));

    let mut rules = house.rules_api().await;
    let packs = rules.list_packs(ListPacksRequest::default()).await.unwrap().into_inner().packs;
    let listed: Vec<(&str, &str)> = packs.iter().map(|pack| (pack.name.as_str(), pack.version.as_str())).collect();
    assert_eq!(listed, [("guard", "1.0.0"), ("guard", "2.0.0")]);
    let one = rules.get_pack(GetPackRequest { name: "guard@1".to_owned() }).await.unwrap().into_inner();
    assert_eq!(one.pack.unwrap().digest, packs[0].digest);
    let ask = ScoreEpisodesRequest { pack: "guard@1".to_owned(), ..Default::default() };
    let scored = house.engine().await.score_episodes(ask).await;
    // No episode is asked about, and the pack is found.
    assert_ne!(scored.map_or_else(|e| e.code(), |_| Code::Ok), Code::NotFound);
}

#[tokio::test]
async fn a_gate_follows_within_the_range_that_it_asked_for() {
    let mut house = two_versions().await;
    let all = [("bare", "guard"), ("one", "guard@1"), ("exact", "guard@1.0.0")];
    for (session, pack) in all {
        pay(&house, session, pack, 0, 50).await.unwrap();
    }
    write_version(house.rules.path(), "guard-1", "1.1.0", 20);
    write_version(house.rules.path(), "guard-3", "3.0.0", 60);
    reload(&house).await;
    let versions = async |house: &House, seq: u64| {
        let mut found = Vec::new();
        for (session, pack) in all {
            let answer = pay(house, session, pack, seq, 50).await.unwrap();
            found.push((answer.pack_version.clone(), effects(&answer)[0]));
        }
        found
    };
    let moved = [("3.0.0", Allow), ("1.1.0", Deny), ("1.0.0", Allow)].map(|(v, effect)| (v.to_owned(), effect));
    assert_eq!(versions(&house, 1).await, moved);
    // The range is known after a restart, too.
    house.stop().await;
    write_version(house.rules.path(), "guard-1", "1.2.0", 55);
    house.start_again().await;
    let moved = [("3.0.0", Allow), ("1.2.0", Allow), ("1.0.0", Allow)].map(|(v, effect)| (v.to_owned(), effect));
    assert_eq!(versions(&house, 2).await, moved);
}

#[tokio::test]
async fn the_same_version_twice_is_refused() {
    let house = two_versions().await;
    write_version(house.rules.path(), "copy", "2.0.0", 10);
    let refused = house.rules_api().await.reload(ReloadRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("error"), "{refused}");
    let status = house.rules_api().await.get_status(GetStatusRequest {}).await.unwrap().into_inner();
    let said = status.refused.unwrap().rendered;
    assert!(said.contains("two packs have the name `guard` and the version 2.0.0"), "{said}");
}

/// The last good set with several versions can serve from the store; those that mean the same, too.
#[tokio::test]
async fn several_versions_come_back_from_the_store() {
    let mut house = two_versions().await;
    write_version(house.rules.path(), "same", "2.1.0", 10);
    reload(&house).await;
    house.stop().await;
    fs::write(house.rules.path().join("guard/pack.yaml"), "name: guard\nversion: none\n").unwrap();
    house.change(|settings| settings.start_with_last_good = true);
    house.start_again().await;
    let status = house.rules_api().await.get_status(GetStatusRequest {}).await.unwrap().into_inner();
    assert!(status.last_good);
    let answer = pay(&house, "one", "guard@1", 0, 50).await.unwrap();
    assert_eq!((answer.pack_version.as_str(), effects(&answer)), ("1.0.0", vec![Allow]));
    assert_eq!(effects(&pay(&house, "two", "guard@2", 0, 50).await.unwrap()), [Deny]);
}

fn git(repository: &Path, arguments: &[&str]) -> String {
    let author = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"];
    let ran = Command::new("git").current_dir(repository).args(author).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

/// Commits a version; gives the commit's id.
fn commit(repository: &Path, version: &str, most: i64) -> String {
    write_version(&repository.join("rules"), "guard", version, most);
    git(repository, &["add", "."]);
    git(repository, &["commit", "--quiet", "-m", version]);
    git(repository, &["rev-parse", "HEAD"])
}

#[tokio::test]
async fn a_branch_is_served_and_each_commit_is_told() {
    let repository = tempfile::tempdir().unwrap();
    git(repository.path(), &["init", "--quiet", "--initial-branch", "main"]);
    let first = commit(repository.path(), "1.0.0", 100);
    let place = format!("git:{}@main:rules", repository.path().display());
    let house = House::with(|settings| {
        settings.rules = RulesAt::read(&place).unwrap();
        settings.watch = Watch::On;
        settings.watch_poll = Duration::from_millis(300);
        settings.watch_settle = Duration::from_millis(50);
    });
    let house = house.await;
    assert_eq!(effects(&pay(&house, "s", "guard", 0, 50).await.unwrap()), [Allow]);
    // What stands in the work tree alone does not count.
    write_version(&repository.path().join("rules"), "guard", "1.0.1", 1);
    let second = commit(repository.path(), "1.1.0", 10);
    let mut rules = house.rules_api().await;
    let mut status = rules.get_status(GetStatusRequest {}).await.unwrap().into_inner();
    while status.commit != second {
        assert_eq!(status.commit, first);
        tokio::time::sleep(Duration::from_millis(50)).await;
        status = rules.get_status(GetStatusRequest {}).await.unwrap().into_inner();
    }
    assert_eq!((status.packs[0].version.as_str(), status.rules_location), ("1.1.0", place));
    assert_eq!(effects(&pay(&house, "s", "guard", 1, 50).await.unwrap()), [Deny]);
    let ask = QueryRecordsRequest { pack: "guard".to_owned(), ..Default::default() };
    let records = house.audit_api().await.query_records(ask).await.unwrap().into_inner().records;
    let commits: Vec<String> = records
        .into_iter()
        .filter_map(|record| match record.body {
            Some(Body::Activation(activation)) => Some(activation.commit),
            _ => None,
        })
        .collect();
    assert_eq!(commits, [first, second]);
    // A branch that is gone leaves the rules serving, and is told.
    git(repository.path(), &["checkout", "--quiet", "--detach"]);
    git(repository.path(), &["branch", "--quiet", "-D", "main"]);
    let refused = rules.reload(ReloadRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let status = rules.get_status(GetStatusRequest {}).await.unwrap().into_inner();
    let said = status.refused.unwrap().rendered;
    assert!(said.contains("git knows no commit `main`"), "{said}");
    assert_eq!(effects(&pay(&house, "t", "guard", 0, 50).await.unwrap()), [Deny]);
}

/// What tells git of another repository, as its hooks are told, changes nothing.
#[tokio::test]
async fn the_repository_is_the_one_that_is_named() {
    let (named, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (repository, version) in [(&named, "1.0.0"), (&other, "9.9.9")] {
        git(repository.path(), &["init", "--quiet", "--initial-branch", "main"]);
        commit(repository.path(), version, 100);
    }
    let place = format!("git:{}@main:rules", named.path().display());
    let ran = Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(["check", "--format", "json", &place])
        .env("GIT_DIR", other.path().join(".git"))
        .env("GIT_TRACE", "1")
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(report["packs"][0]["version"], "1.0.0", "{report}");
}
