//! Small changes of a pack's rules, one at a time: each must make one of the pack's own tests fail.
//!
//! Text is changed, not trees: a change that does not load is no mutant, so nothing here needs to know the
//! grammar.

use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
};

/// The files of a pack by their path in it.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A pack with one change.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The policy that the changed line belongs to; none for what several share.
    pub policy: Option<String>,
    /// The line as it is.
    pub before: String,
    /// The line as it was made; `without` and the line if it was taken out.
    pub after: String,
    /// The changed file.
    pub path: PathBuf,
    /// Its whole text.
    pub text: String,
}

/// What is put for what, wherever it stands in a rule outside of texts and patterns.
const SWAPS: [(&str, &str); 38] = [
    (" and ", " or "),
    (" or ", " and "),
    (" == ", " != "),
    (" != ", " == "),
    (" > ", " >= "),
    (" > ", " < "),
    (" < ", " <= "),
    (" < ", " > "),
    (" - ", " + "),
    (" * ", " + "),
    ("not ", ""),
    ("deny if ", "deny unless "),
    ("deny unless ", "deny if "),
    ("review if ", "review unless "),
    ("review unless ", "review if "),
    (" without user", ""),
    ("any ", "all "),
    ("any ", "none "),
    ("none ", "any "),
    ("none ", "all "),
    (" in ", " not in "),
    ("last(", "first("),
    ("max(", "min("),
    ("trim(", "("),
    ("lower(", "("),
    (" as string", ""),
    (" as object", ""),
    (" as list", ""),
    (" as whole", " as number"),
    (" is string", " is not null"),
    (" is whole", " is number"),
    (" starts with ", " contains "),
    (" since user", ""),
    (" before this turn", ""),
    (" default []", ""),
    ("own_id() union ", ""),
    ("seen(", "known("),
    (" collects ", " = "),
];

/// The same for YAML.
const YAML_SWAPS: [(&str, &str); 5] = [
    ("match: word", "match: substring"),
    ("[ascii_case]", "[]"),
    ("prefix: Error", "prefix: Er"),
    ("prefix: Error", "prefix: 'Error:'"),
    (":00\"", ":01\""),
];

/// Lines that say nothing about when a policy fires.
const NOT_JUDGED: [&str; 5] = ["severity", "message", "tags", "judge", "policy"];

/// Every mutant of a pack.
pub fn of(files: &Files) -> Vec<Mutant> {
    files.iter().flat_map(|(path, bytes)| of_file(path, std::str::from_utf8(bytes).unwrap())).collect()
}

fn of_file(path: &Path, text: &str) -> Vec<Mutant> {
    let is_rule = path.extension().is_some_and(|e| e == "policy");
    let is_yaml = ["pack.yaml", "keywords.yaml"].iter().any(|name| path.as_os_str() == *name);
    let mut mutants = Vec::new();
    let mut policy = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("policy ") {
            policy = rest.split_whitespace().next().map(str::to_owned);
        } else if !line.starts_with([' ', '}', '\n']) {
            policy = None;
        }
        let changes = match (is_rule, is_yaml) {
            (true, _) => of_rule(line),
            (_, true) => of_yaml(line),
            _ => Vec::new(),
        };
        for (place, put) in changes {
            let after = format!("{}{put}{}", &line[..place.start], &line[place.end..]);
            let before = line.trim().to_owned();
            mutants.push(Mutant {
                policy: policy.clone(),
                after: if after.is_empty() { format!("without {before}") } else { after.trim().to_owned() },
                before,
                path: path.to_owned(),
                text: format!("{}{after}{}", &text[..at], &text[at + line.len()..]),
            });
        }
        at += line.len();
    }
    mutants
}

/// The changes of a line: what is replaced, and by what.
type Changes = Vec<(Range<usize>, String)>;

fn of_rule(line: &str) -> Changes {
    let code = &line[..line.find('#').unwrap_or(line.len())];
    if NOT_JUDGED.iter().any(|word| code.trim_start().starts_with(word)) {
        return Vec::new();
    }
    let literals = literals(code);
    let outside = |at: usize| !literals.iter().any(|l| l.contains(&at));
    let mut changes: Changes = literals
        .iter()
        .filter(|l| code[l.start..].starts_with('"'))
        .map(|l| (l.end - 1..l.end - 1, "_".to_owned()))
        .collect();
    for (from, to) in SWAPS {
        let places = code.match_indices(from).map(|(at, _)| at).filter(|at| outside(*at));
        changes.extend(places.map(|at| (at..at + from.len(), to.to_owned())));
    }
    // One of several conditions that are written a line each.
    if code.trim_start().starts_with("or ") || code.trim_start().starts_with("and ") {
        changes.push((0..line.len(), String::new()));
    }
    // A condition on whether a policy or a fact applies, or on what is known, always holds.
    if let Some(at) = code.find("when ") {
        changes.push((at + 5..code.trim_end().len(), "true".to_owned()));
    }
    for (at, _) in code.match_indices("known(") {
        changes.extend(closing(&code[at..]).map(|length| (at..at + length, "true".to_owned())));
    }
    // Every name that can be another one, and every number.
    for word in words(code).filter(|w| outside(w.start)) {
        let digits = code[word.clone()].bytes().take_while(u8::is_ascii_digit).count();
        match code[word.start..word.start + digits].parse::<u32>() {
            Ok(number) => changes.push((word.start..word.start + digits, (number + 1).to_string())),
            Err(_) => changes.push((word.end..word.end, "_".to_owned())),
        }
    }
    changes
}

fn of_yaml(line: &str) -> Changes {
    let mut changes = Changes::new();
    for (from, to) in YAML_SWAPS {
        changes.extend(line.match_indices(from).map(|(at, _)| (at..at + from.len(), to.to_owned())));
    }
    if line.trim_start().starts_with("- ") {
        changes.push((0..line.len(), String::new()));
    }
    changes
}

/// Texts and patterns, with their marks.
fn literals(code: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open: Option<(usize, char)> = None;
    let mut escaped = false;
    for (at, c) in code.char_indices() {
        if escaped || (open.is_some() && c == '\\') {
            escaped = !escaped;
            continue;
        }
        match open {
            Some((start, mark)) if c == mark => {
                found.push(start..at + 1);
                open = None;
            }
            None if matches!(c, '"' | '/') => open = Some((at, c)),
            _ => {}
        }
    }
    found
}

/// The length of a text up to the bracket that closes its first one.
fn closing(code: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(at + 1),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Runs of letters, digits and `_`.
fn words(code: &str) -> impl Iterator<Item = Range<usize>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + code[at..].find(is_word)?;
        let end = code[start..].find(|c| !is_word(c)).map_or(code.len(), |n| start + n);
        at = end;
        Some(start..end)
    })
}
