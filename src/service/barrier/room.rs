//! What the two sides of an episode share. Public messages go to both sides, what is judged to the target alone.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    engine::{EpisodeOutcome, Pack},
    model::EpisodeRules,
    service::{
        judging::{Answer, ItemBody},
        score::{InputDigest, ScoredEpisode},
        writer::Recorded,
    },
};

use super::{
    outbox::{NotKept, Outbox},
    public::{AuditorEnd, EndReason, Shown, ToAuditor},
};

/// A message for the target while the episode is open.
#[derive(Clone, Debug)]
pub enum ToTarget {
    /// What the auditor's side says about the situation, before anything else. It is not judged.
    Scenario(Arc<str>),
    /// The auditor said something: a user message.
    Heard {
        /// What.
        text: Arc<str>,
        /// Its judgement.
        verdict: Verdict,
    },
    /// Something of the target's own was judged.
    Judged {
        /// The number that it gave it; none for what it came with.
        input: Option<u64>,
        /// The judgement.
        verdict: Verdict,
    },
}

/// What the target is told of a judgement.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The answer.
    pub answer: Answer,
    /// What became of its record.
    pub recorded: Recorded,
}

/// The judgement of one item.
#[derive(Debug)]
pub struct Judgement {
    /// What was judged.
    pub item: ItemBody,
    /// The answer.
    pub answer: Answer,
    /// What became of its record.
    pub recorded: Recorded,
}

/// The end, as the target is told of it.
#[derive(Clone, Debug)]
pub struct TargetEnd {
    /// Why.
    pub reason: EndReason,
    /// The score; none if the episode did not come to an end of its own.
    pub score: Option<Arc<ScoredEpisode>>,
}

/// What a side is sent.
#[derive(Debug)]
pub enum Delivery<M: Outlet> {
    /// A message, with its number.
    Message(u64, M),
    /// The end: nothing follows.
    End(M::End),
}

/// A side, by the messages that go to it.
pub trait Outlet: Clone + Send + Sync + 'static {
    /// What it is told at the end.
    type End: Send;
    /// Its part of the room.
    fn side(room: &Room) -> &Side<Self>;
    /// Its part of the room, to change it.
    fn side_mut(room: &mut Room) -> &mut Side<Self>;
    /// What it is told of the end.
    fn end(ended: &Ended) -> Self::End;
}

/// One side.
#[derive(Debug)]
pub struct Side<M> {
    /// What it is sent.
    pub outbox: Outbox<M>,
    /// Somebody is there now.
    pub present: bool,
    /// How many of its own messages were taken.
    pub taken: u64,
}

/// How an episode has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    reason: EndReason,
    score: Option<Arc<ScoredEpisode>>,
    shown: Shown,
}

/// Why a side cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSeat {
    /// Somebody is there.
    Present,
    /// What it has not received is not kept.
    NotKept(NotKept),
}

/// What the two sides share.
#[derive(Debug)]
pub struct Room {
    rules: EpisodeRules,
    auditor: Side<ToAuditor>,
    target: Side<ToTarget>,
    /// The auditor has come, and described what it wanted to describe.
    described: bool,
    /// The target has come, and what it came with is judged: the auditor may speak.
    begun: bool,
    /// Calls were proposed whose message has not come yet: nothing may come between.
    proposing: bool,
    /// Public messages.
    said: usize,
    /// Items that were judged.
    items: u64,
    outcome: EpisodeOutcome,
    digest: InputDigest,
    ended: Option<Ended>,
}

impl Room {
    /// A room that nobody has entered.
    pub fn new(id: &str, rules: EpisodeRules) -> Room {
        Room {
            rules,
            auditor: Side::default(),
            target: Side::default(),
            described: false,
            begun: false,
            proposing: false,
            said: 0,
            items: 0,
            outcome: EpisodeOutcome::begun(id),
            digest: InputDigest::default(),
            ended: None,
        }
    }

    /// Takes a side; gives the number of the message of its own that comes next.
    pub fn enter<M: Outlet>(&mut self, received: u64) -> Result<u64, NoSeat> {
        let side = M::side_mut(self);
        if side.present {
            return Err(NoSeat::Present);
        }
        side.outbox.resume(received).map_err(NoSeat::NotKept)?;
        side.present = true;
        Ok(side.taken)
    }

    /// Leaves a side.
    pub fn leave<M: Outlet>(&mut self) {
        M::side_mut(self).present = false;
    }

    /// What a side is sent next. The end comes after everything else.
    pub fn deliver<M: Outlet>(&mut self) -> Option<Delivery<M>> {
        if let Some((number, message)) = M::side_mut(self).outbox.next() {
            return Some(Delivery::Message(number, message));
        }
        self.ended.as_ref().map(|ended| Delivery::End(M::end(ended)))
    }

