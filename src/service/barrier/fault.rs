//! Why a side is not taken, or what it sends is not. What an auditor can be told is a type of its own here as well.

use crate::service::{judging::ItemError, writer::AuditError};

use super::outbox::NotKept;

/// Why a side cannot be taken. It says nothing of the other side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The id is of a session that is none of the caller's, or the secrets are not those of the episode.
    #[error("the episode cannot be joined with these secrets")]
    Refused,
    /// The episode is under another pack.
    #[error("the episode is under another pack")]
    OtherPack,
    /// Somebody is there.
    #[error("somebody is on this side of the episode")]
    Present,
    /// What the side has not received is not kept.
    #[error("messages are kept from {} on, and the next is {}", .0.first, .0.next)]
    NotKept(NotKept),
    /// An episode of this id was open before a restart; it is closed.
    #[error("the episode was open before a restart and is closed")]
    Closed,
    /// An episode was to be opened without the name of a pack.
    #[error("whoever opens an episode must name its pack")]
    NoPack,
    /// No pack of this name is served.
    #[error("no pack `{pack}` is served")]
    UnknownPack {
        /// The name.
        pack: String,
    },
    /// The table of sessions is full.
    #[error("{limit} sessions are open, which is the limit")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// The service cannot do it now.
    #[error("the episode cannot be reached now")]
    Unavailable,
}

/// Why the target cannot take its side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetJoinError {
    /// The side cannot be taken.
    #[error(transparent)]
    Side(#[from] JoinError),
    /// What it comes with cannot be judged.
    #[error(transparent)]
    Setup(#[from] TargetFault),
}

/// Why a message of the target was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetFault {
    /// It is not the one that comes next.
    #[error("message {got} came where message {expected} was expected")]
    Order {
        /// The number that must come.
        expected: u64,
        /// The number that came.
        got: u64,
    },
    /// It contradicts what was proposed.
    #[error(transparent)]
    Item(ItemError),
    /// It could not be recorded; nothing of it was judged.
    #[error(transparent)]
    Audit(AuditError),
    /// The episode has ended, or the side has left.
    #[error("the episode has ended")]
    Over,
}

/// Why a message of the auditor was not taken. It cannot say more than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditorFault {
    /// It is not the one that comes next.
    #[error("message {got} came where message {expected} was expected")]
    Order {
        /// The number that must come.
        expected: u64,
        /// The number that came.
        got: u64,
    },
    /// The service cannot take it now; it can be sent again.
    #[error("the message cannot be taken now")]
    Unavailable,
    /// The episode has ended, or the side has left.
    #[error("the episode has ended")]
    Over,
}

impl From<TargetFault> for AuditorFault {
    fn from(fault: TargetFault) -> AuditorFault {
        match fault {
            TargetFault::Order { expected, got } => AuditorFault::Order { expected, got },
            TargetFault::Item(_) | TargetFault::Audit(_) => AuditorFault::Unavailable,
            TargetFault::Over => AuditorFault::Over,
        }
    }
}
