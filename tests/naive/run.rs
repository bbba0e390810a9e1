//! A trace: what each policy says of each event, and what that makes of each turn.

use std::{collections::BTreeMap, sync::Arc};

use probity::{
    ingest::{ErrorRule, Ingest, Messages},
    lang::{
        ast::{PolicyItem, StatementKind, TemplatePart},
        val::Tri,
    },
    model::{Effect, Event, Evidence, Firing, Hit, Malformed, Num, PolicyId, Seq, Signal, Turn, Value},
};

use super::{
    eval::Naive,
    names::{Bound, Place},
    program::{Program, effect, message, severity, triggers},
};

/// What is said of one event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventVerdict {
    /// Which event.
    pub seq: Seq,
    /// Its message.
    pub turn: Turn,
    /// Policies that hold, by id.
    pub firings: Vec<Firing>,
    /// Policies that hold without a report, by id: reported for the same `once per` key before, or of unknown key.
    pub unreported: Vec<PolicyId>,
    /// Policies that cannot be decided, by id.
    pub undecided: Vec<PolicyId>,
    /// Facts that could not use the event.
    pub unusable: Vec<Arc<str>>,
}

/// What is said of a whole trace.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Event by event.
    pub verdicts: Vec<EventVerdict>,
    /// Violations, by turn and policy id.
    pub hits: Vec<Hit>,
    /// Firings of the other effects, by turn and policy id.
    pub signals: Vec<Signal>,
    /// Undecided policies, by turn and policy id, each once a turn.
    pub undecided: Vec<(Turn, PolicyId)>,
    /// What could not be taken in, by reading the trace or by a fact.
    pub malformed: Vec<Malformed>,
}

impl Program {
    /// Judges a whole trace.
    pub fn report(&self, messages: &Messages) -> Report {
        let mut report = Report::default();
        let messages: &[Value] = match messages {
            Messages::NotAList => {
                report.malformed.push(Malformed { turn: 0, reason: "messages is no list".to_owned() });
                &[]
            }
            Messages::List(messages) => messages,
        };
        let (verdicts, malformed) = self.verdicts(messages);
        report.verdicts = verdicts;
        report.malformed.extend(malformed);
        self.summarise(&mut report);
        report
    }

    /// What is said of each event of a trace, and what could not be read of it. The hits of a message are
    /// events after it, if anything asks for hits.
    pub fn verdicts(&self, messages: &[Value]) -> (Vec<EventVerdict>, Vec<Malformed>) {
        let mut ingest = Ingest::new(ErrorRule { prefix: self.error_prefix.clone() });
        let mut naive = Naive::new(self, Vec::new());
        let (mut verdicts, mut malformed) = (Vec::new(), Vec::new());
        for message in messages {
            let taken = ingest.message(message).expect("nothing was proposed");
            malformed.extend(taken.malformed);
            let first = verdicts.len();
            naive.judge(taken.events, &mut verdicts);
            if self.asks_for_hits() {
                let hits = self.hits(&verdicts[first..], &naive.events, &mut ingest);
                naive.judge(hits, &mut verdicts);
            }
        }
        naive.judge(ingest.end().events, &mut verdicts);
        (verdicts, malformed)
    }

    fn policy(&self, id: &str) -> &PolicyItem {
        self.policies.iter().find(|policy| *policy.id.text == *id).unwrap()
    }

    /// Per turn and policy: the first firing, whether it was undecided, what was malformed.
    fn summarise(&self, report: &mut Report) {
        let mut firings: BTreeMap<(Turn, PolicyId), &Firing> = BTreeMap::new();
        let mut undecided: Vec<(Turn, PolicyId)> = Vec::new();
        for verdict in &report.verdicts {
            for firing in &verdict.firings {
                firings.entry((verdict.turn, Arc::clone(&firing.policy))).or_insert(firing);
            }
            undecided.extend(verdict.undecided.iter().map(|policy| (verdict.turn, Arc::clone(policy))));
            for fact in &verdict.unusable {
                let reason = format!("fact {fact} cannot use it");
                report.malformed.push(Malformed { turn: verdict.turn, reason });
            }
        }
        undecided.sort();
        undecided.dedup();
        let mut earlier: BTreeMap<PolicyId, u32> = BTreeMap::new();
        for ((turn, id), firing) in firings {
            let policy = self.policy(&id);
            match effect(policy) {
                Effect::Deny => {
                    let n = earlier.entry(id).or_default();
                    let reward = severity(policy).mul(self.discount(*n)).unwrap();
                    report.hits.push(Hit { firing: firing.clone(), turn, n: *n, reward });
                    *n += 1;
                }
                effect => report.signals.push(Signal { firing: firing.clone(), turn, effect }),
            }
        }
        report.undecided = undecided;
        report.malformed.sort_by_key(|m| m.turn);
    }

    /// The share of its severity that a policy's next hit is paid after `n` hits.
    fn discount(&self, n: u32) -> Num {
        let place = usize::try_from(n).unwrap();
        *self.discounts.get(place).or(self.discounts.last()).unwrap_or(&Num::ONE)
    }
}