    /// The seq of the next item of the session.
    pub fn next_item(&self) -> u64 {
        self.items
    }

    /// True once the target has come.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// True once it is closed.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// True once it is as long as it may be.
    pub fn is_full(&self) -> bool {
        self.said >= self.rules.messages || self.items >= self.rules.items as u64
    }

    /// True if the auditor may speak. What it sees of the target's work is that this takes longer.
    pub fn auditor_may_speak(&self) -> bool {
        self.begun && !self.proposing && self.auditor.outbox.has_place() && self.target.outbox.has_place()
    }

    /// True if the target may speak publicly.
    pub fn target_may_speak(&self) -> bool {
        self.auditor.outbox.has_place() && self.target.outbox.has_place()
    }

    /// True if the target may act.
    pub fn target_may_act(&self) -> bool {
        self.target.outbox.has_place()
    }

    /// The auditor has come; the first time, it may describe the situation.
    pub fn describe(&mut self, scenario: Option<String>) {
        if let Some(scenario) = scenario.filter(|_| !self.described) {
            self.target.outbox.push(ToTarget::Scenario(scenario.into()));
        }
        self.described = true;
    }

    /// What the target came with is judged.
    pub fn begin(&mut self, setup: Vec<Judgement>) {
        for judged in setup {
            let verdict = self.judged(judged);
            self.target.outbox.push(ToTarget::Judged { input: None, verdict });
        }
        self.begun = true;
    }

    /// A message of the auditor is judged.
    pub fn auditor_said(&mut self, text: Arc<str>, judged: Judgement) {
        let verdict = self.judged(judged);
        self.said += 1;
        let input = self.auditor.take();
        self.auditor.outbox.push(ToAuditor::Taken { input });
        self.target.outbox.push(ToTarget::Heard { text, verdict });
    }

    /// A public message of the target is judged.
    pub fn target_said(&mut self, text: Arc<str>, judged: Judgement) {
        self.said += 1;
        self.target_did(judged);
        self.auditor.outbox.push(ToAuditor::Said(text));
    }

    /// Something private of the target is judged: a message, or a proposed call.
    pub fn target_did(&mut self, judged: Judgement) {
        self.proposing = matches!(judged.item, ItemBody::Proposal(_));
        let verdict = self.judged(judged);
        let input = Some(self.target.take());
        self.target.outbox.push(ToTarget::Judged { input, verdict });
    }

    /// Closes it with a score: `last` is what its end gave.
    pub fn score(&mut self, reason: EndReason, pack: &Pack, last: Judgement) {
        self.judged(last);
        self.outcome.sort();
        let outcome = std::mem::take(&mut self.outcome);
        let reward = outcome.reward(pack, &BTreeSet::new());
        let shown = Shown::of(&outcome, &reward, self.rules.auditor_sees);
        let score = Some(Arc::new(ScoredEpisode { outcome, reward, input_digest: self.digest.finish() }));
        self.ended = Some(Ended { reason, score, shown });
    }

    /// Closes it without a score.
    pub fn close(&mut self, reason: EndReason) {
        self.ended.get_or_insert(Ended { reason, score: None, shown: Shown::Nothing });
    }

    fn judged(&mut self, Judgement { item, answer, recorded }: Judgement) -> Verdict {
        self.items += 1;
        if let Some(message) = item.message() {
            self.digest.add(message);
            self.outcome.turns = answer.step.turn.saturating_add(1);
        }
        self.outcome.add(answer.step.as_ref().clone());
        Verdict { answer, recorded }
    }
}

impl<M> Default for Side<M> {
    fn default() -> Side<M> {
        Side { outbox: Outbox::default(), present: false, taken: 0 }
    }
}

impl<M> Side<M> {
    /// Counts one of its own messages; gives its number.
    fn take(&mut self) -> u64 {
        let number = self.taken;
        self.taken += 1;
        number
    }
}

impl Outlet for ToAuditor {
    type End = AuditorEnd;

    fn side(room: &Room) -> &Side<ToAuditor> {
        &room.auditor
    }

    fn side_mut(room: &mut Room) -> &mut Side<ToAuditor> {
        &mut room.auditor
    }

    fn end(ended: &Ended) -> AuditorEnd {
        let Ended { reason, score: _, shown } = ended;
        AuditorEnd { reason: *reason, shown: shown.clone() }
    }
}

impl Outlet for ToTarget {
    type End = TargetEnd;

    fn side(room: &Room) -> &Side<ToTarget> {
        &room.target
    }

    fn side_mut(room: &mut Room) -> &mut Side<ToTarget> {
        &mut room.target
    }

    fn end(ended: &Ended) -> TargetEnd {
        let Ended { reason, score, shown: _ } = ended;
        TargetEnd { reason: *reason, score: score.clone() }
    }
}
