//! Reading and writing the primitives of the byte layouts: unsigned LEB128 numbers, and texts with
//! their length in front.

/// Why bytes are not what the layout says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BytesError {
    /// The bytes end inside a value.
    #[error("the bytes end inside a value")]
    Short,
    /// A number of more than 64 bits.
    #[error("a number of more than 64 bits")]
    Wide,
    /// A text that is not UTF-8.
    #[error("a text that is not UTF-8")]
    Text,
}

/// Appends a number.
pub(crate) fn put_number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        // The low seven bits, with the mark that more follow.
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends a length.
pub(crate) fn put_len(out: &mut Vec<u8>, n: usize) {
    put_number(out, n as u64);
}

/// Appends a text.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_len(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// A place in bytes that are read front to back.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, BytesError> {
        let (first, rest) = self.rest.split_first().ok_or(BytesError::Short)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], BytesError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(BytesError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], BytesError> {
        self.bytes(N)?.try_into().map_err(|_| BytesError::Short)
    }

    pub(crate) fn number(&mut self) -> Result<u64, BytesError> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(BytesError::Wide);
            }
            n |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(BytesError::Wide)
    }

    pub(crate) fn number32(&mut self) -> Result<u32, BytesError> {
        u32::try_from(self.number()?).map_err(|_| BytesError::Wide)
    }

    pub(crate) fn len(&mut self) -> Result<usize, BytesError> {
        usize::try_from(self.number()?).map_err(|_| BytesError::Wide)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, BytesError> {
        let len = self.len()?;
        std::str::from_utf8(self.bytes(len)?).map_err(|_| BytesError::Text)
    }

    /// A list of `len, entries`. A length beyond what the bytes can hold is refused by the entry
    /// that is missing, so nothing is allocated on a stranger's word.
    pub(crate) fn list<T, E: From<BytesError>>(
        &mut self,
        mut entry: impl FnMut(&mut Reader<'a>) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        let len = self.len()?;
        let mut entries = Vec::with_capacity(len.min(self.rest.len()));
        for _ in 0..len {
            entries.push(entry(self)?);
        }
        Ok(entries)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn numbers_read_back(n in proptest::num::u64::ANY) {
            let mut out = Vec::new();
            put_number(&mut out, n);
            let mut reader = Reader::new(&out);
            proptest::prop_assert_eq!(reader.number(), Ok(n));
            proptest::prop_assert!(reader.is_empty());
        }

        #[test]
        fn texts_read_back(text in ".{0,300}") {
            let mut out = Vec::new();
            put_text(&mut out, &text);
            proptest::prop_assert_eq!(Reader::new(&out).text(), Ok(text.as_str()));
        }
    }

    #[test]
    fn a_number_wider_than_64_bits_is_refused() {
        let mut wide = vec![0xff; 9];
        wide.push(0x02);
        assert_eq!(Reader::new(&wide).number(), Err(BytesError::Wide));
        assert_eq!(Reader::new(&[0x80; 11]).number(), Err(BytesError::Wide));
    }

    #[test]
    fn a_list_longer_than_its_bytes_is_refused_without_allocating_for_it() {
        let mut out = Vec::new();
        put_number(&mut out, u64::MAX / 2);
        let entries: Result<Vec<u8>, BytesError> = Reader::new(&out).list(|r| r.byte());
        assert_eq!(entries, Err(BytesError::Short));
    }
}
