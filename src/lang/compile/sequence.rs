//! Order patterns: the conditions of each step are split by what decides them: its event alone, earlier
//! steps, the judged event.

use std::collections::BTreeSet;

use super::{
    Binding, Compiler, Env, Reads, Typed,
    pattern::{Deps, MAX_KEYS},
};
use crate::{
    diag::{Code, Diagnostic, Span},
    lang::{
        ast::{self, BinaryOp, Expr, ExprKind, Name, Source},
        program::{Asked, Gap, Guard, Id, Node, NodeKind, Sequence, SequenceAsk, SourceSpec, Step, Window},
        types::Ty,
    },
    model::EventKind,
};

/// Steps that one order pattern may have.
const MAX_STEPS: usize = 8;

/// What a condition of a step depends on.
struct Use {
    /// The event that is looked at.
    it: bool,
    /// The judged event, or state that changes.
    now: bool,
    /// Named steps.
    steps: BTreeSet<usize>,
}

/// The variables of the steps that have a name.
type Slots = Vec<Option<usize>>;

fn used(slots: &Slots, node: &Node) -> Use {
    let mut deps = Deps::of(node);
    let named = slots.iter().enumerate().filter(|(_, slot)| slot.is_some_and(|slot| deps.slots.remove(&slot)));
    let steps = named.map(|(i, _)| i).collect();
    Use { it: deps.it, now: deps.now(), steps }
}

/// The two sides of an equality of which one is of the event alone and the other not of it at all.
fn join(slots: &Slots, node: &Node) -> Option<(Node, Node)> {
    let NodeKind::Binary(BinaryOp::Eq, a, b) = &node.kind else { return None };
    for (event, other) in [(a, b), (b, a)] {
        let (left, right) = (used(slots, event), used(slots, other));
        if left.it && !left.now && left.steps.is_empty() && !right.it {
            return Some(((**event).clone(), (**other).clone()));
        }
    }
    None
}

/// The two sides of an equality of which one is of the events of the steps and the other of the present.
fn end_join(slots: &Slots, node: &Node) -> Option<(Node, Node)> {
    let NodeKind::Binary(BinaryOp::Eq, a, b) = &node.kind else { return None };
    for (events, present) in [(a, b), (b, a)] {
        let (left, right) = (used(slots, events), used(slots, present));
        if !left.now && right.now && !right.it && right.steps.is_empty() {
            return Some(((**events).clone(), (**present).clone()));
        }
    }
    None
}

impl<'a> Compiler<'a> {
    /// Compiles an order pattern. Not inlined: compiling recurses.
    #[inline(never)]
    pub(super) fn sequence(&mut self, sequence: &ast::Sequence, at: Span, env: &Env) -> Typed {
        if !self.may_ask_history(at, env) {
            return Typed::broken(at);
        }
        if let Some(step) = sequence.steps.get(MAX_STEPS) {
            let message = format!("an order has no more than {MAX_STEPS} steps");
            self.error(Code::TooLarge, step.span, message);
            return Typed::broken(at);
        }
        let mut inner = env.clone();
        let mut slots = Slots::new();
        let mut ask = SequenceAsk {
            sequence: 0,
            twins: Vec::new(),
            present: Vec::new(),
            key: Vec::new(),
            late: Vec::new(),
            late_guards: Vec::new(),
            this_key: Vec::new(),
            this_rest: Vec::new(),
        };
        let mut steps = Vec::new();
        for (i, step) in sequence.steps.iter().enumerate() {
            let gap = self.gap(&step.gap, i, false, &slots, &inner, &mut ask);
            let (sources, nodes) = self.events_of(&step.sources, step.filter.as_deref(), &inner);
            let mut compiled = Step {
                gap,
                sources,
                local: Vec::new(),
                slot: None,
                key: Vec::new(),
                asked: Vec::new(),
                rest: Vec::new(),
                ends: Vec::new(),
                keeps: Vec::new(),
                same: Vec::new(),
                same_events: Vec::new(),
            };
            let ends_before = ask.key.len();
            for node in nodes {
                let uses = used(&slots, &node);
                match (uses.now, uses.it || !uses.steps.is_empty()) {
                    (false, _) if uses.steps.is_empty() => compiled.local.push(node),
                    (false, _) => match join(&slots, &node) {
                        Some((event, earlier)) if compiled.key.len() < MAX_KEYS => {
                            compiled.key.push(event);
                            compiled.asked.push(Asked::Value(earlier));
                        }
                        _ => compiled.rest.push(node),
                    },
                    (true, false) => ask.present.push(node),
                    (true, true) => match end_join(&slots, &node) {
                        Some((events, present)) if ask.key.len() < MAX_KEYS => {
                            // Both must equal the same of the judged event, so they must equal each other.
                            let same = ask.key.iter().position(|held| format!("{held:?}") == format!("{present:?}"));
                            let own = used(&slots, &events);
                            if let Some(end) = same
                                && end < ends_before
                                && own.it
                                && own.steps.is_empty()
                                && compiled.key.len() < MAX_KEYS
                            {
                                compiled.key.push(events.clone());
                                compiled.asked.push(Asked::End(end));
                            }
                            compiled.ends.push(events);
                            ask.key.push(present);
                        }
                        _ => ask.late.push((i, node)),
                    },
                }
            }
            if let Some(name) = &step.name {
                compiled.slot = Some(self.step_name(name, sequence, i, &mut inner));
            }
            slots.push(compiled.slot);
            steps.push(compiled);
        }
        let default = ast::Gap::default();
        let this = self.gap(sequence.this.as_ref().unwrap_or(&default), steps.len(), true, &slots, &inner, &mut ask);
        let compiled = Sequence { steps, this, span: at };
        for twin in twins(&compiled, &ask.key) {
            ask.twins.push((self.keep_sequence(twin.sequence, &ask, &slots), twin.without));
        }
        ask.sequence = self.keep_sequence(compiled, &ask, &slots);
        Typed::new(at, NodeKind::Sequence(Box::new(ask)), Ty::Bool)
    }

