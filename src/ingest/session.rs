//! One session's way from messages to events.

use std::sync::{Arc, OnceLock};

use super::{
    clock::{self, Clock, UnreadableTime},
    open::OpenCalls,
    proposal::{self, Proposal, ProposedCall, ProposedTurn, Refused},
    shape::{self, CallEntry, ResultEntry, Shape},
};
use crate::model::{Args, Event, EventBody, Malformed, Num, PolicyId, Seq, Turn, Value};

/// What makes a tool result an error where its format has no flag for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorRule {
    /// The text starts with this, exactly (so that an empty one makes every result an error); without
    /// it no text is an error.
    pub prefix: Option<String>,
}

impl ErrorRule {
    fn holds(&self, text: &str) -> bool {
        self.prefix.as_deref().is_some_and(|prefix| text.starts_with(prefix))
    }
}

/// What one item of a session gave.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// The message's index.
    pub turn: Turn,
    /// The new events, in order.
    pub events: Vec<Arc<Event>>,
    /// What could not be used.
    pub malformed: Vec<Malformed>,
    /// Places of calls that this item carries and that an earlier proposal gave: their events exist,
    /// their answers stand.
    pub known_calls: Vec<u32>,
}

/// What a session must remember to turn its messages into events. Plain data.
///
/// The cost of an item depends on its size, not on the length of the session; what is held is the
/// calls that still wait for a result, and the proposals of one turn.
#[derive(Clone, Debug)]
pub struct Ingest {
    errors: ErrorRule,
    next_turn: Turn,
    next_seq: Seq,
    /// How many of the events so far are hits.
    hits: u64,
    clock: Clock,
    open: OpenCalls,
    proposed: Option<ProposedTurn>,
}

impl Ingest {
    /// An empty session.
    pub fn new(errors: ErrorRule) -> Ingest {
        Ingest {
            errors,
            next_turn: 0,
            next_seq: 0,
            hits: 0,
            clock: Clock::default(),
            open: OpenCalls::default(),
            proposed: None,
        }
    }

    /// The index of the next message: how many there were.
    pub fn next_turn(&self) -> Turn {
        self.next_turn
    }

    /// The largest time so far, in seconds since 1970-01-01T00:00:00Z.
    pub fn now(&self) -> Option<Num> {
        self.clock.now()
    }

    /// How many events had a time before that of an earlier event, and took the clock's.
    pub fn skew(&self) -> u64 {
        self.clock.skew()
    }

    /// How many calls wait for a result.
    pub fn open_calls(&self) -> usize {
        self.open.len()
    }

    /// The calls that wait for a result, by position.
    pub fn waiting(&self) -> Vec<Arc<Event>> {
        self.open.in_order()
    }

    /// Takes the next message, whatever it is: what cannot be used of it is listed as malformed, and
    /// it uses up its turn.
    ///
    /// # Errors
    ///
    /// Only if calls were proposed for this turn and the message is not the one that was announced:
    /// not the assistant's, another text or number of usable calls, or another tool, id or arguments
    /// of a proposed call. Then nothing is taken. Without proposals it never fails.
    pub fn message(&mut self, message: &Value) -> Result<Taken, Refused> {
        let turn = self.next_turn;
        let (shape, reasons) = shape::read(message);
        if let Some(proposed) = &self.proposed {
            proposed.admits(turn, &shape)?;
        }
        let proposed = self.proposed.take();
        self.next_turn = self.next_turn.saturating_add(1);

        let mut taken = Taken { turn, ..Taken::default() };
        for reason in reasons {
            taken.malformed.push(Malformed { turn, reason });
        }
        let stamp = match (&shape, clock::stamp(message)) {
            (Shape::Unusable, _) => None,
            (_, Ok(stamp)) => stamp,
            (_, Err(UnreadableTime)) => {
                let reason = "time is neither seconds nor RFC 3339".to_owned();
                taken.malformed.push(Malformed { turn, reason });
                None
            }
        };
        match shape {
            Shape::System { text } => self.emit(&mut taken, stamp, EventBody::System { text }),
            Shape::User { text } => self.emit(&mut taken, stamp, EventBody::User { text }),
            Shape::Assistant { text, calls } => self.assistant(&mut taken, stamp, text, calls, proposed),
            Shape::Results { results, user } => {
                for result in results {
                    self.result(&mut taken, stamp, result);
                }
                if let Some(text) = user {
                    self.emit(&mut taken, stamp, EventBody::User { text });
                }
            }
            Shape::Unusable => {}
        }
        Ok(taken)
    }

