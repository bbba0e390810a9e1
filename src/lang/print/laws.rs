//! What is printed reads back to the same tree: over random trees, and over texts.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::sync::Arc;

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;
use crate::{
    diag::{Sources, Span},
    lang::{parse, parse_expr},
    model::{Effect, EventKind},
};

fn nowhere() -> Span {
    Span::start_of(Sources::new().add("x", ""))
}

/// A tree without its places: what two trees are compared by.
fn bare(tree: &impl std::fmt::Debug) -> String {
    let places = regex::Regex::new(r"Span \{ file: FileId\(\d+\), start: \d+, end: \d+ \}").unwrap();
    places.replace_all(&format!("{tree:?}"), "@").into_owned()
}

fn read(text: &str) -> Module {
    let file = Sources::new().add("x.policy", text);
    let (module, problems) = parse(file, text);
    assert!(problems.is_empty(), "{problems:?}\n{text}");
    module
}

fn read_expr(text: &str) -> Expr {
    let file = Sources::new().add("x.policy", text);
    parse_expr(file, text).unwrap_or_else(|problem| panic!("{problem:?}\n{text}"))
}

// ---- random trees ----

fn name() -> impl Strategy<Value = Name> {
    // Words of the grammar that are no reserved words are in, since they are where mistakes would be.
    select(vec!["a", "b2", "_c", "args", "count", "sum", "last", "with", "turn", "this", "events", "anyone", "inner"])
        .prop_map(|word| Name { text: Arc::from(word), span: nowhere() })
}

/// Names of functions that are called in the plain way.
fn function() -> impl Strategy<Value = Name> {
    select(vec!["f", "known", "trim", "free_bags", "ordinal"]).prop_map(|w| Name { text: w.into(), span: nowhere() })
}

/// What may stand behind a dot, or be a tag: reserved words as well.
fn word() -> impl Strategy<Value = Name> {
    select(vec!["a", "in", "where", "json", "as", "policy", "x9"])
        .prop_map(|w| Name { text: w.into(), span: nowhere() })
}

fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![
        select(vec!["", "economy", "in", "true", "null", "12", "a b", "db_*", "#", "/", "{x}", "\\n"])
            .prop_map(Arc::from),
        "[a\"\\\\{}\\n\\t\\r/#é\u{202e}\u{0}*]{0,6}".prop_map(Arc::from),
    ]
}

fn number() -> impl Strategy<Value = Num> {
    prop_oneof![
        select(vec!["0", "1", "0.9", "100", "1e40", "1e-12"]).prop_map(|n| n.parse().unwrap()),
        (0i64..i64::MAX, -20i32..20).prop_map(|(c, e)| Num::new(i128::from(c), e)),
    ]
}

fn duration() -> impl Strategy<Value = Num> {
    prop_oneof![
        (0i64..1000, select(vec![1, 60, 3600, 86_400])).prop_map(|(n, unit)| Num::from(n * unit)),
        (0i64..100_000, -9i32..4).prop_map(|(c, e)| Num::new(i128::from(c), e)),
    ]
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        Just(Literal::Null),
        any::<bool>().prop_map(Literal::Bool),
        number().prop_map(Literal::Number),
        text().prop_map(Literal::String),
        duration().prop_map(Literal::Duration),
    ]
}

/// What a set, table or constant holds: negative numbers as well.
fn constant() -> impl Strategy<Value = Constant> {
    prop_oneof![4 => literal(), 1 => number().prop_map(|n| Literal::Number(n.neg()))]
        .prop_map(|value| Constant { value, span: nowhere() })
}

fn pattern_text() -> impl Strategy<Value = Regex> {
    (select(vec!["[0-9]+", "a/b", r"\\/", "\"", "#(", "i", r"\bno\b"]), any::<bool>())
        .prop_map(|(p, ignore_case)| Regex { pattern: p.into(), ignore_case, span: nowhere() })
}

fn ty() -> impl Strategy<Value = Type> {
    select(vec![Type::String, Type::Number, Type::Whole, Type::Bool, Type::List, Type::Object, Type::Null])
}

