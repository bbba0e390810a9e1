//! Payloads under a key, for packs that keep answers encrypted: nobody reads them without it.
//!
//! XChaCha20-Poly1305. A sealed payload opens only at the place it was sealed for - the session, the evaluation and
//! the side that answered are bound to it - so it cannot be moved to another record unnoticed. It carries the id of
//! its key: a new key seals what comes, the old ones still open what was.

use std::{fmt, sync::Arc};

use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};

use super::{Mode, Redact, Redacted, Redactor, Unredactable};
use crate::model::Value;

/// Bytes of a nonce.
pub const NONCE: usize = 24;

/// Who gave an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The instance inside the session.
    Snapshot,
    /// The fresh instance.
    Shadow,
    /// An instance without the session's context.
    Baseline,
}

impl Side {
    /// Every side.
    pub const ALL: [Side; 3] = [Side::Snapshot, Side::Shadow, Side::Baseline];

    /// Its name in records.
    pub fn word(self) -> &'static str {
        match self {
            Side::Snapshot => "snapshot",
            Side::Shadow => "shadow",
            Side::Baseline => "baseline",
        }
    }

    /// The side of that name.
    pub fn from_word(word: &str) -> Option<Side> {
        Side::ALL.into_iter().find(|side| side.word() == word)
    }
}

/// A payload as it is kept: what may be shown, and the whole of it under a key where the rules want that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What may be shown.
    pub shown: Redacted<Value>,
    /// The payload itself, sealed.
    pub sealed: Option<Sealed>,
}

/// A key that seals and opens payloads. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SealKey {
    id: Arc<str>,
    bytes: [u8; 32],
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SealKey {
    /// A key under the id that records name it by.
    pub fn new(id: &str, bytes: [u8; 32]) -> SealKey {
        SealKey { id: Arc::from(id), bytes }
    }

    /// Its id.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Opens what was sealed for this place. None if this is another place or another key, or if a byte was changed.
    pub fn open(&self, sealed: &Sealed, session: &str, evaluation: &str, side: Side) -> Option<String> {
        let payload = Payload { msg: &sealed.bytes, aad: &place(session, evaluation, side) };
        let clear = self.cipher().decrypt(&XNonce::from(sealed.nonce), payload).ok()?;
        String::from_utf8(clear).ok()
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.bytes.into())
    }
}

/// A sealed payload: JSON text, readable with the key of this id.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The key's id.
    pub key: Arc<str>,
    /// Told with it; used once.
    pub nonce: [u8; NONCE],
    /// What only the key reads.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({}, {} bytes)", self.key, self.bytes.len())
    }
}

/// Seals the payloads of one evaluation.
#[derive(Clone, Debug)]
pub struct Sealer {
    key: SealKey,
    session: Arc<str>,
    evaluation: Arc<str>,
    random: [u8; 32],
}

impl Sealer {
    /// For one evaluation of a session. `random` must come fresh from the system.
    pub fn new(key: SealKey, session: Arc<str>, evaluation: Arc<str>, random: [u8; 32]) -> Sealer {
        Sealer { key, session, evaluation, random }
    }

    /// The nonce follows from the random bytes and the text, so that not even a second text for the same side could
    /// share it.
    fn seal(&self, side: Side, text: &str) -> Result<Sealed, Unredactable> {
        let mut hash = blake3::Hasher::new_keyed(&self.random);
        hash.update(side.word().as_bytes()).update(&[0]).update(text.as_bytes());
        let mut nonce = [0; NONCE];
        hash.finalize_xof().fill(&mut nonce);
        let payload = Payload { msg: text.as_bytes(), aad: &place(&self.session, &self.evaluation, side) };
        let bytes = self.key.cipher().encrypt(&XNonce::from(nonce), payload).map_err(|_| Unredactable)?;
        Ok(Sealed { key: self.key.id.clone(), nonce, bytes })
    }
}

/// What is bound to a sealed payload. Lengths keep the parts apart.
fn place(session: &str, evaluation: &str, side: Side) -> Vec<u8> {
    let mut out = b"probity payload 1".to_vec();
    for part in [session, evaluation, side.word()] {
        out.extend_from_slice(&(part.len() as u64).to_le_bytes());
        out.extend_from_slice(part.as_bytes());
    }
    out
}

