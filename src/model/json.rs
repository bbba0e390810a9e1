//! The one door for JSON that is judged: strict RFC 8259, exact numbers, bounded depth.
//!
//! The last of duplicate keys wins; NaN, infinities, numbers beyond a double and lone surrogates do
//! not parse, and neither does anything nested deeper than [`MAX_DEPTH`]. What parses here and what
//! does not is the same as for serde_json, but for one thing: digits before the decimal point that
//! are more than 4,300 are refused as out of range even where a negative exponent brings the number
//! back.

use std::{borrow::Cow, sync::Arc};

use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, Peek};

use super::{Num, NumError, Value};

/// How deep lists and objects may nest: what serde_json allows by default, so that whatever is taken
/// in here can be read back by others.
pub const MAX_DEPTH: u32 = 127;

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
    #[error("nested deeper than {limit}")]
    Depth {
        /// How deep is allowed.
        limit: u32,
    },
}

/// What becomes of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Exact where their digits can be computed with.
    Exact,
    /// All kept as [`Value::Huge`], character by character: for documents whose numbers matter by
    /// type and spelling only, where `1.0` is not `1`.
    AsWritten,
    /// The same, also beyond the range of a double.
    AsWrittenAnySize,
}

/// How a document is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// How deep lists and objects may nest. Reading uses the stack: a few thousand at most.
    pub depth: u32,
    /// What becomes of numbers.
    pub numbers: Numbers,
}

/// Reads a whole document.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    parse_with(bytes, Reading { depth: MAX_DEPTH, numbers: Numbers::Exact })
}

/// Reads a whole document in another way.
pub fn parse_with(bytes: &[u8], reading: Reading) -> Result<Value, JsonError> {
    let mut reader = Jiter::new(bytes);
    let peek = reader.peek().map_err(syntax)?;
    let value = value(&mut reader, peek, 0, reading)?;
    reader.finish().map_err(syntax)?;
    Ok(value)
}

