//! From text to concrete tree: every word and sign of a file, grouped as the grammar groups them, with the
//! comments between them. What `format` lays out anew; the syntax tree has no comments and no spelling.

use pest::{Parser, iterators::Pair};

use super::{PolicyParser, Rule, next_item, skip_blank};

/// A construct that has a layout of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lang) enum Kind {
    Set,
    Table,
    Row,
    Fact,
    Def,
    Policy,
    Let,
    Condition,
    Effect,
    Template,
    Hole,
    Sources,
    /// Items between brackets, separated by commas; words may stand before the bracket.
    Listed,
    /// A list or a set, or a comprehension that gives one.
    Collection,
    /// A function over events or elements: `once(..)`, `sum(..)`.
    Asking,
    Parenthesised,
    Pattern,
    Binder,
    /// `for BINDER`, `over PATTERN`, `then PATTERN`.
    Further,
    /// `, BINDER`.
    Elements,
    Or,
    And,
    /// Operators of one level with their operands.
    Operators,
    Comparison,
    /// An operator of comparison with its right side.
    Compared,
    /// One that stays beside its left side: a type, a category, a pattern between slashes.
    Tested,
    Quantifier,
    /// Parts without blanks between them.
    Joined,
    /// `.name`, `[index]`: it follows without a blank.
    Step,
    /// `as TYPE` behind a value.
    Cast,
    /// Parts with blanks between them.
    Spaced,
}

/// A construct and what it consists of.
#[derive(Debug)]
pub(in crate::lang) struct Node {
    pub(in crate::lang) kind: Kind,
    pub(in crate::lang) parts: Vec<Part>,
}

/// A part of a construct.
#[derive(Debug)]
pub(in crate::lang) enum Part {
    Node(Node),
    Token(Token),
}

/// A word, sign or literal as it is written.
#[derive(Debug, Default)]
pub(in crate::lang) struct Token {
    pub(in crate::lang) text: String,
    /// What stands between the token before and this one, without the comment that ends that one's line.
    pub(in crate::lang) before: Gap,
    /// The comment that ends its line.
    pub(in crate::lang) trailing: Option<String>,
}

/// What stands between two tokens.
#[derive(Debug, Default)]
pub(in crate::lang) struct Gap {
    /// Comments on lines of their own.
    pub(in crate::lang) comments: Vec<Comment>,
    /// Whether there is a line break before the token.
    pub(in crate::lang) line_break: bool,
    /// Whether there is an empty line directly before the token.
    pub(in crate::lang) blank: bool,
}

/// A comment on a line of its own.
#[derive(Debug)]
pub(in crate::lang) struct Comment {
    /// From `#` on, without blanks at its end.
    pub(in crate::lang) text: String,
    /// Whether there is an empty line before it.
    pub(in crate::lang) blank: bool,
}

/// A file: its declarations, and the comments behind the last one.
#[derive(Debug)]
pub(in crate::lang) struct File {
    pub(in crate::lang) items: Vec<Node>,
    pub(in crate::lang) end: Gap,
}

/// Reads a file that the parser has read without a mistake; `None` if it has one all the same.
pub(in crate::lang) fn concrete(text: &str) -> Option<File> {
    let mut items = Vec::new();
    // Where the gap before the next token begins.
    let mut gap = 0;
    let mut block = 0;
    while block < text.len() {
        // As the parser does: a declaration ends where the next line begins one.
        let end = next_item(text, block);
        let mut at = skip_blank(text.get(..end)?, block);
        while at < end {
            let input = text.get(at..end)?;
            let mut pairs = PolicyParser::parse(Rule::one_item, input).ok()?;
            let next = at + pairs.as_str().len();
            let item = pairs.next()?.into_inner().next()?.into_inner().next()?;
            let mut reader = Reader { text, base: at, gap };
            let Part::Node(node) = reader.part(item) else { return None };
            gap = reader.gap;
            items.push(node);
            at = skip_blank(text.get(..end)?, next);
        }
        block = end;
    }
    Some(File { items, end: read_gap(text.get(gap..)?, gap == 0) })
}

