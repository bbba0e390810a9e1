//! Requests that are sent again, as by callers whose connection broke: counted once.

use std::collections::BTreeMap;

use probity::grpc::wire::{
    GetPolicyStatsRequest, QueryRecordsRequest, ReportJudgeRequest, ReportJudgeResponse, record::Body,
};
use tonic::Code;

use crate::support::{House, items, pays, reason, request};

const CALLERS: u64 = 8;

/// Numbers that look random, the same each time.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

fn report(session: &str, n: u64) -> ReportJudgeRequest {
    ReportJudgeRequest {
        session_id: session.to_owned(),
        policy: "P01".to_owned(),
        turn: u32::try_from(n).unwrap(),
        hit: n.is_multiple_of(2),
        judge_id: "judge-1".to_owned(),
        request_id: format!("{session}-{n}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_sent_again_are_counted_once() {
    let all = std::env::var("PROBITY_RETRIES").ok().map_or(1_000, |n| n.parse().unwrap());
    let house = House::with(|settings| settings.retained_results = 64).await;
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let mut engine = house.engine().await;
        callers.push(tokio::spawn(async move {
            let session = format!("caller-{caller}");
            let mut random = random(caller);
            let mut sent = 0;
            let mut records = BTreeMap::new();
            let mut next = 0;
            while sent < all / CALLERS {
                // One of the last that were answered, or something new, and a judge's report with it.
                let again = next > 0 && random(10) < 3;
                let seq = if again { next - 1 - random(next.min(20)) } else { next };
                let ask = request(&session, items(seq, [pays(&[500])]));
                let mut both = engine.clone();
                let answer = match random(4) {
                    // Twice at once, as when a caller does not wait for the first to fail.
                    0 => tokio::join!(engine.observe(ask.clone()), both.observe(ask)).0,
                    _ => engine.observe(ask).await,
                };
                assert_eq!(answer.unwrap().into_inner().results[0].hits[0].n, u32::try_from(seq).unwrap());
                let ReportJudgeResponse { record } =
                    engine.report_judge(report(&session, seq)).await.unwrap().into_inner();
                assert_eq!(*records.entry(seq).or_insert(record), record, "the answer is that of before");
                next = next.max(seq + 1);
                sent += 2;
            }
            (session, next, records)
        }));
    }
    let mut expected = 0;
    for caller in callers {
        let (session, distinct, records) = caller.await.unwrap();
        expected += distinct;
        let mut query = QueryRecordsRequest { session_id: session, page_size: 1000, ..Default::default() };
        let mut stored: Vec<(u64, bool)> = Vec::new();
        loop {
            let page = house.audit_api().await.query_records(query.clone()).await.unwrap().into_inner();
            stored.extend(page.records.iter().map(|r| (r.number, matches!(r.body, Some(Body::Judge(_))))));
            if page.next_page_token.is_empty() {
                break;
            }
            query.page_token = page.next_page_token;
        }
        let judged: Vec<u64> = stored.iter().filter(|(_, judge)| *judge).map(|(number, _)| *number).collect();
        assert_eq!(judged, records.values().copied().collect::<Vec<_>>());
        assert_eq!(stored.len() as u64, 2 * distinct);
    }
    let stats = GetPolicyStatsRequest { pack: "guard".to_owned(), span: None };
    let stats = house.audit_api().await.get_policy_stats(stats).await.unwrap().into_inner().stats;
    let p01 = stats.iter().find(|s| s.policy == "P01").unwrap();
    assert_eq!((p01.hits, p01.sessions_with_hits), (expected, CALLERS));
    println!("{all} requests, {expected} distinct judgements, counted once");
}

#[tokio::test]
async fn a_name_stands_for_one_request_of_one_method_and_outlives_the_server() {
    let mut house = House::start().await;
    house.engine().await.observe(request("s", items(0, [pays(&[500])]))).await.unwrap();
    let first = house.engine().await.report_judge(report("s", 0)).await.unwrap().into_inner();
    house.restart().await;
    let mut engine = house.engine().await;
    assert_eq!(engine.report_judge(report("s", 0)).await.unwrap().into_inner(), first);
    let other = ReportJudgeRequest { turn: 7, ..report("s", 0) };
    let other = engine.report_judge(other).await.unwrap_err();
    assert_eq!((other.code(), reason(&other).0.as_str()), (Code::FailedPrecondition, "OTHER_CONTENT"));
    // Without a name each report counts.
    let nameless = || ReportJudgeRequest { request_id: String::new(), ..report("s", 0) };
    let one = engine.report_judge(nameless()).await.unwrap().into_inner().record;
    let two = engine.report_judge(nameless()).await.unwrap().into_inner().record;
    assert!(first.record < one && one < two);
    // The same name under another method is another request.
    let close = probity::grpc::wire::CloseSessionRequest { session_id: "s".to_owned(), request_id: "s-0".to_owned() };
    engine.close_session(close.clone()).await.unwrap();
    engine.close_session(close).await.unwrap();
}
