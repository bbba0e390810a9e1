//! What a search costs, counted in looks at characters: no text makes it cost more than so many looks per character.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::{EmailWords, PhoneWords, email, normal::Normal, phone, words::Words};

/// Looks per character that no text may exceed. Prose takes about 5, the worst near-matches below about half of this.
const MOST: u64 = 160;

/// What looks like an address or a number until it does not.
const PIECES: [&str; 28] = [
    "a",
    "4",
    "@",
    "{",
    "}",
    "(",
    ")",
    "+",
    ".",
    "-",
    "/",
    " ",
    "\"",
    "\n",
    " at ",
    " dot ",
    "1 ",
    "12 34 ",
    "1-2.3/4-5 ",
    "(67) ",
    "+1 (415 5550 ",
    "415-555-013 ",
    "jane.doe@",
    "x@a.bc:x",
    "&#64;",
    "\u{200b}",
    "[at]",
    "order 00 ",
];

fn looks(text: &str) -> (u64, u64) {
    let normal = Normal::of(text);
    let mut found = Vec::new();
    let words = Words::new(&EmailWords::english(), &PhoneWords::english());
    email::find(&normal, &words, &mut found);
    phone::find(&normal, None, &words, &mut found);
    (normal.reads.get(), u64::try_from(text.len()).unwrap())
}

fn assert_bounded(text: &str) {
    let (looks, length) = looks(text);
    assert!(looks <= MOST * length + 1_000, "{looks} looks at {length} characters: {:.80}", text);
}

#[test]
fn one_piece_again_and_again_costs_no_more() {
    for piece in PIECES {
        assert_bounded(&piece.repeat(20_000 / piece.len()));
    }
    for (before, after) in [("{", "}@"), ("a.", "@b"), ("x", " at y dot "), ("(", "+"), ("1", " ")] {
        assert_bounded(&(before.repeat(60) + after).repeat(200));
    }
}

proptest! {
    #[test]
    fn random_near_matches_cost_no_more(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 1..12),
        times in 1..400_usize,
    ) {
        assert_bounded(&pieces.concat().repeat(times));
    }
}
