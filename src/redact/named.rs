//! Values behind a name that announces a secret, in texts: `DB_PASSWORD=...`, `"client_secret": "..."`, `--token ...`,
//! `Authorization: Basic ...`, `<password>...</password>`, "the password is ...", and the password of a URL.
//!
//! The name stays: whoever reads the text still sees what stood there. Anchored at each `:`, `=`, `>` and blank, with
//! bounded reach to both sides.

use std::ops::Range;

use super::{
    names::{
        Announced, LONGEST, announced, is_name, is_of_name, is_value, may_announce, may_be_named, may_pair, name_in,
    },
    normal::Normal,
};

/// Longest value that is read as a whole, in bytes.
const VALUE: usize = 4096;
/// Longest list or object that is read as a value, in bytes.
const LIST: usize = 256;
/// How many of a name's last bytes tell most names from those of secrets.
const TAIL: usize = 12;
/// Longest user and password of a URL.
const USERINFO: usize = 512;
/// Fewest characters of a value that is not quoted: between them, and as an ordinary word.
const SHORT: usize = 4;
const WORD: usize = 6;
/// Most bytes between a name and its sign: blanks, quotes, brackets, emphasis.
const AROUND: usize = 8;
/// How far behind a name given as a value (`"name": "password"`) its own value may begin.
const PAIR: usize = 64;

/// What stands in place of what was cut. It is no value.
pub(super) trait Placeholders {
    /// The bytes of a placeholder at the start of a text.
    fn at_start(&self, text: &str) -> Option<usize>;
}

/// A search for values: it is told where a name could end.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Nothing before this belongs to the next value.
    from: usize,
    /// Behind a value that is itself the name of a secret.
    paired: Option<usize>,
    /// Behind a sign with no name before it that announces anything.
    dismissed: usize,
}

impl Named {
    /// The value behind a `:`, `=` or `>`, in ascending order.
    #[inline]
    pub(super) fn sign(&mut self, text: &Normal<'_>, sign: usize, kept: &impl Placeholders) -> Option<Range<usize>> {
        if sign < self.from {
            return None;
        }
        let before = text.bytes().get(self.from..sign).unwrap_or_default();
        if let [b':', b'\t'..=b'.' | b'0'..=b'<' | b'>'..=b'~'] = text.bytes().get(sign..sign + 2).unwrap_or_default()
            && (self.dismissed == sign || !may_be_named(before))
        {
            self.dismissed = sign + 1;
            self.paired = None;
            return None;
        }
        self.look(text, sign, kept)
    }

    fn look(&mut self, text: &Normal<'_>, sign: usize, kept: &impl Placeholders) -> Option<Range<usize>> {
        let (this, next) = (text.byte(sign)?, text.byte(sign + 1)?);
        let found = match (this, next) {
            (b':', b'/') if text.byte(sign + 2) == Some(b'/') => {
                userinfo(text, sign + 3).or_else(|| self.assigned(text, sign, kept))
            }
            // `:=` and `==` have their second sign looked at; `=>` its first.
            (b':' | b'=', b'=') => None,
            (b'>', _) => element(text, sign, self.from),
            _ => self.assigned(text, sign, kept),
        };
        self.take(text, found, kept)
    }

    /// The value behind a blank: of a flag, or as a sentence says it.
    pub(super) fn blank(&mut self, text: &Normal<'_>, blank: usize, kept: &impl Placeholders) -> Option<Range<usize>> {
        if blank < self.from {
            return None;
        }
        let found = match *text.bytes().get(blank + 1..)?.first_chunk::<3>()? {
            [b'-', b'-', _] => flag(text, blank + 1, kept),
            [b'i' | b'I', b's' | b'S', b' '] => said(text, blank, "is ".len(), self.from),
            [b'w' | b'W', b'a' | b'A', b's' | b'S'] if text.byte(blank + 4) == Some(b' ') => {
                said(text, blank, "was ".len(), self.from)
            }
            _ => None,
        };
        self.take(text, found, kept)
    }

