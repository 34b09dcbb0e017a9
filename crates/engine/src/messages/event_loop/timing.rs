//! When the loop runs again: polls, due messages, pauses after errors, reports.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use windrow_domain::PartitionNo;
use windrow_domain::backoff::Backoff;
use windrow_domain::millis;
use windrow_store::message::Commit;

use super::EventLoop;
use super::results::TaskResult;
use crate::jitter::Jitter;

/// The first wait of a [`Cooldown`].
const COOLDOWN_MIN: Duration = Duration::from_millis(20);

/// A pause after errors, which grows with each and ends with a success.
#[derive(Debug)]
pub(super) struct Cooldown {
    until: u64,
    backoff: Backoff,
}

impl Cooldown {
    pub(super) fn new(ms_max: u64) -> Self {
        let backoff = Backoff::new(COOLDOWN_MIN, Duration::from_millis(ms_max));
        Self { until: 0, backoff }
    }

    pub(super) fn is_over(&self, now: u64) -> bool {
        now >= self.until
    }

    pub(super) fn until(&self) -> u64 {
        self.until
    }

    /// Pauses, longer than the last time; not while it pauses already.
    pub(super) fn extend(&mut self, now: u64, jitter: &Jitter) {
        if self.is_over(now) {
            self.until = now.saturating_add(millis(self.backoff.next(jitter.roll())));
        }
    }

    pub(super) fn clear(&mut self) {
        self.until = 0;
        self.backoff.reset();
    }
}

impl EventLoop {
    pub(super) fn take_dirty(&mut self) {
        let dirty = self.deps.notifier.take_dirty();
        if dirty.all {
            self.queues.mark_all_dirty();
        }
        dirty.partitions.into_iter().for_each(|no| self.queues.mark_dirty(no));
        let (now, poll_ms) = (self.deps.clock.millis(), self.poll_ms());
        if now.saturating_sub(self.polled_at) >= poll_ms {
            self.polled_at = now;
            self.queues.mark_all_dirty();
        }
    }

    fn poll_ms(&self) -> u64 {
        let options = &self.deps.options;
        millis(if self.idle.is_idle { options.poll_every } else { options.poll_awake_every })
    }

    /// Something of a partition is due then.
    pub(super) fn note_due(&mut self, no: PartitionNo, at: Timestamp) {
        let due = self.dues.entry(no).or_insert(at);
        *due = at.min(*due);
    }

    pub(super) fn take_dues(&mut self) {
        if self.dues.is_empty() || !self.due_pause.is_over(self.deps.clock.millis()) {
            return;
        }
        let now = self.deps.clock.now();
        let queues = &mut self.queues;
        self.dues.retain(|no, at| {
            let is_due = *at <= now;
            if is_due {
                queues.mark_dirty(*no);
            }
            !is_due
        });
    }

    /// Reports calls that run for long, beside the commits, which do not wait for it.
    pub(super) fn report_processing(&mut self, now: u64) {
        if now < self.long_calls.report_at() || !self.store_pause.is_over(now) {
            return;
        }
        let queues = &self.queues;
        let due = self.long_calls.due(now, |fence| queues.is_open(fence));
        if due.is_empty() {
            return;
        }
        let mut commit = Commit::new(self.deps.notifier.instance());
        commit.fences =
            due.iter().map(|run| run.fence).collect::<BTreeSet<_>>().into_iter().collect();
        commit.running = due.iter().map(|run| run.running.clone()).collect();
        let store = self.deps.store.clone();
        self.tasks.spawn(async move {
            let reported = store.commit(commit).await;
            TaskResult::LongCallsReported(due, reported.map(drop))
        });
    }

    /// When the loop runs again though nothing happened.
    pub(super) fn wake_at(&self) -> u64 {
        let now = self.deps.clock.millis();
        let mut at = self.polled_at.saturating_add(self.poll_ms());
        // While something runs it cannot become idle, and what ends wakes it.
        if !self.idle.is_idle && !self.idle.is_changing && !self.is_busy() {
            at = at.min(self.idle.worked_at.saturating_add(self.idle.idle_after_ms));
        }
        if let Some(due) = self.dues.values().min() {
            let wait = millis(until(*due, self.deps.clock.now()));
            let due = now.saturating_add(wait).saturating_add(1);
            at = at.min(due.max(self.due_pause.until()));
        }
        at = at.min(self.long_calls.report_at());
        if !self.store_pause.is_over(now) {
            at = at.max(self.store_pause.until());
        }
        if !self.pending.is_empty() && self.commits < self.deps.options.commits_in_flight_max {
            let lingers =
                self.pending_since.saturating_add(millis(self.deps.options.commit_linger));
            at = at.min(lingers.max(self.busy_pause.until()));
        }
        at
    }
}

/// How long until that time; nothing when it has passed.
fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}
