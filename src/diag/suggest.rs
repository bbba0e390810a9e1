//! Near names, and names in messages.

use std::fmt::Write as _;

/// Names longer than this are not compared: the cost grows with the product of the lengths.
const LONGEST: usize = 64;

/// The candidate that was probably meant: equal but for case and the sign between words, or at a
/// small edit distance (a third of the name at most). The first of equally near ones.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.is_empty() || name.len() > LONGEST {
        return None;
    }
    let name = fold(name);
    let allowed = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|c| c.len() <= LONGEST)
        .map(|c| (strsim::osa_distance(&name, &fold(c)), c))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

fn fold(name: &str) -> String {
    name.to_lowercase().replace(['-', ' '], "_")
}

/// A name or value of a pack file for use in a message: in backquotes, at most 60 characters,
/// control characters escaped.
pub fn quote(text: &str) -> String {
    const MOST: usize = 60;
    let mut out = String::from("`");
    for (i, c) in text.chars().enumerate() {
        if i == MOST {
            out.push('…');
            break;
        }
        if c.is_control() {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.push('`');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["name", "version", "on_undecided", "terms"];
        assert_eq!(suggest("nmae", names), Some("name"));
        assert_eq!(suggest("On-Undecided", names), Some("on_undecided"));
        assert_eq!(suggest("verison", names), Some("version"));
        assert_eq!(suggest("term", names), Some("terms"));
        assert_eq!(suggest("colour", names), None);
        assert_eq!(suggest("", names), None);
        assert_eq!(suggest("x", ["y"]), Some("y"));
        assert_eq!(suggest(&"x".repeat(100_000), names), None);
    }

    #[test]
    fn quotes_are_short_and_on_one_line() {
        assert_eq!(quote("a\nb"), "`a\\nb`");
        assert_eq!(quote(&"é".repeat(100)).chars().count(), 63);
    }
}