fn operator() -> impl Strategy<Value = BinaryOp> {
    use BinaryOp::*;
    select(vec![
        Eq, Ne, Lt, Le, Gt, Ge, In, NotIn, Contains, StartsWith, EndsWith, Add, Sub, Mul, Div, Mod, Union, Concat,
    ])
}

fn tools() -> impl Strategy<Value = Tools> {
    let tool = || text().prop_map(|text| Name { text, span: nowhere() });
    let glob = || select(vec!["db_*", "*", "*_x_*"]).prop_map(|g| Name { text: g.into(), span: nowhere() });
    let listed_tool = || {
        prop_oneof![
            tool().prop_map(|name| ToolName { name, is_glob: false }),
            glob().prop_map(|name| ToolName { name, is_glob: true }),
        ]
    };
    prop_oneof![
        Just(Tools::Any),
        name().prop_map(Tools::Named),
        tool().prop_map(Tools::Named),
        glob().prop_map(Tools::Glob),
        name().prop_map(Tools::Set),
        vec(listed_tool(), 1..4).prop_map(Tools::OneOf),
    ]
}

fn source() -> impl Strategy<Value = Source> {
    let kinds =
        prop_oneof![select(EventKind::ALL.to_vec()).prop_map(|k| vec![k]), Just(EventKind::OF_THE_TRACE.to_vec()),];
    (kinds, tools()).prop_map(|(kinds, tools)| Source { span: nowhere(), kinds, tools })
}

fn pattern(expr: impl Strategy<Value = Expr> + Clone + 'static, depth: u8) -> BoxedStrategy<Pattern> {
    let since = if depth == 0 {
        Just(None).boxed()
    } else {
        option::weighted(0.3, pattern(expr.clone(), depth - 1).prop_map(Box::new)).boxed()
    };
    let within = prop_oneof![duration().prop_map(|d| Within::Duration(d, nowhere())), name().prop_map(Within::Named),];
    (
        vec(source(), 1..3),
        option::of(expr.prop_map(Box::new)),
        option::weighted(0.3, within),
        (option::weighted(0.3, 0u32..50), option::weighted(0.3, 0u32..50)),
        since,
        (any::<bool>(), any::<bool>()),
    )
        .prop_map(|(sources, filter, within_time, (within_turns, within_events), since, flags)| Pattern {
            span: nowhere(),
            sources,
            filter,
            within_time,
            within_turns,
            within_events,
            since,
            before_turn: flags.0,
            including_this: flags.1,
            elements: None,
        })
        .boxed()
}

/// A pattern with, now and then, the elements of a list in its events.
fn events(expr: impl Strategy<Value = Expr> + Clone + 'static) -> impl Strategy<Value = Box<Pattern>> {
    (pattern(expr.clone(), 1), option::weighted(0.3, binder(expr)))
        .prop_map(|(pattern, elements)| Box::new(Pattern { elements, ..pattern }))
}

/// An order of two or three things, the last one perhaps the judged event.
fn sequence(expr: impl Strategy<Value = Expr> + Clone + 'static) -> impl Strategy<Value = Sequence> {
    let filter = option::of(expr.prop_map(Box::new)).boxed();
    let within = prop_oneof![duration().prop_map(|d| Within::Duration(d, nowhere())), name().prop_map(Within::Named)];
    let without = (vec(source(), 1..3), filter.clone()).prop_map(|(sources, filter)| Without { sources, filter });
    let numbers = (option::weighted(0.3, 0u32..50), option::weighted(0.3, 0u32..50));
    let gap = (option::weighted(0.3, within), numbers, option::weighted(0.3, without))
        .prop_map(|(within_time, (within_turns, within_events), without)| Gap {
            within_time,
            within_turns,
            within_events,
            without,
        })
        .boxed();
    let step = (vec(source(), 1..3), option::of(name()), filter, gap.clone())
        .prop_map(|(sources, name, filter, gap)| Step { span: nowhere(), sources, name, filter, gap });
    (vec(step, 1..4), option::of(gap)).prop_map(|(mut steps, this)| {
        steps[0].gap = Gap::default();
        let this = if steps.len() == 1 { Some(this.unwrap_or_default()) } else { this };
        Sequence { steps, this }
    })
}

