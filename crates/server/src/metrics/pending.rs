//! The number of pending lines, by owner, counted at most twice a minute.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use windrow_domain::State;
use windrow_engine::clock::Clock;
use windrow_store::inspect::{BatchesQuery, PAGE_MAX};
use windrow_store::{Scope, Store};

/// How long a count is good for.
const COUNT_MS: u64 = 30_000;
/// Most pages of open batches that are added up.
const PAGES_MAX: usize = 10;
/// The states of batches with lines that may still run.
const OPEN: [State; 4] = [State::InProgress, State::Paused, State::Cancelling, State::Expiring];

/// Owners that are counted by name: those with the most pending lines. The rest is counted as one.
const OWNERS_MAX: usize = 100;
/// The name of the rest.
const OTHERS: &str = "other";

/// Lines without a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PendingCounts {
    /// Of all owners.
    pub(super) total: u64,
    /// By owner, the largest first.
    pub(super) by_owner: Vec<(String, u64)>,
}

/// The last count of pending lines, and until when it is good.
pub(super) struct Pending {
    clock: Clock,
    last: Mutex<Option<(Arc<PendingCounts>, u64)>>,
}

impl Pending {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, last: Mutex::default() }
    }

    /// Lines without a result, not older than a count is good for; none when the store is
    /// unavailable.
    pub(super) async fn count(&self, store: &dyn Store) -> Option<Arc<PendingCounts>> {
        let now_ms = self.clock.millis();
        let last = self.last.lock().clone();
        if let Some((counts, until_ms)) = last
            && now_ms < until_ms
        {
            return Some(counts);
        }
        let counts = Arc::new(count(store).await?);
        *self.last.lock() = Some((counts.clone(), now_ms + COUNT_MS));
        Some(counts)
    }
}

async fn count(store: &dyn Store) -> Option<PendingCounts> {
    let states = OPEN.to_vec();
    let mut query = BatchesQuery { states, limit: PAGE_MAX, ..BatchesQuery::default() };
    let mut by_owner = BTreeMap::<String, u64>::new();
    for _ in 0..PAGES_MAX {
        let page = store.batches(&Scope::All, query.clone()).await.ok()?;
        for batch in &page.rows {
            *by_owner.entry(batch.owner.to_string()).or_default() += batch.counts.unfinished();
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    Some(largest(by_owner))
}

/// The owners with the most lines by name, the others together.
fn largest(by_owner: BTreeMap<String, u64>) -> PendingCounts {
    let total = by_owner.values().sum();
    let mut by_owner: Vec<_> = by_owner.into_iter().collect();
    by_owner.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
    let rest = by_owner.split_off(by_owner.len().min(OWNERS_MAX));
    if !rest.is_empty() {
        by_owner.push((OTHERS.to_owned(), rest.iter().map(|(_, lines)| lines).sum()));
    }
    PendingCounts { total, by_owner }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_beyond_the_bound_are_counted_together() {
        let owners = (0..150_u64).map(|no| (format!("o{no:03}"), no)).collect();
        let counts = largest(owners);
        assert_eq!(counts.total, 149 * 75);
        assert_eq!(counts.by_owner[0], ("o149".to_owned(), 149));
        assert_eq!(counts.by_owner.len(), OWNERS_MAX + 1);
        assert_eq!(counts.by_owner[OWNERS_MAX], (OTHERS.to_owned(), 49 * 25));
    }
}
