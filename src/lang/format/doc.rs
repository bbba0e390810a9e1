//! A document with places where lines may break, and its printer.
//!
//! The algorithm is Wadler's: a group stands on one line if it fits, and breaks at each of its lines if it does
//! not. Comments are what is added to it: one ends its line wherever it stands, so the break after it is due
//! before the next word, and merges with a break that comes there anyway.

/// How wide a line may be, in characters. Comments are not counted: they are the author's.
const WIDTH: usize = 120;

/// What is laid out.
#[derive(Debug)]
pub(super) enum Doc {
    /// Nothing.
    Nothing,
    /// Words and signs.
    Text(String),
    /// A blank; none at the end of a line.
    Space,
    /// A blank, or a line break if the group is broken.
    Line,
    /// Nothing, or a line break if the group is broken.
    Soft,
    /// A line break.
    Hard,
    /// An empty line.
    Blank,
    /// What stands only where the group is broken.
    IfBroken(&'static str),
    /// A comment, with its sign. It begins a line, or ends that of the word before it.
    Comment {
        /// The text from `#` on.
        text: String,
        /// Whether it begins a line.
        own_line: bool,
    },
    /// Parts in order.
    All(Vec<Doc>),
    /// Lines in it are indented this much more.
    Nest(usize, Box<Doc>),
    /// Lines in it are indented to the column where it begins.
    Align(Box<Doc>),
    /// One line if it fits.
    Group(Box<Doc>),
    /// One line, whether it fits or not.
    Flat(Box<Doc>),
}

impl Doc {
    pub(super) fn text(text: impl Into<String>) -> Doc {
        Doc::Text(text.into())
    }

    pub(super) fn nest(by: usize, doc: Doc) -> Doc {
        Doc::Nest(by, Box::new(doc))
    }

    pub(super) fn align(doc: Doc) -> Doc {
        Doc::Align(Box::new(doc))
    }

    pub(super) fn group(doc: Doc) -> Doc {
        Doc::Group(Box::new(doc))
    }

    pub(super) fn flat(doc: Doc) -> Doc {
        Doc::Flat(Box::new(doc))
    }

