//! Regular expressions of a category.

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::{self, Ast, ClassSet, ClassSetItem, ClassSetRange, ClassSetUnion, Literal, LiteralKind};

use super::spec::{Problem, Step, Steps};

/// Bytes that one compiled expression may take.
const SIZE_LIMIT: usize = 2 << 20;
/// How deep groups may nest.
const NEST_LIMIT: u32 = 100;

/// Compiles an expression for the text that [`super::normalise::for_patterns`] makes with these steps.
pub(super) fn compile(pattern: &str, steps: Steps) -> Result<Regex, Problem> {
    let mut tree = ast::parse::ParserBuilder::new()
        .nest_limit(NEST_LIMIT)
        .build()
        .parse(pattern)
        .map_err(|e| refused(&e.kind().to_string(), e.pattern(), e.span()))?;
    let any_case = steps.has(Step::Case);
    let mut source = pattern.to_owned();
    if steps.has(Step::AsciiCase) && !any_case {
        lower(&mut tree);
        source.clear();
        ast::print::Printer::new().print(&tree, &mut source).map_err(|e| Problem::Pattern(e.to_string()))?;
    }
    let meaning = regex_syntax::hir::translate::TranslatorBuilder::new()
        .case_insensitive(any_case)
        .build()
        .translate(&source, &tree)
        .map_err(|e| refused(&e.kind().to_string(), e.pattern(), e.span()))?;
    match meaning.properties().minimum_len() {
        None => return Err(Problem::Pattern("it can never match".to_owned())),
        Some(0) => return Err(Problem::MatchesNothing),
        Some(_) => {}
    }
    RegexBuilder::new(&source).case_insensitive(any_case).size_limit(SIZE_LIMIT).nest_limit(NEST_LIMIT).build().map_err(
        |e| match e {
            regex::Error::CompiledTooBig(limit) => Problem::Pattern(format!("it needs more than {limit} bytes")),
            other => Problem::Pattern(other.to_string().lines().last().unwrap_or_default().to_owned()),
        },
    )
}

fn refused(what: &str, pattern: &str, span: &ast::Span) -> Problem {
    let at = pattern.get(..span.start.offset).unwrap_or_default().chars().count() + 1;
    Problem::Pattern(format!("{what} (at its character {at})"))
}

/// Makes an expression for a text in which ASCII letters are small match as it would have in both cases.
/// Classes are widened before they are negated. Recursion is bounded by [`NEST_LIMIT`].
fn lower(tree: &mut Ast) {
    match tree {
        Ast::Literal(literal) => lower_literal(literal),
        Ast::ClassBracketed(class) => lower_set(&mut class.kind),
        Ast::Repetition(repetition) => lower(&mut repetition.ast),
        Ast::Group(group) => lower(&mut group.ast),
        Ast::Alternation(alternation) => alternation.asts.iter_mut().for_each(lower),
        Ast::Concat(concat) => concat.asts.iter_mut().for_each(lower),
        Ast::Empty(_) | Ast::Flags(_) | Ast::Dot(_) | Ast::Assertion(_) | Ast::ClassUnicode(_) | Ast::ClassPerl(_) => {}
    }
}

fn lower_literal(literal: &mut Literal) {
    if literal.c.is_ascii_uppercase() {
        literal.c = literal.c.to_ascii_lowercase();
        literal.kind = LiteralKind::Verbatim;
    }
}

fn lower_set(set: &mut ClassSet) {
    match set {
        ClassSet::Item(item) => lower_item(item),
        ClassSet::BinaryOp(operation) => {
            lower_set(&mut operation.lhs);
            lower_set(&mut operation.rhs);
        }
    }
}

fn lower_item(item: &mut ClassSetItem) {
    match item {
        ClassSetItem::Literal(literal) => lower_literal(literal),
        ClassSetItem::Range(range) => {
            let start = range.start.c.max('A');
            let end = range.end.c.min('Z');
            if start <= end {
                let small =
                    |c: char| Literal { span: range.span, kind: LiteralKind::Verbatim, c: c.to_ascii_lowercase() };
                let more = ClassSetRange { span: range.span, start: small(start), end: small(end) };
                let items = vec![ClassSetItem::Range(range.clone()), ClassSetItem::Range(more)];
                *item = ClassSetItem::Union(ClassSetUnion { span: range.span, items });
            }
        }
        ClassSetItem::Ascii(class) => {
            if class.kind == ast::ClassAsciiKind::Upper {
                class.kind = ast::ClassAsciiKind::Lower;
            }
        }
        ClassSetItem::Bracketed(class) => lower_set(&mut class.kind),
        ClassSetItem::Union(union) => union.items.iter_mut().for_each(lower_item),
        ClassSetItem::Empty(_) | ClassSetItem::Unicode(_) | ClassSetItem::Perl(_) => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn ascii_case(pattern: &str) -> Regex {
        compile(pattern, [Step::AsciiCase].into_iter().collect()).unwrap()
    }

    #[test]
    fn ascii_case_holds_for_ascii_letters_only() {
        // The text has its ASCII letters small.
        for (pattern, yes, no) in [
            (r"\bOK(ay)?\b", "okay", "ok_"),
            (r"[A-F]x", "bx", "gx"),
            (r"[^A]x", "bx", "ax"),
            (r"[[:upper:]]{2}", "ab", "1b"),
            (r"[X-c]1", "x1", "w1"),
            (r"(?x) A B # comment", "ab", "a b"),
            (r"\x41\u{42}", "ab", "ac"),
            ("É", "É", "é"),
            (r"[a-z&&[^B]]1", "c1", "b1"),
            (r"\S\W\D", "a-b", "a11"),
            (r"K", "k", "\u{212a}"),
        ] {
            let regex = ascii_case(pattern);
            assert!(regex.is_match(yes), "{pattern} {yes} {}", regex.as_str());
            assert!(!regex.is_match(no), "{pattern} {no} {}", regex.as_str());
        }
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let problem = |p: &str| compile(p, Steps::default()).unwrap_err().to_string();
        assert_eq!(problem("é(b"), "the regular expression cannot be used: unclosed group (at its character 2)");
        assert_eq!(
            problem(r"\p{Nope}"),
            "the regular expression cannot be used: Unicode property not found (at its character 1)"
        );
        assert_eq!(problem("a*"), "the regular expression matches the empty text, and so every text");
        assert_eq!(problem(r"\b"), "the regular expression matches the empty text, and so every text");
        assert_eq!(problem("[a&&b]"), "the regular expression cannot be used: it can never match");
        assert!(problem("(a{1000}){1000}").contains("bytes"));
        assert!(problem(&"(".repeat(1000)).starts_with("the regular expression cannot be used"));
        assert!(problem("(?=a)b").contains("look"));
    }
}
