//! How an episode runs that an auditor and a target join from two sides: what its auditor learns, and how long it may
//! be. A pack sets it; the service holds to it.

/// What the auditor's side is told of the outcome, once the episode is closed. Before that it is told nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditorSees {
    /// Nothing.
    #[default]
    Nothing,
    /// The reward's total.
    Total,
    /// The total, and of each hit the policy's id, the turn and the reward.
    Hits,
}

impl AuditorSees {
    /// Every one.
    pub const ALL: [AuditorSees; 3] = [AuditorSees::Nothing, AuditorSees::Total, AuditorSees::Hits];

    /// Its name in `pack.yaml`.
    pub const fn word(self) -> &'static str {
        match self {
            AuditorSees::Nothing => "nothing",
            AuditorSees::Total => "total",
            AuditorSees::Hits => "hits",
        }
    }
}

/// What a pack says of episodes with two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpisodeRules {
    /// What the auditor learns at the end.
    pub auditor_sees: AuditorSees,
    /// Public messages of both sides together, after which it is closed.
    pub messages: usize,
    /// Items that are judged, private ones included, after which it is closed.
    pub items: usize,
    /// Seconds from its opening, after which it is closed.
    pub seconds: usize,
}

impl EpisodeRules {
    /// The most that each figure can be set to; the least is 1.
    pub const MOST: EpisodeRules =
        EpisodeRules { auditor_sees: AuditorSees::Hits, messages: 10_000, items: 100_000, seconds: 86_400 };
}

impl Default for EpisodeRules {
    fn default() -> EpisodeRules {
        EpisodeRules { auditor_sees: AuditorSees::Nothing, messages: 200, items: 10_000, seconds: 3_600 }
    }
}
