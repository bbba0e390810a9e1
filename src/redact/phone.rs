//! Telephone numbers: international and national forms, with the words around them as evidence.
//!
//! A number after "+" is one. Otherwise the shape must be that of a number, and the nearest telling
//! word before it decides: "call" speaks for it, "order" against it.

use std::{cell::Cell, ops::Range};

use super::{
    groups::{self, GAP},
    normal::Normal,
    words::{Told, Words},
};

/// Fewest and most digits of a number.
const DIGITS: Range<usize> = 7..16;
/// How far back telling words are looked for, in bytes.
const REACH: usize = 40;
/// How many words back.
const WORDS: usize = 4;
/// Most groups of a number.
const GROUPS: usize = 6;
/// Groups of a long run that are kept at most before those that are done with are forgotten.
const FORGOTTEN: usize = 64;

/// Words that tell numbers from lookalikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhoneWords {
    /// They announce a telephone number.
    pub cues: Vec<String>,
    /// They announce another number.
    pub others: Vec<String>,
    /// They announce another number unless a cue stands before them.
    pub weak_others: Vec<String>,
    /// After the number, they say that it was a quantity.
    pub units: Vec<String>,
}

impl PhoneWords {
    /// A list for English text.
    pub fn english() -> PhoneWords {
        let words = |list: &str| list.split_whitespace().map(str::to_owned).collect();
        PhoneWords {
            cues: words(
                "phone telephone tel call calls called calling dial dialed mobile cell cellphone whatsapp signal sms \
                 text fax hotline reach ring ph telefon handy contact",
            ),
            others: words(
                "order ticket invoice id ids epoch version build lot sku part isbn issn account acct no nr imei meid \
                 millis ms parcel tracking total amount sum sha digest hash color colour timestamp ts range trace req \
                 request ref reference case serial batch model item code pid uid card commit rev revision release \
                 patch doc document page lat lon lng latitude longitude coordinates port zip iban bic uuid guid",
            ),
            weak_others: words("at"),
            units: words("units pieces pcs items bytes tokens ms usd eur"),
        }
    }
}

/// What the words before a number say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hint {
    Phone,
    Other,
    Nothing,
}

/// Digits that stand together.
#[derive(Debug)]
struct Group {
    digits: Range<usize>,
    /// What stands before it; a space for any white space.
    separator: char,
    parenthesis: bool,
}

impl Group {
    /// With its parentheses.
    fn span(&self) -> Range<usize> {
        let around = usize::from(self.parenthesis);
        self.digits.start - around..self.digits.end + around
    }
}

/// Groups of digits, and what stands between them.
struct Candidate<'a> {
    span: Range<usize>,
    groups: &'a [Group],
    plus: bool,
}

impl Candidate<'_> {
    fn digits(&self) -> usize {
        self.groups.iter().map(|g| g.digits.len()).sum()
    }

    /// How many groups there are, and the sizes of the first.
    fn sizes(&self) -> (usize, [usize; 4]) {
        (self.groups.len(), std::array::from_fn(|i| self.groups.get(i).map_or(0, |g| g.digits.len())))
    }

    /// Its first groups, if they stand apart from those behind them.
    fn part(&self, count: usize) -> Option<Candidate<'_>> {
        let apart = |i: usize| self.groups.get(i).is_none_or(|g| g.separator == ' ');
        if !apart(count) {
            return None;
        }
        let groups = self.groups.get(..count)?;
        let (first, last) = (groups.first()?, groups.last()?);
        let start = if self.plus { self.span.start } else { first.span().start };
        Some(Candidate { span: start..last.span().end, plus: self.plus, groups })
    }
}

/// A search for numbers: it is told where one could be.
#[derive(Debug, Default)]
pub(super) struct Phones {
    /// Nothing before this belongs to the next number.
    next: usize,
    groups: Vec<Group>,
}

