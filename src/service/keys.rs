//! The key under which redaction hashes: equal values hash alike under one key, and nobody without it can try
//! values out. It is read from a file, or made where there is none.

use std::{
    fmt, fs, io,
    io::Write,
    path::{Path, PathBuf},
};

/// A key. Never printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RedactionKey([u8; 32]);

impl fmt::Debug for RedactionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedactionKey")
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("the redaction key in {path}: {source}", path = path.display())]
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
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
}

impl RedactionKey {
    /// A key that nobody knows.
    pub fn fresh() -> Result<RedactionKey, KeyError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|e| KeyError::Random(e.to_string()))?;
        Ok(RedactionKey(key))
    }

    /// The key in a file.
    pub fn read(path: &Path) -> Result<RedactionKey, KeyError> {
        let text = fs::read_to_string(path).map_err(|source| KeyError::File { path: path.to_owned(), source })?;
        let digits: Option<Vec<u8>> =
            text.trim().chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
        let bytes: Option<Vec<u8>> = digits
            .map(|digits| digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect());
        let full = text.trim().len() == 64;
        let key = bytes.filter(|_| full).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        key.map(RedactionKey).ok_or_else(|| KeyError::Form { path: path.to_owned() })
    }

    /// The key in a file, which is made, readable by its owner alone, if it is not there.
    pub fn read_or_make(path: &Path) -> Result<RedactionKey, KeyError> {
        if path.exists() {
            return RedactionKey::read(path);
        }
        let key = RedactionKey::fresh()?;
        let text: String = key.0.iter().map(|byte| format!("{byte:02x}")).collect();
        write_private(path, &text).map_err(|source| KeyError::File { path: path.to_owned(), source })?;
        Ok(key)
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }
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
