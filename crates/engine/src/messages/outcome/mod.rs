//! The outcome of an attempt: what is committed for its message, and how its stream goes on. The
//! decision (done, again, given up) is in `policy.rs`.

mod policy;

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use windrow_domain::{InstanceId, Queue, RequestId};
use windrow_store::call::headers::EXPIRES_AT;
use windrow_store::call::{CallKey, CallResult};
use windrow_store::message::{Commit, Message, MessageRef, Started};
use windrow_store::partition::Fence;

pub(crate) use self::policy::{NO_TARGET, OutcomePolicy, RetryDecision};

/// One attempt of a message.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) fence: Fence,
    pub(crate) message: Arc<Message>,
    /// The number of the attempt, from 1.
    pub(crate) attempt: u32,
}

impl Task {
    pub(crate) fn stream_no(&self) -> u64 {
        self.message.at.stream_no
    }

    pub(crate) fn at(&self) -> MessageRef {
        self.message.at
    }

    /// When a call has lived long enough, if it said so.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        let said = self.message.headers.get(EXPIRES_AT);
        said.filter(|_| self.message.queue == Queue::Calls)?.parse().ok()
    }

    fn empty_commit(&self) -> Commit {
        let mut commit = Commit::new(InstanceId(Default::default()));
        commit.fences.push(self.fence);
        commit
    }

    /// The key of the call; none for a message.
    pub(crate) fn call_key(&self) -> Option<CallKey> {
        let is_call = self.message.queue == Queue::Calls;
        let request_id = is_call.then(|| RequestId::new(self.message.id.clone()).ok()).flatten()?;
        Some(CallKey { owner: self.message.owner.clone(), request_id })
    }
}

/// A stream of messages, by its queue, or of events; its owner and its name.
pub(crate) type WrittenStream = (Option<Queue>, String, String);

/// What the commit of an attempt makes of its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MessageOutcome {
    /// The beginning of its attempt is stored; the handler runs next.
    Started,
    /// It is done; a call has its reply.
    Done,
    /// This consumer is done with it, and others are not.
    DoneBy(String),
    /// It is tried again, not before that time.
    Retry(Timestamp),
    /// The publishers that do not have it have refused it, and the message waits for these alone from now
    /// on: the next commit gives it up with this error.
    GiveUpRest(String),
    /// It was given up on: a dead letter, or a call with an error.
    Dead,
}

/// What is to be committed for a message. `effect` names no instance yet.
#[derive(Clone, Debug)]
pub(crate) struct PendingCommit {
    pub(crate) task: Task,
    pub(crate) effect: Commit,
    pub(crate) outcome: MessageOutcome,
    /// Whether it is the record of a failure; when that conflicts, too, the message is gone.
    pub(crate) is_failure: bool,
}

impl PendingCommit {
    /// The answer of a call that it stores.
    pub(crate) fn answer(&self) -> Option<&CallResult> {
        self.effect.calls.first()
    }

    /// The streams that it writes to. A transaction of others may hold the lock of one of these, which is
    /// why a commit is refused.
    pub(crate) fn written_streams(&self) -> Vec<WrittenStream> {
        let effect = &self.effect;
        let sent = effect.messages.iter().map(|new| (Some(new.queue), &new.owner, &new.stream));
        let appended = effect.events.iter().map(|append| (None, &append.owner, &append.stream));
        let kept = sent.chain(appended).map(|(queue, owner, stream)| {
            (queue, owner.as_str().to_owned(), stream.as_str().to_owned())
        });
        let called = effect.submits.iter().map(|call| {
            let object = format!("{}/{}", call.object_type, call.object_id);
            (Some(Queue::Calls), call.key.owner.as_str().to_owned(), object)
        });
        kept.chain(called).collect()
    }

    /// What the object's state is afterwards, when it changes.
    pub(crate) fn state(&self) -> Option<&Option<Bytes>> {
        self.effect.states.first().map(|put| &put.state)
    }

    fn new(task: Task, effect: Commit, outcome: MessageOutcome) -> Self {
        Self { task, effect, outcome, is_failure: false }
    }

    /// Stores that an attempt begins.
    pub(crate) fn started(task: Task) -> Self {
        let mut effect = task.empty_commit();
        effect.started.push(Started { at: task.at() });
        Self::new(task, effect, MessageOutcome::Started)
    }
}
