//! Patterns over earlier events: which events, their windows, the elements of a list in them, and events
//! in order.

use super::{Pair, Parts, Read, Reader, Rule};
use crate::{
    diag::{Code, Diagnostic, Span},
    lang::ast::{Derived, ExprKind, Gap, HistoryOp, Name, Pattern, Sequence, Step, Within, Without},
};

/// What may stand in a pattern, or in a step of an order.
struct Clauses {
    pattern: Pattern,
    name: Option<Name>,
    without: Option<Without>,
    /// Where the first window stands.
    window: Option<Span>,
    /// Where the first window stands that a step cannot have.
    not_of_steps: Option<Span>,
    /// Where `without` stands.
    without_at: Option<Span>,
}

impl Clauses {
    /// As a pattern that stands alone.
    #[inline(never)]
    fn alone(self) -> Read<Pattern> {
        if let Some(name) = self.name {
            let problem = Diagnostic::error(Code::NotHere, name.span, "only a step of an order has a name")
                .help("write `once(call a as x then call b where it.args.id == x.args.id)`");
            return Err(Box::new(problem));
        }
        if let Some(at) = self.without_at {
            let problem = Diagnostic::error(Code::NotHere, at, "`without` says what may not come between two steps")
                .help("write `once(call a then call b without call c)`");
            return Err(Box::new(problem));
        }
        Ok(self.pattern)
    }

    /// As a step of an order; the first one has nothing before it.
    #[inline(never)]
    fn step(self, first: bool) -> Read<Step> {
        let gap = self.window.filter(|_| first);
        if let Some(at) = gap {
            let problem = Diagnostic::error(Code::NotHere, at, "nothing comes before the first step")
                .help("a window stands at the step it leads to; one to the judged event is `then this within 10m`");
            return Err(Box::new(problem));
        }
        if let Some(at) = self.not_of_steps {
            let problem = Diagnostic::error(Code::NotHere, at, "this window is not one between two steps")
                .help("between steps there are `within` and `without`");
            return Err(Box::new(problem));
        }
        let Pattern { span, sources, filter, within_time, within_turns, within_events, .. } = self.pattern;
        let gap = Gap { within_time, within_turns, within_events, without: self.without };
        Ok(Step { span, sources, name: self.name, filter, gap })
    }
}

impl Reader {
    /// `once(..)` and its like: over events, or over an order of events. Not inlined: reading recurses, and its
    /// frame would be that of every expression.
    #[inline(never)]
    pub(super) fn seek(&self, pair: Pair<'_, Rule>) -> Read<ExprKind> {
        let mut p = self.parts(pair);
        let word = p.next(Rule::seek_of)?;
        let op = match word.as_str() {
            "once" => HistoryOp::Once,
            "first" => HistoryOp::First,
            "last" => HistoryOp::Last,
            _ => HistoryOp::Previous,
        };
        let first = self.clauses(p.next(Rule::pattern)?)?;
        let then = p.all(Rule::then);
        if !then.is_empty() {
            return self.order(op, &word, *first, then);
        }
        let pattern = self.with_elements(first.alone()?, &mut p)?;
        Ok(ExprKind::History(op, None, Box::new(pattern)))
    }

    #[inline(never)]
    fn order(&self, op: HistoryOp, word: &Pair<'_, Rule>, first: Clauses, then: Vec<Pair<'_, Rule>>) -> Read<ExprKind> {
        if op != HistoryOp::Once {
            let message = format!("`{}` does not ask for an order", op.word());
            let problem = Diagnostic::error(Code::NotHere, self.span(word), message)
                .help("`once(call a then call b)` says whether events came in that order");
            return Err(Box::new(problem));
        }
        let mut sequence = Sequence { steps: vec![first.step(true)?], this: None };
        for then in then {
            let inner = self.parts(then).any()?;
            if sequence.this.is_some() {
                return self.problem(Code::NotHere, &inner, "nothing comes after the judged event");
            }
            if inner.as_rule() == Rule::pattern {
                sequence.steps.push(self.clauses(inner)?.step(false)?);
                continue;
            }
            let mut clauses = Clauses::new(self.span(&inner));
            for window in self.parts(inner).rest() {
                self.window(window, &mut clauses)?;
            }
            sequence.this = Some(clauses.step(false)?.gap);
        }
        Ok(ExprKind::Sequence(Box::new(sequence)))
    }

