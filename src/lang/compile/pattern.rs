//! History functions: a pattern's condition is split into what the earlier event decides alone, what
//! can be joined by an index, and what has to be looked at; that gives the plan of its cell.

use std::{collections::BTreeSet, sync::Arc};

use super::{Compiler, Decl, Env, Reads, Typed};
use crate::{
    diag::{Code, Diagnostic, Span},
    lang::{
        ast::{BinaryOp, Binder, Expr, ExprKind, HistoryOp, Pattern, Tools, Within},
        program::{Ask, Cell, Node, NodeKind, Opening, Over, Plan, Scope, Walk, Window},
        types::Ty,
        val::{Datum, Val},
    },
    model::{EventKind, Num},
};

/// Join keys of one index; further equalities are looked at.
pub(super) const MAX_KEYS: usize = 4;

/// What an expression depends on.
#[derive(Debug, Default)]
pub(super) struct Deps {
    /// The earlier event.
    pub(super) it: bool,
    /// The judged event, or state that changes.
    pub(super) present: bool,
    /// Variables that are bound outside of it.
    pub(super) slots: BTreeSet<usize>,
}

impl Deps {
    pub(super) fn of(node: &Node) -> Deps {
        let mut deps = Deps::default();
        deps.add(node);
        deps
    }

    /// The same, where some variables are parts of the earlier event.
    pub(super) fn with(own: &[usize], node: &Node) -> Deps {
        let mut deps = Deps::of(node);
        for slot in own {
            deps.it |= deps.slots.remove(slot);
        }
        deps
    }

    fn add(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::Event(Scope::It) => self.it = true,
            NodeKind::Event(Scope::This)
            | NodeKind::Now
            | NodeKind::Let(_)
            | NodeKind::Fact(..)
            | NodeKind::Seen(..) => self.present = true,
            NodeKind::History(ask) => {
                self.present = true;
                node.for_each_child(&mut |child| self.add(child));
                ask.walk.iter().for_each(|walk| self.bound_by(walk));
                return;
            }
            NodeKind::Sequence(ask) => {
                // What its steps call `it` is its own.
                self.present = true;
                ask.nodes().for_each(|node| self.slots.extend(Deps::of(node).slots));
                return;
            }
            NodeKind::Derived(_) => self.present = true,
            NodeKind::Slot(slot) => {
                self.slots.insert(*slot);
            }
            NodeKind::Quantifier(_, walk, _) | NodeKind::Comprehension { walk, .. } | NodeKind::Fold(_, _, walk) => {
                if matches!(walk.over, Over::Fact { .. }) {
                    self.present = true;
                }
                node.for_each_child(&mut |child| self.add(child));
                self.bound_by(walk);
                return;
            }
            _ => {}
        }
        node.for_each_child(&mut |child| self.add(child));
    }

    /// The variables of a walk are not bound outside of it.
    fn bound_by(&mut self, walk: &Walk) {
        self.slots.remove(&walk.value);
        if let Some(key) = walk.key {
            self.slots.remove(&key);
        }
    }

    pub(super) fn now(&self) -> bool {
        self.present || !self.slots.is_empty()
    }
}

/// A pattern's condition, taken apart.
#[derive(Default)]
struct Split {
    /// The earlier event alone decides.
    local: Vec<Node>,
    /// The present alone decides.
    present: Vec<Node>,
    /// Equalities: the earlier side and the present side.
    joins: Vec<(Node, Node)>,
    /// Both are compared in another way.
    rest: Vec<Node>,
    /// All of it.
    whole: Vec<Node>,
}

/// The elements of a list in the earlier event, as candidates of their own.
struct Elements {
    walk: Walk,
    /// The condition on them.
    split: Split,
    /// The list is one of the present event, or of state that changes.
    late: bool,
}

