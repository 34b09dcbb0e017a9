//! Maintenance of messages: rows that are not needed any more are removed, and waiting messages counted.

use std::sync::Arc;
use std::time::Duration;

use windrow_store::Result;
use windrow_store::error::chain;

use crate::maintenance::{self, Maintenance, Step};
use crate::signal::Stop;

use super::runner::RunnerDeps;

/// The duty of the instance that removes rows.
const DUTY: &str = "messages.upkeep";
/// Steps of one round.
const STEPS_MAX: u32 = 20;

/// Removes and counts until it is stopped.
pub(super) async fn run(deps: Arc<RunnerDeps>, stop: &Stop) {
    let clock = deps.clock.clone();
    maintenance::run(MessageMaintenance(deps), &clock, stop).await;
}

struct MessageMaintenance(Arc<RunnerDeps>);

impl Maintenance for MessageMaintenance {
    async fn round(&mut self) {
        if let Err(error) = self.prune().await {
            tracing::warn!(error = %chain(&error), "the maintenance of messages failed");
        }
    }

    fn pause(&mut self) -> Duration {
        let every = self.0.options.upkeep_ms;
        Duration::from_millis(every / 2 + fastrand::u64(0..=every.max(1)))
    }
}

impl MessageMaintenance {
    async fn prune(&self) -> Result<()> {
        let deps = &*self.0;
        let backlog = deps.store.backlog().await?;
        *deps.counters.backlog.lock() = backlog;
        let lease_ms = deps.options.upkeep_ms.saturating_mul(2).max(1000);
        if !deps.store.take_duty(deps.notifier.instance(), DUTY, lease_ms).await? {
            return Ok(());
        }
        let limit = deps.options.upkeep_rows_max;
        let step = || async {
            let pruned = deps.store.prune_messages(deps.options.upkeep, limit).await?;
            let fullest = [pruned.ids, pruned.archived, pruned.expired, pruned.tombstones]
                .into_iter()
                .chain([pruned.dead, pruned.streams, pruned.events])
                .max();
            Ok(Step { done: pruned.total(), more: fullest >= Some(limit.into()) })
        };
        let removed = maintenance::repeat(STEPS_MAX, step).await?;
        if removed > 0 {
            tracing::debug!(removed, "rows of messages were removed");
        }
        Ok(())
    }
}
