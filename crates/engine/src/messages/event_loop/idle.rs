//! Idle or busy: an idle instance polls seldom, and senders notify it.

use super::EventLoop;
use super::results::TaskResult;

/// Whether the instance is idle: then senders notify it of work.
#[derive(Debug)]
pub(super) struct IdleState {
    pub(super) is_idle: bool,
    pub(super) is_changing: bool,
    /// When the work that goes on now began.
    busy_since: u64,
    pub(super) worked_at: u64,
    pub(super) idle_after_ms: u64,
}

impl IdleState {
    pub(super) fn new(now: u64, idle_after_ms: u64) -> Self {
        let (is_idle, is_changing) = (false, false);
        Self { is_idle, is_changing, busy_since: now, worked_at: now, idle_after_ms }
    }

    /// There was something to do.
    pub(super) fn worked(&mut self, now: u64) {
        if now.saturating_sub(self.worked_at) > self.idle_after_ms {
            self.busy_since = now;
        }
        self.worked_at = now;
    }

    /// What is to be stored now, if anything: idle or not.
    fn change(&self, now: u64, is_busy: bool) -> Option<bool> {
        let idle_ms = now.saturating_sub(self.worked_at);
        let busy_ms = self.worked_at.saturating_sub(self.busy_since);
        match self.is_idle {
            _ if self.is_changing => None,
            false if !is_busy && idle_ms >= self.idle_after_ms => Some(true),
            // Not for a single message: storing the change costs more than a notification.
            true if busy_ms >= self.idle_after_ms && idle_ms < self.idle_after_ms => Some(false),
            _ => None,
        }
    }
}

impl EventLoop {
    pub(super) fn is_busy(&self) -> bool {
        let holds = self.queues.busy > 0 || self.queues.messages > 0 || self.is_reading;
        holds || self.queues.partitions.is_empty()
    }

    /// Stores when this instance becomes idle or busy.
    pub(super) fn set_idle(&mut self, now: u64) {
        let Some(idle) = self.idle.change(now, self.is_busy()) else { return };
        if self.is_stopping || !self.store_pause.is_over(now) {
            return;
        }
        self.idle.is_changing = true;
        let (store, instance) = (self.deps.store.clone(), self.deps.notifier.instance());
        self.tasks.spawn(async move {
            let stored = store.set_idle(instance, idle).await;
            TaskResult::IdleSet(idle, stored)
        });
    }

    pub(super) fn idle_set(&mut self, idle: bool, stored: &windrow_store::Result<()>) {
        self.idle.is_changing = false;
        if stored.is_err() {
            return self.pause_store();
        }
        self.idle.is_idle = idle;
        if idle {
            // What was sent at that moment was not notified.
            self.queues.mark_all_dirty();
        }
    }

    /// A new instance is not idle.
    pub(super) fn wake(&mut self) {
        self.idle.is_idle = false;
        self.idle.worked(self.deps.clock.millis());
    }
}
