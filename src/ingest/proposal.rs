//! Calls proposed ahead of their message: a gate is asked before a call runs, and the message that
//! carries it must later say the same.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::shape::{CallEntry, Shape};
use crate::model::{Args, Event, EventBody, Num, Turn, Value, json};

/// A call that a message will carry, before the message exists.
#[derive(Clone, Debug)]
pub struct Proposal<'a> {
    /// The index that the message will have: that of the next one.
    pub turn: Turn,
    /// The call's place among the usable calls of the message, from 0. With `turn` its identity.
    pub index: u32,
    /// How many usable calls the message will carry.
    pub calls: u32,
    /// The call's id; empty if it has none, and then no result can answer it.
    pub call_id: &'a str,
    /// The tool's name, never empty.
    pub tool: &'a str,
    /// The arguments as JSON text: an object, or a string holding one. Anything else is kept and
    /// listed as malformed, as in a message.
    pub arguments_json: &'a [u8],
    /// The text of the message; empty if it will have none.
    pub message_text: &'a str,
    /// Seconds since 1970-01-01T00:00:00Z, if known. A proposal without one has the time of the first
    /// of its turn.
    pub time: Option<Num>,
}

/// Why a proposal, or a message after proposals, was not taken. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A proposal for another message than the next one.
    #[error("a proposal for turn {proposed}, but the next message is turn {expected}")]
    WrongTurn {
        /// Index of the next message.
        expected: Turn,
        /// What the proposal said.
        proposed: Turn,
    },
    /// A proposal without a tool's name.
    #[error("a proposal without the name of a tool at turn {turn}")]
    NoTool {
        /// The message.
        turn: Turn,
    },
    /// A place that the message cannot have.
    #[error("a proposal for call {index} of turn {turn}, of which it says that it carries {calls}")]
    BeyondCalls {
        /// The message.
        turn: Turn,
        /// The call's place, from 0.
        index: u32,
        /// How many calls the message carries, by the same proposal.
        calls: u32,
    },
    /// Another number of calls than the first proposal of the turn announced.
    #[error("turn {turn} carries {found} usable calls, but its first proposal announced {announced}")]
    CallsChanged {
        /// The message.
        turn: Turn,
        /// What the first proposal said.
        announced: u32,
        /// What this proposal says or the message carries.
        found: u32,
    },
    /// Another text than the first proposal of the turn gave.
    #[error("the text of turn {turn} differs from that of its first proposal")]
    TextChanged {
        /// The message.
        turn: Turn,
    },
    /// A call that was proposed otherwise.
    #[error("call {index} of turn {turn} was proposed with {what}")]
    CallChanged {
        /// The message.
        turn: Turn,
        /// The call's place, from 0.
        index: u32,
        /// The first thing that differs.
        what: Difference,
    },
    /// Calls were proposed for the turn, and the message that came is not the assistant's.
    #[error("calls were proposed for turn {turn}, but its message is not one of the assistant")]
    NotAssistant {
        /// The message.
        turn: Turn,
    },
}

/// What differs between a proposed call and the one that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The tool's name.
    Tool,
    /// The call's id.
    Id,
    /// The arguments, compared as JSON values, or as text where they are unreadable.
    Arguments,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Difference::Tool => "another tool",
            Difference::Id => "another id",
            Difference::Arguments => "other arguments",
        })
    }
}

/// The proposals of the next turn.
#[derive(Clone, Debug)]
pub(super) struct ProposedTurn {
    pub(super) calls: u32,
    pub(super) text: Arc<str>,
    /// The stamp of the first proposal, before the clock.
    pub(super) stamp: Option<Num>,
    pub(super) made: BTreeMap<u32, ProposedCall>,
}

/// One call that has its event already.
#[derive(Clone, Debug)]
pub(super) struct ProposedCall {
    pub(super) event: Arc<Event>,
    pub(super) written: Written,
}

/// Unreadable arguments as the proposal wrote them, for comparison; nothing for readable ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written(Option<Arc<[u8]>>);

