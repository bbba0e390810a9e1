//! A server to talk to, and words to talk in.

use std::{fs, path::Path, sync::Arc, time::Duration};

use probity::{
    audit::{Store, StoreError},
    config::{OnTestFailure, Settings, Watch},
    grpc::{
        self, Ended, Running, StartError,
        wire::{
            Effect, End, Item, Mode, ObserveRequest, ObserveResponse, Proposal, QueryRecordsRequest,
            audit_client::AuditClient, item, policy_engine_client::PolicyEngineClient, record,
            rules_client::RulesClient,
        },
    },
    service::LiveRules,
};
use tempfile::TempDir;
use tonic::{Status, transport::Channel};
use tonic_types::StatusExt;

/// Denies payments over 100, asks for review over 50, and declares one policy for a judge.
pub const GUARD: &str = r#"
policy P01 "no payment over 100" {
  severity 1.0
  on call pay
  deny if args.amount > 100
  message "paid {args.amount} to {args.payee}"
}
policy P02 "one payee" {
  severity 0.5
  on call pay
  deny if args.payee == "mallory"
  message "paid mallory"
}
policy R01 "a large payment" {
  severity 0
  on call pay
  review if args.amount > 50
  message "large: {args.amount}"
}
policy S01 "politeness" {
  severity 0.4
  judge "Is the agent polite?"
}
"#;

pub fn write_pack(rules: &Path, name: &str, version: &str, policies: &str) {
    let folder = rules.join(name);
    fs::create_dir_all(folder.join("policies")).unwrap();
    let manifest = format!("name: {name}\nversion: {version}\nformat: 1\nerrors:\n  prefix: Error\n");
    fs::write(folder.join("pack.yaml"), manifest).unwrap();
    fs::write(folder.join("policies").join("all.policy"), policies).unwrap();
}

/// A server with its folders.
pub struct House {
    pub rules: TempDir,
    pub data: TempDir,
    running: Option<Running>,
    settings: Settings,
}

impl House {
    pub async fn start() -> House {
        House::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Settings)) -> House {
        let mut house = House::prepare(change);
        house.running = Some(grpc::start(&house.settings).await.unwrap());
        house
    }

    /// Over a store of the test's own.
    pub async fn over(store: Arc<dyn Store>) -> House {
        House::over_with(store, |_| {}).await
    }

    pub async fn over_with(store: Arc<dyn Store>, change: impl FnOnce(&mut Settings)) -> House {
        let mut house = House::prepare(change);
        let rules = LiveRules::load(&house.settings).unwrap();
        house.running = Some(grpc::start_with(&house.settings, rules, store).await.unwrap());
        house
    }

    /// Folders and settings for a server that is not started yet.
    pub fn unstarted(change: impl FnOnce(&mut Settings)) -> House {
        House::prepare(change)
    }

    fn prepare(change: impl FnOnce(&mut Settings)) -> House {
        let (rules, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write_pack(rules.path(), "guard", "1.0.0", GUARD);
        let mut settings = Settings::defaults();
        settings.rules = rules.path().to_owned().into();
        settings.data = data.path().join("store");
        settings.listen.set_port(0);
        // Tests change rules and load them when they say so; those of the watch turn it on.
        settings.watch = Watch::Off;
        // Tests change packs under which the packs' own tests then fail.
        settings.on_test_failure = OnTestFailure::Warn;
        change(&mut settings);
        House { rules, data, running: None, settings }
    }

    /// Stops the server and starts another on the same folders.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.start_again().await;
    }

    /// Starts another server on the folders of one that was stopped.
    pub async fn start_again(&mut self) {
        match self.try_start().await {
            Ok(running) => self.take(running),
            Err(e) => panic!("{e}"),
        }
    }

    /// Tries to start another server on the folders of one that was stopped.
    pub async fn try_start(&self) -> Result<Running, StartError> {
        // Connections that are still closing hold the store open for a moment.
        for _ in 0..500 {
            match grpc::start(&self.settings).await {
                Err(StartError::Store(StoreError::Locked { .. })) => {
                    tokio::time::sleep(Duration::from_millis(10)).await
                }
                tried => return tried,
            }
        }
        panic!("the store stays locked");
    }

    /// Takes a server in that was started.
    pub fn take(&mut self, running: Running) {
        self.running = Some(running);
    }

    /// Changes the settings of the next start.
    pub fn change(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings);
    }

    pub async fn stop(&mut self) -> Ended {
        self.running.take().unwrap().shut_down().await
    }

    pub fn address(&self) -> String {
        self.running.as_ref().unwrap().address().to_string()
    }

    pub fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    pub fn service(&self) -> &probity::service::Service {
        self.running.as_ref().unwrap().service()
    }

    pub async fn channel(&self) -> Channel {
        connect(&self.address()).await
    }

    pub async fn engine(&self) -> PolicyEngineClient<Channel> {
        PolicyEngineClient::new(self.channel().await)
    }

    pub async fn rules_api(&self) -> RulesClient<Channel> {
        RulesClient::new(self.channel().await)
    }

    pub async fn audit_api(&self) -> AuditClient<Channel> {
        AuditClient::new(self.channel().await)
    }
}

