//! Numbers of a runner, for metrics and health checks: of this process and this moment, each by itself.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use windrow_store::message::Backlog;

/// The numbers of a runner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gauges {
    /// Partitions that this instance owns.
    pub partitions_owned: u64,
    /// Partitions without an owner, because every instance has as many as it may have.
    pub partitions_unowned: u64,
    /// Messages in memory.
    pub messages_held: u64,
    /// Streams that run or are being committed.
    pub streams_in_flight: u64,
    /// Messages that ended well, since the process began.
    pub done: u64,
    /// Attempts that failed and are repeated.
    pub retries: u64,
    /// Messages that were given up on, failed calls among them.
    pub dead: u64,
    /// Commits that happened.
    pub commits: u64,
    /// Commits whose result is unknown.
    pub commits_unknown: u64,
    /// Commits that met a conflict and were split.
    pub conflicts: u64,
    /// Reads of messages.
    pub reads: u64,
    /// Times that partitions or the membership were lost.
    pub lease_losses: u64,
    /// How much waits in each queue of the whole service, as of the last round of maintenance.
    pub backlog: Vec<Backlog>,
}

/// The numbers while they change.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) partitions_owned: AtomicU64,
    pub(super) partitions_unowned: AtomicU64,
    pub(super) messages_held: AtomicU64,
    pub(super) streams_in_flight: AtomicU64,
    pub(super) done: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) dead: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) commits_unknown: AtomicU64,
    pub(super) conflicts: AtomicU64,
    pub(super) reads: AtomicU64,
    pub(super) lease_losses: AtomicU64,
    pub(super) backlog: Mutex<Vec<Backlog>>,
}

/// Counts one more.
pub(super) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Counts some more.
pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// Says what is there now.
pub(super) fn set(counter: &AtomicU64, now: usize) {
    counter.store(now as u64, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn read(&self) -> Gauges {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Gauges {
            partitions_owned: get(&self.partitions_owned),
            partitions_unowned: get(&self.partitions_unowned),
            messages_held: get(&self.messages_held),
            streams_in_flight: get(&self.streams_in_flight),
            done: get(&self.done),
            retries: get(&self.retries),
            dead: get(&self.dead),
            commits: get(&self.commits),
            commits_unknown: get(&self.commits_unknown),
            conflicts: get(&self.conflicts),
            reads: get(&self.reads),
            lease_losses: get(&self.lease_losses),
            backlog: self.backlog.lock().clone(),
        }
    }
}
