//! Diagnostics as text: message, source line, caret, hint.

use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet, renderer::DecorStyle};

use super::{Diagnostic, Diagnostics, FileId, Label, Severity, Source, Sources};

/// How text is decorated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// No escape sequences.
    Plain,
    /// Colours for a terminal.
    Colour,
}

/// Longer source lines are cut around the caret.
const LINE_WIDTH: usize = 140;
/// Lines around a marked one that may be shown; those further off are left out of the snippet.
const NEAR: usize = 2;

impl Diagnostics {
    /// All of them as text, by file and place, an empty line between two, a line end after each.
    pub fn render(&self, sources: &Sources, style: Style) -> String {
        let mut rendered: Vec<String> = self.sorted().into_iter().map(|d| d.render(sources, style)).collect();
        if self.len() > Diagnostics::MOST {
            rendered.push(format!("{} more are not shown\n", self.len() - Diagnostics::MOST));
        }
        rendered.join("\n")
    }
}

impl Diagnostic {
    /// As text of several lines, with a line end after the last.
    pub fn render(&self, sources: &Sources, style: Style) -> String {
        let renderer = match style {
            Style::Plain => Renderer::plain(),
            Style::Colour => Renderer::styled(),
        }
        .decor_style(DecorStyle::Ascii)
        .term_width(LINE_WIDTH);
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = Group::with_title(level.primary_title(self.message.as_str()).id(self.code.text()));
        for (file, labels) in self.by_file() {
            let Some(source) = sources.get(file) else { continue };
            group = if source.has_text() {
                group.element(snippet(source, &labels))
            } else {
                group.element(Origin::path(source.name()))
            };
        }
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let mut text = renderer.render(&[group]);
        text.push('\n');
        text
    }

    /// The labels of each file, the primary one first.
    fn by_file(&self) -> Vec<(FileId, Vec<(AnnotationKind, &Label)>)> {
        let all = std::iter::once((AnnotationKind::Primary, &self.primary))
            .chain(self.secondary.iter().map(|l| (AnnotationKind::Context, l)));
        let mut files: Vec<(FileId, Vec<_>)> = Vec::new();
        for (kind, label) in all {
            match files.iter_mut().find(|(file, _)| *file == label.span.file) {
                Some((_, labels)) => labels.push((kind, label)),
                None => files.push((label.span.file, vec![(kind, label)])),
            }
        }
        files
    }
}

