//! Maintenance of messages: rows that are not needed any more are removed, waiting messages counted, and calls
//! ended whose time was over while they waited.
//!
//! Holds throughout: the owner of a partition ends the head of a stream in time by itself; the calls behind
//! it, and those of partitions without an owner, are ended here, a few seconds late at most.

use std::sync::Arc;
use std::time::Duration;

use windrow_domain::millis;
use windrow_store::Result;
use windrow_store::error::chain;

use crate::maintenance::{self, Maintenance, Step};
use crate::signal::Stop;

use super::client::waiters::AnswerSignal;
use super::runner::RunnerDeps;

/// The duty of the instance that removes rows.
const DUTY: &str = "messages.upkeep";
/// Steps of one round.
const STEPS_MAX: u32 = 20;

/// The shortest pause between two looks for calls whose time is over; at most twice that.
const EXPIRY_PAUSE_MS: u64 = 2_000;

/// Removes, counts and ends calls until it is stopped.
pub(super) async fn run(deps: Arc<RunnerDeps>, stop: &Stop) {
    let clock = deps.clock.clone();
    let expiry = maintenance::run(CallExpiry(deps.clone()), &clock, stop);
    tokio::join!(maintenance::run(MessageMaintenance(deps), &clock, stop), expiry);
}

/// Ends calls whose time was over while they waited. Every instance looks, since a look is one key of an
/// index, and none waits for another.
struct CallExpiry(Arc<RunnerDeps>);

impl Maintenance for CallExpiry {
    async fn round(&mut self) {
        let deps = &*self.0;
        let limit = deps.options.maintenance_rows_max;
        let step = || async {
            let expired = deps.store.expire_calls(limit).await?;
            for key in &expired {
                tracing::info!(id = %key.request_id, "a call expired before it had an answer");
                deps.notifier.waiters.notify(key, &AnswerSignal::Recheck);
            }
            let done = expired.len() as u64;
            Ok(Step { done, more: done >= limit.into() })
        };
        if let Err(error) = maintenance::repeat(STEPS_MAX, step).await {
            tracing::warn!(error = %chain(&error), "calls whose time is over were not ended");
        }
    }

    fn pause(&mut self) -> Duration {
        Duration::from_millis(EXPIRY_PAUSE_MS + self.0.jitter.between(0..=EXPIRY_PAUSE_MS))
    }
}

struct MessageMaintenance(Arc<RunnerDeps>);

impl Maintenance for MessageMaintenance {
    async fn round(&mut self) {
        if let Err(error) = self.prune().await {
            tracing::warn!(error = %chain(&error), "the maintenance of messages failed");
        }
    }

    fn pause(&mut self) -> Duration {
        let every = millis(self.0.options.maintenance_every);
        Duration::from_millis(every / 2 + self.0.jitter.between(0..=every.max(1)))
    }
}

impl MessageMaintenance {
    async fn prune(&self) -> Result<()> {
        let deps = &*self.0;
        let backlog = deps.store.backlog().await?;
        *deps.counters.backlog.lock() = backlog;
        let lease_ms = millis(deps.options.maintenance_every).saturating_mul(2).max(1000);
        if !deps.store.take_duty(deps.notifier.instance(), DUTY, lease_ms).await? {
            return Ok(());
        }
        let limit = deps.options.maintenance_rows_max;
        let step = || async {
            let pruned = deps.store.prune_messages(deps.options.retention, limit).await?;
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
