//! Normalisation: the text that terms are looked for in, and the text that patterns are run on.

use std::{ops::Range, sync::OnceLock};

use regex_syntax::hir::{Class, HirKind};
use unicase::UniCase;
use unicode_normalization::{IsNormalized, UnicodeNormalization, char as ucd, is_nfc_quick};
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use super::{
    mapped::{Builder, Mapped},
    spec::{Step, Steps},
};

/// A letter, a number or `_`.
pub(super) fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    matches!(c.general_category_group(), GeneralCategoryGroup::Letter | GeneralCategoryGroup::Number)
}

/// True if the character before a byte offset is a word character.
pub(super) fn word_before(text: &str, at: usize) -> bool {
    text.get(..at).and_then(|t| t.chars().next_back()).is_some_and(is_word)
}

/// True if the character at a byte offset is a word character.
pub(super) fn word_after(text: &str, at: usize) -> bool {
    text.get(at..).and_then(|t| t.chars().next()).is_some_and(is_word)
}

/// A text made ready to look for terms in: `plain` has everything but look-alikes mapped, and tells where
/// words end; `skeleton`, if asked for, is made from it and is what is searched.
pub(super) struct Prepared<'a> {
    plain: Mapped<'a>,
    skeleton: Option<Mapped<'static>>,
}

impl<'a> Prepared<'a> {
    /// Prepares a text. `fold_ascii` is false where the automaton itself ignores ASCII case.
    pub(super) fn new(source: &'a str, steps: Steps, fold_ascii: bool) -> Prepared<'a> {
        let plain_steps = if fold_ascii { steps } else { steps.without(Step::AsciiCase) };
        let plain = plain(source, plain_steps);
        let skeleton = steps.has(Step::Confusables).then(|| skeletons(plain.text(), steps));
        Prepared { plain, skeleton }
    }

    /// The text that is searched.
    pub(super) fn text(&self) -> &str {
        self.skeleton.as_ref().map_or(self.plain.text(), Mapped::text)
    }

    /// True if no word character ends just before `at`, and `at` is not inside a character.
    pub(super) fn border_before(&self, at: usize) -> bool {
        match &self.skeleton {
            None => !word_before(self.plain.text(), at),
            Some(skeleton) => skeleton.is_edge(at) && !word_before(self.plain.text(), skeleton.source_of_start(at)),
        }
    }

    /// True if no word character starts at `at`, and `at` is not inside a character.
    pub(super) fn border_after(&self, at: usize) -> bool {
        match &self.skeleton {
            None => !word_after(self.plain.text(), at),
            Some(skeleton) => skeleton.is_edge(at) && !word_after(self.plain.text(), skeleton.source_of_end(at)),
        }
    }

    /// The bytes of the source behind a run of the searched text.
    pub(super) fn source(&self, run: &Range<usize>) -> Range<usize> {
        let (start, end) = match &self.skeleton {
            None => (run.start, run.end),
            Some(skeleton) => (skeleton.source_of_start(run.start), skeleton.source_of_end(run.end)),
        };
        self.plain.source_of_start(start)..self.plain.source_of_end(end)
    }
}

/// A term in the form in which it is searched: normalised, each run of white space one blank.
pub(super) fn needle(term: &str, steps: Steps) -> String {
    let prepared = Prepared::new(term, steps, true);
    let mut out = String::with_capacity(prepared.text().len());
    let mut in_blank = false;
    for c in prepared.text().chars() {
        let blank = c.is_whitespace();
        if !(blank && in_blank) {
            out.push(if blank { ' ' } else { c });
        }
        in_blank = blank;
    }
    out
}

/// The text that patterns see: `gaps` (ascending, apart) taken out with a `|` each, the rest normalised as
/// [`super::CategorySpec`] says.
pub(super) fn for_patterns<'a>(source: &'a str, steps: Steps, gaps: &[Range<usize>]) -> Mapped<'a> {
    // Unicode case is the pattern's own business.
    let steps = steps.without(Step::Case);
    if steps == Steps::default() && gaps.is_empty() {
        return Mapped::unchanged(source);
    }
    let mut builder = Builder::default();
    let mut at = 0;
    for gap in gaps {
        push_for_patterns(&mut builder, source, at..gap.start, steps);
        builder.push(gap.clone(), "|", false);
        at = gap.end;
    }
    push_for_patterns(&mut builder, source, at..source.len(), steps);
    builder.finish()
}

