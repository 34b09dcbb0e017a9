//! Looking for work: the worker asks the store which targets have lines waiting, and keeps a queue
//! for each target that its executor serves.

use windrow_domain::Target;
use windrow_domain::control::pace::Pace;
use windrow_store::Result;
use windrow_store::claim::{TARGETS_MAX, Waiting};

use super::Worker;
use super::target::TargetQueue;

impl Worker {
    /// Asks the store what waits, when that is due.
    pub(super) fn start_look(&mut self, now: u64) {
        if self.stop_ms.is_some() || self.looking.is_some() || now < self.claimer.look_ms {
            return;
        }
        let (store, only) = (self.deps.store.clone(), self.deps.only);
        let limit = u32::try_from(TARGETS_MAX).unwrap_or(u32::MAX);
        self.looking = Some(Box::pin(async move { store.waiting(only, limit).await }));
    }

    /// The store said what waits, or did not answer.
    pub(super) fn on_looked(&mut self, waiting: Result<Vec<Waiting>>) {
        let now = self.deps.clock.millis();
        match waiting {
            Ok(waiting) => {
                for waiting in &waiting {
                    self.queue(&waiting.target, now);
                }
                self.claimer.looked(&mut self.queues, &waiting, now, &self.deps.options);
            }
            Err(error) => {
                self.trouble("could not look for work", &error);
                self.claimer.look_ms = now.saturating_add(self.deps.options.poll_ms);
            }
        }
    }

    /// The place of a target's queue; a new queue for a new target that the executor serves.
    pub(super) fn queue(&mut self, target: &Target, now: u64) -> Option<usize> {
        let found = self.queues.iter().position(|queue| queue.target == *target);
        if found.is_some() || !self.deps.executor.serves(target) {
            return found;
        }
        let (host, limits) = (self.deps.executor.host(target), self.deps.executor.limits(target));
        self.paces.entry(host.clone()).or_insert_with(|| Pace::new(limits.pace.clone()));
        let options = &self.deps.options;
        let (bounds, attempts) = (options.slice.clone(), options.retry.attempts_max);
        let queue = TargetQueue::new(target.clone(), host, limits, bounds, attempts, now);
        if self.queues.len() < TARGETS_MAX {
            self.queues.push(queue);
            return Some(self.queues.len() - 1);
        }
        // As many as one claim may name: the one that has been idle longest makes room.
        let idle =
            |queue: &&(usize, &TargetQueue)| queue.1.in_flight == 0 && queue.1.jobs.is_empty();
        let all: Vec<_> = self.queues.iter().enumerate().collect();
        let oldest = all.iter().filter(idle).min_by_key(|(_, queue)| queue.touched_ms);
        let at = oldest.map(|(at, _)| *at)?;
        self.queues[at] = queue;
        Some(at)
    }
}
