//! Sweeping: the background stage that repairs what a dead instance left. Dead instances are buried, lost
//! leases are returned, late batches end, batches that were left unclosed are closed, what is past its
//! retention is removed.
//!
//! Holds throughout: one instance at a time has each duty, and whoever proves a death returns the leases
//! without asking for one; every step is bounded; a step that fails is logged and tried again at the next
//! round, which comes after a pause with jitter; members are silent as this instance observed them. Between two
//! rounds the locks of this machine's processes are looked at each second, without a statement.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use windrow_domain::BatchId;
use windrow_domain::millis;
use windrow_store::member::{Evidence, Member};
use windrow_store::{Result, Store};

use crate::Options;
use crate::clock::Clock;
use crate::finalise::Finaliser;
use crate::liveness::SilenceWatch;
use crate::maintenance::{Step, repeat};
use crate::member::Membership;
use crate::signal::{Stop, Wake};
use windrow_store::error::chain;

/// The duty of every round: what work waits for.
const DUTY_SWEEP: &str = "sweep";
/// The duty of every [`RETENTION_ROUNDS`] rounds: what only takes up room.
const DUTY_RETENTION: &str = "retention";
/// Rounds between two removals of what is past its retention.
const RETENTION_ROUNDS: u32 = 8;
/// How often the locks of this machine's processes are looked at, between two rounds.
const LOCKS_MS: u64 = 1_000;
/// Steps of one kind in one round, so that a large backlog does not hold up the others.
const STEPS_MAX: u32 = 100;

/// What a round did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Instances that were found dead.
    pub(crate) buried: u64,
    /// Leases taken back.
    pub(crate) leases: u64,
    /// Batches that were past their deadline.
    pub(crate) expired: u64,
    /// Batches that no process was closing.
    pub(crate) unclosed: u64,
    /// Rows and outputs removed.
    pub(crate) removed: u64,
}

/// The sweeper of this instance: what it sweeps with, and how often it has.
pub(crate) struct Sweeper {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) membership: Membership,
    pub(crate) clock: Clock,
    pub(crate) options: Options,
    pub(crate) finaliser: Arc<Finaliser>,
    pub(crate) finalizing: mpsc::Sender<BatchId>,
    pub(crate) rng: fastrand::Rng,
    pub(crate) silence: SilenceWatch,
    pub(crate) round: u32,
    /// Told when lines of a dead process came back.
    pub(crate) wake: Wake,
}

impl Sweeper {
    /// Sweeps until it is stopped.
    pub(crate) async fn run(mut self, stop: &Stop) {
        let clock = self.clock.clone();
        self.round().await;
        loop {
            let round_ms = clock.millis().saturating_add(millis(self.pause()));
            while clock.millis() < round_ms {
                let next_ms = clock.millis().saturating_add(LOCKS_MS);
                let next_ms =
                    if self.membership.watches() { next_ms.min(round_ms) } else { round_ms };
                tokio::select! {
                    () = clock.sleep_until(next_ms) => {}
                    () = stop.given() => return,
                }
                if self.membership.sees_dead() && self.take_over_seen().await.is_err() {
                    // The store is away: the next round asks again.
                    break;
                }
            }
            if clock.millis() < round_ms {
                tokio::select! {
                    () = clock.sleep_until(round_ms) => {}
                    () = stop.given() => return,
                }
            }
            self.round().await;
        }
    }

    /// Takes over from a process that was seen to have died, and wakes the worker.
    async fn take_over_seen(&self) -> Result<()> {
        let taken = self.take_over().await;
        match &taken {
            Ok(swept) if swept.buried == 0 => {}
            Ok(swept) => {
                tracing::info!(?swept, "took over from processes that died");
                self.wake.give();
            }
            Err(error) => {
                tracing::warn!(error = %chain(error), "the dead were not taken over from");
            }
        }
        taken.map(drop)
    }

    /// Takes over from instances of this machine that died, before the first claim: nobody waits for the
    /// dead.
    pub(crate) async fn take_over(&self) -> Result<Swept> {
        let members = self.store.members().await?;
        let mut swept = Swept::default();
        self.bury_dead(&members, &mut swept).await?;
        self.membership.remove_leftovers(&members);
        Ok(swept)
    }

