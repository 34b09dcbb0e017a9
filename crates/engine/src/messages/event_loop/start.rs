//! Starting the head of a stream: what is known before its handler runs decides whether it runs.

use std::str::FromStr;

use bytes::Bytes;
use windrow_domain::millis;
use windrow_domain::{CrashPolicy, Queue};
use windrow_store::call::headers::POLICY;
use windrow_store::message::Message;
use windrow_store::object::{OBJECTS_MAX, ObjectKey};

use crate::messages::handler::registry::Plan;
use crate::messages::outcome::{PendingCommit, Task};
use crate::messages::run;

use super::EventLoop;
use super::results::TaskResult;

/// Whether a call fails when its instance dies.
fn fails_by_crash(message: &Message) -> bool {
    let policy = message.headers.get(POLICY).and_then(|word| CrashPolicy::from_str(word).ok());
    message.queue == Queue::Calls && policy == Some(CrashPolicy::Fail)
}

impl EventLoop {
    /// Starts as many streams as may run.
    pub(super) fn start_streams(&mut self) {
        while self.queues.busy < self.deps.options.streams_in_flight_max {
            let Some(stream_no) = self.queues.begin() else { return };
            self.start(stream_no);
        }
    }

    /// Starts the head of a stream that is worked on.
    pub(super) fn start(&mut self, stream_no: u64) {
        let Some((fence, queue, message)) = self.queues.head(stream_no) else { return };
        let (is_marked, alone) = (queue.marked, queue.alone);
        let due = message.not_before.filter(|_| message.at.position != queue.due && !is_marked);
        if let Some(due) = due.filter(|due| *due > self.deps.clock.now()) {
            self.queues.put_off(stream_no);
            return self.note_due(fence.partition, due);
        }
        let attempt = message.attempts + u32::from(!is_marked);
        let task = Task { fence, message: message.clone(), attempt };
        let ended = || self.crashed(&task).or_else(|| self.policy.expired(&task));
        if let Some(pending) = (!is_marked).then(ended).flatten() {
            return self.push(pending);
        }
        let plan = match self.deps.registry.plan(&task.message) {
            Ok(plan) => plan,
            // Another member may have the handler: who has is asked first.
            Err(error) => return self.unrouted.add(task, error),
        };
        let target = plan.target().unwrap_or_default();
        let blocked = self.policy.availability.blocked(&target).filter(|_| !is_marked && !alone);
        if let Some(failure) = blocked {
            let pending = self.policy.failed(task, &target, &failure);
            return self.push(pending);
        }
        // The stored beginning counts the attempt, and one that finds its target unavailable is not to
        // count. Should it kill this process all the same, the next owner stores the beginning.
        let is_outside = plan.is_outside() && !self.policy.availability.is_unavailable(&target);
        let wants_mark = is_outside || alone || fails_by_crash(&task.message);
        if wants_mark && !is_marked {
            self.push(PendingCommit::started(task));
        } else {
            self.launch(task, plan);
        }
    }

    /// What an attempt that was begun and never ended means.
    fn crashed(&self, task: &Task) -> Option<PendingCommit> {
        let started = task.message.started?;
        let by_us = started == task.fence.epoch;
        if fails_by_crash(&task.message) {
            let error = if by_us {
                "it ran, and what it gave could not be stored"
            } else {
                "its instance died while it ran"
            };
            return Some(self.policy.give_up(task.clone(), error, true));
        }
        let attempts = task.message.attempts;
        if attempts < self.deps.options.retry.attempts_max {
            return None;
        }
        let error = format!("it was begun {attempts} times, and its instance died while it ran");
        Some(self.policy.give_up(task.clone(), &error, true))
    }

    /// Runs the handler; a call whose object's state is not cached waits for that.
    fn launch(&mut self, task: Task, plan: Plan) {
        if !plan.has_state() {
            return self.spawn(task, plan, None);
        }
        match self.states.get(task.stream_no()) {
            Some(state) => self.spawn(task, plan, state),
            None => self.unloaded.push((task, plan)),
        }
    }

    pub(super) fn spawn(&mut self, task: Task, plan: Plan, state: Option<Bytes>) {
        self.long_calls.begin(self.deps.clock.millis(), &task);
        match plan {
            Plan::Transaction(plan) => {
                let (committer, instance) = (self.committer.clone(), self.deps.notifier.instance());
                let slots = self.transactions.clone();
                self.tasks.spawn(async move {
                    // The semaphore is never closed.
                    let _slot = slots.acquire().await;
                    let ended = committer.run_transaction(instance, plan, task, state).await;
                    TaskResult::TransactionEnded(ended)
                });
            }
            Plan::Plain(plan) => {
                let (policy, ms_max) =
                    (self.policy.clone(), millis(self.deps.options.handler_timeout));
                self.tasks.spawn(async move {
                    let pending = run::run(policy, plan, task, state, ms_max).await;
                    TaskResult::Ran(Box::new(pending))
                });
            }
        }
    }

    /// Loads the states that are missing, many at once.
    pub(super) fn load_states(&mut self) {
        while !self.unloaded.is_empty() {
            let many = self.unloaded.len().min(OBJECTS_MAX);
            let waiting: Vec<(Task, Plan)> = self.unloaded.drain(..many).collect();
            let store = self.deps.store.clone();
            self.tasks.spawn(async move {
                let keys: Vec<ObjectKey> = waiting.iter().map(|(task, _)| key(task)).collect();
                let states = store.states(&keys).await;
                TaskResult::StatesLoaded(waiting, states)
            });
        }
    }
}

fn key(task: &Task) -> ObjectKey {
    ObjectKey { owner: task.message.owner.clone(), stream: task.message.stream.clone() }
}