/// The marked lines of a file and their neighbours, made fit to print: line ends plain, far lines empty (they are folded away). A span is marked on its first line only.
fn snippet<'a>(source: &'a Source, labels: &[(AnnotationKind, &'a Label)]) -> Snippet<'a, Annotation<'a>> {
    let marks: Vec<(usize, Range<usize>)> = labels
        .iter()
        .map(|(_, label)| {
            let bytes = source.clamp(label.span);
            let index = source.line_of(bytes.start);
            let line = source.line(index);
            let start = bytes.start.clamp(line.start, line.end);
            (index, start..bytes.end.clamp(start, line.end))
        })
        .collect();
    let first = marks.iter().map(|(line, _)| *line).min().unwrap_or_default();
    let last = marks.iter().map(|(line, _)| *line).max().unwrap_or_default();
    let mut text = String::new();
    let mut placed: Vec<Range<usize>> = vec![0..0; marks.len()];
    for index in first..=last {
        if index > first {
            text.push('\n');
        }
        if marks.iter().all(|(line, _)| line.abs_diff(index) > NEAR) {
            continue;
        }
        let line = source.line(index);
        let shown_at = text.len();
        text.push_str(source.text().get(line.clone()).unwrap_or_default());
        for (slot, (_, bytes)) in placed.iter_mut().zip(&marks).filter(|(_, (l, _))| *l == index) {
            *slot = shown_at + bytes.start - line.start..shown_at + bytes.end - line.start;
        }
    }
    let annotations = labels.iter().zip(placed).map(|((kind, label), bytes)| {
        let annotation = kind.span(bytes);
        if label.text.is_empty() { annotation } else { annotation.label(label.text.as_str()) }
    });
    Snippet::source(text).path(source.name()).line_start(first + 1).annotations(annotations)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::diag::{Code, Span};

    fn render(text: &str, bytes: Range<usize>) -> String {
        let mut sources = Sources::new();
        let file = sources.add("pack.yaml", text);
        Diagnostic::error(Code::KeyUnknown, Span::new(file, bytes), "unknown key")
            .help("leave it out")
            .render(&sources, Style::Plain)
    }

    #[test]
    fn message_place_line_caret_and_hint() {
        insta::assert_snapshot!(render("name: x\nnmae: y\n", 8..12), @r"
        error[P0104]: unknown key
         --> pack.yaml:2:1
          |
        2 | nmae: y
          | ^^^^
          |
          = help: leave it out
        ");
    }

    #[test]
    fn line_ends_marks_and_tabs_do_not_shift_the_caret() {
        insta::assert_snapshot!(render("\u{feff}a: 1\r\n\tb: é ü\r\n", 9..10), @r"
        error[P0104]: unknown key
         --> pack.yaml:2:1
          |
        2 |     b: é ü
          | ^^^^
          |
          = help: leave it out
        ");
        insta::assert_snapshot!(render("\u{feff}a: 1\r\n", 3..4), @r"
        error[P0104]: unknown key
         --> pack.yaml:1:1
          |
        1 | a: 1
          | ^
          |
          = help: leave it out
        ");
    }

    #[test]
    fn the_end_of_a_file_can_be_pointed_at() {
        insta::assert_snapshot!(render("a: 1\n", 5..5), @r"
        error[P0104]: unknown key
         --> pack.yaml:2:1
          |
        2 |
          | ^
          |
          = help: leave it out
        ");
        insta::assert_snapshot!(render("a: 1", 4..4), @r"
        error[P0104]: unknown key
         --> pack.yaml:1:5
          |
        1 | a: 1
          |     ^
          |
          = help: leave it out
        ");
        insta::assert_snapshot!(render("", 0..0), @r"
        error[P0104]: unknown key
         --> pack.yaml:1:1
          |
        1 |
          | ^
          |
          = help: leave it out
        ");
        insta::assert_snapshot!(render("a: 1", 900..1000), @r"
        error[P0104]: unknown key
         --> pack.yaml:1:5
          |
        1 | a: 1
          |     ^
          |
          = help: leave it out
        ");
    }

    #[test]
    fn a_long_line_is_cut_around_the_caret() {
        let long = format!("{}KEY{}", "é".repeat(5000), "x".repeat(5000));
        let text = render(&long, 10_000..10_003);
        assert!(text.lines().all(|l| l.chars().count() < 150), "{text}");
        insta::assert_snapshot!(text, @r"
        error[P0104]: unknown key
         --> pack.yaml:1:5001
          |
        1 | ...éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééKEYxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
          |                                                                   ^^^
          |
          = help: leave it out
        ");
    }

    #[test]
    fn a_span_of_many_lines_is_marked_on_its_first() {
        insta::assert_snapshot!(render("a:\n  b: 1\n  c: 2\nd: 3\n", 0..18), @r"
        error[P0104]: unknown key
         --> pack.yaml:1:1
          |
        1 | a:
          | ^^
          |
          = help: leave it out
        ");
    }

    #[test]
    fn other_places_are_shown_with_their_words() {
        let mut sources = Sources::new();
        let text = format!("a: 1\n{}a: 2\n", "b: 1\n".repeat(1000));
        let file = sources.add("pack.yaml", text.clone());
        let other = sources.add("other.yaml", "name: x\n");
        let missing = sources.add_name("gone.yaml");
        let diagnostic = Diagnostic::error(
            Code::KeyTwice,
            Span::new(file, text.len() - 5..text.len() - 4),
            "key `a` is written twice",
        )
        .label("again here")
        .secondary(Span::new(file, 0..1), "first here")
        .secondary(Span::new(other, 0..4), "and here");
        insta::assert_snapshot!(diagnostic.render(&sources, Style::Plain), @r"
        error[P0103]: key `a` is written twice
            --> pack.yaml:1002:1
             |
           1 | a: 1
             | - first here
        ...
        1002 | a: 2
             | ^ again here
             |
            ::: other.yaml:1:1
             |
           1 | name: x
             | ---- and here
        ");
        insta::assert_snapshot!(Diagnostic::error(Code::FileMissing, Span::start_of(missing), "no pack.yaml")
                .render(&sources, Style::Plain), @r"
        error[P0004]: no pack.yaml
        --> gone.yaml
        ");
    }

    #[test]
    fn colour_is_asked_for() {
        let mut sources = Sources::new();
        let span = Span::start_of(sources.add("a", "x"));
        let diagnostic = Diagnostic::warning(Code::FileUnknown, span, "w");
        assert!(diagnostic.render(&sources, Style::Colour).contains('\u{1b}'));
        assert!(!diagnostic.render(&sources, Style::Plain).contains('\u{1b}'));
    }

    proptest::proptest! {
        #[test]
        fn any_span_of_any_text_can_be_shown(text in "[a\u{e9}\u{1F600}\t\r\n\u{feff}\u{0}\u{202e}: ]{0,40}", a in 0usize..200, b in 0usize..200, c in 0usize..200, wide in 0usize..300) {
            let mut sources = Sources::new();
            let text = format!("{text}{}{text}", "w".repeat(wide));
            let file = sources.add("f", text);
            let diagnostic = Diagnostic::error(Code::KeyTwice, Span::new(file, a..b), "m")
                .label("l")
                .secondary(Span::new(file, c..c + 3), "s");
            let all: Diagnostics = [diagnostic].into_iter().collect();
            let shown = all.render(&sources, Style::Plain);
            proptest::prop_assert!(shown.contains("--> f:"));
            proptest::prop_assert_eq!(all.records(&sources).len(), 1);
        }
    }
}
