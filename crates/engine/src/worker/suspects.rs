//! Suspects: a line whose next loss would be its last runs alone in this worker, so that only the line that takes the
//! process down is given up on.
//!
//! Holds throughout: from the moment its lease is about to be marked until the lease is gone from the books (its
//! outcome is recorded, or it was lost), nothing else is in flight and nothing else starts. Suspects come first;
//! after each, others have as long as they were held up for, so that neither waits for ever. A suspect that may not start anyway
//! (an open breaker, a pace) holds nobody up.

use windrow_domain::LeaseId;
use windrow_domain::control::breaker::BreakerState;
use windrow_store::Result;
use windrow_store::error::chain;

use super::Worker;
use super::ledger::LineOutcome;
use super::target::TargetQueue;
use crate::retry::with_retry;

/// Most suspects of one target that are held at the same time; more are not claimed, and wait in the store.
pub(super) const SUSPECTS_MAX: usize = 1_000;
/// Longest time that others have after a suspect, before the next one.
const OTHERS_MS_MAX: u64 = 600_000;

/// Where the worker stands with its suspects.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// The lease whose line runs alone.
    alone: Option<LeaseId>,
    /// Since when nothing else starts.
    held_up_ms: Option<u64>,
    /// Others have their turn until then.
    others_until_ms: u64,
}

impl Suspects {
    /// Others have as long as they were held up for.
    fn let_others(&mut self, now: u64) {
        let held_up_ms = self.held_up_ms.take().map_or(0, |since| now.saturating_sub(since));
        self.others_until_ms = now.saturating_add(held_up_ms.min(OTHERS_MS_MAX));
    }
}

/// A mark of a lease that the store answered.
pub(super) struct Marked {
    lease: LeaseId,
    answer: Result<bool>,
}

impl Worker {
    /// Brings the next suspect on its way, if it is its turn. True while nothing else may start: a suspect runs, or
    /// waits for what is in flight to end.
    pub(super) fn is_suspect_next(&mut self, now: u64) -> bool {
        if let Some(lease) = self.suspects.alone {
            if self.ledger.holds(lease) {
                return true;
            }
            self.suspects.alone = None;
            self.suspects.let_others(now);
        }
        let Some(at) = self.next_suspect(now) else {
            self.suspects.held_up_ms = None;
            return false;
        };
        let others_wait = self.queues.iter().any(|queue| !queue.jobs.is_empty());
        if now < self.suspects.others_until_ms && (others_wait || !self.running.is_empty()) {
            return false;
        }
        self.suspects.held_up_ms.get_or_insert(now);
        if self.running.is_empty() && self.may_start_any() {
            self.start_mark(at);
        }
        true
    }

    /// Whether a line runs alone, or is about to.
    pub(super) fn runs_alone(&self) -> bool {
        self.suspects.alone.is_some()
    }

    /// When the others have had their time and a suspect waits; none otherwise.
    pub(super) fn suspect_due(&self, now: u64) -> Option<u64> {
        let waits = self.queues.iter().any(|queue| !queue.suspects.is_empty());
        let due = self.suspects.others_until_ms;
        (waits && due > now && self.suspects.alone.is_none()).then_some(due)
    }

    /// A target whose first suspect could start now if it were alone.
    fn next_suspect(&mut self, now: u64) -> Option<usize> {
        if self.stop_ms.is_some() {
            return None;
        }
        for at in 0..self.queues.len() {
            if !self.queues[at].suspects.is_empty() {
                self.release_stopped(at, now);
            }
        }
        self.queues.iter().position(|queue| {
            if queue.suspects.is_empty() {
                return false;
            }
            let is_open = matches!(queue.breaker(now), BreakerState::Open { .. });
            let host = self.hosts.get(&queue.host).expect("a target's host is known");
            // Asked on a copy: asking uses the place up.
            !is_open && host.pace.clone().next(now).is_ok()
        })
    }

    /// Marks the lease of the target's first suspect.
    fn start_mark(&mut self, at: usize) {
        let Some(lease) = self.queues[at].suspects.front().map(|job| job.lease) else { return };
        let Some(token) = self.ledger.token(lease) else { return };
        self.suspects.alone = Some(lease);
        let (store, instance) = (self.deps.store.clone(), self.deps.membership.instance());
        let (clock, give_up) = (self.deps.clock.clone(), self.give_up.clone());
        let (mut rng, meter) = (self.rng.fork(), self.deps.meter.clone());
        self.marking = Some(Box::pin(async move {
            let trouble = |error: &windrow_store::Error| {
                let sentence = format!("the store does not answer: {}", chain(error));
                tracing::warn!("{sentence}");
                meter.set_store_trouble(Some(sentence));
            };
            let mark = || store.mark_alone(instance, lease, token);
            let answer = with_retry(&clock, &give_up, &mut rng, trouble, mark).await;
            Marked { lease, answer }
        }));
    }

    /// The mark was answered: the line starts. If it may not, it goes back, and is marked no more.
    pub(super) fn on_marked(&mut self, Marked { lease, answer }: Marked) {
        let now = self.deps.clock.millis();
        let is_first =
            |queue: &TargetQueue| queue.suspects.front().is_some_and(|job| job.lease == lease);
        // It was lost, stopped or released meanwhile.
        let Some(at) = self.queues.iter().position(is_first) else { return };
        match answer {
            Ok(true) if self.start_suspect(at, now) => {
                tracing::info!(%lease, "a line that was lost with its worker before runs alone");
                return;
            }
            Ok(true) => {}
            Ok(false) => tracing::debug!(%lease, "a suspect is not this worker's any more"),
            Err(error) => self.trouble("could not mark a lease", &error),
        }
        if let Some(job) = self.queues[at].suspects.pop_front() {
            self.ledger.note(job.lease, LineOutcome::Released(job.seq), now);
        }
    }
}
