//! What a session's probes say together: one number between 0 and 1, kept with running sums, so that
//! the ten-thousandth probe costs what the tenth did.
//!
//! `signal = min(1, f x frequency + t x trend + c x category + s x structural)` where frequency is
//! the share of scores above their threshold, trend the least-squares slope of the scores over their
//! index (scaled and held in 0 to 1), category grows with each policy disagreement and structural
//! with each malformed answer. A session belongs to one version of the probe library: results of
//! another version need another accumulator.

pub(super) mod revise;
mod window;

use std::{collections::BTreeMap, collections::VecDeque, sync::Arc};

use super::{Anomaly, Category, Triangulation, numbers::Checks, numbers::SettingsError};
use revise::OpenScore;

pub use revise::MOST_OPEN;

/// The numbers of the longitudinal signal.
#[derive(Clone, Debug, PartialEq)]
pub struct LongitudinalSettings {
    /// Coefficient of the share of high scores.
    pub frequency: f64,
    /// Coefficient of the trend.
    pub trend: f64,
    /// Coefficient of policy disagreements.
    pub category: f64,
    /// Coefficient of malformed answers.
    pub structural: f64,
    /// Factor of the slope before it is held in 0 to 1.
    pub trend_scale: f64,
    /// Fewer scores than this have no trend.
    pub trend_min_scores: u64,
    /// What each scored policy disagreement adds, up to 1.
    pub per_policy_disagreement: f64,
    /// What malformed answers add: (from this many on, this much), rising.
    pub structural_steps: Vec<(u64, f64)>,
    /// Only the last so many scores count; none means all of them.
    pub window: Option<usize>,
    /// Whether malformed answers count while nothing is scored yet.
    pub structural_without_scores: bool,
    /// Whether what triangulation explained away still counts: a summary-calibration anomaly in
    /// full, a legitimate answer as high.
    pub count_explained: bool,
    /// Whether scores outside 0 to 1, infinite ones and NaN are taken in instead of refused.
    pub accept_any_score: bool,
}

impl LongitudinalSettings {
    /// Adds the problems of these settings.
    pub fn check(&self, checks: &mut Checks) {
        for (name, value) in [
            ("longitudinal.frequency", self.frequency),
            ("longitudinal.trend", self.trend),
            ("longitudinal.category", self.category),
            ("longitudinal.structural", self.structural),
            ("longitudinal.per_policy_disagreement", self.per_policy_disagreement),
        ] {
            checks.range(name, value, 0.0, 1.0);
        }
        checks.range("longitudinal.trend_scale", self.trend_scale, 0.0, 1e6);
        checks.range("longitudinal.trend_min_scores", self.trend_min_scores as f64, 2.0, 1e6);
        if let Some(window) = self.window {
            checks.range("longitudinal.window", window as f64, 1.0, 1e6);
            if self.accept_any_score {
                checks.push(SettingsError::AnyScoreWithWindow);
            }
        }
        for (_, value) in &self.structural_steps {
            checks.range("longitudinal.structural_steps", *value, 0.0, 1.0);
        }
        let rises = self.structural_steps.windows(2).all(|w| match w {
            [a, b] => a.0 < b.0 && a.1 <= b.1,
            _ => true,
        });
        if !rises {
            checks.push(SettingsError::Steps { name: "longitudinal.structural_steps".to_owned() });
        }
    }

    /// The largest signal of a session whose every probe drifts at full strength: a flat line has
    /// no trend. A pack whose thresholds lie above it can never reach them for long.
    pub fn flat_maximum(&self) -> f64 {
        let structural = self.structural_steps.last().map_or(0.0, |(_, v)| *v);
        (self.frequency + self.category + self.structural * structural).min(1.0)
    }
}

/// Which probes count as suspiciously perfect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreakRule {
    /// Those without any divergence or anomaly.
    #[default]
    NoDivergence,
    /// Those whose score is not above the threshold.
    UpToThreshold,
    /// Those without an escape, scored or not.
    NoEscape,
}

