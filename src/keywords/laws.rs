//! What must hold for every category and text, checked against a slow reading of the definition.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::*;
use unicase::UniCase;
use unicode_normalization::UnicodeNormalization;

use super::{normalise::is_word, *};

fn spec(terms: &[&str]) -> CategorySpec {
    let owned = |all: &[&str]| all.iter().map(|s| (*s).to_owned()).collect();
    CategorySpec { name: "c".to_owned(), terms: owned(terms), steps: steps(&[Step::AsciiCase]), ..Default::default() }
}

fn steps(all: &[Step]) -> Steps {
    all.iter().copied().collect()
}

fn compile(spec: CategorySpec) -> (Categories, CategoryId) {
    let categories = Categories::compile(&[spec]).unwrap();
    let id = categories.id("c").unwrap();
    (categories, id)
}

/// What is found, as (text of the match, index of the term or pattern).
fn found(spec: CategorySpec, text: &str) -> Vec<(&str, usize)> {
    let (categories, id) = compile(spec);
    let matches = categories.find(text, id);
    assert_eq!(categories.mentions(text, id), !matches.is_empty(), "{text}");
    assert_eq!(categories.scan(text).contains(id), !matches.is_empty(), "{text}");
    matches
        .iter()
        .map(|m| match m.by {
            MatchedBy::Term(i) | MatchedBy::Pattern(i) => (&text[m.start..m.end], i),
        })
        .collect()
}

/// The affirmations of the airline pack.
fn affirmation() -> CategorySpec {
    let except = [
        "make sure",
        "making sure",
        "not sure",
        "please do not",
        "not proceed",
        "don't proceed",
        "don\u{2019}t proceed",
    ];
    CategorySpec {
        except: except.iter().map(|s| (*s).to_owned()).collect(),
        ..spec(&[
            "yes",
            "yep",
            "yeah",
            "yup",
            "sure",
            "confirm",
            "confirmed",
            "confirming",
            "go ahead",
            "proceed",
            "please proceed",
            "correct",
            "sounds good",
            "looks good",
            "that works",
            "okay",
            "ok",
            "absolutely",
            "definitely",
            "please do",
            "certainly",
            "of course",
            "agreed",
        ])
    }
}

#[test]
fn affirmations_of_the_airline_pack() {
    let (categories, id) = compile(affirmation());
    for yes in [
        "Yes, please go ahead.",
        "yes-man",
        "(YES)",
        "go \u{a0}\n ahead",
        "Well.\nYes, please.",
        "I'm not sure. But ok!",
        "please do",
        "sure, make sure it works",
        "Don't proceed yet... actually, proceed",
    ] {
        assert!(categories.mentions(yes, id), "{yes}");
    }
    for no in [
        "",
        "I booked it yesterday.",
        "my id is yes_please_12",
        "unsure",
        "sí",
        "ＹＥＳ",
        "Да",
        "goahead",
        "go. ahead",
        "Please make sure that it is cheap",
        "I am not  sure",
        "please do not",
        "Please DO NOT proceed",
        "don't proceed",
        "Don\u{2019}t\nproceed!",
        "yesé",
        "2yes",
    ] {
        assert!(!categories.mentions(no, id), "{no}");
    }
}

#[test]
fn overlapping_terms_and_prefixes_are_all_found() {
    assert_eq!(
        found(spec(&["please", "please proceed", "proceed", "proceed now"]), "Please  proceed now"),
        [("Please  proceed", 1), ("Please", 0), ("proceed now", 3), ("proceed", 2)]
    );
    let substring = CategorySpec { mode: MatchMode::Substring, ..spec(&["aa", "a"]) };
    assert_eq!(found(substring, "aAa"), [("aA", 0), ("a", 1), ("Aa", 0), ("A", 1), ("a", 1)]);
}

