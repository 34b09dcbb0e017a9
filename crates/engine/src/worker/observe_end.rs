//! What the end of an attempt tells the controllers: those of its target, those of its host, and the other
//! targets of that host.

use windrow_domain::attempt::Class;
use windrow_domain::control::breaker::BreakerState;
use windrow_domain::{BatchId, millis};
use windrow_store::error::chain;
use windrow_store::{Kind, Scope};

use super::Worker;
use super::host::Host;
use super::refusals::proves_key;
use super::target::{AttemptEnd, Job};
use crate::execute::Verdict;

/// What the controllers made of an attempt.
pub(super) struct Observed {
    /// The attempt does not count for its line.
    pub(super) spared: bool,
    /// Its target is left alone.
    pub(super) open: bool,
    /// Its host took the key.
    pub(super) proves_key: bool,
}

/// Longest delay between two requests to a host that answers 5xx without a `Retry-After`.
const FAILING_DELAY_MS_MAX: u64 = 250;

impl Worker {
    /// Tells the controllers how an attempt ended.
    pub(super) fn observe_end(
        &mut self,
        at: usize,
        job: &Job,
        end: &AttemptEnd<'_>,
        host_probe: bool,
        now: u64,
    ) -> Observed {
        let was_open = self.is_open(at, now);
        let host = self.host_mut(at);
        let before = host.open_until_ms();
        host.ended(end, host_probe, now);
        self.queues[at].ended(end, now);
        if !was_open && self.is_open(at, now) {
            self.observe_siblings(at, now);
        }
        if self.host_mut(at).open_until_ms() != before {
            self.share_host(at, now);
        }
        let spared = self.queues[at].spares(end, (job.batch, job.line), now);
        self.pace(at, end.verdict, now);
        self.pause_if_throttled(at, job, end, now);
        let open = self.is_open(at, now);
        self.tell(at, was_open, open, end.verdict);
        Observed { spared, open, proves_key: proves_key(end) }
    }

    pub(super) fn host_mut(&mut self, at: usize) -> &mut Host {
        self.hosts.get_mut(&self.queues[at].host).expect("a target's host is known")
    }

    fn is_open(&self, at: usize, now: u64) -> bool {
        self.queues[at].breaker(now) != BreakerState::Closed
    }

    /// A target was opened: are most of its host's?
    fn observe_siblings(&mut self, at: usize, now: u64) {
        let host = &self.queues[at].host;
        let siblings = self.queues.iter().filter(|queue| queue.host == *host && queue.was_asked());
        let (mut open, mut all, mut since) = (0, 0, now);
        for queue in siblings {
            all += 1;
            if let Some(open_ms) = queue.open_since_ms() {
                open += 1;
                since = since.min(open_ms);
            }
        }
        self.host_mut(at).observe_targets(open, all, since, now);
    }

    /// The host's breaker changed: its targets obey it, and what waits there goes back while it is open.
    fn share_host(&mut self, at: usize, now: u64) {
        let (name, until) = (self.queues[at].host.clone(), self.host_mut(at).open_until_ms());
        for sibling in 0..self.queues.len() {
            if self.queues[sibling].host != name {
                continue;
            }
            self.queues[sibling].set_host_open(until, now);
            if until.is_some() && !self.queues[sibling].has_no_jobs() {
                self.release_queue(sibling, now);
                self.queues[sibling].ready_ms.get_or_insert(now);
            }
        }
    }

    /// Lets the host's pace take note of an outcome; it waits when the host asked for a pause, and slows
    /// down while most of its targets fail.
    fn pace(&mut self, at: usize, verdict: &Verdict, now: u64) {
        let longest_ms = self.queues[at].policy.backoff_ms_max;
        let Verdict::Failed(failure) = verdict else {
            if matches!(verdict, Verdict::Completed) {
                self.host_mut(at).pace.good();
            }
            return;
        };
        let unexplained = failure.class == Class::Server && failure.retry_after.is_none();
        let slow = unexplained && self.host_mut(at).may_be_spike(now) && self.is_spike(at);
        let pace = &mut self.host_mut(at).pace;
        pace.observe(failure, now, longest_ms);
        if slow {
            pace.failing(now, FAILING_DELAY_MS_MAX);
        }
    }

    /// Whether more than half of the host's targets failed last: one target alone slows no other down.
    fn is_spike(&self, at: usize) -> bool {
        let host = &self.queues[at].host;
        let siblings = self.queues.iter().filter(|queue| queue.host == *host && queue.was_asked());
        let (failing, all) = siblings.fold((0, 0), |(failing, all), queue| {
            (failing + usize::from(queue.failed_last()), all + 1)
        });
        failing * 2 > all
    }

    /// A host that has said nothing but 429 for very long: its batches wait for a person.
    fn pause_if_throttled(&mut self, at: usize, job: &Job, end: &AttemptEnd<'_>, now: u64) {
        let most = self.deps.options.throttled_max;
        let host = self.host_mut(at);
        if !host.is_throttled_too_long(end, job.batch, now, millis(most)) {
            return;
        }
        let secs = most.as_secs();
        let reason = format!("{} has answered nothing but 429 for {secs} s", self.queues[at].host);
        // The next answer of the host asks again, once its time is over again.
        self.pause(job.batch, reason);
    }

    /// Pauses a batch, in the background.
    pub(super) fn pause(&mut self, batch: BatchId, reason: String) {
        let store = self.deps.store.clone();
        while self.pausing.try_join_next().is_some() {}
        self.pausing.spawn(async move {
            tracing::warn!(batch.id = %batch, "pausing the batch: {reason}");
            match store.pause_batch(&Scope::All, batch, Some(reason)).await {
                Ok(_) => {}
                // It ended, or was stopped, meanwhile.
                Err(error) if matches!(error.kind, Kind::Conflict | Kind::Missing) => {}
                Err(error) => tracing::warn!("could not pause a batch: {}", chain(&error)),
            }
        });
    }
}