    /// The value of a flag with which a text begins.
    pub(super) fn start(&mut self, text: &Normal<'_>, kept: &impl Placeholders) -> Option<Range<usize>> {
        let found = if text.spells(0, "--") { flag(text, 0, kept) } else { None };
        self.take(text, found, kept)
    }

    fn take(
        &mut self,
        text: &Normal<'_>,
        found: Option<Range<usize>>,
        kept: &impl Placeholders,
    ) -> Option<Range<usize>> {
        let range = found.filter(|range| !is_kept(text.text().get(range.clone()).unwrap_or_default(), kept))?;
        self.from = range.end;
        Some(range)
    }

    /// The value behind a sign, if the name before it announces one.
    fn assigned(&mut self, text: &Normal<'_>, sign: usize, kept: &impl Placeholders) -> Option<Range<usize>> {
        let paired = self.paired.take();
        let Some(end) = may_name(text, sign, self.from) else {
            self.dismissed = sign + 1;
            return None;
        };
        let start = value_start(text, sign);
        if is_short(text.bytes().get(start..)?) {
            return None;
        }
        let name = name_to(text, end, self.from)?;
        let what = match what(text, &name, sign, self.from) {
            Some(what) => what,
            None => {
                let name = text.text().get(last_word(text, &name))?;
                if paired.is_some_and(|end| sign < end + PAIR) && is_value(name) {
                    Announced::Secret
                } else {
                    if is_name(name) {
                        self.paired = named_secret(text, sign);
                    }
                    return None;
                }
            }
        };
        let equals = text.byte(sign) == Some(b'=');
        if what == Announced::Cookies {
            return cookies(text, start);
        }
        if let Some(range) = sure(text, start, kept)? {
            return Some(range);
        }
        let near = text.bytes().get(start..).map(|rest| rest.get(..LONGEST).unwrap_or(rest))?;
        let has_digit = || near.iter().take_while(|b| !b.is_ascii_whitespace()).any(u8::is_ascii_digit);
        let possible = match what {
            Announced::Secret | Announced::Cookies => true,
            // What is no secret is not read to its end: there may be many names in it.
            Announced::Opaque => equals || has_digit(),
            Announced::Folder => !is_folder(near),
        };
        let range = possible.then(|| start..plain_end(text, start, usize::MAX))?;
        let value = text.text().get(range.clone())?;
        let believed = match what {
            Announced::Opaque => value.len() >= SHORT && (equals || value.bytes().any(|b| b.is_ascii_digit())),
            _ => is_believed(value, equals),
        };
        believed.then_some(range)
    }
}

/// Where the name before a sign ends, if it may be that of a secret or of one half of a pair: most are not, as their
/// last letters tell.
fn may_name(text: &Normal<'_>, sign: usize, from: usize) -> Option<usize> {
    let end = name_end(text, sign, from);
    let tail = text.bytes().get(end.saturating_sub(TAIL).max(from)..end)?;
    let possible = match tail {
        [.., a, b, c] if [a, b, c].into_iter().all(u8::is_ascii_alphabetic) => may_announce(tail) || may_pair(tail),
        // Before a `=` a type may stand behind the name, and a colon between them.
        _ if text.byte(sign) == Some(b'=') => may_announce(tail) || tail.last().is_some_and(|b| *b >= 0x80),
        _ => {
            let name = name_in(tail);
            name.len() > 1 && (may_announce(name) || name.last().is_some_and(|b| *b >= 0x80))
        }
    };
    possible.then_some(end)
}

/// What the name before a sign announces; behind a type (`password: str = ...`), the one before that.
fn what(text: &Normal<'_>, name: &Range<usize>, sign: usize, from: usize) -> Option<Announced> {
    let of = |name: Range<usize>| announced(text.text().get(name)?);
    of(name.clone()).or_else(|| {
        let colon = (name.start.saturating_sub(3)..name.start).rev().find(|i| text.byte(*i) == Some(b':'))?;
        (text.byte(sign) == Some(b'=')).then(|| of(name_to(text, name_end(text, colon, from), from)?))?
    })
}

