//! The one door for JSON that is judged: strict RFC 8259, exact numbers, bounded depth.
//!
//! The last of duplicate keys wins; NaN, infinities, numbers beyond a double and lone surrogates do
//! not parse, and neither does anything nested deeper than [`MAX_DEPTH`].

use std::sync::Arc;

use jiter::{Jiter, JiterError, Peek};

use super::{Num, NumError, Value};

/// How deep lists and objects may nest.
pub const MAX_DEPTH: u32 = 128;

/// Why a document is not JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Not RFC 8259; with the parser's words and the byte offset.
    #[error("{what} at byte {at}")]
    Syntax {
        /// What the parser met.
        what: String,
        /// Byte offset in the document.
        at: usize,
    },
    /// A number whose magnitude is beyond that of a double.
    #[error("a number beyond the range of a double")]
    NumberRange,
    /// Nested too deep.
    #[error("nested deeper than {MAX_DEPTH}")]
    Depth,
}

/// Reads a whole document.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    let mut reader = Jiter::new(bytes);
    let peek = reader.peek().map_err(syntax)?;
    let value = value(&mut reader, peek, 0)?;
    reader.finish().map_err(syntax)?;
    Ok(value)
}

fn syntax(e: JiterError) -> JsonError {
    JsonError::Syntax { what: e.error_type.to_string(), at: e.index }
}

fn value(reader: &mut Jiter<'_>, peek: Peek, depth: u32) -> Result<Value, JsonError> {
    if depth > MAX_DEPTH {
        return Err(JsonError::Depth);
    }
    Ok(match peek {
        Peek::Null => {
            reader.known_null().map_err(syntax)?;
            Value::Null
        }
        Peek::True | Peek::False => Value::Bool(reader.known_bool(peek).map_err(syntax)?),
        Peek::String => Value::string(reader.known_str().map_err(syntax)?),
        Peek::Array => {
            let mut items = Vec::new();
            let mut next = reader.known_array().map_err(syntax)?;
            while let Some(peek) = next {
                items.push(value(reader, peek, depth + 1)?);
                next = reader.array_step().map_err(syntax)?;
            }
            Value::list(items)
        }
        Peek::Object => {
            let mut entries: Vec<(Arc<str>, Value)> = Vec::new();
            let mut key: Option<Arc<str>> = reader.known_object().map_err(syntax)?.map(Arc::from);
            while let Some(name) = key {
                let peek = reader.peek().map_err(syntax)?;
                entries.push((name, value(reader, peek, depth + 1)?));
                key = reader.next_key().map_err(syntax)?.map(Arc::from);
            }
            Value::object(entries)
        }
        _ => number(reader)?,
    })
}

fn number(reader: &mut Jiter<'_>) -> Result<Value, JsonError> {
    let at = reader.current_index();
    let not_a_number = |what: &str| JsonError::Syntax { what: what.to_owned(), at };
    let digits = reader.next_number_bytes().map_err(syntax)?;
    let text = std::str::from_utf8(digits).map_err(|_| not_a_number("invalid number"))?;
    match text.parse::<Num>() {
        Ok(n) => Ok(Value::Number(n)),
        Err(NumError::Digits) => Ok(Value::Huge(Arc::from(text))),
        Err(NumError::Range) => Err(JsonError::NumberRange),
        Err(NumError::Syntax) => Err(not_a_number("invalid number")),
    }
}