    /// Takes a call that the next message will carry. The first proposal of a turn also gives the
    /// assistant message's event. The same proposal again gives no event and names the call in
    /// [`Taken::known_calls`].
    ///
    /// # Errors
    ///
    /// A proposal for another turn than the next, one that cannot be, or one that contradicts an
    /// earlier proposal of its turn. Then nothing is taken.
    pub fn proposal(&mut self, proposal: &Proposal<'_>) -> Result<Taken, Refused> {
        let turn = self.next_turn;
        proposal.check(turn)?;
        let (args, written) = proposal::arguments(proposal.arguments_json);
        let mut taken = Taken { turn, ..Taken::default() };
        if let Some(proposed) = &self.proposed {
            proposed.fits(proposal)?;
            if let Some(made) = proposed.made.get(&proposal.index) {
                return match made.differs_from(proposal, &args, &written) {
                    Some(what) => Err(Refused::CallChanged { turn, index: proposal.index, what }),
                    None => {
                        taken.known_calls.push(proposal.index);
                        Ok(taken)
                    }
                };
            }
        }
        let mut proposed = match self.proposed.take() {
            Some(proposed) => proposed,
            None => {
                let text: Arc<str> = Arc::from(proposal.message_text);
                let calls = proposal.calls;
                self.emit(&mut taken, proposal.time, EventBody::Assistant { text: Arc::clone(&text), calls });
                ProposedTurn { calls, text, stamp: proposal.time, made: Default::default() }
            }
        };
        let entry = CallEntry { tool: Arc::from(proposal.tool), id: proposal.id(), args, written: None };
        let stamp = proposal.time.or(proposed.stamp);
        let event = self.call(&mut taken, stamp, &proposed.text, proposal.index, entry);
        proposed.made.insert(proposal.index, ProposedCall { event, written });
        self.proposed = Some(proposed);
        Ok(taken)
    }

    /// A violation of a turn that is complete, as an event of that turn: it has the place after what came
    /// so far, and the time of the event that it was found at.
    pub fn hit(
        &mut self,
        turn: Turn,
        time: Option<Num>,
        policy: PolicyId,
        severity: Num,
        tags: &[Arc<str>],
    ) -> Arc<Event> {
        let seq = self.next_seq;
        // It stands beside the last event that is none.
        let ordinal = (seq - self.hits).saturating_sub(1);
        self.next_seq += 1;
        self.hits += 1;
        Arc::new(Event { seq, ordinal, turn, time, body: EventBody::Hit { policy, severity, tags: Arc::from(tags) } })
    }

    /// The end of the session, at the turn of its last message (0 if there was none) and at the
    /// clock's time. Calls proposed for a message that never came count as that message. Whoever holds
    /// the session takes nothing more into it.
    pub fn end(&mut self) -> Taken {
        let turn = if self.proposed.is_some() { self.next_turn } else { self.next_turn.saturating_sub(1) };
        let mut taken = Taken { turn, ..Taken::default() };
        let now = self.clock.now();
        self.emit(&mut taken, now, EventBody::End);
        taken
    }

    /// An assistant message, with the events of its calls that were not proposed.
    fn assistant(
        &mut self,
        taken: &mut Taken,
        stamp: Option<Num>,
        text: Arc<str>,
        calls: Vec<CallEntry<'_>>,
        proposed: Option<ProposedTurn>,
    ) {
        let (stamp, mut made) = match proposed {
            Some(proposed) => (stamp.or(proposed.stamp), proposed.made),
            None => {
                let calls = u32::try_from(calls.len()).unwrap_or(u32::MAX);
                self.emit(taken, stamp, EventBody::Assistant { text: Arc::clone(&text), calls });
                (stamp, Default::default())
            }
        };
        for (entry, index) in calls.into_iter().zip(0..) {
            let call = match made.remove(&index) {
                Some(ProposedCall { event, .. }) => {
                    taken.known_calls.push(index);
                    event
                }
                None => self.call(taken, stamp, &text, index, entry),
            };
            self.open.push(&call);
        }
    }

