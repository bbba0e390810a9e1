//! A candidate beside the rules: it judges what was answered, its differences are counted and told, and nothing of it is
//! enforced. And what two packs differ in, asked of a running server.

use std::{path::Path, time::Duration};

use probity::grpc::wire::{
    ChangeKind, CloseSessionRequest, DiffRequest,
    Effect::{self, Allow, Deny},
    GetShadowRequest, GetShadowResponse, ObserveResponse, PackSource, PolicyAspect, ReloadRequest, WatchShadowRequest,
    pack_source::Source,
    rules_client::RulesClient,
};
use tempfile::TempDir;
use tonic::{Code, transport::Channel};

use crate::support::{House, effects, end, fields, items, message, pays, reason, request, user, write_pack};

/// Nobody is paid more than so much; and whatever else.
fn most(amount: i64, also: &str) -> String {
    format!("policy MOST \"no more\" {{\n  severity 1\n  on call pay\n  deny if args.amount > {amount}\n}}\n{also}")
}

/// A server whose rules allow 100, with an empty folder for a candidate.
async fn house() -> (House, TempDir) {
    let candidate = tempfile::tempdir().unwrap();
    let house = House::with(|settings| {
        write_pack(settings.rules.path(), "guard", "1.0.0", &most(100, ""));
        settings.shadow_rules = Some(candidate.path().to_owned().into());
    });
    (house.await, candidate)
}

async fn reload(house: &House) {
    house.rules_api().await.reload(ReloadRequest::default()).await.unwrap();
}

async fn say(house: &House, session: &str, seq: u64, item: probity::grpc::wire::item::Item) -> ObserveResponse {
    house.engine().await.observe(request(session, items(seq, [item]))).await.unwrap().into_inner()
}

