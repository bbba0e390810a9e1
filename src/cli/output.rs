//! Standard output: one place that knows about terminals, and about readers that go away.

use std::{
    fmt,
    io::{self, BufWriter, IsTerminal, Stdout, Write},
};

use comfy_table::Table;

use crate::diag::Style;

use super::{Exit, Failure};

/// Buffered standard output.
pub struct Output(BufWriter<Stdout>);

impl Output {
    /// Standard output.
    pub fn new() -> Output {
        Output(BufWriter::new(io::stdout()))
    }

    /// Writes a line.
    pub fn line(&mut self, line: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.0, "{line}").map_err(gone)
    }

    /// Writes text as it is.
    pub fn text(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        write!(self.0, "{text}").map_err(gone)
    }

    /// Writes what is still held back.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.0.flush().map_err(gone)
    }
}

/// A reader that has seen enough (`probity .. | head`) is no failure.
fn gone(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure { exit: Exit::Fine, message: String::new() },
        _ => Failure::environment(format!("standard output: {error}")),
    }
}

/// Colours for people: on a terminal, unless `NO_COLOR` is set.
pub fn style(stream: &impl IsTerminal) -> Style {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    if stream.is_terminal() && !refused { Style::Colour } else { Style::Plain }
}

/// A table without lines, borders and trailing blanks.
pub fn plain(table: &Table) -> String {
    let drawn = table.to_string();
    drawn.lines().map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line).trim_end())).collect()
}

/// `1 error`, `2 errors`.
pub fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
