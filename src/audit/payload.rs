//! Payloads: what a record carries that can be erased later, such as redacted answers to probes.
//!
//! The chain holds a payload's salted digest and the store holds the payload beside it:
//!
//! ```text
//! digest  = SHA-256("probity audit payload 1\n"  salt:16 bytes  content)
//! payload = salt:16 bytes  content
//! ```
//!
//! Once a payload is erased, its salt is gone with it: the chain still verifies, and nobody can try out what the
//! content may have been.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::model::Digest;

use super::record::RecordNumber;

/// Bytes of a salt.
const SALT: usize = 16;

/// Which payload: a record has at most one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PayloadKey {
    /// The session that it is about.
    pub session: Arc<str>,
    /// The record.
    pub number: RecordNumber,
}

/// A payload as it is stored: a salt and the content.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Vec<u8>);

impl Payload {
    /// Content under a salt.
    pub(super) fn new(salt: [u8; SALT], content: &[u8]) -> Payload {
        let mut bytes = Vec::with_capacity(SALT + content.len());
        bytes.extend_from_slice(&salt);
        bytes.extend_from_slice(content);
        Payload(bytes)
    }

    /// As a store gave it back; nothing if it is too short to be one.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Payload> {
        (bytes.len() >= SALT).then_some(Payload(bytes))
    }

    /// As stored.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The content.
    pub fn content(&self) -> &[u8] {
        self.0.get(SALT..).unwrap_or_default()
    }

    /// What the record holds of it.
    pub fn digest(&self) -> Digest {
        let digest = Sha256::new().chain_update(b"probity audit payload 1\n").chain_update(&self.0).finalize();
        Digest::new(digest.into())
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes)", self.content().len())
    }
}

/// Salts that nobody can foresee, one a record.
#[derive(Clone)]
pub(super) struct Salts([u8; 32]);

impl Salts {
    /// From a key that is kept nowhere.
    pub(super) fn new(key: [u8; 32]) -> Salts {
        Salts(key)
    }

    /// The salt of a record's payload.
    pub(super) fn of(&self, number: RecordNumber) -> [u8; SALT] {
        let hash = blake3::keyed_hash(&self.0, &number.to_be_bytes());
        let mut salt = [0; SALT];
        for (to, from) in salt.iter_mut().zip(hash.as_bytes()) {
            *to = *from;
        }
        salt
    }
}

impl std::fmt::Debug for Salts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Salts")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_its_salt_and_content() {
        let salts = Salts::new([3; 32]);
        let payload = Payload::new(salts.of(1), b"answer");
        assert_eq!(payload.content(), b"answer");
        assert_eq!(Payload::from_bytes(payload.bytes().to_vec()).unwrap(), payload);
        assert_ne!(payload.digest(), Payload::new(salts.of(2), b"answer").digest());
        assert_ne!(payload.digest(), Payload::new(salts.of(1), b"answers").digest());
        assert_eq!(Payload::from_bytes(vec![0; 15]), None);
        assert!(!format!("{payload:?}").contains("answer"));
    }
}