fn binder(expr: impl Strategy<Value = Expr> + Clone + 'static) -> impl Strategy<Value = Binder> {
    (option::of(name()), name(), expr.clone(), option::of(expr)).prop_map(|(key, value, collection, filter)| Binder {
        key,
        value,
        collection: Box::new(collection),
        filter: filter.map(Box::new),
    })
}

fn expr() -> impl Strategy<Value = Expr> + Clone {
    let node = |kind| Expr::new(nowhere(), kind);
    let leaf = prop_oneof![
        literal().prop_map(ExprKind::Literal),
        name().prop_map(|n| ExprKind::Name(n.text)),
        Just(ExprKind::List(Vec::new())),
        Just(ExprKind::Set(Vec::new())),
    ]
    .prop_map(node);
    leaf.prop_recursive(6, 40, 3, move |inner| {
        let one = || inner.clone().prop_map(Box::new);
        let some = |least| vec(inner.clone(), least..4);
        let argument = prop_oneof![inner.clone().prop_map(Argument::Expr), pattern_text().prop_map(Argument::Regex),];
        let quantity = select(vec![Quantity::Any, Quantity::All, Quantity::None]);
        let fold = select(vec![FoldOp::Sum, FoldOp::Distinct, FoldOp::Min, FoldOp::Max]);
        let seek =
            select(vec![HistoryOp::Once, HistoryOp::First, HistoryOp::Last, HistoryOp::Previous, HistoryOp::Count]);
        let over = select(vec![HistoryOp::Sum, HistoryOp::Distinct, HistoryOp::Min, HistoryOp::Max]);
        prop_oneof![
            some(1).prop_map(ExprKind::List),
            some(1).prop_map(ExprKind::Set),
            (one(), word()).prop_map(|(e, n)| ExprKind::Field(e, n)),
            (one(), some(1)).prop_map(|(e, k)| ExprKind::Index(e, k)),
            one().prop_map(ExprKind::Each),
            (one(), ty()).prop_map(|(e, t)| ExprKind::Cast(e, t)),
            (one(), ty()).prop_map(|(e, t)| ExprKind::Is(e, t)),
            (one(), one()).prop_map(|(a, b)| ExprKind::Default(a, b)),
            one().prop_map(ExprKind::Neg),
            one().prop_map(ExprKind::Not),
            some(2).prop_map(ExprKind::And),
            some(2).prop_map(ExprKind::Or),
            (operator(), one(), one()).prop_map(|(op, a, b)| ExprKind::Binary(op, a, b)),
            (one(), name()).prop_map(|(e, n)| ExprKind::Mentions(e, n)),
            (one(), word()).prop_map(|(e, n)| ExprKind::Detects(e, n)),
            (one(), pattern_text()).prop_map(|(e, r)| ExprKind::Matches(e, r)),
            (function(), vec(argument, 0..3)).prop_map(|(n, a)| ExprKind::Apply(n, a)),
            (quantity, binder(inner.clone()), one()).prop_map(|(q, b, e)| ExprKind::Quantifier(q, b, e)),
            (any::<bool>(), one(), binder(inner.clone())).prop_map(|(list, element, binder)| ExprKind::Comprehension {
                list,
                element,
                binder
            }),
            binder(inner.clone()).prop_map(|b| ExprKind::Fold(FoldOp::Count, None, b)),
            (fold, one(), binder(inner.clone())).prop_map(|(op, e, b)| ExprKind::Fold(op, Some(e), b)),
            (seek, events(inner.clone())).prop_map(|(op, p)| ExprKind::History(op, None, p)),
            (one(), pattern(inner.clone(), 1), option::of(inner.clone())).prop_map(|(value, pattern, path)| {
                ExprKind::Derived(Box::new(Derived { value: *value, pattern, path }))
            }),
            sequence(inner.clone()).prop_map(|s| ExprKind::Sequence(Box::new(s))),
            (over, one(), events(inner.clone())).prop_map(|(op, e, p)| ExprKind::History(op, Some(e), p)),
        ]
        .prop_map(node)
    })
}

