//! Effects that are not violations, what is reported once, and violations as history: the same over
//! messages, proposals and whole episodes.

use probity::grpc::wire::{Effect, Item, ObserveRequest, ObserveResponse, PolicyEffect, ScoreEpisodesRequest};

use crate::support::{House, effects, end, hits, items, pays, proposal, request, user, write_pack};

const WORK: &str = r#"
policy LIMIT "no payment over 100" { severity 1  on call pay  deny if args.amount > 100 }
policy PAYEE "told of once" { severity 0.5  on call pay  deny once per args.payee if args.amount > 50 }
policy START "a first payment" { severity 0.1  on call pay  milestone if not once(call pay) }
policy STRIKES "two violations, then a human" {
  severity 0.2
  on call pay
  review if count(hit where it.policy == "LIMIT") >= 2
}
"#;

async fn house() -> House {
    House::with(|settings| write_pack(settings.rules.path(), "work", "1.0.0", WORK)).await
}

fn ask(session: &str, items: Vec<Item>) -> ObserveRequest {
    ObserveRequest { pack: "work".to_owned(), ..request(session, items) }
}

fn signals(answer: &ObserveResponse) -> Vec<String> {
    let all = answer.results.iter().flat_map(|r| &r.signals);
    all.map(|s| format!("{} {:?}@{}", s.policy, s.effect(), s.turn)).collect()
}

#[tokio::test]
async fn whole_messages_and_proposed_calls_get_the_same_answers() {
    let house = house().await;
    let mut engine = house.engine().await;
    let whole = items(0, [user("x"), pays(&[150, 160]), pays(&[170]), pays(&[10]), end()]);
    let whole = engine.observe(ask("whole", whole)).await.unwrap().into_inner();
    let told = ["LIMIT@1 n0", "PAYEE@1 n0", "LIMIT@2 n1"];
    assert_eq!(hits(&whole), told);
    assert_eq!(signals(&whole), ["START Milestone@1", "STRIKES Review@3"]);
    use Effect::{Deny, Review};
    assert_eq!(effects(&whole), [Deny, Deny, Deny, Review]);

    let proposed = items(
        0,
        [
            user("x"),
            proposal(1, 0, 2, 150),
            proposal(1, 1, 2, 160),
            pays(&[150, 160]),
            proposal(2, 0, 1, 170),
            pays(&[170]),
            proposal(3, 0, 1, 10),
            pays(&[10]),
            end(),
        ],
    );
    let proposed = engine.observe(ask("proposed", proposed)).await.unwrap().into_inner();
    assert_eq!(hits(&proposed), told);
    assert_eq!(signals(&proposed), signals(&whole));
    // Each call is answered when it is proposed, and again with its message.
    assert_eq!(effects(&proposed), [Deny, Deny, Deny, Deny, Deny, Deny, Review, Review]);
}

#[tokio::test]
async fn milestones_and_reviews_have_counts_of_their_own() {
    let house = house().await;
    let mut engine = house.engine().await;
    let trace = items(0, [pays(&[150]), pays(&[150]), pays(&[1]), end()]);
    engine.observe(ask("s", trace)).await.unwrap();
    let stats = house.service().tallies("work".to_owned(), probity::audit::Span::AllTime).await.unwrap();
    let of = |id: &str| stats.iter().find(|(policy, _)| policy == id).map(|(_, tally)| (tally.hits, tally.signals));
    assert_eq!((of("START"), of("STRIKES")), (Some((0, 1)), Some((0, 1))));
    assert_eq!((of("LIMIT"), of("PAYEE")), (Some((2, 0)), Some((1, 0))));

    let call = |amount| {
        format!(
            r#"{{"role":"assistant","tool_calls":[{{"id":"a","function":{{"name":"pay","arguments":"{{\"amount\":{amount},\"payee\":\"bob\"}}"}}}}]}}"#
        )
    };
    let line = format!(r#"{{"episode_id":"e","messages":[{},{},{}]}}"#, call(150), call(150), call(1));
    let score = ScoreEpisodesRequest {
        pack: "work".to_owned(),
        episodes_json: vec![line.into()],
        ..ScoreEpisodesRequest::default()
    };
    let scored = engine.score_episodes(score).await.unwrap().into_inner();
    let score = &scored.scores[0];
    let signals: Vec<_> = score.signals.iter().map(|s| (s.policy.as_str(), s.effect(), s.turn)).collect();
    assert_eq!(signals, [("START", PolicyEffect::Milestone, 0), ("STRIKES", PolicyEffect::Review, 2)]);
    // Only hits are paid.
    assert_eq!(score.turn_rewards, [1.5, 0.5, 0.0]);
}