impl Split {
    /// Takes conditions apart; `own` are variables that are parts of the earlier event.
    fn of(nodes: Vec<Node>, own: &[usize]) -> Split {
        let mut split = Split::default();
        for node in nodes {
            split.whole.push(node.clone());
            let deps = Deps::with(own, &node);
            match (deps.it, deps.now()) {
                (_, false) => split.local.push(node),
                (false, true) => split.present.push(node),
                (true, true) => match join(&node, own) {
                    Some(join) if split.joins.len() < MAX_KEYS => split.joins.push(join),
                    _ => split.rest.push(node),
                },
            }
        }
        split
    }
}

impl<'a> Compiler<'a> {
    /// Compiles a history function. Not inlined: compiling recurses, and its frame would be that of every
    /// expression.
    #[inline(never)]
    pub(super) fn history(
        &mut self,
        op: HistoryOp,
        element: Option<&Expr>,
        pattern: &Pattern,
        at: Span,
        env: &Env,
    ) -> Typed {
        if !self.may_ask_history(at, env) {
            return Typed::broken(at);
        }
        let sources = self.sources(&pattern.sources);
        if op == HistoryOp::Previous
            && (pattern.filter.is_some() || pattern.sources.iter().any(|s| s.tools != Tools::Any))
        {
            let problem = Diagnostic::error(
                Code::NotHere,
                pattern.span,
                "`previous` gives the latest event of a kind, whatever its tool",
            )
            .help("test what it is: `previous(call).tool == \"x\"`; the latest one that fits is `last(..)`");
            self.problems.push(problem);
        }
        if pattern.before_turn && pattern.including_this {
            self.error(Code::NotHere, pattern.span, "the judged event is not before its own turn");
        }
        if let Some(source) = pattern.sources.iter().find(|s| s.kinds.contains(&EventKind::End)) {
            self.error(Code::NotHere, source.span, "nothing comes after the end of a session");
        }
        let kinds: Vec<EventKind> = sources.iter().flat_map(|s| s.kinds.iter().copied()).collect();
        let it_sources = Arc::from(sources.as_slice());
        let inner = Env { it: Some(kinds), it_sources, reads: Reads::Facts, ..env.clone() };
        let mut split = self.split(pattern.filter.as_deref(), &inner);
        self.note_hits(&sources, &split.whole);
        let (elements, inner) = match &pattern.elements {
            Some(binder) => {
                let (elements, env) = self.elements(op, binder, &inner);
                (Some(elements), env)
            }
            None => (None, inner),
        };
        let own = elements.as_ref().map(|e| e.walk.slots()).unwrap_or_default();
        let element = element.map(|e| {
            let typed = self.expr(e, &inner);
            if op == HistoryOp::Sum && !typed.ty.fits(Ty::Number) {
                let message = format!("this is {}: a sum is over numbers", typed.ty.a());
                self.error(Code::TypeMismatch, e.span, message);
            }
            typed
        });
        let (element, element_ty) = match element {
            Some(typed) => (Some(typed.node), typed.ty),
            None => (None, Ty::Any),
        };
        let window = self.window(pattern);
        let since = pattern.since.as_deref().map(|p| self.since(p, env));
        let late_element = element.as_ref().is_some_and(|e| Deps::with(&own, e).now());
        let reaches = [window.time.is_some(), window.turns.is_some(), window.events.is_some()];
        let reaching = reaches.iter().filter(|r| **r).count();
        let running = split.rest.is_empty()
            && !late_element
            && elements.as_ref().is_none_or(|e| {
                !e.late && e.split.rest.is_empty() && split.joins.len() + e.split.joins.len() <= MAX_KEYS
            })
            && reaching <= 1
            && since.as_ref().is_none_or(|(_, rest)| rest.is_empty() && reaching == 0 && !window.before_turn)
            && !(window.before_turn && reaching > 0)
            && !(reaching > 0 && matches!(op, HistoryOp::First | HistoryOp::Min | HistoryOp::Max));
        let bounded = window.turns.is_some() || window.events.is_some() || pattern.since.is_some();
        let joined = !split.joins.is_empty();
        if !bounded && !joined && (!split.rest.is_empty() || late_element) {
            let problem = Diagnostic::error(
                Code::CannotIndex,
                pattern.span,
                "earlier events have to be looked at one by one here, and nothing bounds how many",
            )
            .help("add `within 100 events`, or an equality between `it` and the judged event");
            self.problems.push(problem);
        }
        let (since, since_rest) = match since {
            Some((opening, rest)) => (Some(opening), rest),
            None => (None, Vec::new()),
        };
        let plan = if running { Plan::Running { since } } else { Plan::LookBack { since, late_element } };
        // With running answers each element is filed under a key of its own; else events are, and whoever asks
        // walks over their elements.
        let mut kept_walk = None;
        let walk = elements.map(|Elements { walk, split: own, .. }| {
            if running {
                split.present.extend(own.present);
                split.joins.extend(own.joins);
                let filter = (!own.local.is_empty()).then(|| Box::new(Node::new(at, NodeKind::And(own.local))));
                kept_walk = Some(Walk { filter, ..walk.clone() });
            }
            walk
        });
        let (key, asked_key) = split.joins.into_iter().unzip();
        let cell = Cell {
            op,
            sources,
            local: split.local,
            key,
            // A late element is evaluated by whoever asks.
            element: if late_element || (walk.is_some() && !running) { None } else { element.clone() },
            walk: kept_walk,
            window,
            plan,
            span: at,
        };
        let ask = Ask {
            cell: self.cell(cell),
            op,
            present: split.present,
            key: asked_key,
            rest: split.rest,
            whole: split.whole,
            since_rest,
            element,
            walk,
        };
        let ty = match op {
            HistoryOp::Once => Ty::Bool,
            HistoryOp::First | HistoryOp::Last | HistoryOp::Previous => Ty::Event,
            HistoryOp::Count | HistoryOp::Sum | HistoryOp::Distinct => Ty::Number,
            HistoryOp::Min | HistoryOp::Max => element_ty,
        };
        Typed::new(at, NodeKind::History(Box::new(ask)), ty)
    }