fn statement() -> impl Strategy<Value = StatementKind> {
    let effect = select(vec![Effect::Deny, Effect::Review, Effect::Flag, Effect::Milestone]);
    // Texts of a message are never empty and never side by side.
    let letters = text().prop_filter("empty", |t| !t.is_empty()).prop_map(TemplatePart::Text);
    let pair = (option::of(letters), expr().prop_map(TemplatePart::Hole));
    prop_oneof![
        number().prop_map(StatementKind::Severity),
        vec(word(), 1..3).prop_map(StatementKind::Tags),
        vec(source(), 1..3).prop_map(StatementKind::On),
        (name(), expr()).prop_map(|(n, e)| StatementKind::Let(n, e)),
        expr().prop_map(StatementKind::When),
        (effect, vec(expr(), 0..3), any::<bool>(), expr()).prop_map(|(effect, once_per, negated, condition)| {
            StatementKind::Effect { effect, once_per, negated, condition }
        }),
        vec(pair, 0..3).prop_map(|pairs| StatementKind::Message(
            pairs.into_iter().flat_map(|(a, b)| a.into_iter().chain([b])).collect()
        )),
        text().prop_map(StatementKind::Judge),
    ]
}

pub(in crate::lang) fn item() -> impl Strategy<Value = Item> {
    let key = || vec(expr(), 0..3);
    let from = || vec(source(), 1..3);
    let set = (name(), vec(constant(), 0..4)).prop_map(|(name, items)| Item::Set(SetItem { name, items }));
    let table = (name(), vec(name(), 1..3), vec((vec(constant(), 1..3), constant()), 1..3))
        .prop_map(|(name, params, rows)| Item::Table(TableItem { name, params, rows }));
    let constant = (name(), constant()).prop_map(|(name, value)| Item::Const(ConstItem { name, value }));
    let fact = (name(), key(), any::<bool>(), expr(), from(), option::of(expr())).prop_map(
        |(name, key, collects, value, from, when)| Item::Fact(FactItem { name, key, collects, value, from, when }),
    );
    let forget = (name(), key(), from(), option::of(expr()))
        .prop_map(|(name, key, from, when)| Item::Forget(ForgetItem { name, key, from, when }));
    let def =
        (name(), vec(name(), 0..3), expr()).prop_map(|(name, params, body)| Item::Def(DefItem { name, params, body }));
    let policy = (word(), text(), vec(statement(), 0..5)).prop_map(|(mut id, title, statements)| {
        id.text = format!("{}-1", id.text).into();
        let statements = statements.into_iter().map(|kind| Statement { span: nowhere(), kind }).collect();
        Item::Policy(PolicyItem { id, title, span: nowhere(), statements })
    });
    prop_oneof![set, table, constant, fact, forget, def, policy]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_expression_reads_back(e in expr()) {
        let text = print_expr(&e);
        let again = read_expr(&text);
        prop_assert_eq!(bare(&again), bare(&e), "{}", text);
    }

    #[test]
    fn a_declaration_reads_back(item in item()) {
        let text = print_item(&item);
        prop_assert!(!text.contains("\n\n"), "{}", text);
        let again = read(&text);
        prop_assert_eq!(bare(&again.items), bare(&[&item]), "{}", text);
    }

    #[test]
    fn meaning_does_not_depend_on_order_or_files(items in vec(item(), 0..4), cut in 0usize..4) {
        let whole = meaning(&[Module { items: items.clone(), ..Module::default() }]);
        let (first, second) = items.split_at(cut.min(items.len()));
        let swapped = [second, first].map(|items| Module { items: items.to_vec(), ..Module::default() });
        prop_assert_eq!(&whole, &meaning(&swapped));
        // What it says is the pack: read anew, it means the same.
        prop_assert_eq!(&meaning(&[read(&whole)]), &whole);
    }
}

// ---- texts ----

#[test]
fn the_policies_of_the_packs_read_back() {
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/rules"))];
    folders.push(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data").into());
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "policy") {
                files += 1;
                let text = std::fs::read_to_string(&path).unwrap();
                let (module, _) = parse(Sources::new().add("x", ""), &text);
                for item in &module.items {
                    let printed = print_item(item);
                    assert_eq!(bare(&read(&printed).items), bare(&[item]), "{}: {printed}", path.display());
                }
            }
        }
    }
    assert!(files > 5, "{files} files");
}

