//! The one door for YAML.
//!
//! Two readers look at every document: `serde_yaml` says what it means, `saphyr-parser` says where
//! everything stands. A document that they understand differently is refused, never settled in favour of
//! one of them. What a pack has no use for (anchors, aliases, tags, merge keys, several documents) is
//! refused as well, so a small file cannot unfold into a large one.

use std::{collections::HashMap, fmt, ops::Range};

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde::de::{Deserialize, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, Visitor};

use super::node::{Entry, Kind, Node};
use crate::diag::{Code, Diagnostic, Diagnostics, FileId, Span, quote};

/// How deep lists and mappings may nest.
const MAX_DEPTH: usize = 64;
/// How many values a document may have.
const MAX_NODES: usize = 1_000_000;

/// Reads a document. What is wrong with it as YAML is reported; `None` if no tree can be given.
pub(super) fn parse(file: FileId, text: &str, diags: &mut Diagnostics) -> Option<Node> {
    let places = Places::new(file, text);
    let before = diags.counts().0;
    let root = Builder { places: &places, diags, open: Vec::new(), root: None, nodes: 0 }.read()?;
    if diags.counts().0 > before {
        // Aliases, tags and repeated keys are not comparable; they are reported already.
        return Some(root);
    }
    match serde_yaml::from_str::<Mirror>(text) {
        Err(error) => {
            // Its positions count bytes.
            let at = error.location().map_or(0, |at| at.index());
            let span = places.byte(at..at);
            diags.push(if text.get(at..).is_some_and(|rest| rest.starts_with('\t')) {
                Diagnostic::error(Code::YamlSyntax, span, "a tab where only blanks may stand")
                    .help("indent with blanks")
            } else {
                disagreement(&places, span).label(first_line(&error.to_string()))
            });
        }
        Ok(mirror) => {
            if let Some(span) = mirror.differs_from(&root) {
                diags.push(disagreement(&places, span));
            }
        }
    }
    Some(root)
}

/// The two readers differ at a place; or, where the text holds a likely reason, there.
fn disagreement(places: &Places<'_>, span: Span) -> Diagnostic {
    // YAML 1.1 takes these for line ends, YAML 1.2 does not.
    let line_end = places.text.char_indices().find(|(_, c)| matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}'));
    let (span, help) = match line_end {
        Some((at, c)) => {
            let code = u32::from(c);
            let help = format!("this is U+{code:04X}: write it as \"\\u{code:04x}\", in double quotes");
            (places.byte(at..at + c.len_utf8()), help)
        }
        None => {
            (span, "write it more plainly: one key a line, quotes around text that is out of the ordinary".to_owned())
        }
    };
    Diagnostic::error(Code::YamlReadersDisagree, span, "two YAML readers understand this differently").help(help)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Turns the parser's positions, which count characters, into spans.
struct Places<'t> {
    file: FileId,
    text: &'t str,
    /// Byte offset of each character; empty if all characters are one byte.
    offsets: Vec<usize>,
}

impl<'t> Places<'t> {
    fn new(file: FileId, text: &'t str) -> Places<'t> {
        let offsets = if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(at, _)| at).collect() };
        Places { file, text, offsets }
    }

    fn offset(&self, character: usize) -> usize {
        if self.offsets.is_empty() {
            return character.min(self.text.len());
        }
        self.offsets.get(character).copied().unwrap_or(self.text.len())
    }

    fn span(&self, at: saphyr_parser::Span) -> Span {
        self.byte(self.offset(at.start.index())..self.offset(at.end.index()))
    }

    /// A span from byte offsets of the text, without the white space at its end.
    fn byte(&self, bytes: Range<usize>) -> Span {
        let trimmed =
            self.text.get(bytes.clone()).map_or(bytes.len(), |t| t.trim_end_matches([' ', '\t', '\r', '\n']).len());
        Span::new(self.file, bytes.start..bytes.start + trimmed)
    }

    /// The part of a span up to the first white space: an anchor or a tag before its value.
    fn first_word(&self, span: saphyr_parser::Span) -> Span {
        let start = self.offset(span.start.index());
        let rest = self.text.get(start..).unwrap_or_default();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        self.byte(start..start + end)
    }
}

