//! What one message comes to: what is to be committed for it, and what that means for its stream.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use windrow_domain::attempt::{Class, Failure};
use windrow_domain::retry::{Decision, Policy};
use windrow_domain::{DeadLetterId, InstanceId, Queue, RequestId};
use windrow_store::call::{Answer, CallKey, CallResult};
use windrow_store::message::{
    Commit, Dead, Done, ERROR_BYTES_MAX, FailedTry, Message, MessageRef, Started,
};
use windrow_store::object::{ObjectKey, PutState};
use windrow_store::partition::Fence;

use crate::clock::Clock;

use super::handler::{Effects, StateChange};

/// A message that is being worked on.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) fence: Fence,
    pub(super) message: Arc<Message>,
    /// Which try this is, from 1.
    pub(super) attempt: u32,
}

impl Task {
    pub(super) fn stream_no(&self) -> u64 {
        self.message.at.stream_no
    }

    fn at(&self) -> MessageRef {
        self.message.at
    }

    fn blank(&self) -> Commit {
        let mut commit = Commit::new(InstanceId(Default::default()));
        commit.fences.push(self.fence);
        commit
    }

    /// Which call it is.
    pub(super) fn call_key(&self) -> Option<CallKey> {
        let is_call = self.message.queue == Queue::Calls;
        let request_id = is_call.then(|| RequestId::new(self.message.id.clone()).ok()).flatten()?;
        Some(CallKey { owner: self.message.owner.clone(), request_id })
    }
}

/// How it goes on with the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It begins.
    Marked,
    /// It is done; a call has its reply.
    Done,
    /// This consumer is done with it, and others are not.
    DoneBy(String),
    /// It is tried again.
    Again(Timestamp),
    /// It was given up on; a call has its error.
    Dead,
}

/// What is to be committed for a message. `effect` names no instance yet.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) task: Task,
    pub(super) effect: Commit,
    pub(super) end: End,
    /// Whether it is the record of a failure; when that conflicts, too, the message is gone.
    pub(super) is_failure: bool,
}

impl Entry {
    /// The answer that a call gets by it.
    pub(super) fn answer(&self) -> Option<&CallResult> {
        self.effect.calls.first()
    }

    /// What the object's state is afterwards, when it changes.
    pub(super) fn state(&self) -> Option<&Option<Bytes>> {
        self.effect.states.first().map(|put| &put.state)
    }

    fn new(task: Task, effect: Commit, end: End) -> Self {
        Self { task, effect, end, is_failure: false }
    }

    /// The message is begun with.
    pub(super) fn mark(task: Task) -> Self {
        let mut effect = task.blank();
        effect.started.push(Started { at: task.at() });
        Self::new(task, effect, End::Marked)
    }
}

/// Turns what a try gave into entries.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    pub(super) policy: Policy,
    pub(super) clock: Clock,
}

impl Judge {
    /// The try succeeded. `consumer` is who is done, when the message waits for names.
    pub(super) fn succeeded(
        &self,
        task: Task,
        effects: Effects,
        consumer: Option<String>,
    ) -> Entry {
        let mut effect = task.blank();
        let key =
            ObjectKey { owner: task.message.owner.clone(), stream: task.message.stream.clone() };
        let state = match effects.state {
            StateChange::Keep => None,
            StateChange::Put(state) => Some(Some(state)),
            StateChange::Forget => Some(None),
        };
        let call = task.call_key();
        if state.is_some() && call.is_none() {
            let failure = permanent("only objects keep a state".to_owned());
            return self.failed(task, &failure, Vec::new());
        }
        effect.states.extend(state.map(|state| PutState { key, state }));
        effect.events = effects.events;
        effect.messages = effects.messages;
        effect.submits = effects.calls;
        let end = match (call, consumer) {
            (Some(key), _) => {
                let answer = Answer::Reply(effects.reply);
                effect.calls.push(CallResult { key, at: task.at(), answer });
                End::Done
            }
            (None, Some(name)) if task.message.waiting.iter().any(|other| *other != name) => {
                effect.done.push(Done { at: task.at(), consumer: Some(name.clone()) });
                End::DoneBy(name)
            }
            (None, consumer) => {
                effect.done.push(Done { at: task.at(), consumer });
                End::Done
            }
        };
        if let Err(error) = effect.check("commit") {
            let because = crate::member::causes(&error);
            let failure = permanent(format!("its effects cannot be stored: {because}"));
            return self.failed(task, &failure, Vec::new());
        }
        Entry::new(task, effect, end)
    }

    /// The try failed: again later, or never. `waiting` are the consumers that are left; empty for no
    /// change.
    pub(super) fn failed(&self, task: Task, failure: &Failure, waiting: Vec<String>) -> Entry {
        let now = self.clock.now();
        match self.policy.decide(task.attempt, failure, now, fastrand::f64()) {
            Decision::Again { not_before } => {
                self.again(task, &failure.message, not_before, waiting, true)
            }
            Decision::GiveUp(_) => self.give_up(task, &failure.message),
        }
    }

    /// It waits, and the try does not count.
    pub(super) fn put_off(&self, task: Task, error: &str) -> Entry {
        let wait = std::time::Duration::from_millis(self.policy.backoff_ms_max.min(PUT_OFF_MS));
        let until = self.clock.now().checked_add(wait).unwrap_or(Timestamp::MAX);
        self.again(task, error, until, Vec::new(), false)
    }

    fn again(
        &self,
        task: Task,
        error: &str,
        not_before: Timestamp,
        waiting: Vec<String>,
        counts: bool,
    ) -> Entry {
        let mut effect = task.blank();
        let (at, error) = (task.at(), storable(error));
        effect.failed.push(FailedTry { at, error, not_before, waiting, counts });
        Entry { is_failure: true, ..Entry::new(task, effect, End::Again(not_before)) }
    }

    /// It is not tried again.
    pub(super) fn give_up(&self, task: Task, error: &str) -> Entry {
        let mut effect = task.blank();
        let (at, error) = (task.at(), storable(error));
        match task.call_key() {
            Some(key) => {
                effect.calls.push(CallResult { key, at, answer: Answer::Error(error) });
            }
            None => effect.dead.push(Dead { at, id: DeadLetterId::new(), error }),
        }
        Entry { is_failure: true, ..Entry::new(task, effect, End::Dead) }
    }
}

/// Longest wait of a message that nobody takes before it is looked at again.
const PUT_OFF_MS: u64 = 10_000;

pub(super) fn permanent(message: String) -> Failure {
    let (class, code) = (Class::Permanent, Class::Permanent.as_str().to_owned());
    Failure { class, code, message, retry_after: None }
}

/// An error as databases keep it: bounded, and without zero characters.
fn storable(error: &str) -> String {
    let mut end = error.len().min(ERROR_BYTES_MAX);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    error[..end].replace('\0', " ")
}