/// When a run of perfect probes is itself suspicious.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConsistencySettings {
    /// Which probes lengthen the streak.
    pub rule: StreakRule,
    /// The streak that is an anomaly.
    pub streak: u64,
    /// The variance of scores that calibration found in honest sessions. Perfect answers are
    /// suspicious only where honest ones vary.
    pub expected_variance: f64,
    /// Whether the anomaly needs a calibrated pack with an expected variance above 0.
    pub needs_calibration: bool,
}

/// Whether a pack's numbers were fitted to labelled sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calibration {
    /// They are estimates.
    #[default]
    Uncalibrated,
    /// They were fitted.
    Calibrated,
}

impl Calibration {
    /// `UNCALIBRATED` or `CALIBRATED`.
    pub fn word(self) -> &'static str {
        match self {
            Calibration::Uncalibrated => "UNCALIBRATED",
            Calibration::Calibrated => "CALIBRATED",
        }
    }

    /// Calibrated for exactly `CALIBRATED`; any other word is no claim.
    pub fn from_word(word: &str) -> Calibration {
        if word == Calibration::Calibrated.word() { Calibration::Calibrated } else { Calibration::Uncalibrated }
    }
}

/// What is recommended, in rising order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Nothing beyond the record.
    #[default]
    LogOnly,
    /// A human should look.
    ElevatedReview,
    /// The session should lose rights. Only a calibrated pack can say so.
    RestrictedMode,
}

impl Action {
    /// Every action, the mildest first.
    pub const ALL: [Action; 3] = [Action::LogOnly, Action::ElevatedReview, Action::RestrictedMode];

    /// Its name in signals.
    pub fn word(self) -> &'static str {
        match self {
            Action::LogOnly => "log_only",
            Action::ElevatedReview => "elevated_review",
            Action::RestrictedMode => "restricted_mode",
        }
    }

    /// The action, as far as a pack of that calibration may ask for it.
    #[must_use]
    pub fn allowed(self, calibration: Calibration) -> Action {
        match (self, calibration) {
            (Action::RestrictedMode, Calibration::Uncalibrated) => Action::ElevatedReview,
            (action, _) => action,
        }
    }

    /// The action of that name.
    pub fn from_word(word: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|a| a.word() == word)
    }
}

/// When the signal asks for an action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ActionSettings {
    /// Signal from which a human should look.
    pub elevated: f64,
    /// Signal from which a calibrated pack restricts.
    pub restricted: f64,
    /// Fewer scored probes than this never ask for more than the record.
    pub min_scored_probes: u64,
    /// What an escape alone asks for, whatever the signal.
    pub on_escape: Action,
}

impl ActionSettings {
    /// The action for a signal. An uncalibrated pack never restricts.
    pub fn action(&self, signal: f64, calibration: Calibration, scored_probes: u64) -> Action {
        if scored_probes < self.min_scored_probes {
            Action::LogOnly
        } else if signal >= self.restricted && calibration == Calibration::Calibrated {
            Action::RestrictedMode
        } else if signal >= self.elevated {
            Action::ElevatedReview
        } else {
            Action::LogOnly
        }
    }

    /// Adds the problems of these settings.
    pub fn check(&self, checks: &mut Checks) {
        checks
            .range("action.elevated", self.elevated, 0.0, 1.0)
            .range("action.restricted", self.restricted, 0.0, 1.0)
            .rises(("action.elevated", self.elevated), ("action.restricted", self.restricted));
    }
}

/// One probe's result, as far as the session needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeResult {
    /// The probe type.
    pub probe_type: Arc<str>,
    /// The drift score, if the answers could be scored.
    pub score: Option<f64>,
    /// The type's threshold.
    pub threshold: f64,
    /// What kind of divergence was found.
    pub category: Option<Category>,
    /// What was wrong with an answer.
    pub anomaly: Option<Anomaly>,
    /// Whether any field differed.
    pub diverged: bool,
    /// What triangulation said.
    pub triangulation: Option<Triangulation>,
    /// Whether the snapshot exposed what the shadow did not.
    pub escape: bool,
    /// The confidence of the comparison, 0 to 1.
    pub confidence: f64,
}

