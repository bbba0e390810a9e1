//! One line of a trace file: an episode, with the verdicts of outside judges if it has any.

use std::sync::Arc;

use crate::model::{JsonError, PolicyId, Turn, Value, json};

/// One episode.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// Its id: `episode_id` if that is a string, or a number as written; else `line-N`.
    pub id: String,
    /// What was said.
    pub messages: Messages,
    /// Verdicts of outside judges, in the order given.
    pub judge: Vec<JudgeVerdict>,
    /// Verdicts that could not be read.
    pub judge_faults: Vec<JudgeFault>,
}

/// The messages of an episode.
#[derive(Clone, Debug, PartialEq)]
pub enum Messages {
    /// A list of anything: each item is one turn.
    List(Arc<[Value]>),
    /// `messages` is missing or no list: malformed at turn 0, and nothing to judge.
    NotAList,
}

/// A judge's word on one policy at one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgeVerdict {
    /// Which policy.
    pub policy: PolicyId,
    /// The message index.
    pub turn: Turn,
    /// Whether the judge sees a violation.
    pub hit: bool,
    /// Which judge, if it says.
    pub judge_id: Option<Arc<str>>,
}

/// A judge verdict that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JudgeFault {
    /// The key `judge` holds something else.
    #[error("judge is a {found}, not a list")]
    NotAList {
        /// Its JSON type.
        found: &'static str,
    },
    /// An entry lacks a field, or has it with another type.
    #[error("judge[{entry}].{field} is missing or not a {expected}")]
    Field {
        /// Place in the list, from 0.
        entry: usize,
        /// The field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
}

/// Why a line is no episode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line is not JSON.
    #[error("not JSON: {0}")]
    Json(#[from] JsonError),
    /// The line is JSON, but no object.
    #[error("a JSON object was expected, this is a {found}")]
    NotAnObject {
        /// Its JSON type.
        found: &'static str,
    },
}

impl Episode {
    /// Reads the line with the given number, counted from 1. Keys other than `episode_id`,
    /// `messages` and `judge` mean nothing here.
    ///
    /// # Errors
    ///
    /// If the line is no JSON object.
    pub fn from_line(number: u64, line: &[u8]) -> Result<Episode, LineError> {
        let episode = json::parse(line)?;
        if episode.as_object().is_none() {
            return Err(LineError::NotAnObject { found: episode.type_name() });
        }
        let id = match episode.get("episode_id") {
            Some(Value::String(id)) => id.to_string(),
            Some(id @ (Value::Number(_) | Value::Huge(_))) => id.to_string(),
            _ => format!("line-{number}"),
        };
        let messages = match episode.get("messages") {
            Some(Value::List(messages)) => Messages::List(Arc::clone(messages)),
            _ => Messages::NotAList,
        };
        let mut judge = Vec::new();
        let mut judge_faults = Vec::new();
        match episode.get("judge") {
            None | Some(Value::Null) => {}
            Some(Value::List(entries)) => {
                for (place, entry) in entries.iter().enumerate() {
                    match verdict(place, entry) {
                        Ok(verdict) => judge.push(verdict),
                        Err(fault) => judge_faults.push(fault),
                    }
                }
            }
            Some(other) => judge_faults.push(JudgeFault::NotAList { found: other.type_name() }),
        }
        Ok(Episode { id, messages, judge, judge_faults })
    }
}