    /// A line that breaks if what follows it, up to the next place where a line may break, does not fit.
    pub(super) fn fill() -> Doc {
        Doc::group(Doc::Line)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Flat,
    Broken,
}

type Work<'d> = (usize, Mode, &'d Doc);

/// The text of a document, ending with a line break unless it is empty.
pub(super) fn print(doc: &Doc) -> String {
    let mut out = Printer::default();
    let mut work: Vec<Work<'_>> = vec![(0, Mode::Broken, doc)];
    while let Some((indent, mode, doc)) = work.pop() {
        match doc {
            Doc::Nothing => {}
            Doc::Text(text) => out.word(text, indent),
            Doc::Space => out.space = true,
            Doc::Line | Doc::Soft if mode == Mode::Broken => out.line_break(1, indent),
            Doc::Line => out.blank_or_due_break(true, indent),
            Doc::Soft => out.blank_or_due_break(false, indent),
            Doc::Hard => out.line_break(1, indent),
            Doc::Blank => out.line_break(2, indent),
            Doc::IfBroken(text) if mode == Mode::Broken => out.word(text, indent),
            Doc::IfBroken(_) => {}
            Doc::Comment { text, own_line } => out.comment(text, *own_line, indent),
            Doc::All(parts) => work.extend(parts.iter().rev().map(|part| (indent, mode, part))),
            Doc::Nest(by, inner) => work.push((indent + by, mode, inner)),
            Doc::Align(inner) => work.push((out.next_column(indent), mode, inner)),
            Doc::Flat(inner) => work.push((indent, Mode::Flat, inner)),
            Doc::Group(inner) if mode == Mode::Flat => work.push((indent, mode, inner)),
            Doc::Group(inner) => {
                let room = WIDTH.saturating_sub(out.next_column(indent));
                let mode = if fits(room, inner, &work) { Mode::Flat } else { Mode::Broken };
                work.push((indent, mode, inner));
            }
        }
    }
    out.end()
}

/// Whether a document fits in what is left of the line, with what follows it up to the next possible break.
fn fits(mut room: usize, doc: &Doc, rest: &[Work<'_>]) -> bool {
    let mut rest = rest.iter().rev();
    let mut work = vec![(Mode::Flat, doc)];
    loop {
        let Some((mode, doc)) = work.pop() else {
            match rest.next() {
                Some((_, mode, doc)) => work.push((*mode, doc)),
                None => return true,
            }
            continue;
        };
        let mut wide = |n: usize| match room.checked_sub(n) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        };
        let broken = mode == Mode::Broken;
        let still_fits = match doc {
            Doc::Nothing => true,
            Doc::Text(text) => wide(text.chars().count()),
            Doc::Space => wide(1),
            Doc::Line | Doc::Soft | Doc::Hard | Doc::Blank | Doc::Comment { .. } if broken => return true,
            Doc::Hard | Doc::Blank | Doc::Comment { .. } => return false,
            Doc::Line => wide(1),
            Doc::Soft => true,
            Doc::IfBroken(text) => !broken || wide(text.chars().count()),
            Doc::All(parts) => {
                work.extend(parts.iter().rev().map(|part| (mode, part)));
                true
            }
            Doc::Flat(inner) => {
                work.push((Mode::Flat, inner));
                true
            }
            Doc::Nest(_, inner) | Doc::Align(inner) | Doc::Group(inner) => {
                work.push((mode, inner));
                true
            }
        };
        if !still_fits {
            return false;
        }
    }
}

#[derive(Default)]
struct Printer {
    text: String,
    /// Characters on the line so far.
    column: usize,
    /// A blank is due before the next word of this line.
    space: bool,
    /// So many line breaks are due before the next word.
    breaks: usize,
    /// The indentation after them; that of the word itself after a comment.
    indent: Option<usize>,
}

impl Printer {
    /// Where the next word will stand.
    fn next_column(&self, indent: usize) -> usize {
        match self.breaks {
            0 => self.column + usize::from(self.space && self.column > 0),
            _ => self.indent.unwrap_or(indent),
        }
    }

    fn line_break(&mut self, breaks: usize, indent: usize) {
        self.breaks = self.breaks.max(breaks);
        self.indent = Some(indent);
        self.space = false;
    }

    /// A line of a group that is not broken: a break all the same if a comment asks for one.
    fn blank_or_due_break(&mut self, blank: bool, indent: usize) {
        if self.breaks > 0 {
            self.indent = Some(indent);
        } else {
            self.space |= blank;
        }
    }

    fn word(&mut self, text: &str, indent: usize) {
        if text.is_empty() {
            return;
        }
        let column = self.next_column(indent);
        self.go_to(column);
        self.text.push_str(text);
        self.column += text.rsplit('\n').next().unwrap_or(text).chars().count();
    }

    /// Writes the breaks and blanks that are due. Nothing stands before the first line.
    fn go_to(&mut self, column: usize) {
        if self.breaks > 0 && !self.text.is_empty() {
            self.text.extend(std::iter::repeat_n('\n', self.breaks));
            self.column = 0;
        }
        self.text.extend(std::iter::repeat_n(' ', column.saturating_sub(self.column)));
        self.column = column;
        (self.breaks, self.space, self.indent) = (0, false, None);
    }

    fn comment(&mut self, text: &str, own_line: bool, indent: usize) {
        if self.breaks > 0 || own_line || self.column == 0 {
            self.breaks = self.breaks.max(1);
            let column = self.indent.unwrap_or(indent);
            self.go_to(column);
        } else {
            self.go_to(self.column + 2);
        }
        self.text.push_str(text);
        self.breaks = 1;
    }

    fn end(mut self) -> String {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text
    }
}
