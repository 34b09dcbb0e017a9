//! The number of pending lines, counted at most twice a minute.

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

/// The last count.
pub(super) struct Pending {
    clock: Clock,
    last: Mutex<Option<(u64, u64)>>,
}

impl Pending {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, last: Mutex::default() }
    }

    /// Lines without a result, not older than a count is good for; none when the store is away.
    pub(super) async fn count(&self, store: &dyn Store) -> Option<u64> {
        let now_ms = self.clock.millis();
        let last = *self.last.lock();
        if let Some((count, until_ms)) = last
            && now_ms < until_ms
        {
            return Some(count);
        }
        let count = count(store).await?;
        let last = Some((count, now_ms + COUNT_MS));
        *self.last.lock() = last;
        Some(count)
    }
}

async fn count(store: &dyn Store) -> Option<u64> {
    let states = OPEN.to_vec();
    let mut query = BatchesQuery { states, limit: PAGE_MAX, ..BatchesQuery::default() };
    let mut sum = 0;
    for _ in 0..PAGES_MAX {
        let page = store.batches(&Scope::All, query.clone()).await.ok()?;
        let counts = page.rows.iter().map(|batch| &batch.counts);
        sum += counts.map(|counts| counts.untouched + counts.returned + counts.leased).sum::<u64>();
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    Some(sum)
}
