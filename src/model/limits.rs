//! What one session may cost: each limit by name, with its default and the most that it can be set to.
//!
//! Packs and the server set them; of each the smaller holds. The rules language says what happens when one is
//! reached: what it leaves open is undecided, and the reason names it.

/// A limit of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// Expressions evaluated and store entries looked at, for judging one event and again for taking it in.
    EventSteps,
    /// The same for all events of one turn together, so that a message of many calls cannot hold a server up.
    TurnSteps,
    /// Rough size of the session's facts and history. Beyond it nothing more is taken in.
    StateBytes,
    /// Tokens of earlier texts that are kept to tell what is derived from them. Beyond it no more are kept.
    Tokens,
    /// What is kept and looked at one by one, where no running answer can be kept: earlier events of a key,
    /// incomplete matches of an order, places of a token; and keys, for a question whose own key is unknown.
    LookBack,
    /// Possible openings of a `since` window that are kept apart.
    Openings,
    /// Entries of a fact that a quantifier looks at.
    FactEntries,
}

impl Limit {
    /// Every limit.
    pub const ALL: [Limit; 7] = [
        Limit::EventSteps,
        Limit::TurnSteps,
        Limit::StateBytes,
        Limit::Tokens,
        Limit::LookBack,
        Limit::Openings,
        Limit::FactEntries,
    ];

    /// Its key in `pack.yaml`, its default, and the most that it can be set to; the least is 1.
    const fn row(self) -> (&'static str, usize, usize) {
        match self {
            Limit::EventSteps => ("event_steps", 1_000_000, 1_000_000),
            Limit::TurnSteps => ("turn_steps", 16_000_000, 16_000_000),
            Limit::StateBytes => ("state_bytes", 64 << 20, 64 << 20),
            Limit::Tokens => ("tokens", 400_000, 400_000),
            Limit::LookBack => ("look_back", 256, 4_096),
            Limit::Openings => ("openings", 16, 64),
            Limit::FactEntries => ("fact_entries", 256, 4_096),
        }
    }

    /// Its key in `pack.yaml`, which is its name everywhere.
    pub const fn key(self) -> &'static str {
        self.row().0
    }

    /// What it is if nobody sets it.
    pub const fn default(self) -> usize {
        self.row().1
    }

    /// The most that it can be set to.
    pub const fn most(self) -> usize {
        self.row().2
    }

    /// The reason of whatever it leaves undecided.
    pub fn reason(self) -> String {
        format!("{REASON}{}", self.key())
    }

    /// The limit that a reason names, if it names one.
    pub fn named_in(reason: &str) -> Option<Limit> {
        let key = reason.strip_prefix(REASON)?;
        Limit::ALL.into_iter().find(|limit| limit.key() == key)
    }
}

/// How the reason of what a limit left undecided begins. Any other begins with a piece of source text.
const REASON: &str = "budget ran out: ";

/// The limits of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is described where it is named, in `Limit`")]
pub struct Limits {
    pub event_steps: usize,
    pub turn_steps: usize,
    pub state_bytes: usize,
    pub tokens: usize,
    pub look_back: usize,
    pub openings: usize,
    pub fact_entries: usize,
}

impl Limits {
    /// The figure of a limit.
    pub fn get(mut self, limit: Limit) -> usize {
        *self.place(limit)
    }

    /// Sets one.
    pub fn set(&mut self, limit: Limit, to: usize) {
        *self.place(limit) = to;
    }

    fn place(&mut self, limit: Limit) -> &mut usize {
        match limit {
            Limit::EventSteps => &mut self.event_steps,
            Limit::TurnSteps => &mut self.turn_steps,
            Limit::StateBytes => &mut self.state_bytes,
            Limit::Tokens => &mut self.tokens,
            Limit::LookBack => &mut self.look_back,
            Limit::Openings => &mut self.openings,
            Limit::FactEntries => &mut self.fact_entries,
        }
    }

    fn each(figure: impl Fn(Limit) -> usize) -> Limits {
        Limits {
            event_steps: figure(Limit::EventSteps),
            turn_steps: figure(Limit::TurnSteps),
            state_bytes: figure(Limit::StateBytes),
            tokens: figure(Limit::Tokens),
            look_back: figure(Limit::LookBack),
            openings: figure(Limit::Openings),
            fact_entries: figure(Limit::FactEntries),
        }
    }

    /// As much as can be set.
    pub fn most() -> Limits {
        Limits::each(Limit::most)
    }

    /// The smaller of each.
    pub fn min(self, other: Limits) -> Limits {
        Limits::each(|limit| self.get(limit).min(other.get(limit)))
    }

    /// For one more event of a turn whose events have taken `used` steps.
    pub fn after(self, used: u64) -> Limits {
        let left = self.turn_steps.saturating_sub(usize::try_from(used).unwrap_or(usize::MAX));
        Limits { event_steps: self.event_steps.min(left), turn_steps: left, ..self }
    }

    /// The limit that steps run into first.
    pub fn of_steps(&self) -> Limit {
        if self.turn_steps <= self.event_steps { Limit::TurnSteps } else { Limit::EventSteps }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::each(Limit::default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_set_and_read_by_name_and_of_two_the_smaller_holds() {
        for limit in Limit::ALL {
            let mut limits = Limits::most();
            limits.set(limit, 1);
            for other in Limit::ALL {
                assert_eq!(limits.get(other), if other == limit { 1 } else { other.most() }, "{}", other.key());
            }
            let smaller = limits.min(Limits::default());
            assert_eq!(smaller, Limits::default().min(limits));
            assert_eq!((smaller.get(limit), Limits::default().get(limit)), (1, limit.default()));
            assert!(limit.default() <= limit.most());
            assert_eq!(Limit::named_in(&limit.reason()), Some(limit));
        }
        assert_eq!(Limit::named_in("`args.n` is missing"), None);
    }

    #[test]
    fn steps_run_out_for_the_event_or_for_its_turn() {
        let limits = Limits { event_steps: 10, turn_steps: 25, ..Limits::default() };
        assert_eq!((limits.after(0).event_steps, limits.after(0).of_steps()), (10, Limit::EventSteps));
        assert_eq!((limits.after(20).event_steps, limits.after(20).of_steps()), (5, Limit::TurnSteps));
        assert_eq!(limits.after(26).event_steps, 0);
    }
}
