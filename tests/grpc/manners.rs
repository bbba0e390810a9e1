//! What any client may expect: health, reflection, deadlines, limits, an orderly end.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use probity::{
    audit::{FaultyStore, Store},
    grpc::wire::{ObserveRequest, Recording},
};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::{v1, v1alpha};

use crate::support::{House, items, pays, reason, request, user};

pub const SERVING: i32 = 1;
pub const NOT_SERVING: i32 = 2;

pub async fn health(house: &House, service: &str) -> i32 {
    let request = HealthCheckRequest { service: service.to_owned() };
    HealthClient::new(house.channel().await).check(request).await.unwrap().into_inner().status
}

#[tokio::test]
async fn health_is_told_per_service_and_for_all() {
    let house = House::start().await;
    for service in ["", "probity.v1.PolicyEngine", "probity.v1.Rules", "probity.v1.Audit"] {
        assert_eq!(health(&house, service).await, SERVING, "{service}");
    }
    let request = HealthCheckRequest { service: "probity.v1.Nothing".to_owned() };
    let unknown = HealthClient::new(house.channel().await).check(request).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
}

#[tokio::test]
async fn reflection_lists_the_services_in_both_versions() {
    let house = House::start().await;
    let expected = ["grpc.health.v1.Health", "probity.v1.Audit", "probity.v1.PolicyEngine", "probity.v1.Rules"];
    let ask = v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1::server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(house.channel().await);
    let mut answers = client.server_reflection_info(tokio_stream::once(ask)).await.unwrap().into_inner();
    let answer = answers.next().await.unwrap().unwrap().message_response.unwrap();
    let v1::server_reflection_response::MessageResponse::ListServicesResponse(list) = answer else {
        panic!("{answer:?}")
    };
    let names: Vec<&str> = list.service.iter().map(|s| s.name.as_str()).collect();
    assert!(expected.iter().all(|name| names.contains(name)), "{names:?}");

    let ask = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1alpha::server_reflection_request::MessageRequest::FileContainingSymbol(
            "probity.v1.PolicyEngine".to_owned(),
        )),
    };
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(house.channel().await);
    let mut answers = client.server_reflection_info(tokio_stream::once(ask)).await.unwrap().into_inner();
    let answer = answers.next().await.unwrap().unwrap().message_response.unwrap();
    assert!(
        matches!(answer, v1alpha::server_reflection_response::MessageResponse::FileDescriptorResponse(_)),
        "{answer:?}"
    );
}