impl Phones {
    /// The numbers among groups of digits that stand together.
    pub(super) fn through(
        &mut self,
        text: &Normal<'_>,
        range: Range<usize>,
        key: Option<&str>,
        words: &Words,
        mut found: impl FnMut(Range<usize>),
    ) {
        let mut at = range.start;
        while at < range.end {
            self.at(text, at, key, words, &mut found);
            at = self.next.max(at + 1);
            let rest = text.bytes().get(at..range.end).unwrap_or_default();
            at += rest.iter().position(|b| b.is_ascii_digit() || matches!(b, b'+' | b'(')).unwrap_or(rest.len());
        }
    }

    /// The numbers from a digit, a `+` or a `(` on, as far as its groups go, in ascending order. `key` is the name under
    /// which the text stands, if any: it counts as the word before.
    fn at(
        &mut self,
        text: &Normal<'_>,
        i: usize,
        key: Option<&str>,
        words: &Words,
        mut found: impl FnMut(Range<usize>),
    ) {
        if i < self.next || !starts_number(text, i) {
            return;
        }
        self.next = i + 1;
        if let Some(end) = vanity_end(text, i) {
            if hint(text, i, key, words) != Hint::Other {
                found(i..end);
            }
            self.next = end;
            return;
        }
        let mut run = Run::new(text, i);
        self.groups.clear();
        let mut digits = 0;
        while let Some(group) = (digits < DIGITS.end).then(|| run.next()).flatten() {
            digits += group.digits.len();
            self.groups.push(group);
        }
        let known = Cell::new(None);
        let told = || {
            let told = known.get().unwrap_or_else(|| hint(text, i, key, words));
            known.set(Some(told));
            told
        };
        let plus = text.at(i) == Some('+');
        let whole = Candidate { plus, groups: &self.groups, span: i..run.stop };
        if could_be(text, &whole, words) && (plus || is_meant(text, &whole, told(), words)) {
            self.next = extension_end(text, run.stop);
            found(i..self.next);
        } else {
            // Most runs are too short, or are one long figure: nobody looks for words around them.
            if digits >= DIGITS.start && known.get() != Some(Hint::Other) {
                parts(text, &mut run, (&mut self.groups, plus), words, |part| match told() {
                    Hint::Other => false,
                    Hint::Phone | Hint::Nothing => {
                        found(part);
                        true
                    }
                });
            }
            self.next = run.end().max(self.next);
        }
    }
}

/// Finds numbers; places in the text, ascending.
#[cfg(test)]
pub(super) fn find(text: &Normal<'_>, key: Option<&str>, words: &Words, found: &mut Vec<Range<usize>>) {
    let (mut phones, mut next) = (Phones::default(), 0);
    while let Some(i) = text.next_from(next, |b| b.is_ascii_digit() || matches!(b, b'+' | b'(')) {
        phones.at(text, i, key, words, |number| found.push(number));
        next = phones.next.max(i + 1);
    }
}

/// Numbers inside a run of groups that is none as a whole: two in a row, or one after a figure. Only the groups that one
/// number may have are looked at together, however long the run is. Ends when `found` says so.
fn parts(
    text: &Normal<'_>,
    run: &mut Run<'_>,
    (groups, plus): (&mut Vec<Group>, bool),
    words: &Words,
    mut found: impl FnMut(Range<usize>) -> bool,
) {
    let (mut start, mut plus) = (0, plus);
    let begins = run.start;
    loop {
        while groups.len() - start <= GROUPS
            && let Some(group) = run.next()
        {
            groups.push(group);
        }
        let Some(near) = groups.get(start..).filter(|near| !near.is_empty() && groups.len() > 1) else { return };
        let window = Candidate { span: begins..begins, groups: near, plus };
        start += match longest(text, &window, words) {
            Some((_, span)) if !found(span.clone()) => return,
            Some((count, _)) => count,
            None => 1,
        };
        plus = false;
        if start > FORGOTTEN {
            // One stays: the others are not the only ones.
            groups.drain(..start - 1);
            start = 1;
        }
    }
}

