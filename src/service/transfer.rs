//! One session's state, taken out of one server and put into another. It is the session's journal as it lies in the
//! store: sealed, so that only a server with the same session key can read it.
//!
//! ```text
//! exported = "probity session 1\n"  session:text  entries:list of bytes
//! ```

use std::sync::Arc;

use crate::audit::{
    JournalChange, JournalEntry, JournalWrite,
    bytes::{BytesError, Reader, put_len, put_text},
};

use super::{Service, observe::ObserveError, query::QueryError, writer::AuditError};

const MAGIC: &[u8] = b"probity session 1\n";

/// Why a session was not taken out or put in.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// Nothing is kept of it: it is not open, or the settings keep nothing.
    #[error("nothing is kept of session `{session}`")]
    NotKept {
        /// The session.
        session: String,
    },
    /// A session of this id is open here.
    #[error("session `{session}` is open here")]
    Open {
        /// The session.
        session: String,
    },
    /// The bytes are not a session.
    #[error("these bytes are not an exported session")]
    Form,
    /// It cannot go on here.
    #[error(transparent)]
    Refused(ObserveError),
    /// The store cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// It could not be stored.
    #[error("not stored: {0}")]
    Audit(#[from] AuditError),
}

impl Service {
    /// A session's state, sealed. The session goes on.
    pub async fn export_session(&self, session: &str) -> Result<Vec<u8>, TransferError> {
        // What was judged until now is in the store then.
        self.audit.place().await?.record_durably(Vec::new()).done().await?;
        let id = session.to_owned();
        let entries = self.read(move |store| store.journal(&id)).await?;
        if entries.is_empty() {
            return Err(TransferError::NotKept { session: session.to_owned() });
        }
        let mut out = MAGIC.to_vec();
        put_text(&mut out, session);
        put_len(&mut out, entries.len());
        for (_, bytes) in entries {
            put_len(&mut out, bytes.len());
            out.extend_from_slice(&bytes);
        }
        Ok(out)
    }

    /// Puts a session in that was taken out elsewhere; gives its id. It goes on here if it can: under the same rules,
    /// limits and session key.
    pub async fn import_session(&self, exported: &[u8]) -> Result<String, TransferError> {
        let (session, entries) = read(exported).map_err(|_| TransferError::Form)?;
        let open = || TransferError::Open { session: session.to_owned() };
        if self.find(session).await.map_err(TransferError::Refused)?.is_some() {
            return Err(open());
        }
        let id: Arc<str> = session.into();
        let writes = entries.iter().map(|(number, bytes)| {
            let change = JournalChange::Add { number: *number, bytes: bytes.clone() };
            JournalWrite { session: id.clone(), change }
        });
        let writes = writes.collect();
        if !self.wake(session, entries).await.map_err(TransferError::Refused)? {
            return Err(open());
        }
        self.audit.place().await?.answer(None, Vec::new(), writes).done().await?;
        Ok(session.to_owned())
    }
}

fn read(exported: &[u8]) -> Result<(&str, Vec<JournalEntry>), BytesError> {
    let mut reader = Reader::new(exported.strip_prefix(MAGIC).ok_or(BytesError::Short)?);
    let session = reader.text()?;
    let mut number = 0;
    let entries = reader.list(|r| {
        let len = r.len()?;
        let entry = (number, r.bytes(len)?.to_vec());
        number += 1;
        Ok::<_, BytesError>(entry)
    })?;
    if reader.is_empty() { Ok((session, entries)) } else { Err(BytesError::Wide) }
}
