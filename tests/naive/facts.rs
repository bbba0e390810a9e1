//! Facts: what earlier events have filled.

use std::{collections::BTreeSet, rc::Rc, sync::Arc};

use probity::{
    diag::Span,
    lang::{
        ast::{Argument, Binder, Expr, ExprKind, FactItem, Pattern, Source},
        val::{Datum, Tri, Val, Why, WhyKind},
    },
    model::{EventKind, Seq, Value},
};

use super::{
    eval::Naive,
    names::{Bound, Names, Place},
};

/// What a fact holds.
#[derive(Clone, Default)]
pub struct FactState {
    /// In the order in which the keys were first filled.
    pub entries: Vec<Entry>,
    /// True if what is not held may have been filled by an event that could not be used.
    pub uncertain: bool,
}

/// What a fact holds under a key.
#[derive(Clone)]
pub struct Entry {
    /// The key; empty for a fact without one.
    pub key: Vec<Value>,
    /// What is held.
    pub held: Held,
    /// The event that wrote it last.
    pub written: Seq,
}

/// A value, or the set of what was collected.
#[derive(Clone)]
pub enum Held {
    Last(Val),
    Collected(BTreeSet<Value>),
}

/// A fact read under a key.
pub struct FactRead {
    pub fact: usize,
    pub key: Result<Vec<Value>, Why>,
}

/// What an event does to a fact.
enum Feed {
    Nothing,
    /// It could not be used.
    Unusable,
    /// It writes a value.
    Value(Vec<Value>, Val),
}

impl<'p> Naive<'p> {
    /// What a fact holds when the event at `before` is judged.
    pub fn held(&self, fact: usize, before: usize) -> Rc<FactState> {
        if let Some(state) = self.held.borrow().get(&(fact, before)) {
            return Rc::clone(state);
        }
        let mut state = FactState::default();
        for at in 0..before {
            self.take_in(fact, at, &mut state);
        }
        let state = Rc::new(state);
        self.held.borrow_mut().insert((fact, before), Rc::clone(&state));
        state
    }

    /// The names of the facts that cannot use an event.
    pub fn unusable(&self, at: usize) -> Vec<Arc<str>> {
        let facts = self.program.facts.iter().filter(|fact| matches!(self.feed(fact, at), Feed::Unusable));
        let mut names: Vec<Arc<str>> = facts.map(|fact| Arc::clone(&fact.name.text)).collect();
        for forget in &self.program.forgets {
            if self.forgets(&forget.from, forget.when.as_ref(), &forget.key, at).is_err() {
                names.push(Arc::clone(&forget.name.text));
            }
        }
        names
    }

    /// Takes one event into a fact.
    fn take_in(&self, fact: usize, at: usize, state: &mut FactState) {
        let item = &self.program.facts[fact];
        let event = &self.events[at];
        if event.is_unpaired() && item.from.iter().any(|source| source.kinds.contains(&EventKind::Result)) {
            state.uncertain = true;
        }
        match self.feed(item, at) {
            Feed::Nothing => {}
            Feed::Unusable => state.uncertain = true,
            Feed::Value(key, value) => {
                let place = state.entries.iter().position(|entry| entry.key == key);
                let mut held = place.map(|i| state.entries[i].held.clone());
                held = Some(match (item.collects, held) {
                    (false, _) => Held::Last(value),
                    (true, held) => {
                        let mut set = match held {
                            Some(Held::Collected(set)) => set,
                            _ => BTreeSet::new(),
                        };
                        set.insert(value.as_key(item.value.span).unwrap().clone());
                        Held::Collected(set)
                    }
                });
                let entry = Entry { key, held: held.unwrap(), written: event.seq };
                match place {
                    Some(i) => state.entries[i] = entry,
                    None => state.entries.push(entry),
                }
            }
        }
        for forget in self.program.forgets.iter().filter(|forget| forget.name.text == item.name.text) {
            match self.forgets(&forget.from, forget.when.as_ref(), &forget.key, at) {
                Ok(None) => {}
                Ok(Some(key)) => state.entries.retain(|entry| entry.key != key),
                Err(()) => state.uncertain = true,
            }
        }
    }

