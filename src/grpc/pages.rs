//! Page sizes and page tokens, as AIP-158 has them.

use super::convert::Faults;

/// The size of a page, with the server's choice for 0 and a bound for more.
pub fn size(faults: &mut Faults, asked: i32, choice: usize, most: usize) -> usize {
    match usize::try_from(asked) {
        Ok(0) => choice,
        Ok(size) => size.min(most),
        Err(_) => {
            faults.add("page_size", "must not be negative");
            choice
        }
    }
}

/// The token for the page that begins at a place.
pub fn token(begins_at: u64) -> String {
    format!("p{begins_at}")
}

/// Where the page of a token begins; `start` for none.
pub fn begins_at(faults: &mut Faults, token: &str, start: u64) -> u64 {
    if token.is_empty() {
        return start;
    }
    token.strip_prefix('p').and_then(|n| n.parse().ok()).unwrap_or_else(|| {
        faults.add("page_token", "is not from an answer of this method");
        start
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn tokens_lead_back_to_their_page_and_strange_ones_are_refused() {
        let mut faults = Faults::default();
        assert_eq!(begins_at(&mut faults, &token(7), 1), 7);
        assert_eq!(begins_at(&mut faults, "", 1), 1);
        assert_eq!(size(&mut faults, 0, 100, 1000), 100);
        assert_eq!(size(&mut faults, 5000, 100, 1000), 1000);
        assert!(faults.or(()).is_ok());
        for strange in ["7", "p", "p-1", "px"] {
            let mut faults = Faults::default();
            begins_at(&mut faults, strange, 1);
            assert!(faults.or(()).is_err(), "{strange}");
        }
        let mut faults = Faults::default();
        size(&mut faults, -1, 100, 1000);
        assert_eq!(faults.or(()).unwrap_err().code(), tonic::Code::InvalidArgument);
    }
}