/// Sends a raw request with a `grpc-timeout` that only the server knows of; gives the status code.
async fn raw_status(address: &str, method: &str, message: &ObserveRequest, timeout: &str) -> i32 {
    let io = TokioIo::new(tokio::net::TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let mut body = vec![0];
    body.extend_from_slice(&u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
    body.extend_from_slice(&message.encode_to_vec());
    let request = hyper::Request::post(format!("http://{address}/probity.v1.PolicyEngine/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", timeout)
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let code = |headers: &hyper::HeaderMap| headers.get("grpc-status").map(|s| s.to_str().unwrap().parse().unwrap());
    if let Some(code) = code(response.headers()) {
        return code;
    }
    let body = response.into_body().collect().await.unwrap();
    code(body.trailers().unwrap()).unwrap()
}

#[tokio::test]
async fn a_deadline_is_answered_as_such_and_what_was_judged_is_recorded() {
    let store = Arc::new(FaultyStore::default());
    let house = House::over(store.clone()).await;
    store.hold(true);
    let ask = request("s", items(0, [pays(&[500])]));
    for method in ["Observe", "ObserveStream"] {
        let code = raw_status(&house.address(), method, &ask, "200m").await;
        assert_eq!(code, Code::DeadlineExceeded as i32, "{method}");
    }
    store.hold(false);
    // The repetition finds it judged, once.
    let answer = house.engine().await.observe(ask).await.unwrap().into_inner();
    assert_eq!(answer.results[0].hits.len(), 1);
    assert_eq!(house.service().status().unwrap().last_record, 2);
}

#[tokio::test]
async fn nothing_is_answered_before_it_is_stored_and_a_repetition_waits_as_well() {
    let store = Arc::new(FaultyStore::default());
    let house = House::over(store.clone()).await;
    store.hold(true);
    let ask = request("s", items(0, [user("a")]));
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let (mut engine, ask) = (house.engine().await, ask.clone());
        waiting.push(tokio::spawn(async move { engine.observe(ask).await }));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(waiting.iter().all(|w| !w.is_finished()));
    store.hold(false);
    for answer in waiting {
        answer.await.unwrap().unwrap();
    }
    assert_eq!(store.last().unwrap(), 2);
}

#[tokio::test]
async fn a_store_that_fails_is_unavailable_and_not_serving() {
    let store = Arc::new(FaultyStore::default());
    let mut house = House::over(store.clone()).await;
    let mut engine = house.engine().await;
    engine.observe(request("s", items(0, [user("a")]))).await.unwrap();
    store.fail();
    for seq in [1, 1, 2] {
        let failed = engine.observe(request("s", items(seq, [user("b")]))).await.unwrap_err();
        assert_eq!((failed.code(), reason(&failed).0.as_str()), (Code::Unavailable, "AUDIT_STORE_FAILED"));
        assert!(failed.message().contains("no space left"), "{}", failed.message());
    }
    // Told by a task of its own, a moment later.
    for _ in 0..200 {
        if health(&house, "").await == NOT_SERVING {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(health(&house, "probity.v1.PolicyEngine").await, NOT_SERVING);
    assert!(!house.stop().await.kept);
}

#[tokio::test]
async fn a_store_that_works_again_is_served_again_and_nothing_is_lost_or_counted_twice() {
    let store = Arc::new(FaultyStore::default());
    let mut house = House::over(store.clone()).await;
    let mut engine = house.engine().await;
    store.fail();
    let first = request("s", items(0, [pays(&[500])]));
    assert_eq!(engine.observe(first.clone()).await.unwrap_err().code(), Code::Unavailable);
    store.heal();
    let answer = loop {
        match engine.observe(first.clone()).await {
            Ok(answer) => break answer.into_inner(),
            Err(status) => assert_eq!(status.code(), Code::Unavailable),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((answer.results[0].hits[0].n, answer.recording()), (0, Recording::Stored));
    let next = engine.observe(request("s", items(1, [pays(&[500])]))).await.unwrap().into_inner();
    assert_eq!(next.results[0].hits[0].n, 1);
    while health(&house, "").await != SERVING {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The pack's activation and two judgements.
    assert_eq!(store.last().unwrap(), 3);
    assert!(house.stop().await.kept);
}

#[tokio::test]
async fn the_end_is_orderly() {
    let mut house = House::with(|s| s.shutdown_limit = Duration::from_secs(5)).await;
    let mut watch = HealthClient::new(house.channel().await);
    let mut watch = watch.watch(HealthCheckRequest { service: String::new() }).await.unwrap().into_inner();
    assert_eq!(watch.next().await.unwrap().unwrap().status, SERVING);
    // A stream that its client would keep open for ever.
    let (send, requests) = mpsc::channel(4);
    send.send(request("s", items(0, [user("a")]))).await.unwrap();
    let answers = house.engine().await.observe_stream(ReceiverStream::new(requests)).await.unwrap();
    let mut answers = answers.into_inner();
    answers.next().await.unwrap().unwrap();

    let ended = house.stop().await;
    assert!(ended.drained && ended.kept, "{ended:?}");
    assert_eq!(watch.next().await.unwrap().unwrap().status, NOT_SERVING);
    let last = answers.next().await.unwrap().unwrap_err();
    assert_eq!((last.code(), reason(&last).0.as_str()), (Code::Unavailable, "STOPPING"));
}

#[tokio::test]
async fn the_end_has_a_limit_and_says_what_was_not_kept() {
    let store = Arc::new(FaultyStore::default());
    let mut house = House::over_with(store.clone(), |s| s.shutdown_limit = Duration::from_millis(200)).await;
    store.hold(true);
    let mut engine = house.engine().await;
    let stuck = tokio::spawn(async move { engine.observe(request("s", items(0, [user("a")]))).await });
    while house.service().status().unwrap().generations.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let ended = house.stop().await;
    assert!(!ended.drained && !ended.kept, "{ended:?}");
    assert!(stuck.await.unwrap().is_err(), "what is not stored is not acknowledged");
    store.hold(false);
}
