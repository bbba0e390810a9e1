//! Telephone numbers: international and national forms, with the words around them as evidence.
//!
//! A number after "+" is one. Otherwise the shape must be that of a number, and the nearest telling
//! word before it decides: "call" speaks for it, "order" against it.

use std::ops::Range;

use super::normal::Normal;

/// Fewest and most digits of a number.
const DIGITS: Range<usize> = 7..16;
/// How far back telling words are looked for, in units.
const REACH: usize = 40;
/// How many words back.
const WORDS: usize = 4;
/// Most groups of a number.
const GROUPS: usize = 6;
/// Most white space and dashes between two groups.
const GAP: usize = 3;

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

    /// Some of its groups, if they stand apart from the others.
    fn part(&self, groups: Range<usize>) -> Option<Candidate<'_>> {
        let apart = |i: usize| self.groups.get(i).is_none_or(|g| g.separator == ' ');
        if !(groups.start == 0 || apart(groups.start)) || !apart(groups.end) {
            return None;
        }
        let plus = self.plus && groups.start == 0;
        let groups = self.groups.get(groups)?;
        let (first, last) = (groups.first()?, groups.last()?);
        let start = if plus { self.span.start } else { first.span().start };
        Some(Candidate { span: start..last.span().end, plus, groups })
    }
}

/// Finds numbers; ranges of units, ascending. `key` is the name under which the text stands, if any:
/// it counts as the word before.
pub(super) fn find(text: &Normal, key: Option<&str>, words: &PhoneWords, found: &mut Vec<Range<usize>>) {
    let mut i = 0;
    while i < text.len() {
        if !starts_number(text, i) {
            i += 1;
            continue;
        }
        if let Some(end) = vanity_end(text, i) {
            if hint(text, i, key, words) != Hint::Other {
                found.push(i..end);
            }
            i = end;
            continue;
        }
        let (span, groups) = run_of_groups(text, i);
        let candidate = Candidate { plus: text.at(i) == Some('+'), groups: &groups, span };
        i = candidate.span.end.max(i + 1);
        // Most runs are too short, or are one long figure: nobody looks for words around them.
        let digits = candidate.digits();
        if digits < DIGITS.start || (groups.len() == 1 && !DIGITS.contains(&digits)) {
            continue;
        }
        let told = hint(text, candidate.span.start, key, words);
        if is_phone(text, &candidate, told, words) {
            let end = extension_end(text, i);
            found.push(candidate.span.start..end);
            i = end;
        } else if told != Hint::Other {
            parts(text, &candidate, words, found);
        }
    }
}

/// Numbers inside a run of groups that is none as a whole: two in a row, or one after a figure.
fn parts(text: &Normal, candidate: &Candidate<'_>, words: &PhoneWords, found: &mut Vec<Range<usize>>) {
    let count = candidate.groups.len();
    let mut start = 0;
    while start < count && count > 1 {
        if !may_begin(text, candidate, start) {
            start += 1;
            continue;
        }
        let longest = ends(candidate.groups, start).rev().find_map(|end| {
            let part = candidate.part(start..end)?;
            is_phone(text, &part, Hint::Nothing, words).then_some((end, part.span))
        });
        match longest {
            Some((end, span)) => {
                found.push(span);
                start = end;
            }
            None => start += 1,
        }
    }
}

/// Whether a number could begin with a group: most cannot, and nothing more need be tried on them.
fn may_begin(text: &Normal, candidate: &Candidate<'_>, start: usize) -> bool {
    let mut near = candidate.groups.iter().skip(start).take(GROUPS);
    let first = || candidate.groups.get(start);
    (candidate.plus && start == 0)
        || first()
            .is_some_and(|g| matches!(g.digits.len(), 1 | 3 | 6 | 10 | 11) || text.at(g.digits.start) == Some('0'))
        || near.any(|g| g.parenthesis)
}

