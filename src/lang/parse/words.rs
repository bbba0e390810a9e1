//! The grammar's rules in a reader's words: its rule names never reach a message.

use super::generated::Rule;

/// Words that begin a declaration.
pub(super) const ITEM_WORDS: [&str; 7] = ["set", "table", "const", "fact", "forget", "def", "policy"];

/// Words that begin a statement of a policy.
pub(super) const STATEMENT_WORDS: [&str; 11] =
    ["severity", "tags", "on", "let", "when", "deny", "review", "flag", "milestone", "message", "judge"];

const KIND_WORDS: [&str; 8] = ["system", "user", "assistant", "call", "result", "hit", "any", "end"];

const TYPE_WORDS: [&str; 7] = ["string", "number", "whole", "bool", "list", "object", "null"];

/// True for the rules that only stand for a word or sign of the grammar.
pub(super) fn is_keyword(rule: Rule) -> bool {
    keyword(rule).is_some()
}

/// The word or sign that a rule stands for.
fn keyword(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::k_set => "set",
        Rule::k_table => "table",
        Rule::k_const => "const",
        Rule::k_fact => "fact",
        Rule::k_forget => "forget",
        Rule::k_def => "def",
        Rule::k_policy => "policy",
        Rule::k_let => "let",
        Rule::k_when => "when",
        Rule::k_on => "on",
        Rule::k_severity => "severity",
        Rule::k_tags => "tags",
        Rule::k_message => "message",
        Rule::k_judge => "judge",
        Rule::k_once => "once",
        Rule::k_per => "per",
        Rule::k_from => "from",
        Rule::k_collects => "collects",
        Rule::k_where => "where",
        Rule::k_within => "within",
        Rule::k_since => "since",
        Rule::k_then => "then",
        Rule::k_without => "without",
        Rule::k_over => "over",
        Rule::k_for => "for",
        Rule::k_and => "and",
        Rule::k_or => "or",
        Rule::k_not => "not",
        Rule::k_in => "in",
        Rule::k_is => "is",
        Rule::k_as => "as",
        Rule::k_default => "default",
        Rule::k_mentions => "mentions",
        Rule::k_detects => "detects",
        Rule::k_matches => "matches",
        Rule::k_contains => "contains",
        Rule::k_with => "with",
        Rule::k_starts => "starts with",
        Rule::k_ends => "ends with",
        Rule::k_before => "before this turn",
        Rule::k_including => "including this",
        Rule::k_this => "this",
        Rule::k_turn => "turn",
        Rule::k_turns => "turns",
        Rule::k_events => "events",
        Rule::k_count => "count",
        Rule::equals => "=",
        Rule::comma => ",",
        Rule::colon => ":",
        Rule::open_paren => "(",
        Rule::close_paren => ")",
        Rule::open_bracket => "[",
        Rule::close_bracket => "]",
        Rule::open_brace => "{",
        Rule::close_brace => "}",
        _ => return None,
    })
}

/// What could have stood at a place.
#[derive(Clone, Copy)]
pub(super) struct Expected<'r>(pub(super) &'r [Rule]);