fn push_for_patterns(builder: &mut Builder, source: &str, range: Range<usize>, steps: Steps) {
    let text = source.get(range.clone()).unwrap_or_default();
    let plain = plain(text, steps);
    let look_alikes = steps.has(Step::Confusables);
    let mut buffer = [0; 4];
    for (at, c) in plain.text().char_indices() {
        let out = if look_alikes { ascii_look_alike(c) } else { c };
        let run = plain.source_of_start(at)..plain.source_of_end(at + c.len_utf8());
        let encoded = out.encode_utf8(&mut buffer);
        let linear = run.len() == encoded.len();
        builder.push(range.start + run.start..range.start + run.end, encoded, linear);
    }
}

/// Everything but look-alikes; capitals that look like capitals of ASCII, where case is folded, are an exception.
fn plain(source: &str, steps: Steps) -> Mapped<'_> {
    let nfkc = steps.has(Step::Nfkc) && !source.is_ascii();
    let ignorables = steps.has(Step::Ignorables) && !source.is_ascii();
    let folds = steps.has(Step::Case) || (steps.has(Step::AsciiCase) && source.bytes().any(|b| b.is_ascii_uppercase()));
    if !nfkc && !ignorables && !folds {
        return Mapped::unchanged(source);
    }
    let mut builder = Builder::default();
    let mut rest = source.char_indices().filter(|(_, c)| !(ignorables && is_ignorable(*c))).peekable();
    let mut cluster = String::new();
    while let Some((start, first)) = rest.next() {
        let mut end = start + first.len_utf8();
        let alone = |next: Option<&(usize, char)>| !nfkc || next.is_none_or(|(_, next)| next.is_ascii());
        if first.is_ascii() && alone(rest.peek()) {
            let folded = if folds { first.to_ascii_lowercase() } else { first };
            builder.push(start..end, folded.encode_utf8(&mut [0; 4]), true);
            continue;
        }
        cluster.clear();
        cluster.push(first);
        while let Some((at, next)) = rest.next_if(|(_, next)| nfkc && !starts_cluster(*next)) {
            cluster.push(next);
            end = at + next.len_utf8();
        }
        let made: String = if nfkc { cluster.nfkc().collect() } else { cluster.clone() };
        let made = fold(capitals(made, steps), steps);
        let same_bytes = made.len() == end - start;
        let one_for_one =
            if cluster.chars().nth(1).is_none() { made.chars().nth(1).is_none() } else { made == cluster };
        builder.push(start..end, &made, same_bytes && one_for_one);
    }
    builder.finish()
}

/// True if canonical or compatibility normalisation never joins this character to what stands before it.
fn starts_cluster(c: char) -> bool {
    if c.is_ascii() {
        return true;
    }
    let mut first = None;
    ucd::decompose_compatible(c, |d| first = first.or(Some(d)));
    let first = first.unwrap_or(c);
    ucd::canonical_combining_class(first) == 0 && is_nfc_quick(std::iter::once(first)) == IsNormalized::Yes
}

/// Where both case and look-alikes go, a capital becomes what it looks like before its case is folded: a Greek
/// capital epsilon looks like E, the small one like no letter of ASCII.
fn capitals(text: String, steps: Steps) -> String {
    let folds = steps.has(Step::Case) || steps.has(Step::AsciiCase);
    if !folds || !steps.has(Step::Confusables) || text.is_ascii() {
        return text;
    }
    text.chars().map(|c| if c.is_uppercase() { ascii_look_alike(c) } else { c }).collect()
}

