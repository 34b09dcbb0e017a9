//! A small cache of the status of closed batches, which is what people ask for again and again.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use windrow_domain::BatchId;
use windrow_store::Scope;
use windrow_store::batch::Batch;

/// Most batches that are remembered.
const BATCHES_MAX: usize = 1024;
/// How long an answer is good for: another process may reprocess a closed batch.
const FRESH_MS_MAX: u64 = 1_000;

/// What is known of closed batches, and since when.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusCache(Arc<Mutex<HashMap<BatchId, (u64, Batch)>>>);

impl StatusCache {
    /// Remembers a batch that was closed just now.
    pub(super) fn put(&self, batch: &Batch, now_ms: u64) {
        let mut known = self.0.lock();
        if known.len() >= BATCHES_MAX {
            known.retain(|_, (at, _)| now_ms.saturating_sub(*at) <= FRESH_MS_MAX);
        }
        if known.len() < BATCHES_MAX {
            known.insert(batch.id, (now_ms, batch.clone()));
        }
    }

    /// Forgets a batch that changes: what is asked next is read from the store.
    pub(super) fn forget(&self, batch: BatchId) {
        self.0.lock().remove(&batch);
    }

    /// The batch, when it is known, fresh, and may be seen.
    pub(super) fn get(&self, scope: &Scope, batch: BatchId, now_ms: u64) -> Option<Batch> {
        let known = self.0.lock();
        let (at, batch) = known.get(&batch)?;
        let fresh = now_ms.saturating_sub(*at) <= FRESH_MS_MAX;
        let visible = scope.owner().is_none_or(|owner| owner == batch.owner.as_str());
        (fresh && visible).then(|| batch.clone())
    }
}
