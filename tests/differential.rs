//! Random programs on random traces: the engine and the naive interpreter must say the same of every
//! event, evidence and messages included.
//!
//! `PROBITY_DIFFERENTIAL_CASES` (default 4000) says how many cases are run, `PROBITY_DIFFERENTIAL_SEED`
//! (default 0) where the seeds begin. A case that fails is made smaller and printed with its seed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod naive;
mod differential {
    pub mod compare;
    pub mod generate;
    pub mod random;
    pub mod reduce;
    pub mod trace;
    pub mod tree;
}

use std::panic::{AssertUnwindSafe, catch_unwind};

use differential::{
    compare::{Outcome, run},
    generate,
    random::Random,
    reduce::Case,
    trace::trace,
};
use probity::model::Limits;

fn case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let items = generate::program(&mut random);
    let clock = random.chance(10).then_some(20);
    let messages = trace(&mut random);
    let limits = if random.chance(35) { small(&mut random) } else { Limits::default() };
    Case { items, messages, clock, limits }
}

/// Limits that are often reached.
fn small(random: &mut Random) -> Limits {
    let mut below = |most: usize| 1 + random.index(most);
    let mut limits = Limits {
        look_back: below(6),
        openings: below(3),
        fact_entries: below(4),
        tokens: below(80),
        ..Limits::default()
    };
    match below(10) {
        1 => limits.event_steps = below(400),
        2 => limits.state_bytes = below(40_000),
        _ => {}
    }
    limits
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// What a case shows if it fails: how the evaluators differ, or the words of a panic.
fn failure(case: &Case) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| run(case))) {
        Ok(Outcome::Same(_) | Outcome::Refused(_)) => None,
        Ok(Outcome::Differ(how)) => Some(how),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Some(text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default())
        }
    }
}

#[test]
fn the_engine_says_what_the_naive_interpreter_says() {
    let (cases, first) = (setting("PROBITY_DIFFERENTIAL_CASES", 4000), setting("PROBITY_DIFFERENTIAL_SEED", 0));
    let (mut refused, mut fired, mut undecided, mut unusable) = (Vec::new(), 0, 0, 0);
    // A panic of either evaluator is reported below, with its case.
    std::panic::set_hook(Box::new(|_| {}));
    let mut failed = None;
    for seed in first..first + cases {
        let case = case(seed);
        match catch_unwind(AssertUnwindSafe(|| run(&case))) {
            Ok(Outcome::Refused(words)) => refused.push((seed, words)),
            Ok(Outcome::Same(verdicts)) => {
                for verdict in verdicts {
                    fired += verdict.firings.len();
                    undecided += verdict.undecided.len();
                    unusable += verdict.unusable.len();
                }
            }
            _ => {
                failed = Some((seed, case.reduce(&|case| failure(case).is_some())));
                break;
            }
        }
    }
    let _ = std::panic::take_hook();
    if let Some((seed, case)) = failed {
        let how = failure(&case).unwrap_or_default();
        let (clock, limits) = (case.clock, case.limits);
        panic!("seed {seed}, clock {clock:?}\n{limits:?}\n{}\n{}\n{how}", case.source(), case.messages.join("\n"));
    }
    println!(
        "{cases} cases: {fired} firings, {undecided} undecided, {unusable} unusable, {} programs refused",
        refused.len()
    );
    let first = refused.first().map(|(seed, words)| format!("seed {seed}\n{words}"));
    assert!(
        refused.len() as u64 * 20 <= cases,
        "too many programs are refused, the first: {}",
        first.unwrap_or_default()
    );
    assert!(fired as u64 > cases / 2 && undecided as u64 > cases / 2, "the cases say too little");
}

#[test]
fn the_layout_of_random_programs_says_the_same_and_is_its_own_layout() {
    let formatted = |text: &str| {
        let file = probity::diag::Sources::new().add("x.policy", text);
        probity::lang::format_policies(file, text).unwrap_or_else(|e| panic!("{e:?}\n{text}"))
    };
    let meaning = |text: &str| {
        let (module, problems) = probity::lang::parse(probity::diag::Sources::new().add("x.policy", text), text);
        assert!(problems.is_empty(), "{text}");
        probity::lang::meaning(&[module])
    };
    let (cases, first) = (setting("PROBITY_DIFFERENTIAL_CASES", 4000), setting("PROBITY_DIFFERENTIAL_SEED", 0));
    for seed in first..first + cases / 40 {
        let source = case(seed).source();
        // A comment behind each line of the program, and one before it.
        let commented: String =
            source.lines().enumerate().map(|(n, line)| format!("# before {n}\n{line} # behind {n}\n")).collect();
        for text in [&source, &commented] {
            let once = formatted(text);
            assert_eq!(formatted(&once), once, "seed {seed}\n{text}");
            assert_eq!(meaning(&once), meaning(text), "seed {seed}\n{once}");
            let kept = |word: &str| once.matches(word).count();
            let lines = if text == &commented { source.lines().count() } else { 0 };
            assert_eq!((kept("# before "), kept("# behind ")), (lines, lines), "seed {seed}\n{once}");
        }
    }
}
