//! Drift: whether an agent inside its session answers a probe otherwise than a fresh instance does.
//!
//! Pure: answers, settings and times come in, signals, actions and reports go out. No model is ever
//! called from here and no tool is run; the pipeline says what to ask, and its caller asks.

pub mod accumulate;
pub mod answer;
pub mod compare;
pub mod context;
pub mod deliver;
pub mod isolation;
pub mod judge;
mod lexicon;
pub mod messages;
mod numbers;
mod output;
pub mod pipeline;
pub mod probe;
pub mod readout;
pub mod report;
pub mod residual;
mod saved;
pub mod schedule;
pub mod schema;
pub mod score;
pub mod select;
mod settings;
mod settle;
pub mod stats;
pub mod triangulate;
pub mod validate;

pub use accumulate::{
    Accumulator, Action, ActionSettings, Calibration, ConsistencySettings, LongitudinalSettings, MOST_OPEN,
    ProbeResult, RecordError, Standing, StreakRule,
};
pub use answer::{Answer, Booleans, Field, Slot};
pub use compare::{Category, CompareRules, Comparison, compare};
pub use context::{ContextSummary, Escalation, Sensitivity, SensitivityRules, Snapshot, SummaryError};
pub use deliver::{Notices, notify};
pub use isolation::{Isolation, IsolationSettings};
pub use judge::{Agreement, Direction, JudgeError, JudgeSource, JudgeWeights, Judgement, Lexicon, deterministic};
pub use lexicon::{Contradiction, KeywordLexicon, Mentions, SummaryTest};
pub use numbers::{MAX_WEIGHT, SettingsError, Thousandths};
pub use output::{ModelOutput, OutputRules};
pub use pipeline::{
    Ask, Cycle, CycleFailure, Finding, JudgeAnswers, Next, Recorded, Reply, Request, SessionState, Signal,
    TriangulationFinding,
};
pub use probe::{InjectAs, Library, LibraryError, Probe};
pub use readout::{Canary, CanaryError, Readout, ReadoutLimits};
pub use report::{Counts, DriftEvidence, Report, ReportSettings, SessionVerdict, SignalFacts, StructuralCount, Tally};
pub use residual::Residual;
pub use saved::SavedError;
pub use schedule::{
    Arrival, Cooldown, DueReason, Gate, Growth, NotDue, RuntimeEvent, ScheduleSettings, Trigger, Verdict,
};
pub use schema::{JsonType, Schema};
pub use score::{FieldWeights, ProbeType, Score, ScoreSettings, TypeNumbers, UnknownType};
pub use select::{Selection, Selector};
pub use settings::{MAX_ANSWER_DEPTH, PipelineRules, Settings, SettingsWarning};
pub use settle::{Settled, Unsettled};
pub use stats::{StatsError, StatsRules, difference_is_real, two_proportion_z, wilson};
pub use triangulate::{Decisions, NoSignalReason, TriangulateRules, Triangulation, triangulate};
pub use validate::{Anomaly, AnswerError, ParseLimits, ProbeError, ProbePart, check_answer, check_probe, parse_answer};
