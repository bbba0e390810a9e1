//! One case through both evaluators.

use std::{collections::BTreeSet, sync::Arc};

use probity::{
    diag::{Code, Sources, Style},
    ingest::{ErrorRule, Ingest},
    keywords::{Categories, CategorySpec, MatchMode},
    lang::{State, Surroundings, TurnHits, compile, parse, step},
    model::{Condition, Event, Firing, Limits, Num, PolicyId, Value, json},
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

/// Runs a case. Where the compiler wants the author to bound a look at history, the bound is one that
/// no trace reaches.
pub fn run(case: &Case) -> Outcome {
    let mut text = case.source();
    loop {
        match run_text(case, text.clone()) {
            Ok(outcome) => return outcome,
            Err(places) => {
                for at in places.into_iter().rev() {
                    text.insert_str(at, " within 100000 events");
                }
            }
        }
    }
}

/// Runs a text; an error gives the ends of the patterns that need a bound, ascending.
fn run_text(case: &Case, text: String) -> Result<Outcome, BTreeSet<usize>> {
    let mut sources = Sources::new();
    let file = sources.add("random.policy", text);
    let (module, mut problems) = parse(file, sources.text(file));
    let categories = Arc::new(categories());
    let around = Surroundings {
        sources: Arc::new(sources.clone()),
        categories: Arc::clone(&categories),
        category_spans: Vec::new(),
        clock: case.clock.map(Num::from),
        tools: None,
        redaction: None,
    };
    let modules = [module];
    let mut compiled = None;
    if !problems.has_errors() {
        let (program, found) = compile(&modules, &around);
        compiled = program;
        problems = found;
    }
    let unbounded = problems.sorted().into_iter().filter(|problem| problem.code == Code::CannotIndex);
    let unbounded: BTreeSet<usize> =
        unbounded.map(|problem| usize::try_from(problem.primary.span.end).unwrap()).collect();
    if !unbounded.is_empty() {
        return Err(unbounded);
    }
    let Some(compiled) = compiled else {
        return Ok(Outcome::Refused(problems.render(&sources, Style::Plain)));
    };
    let [module] = modules;
    let mut naive = Program::new(sources, vec![module]);
    naive.clock = around.clock;
    naive.mentions = Box::new(move |category, text| categories.mentions(text, categories.id(category).unwrap()));
    let messages: Vec<Value> = case.messages.iter().map(|text| json::parse(text.as_bytes()).unwrap()).collect();
    let (expected, _) = naive.verdicts(&messages);
    let mut found = engine(&compiled, &messages, &case.limits);
    // Where the engine gave up there may be a hit or a report that it does not know of: what follows may differ.
    let remembers = compiled.keeps_hits || compiled.policies.iter().any(|policy| !policy.once_per.is_empty());
    if remembers && let Some(at) = found.iter().position(|said| !said.open.is_empty()) {
        found.truncate(at + 1);
    } else {
        assert_eq!(expected.len(), found.len(), "one of them saw more events");
    }
    let strict = case.limits == Limits::default();
    Ok(match expected.iter().zip(&found).find(|(expected, found)| !agree(expected, found, strict)) {
        None => Outcome::Same(expected),
        Some((expected, found)) => Outcome::Differ(format!("naive {expected:#?}\nengine {found:#?}")),
    })
}

/// What the engine says of an event.
#[derive(Debug)]
struct Said {
    /// In the words of the naive interpreter.
    verdict: EventVerdict,
    /// The policies for which it had to give up at a limit. Of those anything may be true.
    open: Vec<PolicyId>,
    /// Whether it takes nothing in any more.
    incomplete: bool,
}

/// What the engine says. By the limits that it has by itself it gives up on orders alone, of which there may be
/// more than are kept: all else is a fault.
fn engine(program: &probity::lang::Program, messages: &[Value], limits: &Limits) -> Vec<Said> {
    let mut ingest = Ingest::new(ErrorRule { prefix: Some("Error".to_owned()) });
    let mut state = State::default();
    let mut hits = TurnHits::default();
    let mut verdicts = Vec::new();
    for message in messages {
        for event in ingest.message(message).unwrap().events {
            verdicts.push(judge(program, &mut state, &mut hits, &event, limits));
        }
        for hit in hits.complete(&mut ingest) {
            verdicts.push(judge(program, &mut state, &mut hits, &hit, limits));
        }
    }
    for event in ingest.end().events {
        verdicts.push(judge(program, &mut state, &mut hits, &event, limits));
    }
    verdicts
}

fn judge(
    program: &probity::lang::Program,
    state: &mut State,
    hits: &mut TurnHits,
    event: &Arc<Event>,
    limits: &Limits,
) -> Said {
    let id = |index: usize| -> PolicyId { Arc::clone(&program.policies[index].id) };
    let judged = step(program, state, event, limits);
    hits.note(program, event, &judged);
    let exhausted = judged.undecided.iter().filter(|(_, why)| why.limit().is_some());
    let open: Vec<PolicyId> = exhausted.map(|(policy, _)| id(*policy)).collect();
    let fits = open.is_empty() || !program.sequences.is_empty();
    let strict = *limits == Limits::default();
    assert!(!strict || (fits && !state.is_incomplete()), "a limit was reached");
    let mut verdict = EventVerdict {
        seq: event.seq,
        turn: event.turn,
        firings: judged.firings.into_iter().map(|(_, firing)| firing).collect(),
        unreported: judged.unreported.into_iter().map(id).collect(),
        undecided: judged.undecided.into_iter().map(|(policy, _)| id(policy)).collect(),
        unusable: judged.malformed.into_iter().map(Arc::from).collect(),
    };
    verdict.firings.sort_by(|a, b| a.policy.cmp(&b.policy));
    verdict.unreported.sort();
    verdict.undecided.sort();
    Said { verdict, open, incomplete: state.is_incomplete() }
}

/// Whether both said the same; of what could not be used only the number counts, not the words. Under small limits
/// the engine may leave open what the naive interpreter, which has none, decides; what it decides must be the same.
fn agree(naive: &EventVerdict, said: &Said, strict: bool) -> bool {
    let engine = &said.verdict;
    let decided = |policy: &PolicyId| !said.open.contains(policy);
    let firings: Vec<_> = naive.firings.iter().filter(|firing| decided(&firing.policy)).collect();
    let undecided = |verdict: &EventVerdict| -> Vec<PolicyId> {
        verdict.undecided.iter().filter(|policy| decided(policy)).cloned().collect()
    };
    let unreported = |verdict: &EventVerdict| -> Vec<PolicyId> {
        verdict.unreported.iter().filter(|policy| decided(policy)).cloned().collect()
    };
    firings.len() == engine.firings.len()
        && firings.iter().zip(&engine.firings).all(|(naive, engine)| same(naive, engine, strict))
        && unreported(naive) == unreported(engine)
        && undecided(naive) == undecided(engine)
        && (said.incomplete || naive.unusable.len() == engine.unusable.len())
}

/// Whether two firings say the same. A condition on an order that decides nothing may be one that was given up on.
/// Under small limits that may be any condition, and what one rests on may be another event that shows the same.
fn same(naive: &Firing, engine: &Firing, strict: bool) -> bool {
    let mut naive = naive.clone();
    let conditions = &engine.evidence.conditions;
    if strict {
        naive.evidence.conditions.retain(|c| !c.source.contains(" then ") || conditions.contains(c));
        return naive == *engine;
    }
    let left_open = engine.message.contains("(unknown)") || engine.message.contains(" to ");
    let mut rest = naive.evidence.conditions.iter();
    let held = |found: &Condition| rest.any(|c| (&c.source, c.holds) == (&found.source, found.holds));
    naive.policy == engine.policy && (left_open || naive.message == engine.message) && conditions.iter().all(held)
}
