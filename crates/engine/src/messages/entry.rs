//! What one message comes to: what is to be committed for it, and what that means for its stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use windrow_domain::attempt::{Class, Failure};
use windrow_domain::retry::{Decision, GiveUpPolicy, Policy};
use windrow_domain::{DeadLetterId, InstanceId, Queue, RequestId};
use windrow_store::call::{Answer, CallKey, CallResult};
use windrow_store::message::{
    Commit, Dead, Done, ERROR_BYTES_MAX, FailedTry, Message, MessageRef, Started,
};
use windrow_store::object::{ObjectKey, PutState};
use windrow_store::partition::Fence;

use crate::clock::Clock;

use super::away::Away;
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

    pub(super) fn at(&self) -> MessageRef {
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

/// A stream of messages, by its queue, or of events; its owner and its name.
pub(super) type Touched = (Option<Queue>, String, String);

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
    /// Those who do not have it are all it waits for from now on, and they will not have it: it is to be
    /// given up on, with this error.
    Narrowed(String),
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

    /// The streams that it writes to, which others may hold: who is locked out of one of these is why a
    /// commit was refused.
    pub(super) fn touched(&self) -> Vec<Touched> {
        let effect = &self.effect;
        let sent = effect.messages.iter().map(|new| (Some(new.queue), &new.owner, &new.stream));
        let told = effect.events.iter().map(|append| (None, &append.owner, &append.stream));
        let kept = sent.chain(told).map(|(queue, owner, stream)| {
            (queue, owner.as_str().to_owned(), stream.as_str().to_owned())
        });
        let asked = effect.submits.iter().map(|call| {
            let object = format!("{}/{}", call.object_type, call.object_id);
            (Some(Queue::Calls), call.key.owner.as_str().to_owned(), object)
        });
        kept.chain(asked).collect()
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

/// How it goes on with a message for one who failed to take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// It is asked again.
    Again { not_before: Timestamp, counts: bool },
    /// It is not asked again.
    Never,
}

/// Turns what a try gave into entries.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    pub(super) policy: Policy,
    pub(super) patience: GiveUpPolicy,
    pub(super) clock: Clock,
    pub(super) away: Arc<Away>,
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
            return self.failed(task, OURSELVES, &failure);
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
        if let Err(error) = effect.check() {
            let error = error.named("commit", "");
            let because = windrow_store::error::chain(&error);
            let failure = permanent(format!("its effects cannot be stored: {because}"));
            return self.failed(task, OURSELVES, &failure);
        }
        Entry::new(task, effect, end)
    }

    /// The try failed: again later, or never.
    pub(super) fn failed(&self, task: Task, target: &str, failure: &Failure) -> Entry {
        match self.rule(&task, target, task.attempt, failure) {
            Ruling::Again { not_before, counts } => {
                self.again(task, &failure.message, not_before, Vec::new(), counts)
            }
            Ruling::Never => self.give_up(task, &failure.message),
        }
    }

    /// How it goes on after a target failed to take a message, the `tries`-th time that counts.
    pub(super) fn rule(&self, task: &Task, target: &str, tries: u32, failure: &Failure) -> Ruling {
        let (now, at) = (self.clock.now(), task.at());
        if !failure.is_unavailable() {
            self.away.met(at);
            return match self.policy.decide(tries, failure, now, fastrand::f64()) {
                Decision::Again { not_before } => Ruling::Again { not_before, counts: true },
                Decision::GiveUp(_) => Ruling::Never,
            };
        }
        let age = Duration::try_from(now.duration_since(task.message.sent_at)).unwrap_or_default();
        let (own, longest) = self.away.ages(at, target);
        if self.patience.is_over(age, own) {
            return Ruling::Never;
        }
        let roll = fastrand::f64();
        let wait = self.patience.delay(&self.policy, longest, failure.retry_after, roll);
        let wait = self.away.back_after(target, wait);
        let not_before = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        Ruling::Again { not_before, counts: false }
    }

    /// It waits so long, and the try does not count.
    pub(super) fn put_off(&self, task: Task, error: &str, wait: Duration) -> Entry {
        let until = self.clock.now().checked_add(wait).unwrap_or(Timestamp::MAX);
        self.again(task, error, until, Vec::new(), false)
    }

    /// Nobody takes it: it is looked at again in a while.
    pub(super) fn keep(&self, task: Task, error: &str) -> Entry {
        let wait = Duration::from_millis(self.policy.backoff_ms_max.min(KEEP_MS));
        self.put_off(task, error, wait)
    }

    /// It is to be given up on, and waits for nobody but these from now on.
    pub(super) fn narrow(&self, task: Task, error: &str, waiting: Vec<String>) -> Entry {
        let end = End::Narrowed(error.to_owned());
        Entry { end, ..self.again(task, error, self.clock.now(), waiting, false) }
    }

    /// It is tried again. `waiting` are the consumers that are left; empty for no change.
    pub(super) fn again(
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
const KEEP_MS: u64 = 10_000;
/// Who failed, when it is no target: nobody waits for it to come back.
pub(super) const OURSELVES: &str = "";

pub(super) fn permanent(message: String) -> Failure {
    Failure::permanent(Class::Permanent.as_str(), message)
}

/// An error as databases keep it: bounded, and without zero characters.
fn storable(error: &str) -> String {
    let mut end = error.len().min(ERROR_BYTES_MAX);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    error[..end].replace('\0', " ")
}
