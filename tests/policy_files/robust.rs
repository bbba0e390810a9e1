//! Deep, long, random and exploding files.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    sync::{Arc, OnceLock},
    thread,
};

use probity::{
    diag::{Severity, Style},
    lang::{State, step},
    model::{Args, Event, EventBody, Limits, Value, json},
};
use proptest::prelude::*;

use super::read;

/// The stack of a test's thread: what a worker thread of a service has.
const STACK: usize = 2 << 20;

/// The events that a program judges, so that deep expressions are evaluated as well.
fn events() -> Vec<Arc<Event>> {
    let call = Arc::new(Event {
        seq: 1,
        ordinal: 1,
        turn: 1,
        time: None,
        body: EventBody::Call {
            tool: Arc::from("pay"),
            args: Args::Object(json::parse(br#"{"a": 1, "l": [1, [2]], "s": "yes"}"#).unwrap()),
            id: None,
            text: Arc::from(""),
            index: 0,
        },
    });
    let event = |seq, body| Arc::new(Event { seq, ordinal: seq, turn: u32::try_from(seq).unwrap(), time: None, body });
    vec![
        event(0, EventBody::User { text: Arc::from("yes") }),
        call.clone(),
        event(
            2,
            EventBody::Result {
                call: Some(call),
                text: Arc::from(r#"{"a": 1}"#),
                is_error: false,
                json: OnceLock::from(Some(Value::Null)),
            },
        ),
    ]
}

/// Reads, compiles and runs a file on a thread with a small stack; gives the codes of its errors, each
/// once.
fn survives(text: String) -> String {
    let work = move || {
        let (program, problems, sources) = read("deep.policy", &text);
        if let Some(program) = program {
            let mut state = State::default();
            for event in events() {
                let _ = step(&program, &mut state, &event, &Limits::default());
            }
        }
        let shown = problems.render(&sources, Style::Plain);
        assert!(shown.len() < 1 << 20, "{} bytes of diagnostics", shown.len());
        let errors = problems.into_iter().filter(|problem| problem.severity == Severity::Error);
        let codes: BTreeSet<&str> = errors.map(|problem| problem.code.text()).collect();
        codes.into_iter().collect::<Vec<_>>().join(" ")
    };
    let thread = thread::Builder::new().stack_size(STACK).spawn(work).unwrap();
    thread.join().unwrap()
}

fn policy(condition: &str) -> String {
    format!("policy A \"a\" {{ severity 1 on call pay deny if {condition} }}\n")
}

/// Ways to nest an expression: what stands before, the innermost, what stands after.
const NESTS: &[(&str, &str, &str)] = &[
    ("(", "args.a == 1", ")"),
    ("not ", "args.a == 1", ""),
    ("not (", "args.a == 1", ")"),
    ("(not not not (", "args.a == 1", ")) "),
    ("known(", "args.a", ")"),
    ("len([", "1", "]) == len([1]) and 1 == len([1])"),
    ("known([", "1", "])"),
    ("known({", "1", "})"),
    ("known(args.l[len([", "1", "])])"),
    ("1 == ", "1", ""),
    ("- ", "1", " == 1"),
    ("-(", "1", ")"),
    ("any x in args.l: ", "x == 1", ""),
    ("all x in args.l where x is number: ", "x == 1", ""),
    ("any x in args.l where ", "args.a == 1", ": x == 1"),
    ("none k, v in args: not not ", "k == v", ""),
    ("known([x for x in [", "1", "] where x == 1])"),
    ("known({x for x in {", "1", "} where (any y in args.l: y == x)})"),
    ("count(x in [", "1", "] where x == 1) == 1"),
    ("0 < sum(x for x in [1] where 1 == ", "1", ")"),
    ("min(", "1", ", 2)"),
    ("min(1, ", "1", ")"),
    ("max(", "1", ", 2) "),
    ("sum(", "1", " for x in args.l)"),
    ("once(call pay where once(", "call", "))"),
    ("once(call since (", "call", "))"),
    ("count(call pay where it.args.a == (", "args.a", ")) > 0"),
    ("first(", "call", ")"),
    ("last(", "1", ").args.a"),
    ("extract(", "text", ", /a/)"),
    ("(\")\" == ", "\"\"", ")"),
    ("(\"#\" == ", "\"\"", ")"),
    ("(\"\\\")\" == ", "\"\"", ")"),
    ("(text matches /\\)[)]\"/ or ", "known(1)", ")"),
    ("(args.matches / 2 == ", "1", "/ 2)"),
    ("(# )\n", "args.a == 1", ")"),
    ("args.a default ", "1", ""),
    ("args.a default (", "1", ")"),
    ("args.a in ", "args.l", ""),
    ("args.a in {", "1", "}"),
    ("known(args.l[", "0", "])"),
];

/// Ways to go on for long without nesting.
const CHAINS: &[(&str, &str, &str)] = &[
    ("args.a", " + args.a", " == 1"),
    ("args.a", " - args.a", " == 1"),
    ("args.a", " * 2", " == 1"),
    ("args.l", " concat [1]", " == []"),
    ("args.l", " union [1]", " == {}"),
    ("args.a", " default args.b", " == 1"),
    ("args", ".a", " == 1"),
    ("args", "[0]", " == 1"),
    ("args.l", "[*]", " == 1"),
    ("args.a", " as number", " == 1"),
    ("args.a == 1", " or args.a == 1", ""),
    ("args.a == 1", " and args.a == 1", ""),
    ("args.a == 1", " and not args.a == 1 or args.a == 2", ""),
    ("args.a in [1", ", 1", "]"),
    ("args.a in {1", ", 1", "}"),
    ("args.a == max(1", ", 1", ")"),
    ("args.a == \"", "((((", "\""),
    ("text matches /a", "(a)", "/"),
    ("once(call pay", " or call pay", ")"),
    ("once(call in {pay", ", pay", "})"),
    ("(args.a == 1)", " or (any x in args.l: x == 1)", ""),
];

/// Every nest at every depth from shallow to absurd, closed and left open.
fn nests(depth: usize) {
    for (before, inner, after) in NESTS {
        let condition = format!("{}{inner}{}", before.repeat(depth), after.repeat(depth));
        survives(policy(&condition));
        survives(policy(&format!("{}{inner}", before.repeat(depth))));
        survives(format!("def d(x) = {condition}\nfact f[{condition}] = 1 from call\n"));
        survives(format!("{} message \"{{{condition}}}\" }}", policy("1 == 1").trim_end().trim_end_matches('}')));
        survives(policy(&format!("once(call pay where {condition})")));
    }
}

#[test]
fn nesting_up_to_the_limit() {
    for depth in [1, 2, 31, 32, 33, 62, 63, 64, 65] {
        nests(depth);
    }
}

#[test]
fn nesting_beyond_the_limit() {
    nests(130);
    nests(300);
    nests(30_000);
}

#[test]
fn chains() {
    for (first, again, last) in CHAINS {
        for times in [1, 100, 200, 253, 254, 255, 256, 260, 10_000] {
            let condition = format!("{first}{}{last}", again.repeat(times));
            survives(policy(&condition));
            survives(policy(&format!("(any x in args.l: x == 1 and ({condition}))")));
        }
    }
}

/// A file of `items` around a policy that uses them.
fn with_policy(items: impl IntoIterator<Item = String>, condition: &str) -> String {
    let mut text: String = items.into_iter().collect();
    text.push_str(&policy(condition));
    text
}

#[test]
fn definitions_that_expand() {
    // Each doubles the one before.
    let doubling = |n: u32| (1..n).map(|i| format!("def d{i}(x) = d{}(x) + d{}(x)\n", i - 1, i - 1));
    let base = || ["def d0(x) = x\n".to_owned()].into_iter();
    assert_eq!(survives(with_policy(base().chain(doubling(8)), "d7(args.a) == 128")), "");
    assert_eq!(survives(with_policy(base().chain(doubling(60)), "d59(args.a) == 1")), "P0318");
    // Unused ones are compiled as well.
    assert!(survives(base().chain(doubling(60)).collect()).contains("P0318"));
    // An argument doubles within an argument.
    let twice = "def twice(x) = x + x\n".to_owned();
    let nested = |n: usize| format!("{}args.a{} == 1", "twice(".repeat(n), ")".repeat(n));
    assert_eq!(survives(with_policy([twice.clone()], &nested(8))), "");
    assert_eq!(survives(with_policy([twice], &nested(40))), "P0318");
    // A long line of definitions, each a little deeper.
    let line = |n: u32| (1..n).map(|i| format!("def d{i}(x) = - d{}(x)\n", i - 1));
    assert_eq!(survives(with_policy(base().chain(line(100)), "d99(args.a) == 1")), "");
    assert!(survives(with_policy(base().chain(line(9_000)), "d8999(args.a) == 1")).contains("P0202"));
    // Deep definitions, nested.
    let deep = format!("def deep(x) = {}x\n", "-".repeat(200));
    assert_eq!(survives(with_policy([deep.clone()], "deep(args.a) == 1")), "");
    assert_eq!(survives(with_policy([deep], "deep(deep(args.a)) == 1")), "P0202");
    // One that uses itself through others, and many that would.
    let circle = (0..500).map(|i| format!("def d{i}(x) = d{}(x)\n", (i + 1) % 500));
    assert!(survives(with_policy(circle, "d0(args.a) == 1")).contains("P0"));
}

#[test]
fn a_history_function_in_a_deep_place() {
    let deep = |n: usize| {
        format!("{}once(call pay where {}it.args.a == args.a within 9 events)", "not ".repeat(n), "not ".repeat(n))
    };
    assert_eq!(survives(policy(&deep(120))), "");
    survives(policy(&deep(250)));
}

#[test]
fn lets_that_use_lets() {
    let lets = |n: usize| {
        let mut text = "policy A \"a\" { severity 1 on call pay let x0 = args.a\n".to_owned();
        for i in 1..n {
            writeln!(text, "let x{i} = x{} + 1", i - 1).unwrap();
        }
        writeln!(text, "deny if x{} == 1 }}", n - 1).unwrap();
        text
    };
    assert_eq!(survives(lets(100)), "");
    assert_eq!(survives(lets(6_000)), "P0202");
}

#[test]
fn the_deepest_that_is_allowed_is_evaluated() {
    // Nested through definitions up to the last level, in the places with the largest frames.
    for (before, inner, after) in NESTS {
        for depth in [20, 40, 60] {
            let half = format!("{}x{}", before.repeat(depth), after.repeat(depth));
            let whole = format!("{}{inner}{}", before.repeat(depth), after.repeat(depth));
            survives(format!(
                "def d0(x) = {half}\ndef d1(x) = d0(d0(x))\ndef d2(x) = d1(d1(x))\n{}{}",
                policy(&format!("d1({whole})")),
                policy(&format!("d2({whole})")).replace('A', "B")
            ));
        }
    }
}

/// A file of about a megabyte, of one kind of line.
fn megabyte(line: &dyn Fn(usize) -> String) -> String {
    let mut text = String::new();
    let mut i = 0;
    while text.len() < 1 << 20 {
        text.push_str(&line(i));
        i += 1;
    }
    text
}

#[test]
fn large_files() {
    let good: &[&dyn Fn(usize) -> String] = &[
        &|i| format!("set s{i} = {{ a, b }}\n"),
        &|i| format!("  set s{i} = {{ a, b }}"),
        &|i| format!("policy P{i} \"p\" {{ severity 1 on call t{i} deny if args.a == {i} }}\n"),
        &|i| format!("fact f{i}[args.a] = args.b as string from call t{i}\n"),
        &|i| format!("# comment {i}\n"),
        &|_| "\n".to_owned(),
    ];
    for line in good {
        assert_eq!(survives(megabyte(line)), "");
    }
    let bad: &[&dyn Fn(usize) -> String] = &[
        &|i| format!("set s{i} = \n"),
        &|_| "set ".to_owned(),
        &|_| "(".to_owned(),
        &|_| "policy A \"a\" { ( \n".to_owned(),
        &|_| "\"\n".to_owned(),
        &|_| "def f(x) = \"\\".to_owned(),
        &|_| "x ".to_owned(),
        &|_| "\u{1F600}".to_owned(),
        &|i| format!("def d{i}(x) = e(x)\n"),
        &|i| format!("policy P{i} \"p\" {{ severity 1 on call t{i} deny if nothing == {i} }}\n"),
    ];
    for line in bad {
        assert_ne!(survives(megabyte(line)), "");
    }
    let long: &[(&str, &str, &str)] = &[
        ("set s = { a", ", a", " }"),
        ("set s = { \"", "((((", "\" }"),
        ("table t(a) = { a: 1", ", a: 1", "}"),
        ("policy A \"a\" { severity 1 on call pay", " when args.a == 1", " deny if args.b == 1 }"),
        ("policy A \"a\" { severity 1 on call pay deny if args.a == 1", " or args.a == 1", " }"),
        ("policy A \"a\" { severity 1 on call pay deny if args.a == 1", " or", " }"),
        ("policy A \"a\" { severity 1 on call pay deny if args.a == 1 message \"", "{args.a}", "\" }"),
        ("policy A \"a\" { severity 1 on call pay deny if args", ".a", " }"),
        ("policy A \"a\" { severity 1 on call pay deny if ", "not ", " }"),
        ("policy A \"a\" { severity 1 on call pay deny if text matches /", "(a", "/ }"),
        ("policy A \"a\" { severity 1 on call pay deny if text matches /", "(a{1,1000}){1,1000}", "/ }"),
        ("", "policy ", ""),
    ];
    for (first, again, last) in long {
        survives(format!("{first}{}{last}", again.repeat((1 << 20) / again.len())));
    }
}

#[test]
fn policies_that_are_large_together() {
    let doubling = (1..13).map(|i| format!("def d{i}(x) = d{}(x) + d{}(x)\n", i - 1, i - 1));
    let policies =
        (0..3_000).map(|i| format!("policy P{i} \"p\" {{ severity 1 on call t{i} deny if d12(args.a) == 1 }}\n"));
    let text = std::iter::once("def d0(x) = x\n".to_owned()).chain(doubling).chain(policies).collect();
    assert_eq!(survives(text), "P0318");
}

/// Words and signs of the language, and some that are none.
const WORDS: &[&str] = &[
    "set",
    "table",
    "const",
    "fact",
    "forget",
    "def",
    "policy",
    "let",
    "when",
    "deny",
    "review",
    "unless",
    "if",
    "on",
    "severity",
    "tags",
    "message",
    "judge",
    "from",
    "collects",
    "where",
    "within",
    "since",
    "including",
    "before",
    "this",
    "turn",
    "turns",
    "events",
    "over",
    "for",
    "and",
    "or",
    "not",
    "in",
    "is",
    "as",
    "default",
    "any",
    "all",
    "none",
    "mentions",
    "matches",
    "contains",
    "starts",
    "ends",
    "with",
    "union",
    "concat",
    "mod",
    "true",
    "false",
    "null",
    "call",
    "result",
    "user",
    "assistant",
    "end",
    "once",
    "first",
    "last",
    "previous",
    "count",
    "sum",
    "distinct",
    "min",
    "max",
    "known",
    "seen",
    "len",
    "time",
    "extract",
    "string",
    "number",
    "whole",
    "list",
    "object",
    "x",
    "y",
    "s",
    "t",
    "f",
    "d",
    "it",
    "now",
    "args",
    "text",
    "json",
    "pay",
    "affirmation",
    "1",
    "0.5",
    "30m",
    "2",
    "\"a\"",
    "\"{x}\"",
    "\"",
    "'",
    "/a/",
    "/",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "[*]",
    ",",
    ":",
    ".",
    "=",
    "==",
    "!=",
    "<",
    "<=",
    "+",
    "-",
    "*",
    "#",
    "\n",
    "\nset ",
    "\npolicy ",
    "\nfact ",
    "\\",
    "&&",
    "é",
    ";",
];

/// Whole declarations with holes for words, so that soups reach the compiler.
fn sentence() -> impl Strategy<Value = String> {
    let word = || prop::sample::select(WORDS).prop_map(str::to_owned);
    let soup = || prop::collection::vec(word(), 0..8).prop_map(|words| words.join(" "));
    let frame = prop::sample::select(vec![
        "set s = { _ }\n",
        "table t(x) = { _: _ }\n",
        "const x = _\n",
        "fact f[_] = _ as object from _ when _\n",
        "fact f collects _ from call pay\n",
        "forget f[_] from call when _\n",
        "def d(x) = _\n",
        "def d(x, y) = x _ y\n",
        "policy A \"a\" { severity 1 on call pay deny if _ }\n",
        "policy A \"a\" { severity 1 on call pay let x = _ when _ deny unless x message \"{_}\" }\n",
        "policy A \"a\" { severity 1 on _ deny if args.a == 1 _ }\n",
        "policy A \"a\" { _ }\n",
        "policy A \"a\" { severity 1 on call pay deny if once(call _) }\n",
        "policy A \"a\" { severity 1 on call pay deny if count(call pay where it.args.a == _ within _) > 1 }\n",
        "policy A \"a\" { severity 1 on call pay deny if any x in _ where _: _ }\n",
        "_",
    ]);
    (frame, prop::collection::vec(soup(), 4)).prop_map(|(frame, soups)| {
        let mut parts = frame.split('_');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (part, soup) in parts.zip(soups) {
            text.push_str(&soup);
            text.push_str(part);
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        survives(String::from_utf8_lossy(&bytes).into_owned());
    }

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        survives(text);
    }

    #[test]
    fn any_words(sentences in prop::collection::vec(sentence(), 1..6)) {
        survives(sentences.concat());
    }

    #[test]
    fn any_damage(at in any::<prop::sample::Index>(), len in 0usize..20, word in prop::sample::select(WORDS)) {
        let mut text = SOUND.to_owned();
        let (start, end) = {
            let places: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
            let start = at.index(places.len());
            (places[start], places[(start + len).min(places.len() - 1)])
        };
        text.replace_range(start..end, word);
        survives(text);
    }
}

#[test]
fn what_is_damaged_is_sound() {
    assert_eq!(survives(SOUND.to_owned()), "");
}

const SOUND: &str = r#"# A sound file, to be damaged.
set writes = { pay, refund }
table limit(tier) = { gold: 1000, (basic): 100 }
const window = 30m
fact account[json.id as string] = json as object from result get_account when not is_error
fact sent[args.user] collects extract(text, /ref_[0-9]+/) from call send when text matches /ref_[0-9]+/
forget account[args.id] from call close_account or result pay
def above(x, tier) = x > limit(tier) default 0
policy P-1 "too much" {
  severity 0.5
  tags money, limit
  on call in writes or result refund
  let a = account[args.id as string]
  when known(a) and seen(account[args.id])
  deny if above(args.amount, a.tier) and not (last(user).text default "") mentions affirmation
    or sum(it.args.amount over call pay where it.args.payee == args.payee within window) > 500
    or any x in args.items where x is object: x["n"] as whole mod 2 == 1
    or { x.id for x in args.items } != { "a", "b" } union [1]
  message "{a.id}: {args.amount}, \{limit {limit(a.tier)}\}"
}
policy P2 "second" { severity 1 on user judge "is it \"polite\"?" }
"#;