/// How a result counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In full.
    Counted,
    /// Triangulation found it legitimate: counted, but not as high.
    Legitimate,
    /// Recorded only: the summary misled the shadow.
    SummaryAnomaly,
    /// Recorded only: the comparison's confidence is below the pack's least.
    LowConfidence,
}

impl Standing {
    /// Every standing.
    pub const ALL: [Standing; 4] =
        [Standing::Counted, Standing::Legitimate, Standing::SummaryAnomaly, Standing::LowConfidence];

    /// Its name in signals.
    pub fn word(self) -> &'static str {
        match self {
            Standing::Counted => "counted",
            Standing::Legitimate => "legitimate",
            Standing::SummaryAnomaly => "summary_anomaly",
            Standing::LowConfidence => "low_confidence",
        }
    }

    /// The standing of that name.
    pub fn from_word(word: &str) -> Option<Standing> {
        Standing::ALL.into_iter().find(|s| s.word() == word)
    }
}

/// Why a result is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecordError {
    /// It belongs to another session.
    #[error("the result belongs to session {got:?}, this is {expected:?}")]
    OtherSession {
        /// The result's session.
        got: String,
        /// This session.
        expected: String,
    },
    /// It was made with another version of the probe library.
    #[error("the result is of probe library {got:?}, this session uses {expected:?}")]
    OtherLibrary {
        /// The result's version.
        got: String,
        /// This session's version.
        expected: String,
    },
    /// Its score is not between 0 and 1.
    #[error("a drift score of {score} is not between 0 and 1")]
    Score {
        /// The score.
        score: f64,
    },
}

/// Sums over the scores that count: `x` is a score's index, from 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) n: u64,
    pub(super) y: f64,
    pub(super) xy: f64,
    pub(super) high: u64,
    pub(super) policy: u64,
    pub(super) odd: OddScores,
}

/// Scores that are not finite, where a pack takes in any score. They stay out of the sums; what they
/// do to the slope follows from the sign of `(x - mean x) x score` at their first and last index.
#[derive(Clone, Debug, Default)]
pub(super) struct OddScores {
    pub(super) nan: bool,
    pub(super) plus: Option<(u64, u64)>,
    pub(super) minus: Option<(u64, u64)>,
}

impl OddScores {
    fn add(&mut self, score: f64, x: u64) {
        let stretch = |seen: &mut Option<(u64, u64)>| *seen = Some((seen.map_or(x, |(first, _)| first), x));
        if score.is_nan() {
            self.nan = true;
        } else if score > 0.0 {
            stretch(&mut self.plus);
        } else {
            stretch(&mut self.minus);
        }
    }

    /// The slope's numerator if any odd score is in it: infinite where all pull the same way, else
    /// not a number.
    fn pull(&self, n: u64) -> Option<f64> {
        if !self.nan && self.plus.is_none() && self.minus.is_none() {
            return None;
        }
        let mean = (n as f64 - 1.0) / 2.0;
        let above = |side: Option<(u64, u64)>| side.is_none_or(|(first, _)| first as f64 > mean);
        let below = |side: Option<(u64, u64)>| side.is_none_or(|(_, last)| (last as f64) < mean);
        Some(match self.nan {
            true => f64::NAN,
            false if above(self.plus) && below(self.minus) => f64::INFINITY,
            false if below(self.plus) && above(self.minus) => f64::NEG_INFINITY,
            false => f64::NAN,
        })
    }
}

/// A score inside the ageing window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aged {
    pub(super) score: f64,
    pub(super) high: bool,
    pub(super) policy: bool,
}

/// The memory of one session and one version of the probe library.
#[derive(Clone, Debug)]
pub struct Accumulator {
    pub(super) session_id: Arc<str>,
    pub(super) library_version: Arc<str>,
    pub(super) results: u64,
    pub(super) scored: u64,
    pub(super) structural: u64,
    pub(super) scored_by_category: BTreeMap<Category, u64>,
    pub(super) streak: u64,
    pub(super) sums: Sums,
    pub(super) aged: VecDeque<Aged>,
    pub(super) dropped_since_sum: usize,
    /// The latest score, until it is settled or kept open.
    pub(super) latest: Option<OpenScore>,
    pub(super) open: VecDeque<OpenScore>,
}

