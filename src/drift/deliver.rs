//! Who is told about an action downstream. Only what asks for somebody's attention is sent on.

use super::{Action, Calibration};

/// Who is told what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notices {
    /// The action for a governance core; it is told to restrict only by a calibrated pack.
    pub core: Option<Action>,
    /// Whether a reputation sentinel marks the session. It takes any significant signal.
    pub sentinel: bool,
}

/// The notices for a recommended action.
pub fn notify(action: Action, calibration: Calibration) -> Notices {
    let core = (action != Action::LogOnly).then(|| action.allowed(calibration));
    Notices { core, sentinel: action != Action::LogOnly }
}

/// What an evaluation audit is told about a session, in this order.
pub const EVAL_FEED_KEYS: [&str; 7] = [
    "session_id",
    "agent_id",
    "overall_verdict",
    "max_drift_score",
    "longitudinal_signal",
    "calibration_status",
    "probes_sent",
];
