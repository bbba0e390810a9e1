//! What is said about a text that the grammar refuses. The grammar knows how far it came and what
//! could have stood there; the scan knows what was never closed; this file adds what people are
//! likely to have meant.

use std::ops::Range;

use super::{
    generated::Rule,
    is_name,
    scan::{Found, Open, scan},
    words::{Expected, STATEMENT_WORDS},
};
use crate::diag::{quote, suggest};

/// A mistake in words; places are offsets into the text.
pub(super) struct Mistake {
    pub(super) at: Range<usize>,
    pub(super) message: String,
    pub(super) label: String,
    pub(super) also: Option<(Range<usize>, String)>,
    pub(super) help: Option<String>,
}

impl Mistake {
    fn new(at: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Mistake {
        Mistake { at, message: message.into(), label: label.into(), also: None, help: None }
    }

    fn not_closed(open: Open) -> Mistake {
        let message = format!("this `{}` is not closed", open.sign);
        let mut mistake = Mistake::new(open.at..open.at + 1, message, format!("`{}` is missing", open.closed_by()));
        if open.hole {
            mistake.help = Some("in a message `{..}` stands for a value; the sign itself is written `\\{`".to_owned());
        }
        mistake
    }
}

/// The mistake at `offset`, where the grammar could have read what is `expected`.
pub(super) fn explain(text: &str, offset: usize, expected: Expected<'_>) -> Mistake {
    if let Found::Quote { at, open } = scan(text)
        && text.get(offset..at).unwrap_or_default().trim().is_empty()
    {
        return match open.last() {
            Some(hole) if hole.hole => Mistake::not_closed(*hole),
            _ => {
                let line = text.get(at..).and_then(|rest| rest.lines().next()).unwrap_or_default();
                Mistake::new(at..at + line.trim_end().len(), "this text is not closed", "no closing quote on this line")
            }
        };
    }
    let place = Place::new(text, offset, expected);
    let open = match scan(text.get(..offset).unwrap_or_default()) {
        Found::Unclosed(open) => open,
        Found::Quote { .. } if place.found == "}" => {
            let mut mistake = Mistake::new(place.range(), "`}` cannot stand in a message", "");
            mistake.help = Some("`{..}` stands for a value; the sign itself is written `\\{` or `\\}`".to_owned());
            return mistake;
        }
        _ => Vec::new(),
    };
    if place.found.trim().is_empty() {
        return match open.last() {
            Some(open) => Mistake::not_closed(*open),
            None => {
                let end = text.trim_end().len();
                Mistake::new(end..end, "this declaration ends too early", place.expected())
            }
        };
    }
    if let Some(mistake) = brackets(&place, &open) {
        return mistake;
    }
    let message = format!("{} cannot stand here", quote(place.found));
    Mistake { help: place.help(), ..Mistake::new(place.range(), message, place.expected()) }
}

/// A mistake that is one of brackets, whatever else could be said about the place.
fn brackets(place: &Place<'_>, open: &[Open]) -> Option<Mistake> {
    let last = *open.last()?;
    let sign = place.found.chars().next()?;
    let missing = |mistake: Mistake| Mistake {
        also: Some((place.range(), format!("`{}` is missing before this", last.closed_by()))),
        label: String::new(),
        ..mistake
    };
    if matches!(sign, ')' | ']' | '}') {
        if last.closed_by() == sign {
            return None;
        }
        // What is open further out is closed here, or the sign is the wrong one for what is open.
        if last.sign != '{' || open.iter().any(|open| open.closed_by() == sign) {
            return Some(missing(Mistake::not_closed(last)));
        }
        return Some(Mistake::new(place.range(), format!("this `{sign}` closes nothing"), ""));
    }
    // A statement begins, and something within the one before it is still open.
    let begins = STATEMENT_WORDS.contains(&place.found) && place.first_of_line() && place.expected.after_expression();
    (begins && open.len() > 1).then(|| missing(Mistake::not_closed(last)))
}

/// The place that could not be read.
struct Place<'t> {
    text: &'t str,
    at: usize,
    expected: Expected<'t>,
    /// The word or sign there.
    found: &'t str,
    /// The word before, if there is one.
    before: &'t str,
}

