//! What is kept of rules that served, in the one tree.

use std::sync::Arc;

use crate::{
    audit::{
        sources::{Changes, Index, KeptSet},
        store::StoreError,
    },
    model::Digest,
};

use super::{
    keys::{KeyWrites, drop_all, failed, source_parts, tagged},
    opened::Opened,
};

impl Opened {
    /// What becomes of each key of kept rules when sets begin to serve.
    pub(super) fn rules_writes(&self, sets: &[Arc<KeptSet>]) -> Result<KeyWrites<Vec<u8>>, StoreError> {
        let mut writes = KeyWrites::new();
        if sets.is_empty() {
            return Ok(writes);
        }
        let mut index = self.rules()?;
        for set in sets {
            let Changes { put, gone } = index.activate(set);
            for pack in put.iter().map(|(pack, _)| pack).chain(&gone) {
                drop_all(&self.db, &mut writes, &tagged(b'k', pack.bytes()))?;
            }
            for (pack, sources) in put {
                writes.extend(source_parts(&pack, sources).map(|(key, part)| (key, Some(part.to_vec()))));
            }
        }
        writes.insert(b"rules".to_vec(), Some(index.to_bytes()));
        Ok(writes)
    }

    /// What is kept, and in which order.
    pub(super) fn rules(&self) -> Result<Index, StoreError> {
        let found = self.db.get(b"rules").map_err(failed)?;
        let damaged = |e| StoreError::Damaged(format!("the index of kept rules: {e}"));
        found.map_or(Ok(Index::default()), |bytes| Index::from_bytes(&bytes).map_err(damaged))
    }

    /// What a pack was compiled from.
    pub(super) fn sources(&self, pack: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let mut sources = Vec::new();
        for part in self.db.scan_prefix(tagged(b'k', pack.bytes())).values() {
            sources.extend_from_slice(&part.map_err(failed)?);
        }
        // Sources say their version, so they are never empty.
        Ok((!sources.is_empty()).then_some(sources))
    }
}
