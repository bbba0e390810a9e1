//! Patterns over earlier events: which events, their windows, and the elements of a list in them.

use super::{Pair, Parts, Read, Reader, Rule};
use crate::{
    diag::Code,
    lang::ast::{Pattern, Within},
};

impl Reader {
    /// A pattern, and what it walks over in the events that match.
    pub(super) fn events(&self, p: &mut Parts<'_>) -> Read<Pattern> {
        let mut pattern = self.pattern(p.next(Rule::pattern)?)?;
        if let Some(elements) = p.maybe(Rule::elements) {
            pattern.elements = Some(self.binder(self.parts(elements).next(Rule::binder)?)?);
        }
        Ok(pattern)
    }

    pub(super) fn pattern(&self, pair: Pair<'_, Rule>) -> Read<Pattern> {
        let span = self.span(&pair);
        let mut p = self.parts(pair);
        let sources = self.sources(p.next(Rule::sources)?)?;
        let filter = p.maybe(Rule::expr).map(|e| self.expr(e)).transpose()?.map(Box::new);
        let mut pattern = Pattern {
            span,
            sources,
            filter,
            within_time: None,
            within_turns: None,
            within_events: None,
            since: None,
            before_turn: false,
            including_this: false,
            elements: None,
        };
        for window in p.rest() {
            let whole = window.clone();
            let inner = self.parts(window).any()?;
            let rule = inner.as_rule();
            let mut q = self.parts(inner);
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
                        _ => Pattern {
                            span: self.span(&opening),
                            sources: vec![self.source(opening)?],
                            filter: None,
                            within_time: None,
                            within_turns: None,
                            within_events: None,
                            since: None,
                            before_turn: false,
                            including_this: false,
                            elements: None,
                        },
                    };
                    pattern.since.replace(Box::new(opening)).is_some()
                }
                Rule::before_turn => std::mem::replace(&mut pattern.before_turn, true),
                _ => std::mem::replace(&mut pattern.including_this, true),
            };
            if again {
                return self.problem(Code::WindowTwice, &whole, "this window is given twice");
            }
        }
        Ok(pattern)
    }
}
