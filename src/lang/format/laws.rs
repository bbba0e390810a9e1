//! Laid out anew, a text means the same, keeps its comments and does not change again: over random texts.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    diag::Sources,
    lang::{parse::concrete::Node, print::laws::item},
};

/// Without a look at what it means.
fn unchecked(text: &str) -> String {
    let read = concrete(text).unwrap();
    doc::print(&whole(read.items.into_iter().map(Part::Node).collect(), read.end))
}

fn formatted(text: &str) -> String {
    match format_policies(Sources::new().add("x.policy", ""), text) {
        Ok(formatted) => formatted,
        Err(e) => panic!("{e:?}\n{text}\n{}", unchecked(text)),
    }
}

/// The words and signs of a text; what stands in the quotes of a message, up to a hole, is one of them.
fn words(text: &str) -> Vec<(String, bool)> {
    fn of(part: Part, glued: bool, out: &mut Vec<(String, bool)>) {
        match part {
            Part::Token(token) => out.push((token.text, glued)),
            Part::Node(Node { kind, parts }) => {
                let template = kind == Kind::Template;
                for (i, part) in parts.into_iter().enumerate() {
                    of(part, if template { i > 0 } else { i == 0 && glued }, out);
                }
            }
        }
    }
    let mut out = Vec::new();
    for item in concrete(text).unwrap().items {
        of(Part::Node(item), false, &mut out);
    }
    out
}

/// The text with other blanks, line breaks and comments between its words; and the comments.
fn scrambled(text: &str, choices: &[u8]) -> (String, Vec<String>) {
    let mut out = String::new();
    let mut comments = Vec::new();
    let mut choices = choices.iter().cycle();
    for (word, glued) in words(text) {
        // Between a function over events and its parenthesis the grammar takes no comment.
        let gap = if glued { 8 } else { choices.next().unwrap() % if word == "(" { 4 } else { 8 } };
        match gap {
            0 | 1 => out.push(' '),
            2 => out.push_str("\n  "),
            3 => out.push_str(" \t\r\n\n "),
            4..=6 => {
                let comment = format!("# {} \" {{ /", comments.len());
                out.push_str(["  ", "\n ", "\n\n\n"][usize::from(gap) - 4]);
                out.push_str(&comment);
                out.push_str(" \n ");
                comments.push(comment);
            }
            7 => out.push_str("   "),
            _ => {}
        }
        out.push_str(&word);
    }
    (out, comments)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_layout_is_the_layout_of_itself_and_keeps_comments(
        items in vec(item(), 1..4),
        choices in vec(any::<u8>(), 1..40),
    ) {
        let text: String = items.iter().map(|item| format!("{}\n", print_item(item))).collect();
        let (scrambled, kept) = scrambled(&text, &choices);
        let once = formatted(&scrambled);
        prop_assert_eq!(&formatted(&once), &once, "{}", scrambled);
        prop_assert_eq!(concrete(&once).unwrap().comments(), kept, "{}", once);
        prop_assert!(once.lines().all(|line| line.trim_end() == line), "{}", once);
        prop_assert!(!once.contains("\n\n\n") && !once.starts_with('\n'), "{}", once);
    }

    #[test]
    fn without_comments_there_is_one_layout_for_all_blanks(item in item(), choices in vec(0u8..2, 1..40)) {
        let text = print_item(&item);
        let (scrambled, _) = scrambled(&text, &choices);
        prop_assert_eq!(formatted(&scrambled), formatted(&words(&text).iter().fold(String::new(), |mut out, (word, glued)| {
            out.push_str(if *glued { "" } else { "   " });
            out + word
        })));
    }
}