#[test]
fn nothing_overlaps_an_exception_and_its_edge_is_a_border() {
    let with = |mode, terms: &[&str], except: &[&str]| CategorySpec {
        mode,
        except: except.iter().map(|s| (*s).to_owned()).collect(),
        ..spec(terms)
    };
    use MatchMode::{Substring, Word};
    assert_eq!(found(with(Word, &["sure thing", "thing"], &["make sure"]), "make sure thing"), [("thing", 1)]);
    assert_eq!(found(with(Word, &["yes!"], &["no"]), "yes!no"), [("yes!", 0)]);
    assert_eq!(found(with(Word, &["yes!"], &["none"]), "yes!no"), []);
    assert_eq!(found(with(Substring, &["sure"], &["unsure"]), "unsure sure"), [("sure", 0)]);
    // Exceptions may overlap each other; all are taken out.
    assert_eq!(
        found(with(Word, &["proceed", "please do"], &["please do not", "not proceed"]), "please do not proceed"),
        []
    );
    // An exception that is part of a longer word is none.
    assert_eq!(found(with(Word, &["sure"], &["not sure"]), "knot sure"), [("sure", 0)]);
}

#[test]
fn patterns_see_the_normalised_text_without_the_exceptions() {
    let base = CategorySpec { patterns: vec![r"\bok(ay)?\b".to_owned(), "NO+".to_owned()], ..spec(&["sure"]) };
    assert_eq!(found(base.clone(), "é OKAY nOOo"), [("OKAY", 0), ("nOOo", 1)]);
    let except = CategorySpec { except: vec!["not ok".to_owned()], ..base.clone() };
    assert_eq!(found(except.clone(), "Not  OK, ok"), [("ok", 0)]);
    assert_eq!(found(CategorySpec { patterns: vec![r"\|".to_owned()], ..except }, "é not ok."), [("not ok", 0)]);
    let exact = CategorySpec { steps: Steps::default(), ..base.clone() };
    assert_eq!(found(exact, "OK ok"), [("ok", 0)]);
    let wide = CategorySpec { steps: steps(&[Step::Nfkc, Step::Ignorables, Step::AsciiCase]), ..base.clone() };
    assert_eq!(found(wide, "é ＯＫ\u{200b}ay!"), [("ＯＫ\u{200b}ay", 0)]);
    let look = CategorySpec { steps: steps(&[Step::Confusables]), patterns: vec![r"pay(pal)?\d+m".to_owned()], ..base };
    assert_eq!(found(look, "х раураl10m"), [("раураl10m", 0)]);
}

#[test]
fn look_alikes_do_not_move_borders() {
    let look = |terms: &[&str]| CategorySpec { steps: steps(&[Step::AsciiCase, Step::Confusables]), ..spec(terms) };
    assert_eq!(
        found(look(&["confirm"]), "CONFIRM соnfіrm c\u{200b}onfirm"),
        [("CONFIRM", 0), ("соnfіrm", 0), ("c\u{200b}onfirm", 0)]
    );
    // The skeleton of an em dash is a letter, and that of a bar too.
    assert_eq!(found(look(&["yes"]), "yes—no|yes|"), [("yes", 0), ("yes", 0)]);
    assert_eq!(found(look(&["go"]), "g0 G0 90"), [("g0", 0), ("G0", 0)]);
    // A skeleton has accents apart: they stay all the same.
    assert_eq!(found(look(&["yes"]), "yeś yes\u{301} yes"), [("yes", 0)]);
    // The skeleton of m is rn: a term does not end inside a letter.
    assert_eq!(found(look(&["or"]), "om or"), [("or", 0)]);
}

#[test]
fn case_is_folded_in_full() {
    let case = CategorySpec { steps: steps(&[Step::Case]), ..spec(&["STRASSE", "ὀδυσσεύς", "k"]) };
    assert_eq!(found(case, "Straße ὈΔΥΣΣΕΎΣ \u{212a}"), [("Straße", 0), ("ὈΔΥΣΣΕΎΣ", 1), ("\u{212a}", 2)]);
    let pattern =
        CategorySpec { steps: steps(&[Step::Case]), patterns: vec!["^É+$".to_owned()], terms: vec![], ..spec(&[]) };
    assert_eq!(found(pattern, "éÉ"), [("éÉ", 0)]);
}