    /// Whether earlier events may be asked for; says so if not.
    pub(super) fn may_ask_history(&mut self, at: Span, env: &Env) -> bool {
        let (message, help) = match env.reads {
            Reads::All => return true,
            Reads::Facts => (
                "history cannot be asked for inside a pattern",
                "ask for it outside, in a `let` or in a condition of its own",
            ),
            Reads::Nothing => {
                ("a fact is filled from its own event alone", "ask for history in the policies that use the fact")
            }
        };
        self.problems.push(Diagnostic::error(Code::NotHere, at, message).help(help));
        false
    }

    /// The cell that keeps this, an equal one if there is one.
    fn cell(&mut self, cell: Cell) -> usize {
        let shape = format!(
            "{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}",
            cell.op, cell.sources, cell.local, cell.key, cell.element, cell.walk, cell.window, cell.plan
        );
        if let Some(id) = self.shapes.get(&shape) {
            return *id;
        }
        let id = self.cells.len();
        self.cells.push(cell);
        self.shapes.insert(shape, id);
        id
    }

    fn split(&mut self, filter: Option<&Expr>, env: &Env) -> Split {
        let parts: Vec<&Expr> = match filter {
            None => Vec::new(),
            Some(Expr { kind: ExprKind::And(parts), .. }) => parts.iter().collect(),
            Some(one) => vec![one],
        };
        let nodes: Vec<Node> = parts.into_iter().map(|part| self.condition(part, env)).collect();
        Split::of(nodes, &[])
    }

