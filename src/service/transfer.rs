//! One session's state, taken out of one server and put into another. It is the session's journal as it lies in the
//! store: sealed, so that only a server with the same session key can read it.
//!
//! ```text
//! exported = "probity session 1\n"  session:text  entries:list of bytes
//! ```

use std::sync::Arc;

use crate::audit::{
    Draft, JournalChange, JournalEntry, JournalWrite,
    bytes::{BytesError, Reader, put_len, put_text},
};

use super::{
    Service,
    observe::ObserveError,
    query::QueryError,
    requests::{Named, RequestError, Turn},
    writer::AuditError,
};

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
    /// The store cannot be read, or the request's name stands for another one.
    #[error(transparent)]
    Request(#[from] RequestError),
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

    /// Puts a session in that was taken out elsewhere; gives its id. It goes on here if it can: with the same limits
    /// and session key, and under the same rules, which must be served or kept here.
    pub async fn import_session(&self, exported: &[u8], named: Option<Named>) -> Result<String, TransferError> {
        let turn = self.turn(named.as_ref()).await?;
        let (session, entries) = read(exported).map_err(|_| TransferError::Form)?;
        if let Turn::Repeated(_) = turn {
            return Ok(session.to_owned());
        }
        let open = || TransferError::Open { session: session.to_owned() };
        if self.find(session).await.map_err(TransferError::Refused)?.is_some() {
            return Err(open());
        }
        let id: Arc<str> = session.into();
        let add = |(number, bytes): &JournalEntry| JournalChange::Add { number: *number, bytes: bytes.clone() };
        let changes = [JournalChange::Drop].into_iter().chain(entries.iter().map(add));
        let writes = changes.map(|change| JournalWrite { session: id.clone(), change }).collect();
        let imported = Draft::Imported { session: id.clone(), entries: entries.len() as u64 };
        let place = self.audit.place().await?;
        let mut ticket = None;
        // Handed in before anybody can find the session, so that what is judged next is recorded behind it.
        let hand_in = || ticket = Some(place.answer(named, vec![imported], writes));
        if !self.wake(session, entries, hand_in).await.map_err(TransferError::Refused)? {
            return Err(open());
        }
        if let Some(ticket) = ticket {
            ticket.done().await?;
        }
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