/// A list or mapping that is not closed yet.
enum Open {
    List { start: Span, items: Vec<Node> },
    Map { start: Span, entries: Vec<Entry>, seen: HashMap<String, Span>, key: Option<Node> },
}

/// Builds the tree from the parser's events.
struct Builder<'p, 't> {
    places: &'p Places<'t>,
    diags: &'p mut Diagnostics,
    open: Vec<Open>,
    root: Option<Node>,
    nodes: usize,
}

impl Builder<'_, '_> {
    fn read(mut self) -> Option<Node> {
        let mut parser = Parser::new_from_str(self.places.text);
        let mut documents = 0;
        while let Some(next) = parser.next_event() {
            let (event, at) = match next {
                Ok(event) => event,
                Err(error) => {
                    self.syntax(&error);
                    return None;
                }
            };
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(_) => {
                    documents += 1;
                    if documents > 1 {
                        let what = "a second document in one file";
                        self.refuse(self.places.span(at), what, "a pack file holds one document: leave out the `---`");
                        break;
                    }
                }
                Event::Nothing | Event::StreamStart | Event::DocumentEnd => {}
                other => self.node(other, at)?,
            }
        }
        let nothing = Node { span: self.places.byte(0..0), kind: Kind::Null };
        Some(self.root.unwrap_or(nothing))
    }

    /// Takes in an event of a value. `None` ends the reading.
    fn node(&mut self, event: Event<'_>, at: saphyr_parser::Span) -> Option<()> {
        self.nodes += 1;
        let span = self.places.span(at);
        if self.nodes > MAX_NODES {
            self.diags.push(
                Diagnostic::error(Code::FileTooLarge, span, format!("more than {MAX_NODES} values in one file"))
                    .help("split the file"),
            );
            return None;
        }
        match event {
            Event::Alias(_) => {
                self.refuse(span, "an alias", "write the value out");
                self.add(Node { span, kind: Kind::Reported });
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.decorations(at, anchor, tag.is_some());
                // With a tag it means something else than it looks like.
                let kind = if tag.is_some() { Kind::Reported } else { scalar(&text, style) };
                self.add(Node { span, kind });
            }
            Event::SequenceStart(anchor, tag) => {
                self.decorations(at, anchor, tag.is_some());
                self.open(Open::List { start: span, items: Vec::new() })?;
            }
            Event::MappingStart(anchor, tag) => {
                self.decorations(at, anchor, tag.is_some());
                self.open(Open::Map { start: span, entries: Vec::new(), seen: HashMap::new(), key: None })?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            _ => {}
        }
        Some(())
    }

    fn open(&mut self, open: Open) -> Option<()> {
        if self.open.len() == MAX_DEPTH {
            let (Open::List { start, .. } | Open::Map { start, .. }) = &open;
            let what = format!("nested deeper than {MAX_DEPTH} levels");
            self.diags.push(Diagnostic::error(Code::YamlDepth, *start, what));
            return None;
        }
        self.open.push(open);
        Some(())
    }

    fn close(&mut self, end: Span) {
        let node = match self.open.pop() {
            Some(Open::List { start, items }) => {
                let last = items.last().map(|n| n.span);
                Node { span: covering(start, last, end), kind: Kind::List(items) }
            }
            Some(Open::Map { start, entries, .. }) => {
                let last = entries.last().map(|e| e.value.span);
                Node { span: covering(start, last, end), kind: Kind::Map(entries) }
            }
            None => return,
        };
        self.add(node);
    }

    /// Puts a finished value where it belongs.
    fn add(&mut self, node: Node) {
        match self.open.last_mut() {
            None => self.root = self.root.take().or(Some(node)),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, seen, key, .. }) => match key.take() {
                None => *key = Some(node),
                Some(written) => {
                    let (key, problem) = read_key(&written);
                    let repeated = seen.get(&key).copied();
                    // A value that is not written is shown at its key.
                    let unwritten = node.kind == Kind::Null && node.span.start == node.span.end;
                    let span = if unwritten { written.span } else { node.span };
                    let diagnostic = match (problem, repeated) {
                        (Some(problem), _) => Some(problem),
                        (None, Some(first)) => {
                            let what = format!("the key {} is written twice", quote(&key));
                            let twice = Diagnostic::error(Code::KeyTwice, written.span, what);
                            Some(twice.label("again here").secondary(first, "first here").help("keep one of them"))
                        }
                        (None, None) => {
                            seen.insert(key.clone(), written.span);
                            entries.push(Entry { key, key_span: written.span, value: Node { span, ..node } });
                            None
                        }
                    };
                    self.diags.extend(diagnostic);
                }
            },
        }
    }

    fn decorations(&mut self, at: saphyr_parser::Span, anchor: usize, tag: bool) {
        if anchor != 0 {
            let span = self.places.first_word(at);
            self.refuse(span, "an anchor", "write the value out where it is needed");
        } else if tag {
            let span = self.places.first_word(at);
            self.refuse(span, "a tag", "leave it out; text that looks like a number goes in quotes");
        }
    }

    fn refuse(&mut self, span: Span, what: &str, help: &str) {
        let what = format!("{what}: packs do not use this part of YAML");
        self.diags.push(Diagnostic::error(Code::YamlFeature, span, what).help(help));
    }

    fn syntax(&mut self, error: &saphyr_parser::ScanError) {
        let at = self.places.offset(error.marker().index());
        let rest = self.places.text.get(at..).unwrap_or_default();
        let width = rest.chars().next().filter(|c| !c.is_whitespace()).map_or(0, char::len_utf8);
        let span = self.places.byte(at..at + width);
        self.diags.push(match SYNTAX.iter().find(|(theirs, _, _)| error.info().contains(theirs)) {
            Some((_, ours, help)) => Diagnostic::error(Code::YamlSyntax, span, *ours).help(*help),
            None => Diagnostic::error(Code::YamlSyntax, span, format!("not YAML: {}", first_line(error.info()))),
        });
    }
}

