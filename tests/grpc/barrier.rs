//! An auditor and a target on two sides of an episode: what each receives, and above all what the auditor does not.

use std::{fs, sync::Arc, time::Duration};

use probity::{
    audit::FaultyStore,
    grpc::wire::{
        AuditorEnd, AuditorSide, CloseSessionRequest, End, EpisodeEndReason, EpisodeInput, EpisodeJoin, Hit,
        JoinEpisodeRequest, JoinEpisodeResponse, Mode, ObserveRequest, Proposal, QueryRecordsRequest, ReloadRequest,
        ScoreEpisodesRequest, TargetEnd, TargetSide, ToAuditor, ToTarget, episode_input::Input, episode_join,
        join_episode_request, join_episode_response, policy_engine_client::PolicyEngineClient, record, to_auditor,
        to_target,
    },
    service::{JoinAsk, Secrets},
};
use prost::Message as _;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

use crate::support::{House, fields, items, reason, request, user, write_pack};

/// Everything that is private holds this.
const MARK: &str = "mark7731";

/// A pack whose every private word is marked.
fn vault(house: &House, sees: &str) {
    let policies = format!(
        r#"
policy {MARK}_limit "{MARK} title" {{
  severity 1.0
  on call {MARK}_pay
  deny if args.amount > 100
  message "{MARK} paid {{args.amount}} to {{args.payee}}"
}}
policy {MARK}_kept "{MARK} said" {{
  severity 0.25
  on assistant
  flag if text contains "{MARK}"
  message "{MARK} was said"
}}
policy {MARK}_user "{MARK} asks" {{
  severity 0
  on user
  flag if text contains "vault"
  message "{MARK} is asked for"
}}
policy {MARK}_open "{MARK} must be closed" {{
  severity 0.5
  on call {MARK}_pay
  deny if args.missing.{MARK} > 1
  message "{MARK} is open"
}}
"#
    );
    write_pack(house.rules.path(), "vault", "1.0.0", &policies);
    let manifest = house.rules.path().join("vault/pack.yaml");
    fs::write(&manifest, fs::read_to_string(&manifest).unwrap() + sees).unwrap();
}

async fn house_with(sees: &str) -> House {
    let house = House::start().await;
    vault(&house, sees);
    reload(&house).await.unwrap();
    house
}

async fn reload(house: &House) -> Result<(), Status> {
    house.rules_api().await.reload(ReloadRequest::default()).await.map(|_| ())
}

const AUDITOR: &str = "the secret of the auditor";
const TARGET: &str = "the secret of the target";

fn sha(secret: &str) -> bytes::Bytes {
    Sha256::digest(secret).to_vec().into()
}

fn as_auditor(received: u64) -> EpisodeJoin {
    EpisodeJoin {
        episode_id: "e".to_owned(),
        pack: "vault".to_owned(),
        agent_id: String::new(),
        secret: AUDITOR.to_owned(),
        other_secret_sha256: sha(TARGET),
        received,
        side: Some(episode_join::Side::Auditor(AuditorSide { scenario: "a shop".to_owned() })),
    }
}

fn as_target(received: u64) -> EpisodeJoin {
    let setup_json = vec![json!({"role": "system", "content": format!("{MARK} system prompt")}).to_string().into()];
    EpisodeJoin {
        secret: TARGET.to_owned(),
        other_secret_sha256: sha(AUDITOR),
        side: Some(episode_join::Side::Target(TargetSide { setup_json })),
        ..as_auditor(received)
    }
}

/// A side of an episode, with everything that it ever received.
struct Side {
    engine: PolicyEngineClient<Channel>,
    send: mpsc::Sender<JoinEpisodeRequest>,
    receive: Streaming<JoinEpisodeResponse>,
    number: u64,
    received: u64,
    heard: String,
}

fn note(heard: &mut String, response: &JoinEpisodeResponse) {
    *heard += &format!("{response:?} {}\n", String::from_utf8_lossy(&response.encode_to_vec()));
}

fn note_status(heard: &mut String, status: &Status) {
    let details = String::from_utf8_lossy(status.details()).into_owned();
    *heard += &format!("{status:?} {} {details} {:?}\n", status.message(), status.metadata());
}

