//! Tasks of the loop and what their results mean: reads, states, handlers, commits.

use bytes::Bytes;
use windrow_store::Result;
use windrow_store::error::chain;
use windrow_store::member::Member;
use windrow_store::message::{Read, Work};
use windrow_store::partition::Fence;

use crate::messages::commit::CommitResult;
use crate::messages::gauges::count;
use crate::messages::handler::registry::Plan;
use crate::messages::long_calls::RunningCall;
use crate::messages::outcome::{PendingCommit, Task};
use crate::messages::run::transaction::TransactionEnd;

use super::EventLoop;
use super::unrouted::UnroutedTask;

/// The result of a task.
pub(super) enum TaskResult {
    Read(Read, Result<Work>),
    StatesLoaded(Vec<(Task, Plan)>, Result<Vec<Option<Bytes>>>),
    Ran(Box<PendingCommit>),
    TransactionEnded(TransactionEnd),
    Committed { alone: bool, settled: Vec<(PendingCommit, CommitResult)> },
    LongCallsReported(Vec<RunningCall>, Result<()>),
    IdleSet(bool, Result<()>),
    SuspectsCleared(Vec<Fence>, Result<()>),
    MembersRead(Vec<UnroutedTask>, Result<Vec<Member>>),
}

impl EventLoop {
    pub(super) fn on_result(&mut self, result: TaskResult) {
        match result {
            TaskResult::Read(read, work) => self.on_read(&read, work),
            TaskResult::StatesLoaded(waiting, states) => self.on_states(waiting, states),
            TaskResult::Ran(pending) => {
                self.long_calls.end(&pending.task);
                if self.queues.is_ours(pending.task.fence) {
                    // Its handler has ended; the next suspect is marked in the same commit.
                    self.queues.alone_over(pending.task.stream_no());
                    self.push(*pending);
                }
            }
            TaskResult::TransactionEnded(TransactionEnd::Failed(pending)) => {
                self.on_result(TaskResult::Ran(pending));
            }
            TaskResult::TransactionEnded(TransactionEnd::Settled(pending, result)) => {
                self.long_calls.end(&pending.task);
                self.idle.worked(self.deps.clock.millis());
                self.settle(*pending, result);
            }
            TaskResult::Committed { alone, settled } => {
                self.commits -= 1;
                self.alone_commits -= usize::from(alone);
                self.idle.worked(self.deps.clock.millis());
                settled.into_iter().for_each(|(pending, result)| self.settle(pending, result));
            }
            TaskResult::LongCallsReported(due, reported) => {
                self.long_calls.reported(self.deps.clock.millis(), &due, reported.is_ok());
                if let Err(error) = reported {
                    tracing::warn!(error = %chain(&error), "calls that run for long were not reported");
                    self.check_ownership(error.kind);
                }
            }
            TaskResult::MembersRead(waiting, members) => self.on_members(waiting, members),
            TaskResult::IdleSet(idle, stored) => self.idle_set(idle, &stored),
            TaskResult::SuspectsCleared(fences, cleared) => {
                self.queues.cleared(&fences, cleared.is_ok());
                if let Err(error) = cleared {
                    tracing::warn!(error = %chain(&error), "suspects were not cleared");
                    self.store_failed(error.kind);
                }
            }
        }
    }

    /// Reads the next messages, one read at a time.
    pub(super) fn start_read(&mut self) {
        if self.is_reading {
            return;
        }
        let instance = self.deps.notifier.instance();
        let planned = self.read_planner.plan(&mut self.queues, instance, &self.deps.options);
        let Some(read) = planned else { return };
        self.is_reading = true;
        count(&self.deps.counters.reads);
        let store = self.deps.store.clone();
        self.tasks.spawn(async move {
            let work = store.read_owned(read.clone()).await;
            TaskResult::Read(read, work)
        });
    }

    fn on_read(&mut self, read: &Read, work: Result<Work>) {
        self.is_reading = false;
        let work = match work {
            Ok(work) => work,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "messages could not be read");
                self.read_planner.failed(&mut self.queues, read);
                self.pause_store();
                return self.store_failed(error.kind);
            }
        };
        self.store_pause.clear();
        let now = self.deps.clock.millis();
        if !work.messages.is_empty() {
            self.idle.worked(now);
        }
        if let Some(due) = work.next_due {
            // A time that has passed here and not there would be read for all the time.
            if due <= self.deps.clock.now() {
                self.due_pause.extend(now, &self.deps.jitter);
            } else {
                self.due_pause.clear();
            }
            read.from.iter().for_each(|from| self.note_due(from.fence.partition, due));
        }
        let lost = self.read_planner.admit(&mut self.queues, read, work);
        if !lost.is_empty() {
            self.halt(&lost);
        }
    }

    fn on_states(&mut self, waiting: Vec<(Task, Plan)>, states: Result<Vec<Option<Bytes>>>) {
        let states = match states {
            Ok(states) => states,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "states could not be read");
                self.store_failed(error.kind);
                for (task, _) in waiting {
                    if self.queues.is_ours(task.fence) {
                        self.queues.forget(task.stream_no());
                    }
                }
                return;
            }
        };
        for ((task, plan), state) in waiting.into_iter().zip(states) {
            if self.queues.is_ours(task.fence) {
                self.states.put(task.stream_no(), task.fence.partition, state.clone());
                self.spawn(task, plan, state);
            }
        }
    }

    /// Stores that the suspects of partitions had their turn.
    pub(super) fn clear_suspects(&mut self) {
        let fences = self.queues.take_cleared();
        if fences.is_empty() {
            return;
        }
        let (store, instance) = (self.deps.store.clone(), self.deps.notifier.instance());
        self.tasks.spawn(async move {
            let cleared = store.clear_suspects(instance, &fences).await;
            TaskResult::SuspectsCleared(fences, cleared)
        });
    }
}
