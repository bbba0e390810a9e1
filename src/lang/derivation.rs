//! The state of one index of tokens: in which earlier texts a run of tokens stands, or which runs of
//! tokens earlier events gave as values.
//!
//! Texts are kept as numbers of tokens, with the places of each token; a run is looked for at the places
//! of its rarest token. Values are kept as a tree of tokens, which a text is led through from each of its
//! tokens on. Nothing here evaluates expressions.

use std::{cmp::Reverse, collections::HashMap};

use crate::model::{Limit, Seq};

/// Fewer characters than this, in all tokens together, are never found: they stand in too many texts.
pub const LEAST: usize = 4;

/// What is known of a run of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The latest event that holds it for certain.
    pub certain: Option<Seq>,
    /// An event that may match holds it.
    pub possible: bool,
    /// The limit that kept something from being kept or looked at.
    pub incomplete: Option<Limit>,
}

/// The texts of earlier events.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    numbers: HashMap<Box<str>, usize>,
    /// By token: the texts and places that it stands at, the oldest first.
    places: Vec<Vec<(u32, u32)>>,
    texts: Vec<Text>,
}

#[derive(Clone, Debug)]
struct Text {
    seq: Seq,
    certain: bool,
    tokens: Box<[usize]>,
}

impl Texts {
    fn add(&mut self, seq: Seq, certain: bool, tokens: &[String]) -> usize {
        let mut bytes = 64;
        let text = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        let mut numbers = Vec::with_capacity(tokens.len());
        for (place, token) in tokens.iter().enumerate() {
            let number = match self.numbers.get(token.as_str()) {
                Some(number) => *number,
                None => {
                    bytes += 120 + token.len();
                    self.numbers.insert(token.as_str().into(), self.places.len());
                    self.places.push(Vec::new());
                    self.places.len() - 1
                }
            };
            if let Some(places) = self.places.get_mut(number) {
                places.push((text, u32::try_from(place).unwrap_or(u32::MAX)));
            }
            bytes += 24;
            numbers.push(number);
        }
        self.texts.push(Text { seq, certain, tokens: numbers.into() });
        bytes
    }

    /// Looks for a run of tokens, the latest texts first, at no more than so many places; gives the number of places
    /// looked at as well.
    fn find(&self, run: &[String], most: usize) -> (Found, usize) {
        let mut found = Found::default();
        let numbers: Option<Vec<usize>> = run.iter().map(|token| self.numbers.get(token.as_str()).copied()).collect();
        let Some(numbers) = numbers else { return (found, 1) };
        let places = numbers.iter().enumerate().filter_map(|(i, number)| Some((i, self.places.get(*number)?)));
        let Some((offset, places)) = places.min_by_key(|(_, places)| places.len()) else { return (found, 1) };
        let mut looked = 0;
        for (text, place) in places.iter().rev().take(most) {
            looked += 1;
            let held = usize::try_from(*text).ok().and_then(|i| self.texts.get(i));
            let start = usize::try_from(*place).ok().and_then(|place| place.checked_sub(offset));
            let (Some(held), Some(start)) = (held, start) else { continue };
            if held.tokens.get(start..start + numbers.len()) != Some(numbers.as_slice()) {
                continue;
            }
            if held.certain {
                found.certain = Some(held.seq);
                return (found, looked);
            }
            found.possible = true;
        }
        found.incomplete = (places.len() > most).then_some(Limit::LookBack);
        (found, looked)
    }
}

/// The values that earlier events gave.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// The first one is the root.
    branches: Vec<Branch>,
    /// A value of an event is not known.
    unknown: bool,
}

#[derive(Clone, Debug, Default)]
struct Branch {
    next: HashMap<Box<str>, usize>,
    /// What is known of the run that ends here.
    certain: Option<Seq>,
    possible: bool,
}

