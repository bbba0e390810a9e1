//! The same verdicts however a trace comes: whole, or with calls proposed before their message; and
//! nothing that follows a call changes what it was answered.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use probity::{
    engine::{EpisodeOutcome, Pack, Session, load_pack, run_episode},
    ingest::{Episode, Messages, Proposal},
    model::{CallAnswer, Turn, Value},
};
use proptest::prelude::*;

fn packs() -> Vec<(Arc<Pack>, Vec<Episode>)> {
    [("airline", "airline"), ("airline", "airline/edge"), ("traveldesk", "fixture12")]
        .into_iter()
        .map(|(pack, folder)| {
            let loaded = load_pack(&Path::new("rules").join(pack));
            let text = fs::read_to_string(format!("tests/data/traces/{folder}/episodes.jsonl")).unwrap();
            let episodes = (1..).zip(text.lines()).map(|(n, line)| Episode::from_line(n, line.as_bytes()).unwrap());
            (loaded.result.unwrap(), episodes.collect())
        })
        .collect()
}

/// What an episode gave, however it was cut: lists as sets, answers by turn and place.
#[derive(Debug, Default, PartialEq)]
struct Given {
    hits: BTreeSet<String>,
    open: BTreeSet<String>,
    signals: BTreeSet<String>,
    answers: BTreeSet<String>,
    reward: String,
}

impl Given {
    fn new(outcome: &EpisodeOutcome, answers: &[(Turn, CallAnswer)]) -> Given {
        Given {
            hits: outcome.hits.iter().map(|h| format!("{h:?}")).collect(),
            open: outcome
                .undecided
                .iter()
                .map(|u| format!("{u:?}"))
                .chain(outcome.malformed.iter().map(|m| format!("{m:?}")))
                .collect(),
            signals: outcome.signals.iter().map(|s| format!("{s:?}")).collect(),
            answers: answers.iter().map(|(turn, a)| format!("{turn} {a:?}")).collect(),
            reward: format!("{:?}", outcome.violation_reward),
        }
    }
}

/// The usable calls of an OpenAI message, as a client would propose them.
fn proposable(message: &Value) -> Vec<(&str, &str, String)> {
    let usable = |call: &Value| {
        call.get("function").and_then(|f| f.get("name")).and_then(Value::as_str).is_some_and(|n| !n.is_empty())
    };
    let calls = message.get("tool_calls").and_then(Value::as_list).unwrap_or_default();
    if message.get("role").and_then(Value::as_str) != Some("assistant") {
        return Vec::new();
    }
    calls
        .iter()
        .filter(|c| usable(c))
        .map(|call| {
            let function = call.get("function").unwrap();
            let arguments = match function.get("arguments") {
                Some(Value::String(text)) => text.to_string(),
                Some(other) => other.to_string(),
                None => String::new(),
            };
            let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
            (function.get("name").unwrap().as_str().unwrap(), id, arguments)
        })
        .collect()
}

fn text_of(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.to_string(),
        Some(Value::List(parts)) => parts
            .iter()
            .filter(|p| p.get("type").and_then(Value::as_str) == Some("text"))
            .filter_map(|p| p.get("text").and_then(Value::as_str))
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}

/// Runs an episode, proposing the calls of those messages that `choose` picks.
fn run(pack: &Arc<Pack>, episode: &Episode, mut choose: impl FnMut() -> bool) -> Given {
    let mut session = Session::new(pack.clone());
    let mut outcome = EpisodeOutcome { violation_reward: Some(probity::model::Num::ZERO), ..Default::default() };
    let mut answers = Vec::new();
    if let Messages::List(messages) = &episode.messages {
        for message in messages.iter() {
            let calls = proposable(message);
            let mut proposed: Vec<CallAnswer> = Vec::new();
            if !calls.is_empty() && choose() {
                let text = text_of(message);
                for (index, (tool, id, arguments)) in (0..).zip(&calls) {
                    let step = session
                        .proposal(&Proposal {
                            turn: session.next_turn(),
                            index,
                            calls: u32::try_from(calls.len()).unwrap(),
                            call_id: id,
                            tool,
                            arguments_json: arguments.as_bytes(),
                            message_text: &text,
                            time: None,
                        })
                        .unwrap();
                    proposed.extend(step.calls.clone());
                    outcome.add(step);
                }
            }
            let step = session.message(message).unwrap();
            for answer in &proposed {
                assert!(step.calls.contains(answer), "{answer:?} was answered otherwise before: {:?}", step.calls);
            }
            answers.extend(step.calls.iter().map(|a| (step.turn, a.clone())));
            outcome.add(step);
        }
    } else {
        outcome.malformed.push(probity::model::Malformed { turn: 0, reason: "messages is no list".to_owned() });
    }
    outcome.add(session.end().unwrap());
    Given::new(&outcome, &answers)
}

#[test]
fn a_whole_run_and_a_message_by_message_run_say_the_same() {
    for (pack, episodes) in packs() {
        for episode in episodes {
            let whole = run_episode(&pack, &episode);
            let given = run(&pack, &episode, || false);
            assert_eq!(Given { answers: BTreeSet::new(), ..given }, Given::new(&whole, &[]), "{}", episode.id);
        }
    }
}

#[test]
fn what_follows_changes_no_answer() {
    for (pack, episodes) in packs() {
        for episode in episodes {
            let Messages::List(messages) = &episode.messages else { continue };
            let whole = run_episode(&pack, &episode);
            // Every prefix of a few lengths, its end left out: obligations at the end are not answers.
            for length in [1, messages.len() / 3, messages.len() * 2 / 3] {
                let mut session = Session::new(pack.clone());
                let mut hits = Vec::new();
                for message in messages.iter().take(length) {
                    hits.extend(session.message(message).unwrap().hits);
                }
                let before = u32::try_from(length).unwrap();
                let expected: Vec<_> = whole.hits.iter().filter(|h| h.turn < before).cloned().collect();
                assert_eq!(hits, expected, "{} up to {length}", episode.id);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn proposing_calls_first_changes_nothing(seed in any::<u64>()) {
        // A small generator of bits is enough to cut episodes at random.
        let mut state = seed | 1;
        let mut bit = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state & 1 == 0
        };
        for (pack, episodes) in packs() {
            for episode in &episodes {
                let whole = run(&pack, episode, || false);
                let cut = run(&pack, episode, &mut bit);
                prop_assert_eq!(&whole, &cut, "{}", &episode.id);
            }
        }
    }
}