    /// Keeps an order pattern, an equal one if there is one.
    fn keep_sequence(&mut self, mut sequence: Sequence, ask: &SequenceAsk, slots: &Slots) -> Id {
        let needs: Vec<Needs> = (0..sequence.steps.len()).map(|i| needs(&sequence, ask, slots, i)).collect();
        for (step, needs) in sequence.steps.iter_mut().zip(needs) {
            step.keeps = needs.keeps.into_iter().collect();
            step.same = needs.same;
            step.same_events = needs.same_events.into_iter().collect();
        }
        let shape = format!("{:?}{:?}", sequence.steps, sequence.this);
        *self.sequence_shapes.entry(shape).or_insert_with(|| {
            self.sequences.push(sequence);
            self.sequences.len() - 1
        })
    }

    /// Binds the name of a step for the steps after it.
    fn step_name(&mut self, name: &Name, sequence: &ast::Sequence, i: usize, env: &mut Env) -> usize {
        if matches!(name.text.as_ref(), "it" | "now") {
            let message = format!("`{}` already means something here", name.text);
            let problem = Diagnostic::error(Code::ReservedMeaning, name.span, message).help("choose another name");
            self.problems.push(problem);
        }
        let earlier = sequence.steps.iter().take(i).filter_map(|step| step.name.as_ref());
        if let Some(earlier) = earlier.into_iter().find(|earlier| earlier.text == name.text) {
            let message = format!("two steps are called `{}`", name.text);
            let problem =
                Diagnostic::error(Code::DeclaredTwice, name.span, message).secondary(earlier.span, "the first one");
            self.problems.push(problem);
        }
        let slot = self.slots;
        self.slots += 1;
        env.names.push((name.text.clone(), Binding::Slot(slot), Ty::Event));
        slot
    }

    /// Which events a step or a `without` names, and the parts of its condition.
    fn events_of(&mut self, sources: &[Source], filter: Option<&Expr>, env: &Env) -> (Vec<SourceSpec>, Vec<Node>) {
        if let Some(source) = sources.iter().find(|s| s.kinds.contains(&EventKind::End)) {
            self.error(Code::NotHere, source.span, "nothing comes after the end of a session");
        }
        self.no_hits(sources);
        let specs = self.sources(sources);
        let kinds = specs.iter().flat_map(|s| s.kinds.iter().copied()).collect();
        let it_sources = std::sync::Arc::from(specs.as_slice());
        let inner = Env { it: Some(kinds), it_sources, reads: Reads::Facts, ..env.clone() };
        let parts: Vec<&Expr> = match filter {
            None => Vec::new(),
            Some(Expr { kind: ExprKind::And(parts), .. }) => parts.iter().collect(),
            Some(one) => vec![one],
        };
        let nodes = parts.into_iter().map(|part| self.condition(part, &inner)).collect();
        (specs, nodes)
    }

    fn gap(&mut self, gap: &ast::Gap, i: usize, last: bool, slots: &Slots, env: &Env, ask: &mut SequenceAsk) -> Gap {
        let window = Window {
            time: self.within(gap.within_time.as_ref()),
            turns: gap.within_turns,
            events: gap.within_events,
            ..Window::default()
        };
        let Some(without) = &gap.without else { return Gap { window, without: None } };
        let (sources, nodes) = self.events_of(&without.sources, without.filter.as_deref(), env);
        let mut guard = Guard {
            sources,
            local: Vec::new(),
            key: Vec::new(),
            asked: Vec::new(),
            rest: Vec::new(),
            one_by_one: false,
            late: false,
        };
        let others: Vec<Node> = nodes
            .into_iter()
            .filter_map(|node| {
                let uses = used(slots, &node);
                if uses.now || !uses.steps.is_empty() {
                    return Some(node);
                }
                guard.local.push(node);
                None
            })
            .collect();
        // Before the judged event is reached, what is said of it cannot be known.
        guard.late = !last && others.iter().any(|node| used(slots, node).now);
        for node in others {
            match join(slots, &node) {
                Some((event, other)) if guard.key.len() < MAX_KEYS && !guard.late => {
                    guard.key.push(event);
                    guard.asked.push(other);
                }
                _ => guard.rest.push(node),
            }
        }
        guard.one_by_one = !guard.rest.is_empty();
        if last {
            ask.this_key = std::mem::take(&mut guard.asked);
            ask.this_rest = std::mem::take(&mut guard.rest);
        } else if guard.late {
            ask.late_guards.push((i, std::mem::take(&mut guard.rest)));
        }
        Gap { window, without: Some(guard) }
    }
}