/// The parser's words, ours, and what to do.
const SYNTAX: [(&str, &str, &str); 15] = [
    ("unexpected end of stream", "this quotation mark is not closed", "close it with the same mark"),
    (
        "did not find expected key",
        "this does not fit the lines before it",
        "keys of one mapping begin in the same column, its values further right",
    ),
    (
        "expected '-' indicator",
        "an item of the list is expected here",
        "items of one list begin with `- ` in the same column",
    ),
    (
        "mapping values are not allowed",
        "a `:` where no value can stand",
        "put text that holds `: ` in quotes, or mend the indentation",
    ),
    ("simple key expect", "a key without its `: `", "write `key: value`"),
    ("expected ',' or", "a comma or a closing bracket is missing before this", "close the bracket, or add the comma"),
    ("expected node content", "a value or a closing bracket is missing here", "close what is open"),
    ("misplaced bracket", "a closing bracket without its opening one", "remove it, or put the text in quotes"),
    ("unexpected character", "a text cannot begin with this character", "put the text in quotes"),
    (
        "unknown escape",
        "an unknown escape in double quotes",
        "use single quotes, in which a backslash is only a backslash",
    ),
    ("anchor or alias", "`&` and `*` begin a name in YAML", "put the text in quotes"),
    ("unknown anchor", "an alias: packs do not use this part of YAML", "put text that begins with `*` in quotes"),
    ("tab", "a tab where only blanks may stand", "indent with blanks"),
    ("byte order mark", "a byte-order mark inside the text", "remove it"),
    ("unprintable", "a control character", "remove it, or write it as an escape in double quotes"),
];

/// A key's text, and what is wrong with it.
fn read_key(key: &Node) -> (String, Option<Diagnostic>) {
    match &key.kind {
        Kind::Text(text) if text == "<<" => {
            let what = "a merge key: packs do not use this part of YAML";
            let problem = Diagnostic::error(Code::YamlFeature, key.span, what).help("write the keys out");
            (String::new(), Some(problem))
        }
        Kind::Text(text) => (text.clone(), None),
        _ => {
            let what = format!("a key must be text, found {}", key.found());
            let problem = Diagnostic::error(Code::WrongType, key.span, what).help("put it in quotes");
            (String::new(), Some(problem))
        }
    }
}

/// The span of a list or mapping: to its closing bracket, or in block style to its last value.
fn covering(start: Span, last: Option<Span>, end: Span) -> Span {
    let closed_by_bracket = end.start < end.end;
    match last {
        Some(last) if !closed_by_bracket => start.to(last),
        _ if closed_by_bracket => start.to(end),
        _ => start,
    }
}

