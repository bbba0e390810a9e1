//! When a probe is due: one gate per session for all triggers, under the caller's clock.
//!
//! The gate never reads a clock and never sleeps. It answers each runtime event with "due, after
//! this delay" or with the reason why not; the delay is the jitter, drawn from the session's seed, so
//! that probes do not come at a beat which an attacker could learn.

use super::{ContextSummary, SensitivityRules, numbers::Checks, select::draw};

/// What happened at runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The context grew.
    ContextGrowth,
    /// Outside content came in.
    ExternalContent,
    /// Somebody asked for a probe.
    Manual,
    /// A reputation fell.
    Reputation,
}

impl Trigger {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Trigger::ContextGrowth => "context_growth",
            Trigger::ExternalContent => "external_content",
            Trigger::Manual => "manual",
            Trigger::Reputation => "reputation",
        }
    }

    /// The trigger of exactly that name.
    pub fn from_word(word: &str) -> Option<Trigger> {
        [Trigger::ContextGrowth, Trigger::ExternalContent, Trigger::Manual, Trigger::Reputation]
            .into_iter()
            .find(|t| t.word() == word)
    }
}

/// A runtime event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeEvent {
    /// What happened.
    pub trigger: Trigger,
    /// Tokens in the context now.
    pub tokens: i64,
    /// Whether the context holds outside content.
    pub external_content: bool,
}

impl RuntimeEvent {
    /// The event that a session's bare counters amount to.
    pub fn from_counters(taint_active: bool, tokens: i64) -> RuntimeEvent {
        let trigger = if taint_active { Trigger::ExternalContent } else { Trigger::ContextGrowth };
        RuntimeEvent { trigger, tokens, external_content: taint_active }
    }
}

/// The summary and the event of a session's bare counters.
pub fn from_view(
    external_reads: i64,
    taint_active: bool,
    turn: i64,
    tokens: i64,
    rules: SensitivityRules,
) -> (ContextSummary, RuntimeEvent) {
    let summary = ContextSummary::from_counters(external_reads, taint_active, turn, rules);
    (summary, RuntimeEvent::from_counters(taint_active, tokens))
}

/// What counts as growth of the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Tokens since the last dispatch.
    #[default]
    SinceDispatch,
    /// Tokens altogether. Past the threshold, every event is due.
    Absolute,
}

/// When the cooldown holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cooldown {
    /// From each trigger that was let through, and not before the first.
    #[default]
    AfterDispatch,
    /// An older rule: the first event is measured from time 0, and delayed triggers are
    /// held back only while another one waits.
    FromZero,
}

/// The numbers of the gate. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduleSettings {
    /// Growth that makes a probe due.
    pub growth_tokens: i64,
    /// Tokens that make a probe due once outside content is there.
    pub external_tokens: i64,
    /// A probe is due after this long without one.
    pub max_interval: f64,
    /// No two probes are closer than this.
    pub cooldown: f64,
    /// The largest delay.
    pub jitter: f64,
    /// Most probes of a session.
    pub max_probes: u64,
    /// A reputation below this is a trigger.
    pub reputation: f64,
    /// What counts as growth.
    pub growth: Growth,
    /// When the cooldown holds.
    pub cooldown_rule: Cooldown,
}

impl ScheduleSettings {
    /// Adds the problems of these settings.
    pub fn check(&self, checks: &mut Checks) {
        const YEAR: f64 = 31_536_000.0;
        checks
            .range("schedule.growth_tokens", self.growth_tokens as f64, 0.0, 1e12)
            .range("schedule.external_tokens", self.external_tokens as f64, 0.0, 1e12)
            .range("schedule.max_interval", self.max_interval, 0.0, YEAR)
            .range("schedule.cooldown", self.cooldown, 0.0, YEAR)
            .range("schedule.jitter", self.jitter, 0.0, YEAR)
            .range("schedule.reputation", self.reputation, 0.0, 1.0);
    }

    /// Whether a reputation, 0 to 1, is a trigger; without one there is none.
    pub fn reputation_triggers(&self, reputation: Option<f64>) -> bool {
        reputation.is_some_and(|r| r < self.reputation)
    }
}

/// Why a probe is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueReason {
    /// The session's first event.
    First,
    /// Somebody asked.
    Manual,
    /// A reputation fell.
    Reputation,
    /// The context grew.
    Growth,
    /// Outside content and enough context.
    External,
    /// The last one is long ago.
    Interval,
}

impl DueReason {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            DueReason::First => "first",
            DueReason::Manual => "manual",
            DueReason::Reputation => "reputation",
            DueReason::Growth => "context_growth",
            DueReason::External => "external_content",
            DueReason::Interval => "interval",
        }
    }
}

/// Why no probe is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDue {
    /// The session has had all its probes.
    Cap,
    /// Nothing asks for one.
    Quiet,
    /// The last one was a moment ago; the trigger is dropped.
    Cooldown,
}

