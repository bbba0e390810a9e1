//! One event through the program: policies judge it, then facts and history take it in.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    eval::Eval,
    history::source_match,
    key::{Key, Part},
    miss::short_of,
    program::{Cond, Fact, Id, MessagePart, Node, Opening, Plan, Policy, Program},
    state::{CellState, State},
    val::{Datum, Tri, Val, Why, WhyKind},
};
use crate::{
    diag::Span,
    model::{Condition, Event, EventKind, Evidence, Firing, Limit, Limits, Seq, Value},
};

/// How many characters of a value a message shows.
const SHOWN: usize = 200;

/// What judging one event gave.
#[derive(Debug, Default)]
pub struct Judged {
    /// Policies whose condition holds, in the order of the program.
    pub firings: Vec<(Id, Firing)>,
    /// `once per` policies whose condition holds without a report: they were reported for the same key,
    /// or the key is not known. A call is answered all the same.
    pub unreported: Vec<Id>,
    /// Policies that cannot be decided, with the reason.
    pub undecided: Vec<(Id, Why)>,
    /// Why the event could not be used by a fact; without values of the trace.
    pub malformed: Vec<String>,
    /// Expressions evaluated and store entries looked at.
    pub steps: u64,
}

/// Judges an event and takes it in.
pub fn step(program: &Program, state: &mut State, event: &Arc<Event>, limits: &Limits) -> Judged {
    let mut judged = Judged::default();
    let targets = program.dispatch.targets(event);
    let mut eval = Eval::new(program, state, event, limits);
    for id in &targets.policies {
        let Some(policy) = program.policies.get(*id) else { continue };
        eval.enter(policy.slots, &policy.lets);
        match verdict(&mut eval, policy) {
            Tri::False => continue,
            Tri::Unknown(why) => {
                judged.undecided.push((*id, why));
                continue;
            }
            Tri::True => {}
        }
        match news(&mut eval, *id, policy) {
            News::Undecided(why) => {
                judged.undecided.push((*id, why));
                judged.unreported.push(*id);
            }
            News::Old => judged.unreported.push(*id),
            News::New(key) => {
                let steps = eval.steps;
                judged.firings.push((*id, firing(&mut eval, policy)));
                // Explaining is not judging: it has the same budget again, and takes nothing from it.
                eval.steps = steps;
                if let Some(key) = key {
                    eval.state.report(*id, key);
                }
            }
        }
    }
    judged.steps = eval.steps;
    take_in(program, state, event, limits, &targets, &mut judged);
    judged
}

/// Whether the condition of a policy holds.
fn verdict<'p>(eval: &mut Eval<'p, '_>, policy: &'p Policy) -> Tri {
    let verdict = eval.blaming(policy.span, |eval| {
        let mut verdict = Tri::True;
        for condition in &policy.conditions {
            verdict = verdict.and(holds(eval, condition));
            if verdict == Tri::False {
                break;
            }
        }
        verdict
    });
    if eval.exhausted() { Tri::Unknown(eval.out_of(eval.limits.of_steps(), policy.span)) } else { verdict }
}

/// Whether a policy whose condition holds has something to report.
enum News {
    /// It has; under `once per`, with the key that it is now reported for.
    New(Option<Vec<Value>>),
    /// It was reported for that key.
    Old,
    /// It cannot be said whether it was.
    Undecided(Why),
}

fn news<'p>(eval: &mut Eval<'p, '_>, id: Id, policy: &'p Policy) -> News {
    if policy.once_per.is_empty() {
        return News::New(None);
    }
    let (key, short) = eval.noting(|eval| eval.key(&policy.once_per));
    let exhausted = eval.exhausted().then(|| eval.limits.of_steps());
    let short = short.filter(|_| key.is_err());
    if let Some(limit) = exhausted.or(eval.state.incomplete).or(short) {
        return News::Undecided(Why::new(WhyKind::Budget(limit), policy.span));
    }
    match key {
        Err(why) => News::Undecided(why),
        Ok(key) if eval.state.was_reported(id, &key) => News::Old,
        Ok(key) => News::New(Some(key)),
    }
}

/// Kleene's truth of a condition.
fn holds<'p>(eval: &mut Eval<'p, '_>, condition: &'p Cond) -> Tri {
    match condition {
        Cond::And(parts) => {
            let mut result = Tri::True;
            for part in parts {
                result = result.and(holds(eval, part));
                if result == Tri::False {
                    break;
                }
            }
            result
        }
        Cond::Or(parts) => {
            let mut result = Tri::False;
            for part in parts {
                result = result.or(holds(eval, part));
                if result == Tri::True {
                    break;
                }
            }
            result
        }
        Cond::Not(inner) => holds(eval, inner).negate(),
        Cond::Leaf(node, _) => eval.tri(node),
    }
}