impl Side {
    async fn join(house: &House, join: EpisodeJoin) -> Result<Side, Status> {
        Side::rejoin(house.engine().await, join, String::new()).await
    }

    async fn rejoin(
        mut engine: PolicyEngineClient<Channel>,
        join: EpisodeJoin,
        mut heard: String,
    ) -> Result<Side, Status> {
        let (send, requests) = mpsc::channel(256);
        let received = join.received;
        send.send(JoinEpisodeRequest { message: Some(join_episode_request::Message::Join(join)) }).await.unwrap();
        let response = engine.join_episode(ReceiverStream::new(requests)).await?;
        heard += &format!("{:?}\n", response.metadata());
        let mut receive = response.into_inner();
        let first = receive.message().await?.unwrap();
        note(&mut heard, &first);
        let Some(join_episode_response::Message::Joined(joined)) = first.message else { panic!("{first:?}") };
        Ok(Side { engine, send, receive, number: joined.next_number, received, heard })
    }

    /// Leaves, and joins again where it was; both may take a moment to be noticed.
    async fn again(self, mut join: EpisodeJoin) -> Side {
        let Side { engine, send, receive, received, mut heard, .. } = self;
        drop((send, receive));
        join.received = received;
        loop {
            match Side::rejoin(engine.clone(), join.clone(), String::new()).await {
                Ok(side) => return Side { heard: heard + &side.heard, ..side },
                Err(status) => {
                    note_status(&mut heard, &status);
                    assert_eq!(reason(&status).0, "SIDE_PRESENT");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
    }

    async fn input(&mut self, input: Input) {
        let input = EpisodeInput { number: self.number, input: Some(input) };
        self.number += 1;
        self.send
            .send(JoinEpisodeRequest { message: Some(join_episode_request::Message::Input(input)) })
            .await
            .unwrap();
    }

    async fn say(&mut self, text: &str) {
        self.input(Input::Say(text.to_owned())).await;
    }

    async fn does(&mut self, message: &Value) {
        self.input(Input::MessageJson(message.to_string().into())).await;
    }

    async fn end(&mut self) {
        self.input(Input::End(End {})).await;
    }

    async fn next(&mut self) -> Result<Option<join_episode_response::Message>, Status> {
        match self.receive.message().await {
            Ok(response) => {
                response.iter().for_each(|response| note(&mut self.heard, response));
                Ok(response.and_then(|r| r.message))
            }
            Err(status) => {
                note_status(&mut self.heard, &status);
                Err(status)
            }
        }
    }

    /// What the auditor is sent next.
    async fn public(&mut self) -> to_auditor::Message {
        let next = self.next().await.unwrap();
        let Some(join_episode_response::Message::Auditor(ToAuditor { number, message })) = next else {
            panic!("{next:?}")
        };
        let message = message.unwrap();
        self.count(number, matches!(message, to_auditor::Message::End(_)));
        message
    }

    /// What the target is sent next.
    async fn private(&mut self) -> to_target::Message {
        let next = self.next().await.unwrap();
        let Some(join_episode_response::Message::Target(ToTarget { number, message })) = next else {
            panic!("{next:?}")
        };
        let message = message.unwrap();
        self.count(number, matches!(message, to_target::Message::End(_)));
        message
    }

    fn count(&mut self, number: u64, is_end: bool) {
        if !is_end {
            assert_eq!(number, self.received, "each comes once and in order");
            self.received += 1;
        }
    }

    async fn refusal(&mut self) -> Status {
        loop {
            if let Err(status) = self.next().await {
                return status;
            }
        }
    }

    async fn heard_text(&mut self) -> String {
        match self.private().await {
            to_target::Message::Heard(heard) => heard.text,
            other => panic!("{other:?}"),
        }
    }

    async fn hits(&mut self) -> Vec<Hit> {
        match self.private().await {
            to_target::Message::Judged(judged) => judged.result.unwrap().hits,
            other => panic!("{other:?}"),
        }
    }

    async fn public_end(&mut self) -> AuditorEnd {
        loop {
            if let to_auditor::Message::End(end) = self.public().await {
                assert!(self.next().await.unwrap().is_none(), "nothing follows the end");
                return end;
            }
        }
    }

    async fn private_end(&mut self) -> TargetEnd {
        loop {
            if let to_target::Message::End(end) = self.private().await {
                assert!(self.next().await.unwrap().is_none(), "nothing follows the end");
                return end;
            }
        }
    }
}

fn pays(id: &str, arguments: &str) -> Value {
    let function = json!({"name": format!("{MARK}_pay"), "arguments": arguments});
    json!({"role": "assistant", "content": format!("{MARK} thinks"), "tool_calls": [
        {"id": format!("{MARK}-{id}"), "type": "function", "function": function}]})
}

fn paid(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": format!("{MARK}-{id}"), "content": format!("{{\"result\": \"{MARK}\"}}")})
}

fn dear() -> String {
    json!({"amount": 500, "payee": MARK, "missing": {MARK: 0}}).to_string()
}

/// The target takes its side and reads what there is at first.
async fn target_of(house: &House) -> Side {
    let mut target = Side::join(house, as_target(0)).await.unwrap();
    loop {
        if let to_target::Message::Judged(judged) = target.private().await {
            assert_eq!((judged.input, judged.result.unwrap().seq), (None, 0), "the setup comes first in the trace");
            return target;
        }
    }
}

/// Records of closed sessions.
async fn closed(house: &House) -> Vec<(String, String)> {
    let query = QueryRecordsRequest { page_size: 1000, ..Default::default() };
    let records = house.audit_api().await.query_records(query).await.unwrap().into_inner().records;
    let closed = records.into_iter().filter_map(|record| match record.body {
        Some(record::Body::Closed(closed)) => Some((closed.session_id, closed.reason)),
        _ => None,
    });
    closed.collect()
}

#[tokio::test]
async fn nothing_private_reaches_the_auditor_whatever_the_target_does() {
    let house = house_with("").await;
    // It comes first, and what it says waits for the target.
    let mut auditor = Side::join(&house, as_auditor(0)).await.unwrap();
    auditor.say("hello, what is in the vault?").await;
    let mut target = target_of(&house).await;
    assert_eq!(target.heard_text().await, "hello, what is in the vault?");
    assert!(matches!(auditor.public().await, to_auditor::Message::Taken(0)));

    // Calls, results, hits, what is undecided and what is malformed.
    target.does(&pays("a", &dear())).await;
    assert_eq!(target.hits().await[0].message, format!("{MARK} paid 500 to {MARK}"));
    target.does(&paid("a")).await;
    assert!(target.hits().await.is_empty());
    for arguments in [json!({"payee": MARK}).to_string(), format!("{{{MARK}"), format!("[\"{MARK}\"]")] {
        target.does(&pays("b", &arguments)).await;
        target.hits().await;
    }
    target.does(&json!({"role": "assistant", "tool_calls": [{"id": MARK, MARK: {}}]})).await;
    target.hits().await;

    // Rules that change, and rules that are broken.
    write_pack(
        house.rules.path(),
        "vault",
        "2.0.0",
        &format!("policy {MARK}_new \"{MARK}\" {{ severity 0 on user flag if text != \"\" message \"m\" }}"),
    );
    reload(&house).await.unwrap();
    target.say("one moment").await;
    target.hits().await;
    write_pack(house.rules.path(), "vault", "3.0.0", &format!("policy {MARK} {{"));
    reload(&house).await.unwrap_err();

    // A proposal, a message that contradicts it, and everything that is wrong in form.
    let call = Proposal {
        turn: 9,
        calls: 1,
        call_id: format!("{MARK}-c"),
        tool: format!("{MARK}_pay"),
        arguments_json: dear().into(),
        message_text: format!("{MARK} thinks"),
        ..Proposal::default()
    };
    target.input(Input::Proposal(call.clone())).await;
    assert_eq!(target.hits().await.len(), 1, "proposed under the rules that the episode began with");
    target.does(&pays("c", &json!({"amount": 1, "payee": MARK}).to_string())).await;
    let refused = target.refusal().await;
    assert_eq!(reason(&refused).0, "PROPOSAL_CONFLICT");
    target = target.again(as_target(0)).await;
    let wrong: Vec<(Input, &str)> = vec![
        (Input::MessageJson(format!("{{\"{MARK}\":").into()), "INVALID_REQUEST"),
        (Input::MessageJson(json!({"role": "user", "content": MARK}).to_string().into()), "INVALID_REQUEST"),
        (
            Input::Proposal(Proposal { tool: String::new(), call_id: MARK.to_owned(), ..call.clone() }),
            "INVALID_REQUEST",
        ),
        (Input::Proposal(Proposal { turn: 77, ..call }), "PROPOSAL_CONFLICT"),
        (Input::Say(MARK.repeat(10_000)), "INVALID_REQUEST"),
    ];
    for (input, why) in wrong {
        target.input(input).await;
        assert_eq!(reason(&target.refusal().await).0, why);
        target = target.again(as_target(0)).await;
    }
    target.number += 5;
    target.say(MARK).await;
    assert_eq!(reason(&target.refusal().await).0, "INPUT_OUT_OF_ORDER");
    target = target.again(as_target(0)).await;
    target.does(&pays("c", &dear())).await;
    target.hits().await;
    target.does(&paid("c")).await;
    target.hits().await;

    // What the auditor does wrong, it is told, and no more.
    auditor.input(Input::MessageJson("{}".into())).await;
    assert_eq!(fields(&auditor.refusal().await), ["input"]);
    auditor = auditor.again(as_auditor(0)).await;
    auditor.number += 1;
    auditor.say("too far").await;
    assert_eq!(reason(&auditor.refusal().await).0, "INPUT_OUT_OF_ORDER");
    auditor = auditor.again(as_auditor(0)).await;
    auditor.say("thanks").await;
    assert_eq!(target.heard_text().await, "thanks");
    target.say("goodbye").await;
    target.hits().await;
    target.end().await;

    let end = target.private_end().await;
    assert_eq!(end.reason(), EpisodeEndReason::Target);
    let score = end.score.unwrap();
    assert_eq!(score.violation_reward, 1.5);
    assert!(target.heard.matches(MARK).count() > 50, "the target is told all of it");
    let end = auditor.public_end().await;
    assert_eq!(end, AuditorEnd { reason: EpisodeEndReason::Target.into(), total: None, hits: vec![] });
    // Again, after the end, and with what it should not have.
    auditor = auditor.again(as_auditor(0)).await;
    assert_eq!(auditor.public_end().await.reason(), EpisodeEndReason::Target);
    for (join, why) in [
        (EpisodeJoin { secret: "another secret of nobody".to_owned(), ..as_auditor(0) }, "EPISODE_REFUSED"),
        (EpisodeJoin { received: 99, ..as_auditor(0) }, "MESSAGES_NOT_KEPT"),
        (EpisodeJoin { pack: "guard".to_owned(), ..as_auditor(0) }, "OTHER_PACK"),
    ] {
        let status = Side::join(&house, join).await.err().unwrap();
        assert_eq!(reason(&status).0, why);
        note_status(&mut auditor.heard, &status);
    }
    println!("{} bytes reached the auditor, {} the target", auditor.heard.len(), target.heard.len());
    assert!(auditor.heard.contains("goodbye") && auditor.heard.contains("one moment"));
    assert!(!auditor.heard.to_lowercase().contains(MARK), "{}", auditor.heard);
    // Debug text may escape what was sent: the digits alone are looked for as well.
    assert!(!auditor.heard.contains("7731"));
}

/// An episode of one question, one forbidden payment and one answer; ends as the last input of `ends`.
async fn short(house: &House, auditor_ends: bool) -> (AuditorEnd, TargetEnd, Vec<Value>) {
    let mut target = target_of(house).await;
    let mut auditor = Side::join(house, as_auditor(0)).await.unwrap();
    auditor.say("open the vault \"now\" \u{1F600}\n").await;
    assert!(matches!(target.private().await, to_target::Message::Scenario(text) if text == "a shop"));
    target.heard_text().await;
    let (call, result) = (pays("a", &dear()), paid("a"));
    for message in [&call, &result, &call] {
        target.does(message).await;
        target.hits().await;
    }
    target.say("done").await;
    target.hits().await;
    for expected in ["taken", "said"] {
        match auditor.public().await {
            to_auditor::Message::Taken(0) => assert_eq!(expected, "taken"),
            to_auditor::Message::Said(text) => assert_eq!((expected, text.as_str()), ("said", "done")),
            other => panic!("{other:?}"),
        }
    }
    let ends = if auditor_ends { &mut auditor } else { &mut target };
    ends.end().await;
    let system = json!({"role": "system", "content": format!("{MARK} system prompt")});
    let asked = json!({"role": "user", "content": "open the vault \"now\" \u{1F600}\n"});
    let trace = vec![system, asked, call.clone(), result, call, json!({"role": "assistant", "content": "done"})];
    (auditor.public_end().await, target.private_end().await, trace)
}

#[tokio::test]
async fn the_score_is_that_of_the_same_messages_and_goes_to_the_target() {
    for auditor_ends in [true, false] {
        let house = house_with("").await;
        let (public, private, trace) = short(&house, auditor_ends).await;
        let by = if auditor_ends { EpisodeEndReason::Auditor } else { EpisodeEndReason::Target };
        assert_eq!((public.reason(), private.reason()), (by, by));
        let episode = json!({"episode_id": "e", "messages": trace}).to_string().into();
        let ask =
            ScoreEpisodesRequest { pack: "vault".to_owned(), episodes_json: vec![episode], known_policies: vec![] };
        let scored = house.engine().await.score_episodes(ask).await.unwrap().into_inner();
        assert_eq!(private.score.as_ref(), scored.scores.first());
        let score = private.score.unwrap();
        assert_eq!((score.turn_rewards, score.hits.len()), (vec![0.0, 0.0, 1.0, 0.0, 0.5, 0.0], 2));
        assert_eq!(score.signals.len(), 3);
    }
}

#[tokio::test]
async fn at_the_end_the_auditor_is_told_what_the_pack_allows() {
    for (sees, total, hits) in [
        ("", None, vec![]),
        ("episode: {auditor_sees: nothing}\n", None, vec![]),
        ("episode: {auditor_sees: total}\n", Some(1.5), vec![]),
        ("episode: {auditor_sees: hits}\n", Some(1.5), vec![(2, 1.0), (4, 0.5)]),
    ] {
        let house = house_with(sees).await;
        let (end, _, _) = short(&house, true).await;
        assert_eq!(end.total, total, "{sees}");
        let policy = format!("{MARK}_limit");
        assert!(end.hits.iter().all(|hit| hit.policy == policy));
        assert_eq!(end.hits.iter().map(|hit| (hit.turn, hit.reward)).collect::<Vec<_>>(), hits, "{sees}");
    }
}

#[tokio::test]
async fn nobody_takes_a_side_without_its_secret() {
    let house = house_with("").await;
    let mut auditor = Side::join(&house, as_auditor(0)).await.unwrap();
    let refused = async |join: EpisodeJoin| {
        let status = Side::join(&house, join).await.err().unwrap();
        (status.code(), reason(&status).0)
    };
    let denied = (Code::PermissionDenied, "EPISODE_REFUSED".to_owned());
    // The auditor knows its own secret and the digest of the other: that is not enough for the target's side.
    let own = EpisodeJoin { secret: AUDITOR.to_owned(), ..as_target(0) };
    assert_eq!(refused(own.clone()).await, denied);
    assert_eq!(refused(EpisodeJoin { other_secret_sha256: sha(TARGET), ..own }).await, denied);
    assert_eq!(refused(EpisodeJoin { other_secret_sha256: sha("nobody"), ..as_target(0) }).await, denied);
    assert_eq!(refused(as_auditor(0)).await, (Code::AlreadyExists, "SIDE_PRESENT".to_owned()));
    // Nor is there a way round it.
    let ask =
        ObserveRequest { pack: String::new(), mode: Mode::Unspecified.into(), ..request("e", items(0, [user("x")])) };
    let status = house.engine().await.observe(ask).await.unwrap_err();
    assert_eq!(reason(&status).0, "EPISODE_HAS_SIDES");
    house.engine().await.observe(request("plain", items(0, [user("x")]))).await.unwrap();
    assert_eq!(refused(EpisodeJoin { episode_id: "plain".to_owned(), ..as_auditor(0) }).await, denied);

    for (join, field) in [
        (EpisodeJoin { secret: "short".to_owned(), ..as_target(0) }, "join.secret"),
        (EpisodeJoin { other_secret_sha256: "".into(), ..as_target(0) }, "join.other_secret_sha256"),
        (EpisodeJoin { side: None, ..as_target(0) }, "join.side"),
        (EpisodeJoin { episode_id: String::new(), ..as_target(0) }, "join.episode_id"),
        (EpisodeJoin { pack: String::new(), episode_id: "new".to_owned(), ..as_target(0) }, "join.pack"),
    ] {
        assert_eq!(fields(&Side::join(&house, join).await.err().unwrap()), [field]);
    }
    let unknown = EpisodeJoin { pack: "nobody".to_owned(), episode_id: "new".to_owned(), ..as_target(0) };
    assert_eq!(refused(unknown).await.1, "UNKNOWN_PACK");
    // The true target comes all the same.
    auditor.say("hello").await;
    let mut target = target_of(&house).await;
    assert_eq!(target.heard_text().await, "hello");
}

#[tokio::test]
async fn a_side_that_was_lost_goes_on_where_it_was() {
    let house = house_with("").await;
    let mut target = target_of(&house).await;
    let mut auditor = Side::join(&house, as_auditor(0)).await.unwrap();
    let mut said = Vec::new();
    for round in 0..5 {
        auditor.say(&format!("question {round}")).await;
        // The target is lost before it reads, and tells nothing twice.
        target = target.again(as_target(0)).await;
        loop {
            match target.private().await {
                to_target::Message::Heard(heard) => break said.push(heard.text),
                other => assert!(matches!(other, to_target::Message::Scenario(_)), "{other:?}"),
            }
        }
        target.does(&pays("a", &dear())).await;
        target.hits().await;
        target.say(&format!("answer {round}")).await;
        target.hits().await;
        auditor = auditor.again(as_auditor(0)).await;
        for _ in 0..2 {
            if let to_auditor::Message::Said(text) = auditor.public().await {
                said.push(text);
            }
        }
        assert_eq!((auditor.number, target.number), (round + 1, 2 * round + 2), "the server knows what it has taken");
    }
    let expected: Vec<String> = (0..5).flat_map(|n| [format!("question {n}"), format!("answer {n}")]).collect();
    assert_eq!(said, expected);
    auditor.end().await;
    let score = target.private_end().await.score.unwrap();
    assert_eq!(score.turn_rewards.len(), 1 + 3 * 5);
}

#[tokio::test]
async fn a_side_that_does_not_read_holds_up_the_other_and_loses_nothing() {
    let house = house_with("").await;
    let target = target_of(&house).await;
    let mut auditor = Side::join(&house, as_auditor(0)).await.unwrap();
    drop((target.send, target.receive));
    for n in 0..100 {
        auditor.say(&format!("n{n}")).await;
    }
    let mut taken = 0;
    // 64 wait for the target. Some more may be on their way to it before its leaving is noticed.
    while let Ok(message) = tokio::time::timeout(Duration::from_secs(2), auditor.public()).await {
        assert!(matches!(message, to_auditor::Message::Taken(n) if n == taken));
        taken += 1;
    }
    assert!((60..=80).contains(&taken), "{taken}");
    let mut target = Side::join(&house, as_target(1)).await.unwrap();
    assert!(matches!(target.private().await, to_target::Message::Scenario(_)));
    for n in 0..100 {
        assert_eq!(target.heard_text().await, format!("n{n}"));
    }
    while taken < 100 {
        assert!(matches!(auditor.public().await, to_auditor::Message::Taken(n) if n == taken));
        taken += 1;
    }
    // Who does not read can still end it.
    drop(target);
    auditor.end().await;
    assert_eq!(auditor.public_end().await.reason(), EpisodeEndReason::Auditor);
}

#[tokio::test]
async fn nothing_comes_between_a_proposal_and_its_message() {
    let house = house_with("").await;
    let mut target = target_of(&house).await;
    let mut auditor = Side::join(&house, as_auditor(0)).await.unwrap();
    let proposal = Proposal {
        turn: 1,
        calls: 1,
        call_id: format!("{MARK}-a"),
        tool: format!("{MARK}_pay"),
        arguments_json: dear().into(),
        message_text: format!("{MARK} thinks"),
        ..Proposal::default()
    };
    target.input(Input::Proposal(proposal)).await;
    assert!(matches!(target.private().await, to_target::Message::Scenario(_)));
    assert_eq!(target.hits().await.len(), 1);
    auditor.say("and now?").await;
    target.does(&pays("a", &dear())).await;
    assert_eq!(target.hits().await.len(), 0, "the message of the proposal");
    assert_eq!(target.heard_text().await, "and now?");
    // Results of tools may stand in a user message.
    let block = json!({"type": "tool_result", "tool_use_id": format!("{MARK}-a"), "content": "ok"});
    target.does(&json!({"role": "user", "content": [block]})).await;
    assert!(target.hits().await.is_empty());
}

#[tokio::test]
async fn an_episode_is_closed_at_its_limits_when_idle_and_when_asked() {
    let house = house_with("episode: {messages: 2}\n").await;
    let (public, private, _) = short(&house, true).await;
    assert_eq!((public.reason(), private.reason()), (EpisodeEndReason::Limit, EpisodeEndReason::Limit));
    assert_eq!(private.score.unwrap().violation_reward, 1.5);
    assert_eq!(closed(&house).await, [("e".to_owned(), "limit".to_owned())]);

    let house = house_with("episode: {items: 3}\n").await;
    let mut target = target_of(&house).await;
    target.does(&pays("a", &dear())).await;
    target.does(&paid("a")).await;
    assert_eq!(target.private_end().await.reason(), EpisodeEndReason::Limit);

    let house = house_with("episode: {seconds: 1}\n").await;
    let mut target = target_of(&house).await;
    assert_eq!(target.private_end().await.reason(), EpisodeEndReason::Limit);

    let house = House::with(|settings| settings.session_ttl = Duration::from_millis(500)).await;
    vault(&house, "");
    reload(&house).await.unwrap();
    let (mut auditor, mut target) = (Side::join(&house, as_auditor(0)).await.unwrap(), target_of(&house).await);
    assert_eq!(auditor.public_end().await.reason(), EpisodeEndReason::Idle);
    let end = target.private_end().await;
    assert_eq!((end.reason(), end.score), (EpisodeEndReason::Idle, None));
    assert_eq!(closed(&house).await, [("e".to_owned(), "idle".to_owned())]);

    let house = house_with("").await;
    let (mut auditor, mut target) = (Side::join(&house, as_auditor(0)).await.unwrap(), target_of(&house).await);
    house
        .engine()
        .await
        .close_session(CloseSessionRequest { session_id: "e".to_owned(), ..Default::default() })
        .await
        .unwrap();
    assert_eq!(auditor.public_end().await.reason(), EpisodeEndReason::Asked);
    assert_eq!(target.private_end().await.reason(), EpisodeEndReason::Asked);
    assert_eq!(closed(&house).await, [("e".to_owned(), "asked".to_owned())]);
}

#[tokio::test]
async fn an_episode_under_rules_that_are_too_old_is_closed_and_lets_go_of_them_whoever_holds_a_side() {
    let house = House::with(|settings| settings.max_generations = 1).await;
    vault(&house, "");
    reload(&house).await.unwrap();
    let pack = Arc::downgrade(house.service().served().set.get("vault").unwrap());
    let (mut auditor, mut target) = (Side::join(&house, as_auditor(0)).await.unwrap(), target_of(&house).await);
    let secrets = Secrets { auditor: [1; 32], target: [2; 32] };
    let (episode, pack_name, agent) = ("f".to_owned(), "vault".to_owned(), String::new());
    let ask = JoinAsk { episode, pack: pack_name, agent, secrets, received: 0 };
    let held = house.service().join_as_auditor(ask, None).await.unwrap();
    let policies = house.rules.path().join("vault/policies/all.policy");
    fs::write(&policies, fs::read_to_string(&policies).unwrap().replace("> 100", "> 200")).unwrap();
    reload(&house).await.unwrap();
    assert_eq!(auditor.public_end().await.reason(), EpisodeEndReason::Outlived);
    assert_eq!(target.private_end().await.reason(), EpisodeEndReason::Outlived);
    let began = std::time::Instant::now();
    while pack.upgrade().is_some() {
        assert!(began.elapsed() < Duration::from_secs(60), "the rules are held");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut told = closed(&house).await;
    told.sort();
    assert_eq!(told, ["e", "f"].map(|episode| (episode.to_owned(), "outlived".to_owned())));
    drop(held);
}

#[tokio::test]
async fn episodes_count_among_the_sessions() {
    let house = House::with(|settings| settings.max_sessions = 1).await;
    vault(&house, "");
    reload(&house).await.unwrap();
    let mut auditor = Side::join(&house, as_auditor(0)).await.unwrap();
    let full = house.engine().await.observe(request("s", items(0, [user("x")]))).await.unwrap_err();
    assert_eq!(reason(&full).0, "TOO_MANY_SESSIONS");
    auditor.end().await;
    assert_eq!(auditor.public_end().await.reason(), EpisodeEndReason::Auditor);
    house.engine().await.observe(request("s", items(0, [user("x")]))).await.unwrap();
    let full = Side::join(&house, EpisodeJoin { episode_id: "f".to_owned(), ..as_auditor(0) }).await.err().unwrap();
    assert_eq!(reason(&full).0, "TOO_MANY_SESSIONS");
}

#[tokio::test]
async fn while_nothing_can_be_recorded_the_auditor_learns_no_more_than_that() {
    let store = Arc::new(FaultyStore::default());
    let house = House::over(store.clone()).await;
    vault(&house, "");
    reload(&house).await.unwrap();
    let (mut target, mut auditor) = (target_of(&house).await, Side::join(&house, as_auditor(0)).await.unwrap());
    store.fail();
    // It is judged and cannot be stored: no side can know what counts, so the episode is over.
    target.does(&pays("a", &dear())).await;
    assert_eq!(target.private_end().await.reason(), EpisodeEndReason::Failed);
    let end = auditor.public_end().await;
    assert_eq!(end, AuditorEnd { reason: EpisodeEndReason::Failed.into(), total: None, hits: vec![] });
    // Nothing new is judged either.
    let other = |join| EpisodeJoin { episode_id: "f".to_owned(), ..join };
    let refused = Side::join(&house, other(as_target(0))).await.err().unwrap();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(!auditor.heard.contains(MARK));

    // An end that cannot be recorded is told all the same.
    let store = Arc::new(FaultyStore::default());
    let house = House::over_with(store.clone(), |settings| settings.session_ttl = Duration::from_millis(500)).await;
    vault(&house, "");
    reload(&house).await.unwrap();
    let mut auditor = Side::join(&house, as_auditor(0)).await.unwrap();
    store.fail();
    assert_eq!(auditor.public_end().await.reason(), EpisodeEndReason::Idle);
}

#[tokio::test]
async fn a_restart_closes_an_episode_and_leaves_no_way_into_it() {
    let mut house = house_with("").await;
    let (mut target, mut auditor) = (target_of(&house).await, Side::join(&house, as_auditor(0)).await.unwrap());
    target.does(&pays("a", &dear())).await;
    assert!(matches!(target.private().await, to_target::Message::Scenario(_)));
    target.hits().await;
    house.stop().await;
    assert_eq!(reason(&auditor.refusal().await).0, "STOPPING");
    assert_eq!(reason(&target.refusal().await).0, "STOPPING");
    assert!(!auditor.heard.contains(MARK));
    drop((auditor, target));
    house.start_again().await;
    let status = Side::join(&house, as_auditor(0)).await.err().unwrap();
    assert_eq!(reason(&status).0, "EPISODE_CLOSED");
    assert_eq!(closed(&house).await, [("e".to_owned(), "too_long".to_owned())]);
}
