//! What is recorded: one record an item, counters, metrics, and never a value of a trace.

use std::{fs, path::Path};

use probity::grpc::wire::{
    GetMetricsRequest, GetPolicyStatsRequest, ItemKind, QueryRecordsRequest, Record, ReportJudgeRequest,
    ScoreEpisodesRequest, VerifyRequest, get_policy_stats_request::Span, record::Body,
};
use tonic::Code;

use crate::support::{House, end, items, message, pays, proposal, reason, request, user};

async fn records(house: &House, query: QueryRecordsRequest) -> Vec<Record> {
    let mut audit = house.audit_api().await;
    let (mut all, mut query) = (Vec::new(), query);
    loop {
        let page = audit.query_records(query.clone()).await.unwrap().into_inner();
        all.extend(page.records);
        if page.next_page_token.is_empty() {
            return all;
        }
        query.page_token = page.next_page_token;
    }
}

fn of_session(session: &str) -> QueryRecordsRequest {
    QueryRecordsRequest { session_id: session.to_owned(), page_size: 2, ..Default::default() }
}

#[tokio::test]
async fn every_item_has_one_record_that_lists_what_did_not_pass() {
    let house = House::start().await;
    let bodies = [user("a"), proposal(1, 0, 1, 500), pays(&[500]), pays(&[60]), message("7"), end()];
    house.engine().await.observe(request("s", items(0, bodies))).await.unwrap();
    house.engine().await.observe(request("other", items(0, [user("a")]))).await.unwrap();
    let records = records(&house, of_session("s")).await;
    assert_eq!(records.iter().map(|r| r.number).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7]);
    let items: Vec<_> = records
        .iter()
        .map(|r| match r.body.as_ref().unwrap() {
            Body::Judged(j) => (j.kind(), j.result.clone().unwrap()),
            other => panic!("{other:?}"),
        })
        .collect();
    use ItemKind::{End, Message, Proposal};
    assert_eq!(items.iter().map(|(k, _)| *k).collect::<Vec<_>>(), [Message, Proposal, Message, Message, Message, End]);
    let proposed = &items[1].1;
    assert_eq!((proposed.hits[0].policy.as_str(), proposed.hits[0].reward), ("P01", 1.0));
    assert_eq!(proposed.calls[0].effect(), probity::grpc::wire::Effect::Deny);
    assert_eq!((proposed.hits[0].message.as_str(), proposed.calls[0].call_id.as_str()), ("", ""));
    assert!(items[2].1.hits.is_empty());
    assert_eq!(items[3].1.signals[0].policy, "R01");
    assert_eq!(items[4].1.malformed.len(), 1);

    let about = QueryRecordsRequest { policy: "R01".to_owned(), ..Default::default() };
    assert_eq!(crate::audit::records(&house, about).await.len(), 2, "it spoke on both payments over 50");
    // A token leads on in its own query alone, whatever the size of its pages.
    let of_all = QueryRecordsRequest { page_size: 1, ..Default::default() };
    let token = house.audit_api().await.query_records(of_all).await.unwrap().into_inner().next_page_token;
    let mut next = QueryRecordsRequest { page_size: 2, page_token: token, ..Default::default() };
    let records = house.audit_api().await.query_records(next.clone()).await.unwrap().into_inner().records;
    assert_eq!(records.iter().map(|record| record.number).collect::<Vec<_>>(), [2, 3]);
    next.session_id = "s".to_owned();
    let refused = house.audit_api().await.query_records(next).await.unwrap_err();
    assert_eq!(crate::support::fields(&refused), ["page_token"]);
    let bad = QueryRecordsRequest { page_token: "nonsense".to_owned(), page_size: -1, ..Default::default() };
    let bad = house.audit_api().await.query_records(bad).await.unwrap_err();
    assert_eq!(crate::support::fields(&bad), ["page_size", "page_token"]);
}

fn bytes_in(folder: &Path, found: &mut Vec<u8>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { bytes_in(&path, found) } else { found.extend(fs::read(path).unwrap()) }
    }
}