/// Reads a proposal's arguments.
pub(super) fn arguments(json_text: &[u8]) -> (Args, Written) {
    let object = match json::parse(json_text) {
        Ok(object @ Value::Object(_)) => Some(object),
        Ok(Value::String(text)) => json::parse(text.as_bytes()).ok().filter(|v| v.as_object().is_some()),
        _ => None,
    };
    match object {
        Some(object) => (Args::Object(object), Written(None)),
        None => (Args::Unreadable, Written(Some(Arc::from(json_text)))),
    }
}

impl Written {
    /// Whether unreadable arguments of a message are those that were proposed: the string that the
    /// message holds may stand in the proposal bare or quoted; a missing value is an empty text.
    fn says(&self, arguments: Option<&Value>) -> bool {
        let Some(written) = &self.0 else { return false };
        match arguments {
            None => written.is_empty(),
            Some(Value::String(text)) if text.as_bytes() == written.as_ref() => true,
            Some(value) => json::parse(written).is_ok_and(|proposed| proposed == *value),
        }
    }
}

impl ProposedCall {
    /// What differs if the same call is proposed again.
    pub(super) fn differs_from(&self, proposal: &Proposal<'_>, args: &Args, written: &Written) -> Option<Difference> {
        self.event_differs(proposal.tool, proposal.id().as_deref())
            .or_else(|| (self.args() != Some(args) || self.written != *written).then_some(Difference::Arguments))
    }

    /// What differs in the call of the message.
    fn differs_from_entry(&self, entry: &CallEntry<'_>) -> Option<Difference> {
        self.event_differs(&entry.tool, entry.id.as_deref()).or_else(|| {
            let same = match &entry.args {
                Args::Object(_) => self.args() == Some(&entry.args),
                Args::Unreadable => self.written.says(entry.written),
            };
            (!same).then_some(Difference::Arguments)
        })
    }

    fn event_differs(&self, tool: &str, id: Option<&str>) -> Option<Difference> {
        if self.event.tool().map(Arc::as_ref) != Some(tool) {
            return Some(Difference::Tool);
        }
        (self.event.call_id().map(Arc::as_ref) != id).then_some(Difference::Id)
    }

    fn args(&self) -> Option<&Args> {
        match &self.event.body {
            EventBody::Call { args, .. } => Some(args),
            _ => None,
        }
    }
}

impl ProposedTurn {
    /// Whether a message is the one that was proposed.
    pub(super) fn admits(&self, turn: Turn, shape: &Shape<'_>) -> Result<(), Refused> {
        let Shape::Assistant { text, calls } = shape else { return Err(Refused::NotAssistant { turn }) };
        let found = u32::try_from(calls.len()).unwrap_or(u32::MAX);
        if found != self.calls {
            return Err(Refused::CallsChanged { turn, announced: self.calls, found });
        }
        if *text != self.text {
            return Err(Refused::TextChanged { turn });
        }
        for (entry, index) in calls.iter().zip(0..) {
            let difference = self.made.get(&index).and_then(|proposed| proposed.differs_from_entry(entry));
            if let Some(what) = difference {
                return Err(Refused::CallChanged { turn, index, what });
            }
        }
        Ok(())
    }

    /// Whether a proposal fits the turn's first one.
    pub(super) fn fits(&self, proposal: &Proposal<'_>) -> Result<(), Refused> {
        let turn = proposal.turn;
        if proposal.calls != self.calls {
            return Err(Refused::CallsChanged { turn, announced: self.calls, found: proposal.calls });
        }
        if *proposal.message_text != *self.text {
            return Err(Refused::TextChanged { turn });
        }
        Ok(())
    }
}