/// How the candidate stands once it has judged so many items, compared or passed over.
async fn after(house: &House, count: u64) -> GetShadowResponse {
    let mut rules = house.rules_api().await;
    loop {
        let status = rules.get_shadow(GetShadowRequest {}).await.unwrap().into_inner();
        if status.item_count + status.skipped_item_count + status.unfollowed_item_count >= count {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the candidate was loaded or refused.
async fn tried(house: &House) -> GetShadowResponse {
    let mut rules = house.rules_api().await;
    loop {
        let status = rules.get_shadow(GetShadowRequest {}).await.unwrap().into_inner();
        if !status.packs.is_empty() || status.refused.is_some() {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn changed(status: &GetShadowResponse) -> Vec<(Effect, Effect, u64)> {
    status.changed_calls.iter().map(|c| (c.live(), c.candidate(), c.count)).collect()
}

fn policies(status: &GetShadowResponse) -> Vec<(&str, u64, u64)> {
    status.policies.iter().map(|p| (p.policy.as_str(), p.gained_count, p.lost_count)).collect()
}

#[tokio::test]
async fn differences_are_counted_and_told_and_nothing_is_enforced() {
    let (house, candidate) = house().await;
    let asks = "policy ASK \"ask first\" {\n  severity 1\n  on call pay\n  deny unless once(user where it.text contains \
                \"yes\")\n}\n";
    write_pack(candidate.path(), "guard", "1.1.0", &most(50, asks));
    reload(&house).await;
    let mut told = house.rules_api().await.watch_shadow(WatchShadowRequest {}).await.unwrap().into_inner();
    assert_eq!(effects(&say(&house, "s", 0, pays(&[20, 70, 200])).await), [Allow, Allow, Deny]);
    say(&house, "s", 1, user("yes, and my key is sk-live-4242424242424242")).await;
    assert_eq!(effects(&say(&house, "s", 2, pays(&[20, 70])).await), [Allow, Allow]);

    let first = told.message().await.unwrap().unwrap().difference.unwrap();
    let calls: Vec<_> = first.calls.iter().map(|c| (c.index, c.live(), c.candidate())).collect();
    assert_eq!(calls, [(0, Allow, Deny), (1, Allow, Deny)]);
    // `MOST` hits on both sides.
    let verdicts: Vec<_> = first.verdicts.iter().map(|v| (v.policy.as_str(), v.verdict.as_str(), v.gained)).collect();
    assert_eq!(verdicts, [("ASK", "hit", true)]);
    assert_eq!((first.session_id.as_str(), first.seq, first.pack.as_str()), ("s", 0, "guard"));
    assert_eq!((first.pack_version.as_str(), first.candidate_version.as_str()), ("1.0.0", "1.1.0"));
    let second = told.message().await.unwrap().unwrap().difference.unwrap();
    assert_eq!(second.calls.iter().map(|c| c.index).collect::<Vec<_>>(), [1]);
    assert_eq!(second.verdicts.iter().map(|v| (v.policy.as_str(), v.gained)).collect::<Vec<_>>(), [("MOST", true)]);

    let status = after(&house, 3).await;
    assert_eq!((status.session_count, status.item_count, status.differing_item_count), (1, 3, 2));
    assert_eq!((status.call_count, changed(&status)), (5, vec![(Allow, Deny, 3)]));
    assert_eq!(policies(&status), [("ASK", 1, 0), ("MOST", 1, 0)]);
    assert_eq!((status.skipped_item_count, status.unfollowed_item_count), (0, 0));
    assert!(!format!("{first:?}{second:?}{status:?}").contains("4242"));

    // A candidate that comes anew begins to count anew, and one that means the same has nothing to judge.
    write_pack(candidate.path(), "guard", "1.2.0", &most(100, ""));
    reload(&house).await;
    let status = house.rules_api().await.get_shadow(GetShadowRequest {}).await.unwrap().into_inner();
    assert_eq!((status.item_count, status.differing_item_count, status.policies.len()), (0, 0, 0));
    say(&house, "t", 0, pays(&[70])).await;
    write_pack(candidate.path(), "guard", "1.3.0", &most(500, ""));
    reload(&house).await;
    say(&house, "t", 1, pays(&[200])).await;
    let status = after(&house, 1).await;
    assert_eq!((status.item_count, changed(&status)), (1, vec![(Deny, Allow, 1)]));
    assert_eq!(policies(&status), [("MOST", 0, 1)]);
    // A pack that the candidate does not have is counted.
    write_pack(house.rules.path(), "other", "1.0.0", &most(100, ""));
    reload(&house).await;
    let mut ask = request("u", items(0, [pays(&[70])]));
    ask.pack = "other".to_owned();
    house.engine().await.observe(ask).await.unwrap();
    let status = house.rules_api().await.get_shadow(GetShadowRequest {}).await.unwrap().into_inner();
    assert_eq!((status.item_count, status.absent_item_count), (1, 1));
}

/// A session that was open before the candidate came, and one that is taken up after a restart, are known from their
/// journals; one whose journal outgrew its bound is counted as not followed.
#[tokio::test]
async fn the_candidate_knows_what_was_before_it_came() {
    let candidate = tempfile::tempdir().unwrap();
    let mut house = House::with(|settings| {
        write_pack(settings.rules.path(), "guard", "1.0.0", &most(100, ""));
        settings.shadow_rules = Some(candidate.path().to_owned().into());
        settings.session_journal_bytes = 2000;
    })
    .await;
    say(&house, "s", 0, pays(&[60])).await;
    for seq in 0..5 {
        say(&house, "long", seq, user(&"a message that takes its room".repeat(20))).await;
    }
    let sum = "policy SUM \"in all\" {\n  severity 1\n  on call pay\n  deny if args.amount + sum(it.args.amount over \
               call pay within 100 turns) > 100\n}\n";
    write_pack(candidate.path(), "guard", "1.1.0", &most(100, sum));
    reload(&house).await;
    assert_eq!(effects(&say(&house, "s", 1, pays(&[30])).await), [Allow]);
    assert_eq!(effects(&say(&house, "s", 2, pays(&[30])).await), [Allow]);
    let status = after(&house, 2).await;
    assert_eq!((policies(&status), changed(&status)), (vec![("SUM", 1, 0)], vec![(Allow, Deny, 1)]));
    say(&house, "long", 5, pays(&[30])).await;
    assert_eq!(after(&house, 3).await.unfollowed_item_count, 1);
    house.restart().await;
    tried(&house).await;
    assert_eq!(effects(&say(&house, "s", 3, pays(&[1])).await), [Allow]);
    let status = after(&house, 1).await;
    assert_eq!((status.item_count, policies(&status)), (1, vec![("SUM", 1, 0)]));
}

#[tokio::test]
async fn a_candidate_that_cannot_be_loaded_is_told_and_disturbs_nobody() {
    let (mut house, candidate) = house().await;
    let mut rules = house.rules_api().await;
    let status = tried(&house).await;
    assert_eq!((status.packs.len(), status.loaded_at), (0, None));
    assert!(status.refused.unwrap().rendered.contains("holds no pack"));
    write_pack(candidate.path(), "guard", "1.1.0", &most(50, ""));
    reload(&house).await;
    write_pack(candidate.path(), "guard", "1.2.0", "policy BROKEN");
    reload(&house).await;
    let status = rules.get_shadow(GetShadowRequest {}).await.unwrap().into_inner();
    assert_eq!(status.packs[0].version, "1.1.0", "the one before goes on");
    assert!(status.refused.unwrap().rendered.contains("BROKEN"));
    say(&house, "s", 0, pays(&[70])).await;
    assert_eq!(after(&house, 1).await.differing_item_count, 1);
    house.restart().await;
    assert_eq!(effects(&say(&house, "s", 1, pays(&[70])).await), [Allow]);

    let none = House::start().await;
    let refused = none.rules_api().await.get_shadow(GetShadowRequest {}).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).0.as_str()), (Code::FailedPrecondition, "NO_SHADOW"));
}

/// On real conversations, a candidate that means something else in one policy alone differs there and nowhere else.
#[tokio::test]
async fn on_recorded_episodes_the_candidate_differs_where_it_means_something_else() {
    let candidate = tempfile::tempdir().unwrap();
    crate::drift::copy(Path::new("rules/airline"), &candidate.path().join("airline"));
    let policies = candidate.path().join("airline/policies");
    let file = std::fs::read_dir(&policies).unwrap().map(|e| e.unwrap().path()).min().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let more = "\npolicy Z99 \"every call\" {\n  severity 1\n  on call *\n  flag if tool != \"\"\n}\n";
    std::fs::write(&file, text + more).unwrap();
    let house = House::with(|settings| {
        crate::drift::copy(Path::new("rules/airline"), &settings.rules.path().join("airline"));
        settings.shadow_rules = Some(candidate.path().to_owned().into());
    })
    .await;
    tried(&house).await;
    let episodes = std::fs::read_to_string("tests/data/traces/airline/episodes.jsonl").unwrap();
    let (mut count, mut calls) = (0, 0);
    for line in episodes.lines().take(12) {
        let episode: serde_json::Value = serde_json::from_str(line).unwrap();
        let id = episode["episode_id"].as_str().unwrap();
        for (seq, said) in (0..).zip(episode["messages"].as_array().unwrap()) {
            let mut ask = request(id, items(seq, [message(&said.to_string())]));
            ask.pack = "airline".to_owned();
            let answer = house.engine().await.observe(ask).await.unwrap().into_inner();
            count += 1;
            calls += u64::from(!effects(&answer).is_empty());
        }
    }
    let status = after(&house, count).await;
    assert_eq!((status.item_count, status.session_count), (count, 12));
    assert_eq!(self::policies(&status), [("Z99", calls, 0)]);
    assert_eq!(changed(&status), []);
}

fn served(query: &str) -> Option<PackSource> {
    Some(PackSource { source: Some(Source::Served(query.to_owned())) })
}

fn on_disk(query: &str) -> Option<PackSource> {
    Some(PackSource { source: Some(Source::OnDisk(query.to_owned())) })
}

#[tokio::test]
async fn what_a_change_will_do_can_be_asked_before_it_serves_and_after() {
    let house = House::with(|settings| write_pack(settings.rules.path(), "guard", "1.0.0", &most(100, ""))).await;
    let mut rules: RulesClient<Channel> = house.rules_api().await;
    write_pack(house.rules.path(), "guard", "1.1.0", &most(50, "set vips = {\"bob\"}\n"));
    let call = r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"pay","arguments":{"amount":70}}}]}"#;
    let ask = DiffRequest {
        before: served("guard"),
        after: on_disk("guard@^1.1"),
        episodes_json: vec![format!(r#"{{"episode_id":"e","messages":[{call}]}}"#).into()],
    };
    let told = rules.diff(ask.clone()).await.unwrap().into_inner();
    let (before, after) = (told.before.clone().unwrap(), told.after.clone().unwrap());
    assert_eq!((before.version.as_str(), after.version.as_str()), ("1.0.0", "1.1.0"));
    assert!(told.meaning_changed && !told.probes_changed);
    let policy = &told.policies[0];
    assert_eq!((policy.policy.as_str(), policy.change()), ("MOST", ChangeKind::Changed));
    assert_eq!(policy.aspects[0].aspect(), PolicyAspect::Meaning);
    assert!(policy.aspects[0].after[0].contains("50"), "{policy:?}");
    let declared = &told.declarations[0];
    assert_eq!((declared.kind.as_str(), declared.name.as_str(), declared.change()), ("set", "vips", ChangeKind::Added));
    let verdicts: Vec<_> = told.verdicts.iter().map(|v| (v.episode_id.as_str(), v.turn, v.policy.as_str())).collect();
    assert_eq!((told.episode_count, verdicts, told.verdicts[0].gained), (1, vec![("e", 0, "MOST")], true));
    let hits = [&told.figures_before, &told.figures_after].map(|figures| figures.as_ref().unwrap().hit_count);
    assert_eq!(hits, [0, 1]);
    // Nothing has changed.
    assert_eq!(effects(&say(&house, "s", 0, pays(&[70])).await), [Allow]);

    // Once it serves, what served before is still known by its digest.
    reload(&house).await;
    let kept = Some(PackSource { source: Some(Source::Digest(before.digest.clone())) });
    let again = rules.diff(DiffRequest { before: kept.clone(), after: served("guard"), ..ask.clone() }).await.unwrap();
    assert_eq!(again.into_inner().policies, told.policies);
    let same = rules.diff(DiffRequest { before: kept, after: None, ..ask.clone() }).await.unwrap_err();
    assert_eq!(fields(&same), ["after"]);
    let unknown = Some(PackSource { source: Some(Source::Digest("0".repeat(64))) });
    let unknown = rules.diff(DiffRequest { before: unknown, ..ask.clone() }).await.unwrap_err();
    assert_eq!((unknown.code(), reason(&unknown).0.as_str()), (Code::NotFound, "RULES_NOT_KEPT"));
    let shadow = Some(PackSource { source: Some(Source::Shadow("guard".to_owned())) });
    let none = rules.diff(DiffRequest { before: shadow, ..ask.clone() }).await.unwrap_err();
    assert_eq!(reason(&none).0, "NO_SHADOW");
    let wrong = rules.diff(DiffRequest { before: served("guard@"), ..ask.clone() }).await.unwrap_err();
    assert_eq!(fields(&wrong), ["before.served"]);
    write_pack(house.rules.path(), "guard", "1.2.0", "policy");
    let broken = rules.diff(ask).await.unwrap_err();
    assert_eq!(broken.code(), Code::FailedPrecondition);
}

/// What is known of a session that is closed is let go, and the next of its id begins anew; an open watch ends with the
/// server.
#[tokio::test]
async fn closed_sessions_are_let_go_and_watches_end() {
    let (mut house, candidate) = house().await;
    let sum = "policy SUM \"in all\" {\n  severity 1\n  on call pay\n  deny if args.amount + sum(it.args.amount over \
               call pay within 100 turns) > 100\n}\n";
    write_pack(candidate.path(), "guard", "1.1.0", &most(100, sum));
    reload(&house).await;
    let mut told = house.rules_api().await.watch_shadow(WatchShadowRequest {}).await.unwrap().into_inner();
    for round in 1..=3 {
        say(&house, "s", 0, pays(&[60])).await;
        say(&house, "s", 1, pays(&[30])).await;
        let ask = CloseSessionRequest { session_id: "s".to_owned(), ..Default::default() };
        house.engine().await.close_session(ask).await.unwrap();
        let status = after(&house, 2 * round).await;
        assert_eq!((status.item_count, status.differing_item_count, status.session_count), (2 * round, 0, round));
    }
    assert!(house.stop().await.drained);
    assert!(told.message().await.is_err(), "the server is stopping");
}

/// What is too large to wait for the candidate is passed over and counted. What was judged before an item that is refused
/// is compared.
#[tokio::test]
async fn what_cannot_wait_is_passed_over_and_counted() {
    let (house, candidate) = house().await;
    write_pack(candidate.path(), "guard", "1.1.0", &most(50, ""));
    reload(&house).await;
    let large = format!(r#"{{"role":"user","content":"hello","more":[{}0]}}"#, "0,".repeat(2_050_000));
    say(&house, "s", 0, message(&large)).await;
    assert_eq!(after(&house, 1).await.skipped_item_count, 1);
    // It is taken up again from its journal, or counted as not known if that outgrew its bound.
    say(&house, "s", 1, pays(&[70])).await;
    let status = after(&house, 2).await;
    assert_eq!(status.item_count + status.unfollowed_item_count, 1);

    let first = items(0, [pays(&[70]), end(), pays(&[70])]);
    house.engine().await.observe(request("t", first)).await.unwrap_err();
    let compared = status.item_count + 2;
    assert_eq!(after(&house, 4).await.item_count, compared, "those before the refused one are compared");
}