impl Accumulator {
    /// An empty memory.
    pub fn new(session_id: &str, library_version: &str) -> Accumulator {
        Accumulator {
            session_id: Arc::from(session_id),
            library_version: Arc::from(library_version),
            results: 0,
            scored: 0,
            structural: 0,
            scored_by_category: BTreeMap::new(),
            streak: 0,
            sums: Sums::default(),
            aged: VecDeque::new(),
            dropped_since_sum: 0,
            latest: None,
            open: VecDeque::new(),
        }
    }

    /// The session.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The version of the probe library.
    pub fn library_version(&self) -> &str {
        &self.library_version
    }

    /// Results recorded.
    pub fn results(&self) -> u64 {
        self.results
    }

    /// Results with a score that counted.
    pub fn scored(&self) -> u64 {
        self.scored
    }

    /// Results with a malformed answer.
    pub fn structural_failures(&self) -> u64 {
        self.structural
    }

    /// How many scores each category that occurred has.
    pub fn scored_by_category(&self) -> &BTreeMap<Category, u64> {
        &self.scored_by_category
    }

    /// The current run of perfect probes.
    pub fn streak(&self) -> u64 {
        self.streak
    }

    /// Takes in one result. A result without a session id belongs to this one.
    pub fn record(
        &mut self,
        session_id: Option<&str>,
        library_version: &str,
        result: &ProbeResult,
        settings: &LongitudinalSettings,
        consistency: &ConsistencySettings,
        min_confidence: f64,
    ) -> Result<Standing, RecordError> {
        if let Some(got) = session_id.filter(|s| *s != &*self.session_id) {
            return Err(RecordError::OtherSession { got: got.to_owned(), expected: self.session_id.to_string() });
        }
        if library_version != &*self.library_version {
            let (got, expected) = (library_version.to_owned(), self.library_version.to_string());
            return Err(RecordError::OtherLibrary { got, expected });
        }
        if let Some(score) = result.score.filter(|s| !settings.accept_any_score && !(0.0..=1.0).contains(s)) {
            return Err(RecordError::Score { score });
        }
        let standing = match result.triangulation {
            _ if result.confidence < min_confidence => Standing::LowConfidence,
            Some(Triangulation::SummaryCalibrationAnomaly) if !settings.count_explained => Standing::SummaryAnomaly,
            Some(Triangulation::Legitimate) if !settings.count_explained => Standing::Legitimate,
            _ => Standing::Counted,
        };
        self.results += 1;
        self.latest = None;
        if matches!(standing, Standing::LowConfidence | Standing::SummaryAnomaly) {
            return Ok(standing);
        }
        self.structural += u64::from(result.anomaly.is_some());
        if let Some(category) = result.category {
            *self.scored_by_category.entry(category).or_default() += u64::from(result.score.is_some());
        }
        let high = result.score.is_some_and(|s| s > result.threshold) && standing == Standing::Counted;
        let streak_before = self.streak;
        self.lengthen_streak(result, consistency.rule);
        if let Some(score) = result.score {
            let policy = result.category == Some(Category::PolicyDisagreement);
            self.latest = Some(OpenScore {
                number: 0,
                x: self.sums.n,
                y_before: self.sums.y,
                score,
                high,
                policy,
                category: result.category,
                anomaly: result.anomaly.is_some(),
                serial: self.results,
                perfect: self.streak > streak_before,
                streak_before,
                ended_by: None,
            });
            self.add(Aged { score, high, policy }, settings.window);
        }
        Ok(standing)
    }

