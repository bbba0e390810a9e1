//! A look at the text of a file before the grammar reads it: brackets, quotes and quantifiers.
//!
//! The generated parser recurses on each of them, so nesting is bounded here, where a loop does. The
//! scan follows the grammar's tokens: whatever the grammar can read up to some place is read here in
//! the same way. It also knows what was never closed, which the grammar notices only much later.

use super::{
    MAX_NESTING,
    words::{ITEM_WORDS, STATEMENT_WORDS},
};

/// A bracket or quote that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    /// Where it stands.
    pub(super) at: usize,
    /// Which: `(`, `[`, `{` or `"`.
    pub(super) sign: char,
    /// Whether it is the hole of a message, so that the message's text goes on after it.
    pub(super) hole: bool,
    /// Quantifiers around it.
    quantifiers: u16,
}

impl Open {
    /// The sign that closes it.
    pub(super) fn closed_by(self) -> char {
        match self.sign {
            '(' => ')',
            '[' => ']',
            '{' => '}',
            other => other,
        }
    }
}

/// What the scan of a text found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing is open at the end.
    Balanced,
    /// At the end of the text these are open, the outermost first.
    Unclosed(Vec<Open>),
    /// A closing bracket that closes nothing, or something else than the last of these.
    Mismatch {
        /// Where it stands.
        at: usize,
        /// What is open there, the outermost first.
        open: Vec<Open>,
    },
    /// A text in quotes that its line does not close.
    Quote {
        /// Its first quote.
        at: usize,
        /// The brackets around it.
        open: Vec<Open>,
    },
    /// At this place brackets, or quantifiers, nest too deep.
    TooDeep {
        /// Of the first one beyond the limit.
        at: usize,
    },
}

/// What the word or sign before means for the next one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// `policy`: its id comes next, whatever word that is.
    Policy,
    /// `message`: a text with holes may come next.
    Message,
    /// `(`, `,` or `matches`: a pattern between slashes may come next.
    Argument,
    /// `.`: a field's name comes next, whatever word that is.
    Dot,
    Other,
}

/// Scans a text from its start.
pub(super) fn scan(text: &str) -> Found {
    let mut scan = Scan { text, at: 0, open: Vec::new(), quantifiers: 0, before: Before::Other };
    match scan.run() {
        Some(found) => found,
        None if scan.open.is_empty() => Found::Balanced,
        None => Found::Unclosed(scan.open),
    }
}

struct Scan<'t> {
    text: &'t str,
    at: usize,
    open: Vec<Open>,
    quantifiers: u16,
    before: Before,
}

impl<'t> Scan<'t> {
    fn run(&mut self) -> Option<Found> {
        while let Some(c) = self.peek() {
            let start = self.at;
            let before = std::mem::replace(&mut self.before, Before::Other);
            match c {
                c if c.is_ascii_alphanumeric() || c == '_' => {
                    let word = self.word();
                    self.before = self.after_word(word, before);
                }
                c if c.is_whitespace() || c == '\u{feff}' => {
                    self.at += c.len_utf8();
                    self.before = before;
                }
                '#' => {
                    self.skip_until(|c| c == '\n');
                    self.before = before;
                }
                '"' if before == Before::Message => {
                    if let Some(problem) = self.template(start) {
                        return Some(problem);
                    }
                }
                '"' => {
                    self.at += 1;
                    if !self.quoted('"') {
                        return Some(Found::Quote { at: start, open: std::mem::take(&mut self.open) });
                    }
                }
                '/' if before == Before::Argument => {
                    self.at += 1;
                    if !self.quoted('/') {
                        // The grammar stops here as well: nothing behind it will be read.
                        return None;
                    }
                }
                '(' | '[' | '{' => {
                    self.at += 1;
                    self.push(start, c, false);
                    if c == '(' {
                        self.before = Before::Argument;
                    }
                }
                ')' | ']' | '}' => {
                    if self.open.last().is_none_or(|open| open.closed_by() != c) {
                        return Some(Found::Mismatch { at: start, open: std::mem::take(&mut self.open) });
                    }
                    self.at += 1;
                    let closed = self.open.pop();
                    self.quantifiers = closed.map_or(0, |open| open.quantifiers);
                    if closed.is_some_and(|open| open.hole)
                        && let Some(problem) = self.template_text()
                    {
                        return Some(problem);
                    }
                }
                c => {
                    self.at += c.len_utf8();
                    self.before = match c {
                        ',' => Before::Argument,
                        '.' => Before::Dot,
                        _ => Before::Other,
                    };
                }
            }
            let brackets = u16::try_from(self.open.len()).unwrap_or(u16::MAX);
            if brackets > MAX_NESTING || self.quantifiers > MAX_NESTING {
                return Some(Found::TooDeep { at: start });
            }
        }
        None
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn skip_until(&mut self, stop: impl Fn(char) -> bool) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.find(stop).unwrap_or(rest.len());
    }

    fn word(&mut self) -> &'t str {
        let start = self.at;
        self.skip_until(|c| !c.is_ascii_alphanumeric() && c != '_');
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn after_word(&mut self, word: &str, before: Before) -> Before {
        if matches!(before, Before::Dot | Before::Policy) {
            return Before::Other;
        }
        if matches!(word, "any" | "all" | "none") {
            self.quantifiers = self.quantifiers.saturating_add(1);
        } else if ITEM_WORDS.contains(&word) || STATEMENT_WORDS.contains(&word) {
            // No quantifier reaches beyond the beginning of a statement or declaration.
            self.quantifiers = self.open.last().map_or(0, |open| open.quantifiers);
        }
        match word {
            "policy" => Before::Policy,
            "message" => Before::Message,
            "matches" => Before::Argument,
            _ => Before::Other,
        }
    }