#[test]
fn one_scan_answers_for_all_categories() {
    let named = |name: &str, s: CategorySpec| CategorySpec { name: name.to_owned(), ..s };
    let many: Vec<CategorySpec> =
        (0..130).map(|i| named(&format!("c{i}"), spec(&[&format!("term{i}"), "all"]))).collect();
    let categories = Categories::compile(&many).unwrap();
    let names = |text: &str| categories.scan(text).iter().map(|id| categories.name(id).to_owned()).collect::<Vec<_>>();
    assert_eq!(names("term3 TERM129 term70x"), ["c3", "c129"]);
    assert_eq!(names("All").len(), 130);
    assert!(categories.scan("nothing").is_empty());
}

#[test]
fn errors_come_all_at_once() {
    let bad = CategorySpec {
        terms: vec!["ok".to_owned(), " ok".to_owned(), "\u{200b}".to_owned(), String::new()],
        patterns: vec!["(".to_owned(), "x*".to_owned()],
        except: vec!["  ".to_owned()],
        steps: steps(&[Step::Ignorables]),
        ..spec(&[])
    };
    let empty = spec(&[]);
    let errors = Categories::compile(&[bad, empty]).unwrap_err();
    let parts: Vec<(usize, CategoryPart)> = errors.iter().map(|e| (e.category, e.part)).collect();
    use CategoryPart::{Except, Name, Pattern, Term, Whole};
    assert_eq!(
        parts,
        [
            (0, Term(1)),
            (0, Term(2)),
            (0, Term(3)),
            (0, Except(0)),
            (0, Pattern(0)),
            (0, Pattern(1)),
            (1, Name),
            (1, Whole)
        ]
    );
}

#[test]
fn terms_that_say_the_same_are_named() {
    let (categories, id) = compile(spec(&["go ahead", "x", "Go   Ahead"]));
    assert_eq!(categories.repeated_terms(), [RepeatedTerm { category: 0, first: 0, again: 2 }]);
    assert_eq!(categories.find("go ahead", id).len(), 1);
}

#[test]
fn a_large_list_is_matched_by_the_compact_automaton_alike() {
    let terms: Vec<String> = (0..60_000).map(|i| format!("term {i:x}")).collect();
    let (categories, id) = compile(CategorySpec { terms, ..spec(&[]) });
    assert_eq!(categories.find("a TERM\t1f; term zz", id).len(), 1);
    assert!(!categories.mentions("term 1fg", id));
}

/// The definition, read slowly: every place, every term. Gives runs in characters of the normalised text.
fn slow(spec: &CategorySpec, text: &[char], normalise: impl Fn(&str) -> String) -> Vec<(usize, usize, usize)> {
    let places = |term: &str| {
        let term: Vec<char> = normalise(term).chars().collect();
        let mut places = Vec::new();
        for start in 0..text.len() {
            let mut at = start;
            let mut rest = term.iter().copied().peekable();
            let fits = loop {
                let Some(c) = rest.next() else { break true };
                if c.is_whitespace() {
                    while rest.next_if(|c| c.is_whitespace()).is_some() {}
                    let from = at;
                    while at < text.len() && text[at].is_whitespace() {
                        at += 1;
                    }
                    if at == from {
                        break false;
                    }
                } else if text.get(at) == Some(&c) {
                    at += 1;
                } else {
                    break false;
                }
            };
            if fits {
                places.push((start, at));
            }
        }
        places
    };
    let word = spec.mode == MatchMode::Word;
    let word_at = |i: Option<usize>| i.and_then(|i| text.get(i)).is_some_and(|c| is_word(*c));
    let mut gone = vec![false; text.len()];
    for (start, end) in spec.except.iter().flat_map(|e| places(e)) {
        if !word || (!word_at(start.checked_sub(1)) && !word_at(Some(end))) {
            gone[start..end].fill(true);
        }
    }
    let mut out = Vec::new();
    for (index, term) in spec.terms.iter().enumerate() {
        for (start, end) in places(term) {
            let neighbour = |i: Option<usize>| word_at(i) && !gone[i.unwrap()];
            let free = gone[start..end].iter().all(|g| !g);
            if free && (!word || (!neighbour(start.checked_sub(1)) && !neighbour(Some(end)))) {
                out.push((start, end, index));
            }
        }
    }
    out.sort_by_key(|(start, end, index)| (*start, std::cmp::Reverse(*end), *index));
    out
}