impl<'t> Place<'t> {
    fn new(text: &'t str, at: usize, expected: Expected<'t>) -> Place<'t> {
        const SIGNS: [&str; 13] = ["&&", "||", "//", "/*", "==", "!=", "<=", ">=", "=>", "=<", "->", "<>", "--"];
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let tail = text.get(at..).unwrap_or_default();
        let width = match tail.chars().next() {
            None => 0,
            Some(c) if is_word(c) => tail.find(|c| !is_word(c)).unwrap_or(tail.len()),
            Some(c) => SIGNS.iter().find(|sign| tail.starts_with(**sign)).map_or(c.len_utf8(), |sign| sign.len()),
        };
        let head = text.get(..at).unwrap_or_default().trim_end();
        let start = head.rfind(|c| !is_word(c)).and_then(|i| head.get(i..)?.chars().next().map(|c| i + c.len_utf8()));
        Place {
            text,
            at,
            expected,
            found: tail.get(..width).unwrap_or_default(),
            before: head.get(start.unwrap_or(0)..).unwrap_or_default(),
        }
    }

    fn range(&self) -> Range<usize> {
        self.at..self.at + self.found.len()
    }

    fn expected(&self) -> String {
        let words = self.expected.words();
        if words.is_empty() { words } else { format!("expected {words}") }
    }

    fn first_of_line(&self) -> bool {
        let head = self.text.get(..self.at).unwrap_or_default();
        head.trim_end_matches([' ', '\t']).ends_with('\n')
    }

    fn is_word(&self) -> bool {
        self.found.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }

    /// What is likely to have been meant.
    fn help(&self) -> Option<String> {
        if let Some(habit) = self.habit() {
            return Some(habit.to_owned());
        }
        // Of two letters almost every word is near.
        if self.is_word()
            && self.found.len() > 2
            && let Some(near) = suggest(self.found, self.expected.candidates())
        {
            return Some(format!("did you mean `{near}`?"));
        }
        if self.is_word() && self.expected.a_kind() {
            return Some(format!("the kind of event stands first: `call {}`", self.found));
        }
        if STATEMENT_WORDS.contains(&self.found) && self.expected.a_declaration() {
            return Some(format!("`{}` stands inside a policy", self.found));
        }
        let operators = [
            "and", "or", "in", "is", "as", "default", "mentions", "detects", "matches", "contains", "starts", "ends",
            "union", "concat", "mod",
        ];
        let as_value = self.expected.an_expression() && !self.first_of_line() && !operators.contains(&self.found);
        if self.is_word() && !is_name(self.found) && (self.expected.has(Rule::name) || as_value) {
            return Some(format!("{} is a word of the language and cannot be a name", quote(self.found)));
        }
        None
    }

    /// What people bring along from other languages.
    fn habit(&self) -> Option<&'static str> {
        let operator = self.expected.after_expression();
        let just_before = |sign| self.text.get(..self.at).is_some_and(|head| head.ends_with(sign));
        Some(match (self.before, self.found) {
            (_, "/") if just_before('/') => "a comment begins with `#`",
            (_, "=") if just_before('=') => "a definition has one `=`",
            (_, ">") if just_before('<') => "different is written `!=`",
            (_, "=>") => "at least is written `>=`",
            (_, "=<") => "at most is written `<=`",
            (_, "(") if self.expected.has(Rule::k_collects) => "the keys of a fact stand in square brackets",
            (_, ".") if self.expected.has(Rule::string) => "an id is made of letters, digits, `_` and `-`",
            (_, "=") if operator => "equality is written `==`",
            (_, "&" | "&&") => "write `and`",
            (_, "|" | "||") => "write `or`",
            (_, "!") => "write `not`",
            (_, "'") => "texts stand in double quotes",
            (_, "\"") if self.expected.has(Rule::regex) => "a pattern stands between slashes: /[0-9]+/",
            (_, ";") => "no sign is needed between declarations and statements",
            (_, "%") if operator => "the remainder is `a mod b`",
            (_, "//" | "/*" | "--") => "a comment begins with `#`",
            (_, "==" | "!=" | "<" | "<=" | ">" | ">=" | "<>" | "in" | "is") if operator => {
                "comparisons do not chain: join two of them with `and`"
            }
            (_, ",") if self.expected.has(Rule::k_or) && !operator => "several tools stand in braces: `call in {a, b}`",
            ("once", "if" | "unless") => "say for what it is reported once: `once per args.id`",
            (_, "allow") => "policies say what is denied, reviewed or flagged; everything else is allowed",
            ("exists" | "some", _) => "write `any x in LIST: CONDITION`",
            ("forall" | "every" | "each", _) => "write `all x in LIST: CONDITION`",
            (n, "days" | "day" | "hours" | "hour" | "minutes" | "minute" | "min" | "seconds" | "second" | "sec")
                if n.bytes().all(|b| b.is_ascii_digit()) =>
            {
                "a duration is a number and ms, s, m, h or d without a blank: 30m"
            }
            _ => return None,
        })
    }
}