/// The longest number that the first of some groups begin: how many of them it has, and where it stands.
fn longest(text: &Normal<'_>, window: &Candidate<'_>, words: &Words) -> Option<(usize, Range<usize>)> {
    // Most groups stand too close to the one before, or are too short together.
    let near = window.groups.get(..GROUPS).unwrap_or(window.groups);
    let apart = near.first().is_some_and(|g| g.separator == ' ');
    if !apart || near.iter().map(|g| g.digits.len()).sum::<usize>() < DIGITS.start || !may_begin(text, window) {
        return None;
    }
    ends(window.groups).rev().find_map(|end| {
        let part = window.part(end)?;
        let meant = part.plus || is_meant(text, &part, Hint::Nothing, words);
        (meant && could_be(text, &part, words)).then_some((end, part.span))
    })
}

/// Whether a number could begin with the first group: most cannot, and nothing more need be tried on them.
fn may_begin(text: &Normal<'_>, window: &Candidate<'_>) -> bool {
    let mut near = window.groups.iter().take(GROUPS);
    window.plus
        || window
            .groups
            .first()
            .is_some_and(|g| matches!(g.digits.len(), 1 | 3 | 6 | 10 | 11) || text.at(g.digits.start) == Some('0'))
        || near.any(|g| g.parenthesis)
}

/// Where a number that begins with the first group may end, by how many digits it would have.
fn ends(groups: &[Group]) -> Range<usize> {
    let (mut digits, mut first, mut end) = (0, None, 0);
    for group in groups.iter().take(GROUPS) {
        digits += group.digits.len();
        if digits >= DIGITS.end {
            break;
        }
        end += 1;
        if digits >= DIGITS.start {
            first = first.or(Some(end));
        }
    }
    first.map_or(0..0, |first| first..end + 1)
}

fn is_dash(c: char) -> bool {
    matches!(c, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}')
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() && !matches!(c, '\n' | '\r')
}

fn digit_at(text: &Normal<'_>, i: usize) -> bool {
    text.byte(i).is_some_and(|b| b.is_ascii_digit())
}

/// A digit, `+` before a digit, or `(` before a digit or a plus... at the start of a run.
fn starts_number(text: &Normal<'_>, i: usize) -> bool {
    match text.at(i) {
        Some('+') => digit_at(text, i + 1) || (text.at(i + 1) == Some('(') && digit_at(text, i + 2)),
        Some('(') => {
            let close = (i + 1..i + 7).find(|k| !digit_at(text, *k));
            close.is_some_and(|k| k > i + 1 && text.at(k) == Some(')'))
        }
        Some(c) => c.is_ascii_digit(),
        None => false,
    }
}

/// What may stand right before a number. Letters may if they are a telling word.
fn stands_free(text: &Normal<'_>, start: usize, words: &Words) -> bool {
    match text.before(start) {
        None => true,
        Some(c) if c.is_alphabetic() => {
            let mut from = start;
            while from > 0 && start - from < REACH && text.before(from).is_some_and(char::is_alphabetic) {
                from -= 1;
            }
            text.text().get(from..start).and_then(|word| words.announced(word)) == Some(Told::Cue)
        }
        Some(c) => {
            !(c.is_ascii_digit()
                || is_dash(c)
                || matches!(c, '.' | '/' | '#' | '$' | '_' | '@' | '+' | '€' | '£' | ','))
        }
    }
}

/// The groups of digits from a place on, one after the other, as far as what stands between them can join a number.
struct Run<'a> {
    text: &'a Normal<'a>,
    start: usize,
    /// The end of the last group.
    stop: usize,
    /// Where the next group begins; nothing behind the last.
    next: Option<usize>,
    separator: char,
}

