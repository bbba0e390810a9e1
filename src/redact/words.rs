//! Words that tell addresses and numbers from lookalikes, in a form that is quick to ask.

use std::collections::{HashMap, HashSet};

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

/// The words of all detectors that ask for words.
#[derive(Debug)]
pub(super) struct Words {
    /// What announces a telephone number, or another one.
    announced: HashMap<Box<str>, Told>,
    /// What makes a number behind it a quantity.
    units: HashSet<Box<str>>,
    /// What the last label of an address is not.
    file_suffixes: HashSet<Box<str>>,
    version_names: HashSet<Box<str>>,
    spelled_domains: HashSet<Box<str>>,
}

impl Words {
    /// The words of a pack.
    pub(super) fn new(email: &EmailWords, phone: &PhoneWords) -> Words {
        let set = |words: &[String]| words.iter().map(|word| word.as_str().into()).collect();
        // The last one that is put in wins: a cue before all.
        let telling = [(&phone.weak_others, Told::WeakOther), (&phone.others, Told::Other), (&phone.cues, Told::Cue)];
        let announced =
            telling.into_iter().flat_map(|(words, told)| words.iter().map(move |word| (word.as_str().into(), told)));
        Words {
            announced: announced.collect(),
            units: set(&phone.units),
            file_suffixes: set(&email.file_suffixes),
            version_names: set(&email.version_names),
            spelled_domains: set(&email.spelled_domains),
        }
    }

    /// What a word in lower case announces.
    pub(super) fn announced(&self, word: &str) -> Option<Told> {
        self.announced.get(word).copied()
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
