//! What activated rules were compiled from, kept by the digest of their meaning: so that the last set that served can
//! serve again where the rules on disk cannot, and rules that are served no longer can be compiled again.
//!
//! To this room sources are bytes. They come with the records of their activation, in the same group commit, and the
//! oldest go beyond a bound. What is kept, and in which order, is one small value:
//!
//! ```text
//! index     = version:byte=1  set:list of pack  kept:list of (pack:digest  bytes:number  content:digest)
//! ```
//!
//! `set` is what served last, `kept` has the pack that was activated last at its end, and `content` is the SHA-256 of the
//! sources: a pack whose text changed and whose meaning did not is kept as it stands now.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::model::Digest;

use super::{
    bytes::{Reader, put_len, put_number},
    layout::{LayoutError, put_pack, read_pack},
    record::PackRef,
};

const VERSION: u8 = 1;
/// Packs that are kept, beyond those of the last set.
const MOST_PACKS: usize = 64;
/// Bytes that are kept, beyond those of the last set.
const MOST_BYTES: u64 = 32 << 20;

/// A set of rules that serves, with what it was compiled from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSet {
    /// Its packs by name.
    pub packs: Vec<KeptPack>,
}

/// A pack with what it was compiled from.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptPack {
    /// The pack.
    pub pack: Arc<PackRef>,
    /// Its sources.
    pub sources: Vec<u8>,
}

impl std::fmt::Debug for KeptPack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeptPack({:?}, {} bytes)", self.pack, self.sources.len())
    }
}

/// What is kept, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// What served last.
    pub(super) set: Vec<Arc<PackRef>>,
    kept: Vec<Kept>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    pack: Digest,
    bytes: u64,
    content: Digest,
}

/// What becomes of kept sources when a set begins to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Changes<'a> {
    /// New under their digest, or other than before.
    pub(super) put: Vec<(Digest, &'a [u8])>,
    /// No longer kept.
    pub(super) gone: Vec<Digest>,
}