impl<'a> Run<'a> {
    fn new(text: &'a Normal<'a>, start: usize) -> Run<'a> {
        let next = start + usize::from(text.at(start) == Some('+'));
        Run { text, start, stop: start, next: Some(next), separator: ' ' }
    }

    /// Where the whole run ends.
    fn end(&mut self) -> usize {
        while self.next().is_some() {}
        self.stop
    }

    fn next(&mut self) -> Option<Group> {
        let (text, at) = (self.text, self.next.take()?);
        let open = text.byte(at) == Some(b'(');
        let from = at + usize::from(open);
        let end = text.next_from(from, |b| !b.is_ascii_digit()).unwrap_or(text.len());
        if end == from || (open && (text.byte(end) != Some(b')') || end - from > 5)) {
            return None;
        }
        let group = Group { digits: from..end, separator: self.separator, parenthesis: open };
        self.stop = end + usize::from(open);
        if let Some((separator, next)) = groups::next(text.bytes(), self.stop, open) {
            self.separator = char::from(separator);
            self.next = (text.byte(next) != Some(b'(') || starts_number(text, next)).then_some(next);
        }
        Some(group)
    }
}

/// Whether groups of digits may be a number as far as their count, their form and what touches them go.
fn could_be(text: &Normal<'_>, c: &Candidate<'_>, words: &Words) -> bool {
    if !DIGITS.contains(&c.digits()) {
        return false;
    }
    let glued = text.at(c.span.end).is_some_and(|c| c.is_alphanumeric() || c == '_')
        && !(text.at(c.span.end).is_some_and(|c| matches!(c, 'x' | 'X')) && digit_at(text, c.span.end + 1));
    if glued || is_date(c) || is_address(text, c) {
        return false;
    }
    // A plus is evidence enough, wherever it stands.
    (c.plus && !text.before(c.span.start).is_some_and(char::is_alphanumeric)) || stands_free(text, c.span.start, words)
}

/// Whether groups without a plus are meant as a number, by what the words before them say, or by their shape.
fn is_meant(text: &Normal<'_>, c: &Candidate<'_>, told: Hint, words: &Words) -> bool {
    match told {
        Hint::Phone => true,
        Hint::Nothing => is_shaped(text, c, c.digits()) && !is_quantity(text, c.span.end, words),
        Hint::Other => false,
    }
}

/// Whether groups of digits have the shape of a telephone number, whatever stands around them.
fn is_shaped(text: &Normal<'_>, c: &Candidate<'_>, digits: usize) -> bool {
    let digit = |n: usize, d: char| {
        c.groups.first().is_some_and(|g| g.digits.len() > n && text.at(g.digits.start + n) == Some(d))
    };
    let north_american = match c.sizes() {
        (3, [3, 3, 4, _]) | (1, [10, ..]) | (2, [6, 4, ..] | [3, 7, ..]) => true,
        (4, [1, 3, 3, 4]) | (1, [11, ..]) | (2, [1, 10, ..]) => digit(0, '1'),
        _ => false,
    };
    let exit_prefix = digit(0, '0') && digit(1, '0') && digits >= 10;
    // In one piece: an exit prefix and a country, unless it is only a figure with zeros before it.
    let country = exit_prefix && !digit(2, '0') && if digit(2, '1') { digits == 13 } else { digits >= 12 };
    let trunk = digit(0, '0') && (9..=11).contains(&digits);
    let area = digits >= 9 && c.groups.iter().any(|g| g.parenthesis);
    north_american || ((exit_prefix || trunk) && c.groups.len() > 1) || country || area
}

/// `2026-01-15` and the like.
fn is_date(c: &Candidate<'_>) -> bool {
    let same = |s: char| c.groups.iter().skip(1).all(|g| g.separator == s);
    matches!(c.sizes(), (3, [4, 2, 2, _] | [2, 2, 4, _])) && (same('-') || same('/') || same('.'))
}

/// Four dotted numbers up to 255.
fn is_address(text: &Normal<'_>, c: &Candidate<'_>) -> bool {
    c.groups.len() == 4
        && c.groups.iter().skip(1).all(|g| g.separator == '.')
        && c.groups.iter().all(|g| text.octet(&g.digits))
}