impl File {
    /// Every comment, in order.
    pub(in crate::lang) fn comments(&self) -> Vec<String> {
        fn of_part(part: &Part, out: &mut Vec<String>) {
            match part {
                Part::Node(node) => node.parts.iter().for_each(|part| of_part(part, out)),
                Part::Token(token) => {
                    out.extend(token.before.comments.iter().map(|c| c.text.clone()));
                    out.extend(token.trailing.clone());
                }
            }
        }
        let mut out = Vec::new();
        self.items.iter().flat_map(|item| &item.parts).for_each(|part| of_part(part, &mut out));
        out.extend(self.end.comments.iter().map(|c| c.text.clone()));
        out
    }
}

const WHITE: [char; 5] = [' ', '\t', '\r', '\n', '\u{FEFF}'];

/// Reads white space and comments. The first comment belongs to the token before if it stands on its line;
/// at the start of a file there is none.
fn read_gap(text: &str, at_start: bool) -> Gap {
    let mut gap = Gap::default();
    let mut breaks = 0;
    let mut rest = text;
    let mut ends_a_line = !at_start;
    while let Some(c) = rest.chars().next() {
        if c == '#' {
            let (comment, after) = rest.split_at(rest.find('\n').unwrap_or(rest.len()));
            if breaks > 0 || !ends_a_line {
                gap.comments.push(Comment { text: comment.trim_end().to_owned(), blank: breaks > 1 });
            }
            (breaks, ends_a_line, rest) = (0, false, after);
            continue;
        }
        breaks += usize::from(c == '\n');
        gap.line_break |= c == '\n';
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    gap.blank = breaks > 1;
    gap
}

/// The comment that ends the line of a token that ends here.
fn trailing(text: &str) -> Option<String> {
    let rest = text.trim_start_matches(|c| WHITE.contains(&c) && c != '\n');
    let comment = rest.starts_with('#').then(|| rest.split('\n').next().unwrap_or_default())?;
    Some(comment.trim_end().to_owned())
}

struct Reader<'t> {
    /// The whole file.
    text: &'t str,
    /// Where in it the item begins: pest counts from there.
    base: usize,
    /// Where the last token ended.
    gap: usize,
}

impl Reader<'_> {
    fn part(&mut self, pair: Pair<'_, Rule>) -> Part {
        let rule = pair.as_rule();
        let (start, end) = (self.base + pair.as_span().start(), self.base + pair.as_span().end());
        if rule == Rule::template {
            return Part::Node(self.template(pair));
        }
        let mut children = pair.into_inner().peekable();
        if children.peek().is_none() {
            return Part::Token(self.token(start, end));
        }
        let mut parts = Vec::new();
        for child in children {
            self.signs(self.base + child.as_span().start(), &mut parts);
            parts.push(self.part(child));
        }
        self.signs(end, &mut parts);
        let kind = kind(rule, &parts);
        if parts.len() == 1 && !matches!(rule, Rule::policy_item | Rule::hole) {
            return parts.remove(0);
        }
        Part::Node(Node { kind, parts })
    }

    /// Signs that are no rules of the grammar, up to a place.
    fn signs(&mut self, end: usize, parts: &mut Vec<Part>) {
        loop {
            let before = self.text.get(..end).unwrap_or_default();
            let at = skip_blank(before, self.gap);
            match before.get(at..).and_then(|rest| rest.chars().next()) {
                Some(sign) => parts.push(Part::Token(self.token(at, at + sign.len_utf8()))),
                None => return,
            }
        }
    }

    fn token(&mut self, start: usize, end: usize) -> Token {
        let before = read_gap(self.text.get(self.gap..start).unwrap_or_default(), self.gap == 0);
        self.gap = end;
        let text = self.text.get(start..end).unwrap_or_default().to_owned();
        Token { text, before, trailing: trailing(self.text.get(end..).unwrap_or_default()) }
    }

    /// The text of a message: what looks like a comment in it is none.
    fn template(&mut self, pair: Pair<'_, Rule>) -> Node {
        let (start, end) = (self.base + pair.as_span().start(), self.base + pair.as_span().end());
        let mut parts = vec![Part::Token(Token { trailing: None, ..self.token(start, start + 1) })];
        for child in pair.into_inner() {
            self.gap = self.base + child.as_span().start();
            let mut part = self.part(child);
            if let Some(last) = part.last_token() {
                last.trailing = None;
            }
            parts.push(part);
        }
        self.gap = end - 1;
        parts.push(Part::Token(self.token(end - 1, end)));
        Node { kind: Kind::Template, parts }
    }
}

