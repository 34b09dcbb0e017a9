//! Starting lines: as many as concurrency, pace, breaker, memory and the store's own speed allow.
//!
//! Holds throughout: the target with the fewest in flight is next, and a slot is kept for each whose lines are
//! about to be claimed, so every target that has lines gets a slot of its host before any gets a second.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use windrow_domain::attempt::Failure;
use windrow_domain::control::breaker::Permit;

use super::Worker;
use super::ledger::LineOutcome;
use super::target::{Job, TargetQueue};
use crate::execute::Outcome;

/// An attempt that ended, with its outcome.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) queue: usize,
    pub(super) job: Job,
    /// It decides for the others whether the breaker closes.
    pub(super) probe: bool,
    /// It does so for the host.
    pub(super) host_probe: bool,
    pub(super) started_ms: u64,
    pub(super) tried: Outcome,
}

impl Worker {
    /// Starts what may start, one line of each target after the other.
    pub(super) fn start_lines(&mut self, now: u64) {
        let count = self.queues.len();
        if count == 0 || self.stop_ms.is_some() || self.is_suspect_next(now) {
            return;
        }
        let reserved = self.reserved_slots(now);
        let order = |at: usize| (at + count - self.next_start % count) % count;
        let waiting = self.queues.iter().enumerate().filter(|(_, queue)| !queue.jobs.is_empty());
        let mut next: BinaryHeap<_> =
            waiting.map(|(at, queue)| Reverse((queue.in_flight, order(at), at))).collect();
        while let Some(Reverse((_, order, at))) = next.pop() {
            if !self.may_start_any() {
                break;
            }
            if self.start_one(at, &reserved, now) {
                self.next_start = at + 1;
                next.push(Reverse((self.queues[at].in_flight, order, at)));
            }
        }
    }

    /// How many slots of each host are kept for targets that have none: their lines wait in the store, and
    /// one claim brings lines of one target.
    fn reserved_slots(&self, now: u64) -> HashMap<String, u32> {
        let mut reserved = HashMap::new();
        for queue in self.queues.iter().filter(|queue| queue.is_starved(now)) {
            *reserved.entry(queue.host.clone()).or_default() += 1;
        }
        reserved
    }

    pub(super) fn may_start_any(&self) -> bool {
        let options = &self.deps.options;
        // One at a time goes on whatever the memory: what is held must get free.
        let most = if self.pressure.stop() { 1 } else { options.in_flight_max as usize };
        self.running.len() < most && self.ledger.has_room(options)
    }

    fn start_one(&mut self, at: usize, reserved: &HashMap<String, u32>, now: u64) -> bool {
        self.release_stopped(at, now);
        let queue = &self.queues[at];
        let host = self.hosts.get(&queue.host).expect("a target's host is known");
        let reserved = reserved.get(&queue.host).copied().unwrap_or_default();
        if !host.has_room() || (queue.in_flight > 0 && host.free_slots() <= reserved) {
            return false;
        }
        self.start_first(at, |queue| &mut queue.jobs, now)
    }

    /// Starts the first suspect of a target, if the target and its host let it.
    pub(super) fn start_suspect(&mut self, at: usize, now: u64) -> bool {
        self.start_first(at, |queue| &mut queue.suspects, now)
    }

    /// Starts the first of these lines of a target, if the target and its host let it.
    fn start_first(
        &mut self,
        at: usize,
        jobs: impl Fn(&mut TargetQueue) -> &mut VecDeque<Job>,
        now: u64,
    ) -> bool {
        let queue = &mut self.queues[at];
        if jobs(queue).front().is_none_or(|job| !job.gate.is_open()) {
            return false;
        }
        let host = self.hosts.get_mut(&queue.host).expect("a target's host is known");
        let permit = queue.may_start(now);
        if matches!(permit, Permit::No { .. }) {
            return false;
        }
        let host_permit = host.may_start(now);
        if matches!(host_permit, Permit::No { .. }) || host.pace.next(now).is_err() {
            queue.release(permit);
            host.release(host_permit);
            return false;
        }
        host.started();
        let job = jobs(queue).pop_front().expect("it is not empty");
        queue.started(now);
        self.deps.meter.started();
        let (executor, attempt) = (self.deps.executor.clone(), job.attempt(&queue.route));
        let (probe, host_probe) = (permit == Permit::Probe, host_permit == Permit::Probe);
        self.running.spawn(async move {
            let tried = AssertUnwindSafe(executor.execute(attempt)).catch_unwind().await;
            let tried = tried.unwrap_or_else(|_| panicked());
            Ended { queue: at, job, probe, host_probe, started_ms: now, tried }
        });
        true
    }

    /// The next lines of a target whose gate has closed go back.
    pub(super) fn release_stopped(&mut self, at: usize, now: u64) {
        let queue = &mut self.queues[at];
        for jobs in [&mut queue.suspects, &mut queue.jobs] {
            while let Some(job) = jobs.pop_front_if(|job| job.gate.is_closed()) {
                self.ledger.note(job.lease, LineOutcome::Released(job.seq), now);
            }
        }
    }

    /// When a host that is paced may start its next line; none when no line waits for that.
    pub(super) fn pace_due(&self, now: u64) -> Option<u64> {
        if self.stop_ms.is_some() || !self.may_start_any() {
            return None;
        }
        let waits = self
            .queues
            .iter()
            .filter(|queue| !queue.has_no_jobs() && queue.in_flight < queue.limit());
        let due = waits.filter_map(|queue| {
            // Asked on a copy: asking uses the place up.
            let host = self.hosts.get(&queue.host).filter(|host| host.has_room())?;
            host.pace.clone().next(now).err()
        });
        due.min()
    }

    /// What waits at a target goes back untried.
    pub(super) fn release_queue(&mut self, at: usize, now: u64) {
        let jobs = self.queues[at].take_jobs();
        if self.stop_ms.is_some() {
            self.released += jobs.len() as u64;
        }
        for job in jobs {
            self.ledger.note(job.lease, LineOutcome::Released(job.seq), now);
        }
    }
}

/// The executor's own code broke: that line may be to blame, the others are not.
fn panicked() -> Outcome {
    let message = "The executor panicked while it ran this line; its log says where.";
    Outcome::failed(Failure::retryable("executor_panicked", message))
}
