//! Starting lines: as many as concurrency, pace, breaker, memory and the store's own speed allow.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use windrow_domain::attempt::Failure;
use windrow_domain::control::breaker::Permit;

use super::Worker;
use super::ledger::LineOutcome;
use super::target::Job;
use crate::execute::Outcome;

/// A try that ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) queue: usize,
    pub(super) job: Job,
    /// It decides for the others whether the breaker closes.
    pub(super) probe: bool,
    pub(super) started_ms: u64,
    pub(super) tried: Outcome,
}

impl Worker {
    /// Starts what may start, one target after the other.
    pub(super) fn start_lines(&mut self, now: u64) {
        let count = self.queues.len();
        if count == 0 || self.stop_ms.is_some() {
            return;
        }
        for step in 0..count {
            let at = (self.next_start + step) % count;
            while self.may_start_any() && self.start_one(at, now) {}
        }
        self.next_start = (self.next_start + 1) % count;
    }

    fn may_start_any(&self) -> bool {
        let options = &self.deps.options;
        // One at a time goes on whatever the memory: what is held must get free.
        let most = if self.pressure.stop() { 1 } else { options.in_flight_max as usize };
        self.running.len() < most && self.ledger.has_room(options)
    }

    fn start_one(&mut self, at: usize, now: u64) -> bool {
        let queue = &mut self.queues[at];
        if queue.jobs.is_empty() {
            return false;
        }
        let permit = queue.may_start(now);
        if matches!(permit, Permit::No { .. }) {
            return false;
        }
        let pace = self.paces.get_mut(&queue.host).expect("a target's host has a pace");
        if pace.next(now).is_err() {
            queue.release(permit);
            return false;
        }
        let job = queue.jobs.pop_front().expect("it is not empty");
        queue.started(now);
        self.deps.meter.started();
        let (executor, attempt) = (self.deps.executor.clone(), job.attempt(&queue.target));
        let probe = permit == Permit::Probe;
        self.running.spawn(async move {
            let tried = AssertUnwindSafe(executor.execute(attempt)).catch_unwind().await;
            let tried = tried.unwrap_or_else(|_| panicked());
            Ended { queue: at, job, probe, started_ms: now, tried }
        });
        true
    }

    /// When a host that is paced may start its next line; none when no line waits for that.
    pub(super) fn pace_due(&self, now: u64) -> Option<u64> {
        if self.stop_ms.is_some() || !self.may_start_any() {
            return None;
        }
        let waits = self
            .queues
            .iter()
            .filter(|queue| !queue.jobs.is_empty() && queue.in_flight < queue.limit());
        let due = waits.filter_map(|queue| {
            // Asked on a copy: asking uses the place up.
            let pace = self.paces.get(&queue.host)?;
            pace.clone().next(now).err()
        });
        due.min()
    }

    /// What waits at a target goes back untried.
    pub(super) fn release_queue(&mut self, at: usize, now: u64) {
        let queue = std::mem::take(&mut self.queues[at].jobs);
        if self.stop_ms.is_some() {
            self.released += queue.len() as u64;
        }
        for job in queue {
            self.ledger.note(job.lease, LineOutcome::Released(job.seq), now);
        }
    }
}

/// The executor's own code broke: that line may be to blame, the others are not.
fn panicked() -> Outcome {
    let message = "The executor panicked while it ran this line; its log says where.";
    Outcome::failed(Failure::retryable("executor_panicked", message))
}
