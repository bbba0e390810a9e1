//! Words that tell addresses and numbers from lookalikes, in a form that is quick to ask.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
};

use super::{EmailWords, PhoneWords};

/// What a word before a telephone number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A telephone number follows.
    Cue,
    /// Another number follows.
    Other,
    /// Another number follows unless a cue stands before the word.
    WeakOther,
}

/// First letters of words: those of ASCII, and any other.
const LETTERS: usize = 27;
/// More bytes than an ASCII word has that announces a number.
const SHORT: usize = 64;

fn letter(word: &str) -> usize {
    match word.as_bytes().first() {
        Some(first) if first.is_ascii_alphabetic() => usize::from(first.to_ascii_lowercase() - b'a'),
        _ => LETTERS - 1,
    }
}

/// The bit of a word's length.
fn length(word: &str) -> u64 {
    1 << word.len().min(SHORT - 1)
}

/// The words are a pack's, and few: nobody who is redacted can make them collide.
type Map<T> = HashMap<Box<str>, T, BuildHasherDefault<Fnv>>;
type Set = HashSet<Box<str>, BuildHasherDefault<Fnv>>;

/// The hash of Fowler, Noll and Vo (FNV-1a): for short words faster than one that nobody can foresee.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The words of all detectors that ask for words.
#[derive(Debug)]
pub(super) struct Words {
    /// What announces a telephone number, or another one.
    announced: Map<Told>,
    /// Which lengths these words have, a bit each, by their first letter: most words of a text are none of them.
    lengths: [u64; LETTERS],
    /// What makes a number behind it a quantity.
    units: Set,
    /// What the last label of an address is not.
    file_suffixes: Set,
    version_names: Set,
    spelled_domains: Set,
}

impl Words {
    /// The words of a pack.
    pub(super) fn new(email: &EmailWords, phone: &PhoneWords) -> Words {
        let set = |words: &[String]| words.iter().map(|word| word.as_str().into()).collect();
        // The last one that is put in wins: a cue before all.
        let telling = [(&phone.weak_others, Told::WeakOther), (&phone.others, Told::Other), (&phone.cues, Told::Cue)];
        let announced =
            telling.into_iter().flat_map(|(words, told)| words.iter().map(move |word| (word.as_str().into(), told)));
        let announced: Map<Told> = announced.collect();
        let mut lengths = [0; LETTERS];
        for word in announced.keys() {
            if let Some(lengths) = lengths.get_mut(letter(word)) {
                *lengths |= length(word);
            }
        }
        Words {
            announced,
            lengths,
            units: set(&phone.units),
            file_suffixes: set(&email.file_suffixes),
            version_names: set(&email.version_names),
            spelled_domains: set(&email.spelled_domains),
        }
    }

    /// What a word announces, whatever its case.
    pub(super) fn announced(&self, word: &str) -> Option<Told> {
        if word.is_ascii() {
            let lengths = self.lengths.get(letter(word)).copied().unwrap_or_default();
            if lengths & length(word) == 0 {
                return None;
            }
            let mut lower = [0; SHORT];
            let lower = lower.get_mut(..word.len())?;
            lower.copy_from_slice(word.as_bytes());
            lower.make_ascii_lowercase();
            return self.announced.get(std::str::from_utf8(lower).ok()?).copied();
        }
        self.announced.get(word.to_lowercase().as_str()).copied()
    }

    /// Whether a word makes the number before it a quantity.
    pub(super) fn is_unit(&self, word: &str) -> bool {
        self.units.contains(word)
    }

    /// Whether a file's name ends in that.
    pub(super) fn is_file_suffix(&self, word: &str) -> bool {
        self.file_suffixes.contains(word)
    }

    /// Whether versions have that name.
    pub(super) fn is_version_name(&self, word: &str) -> bool {
        self.version_names.contains(word)
    }

    /// Whether a spelled-out address may end in that.
    pub(super) fn is_spelled_domain(&self, word: &str) -> bool {
        self.spelled_domains.contains(word)
    }
}
