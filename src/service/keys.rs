//! The keys of redaction. One hashes: equal values hash alike under it, and nobody without it can try values out; it
//! is read from a file, or made where there is none. Others seal the answers of packs that keep them encrypted; they
//! are read from a file, or there are none.

use std::{
    fmt, fs, io,
    io::Write,
    path::{Path, PathBuf},
};

use data_encoding::HEXLOWER_PERMISSIVE;

use crate::{audit::CheckpointKey, pack::PackKey, redact::SealKey};

use super::session_key::SessionKey;

/// A key. Never printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RedactionKey([u8; 32]);

impl fmt::Debug for RedactionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedactionKey")
    }
}

/// The keys of a service.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Hashes.
    pub hash: RedactionKey,
    /// Seals what is kept of open sessions.
    pub session: SessionKey,
    /// Seals and opens.
    pub payload: PayloadKeys,
}

/// Keys that seal answers. The first seals; all of them open, so that what was sealed before a new key was put in
/// front can still be read.
#[derive(Clone, Debug, Default)]
pub struct PayloadKeys(Vec<SealKey>);

impl PayloadKeys {
    /// The keys in a file: on each line an id and 64 hexadecimal digits. Empty lines and those that begin with `#`
    /// say nothing.
    pub fn read(path: &Path) -> Result<PayloadKeys, KeyError> {
        let text = fs::read_to_string(path).map_err(|source| KeyError::File { path: path.to_owned(), source })?;
        let mut keys: Vec<SealKey> = Vec::new();
        for (line, text) in (1..).zip(text.lines().map(str::trim)) {
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let mut words = text.split_whitespace();
            let key = match (words.next(), words.next().and_then(hexadecimal), words.next()) {
                (Some(id), Some(bytes), None) if id.len() <= MAX_ID => SealKey::new(id, bytes),
                _ => return Err(KeyError::Line { path: path.to_owned(), line }),
            };
            if keys.iter().any(|k| k.id() == key.id()) {
                return Err(KeyError::Twice { path: path.to_owned(), line });
            }
            keys.push(key);
        }
        if keys.is_empty() { Err(KeyError::Line { path: path.to_owned(), line: 1 }) } else { Ok(PayloadKeys(keys)) }
    }

    /// The key that seals; none if there are no keys.
    pub fn sealing(&self) -> Option<&SealKey> {
        self.0.first()
    }

    /// The key of an id.
    pub fn of(&self, id: &str) -> Option<&SealKey> {
        self.0.iter().find(|key| **key.id() == *id)
    }
}

/// Bytes of the longest id of a key.
const MAX_ID: usize = 64;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("the key in {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{path} must hold a key of 64 hexadecimal digits", path = path.display())]
    Form {
        /// The file.
        path: PathBuf,
    },
    /// A line of a file of keys that is none.
    #[error("{path}:{line}: expected the id of a key and 64 hexadecimal digits", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// A key's id that stands there twice.
    #[error("{path}:{line}: another key has this id", path = path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
}

impl RedactionKey {
    /// A key that nobody knows.
    pub fn fresh() -> Result<RedactionKey, KeyError> {
        random().map(RedactionKey)
    }

    /// The key in a file.
    pub fn read(path: &Path) -> Result<RedactionKey, KeyError> {
        read_secret(path).map(RedactionKey)
    }

    /// The key in a file, which is made, readable by its owner alone, if it is not there.
    pub fn read_or_make(path: &Path) -> Result<RedactionKey, KeyError> {
        read_or_make_secret(path).map(RedactionKey)
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

/// Random bytes that nobody knows.
pub(super) fn random() -> Result<[u8; 32], KeyError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| KeyError::Random(e.to_string()))?;
    Ok(bytes)
}

/// 32 bytes from 64 hexadecimal digits.
fn hexadecimal(text: &str) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// The 32 bytes of a key in a file, as 64 hexadecimal digits.
pub(super) fn read_secret(path: &Path) -> Result<[u8; 32], KeyError> {
    warn_if_open(path);
    let text = fs::read_to_string(path).map_err(|source| KeyError::File { path: path.to_owned(), source })?;
    hexadecimal(text.trim()).ok_or_else(|| KeyError::Form { path: path.to_owned() })
}

/// Says so if others than its owner can read a key.
fn warn_if_open(path: &Path) {
    #[cfg(unix)]
    if let Ok(about) = fs::metadata(path)
        && std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o077 != 0
    {
        tracing::warn!(file = %path.display(), "others than its owner can read this key: chmod 600");
    }
}

/// The same, of a file that is made, readable by its owner alone, if it is not there.
pub(super) fn read_or_make_secret(path: &Path) -> Result<[u8; 32], KeyError> {
    if path.exists() {
        return read_secret(path);
    }
    let secret = random()?;
    write_private(path, &HEXLOWER_PERMISSIVE.encode(&secret))
        .map_err(|source| KeyError::File { path: path.to_owned(), source })?;
    Ok(secret)
}

/// The key in a file that signs checkpoints; the file is made if it is not there.
pub fn read_or_make_checkpoint_key(path: &Path) -> Result<CheckpointKey, KeyError> {
    read_or_make_secret(path).map(CheckpointKey::new)
}

/// The key in a file that signs packs; of the same form.
pub fn read_pack_key(path: &Path) -> Result<PackKey, KeyError> {
    read_secret(path).map(PackKey::new)
}

/// The key in a file that signs checkpoints.
pub fn read_checkpoint_key(path: &Path) -> Result<CheckpointKey, KeyError> {
    read_secret(path).map(CheckpointKey::new)
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inner").join("redaction.key");
        let key = RedactionKey::read_or_make(&path).unwrap();
        assert_eq!(RedactionKey::read_or_make(&path).unwrap(), key);
        assert_ne!(RedactionKey::fresh().unwrap(), key);
        assert_eq!(format!("{key:?}"), "RedactionKey");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn the_first_key_seals_and_all_of_them_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let (new, old) = ("ab".repeat(32), "cd".repeat(32));
        fs::write(&path, format!("# newest first\n2026-02 {new}\n\n2026-01 {old}\n")).unwrap();
        let keys = PayloadKeys::read(&path).unwrap();
        assert_eq!(keys.sealing(), Some(&SealKey::new("2026-02", [0xab; 32])));
        assert_eq!(keys.of("2026-01"), Some(&SealKey::new("2026-01", [0xcd; 32])));
        assert_eq!(keys.of("2025-12"), None);
        for (text, told) in [
            ("", 1),
            (&*format!("# a\n{new}"), 2),
            (&*format!("a {new} b"), 1),
            (&*format!("a {}", &new[1..]), 1),
            (&*format!("{} {new}", "i".repeat(65)), 1),
        ] {
            fs::write(&path, text).unwrap();
            assert!(matches!(PayloadKeys::read(&path), Err(KeyError::Line { line, .. }) if line == told), "{text}");
        }
        fs::write(&path, format!("a {new}\na {old}")).unwrap();
        assert!(matches!(PayloadKeys::read(&path), Err(KeyError::Twice { line: 2, .. })));
    }

    #[test]
    fn a_file_of_another_form_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        for text in ["", "abc", &"0".repeat(63), &"0".repeat(66), &"g".repeat(64)] {
            fs::write(&path, text).unwrap();
            assert!(matches!(RedactionKey::read(&path), Err(KeyError::Form { .. })), "{text}");
        }
        assert!(matches!(RedactionKey::read(folder.path()), Err(KeyError::File { .. })));
    }
}
