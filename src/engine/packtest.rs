//! Runs a pack's own tests: small traces with the verdicts that they must give.

use std::{collections::BTreeSet, sync::Arc};

use super::{Coverage, EpisodeOutcome, Pack, drifttest, run_episode};
use crate::{
    diag::{Code, Diagnostic, Severity, Span},
    ingest::{Episode, Messages},
    lang::program::Policy,
    model::{PolicyId, Turn},
    pack::{Expected, TestCase},
};

/// Faults of one test that are told.
const FAULTS_TOLD: usize = 3;

/// What running a pack's tests gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestReport {
    /// Each test, in the order of the files.
    pub results: Vec<TestResult>,
    /// Policies with a predicate that fired in no test.
    pub never_fired: Vec<PolicyId>,
    /// Probes that no test asks.
    pub never_asked: Vec<String>,
}

impl TestReport {
    /// Whether all tests gave what they must.
    pub fn passed(&self) -> bool {
        self.results.iter().all(|r| r.faults.is_empty())
    }
}

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestResult {
    /// Its name.
    pub name: String,
    /// What came out otherwise than it must; empty if it passed.
    pub faults: Vec<String>,
}

/// Runs all tests of a pack.
pub fn run_tests(pack: &Arc<Pack>) -> TestReport {
    run_tests_while(pack, &|| true).unwrap_or_default()
}

/// Runs all tests of a pack, as long as `go_on` says so: it is asked before each test. Nothing if it said no.
pub fn run_tests_while(pack: &Arc<Pack>, go_on: &dyn Fn() -> bool) -> Option<TestReport> {
    let mut fired: BTreeSet<PolicyId> = BTreeSet::new();
    let mut results = Vec::with_capacity(pack.tests().len());
    for test in pack.tests() {
        if !go_on() {
            return None;
        }
        let outcome = run_episode(pack, &episode(test));
        fired.extend(outcome.hits.iter().map(|h| h.firing.policy.clone()));
        fired.extend(outcome.signals.iter().map(|s| s.firing.policy.clone()));
        results.push(TestResult { name: test.name.value.clone(), faults: faults(test, &outcome) });
    }
    let never_fired = pack
        .program()
        .policies
        .iter()
        .filter(|p| p.effect != crate::model::Effect::Judge && !fired.contains(&p.id))
        .map(|p| p.id.clone())
        .collect();
    let (drift, never_asked) = drifttest::run(pack, go_on)?;
    results.extend(drift);
    Some(TestReport { results, never_fired, never_asked })
}

/// Warnings about a pack's own tests: that there are none, those that fail, and policies that fire in none; but for what
/// another pack declares and tests.
pub fn check_tests(pack: &Arc<Pack>) -> Vec<Diagnostic> {
    let own = |policy: &&Policy| !pack.inherited().has(policy.span.file);
    let report = run_tests(pack);
    let failing = failing(pack, &report).into_iter().map(|d| Diagnostic { severity: Severity::Warning, ..d });
    if pack.tests().is_empty() {
        let untested = pack.program().policies.iter().any(|policy| own(&policy));
        let what = format!("nothing tests the policies of the pack `{}`", pack.name());
        let warning = Diagnostic::warning(Code::NoTests, pack.version_span(), what)
            .help("a file in `tests/` says what they must and must not do");
        return failing.chain(untested.then_some(warning)).collect();
    }
    let silent = pack.program().policies.iter().filter(|policy| report.never_fired.contains(&policy.id)).filter(own);
    let warning = |policy: &Policy| {
        Diagnostic::warning(Code::NotTested, policy.span, format!("`{}` fires in no test of the pack", policy.id))
            .help("`probity test --coverage` says what kept it")
    };
    failing.chain(silent.map(warning)).collect()
}

/// An error for each test that fails.
pub fn failing(pack: &Pack, report: &TestReport) -> Vec<Diagnostic> {
    let fails = |result: &TestResult| {
        let (told, more) = (result.faults.iter().take(FAULTS_TOLD), result.faults.len().saturating_sub(FAULTS_TOLD));
        let mut what = told.cloned().collect::<Vec<_>>().join("; ");
        if more > 0 {
            what.push_str(&format!("; and {more} more"));
        }
        let place = place(pack, &result.name).unwrap_or(pack.version_span());
        Diagnostic::error(Code::TestFailed, place, format!("this test fails: {what}"))
    };
    report.results.iter().filter(|result| !result.faults.is_empty()).map(fails).collect()
}

/// Where a test of a pack is written.
fn place(pack: &Pack, name: &str) -> Option<Span> {
    let (traces, drift) = (pack.tests().iter().map(|t| &t.name), pack.drift_tests());
    let sessions = drift.sessions.iter().map(|case| &case.name);
    let redaction = drift.redaction.iter().map(|case| &case.name);
    traces.chain(sessions).chain(redaction).find(|known| known.value == name).map(|known| known.span)
}

/// How the policies of a pack fare in its tests.
pub fn test_coverage(pack: &Arc<Pack>) -> Coverage {
    let mut coverage = Coverage::new(Arc::clone(pack));
    pack.tests().iter().for_each(|test| coverage.add(&episode(test)));
    coverage
}

fn episode(test: &TestCase) -> Episode {
    let messages = test.messages.as_list().unwrap_or_default().to_vec();
    Episode {
        id: test.name.value.clone(),
        messages: Messages::List(messages.into()),
        judge: Vec::new(),
        judge_faults: Vec::new(),
    }
}

fn faults(test: &TestCase, outcome: &EpisodeOutcome) -> Vec<String> {
    let wanted = |policy: &str| test.policies.as_ref().is_none_or(|list| list.iter().any(|p| p.value == policy));
    let mut faults = Vec::new();
    let mut compare = |what: &str, expected: &[Expected], found: BTreeSet<(Turn, String)>| {
        let expected: BTreeSet<(Turn, String)> = expected.iter().map(|e| (e.turn, e.policy.clone())).collect();
        let found: BTreeSet<_> = found.into_iter().filter(|(_, policy)| wanted(policy)).collect();
        for (turn, policy) in expected.difference(&found) {
            faults.push(format!("{policy} must be {what} at turn {turn}, and is not"));
        }
        for (turn, policy) in found.difference(&expected) {
            faults.push(format!("{policy} is {what} at turn {turn}, and must not be"));
        }
    };
    let hits = outcome.hits.iter().map(|h| (h.turn, h.firing.policy.to_string())).collect();
    compare("a hit", &test.expect.hits, hits);
    let undecided = outcome.undecided.iter().map(|u| (u.turn, u.policy.to_string())).collect();
    compare("undecided", &test.expect.undecided, undecided);
    let signals = outcome.signals.iter().map(|s| (s.turn, s.firing.policy.to_string())).collect();
    compare("signalled", &test.expect.signals, signals);
    let expected: BTreeSet<Turn> = test.expect.malformed.iter().map(|t| t.value).collect();
    let found: BTreeSet<Turn> = outcome.malformed.iter().map(|m| m.turn).collect();
    for turn in expected.difference(&found) {
        faults.push(format!("turn {turn} must be malformed, and is not"));
    }
    for turn in found.difference(&expected) {
        let reasons: Vec<&str> =
            outcome.malformed.iter().filter(|m| m.turn == *turn).map(|m| m.reason.as_str()).collect();
        faults.push(format!("turn {turn} is malformed, and must not be: {}", reasons.join("; ")));
    }
    faults
}