    /// What an event does to a fact, facts that it reads being as they were before the event.
    fn feed(&self, fact: &'p FactItem, at: usize) -> Feed {
        let place = Place::new(at);
        let event = &self.events[at];
        if !fact.from.iter().any(|source| self.is_of(source, event)) {
            return Feed::Nothing;
        }
        match self.test_filter(fact.when.as_ref(), &place) {
            Tri::True => {}
            Tri::False => return Feed::Nothing,
            Tri::Unknown(_) => return Feed::Unusable,
        }
        let reads_json = fact.key.iter().chain([&fact.value]).any(|e| self.reads_json(e, &place.names));
        if reads_json && event.kind() == EventKind::Result && event.json().is_none() {
            return Feed::Unusable;
        }
        let Ok(key) = self.key(&fact.key, &place) else { return Feed::Unusable };
        match self.eval(&fact.value, &place) {
            Val::Absent | Val::Unknown(_) => Feed::Unusable,
            value if fact.collects && value.as_key(fact.value.span).is_err() => Feed::Unusable,
            value => Feed::Value(key, value),
        }
    }

    /// The key that an event takes from a fact, if it takes one.
    fn forgets(
        &self,
        from: &'p [Source],
        when: Option<&'p Expr>,
        key: &'p [Expr],
        at: usize,
    ) -> Result<Option<Vec<Value>>, ()> {
        let place = Place::new(at);
        if !from.iter().any(|source| self.is_of(source, &self.events[at])) {
            return Ok(None);
        }
        match self.test_filter(when, &place) {
            Tri::True => self.key(key, &place).map(Some).map_err(|_| ()),
            Tri::False => Ok(None),
            Tri::Unknown(_) => Err(()),
        }
    }

    fn key(&self, parts: &'p [Expr], place: &Place<'p>) -> Result<Vec<Value>, Why> {
        parts.iter().map(|part| self.eval(part, place).as_key(part.span).cloned()).collect()
    }

    // ---- reading ----

    /// The fact and key that an expression reads, if it is a fact read: `fact[key]`, the bare name of
    /// a fact without key, or a name that stands for one of them.
    pub fn fact_read(&self, e: &'p Expr, place: &Place<'p>) -> Option<FactRead> {
        match &e.kind {
            ExprKind::Index(base, keys) => {
                let ExprKind::Name(name) = &base.kind else { return None };
                let fact = self.fact_named(name, &place.names)?;
                assert_eq!(self.program.facts[fact].key.len(), keys.len(), "{name} has another number of keys");
                let key = self.key(keys, place).map_err(|why| Why { key: true, ..why });
                Some(FactRead { fact, key })
            }
            ExprKind::Name(name) => match place.names.get(name) {
                Some(Bound::Expr(e, names)) => self.fact_read(e, &place.with_names(names.clone())),
                Some(Bound::Value(_)) => None,
                None => {
                    let fact = self.fact_named(name, &place.names)?;
                    self.program.facts[fact].key.is_empty().then_some(FactRead { fact, key: Ok(Vec::new()) })
                }
            },
            _ => None,
        }
    }

    /// The fact that a binder walks, if its collection is the name of a fact that has a key.
    pub fn fact_walked(&self, collection: &'p Expr, place: &Place<'p>) -> Option<usize> {
        let ExprKind::Name(name) = &collection.kind else { return None };
        if let Some(Bound::Expr(e, names)) = place.names.get(name) {
            return self.fact_walked(e, &place.with_names(names.clone()));
        }
        let fact = self.fact_named(name, &place.names)?;
        (!self.program.facts[fact].key.is_empty()).then_some(fact)
    }

    fn fact_named(&self, name: &str, names: &Names<'p>) -> Option<usize> {
        if names.get(name).is_some() { None } else { self.program.fact(name) }
    }

    /// The value of a fact read.
    pub fn read(&self, read: &FactRead, place: &Place<'p>) -> Val {
        let key = match &read.key {
            Ok(key) => key,
            Err(why) => return Val::Unknown(*why),
        };
        let item = &self.program.facts[read.fact];
        let state = self.held(read.fact, place.at);
        match state.entries.iter().find(|entry| entry.key == *key) {
            Some(entry) => self.entry_value(entry, &state, item.name.span),
            None if item.collects => {
                let open = state.uncertain.then_some(Why::new(WhyKind::Unusable, item.name.span));
                Val::Known(Datum::Set(Arc::new(BTreeSet::new()), open))
            }
            None => Val::Absent,
        }
    }