fn is_quantity(text: &Normal<'_>, end: usize, words: &Words) -> bool {
    let mut at = end;
    while text.at(at).is_some_and(is_blank) {
        at += 1;
    }
    let mut stop = at;
    while stop < at + REACH && text.at(stop).is_some_and(char::is_alphabetic) {
        stop += 1;
    }
    words.is_unit(text.part(&(at..stop)).unwrap_or_default())
}

/// Whether a word before a place says that a telephone number begins there.
pub(super) fn is_told(text: &Normal<'_>, start: usize, key: Option<&str>, words: &Words) -> bool {
    hint(text, start, key, words) == Hint::Phone
}

/// What the nearest telling word before a number says.
fn hint(text: &Normal<'_>, start: usize, key: Option<&str>, words: &Words) -> Hint {
    let least = start.saturating_sub(REACH);
    let mut weak = false;
    let mut at = start;
    for _ in 0..WORDS {
        at = text.back(at, least, |c| !c.is_alphanumeric() && !matches!(c, '[' | ']' | '\n' | ',' | ';'));
        let from = text.back(at, least, char::is_alphabetic);
        if from == at {
            // A digit, a clause's end, a placeholder or the start.
            break;
        }
        match words.announced(text.text().get(from..at).unwrap_or_default()) {
            Some(Told::Cue) => return Hint::Phone,
            Some(Told::Other) => return Hint::Other,
            Some(Told::WeakOther) => weak = true,
            None => {}
        }
        at = from;
    }
    if weak {
        return Hint::Other;
    }
    let Some(key) = key else { return Hint::Nothing };
    let parts = || key.split(|c: char| !c.is_alphabetic());
    if parts().any(|p| words.announced(p) == Some(Told::Cue)) {
        Hint::Phone
    } else if parts().any(|p| words.announced(p) == Some(Told::Other)) {
        Hint::Other
    } else {
        Hint::Nothing
    }
}

/// An extension after a number: ` x89`, ` ext. 89`, ` extension 89`.
fn extension_end(text: &Normal<'_>, end: usize) -> usize {
    let mut at = end;
    while at < end + GAP && text.at(at).is_some_and(|c| is_blank(c) || c == ',') {
        at += 1;
    }
    let Some(word) = ["extension", "ext.", "ext", "x", "#"].into_iter().find(|w| text.spells(at, w)) else {
        return end;
    };
    let mut from = at + word.chars().count();
    while from < at + word.len() + 2 && text.at(from).is_some_and(|c| is_blank(c) || matches!(c, ':' | '.')) {
        from += 1;
    }
    let mut stop = from;
    while stop < from + 6 && digit_at(text, stop) {
        stop += 1;
    }
    let glued = text.at(stop).is_some_and(char::is_alphanumeric);
    if stop == from || glued { end } else { stop }
}

/// The end of a number spelled with letters, `1-800-FLOWERS`.
fn vanity_end(text: &Normal<'_>, start: usize) -> Option<usize> {
    if text.before(start).is_some_and(|c| c.is_alphanumeric() || is_dash(c) || c == '.') {
        return None;
    }
    let mut at = start + usize::from(text.at(start) == Some('+'));
    if text.at(at) == Some('1') && text.at(at + 1).is_some_and(|c| is_dash(c) || matches!(c, ' ' | '.')) {
        at += 2;
    }
    let free = text.at(at) == Some('8') && digit_at(text, at + 1) && digit_at(text, at + 2);
    if !free || !text.at(at + 3).is_some_and(|c| is_dash(c) || matches!(c, ' ' | '.')) {
        return None;
    }
    let from = at + 4;
    let mut end = from;
    while end < from + 10 && text.at(end).is_some_and(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || is_dash(c)) {
        end += 1;
    }
    while end > from && text.before(end).is_some_and(is_dash) {
        end -= 1;
    }
    let letters = (from..end).filter(|i| text.at(*i).is_some_and(|c| c.is_ascii_uppercase())).count();
    let glued = text.at(end).is_some_and(char::is_alphanumeric);
    (letters >= 4 && !glued).then_some(end)
}