impl Values {
    fn add(&mut self, seq: Seq, certain: bool, tokens: &[String]) -> usize {
        if self.branches.is_empty() {
            self.branches.push(Branch::default());
        }
        let mut bytes = 0;
        let mut at = 0;
        for token in tokens {
            let count = self.branches.len();
            let Some(branch) = self.branches.get_mut(at) else { return bytes };
            at = match branch.next.get(token.as_str()) {
                Some(next) => *next,
                None => {
                    branch.next.insert(token.as_str().into(), count);
                    self.branches.push(Branch::default());
                    bytes += 160 + token.len();
                    count
                }
            };
        }
        if let Some(branch) = self.branches.get_mut(at) {
            if certain {
                branch.certain = Some(seq);
            } else {
                branch.possible = true;
            }
        }
        bytes
    }

    /// The runs in a text that are values, by where they stand, with what is known of each; the latest first. Gives
    /// the number of branches followed as well.
    fn within(&self, tokens: &[String], most: usize) -> (Vec<(std::ops::Range<usize>, Found)>, usize) {
        let mut runs: HashMap<usize, (std::ops::Range<usize>, Found)> = HashMap::new();
        let mut followed = 0;
        'starts: for start in 0..tokens.len() {
            let mut at = 0;
            for (i, token) in tokens.iter().enumerate().skip(start) {
                followed += 1;
                if followed > most {
                    break 'starts;
                }
                let Some(next) = self.branches.get(at).and_then(|branch| branch.next.get(token.as_str())) else {
                    break;
                };
                at = *next;
                let Some(branch) = self.branches.get(at) else { break };
                if branch.certain.is_some() || branch.possible {
                    let found = Found { certain: branch.certain, possible: branch.possible, incomplete: None };
                    runs.entry(at).or_insert((start..i + 1, found));
                }
            }
        }
        let mut runs: Vec<_> = runs.into_values().collect();
        runs.sort_by_key(|(run, found)| (Reverse(found.certain), run.start, run.end));
        (runs, followed)
    }
}

/// One index.
#[derive(Clone, Debug, Default)]
pub struct IndexState {
    texts: Texts,
    values: Values,
    /// An event has come that may match.
    any: bool,
    /// Something could not be kept any more.
    full: bool,
    bytes: usize,
}

impl IndexState {
    /// Whether an event has come that may match.
    pub fn any(&self) -> bool {
        self.any
    }

    /// Whether something could not be kept.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Whether the value of an event is not known.
    pub fn has_unknown(&self) -> bool {
        self.values.unknown
    }

    /// A rough size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// An event comes that may match.
    pub fn came(&mut self) {
        self.any = true;
    }

    /// Something cannot be kept any more.
    pub fn fill_up(&mut self) {
        self.full = true;
    }

    /// A text of an event that matches, for certain or perhaps.
    pub fn add_text(&mut self, seq: Seq, certain: bool, tokens: &[String]) {
        self.bytes += self.texts.add(seq, certain, tokens);
    }

    /// A value of an event that matches, for certain or perhaps; none if it is not known.
    pub fn add_value(&mut self, seq: Seq, certain: bool, tokens: Option<&[String]>) {
        match tokens {
            Some(tokens) if is_long(tokens) => self.bytes += self.values.add(seq, certain, tokens),
            Some(_) => {}
            None => self.values.unknown = true,
        }
    }

    /// What is known of a run of tokens in the texts, no more than so many places looked at; and how many were.
    pub fn find(&self, run: &[String], most: usize) -> (Found, usize) {
        let (mut found, looked) = self.texts.find(run, most);
        found.incomplete = found.incomplete.or(self.full.then_some(Limit::Tokens));
        (found, looked)
    }

    /// The values that stand in a text, at most so many branches followed; and how many were.
    pub fn within(&self, tokens: &[String], most: usize) -> (Vec<(std::ops::Range<usize>, Found)>, usize) {
        self.values.within(tokens, most)
    }
}

/// Whether a run of tokens has enough characters to be looked for.
pub fn is_long(tokens: &[String]) -> bool {
    tokens.iter().map(|token| token.chars().count()).sum::<usize>() >= LEAST
}
