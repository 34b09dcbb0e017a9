//! Upkeep: what nobody needs for work any more is tidied away, and what waits is counted.

use std::sync::Arc;
use std::time::Duration;

use windrow_store::Result;

use crate::signal::Stop;
use windrow_store::error::chain;

use super::actor::Core;

/// Who tidies.
const DUTY: &str = "messages.upkeep";
/// Steps of one round, so that a large backlog does not hold the database up.
const STEPS_MAX: u32 = 20;

/// Tidies and counts until it is stopped.
pub(super) async fn run(core: Arc<Core>, stop: &Stop) {
    loop {
        // Spread, so that instances that began together do not come together.
        let every = core.options.upkeep_ms;
        let pause = every / 2 + fastrand::u64(0..=every.max(1));
        tokio::select! {
            () = core.clock.sleep(Duration::from_millis(pause)) => {}
            () = stop.given() => return,
        }
        if let Err(error) = step(&core).await {
            tracing::warn!(error = %chain(&error), "the upkeep of messages broke off");
        }
    }
}

async fn step(core: &Core) -> Result<()> {
    let backlog = core.store.backlog().await?;
    *core.shared.counters.backlog.lock() = backlog;
    let lease_ms = core.options.upkeep_ms.saturating_mul(2).max(1000);
    if !core.store.take_duty(core.shared.instance(), DUTY, lease_ms).await? {
        return Ok(());
    }
    let limit = core.options.upkeep_rows_max;
    for _ in 0..STEPS_MAX {
        let tidied = core.store.prune_messages(core.options.upkeep, limit).await?;
        if tidied.total() > 0 {
            tracing::debug!(?tidied, "tidied");
        }
        let fullest = [tidied.ids, tidied.archived, tidied.expired, tidied.tombstones]
            .into_iter()
            .chain([tidied.dead, tidied.streams, tidied.events])
            .max();
        if fullest < Some(limit.into()) {
            return Ok(());
        }
    }
    Ok(())
}
