//! A whole episode through a session: what replay, metrics and training loops use.

use std::{collections::BTreeSet, sync::Arc};

use super::{Pack, Session};
use crate::{
    ingest::{Episode, JudgeVerdict, Messages},
    model::{EventKind, Hit, Malformed, Num, Signal, Step, Turn, Undecided},
    reward::{EpisodeFigures, EpisodeReward, Facts},
};

/// What an episode gave. Lists are by turn, then policy id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EpisodeOutcome {
    /// The episode.
    pub episode_id: String,
    /// How many messages it has.
    pub turns: Turn,
    /// Violations.
    pub hits: Vec<Hit>,
    /// What could not be decided.
    pub undecided: Vec<Undecided>,
    /// What could not be taken in.
    pub malformed: Vec<Malformed>,
    /// Firings of other effects.
    pub signals: Vec<Signal>,
    /// The sum of the hits' rewards; none beyond 38 digits.
    pub violation_reward: Option<Num>,
    /// The turns of the messages of role `user`: those of the auditor, where an episode is an audit.
    pub user_turns: BTreeSet<Turn>,
    /// What judges said about it.
    pub judge: Vec<JudgeVerdict>,
}

/// Runs an episode from its first message to its end.
pub fn run_episode(pack: &Arc<Pack>, episode: &Episode) -> EpisodeOutcome {
    let mut outcome = EpisodeOutcome { judge: episode.judge.clone(), ..EpisodeOutcome::begun(&episode.id) };
    let mut session = Session::new(pack.clone());
    match &episode.messages {
        Messages::NotAList => {
            outcome.malformed.push(Malformed { turn: 0, reason: "messages is no list".to_owned() });
        }
        Messages::List(messages) => {
            for message in messages.iter() {
                // Nothing was proposed, so nothing can be contradicted.
                if let Ok(step) = session.message(message) {
                    outcome.add(step);
                }
            }
        }
    }
    outcome.turns = session.next_turn();
    if let Ok(step) = session.end() {
        outcome.add(step);
    }
    outcome.sort();
    outcome
}

impl EpisodeOutcome {
    /// Of an episode that begins.
    pub fn begun(episode_id: &str) -> EpisodeOutcome {
        EpisodeOutcome {
            episode_id: episode_id.to_owned(),
            violation_reward: Some(Num::ZERO),
            ..EpisodeOutcome::default()
        }
    }

    /// Adds what a step gave; steps come in the order of turns.
    pub fn add(&mut self, step: Step) {
        for hit in &step.hits {
            self.violation_reward = self.violation_reward.and_then(|sum| sum.add(hit.reward));
        }
        if step.speaker == Some(EventKind::User) {
            self.user_turns.insert(step.turn);
        }
        self.hits.extend(step.hits);
        self.undecided.extend(step.undecided);
        self.malformed.extend(step.malformed);
        self.signals.extend(step.signals);
    }

    /// Brings the lists into order: several steps may belong to one turn (proposals, then their
    /// message, then the end).
    pub fn sort(&mut self) {
        self.hits.sort_by(|a, b| (a.turn, &a.firing.policy).cmp(&(b.turn, &b.firing.policy)));
        self.undecided.sort_by(|a, b| (a.turn, &a.policy).cmp(&(b.turn, &b.policy)));
        self.signals.sort_by(|a, b| (a.turn, &a.firing.policy).cmp(&(b.turn, &b.firing.policy)));
        self.malformed.sort_by_key(|m| m.turn);
    }

    /// Its reward, part by part as the pack declares. `known` are policies whose hits are not new.
    pub fn reward(&self, pack: &Pack, known: &BTreeSet<String>) -> EpisodeReward {
        let facts = Facts {
            auditor: &self.user_turns,
            violation: self.violation_reward,
            hit: self.hits.iter().map(|h| h.firing.policy.as_ref()).collect(),
            signals: self.signals.iter().map(|s| (s.firing.policy.as_ref(), s.effect, s.turn)).collect(),
            undecided: self.undecided.iter().map(|u| (u.policy.as_ref(), u.turn)).collect(),
        };
        pack.components().pay(&facts, known)
    }

    /// What it contributes to metrics.
    pub fn figures(&self) -> EpisodeFigures {
        EpisodeFigures {
            episode_id: self.episode_id.clone(),
            hits: self.hits.iter().map(|h| (h.firing.policy.clone(), h.turn, h.reward)).collect(),
            undecided: self.undecided.iter().map(|u| (u.policy.clone(), u.turn, u.reason.clone())).collect(),
            malformed: self.malformed.iter().map(|m| (m.turn, m.reason.clone())).collect(),
            signals: self.signals.iter().map(|s| (s.firing.policy.clone(), s.effect, s.turn)).collect(),
        }
    }

    /// The reward of each turn, in order; as long as the episode has messages.
    pub fn reward_by_turn(&self) -> Vec<Num> {
        let mut rewards = vec![Num::ZERO; usize::try_from(self.turns).unwrap_or(0)];
        for hit in &self.hits {
            let place = usize::try_from(hit.turn).ok().and_then(|turn| rewards.get_mut(turn));
            if let Some(place) = place
                && let Some(sum) = place.add(hit.reward)
            {
                *place = sum;
            }
        }
        rewards
    }
}
