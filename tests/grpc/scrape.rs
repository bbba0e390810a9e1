//! The page of figures: it says what the status of the rules says.

use std::fs;

use probity::{grpc::wire::ReloadRequest, scrape};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{House, items, pays, request, write_pack};

/// The answer to a plain request, with its head.
async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let ask = format!("GET {path} HTTP/1.1\r\nHost: probity\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn figures_say_what_serves_and_that_it_is_stale() {
    let candidate = tempfile::tempdir().unwrap();
    write_pack(
        candidate.path(),
        "guard",
        "1.1.0",
        "policy NONE \"none\" {\n  severity 1\n  on call pay\n  deny if args.amount > 1\n}\n",
    );
    let house = House::with(|settings| settings.shadow_rules = Some(candidate.path().to_owned().into())).await;
    let listener = scrape::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = scrape::serve(listener, house.running().service().clone());
    while house.running().service().shadow().unwrap().status().candidate.set.is_empty() {
        tokio::task::yield_now().await;
    }
    house.engine().await.observe(request("s-4242", items(0, [pays(&[5])]))).await.unwrap();
    let page = loop {
        let page = get(address, "/metrics").await;
        if page.contains("probity_shadow_items_total{outcome=\"compared\"} 1") {
            break page;
        }
        tokio::task::yield_now().await;
    };
    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    assert!(page.to_lowercase().contains("content-type: application/openmetrics-text"), "{page}");
    let digest = house.running().service().served().set.get("guard").unwrap().digest().to_string();
    for line in [
        "probity_rules_generation 1",
        "probity_rules_stale 0",
        "probity_rules_loads_total{result=\"accepted\"} 1",
        "probity_rules_loads_total{result=\"refused\"} 0",
        &format!("probity_rules_pack{{pack=\"guard\",version=\"1.0.0\",digest=\"{digest}\"}} 1"),
        "probity_sessions 1",
        "probity_shadow_verdicts_total{pack=\"guard\",policy=\"NONE\",change=\"gained\"} 1",
        "# EOF",
    ] {
        assert!(page.lines().any(|l| l == line), "{line}\n{page}");
    }
    assert!(!page.contains("4242"), "sessions have no label");

    fs::write(house.rules.path().join("guard/pack.yaml"), "name: guard\n").unwrap();
    house.rules_api().await.reload(ReloadRequest::default()).await.unwrap_err();
    let page = get(address, "/metrics").await;
    assert!(page.contains("probity_rules_stale 1\n"), "{page}");
    assert!(page.contains("probity_rules_loads_total{result=\"refused\"} 1\n"), "{page}");
    assert!(page.lines().any(|l| l.starts_with("probity_rules_stale_since_seconds ")), "{page}");
    assert!(get(address, "/").await.starts_with("HTTP/1.1 404"));
    served.abort();
}
