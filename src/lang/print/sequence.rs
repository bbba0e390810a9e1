//! Order patterns as they are written.

use super::{OR, Printer};
use crate::lang::ast::{Gap, Sequence, Without};

impl Printer {
    pub(super) fn sequence(&mut self, sequence: &Sequence) {
        self.put("once(");
        let last = sequence.steps.len().saturating_sub(1);
        for (i, step) in sequence.steps.iter().enumerate() {
            if i > 0 {
                self.put(" then ");
            }
            self.sources(&step.sources);
            if let Some(name) = &step.name {
                self.put(" as ");
                self.put(&name.text);
            }
            if let Some(filter) = &step.filter {
                self.put(" where ");
                let ends = i == last && sequence.this.is_none() && step.gap == Gap::default();
                self.expr(filter, OR, self.plain || ends);
            }
            self.gap(&step.gap);
        }
        if let Some(gap) = &sequence.this {
            self.put(" then this");
            self.gap(gap);
        }
        self.put(")");
    }

    fn gap(&mut self, gap: &Gap) {
        self.within(gap.within_time.as_ref(), gap.within_turns, gap.within_events);
        let Some(Without { sources, filter }) = &gap.without else { return };
        self.put(" without ");
        if sources.len() == 1 && filter.is_none() {
            self.sources(sources);
            return;
        }
        self.put("(");
        self.sources(sources);
        if let Some(filter) = filter {
            self.put(" where ");
            self.expr(filter, OR, true);
        }
        self.put(")");
    }
}