impl Proposal<'_> {
    /// Whether it can be one of the next turn at all.
    pub(super) fn check(&self, next: Turn) -> Result<(), Refused> {
        let turn = self.turn;
        if turn != next {
            return Err(Refused::WrongTurn { expected: next, proposed: turn });
        }
        if self.tool.is_empty() {
            return Err(Refused::NoTool { turn });
        }
        if self.index >= self.calls {
            return Err(Refused::BeyondCalls { turn, index: self.index, calls: self.calls });
        }
        Ok(())
    }

    /// The id, if it has one.
    pub(super) fn id(&self) -> Option<Arc<str>> {
        (!self.call_id.is_empty()).then(|| Arc::from(self.call_id))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::ingest::{
        Ingest, Taken,
        script::{lines, session, value},
    };

    fn proposal(index: u32, arguments: &str) -> Proposal<'_> {
        Proposal {
            turn: 1,
            index,
            calls: 2,
            call_id: if index == 0 { "a" } else { "b" },
            tool: "pay",
            arguments_json: arguments.as_bytes(),
            message_text: "now",
            time: None,
        }
    }

    /// A session in which the user has spoken.
    fn begun() -> Ingest {
        let mut ingest = session();
        ingest.message(&value(r#"{"role": "user", "content": "hi"}"#)).unwrap();
        ingest
    }

    fn message(first: &str, second: &str) -> String {
        let entry = |id, arguments: &str| {
            let arguments = Value::string(arguments);
            format!(r#"{{"id": "{id}", "function": {{"name": "pay", "arguments": {arguments}}}}}"#)
        };
        format!(
            r#"{{"role": "assistant", "content": "now", "tool_calls": [{}, {}]}}"#,
            entry("a", first),
            entry("b", second)
        )
    }

    fn take(ingest: &mut Ingest, message: &str) -> Result<Taken, Refused> {
        ingest.message(&value(message))
    }

    #[test]
    fn the_first_proposal_brings_the_message_and_later_ones_only_their_call() {
        let mut ingest = begun();
        let taken = ingest.proposal(&proposal(1, r#"{"x": 1}"#)).unwrap();
        assert_eq!(lines(&taken), [r#"1@1 assistant "now" calls=2"#, r#"2@1 call[1] pay({"x":1}) id=b "now""#]);
        let taken = ingest.proposal(&proposal(0, "{}")).unwrap();
        assert_eq!(lines(&taken), [r#"3@1 call[0] pay({}) id=a "now""#]);
        assert_eq!((ingest.next_turn(), ingest.open_calls()), (1, 0), "the message is still to come");
        let taken = take(&mut ingest, &message("{}", r#"{"x": 1.0}"#)).unwrap();
        assert_eq!((lines(&taken), taken.known_calls), (vec![], vec![0, 1]));
        let taken = take(&mut ingest, r#"{"role": "tool", "tool_call_id": "b", "content": "done"}"#).unwrap();
        assert_eq!(lines(&taken), [r#"4@2 result->2 "done""#]);
    }

    #[test]
    fn a_message_adds_the_calls_that_were_not_proposed() {
        let mut ingest = begun();
        ingest.proposal(&proposal(1, "{}")).unwrap();
        let taken = take(&mut ingest, &message("oops", "{}")).unwrap();
        assert_eq!(
            lines(&taken),
            [r#"3@1 call[0] pay(?) id=a "now""#, "!1 pay: arguments are neither a JSON object nor a string of one"]
        );
        assert_eq!((taken.known_calls, ingest.next_turn(), ingest.open_calls()), (vec![1], 2, 2));
    }

    #[test]
    fn the_same_proposal_again_is_known() {
        let mut ingest = begun();
        ingest.proposal(&proposal(0, r#"{"x": 1, "y": 2}"#)).unwrap();
        let again = ingest.proposal(&proposal(0, r#"{"y": 2.0, "x": 1}"#)).unwrap();
        assert_eq!((lines(&again), again.known_calls), (vec![], vec![0]));
        ingest.proposal(&proposal(1, "{")).unwrap();
        let again = ingest.proposal(&proposal(1, "{")).unwrap();
        assert_eq!((lines(&again), again.known_calls), (vec![], vec![1]), "its reason was given before");
    }

    #[test]
    fn a_proposal_must_fit_its_turn() {
        let mut ingest = begun();
        let refused = |ingest: &mut Ingest, p: Proposal<'_>| ingest.proposal(&p).unwrap_err();
        let wrong = Refused::WrongTurn { expected: 1, proposed: 0 };
        assert_eq!(refused(&mut ingest, Proposal { turn: 0, ..proposal(0, "{}") }), wrong);
        assert_eq!(refused(&mut ingest, Proposal { tool: "", ..proposal(0, "{}") }), Refused::NoTool { turn: 1 });
        let beyond = |index, calls| Refused::BeyondCalls { turn: 1, index, calls };
        assert_eq!(refused(&mut ingest, proposal(2, "{}")), beyond(2, 2));
        assert_eq!(refused(&mut ingest, Proposal { calls: 0, ..proposal(0, "{}") }), beyond(0, 0));

        ingest.proposal(&proposal(0, "{}")).unwrap();
        let changed = Refused::CallsChanged { turn: 1, announced: 2, found: 3 };
        assert_eq!(refused(&mut ingest, Proposal { calls: 3, ..proposal(1, "{}") }), changed);
        let text = Proposal { message_text: "later", ..proposal(1, "{}") };
        assert_eq!(refused(&mut ingest, text), Refused::TextChanged { turn: 1 });
        let differs = |what| Refused::CallChanged { turn: 1, index: 0, what };
        assert_eq!(refused(&mut ingest, proposal(0, r#"{"x": 1}"#)), differs(Difference::Arguments));
        assert_eq!(refused(&mut ingest, proposal(0, "{")), differs(Difference::Arguments));
        assert_eq!(refused(&mut ingest, Proposal { tool: "send", ..proposal(0, "{}") }), differs(Difference::Tool));
        assert_eq!(refused(&mut ingest, Proposal { call_id: "", ..proposal(0, "{}") }), differs(Difference::Id));

        let taken = ingest.proposal(&proposal(1, "{}")).unwrap();
        assert_eq!(lines(&taken), [r#"3@1 call[1] pay({}) id=b "now""#], "a refusal changes nothing");
    }

    #[test]
    fn a_message_must_be_the_one_that_was_proposed() {
        let mut ingest = begun();
        ingest.proposal(&proposal(0, r#"{"x": 1}"#)).unwrap();
        let good = message(r#"{"x": 1}"#, "{}");
        let differs = |what| Refused::CallChanged { turn: 1, index: 0, what };
        for (bad, expected) in [
            (message(r#"{"x": 2}"#, "{}"), differs(Difference::Arguments)),
            (message("{", "{}"), differs(Difference::Arguments)),
            (good.replacen("pay", "send", 1), differs(Difference::Tool)),
            (good.replacen(r#""a""#, r#""z""#, 1), differs(Difference::Id)),
            (good.replacen(r#""a""#, "null", 1), differs(Difference::Id)),
            (good.replace("now", "later"), Refused::TextChanged { turn: 1 }),
            (good.replacen("pay", "", 1), Refused::CallsChanged { turn: 1, announced: 2, found: 1 }),
            (good.replace("assistant", "user"), Refused::NotAssistant { turn: 1 }),
            (good.replace("assistant", "tool"), Refused::NotAssistant { turn: 1 }),
            ("7".to_owned(), Refused::NotAssistant { turn: 1 }),
        ] {
            assert_eq!(take(&mut ingest, &bad).unwrap_err(), expected, "{bad}");
        }
        let taken = take(&mut ingest, &good).unwrap();
        assert_eq!(lines(&taken), [r#"3@1 call[1] pay({}) id=b "now""#], "a refusal changes nothing");
    }

    #[test]
    fn unreadable_arguments_are_compared_as_text() {
        // As proposed, and as the message holds them.
        for (proposed, carried) in [
            ("{", r#""{""#),
            (r#""{""#, r#""{""#),
            ("", r#""""#),
            ("[1, 2.0]", "[1.0,2]"),
            ("[1,2]", r#""[1,2]""#),
            ("null", "null"),
        ] {
            let mut ingest = begun();
            let taken = ingest.proposal(&Proposal { calls: 1, ..proposal(0, proposed) }).unwrap();
            assert_eq!(taken.malformed.len(), 1, "{proposed}");
            let message = |arguments: &str| {
                format!(
                    r#"{{"role": "assistant", "content": "now", "tool_calls": [{{"id": "a", "function": {{"name": "pay", "arguments": {arguments}}}}}]}}"#
                )
            };
            let what = Difference::Arguments;
            let changed = Refused::CallChanged { turn: 1, index: 0, what };
            for other in [r#""{ ""#, "{}", r#""{}""#, "[1, 2, 3]", "false"] {
                assert_eq!(take(&mut ingest, &message(other)).unwrap_err(), changed, "{proposed} {other}");
            }
            let taken = take(&mut ingest, &message(carried)).unwrap();
            assert_eq!((lines(&taken), taken.known_calls), (vec![], vec![0]), "{proposed} {carried}");
        }
        let (object, quoted) = (arguments(br#"{"a": 1}"#), arguments(br#""{\"a\": 1}""#));
        assert_eq!(object, quoted, "an object, or a string of one");
        assert!(matches!(object.0, Args::Object(_)));
        assert!(matches!(arguments(b"\xff").0, Args::Unreadable), "bytes that are no text at all");
    }

    #[test]
    fn a_proposal_has_its_own_time_or_that_of_the_first() {
        let at = |seconds: i64| Some(Num::from(seconds));
        let mut ingest = begun();
        let times = |taken: &Taken| taken.events.iter().map(|e| e.time).collect::<Vec<_>>();
        let first = ingest.proposal(&Proposal { calls: 4, time: at(10), ..proposal(0, "{}") }).unwrap();
        assert_eq!(times(&first), [at(10), at(10)]);
        let second = ingest.proposal(&Proposal { calls: 4, time: at(12), ..proposal(1, "{}") }).unwrap();
        assert_eq!(times(&second), [at(12)]);
        let third = ingest.proposal(&Proposal { calls: 4, index: 2, ..proposal(1, "{}") }).unwrap();
        assert_eq!((times(&third), ingest.skew()), (vec![at(12)], 1), "10 lies behind the clock");
    }

    #[test]
    fn calls_of_a_message_without_a_time_have_that_of_its_first_proposal() {
        let at = |seconds: i64| Some(Num::from(seconds));
        for (stamp, expected) in [("", at(10)), (r#""time": 11, "#, at(11))] {
            let mut ingest = begun();
            ingest.proposal(&Proposal { time: at(10), ..proposal(0, "{}") }).unwrap();
            let message = message("{}", "{}").replacen('{', &format!("{{{stamp}"), 1);
            let taken = take(&mut ingest, &message).unwrap();
            assert_eq!(taken.events.iter().map(|e| e.time).collect::<Vec<_>>(), [expected]);
        }
    }

    #[test]
    fn a_call_without_arguments_is_proposed_with_an_empty_text() {
        let bare =
            r#"{"role": "assistant", "content": "now", "tool_calls": [{"id": "a", "function": {"name": "pay"}}]}"#;
        let mut ingest = begun();
        ingest.proposal(&Proposal { calls: 1, ..proposal(0, "") }).unwrap();
        assert_eq!(take(&mut ingest, bare).unwrap().known_calls, [0]);
        let mut ingest = begun();
        ingest.proposal(&Proposal { calls: 1, ..proposal(0, "{}") }).unwrap();
        let what = Difference::Arguments;
        assert_eq!(take(&mut ingest, bare).unwrap_err(), Refused::CallChanged { turn: 1, index: 0, what });
    }

    #[test]
    fn a_session_may_end_before_the_proposed_message() {
        let mut ingest = begun();
        ingest.proposal(&proposal(0, "{}")).unwrap();
        assert_eq!(lines(&ingest.end()), ["3@1 end"]);
    }

    #[test]
    fn a_refusal_names_places_and_no_values() {
        let what = Difference::Arguments;
        assert_eq!(
            Refused::CallChanged { turn: 3, index: 1, what }.to_string(),
            "call 1 of turn 3 was proposed with other arguments"
        );
    }
}