/// Where the name before a sign ends, without what is around it.
fn name_end(text: &Normal<'_>, sign: usize, from: usize) -> usize {
    let around =
        |b: u8| matches!(b, b' ' | b'\t' | b'"' | b'\'' | b'`' | b'\\' | b']' | b')' | b'*' | b':' | b'=' | b'?');
    let before = text.bytes().get(sign.saturating_sub(AROUND).max(from)..sign).unwrap_or_default();
    sign - before.iter().rev().take_while(|b| around(**b)).count()
}

/// The name that ends at a place.
fn name_to(text: &Normal<'_>, end: usize, from: usize) -> Option<Range<usize>> {
    let least = end.saturating_sub(LONGEST).max(from);
    let mut start = end;
    // Words of a sentence may stand before it, with one blank between two.
    while start > least {
        match text.byte(start - 1)? {
            b if is_of_name(b) => start -= 1,
            b' ' if start - 1 > least && text.byte(start - 2).is_some_and(|b| b.is_ascii_alphanumeric()) => start -= 1,
            _ => break,
        }
    }
    while start < end && text.byte(start).is_some_and(|b| b & 0xc0 == 0x80) {
        start += 1;
    }
    (start < end).then_some(start..end)
}

/// Where the value behind a sign begins: at its quote, if it has one.
fn value_start(text: &Normal<'_>, sign: usize) -> usize {
    let mut at = sign + 1;
    let mut lines = 0;
    while at < sign + 2 * AROUND {
        match text.byte(at) {
            Some(b' ' | b'\t') => {}
            Some(b'*') if ends_emphasis(text, at) => {}
            Some(b'>') if at == sign + 1 => {}
            // A block of YAML.
            Some(b'|') if text.byte(at + 1) == Some(b'\n') => {}
            Some(b'\n' | b'\r') if lines < 2 => lines += 1,
            _ => break,
        }
        at += 1;
    }
    at
}

/// Whether nothing that stands there is long enough for a value, or for the name of one.
fn is_short(value: &[u8]) -> bool {
    match value {
        [] => true,
        [b'"' | b'\'' | b'`' | b'\\', ..] => false,
        [a, b, ..] => a.is_ascii_whitespace() || (b.is_ascii_whitespace() && a.is_ascii()),
        [_] => true,
    }
}

/// Whether one or two asterisks with a blank behind them stand there, as behind an emphasised name.
fn ends_emphasis(text: &Normal<'_>, at: usize) -> bool {
    let blank = |i: usize| text.byte(i) == Some(b' ');
    blank(at + 1) || (text.byte(at + 1) == Some(b'*') && blank(at + 2))
}

/// The value that begins at a place, if quotes, brackets or a scheme leave no doubt that it is one: nothing inside if
/// they do not, nothing at all if a placeholder stands there.
fn sure(text: &Normal<'_>, start: usize, kept: &impl Placeholders) -> Option<Option<Range<usize>>> {
    let rest = text.text().get(start..)?;
    if is_placeholder(rest, kept) {
        return None;
    }
    let listed = || if kept.at_start(rest).is_none() { bracketed(text, start) } else { None };
    if let Some(range) = quoted(text, start).or_else(listed) {
        return Some(Some(range));
    }
    if let Some((begins, whole_line)) = scheme(text, start) {
        let end = if whole_line { line_end(text, begins) } else { plain_end(text, begins, usize::MAX) };
        return Some((end - begins >= SHORT).then_some(begins..end));
    }
    // The prefix of a literal: `b"..."`, `r'...'`.
    let prefix = plain_end(text, start, start + 3);
    Some(if (1..=2).contains(&(prefix - start)) { quoted(text, prefix) } else { None })
}

/// What stands between two quotes, which may be escaped.
fn quoted(text: &Normal<'_>, start: usize) -> Option<Range<usize>> {
    let bytes = text.bytes();
    let slashes = bytes.get(start..)?.iter().take(4).take_while(|b| **b == b'\\').count();
    let quote = bytes.get(start + slashes).copied().filter(|b| matches!(b, b'"' | b'\'' | b'`'))?;
    // Three of them are one.
    let mut from = start + slashes + 1;
    if bytes.get(from..from + 2) == Some(&[quote, quote]) {
        from += 2;
    }
    let mut escapes = 0;
    for (n, byte) in bytes.get(from..)?.iter().take(VALUE).enumerate() {
        match *byte {
            b'\\' => escapes += 1,
            b if b == quote && escapes <= slashes => {
                return (n > escapes).then_some(from..from + n - escapes);
            }
            _ => escapes = 0,
        }
    }
    None
}

