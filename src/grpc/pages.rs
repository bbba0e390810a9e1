//! Page sizes and page tokens, as AIP-158 has them: a token is opaque, and leads on in the query whose answer it was part
//! of, not in another one.

use data_encoding::BASE64URL_NOPAD;
use prost::Message;

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

/// The pages of one query, told apart from those of others by a digest of what is asked.
#[derive(Clone, Copy, Debug)]
pub struct Pages([u8; 8]);

impl Pages {
    /// The pages of a query: a request without page size and token.
    pub fn of(method: &str, query: &impl Message) -> Pages {
        let mut hasher = blake3::Hasher::new();
        hasher.update(method.as_bytes()).update(&[0]).update(&query.encode_to_vec());
        let mut print = [0; 8];
        hasher.finalize_xof().fill(&mut print);
        Pages(print)
    }

    /// The token for the page that begins at a place.
    pub fn token(self, begins_at: u64) -> String {
        BASE64URL_NOPAD.encode(&[begins_at.to_be_bytes(), self.0].concat())
    }

    /// Where the page of a token begins; `start` for none.
    pub fn begins_at(self, faults: &mut Faults, token: &str, start: u64) -> u64 {
        if token.is_empty() {
            return start;
        }
        let read = BASE64URL_NOPAD.decode(token.as_bytes()).ok().and_then(|bytes| {
            let (begins_at, print) = bytes.split_first_chunk()?;
            (print == self.0).then(|| u64::from_be_bytes(*begins_at))
        });
        read.unwrap_or_else(|| {
            faults.add("page_token", "is not from an answer to this query");
            start
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn tokens_lead_back_to_their_page_and_strange_ones_are_refused() {
        let (here, elsewhere) = (Pages::of("a", &7u64), Pages::of("a", &8u64));
        let mut faults = Faults::default();
        assert_eq!(here.begins_at(&mut faults, &here.token(7), 1), 7);
        assert_eq!(here.begins_at(&mut faults, "", 1), 1);
        assert_eq!(size(&mut faults, 0, 100, 1000), 100);
        assert_eq!(size(&mut faults, 5000, 100, 1000), 1000);
        assert!(faults.or(()).is_ok());
        for strange in ["7", "p", "AAAA", &elsewhere.token(7), &Pages::of("b", &7u64).token(7), &here.token(7)[1..]] {
            let mut faults = Faults::default();
            here.begins_at(&mut faults, strange, 1);
            assert!(faults.or(()).is_err(), "{strange}");
        }
        let mut faults = Faults::default();
        size(&mut faults, -1, 100, 1000);
        assert_eq!(faults.or(()).unwrap_err().code(), tonic::Code::InvalidArgument);
    }
}
