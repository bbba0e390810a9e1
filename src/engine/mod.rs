//! The one composition: a compiled pack and a session's state give verdicts.
//!
//! `pack` is what was loaded, immutable and shared; `session` takes messages and proposals in and
//! answers; `drift` compares answers to probes; `episode` runs a whole trace through a session; `load` reads packs from folders;
//! `packtest` and `drifttest` run a pack's own tests; `diff` compares what two packs say, `recount` their verdicts;
//! `versions` holds a version to what changed; `coverage` says what episodes show of each policy; `walk` says of one policy how each event of a trace fared. The
//! server, the command line and the tests all judge here.

mod bases;
mod coverage;
mod diff;
mod drift;
mod drifttest;
mod episode;
mod load;
mod pack;
mod packtest;
mod recount;
mod session;
mod verdicts;
mod versions;
mod walk;

#[cfg(test)]
mod tests;

pub use coverage::{ConditionCoverage, Coverage, Miss, PolicyCoverage};
pub use diff::{Aspect, Change, DeclarationChange, PackDiff, Pair, PolicyChange, Said, SettingChange, Version, diff};
pub use drift::{EvaluateError, FinishedProbe, evaluate, find_probe, lexicon, settle};
pub use episode::{EpisodeOutcome, run_episode};
pub use load::{Loaded, RuleSet, load_pack, load_pack_files, load_pack_of, load_rule_files, load_rules};
pub use pack::{Pack, PackParts, PolicyInfo, RewardDigits};
pub use packtest::{TestReport, TestResult, check_tests, failing, run_tests, run_tests_while, test_coverage};
pub use recount::{Figures, PolicyVerdicts, Recount, TraceDiff, VerdictAt};
pub use session::{Session, SessionError, Told};
pub use verdicts::{Verdict, verdicts};
pub use versions::{check_version, predecessor};
pub use walk::{Outcome, Visit, VisitCondition, nearest_miss, walk_through};