/// A short list or object that begins at a place.
fn bracketed(text: &Normal<'_>, start: usize) -> Option<Range<usize>> {
    let bytes = text.bytes();
    let open = bytes.get(start).copied().filter(|b| matches!(b, b'[' | b'{'))?;
    let close = open + 2;
    let mut depth = 0_usize;
    for (n, byte) in bytes.get(start..)?.iter().take(LIST).enumerate() {
        if *byte == open {
            depth += 1;
        } else if *byte == close {
            depth -= 1;
            if depth == 0 {
                // `{}` holds nothing; `{name}` and `{{name}}` are filled in later.
                let holds = bytes.get(start..start + n)?.iter().any(|b| matches!(b, b'"' | b'\'' | b':' | b','));
                return holds.then_some(start..start + n + 1);
            }
        }
    }
    None
}

/// Where credentials begin behind the name of their scheme, and whether they are the rest of the line.
fn scheme(text: &Normal<'_>, start: usize) -> Option<(usize, bool)> {
    const ONE: [&str; 6] = ["bearer ", "basic ", "token ", "apikey ", "negotiate ", "ntlm "];
    const MANY: [&str; 6] = ["digest ", "hawk ", "oauth ", "aws4-hmac-sha256 ", "signature ", "sharedkey "];
    let of = |words: &[&str]| words.iter().find(|word| text.spells(start, word)).map(|word| start + word.len());
    of(&ONE).map(|at| (at, false)).or_else(|| of(&MANY).map(|at| (at, true)))
}

/// The end of a value without quotes, at most up to a place. A blank or a quote that was written as an escape does not
/// end it.
fn plain_end(text: &Normal<'_>, start: usize, most: usize) -> usize {
    let bytes = text.bytes();
    let most = most.min(text.len());
    // In the query of a URL the next setting follows.
    let before = bytes.get(start.saturating_sub(LONGEST)..start).unwrap_or_default();
    let query = before.iter().rev().take_while(|b| !b.is_ascii_whitespace()).any(|b| matches!(b, b'?' | b'&'));
    let stops = |b: &u8| {
        b.is_ascii_whitespace() || matches!(b, b'"' | b'\'' | b',' | b';' | b'`' | b'<') || (query && *b == b'&')
    };
    let mut end = start;
    loop {
        let stop = bytes.get(end..most).unwrap_or_default().iter().position(stops);
        end = stop.map_or(most, |stop| end + stop);
        if end == most || end == start || !text.is_changed(end) {
            break;
        }
        end += 1;
    }
    // Brackets and a dot behind it belong to what is around it.
    let value = bytes.get(start..end).unwrap_or_default();
    let unopened = [b'(', b'[', b'{'].map(|open| !value.contains(&open));
    let around = |b: &u8| match b {
        b')' => unopened[0],
        b']' => unopened[1],
        b'}' => unopened[2],
        _ => matches!(b, b'.' | b'*' | b'!' | b'?' | b':' | b'\\'),
    };
    let surplus = value.iter().rev().take_while(|b| around(b)).count();
    if surplus < value.len() { end - surplus } else { end }
}

fn line_end(text: &Normal<'_>, start: usize) -> usize {
    let most = text.len().min(start + VALUE);
    text.next_from(start, |b| matches!(b, b'\n' | b'\r')).map_or(most, |end| end.min(most))
}

