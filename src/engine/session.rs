//! One session: messages and proposals in, answers out.
//!
//! A call is answered at once. Hits, signals and undecided are formed once per policy and turn: the
//! first event of a turn that fires a policy gives the entry, later ones of the same turn add nothing.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::Pack;
use crate::{
    ingest::{Ingest, Proposal, Refused, Taken},
    lang::{self, Judged, State, TurnHits},
    model::{
        CallAnswer, Effect, EventBody, EventKind, Gate, Hit, Limits, Malformed, PolicyId, Signal, Step, Turn,
        Undecided, Value,
    },
};

/// The state of one session under one pack.
#[derive(Debug)]
pub struct Session {
    pack: Arc<Pack>,
    ingest: Ingest,
    state: State,
    /// Hits of the present turn, which later ones may read.
    found: TurnHits,
    /// Hits so far, by policy.
    hits: HashMap<usize, u32>,
    turn: TurnState,
    ended: bool,
    steps: u64,
    limits: Limits,
}

/// What the latest turn holds so far.
#[derive(Debug, Default)]
struct TurnState {
    turn: Turn,
    hits: HashSet<usize>,
    signals: HashSet<usize>,
    undecided: HashSet<usize>,
    /// What judging the message itself gave: it applies to each of its calls.
    message: Gate,
    /// Steps that its events have taken.
    steps: u64,
    /// The answers given, by the place of the call.
    answers: BTreeMap<u32, CallAnswer>,
}

/// What the callers of a session were told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Hits so far, by policy.
    pub hits: Vec<(PolicyId, u32)>,
    /// The latest turn.
    pub turn: Turn,
    /// Answers for its calls, by their places.
    pub answers: Vec<(u32, Gate)>,
}

/// Why an item is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// It contradicts what was proposed.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The session has ended.
    #[error("the session has ended: it takes nothing more")]
    Ended,
}

impl Session {
    /// What its callers were told so far.
    pub fn told(&self) -> Told {
        let named = |(id, n): (&usize, &u32)| Some((self.pack.program().policies.get(*id)?.id.clone(), *n));
        let mut hits: Vec<_> = self.hits.iter().filter_map(named).collect();
        hits.sort();
        let answers = self.turn.answers.values().map(|answer| (answer.index, answer.gate)).collect();
        Told { hits, turn: self.turn.turn, answers }
    }

    /// Sets what its callers were told, where what it judged so far was not what they were told: it was judged again,
    /// under other rules. Hits are counted on from those that were told, and calls of the present turn keep their answers.
    /// What would be told once alone (in a turn, or for a key) is told again where it may not have been told: a call must
    /// not be denied without a hit that says why.
    pub fn set_told(&mut self, told: &Told) {
        let counts: HashMap<&PolicyId, u32> = told.hits.iter().map(|(policy, n)| (policy, *n)).collect();
        for (id, policy) in self.pack.program().policies.iter().enumerate() {
            let n = counts.get(&policy.id).copied().unwrap_or_default();
            let judged = self.hits.insert(id, n).unwrap_or_default();
            if judged != n || policy.effect != Effect::Deny {
                self.turn.hits.remove(&id);
                self.state.forget_reports(id);
            }
        }
        self.hits.retain(|_, n| *n > 0);
        self.turn.signals.clear();
        self.turn.undecided.clear();
        if told.turn == self.turn.turn {
            for (index, gate) in &told.answers {
                if let Some(answer) = self.turn.answers.get_mut(index) {
                    answer.gate = *gate;
                }
            }
        }
    }

    /// A new session under the pack's own limits.
    pub fn new(pack: Arc<Pack>) -> Session {
        let limits = *pack.limits();
        Session::within(pack, limits)
    }

    /// A new session under the pack's limits and others: of each the smaller holds.
    pub fn within(pack: Arc<Pack>, limits: Limits) -> Session {
        let limits = pack.limits().min(limits);
        let ingest = Ingest::new(pack.errors().clone());
        Session {
            pack,
            ingest,
            state: State::default(),
            found: TurnHits::default(),
            hits: HashMap::new(),
            turn: TurnState::default(),
            ended: false,
            steps: 0,
            limits,
        }
    }

    /// The pack that judges it.
    pub fn pack(&self) -> &Arc<Pack> {
        &self.pack
    }

    /// Steps of the latest item: what it cost, apart from the clock.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The rough size in bytes of what it remembers.
    pub fn bytes(&self) -> usize {
        self.state.bytes()
    }

    /// True once a limit has kept something out: what reads facts or history is undecided then.
    pub fn is_incomplete(&self) -> bool {
        self.state.is_incomplete()
    }

    /// Events whose time was smaller than that of an earlier one.
    pub fn skew(&self) -> u64 {
        self.ingest.skew()
    }

    /// The index of the next message.
    pub fn next_turn(&self) -> Turn {
        self.ingest.next_turn()
    }