/// Characters that matter at borders and in blanks.
const TEXT: &str = "[abAé_1\\-| \t\u{a0}\u{301}\u{200b}\u{2028}ﬁß]{0,40}";
const TERM: &str = "[abAé_1ß\\-]{1,3}( [ab\\-ﬁ]{1,2})?";

fn any_spec() -> impl Strategy<Value = CategorySpec> {
    (
        prop::collection::btree_set(TERM, 1..6),
        prop::collection::btree_set(TERM, 0..4),
        any::<bool>(),
        prop::collection::vec(
            prop::sample::select(vec![Step::AsciiCase, Step::Ignorables, Step::Case, Step::Nfkc]),
            0..3,
        ),
    )
        .prop_map(|(terms, except, word, all)| CategorySpec {
            name: "c".to_owned(),
            mode: if word { MatchMode::Word } else { MatchMode::Substring },
            steps: all.into_iter().collect(),
            terms: terms.into_iter().collect(),
            patterns: vec![],
            except: except.into_iter().collect(),
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn fast_and_slow_agree(mut spec in any_spec(), text in TEXT) {
        let set = spec.steps;
        let normalise = |text: &str| {
            let visible = text.chars().filter(|c| !(set.has(Step::Ignorables) && *c == '\u{200b}'));
            let composed: String = if set.has(Step::Nfkc) { visible.nfkc().collect() } else { visible.collect() };
            if set.has(Step::Case) {
                UniCase::unicode(composed).to_folded_case()
            } else if set.has(Step::AsciiCase) {
                composed.to_ascii_lowercase()
            } else {
                composed
            }
        };
        // Terms that say the same are reported under the first of them only.
        let mut seen = std::collections::HashSet::new();
        spec.terms.retain(|t| seen.insert(normalise(t)));
        let normalised = normalise(&text);
        let chars: Vec<char> = normalised.chars().collect();
        let expected = slow(&spec, &chars, normalise);
        let (categories, id) = compile(spec);
        let got = categories.find(&text, id);
        prop_assert_eq!(categories.mentions(&text, id), !expected.is_empty());
        prop_assert_eq!(categories.scan(&text).contains(id), !expected.is_empty());
        // What matched is the term again, once normalised.
        prop_assert_eq!(got.len(), expected.len());
        let runs: Vec<(usize, usize)> = chars.iter().scan(0, |at, c| { let start = *at; *at += c.len_utf8(); Some((start, *at)) }).collect();
        let whole_characters = !set.has(Step::Nfkc) && !set.has(Step::Case);
        for (m, (start, end, index)) in got.iter().zip(&expected) {
            if whole_characters {
                prop_assert_eq!(m.by, MatchedBy::Term(*index));
                prop_assert_eq!(normalise(&text[m.start..m.end]), &normalised[runs[*start].0..runs[*end - 1].1]);
                prop_assert_eq!(normalise(&text[..m.start]), &normalised[..runs[*start].0]);
            } else {
                prop_assert!(normalise(&text[m.start..m.end]).contains(&normalised[runs[*start].0..runs[*end - 1].1]));
            }
        }
    }

    #[test]
    fn look_alike_letters_change_no_answer(words in prop::collection::vec("(cope|pace|x|ocean|y|copes)", 0..8), swap in any::<u64>()) {
        let spec = CategorySpec {
            steps: steps(&[Step::AsciiCase, Step::Confusables]),
            except: vec!["x cope".to_owned()],
            ..spec(&["cope", "pace", "x ocean"])
        };
        let (categories, id) = compile(spec);
        let text = words.join(" ");
        let disguised: String = text.chars().enumerate().map(|(i, c)| {
            let other = match c { 'c' => 'с', 'o' => 'о', 'p' => 'р', 'e' => 'е', 'a' => 'а', 'x' => 'х', c => c };
            if swap >> (i % 64) & 1 == 1 { other } else { c }
        }).collect();
        let count = |t: &str| categories.find(t, id).len();
        prop_assert_eq!(count(&text), count(&disguised));
        prop_assert_eq!(categories.mentions(&text, id), categories.mentions(&disguised, id));
    }
}
