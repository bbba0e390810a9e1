//! Lines of a file with their numbers, one at a time.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

/// Lines of a reader, numbered from 1.
pub struct Lines {
    reader: BufReader<Box<dyn Read>>,
    /// The line that was given last.
    number: u64,
    buffer: Vec<u8>,
    /// Blank lines that were read and not given yet: they count only if something follows them.
    blank: u64,
    /// A line that waits in the buffer behind those.
    waits: bool,
}

impl Lines {
    /// Lines of a file; `-` is standard input.
    pub fn open(path: &Path) -> io::Result<Lines> {
        let reader: Box<dyn Read> =
            if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
        Ok(Lines::new(reader))
    }

    /// Lines of a reader.
    pub fn new(reader: Box<dyn Read>) -> Lines {
        Lines {
            reader: BufReader::with_capacity(1 << 16, reader),
            number: 0,
            buffer: Vec::new(),
            blank: 0,
            waits: false,
        }
    }

    /// The next line without its end, and its number. Blank lines at the end of the file are passed over.
    pub fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        while !self.waits {
            self.buffer.clear();
            if self.reader.read_until(b'\n', &mut self.buffer)? == 0 {
                return Ok(None);
            }
            while self.buffer.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
                self.buffer.pop();
            }
            if self.buffer.iter().all(u8::is_ascii_whitespace) {
                self.blank += 1;
            } else {
                self.waits = true;
            }
        }
        self.number += 1;
        if self.blank > 0 {
            self.blank -= 1;
            return Ok(Some((self.number, b"")));
        }
        self.waits = false;
        Ok(Some((self.number, &self.buffer)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn all(text: &'static [u8]) -> Vec<(u64, String)> {
        let mut lines = Lines::new(Box::new(text));
        let mut out = Vec::new();
        while let Some((number, line)) = lines.next().unwrap() {
            out.push((number, String::from_utf8_lossy(line).into_owned()));
        }
        out
    }

    #[test]
    fn lines_have_numbers_and_no_ends() {
        let line = |n, text: &str| (n, text.to_owned());
        assert_eq!(all(b"a\r\nb"), [line(1, "a"), line(2, "b")]);
        assert_eq!(all(b"\na\n\n\nb\n"), [line(1, ""), line(2, "a"), line(3, ""), line(4, ""), line(5, "b")]);
        assert_eq!(all(b"a\n\n \n"), [line(1, "a")]);
        assert_eq!(all(b""), []);
    }
}
