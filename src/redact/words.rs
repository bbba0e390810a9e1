//! Words that tell addresses and numbers from lookalikes, in a form that is quick to ask.

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

fn letter(word: &[u8]) -> usize {
    match word.first() {
        Some(first) if first.is_ascii_alphabetic() => usize::from(first.to_ascii_lowercase() - b'a'),
        _ => LETTERS - 1,
    }
}

/// The bit of a word's length.
fn length(word: &[u8]) -> u64 {
    1 << word.len().min(63)
}

/// Words that are known, and what each says.
#[derive(Debug)]
struct Known<T> {
    /// By their first letters.
    words: [Vec<(Box<str>, T)>; LETTERS],
    /// Which lengths these have, a bit each: most words of a text are none of them.
    lengths: [u64; LETTERS],
}

impl<T: Copy> Known<T> {
    /// Of words that are given twice the first one counts.
    fn new<'a>(words: impl Iterator<Item = (&'a String, T)>) -> Known<T> {
        let mut known = Known { words: std::array::from_fn(|_| Vec::new()), lengths: [0; LETTERS] };
        for (word, says) in words {
            let letter = letter(word.as_bytes());
            let (Some(words), Some(lengths)) = (known.words.get_mut(letter), known.lengths.get_mut(letter)) else {
                continue;
            };
            words.push((word.as_str().into(), says));
            *lengths |= length(word.as_bytes());
        }
        known
    }

    /// What a word says, whatever its case.
    fn get(&self, word: &str) -> Option<T> {
        match word.is_ascii() {
            true => self.ascii(word.as_bytes()),
            false => self.ascii(word.to_lowercase().as_bytes()),
        }
    }

    /// What a word says, whatever the case of its ASCII letters.
    fn ascii(&self, word: &[u8]) -> Option<T> {
        let letter = letter(word);
        if self.lengths.get(letter)? & length(word) == 0 {
            return None;
        }
        let lower = |known: &str| {
            known.len() == word.len() && known.bytes().zip(word).all(|(known, b)| known == b.to_ascii_lowercase())
        };
        self.words.get(letter)?.iter().find(|(known, _)| lower(known)).map(|(_, says)| *says)
    }
}

/// The words of all detectors that ask for words.
#[derive(Debug)]
pub(super) struct Words {
    /// What announces a telephone number, or another one.
    announced: Known<Told>,
    /// What makes a number behind it a quantity.
    units: Known<()>,
    /// What the last label of an address is not.
    file_suffixes: Known<()>,
    version_names: Known<()>,
    spelled_domains: Known<()>,
}

impl Words {
    /// The words of a pack.
    pub(super) fn new(email: &EmailWords, phone: &PhoneWords) -> Words {
        let set = |words: &[String]| Known::new(words.iter().map(|word| (word, ())));
        // A cue comes before all others.
        let telling = [(&phone.cues, Told::Cue), (&phone.others, Told::Other), (&phone.weak_others, Told::WeakOther)];
        let announced = telling.into_iter().flat_map(|(words, told)| words.iter().map(move |word| (word, told)));
        Words {
            announced: Known::new(announced),
            units: set(&phone.units),
            file_suffixes: set(&email.file_suffixes),
            version_names: set(&email.version_names),
            spelled_domains: set(&email.spelled_domains),
        }
    }

    /// What a word announces, whatever its case.
    pub(super) fn announced(&self, word: &str) -> Option<Told> {
        self.announced.get(word)
    }

    /// Whether a word makes the number before it a quantity.
    pub(super) fn is_unit(&self, word: &str) -> bool {
        self.units.get(word).is_some()
    }

    /// Whether a file's name ends in that.
    pub(super) fn is_file_suffix(&self, word: &str) -> bool {
        self.file_suffixes.get(word).is_some()
    }

    /// Whether versions have that name.
    pub(super) fn is_version_name(&self, word: &str) -> bool {
        self.version_names.get(word).is_some()
    }

    /// Whether a spelled-out address may end in that.
    pub(super) fn is_spelled_domain(&self, word: &str) -> bool {
        self.spelled_domains.get(word).is_some()
    }
}