impl NotDue {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            NotDue::Cap => "cap",
            NotDue::Quiet => "quiet",
            NotDue::Cooldown => "cooldown",
        }
    }
}

/// The gate's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Send a probe after the delay.
    Due {
        /// Why.
        reason: DueReason,
        /// Seconds to wait.
        delay: f64,
    },
    /// Send none.
    NotDue(NotDue),
}

/// What becomes of a trigger that waits out its jitter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// It waits; call [`Gate::wake`] then.
    Waits {
        /// Until when.
        until: f64,
    },
    /// It is dropped.
    Dropped(NotDue),
}

/// The gate of one session.
#[derive(Clone, Debug)]
pub struct Gate {
    seed: u64,
    draws: u64,
    last: Option<f64>,
    tokens_at_dispatch: i64,
    sent: u64,
    pending: bool,
}

impl Gate {
    /// A gate whose delays are drawn from `seed`.
    pub fn new(seed: u64) -> Gate {
        Gate { seed, draws: 0, last: None, tokens_at_dispatch: 0, sent: 0, pending: false }
    }

    /// Probes let through and not given back.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Judges an event at the time `now`. A clock that goes back is inside the cooldown.
    pub fn evaluate(&mut self, now: f64, event: RuntimeEvent, settings: &ScheduleSettings) -> Verdict {
        if self.sent >= settings.max_probes {
            return Verdict::NotDue(NotDue::Cap);
        }
        let from_zero = settings.cooldown_rule == Cooldown::FromZero;
        let last = self.last.filter(|t| !(from_zero && *t == 0.0));
        let since = match last {
            Some(t) => Some(now - t),
            None => from_zero.then_some(now),
        };
        let grown = match settings.growth {
            Growth::Absolute => event.tokens,
            Growth::SinceDispatch => event.tokens.saturating_sub(self.tokens_at_dispatch),
        };
        let reason = if last.is_none() {
            DueReason::First
        } else if event.trigger == Trigger::Manual {
            DueReason::Manual
        } else if grown >= settings.growth_tokens {
            DueReason::Growth
        } else if event.external_content && event.tokens >= settings.external_tokens {
            DueReason::External
        } else if since.is_some_and(|s| s >= settings.max_interval) {
            DueReason::Interval
        } else {
            return Verdict::NotDue(NotDue::Quiet);
        };
        if since.is_some_and(|s| s < settings.cooldown) {
            return Verdict::NotDue(NotDue::Cooldown);
        }
        self.last = Some(now);
        self.tokens_at_dispatch = event.tokens;
        self.sent += 1;
        Verdict::Due { reason, delay: self.draw_delay(settings.jitter) }
    }

    /// Judges a look at a reputation: one that is too low asks for a probe as somebody would.
    pub fn reputation(
        &mut self,
        now: f64,
        event: RuntimeEvent,
        reputation: Option<f64>,
        settings: &ScheduleSettings,
    ) -> Verdict {
        if !settings.reputation_triggers(reputation) {
            return self.evaluate(now, event, settings);
        }
        match self.evaluate(now, RuntimeEvent { trigger: Trigger::Manual, ..event }, settings) {
            Verdict::Due { reason: DueReason::Manual, delay } => Verdict::Due { reason: DueReason::Reputation, delay },
            verdict => verdict,
        }
    }

    /// A probe that failed gives its place back; the cooldown stays.
    pub fn give_back(&mut self) {
        self.sent = self.sent.saturating_sub(1);
    }

    /// A trigger that waits out `delay` before it is dispatched (see [`Gate::draw_delay`]). Triggers
    /// inside the cooldown coalesce with the one that waits.
    pub fn arrive(&mut self, now: f64, delay: f64, settings: &ScheduleSettings) -> Arrival {
        if self.sent >= settings.max_probes {
            return Arrival::Dropped(NotDue::Cap);
        }
        let cools = self.last.is_some_and(|t| now - t < settings.cooldown);
        if cools && (self.pending || settings.cooldown_rule == Cooldown::AfterDispatch) {
            return Arrival::Dropped(NotDue::Cooldown);
        }
        self.pending = true;
        self.last = Some(now);
        Arrival::Waits { until: now + delay }
    }

    /// A trigger has waited: whether it is dispatched. One that woke earlier has taken the mark of
    /// all that waited with it.
    pub fn wake(&mut self, settings: &ScheduleSettings) -> bool {
        if !self.pending || self.sent >= settings.max_probes {
            return false;
        }
        self.pending = false;
        self.sent += 1;
        true
    }

    /// A delay between 0 and `jitter` seconds, drawn from the seed.
    pub fn draw_delay(&mut self, jitter: f64) -> f64 {
        self.draws += 1;
        draw(self.seed, "jitter", self.draws) as f64 / u64::MAX as f64 * jitter
    }
}
