//! Starting: what is known before a handler runs decides whether it runs.

use std::str::FromStr;

use bytes::Bytes;
use windrow_domain::{CrashPolicy, Queue};
use windrow_store::call::headers::POLICY;
use windrow_store::message::Message;
use windrow_store::object::{OBJECTS_MAX, ObjectKey};

use crate::messages::attempt;
use crate::messages::entry::{Entry, OURSELVES, Task};
use crate::messages::handler::Effects;
use crate::messages::options::Unrouted;
use crate::messages::registry::{Own, Plan};

use super::{Actor, Event};

/// Whether a call fails when its instance dies.
fn fails_by_crash(message: &Message) -> bool {
    let policy = message.headers.get(POLICY).and_then(|word| CrashPolicy::from_str(word).ok());
    message.queue == Queue::Calls && policy == Some(CrashPolicy::Fail)
}

impl Actor {
    /// Starts as many streams as there may be.
    pub(super) fn start_streams(&mut self) {
        while self.board.busy < self.core.options.streams_in_flight_max {
            let Some(stream_no) = self.board.begin() else { return };
            self.start(stream_no);
        }
    }

    /// Starts the head of a stream that is worked on.
    pub(super) fn start(&mut self, stream_no: u64) {
        let Some((fence, held, message)) = self.board.head(stream_no) else { return };
        let (is_marked, alone) = (held.marked, held.alone);
        let due = message.not_before.filter(|_| message.at.position != held.due && !is_marked);
        if let Some(due) = due.filter(|due| *due > self.core.clock.now()) {
            self.board.put_off(stream_no);
            return self.note_due(fence.partition, due);
        }
        let attempt = message.attempts + u32::from(!is_marked);
        let task = Task { fence, message: message.clone(), attempt };
        if let Some(entry) = (!is_marked).then(|| self.crashed(&task)).flatten() {
            return self.push(entry);
        }
        let plan = match self.core.registry.plan(&task.message) {
            Ok(plan) => plan,
            Err(error) => {
                let entry = self.unrouted(task, &error);
                return self.push(entry);
            }
        };
        let target = plan.target().unwrap_or_default();
        let shut = self.judge.away.shut(&target).filter(|_| !is_marked && !alone);
        if let Some(failure) = shut {
            let entry = self.judge.failed(task, &target, &failure);
            return self.push(entry);
        }
        // A mark counts the try, and one that meets nobody is not to count. Should it kill us all the
        // same, whoever takes over marks it.
        let is_outside = plan.is_outside() && !self.judge.away.is_known(&target);
        let wants_mark = is_outside || alone || fails_by_crash(&task.message);
        match wants_mark && !is_marked {
            true => self.push(Entry::mark(task)),
            false => self.launch(task, plan),
        }
    }

    /// What a try that was begun and never ended means.
    fn crashed(&self, task: &Task) -> Option<Entry> {
        let started = task.message.started?;
        let by_us = started == task.fence.epoch;
        if fails_by_crash(&task.message) {
            let error = match by_us {
                true => "it ran, and what it gave could not be stored",
                false => "its instance died while it ran",
            };
            return Some(self.judge.give_up(task.clone(), error));
        }
        let tries = task.message.attempts;
        if tries < self.core.options.retry.attempts_max {
            return None;
        }
        let error = format!("it was begun {tries} times, and its instance died while it ran");
        Some(self.judge.give_up(task.clone(), &error))
    }

    /// Nobody takes it.
    fn unrouted(&self, task: Task, error: &str) -> Entry {
        match self.core.options.unrouted {
            _ if task.message.queue == Queue::Calls => self.fail(task, error),
            Unrouted::DeadLetter => self.fail(task, error),
            Unrouted::Keep => self.judge.keep(task, error),
            Unrouted::Drop => {
                tracing::debug!(id = task.message.id, error, "a message is dropped");
                self.judge.succeeded(task, Effects::none(), None)
            }
        }
    }

    fn fail(&self, task: Task, error: &str) -> Entry {
        let failure = crate::messages::handler::HandlerError::retry(error).0;
        self.judge.failed(task, OURSELVES, &failure)
    }

    /// Runs it; a call whose object's state is unknown waits for that.
    fn launch(&mut self, task: Task, plan: Plan) {
        match plan {
            Plan::Call(_) | Plan::Inside(Own::Object(_)) => match self.states.get(task.stream_no())
            {
                Some(state) => self.spawn(task, plan, state),
                None => self.unloaded.push((task, plan)),
            },
            Plan::Consume { .. } | Plan::Inside(Own::Consumer { .. }) | Plan::Publish(_) => {
                self.spawn(task, plan, None);
            }
        }
    }

    pub(super) fn spawn(&mut self, task: Task, plan: Plan, state: Option<Bytes>) {
        self.runs.begin(self.core.clock.millis(), &task);
        if let Plan::Inside(own) = plan {
            let (committer, instance) = (self.committer.clone(), self.core.shared.instance());
            let inside = self.inside.clone();
            self.tasks.spawn(async move {
                // It is never closed.
                let _place = inside.acquire().await;
                Event::Ran(committer.run_inside(instance, own, task, state).await)
            });
            return;
        }
        let (judge, ms_max) = (self.judge.clone(), self.core.options.handler_ms_max);
        self.tasks.spawn(async move {
            Event::Tried(Box::new(attempt::run(judge, plan, task, state, ms_max).await))
        });
    }

    /// Asks for the states that are wanted, many at once.
    pub(super) fn load_states(&mut self) {
        while !self.unloaded.is_empty() {
            let many = self.unloaded.len().min(OBJECTS_MAX);
            let waiting: Vec<(Task, Plan)> = self.unloaded.drain(..many).collect();
            let store = self.core.store.clone();
            self.tasks.spawn(async move {
                let keys: Vec<ObjectKey> = waiting.iter().map(|(task, _)| key(task)).collect();
                let states = store.states(&keys).await;
                Event::Loaded(waiting, states)
            });
        }
    }
}

fn key(task: &Task) -> ObjectKey {
    ObjectKey { owner: task.message.owner.clone(), stream: task.message.stream.clone() }
}