fn fold(mut text: String, steps: Steps) -> String {
    if text.is_ascii() {
        if steps.has(Step::Case) || steps.has(Step::AsciiCase) {
            text.make_ascii_lowercase();
        }
        text
    } else if steps.has(Step::Case) {
        UniCase::unicode(text).to_folded_case()
    } else {
        if steps.has(Step::AsciiCase) {
            text.make_ascii_lowercase();
        }
        text
    }
}

/// UTS 39 skeletons, cluster by cluster: a base character with the marks that follow it. Case is folded
/// once more, since the skeleton of a lower-case letter or a digit can be an upper-case letter.
fn skeletons(plain: &str, steps: Steps) -> Mapped<'static> {
    let mut builder = Builder::default();
    let mut rest = plain.char_indices().peekable();
    while let Some((start, first)) = rest.next() {
        let mut end = start + first.len_utf8();
        while let Some((at, next)) = rest.next_if(|(_, next)| continues_skeleton(*next)) {
            end = at + next.len_utf8();
        }
        let cluster = plain.get(start..end).unwrap_or_default();
        let made = fold(unicode_security::skeleton(cluster).collect(), steps);
        let alone = end == start + first.len_utf8();
        builder.push(start..end, &made, alone && made == cluster);
    }
    builder.finish()
}

/// True if the skeleton of a character begins with a mark, which belongs to the cluster before it.
fn continues_skeleton(c: char) -> bool {
    if c.is_ascii() {
        return false;
    }
    let mut buffer = [0; 4];
    match unicode_security::skeleton(c.encode_utf8(&mut buffer)).next() {
        Some(first) => ucd::canonical_combining_class(first) != 0 || ucd::canonical_combining_class(c) != 0,
        None => true,
    }
}

/// The one ASCII character, other than a digit, that a non-ASCII character looks like; else the
/// character itself.
fn ascii_look_alike(c: char) -> char {
    if c.is_ascii() || c.general_category_group() == GeneralCategoryGroup::Number {
        return c;
    }
    let prototype = |c: char| {
        let mut buffer = [0; 4];
        let mut skeleton = unicode_security::skeleton(c.encode_utf8(&mut buffer));
        skeleton.next().filter(|p| p.is_ascii() && skeleton.next().is_none())
    };
    // Of a capital, the look-alike of its small letter: the prototype of every form of I is a small l.
    let mut small = c.to_lowercase();
    match (small.next(), small.next()) {
        (Some(lower), None) if lower != c => {
            prototype(lower).map(|p| p.to_ascii_uppercase()).or_else(|| prototype(c)).unwrap_or(c)
        }
        _ => prototype(c).unwrap_or(c),
    }
}

