//! The signature of a pack: who says that a pack of this meaning may serve.
//!
//! It stands in `pack.sig` in the pack's folder, as one line of JSON, and is not part of what it signs. What is signed
//! (Ed25519, RFC 8032):
//!
//! ```text
//! "probity pack signature 1\n"  digest:32 bytes  version: UTF-8
//! ```
//!
//! The digest is that of the pack's meaning, which holds its name.

use data_encoding::HEXLOWER_PERMISSIVE as HEX;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::model::Digest;

/// The file of a pack's signature, in its folder.
pub const SIGNATURE_FILE: &str = "pack.sig";

/// A signature and whose it says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackSignature {
    public_key: [u8; 32],
    signature: [u8; 64],
}

/// Signs packs. Its secret is never printed.
pub struct PackKey(SigningKey);

/// Why a signature does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    /// The text is no signature.
    #[error("is not the signature of a pack")]
    Form,
    /// Nobody that is trusted made it.
    #[error("is by a key that is not trusted")]
    Stranger,
    /// It is for something else.
    #[error("does not hold for this pack: its meaning or its version is another one")]
    Wrong,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    pack_signature: u8,
    public_key: String,
    signature: String,
}

impl PackKey {
    /// From the secret key's 32 bytes.
    pub fn new(secret: [u8; 32]) -> PackKey {
        PackKey(SigningKey::from_bytes(&secret))
    }

    /// The public key, to be given to those who serve.
    pub fn public(&self) -> [u8; 32] {
        self.0.verifying_key().to_bytes()
    }

    /// Signs a pack.
    pub fn sign(&self, digest: &Digest, version: &semver::Version) -> PackSignature {
        let signature = self.0.sign(&signed_bytes(digest, version)).to_bytes();
        PackSignature { public_key: self.public(), signature }
    }
}

impl PackSignature {
    /// From the text of a signature file.
    pub fn from_text(text: &str) -> Result<PackSignature, SignatureFault> {
        let line: Line = serde_json::from_str(text.trim()).map_err(|_| SignatureFault::Form)?;
        if line.pack_signature != 1 {
            return Err(SignatureFault::Form);
        }
        let public_key = unhex(&line.public_key).ok_or(SignatureFault::Form)?;
        Ok(PackSignature { public_key, signature: unhex(&line.signature).ok_or(SignatureFault::Form)? })
    }

    /// As the text of a signature file.
    pub fn to_text(&self) -> String {
        let line = Line {
            pack_signature: 1,
            public_key: HEX.encode(&self.public_key),
            signature: HEX.encode(&self.signature),
        };
        // Texts and a number: nothing in it can fail to be written.
        format!("{}\n", serde_json::to_string(&line).unwrap_or_default())
    }

    /// Whether somebody trusted signed this pack.
    pub fn check(
        &self,
        digest: &Digest,
        version: &semver::Version,
        trusted: &[[u8; 32]],
    ) -> Result<(), SignatureFault> {
        if !trusted.contains(&self.public_key) {
            return Err(SignatureFault::Stranger);
        }
        let signature = Signature::from_bytes(&self.signature);
        VerifyingKey::from_bytes(&self.public_key)
            .and_then(|key| key.verify_strict(&signed_bytes(digest, version), &signature))
            .map_err(|_| SignatureFault::Wrong)
    }
}

fn signed_bytes(digest: &Digest, version: &semver::Version) -> Vec<u8> {
    let mut bytes = b"probity pack signature 1\n".to_vec();
    bytes.extend_from_slice(digest.bytes());
    bytes.extend_from_slice(version.to_string().as_bytes());
    bytes
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    HEX.decode(text.as_bytes()).ok()?.try_into().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_what_was_signed_by_whom_is_trusted() {
        let (key, other) = (PackKey::new([7; 32]), PackKey::new([8; 32]));
        let (digest, version) = (Digest::new([1; 32]), semver::Version::new(1, 2, 0));
        let signature = key.sign(&digest, &version);
        let trusted = [other.public(), key.public()];
        assert_eq!(signature.check(&digest, &version, &trusted), Ok(()));
        assert_eq!(PackSignature::from_text(&signature.to_text()), Ok(signature));
        assert_eq!(signature.check(&Digest::new([2; 32]), &version, &trusted), Err(SignatureFault::Wrong));
        let later = semver::Version::new(1, 2, 1);
        assert_eq!(signature.check(&digest, &later, &trusted), Err(SignatureFault::Wrong));
        assert_eq!(signature.check(&digest, &version, &[other.public()]), Err(SignatureFault::Stranger));
        let forged = PackSignature { public_key: key.public(), ..other.sign(&digest, &version) };
        assert_eq!(forged.check(&digest, &version, &trusted), Err(SignatureFault::Wrong));
    }

    #[test]
    fn a_strange_text_is_no_signature() {
        let text = PackKey::new([7; 32]).sign(&Digest::new([1; 32]), &semver::Version::new(1, 0, 0)).to_text();
        let (short, other) = (text.replacen("\"public_key\":\"", "\"public_key\":\"0", 1), text.replace(":1,", ":2,"));
        for text in ["", "{}", "abc", &short, &other, &text.replace('}', ",\"more\":1}")] {
            assert_eq!(PackSignature::from_text(text), Err(SignatureFault::Form), "{text}");
        }
    }
}