    /// One round: the dead, the sweep, unclosed batches, and now and then retention.
    pub(crate) async fn step(&mut self) -> Result<Swept> {
        let mut swept = Swept::default();
        let members = self.store.members().await?;
        self.bury_dead(&members, &mut swept).await?;
        let others = self.membership.others(&members);
        let silent = self.silence.observe(self.clock.millis(), others);
        // Longer than a round takes, and not much: a dead holder's duty is free soon after.
        let lease_ms = millis(self.options.sweep_every_max).saturating_mul(2).max(1000);
        if self.has(DUTY_SWEEP, lease_ms).await? {
            for (instance, heartbeat_at) in silent {
                // Slow, stopped or cut off from the database: it lives, and its leases go by their time.
                if self.membership.is_alive(&members, instance) {
                    tracing::debug!(%instance, "a silent process of this machine lives");
                    continue;
                }
                if self.store.bury(instance, Evidence::Silent { heartbeat_at }).await? {
                    tracing::warn!(%instance, "a process fell silent and is taken for dead");
                    swept.buried += 1;
                }
            }
            self.sweep(&mut swept).await?;
        }
        // Every instance does it: the one with the duty may have a full storage. Taking a finalisation
        // is what makes it one instance at a time.
        let rows = self.options.sweep_rows_max;
        swept.unclosed = find_unclosed(&*self.store, &self.finalizing, rows).await?;
        let retention = self.round.is_multiple_of(RETENTION_ROUNDS);
        self.round = self.round.wrapping_add(1);
        let lease_ms = lease_ms.saturating_mul(RETENTION_ROUNDS.into());
        if retention {
            self.membership.remove_leftovers(&members);
        }
        if retention && self.has(DUTY_RETENTION, lease_ms).await? {
            swept.removed = self.remove().await?;
        }
        Ok(swept)
    }

    async fn has(&self, duty: &str, lease_ms: u64) -> Result<bool> {
        self.store.take_duty(self.membership.instance(), duty, lease_ms).await
    }

    /// Buries instances that are proven dead, and returns their leases at once, whoever has the duty: what
    /// is done here is safe twice.
    async fn bury_dead(&self, members: &[Member], swept: &mut Swept) -> Result<()> {
        let buried = self.membership.bury_dead(members).await?;
        if buried > 0 {
            swept.buried += buried as u64;
            self.return_lost(swept).await?;
        }
        Ok(())
    }

    /// What work waits for.
    async fn sweep(&self, swept: &mut Swept) -> Result<()> {
        self.return_lost(swept).await?;
        let rows = self.options.sweep_rows_max;
        swept.expired = repeat(STEPS_MAX, || async {
            Ok(Step::of(self.store.expire_batches(rows).await?.len() as u64, rows))
        })
        .await?;
        Ok(())
    }

    /// Leases whose time has passed or whose holder is dead.
    async fn return_lost(&self, swept: &mut Swept) -> Result<()> {
        let rows = self.options.sweep_rows_max;
        swept.leases += repeat(STEPS_MAX, || async {
            let lost = self.store.return_lost(rows, self.options.crashes_max).await?;
            // Batches in `lost.finalizing` are found by `find_unclosed`, in the next round at the latest.
            Ok(Step::of(lost.leases, rows))
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

impl Sweeper {
    async fn round(&mut self) {
        match self.step().await {
            Ok(swept) if swept == Swept::default() => {}
            Ok(swept) => tracing::info!(?swept, "swept"),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the sweep broke off");
                self.silence.interrupt();
            }
        }
    }

    fn pause(&mut self) -> Duration {
        pause(&self.options, &mut self.rng)
    }
}

/// The pause before the next round, anywhere between its bounds: instances that began together do not sweep
/// together.
fn pause(options: &Options, rng: &mut fastrand::Rng) -> Duration {
    let (least, most) = (millis(options.sweep_every_min), millis(options.sweep_every_max));
    Duration::from_millis(rng.u64(least..=most.max(least)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_sweeps_are_spread_over_all_of_their_bounds() {
        let options = Options::default();
        let (least, most) = (options.sweep_every_min, options.sweep_every_max);
        assert!(least < most, "the defaults leave room for chance");
        let mut rng = fastrand::Rng::with_seed(7);
        let pauses: Vec<Duration> = (0..1000).map(|_| pause(&options, &mut rng)).collect();
        assert!(pauses.iter().all(|pause| (least..=most).contains(pause)));
        let tenth = (most - least) / 10;
        assert!(pauses.iter().any(|pause| *pause < least + tenth), "early ones");
        assert!(pauses.iter().any(|pause| *pause > most - tenth), "late ones");
        let mut other = fastrand::Rng::with_seed(8);
        let others: Vec<Duration> = (0..10).map(|_| pause(&options, &mut other)).collect();
        assert_ne!(pauses[..10], others, "two instances do not keep step");
        let fixed = options.sweep_every_max(least);
        assert_eq!(pause(&fixed, &mut rng), least);
    }
}
