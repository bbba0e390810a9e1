//! Literals, texts and names as they are written.

use super::Printer;
use crate::{
    lang::ast::{Literal, Regex},
    model::Num,
};

impl Printer {
    pub(super) fn literal(&mut self, literal: &Literal) {
        match literal {
            Literal::Null => self.put("null"),
            Literal::Bool(b) => self.show(b),
            Literal::Number(n) => self.show(n),
            Literal::String(text) => self.string(text),
            Literal::Duration(seconds) => self.duration(*seconds),
        }
    }

    /// An element of a set or table: a text that is a word stands bare.
    pub(super) fn constant(&mut self, constant: &Literal) {
        match constant {
            Literal::String(text) if is_word(text) && !matches!(text.as_ref(), "true" | "false" | "null") => {
                self.put(text);
            }
            other => self.literal(other),
        }
    }

    /// A duration in the largest unit of which it is a whole number; a day is 24 hours to most people.
    pub(super) fn duration(&mut self, seconds: Num) {
        const UNITS: [(&str, i64, i64); 4] = [("d", 86_400, 2), ("h", 3_600, 1), ("m", 60, 1), ("s", 1, 1)];
        for (unit, size, least) in UNITS {
            let whole = seconds.rem(Num::from(size)).is_some_and(Num::is_zero);
            if let Some(n) = seconds.div(Num::from(size))
                && whole
                && n >= Num::from(least)
                && n.mul(Num::from(size)) == Some(seconds)
            {
                self.digits(n);
                self.put(unit);
                return;
            }
        }
        self.digits(seconds);
        self.put("s");
    }

    /// A number of at least 0 without an exponent, which a duration cannot have.
    fn digits(&mut self, number: Num) {
        let (coefficient, exponent) = number.parts();
        let digits = coefficient.unsigned_abs().to_string();
        let places = usize::try_from(exponent.unsigned_abs()).unwrap_or(0);
        if exponent >= 0 {
            self.put(&digits);
            self.put(&"0".repeat(if number.is_zero() { 0 } else { places }));
            return;
        }
        let padded = format!("{digits:0>width$}", width = places + 1);
        let (whole, fraction) = padded.split_at(padded.len() - places);
        self.put(whole);
        self.put(".");
        self.put(fraction);
    }

    pub(super) fn string(&mut self, text: &str) {
        self.put("\"");
        self.escaped(text, false);
        self.put("\"");
    }

    pub(super) fn escaped(&mut self, text: &str, template: bool) {
        for c in text.chars() {
            match c {
                '\n' => self.put("\\n"),
                '\t' => self.put("\\t"),
                '"' => self.put("\\\""),
                '\\' => self.put("\\\\"),
                '{' | '}' if template => {
                    self.put("\\");
                    self.text.push(c);
                }
                c if c.is_control() => self.show(format_args!("\\u{{{:x}}}", u32::from(c))),
                c => self.text.push(c),
            }
        }
    }

    pub(super) fn regex(&mut self, regex: &Regex) {
        self.put("/");
        self.put(&regex.pattern.replace('/', "\\/"));
        self.put(if regex.ignore_case { "/i" } else { "/" });
    }
}

/// Letters, digits and `_`, not beginning with a digit.
pub(super) fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
