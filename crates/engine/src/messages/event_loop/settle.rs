//! Settling: what the result of a commit means for its stream, its waiters and the caches.

use crate::messages::client::waiters::AnswerSignal;
use crate::messages::commit::CommitResult;
use crate::messages::gauges::count;
use crate::messages::outcome::{MessageOutcome, PendingCommit};
use crate::messages::stream_backoff::HELD;

use super::EventLoop;

impl EventLoop {
    /// A commit ended: its stream goes on as the result says.
    pub(super) fn settle(&mut self, pending: PendingCommit, result: CommitResult) {
        let (fence, stream_no) = (pending.task.fence, pending.task.stream_no());
        match result {
            CommitResult::Busy { alone } => {
                if self.queues.is_ours(fence) {
                    self.refused(pending, alone);
                }
            }
            CommitResult::Committed(partitions) => {
                self.store_pause.clear();
                self.busy_pause.clear();
                self.stream_backoff.free(|| pending.written_streams());
                partitions.into_iter().for_each(|no| self.queues.mark_dirty(no));
                if let Some(result) = pending.answer() {
                    self.deps
                        .notifier
                        .waiters
                        .notify(&result.key, &AnswerSignal::Answer(result.answer.clone()));
                }
                if self.queues.is_ours(fence) {
                    self.committed(pending);
                }
            }
            CommitResult::Gone | CommitResult::Unknown | CommitResult::Lost => {
                // The answer may be there, or come from another instance.
                if let Some(key) = pending.task.call_key() {
                    self.deps.notifier.waiters.notify(&key, &AnswerSignal::Recheck);
                }
                if self.queues.is_ours(fence) {
                    self.states.forget(stream_no);
                    self.queues.forget(stream_no);
                }
                match result {
                    CommitResult::Lost => self.halt(&[fence]),
                    // Also when it is gone: a database that contradicts itself is not asked in a rush.
                    _ => self.pause_store(),
                }
            }
        }
    }

    /// A commit was refused because something was locked. Nothing happened: what writes to no further stream
    /// is committed again, the others one by one, and one that is refused alone is put off.
    fn refused(&mut self, pending: PendingCommit, alone: bool) {
        let (now, written) = (self.deps.clock.millis(), pending.written_streams());
        if written.is_empty() {
            self.busy_pause.extend(now, &self.deps.jitter);
            self.pending.push_front(pending);
        } else if alone {
            let wait = self.stream_backoff.block(now, written);
            let pending = self.policy.put_off(pending.task, HELD, wait);
            self.push(pending);
        } else {
            self.alone.push_back(pending);
        }
    }

    fn committed(&mut self, pending: PendingCommit) {
        let (fence, stream_no) = (pending.task.fence, pending.task.stream_no());
        let counters = self.deps.counters.clone();
        if let Some(state) = pending.state() {
            self.states.put(stream_no, fence.partition, state.clone());
        }
        match pending.outcome {
            MessageOutcome::Started => {
                self.queues.mark(stream_no, fence.epoch);
                self.start(stream_no);
            }
            MessageOutcome::Done => {
                count(&counters.done);
                self.queues.finish(stream_no);
            }
            MessageOutcome::DoneBy(consumer) => self.queues.done_by(stream_no, &consumer),
            MessageOutcome::Retry(not_before) => {
                count(&counters.retries);
                self.queues.put_off(stream_no);
                self.note_due(fence.partition, not_before);
            }
            MessageOutcome::GiveUpRest(error) => {
                // The attempt was counted with the commit before.
                let pending = self.policy.give_up(pending.task, &error, false);
                self.push(pending);
            }
            MessageOutcome::Dead => {
                count(&counters.dead);
                self.policy.availability.forget(pending.task.at());
                let (id, queue) = (&pending.task.message.id, pending.task.message.queue);
                tracing::warn!(id, %queue, attempt = pending.task.attempt, "a message was given up on");
                self.queues.finish(stream_no);
            }
        }
    }
}
