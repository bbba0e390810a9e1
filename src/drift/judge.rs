//! The judge: three yes-or-no questions about a pair of answers, and the semantic part of the score.
//!
//! Three sources answer them, and every signal names which: the caller's own judge, Probity's
//! keyword categories and pack predicate, or nobody. Answers of both are kept side by side and their
//! agreement is counted; they are never mixed.

use super::{Answer, Booleans, Thousandths, answer::truthy};
use crate::model::Value;

/// The answers to the three questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Do both answers rest on the same rule?
    pub policy_ref_match: bool,
    /// Do both decide in the same direction?
    pub decision_direction_match: bool,
    /// Does the snapshot's answer contradict the context summary?
    pub context_contradiction: bool,
}

/// The keys of a judge's answer.
pub const QUESTIONS: [&str; 3] = ["policy_ref_match", "decision_direction_match", "context_contradiction"];

/// Why a judge's answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JudgeError {
    /// Not a JSON object.
    #[error("the judge's answer is a {got}, not an object")]
    NotObject {
        /// The JSON type that it has.
        got: &'static str,
    },
    /// A question was not answered.
    #[error("the judge's answer lacks {key}")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A question was answered with something else than true or false.
    #[error("the judge's answer to {key} is a {got}, not a boolean")]
    NotBoolean {
        /// The key.
        key: &'static str,
        /// The JSON type that it has.
        got: &'static str,
    },
}

impl Judgement {
    /// Nothing differs.
    pub const ALIKE: Judgement =
        Judgement { policy_ref_match: true, decision_direction_match: true, context_contradiction: false };

    /// Reads a judge's raw answer: an object with the three keys, each a boolean. Other keys are
    /// ignored. Missing keys are reported before wrong types. Unless `booleans` are strict, other
    /// values are read as they say.
    pub fn read(value: &Value, booleans: Booleans) -> Result<Judgement, JudgeError> {
        let Some(object) = value.as_object() else {
            return Err(JudgeError::NotObject { got: value.type_name() });
        };
        let mut found = [false; 3];
        for key in QUESTIONS {
            object.get(key).ok_or(JudgeError::Missing { key })?;
        }
        for (key, slot) in QUESTIONS.into_iter().zip(&mut found) {
            match object.get(key) {
                Some(Value::Bool(b)) => *slot = *b,
                Some(other) if booleans == Booleans::Truthy => *slot = truthy(other),
                Some(_) if booleans == Booleans::ReadFalse => *slot = false,
                Some(other) => return Err(JudgeError::NotBoolean { key, got: other.type_name() }),
                None => return Err(JudgeError::Missing { key }),
            }
        }
        let [policy_ref_match, decision_direction_match, context_contradiction] = found;
        Ok(Judgement { policy_ref_match, decision_direction_match, context_contradiction })
    }

    /// True if both say the same to all three questions.
    pub fn agrees_with(self, other: Judgement) -> bool {
        self == other
    }
}

/// What each question weighs, and how much the semantic part adds to the structural one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgeWeights {
    /// Added when the rules differ.
    pub policy: Thousandths,
    /// Added when the directions differ.
    pub direction: Thousandths,
    /// Added when the context is contradicted.
    pub context: Thousandths,
    /// Factor of the semantic part in the drift score.
    pub blend: Thousandths,
}

/// The semantic part in thousandths, at most 1000.
pub fn semantic(judgement: Judgement, weights: &JudgeWeights) -> u64 {
    let part = |counts: bool, weight: Thousandths| if counts { weight.count() } else { 0 };
    let sum = part(!judgement.policy_ref_match, weights.policy)
        + part(!judgement.decision_direction_match, weights.direction)
        + part(judgement.context_contradiction, weights.context);
    sum.min(Thousandths::ONE.count())
}

/// Where a signal's three answers come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JudgeSource {
    /// The caller's judge.
    Client,
    /// Keyword categories and the pack's predicate.
    Deterministic,
    /// Nobody: the score is structural only.
    #[default]
    None,
}

impl JudgeSource {
    /// `client`, `deterministic` or `none`.
    pub fn word(self) -> &'static str {
        match self {
            JudgeSource::Client => "client",
            JudgeSource::Deterministic => "deterministic",
            JudgeSource::None => "none",
        }
    }

    /// The source of that name.
    pub fn from_word(word: &str) -> Option<JudgeSource> {
        [JudgeSource::Client, JudgeSource::Deterministic, JudgeSource::None].into_iter().find(|s| s.word() == word)
    }
}

/// Which way an answer decides, as far as words can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It goes along with the request.
    Toward,
    /// It refuses, defers or narrows the request.
    Away,
    /// The words do not tell.
    Unclear,
}

/// What the deterministic judge needs to know about texts. The keyword room and a pack's predicate
/// answer; this room only puts the answers together.
pub trait Lexicon {
    /// The direction of a decision word with its reasoning.
    fn direction(&self, decision: &str, reasoning: &str) -> Direction;
    /// The rules that a reasoning names, as the pack's ids, sorted and each once.
    fn policies(&self, reasoning: &str) -> Vec<String>;
    /// Whether an answer contradicts the context summary, by the pack's predicate.
    fn contradicts(&self, answer: &Answer, summary: &super::ContextSummary) -> bool;
}

/// Answers the three questions without a model.
///
/// Rules match if both answers name the same ones. Directions match if they are equal, and an
/// unclear one counts as different from a clear one only if the decision words differ as well: a
/// lexicon's gap is not evidence.
pub fn deterministic(
    snapshot: &Answer,
    shadow: &Answer,
    summary: &super::ContextSummary,
    lexicon: &dyn Lexicon,
) -> Judgement {
    let direction = |a: &Answer| lexicon.direction(a.decision(), a.reasoning());
    let (ours, theirs) = (direction(snapshot), direction(shadow));
    let unclear = ours == Direction::Unclear || theirs == Direction::Unclear;
    Judgement {
        policy_ref_match: lexicon.policies(snapshot.reasoning()) == lexicon.policies(shadow.reasoning()),
        decision_direction_match: ours == theirs || (unclear && snapshot.decision() == shadow.decision()),
        context_contradiction: lexicon.contradicts(snapshot, summary),
    }
}

/// How often two judges said the same, per question and altogether. Judges are compared only where
/// both answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Pairs where both answered.
    pub pairs: u64,
    /// Pairs that agree on all three questions.
    pub full: u64,
    /// Pairs that agree, for each of [`QUESTIONS`].
    pub by_question: [u64; 3],
}

impl Agreement {
    /// Counts one pair.
    pub fn count(&mut self, client: Judgement, deterministic: Judgement) {
        self.pairs += 1;
        self.full += u64::from(client.agrees_with(deterministic));
        let same = [
            client.policy_ref_match == deterministic.policy_ref_match,
            client.decision_direction_match == deterministic.decision_direction_match,
            client.context_contradiction == deterministic.context_contradiction,
        ];
        for (count, same) in self.by_question.iter_mut().zip(same) {
            *count += u64::from(same);
        }
    }

    /// The share of pairs that agree on everything; none without a pair.
    pub fn share(&self) -> Option<f64> {
        (self.pairs > 0).then(|| self.full as f64 / self.pairs as f64)
    }
}
