//! One automaton for all terms that share a normalisation.

use std::{collections::BTreeMap, ops::Range};

use aho_corasick::{Anchored, BuildError, MatchKind, StartKind, automaton::StateID, dfa::DFA, nfa::contiguous::NFA};

use super::{
    normalise::Prepared,
    spec::{Step, Steps},
};

/// Bytes of normalised terms that a pack may have.
pub(super) const MAX_TERM_BYTES: usize = 4 << 20;

/// Up to this many bytes of terms the automaton is a full table (fast, about 200 bytes a byte of term),
/// beyond it a compact one.
const MAX_TABLE_BYTES: usize = 400_000;

/// What a term is to a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// A term, with its index.
    Term(u32),
    /// A phrase that is taken out first.
    Except,
}

impl Role {
    /// Whether both are terms or both exceptions.
    pub(super) fn same_kind(self, other: Role) -> bool {
        matches!((self, other), (Role::Term(_), Role::Term(_)) | (Role::Except, Role::Except))
    }
}

/// A category's claim on a term.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) category: u32,
    pub(super) role: Role,
}

/// One occurrence of a term in a text; its place is worked out only when asked for.
pub(super) struct Occurrence<'t> {
    text: &'t Prepared<'t>,
    needle: &'t Needle,
    end: usize,
}

impl Occurrence<'_> {
    /// The bytes of the prepared text.
    pub(super) fn run(&self) -> Range<usize> {
        self.needle.start(self.text.text(), self.end)..self.end
    }

    /// Whether a word may start at its start.
    pub(super) fn border_before(&self) -> bool {
        self.text.border_before(self.run().start)
    }

    /// Whether a word may end at its end.
    pub(super) fn border_after(&self) -> bool {
        self.text.border_after(self.end)
    }
}

struct Needle {
    text: Box<str>,
    owners: Vec<Owner>,
}

enum Machine {
    Table(DFA),
    Compact(NFA),
}

/// All terms that share a normalisation.
pub(super) struct Automaton {
    steps: Steps,
    needles: Vec<Needle>,
    machine: Machine,
}

impl std::fmt::Debug for Automaton {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Automaton").field("steps", &self.steps).field("needles", &self.needles.len()).finish()
    }
}

impl Automaton {
    /// Builds it from terms in the form of [`super::normalise::needle`].
    pub(super) fn build(steps: Steps, terms: BTreeMap<String, Vec<Owner>>) -> Result<Automaton, BuildError> {
        let bytes: usize = terms.keys().map(String::len).sum();
        let fold = Automaton::folds_itself(steps);
        let machine = if bytes <= MAX_TABLE_BYTES {
            let mut builder = DFA::builder();
            builder.match_kind(MatchKind::Standard).start_kind(StartKind::Unanchored);
            Machine::Table(builder.ascii_case_insensitive(fold).prefilter(false).build(terms.keys())?)
        } else {
            let mut builder = NFA::builder();
            builder.match_kind(MatchKind::Standard);
            Machine::Compact(builder.ascii_case_insensitive(fold).prefilter(false).build(terms.keys())?)
        };
        let needles = terms.into_iter().map(|(text, owners)| Needle { text: text.into_boxed_str(), owners }).collect();
        Ok(Automaton { steps, needles, machine })
    }

    /// True if ASCII case is left to the automaton, which saves a copy of every text. Skeletons are not
    /// what they were in the other case, so there the text is folded.
    fn folds_itself(steps: Steps) -> bool {
        steps.has(Step::AsciiCase) && !steps.has(Step::Confusables)
    }

    /// A text made ready for [`Automaton::visit`].
    pub(super) fn prepare<'a>(&self, source: &'a str) -> Prepared<'a> {
        Prepared::new(source, self.steps, !Automaton::folds_itself(self.steps))
    }

    /// Reads a text once and reports every occurrence of every term to each of its owners, in the order
    /// of their ends, until `report` returns false.
    pub(super) fn visit<'t>(&'t self, text: &'t Prepared<'t>, mut report: impl FnMut(&Owner, &Occurrence<'t>) -> bool) {
        let mut at_match = |index: usize, end: usize| {
            let Some(needle) = self.needles.get(index) else { return true };
            let occurrence = Occurrence { text, needle, end };
            needle.owners.iter().all(|owner| report(owner, &occurrence))
        };
        match &self.machine {
            Machine::Table(table) => walk(table, text.text(), &mut at_match),
            Machine::Compact(compact) => walk(compact, text.text(), &mut at_match),
        }
    }
}

impl Needle {
    /// Where an occurrence that ends at `end` starts: back over the term, a blank being all the white
    /// space that stands there.
    fn start(&self, haystack: &str, end: usize) -> usize {
        let mut at = end;
        for (i, part) in self.text.rsplit(' ').enumerate() {
            if i > 0 {
                at = haystack.get(..at).map_or(at, |t| t.trim_end().len());
            }
            at = at.saturating_sub(part.len());
        }
        at
    }
}

/// Feeds a text to an automaton, each run of white space as one blank.
#[inline(always)]
fn walk<A: aho_corasick::automaton::Automaton>(
    machine: &A,
    haystack: &str,
    at_match: &mut impl FnMut(usize, usize) -> bool,
) {
    // An automaton that is built for unanchored search has a start state for it.
    let Ok(mut state) = machine.start_state(Anchored::No) else { return };
    let bytes = haystack.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let mut fed = byte;
        let mut next = at + 1;
        // The bytes that white space can start with; a lone blank is the common case.
        let lone_blank = byte == b' ' && bytes.get(next).is_some_and(u8::is_ascii_graphic);
        if !lone_blank && matches!(byte, 9..=13 | 32 | 0xc2 | 0xe1..=0xe3) {
            let rest = haystack.get(at..).unwrap_or_default();
            let blank = rest.len() - rest.trim_start().len();
            if blank > 0 {
                fed = b' ';
                next = at + blank;
            }
        }
        state = machine.next_state(Anchored::No, state, fed);
        if machine.is_special(state) && machine.is_match(state) && !report(machine, state, next, at_match) {
            return;
        }
        at = next;
    }
}

#[cold]
#[inline(never)]
fn report<A: aho_corasick::automaton::Automaton>(
    machine: &A,
    state: StateID,
    end: usize,
    at_match: &mut impl FnMut(usize, usize) -> bool,
) -> bool {
    (0..machine.match_len(state)).all(|i| at_match(machine.match_pattern(state, i).as_usize(), end))
}
