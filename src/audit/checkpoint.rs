//! Checkpoints: how far the chain had come at a time, signed if there is a key. One that is kept elsewhere shows
//! later whether the store has been cut, rolled back or written anew.
//!
//! What is signed (Ed25519, RFC 8032):
//!
//! ```text
//! "probity audit checkpoint 1\n"  store:16 bytes  last:8 bytes, big-endian  link:32 bytes
//! at_millis:8 bytes, big-endian
//! ```
//!
//! As a line of JSON, for keeping elsewhere, a checkpoint is
//! `{"checkpoint":1,"store":HEX,"last":N,"link":HEX,"at_millis":N,"public_key":HEX,"signature":HEX}`,
//! the last two only if it is signed.

use std::fmt;

use data_encoding::HEXLOWER_PERMISSIVE as HEX;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::model::Digest;

use super::{
    chain::{Head, StoreId},
    record::RecordNumber,
};

/// How far a chain had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The place in the chain.
    pub head: Head,
    /// When: milliseconds since 1970-01-01T00:00:00Z.
    pub at_millis: u64,
    /// The signature, if there was a key.
    pub seal: Option<Seal>,
}

/// A signature and whose it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// The Ed25519 public key.
    pub public_key: [u8; 32],
    /// The signature.
    pub signature: [u8; 64],
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seal({})", HEX.encode(&self.public_key))
    }
}

/// Why a line is not a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It is not the JSON that it should be.
    #[error("not a checkpoint: {0}")]
    Json(#[from] serde_json::Error),
    /// A field does not hold what it should.
    #[error("`{0}` of the checkpoint is not what it should be")]
    Field(&'static str),
}

/// What a signature says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// There is none.
    Not,
    /// By this key, and it holds.
    By([u8; 32]),
    /// It does not hold.
    Wrong,
}

/// Signs checkpoints.
#[derive(Clone)]
pub struct CheckpointKey(SigningKey);

impl fmt::Debug for CheckpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckpointKey({})", HEX.encode(&self.public()))
    }
}

impl CheckpointKey {
    /// From the secret key's 32 bytes.
    pub fn new(secret: [u8; 32]) -> CheckpointKey {
        CheckpointKey(SigningKey::from_bytes(&secret))
    }

    /// The public key, to be kept elsewhere.
    pub fn public(&self) -> [u8; 32] {
        self.0.verifying_key().to_bytes()
    }
}

impl Checkpoint {
    /// A checkpoint of a place, signed if there is a key.
    pub fn new(head: Head, at_millis: u64, key: Option<&CheckpointKey>) -> Checkpoint {
        let mut checkpoint = Checkpoint { head, at_millis, seal: None };
        checkpoint.seal = key
            .map(|key| Seal { public_key: key.public(), signature: key.0.sign(&checkpoint.signed_bytes()).to_bytes() });
        checkpoint
    }

    /// Whether and by whom it is signed.
    pub fn signed(&self) -> Signed {
        let Some(Seal { public_key, signature }) = &self.seal else { return Signed::Not };
        let holds = VerifyingKey::from_bytes(public_key)
            .and_then(|key| key.verify_strict(&self.signed_bytes(), &Signature::from_bytes(signature)));
        if holds.is_ok() { Signed::By(*public_key) } else { Signed::Wrong }
    }

    fn signed_bytes(&self) -> Vec<u8> {
        let mut bytes = b"probity audit checkpoint 1\n".to_vec();
        bytes.extend_from_slice(self.head.store.bytes());
        bytes.extend_from_slice(&self.head.last.to_be_bytes());
        bytes.extend_from_slice(self.head.link.bytes());
        bytes.extend_from_slice(&self.at_millis.to_be_bytes());
        bytes
    }

    /// As one line of JSON, without a line's end.
    pub fn to_json(&self) -> String {
        let line = Line {
            checkpoint: 1,
            store: self.head.store.to_string(),
            last: self.head.last,
            link: self.head.link.to_string(),
            at_millis: self.at_millis,
            public_key: self.seal.map(|seal| HEX.encode(&seal.public_key)),
            signature: self.seal.map(|seal| HEX.encode(&seal.signature)),
        };
        // Numbers and texts: nothing in it can fail to be written.
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// From a line of JSON.
    pub fn from_json(line: &str) -> Result<Checkpoint, CheckpointError> {
        let Line { checkpoint, store, last, link, at_millis, public_key, signature } = serde_json::from_str(line)?;
        if checkpoint != 1 {
            return Err(CheckpointError::Field("checkpoint"));
        }
        let seal = match (public_key, signature) {
            (None, None) => None,
            (key, signature) => Some(Seal {
                public_key: unhex("public_key", &key.unwrap_or_default())?,
                signature: unhex("signature", &signature.unwrap_or_default())?,
            }),
        };
        let head =
            Head { store: StoreId::new(unhex("store", &store)?), last, link: Digest::new(unhex("link", &link)?) };
        Ok(Checkpoint { head, at_millis, seal })
    }
}

/// A public key of 64 hexadecimal digits.
pub fn public_key(text: &str) -> Option<[u8; 32]> {
    unhex("public_key", text.trim()).ok()
}

fn unhex<const N: usize>(field: &'static str, text: &str) -> Result<[u8; N], CheckpointError> {
    let bytes = HEX.decode(text.as_bytes()).ok().and_then(|bytes| <[u8; N]>::try_from(bytes).ok());
    bytes.ok_or(CheckpointError::Field(field))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    checkpoint: u8,
    store: String,
    last: RecordNumber,
    link: String,
    at_millis: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn checkpoint(key: Option<&CheckpointKey>) -> Checkpoint {
        Checkpoint::new(Head::genesis(StoreId::new([1; 16])).after(b"a"), 1_700_000_000_123, key)
    }

    #[test]
    fn a_signature_holds_for_what_was_signed_and_nothing_else() {
        let key = CheckpointKey::new([7; 32]);
        let signed = checkpoint(Some(&key));
        assert_eq!(signed.signed(), Signed::By(key.public()));
        assert_eq!(checkpoint(None).signed(), Signed::Not);
        let mut later = signed;
        later.at_millis += 1;
        assert_eq!(later.signed(), Signed::Wrong);
        let mut further = signed;
        further.head.last += 1;
        assert_eq!(further.signed(), Signed::Wrong);
        let mut other = signed;
        other.seal.as_mut().unwrap().public_key = CheckpointKey::new([8; 32]).public();
        assert_eq!(other.signed(), Signed::Wrong);
        assert!(!format!("{key:?}").contains("07070707"));
    }

    #[test]
    fn a_line_reads_back_and_a_strange_one_says_what_is_wrong() {
        for key in [None, Some(CheckpointKey::new([7; 32]))] {
            let checkpoint = checkpoint(key.as_ref());
            assert_eq!(Checkpoint::from_json(&checkpoint.to_json()).unwrap(), checkpoint);
        }
        let line = checkpoint(None).to_json();
        let said = |line: &str| Checkpoint::from_json(line).unwrap_err().to_string();
        assert_eq!(
            said(&line.replace("\"store\":\"01", "\"store\":\"")),
            "`store` of the checkpoint is not what it should be"
        );
        assert_eq!(
            said(&line.replace("checkpoint\":1", "checkpoint\":2")),
            "`checkpoint` of the checkpoint is not what it should be"
        );
        assert!(said("{}").starts_with("not a checkpoint: missing field"));
        let half = line.replace('}', ",\"public_key\":\"00\"}");
        assert_eq!(said(&half), "`public_key` of the checkpoint is not what it should be");
    }
}