fn firing<'p>(eval: &mut Eval<'p, '_>, policy: &'p Policy) -> Firing {
    let decided = |leaf: Leaf| {
        let holds = match leaf.truth {
            Tri::True => true,
            Tri::False => false,
            Tri::Unknown(_) => return None,
        };
        Some(Condition { source: leaf.source, holds, rests_on: leaf.rests_on })
    };
    let conditions = leaves_of(eval, policy).into_iter().filter_map(decided).collect();
    let mut message = String::new();
    for part in &policy.message {
        match part {
            MessagePart::Text(text) => message.push_str(text),
            MessagePart::Hole(node) => {
                let shown = eval.eval(node).to_string();
                message.extend(shown.chars().take(SHOWN));
                if shown.chars().nth(SHOWN).is_some() {
                    message.push('…');
                }
            }
        }
    }
    Firing { policy: policy.id.clone(), message, evidence: Evidence { seq: eval.this.seq, conditions } }
}

/// One condition of a policy, for one event.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// Its source text, white space folded.
    pub source: Arc<str>,
    /// Whether it holds.
    pub truth: Tri,
    /// Earlier events that this rests on, ascending.
    pub rests_on: Vec<Seq>,
}

/// What one policy says of one event.
#[derive(Clone, Debug, PartialEq)]
pub struct Looked {
    /// Whether its condition holds.
    pub verdict: Tri,
    /// Whether it applies: no `when` is false.
    pub applies: bool,
    /// Whether it was reported before for the same `once per` key.
    pub repeats: bool,
    /// Each of its conditions, in source order; those as well that could not change the verdict.
    pub leaves: Vec<Leaf>,
    /// The places of the fewest conditions that would have to turn out otherwise for it to fire.
    pub short_of: Vec<usize>,
}

/// Judges an event by one policy and says how each of its conditions turned out. The event is not taken
/// in. None if the policy does not judge such events.
pub fn look(program: &Program, state: &mut State, event: &Arc<Event>, policy: Id, limits: &Limits) -> Option<Looked> {
    if !program.dispatch.targets(event).policies.contains(&policy) {
        return None;
    }
    let id = policy;
    let policy = program.policies.get(id)?;
    let mut eval = Eval::new(program, state, event, limits);
    eval.enter(policy.slots, &policy.lets);
    let mut verdict = verdict(&mut eval, policy);
    let mut repeats = false;
    if verdict == Tri::True {
        match news(&mut eval, id, policy) {
            News::New(_) => {}
            News::Old => repeats = true,
            News::Undecided(why) => verdict = Tri::Unknown(why),
        }
    }
    let applies =
        policy.conditions.iter().enumerate().filter(|(place, _)| *place != policy.decides).all(|(_, when)| {
            eval.steps = 0;
            holds(&mut eval, when) != Tri::False
        });
    let leaves = leaves_of(&mut eval, policy);
    let short_of = short_of(&policy.conditions, &leaves);
    Some(Looked { verdict, applies, repeats, leaves, short_of })
}

fn leaves_of<'p>(eval: &mut Eval<'p, '_>, policy: &'p Policy) -> Vec<Leaf> {
    let mut out = Vec::new();
    for condition in &policy.conditions {
        leaves(eval, condition, &mut out);
    }
    out
}

/// The leaves of a condition, with what they rest on.
fn leaves<'p>(eval: &mut Eval<'p, '_>, condition: &'p Cond, out: &mut Vec<Leaf>) {
    match condition {
        Cond::And(parts) | Cond::Or(parts) => parts.iter().for_each(|part| leaves(eval, part, out)),
        Cond::Not(inner) => leaves(eval, inner, out),
        Cond::Leaf(node, source) => {
            eval.steps = 0;
            eval.record = Some(BTreeSet::new());
            let truth = eval.blaming(node.at, |eval| eval.tri(node));
            let rests_on = eval.record.take().unwrap_or_default().into_iter().collect();
            out.push(Leaf { source: source.clone(), truth, rests_on });
        }
    }
}

// ---- taking in ----

fn take_in(
    program: &Program,
    state: &mut State,
    event: &Arc<Event>,
    limits: &Limits,
    targets: &super::dispatch::Targets,
    judged: &mut Judged,
) {
    if event.is_unpaired() {
        state.unpaired = true;
    }
    if state.incomplete.is_some() {
        return;
    }
    let mut eval = Eval::new(program, state, event, limits);
    for id in &targets.facts {
        if let Some(fact) = program.facts.get(*id)
            && let Err(why) = feed(&mut eval, *id, fact)
        {
            eval.state.facts.entry(*id).or_default().uncertain = true;
            judged.malformed.push(format!("fact {}: {}", fact.name, program.reason(why)));
        }
    }
    for id in &targets.forgets {
        let Some(forget) = program.forgets.get(*id) else { continue };
        let passes = forget.when.as_ref().map_or(Tri::True, |when| eval.tri(when));
        let key = match passes {
            Tri::False => continue,
            Tri::True => eval.key(&forget.key),
            Tri::Unknown(why) => Err(why),
        };
        match key {
            Ok(key) => {
                eval.state.change_fact(forget.fact, |fact| fact.forget(&key));
            }
            Err(why) => {
                eval.state.facts.entry(forget.fact).or_default().uncertain = true;
                let name = program.facts.get(forget.fact).map_or("", |f| f.name.as_ref());
                judged.malformed.push(format!("forget {name}: {}", program.reason(why)));
            }
        }
    }
    eval.it = Some(event.clone());
    for id in &targets.cells {
        keep(&mut eval, *id, event);
    }
    for id in &targets.openings {
        open(&mut eval, *id, event);
    }
    for id in &targets.sequences {
        eval.advance(*id, event);
    }
    for id in &targets.indexes {
        eval.index(*id, event);
    }
    let exhausted = eval.exhausted();
    judged.steps += eval.steps;
    let full = state.bytes > limits.state_bytes;
    state.incomplete = exhausted.then(|| limits.of_steps()).or(full.then_some(Limit::StateBytes));
}

