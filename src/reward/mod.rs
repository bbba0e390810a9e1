//! What hits are worth, and what a set of episodes says: violation reward, the other components of a
//! reward, coverage, yields, and the figures of judges, which are kept apart. Pure arithmetic over outcomes.

mod components;
mod judge;
mod metrics;
mod violation;

pub use components::{Components, EpisodeReward, Facts, Part, Plausibility, Progress};
pub use judge::{JudgeMetrics, JudgeTally, judge_metrics};
pub use metrics::{Counted, EpisodeFigures, MalformedEpisode, Metrics, MetricsTally, Reason, metrics, rounded};
pub use violation::{Discount, DiscountError};
