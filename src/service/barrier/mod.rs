//! The information barrier of policy auditing: an auditor and a target join one episode from two sides, talk through
//! it, and the target's private trace is judged on the way.
//!
//! [`public`] holds what the auditor's side can be sent, [`fault`] what it can be told of an error; neither has a form for
//! anything else. [`room`] is what both sides share, a state machine without threads or clocks; [`outbox`] the messages
//! that wait for a side. [`side`] lets streams take the sides, and [`episode`] joins it all with sessions, judging and
//! recording.

mod episode;
mod fault;
mod outbox;
mod public;
mod room;
mod side;

pub use episode::{JoinAsk, TargetInput};
pub use fault::{AuditorFault, JoinError, TargetFault, TargetJoinError};
pub use outbox::NotKept;
pub use public::{AuditorEnd, EndReason, Shown, ShownHit, ToAuditor};
pub use room::{Delivery, Outlet, TargetEnd, ToTarget, Verdict};
pub use side::{Episode, JoinedAs, Seat, Secrets, Speaker};
