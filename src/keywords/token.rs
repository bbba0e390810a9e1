//! Tokens of a text: what is compared where a value is looked for in other texts.

use unicase::UniCase;

use super::normalise::is_word;

/// The tokens of a text, in order: runs of letters, numbers and `_`, without regard to case (Unicode's full
/// case folding). What stands between them does not matter.
pub fn tokens(text: &str) -> impl Iterator<Item = String> {
    text.split(|c| !is_word(c))
        .filter(|run| !run.is_empty())
        .map(|run| if run.is_ascii() { run.to_ascii_lowercase() } else { UniCase::unicode(run).to_folded_case() })
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn runs_of_letters_numbers_and_underscores() {
        let found = |text| tokens(text).collect::<Vec<_>>();
        assert_eq!(found("To: DE02-12_3, café!"), ["to", "de02", "12_3", "café"]);
        assert_eq!(found("STRASSE"), found("straße"));
        assert_eq!(found("ΟΔΟΣ"), found("οδος"));
        assert_eq!(found(" -- "), Vec::<String>::new());
    }
}