fn verdict(entry: usize, value: &Value) -> Result<JudgeVerdict, JudgeFault> {
    let fault = |field, expected| JudgeFault::Field { entry, field, expected };
    let policy = match value.get("policy") {
        Some(Value::String(policy)) if !policy.is_empty() => Arc::clone(policy),
        _ => return Err(fault("policy", "non-empty string")),
    };
    let turn = match value.get("turn") {
        Some(Value::Number(n)) => n.as_whole().and_then(|n| Turn::try_from(n).ok()),
        _ => None,
    };
    let turn = turn.ok_or_else(|| fault("turn", "message index"))?;
    let hit = match value.get("hit") {
        Some(Value::Bool(hit)) => *hit,
        _ => return Err(fault("hit", "bool")),
    };
    let judge_id = match value.get("judge_id") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(Arc::clone(id)),
        Some(_) => return Err(fault("judge_id", "string")),
    };
    Ok(JudgeVerdict { policy, turn, hit, judge_id })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;

    fn episode(line: &str) -> Episode {
        Episode::from_line(7, line.as_bytes()).unwrap()
    }

    #[test]
    fn an_episode_has_an_id_and_messages_and_ignores_the_rest() {
        let read = episode(r#"{"task_reward": 1.0, "episode_id": "e1", "messages": [{"role": "user"}, 3]}"#);
        assert_eq!(read.id, "e1");
        let Messages::List(messages) = read.messages else { panic!("a list") };
        assert_eq!(messages.len(), 2);
        assert!(read.judge.is_empty() && read.judge_faults.is_empty());
    }

    #[test]
    fn an_episode_without_an_id_has_its_line() {
        for line in [r#"{"messages": []}"#, r#"{"episode_id": null}"#, r#"{"episode_id": ["a"]}"#] {
            assert_eq!(episode(line).id, "line-7", "{line}");
        }
        assert_eq!(episode(r#"{"episode_id": 12}"#).id, "12");
    }

    #[test]
    fn messages_that_are_no_list_are_not_an_empty_list() {
        for line in [r#"{}"#, r#"{"messages": null}"#, r#"{"messages": {"role": "user"}}"#, r#"{"messages": "hi"}"#] {
            assert_eq!(episode(line).messages, Messages::NotAList, "{line}");
        }
        assert_eq!(episode(r#"{"messages": []}"#).messages, Messages::List(Arc::from([])));
    }

    #[test]
    fn judge_verdicts_are_read_one_by_one() {
        let read = episode(
            r#"{"judge": [{"policy": "S1", "turn": 4, "hit": true, "judge_id": "j"},
                {"policy": "S2", "turn": 0, "hit": false}, {"policy": "", "turn": 0, "hit": true},
                {"policy": "S1", "turn": -1, "hit": true}, {"policy": "S1", "turn": 1.5, "hit": true},
                {"policy": "S1", "turn": "1", "hit": true}, {"policy": "S1", "turn": 1, "hit": 1},
                {"policy": "S1", "turn": 1, "hit": true, "judge_id": 3}, 5]}"#,
        );
        let verdict = |policy: &str, turn, hit, judge: Option<&str>| JudgeVerdict {
            policy: policy.into(),
            turn,
            hit,
            judge_id: judge.map(Into::into),
        };
        assert_eq!(read.judge, [verdict("S1", 4, true, Some("j")), verdict("S2", 0, false, None)]);
        let faults: Vec<String> = read.judge_faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            faults,
            [
                "judge[2].policy is missing or not a non-empty string",
                "judge[3].turn is missing or not a message index",
                "judge[4].turn is missing or not a message index",
                "judge[5].turn is missing or not a message index",
                "judge[6].hit is missing or not a bool",
                "judge[7].judge_id is missing or not a string",
                "judge[8].policy is missing or not a non-empty string",
            ]
        );
        assert_eq!(episode(r#"{"judge": true}"#).judge_faults, [JudgeFault::NotAList { found: "bool" }]);
        assert!(episode(r#"{"judge": null}"#).judge_faults.is_empty());
    }

    #[test]
    fn a_line_that_is_no_object_says_what_it_is_and_quotes_nothing() {
        for (line, words) in [
            ("", "not JSON: EOF while parsing a value at byte 0"),
            ("[]", "a JSON object was expected, this is a list"),
            ("\"secret\"", "a JSON object was expected, this is a string"),
            ("{\"episode_id\": \"secret\",}", "not JSON: trailing comma at byte 24"),
            ("{\"x\": secret}", "not JSON: expected value at byte 6"),
            ("{\"x\": 1e999}", "not JSON: a number beyond the range of a double"),
            ("\u{feff}{}", "not JSON: expected value at byte 0"),
        ] {
            assert_eq!(Episode::from_line(1, line.as_bytes()).unwrap_err().to_string(), words, "{line}");
        }
    }
}
