//! The state of one fact: what is held under which key, since which event, and what may be missing.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::val::{Datum, Val, Why};
use crate::model::{Seq, Value};

/// What a fact holds.
#[derive(Clone, Debug, Default)]
pub struct FactState {
    /// True once something that could have filled it could not be used.
    pub uncertain: bool,
    /// By the order in which keys were first filled.
    entries: BTreeMap<u64, Entry>,
    next: u64,
    by_key: HashMap<Vec<Value>, u64>,
    /// One for each index of the compiled fact.
    indexes: Vec<Index>,
    bytes: usize,
}

/// What is held under one key.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: Vec<Value>,
    /// The value: the last one, or the set of all of them.
    pub value: Val,
    /// The event that last wrote it.
    pub seq: Seq,
    indexed: Vec<Option<Value>>,
    /// Rough size of what was collected after the first value.
    collected: usize,
}

impl Entry {
    fn weight(&self) -> usize {
        let value = self.value.as_json().map_or(96, Value::weight);
        160 + self.key.iter().map(Value::weight).sum::<usize>() + value + self.collected
    }

    /// The key as a variable sees it: itself, or a list if it has several columns.
    pub fn key_val(&self) -> Val {
        match self.key.as_slice() {
            [only] => Val::json(only.clone()),
            several => Val::json(Value::list(several.to_vec())),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Index {
    by: HashMap<Value, BTreeSet<u64>>,
    unknown: BTreeSet<u64>,
}

impl FactState {
    /// What is held under a key.
    pub fn get(&self, key: &[Value]) -> Option<&Entry> {
        self.entries.get(self.by_key.get(key)?)
    }

    /// Every entry, in the order of first filling.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The entries whose indexed value is this one, or unknown: the first ones, in the order of first
    /// filling. Those beyond are not looked at, however many there are.
    pub fn indexed(&self, index: usize, value: &Value, most: usize) -> Vec<&Entry> {
        let Some(index) = self.indexes.get(index) else { return self.entries().take(most).collect() };
        let known = index.by.get(value).into_iter().flatten().take(most);
        let mut at: Vec<u64> = known.chain(index.unknown.iter().take(most)).copied().collect();
        at.sort_unstable();
        at.truncate(most);
        at.into_iter().filter_map(|i| self.entries.get(&i)).collect()
    }

    /// Writes a value; `indexed` are the values of the indexes for it.
    pub fn fill(&mut self, key: Vec<Value>, value: Val, seq: Seq, indexed: Vec<Option<Value>>) {
        let at = match self.by_key.get(&key) {
            Some(at) => *at,
            None => {
                let at = self.next;
                self.next += 1;
                self.by_key.insert(key.clone(), at);
                at
            }
        };
        self.unindex(at);
        self.indexes.resize_with(self.indexes.len().max(indexed.len()), Index::default);
        for (index, value) in self.indexes.iter_mut().zip(&indexed) {
            match value {
                Some(value) => index.by.entry(value.clone()).or_default().insert(at),
                None => index.unknown.insert(at),
            };
        }
        let entry = Entry { key, value, seq, indexed, collected: 0 };
        self.bytes += entry.weight();
        if let Some(old) = self.entries.insert(at, entry) {
            self.bytes = self.bytes.saturating_sub(old.weight());
        }
    }

    /// A rough size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds to the set under a key.
    pub fn collect(&mut self, key: Vec<Value>, value: Value, seq: Seq) {
        let held = self.by_key.get(&key).and_then(|at| self.entries.get_mut(at));
        if let Some(Entry { value: Val::Known(Datum::Set(items, _)), seq: last, collected: weight, .. }) = held {
            let bytes = value.weight();
            *last = seq;
            if Arc::make_mut(items).insert(value) {
                *weight += bytes;
                self.bytes += bytes;
            }
            return;
        }
        let set = Val::Known(Datum::Set(Arc::new(BTreeSet::from([value])), None));
        self.fill(key, set, seq, Vec::new())
    }

    /// Removes what is held under a key.
    pub fn forget(&mut self, key: &[Value]) {
        if let Some(at) = self.by_key.remove(key) {
            self.unindex(at);
            if let Some(gone) = self.entries.remove(&at) {
                self.bytes = self.bytes.saturating_sub(gone.weight());
            }
        }
    }

    fn unindex(&mut self, at: u64) {
        let Some(entry) = self.entries.get(&at) else { return };
        for (index, value) in self.indexes.iter_mut().zip(&entry.indexed) {
            match value {
                Some(value) => {
                    if let Some(set) = index.by.get_mut(value) {
                        set.remove(&at);
                        if set.is_empty() {
                            index.by.remove(value);
                        }
                    }
                }
                None => {
                    index.unknown.remove(&at);
                }
            }
        }
    }
}

/// The value of an entry as a reader sees it: a set is open once absence is uncertain.
pub fn seen_value(value: &Val, open: Option<Why>) -> Val {
    match (value, open) {
        (Val::Known(Datum::Set(items, None)), Some(why)) => Val::Known(Datum::Set(items.clone(), Some(why))),
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_gives_the_first_entries_of_a_value_and_of_none() {
        let mut fact = FactState::default();
        let text = |s: &str| Value::string(s);
        for i in 0..10u64 {
            let value = match i % 3 {
                0 => Some(text("a")),
                1 => None,
                _ => Some(text("b")),
            };
            fact.fill(vec![Value::Number(i.into())], Val::bool(true), i, vec![value]);
        }
        let seqs = |value: &str, most| fact.indexed(0, &text(value), most).iter().map(|e| e.seq).collect::<Vec<_>>();
        assert_eq!(seqs("a", 9), [0, 1, 3, 4, 6, 7, 9]);
        assert_eq!(seqs("a", 3), [0, 1, 3]);
        assert_eq!(seqs("c", 2), [1, 4]);
    }
}
