//! Order patterns: every choice of earlier events, one for each step.

use std::sync::Arc;

use probity::{
    diag::Span,
    lang::{
        ast::{Gap, Sequence, Without},
        val::{Datum, Tri, Val},
    },
    model::{Event, Seq},
};

use super::{eval::Naive, history::about, names::Place};

/// Events chosen for the steps, by place in the trace, and whether they match.
type Choice = (Vec<usize>, Tri);

impl<'p> Naive<'p> {
    /// Whether some choice of events satisfies the pattern.
    pub fn sequence(&self, sequence: &'p Sequence, place: &Place<'p>) -> Tri {
        self.choices(sequence, place).iter().map(|(_, m)| *m).fold(Tri::False, Tri::or)
    }

    /// The events of the latest choice that is certain: latest in its last step, then in the one before.
    pub fn latest_choice(&self, sequence: &'p Sequence, place: &Place<'p>) -> Vec<Seq> {
        let certain = self.choices(sequence, place).into_iter().filter(|(_, m)| *m == Tri::True);
        let latest = certain.max_by(|(a, _), (b, _)| a.iter().rev().cmp(b.iter().rev()));
        latest.map(|(events, _)| events.iter().map(|i| self.events[*i].seq).collect()).unwrap_or_default()
    }

    /// Every choice that may match.
    fn choices(&self, sequence: &'p Sequence, place: &Place<'p>) -> Vec<Choice> {
        let mut choices = vec![(Vec::new(), Tri::True, place.clone())];
        for step in &sequence.steps {
            let mut longer = Vec::new();
            for (events, m, names) in &choices {
                let first = events.last().map_or(0, |last: &usize| last + 1);
                for i in first..place.at {
                    let event = &self.events[i];
                    let source = step.sources.iter().map(|s| self.of_source(s, event)).fold(Tri::False, Tri::or);
                    let mut m = m.and(source);
                    if let Some(last) = events.last() {
                        m = m.and(self.gap(&step.gap, *last, i, names));
                    }
                    if m != Tri::False {
                        m = m.and(self.test_filter(step.filter.as_deref(), &about(event, names)));
                    }
                    if m == Tri::False {
                        continue;
                    }
                    let mut events = events.clone();
                    events.push(i);
                    let names = match &step.name {
                        Some(name) => names.with(&name.text, Val::Known(Datum::Event(Arc::clone(event)))),
                        None => names.clone(),
                    };
                    longer.push((events, m, names));
                }
            }
            choices = longer;
        }
        let complete = choices.into_iter().map(|(events, m, names)| {
            let last = *events.last().unwrap();
            let m = sequence.this.as_ref().map_or(m, |gap| m.and(self.gap(gap, last, place.at, &names)));
            (events, m)
        });
        complete.filter(|(_, m)| *m != Tri::False).collect()
    }

    /// Whether two events are near enough, and nothing that may not comes between.
    fn gap(&self, gap: &'p Gap, from: usize, to: usize, names: &Place<'p>) -> Tri {
        let (first, second) = (&self.events[from], &self.events[to]);
        let turns = gap.within_turns.is_none_or(|n| second.turn - first.turn <= n);
        let events = gap.within_events.is_none_or(|n| second.ordinal - first.ordinal <= u64::from(n));
        let near = Tri::from_bool(turns && events).and(self.within(gap.within_time.as_ref(), first, second));
        if near == Tri::False {
            return near;
        }
        let Some(without) = &gap.without else { return near };
        let between = self.events[from + 1..to].iter();
        let came = between.map(|event| self.came(without, event, names)).fold(Tri::False, Tri::or);
        near.and(came.negate())
    }

    fn came(&self, without: &'p Without, event: &Arc<Event>, names: &Place<'p>) -> Tri {
        let source = without.sources.iter().map(|s| self.of_source(s, event)).fold(Tri::False, Tri::or);
        if source == Tri::False {
            return source;
        }
        source.and(self.test_filter(without.filter.as_deref(), &about(event, names)))
    }
}