    /// Takes in a whole message. It is refused only if it contradicts what was proposed for its turn;
    /// then nothing has changed.
    pub fn message(&mut self, message: &Value) -> Result<Step, SessionError> {
        if self.ended {
            return Err(SessionError::Ended);
        }
        let taken = self.ingest.message(message)?;
        let speaks = |kind: &EventKind| matches!(kind, EventKind::System | EventKind::User | EventKind::Assistant);
        let speaker = taken.events.iter().map(|event| event.kind()).find(speaks);
        let step = Step { speaker, ..self.take(taken) };
        self.complete_turn();
        Ok(step)
    }

    /// Takes in one proposed call. The same proposal again gets the answer that it got.
    pub fn proposal(&mut self, proposal: &Proposal<'_>) -> Result<Step, SessionError> {
        if self.ended {
            return Err(SessionError::Ended);
        }
        let taken = self.ingest.proposal(proposal)?;
        Ok(self.take(taken))
    }

    /// Ends the session: obligations that are still open are reported at the last turn.
    pub fn end(&mut self) -> Result<Step, SessionError> {
        if self.ended {
            return Err(SessionError::Ended);
        }
        self.ended = true;
        // Calls may have been proposed for a message that never came.
        self.complete_turn();
        let taken = self.ingest.end();
        Ok(self.take(taken))
    }

    fn take(&mut self, taken: Taken) -> Step {
        if taken.turn != self.turn.turn {
            self.turn = TurnState { turn: taken.turn, ..TurnState::default() };
        }
        self.steps = 0;
        let mut step = Step { turn: taken.turn, malformed: taken.malformed, ..Step::default() };
        let mut answered: Vec<u32> = taken.known_calls;
        for event in &taken.events {
            let judged = lang::step(self.pack.program(), &mut self.state, event, &self.limits.after(self.turn.steps));
            self.steps += judged.steps;
            self.turn.steps += judged.steps;
            self.found.note(self.pack.program(), event, &judged);
            let gate = self.record(judged, &mut step);
            match (&event.body, event.kind()) {
                (_, EventKind::Assistant) => self.turn.message = gate,
                (EventBody::Call { id, index, .. }, _) => {
                    let gate = gate.max(self.turn.message);
                    let call_id = id.as_deref().unwrap_or_default().to_owned();
                    self.turn.answers.insert(*index, CallAnswer { index: *index, call_id, gate });
                    answered.push(*index);
                }
                _ => {}
            }
        }
        step.calls = self.turn.answers.values().filter(|a| answered.contains(&a.index)).cloned().collect();
        step.hits.sort_by(|a, b| a.firing.policy.cmp(&b.firing.policy));
        step.signals.sort_by(|a, b| a.firing.policy.cmp(&b.firing.policy));
        step.undecided.sort_by(|a, b| a.policy.cmp(&b.policy));
        step
    }

    /// The turn's message is there as a whole: its hits are history from now on.
    fn complete_turn(&mut self) {
        for hit in self.found.complete(&mut self.ingest) {
            self.steps += lang::step(self.pack.program(), &mut self.state, &hit, &self.limits).steps;
        }
    }

    /// Adds what is new for the turn; gives what it means for a call.
    fn record(&mut self, judged: Judged, step: &mut Step) -> Gate {
        let turn = step.turn;
        let pack = self.pack.clone();
        let mut gate = Gate::Allow;
        for (id, firing) in judged.firings {
            let Some(policy) = pack.program().policies.get(id) else { continue };
            match policy.effect {
                Effect::Deny => {
                    gate = Gate::Deny;
                    if self.turn.hits.insert(id) {
                        let n = self.hits.entry(id).or_default();
                        step.hits.push(Hit { firing, turn, n: *n, reward: pack.reward(id, *n) });
                        *n = n.saturating_add(1);
                    }
                }
                effect => {
                    if effect == Effect::Review {
                        gate = gate.max(Gate::Review);
                    }
                    if self.turn.signals.insert(id) {
                        step.signals.push(Signal { firing, turn, effect });
                    }
                }
            }
        }
        // What is reported once is still answered each time.
        for policy in judged.unreported.iter().filter_map(|id| pack.program().policies.get(*id)) {
            gate = gate.max(match policy.effect {
                Effect::Deny => Gate::Deny,
                Effect::Review => Gate::Review,
                _ => Gate::Allow,
            });
        }
        for (id, why) in judged.undecided {
            let Some(policy) = pack.program().policies.get(id) else { continue };
            gate = gate.max(match policy.effect {
                Effect::Deny => pack.on_undecided(),
                // A policy that could at most ask for a review does not deny when it is undecided.
                Effect::Review => pack.on_undecided().min(Gate::Review),
                _ => Gate::Allow,
            });
            if self.turn.undecided.insert(id) {
                step.undecided.push(Undecided { policy: policy.id.clone(), turn, reason: pack.program().reason(why) });
            }
        }
        step.malformed.extend(judged.malformed.into_iter().map(|reason| Malformed { turn, reason }));
        gate
    }
}