/// Where a number that begins with a group may end, by how many digits it would have.
fn ends(groups: &[Group], start: usize) -> Range<usize> {
    let (mut digits, mut first, mut end) = (0, None, start);
    for group in groups.iter().skip(start).take(GROUPS) {
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

fn is_digit(c: char) -> bool {
    use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};
    c.is_ascii_digit() || (!c.is_ascii() && c.general_category() == GeneralCategory::DecimalNumber)
}

fn is_dash(c: char) -> bool {
    matches!(c, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}')
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() && !matches!(c, '\n' | '\r')
}

fn digit_at(text: &Normal, i: usize) -> bool {
    text.at(i).is_some_and(is_digit)
}

/// A digit, `+` before a digit, or `(` before a digit or a plus... at the start of a run.
fn starts_number(text: &Normal, i: usize) -> bool {
    match text.at(i) {
        Some('+') => digit_at(text, i + 1) || (text.at(i + 1) == Some('(') && digit_at(text, i + 2)),
        Some('(') => {
            let close = (i + 1..i + 7).find(|k| !digit_at(text, *k));
            close.is_some_and(|k| k > i + 1 && text.at(k) == Some(')'))
        }
        Some(c) => is_digit(c),
        None => false,
    }
}

/// What may stand right before a number. Letters may if they are a telling word.
fn stands_free(text: &Normal, start: usize, words: &PhoneWords) -> bool {
    match text.before(start) {
        None => true,
        Some(c) if c.is_alphabetic() => {
            let mut from = start;
            while from > 0 && start - from < REACH && text.before(from).is_some_and(char::is_alphabetic) {
                from -= 1;
            }
            words.cues.contains(&text.text(from..start).to_lowercase())
        }
        Some(c) => {
            !(is_digit(c) || is_dash(c) || matches!(c, '.' | '/' | '#' | '$' | '_' | '@' | '+' | '€' | '£' | ','))
        }
    }
}

/// The groups of digits from here on, as far as what stands between them can join a number; and where they stand.
fn run_of_groups(text: &Normal, start: usize) -> (Range<usize>, Vec<Group>) {
    let mut groups = Vec::new();
    let mut at = start + usize::from(text.at(start) == Some('+'));
    let mut stop = start;
    let mut separator = ' ';
    loop {
        let open = text.at(at) == Some('(');
        let from = at + usize::from(open);
        let mut end = from;
        while digit_at(text, end) {
            end += 1;
        }
        if end == from || (open && (text.at(end) != Some(')') || end - from > 5)) {
            break;
        }
        groups.push(Group { digits: from..end, separator, parenthesis: open });
        at = end + usize::from(open);
        stop = at;
        let mut next = at;
        separator = if open { ')' } else { ' ' };
        let mut gap = 0;
        while let Some(between) = text.at(next) {
            let joins = is_blank(between) || is_dash(between) || (matches!(between, '.' | '/') && gap == 0);
            if !joins || gap == GAP {
                break;
            }
            if !is_blank(between) {
                separator = if is_dash(between) { '-' } else { between };
            }
            next += 1;
            gap += 1;
        }
        // After a dot or a slash the next group follows at once.
        let apart = matches!(separator, '.' | '/') && gap > 1;
        let opens = text.at(next) == Some('(') && starts_number(text, next);
        if apart || !(digit_at(text, next) || opens) || (gap == 0 && !opens && separator != ')') {
            break;
        }
        at = next;
    }
    (start..stop, groups)
}

fn is_phone(text: &Normal, c: &Candidate<'_>, told: Hint, words: &PhoneWords) -> bool {
    let digits = c.digits();
    // A plus is evidence enough, wherever it stands.
    let believed = c.plus || told == Hint::Phone || (told == Hint::Nothing && is_shaped(text, c, digits));
    if !DIGITS.contains(&digits) || !believed {
        return false;
    }
    let glued = text.at(c.span.end).is_some_and(|c| c.is_alphanumeric() || c == '_')
        && !(text.at(c.span.end).is_some_and(|c| matches!(c, 'x' | 'X')) && digit_at(text, c.span.end + 1));
    if glued || is_date(c) || is_address(text, c) {
        return false;
    }
    let free = || stands_free(text, c.span.start, words);
    if c.plus {
        return free() || !text.before(c.span.start).is_some_and(char::is_alphanumeric);
    }
    free() && (told == Hint::Phone || !is_quantity(text, c.span.end, words))
}

/// Whether groups of digits have the shape of a telephone number, whatever stands around them.
fn is_shaped(text: &Normal, c: &Candidate<'_>, digits: usize) -> bool {
    let digit = |n: usize, d: char| {
        c.groups.first().is_some_and(|g| g.digits.len() > n && text.at(g.digits.start + n) == Some(d))
    };
    let north_american = match c.sizes() {
        (3, [3, 3, 4, _]) | (1, [10, ..]) | (2, [6, 4, ..] | [3, 7, ..]) => true,
        (4, [1, 3, 3, 4]) | (1, [11, ..]) | (2, [1, 10, ..]) => digit(0, '1'),
        _ => false,
    };
    let exit_prefix = digit(0, '0') && digit(1, '0') && digits >= 10;
    let trunk = digit(0, '0') && (9..=11).contains(&digits);
    let area = digits >= 9 && c.groups.iter().any(|g| g.parenthesis);
    north_american || ((exit_prefix || trunk) && c.groups.len() > 1) || area
}

/// `2026-01-15` and the like.
fn is_date(c: &Candidate<'_>) -> bool {
    let same = |s: char| c.groups.iter().skip(1).all(|g| g.separator == s);
    matches!(c.sizes(), (3, [4, 2, 2, _] | [2, 2, 4, _])) && (same('-') || same('/') || same('.'))
}

/// Four dotted numbers up to 255.
fn is_address(text: &Normal, c: &Candidate<'_>) -> bool {
    c.groups.len() == 4
        && c.groups.iter().skip(1).all(|g| g.separator == '.')
        && c.groups.iter().all(|g| text.text(g.digits.clone()).parse::<u8>().is_ok())
}

fn is_quantity(text: &Normal, end: usize, words: &PhoneWords) -> bool {
    let mut at = end;
    while text.at(at).is_some_and(is_blank) {
        at += 1;
    }
    let mut stop = at;
    while stop < at + REACH && text.at(stop).is_some_and(char::is_alphabetic) {
        stop += 1;
    }
    words.units.contains(&text.text(at..stop).to_lowercase())
}

/// What the nearest telling word before a number says.
fn hint(text: &Normal, start: usize, key: Option<&str>, words: &PhoneWords) -> Hint {
    let least = start.saturating_sub(REACH);
    let mut weak = false;
    let mut at = start;
    for _ in 0..WORDS {
        while at > least
            && text.before(at).is_some_and(|c| !c.is_alphanumeric() && !matches!(c, '[' | ']' | '\n' | ',' | ';'))
        {
            at -= 1;
        }
        let mut from = at;
        while from > least && text.before(from).is_some_and(char::is_alphabetic) {
            from -= 1;
        }
        if from == at {
            // A digit, a clause's end, a placeholder or the start.
            break;
        }
        let word = text.text(from..at).to_lowercase();
        if words.cues.contains(&word) {
            return Hint::Phone;
        }
        if words.others.contains(&word) {
            return Hint::Other;
        }
        weak |= words.weak_others.contains(&word);
        at = from;
    }
    if weak {
        return Hint::Other;
    }
    let Some(key) = key else { return Hint::Nothing };
    let parts = || key.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase);
    if parts().any(|p| words.cues.contains(&p)) {
        Hint::Phone
    } else if parts().any(|p| words.others.contains(&p)) {
        Hint::Other
    } else {
        Hint::Nothing
    }
}

/// An extension after a number: ` x89`, ` ext. 89`, ` extension 89`.
fn extension_end(text: &Normal, end: usize) -> usize {
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
fn vanity_end(text: &Normal, start: usize) -> Option<usize> {
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
