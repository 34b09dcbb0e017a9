//! When the loop looks again: polls, dues, pauses after trouble, and sleep.

use std::collections::BTreeSet;

use windrow_store::message::Commit;

use super::{Actor, Event, until};

/// A wait that grows with trouble and ends with success.
#[derive(Debug)]
pub(super) struct Pause {
    until: u64,
    wait_ms: u64,
    ms_min: u64,
    ms_max: u64,
}

impl Pause {
    pub(super) fn new(ms_min: u64, ms_max: u64) -> Self {
        Self { until: 0, wait_ms: ms_min, ms_min, ms_max }
    }

    pub(super) fn is_over(&self, now: u64) -> bool {
        now >= self.until
    }

    pub(super) fn until(&self) -> u64 {
        self.until
    }

    pub(super) fn longer(&mut self, now: u64) {
        if !self.is_over(now) {
            return;
        }
        self.until = now + self.wait_ms / 2 + fastrand::u64(0..=self.wait_ms / 2);
        self.wait_ms = (self.wait_ms * 2).min(self.ms_max);
    }

    pub(super) fn over(&mut self) {
        self.until = 0;
        self.wait_ms = self.ms_min;
    }
}

/// Whether the instance sleeps, so that others tell it of work.
#[derive(Debug)]
pub(super) struct Doze {
    is_asleep: bool,
    is_changing: bool,
    /// When the work that goes on now began.
    busy_since: u64,
    worked_at: u64,
    awake_ms: u64,
}

impl Doze {
    pub(super) fn new(now: u64, awake_ms: u64) -> Self {
        let (is_asleep, is_changing) = (false, false);
        Self { is_asleep, is_changing, busy_since: now, worked_at: now, awake_ms }
    }

    /// There was something to do.
    pub(super) fn worked(&mut self, now: u64) {
        if now.saturating_sub(self.worked_at) > self.awake_ms {
            self.busy_since = now;
        }
        self.worked_at = now;
    }

    /// What is to be told now, if anything: asleep or not.
    fn change(&self, now: u64, is_busy: bool) -> Option<bool> {
        let idle_ms = now.saturating_sub(self.worked_at);
        let busy_ms = self.worked_at.saturating_sub(self.busy_since);
        match self.is_asleep {
            _ if self.is_changing => None,
            false if !is_busy && idle_ms >= self.awake_ms => Some(true),
            // Not for a single message: telling costs more than being told.
            true if busy_ms >= self.awake_ms && idle_ms < self.awake_ms => Some(false),
            _ => None,
        }
    }
}

impl Actor {
    pub(super) fn take_pokes(&mut self) {
        let pokes = self.core.shared.take_pokes();
        if pokes.all {
            self.board.poke_all();
        }
        pokes.partitions.into_iter().for_each(|no| self.board.poke(no));
        let (now, poll_ms) = (self.core.clock.millis(), self.poll_ms());
        if now.saturating_sub(self.polled_at) >= poll_ms {
            self.polled_at = now;
            self.board.poke_all();
        }
    }

    fn poll_ms(&self) -> u64 {
        match self.doze.is_asleep {
            true => self.core.options.poll_ms,
            false => self.core.options.poll_awake_ms,
        }
    }

    pub(super) fn take_dues(&mut self) {
        if self.dues.is_empty() || !self.due_pause.is_over(self.core.clock.millis()) {
            return;
        }
        let now = self.core.clock.now();
        let board = &mut self.board;
        self.dues.retain(|no, at| {
            let is_due = *at <= now;
            if is_due {
                board.poke(*no);
            }
            !is_due
        });
    }

    /// Tells the database which calls run for long: beside the commits, which wait for nothing of it.
    pub(super) fn tell_what_runs(&mut self, now: u64) {
        if now < self.runs.look_at() || !self.pause.is_over(now) {
            return;
        }
        let board = &self.board;
        let due = self.runs.due(now, |fence| board.is_open(fence));
        if due.is_empty() {
            return;
        }
        let mut commit = Commit::new(self.core.shared.instance());
        commit.fences =
            due.iter().map(|run| run.fence).collect::<BTreeSet<_>>().into_iter().collect();
        commit.running = due.iter().map(|run| run.running.clone()).collect();
        let store = self.core.store.clone();
        self.tasks.spawn(async move {
            let told = store.commit(commit).await;
            Event::Told(due, told.map(drop))
        });
    }

    fn is_busy(&self) -> bool {
        let holds = self.board.busy > 0 || self.board.messages > 0 || self.is_reading;
        holds || self.board.partitions.is_empty()
    }

    /// Tells others when it falls asleep or wakes up.
    pub(super) fn doze_or_wake(&mut self, now: u64) {
        let Some(asleep) = self.doze.change(now, self.is_busy()) else { return };
        if self.is_stopping || !self.pause.is_over(now) {
            return;
        }
        self.doze.is_changing = true;
        let (store, instance) = (self.core.store.clone(), self.core.shared.instance());
        self.tasks.spawn(async move {
            let told = store.set_idle(instance, asleep).await;
            Event::Dozed(asleep, told)
        });
    }

    pub(super) fn dozed(&mut self, asleep: bool, told: &windrow_store::Result<()>) {
        self.doze.is_changing = false;
        if told.is_err() {
            return self.pause();
        }
        self.doze.is_asleep = asleep;
        if asleep {
            // What was sent at that moment told nobody.
            self.board.poke_all();
        }
    }

    /// A new instance is awake.
    pub(super) fn wake_up(&mut self) {
        self.doze.is_asleep = false;
        self.doze.worked(self.core.clock.millis());
    }

    /// When to look again though nothing happened.
    pub(super) fn wake_at(&self) -> u64 {
        let now = self.core.clock.millis();
        let mut at = self.polled_at.saturating_add(self.poll_ms());
        // While something runs it cannot fall asleep, and what ends wakes it.
        if !self.doze.is_asleep && !self.doze.is_changing && !self.is_busy() {
            at = at.min(self.doze.worked_at.saturating_add(self.doze.awake_ms));
        }
        if let Some(due) = self.dues.values().min() {
            let wait = until(*due, self.core.clock.now()).as_millis();
            let due = now.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)).saturating_add(1);
            at = at.min(due.max(self.due_pause.until()));
        }
        at = at.min(self.runs.look_at());
        if !self.pause.is_over(now) {
            at = at.max(self.pause.until());
        }
        if !self.pending.is_empty() && self.commits < self.core.options.commits_in_flight_max {
            let lingers = self.pending_since.saturating_add(self.core.options.commit_linger_ms);
            at = at.min(lingers.max(self.busy_pause.until()));
        }
        at
    }
}
