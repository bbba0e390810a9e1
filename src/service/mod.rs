//! Joins deciding and recording: sessions, the served rules and their reload, the audit writer.
//! Threads and tokio start here; nothing here knows the wire.

mod account;
mod barrier;
mod diff;
mod drift;
mod follow;
mod journal;
mod judging;
mod keeping;
mod keys;
mod metrics;
mod observe;
mod outlive;
mod query;
mod reload;
mod requests;
mod resume;
mod reveal;
mod rules;
mod score;
mod session_key;
mod sessions;
mod shadow;
mod state;
mod transfer;
mod writer;

pub use account::{SessionAccount, SessionState};
pub use barrier::{
    AuditorEnd, AuditorFault, Delivery, EndReason, JoinAsk, JoinError, JoinedAs, NotKept, Outlet, Seat, Secrets, Shown,
    ShownHit, Speaker, TargetEnd, TargetFault, TargetInput, TargetJoinError, ToAuditor, ToTarget, Verdict,
};
pub use diff::{Compared, DiffError, PackSource};
pub use drift::{
    Adapter, Baseline, DriftAsk, DriftError, DriftSessions, Occurrence, ProbeAnswer, ProbeAsk, ProbeEnd, ProbeQuestion,
    ProbeRole, SessionReport, SignalPage,
};
pub use judging::{Answer, Item, ItemBody, ItemError, Prints, ProposedCall};
pub use keeping::{ExportFrom, KeepError, Retention, begin_export, erase_in, export_part, prune_in, record_set_aside};
pub use keys::{
    KeyError, Keys, PayloadKeys, RedactionKey, read_checkpoint_key, read_or_make_checkpoint_key, read_pack_key,
};
pub use metrics::{Measured, MetricsError, Selection};
pub use observe::{Ask, ObserveError, Observed, Pending};
pub use query::{JudgeAsk, JudgeError, Outcome, QueryError, RecordPage, RecordQuery};
pub use reload::ReloadError;
pub use requests::{Named, RequestError};
pub use resume::CloseError;
pub use reveal::{RevealAsk, RevealError, Revealed};
pub use rules::{
    LiveRules, LoadCounts, LoadError, RefusedLoad, Served, Stale, Trigger, WatchSettings, Watched, reference,
};
pub use score::{ScoreError, Scored, ScoredEpisode};
pub use session_key::SessionKey;
pub use sessions::SessionLimits;
pub use shadow::{CallDifference, Difference, PolicyTotals, Shadow, ShadowStatus, Totals};
pub use state::{Service, Status};
pub use transfer::TransferError;
pub use writer::{AuditError, AuditLog, Checkpoints, Place, Recorded, Ticket, Writer, WriterSettings};
