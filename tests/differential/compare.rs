//! One case through both evaluators.

use std::sync::Arc;

use probity::{
    diag::{Sources, Style},
    ingest::{ErrorRule, Ingest},
    keywords::{Categories, CategorySpec, MatchMode},
    lang::{Limits, State, Surroundings, compile, parse, step, val::WhyKind},
    model::{Event, Firing, Num, PolicyId, json},
};

use super::reduce::Case;
use crate::naive::{EventVerdict, Program};

/// What came of a case.
#[derive(Debug)]
pub enum Outcome {
    /// Both said the same of every event.
    Same(Vec<EventVerdict>),
    /// The compiler refused the program, with its words.
    Refused(String),
    /// They differ, with what each said of the first event that they differ on.
    Differ(String),
}

/// The category that random programs mention.
pub fn categories() -> Categories {
    let spec = CategorySpec {
        name: "yes".to_owned(),
        mode: MatchMode::Word,
        terms: vec!["yes".to_owned()],
        ..CategorySpec::default()
    };
    Categories::compile(&[spec]).unwrap()
}

/// Runs a case.
pub fn run(case: &Case) -> Outcome {
    let text = case.source();
    let mut sources = Sources::new();
    let file = sources.add("random.policy", text);
    let (module, mut problems) = parse(file, sources.text(file));
    let categories = Arc::new(categories());
    let around = Surroundings {
        sources: Arc::new(sources.clone()),
        categories: Arc::clone(&categories),
        category_spans: Vec::new(),
        clock: case.clock.map(Num::from),
    };
    let modules = [module];
    let mut compiled = None;
    if !problems.has_errors() {
        let (program, found) = compile(&modules, &around);
        compiled = program;
        problems = found;
    }
    let Some(compiled) = compiled else {
        return Outcome::Refused(problems.render(&sources, Style::Plain));
    };
    let [module] = modules;
    let mut naive = Program::new(sources, vec![module]);
    naive.clock = around.clock;
    naive.mentions = Box::new(move |category, text| categories.mentions(text, categories.id(category).unwrap()));
    let events = events(case);
    let expected = naive.verdicts(events.clone());
    let found = engine(&compiled, &events);
    match expected.iter().zip(&found).find(|(expected, (found, open))| !agree(expected, found, open)) {
        None => Outcome::Same(expected),
        Some((expected, (found, _))) => Outcome::Differ(format!("naive {expected:#?}\nengine {found:#?}")),
    }
}

/// The events of a case's messages.
fn events(case: &Case) -> Vec<Arc<Event>> {
    let mut ingest = Ingest::new(ErrorRule { prefix: Some("Error".to_owned()) });
    let mut events = Vec::new();
    for message in &case.messages {
        let message = json::parse(message.as_bytes()).unwrap();
        events.extend(ingest.message(&message).unwrap().events);
    }
    events.extend(ingest.end().events);
    events
}

/// What the engine says, in the same words, and the policies for which it had to give up. On so little it gives up
/// on orders alone, of which there may be more than are kept: all else is a fault.
fn engine(program: &probity::lang::Program, events: &[Arc<Event>]) -> Vec<(EventVerdict, Vec<PolicyId>)> {
    let mut state = State::default();
    let limits = Limits::default();
    let id = |index: usize| -> PolicyId { Arc::clone(&program.policies[index].id) };
    events
        .iter()
        .map(|event| {
            let judged = step(program, &mut state, event, &limits);
            let exhausted = judged.undecided.iter().filter(|(_, why)| why.kind == WhyKind::Budget);
            let open: Vec<PolicyId> = exhausted.map(|(policy, _)| id(*policy)).collect();
            let fits = open.is_empty() || !program.sequences.is_empty();
            assert!(fits && !state.is_incomplete(), "a budget ran out");
            let mut verdict = EventVerdict {
                seq: event.seq,
                turn: event.turn,
                firings: judged.firings.into_iter().map(|(_, firing)| firing).collect(),
                undecided: judged.undecided.into_iter().map(|(policy, _)| id(policy)).collect(),
                unusable: judged.malformed.into_iter().map(Arc::from).collect(),
            };
            verdict.firings.sort_by(|a, b| a.policy.cmp(&b.policy));
            verdict.undecided.sort();
            (verdict, open)
        })
        .collect()
}

/// Whether both said the same; of what could not be used only the number counts, not the words.
fn agree(naive: &EventVerdict, engine: &EventVerdict, open: &[PolicyId]) -> bool {
    let decided = |policy: &PolicyId| !open.contains(policy);
    let firings: Vec<_> = naive.firings.iter().filter(|firing| decided(&firing.policy)).collect();
    let undecided = |verdict: &EventVerdict| -> Vec<PolicyId> {
        verdict.undecided.iter().filter(|policy| decided(policy)).cloned().collect()
    };
    firings.len() == engine.firings.len()
        && firings.iter().zip(&engine.firings).all(|(naive, engine)| same(naive, engine))
        && undecided(naive) == undecided(engine)
        && naive.unusable.len() == engine.unusable.len()
}

/// Whether two firings say the same. A condition on an order that decides nothing may be one that was given up on.
fn same(naive: &Firing, engine: &Firing) -> bool {
    let mut naive = naive.clone();
    naive.evidence.conditions.retain(|c| !c.source.contains(" then ") || engine.evidence.conditions.contains(c));
    naive == *engine
}