impl Part {
    /// Its last token.
    pub(in crate::lang) fn last_token(&mut self) -> Option<&mut Token> {
        match self {
            Part::Token(token) => Some(token),
            Part::Node(node) => node.parts.last_mut()?.last_token(),
        }
    }

    /// Its first token.
    pub(in crate::lang) fn first_token(&mut self) -> Option<&mut Token> {
        match self {
            Part::Token(token) => Some(token),
            Part::Node(node) => node.parts.first_mut()?.first_token(),
        }
    }

    /// Whether it is this sign or word.
    pub(in crate::lang) fn is(&self, text: &str) -> bool {
        matches!(self, Part::Token(token) if token.text == text)
    }

    /// What it is, unless it is a token.
    pub(in crate::lang) fn kind(&self) -> Option<Kind> {
        match self {
            Part::Node(node) => Some(node.kind),
            Part::Token(_) => None,
        }
    }
}

fn kind(rule: Rule, parts: &[Part]) -> Kind {
    match rule {
        Rule::set_item => Kind::Set,
        Rule::table_item => Kind::Table,
        Rule::table_row => Kind::Row,
        Rule::fact_item | Rule::forget_item => Kind::Fact,
        Rule::def_item => Kind::Def,
        Rule::policy_item => Kind::Policy,
        Rule::let_in => Kind::Let,
        Rule::when | Rule::on => Kind::Condition,
        Rule::effect => Kind::Effect,
        Rule::hole => Kind::Hole,
        Rule::sources => Kind::Sources,
        Rule::fact_key | Rule::table_key | Rule::tool_list | Rule::apply | Rule::derived => Kind::Listed,
        Rule::list | Rule::braces => Kind::Collection,
        Rule::folding if parts.iter().all(|p| p.kind() != Some(Kind::Further)) => Kind::Listed,
        Rule::seek | Rule::counting | Rule::folding => Kind::Asking,
        Rule::primary => Kind::Parenthesised,
        Rule::pattern => Kind::Pattern,
        Rule::binder => Kind::Binder,
        Rule::comprehension | Rule::over | Rule::then => Kind::Further,
        Rule::elements => Kind::Elements,
        Rule::expr => Kind::Or,
        Rule::and_expr => Kind::And,
        Rule::defaulted | Rule::joined | Rule::sum_expr | Rule::product => Kind::Operators,
        Rule::comparison => Kind::Comparison,
        Rule::compared | Rule::member | Rule::not_member | Rule::containing | Rule::starting | Rule::ending => {
            Kind::Compared
        }
        Rule::is_type | Rule::is_not_type | Rule::mention | Rule::detecting | Rule::matching => Kind::Tested,
        Rule::quantifier => Kind::Quantifier,
        Rule::unary | Rule::negative | Rule::postfix => Kind::Joined,
        Rule::cast => Kind::Cast,
        Rule::field | Rule::each | Rule::index => Kind::Step,
        _ => Kind::Spaced,
    }
}