/// The pairs of a header with cookies.
fn cookies(text: &Normal<'_>, start: usize) -> Option<Range<usize>> {
    if let Some(range) = quoted(text, start) {
        return Some(range);
    }
    let mut end = start;
    loop {
        let name = text.next_from(end, |b| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')));
        let name = name.unwrap_or(text.len());
        if name == end || text.byte(name) != Some(b'=') {
            break;
        }
        let stop = text.next_from(name, |b| b.is_ascii_whitespace() || matches!(b, b';' | b'"' | b'\'' | b','));
        end = stop.unwrap_or(text.len());
        if !text.spells(end, "; ") {
            break;
        }
        end += 2;
    }
    (end > start).then_some(start..end)
}

/// The password of a URL, behind its `//`.
fn userinfo(text: &Normal<'_>, start: usize) -> Option<Range<usize>> {
    let ends = |b: u8| b.is_ascii_whitespace() || matches!(b, b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\');
    let authority = text.bytes().get(start..)?.iter().take(USERINFO);
    let (mut colon, mut at, mut slash) = (None, None, None::<usize>);
    for (n, byte) in authority.enumerate() {
        if slash.is_some_and(|slash| n > slash + PAIR) {
            break;
        }
        match *byte {
            b'@' if slash.is_none() || colon.is_some() => {
                at = Some(n);
                if slash.is_some() {
                    break;
                }
            }
            b':' if colon.is_none() && slash.is_none() => colon = Some(n),
            // Behind a name and a port a path begins; in a password that was not escaped a slash may stand.
            b'/' | b'?' | b'#' if slash.is_none() => {
                let digits =
                    |from: usize| text.bytes().get(from..start + n).is_some_and(|p| p.iter().all(u8::is_ascii_digit));
                let port = |colon: usize| digits(start + colon + 1);
                if at.is_some() || colon.is_none_or(port) {
                    break;
                }
                slash = Some(n);
            }
            b if ends(b) => break,
            _ => {}
        }
    }
    let (colon, at) = (colon?, at?);
    let password = start + colon + 1..start + at;
    (colon < at && password.len() > 1 && !is_variable(text.text().get(password.clone())?)).then_some(password)
}

/// The text of an element whose tag ends at a place.
fn element(text: &Normal<'_>, close: usize, from: usize) -> Option<Range<usize>> {
    let tail = text.bytes().get(close.saturating_sub(TAIL).max(from)..close)?;
    let name = may_announce(tail).then(|| name_to(text, close, from))??;
    // A prefix may stand before the name.
    let before = text.bytes().get(name.start.saturating_sub(LONGEST).max(from)..name.start)?;
    let prefix = before.iter().rev().take_while(|b| b.is_ascii_alphanumeric() || **b == b':').count();
    if before.iter().rev().nth(prefix) != Some(&b'<') {
        return None;
    }
    announced(text.text().get(name)?)?;
    let end = text.bytes().get(close + 1..)?.iter().take(VALUE).position(|b| *b == b'<')?;
    (end > 1).then_some(close + 1..close + 1 + end)
}

/// The value of `--flag value`.
fn flag(text: &Normal<'_>, dashes: usize, kept: &impl Placeholders) -> Option<Range<usize>> {
    let from = dashes + 2;
    let word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let length = text.bytes().get(from..)?.iter().take(LONGEST).position(|b| !word(b))?;
    let name = from..from + length;
    if text.byte(name.end) != Some(b' ') || !may_announce(text.bytes().get(name.clone())?) {
        return None;
    }
    announced(text.text().get(name.clone())?)?;
    let start = name.end + 1;
    if text.byte(start) == Some(b'-') || is_placeholder(text.text().get(start..)?, kept) {
        return None;
    }
    let range = quoted(text, start).unwrap_or_else(|| start..plain_end(text, start, usize::MAX));
    (range.len() >= SHORT && !is_variable(text.text().get(range.clone())?)).then_some(range)
}

/// The value of "the password is ...", if it looks like one.
fn said(text: &Normal<'_>, blank: usize, verb: usize, from: usize) -> Option<Range<usize>> {
    let end = name_end(text, blank, from);
    let tail = text.bytes().get(end.saturating_sub(TAIL).max(from)..end)?;
    let name = may_announce(tail).then(|| name_to(text, end, from))??;
    announced(text.text().get(name)?)?;
    let start = value_start(text, blank + verb);
    if let Some(range) = quoted(text, start) {
        return Some(range);
    }
    let range = start..plain_end(text, start, usize::MAX);
    let value = text.text().get(range.clone())?;
    let has = |is: fn(&u8) -> bool| value.as_bytes().iter().any(is);
    (value.len() >= WORD && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && !has(|b| *b == b'-'))
        .then_some(range)
}

/// The last word of a name, with its dashes and underscores.
fn last_word(text: &Normal<'_>, name: &Range<usize>) -> Range<usize> {
    let blank = name.clone().rev().find(|i| text.byte(*i) == Some(b' '));
    blank.map_or(name.start, |i| i + 1)..name.end
}

/// Where the value behind a sign ends, if it is itself the name of a secret.
fn named_secret(text: &Normal<'_>, sign: usize) -> Option<usize> {
    let start = value_start(text, sign);
    let range = quoted(text, start).unwrap_or_else(|| start..plain_end(text, start, start + LONGEST));
    (range.len() <= LONGEST && announced(text.text().get(range.clone())?).is_some()).then_some(range.end)
}

/// Whether a value without quotes is long enough, and no ordinary word.
fn is_believed(value: &str, equals: bool) -> bool {
    const WORDS: [&str; 28] = [
        "string",
        "number",
        "boolean",
        "integer",
        "optional",
        "required",
        "missing",
        "invalid",
        "incorrect",
        "expired",
        "changed",
        "unknown",
        "undefined",
        "redacted",
        "hidden",
        "masked",
        "removed",
        "revoked",
        "rotated",
        "secret",
        "password",
        "length",
        "cannot",
        "should",
        "please",
        "mandatory",
        "forbidden",
        "unavailable",
    ];
    const SHORT_WORDS: [&str; 6] = ["null", "none", "true", "false", "self", "text"];
    let is_one_of = |words: &[&str]| words.iter().any(|word| value.eq_ignore_ascii_case(word));
    match value.len() {
        0..SHORT => false,
        SHORT..WORD => (equals || value.bytes().any(|b| b.is_ascii_digit())) && !is_one_of(&SHORT_WORDS),
        _ => equals || !is_one_of(&WORDS),
    }
}

/// Whether a value is filled in later: `${DB_PASSWORD}`, `<password>`, `***`.
fn is_variable(value: &str) -> bool {
    let word =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphabetic() || matches!(c, '_' | '-' | '.' | ' '));
    let between = |open: &str, close: &str| {
        value.strip_prefix(open).and_then(|v| v.strip_suffix(close)).is_some_and(|v| word(v.trim()))
    };
    value.chars().all(|c| matches!(c, '*' | '.' | 'x' | 'X' | '\u{2022}'))
        || between("${", "}")
        || between("{{", "}}")
        || between("{", "}")
        || between("<", ">")
        || value
            .strip_prefix('$')
            .is_some_and(|v| !v.is_empty() && v.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
}

/// Whether a value is the place of a folder.
pub(super) fn is_folder(value: &[u8]) -> bool {
    matches!(value, [b'/' | b'~', ..] | [_, b':', b'\\', ..])
}

/// Whether a text begins with a placeholder that is a whole value.
fn is_placeholder(text: &str, kept: &impl Placeholders) -> bool {
    let inner = text.trim_start_matches(['"', '\'', '`', '\\']);
    let Some(length) = kept.at_start(inner) else { return false };
    let behind = inner.get(length..).and_then(|rest| rest.chars().next());
    behind.is_none_or(|c| {
        c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '\\' | ',' | ';' | '<' | ')' | ']' | '}' | '.')
    })
}

/// Whether a value is nothing but placeholders and signs.
fn is_kept(value: &str, kept: &impl Placeholders) -> bool {
    let (mut rest, mut any) = (value, false);
    while let Some(c) = rest.chars().next() {
        if let Some(length) = kept.at_start(rest).filter(|length| *length > 0) {
            rest = rest.get(length..).unwrap_or_default();
            any = true;
        } else if c.is_alphanumeric() {
            return false;
        } else {
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }
    any
}