/// Default_Ignorable_Code_Point.
fn is_ignorable(c: char) -> bool {
    static RANGES: OnceLock<Vec<(char, char)>> = OnceLock::new();
    if c.is_ascii() {
        return false;
    }
    let ranges =
        RANGES.get_or_init(|| match regex_syntax::parse(r"\p{Default_Ignorable_Code_Point}").map(|h| h.into_kind()) {
            Ok(HirKind::Class(Class::Unicode(class))) => class.iter().map(|r| (r.start(), r.end())).collect(),
            // The property's name is known to the Unicode tables that are built in; a test sees to it.
            _ => Vec::new(),
        });
    let at = ranges.partition_point(|(_, end)| *end < c);
    ranges.get(at).is_some_and(|(start, _)| *start <= c)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn steps(all: &[Step]) -> Steps {
        all.iter().copied().collect()
    }

    #[test]
    fn a_word_character_is_a_letter_a_number_or_an_underscore() {
        for c in ['a', 'Z', '0', '_', 'é', 'я', 'あ', '٣', '½', 'ー'] {
            assert!(is_word(c), "{c}");
        }
        for c in ['-', ' ', '\u{301}', '|', '’', '€', '\u{200b}', '😀'] {
            assert!(!is_word(c), "{c:?}");
        }
    }

    #[test]
    fn ignorables_are_the_default_ignorable_code_points() {
        for c in ['\u{ad}', '\u{200b}', '\u{200d}', '\u{feff}', '\u{e0041}', '\u{3164}'] {
            assert!(is_ignorable(c), "{c:?}");
        }
        for c in ['a', ' ', '\u{301}', '\u{a0}', '\u{2010}'] {
            assert!(!is_ignorable(c), "{c:?}");
        }
    }

    #[test]
    fn each_step_does_what_it_says_and_nothing_else() {
        let text = "ÉK\u{200b} ﬁ ß аΙ";
        assert_eq!(plain(text, Steps::default()).text(), text);
        assert_eq!(plain(text, steps(&[Step::AsciiCase])).text(), "Ék\u{200b} ﬁ ß аΙ");
        assert_eq!(plain(text, steps(&[Step::Case])).text(), "ék\u{200b} fi ss аι");
        assert_eq!(plain(text, steps(&[Step::Nfkc])).text(), "ÉK\u{200b} fi ß аΙ");
        assert_eq!(plain(text, steps(&[Step::Ignorables])).text(), "ÉK ﬁ ß аΙ");
        let prepared = Prepared::new("раураl", steps(&[Step::Confusables]), true);
        assert_eq!(prepared.text(), "paypal");
        let capitals = [Step::Confusables, Step::Case];
        let prepared = Prepared::new("\u{395}\u{39c}А\u{399}L", steps(&capitals), true);
        assert_eq!(prepared.text(), Prepared::new("email", steps(&capitals), true).text());
    }

    #[test]
    fn look_alikes_for_patterns_leave_ascii_and_digits_alone() {
        let shown: String = "m1I| аІі٠é".chars().map(ascii_look_alike).collect();
        assert_eq!(shown, "m1I| aIi٠é");
    }

    #[test]
    fn ways_back_lead_to_whole_characters() {
        let source = "x\u{200b}ﬁe\u{301}y";
        let prepared = Prepared::new(source, steps(&[Step::Nfkc, Step::Ignorables]), true);
        assert_eq!(prepared.text(), "xfiéy");
        assert_eq!(source.get(prepared.source(&(0..1))), Some("x"));
        assert_eq!(source.get(prepared.source(&(1..2))), Some("ﬁ"));
        assert_eq!(source.get(prepared.source(&(2..3))), Some("ﬁ"));
        assert_eq!(source.get(prepared.source(&(3..5))), Some("e\u{301}"));
        assert_eq!(source.get(prepared.source(&(5..6))), Some("y"));
        assert_eq!(source.get(prepared.source(&(0..6))), Some(source));
    }

    proptest::proptest! {
        #[test]
        fn cluster_by_cluster_is_the_same_as_all_at_once(text in "(\\PC|[\u{300}-\u{315}\u{1100}-\u{11ff}\u{ac00}-\u{ac1f}\u{ffa0}-\u{ffdc}\u{9be}\u{9c7}ﬁß㎏\u{3164}]){0,12}") {
            let whole: String = text.nfkc().collect();
            let made = plain(&text, steps(&[Step::Nfkc]));
            proptest::prop_assert_eq!(made.text(), whole);
            let visible: String = text.chars().filter(|c| !is_ignorable(*c)).collect();
            let whole: String = unicode_security::skeleton(&visible).collect();
            let prepared = Prepared::new(&text, steps(&[Step::Confusables, Step::Ignorables]), true);
            proptest::prop_assert_eq!(prepared.text(), whole);
        }

        #[test]
        fn every_run_has_a_way_back(text in "(\\PC|[\u{300}-\u{315}ﬁß㎏\u{200b}]){0,12}", set in 0u8..32) {
            let set: Steps = Step::ALL.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, (s, _))| *s).collect();
            let set = set.canonical();
            let prepared = Prepared::new(&text, set, true);
            let mut last = 0;
            for (at, c) in prepared.text().char_indices() {
                let run = prepared.source(&(at..at + c.len_utf8()));
                proptest::prop_assert!(text.get(run.clone()).is_some_and(|t| !t.is_empty()));
                proptest::prop_assert!(run.start >= last || run.end >= last);
                last = run.start;
            }
        }
    }
}