pub async fn connect(address: &str) -> Channel {
    Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

pub fn message(text: &str) -> item::Item {
    item::Item::MessageJson(text.to_owned().into())
}

pub fn user(text: &str) -> item::Item {
    message(&format!(r#"{{"role":"user","content":"{text}"}}"#))
}

/// An assistant message with one call of `pay` per amount.
pub fn pays(amounts: &[i64]) -> item::Item {
    let calls: Vec<String> = (0..)
        .zip(amounts)
        .map(|(n, amount)| {
            let arguments = format!(r#"{{\"amount\":{amount},\"payee\":\"bob\"}}"#);
            format!(r#"{{"id":"call-{n}","type":"function","function":{{"name":"pay","arguments":"{arguments}"}}}}"#)
        })
        .collect();
    message(&format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(",")))
}

pub fn proposal(turn: u32, index: u32, calls: u32, amount: i64) -> item::Item {
    item::Item::Proposal(Proposal {
        turn,
        index,
        calls,
        call_id: format!("call-{index}"),
        tool: "pay".to_owned(),
        arguments_json: format!(r#"{{"amount":{amount},"payee":"bob"}}"#).into(),
        message_text: String::new(),
        time: None,
    })
}

pub fn end() -> item::Item {
    item::Item::End(End {})
}

/// Items from a seq on.
pub fn items(from: u64, bodies: impl IntoIterator<Item = item::Item>) -> Vec<Item> {
    (from..).zip(bodies).map(|(seq, item)| Item { seq, item: Some(item) }).collect()
}

/// A request under `guard`.
pub fn request(session: &str, items: Vec<Item>) -> ObserveRequest {
    ObserveRequest {
        session_id: session.to_owned(),
        pack: "guard".to_owned(),
        mode: Mode::Gate.into(),
        items,
        request_id: String::new(),
        agent_id: String::new(),
    }
}

/// The answers for all calls, in order.
pub fn effects(response: &ObserveResponse) -> Vec<Effect> {
    response.results.iter().flat_map(|r| r.calls.iter().map(|c| c.effect())).collect()
}

/// `policy@turn` of all hits.
pub fn hits(response: &ObserveResponse) -> Vec<String> {
    response.results.iter().flat_map(|r| r.hits.iter().map(|h| format!("{}@{} n{}", h.policy, h.turn, h.n))).collect()
}

/// The reason and the facts of an error.
pub fn reason(status: &Status) -> (String, Vec<(String, String)>) {
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("no reason in {status:?}"));
    let mut facts: Vec<_> = info.metadata.clone().into_iter().collect();
    facts.sort();
    (info.reason.clone(), facts)
}

/// The fields that an error complains about.
pub fn fields(status: &Status) -> Vec<String> {
    let details = status.get_error_details();
    details.bad_request().unwrap().field_violations.iter().map(|v| v.field.clone()).collect()
}

/// Why sessions were closed, in order.
pub async fn closed(house: &House) -> Vec<(String, String)> {
    let query = QueryRecordsRequest { page_size: 1000, ..Default::default() };
    let records = house.audit_api().await.query_records(query).await.unwrap().into_inner().records;
    let closed = records.into_iter().filter_map(|record| match record.body {
        Some(record::Body::Closed(closed)) => Some((closed.session_id, closed.reason)),
        _ => None,
    });
    closed.collect()
}
