//! Source files, spans in them, and where a span is in lines and columns.

use std::ops::Range;

/// A file of a [`Sources`] collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u32);

/// A run of bytes of a source file. Offsets beyond the text or inside a character are allowed: they
/// are brought to the nearest place that exists when the span is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// Offset of the first byte.
    pub start: u32,
    /// Offset just after the last byte.
    pub end: u32,
}

impl Span {
    /// A span from byte offsets.
    pub fn new(file: FileId, bytes: Range<usize>) -> Span {
        // Pack files are far below 4 GiB; a larger offset is shown at the end of the file.
        let offset = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { file, start: offset(bytes.start), end: offset(bytes.end).max(offset(bytes.start)) }
    }

    /// The very beginning of a file; for mistakes that concern the file as a whole.
    pub fn start_of(file: FileId) -> Span {
        Span { file, start: 0, end: 0 }
    }

    /// From the start of this span to the end of another one of the same file.
    pub fn to(self, other: Span) -> Span {
        Span { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A place in a text, as editors count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1. Lines end with a line feed.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// A source file: the name it is shown under, and its text.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
    /// Byte offsets at which lines start; never empty.
    lines: Vec<usize>,
    /// Whether there is a text at all, or only a name to report about.
    has_text: bool,
}

/// The byte-order mark that some editors put before a text.
const BOM: char = '\u{feff}';

impl Source {
    fn new(name: String, text: String, has_text: bool) -> Source {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Source { name, text, lines, has_text }
    }

    /// The name it is shown under, a path as a rule.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its text; empty for a file that could not be read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// False if only the name is known, since the file could not be read or is not there.
    pub fn has_text(&self) -> bool {
        self.has_text
    }

    /// The bytes of a span, brought to places that exist in the text.
    pub fn clamp(&self, span: Span) -> Range<usize> {
        let floor = |offset: u32| {
            let mut at = usize::try_from(offset).unwrap_or(usize::MAX).min(self.text.len());
            while !self.text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = floor(span.start);
        let mut end = usize::try_from(span.end).unwrap_or(usize::MAX).min(self.text.len()).max(start);
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        start..end
    }

    /// The text of a span.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(self.clamp(span)).unwrap_or_default()
    }

    /// Line and column of a byte offset.
    pub fn position(&self, offset: usize) -> Position {
        let offset =
            self.clamp(Span { file: FileId(0), start: u32::try_from(offset).unwrap_or(u32::MAX), end: 0 }).start;
        let index = self.line_of(offset);
        let start = self.lines.get(index).copied().unwrap_or_default();
        let before = self.text.get(start..offset).unwrap_or_default();
        // The mark before a text is no column of its own.
        let before = if index == 0 { before.trim_start_matches(BOM) } else { before };
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Position { line: count(index + 1), column: count(before.chars().count() + 1) }
    }

    /// Index (from 0) of the line that holds a byte offset.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// The bytes of a line, without its line end and without a byte-order mark.
    pub(super) fn line(&self, index: usize) -> Range<usize> {
        let start = self.lines.get(index).copied().unwrap_or(self.text.len());
        let end = self.lines.get(index + 1).copied().unwrap_or(self.text.len());
        let line = self.text.get(start..end).unwrap_or_default();
        let content = line.strip_suffix('\n').unwrap_or(line);
        let content = content.strip_suffix('\r').unwrap_or(content);
        let mark = if index == 0 && content.starts_with(BOM) { BOM.len_utf8() } else { 0 };
        start + mark..start + content.len()
    }
}

/// The files that diagnostics point into.
#[derive(Clone, Debug, Default)]
pub struct Sources(Vec<Source>);

impl Sources {
    /// An empty collection.
    pub fn new() -> Sources {
        Sources::default()
    }

    /// Adds a file under the name it is to be shown with.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        self.push(Source::new(name.into(), text.into(), true))
    }

    /// Adds the name of a file that has no text: it is missing or cannot be read.
    pub fn add_name(&mut self, name: impl Into<String>) -> FileId {
        self.push(Source::new(name.into(), String::new(), false))
    }

    fn push(&mut self, source: Source) -> FileId {
        let id = FileId(u32::try_from(self.0.len()).unwrap_or(u32::MAX));
        self.0.push(source);
        id
    }

    /// A file; `None` for an id of another collection.
    pub fn get(&self, id: FileId) -> Option<&Source> {
        self.0.get(usize::try_from(id.0).ok()?)
    }

    /// The text of a file; empty for an id of another collection.
    pub fn text(&self, id: FileId) -> &str {
        self.get(id).map(Source::text).unwrap_or_default()
    }

    /// Every file, in the order of adding.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &Source)> {
        (0u32..).map(FileId).zip(&self.0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn position(text: &str, offset: usize) -> (u32, u32) {
        let mut sources = Sources::new();
        let id = sources.add("a", text);
        let p = sources.get(id).unwrap().position(offset);
        (p.line, p.column)
    }

    #[test]
    fn columns_count_characters_and_lines_end_at_line_feeds() {
        assert_eq!(position("é=1\r\nb", 2), (1, 2));
        assert_eq!(position("é=1\r\nb", 6), (2, 1));
        assert_eq!(position("a\n", 2), (2, 1));
        assert_eq!(position("", 0), (1, 1));
        assert_eq!(position("\u{feff}ab", 3), (1, 1));
        assert_eq!(position("\u{feff}ab", 4), (1, 2));
    }

    #[test]
    fn offsets_that_do_not_exist_are_brought_to_ones_that_do() {
        assert_eq!(position("é", 1), (1, 1));
        assert_eq!(position("é", 99), (1, 2));
        let mut sources = Sources::new();
        let id = sources.add("a", "xéy");
        let source = sources.get(id).unwrap();
        assert_eq!(source.slice(Span::new(id, 2..2)), "é");
        assert_eq!(source.slice(Span::new(id, 1..2)), "é");
        assert_eq!(source.slice(Span::new(id, 9..12)), "");
    }
}