/// The same pattern without some of the values of the judged event that steps are joined on among themselves.
struct Twin {
    sequence: Sequence,
    /// Which of the keys it is without.
    without: Vec<bool>,
}

/// A twin for each set of the values that steps are joined on; the last is without all of them.
fn twins(sequence: &Sequence, key: &[Node]) -> Vec<Twin> {
    let texts: Vec<String> = key.iter().map(|node| format!("{node:?}")).collect();
    let joined = sequence.steps.iter().flat_map(|step| &step.asked).filter_map(|asked| match asked {
        Asked::End(i) => texts.get(*i),
        Asked::Value(_) => None,
    });
    let joined: BTreeSet<&String> = joined.collect();
    // Each value takes two keys at least, and there are at most four.
    let sets = 1..1usize << joined.len().min(MAX_KEYS / 2);
    let twin = |set: usize| {
        let without = |text: &String| joined.iter().position(|value| *value == text).is_some_and(|i| set >> i & 1 == 1);
        let without: Vec<bool> = texts.iter().map(without).collect();
        Twin { sequence: sequence_without(sequence, &without), without }
    };
    sets.map(twin).collect()
}

fn sequence_without(sequence: &Sequence, without: &[bool]) -> Sequence {
    let dropped = |end: usize| without.get(end) == Some(&true);
    let mut twin = sequence.clone();
    let mut ends = 0;
    for step in &mut twin.steps {
        let stays = |asked: &Asked| !matches!(asked, Asked::End(end) if dropped(*end));
        let mut asked = step.asked.iter();
        step.key.retain(|_| asked.next().is_some_and(stays));
        step.asked.retain(stays);
        for asked in &mut step.asked {
            if let Asked::End(end) = asked {
                // Of those before it some are gone.
                *end -= (0..*end).filter(|before| dropped(*before)).count();
            }
        }
        step.ends.retain(|_| {
            ends += 1;
            !dropped(ends - 1)
        });
    }
    twin
}

/// What is needed of the events so far once a step is reached.
#[derive(Default)]
struct Needs {
    keeps: BTreeSet<usize>,
    same: Vec<Node>,
    same_events: BTreeSet<usize>,
}

impl Needs {
    /// Something later looks at events as a whole.
    fn events(&mut self, steps: impl IntoIterator<Item = usize>, i: usize) {
        for step in steps.into_iter().filter(|step| *step <= i) {
            self.keeps.insert(step);
            self.same_events.insert(step);
        }
    }

    /// Something later needs the value of an expression; `it` in it is the event of a later step.
    fn value(&mut self, slots: &Slots, node: &Node, i: usize) {
        let uses = used(slots, node);
        if uses.it || uses.now || uses.steps.iter().any(|step| *step > i) {
            self.events(uses.steps, i);
            return;
        }
        self.keeps.extend(&uses.steps);
        if !uses.steps.is_empty() && !self.same.iter().any(|held| format!("{held:?}") == format!("{node:?}")) {
            self.same.push(node.clone());
        }
    }
}

fn needs(sequence: &Sequence, ask: &SequenceAsk, slots: &Slots, i: usize) -> Needs {
    let mut needs = Needs::default();
    for (m, step) in sequence.steps.iter().enumerate().skip(i + 1) {
        // The next step's key is what a partial match is filed under.
        if m > i + 1 {
            for asked in &step.asked {
                if let Asked::Value(node) = asked {
                    needs.value(slots, node, i);
                }
            }
        }
        step.ends.iter().for_each(|node| needs.value(slots, node, i));
        step.rest.iter().for_each(|node| needs.events(used(slots, node).steps, i));
        if let Some(guard) = step.gap.without.as_ref() {
            guard.asked.iter().for_each(|node| needs.value(slots, node, i));
            guard.rest.iter().for_each(|node| needs.events(used(slots, node).steps, i));
        }
    }
    ask.this_key.iter().for_each(|node| needs.value(slots, node, i));
    for node in &ask.this_rest {
        needs.events(used(slots, node).steps, i);
    }
    for (m, node) in &ask.late {
        let uses = used(slots, node);
        needs.events(uses.steps.into_iter().chain(uses.it.then_some(*m)), i);
    }
    for (gap, nodes) in &ask.late_guards {
        // Where the two steps stand says what is between them.
        needs.events([gap.saturating_sub(1), *gap], i);
        for node in nodes {
            needs.events(used(slots, node).steps, i);
        }
    }
    needs
}