    /// A call that has no event yet; unreadable arguments are malformed, and it stays a call.
    fn call(
        &mut self,
        taken: &mut Taken,
        stamp: Option<Num>,
        text: &Arc<str>,
        index: u32,
        entry: CallEntry<'_>,
    ) -> Arc<Event> {
        let CallEntry { tool, id, args, written: _ } = entry;
        if args == Args::Unreadable {
            taken.malformed.push(Malformed { turn: taken.turn, reason: shape::unreadable(&tool) });
        }
        let event = self.event(taken.turn, stamp, EventBody::Call { tool, args, id, text: Arc::clone(text), index });
        taken.events.push(Arc::clone(&event));
        event
    }

    fn result(&mut self, taken: &mut Taken, stamp: Option<Num>, result: ResultEntry) {
        let ResultEntry { id, text, flag } = result;
        let call = id.as_deref().and_then(|id| self.open.answer(id));
        if call.is_none() {
            let reason = if id.is_some() {
                "a tool result that answers no open call"
            } else {
                "a tool result without the id of a call"
            };
            taken.malformed.push(Malformed { turn: taken.turn, reason: reason.to_owned() });
        }
        let is_error = flag.unwrap_or_else(|| self.errors.holds(&text));
        self.emit(taken, stamp, EventBody::Result { call, text, is_error, json: OnceLock::new() });
    }

    fn emit(&mut self, taken: &mut Taken, stamp: Option<Num>, body: EventBody) {
        let event = self.event(taken.turn, stamp, body);
        taken.events.push(event);
    }