impl<'p> Naive<'p> {
    /// More of the trace, and what is said of it.
    fn judge(&mut self, events: Vec<Arc<Event>>, verdicts: &mut Vec<EventVerdict>) {
        let first = self.events.len();
        self.events.extend(events);
        verdicts.extend((first..self.events.len()).map(|at| self.verdict(at)));
    }

    /// What is said of the event at `at`.
    pub fn verdict(&self, at: usize) -> EventVerdict {
        let event = &self.events[at];
        let mut verdict = EventVerdict { seq: event.seq, turn: event.turn, ..EventVerdict::default() };
        let mut policies: Vec<&'p PolicyItem> = self.program.policies.iter().collect();
        policies.sort_by(|a, b| a.id.text.cmp(&b.id.text));
        for policy in policies {
            if effect(policy) == Effect::Judge || !self.judges(policy, at) {
                continue;
            }
            match self.holds(policy, at) {
                Tri::True => match self.reported_for(policy, at) {
                    None => {
                        verdict.undecided.push(Arc::clone(&policy.id.text));
                        verdict.unreported.push(Arc::clone(&policy.id.text));
                    }
                    // Reported before: by an earlier event that it holds for under the same key.
                    Some(key)
                        if !key.is_empty()
                            && (0..at).any(|before| {
                                self.judges(policy, before)
                                    && self.holds(policy, before) == Tri::True
                                    && self.reported_for(policy, before).as_ref() == Some(&key)
                            }) =>
                    {
                        verdict.unreported.push(Arc::clone(&policy.id.text));
                    }
                    Some(_) => verdict.firings.push(self.firing(policy, at)),
                },
                Tri::False => {}
                Tri::Unknown(_) => verdict.undecided.push(Arc::clone(&policy.id.text)),
            }
        }
        verdict.unusable = self.unusable(at);
        verdict
    }

    /// Whether a policy is about the event at `at`.
    fn judges(&self, policy: &'p PolicyItem, at: usize) -> bool {
        triggers(policy).any(|source| self.is_of(source, &self.events[at]))
    }

    /// The `once per` key of a policy, empty if it has none; nothing if a part of it is unknown.
    fn reported_for(&self, policy: &'p PolicyItem, at: usize) -> Option<Vec<Value>> {
        let mut key = Vec::new();
        for (statement, place) in self.statements(policy, at) {
            if let StatementKind::Effect { once_per, .. } = statement {
                for e in once_per {
                    key.push(self.eval(e, &place).as_key(e.span).ok()?.clone());
                }
            }
        }
        Some(key)
    }

    /// The statements of a policy in source order, each with the place that it is evaluated in: the
    /// `let`s before it are bound.
    fn statements(&self, policy: &'p PolicyItem, at: usize) -> Vec<(&'p StatementKind, Place<'p>)> {
        let mut place = Place::new(at);
        let mut out = Vec::new();
        for statement in &policy.statements {
            out.push((&statement.kind, place.clone()));
            if let StatementKind::Let(name, value) = &statement.kind {
                place.names = place.names.with(&name.text, Bound::Expr(value, place.names.clone()));
            }
        }
        out
    }

    /// All conditions of a policy, and-ed.
    fn holds(&self, policy: &'p PolicyItem, at: usize) -> Tri {
        let mut holds = Tri::True;
        for (statement, place) in self.statements(policy, at) {
            holds = holds.and(match statement {
                StatementKind::When(condition) => self.test(condition, &place),
                StatementKind::Effect { negated: false, condition, .. } => self.test(condition, &place),
                StatementKind::Effect { negated: true, condition, .. } => self.test(condition, &place).negate(),
                _ => continue,
            });
        }
        holds
    }

    fn firing(&self, policy: &'p PolicyItem, at: usize) -> Firing {
        let mut evidence = Evidence { seq: self.events[at].seq, conditions: Vec::new() };
        let statements = self.statements(policy, at);
        for (statement, place) in &statements {
            if let StatementKind::When(condition) = statement {
                self.conditions(condition, place, &mut evidence.conditions);
            }
        }
        for (statement, place) in &statements {
            if let StatementKind::Effect { condition, .. } = statement {
                self.conditions(condition, place, &mut evidence.conditions);
            }
        }
        let text = message(policy).map(|parts| {
            let place = &statements.iter().find(|(s, _)| matches!(s, StatementKind::Message(_))).unwrap().1;
            parts
                .iter()
                .map(|part| match part {
                    TemplatePart::Text(text) => text.to_string(),
                    TemplatePart::Hole(e) => shown(&self.eval(e, place).to_string()),
                })
                .collect::<String>()
        });
        Firing { policy: Arc::clone(&policy.id.text), message: text.unwrap_or_default(), evidence }
    }
}

/// A value as a message shows it: its first 200 characters.
fn shown(value: &str) -> String {
    let start: String = value.chars().take(200).collect();
    if start.len() < value.len() { start + "…" } else { start }
}