/// The document with every `\\u` escape of half a surrogate pair replaced by that of U+FFFD.
pub fn replace_lone_surrogates(bytes: &[u8]) -> Cow<'_, [u8]> {
    const REPLACEMENT: &[u8] = b"\\ufffd";
    let escape = |at: usize| {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut out, mut copied, mut at) = (Vec::new(), 0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'\\')) {
        at += found;
        match (escape(at), escape(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 12,
            (Some(0xd800..=0xdfff), _) => {
                out.extend_from_slice(bytes.get(copied..at).unwrap_or_default());
                out.extend_from_slice(REPLACEMENT);
                at += 6;
                copied = at;
            }
            (Some(_), _) => at += 6,
            // Any other escape is two characters, and the second may be a backslash.
            (None, _) => at += 2,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(bytes);
    }
    out.extend_from_slice(bytes.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

#[inline(never)]
fn syntax(e: JiterError) -> JsonError {
    if e.error_type == JiterErrorType::JsonError(JsonErrorType::NumberOutOfRange) {
        return JsonError::NumberRange;
    }
    JsonError::Syntax { what: e.error_type.to_string(), at: e.index }
}

/// A value inside `depth` lists and objects.
fn value(reader: &mut Jiter<'_>, peek: Peek, depth: u32, reading: Reading) -> Result<Value, JsonError> {
    if depth == reading.depth && matches!(peek, Peek::Array | Peek::Object) {
        return Err(JsonError::Depth { limit: reading.depth });
    }
    match peek {
        Peek::Array => list(reader, depth, reading),
        Peek::Object => object(reader, depth, reading),
        _ => scalar(reader, peek, reading.numbers),
    }
}

// Each of these has a frame of its own, so that a level of nesting costs no more of the stack than it needs.

#[inline(never)]
fn list(reader: &mut Jiter<'_>, depth: u32, reading: Reading) -> Result<Value, JsonError> {
    let mut items = Vec::new();
    let mut next = reader.known_array().map_err(syntax)?;
    while let Some(peek) = next {
        items.push(value(reader, peek, depth + 1, reading)?);
        next = reader.array_step().map_err(syntax)?;
    }
    Ok(Value::list(items))
}

#[inline(never)]
fn object(reader: &mut Jiter<'_>, depth: u32, reading: Reading) -> Result<Value, JsonError> {
    let mut entries: Vec<(Arc<str>, Value)> = Vec::new();
    let mut key: Option<Arc<str>> = reader.known_object().map_err(syntax)?.map(Arc::from);
    while let Some(name) = key {
        let peek = reader.peek().map_err(syntax)?;
        entries.push((name, value(reader, peek, depth + 1, reading)?));
        key = reader.next_key().map_err(syntax)?.map(Arc::from);
    }
    Ok(Value::object(entries))
}

#[inline(never)]
fn scalar(reader: &mut Jiter<'_>, peek: Peek, numbers: Numbers) -> Result<Value, JsonError> {
    match peek {
        Peek::Null => {
            reader.known_null().map_err(syntax)?;
            Ok(Value::Null)
        }
        Peek::True | Peek::False => Ok(Value::Bool(reader.known_bool(peek).map_err(syntax)?)),
        Peek::String => Ok(Value::string(reader.known_str().map_err(syntax)?)),
        _ => number(reader, numbers),
    }
}

fn number(reader: &mut Jiter<'_>, numbers: Numbers) -> Result<Value, JsonError> {
    let at = reader.current_index();
    let not_a_number = |what: &str| JsonError::Syntax { what: what.to_owned(), at };
    let digits = reader.next_number_bytes().map_err(syntax)?;
    let text = std::str::from_utf8(digits).map_err(|_| not_a_number("invalid number"))?;
    match text.parse::<Num>() {
        Err(NumError::Range) if numbers == Numbers::AsWrittenAnySize => Ok(Value::Huge(Arc::from(text))),
        Ok(_) if numbers != Numbers::Exact => Ok(Value::Huge(Arc::from(text))),
        Ok(n) => Ok(Value::Number(n)),
        Err(NumError::Digits) => Ok(Value::Huge(Arc::from(text))),
        Err(NumError::Range) => Err(JsonError::NumberRange),
        Err(NumError::Syntax) => Err(not_a_number("invalid number")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Value {
        parse(text.as_bytes()).unwrap()
    }

    /// A second reader of the same document.
    fn serde(bytes: &[u8]) -> Option<serde_json::Value> {
        serde_json::from_slice(bytes).ok()
    }

    /// Whether two readers understood the same; numbers as doubles, all that serde_json keeps.
    fn same(ours: &Value, theirs: &serde_json::Value) -> bool {
        use serde_json::Value as Json;
        match (ours, theirs) {
            (Value::Null, Json::Null) => true,
            (Value::Bool(a), Json::Bool(b)) => a == b,
            (Value::Number(a), Json::Number(b)) => near(a.to_f64(), b.as_f64().unwrap()),
            (Value::Huge(a), Json::Number(b)) => near(a.parse().unwrap(), b.as_f64().unwrap()),
            (Value::String(a), Json::String(b)) => **a == **b,
            (Value::List(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
            (Value::Object(a), Json::Object(b)) => {
                a.len() == b.len() && a.iter().all(|(key, a)| b.get(&**key).is_some_and(|b| same(a, b)))
            }
            _ => false,
        }
    }

    /// serde_json may miss the last bit of a double.
    fn near(a: f64, b: f64) -> bool {
        a == b || (a - b).abs() <= a.abs() * 1e-15
    }

    #[test]
    fn a_document_is_read_with_its_numbers_exact() {
        let value = read(r#" {"b": [1, 1.10, -2e3, true, null], "a": "\u00e9\ud83d\ude00\n\/\"", "": {}} "#);
        assert_eq!(value.to_string(), r#"{"":{},"a":"é😀\n/\"","b":[1,1.1,-2000,true,null]}"#);
        assert_eq!(read("0.1000000000000000055511151231257827").to_string(), "0.1000000000000000055511151231257827");
    }

    #[test]
    fn the_last_of_equal_keys_wins() {
        assert_eq!(read(r#"{"a": 1, "b": 2, "a": {"x": 1}, "\u0061": [3]}"#).to_string(), r#"{"a":[3],"b":2}"#);
    }

    #[test]
    fn a_number_beyond_a_double_does_not_parse_and_one_beyond_exactness_does() {
        for text in ["1e400", "-1e400", "1e309", "[1.8e308]", r#"{"a": 1e999999999999999999999}"#] {
            assert_eq!(parse(text.as_bytes()), Err(JsonError::NumberRange), "{text}");
        }
        for digits in [310, 4_300, 4_301, 100_000] {
            assert_eq!(parse("1".repeat(digits).as_bytes()), Err(JsonError::NumberRange), "{digits}");
        }
        assert_eq!(read("1e308").type_name(), "number");
        assert_eq!(read("1e-400").type_name(), "number");
        assert_eq!(read("0e99999999999999999999"), read("0"));
        let long = format!("0.{}", "3".repeat(50));
        assert_eq!(read(&long), Value::Huge(long.as_str().into()));
    }

    #[test]
    fn lone_surrogates_do_not_parse() {
        for text in
            [r#""\ud800""#, r#""\udc00""#, r#""\ud800\u0041""#, r#""\ud800x""#, r#"{"\udbff": 1}"#, r#""\udc00\ud800""#]
        {
            assert!(matches!(parse(text.as_bytes()), Err(JsonError::Syntax { .. })), "{text}");
        }
        assert_eq!(read(r#""\ud834\udd1e""#).as_str(), Some("\u{1d11e}"));
        assert!(parse(b"\"\xed\xa0\x80\"").is_err(), "a surrogate as UTF-8");
    }

    #[test]
    fn only_rfc_8259_parses() {
        let strict = [
            "",
            " ",
            "nul",
            "nulll",
            "True",
            "NaN",
            "Infinity",
            "-Infinity",
            "+1",
            "01",
            "-01",
            "00",
            "1.",
            ".5",
            "-",
            "1e",
            "1e+",
            "0x10",
            "1_000",
            "- 1",
            "1 2",
            "[1,]",
            "[,1]",
            "[1,,2]",
            "[1 2]",
            "[",
            "]",
            r#"{"a":1,}"#,
            r#"{,"a":1}"#,
            r#"{"a" 1}"#,
            r#"{"a":}"#,
            r#"{a:1}"#,
            "{'a':1}",
            r#"{1:1}"#,
            "{",
            "}",
            r#"{"a":1"#,
            "'a'",
            r#"""#,
            r#""\x""#,
            r#""\u12""#,
            r#""\u12g4""#,
            r#""\U0041""#,
            r#""a" "b""#,
            "\u{feff}1",
            "1\u{feff}",
            "\u{a0}1",
            "\u{b}1",
            "\u{c}1",
            "1\u{0}",
            "// x\n1",
            "/* x */ 1",
            "1 // x",
            "# x",
            "[NaN]",
            "[-Infinity]",
            r#"{"a":undefined}"#,
        ];
        for text in strict {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
            assert!(serde(text.as_bytes()).is_none(), "serde_json takes {text:?}");
        }
        for control in 0u8..0x20 {
            // Long enough that both the wide and the narrow scan of a string meet it.
            for padding in [0, 15, 16, 17, 40] {
                let text = format!("\"{}{}{}\"", "x".repeat(padding), char::from(control), "y".repeat(padding));
                assert!(parse(text.as_bytes()).is_err(), "control {control} after {padding}");
                let key = format!("{{{text}: 1}}");
                assert!(parse(key.as_bytes()).is_err(), "control {control} in a key");
            }
        }
        assert_eq!(read("\"\u{7f}\u{2028}\"").as_str(), Some("\u{7f}\u{2028}"));
        assert_eq!(read("\t\r\n 1 \t\r\n"), read("1"));
        for bad in
            [&b"\"\xff\""[..], b"\"\xc0\xaf\"", b"\"\xf5\x80\x80\x80\"", b"\"abc\xe9\"", b"{\"\xff\": 1}", b"\xff"]
        {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn nesting_is_bounded_for_lists_and_objects_alike() {
        let nested = |open: &str, inner: &str, close: &str, depth: u32| {
            let depth = usize::try_from(depth).unwrap();
            format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
        };
        for (open, inner, close) in [("[", "", "]"), ("[", "1", "]"), (r#"{"a":"#, "1", "}"), (r#"[{"a":"#, "[]", "}]")]
        {
            let levels = u32::try_from(open.matches(['[', '{']).count()).unwrap();
            let rest = u32::from(inner == "[]");
            for depth in 1..=(MAX_DEPTH + 3) / levels {
                let text = nested(open, inner, close, depth);
                let expected = depth * levels + rest <= MAX_DEPTH;
                assert_eq!(parse(text.as_bytes()).is_ok(), expected, "{open} {depth}");
                assert_eq!(serde(text.as_bytes()).is_some(), expected, "serde_json: {open} {depth}");
            }
        }
        let bottomless = "[".repeat(1_000_000);
        assert_eq!(parse(bottomless.as_bytes()), Err(JsonError::Depth { limit: MAX_DEPTH }));
    }

    /// JSON in every spelling, of which most is valid.
    fn document() -> impl Strategy<Value = String> {
        let number = "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?";
        let string = r#""([ -!#-\[\]-~]|é|😀|\\["\\/bfnrt]|\\u00[0-9a-fA-F]{2}|\\ud83d\\ude0[0-9]){0,20}""#;
        let leaf = prop_oneof![
            3 => number.prop_map(|s| s),
            3 => string.prop_map(|s| s),
            1 => Just("null".to_owned()), 1 => Just("true".to_owned()), 1 => Just("false".to_owned()),
        ];
        let blank = "[ \t\r\n]{0,2}";
        leaf.prop_recursive(5, 40, 5, move |inner| {
            let list = (prop::collection::vec((blank, inner.clone(), blank), 0..5)).prop_map(|items| {
                let items: Vec<String> = items.into_iter().map(|(a, v, b)| format!("{a}{v}{b}")).collect();
                format!("[{}]", items.join(","))
            });
            let key = prop_oneof![Just("\"a\"".to_owned()), Just("\"\\u0061\"".to_owned()), Just("\"b\"".to_owned())];
            let object = prop::collection::vec((blank, key, blank, inner, blank), 0..5).prop_map(|entries| {
                let entries: Vec<String> =
                    entries.into_iter().map(|(a, k, b, v, c)| format!("{a}{k}{b}:{v}{c}")).collect();
                format!("{{{}}}", entries.join(","))
            });
            prop_oneof![list, object]
        })
    }

    proptest! {
        #[test]
        fn valid_documents_mean_what_serde_json_reads(text in document()) {
            let ours = parse(text.as_bytes());
            let theirs = serde(text.as_bytes());
            prop_assert!(theirs.is_some(), "the generator makes JSON: {}", text);
            prop_assert!(ours.is_ok(), "{}: {:?}", text, ours);
            prop_assert!(same(&ours.unwrap(), &theirs.unwrap()), "{}", text);
        }

        #[test]
        fn what_is_written_reads_back(text in document()) {
            let value = read(&text);
            prop_assert_eq!(read(&value.to_string()), value);
        }

        /// A document with one byte replaced, inserted or cut off: both readers agree on whether it is one.
        #[test]
        fn broken_documents_are_refused_as_by_serde_json(
            text in document(),
            at in any::<prop::sample::Index>(),
            byte in prop_oneof![prop::sample::select(br#"{}[]",:\/u0e.+-N1 x"#.to_vec()), any::<u8>()],
            how in 0..3,
        ) {
            let mut bytes = text.into_bytes();
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
            let ours = parse(&bytes);
            let theirs = serde(&bytes);
            prop_assert_eq!(ours.is_ok(), theirs.is_some(), "{:?}: {:?}", String::from_utf8_lossy(&bytes), ours);
        }

        #[test]
        fn json_like_text_is_judged_as_by_serde_json(text in r#"[\[\]{},:"\\ua0-9eE.+\- ntrfx]{0,24}"#) {
            prop_assert_eq!(parse(text.as_bytes()).is_ok(), serde(text.as_bytes()).is_some(), "{:?}", text);
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(parse(&bytes).is_ok(), serde(&bytes).is_some());
        }
    }
}
