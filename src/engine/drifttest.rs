//! Runs the tests of a pack's drift half through the same comparison and the same memory as the server.

use std::{collections::BTreeSet, fmt::Display};

use super::{EvaluateError, FinishedProbe, Pack, TestResult, evaluate};
use crate::{
    drift::{Action, Isolation, ModelOutput, Recorded, SessionState, Signal},
    model::Value,
    pack::{Band, DriftCase, DriftSpec, DriftStep, RedactionCase, SessionExpect, StepExpect},
};

/// Runs the sessions and the redactions as long as `go_on` says so, which is asked before each. Gives the results, and
/// the probes that no session asks; nothing if it said no.
pub(super) fn run(pack: &Pack, go_on: &dyn Fn() -> bool) -> Option<(Vec<TestResult>, Vec<String>)> {
    let tests = pack.drift_tests();
    let mut results = Vec::new();
    let mut unasked: Vec<String> = Vec::new();
    if let Some(spec) = pack.drift() {
        for case in &tests.sessions {
            results.push(go_on().then(|| result(&case.name.value, session(pack, spec, case)))?);
        }
        let asked = tests.sessions.iter().flat_map(|case| &case.probes).map(|step| &*step.probe.value);
        let asked: BTreeSet<&str> = asked.collect();
        let ids = spec.library.probes().iter().map(|probe| &*probe.id);
        unasked.extend(ids.filter(|id| !asked.contains(id)).map(str::to_owned));
    }
    for case in &tests.redaction {
        results.push(go_on().then(|| result(&case.name.value, redaction(pack, case)))?);
    }
    Some((results, unasked))
}

fn result(name: &str, faults: Vec<String>) -> TestResult {
    TestResult { name: name.to_owned(), faults }
}

fn session(pack: &Pack, spec: &DriftSpec, case: &DriftCase) -> Vec<String> {
    let mut faults = Vec::new();
    let mut state = SessionState::new("test", spec.library.version());
    let mut last = Action::LogOnly;
    for (number, step) in (1..).zip(&case.probes) {
        let probe = &step.probe.value;
        match ask(pack, spec, case, step, &mut state) {
            Ok(signal) => {
                last = signal.action;
                let found = step_faults(&step.expect, &signal);
                faults.extend(found.into_iter().map(|fault| format!("probe {number} ({probe}): {fault}")));
            }
            Err(problem) => faults.push(format!("probe {number} ({probe}): {problem}")),
        }
    }
    match state.report(&spec.settings) {
        Err(problem) => faults.push(problem.to_string()),
        Ok(report) => {
            let SessionExpect { verdict, signal, action } = &case.expect;
            let mut session = Vec::new();
            same(&mut session, "verdict", verdict.map(|v| v.word()), report.verdict.word());
            within(&mut session, "signal", *signal, state.accumulator.signal(&spec.settings.longitudinal));
            same(&mut session, "action", action.map(Action::word), last.word());
            faults.extend(session.into_iter().map(|fault| format!("the session: {fault}")));
        }
    }
    faults
}

fn ask(
    pack: &Pack,
    spec: &DriftSpec,
    case: &DriftCase,
    step: &DriftStep,
    state: &mut SessionState,
) -> Result<Signal, String> {
    let said = |text: &Vec<u8>| ModelOutput { text: text.clone(), tool_calls: None };
    let finished = FinishedProbe {
        session: "test".into(),
        probe: step.probe.value.clone(),
        library_version: String::new(),
        summary: case.summary.clone(),
        isolation: Isolation::default(),
        snapshot: said(&step.snapshot),
        shadow: said(&step.shadow),
        baseline: step.baseline.as_ref().map(said),
        judge: step.judge.clone(),
        canaries: Vec::new(),
    };
    let finding = evaluate(spec, pack.redactor().as_ref(), finished).map_err(|e: EvaluateError| e.to_string())?;
    match state.record(*finding, &spec.settings).map_err(|e| e.to_string())? {
        Recorded::Signal(signal) => Ok(*signal),
        Recorded::Withheld => Err("the answers could not be redacted".to_owned()),
    }
}

fn step_faults(expect: &StepExpect, signal: &Signal) -> Vec<String> {
    let StepExpect { band, score, category, anomaly, triangulation, escape, standing, action } = expect;
    let finding = &signal.finding;
    let triangulated = finding.triangulation.as_ref().map(|t| t.classification.word());
    let word = |word: Option<&'static str>| word.unwrap_or("none");
    let mut faults = Vec::new();
    same(&mut faults, "band", band.map(Band::word), Band::of(&finding.score).word());
    within(&mut faults, "score", *score, finding.score.drift);
    let category = category.map(|c| word(c.map(|c| c.word())));
    same(&mut faults, "category", category, word(finding.comparison.category.map(|c| c.word())));
    let anomaly = anomaly.map(|a| word(a.map(|a| a.word())));
    same(&mut faults, "anomaly", anomaly, word(finding.anomaly.map(|a| a.word())));
    let triangulation = triangulation.map(|t| word(t.map(|t| t.word())));
    same(&mut faults, "triangulation", triangulation, word(triangulated));
    same(&mut faults, "escape", *escape, finding.escape());
    same(&mut faults, "standing", standing.map(|s| s.word()), signal.standing.word());
    same(&mut faults, "action", action.map(Action::word), signal.action.word());
    faults
}

fn same<T: PartialEq + Display>(faults: &mut Vec<String>, what: &str, expected: Option<T>, found: T) {
    if let Some(expected) = expected.filter(|expected| *expected != found) {
        faults.push(format!("{what} must be {expected}, and is {found}"));
    }
}

fn within(faults: &mut Vec<String>, what: &str, expected: Option<[f64; 2]>, found: f64) {
    if let Some([from, to]) = expected.filter(|[from, to]| !(*from..=*to).contains(&found)) {
        faults.push(format!("{what} must be from {from} to {to}, and is {found:.4}"));
    }
}

fn redaction(pack: &Pack, case: &RedactionCase) -> Vec<String> {
    let redactor = pack.redactor();
    let found = match (&case.given, case.payload) {
        (Value::String(text), false) => Value::string(redactor.text(text).get()),
        (given, _) => redactor.payload(given).into_inner(),
    };
    if found == case.gives { Vec::new() } else { vec![format!("must give {}, and gives {found}", case.gives)] }
}
