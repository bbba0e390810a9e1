//! A text made from another one, with the way back: which bytes of the source each byte came from.

use std::{borrow::Cow, ops::Range};

/// A run of the made text and the run of the source that it came from.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Where it starts in the made text.
    start: usize,
    /// The bytes of the source.
    from: usize,
    to: usize,
    /// True if the bytes are the same in number and stand one for one.
    linear: bool,
}

/// A made text. Without pieces it is the source itself.
#[derive(Debug)]
pub(super) struct Mapped<'a> {
    text: Cow<'a, str>,
    pieces: Option<Vec<Piece>>,
}

impl<'a> Mapped<'a> {
    /// The source as it is.
    pub(super) fn unchanged(source: &'a str) -> Mapped<'a> {
        Mapped { text: Cow::Borrowed(source), pieces: None }
    }

    /// The made text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The source offset where the character at `at` starts.
    pub(super) fn source_of_start(&self, at: usize) -> usize {
        let Some(pieces) = &self.pieces else { return at };
        match pieces.get(pieces.partition_point(|p| p.start <= at).wrapping_sub(1)) {
            Some(p) if p.linear => p.from + (at - p.start),
            Some(p) => p.from,
            None => 0,
        }
    }

    /// The source offset where the character that ends at `at` ends.
    pub(super) fn source_of_end(&self, at: usize) -> usize {
        let Some(pieces) = &self.pieces else { return at };
        match pieces.get(pieces.partition_point(|p| p.start < at).wrapping_sub(1)) {
            Some(p) if p.linear => p.from + (at - p.start),
            Some(p) => p.to,
            None => 0,
        }
    }

    /// True if `at` lies between two runs, or where bytes stand one for one; false inside what one
    /// character (or one cluster) of the source became.
    pub(super) fn is_edge(&self, at: usize) -> bool {
        let Some(pieces) = &self.pieces else { return true };
        match pieces.get(pieces.partition_point(|p| p.start <= at).wrapping_sub(1)) {
            Some(p) => p.linear || p.start == at || at == self.text.len(),
            None => true,
        }
    }
}

/// Makes a [`Mapped`] text run by run.
#[derive(Default)]
pub(super) struct Builder {
    text: String,
    pieces: Vec<Piece>,
}

impl Builder {
    /// Appends what a run of the source became. `linear` if bytes stand one for one. Nothing is kept of
    /// a run that became nothing.
    pub(super) fn push(&mut self, from: Range<usize>, out: &str, linear: bool) {
        if out.is_empty() {
            return;
        }
        let start = self.text.len();
        self.text.push_str(out);
        match self.pieces.last_mut() {
            Some(last) if last.linear && linear && last.to == from.start => last.to = from.end,
            _ => self.pieces.push(Piece { start, from: from.start, to: from.end, linear }),
        }
    }

    /// The text so far.
    pub(super) fn finish(self) -> Mapped<'static> {
        Mapped { text: Cow::Owned(self.text), pieces: Some(self.pieces) }
    }
}