/// Feeds a fact; an error says why the event cannot be used for it.
fn feed<'p>(eval: &mut Eval<'p, '_>, id: Id, fact: &'p Fact) -> Result<(), Why> {
    match fact.when.as_ref().map_or(Tri::True, |when| eval.tri(when)) {
        Tri::False => return Ok(()),
        Tri::Unknown(why) => return Err(why),
        Tri::True => {}
    }
    // Only a result has JSON that can fail to be read; for any other event the field is missing.
    if fact.reads_json && eval.this.kind() == EventKind::Result && eval.this.json().is_none() {
        return Err(Why::new(WhyKind::NotJson, fact.value.at));
    }
    let key = eval.key(&fact.key)?;
    let value = eval.eval(&fact.value);
    let seq = eval.this.seq;
    if fact.collects {
        let value = value.as_key(fact.value.at)?.clone();
        eval.state.change_fact(id, |held| held.collect(key, value, seq));
    } else {
        match &value {
            Val::Known(Datum::Partial(_)) => return Err(value.why(fact.value.at, "list without gaps")),
            Val::Known(_) => {}
            other => return Err(other.why(fact.value.at, "value")),
        }
        let key_val = match key.as_slice() {
            [only] => Val::json(only.clone()),
            several => Val::json(Value::list(several.to_vec())),
        };
        let indexed = fact
            .indexes
            .iter()
            .map(|index| {
                eval.set_slot(index.value, value.clone());
                if let Some(slot) = index.key {
                    eval.set_slot(slot, key_val.clone());
                }
                eval.eval(&index.node).as_key(index.node.at).ok().cloned()
            })
            .collect();
        eval.state.change_fact(id, |held| held.fill(key, value, seq, indexed));
    }
    Ok(())
}

/// Truth of conditions on the event that is taken in.
fn local<'p>(eval: &mut Eval<'p, '_>, source: Tri, conditions: &'p [Node]) -> Tri {
    if source == Tri::False { source } else { source.and(eval.all(conditions)) }
}

fn keep<'p>(eval: &mut Eval<'p, '_>, id: Id, event: &Arc<Event>) {
    let program = eval.program;
    let Some(cell) = program.cells.get(id) else { return };
    let source = source_match(&cell.sources, event, cell.span);
    let matches = local(eval, source, &cell.local);
    if matches == Tri::False {
        return;
    }
    let key = |eval: &mut Eval<'p, '_>| -> Key { cell.key.iter().map(|node| Part::of(&eval.eval(node))).collect() };
    if matches!(cell.plan, Plan::LookBack { .. }) {
        let key = key(eval);
        eval.state.change_cell(program, id, eval.limits, |held| {
            if let CellState::LookBack(held) = held {
                held.push(event.clone(), matches == Tri::True, key);
            }
        });
        return;
    }
    let mut items = Vec::new();
    let (element, walk) = (cell.element.as_ref(), cell.walk.as_ref());
    eval.items(cell.op, element, walk, event, matches, cell.span, |eval, item| {
        let key = key(eval);
        items.push((item, key));
    });
    eval.state.change_cell(program, id, eval.limits, |held| {
        if let CellState::Running(running) = held {
            items.into_iter().for_each(|(item, key)| running.add(item, key, cell.span));
        }
    });
}

fn open<'p>(eval: &mut Eval<'p, '_>, id: Id, event: &Arc<Event>) {
    let program = eval.program;
    let Some(cell) = program.cells.get(id) else { return };
    let (Plan::Running { since: Some(since) } | Plan::LookBack { since: Some(since), .. }) = &cell.plan else { return };
    let matches = opens(eval, since, event, cell.span);
    if matches == Tri::False {
        return;
    }
    eval.state.change_cell(program, id, eval.limits, |held| match held {
        CellState::Running(running) => running.open(matches == Tri::True),
        CellState::LookBack(held) => held.open(event.clone(), matches == Tri::True),
    });
}

fn opens<'p>(eval: &mut Eval<'p, '_>, since: &'p Opening, event: &Event, at: Span) -> Tri {
    let source = source_match(&since.sources, event, at);
    local(eval, source, &since.local)
}

impl Program {
    /// A reason in words: the source text of the expression and what is wrong with it.
    pub fn reason(&self, why: Why) -> String {
        if why.limit().is_some() {
            return why.kind.words();
        }
        let text = self.sources.get(why.at.file).map_or("", |source| source.slice(why.at));
        let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("`{folded}` {}", why.kind.words())
    }
}
