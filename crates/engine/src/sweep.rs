//! Sweeping: the second layer under everything. Lost leases go back, late batches end, batches that
//! were left unclosed are closed, what is needed no more is removed.
//!
//! Holds throughout: one instance at a time has each duty; every step is bounded; a step that fails
//! is logged and tried again at the next round, which comes after a pause with jitter.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use windrow_domain::BatchId;
use windrow_store::{Result, Store};

use crate::Options;
use crate::clock::Clock;
use crate::finalise::Finaliser;
use crate::maintenance::{self, Maintenance, Step, repeat};
use crate::member::Membership;
use crate::signal::Stop;
use windrow_store::error::chain;

/// The duty of every round: what work waits for.
const DUTY_SWEEP: &str = "sweep";
/// The duty of every [`RETENTION_ROUNDS`] rounds: what only takes up room.
const DUTY_RETENTION: &str = "retention";
/// Rounds between two looks at what may be removed.
const RETENTION_ROUNDS: u32 = 8;
/// Steps of one kind in one round, so that a large backlog does not hold up the others.
const STEPS_MAX: u32 = 100;

/// What a round did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Leases taken back.
    pub(crate) leases: u64,
    /// Batches that were past their deadline.
    pub(crate) expired: u64,
    /// Batches that no process was closing.
    pub(crate) unclosed: u64,
    /// Rows and outputs removed.
    pub(crate) removed: u64,
}

/// Sweeps.
pub(crate) struct Sweeper {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) membership: Membership,
    pub(crate) clock: Clock,
    pub(crate) options: Options,
    pub(crate) finaliser: Arc<Finaliser>,
    pub(crate) finalizing: mpsc::Sender<BatchId>,
    pub(crate) rng: fastrand::Rng,
    pub(crate) round: u32,
}

impl Sweeper {
    /// Sweeps until it is stopped.
    pub(crate) async fn run(mut self, stop: &Stop) {
        let clock = self.clock.clone();
        self.round().await;
        maintenance::run(self, &clock, stop).await;
    }

    /// One round.
    pub(crate) async fn step(&mut self) -> Result<Swept> {
        let mut swept = Swept::default();
        // Longer than a round takes, and not much: a dead holder's duty is free soon after.
        let lease_ms = self.options.sweep_ms_max.saturating_mul(2).max(1000);
        if self.has(DUTY_SWEEP, lease_ms).await? {
            self.sweep(&mut swept).await?;
        }
        // Every instance does it: the one with the duty may have a full storage. Taking a finalisation
        // is what makes it one instance at a time.
        let rows = self.options.sweep_rows_max;
        swept.unclosed = find_unclosed(&*self.store, &self.finalizing, rows).await?;
        let retention = self.round.is_multiple_of(RETENTION_ROUNDS);
        self.round = self.round.wrapping_add(1);
        let lease_ms = lease_ms.saturating_mul(RETENTION_ROUNDS.into());
        if retention && self.has(DUTY_RETENTION, lease_ms).await? {
            swept.removed = self.remove().await?;
        }
        Ok(swept)
    }

    async fn has(&self, duty: &str, lease_ms: u64) -> Result<bool> {
        self.store.take_duty(self.membership.instance(), duty, lease_ms).await
    }

    /// What work waits for.
    async fn sweep(&self, swept: &mut Swept) -> Result<()> {
        let rows = self.options.sweep_rows_max;
        self.store.reap_members(self.options.member_stale_ms, rows).await?;
        swept.leases = repeat(STEPS_MAX, || async {
            let lost = self.store.return_lost(rows, self.options.crashes_max).await?;
            Ok(Step::of(lost.leases, rows))
        })
        .await?;
        swept.expired = repeat(STEPS_MAX, || async {
            Ok(Step::of(self.store.expire_batches(rows).await?.len() as u64, rows))
        })
        .await?;
        Ok(())
    }

    /// What only takes up room.
    async fn remove(&self) -> Result<u64> {
        let rows = self.options.sweep_rows_max;
        let pruned = self.store.prune(self.options.retention, rows).await?;
        let mut removed = pruned.members + self.remove_dropped(rows).await;
        removed += repeat(STEPS_MAX, || async {
            let reaped = self.store.reap(rows).await?;
            Ok(Step { done: reaped.rows, more: reaped.more })
        })
        .await?;
        // Outputs lose their batch by retention. Without it nothing is deleted on a guess: the storage
        // may hold outputs of another database.
        if self.options.retention.closed_batch_secs.is_none() {
            return Ok(removed);
        }
        match self.finaliser.remove_orphans(rows).await {
            Ok(outputs) => removed += outputs,
            Err(error) => tracing::warn!(error = %chain(&error), "old outputs were left"),
        }
        Ok(removed)
    }

    /// The bytes of dropped outputs, before their rows: a row is how the bytes are found.
    async fn remove_dropped(&self, rows: u32) -> u64 {
        let mut removed = 0;
        for _ in 0..STEPS_MAX {
            match self.finaliser.remove_dropped(rows).await {
                Ok(outputs) => {
                    removed += outputs;
                    if outputs < rows.into() {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "dropped outputs were left");
                    break;
                }
            }
        }
        removed
    }
}

impl Maintenance for Sweeper {
    async fn round(&mut self) {
        match self.step().await {
            Ok(swept) if swept == Swept::default() => {}
            Ok(swept) => tracing::info!(?swept, "swept"),
            Err(error) => tracing::warn!(error = %chain(&error), "the sweep broke off"),
        }
    }

    fn pause(&mut self) -> Duration {
        let (least, most) = (self.options.sweep_ms_min, self.options.sweep_ms_max);
        Duration::from_millis(self.rng.u64(least..=most.max(least)))
    }
}

/// Sends every batch that no process is closing to the closer. What did not fit waits for the next call.
pub(crate) async fn find_unclosed(
    store: &dyn Store,
    finalizing: &mpsc::Sender<BatchId>,
    limit: u32,
) -> Result<u64> {
    let found = store.find_unclosed(limit).await?;
    let sent = found.into_iter().take_while(|batch| finalizing.try_send(*batch).is_ok());
    Ok(sent.count() as u64)
}
