//! Tables in documents that a test draws: each stands between two markers, `<!-- NAME: begin -->` and its end.

use std::fs;

/// Holds the table of a document to what was drawn; `UPDATE_FIXTURES=1` writes it there.
///
/// Panics if they differ, or if the document has no such place.
pub fn drawn(document: &str, name: &str, table: &str) {
    let text = fs::read_to_string(document).unwrap();
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->\n"));
    let (before, rest) = text.split_once(&begin).unwrap();
    let (shown, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        fs::write(document, format!("{before}{begin}{table}{end}{after}")).unwrap();
    } else {
        assert_eq!(shown, table, "{document}, {name}: read the difference, then run with UPDATE_FIXTURES=1");
    }
}