    fn lengthen_streak(&mut self, result: &ProbeResult, rule: StreakRule) {
        let perfect = match (rule, result.score) {
            (StreakRule::NoEscape, _) => !result.escape,
            // Without a score nothing is known, so nothing changes.
            (_, None) => return,
            (StreakRule::UpToThreshold, Some(score)) => score <= result.threshold,
            (StreakRule::NoDivergence, Some(_)) => !result.diverged && result.anomaly.is_none(),
        };
        self.streak = if perfect { self.streak + 1 } else { 0 };
        if !perfect {
            let end = Some(self.results);
            self.open.iter_mut().filter(|open| open.ended_by.is_none()).for_each(|open| open.ended_by = end);
        }
    }

    fn add(&mut self, new: Aged, window: Option<usize>) {
        self.scored += 1;
        let x = self.sums.n;
        self.sums.n += 1;
        if new.score.is_finite() {
            self.sums.y += new.score;
            self.sums.xy += x as f64 * new.score;
        } else {
            self.sums.odd.add(new.score, x);
        }
        self.sums.high += u64::from(new.high);
        self.sums.policy += u64::from(new.policy);
        let Some(window) = window else {
            // What the sums hold from now on is more than a window.
            self.aged.clear();
            return;
        };
        self.aged.push_back(new);
        while self.aged.len() > window {
            self.drop_oldest();
        }
        // Adding and taking away leaves rounding behind. Summing afresh once per window's length
        // removes it and still costs a constant amount per probe.
        if self.dropped_since_sum >= window {
            self.sum_afresh();
        }
    }

    fn drop_oldest(&mut self) {
        let Some(old) = self.aged.pop_front() else { return };
        self.sums.n -= 1;
        self.sums.y -= old.score;
        // Every other index falls by one; the dropped score had index 0.
        self.sums.xy -= self.sums.y;
        self.sums.high -= u64::from(old.high);
        self.sums.policy -= u64::from(old.policy);
        self.dropped_since_sum += 1;
        self.aged_out(old.score);
        if let Some(latest) = &mut self.latest {
            latest.x = latest.x.saturating_sub(1);
            latest.y_before -= old.score;
        }
    }

    fn sum_afresh(&mut self) {
        self.sums.y = self.aged.iter().map(|a| a.score).sum();
        self.sums.xy = self.aged.iter().enumerate().map(|(x, a)| x as f64 * a.score).sum();
        self.dropped_since_sum = 0;
    }

    /// The longitudinal signal, 0 to 1.
    pub fn signal(&self, settings: &LongitudinalSettings) -> f64 {
        let structural_share =
            settings.structural_steps.iter().rev().find(|(from, _)| self.structural >= *from).map_or(0.0, |(_, v)| *v);
        if self.sums.n == 0 && !settings.structural_without_scores {
            return 0.0;
        }
        let frequency = if self.sums.n == 0 { 0.0 } else { self.sums.high as f64 / self.sums.n as f64 };
        let category = (settings.per_policy_disagreement * self.sums.policy as f64).min(1.0);
        let sum = settings.frequency * frequency
            + settings.trend * self.trend(settings)
            + settings.category * category
            + settings.structural * structural_share;
        sum.min(1.0)
    }

    fn trend(&self, settings: &LongitudinalSettings) -> f64 {
        if self.sums.n < settings.trend_min_scores {
            return 0.0;
        }
        let n = self.sums.n as f64;
        // Of the indices 0..n-1: their sum, and n times the sum of squares about their mean.
        let x = n * (n - 1.0) / 2.0;
        let spread = n * n * (n * n - 1.0) / 12.0;
        let above = self.sums.odd.pull(self.sums.n).unwrap_or(n * self.sums.xy - x * self.sums.y);
        let slope = above / spread;
        // A slope that is not a number (only where any score is accepted) is held at 1, the side on
        // which somebody looks.
        let scaled = slope * settings.trend_scale;
        if scaled.is_nan() { 1.0 } else { scaled.clamp(0.0, 1.0) }
    }

    /// Whether the run of perfect probes is an anomaly.
    pub fn consistency_anomaly(&self, settings: &ConsistencySettings, calibration: Calibration) -> bool {
        let known = calibration == Calibration::Calibrated && settings.expected_variance > 0.0;
        self.streak >= settings.streak && (known || !settings.needs_calibration)
    }
}