    fn push(&mut self, at: usize, sign: char, hole: bool) {
        self.open.push(Open { at, sign, hole, quantifiers: self.quantifiers });
    }

    /// Skips to behind the sign that ends a text or pattern; false if its line does not have it.
    fn quoted(&mut self, end: char) -> bool {
        loop {
            match self.next_in_quotes() {
                Some(c) if c == end => return true,
                Some('\n') | None => return false,
                Some(_) => {}
            }
        }
    }

    /// The next character of a quoted text; a backslash takes what follows it along.
    fn next_in_quotes(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        if c != '\\' {
            return Some(c);
        }
        self.at += self.peek()?.len_utf8();
        Some(c)
    }

    /// The next character of a message's text, in which `\u{..}` is no hole.
    fn next_in_template(&mut self) -> Option<char> {
        if let Some(code) = self.text.get(self.at..)?.strip_prefix("\\u{") {
            let after = code.trim_start_matches(|c: char| c.is_ascii_hexdigit());
            if after.starts_with('}') {
                self.at = self.text.len() - after.len() + 1;
                return Some('\\');
            }
        }
        self.next_in_quotes()
    }

    fn template(&mut self, start: usize) -> Option<Found> {
        self.at += 1;
        self.push(start, '"', false);
        self.template_text()
    }

    /// A message's text, up to its end or to the hole that begins next.
    fn template_text(&mut self) -> Option<Found> {
        loop {
            let start = self.at;
            match self.next_in_template() {
                Some('"') => {
                    self.open.pop();
                    return None;
                }
                Some('{') => {
                    self.push(start, '{', true);
                    return None;
                }
                Some('\n') | None => {
                    let at = self.open.pop().map_or(start, |open| open.at);
                    return Some(Found::Quote { at, open: std::mem::take(&mut self.open) });
                }
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_texts_patterns_and_comments_are_letters() {
        let smile = "(".repeat(100);
        for text in [
            "a == \"((\" and b".to_owned(),
            "f(\"\\\"(\", /(\\/[(]/) and text matches /\\)/ # ((".to_owned(),
            "message \"no \\{ but {f(\"}\")} and ( {g}\" when x".to_owned(),
            "policy message \"a {\" { }".to_owned(),
            "x.message \"{\"".to_owned(),
            "a / (b) / c".to_owned(),
            format!("def f() = \"{smile}\""),
            format!("def f() = x matches /{smile}/"),
            format!("def f() = extract(x, /{smile}/) # {smile}\n"),
            format!("policy P \"{smile}\" {{ message \"\\{{{smile}{{f(\"{smile}\")}}{smile}\" judge \"{smile}\" }}"),
            format!("policy P \"\" {{ message \"\\u{{28}}{smile}\" }}"),
        ] {
            assert_eq!(scan(&text), Found::Balanced, "{text}");
        }
    }

    #[test]
    fn nothing_hides_a_bracket() {
        let deep = "(".repeat(100);
        for text in [
            format!("def f() = \"#\" == {deep}"),
            format!("def f() = \"\\\"\" == {deep}"),
            format!("def f() = \")))))))))))))))))))))))))))))))))))))))))\" == {deep}"),
            format!("def f() = x matches /\"/ and {deep}"),
            format!("def f() = x.matches / {deep} / 2"),
            format!("def f() = (x) / {deep} / 2"),
            format!("policy P \"\" {{ message \"{{ {deep}"),
            format!("policy P \"\" {{ message \"a{{x}}b\\u{{7b}}{{{deep}"),
            format!("policy P \"\" {{ message \"{{\"\"}}{{{deep}\" }}"),
            format!("policy P \"\" {{ tags message judge \"{{\" on call a when x.message == {deep}"),
            "def f() = ".to_owned() + &"any x in L: ".repeat(100),
        ] {
            assert!(matches!(scan(&text), Found::TooDeep { .. }), "{text}");
        }
    }

    #[test]
    fn what_is_not_closed_is_known() {
        assert!(matches!(scan("a ( [ b"), Found::Unclosed(open) if open.len() == 2 && open[0].at == 2));
        assert!(matches!(scan("a ( b ]"), Found::Mismatch { at: 6, open } if open.len() == 1));
        assert!(matches!(scan("a )"), Found::Mismatch { at: 2, open } if open.is_empty()));
        assert_eq!(scan("a \"b\nc\""), Found::Quote { at: 2, open: Vec::new() });
        assert!(matches!(scan("message \"b {c} \n"), Found::Quote { at: 8, .. }));
        assert!(matches!(scan("message \"b {c \" \n"), Found::Quote { at: 14, open } if open.len() == 2));
    }

    #[test]
    fn depth_is_that_of_brackets_and_that_of_quantifiers() {
        let deep = usize::from(MAX_NESTING);
        assert_eq!(scan(&"()".repeat(1000)), Found::Balanced);
        assert_eq!(scan(&"any x in l: b when ".repeat(1000)), Found::Balanced);
        assert_eq!(scan(&"(any x in l: b) and ".repeat(1000)), Found::Balanced);
        assert_eq!(scan(&"x.any ".repeat(1000)), Found::Balanced);
        assert_eq!(scan(&"(".repeat(deep + 1)), Found::TooDeep { at: deep });
        assert_eq!(scan(&"any x in l: ".repeat(deep + 1)), Found::TooDeep { at: 12 * deep });
        assert!(matches!(scan(&"any x in l: (".repeat(deep)), Found::Unclosed(_)));
        assert_eq!(scan(&"(\")\" # )\n".repeat(deep + 1)), Found::TooDeep { at: 9 * deep });
    }
}
