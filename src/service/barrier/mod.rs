//! The information barrier of policy auditing: an auditor and a target join one episode from two sides, talk through
//! it, and the target's private trace is judged on the way.
//!
//! [`public`] holds what the auditor's side can be sent, and has no form for anything else. [`room`] is what both sides
//! share, a state machine without threads or clocks; [`outbox`] the messages that wait for a side. [`episode`] joins
//! them with sessions, judging and recording.

mod episode;
mod outbox;
mod public;
mod room;

pub use episode::{
    AuditorFault, Episode, JoinAsk, JoinError, JoinedAs, Seat, Secrets, Speaker, TargetFault, TargetInput,
};
pub use outbox::NotKept;
pub use public::{AuditorEnd, EndReason, Shown, ShownHit, ToAuditor};
pub use room::{Delivery, Outlet, TargetEnd, ToTarget, Verdict};
