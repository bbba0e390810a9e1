//! The proof that a value went through redaction.

/// A value that went through redaction. Only this room can make one, so whatever asks for it cannot
/// be handed clear text by mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted<T>(T);

impl<T> Redacted<T> {
    /// Only rooms below `redact` may call this, after redacting.
    pub(super) fn new(value: T) -> Redacted<T> {
        Redacted(value)
    }

    /// The value.
    pub fn get(&self) -> &T {
        &self.0
    }

    /// The value itself.
    pub fn into_inner(self) -> T {
        self.0
    }
}
