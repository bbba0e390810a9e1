//! The hash chain: what ties each record to all before it.
//!
//! ```text
//! link(0) = SHA-256("probity audit chain 1\n"  store:16 bytes)
//! link(n) = SHA-256(link(n-1)  length of record n: 8 bytes, big-endian  record n)
//! ```
//!
//! A record's bytes begin with its number (see `layout`), so a record that is changed, moved, put in or left out
//! breaks the chain at its place. SHA-256, because a verifier in any language has it at hand.
//!
//! Whoever can write the whole store can also compute a whole new chain. That is seen only by comparing with a
//! checkpoint that was kept elsewhere (see `checkpoint`).

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::model::Digest;

use super::record::RecordNumber;

/// The name of one store, drawn at random when it is made: the chain of one cannot pass for that of another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId([u8; 16]);

impl StoreId {
    /// From its bytes.
    pub fn new(bytes: [u8; 16]) -> StoreId {
        StoreId(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A place in a chain: everything up to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Whose chain.
    pub store: StoreId,
    /// The number of the last record; 0 before the first.
    pub last: RecordNumber,
    /// Its link.
    pub link: Digest,
}

impl Head {
    /// Before the first record.
    pub fn genesis(store: StoreId) -> Head {
        let link = Sha256::new().chain_update(b"probity audit chain 1\n").chain_update(store.bytes()).finalize();
        Head { store, last: 0, link: Digest::new(link.into()) }
    }

    /// After one more record.
    #[must_use]
    pub fn after(self, record: &[u8]) -> Head {
        let link = Sha256::new()
            .chain_update(self.link.bytes())
            .chain_update((record.len() as u64).to_be_bytes())
            .chain_update(record)
            .finalize();
        Head { last: self.last.saturating_add(1), link: Digest::new(link.into()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_link_counts() {
        let genesis = Head::genesis(StoreId::new([1; 16]));
        assert_ne!(genesis.link, Head::genesis(StoreId::new([2; 16])).link);
        let one = genesis.after(b"ab");
        assert_eq!(one.last, 1);
        assert_ne!(one.link, genesis.after(b"ac").link);
        // Where one record ends and the next begins is part of it.
        assert_ne!(one.after(b"c").link, genesis.after(b"a").after(b"bc").link);
    }

    #[test]
    fn links_are_those_of_the_documented_bytes() {
        // printf 'probity audit chain 1\n\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1' | sha256sum, and so on.
        let genesis = Head::genesis(StoreId::new([1; 16]));
        assert_eq!(genesis.link.to_string(), "012a888579842688202d38b686a02fdbb9033db82046a60d5331c6ecc04ee441");
        assert_eq!(
            genesis.after(b"ab").link.to_string(),
            "7faa31296cf0724625f6019543df59a67bb10eb68cd392db42a0c4e7f465ba1c"
        );
    }
}
