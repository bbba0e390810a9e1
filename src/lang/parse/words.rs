//! What the parser says in words: the grammar's rule names never reach a reader.

use super::generated::Rule;

/// True for the rules that only stand for a word of the grammar.
pub(super) fn is_keyword(rule: Rule) -> bool {
    keyword(rule).is_some()
}

/// The word that a keyword rule stands for.
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
        Rule::k_from => "from",
        Rule::k_collects => "collects",
        Rule::k_where => "where",
        Rule::k_within => "within",
        Rule::k_since => "since",
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
        Rule::k_matches => "matches",
        Rule::k_contains => "contains",
        Rule::k_with => "with",
        Rule::k_starts => "starts with",
        Rule::k_ends => "ends with",
        Rule::k_before => "before this turn",
        Rule::k_including => "including this",
        Rule::k_this => "this",
        Rule::k_turn => "turn",
        Rule::k_count => "count",
        _ => return None,
    })
}

/// What a rule stands for, in a reader's words; operators are left to the reader's knowledge.
fn described(rule: Rule) -> Option<&'static str> {
    if let Some(word) = keyword(rule) {
        return Some(match word {
            // Between operands almost any operator could follow: naming them all says nothing.
            "and" | "or" | "in" | "is" | "as" | "default" | "mentions" | "matches" | "contains" | "starts with"
            | "ends with" | "not" | "count" => return None,
            word => word,
        });
    }
    Some(match rule {
        Rule::item | Rule::one_item => "a declaration: set, table, const, fact, forget, def or policy",
        Rule::statement => {
            "a statement: severity, tags, on, let, when, deny, review, flag, milestone, message or judge"
        }
        Rule::name | Rule::word => "a name",
        Rule::policy_id => "a policy id",
        Rule::number | Rule::digits => "a number",
        Rule::duration => "a duration such as 30m",
        Rule::string | Rule::template => "a text in double quotes",
        Rule::regex => "a pattern between slashes",
        Rule::literal | Rule::constant | Rule::value => "a literal value",
        Rule::kind | Rule::source | Rule::sources => "an event kind: system, user, assistant, call, result, any or end",
        Rule::tools | Rule::glob => "a tool name",
        Rule::type_name => "a type: string, number, whole, bool, list, object or null",
        Rule::polarity => "`if` or `unless`",
        Rule::table_key | Rule::table_row => "a table row such as (a, b): 1",
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

/// The words for what could have stood at a place; empty if that would say nothing.
pub(super) fn expected(rules: &[Rule]) -> String {
    let mut words: Vec<String> = Vec::new();
    for rule in rules {
        let Some(word) = described(*rule) else { continue };
        let word = if keyword(*rule).is_some() { format!("`{word}`") } else { word.to_owned() };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    // A name is an expression, and so is a number: the wider word is enough.
    if words.iter().any(|w| w == "an expression") {
        words.retain(|w| !matches!(w.as_str(), "a name" | "a number" | "a literal value" | "a duration such as 30m"));
    }
    match words.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] if first.len() < 5 => format!("{} or {last}", first.join(", ")),
        _ => String::new(),
    }
}

/// A way out for mistakes that people bring along from other languages.
pub(super) fn hint(found: &str, tail: &str) -> Option<&'static str> {
    Some(match found {
        "=" => "equality is written `==`",
        "&" => "write `and`",
        "|" => "write `or`",
        "!" if !tail.starts_with("!=") => "write `not`",
        "'" => "texts stand in double quotes",
        "\"" => "a text ends at the next double quote of the same line",
        "exists" | "some" => "write `any x in LIST: CONDITION`",
        "forall" | "every" => "write `all x in LIST: CONDITION`",
        "allow" => "policies say what is denied, reviewed or flagged; everything else is allowed",
        ";" => "no sign is needed between declarations and statements",
        _ => return None,
    })
}