    /// What a question walks over in the events that match, and the surroundings of its value.
    fn elements(&mut self, op: HistoryOp, binder: &Binder, env: &Env) -> (Elements, Env) {
        if matches!(op, HistoryOp::First | HistoryOp::Last | HistoryOp::Previous) {
            let message = format!("`{}` gives an event, not an element of a list in it", op.word());
            let problem = Diagnostic::error(Code::NotHere, binder.value.span, message)
                .help("test the elements in the condition: `where any x in it.args.list: ..`");
            self.problems.push(problem);
        }
        let (walk, inner) = self.walk(binder, env);
        let own = walk.slots();
        let nodes = match walk.filter.as_deref() {
            None => Vec::new(),
            Some(Node { kind: NodeKind::And(parts), .. }) => parts.clone(),
            Some(one) => vec![one.clone()],
        };
        let (late, of_event) = match &walk.over {
            Over::Value(list) => {
                let deps = Deps::of(list);
                let broken = matches!(list.kind, NodeKind::Const(Val::Unknown(_)));
                (deps.now(), deps.it || broken)
            }
            Over::Fact { .. } => (true, false),
        };
        if !of_event {
            let at = binder.collection.span;
            let problem = Diagnostic::error(Code::NotHere, at, "this is no list in the earlier event")
                .help("`it` is the earlier event: `x in it.args.list`");
            self.problems.push(problem);
        }
        (Elements { walk, split: Split::of(nodes, &own), late }, inner)
    }

    /// The length of a window in time.
    pub(super) fn within(&mut self, within: Option<&Within>) -> Option<Num> {
        match within {
            None => None,
            Some(Within::Duration(seconds, _)) => Some(*seconds),
            Some(Within::Named(name)) => {
                self.used.insert(name.text.clone());
                match self.decls.get(&name.text) {
                    Some((Decl::Const(Val::Known(Datum::Duration(seconds)), _), _)) => Some(*seconds),
                    None if self.unusable.contains(&name.text) => None,
                    _ => {
                        let message = format!("`{}` is no constant that is a duration", name.text);
                        let problem =
                            Diagnostic::error(Code::UnknownName, name.span, message).help("declare `const NAME = 30m`");
                        self.problems.push(problem);
                        None
                    }
                }
            }
        }
    }

    fn window(&mut self, pattern: &Pattern) -> Window {
        Window {
            time: self.within(pattern.within_time.as_ref()),
            turns: pattern.within_turns,
            events: pattern.within_events,
            before_turn: pattern.before_turn,
            including_this: pattern.including_this,
        }
    }

    /// What opens a `since` window, and the conditions on it that read the present.
    fn since(&mut self, pattern: &Pattern, env: &Env) -> (Opening, Vec<Node>) {
        let windowed = pattern.within_time.is_some()
            || pattern.within_turns.is_some()
            || pattern.within_events.is_some()
            || pattern.since.is_some()
            || pattern.before_turn
            || pattern.including_this;
        if windowed {
            self.error(Code::NotHere, pattern.span, "what opens a `since` window has no window of its own");
        }
        let sources = self.sources(&pattern.sources);
        let kinds = sources.iter().flat_map(|s| s.kinds.iter().copied()).collect();
        let it_sources = Arc::from(sources.as_slice());
        let inner = Env { it: Some(kinds), it_sources, reads: Reads::Facts, ..env.clone() };
        let mut split = self.split(pattern.filter.as_deref(), &inner);
        self.note_hits(&sources, &split.whole);
        let local = std::mem::take(&mut split.local);
        let rest = split.whole.into_iter().filter(|node| Deps::of(node).now()).collect();
        (Opening { sources, local }, rest)
    }
}

/// An equality between something of the earlier event alone and something of the present alone.
fn join(node: &Node, own: &[usize]) -> Option<(Node, Node)> {
    let NodeKind::Binary(BinaryOp::Eq, a, b) = &node.kind else { return None };
    let (left, right) = (Deps::with(own, a), Deps::with(own, b));
    if left.it && !left.now() && !right.it {
        Some(((**a).clone(), (**b).clone()))
    } else if right.it && !right.now() && !left.it {
        Some(((**b).clone(), (**a).clone()))
    } else {
        None
    }
}