    /// What an entry holds, as a value.
    pub fn entry_value(&self, entry: &Entry, state: &FactState, span: Span) -> Val {
        match &entry.held {
            Held::Last(value) => value.clone(),
            Held::Collected(set) => {
                let open = state.uncertain.then_some(Why::new(WhyKind::Unusable, span));
                Val::Known(Datum::Set(Arc::new(set.clone()), open))
            }
        }
    }

    /// Whether something has filled the key.
    pub fn seen(&self, read: &FactRead, place: &Place<'p>) -> Tri {
        let key = match &read.key {
            Ok(key) => key,
            Err(why) => return Tri::Unknown(*why),
        };
        let state = self.held(read.fact, place.at);
        if state.entries.iter().any(|entry| entry.key == *key) {
            Tri::True
        } else if state.uncertain {
            Tri::Unknown(Why::new(WhyKind::Unusable, self.program.facts[read.fact].name.span))
        } else {
            Tri::False
        }
    }

    /// The event that last wrote what a fact read gives, if the key is filled.
    pub fn written(&self, read: &FactRead, place: &Place<'p>) -> Option<Seq> {
        let key = read.key.as_ref().ok()?;
        let state = self.held(read.fact, place.at);
        state.entries.iter().find(|entry| entry.key == *key).map(|entry| entry.written)
    }

    // ---- what an expression reads ----

    /// Whether an expression reads the feeding event's `json`, definitions expanded.
    fn reads_json(&self, e: &'p Expr, names: &Names<'p>) -> bool {
        let mut found = false;
        match &e.kind {
            ExprKind::Name(name) => match names.get(name) {
                Some(Bound::Expr(e, names)) => return self.reads_json(e, &names.clone()),
                Some(Bound::Value(_)) => return false,
                None => return **name == *"json",
            },
            ExprKind::Apply(name, arguments) => {
                if let Some(def) = self.program.defs.get(&name.text) {
                    let inside = self.call(def, arguments, &Place { at: 0, names: names.clone() });
                    return self.reads_json(&def.body, &inside.names);
                }
                for argument in arguments {
                    if let Argument::Expr(e) = argument {
                        found |= self.reads_json(e, names);
                    }
                }
            }
            ExprKind::Quantifier(_, binder, body) => {
                let inside = hide(binder, names);
                found |= self.reads_json(body, &inside) | self.binder_reads_json(binder, names);
            }
            ExprKind::Comprehension { element, binder, .. } => {
                let inside = hide(binder, names);
                found |= self.reads_json(element, &inside) | self.binder_reads_json(binder, names);
            }
            ExprKind::Fold(_, element, binder) => {
                let inside = hide(binder, names);
                found |= element.as_deref().is_some_and(|e| self.reads_json(e, &inside));
                found |= self.binder_reads_json(binder, names);
            }
            ExprKind::History(_, element, pattern) => {
                found |= element.as_deref().is_some_and(|e| self.reads_json(e, names));
                found |= self.pattern_reads_json(pattern, names);
            }
            other => other.for_each_child(&mut |child| found |= self.reads_json(child, names)),
        }
        found
    }

    fn binder_reads_json(&self, binder: &'p Binder, names: &Names<'p>) -> bool {
        let filter = binder.filter.as_deref().is_some_and(|e| self.reads_json(e, &hide(binder, names)));
        filter || self.reads_json(&binder.collection, names)
    }

    fn pattern_reads_json(&self, pattern: &'p Pattern, names: &Names<'p>) -> bool {
        let filter = pattern.filter.as_deref().is_some_and(|e| self.reads_json(e, names));
        filter || pattern.since.as_deref().is_some_and(|p| self.pattern_reads_json(p, names))
    }
}

/// The names inside a binder: what it binds hides what is outside.
fn hide<'p>(binder: &'p Binder, names: &Names<'p>) -> Names<'p> {
    let mut inside = names.with(&binder.value.text, Bound::Value(Val::Absent));
    if let Some(key) = &binder.key {
        inside = inside.with(&key.text, Bound::Value(Val::Absent));
    }
    inside
}
