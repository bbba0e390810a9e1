//! The context summary: all that a shadow instance learns about a session. Seven fields, no free
//! text, so that an attacker's words cannot ride into the shadow.

use std::{fmt::Write, sync::Arc};

/// How sensitive the session's data are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sensitivity {
    /// Public or harmless.
    Low,
    /// Internal.
    Medium,
    /// Personal or confidential.
    High,
    /// Secrets.
    Critical,
    /// A word outside the closed set; only open rules let it pass.
    Other(Arc<str>),
}

impl Sensitivity {
    /// Its word.
    pub fn word(&self) -> &str {
        match self {
            Sensitivity::Low => "low",
            Sensitivity::Medium => "medium",
            Sensitivity::High => "high",
            Sensitivity::Critical => "critical",
            Sensitivity::Other(word) => word,
        }
    }

    /// The sensitivity of that word, [`Sensitivity::Other`] for an unknown one.
    pub fn from_word(word: &str) -> Sensitivity {
        match word {
            "low" => Sensitivity::Low,
            "medium" => Sensitivity::Medium,
            "high" => Sensitivity::High,
            "critical" => Sensitivity::Critical,
            other => Sensitivity::Other(Arc::from(other)),
        }
    }
}

/// How far an escalation has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Escalation {
    /// Nobody was asked.
    None,
    /// Somebody was asked.
    Pending,
    /// Somebody is on it.
    Active,
    /// A word outside the closed set; only open rules let it pass.
    Other(Arc<str>),
}

impl Escalation {
    /// Its word.
    pub fn word(&self) -> &str {
        match self {
            Escalation::None => "none",
            Escalation::Pending => "pending",
            Escalation::Active => "active",
            Escalation::Other(word) => word,
        }
    }

    /// The escalation of that word, [`Escalation::Other`] for an unknown one.
    pub fn from_word(word: &str) -> Escalation {
        match word {
            "none" => Escalation::None,
            "pending" => Escalation::Pending,
            "active" => Escalation::Active,
            other => Escalation::Other(Arc::from(other)),
        }
    }
}

/// The summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextSummary {
    /// Whether the user is known and trusted.
    pub trusted_user: bool,
    /// Whether the request was authorised before.
    pub prior_authorization: bool,
    /// How sensitive the data are.
    pub data_sensitivity: Sensitivity,
    /// How far an escalation has gone.
    pub escalation_chain: Escalation,
    /// How much outside content was read, 0 or more.
    pub external_reads_count: i64,
    /// Whether outside content may have tainted the session.
    pub taint_active: bool,
    /// Which turn it is, 1 or more.
    pub session_depth: i64,
}

/// Why a summary is refused. The word itself is not repeated: it could be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SummaryError {
    /// A word outside the closed set.
    #[error("{field} is none of {allowed}")]
    Word {
        /// The field.
        field: &'static str,
        /// The allowed words.
        allowed: &'static str,
    },
    /// A count that is too small.
    #[error("{field} is {value}, but must be at least {least}")]
    Count {
        /// The field.
        field: &'static str,
        /// What it is.
        value: i64,
        /// The smallest allowed.
        least: i64,
    },
}

impl ContextSummary {
    /// Checks the closed sets and ranges; `open` lets any word and any count pass.
    pub fn check(&self, open: bool) -> Result<(), SummaryError> {
        if open {
            return Ok(());
        }
        if matches!(self.data_sensitivity, Sensitivity::Other(_)) {
            return Err(SummaryError::Word { field: "data_sensitivity", allowed: "low, medium, high, critical" });
        }
        if matches!(self.escalation_chain, Escalation::Other(_)) {
            return Err(SummaryError::Word { field: "escalation_chain", allowed: "none, pending, active" });
        }
        for (field, value, least) in
            [("external_reads_count", self.external_reads_count, 0), ("session_depth", self.session_depth, 1)]
        {
            if value < least {
                return Err(SummaryError::Count { field, value, least });
            }
        }
        Ok(())
    }

    /// The keys, in the order in which they are written.
    pub const KEYS: [&str; 7] = [
        "trusted_user",
        "prior_authorization",
        "data_sensitivity",
        "escalation_chain",
        "external_reads_count",
        "taint_active",
        "session_depth",
    ];

    /// One JSON object, keys in [`ContextSummary::KEYS`] order, ASCII only: the canonical text that
    /// shadow and judge are shown.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        out.push_str("{\"trusted_user\": ");
        out.push_str(bool_word(self.trusted_user));
        out.push_str(", \"prior_authorization\": ");
        out.push_str(bool_word(self.prior_authorization));
        out.push_str(", \"data_sensitivity\": ");
        super::messages::push_json_string(&mut out, self.data_sensitivity.word());
        out.push_str(", \"escalation_chain\": ");
        super::messages::push_json_string(&mut out, self.escalation_chain.word());
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            ", \"external_reads_count\": {}, \"taint_active\": {}, \"session_depth\": {}}}",
            self.external_reads_count,
            bool_word(self.taint_active),
            self.session_depth
        );
        out
    }

    /// What can be said from a session's bare counters: nothing about trust, the sensitivity from
    /// taint and outside reads, the depth from the turn.
    pub fn from_counters(
        external_reads: i64,
        taint_active: bool,
        turn: i64,
        rules: SensitivityRules,
    ) -> ContextSummary {
        let data_sensitivity = if taint_active && external_reads > rules.high_reads_when_tainted {
            Sensitivity::High
        } else if taint_active || external_reads > rules.medium_reads {
            Sensitivity::Medium
        } else {
            Sensitivity::Low
        };
        ContextSummary {
            trusted_user: false,
            prior_authorization: false,
            data_sensitivity,
            escalation_chain: Escalation::None,
            external_reads_count: external_reads,
            taint_active,
            session_depth: turn.max(1),
        }
    }
}

/// How counters become a sensitivity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SensitivityRules {
    /// High for a tainted session with more outside reads than this.
    pub high_reads_when_tainted: i64,
    /// Medium with more outside reads than this, tainted or not.
    pub medium_reads: i64,
}

fn bool_word(b: bool) -> &'static str {
    if b { "true" } else { "false" }
}

/// What the snapshot instance is made from. Read-only, and discarded as soon as the questions are
/// built: it is never stored, and only the prompt's hash outlives it.
pub struct Snapshot {
    /// The session.
    pub session_id: Arc<str>,
    /// When it was taken, in seconds on the caller's clock.
    pub taken_at: f64,
    /// The last messages of the session, as the caller keeps them.
    pub context_window: Vec<crate::model::Value>,
    /// Hash of the system prompt; the prompt itself stays with the caller.
    pub system_prompt_hash: Arc<str>,
    /// The canonical summary.
    pub summary: ContextSummary,
    /// An opaque id.
    pub id: Arc<str>,
}
