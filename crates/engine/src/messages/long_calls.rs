//! Calls that run for long: they are reported to the database as *processing*, so that people see them
//! among the calls that run or are stuck. A quick call costs a look in memory.
//!
//! Holds throughout: an attempt is reported at most once, unless the report failed; what is reported late
//! changes nothing (see [`ProcessingReport`]), so nothing waits for it.
//! Absent on purpose: attempts whose beginning was stored. The database knows of those.

use std::collections::HashMap;

use windrow_domain::Queue;
use windrow_store::message::{ProcessingReport, SEND_MAX};
use windrow_store::partition::Fence;

use super::outcome::Task;

/// How many times reports are written within the time after which a call counts as long: calls that
/// come due between two reports share one.
const REPORTS: u64 = 8;

/// A call that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunningCall {
    pub(super) fence: Fence,
    pub(super) running: ProcessingReport,
    due: u64,
    is_reported: bool,
}

/// The calls that run, by the number of their stream.
#[derive(Debug)]
pub(super) struct LongCalls {
    running: HashMap<u64, RunningCall>,
    after_ms: u64,
    /// Nothing is due before.
    report_at: u64,
    is_reporting: bool,
}

impl LongCalls {
    pub(super) fn new(after_ms: u64) -> Self {
        Self { running: HashMap::new(), after_ms, report_at: u64::MAX, is_reporting: false }
    }

    /// A handler begins.
    pub(super) fn begin(&mut self, now: u64, task: &Task) {
        let (fence, message) = (task.fence, &task.message);
        if message.queue != Queue::Calls || message.started == Some(fence.epoch) {
            return;
        }
        let due = now.saturating_add(self.after_ms);
        let run =
            RunningCall { fence, running: ProcessingReport::of(message), due, is_reported: false };
        self.report_at = self.report_at.min(due);
        self.running.insert(task.stream_no(), run);
    }

    /// A handler ended. One of another epoch may run by now.
    pub(super) fn end(&mut self, task: &Task) {
        let run = self.running.get(&task.stream_no());
        if run.is_some_and(|run| run.fence == task.fence && run.running.at == task.at()) {
            self.running.remove(&task.stream_no());
        }
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.after_ms);
    }

    /// When something may be due.
    pub(super) fn report_at(&self) -> u64 {
        if self.is_reporting { u64::MAX } else { self.report_at }
    }

    /// The calls to be reported now, in partitions that are ours. Their report is under way from now on.
    pub(super) fn due(&mut self, now: u64, is_ours: impl Fn(Fence) -> bool) -> Vec<RunningCall> {
        if now < self.report_at() {
            return Vec::new();
        }
        self.running.retain(|_, run| is_ours(run.fence));
        let unreported = self.running.values_mut().filter(|run| !run.is_reported && run.due <= now);
        let due: Vec<RunningCall> = unreported
            .take(SEND_MAX)
            .map(|run| {
                run.is_reported = true;
                run.clone()
            })
            .collect();
        self.is_reporting = !due.is_empty();
        let next = self.running.values().filter(|run| !run.is_reported).map(|run| run.due).min();
        let soon = now.saturating_add(self.after_ms / REPORTS);
        self.report_at = next.map_or(u64::MAX, |next| next.max(soon));
        due
    }

    /// A report succeeded, or failed: then its calls are reported again, as far as they still run.
    pub(super) fn reported(&mut self, now: u64, calls: &[RunningCall], is_reported: bool) {
        self.is_reporting = false;
        if is_reported {
            return;
        }
        let due = now.saturating_add(self.after_ms);
        for one in calls {
            let run = self.running.get_mut(&one.running.at.stream_no);
            let Some(run) = run.filter(|run| **run == *one) else { continue };
            (run.due, run.is_reported) = (due, false);
            self.report_at = self.report_at.min(due);
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

    fn streams(running: &[RunningCall]) -> Vec<u64> {
        let mut streams: Vec<u64> = running.iter().map(|run| run.running.at.stream_no).collect();
        streams.sort_unstable();
        streams
    }

    #[test]
    fn a_call_is_reported_once_when_it_runs_for_long() {
        let mut calls = LongCalls::new(1000);
        assert_eq!(calls.report_at(), u64::MAX);
        calls.begin(0, &task(1, Queue::Calls));
        calls.begin(10, &task(2, Queue::Calls));
        calls.begin(10, &task(3, Queue::Inbox));
        calls.begin(900, &task(4, Queue::Calls));
        calls.end(&task(2, Queue::Calls));
        assert_eq!(calls.report_at(), 1000);
        assert!(calls.due(999, |_| true).is_empty());
        let due = calls.due(1000, |_| true);
        assert_eq!(streams(&due), [1]);
        assert_eq!(calls.report_at(), u64::MAX, "one at a time");
        calls.reported(1001, &due, true);
        assert_eq!(calls.report_at(), 1900);
        let due = calls.due(1900, |_| true);
        assert_eq!(streams(&due), [4]);
        calls.reported(1901, &due, true);
        assert_eq!(calls.report_at(), u64::MAX, "each was reported");
    }

    #[test]
    fn what_was_marked_or_is_lost_is_not_reported() {
        let mut calls = LongCalls::new(1000);
        let mut marked = task(1, Queue::Calls);
        Arc::make_mut(&mut marked.message).started = Some(7);
        calls.begin(0, &marked);
        assert_eq!(calls.report_at(), u64::MAX);
        calls.begin(0, &task(2, Queue::Calls));
        assert!(calls.due(1000, |_| false).is_empty());
        assert_eq!(calls.report_at(), u64::MAX);
    }

    #[test]
    fn a_report_that_failed_is_tried_again_while_the_call_runs() {
        let mut calls = LongCalls::new(1000);
        calls.begin(0, &task(1, Queue::Calls));
        calls.begin(0, &task(2, Queue::Calls));
        let due = calls.due(1000, |_| true);
        assert_eq!(streams(&due), [1, 2]);
        calls.end(&task(1, Queue::Calls));
        calls.reported(1100, &due, false);
        assert_eq!(calls.report_at(), 2100);
        assert_eq!(streams(&calls.due(2100, |_| true)), [2]);
    }

    #[test]
    fn a_late_end_leaves_the_next_epochs_run() {
        let mut calls = LongCalls::new(1000);
        let old = task(1, Queue::Calls);
        let mut new = task(1, Queue::Calls);
        new.fence.epoch = 9;
        calls.begin(0, &old);
        calls.begin(500, &new);
        calls.end(&old);
        let due = calls.due(1500, |_| true);
        assert_eq!(due.iter().map(|run| run.fence.epoch).collect::<Vec<_>>(), [9]);
        calls.end(&new);
        calls.reported(1501, &due, false);
        assert_eq!(calls.report_at(), u64::MAX);
    }

    #[test]
    fn calls_that_come_due_one_by_one_are_reported_together() {
        let mut calls = LongCalls::new(800);
        for no in 0..100 {
            calls.begin(no, &task(no, Queue::Calls));
        }
        let (mut now, mut reports, mut reported) = (0, 0, 0);
        while calls.report_at() < u64::MAX {
            now = now.max(calls.report_at());
            let due = calls.due(now, |_| true);
            (reports, reported) = (reports + 1, reported + due.len());
            calls.reported(now, &due, true);
        }
        assert_eq!((reports, reported), (2, 100));
    }
}
