//! ObserveStream, and that how a trace is cut into requests changes nothing.

use futures_util::{StreamExt, stream};
use probity::grpc::wire::{ObserveRequest, ObserveResponse, Result as Judged};
use tonic::{Code, Status};

use crate::support::{House, end, hits, items, message, pays, proposal, reason, request, user};

async fn over_stream(house: &House, requests: Vec<ObserveRequest>) -> Vec<Result<ObserveResponse, Status>> {
    let answers = house.engine().await.observe_stream(stream::iter(requests)).await.unwrap();
    answers.into_inner().collect().await
}

#[tokio::test]
async fn a_stream_answers_in_order_and_carries_several_sessions() {
    let house = House::start().await;
    let mut requests = Vec::new();
    for seq in 0..200 {
        requests.push(request("a", items(seq, [pays(&[500])])));
        requests.push(request("b", items(seq, [user("x")])));
    }
    let answers = over_stream(&house, requests).await;
    assert_eq!(answers.len(), 400);
    for (place, answer) in answers.iter().enumerate() {
        let answer = answer.as_ref().unwrap();
        assert_eq!(answer.session_id, if place % 2 == 0 { "a" } else { "b" });
        assert_eq!(answer.results[0].seq, place as u64 / 2);
    }
    assert_eq!(house.service().status().unwrap().last_record, 401, "one of them is the activation");
}

#[tokio::test]
async fn the_first_refused_request_ends_the_stream_and_nothing_behind_it_is_judged() {
    let house = House::start().await;
    let requests = vec![
        request("a", items(0, [user("x")])),
        request("a", items(5, [user("gap")])),
        request("b", items(0, [user("never")])),
    ];
    let answers = over_stream(&house, requests).await;
    assert_eq!(answers.len(), 2);
    assert!(answers[0].is_ok());
    let refused = answers[1].as_ref().unwrap_err();
    assert_eq!((refused.code(), reason(refused).0.as_str()), (Code::FailedPrecondition, "SEQ_GAP"));
    assert_eq!(house.service().status().unwrap().last_record, 2);
}

/// A trace with everything in it: proposals, results, odd messages, violations.
fn trace() -> Vec<probity::grpc::wire::item::Item> {
    let mut trace = vec![user("start")];
    for round in 0..6u32 {
        let turn = 1 + round * 4;
        trace.push(proposal(turn, 0, 1, i64::from(round) * 60));
        trace.push(pays(&[i64::from(round) * 60]));
        trace.push(message(r#"{"role":"tool","tool_call_id":"call-0","content":"{\"ok\":true}"}"#));
        trace.push(message(r#"{"role":"tool","tool_call_id":"nothing","content":"x"}"#));
        trace.push(pays(&[10, 70 * i64::from(round)]));
    }
    trace.push(message("[1]"));
    trace.push(end());
    trace
}

fn cut(session: &str, sizes: &[usize]) -> Vec<ObserveRequest> {
    let mut rest: &[_] = &items(0, trace());
    let mut requests = Vec::new();
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let (now, later) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
        requests.push(request(session, now.to_vec()));
        rest = later;
    }
    requests
}

fn results(answers: Vec<ObserveResponse>) -> Vec<Judged> {
    answers.into_iter().flat_map(|a| a.results).collect()
}

#[tokio::test]
async fn any_cut_into_requests_gives_the_same_answers_unary_and_streamed() {
    let house = House::start().await;
    let whole = house.engine().await.observe(cut("whole", &[1000]).remove(0)).await.unwrap().into_inner();
    assert!(hits(&whole).len() > 3);
    let whole = results(vec![whole]);
    // Sizes from a small generator of fixed seeds, so that a failure comes back.
    let mut state = 7u64;
    for round in 0..30 {
        let sizes: Vec<usize> = (0..10)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                1 + (state >> 60) as usize
            })
            .collect();
        let sizes = if round == 0 { vec![1] } else { sizes };
        let mut unary = Vec::new();
        let mut engine = house.engine().await;
        for ask in cut(&format!("unary-{round}"), &sizes) {
            unary.push(engine.observe(ask).await.unwrap().into_inner());
        }
        assert_eq!(results(unary), whole, "{sizes:?}");
        let streamed = over_stream(&house, cut(&format!("stream-{round}"), &sizes)).await;
        assert_eq!(results(streamed.into_iter().map(Result::unwrap).collect()), whole, "{sizes:?}");
    }
}