/// What a scalar means by the core schema of YAML 1.2, as far as `serde_yaml` follows it.
fn scalar(text: &str, style: ScalarStyle) -> Kind {
    if style != ScalarStyle::Plain {
        return Kind::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        _ if looks_like_a_number(text) => Kind::Number(text.to_owned()),
        _ => Kind::Text(text.to_owned()),
    }
}

fn looks_like_a_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = unsigned.strip_prefix(prefix) {
            return !digits.is_empty() && u128::from_str_radix(digits, radix).is_ok() && !digits.starts_with('+');
        }
    }
    // Zeros in front make a text: 007 is no number.
    let zeros_in_front =
        unsigned.len() > 1 && unsigned.starts_with('0') && unsigned.bytes().all(|b| b.is_ascii_digit());
    !zeros_in_front
        && unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.parse::<f64>().is_ok_and(f64::is_finite)
}

/// What `serde_yaml` understood, repeated keys included.
enum Mirror {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Mirror>),
    Map(Vec<(Mirror, Mirror)>),
}

impl Mirror {
    /// The first place where a tree differs from this one.
    fn differs_from(&self, node: &Node) -> Option<Span> {
        match (self, &node.kind) {
            (Mirror::Null, Kind::Null) => None,
            (Mirror::Bool(a), Kind::Bool(b)) if a == b => None,
            (Mirror::Text(a), Kind::Text(b)) if a == b => None,
            (Mirror::Number(a), Kind::Number(b)) if same_number(*a, b) => None,
            (Mirror::List(a), Kind::List(b)) if a.len() == b.len() => {
                a.iter().zip(b).find_map(|(a, b)| a.differs_from(b))
            }
            (Mirror::Map(a), Kind::Map(b)) if a.len() == b.len() => {
                a.iter().zip(b).find_map(|((key, value), entry)| match key {
                    Mirror::Text(key) if *key == entry.key => value.differs_from(&entry.value),
                    _ => Some(entry.key_span),
                })
            }
            _ => Some(node.span),
        }
    }
}

/// Whether a number that was read is the one that is written. Forms that are refused later (NaN, hexadecimal)
/// only have to be numbers.
fn same_number(read: f64, written: &str) -> bool {
    match written.parse::<f64>() {
        Ok(number) if number.is_finite() => number == read,
        _ => true,
    }
}

impl<'de> Deserialize<'de> for Mirror {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mirror, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Mirror;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Mirror, E> {
                Ok(Mirror::Null)
            }

            fn visit_none<E>(self) -> Result<Mirror, E> {
                Ok(Mirror::Null)
            }

            fn visit_bool<E>(self, b: bool) -> Result<Mirror, E> {
                Ok(Mirror::Bool(b))
            }

            #[expect(clippy::cast_precision_loss, reason = "compared with the written number as a double")]
            fn visit_i64<E>(self, n: i64) -> Result<Mirror, E> {
                Ok(Mirror::Number(n as f64))
            }

            #[expect(clippy::cast_precision_loss, reason = "compared with the written number as a double")]
            fn visit_u64<E>(self, n: u64) -> Result<Mirror, E> {
                Ok(Mirror::Number(n as f64))
            }

            #[expect(clippy::cast_precision_loss, reason = "compared with the written number as a double")]
            fn visit_i128<E>(self, n: i128) -> Result<Mirror, E> {
                Ok(Mirror::Number(n as f64))
            }

            #[expect(clippy::cast_precision_loss, reason = "compared with the written number as a double")]
            fn visit_u128<E>(self, n: u128) -> Result<Mirror, E> {
                Ok(Mirror::Number(n as f64))
            }

            fn visit_f64<E>(self, n: f64) -> Result<Mirror, E> {
                Ok(Mirror::Number(n))
            }

            fn visit_str<E>(self, text: &str) -> Result<Mirror, E> {
                Ok(Mirror::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Mirror, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(Mirror::List(all))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Mirror, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    all.push(entry);
                }
                Ok(Mirror::Map(all))
            }

            fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<Mirror, A::Error> {
                Err(A::Error::custom("a tag"))
            }
        }

        deserializer.deserialize_any(Any)
    }
}
