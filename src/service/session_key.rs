//! The key under which open sessions are kept at rest. It is read from a file, or made where there is none.

use std::{fmt, path::Path};

use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};

use super::keys::{KeyError, read_or_make_secret, read_secret};

/// Bytes of a nonce.
const NONCE: usize = 24;

/// A key. Never printed.
#[derive(Clone)]
pub struct SessionKey(XChaCha20Poly1305);

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

impl SessionKey {
    /// From its bytes.
    pub fn new(bytes: [u8; 32]) -> SessionKey {
        SessionKey(XChaCha20Poly1305::new(&bytes.into()))
    }

    /// The key in a file.
    pub fn read(path: &Path) -> Result<SessionKey, KeyError> {
        read_secret(path).map(SessionKey::new)
    }

    /// The key in a file, which is made, readable by its owner alone, if it is not there.
    pub fn read_or_make(path: &Path) -> Result<SessionKey, KeyError> {
        read_or_make_secret(path).map(SessionKey::new)
    }

    /// Seals an entry of a session's journal; nothing if the system has no random bytes.
    pub(super) fn seal(&self, session: &str, number: u64, entry: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; NONCE];
        getrandom::fill(&mut out).ok()?;
        let nonce = XNonce::from(<[u8; NONCE]>::try_from(out.as_slice()).ok()?);
        let sealed = self.0.encrypt(&nonce, Payload { msg: entry, aad: &place(session, number) }).ok()?;
        out.extend_from_slice(&sealed);
        Some(out)
    }

    /// Opens an entry; nothing if it was sealed elsewhere or under another key, or was changed.
    pub(super) fn open(&self, session: &str, number: u64, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>()?;
        self.0.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: &place(session, number) }).ok()
    }
}

/// What is bound to an entry: it opens nowhere else.
fn place(session: &str, number: u64) -> Vec<u8> {
    let mut out = b"probity session 1\n".to_vec();
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(session.as_bytes());
    out
}