    /// `derived_from(value, PATTERN)`, `carries(text, PATTERN, path)`
    #[inline(never)]
    pub(super) fn derived(&self, pair: Pair<'_, Rule>) -> Read<ExprKind> {
        let mut p = self.parts(pair);
        let word = p.next(Rule::derived_of)?;
        let value = self.expr(p.next(Rule::expr)?)?;
        let pattern = self.pattern(p.next(Rule::pattern)?)?;
        let path = p.maybe(Rule::expr).map(|e| self.expr(e)).transpose()?;
        if (word.as_str() == "carries") != path.is_some() {
            let message = format!("`{}` does not take that many arguments", word.as_str());
            let problem = Diagnostic::error(Code::ArgumentCount, self.span(&word), message)
                .help("it is `derived_from(value, PATTERN)` and `carries(text, PATTERN, it.path)`");
            return Err(Box::new(problem));
        }
        Ok(ExprKind::Derived(Box::new(Derived { value, pattern, path })))
    }

    /// A pattern, and what it walks over in the events that match.
    #[inline(never)]
    pub(super) fn events(&self, p: &mut Parts<'_>) -> Read<Pattern> {
        let pattern = self.pattern(p.next(Rule::pattern)?)?;
        self.with_elements(pattern, p)
    }

    #[inline(never)]
    fn with_elements(&self, mut pattern: Pattern, p: &mut Parts<'_>) -> Read<Pattern> {
        if let Some(elements) = p.maybe(Rule::elements) {
            pattern.elements = Some(self.binder(self.parts(elements).next(Rule::binder)?)?);
        }
        Ok(pattern)
    }

    /// A pattern that stands alone.
    pub(super) fn pattern(&self, pair: Pair<'_, Rule>) -> Read<Pattern> {
        self.clauses(pair)?.alone()
    }

    #[inline(never)]
    fn clauses(&self, pair: Pair<'_, Rule>) -> Read<Box<Clauses>> {
        let mut clauses = Box::new(Clauses::new(self.span(&pair)));
        let mut p = self.parts(pair);
        clauses.pattern.sources = self.sources(p.next(Rule::sources)?)?;
        if let Some(naming) = p.maybe(Rule::naming) {
            clauses.name = Some(self.name(self.parts(naming).next(Rule::name)?));
        }
        clauses.pattern.filter = p.maybe(Rule::expr).map(|e| self.expr(e)).transpose()?.map(Box::new);
        for window in p.rest() {
            self.window(window, &mut clauses)?;
        }
        Ok(clauses)
    }

    #[inline(never)]
    fn window(&self, whole: Pair<'_, Rule>, clauses: &mut Clauses) -> Read<()> {
        let at = self.span(&whole);
        let inner = self.parts(whole.clone()).any()?;
        let rule = inner.as_rule();
        let mut q = self.parts(inner);
        let pattern = &mut clauses.pattern;
        let again = match rule {
            Rule::within_turns => pattern.within_turns.replace(self.small(&q.next(Rule::digits)?)?).is_some(),
            Rule::within_events => pattern.within_events.replace(self.small(&q.next(Rule::digits)?)?).is_some(),
            Rule::within_time => {
                let bound = q.any()?;
                let within = match bound.as_rule() {
                    Rule::duration => Within::Duration(self.seconds(&bound)?, self.span(&bound)),
                    _ => Within::Named(self.name(bound)),
                };
                pattern.within_time.replace(within).is_some()
            }
            Rule::since => {
                let opening = q.any()?;
                let opening = match opening.as_rule() {
                    Rule::pattern => self.pattern(opening)?,
                    _ => {
                        let mut bare = Clauses::new(self.span(&opening)).pattern;
                        bare.sources.push(self.source(opening)?);
                        bare
                    }
                };
                pattern.since.replace(Box::new(opening)).is_some()
            }
            Rule::without => {
                let what = q.any()?;
                let sources = match what.as_rule() {
                    Rule::sources => self.sources(what)?,
                    _ => vec![self.source(what)?],
                };
                let filter = q.maybe(Rule::expr).map(|e| self.expr(e)).transpose()?.map(Box::new);
                clauses.without_at.get_or_insert(at);
                clauses.without.replace(Without { sources, filter }).is_some()
            }
            Rule::before_turn => std::mem::replace(&mut pattern.before_turn, true),
            _ => std::mem::replace(&mut pattern.including_this, true),
        };
        if again {
            return self.problem(Code::WindowTwice, &whole, "this window is given twice");
        }
        clauses.window.get_or_insert(at);
        if matches!(rule, Rule::since | Rule::before_turn | Rule::including_this) {
            clauses.not_of_steps.get_or_insert(at);
        }
        Ok(())
    }
}

impl Clauses {
    /// Nothing yet.
    fn new(span: Span) -> Clauses {
        let pattern = Pattern {
            span,
            sources: Vec::new(),
            filter: None,
            within_time: None,
            within_turns: None,
            within_events: None,
            since: None,
            before_turn: false,
            including_this: false,
            elements: None,
        };
        Clauses { pattern, name: None, without: None, window: None, not_of_steps: None, without_at: None }
    }
}
