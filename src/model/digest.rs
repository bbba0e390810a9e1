//! A 32-byte digest, shown in hex.

use std::fmt;

use data_encoding::HEXLOWER_PERMISSIVE;

/// A digest, such as that of a pack's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// From its bytes.
    pub fn new(bytes: [u8; 32]) -> Digest {
        Digest(bytes)
    }

    /// From 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Digest> {
        HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok().map(Digest)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    /// Lower-case hex. Every answer carries a digest, so it is put together without the machinery of formatting.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |n: u8| char::from(if n < 10 { b'0' + n } else { b'a' + n - 10 });
        let hex: String = self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
        f.write_str(&hex)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_digest_shows_as_hex() {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&[0x00, 0x9a, 0xf0, 0xff]);
        let hex = format!("009af0ff{}", "0".repeat(56));
        assert_eq!(Digest::new(bytes).to_string(), hex);
        assert_eq!(Digest::from_hex(&hex), Some(Digest::new(bytes)));
        assert_eq!(Digest::from_hex(&hex.to_uppercase()), Some(Digest::new(bytes)));
        for bad in ["", &hex[1..], &hex.replace('9', "x"), &format!("{hex}00")] {
            assert_eq!(Digest::from_hex(bad), None, "{bad}");
        }
    }
}
