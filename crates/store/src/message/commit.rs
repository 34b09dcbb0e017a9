//! What a commit is made of: messages that end, begin or failed, and the effects of their handlers.

use std::collections::BTreeSet;

use jiff::Timestamp;
use windrow_domain::{DeadLetterId, InstanceId};

use super::{Message, MessageRef, NewMessage, SEND_MAX, Sent, check_send};
use crate::call::{CallResult, NewCall};
use crate::event::{Append, Appended};
use crate::object::PutState;
use crate::partition::Fence;
use crate::{Error, Result, error};

/// A message that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The message that is done.
    pub at: MessageRef,
    /// The consumer that is done; those that are left begin with no attempts behind them. None ends
    /// the message, whatever other consumers it waits for.
    pub consumer: Option<String>,
}

/// The mark of a start: the partition's owner stores that an attempt of this message begins, before
/// its handler runs. The attempt counts from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The message whose attempt begins.
    pub at: MessageRef,
}

/// A call whose handler has run for a while, and goes on. It is only shown: no attempt is counted,
/// and what becomes of the call after a crash is as before. The report may be late: it has an
/// effect only while the message is as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessingReport {
    /// The call's message.
    pub at: MessageRef,
    /// [`Message::attempts`], as it was read.
    pub attempts: u32,
    /// [`Message::not_before`], as it was read: a failure that did not count changed it.
    pub not_before: Option<Timestamp>,
}

impl ProcessingReport {
    /// The call of this message runs.
    pub fn of(message: &Message) -> Self {
        Self { at: message.at, attempts: message.attempts, not_before: message.not_before }
    }
}

/// A message that is tried again later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// The message that failed.
    pub at: MessageRef,
    /// The error of the attempt.
    pub error: String,
    /// When it may be tried again.
    pub not_before: Timestamp,
    /// The consumers it waits for from now on; empty for no change.
    pub waiting: Vec<String>,
    /// Whether the attempt counts. One that was [`Started`] has been counted: it is not counted
    /// again, and taken back when it does not count.
    pub counts: bool,
}

/// A message that is given up on. Not for calls: those fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    /// The message that is given up on.
    pub at: MessageRef,
    /// The id of the dead letter that it becomes.
    pub id: DeadLetterId,
    /// The last error, which the dead letter shows.
    pub error: String,
    /// Whether the last attempt counts, one that found its target unavailable does not. One whose
    /// beginning was stored was counted then.
    pub counts: bool,
}

/// The effects of many handlers, committed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The instance that commits, and owns the partitions.
    pub instance: InstanceId,
    /// Every partition of a message or state below, with its epoch.
    pub fences: Vec<Fence>,
    /// Messages whose attempt begins, see [`Started`].
    pub started: Vec<Started>,
    /// Calls that run for long, see [`ProcessingReport`]: each is `processing` from now on, by this
    /// instance. One that is answered, was put off or is no call any more is left as it is, and is
    /// no `Conflict`.
    pub running: Vec<ProcessingReport>,
    /// Messages that a consumer is done with.
    pub done: Vec<Done>,
    /// Messages to be tried again later.
    pub failed: Vec<FailedAttempt>,
    /// Messages that are given up on and become dead letters.
    pub dead: Vec<Dead>,
    /// Calls that have their answer; their messages are done.
    pub calls: Vec<CallResult>,
    /// New states of objects.
    pub states: Vec<PutState>,
    /// Events to append.
    pub events: Vec<Append>,
    /// Messages to send, in this order.
    pub messages: Vec<NewMessage>,
    /// What objects are asked because of it, each as by [`crate::Calls::submit_call`]: a call that was
    /// asked for before is left as it is, and counts as a retry; other arguments under its id are a
    /// `Conflict`.
    pub submits: Vec<NewCall>,
}

impl Commit {
    /// A commit of that instance without effects.
    pub fn new(instance: InstanceId) -> Self {
        Self {
            instance,
            fences: Vec::new(),
            started: Vec::new(),
            running: Vec::new(),
            done: Vec::new(),
            failed: Vec::new(),
            dead: Vec::new(),
            calls: Vec::new(),
            states: Vec::new(),
            events: Vec::new(),
            messages: Vec::new(),
            submits: Vec::new(),
        }
    }

    /// `Invalid` when it is too large, when something in it is wrong, when a message is ended twice, or
    /// when a message's partition is not among the fences.
    pub fn check(&self) -> Result<()> {
        let sizes = [
            ("started", self.started.len()),
            ("running", self.running.len()),
            ("done", self.done.len()),
            ("failed", self.failed.len()),
            ("dead", self.dead.len()),
            ("calls", self.calls.len()),
            ("states", self.states.len()),
            ("submits", self.submits.len()),
        ];
        for (field, size) in sizes {
            error::at_most(field, size, SEND_MAX)?;
        }
        check_send(&self.messages)?;
        crate::event::check_appends(&self.events)?;
        self.states.iter().try_for_each(|state| state.check())?;
        self.calls.iter().try_for_each(|call| call.check())?;
        self.submits.iter().try_for_each(|call| call.check())?;
        self.check_refs()
    }

    fn check_refs(&self) -> Result<()> {
        let ended = (self.done.iter().map(|done| (done.at, done.consumer.as_deref())))
            .chain(self.failed.iter().map(|failed| (failed.at, None)))
            .chain(self.dead.iter().map(|dead| (dead.at, None)))
            .chain(self.calls.iter().map(|call| (call.at, None)));
        let mut seen = BTreeSet::new();
        let started = self.started.iter().map(|started| started.at.partition);
        let running = self.running.iter().map(|running| running.at.partition);
        let mut partitions: Vec<_> = started.chain(running).collect();
        for (at, consumer) in ended {
            if !seen.insert((at, consumer)) {
                let because = format!("message {at:?} is named twice");
                return Err(Error::invalid("messages", because));
            }
            partitions.push(at.partition);
        }
        let fenced: BTreeSet<_> = self.fences.iter().map(|fence| fence.partition).collect();
        match partitions.iter().find(|partition| !fenced.contains(partition)) {
            None => Ok(()),
            Some(missing) => {
                let because = format!("partition {missing} has no fence");
                Err(Error::invalid("fences", because))
            }
        }
    }
}

/// What a commit gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The messages it sent, in their order.
    pub sent: Vec<Sent>,
    /// The messages of the calls it submitted that were not there before.
    pub submitted: Vec<MessageRef>,
    /// The events it appended, in the order of the appends.
    pub appended: Vec<Appended>,
}
