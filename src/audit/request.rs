//! Requests that a caller gave a name, so that one that is sent again is answered as before and recorded once.

use std::sync::Arc;

use crate::model::Digest;

use super::record::RecordNumber;

/// The name of a request: the caller's, within one method.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKey {
    /// The method.
    pub method: &'static str,
    /// The caller's name for the request; never empty.
    pub id: Arc<str>,
}

/// A request that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The keyed digest of its content.
    pub print: Digest,
    /// Its last record.
    pub record: RecordNumber,
}

impl RequestKey {
    /// As stored; no key is the start of another's.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = (self.method.len() as u32).to_be_bytes().to_vec();
        out.extend_from_slice(self.method.as_bytes());
        out.extend_from_slice(self.id.as_bytes());
        out
    }
}
