//! How deep a text nests, before the grammar sees it: the generated parser recurses, so what it is
//! given must be bounded. This tells code from texts, patterns and comments exactly as the grammar
//! does, since a bracket that it took for a letter would not be counted.

/// Quantifiers nest without brackets; so many of them may stand in one declaration.
const MAX_QUANTIFIERS: u16 = 4 * super::MAX_NESTING;

/// The place of the first bracket or quantifier beyond the limits, in the declaration that a text
/// begins with.
pub(super) fn too_deep(text: &str) -> Option<usize> {
    let mut scan = Scan { text, at: 0, open: Vec::new(), quantifiers: 0, last: "" };
    while let Some(c) = scan.rest().chars().next() {
        let start = scan.at;
        if scan.at_next_item() {
            return None;
        }
        if c.is_ascii_alphanumeric() || c == '_' {
            scan.word();
        } else {
            scan.sign(c);
        }
        if scan.open.len() > usize::from(super::MAX_NESTING) || scan.quantifiers > MAX_QUANTIFIERS {
            return Some(start);
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Plain,
    /// A hole in a text: after it the text goes on.
    Hole,
}

struct Scan<'t> {
    text: &'t str,
    at: usize,
    open: Vec<Bracket>,
    quantifiers: u16,
    /// The word or sign before this place; empty after a field, which may be any word.
    last: &'t str,
}

impl<'t> Scan<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Whether the next declaration begins here: its word cannot be a part of this one, unless it
    /// stands where any word may.
    fn at_next_item(&self) -> bool {
        let any_word = matches!(self.last, "." | "," | "{" | "(" | ":" | "tags" | "policy");
        let line_start = self.at > 0 && self.text.as_bytes().get(self.at - 1) == Some(&b'\n');
        line_start && !any_word && super::begins_item(self.rest())
    }

    fn word(&mut self) {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        self.at += end;
        self.last = if self.last == "." { "" } else { word };
        if matches!(self.last, "any" | "all" | "none") {
            self.quantifiers = self.quantifiers.saturating_add(1);
        }
    }

    fn sign(&mut self, c: char) {
        let sign = self.rest().get(..c.len_utf8()).unwrap_or_default();
        self.at += sign.len();
        if matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{FEFF}') {
            return;
        }
        if c == '#' {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            return;
        }
        let last = std::mem::replace(&mut self.last, sign);
        match c {
            '"' if last == "message" => self.template(),
            '"' => self.quoted('"'),
            '/' if matches!(last, "matches" | "(" | ",") => self.quoted('/'),
            '(' | '[' | '{' => self.open.push(Bracket::Plain),
            ')' | ']' => {
                self.open.pop();
            }
            '}' if self.open.pop() == Some(Bracket::Hole) => self.template(),
            _ => {}
        }
    }

    /// To the end of a text or pattern, or of its line, where neither goes on.
    fn quoted(&mut self, end: char) {
        let mut escaped = false;
        for (i, c) in self.rest().char_indices() {
            match c {
                // An escaped line end is a part of it to the grammar, whatever becomes of it later.
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '\n' => {
                    self.at += i;
                    return;
                }
                c if c == end => {
                    self.at += i + c.len_utf8();
                    return;
                }
                _ => {}
            }
        }
        self.at = self.text.len();
    }

    /// To the end of the text of a message, or into its next hole.
    fn template(&mut self) {
        let mut escaped = false;
        let mut skip_to = 0;
        let rest = self.rest();
        for (i, c) in rest.char_indices() {
            match c {
                _ if i < skip_to => {}
                _ if escaped => escaped = false,
                '\\' => {
                    let code = rest.get(i..).and_then(|r| r.strip_prefix("\\u{"));
                    let digits = code.map(|r| r.len() - r.trim_start_matches(|c: char| c.is_ascii_hexdigit()).len());
                    match digits {
                        Some(n) if code.and_then(|r| r.get(n..)).is_some_and(|r| r.starts_with('}')) => {
                            skip_to = i + "\\u{".len() + n + 1;
                        }
                        _ => escaped = true,
                    }
                }
                '{' => {
                    self.open.push(Bracket::Hole);
                    self.last = "{";
                    self.at += i + 1;
                    return;
                }
                '"' | '\n' | '}' => {
                    self.at += i + 1;
                    return;
                }
                _ => {}
            }
        }
        self.at = self.text.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_texts_patterns_and_comments_are_letters() {
        let smile = "(".repeat(100);
        for text in [
            format!("def f() = \"{smile}\""),
            format!("def f() = x matches /{smile}/"),
            format!("def f() = extract(x, /{smile}/) # {smile}\n"),
            format!("policy P \"{smile}\" {{ message \"\\{{{smile}{{f(\"{smile}\")}}{smile}\" judge \"{smile}\" }}"),
            format!("policy P \"\" {{ message \"\\u{{28}}{smile}\" }}"),
        ] {
            assert_eq!(too_deep(&text), None, "{text}");
        }
    }

    #[test]
    fn a_declaration_ends_where_the_next_one_begins() {
        let open = "policy P \"\" { on end\n".repeat(100);
        assert_eq!(too_deep(&open), None);
        let many = "def f() = any x in L: x\n".repeat(300);
        assert_eq!(too_deep(&many), None);
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
            format!("def f() = x matches /[/]/ and {deep}"),
            format!("policy P \"\" {{ message \"{{ {deep}"),
            format!("policy P \"\" {{ message \"a{{x}}b\\u{{7b}}{{{deep}"),
            format!("policy P \"\" {{ message \"{{\"\"}}{{{deep}\" }}"),
            format!("policy P \"\" {{ tags message judge \"{{\" on call a when x.message == {deep}"),
            "def f() = ".to_owned() + &"any x in L: ".repeat(300),
            format!("def f() = x.\nset == {deep}"),
            format!("def f() = once(call in {{\nset }}) and {deep}"),
            format!("policy\nset \"\" {{ tags a,\nset severity 1 deny if {deep}"),
        ] {
            assert!(too_deep(&text).is_some(), "{text}");
        }
    }
}