    fn event(&mut self, turn: Turn, stamp: Option<Num>, body: EventBody) -> Arc<Event> {
        let seq = self.next_seq;
        self.next_seq += 1;
        Arc::new(Event { seq, ordinal: seq - self.hits, turn, time: self.clock.at(stamp), body })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::ingest::script::{lines, run, session, value};

    /// One message, as lines.
    fn one(message: &str) -> Vec<String> {
        run(&[message])
    }

    fn call(id: &str, tool: &str) -> String {
        format!(r#"{{"id": "{id}", "function": {{"name": "{tool}", "arguments": "{{}}"}}}}"#)
    }

    fn calls(calls: &[(&str, &str)]) -> String {
        let calls: Vec<String> = calls.iter().map(|(id, tool)| call(id, tool)).collect();
        format!(r#"{{"role": "assistant", "content": null, "tool_calls": [{}]}}"#, calls.join(","))
    }

    fn result(id: &str, text: &str) -> String {
        format!(r#"{{"role": "tool", "tool_call_id": "{id}", "content": "{text}"}}"#)
    }

    #[test]
    fn roles_become_kinds() {
        assert_eq!(
            run(&[
                r#"{"role": "system", "content": "s"}"#,
                r#"{"role": "developer", "content": "d"}"#,
                r#"{"role": "user", "content": "u"}"#,
                r#"{"role": "assistant", "content": "a"}"#,
                r#"{"role": "tool", "content": "t", "tool_call_id": "x"}"#,
                r#"{"role": "function", "content": "f", "name": "x"}"#,
            ]),
            [
                r#"0@0 system "s""#,
                r#"1@1 system "d""#,
                r#"2@2 user "u""#,
                r#"3@3 assistant "a" calls=0"#,
                r#"4@4 result->- "t""#,
                "!4 a tool result that answers no open call",
                r#"5@5 result->- "f""#,
                "!5 a tool result without the id of a call",
            ]
        );
    }

    #[test]
    fn what_is_no_message_is_malformed_and_uses_up_its_turn() {
        assert_eq!(
            run(&[
                "null",
                r#""secret""#,
                "[1]",
                "{}",
                r#"{"role": "critic", "content": "secret", "time": "never"}"#,
                r#"{"role": "User", "content": "secret"}"#,
                r#"{"role": null}"#,
                r#"{"role": 5}"#,
                r#"{"role": "user", "content": "hi"}"#,
            ]),
            [
                "!0 a message that is a null, not an object",
                "!1 a message that is a string, not an object",
                "!2 a message that is a list, not an object",
                "!3 a message without a role",
                "!4 a message with an unknown role",
                "!5 a message with an unknown role",
                "!6 a message whose role is a null, not a string",
                "!7 a message whose role is a number, not a string",
                r#"0@8 user "hi""#,
            ]
        );
    }

    #[test]
    fn text_is_a_string_or_the_text_parts_of_a_list() {
        for (content, text) in [
            (r#""a\n b ""#, "a\n b "),
            (r#"[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]"#, "a\nb"),
            (r#"[{"type": "text", "text": ""}, {"type": "text", "text": "b"}]"#, "\nb"),
            (r#"[{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}]"#, "a\nb"),
            (r#"[{"type": "image_url", "text": "a"}, {"text": "b"}, "c", {"type": "text", "text": 5}]"#, ""),
            ("[]", ""),
            ("null", ""),
            ("7", ""),
            (r#"{"type": "text", "text": "a"}"#, ""),
        ] {
            assert_eq!(one(&format!(r#"{{"role": "user", "content": {content}}}"#)), [format!("0@0 user {text:?}")]);
        }
        assert_eq!(one(r#"{"role": "user"}"#), [r#"0@0 user """#]);
    }

    #[test]
    fn a_message_comes_before_its_calls_and_they_share_its_text() {
        let message = r#"{"role": "assistant", "content": "wait", "tool_calls": [
            {"id": "1", "function": {"name": "a", "arguments": "{\"x\": 1.0}"}},
            {"id": "2", "function": {"name": "b", "arguments": {"y": 1, "y": 2}}}]}"#;
        assert_eq!(
            one(message),
            [
                r#"0@0 assistant "wait" calls=2"#,
                r#"1@0 call[0] a({"x":1}) id=1 "wait""#,
                r#"2@0 call[1] b({"y":2}) id=2 "wait""#
            ]
        );
    }

    #[test]
    fn calls_count_only_on_assistant_messages() {
        for role in ["system", "user"] {
            let message = calls(&[("1", "a")]).replace("assistant", role);
            assert_eq!(one(&message), [format!("0@0 {role} \"\"")]);
        }
        let message = calls(&[("1", "a")]).replace("assistant", "tool");
        assert_eq!(run(&[&message, &result("1", "r")]).len(), 4, "two unpaired results");
    }

    #[test]
    fn entries_without_a_name_are_malformed_and_no_calls() {
        let message = r#"{"role": "assistant", "tool_calls": [
            5, {"id": "x"}, {"function": "f"}, {"function": {"arguments": "{}"}}, {"function": {"name": ""}},
            {"function": {"name": ["f"]}}, {"id": 7, "function": {"name": "f", "arguments": "{}"}}]}"#;
        let mut expected = vec![r#"0@0 assistant "" calls=1"#.to_owned(), r#"1@0 call[0] f({}) id=- """#.to_owned()];
        expected.extend((0..6).map(|place| format!("!0 tool_calls[{place}] has no function name")));
        assert_eq!(one(message), expected);
    }

    #[test]
    fn tool_calls_is_a_list_or_nothing() {
        let message = |calls: &str| format!(r#"{{"role": "assistant", "content": "a", "tool_calls": {calls}}}"#);
        for fine in ["null", "[]"] {
            assert_eq!(one(&message(fine)), [r#"0@0 assistant "a" calls=0"#]);
        }
        for (odd, kind) in [("{}", "object"), (r#""f""#, "string"), ("0", "number"), ("false", "bool")] {
            let malformed = format!("!0 tool_calls is a {kind}, not a list");
            assert_eq!(one(&message(odd)), [r#"0@0 assistant "a" calls=0"#, &malformed]);
        }
    }

    #[test]
    fn unreadable_arguments_leave_a_call_and_one_reason() {
        for arguments in [
            r#""""#,
            r#"" ""#,
            r#""null""#,
            r#""[]""#,
            r#""{""#,
            r#""{} x""#,
            r#""{\"a\": NaN}""#,
            r#""{\"a\": 1e999}""#,
            r#""{\"a\": \"\\ud800\"}""#,
            r#""{\"a\": 1,}""#,
            r#""\"{}\"""#,
            "null",
            "[]",
            "3",
            "true",
        ] {
            let message = format!(
                r#"{{"role": "assistant", "tool_calls": [{{"id": "1", "function": {{"name": "pay", "arguments": {arguments}}}}}]}}"#
            );
            assert_eq!(
                one(&message),
                [
                    r#"0@0 assistant "" calls=1"#,
                    r#"1@0 call[0] pay(?) id=1 """#,
                    "!0 pay: arguments are neither a JSON object nor a string of one"
                ],
                "{arguments}"
            );
        }
        let missing = r#"{"role": "assistant", "tool_calls": [{"function": {"name": "pay"}}]}"#;
        assert_eq!(one(missing).len(), 3);
    }

    #[test]
    fn a_tool_name_in_a_reason_is_short_and_printable() {
        let message = |name: &str| {
            let name = Value::string(name);
            format!(r#"{{"role": "assistant", "tool_calls": [{{"function": {{"name": {name}}}}}]}}"#)
        };
        let reason = |name: &str| session().message(&value(&message(name))).unwrap().malformed[0].reason.clone();
        assert!(reason("a\nb\u{1b}[31m\u{202e}").starts_with(r"a\nb\u{1b}[31m\u{202e}: "));
        assert!(reason(&"é".repeat(64)).starts_with(&format!("{}: ", "é".repeat(64))));
        assert!(reason(&"é".repeat(65)).starts_with(&format!("{}…: ", "é".repeat(64))));
    }

    #[test]
    fn results_find_their_calls_in_any_order() {
        let events = run(&[
            &calls(&[("1", "a"), ("2", "b"), ("3", "c")]),
            &result("3", "for c"),
            &result("1", "for a"),
            &result("2", "for b"),
        ]);
        assert_eq!(&events[4..], [r#"4@1 result->3 "for c""#, r#"5@2 result->1 "for a""#, r#"6@3 result->2 "for b""#]);
    }

    #[test]
    fn a_repeated_id_means_the_latest_message_then_the_one_before() {
        let events = run(&[
            &calls(&[("1", "old")]),
            &calls(&[("1", "new")]),
            &result("1", "x"),
            &result("1", "y"),
            &result("1", "z"),
        ]);
        assert_eq!(
            &events[4..],
            [
                r#"4@2 result->3 "x""#,
                r#"5@3 result->1 "y""#,
                r#"6@4 result->- "z""#,
                "!4 a tool result that answers no open call"
            ]
        );
        // An id that was answered is free again.
        let events = run(&[&calls(&[("1", "a")]), &result("1", "x"), &calls(&[("1", "b")]), &result("1", "y")]);
        assert_eq!([&events[2], &events[5]], [r#"2@1 result->1 "x""#, r#"5@3 result->4 "y""#]);
    }

    #[test]
    fn an_id_twice_in_one_message_is_answered_first_call_first() {
        let events = run(&[
            &calls(&[("1", "a"), ("2", "b"), ("1", "c")]),
            &result("1", "x"),
            &result("1", "y"),
            &result("1", "z"),
        ]);
        assert_eq!(&events[4..7], [r#"4@1 result->1 "x""#, r#"5@2 result->3 "y""#, r#"6@3 result->- "z""#]);
    }

    #[test]
    fn a_result_before_its_call_answers_nothing() {
        let events = run(&[&result("1", "early"), &calls(&[("1", "a")]), &result("1", "late")]);
        assert_eq!(events[0], r#"0@0 result->- "early""#);
        assert_eq!(events.last().unwrap(), r#"3@2 result->2 "late""#);
    }

    #[test]
    fn a_result_without_a_usable_id_answers_nothing() {
        for id in ["null", r#""""#, "1", "[]"] {
            let mut ingest = session();
            let unnamed = format!(
                r#"{{"role": "assistant", "tool_calls": [{{"id": {id}, "function": {{"name": "a", "arguments": "{{}}"}}}}]}}"#
            );
            ingest.message(&value(&unnamed)).unwrap();
            assert_eq!(ingest.open_calls(), 0, "a call without an id cannot be answered");
            let taken = ingest
                .message(&value(&format!(
                    r#"{{"role": "tool", "name": "a", "tool_call_id": {id}, "content": "Error"}}"#
                )))
                .unwrap();
            assert_eq!(
                lines(&taken),
                [r#"2@1 result->- "Error" error"#, "!1 a tool result without the id of a call"],
                "{id}"
            );
        }
    }

    #[test]
    fn an_error_is_what_the_flag_or_else_the_rule_says() {
        let is_error = |errors: ErrorRule, message: &str| {
            let taken = Ingest::new(errors).message(&value(message)).unwrap();
            let EventBody::Result { is_error, .. } = &taken.events[0].body else { panic!("a result") };
            (*is_error, taken.malformed.len())
        };
        let rule = || ErrorRule { prefix: Some("Error".to_owned()) };
        for (text, expected) in
            [("Error", true), ("Error: x", true), ("error: x", false), (" Error", false), ("", false)]
        {
            assert_eq!(is_error(rule(), &result("1", text)), (expected, 1), "{text}");
            assert_eq!(is_error(ErrorRule::default(), &result("1", text)), (false, 1), "{text}");
        }
        let block = |flag: &str| {
            format!(
                r#"{{"role": "user", "content": [{{"type": "tool_result", "tool_use_id": "1", "content": "Error", "is_error": {flag}}}]}}"#
            )
        };
        assert_eq!(is_error(rule(), &block("false")), (false, 1));
        assert_eq!(is_error(rule(), &block("null")), (true, 1));
        assert_eq!(is_error(ErrorRule::default(), &block("true")), (true, 1));
        assert_eq!(is_error(rule(), &block(r#""false""#)), (true, 2), "a flag of another type is malformed");
    }

    #[test]
    fn a_result_is_read_as_json_when_it_is() {
        let mut ingest = session();
        let taken = ingest.message(&value(&result("1", r#"{\"a\": [1]}"#))).unwrap();
        assert_eq!(taken.events[0].json().unwrap().to_string(), r#"{"a":[1]}"#);
        let taken = ingest.message(&value(&result("1", "{a}"))).unwrap();
        assert_eq!(taken.events[0].json(), None);
    }

    #[test]
    fn times_are_exact_and_never_go_back() {
        let user = |time: &str| format!(r#"{{"role": "user", "content": "", "time": {time}}}"#);
        let mut ingest = session();
        let mut times = Vec::new();
        for time in ["0.1", r#""1970-01-01T00:00:00.300000001Z""#, "0.2", "null", r#""soon""#, "1e1"] {
            let taken = ingest.message(&value(&user(time))).unwrap();
            assert_eq!(taken.malformed.len(), usize::from(time.contains("soon")));
            times.push(taken.events[0].time.map(|t| t.to_string()));
        }
        let expected = [Some("0.1"), Some("0.300000001"), Some("0.300000001"), None, None, Some("10")];
        assert_eq!(times, expected.map(|t| t.map(str::to_owned)));
        assert_eq!(ingest.skew(), 1);
        let stamped = calls(&[("1", "a"), ("2", "b")]).replace(r#""content""#, r#""time": 4, "content""#);
        let taken = ingest.message(&value(&stamped)).unwrap();
        assert!(taken.events.iter().all(|e| e.time == ingest.now()), "calls have their message's time");
        assert_eq!(ingest.skew(), 4, "each event behind the clock counts");
    }

    #[test]
    fn the_end_is_at_the_last_turn() {
        let mut ingest = session();
        assert_eq!(lines(&ingest.end()), ["0@0 end"]);
        let mut ingest = session();
        for message in [r#"{"role": "user", "time": 5}"#, "7"] {
            ingest.message(&value(message)).unwrap();
        }
        assert_eq!(lines(&ingest.end()), ["1@1 end t=5"]);
    }
}