impl Index {
    /// Takes in a set that begins to serve.
    pub(super) fn activate<'a>(&mut self, set: &'a KeptSet) -> Changes<'a> {
        let mut put = Vec::new();
        for KeptPack { pack, sources } in &set.packs {
            let content = Digest::new(Sha256::digest(sources).into());
            let now = Kept { pack: pack.digest, bytes: sources.len() as u64, content };
            let before = self.kept.iter().position(|kept| kept.pack == pack.digest).map(|at| self.kept.remove(at));
            if before != Some(now) {
                put.push((pack.digest, sources.as_slice()));
            }
            self.kept.push(now);
        }
        self.set = set.packs.iter().map(|kept| kept.pack.clone()).collect();
        // Those of the set are the last ones.
        let mut beyond = self.kept.len().saturating_sub(self.set.len());
        let mut bytes: u64 = self.kept.iter().take(beyond).map(|kept| kept.bytes).sum();
        let mut gone = Vec::new();
        while beyond > MOST_PACKS || bytes > MOST_BYTES {
            let oldest = self.kept.remove(0);
            beyond -= 1;
            bytes -= oldest.bytes;
            gone.push(oldest.pack);
        }
        Changes { put, gone }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_len(&mut out, self.set.len());
        self.set.iter().for_each(|pack| put_pack(&mut out, pack));
        put_len(&mut out, self.kept.len());
        for Kept { pack, bytes, content } in &self.kept {
            out.extend_from_slice(pack.bytes());
            put_number(&mut out, *bytes);
            out.extend_from_slice(content.bytes());
        }
        out
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Index, LayoutError> {
        let mut reader = Reader::new(bytes);
        match reader.byte()? {
            VERSION => {}
            other => return Err(LayoutError::Version(other)),
        }
        let set = reader.list(read_pack)?;
        let kept = reader.list(|r| {
            Ok::<_, LayoutError>(Kept {
                pack: Digest::new(r.array()?),
                bytes: r.number()?,
                content: Digest::new(r.array()?),
            })
        })?;
        if reader.is_empty() {
            Ok(Index { set, kept })
        } else {
            Err(LayoutError::Broken("bytes behind the index of kept rules"))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::audit::{Activation, BatchBuilder, Draft, FaultyStore, MemoryStore, Safety, SledStore, Store};

    fn kept(n: usize, sources: &[u8]) -> KeptPack {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&(n as u64).to_be_bytes());
        let pack = PackRef { name: format!("p{n}").into(), version: "1.0.0".into(), digest: Digest::new(digest) };
        KeptPack { pack: Arc::new(pack), sources: sources.to_vec() }
    }

    fn set(packs: impl IntoIterator<Item = KeptPack>) -> KeptSet {
        KeptSet { packs: packs.into_iter().collect() }
    }

    #[test]
    fn what_is_kept_already_is_not_written_again_and_new_words_for_a_meaning_are() {
        let mut index = Index::default();
        let first = set([kept(1, b"one"), kept(2, b"two")]);
        assert_eq!(index.activate(&first).put.len(), 2);
        assert_eq!(index.activate(&first), Changes { put: vec![], gone: vec![] });
        let reworded = set([kept(1, b"one"), kept(2, b"two, with a comment")]);
        assert_eq!(index.activate(&reworded).put, [(kept(2, b"").pack.digest, b"two, with a comment".as_slice())]);
        assert_eq!(Index::from_bytes(&index.to_bytes()).unwrap(), index);
    }

    #[test]
    fn the_oldest_go_beyond_the_bound_and_those_that_serve_never_do() {
        let mut index = Index::default();
        index.activate(&set([kept(0, b"0")]));
        for n in 1..=MOST_PACKS {
            assert_eq!(index.activate(&set([kept(n, b"x")])).gone, [], "{n}");
            // Used again: not the oldest.
            index.activate(&set([kept(0, b"0")]));
        }
        assert_eq!(index.activate(&set([kept(1000, b"x")])).gone, [kept(1, b"").pack.digest]);
        let large = vec![0; usize::try_from(MOST_BYTES).unwrap() + 1];
        assert_eq!(index.activate(&set([kept(2000, &large)])).gone, [kept(2, b"").pack.digest], "it serves");
        let gone = index.activate(&set([kept(2001, b"x")])).gone;
        assert_eq!(gone.len(), MOST_PACKS + 1, "all that is older than what is too large, and that");
        assert_eq!(Index::from_bytes(&index.to_bytes()).unwrap(), index);
    }

    #[test]
    fn a_strange_index_is_refused() {
        let mut index = Index::default();
        index.activate(&set([kept(1, b"one")]));
        let bytes = index.to_bytes();
        assert_eq!(Index::from_bytes(&[9]), Err(LayoutError::Version(9)));
        assert!(Index::from_bytes(&bytes[..bytes.len() - 1]).is_err());
        assert!(Index::from_bytes(&[bytes.as_slice(), &[0]].concat()).is_err());
    }

    fn activate(store: &dyn Store, packs: &[KeptPack]) {
        let mut builder = BatchBuilder::new(store.head().unwrap(), [1; 32]);
        for kept in packs {
            builder.push(&Draft::Activated(Activation { pack: kept.pack.clone(), commit: None }), 1);
        }
        builder.keep(Arc::new(set(packs.to_vec())));
        store.append(&builder.finish(), Safety::Disk).unwrap();
    }

    fn holds(store: &dyn Store, n: usize) -> Option<Vec<u8>> {
        store.sources(&kept(n, b"").pack.digest).unwrap()
    }

    /// What every store must do.
    fn keeps(store: &dyn Store) {
        assert_eq!(store.last_set().unwrap(), []);
        assert_eq!(holds(store, 1), None);
        // More than one part of a store that keeps values in parts.
        let long = vec![7; 20_000];
        let (one, two) = (kept(1, &long), kept(2, b"two"));
        activate(store, &[one.clone(), two.clone()]);
        assert_eq!(store.last_set().unwrap(), [one.pack.clone(), two.pack.clone()]);
        assert_eq!((holds(store, 1), holds(store, 2)), (Some(long), Some(b"two".to_vec())));
        // Shorter under the same meaning: nothing of the longer stays.
        activate(store, &[kept(1, b"one")]);
        assert_eq!(store.last_set().unwrap(), [one.pack]);
        assert_eq!((holds(store, 1), holds(store, 2)), (Some(b"one".to_vec()), Some(b"two".to_vec())));
        for n in 3..3 + MOST_PACKS {
            activate(store, &[kept(n, b"x")]);
        }
        assert_eq!((holds(store, 1), holds(store, 2)), (Some(b"one".to_vec()), None), "the oldest went");
        // Pruning records leaves sources.
        store.prune(store.last().unwrap()).unwrap();
        assert_eq!(holds(store, 3), Some(b"x".to_vec()));
    }

    #[test]
    fn stores_keep_the_sources_of_what_served() {
        keeps(&MemoryStore::default());
        keeps(&FaultyStore::default());
        let folder = tempfile::tempdir().unwrap();
        keeps(&SledStore::open(folder.path(), 1 << 20).unwrap());
        let again = (0..100).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            SledStore::open(folder.path(), 1 << 20).ok()
        });
        let again = again.unwrap();
        assert_eq!(again.last_set().unwrap(), [kept(2 + MOST_PACKS, b"").pack]);
        assert_eq!(holds(&again, 3), Some(b"x".to_vec()));
    }
}
