//! One diagnostic, and the collection that a reader fills.

use super::{Code, Span};

/// How bad it is. An error keeps the pack from being used; a warning does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The pack cannot be used.
    Error,
    /// The pack can be used, but hardly means this.
    Warning,
}

/// A place in the source with a few words about it (may be empty).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// What is to be said about it.
    pub text: String,
}

/// One mistake: what it is, where, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a diagnostic does nothing until it is pushed"]
pub struct Diagnostic {
    /// The kind of mistake.
    pub code: Code,
    /// Whether the pack can still be used.
    pub severity: Severity,
    /// What is wrong, in words, in lower case, without a full stop.
    pub message: String,
    /// Where the caret goes.
    pub primary: Label,
    /// Other places that explain it.
    pub secondary: Vec<Label>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            primary: Label { span, text: String::new() },
            secondary: Vec::new(),
            help: None,
        }
    }

    /// A warning.
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Words beside the caret.
    pub fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.primary.text = text.into();
        self
    }

    /// Another place that explains the mistake.
    pub fn secondary(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.secondary.push(Label { span, text: text.into() });
        self
    }

    /// The hint. Given again, it replaces the one before.
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }

    /// The hint "did you mean", if there is a near name.
    pub fn did_you_mean(self, near: Option<&str>) -> Diagnostic {
        match near {
            Some(near) => self.help(format!("did you mean `{near}`?")),
            None => self,
        }
    }
}

/// The mistakes of one reading, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// How many are shown at once: nobody reads more, and showing one costs as much as its line is long.
    pub const MOST: usize = 200;

    /// An empty collection.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// True if one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity == Severity::Error)
    }

    /// How many errors and how many warnings.
    pub fn counts(&self) -> (usize, usize) {
        let errors = self.0.iter().filter(|d| d.severity == Severity::Error).count();
        (errors, self.0.len() - errors)
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// By file and place, in the order in which a person would mend them; repeated ones once. Of very
    /// many the first [`Diagnostics::MOST`], errors before warnings.
    pub fn sorted(&self) -> Vec<&Diagnostic> {
        let mut sorted: Vec<&Diagnostic> = self.0.iter().collect();
        if sorted.len() > Diagnostics::MOST {
            sorted.sort_by_key(|d| (d.severity, d.primary.span, d.code));
            sorted.dedup();
            sorted.truncate(Diagnostics::MOST);
        }
        sorted.sort_by_key(|d| (d.primary.span, d.severity, d.code));
        sorted.dedup();
        sorted
    }
}

impl Extend<Diagnostic> for Diagnostics {
    fn extend<I: IntoIterator<Item = Diagnostic>>(&mut self, more: I) {
        self.0.extend(more);
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<I: IntoIterator<Item = Diagnostic>>(all: I) -> Diagnostics {
        Diagnostics(all.into_iter().collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::diag::Sources;

    #[test]
    fn they_come_by_file_and_place_and_once() {
        let mut sources = Sources::new();
        let (a, b) = (sources.add("a", "0123456789"), sources.add("b", "0123456789"));
        let at = |file, start| Diagnostic::error(Code::KeyUnknown, Span::new(file, start..start + 1), "x");
        let mut all = Diagnostics::new();
        all.extend([at(b, 0), at(a, 9), at(a, 2), at(a, 9)]);
        let order: Vec<Span> = all.sorted().iter().map(|d| d.primary.span).collect();
        assert_eq!(order, [Span::new(a, 2..3), Span::new(a, 9..10), Span::new(b, 0..1)]);
    }

    #[test]
    fn of_very_many_the_errors_are_shown_first() {
        let mut sources = Sources::new();
        let file = sources.add("a", "0123456789");
        let warning = |_| Diagnostic::warning(Code::Unused, Span::new(file, 0..1), "x");
        let error = |i| Diagnostic::error(Code::KeyUnknown, Span::new(file, i..i + 1), "x");
        let all: Diagnostics = (0..1000).map(warning).chain((0..1000).map(error)).collect();
        let shown = all.sorted();
        assert_eq!(shown.len(), Diagnostics::MOST);
        assert!(shown.iter().all(|d| d.severity == Severity::Error));
        assert!(all.render(&sources, crate::diag::Style::Plain).ends_with("\n1800 more are not shown\n"));
    }

    #[test]
    fn warnings_alone_are_no_errors() {
        let mut sources = Sources::new();
        let span = Span::start_of(sources.add("a", ""));
        let mut all: Diagnostics = [Diagnostic::warning(Code::FileUnknown, span, "x")].into_iter().collect();
        assert!(!all.has_errors());
        all.push(Diagnostic::error(Code::FileUnknown, span, "x"));
        assert!(all.has_errors());
        assert_eq!(all.counts(), (1, 1));
    }
}