#[tokio::test]
async fn no_value_of_a_trace_is_in_the_store_though_the_caller_gets_it() {
    let mut house = House::start().await;
    let secret = "zebra-7719";
    let call = format!(
        r#"{{"role":"assistant","content":"{secret}","tool_calls":[
            {{"id":"{secret}","function":{{"name":"pay","arguments":"{{\"amount\":500,\"payee\":\"{secret}\"}}"}}}},
            {{"id":"b","function":{{"name":"pay","arguments":"{secret}"}}}}]}}"#
    );
    let result = format!(r#"{{"role":"tool","tool_call_id":"{secret}-unknown","content":"{secret}"}}"#);
    let odd = format!(r#"{{"role":"{secret}","content":"{secret}"}}"#);
    let bodies = [user(secret), message(&call), message(&result), message(&odd), end()];
    let answer = house.engine().await.observe(request("s", items(0, bodies))).await.unwrap().into_inner();
    assert!(answer.results[1].hits[0].message.contains(secret));
    assert!(
        answer.results.iter().any(|r| !r.undecided.is_empty())
            && answer.results.iter().any(|r| !r.malformed.is_empty())
    );
    house.stop().await;
    let mut found = Vec::new();
    bytes_in(house.data.path(), &mut found);
    let holds = |text: &str| found.windows(text.len()).any(|w| w == text.as_bytes());
    assert!(holds("P01"), "the records are there");
    assert!(!holds(secret));
}

#[tokio::test]
async fn counters_are_kept_per_session_version_and_all_time_over_a_restart() {
    let mut house = House::start().await;
    house.engine().await.observe(request("a", items(0, [pays(&[500]), pays(&[500])]))).await.unwrap();
    house.restart().await;
    house.engine().await.observe(request("b", items(0, [pays(&[500])]))).await.unwrap();
    crate::support::write_pack(house.rules.path(), "guard", "2.0.0", crate::support::GUARD);
    house.service().reload().await.unwrap();
    house.engine().await.observe(request("c", items(0, [pays(&[500])]))).await.unwrap();
    let mut audit = house.audit_api().await;
    let mut hits = async |span: Option<Span>| {
        let ask = GetPolicyStatsRequest { pack: "guard".to_owned(), span };
        let stats = audit.get_policy_stats(ask).await.unwrap().into_inner().stats;
        stats.iter().find(|s| s.policy == "P01").map_or(0, |s| s.hits)
    };
    assert_eq!(hits(None).await, 4);
    assert_eq!(hits(Some(Span::PackVersion("1.0.0".to_owned()))).await, 3);
    assert_eq!(hits(Some(Span::PackVersion("2.0.0".to_owned()))).await, 1);
    assert_eq!(hits(Some(Span::SessionId("a".to_owned()))).await, 2);
    assert_eq!(hits(Some(Span::SessionId("b".to_owned()))).await, 1);
    let all = records(&house, QueryRecordsRequest::default()).await;
    let numbers: Vec<u64> = all.iter().map(|r| r.number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(all.iter().filter(|r| matches!(r.body, Some(Body::Activation(_)))).count(), 3);
}

#[tokio::test]
async fn metrics_count_recorded_sessions_and_keep_judges_apart() {
    let house = House::start().await;
    let mut engine = house.engine().await;
    engine.observe(request("a", items(0, [pays(&[500]), pays(&[500]), pays(&[500]), end()]))).await.unwrap();
    engine.observe(request("b", items(0, [user("hello"), message("7"), end()]))).await.unwrap();
    for (policy, turn, hit) in [("P01", 1, true), ("P01", 2, false), ("S01", 0, true)] {
        let report = ReportJudgeRequest {
            session_id: "a".to_owned(),
            policy: policy.to_owned(),
            turn,
            hit,
            judge_id: "judge-1".to_owned(),
            request_id: String::new(),
        };
        engine.report_judge(report).await.unwrap();
    }
    let unknown =
        ReportJudgeRequest { session_id: "a".into(), policy: "P99".into(), judge_id: "j".into(), ..Default::default() };
    assert_eq!(engine.report_judge(unknown.clone()).await.unwrap_err().code(), Code::InvalidArgument);
    let nobody = ReportJudgeRequest { session_id: "nobody".into(), policy: "P01".into(), ..unknown };
    let nobody = engine.report_judge(nobody).await.unwrap_err();
    assert_eq!((nobody.code(), reason(&nobody).0.as_str()), (Code::NotFound, "UNKNOWN_SESSION"));

    let ask = GetMetricsRequest { pack: "guard".to_owned(), ..Default::default() };
    let m = house.audit_api().await.get_metrics(ask).await.unwrap().into_inner().metrics.unwrap();
    assert_eq!((m.episodes, m.declared_policies, m.implemented_policies), (2, 3, 2));
    assert_eq!(m.unsupported_policies, ["S01"]);
    assert_eq!((m.raw_hits, m.distinct_episode_policy_hits, m.episodes_with_hits), (3, 1, 1));
    assert_eq!((m.total_violation_reward, m.violation_yield_per_100_episodes), (1.5, 150.0));
    assert_eq!(m.raw_hits_by_policy["P01"], 3);
    assert_eq!((m.malformed[0].episode_id.as_str(), m.malformed[0].reasons[0].turn), ("b", 1));
    assert_eq!(m.signals_by_policy["review"].by_policy["R01"], 3);
    let judge = m.judge.unwrap();
    assert_eq!((judge.verdicts, judge.hits, judge.unverified), (3, 2, 1));
    assert_eq!((judge.agreement, judge.precision), (0.5, 1.0));
}

#[tokio::test]
async fn metrics_are_of_all_sessions_of_some_or_of_a_time() {
    let house = House::start().await;
    let mut engine = house.engine().await;
    for (session, amounts) in [("a", [500, 700]), ("b", [500, 20]), ("c", [10, 20])] {
        let bodies = [pays(&amounts[..1]), pays(&amounts[1..]), end()];
        engine.observe(request(session, items(0, bodies))).await.unwrap();
    }
    let measure = async |ask: GetMetricsRequest| {
        let ask = GetMetricsRequest { pack: "guard".to_owned(), ..ask };
        let m = house.audit_api().await.get_metrics(ask).await.unwrap().into_inner().metrics.unwrap();
        (m.episodes, m.raw_hits, m.distinct_episode_policy_hits, m.total_violation_reward)
    };
    assert_eq!(measure(GetMetricsRequest::default()).await, (3, 3, 2, 2.5));
    let some = |sessions: &[&str]| GetMetricsRequest {
        session_ids: sessions.iter().map(|id| (*id).to_owned()).collect(),
        ..Default::default()
    };
    assert_eq!(measure(some(&["a", "c"])).await, (2, 2, 1, 1.5));
    assert_eq!(measure(some(&["c", "nobody"])).await, (1, 0, 0, 0.0));
    let later = prost_types::Timestamp { seconds: 4_000_000_000, nanos: 0 };
    assert_eq!(measure(GetMetricsRequest { end_time: Some(later), ..Default::default() }).await, (3, 3, 2, 2.5));
    assert_eq!(measure(GetMetricsRequest { start_time: Some(later), ..Default::default() }).await, (0, 0, 0, 0.0));
}

#[tokio::test]
async fn what_is_too_old_or_too_much_is_dropped_and_the_rest_verifies() {
    let mut house = House::start().await;
    for seq in 0..40 {
        house.engine().await.observe(request("s", items(seq, [pays(&[500; 40])]))).await.unwrap();
    }
    let verify = async |house: &House| {
        let verified = house.audit_api().await.verify(VerifyRequest::default()).await.unwrap().into_inner();
        assert!(verified.whole, "{verified:?}");
        verified.first_record
    };
    assert_eq!(verify(&house).await, 1);
    house.stop().await;
    house.change(|settings| settings.audit_keep_bytes = 8_000);
    house.start_again().await;
    while verify(&house).await == 1 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let first = verify(&house).await;
    assert!((2..40).contains(&first), "{first}");
    house.stop().await;
    house.change(|settings| settings.audit_keep_for = std::time::Duration::from_millis(1));
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    house.start_again().await;
    while verify(&house).await <= 41 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // The record that tells of it follows.
    let told = async |house: &House| {
        let held = records(house, QueryRecordsRequest::default()).await;
        held.iter().any(|r| matches!(r.body, Some(Body::RecordsPruned(_))))
    };
    while !told(&house).await {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // Counters stay, and the session goes on.
    let next = house.engine().await.observe(request("s", items(40, [pays(&[500])]))).await.unwrap().into_inner();
    assert_eq!(next.results[0].hits[0].n, 40);
}

#[tokio::test]
async fn a_judge_can_report_after_the_server_was_restarted() {
    let mut house = House::start().await;
    house.engine().await.observe(request("a", items(0, [pays(&[500]), end()]))).await.unwrap();
    house.restart().await;
    let report = ReportJudgeRequest {
        session_id: "a".to_owned(),
        policy: "P01".to_owned(),
        turn: 0,
        hit: true,
        judge_id: "judge-1".to_owned(),
        request_id: String::new(),
    };
    let number = house.engine().await.report_judge(report).await.unwrap().into_inner().record;
    let records = records(&house, of_session("a")).await;
    let last = records.last().unwrap();
    assert_eq!(last.number, number);
    let Some(Body::Judge(verdict)) = &last.body else { panic!("{last:?}") };
    assert_eq!((verdict.policy.as_str(), verdict.hit, verdict.judge_id.as_str()), ("P01", true, "judge-1"));
    assert_eq!(last.pack_version, "1.0.0");
}

#[tokio::test]
async fn episodes_are_scored_without_a_trace_in_the_store() {
    let house = House::start().await;
    let text = |content: &str| {
        format!(
            r#"{{"episode_id":"e1","messages":[{{"role":"user","content":"{content}"}},
            {{"role":"assistant","tool_calls":[{{"id":"a","function":{{"name":"pay","arguments":{{"amount":500,"payee":"bob"}}}}}}]}},
            {{"role":"assistant","tool_calls":[{{"id":"b","function":{{"name":"pay","arguments":{{"payee":"mallory","amount":500.0}}}}}}]}}]}}"#
        )
    };
    // The same messages, written otherwise.
    let respaced =
        text("hi").replace("\"role\":\"user\",\"content\":\"hi\"", " \"content\" : \"hi\", \"role\":\"user\"");
    let ask = ScoreEpisodesRequest {
        pack: "guard".to_owned(),
        episodes_json: vec![text("hi").into(), respaced.into(), text("ho").into(), "{}".into()],
        known_policies: Vec::new(),
    };
    let answer = house.engine().await.score_episodes(ask.clone()).await.unwrap().into_inner();
    let score = &answer.scores[0];
    assert_eq!(score.episode_id, "e1");
    assert_eq!(score.turn_rewards, [0.0, 1.0, 1.0]);
    assert_eq!(score.violation_reward, 2.0);
    // The pack declares no other component.
    let reward = score.reward.as_ref().unwrap();
    assert_eq!((reward.violation.unwrap().value, reward.violation.unwrap().weight, reward.total), (2.0, 1.0, 2.0));
    assert_eq!((reward.plausibility, reward.progress, reward.diversity), (None, None, None));
    assert_eq!(
        score.hits.iter().map(|h| (h.policy.as_str(), h.turn)).collect::<Vec<_>>(),
        [("P01", 1), ("P01", 2), ("P02", 2)]
    );
    assert_eq!(score.input_digest, answer.scores[1].input_digest);
    assert_ne!(score.input_digest, answer.scores[2].input_digest);
    assert_eq!((answer.scores[3].episode_id.as_str(), answer.scores[3].malformed.len()), ("line-4", 1));
    assert_eq!(house.engine().await.score_episodes(ask).await.unwrap().into_inner(), answer);
    assert_eq!(house.service().status().unwrap().last_record, 1, "only the activation is recorded");

    let broken = ScoreEpisodesRequest {
        pack: "guard".to_owned(),
        episodes_json: vec!["[]".into(), "x".into()],
        known_policies: vec![],
    };
    let broken = house.engine().await.score_episodes(broken).await.unwrap_err();
    assert_eq!(crate::support::fields(&broken), ["episodes_json[0]", "episodes_json[1]"]);
}