/// Redacts by the rules, and seals where they say so.
#[derive(Clone, Debug)]
pub struct Keeper {
    redactor: Redactor,
    sealer: Option<Sealer>,
}

impl Keeper {
    /// Rules, and what seals; none for rules that do not seal.
    pub fn new(redactor: Redactor, sealer: Option<Sealer>) -> Keeper {
        Keeper { redactor, sealer }
    }
}

impl Redact for Keeper {
    fn redact(&self, side: Side, payload: &Value) -> Result<Kept, Unredactable> {
        let shown = self.redactor.payload(payload);
        let sealed = match (self.redactor.rules().mode, &self.sealer) {
            (Mode::Encrypted, Some(sealer)) => Some(sealer.seal(side, &payload.to_string())?),
            (Mode::Encrypted, None) => return Err(Unredactable),
            (Mode::Text | Mode::Categorical | Mode::Hashed, _) => None,
        };
        Ok(Kept { shown, sealed })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::{model::json, redact::Rules};

    const MARK: &str = "jane.doe@example.com";

    fn keeper(mode: Mode, sealer: Option<Sealer>) -> Keeper {
        Keeper::new(Redactor::new(Rules { mode, ..Rules::standard() }, [1; 32]).unwrap(), sealer)
    }

    fn sealer(key: SealKey) -> Sealer {
        Sealer::new(key, "s".into(), "e-1".into(), [7; 32])
    }

    fn payload() -> Value {
        json::parse(format!(r#"{{"decision":"comply","reasoning":"mail {MARK}"}}"#).as_bytes()).unwrap()
    }

    #[test]
    fn a_payload_is_shown_by_category_and_read_with_its_key_at_its_place() {
        let key = SealKey::new("a", [2; 32]);
        let kept = keeper(Mode::Encrypted, Some(sealer(key.clone()))).redact(Side::Snapshot, &payload()).unwrap();
        let shown = kept.shown.get().to_string();
        assert!(shown.contains("comply") && shown.contains("[REDACTED:TEXT]"), "{shown}");
        let sealed = kept.sealed.unwrap();
        assert!(!sealed.bytes.windows(4).any(|w| MARK.as_bytes().windows(4).any(|m| m == w)));
        assert_eq!(key.open(&sealed, "s", "e-1", Side::Snapshot).unwrap(), payload().to_string());

        for (session, evaluation, side) in [
            ("t", "e-1", Side::Snapshot),
            ("s", "e-2", Side::Snapshot),
            ("s", "e-1", Side::Shadow),
            ("se", "-1", Side::Snapshot),
        ] {
            assert_eq!(key.open(&sealed, session, evaluation, side), None, "{session} {evaluation} {side:?}");
        }
        assert_eq!(SealKey::new("a", [3; 32]).open(&sealed, "s", "e-1", Side::Snapshot), None);
        for at in 0..sealed.bytes.len() {
            let mut changed = sealed.clone();
            changed.bytes[at] ^= 1;
            assert_eq!(key.open(&changed, "s", "e-1", Side::Snapshot), None, "{at}");
        }
    }

    #[test]
    fn each_text_and_each_side_has_its_own_nonce() {
        let sealer = sealer(SealKey::new("a", [2; 32]));
        let nonces = [(Side::Snapshot, "x"), (Side::Shadow, "x"), (Side::Snapshot, "y")]
            .map(|(side, text)| sealer.seal(side, text).unwrap().nonce);
        assert!(nonces[0] != nonces[1] && nonces[0] != nonces[2]);
    }

    #[test]
    fn rules_that_seal_keep_nothing_without_a_key() {
        assert_eq!(keeper(Mode::Encrypted, None).redact(Side::Snapshot, &payload()), Err(Unredactable));
        let kept = keeper(Mode::Text, None).redact(Side::Snapshot, &payload()).unwrap();
        assert_eq!(kept.sealed, None);
    }

    #[test]
    fn nothing_that_is_printed_tells_a_key_or_a_payload() {
        let key = SealKey::new("a", [0xab; 32]);
        let printed = format!("{key:?} {:?}", sealer(key.clone()).seal(Side::Shadow, MARK).unwrap());
        assert_eq!(printed, r#"SealKey { id: "a", .. } Sealed(a, 36 bytes)"#);
    }
}
