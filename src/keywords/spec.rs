//! What a category says, and what can be wrong with it.

/// A keyword category, as written in a pack.
///
/// A term occurs in a text where its normalised form stands in the normalised text; a blank in a term
/// stands for one or more Unicode white-space characters. With [`MatchMode::Word`] the characters just
/// before and after must not be word characters (a letter, a number or `_`; combining marks are none).
/// Look-alike mapping is not allowed to move such a border: neighbours are judged before it.
///
/// Every occurrence of every `except` phrase, found the same way, is taken out first: no term overlaps
/// one, a neighbour inside one is no word character, and patterns see `|` in its place. Occurrences of
/// different phrases may overlap; all are taken out.
///
/// A pattern is a regular expression on the normalised text. Case: under `ascii_case` its ASCII letters
/// match in both cases, under `case` all letters do. Under `confusables` it sees a text in which each
/// non-ASCII look-alike of one ASCII letter or sign is that ASCII character (skeletons proper would
/// break patterns: that of `m` is `rn`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CategorySpec {
    /// The name that rules use.
    pub name: String,
    /// Whole words or anywhere.
    pub mode: MatchMode,
    /// How texts and terms are brought together before they are compared.
    pub steps: Steps,
    /// The terms.
    pub terms: Vec<String>,
    /// Regular expressions (the syntax of the `regex` crate, linear time).
    pub patterns: Vec<String>,
    /// Phrases that are taken out of the text first.
    pub except: Vec<String>,
}

/// Where a term may stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MatchMode {
    /// Between two borders of words.
    #[default]
    Word,
    /// Anywhere.
    Substring,
}

/// One step of normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// ASCII letters are compared without case.
    AsciiCase,
    /// All letters are compared without case (full Unicode case folding).
    Case,
    /// Compatibility forms are one: NFKC.
    Nfkc,
    /// Look-alikes are one: UTS 39 skeletons. Implies [`Step::Ignorables`], as skeletons do.
    Confusables,
    /// Default-ignorable characters, such as zero-width spaces, are not there.
    Ignorables,
}

impl Step {
    /// Every step with its word in a pack.
    pub const ALL: [(Step, &'static str); 5] = [
        (Step::AsciiCase, "ascii_case"),
        (Step::Case, "case"),
        (Step::Nfkc, "nfkc"),
        (Step::Confusables, "confusables"),
        (Step::Ignorables, "ignorables"),
    ];

    fn bit(self) -> u8 {
        match self {
            Step::AsciiCase => 1,
            Step::Case => 2,
            Step::Nfkc => 4,
            Step::Confusables => 8,
            Step::Ignorables => 16,
        }
    }
}

/// A set of steps. They are always taken in the same order: ignorables, NFKC, case, look-alikes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Steps(u8);

impl Steps {
    /// Whether a step is in the set.
    pub fn has(self, step: Step) -> bool {
        self.0 & step.bit() != 0
    }

    /// The set with one more step.
    #[must_use]
    pub fn with(self, step: Step) -> Steps {
        Steps(self.0 | step.bit())
    }

    /// The set without a step.
    #[must_use]
    pub(super) fn without(self, step: Step) -> Steps {
        Steps(self.0 & !step.bit())
    }

    /// The smallest set with the same effect or, where one step contains another, with both.
    pub(super) fn canonical(self) -> Steps {
        let mut steps = self;
        if steps.has(Step::Case) {
            steps = steps.without(Step::AsciiCase);
        }
        if steps.has(Step::Confusables) {
            steps = steps.with(Step::Ignorables);
        }
        steps
    }
}

impl FromIterator<Step> for Steps {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Steps {
        steps.into_iter().fold(Steps::default(), Steps::with)
    }
}

/// What is wrong with a category.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct CategoryError {
    /// Index of the category in the list given.
    pub category: usize,
    /// Which part of it.
    pub part: CategoryPart,
    /// What is wrong.
    pub problem: Problem,
}

/// A part of a category; numbers are indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CategoryPart {
    /// Its name.
    Name,
    /// The category as a whole.
    Whole,
    /// One of the terms.
    Term(usize),
    /// One of the patterns.
    Pattern(usize),
    /// One of the exceptions.
    Except(usize),
}

/// What can be wrong with a part of a category.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Another category has the same name.
    #[error("the name is used by an earlier category")]
    NameTwice,
    /// Neither terms nor patterns.
    #[error("a category without terms or patterns never matches")]
    Empty,
    /// A term that is empty, or of which normalisation leaves nothing.
    #[error("nothing is left of the term after normalisation")]
    Nothing,
    /// A term that begins or ends with white space, which says nothing about borders.
    #[error("the term begins or ends with white space")]
    Blank,
    /// A regular expression that does not compile; with the words of its compiler, on one line.
    #[error("the regular expression cannot be used: {0}")]
    Pattern(String),
    /// A regular expression that matches the empty text, and so every text.
    #[error("the regular expression matches the empty text, and so every text")]
    MatchesNothing,
    /// The terms of the pack are too many or too long in all.
    #[error("more than {} MiB of terms in one pack", super::automaton::MAX_TERM_BYTES >> 20)]
    TooLarge,
}

/// Two terms of one category that are the same after normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatedTerm {
    /// Index of the category.
    pub category: usize,
    /// Index of the term that came first.
    pub first: usize,
    /// Index of the term that says the same.
    pub again: usize,
}