impl Expected<'_> {
    /// Whether this rule could.
    pub(super) fn has(self, rule: Rule) -> bool {
        self.0.contains(&rule)
    }

    /// Whether an expression is complete there, so that it could go on with an operator.
    pub(super) fn after_expression(self) -> bool {
        [Rule::sum_op, Rule::product_op, Rule::compare_op, Rule::k_and].iter().any(|rule| self.has(*rule))
    }

    /// Whether an event kind could stand there.
    pub(super) fn a_kind(self) -> bool {
        self.0.iter().any(|rule| described(*rule) == Some("an event kind")) || self.has(Rule::pattern)
    }

    /// Whether a declaration could begin there.
    pub(super) fn a_declaration(self) -> bool {
        self.0.iter().any(|rule| described(*rule) == Some("a declaration"))
    }

    /// Whether a value could begin there.
    pub(super) fn an_expression(self) -> bool {
        self.0.iter().any(|rule| described(*rule) == Some("an expression"))
    }

    /// In words; empty if that would say nothing.
    pub(super) fn words(self) -> String {
        let operators = self.after_expression();
        let mut words: Vec<String> = Vec::new();
        if operators {
            words.push("an operator".to_owned());
        }
        for rule in self.0 {
            let word = match (keyword(*rule), described(*rule)) {
                (Some(_), _) if operators && is_operator(*rule) => continue,
                // Few policies need it where all need `if` or `unless`.
                (Some(_), _) if *rule == Rule::k_once && self.has(Rule::polarity) => continue,
                (Some(word), _) => format!("`{word}`"),
                (None, Some(word)) => word.to_owned(),
                (None, None) => continue,
            };
            if !words.contains(&word) {
                words.push(word);
            }
        }
        // Signs that end or go on with what stands before come last.
        words.sort_by_key(|word| matches!(word.as_str(), "`,`" | "`)`" | "`]`" | "`}`"));
        // A name is an expression, and so is a number: the wider word is enough.
        if words.iter().any(|w| w == "an expression") {
            words.retain(|w| {
                !matches!(
                    w.as_str(),
                    "a name" | "a number" | "a literal value" | "a duration such as 30m" | "`(`" | "`[`" | "`{`"
                )
            });
        }
        let list = |kind: &str, words: &[&str]| format!("{kind}: {}", or(words));
        match words.as_mut_slice() {
            [] => String::new(),
            [only] => match only.as_str() {
                "a statement" => list(only, &STATEMENT_WORDS),
                "a declaration" => list(only, &ITEM_WORDS),
                "an event kind" => list(only, &KIND_WORDS),
                "a type" => list(only, &TYPE_WORDS),
                _ => std::mem::take(only),
            },
            several if several.len() <= 8 => or(several),
            _ => String::new(),
        }
    }

    /// The words of the language that could have stood there.
    pub(super) fn candidates(self) -> Vec<&'static str> {
        let mut words: Vec<&'static str> = Vec::new();
        for rule in self.0 {
            match rule {
                Rule::statement => words.extend(STATEMENT_WORDS),
                Rule::item | Rule::one_item => words.extend(ITEM_WORDS),
                Rule::kind | Rule::source | Rule::sources | Rule::pattern => words.extend(KIND_WORDS),
                Rule::type_name => words.extend(TYPE_WORDS),
                Rule::polarity => words.extend(["if", "unless"]),
                Rule::join_op => words.extend(["union", "concat"]),
                Rule::product_op => words.push("mod"),
                Rule::window => words.extend(["within", "since", "before", "including", "without"]),
                // Of several words the first one is what was to be written here.
                rule => words.extend(keyword(*rule).and_then(|word| word.split(' ').next())),
            }
        }
        words
    }
}

/// `a, b or c`
fn or(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        words => words.concat(),
    }
}

/// Whether a rule continues an expression: they are summed up, since almost any of them could follow.
fn is_operator(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::k_and
            | Rule::k_or
            | Rule::k_not
            | Rule::k_in
            | Rule::k_is
            | Rule::k_as
            | Rule::k_default
            | Rule::k_mentions
            | Rule::k_detects
            | Rule::k_matches
            | Rule::k_contains
            | Rule::k_starts
            | Rule::k_ends
            | Rule::open_bracket
            | Rule::open_paren
    )
}

/// What a rule stands for; operators are summed up by whoever asks.
fn described(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::item | Rule::one_item => "a declaration",
        Rule::statement => "a statement",
        Rule::name | Rule::word => "a name",
        Rule::policy_id => "a policy id",
        Rule::number | Rule::digits => "a number",
        Rule::duration => "a duration such as 30m",
        Rule::string | Rule::template => "a text in double quotes",
        Rule::regex => "a pattern between slashes",
        Rule::literal | Rule::constant | Rule::value => "a literal value",
        Rule::kind | Rule::source | Rule::sources => "an event kind",
        Rule::tools | Rule::glob => "a tool name",
        Rule::type_name => "a type",
        Rule::polarity => "`if` or `unless`",
        Rule::table_key | Rule::table_row => "a table row such as (a, b): 1",
        Rule::window => "a window such as `within 30m`",
        Rule::expr
        | Rule::and_expr
        | Rule::not_expr
        | Rule::comparison
        | Rule::defaulted
        | Rule::joined
        | Rule::sum_expr
        | Rule::product
        | Rule::unary
        | Rule::postfix
        | Rule::primary
        | Rule::argument
        | Rule::quantifier => "an expression",
        Rule::binder => "x in LIST",
        Rule::pattern => "a pattern such as `call pay where ..`",
        _ => return None,
    })
}
