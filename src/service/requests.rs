//! Requests with a name: the same again gets the answer of before, other content under the name is refused, and of two
//! at once the second waits for the first.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
};

use tokio::sync::{Mutex, MutexGuard};

use crate::{
    audit::{RecordNumber, RequestKey},
    model::Digest,
};

use super::{QueryError, Service};

/// Locks that requests share by the hash of their name.
const LOCKS: usize = 64;

/// A request with a name.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name.
    pub key: RequestKey,
    /// The keyed digest of its content.
    pub print: Digest,
}

/// Why a request with a name is not answered.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// There was another one of that name.
    #[error("`{request_id}` was sent before with other content")]
    OtherContent {
        /// The name.
        request_id: String,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// What a request with a name finds.
#[must_use = "its turn ends when this is dropped"]
pub(super) enum Turn<'a> {
    /// It was not answered before, or has no name.
    New(#[allow(dead_code, reason = "held while the request is answered")] Option<MutexGuard<'a, ()>>),
    /// It was answered; with the number of its record.
    Repeated(RecordNumber),
}

/// The last requests of a session that had a name. Repeated items are known by themselves; this finds a name that is
/// given to other ones.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    requests: VecDeque<Named>,
}

impl Recent {
    /// Whether its name was given to another request.
    pub(super) fn contradicts(&self, named: &Named) -> bool {
        self.requests.iter().any(|known| known.key == named.key && known.print != named.print)
    }

    /// Notes a request that was answered, and forgets the oldest beyond `most`.
    pub(super) fn note(&mut self, named: &Named, most: usize) {
        if self.requests.iter().all(|known| known.key != named.key) {
            self.requests.push_back(named.clone());
            self.requests.drain(..self.requests.len().saturating_sub(most));
        }
    }
}

/// Who is at work under which name.
#[derive(Debug)]
pub struct Requests {
    hasher: RandomState,
    locks: [Mutex<()>; LOCKS],
}

impl Default for Requests {
    fn default() -> Requests {
        Requests { hasher: RandomState::new(), locks: std::array::from_fn(|_| Mutex::new(())) }
    }
}

impl Service {
    /// Waits until no other request of the name is being answered, and finds out whether one was.
    pub(super) async fn turn(&self, named: Option<&Named>) -> Result<Turn<'_>, RequestError> {
        let Some(Named { key, print }) = named else { return Ok(Turn::New(None)) };
        let hash = self.requests.hasher.hash_one((key.method, &key.id));
        // The remainder is below the number of locks.
        let lock = usize::try_from(hash % LOCKS as u64).ok().and_then(|n| self.requests.locks.get(n));
        let guard = match lock {
            Some(lock) => Some(lock.lock().await),
            None => None,
        };
        let of = key.clone();
        match self.read(move |store| store.answered(&of)).await? {
            None => Ok(Turn::New(guard)),
            Some(answered) if answered.print == *print => Ok(Turn::Repeated(answered.record)),
            Some(_) => Err(RequestError::OtherContent { request_id: key.id.to_string() }),
        }
    }
}
