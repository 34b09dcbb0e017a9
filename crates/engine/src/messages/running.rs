//! Calls that run, and since when: one that runs for long is told to the database, so that people see it
//! among those that are processed or stuck. A quick one costs a look in memory.
//!
//! Holds throughout: a try is told at most once, unless the telling failed; what is told late changes
//! nothing (see [`Running`]), so nobody waits for it.
//! Absent on purpose: tries that were marked when they began. The database knows of those.

use std::collections::HashMap;

use windrow_domain::Queue;
use windrow_store::message::{Running, SEND_MAX};
use windrow_store::partition::Fence;

use super::entry::Task;

/// Looks within the time after which a call is told of: what comes due between two is told at once.
const LOOKS: u64 = 8;

/// A call that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) fence: Fence,
    pub(super) running: Running,
    due: u64,
    is_told: bool,
}

/// All of them, by the number of their stream.
#[derive(Debug)]
pub(super) struct Runs {
    runs: HashMap<u64, Run>,
    after_ms: u64,
    /// Nothing is due before.
    look_at: u64,
    is_telling: bool,
}

impl Runs {
    pub(super) fn new(after_ms: u64) -> Self {
        Self { runs: HashMap::new(), after_ms, look_at: u64::MAX, is_telling: false }
    }

    /// A handler begins.
    pub(super) fn begin(&mut self, now: u64, task: &Task) {
        let (fence, message) = (task.fence, &task.message);
        if message.queue != Queue::Calls || message.started == Some(fence.epoch) {
            return;
        }
        let due = now.saturating_add(self.after_ms);
        let run = Run { fence, running: Running::of(message), due, is_told: false };
        self.look_at = self.look_at.min(due);
        self.runs.insert(task.stream_no(), run);
    }