#[test]
fn one_spelling() {
    for (written, canonical) in [
        ("((a))  or (b and(c))", "a or b and c"),
        ("(a or b) or c", "(a or b) or c"),
        ("not (x is string)", "x is not string"),
        ("not(a in b)", "not a in b"),
        ("(a - b) - c", "a - b - c"),
        ("a - (b - c)", "a - (b - c)"),
        ("a default (b default c)", "a default b default c"),
        ("(a default b) default c", "(a default b) default c"),
        ("last(user).text default \"\"", "last(user).text default \"\""),
        ("(args.n as whole) + 1", "args.n as whole + 1"),
        ("(p as object).membership", "(p as object).membership"),
        ("- (a.b)", "-a.b"),
        ("(any x in L: x == 1) and b", "(any x in L: x == 1) and b"),
        ("b and (any x in L: (x == 1 and c))", "b and any x in L: x == 1 and c"),
        ("[x for x in a union b where x > 90m]", "[x for x in a union b where x > 90m]"),
        ("once(call \"pay\" since (user))", "once(call pay since user)"),
        ("count(call \"when\" within 1 turns)", "count(call \"when\" within 1 turn)"),
        (
            "once(call a as x then call b within 60s without (user) then this without(call c or call d))",
            "once(call a as x then call b within 1m without user then this without (call c or call d))",
        ),
        ("once(call in {\"a\", \"b c\",})", "once(call in { a, \"b c\" })"),
        ("60m + 0.5s + 1500ms + 24h + 7d", "1h + 0.5s + 1.5s + 24h + 7d"),
        ("t matches /a\\/b/i", "t matches /a\\/b/i"),
        ("\"\\u{41}\\u{0}\\n{x}\"", "\"A\\u{0}\\n{x}\""),
    ] {
        assert_eq!(print_expr(&read_expr(written)), canonical, "{written}");
    }
}

#[test]
fn a_long_chain_of_casts_stays_within_the_limit_of_the_parser() {
    let chain = "a".to_owned() + &".b as object".repeat(100);
    let tree = read_expr(&chain);
    assert_eq!(bare(&read_expr(&print_expr(&tree))), bare(&tree));
}

#[test]
fn meaning_is_that_of_what_is_said_and_not_of_how() {
    let one = "
        set s = { b, a, a }
        # what for
        table t(x) = { b: 1, (a): 2 }
        policy P1 \"title\" { on call pay  severity 1.0  let x = args.a  deny if (x == 1) message \"{x}\" }
        policy P2 \"other\" { severity 0  judge \"?\" }";
    let same = "
        policy P2 \"other\" { judge \"?\" severity 0 }
        policy P1 \"title\" { severity 1 on call \"pay\" let x = args.a deny if x == 1 message \"{ x }\" }
        table t(x) = { a: 2, b: 1 } set s = { a, b }";
    assert_eq!(meaning(&[read(one)]), meaning(&[read(same)]));
    for (from, to) in [
        ("{ b, a, a }", "{ b, a, c }"),
        ("(a): 2", "(a): 3"),
        ("title", "Title"),
        ("P2", "P3"),
        ("x = args.a", "x = args.b"),
        ("(x == 1)", "(x == 1.5)"),
        ("deny if", "deny unless"),
        ("{x}\"", "{x}.\""),
        ("call pay", "result pay"),
    ] {
        let other = one.replacen(from, to, 1);
        assert_ne!(meaning(&[read(one)]), meaning(&[read(&other)]), "{from} -> {to}");
    }
}

#[test]
fn brackets_behind_a_text_with_a_hash_are_counted() {
    let deep = "(".repeat(200_000);
    let text = format!("def f() = \"#\" == {deep}");
    let (_, problems) = parse(Sources::new().add("x.policy", ""), &text);
    let codes: Vec<_> = problems.into_iter().map(|p| p.code).collect();
    assert_eq!(codes, [crate::diag::Code::TooDeep]);
}