    /// A handler ended. One of another epoch may run by now.
    pub(super) fn end(&mut self, task: &Task) {
        let run = self.runs.get(&task.stream_no());
        if run.is_some_and(|run| run.fence == task.fence && run.running.at == task.at()) {
            self.runs.remove(&task.stream_no());
        }
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.after_ms);
    }

    /// When something may be due.
    pub(super) fn look_at(&self) -> u64 {
        if self.is_telling { u64::MAX } else { self.look_at }
    }

    /// Those to be told of now, in partitions that are ours. They are being told of from now on.
    pub(super) fn due(&mut self, now: u64, is_ours: impl Fn(Fence) -> bool) -> Vec<Run> {
        if now < self.look_at() {
            return Vec::new();
        }
        self.runs.retain(|_, run| is_ours(run.fence));
        let untold = self.runs.values_mut().filter(|run| !run.is_told && run.due <= now);
        let due: Vec<Run> = untold
            .take(SEND_MAX)
            .map(|run| {
                run.is_told = true;
                run.clone()
            })
            .collect();
        self.is_telling = !due.is_empty();
        let next = self.runs.values().filter(|run| !run.is_told).map(|run| run.due).min();
        let soon = now.saturating_add(self.after_ms / LOOKS);
        self.look_at = next.map_or(u64::MAX, |next| next.max(soon));
        due
    }

    /// They are told of, or not: then they are tried again, as far as they still run.
    pub(super) fn told(&mut self, now: u64, told: &[Run], is_told: bool) {
        self.is_telling = false;
        if is_told {
            return;
        }
        let due = now.saturating_add(self.after_ms);
        for one in told {
            let run = self.runs.get_mut(&one.running.at.stream_no);
            let Some(run) = run.filter(|run| **run == *one) else { continue };
            (run.due, run.is_told) = (due, false);
            self.look_at = self.look_at.min(due);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

    use std::sync::Arc;

    use bytes::Bytes;
    use windrow_domain::{Owner, Stream};
    use windrow_store::message::{Message, MessageRef};

    use super::*;

    fn task(stream_no: u64, queue: Queue) -> Task {
        let fence = Fence { partition: 1, epoch: 7 };
        let message = Message {
            at: MessageRef { partition: 1, stream_no, position: 1 },
            queue,
            owner: Owner::new("ann").unwrap(),
            stream: Stream::new("wallet/1").unwrap(),
            id: "1".to_owned(),
            kind: "deposit".to_owned(),
            payload: Bytes::new(),
            headers: Default::default(),
            sent_at: jiff::Timestamp::UNIX_EPOCH,
            not_before: None,
            attempts: 0,
            started: None,
            waiting: Vec::new(),
            error: None,
        };
        Task { fence, message: Arc::new(message), attempt: 1 }
    }

    fn streams(runs: &[Run]) -> Vec<u64> {
        let mut streams: Vec<u64> = runs.iter().map(|run| run.running.at.stream_no).collect();
        streams.sort_unstable();
        streams
    }

    #[test]
    fn a_call_is_told_of_once_when_it_runs_for_long() {
        let mut runs = Runs::new(1000);
        assert_eq!(runs.look_at(), u64::MAX);
        runs.begin(0, &task(1, Queue::Calls));
        runs.begin(10, &task(2, Queue::Calls));
        runs.begin(10, &task(3, Queue::Inbox));
        runs.begin(900, &task(4, Queue::Calls));
        runs.end(&task(2, Queue::Calls));
        assert_eq!(runs.look_at(), 1000);
        assert!(runs.due(999, |_| true).is_empty());
        let due = runs.due(1000, |_| true);
        assert_eq!(streams(&due), [1]);
        assert_eq!(runs.look_at(), u64::MAX, "one at a time");
        runs.told(1001, &due, true);
        assert_eq!(runs.look_at(), 1900);
        let due = runs.due(1900, |_| true);
        assert_eq!(streams(&due), [4]);
        runs.told(1901, &due, true);
        assert_eq!(runs.look_at(), u64::MAX, "each was told of");
    }

    #[test]
    fn what_was_marked_or_is_lost_is_not_told_of() {
        let mut runs = Runs::new(1000);
        let mut marked = task(1, Queue::Calls);
        Arc::make_mut(&mut marked.message).started = Some(7);
        runs.begin(0, &marked);
        assert_eq!(runs.look_at(), u64::MAX);
        runs.begin(0, &task(2, Queue::Calls));
        assert!(runs.due(1000, |_| false).is_empty());
        assert_eq!(runs.look_at(), u64::MAX);
    }

    #[test]
    fn a_telling_that_failed_is_tried_again_while_the_call_runs() {
        let mut runs = Runs::new(1000);
        runs.begin(0, &task(1, Queue::Calls));
        runs.begin(0, &task(2, Queue::Calls));
        let due = runs.due(1000, |_| true);
        assert_eq!(streams(&due), [1, 2]);
        runs.end(&task(1, Queue::Calls));
        runs.told(1100, &due, false);
        assert_eq!(runs.look_at(), 2100);
        assert_eq!(streams(&runs.due(2100, |_| true)), [2]);
    }

    #[test]
    fn a_late_end_leaves_the_next_epochs_run() {
        let mut runs = Runs::new(1000);
        let old = task(1, Queue::Calls);
        let mut new = task(1, Queue::Calls);
        new.fence.epoch = 9;
        runs.begin(0, &old);
        runs.begin(500, &new);
        runs.end(&old);
        let due = runs.due(1500, |_| true);
        assert_eq!(due.iter().map(|run| run.fence.epoch).collect::<Vec<_>>(), [9]);
        runs.end(&new);
        runs.told(1501, &due, false);
        assert_eq!(runs.look_at(), u64::MAX);
    }

    #[test]
    fn calls_that_come_due_one_by_one_are_told_of_together() {
        let mut runs = Runs::new(800);
        for no in 0..100 {
            runs.begin(no, &task(no, Queue::Calls));
        }
        let (mut now, mut tellings, mut told) = (0, 0, 0);
        while runs.look_at() < u64::MAX {
            now = now.max(runs.look_at());
            let due = runs.due(now, |_| true);
            (tellings, told) = (tellings + 1, told + due.len());
            runs.told(now, &due, true);
        }
        assert_eq!((tellings, told), (2, 100));
    }
}
