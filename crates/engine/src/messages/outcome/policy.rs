//! Judging an attempt: what is committed after a success, a failure, or an unavailable target.
//!
//! Holds throughout: effects that cannot be stored fail their own message; an attempt that found
//! the target unavailable does not count, and its message is given up on only when it is old enough
//! and its own attempts have found the target unavailable for long enough ([`GiveUpPolicy`]); every
//! other failure counts, up to the policy's most attempts; a call whose time is over is not run again.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use windrow_domain::DeadLetterId;
use windrow_domain::attempt::Failure;
use windrow_domain::call::expired_error;
use windrow_domain::retry::{Decision, GiveUpPolicy, Policy};
use windrow_store::call::{Answer, CallResult};
use windrow_store::error::chain;
use windrow_store::message::{Dead, Done, FailedAttempt, error_text};
use windrow_store::object::{ObjectKey, PutState};

use crate::clock::Clock;
use crate::jitter::Jitter;
use crate::messages::availability::Availability;
use crate::messages::handler::{Effects, HandlerError, StateChange};

use super::{MessageOutcome, PendingCommit, Task};

/// Whether a target gets a message again that it failed to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// Again, not before that time; whether the attempt counts.
    Retry { not_before: Timestamp, counts: bool },
    /// Not again: the message is a dead letter, the call fails.
    GiveUp,
}

/// Turns the result of an attempt into what is to be committed.
#[derive(Clone, Debug)]
pub(crate) struct OutcomePolicy {
    pub(crate) retry: Policy,
    pub(crate) give_up_policy: GiveUpPolicy,
    pub(crate) clock: Clock,
    pub(crate) jitter: Jitter,
    pub(crate) availability: Arc<Availability>,
}

impl OutcomePolicy {
    /// A handler returned or failed; the target's availability is noted. `consumer` is the name that is
    /// done, when the message waits for names.
    pub(crate) fn outcome_of(
        &self,
        task: Task,
        target: &str,
        result: Result<Effects, HandlerError>,
        consumer: Option<String>,
    ) -> PendingCommit {
        self.availability.record_result(target, result.as_ref().err().map(|error| &error.0));
        match result {
            Ok(effects) => {
                self.availability.forget(task.at());
                self.succeeded(task, effects, consumer)
            }
            Err(error) => self.failed(task, target, &error.0),
        }
    }

    /// The attempt succeeded.
    pub(crate) fn succeeded(
        &self,
        task: Task,
        effects: Effects,
        consumer: Option<String>,
    ) -> PendingCommit {
        let mut effect = task.empty_commit();
        let key =
            ObjectKey { owner: task.message.owner.clone(), stream: task.message.stream.clone() };
        let state = match effects.state {
            StateChange::Keep => None,
            StateChange::Put(state) => Some(Some(state)),
            StateChange::Forget => Some(None),
        };
        let call = task.call_key();
        if state.is_some() && call.is_none() {
            let error = HandlerError::permanent("only objects keep a state");
            return self.failed(task, NO_TARGET, &error.0);
        }
        effect.states.extend(state.map(|state| PutState { key, state }));
        effect.events = effects.events;
        effect.messages = effects.messages;
        effect.submits = effects.calls;
        let outcome = match (call, consumer) {
            (Some(key), _) => {
                let answer = Answer::Reply(effects.reply);
                effect.calls.push(CallResult { key, at: task.at(), answer });
                MessageOutcome::Done
            }
            (None, Some(name)) if task.message.waiting.iter().any(|other| *other != name) => {
                effect.done.push(Done { at: task.at(), consumer: Some(name.clone()) });
                MessageOutcome::DoneBy(name)
            }
            (None, consumer) => {
                effect.done.push(Done { at: task.at(), consumer });
                MessageOutcome::Done
            }
        };
        if let Err(error) = effect.check() {
            let because = chain(&error.named("commit", ""));
            let because = format!("its effects cannot be stored: {because}");
            return self.failed(task, NO_TARGET, &HandlerError::permanent(because).0);
        }
        PendingCommit::new(task, effect, outcome)
    }

    /// The attempt failed: the message is tried again later, or given up on.
    pub(crate) fn failed(&self, task: Task, target: &str, failure: &Failure) -> PendingCommit {
        match self.decide(&task, target, task.attempt, failure) {
            RetryDecision::Retry { not_before, counts } => {
                self.retry_at(task, &failure.message, not_before, Vec::new(), counts)
            }
            RetryDecision::GiveUp => {
                self.give_up(task, &failure.message, !failure.is_unavailable())
            }
        }
    }

    /// How it goes on after a target failed to take a message, in the `attempts`-th attempt that counts.
    pub(crate) fn decide(
        &self,
        task: &Task,
        target: &str,
        attempts: u32,
        failure: &Failure,
    ) -> RetryDecision {
        let (now, at) = (self.clock.now(), task.at());
        if !failure.is_unavailable() {
            self.availability.reached(at);
            // The policy of lines has no bound for one that is throttled; a message's attempts count here.
            let is_over = attempts >= self.retry.attempts_max;
            return match self.retry.decide(attempts, failure, now, self.jitter.roll()) {
                Decision::Again { not_before } if !is_over => {
                    RetryDecision::Retry { not_before, counts: true }
                }
                Decision::Again { .. } | Decision::GiveUp(_) => RetryDecision::GiveUp,
            };
        }
        let age = Duration::try_from(now.duration_since(task.message.sent_at)).unwrap_or_default();
        let (age_unavailable, longest) = self.availability.outage_ages(at, target);
        if self.give_up_policy.is_over(age, age_unavailable) {
            return RetryDecision::GiveUp;
        }
        let roll = self.jitter.roll();
        let wait = self.give_up_policy.delay(&self.retry, longest, failure.retry_after, roll);
        let wait = self.availability.spread_retry(target, wait);
        let not_before = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        RetryDecision::Retry { not_before, counts: false }
    }

    /// The message waits so long, and the attempt does not count.
    pub(crate) fn put_off(&self, task: Task, error: &str, wait: Duration) -> PendingCommit {
        let until = self.clock.now().checked_add(wait).unwrap_or(Timestamp::MAX);
        self.retry_at(task, error, until, Vec::new(), false)
    }

    /// No handler takes it: the message waits for one.
    pub(crate) fn keep_waiting(&self, task: Task, error: &str) -> PendingCommit {
        let wait = Duration::from_millis(self.retry.backoff_ms_max.min(KEEP_MS));
        self.put_off(task, error, wait)
    }

    /// The message waits for these publishers alone from now on, and is given up on next.
    pub(crate) fn give_up_rest(
        &self,
        task: Task,
        error: &str,
        waiting: Vec<String>,
        counts: bool,
    ) -> PendingCommit {
        let outcome = MessageOutcome::GiveUpRest(error.to_owned());
        PendingCommit { outcome, ..self.retry_at(task, error, self.clock.now(), waiting, counts) }
    }

    /// Ends a call whose time is over: it is not run any more.
    pub(crate) fn expired(&self, task: &Task) -> Option<PendingCommit> {
        task.expires_at().filter(|at| *at <= self.clock.now())?;
        let error = expired_error(task.message.error.as_deref());
        Some(self.give_up(task.clone(), &error, false))
    }

    /// The message is tried again. `waiting` are the consumers that are left; empty for no change. A call
    /// whose time is over before is looked at then, so that it ends in time.
    pub(crate) fn retry_at(
        &self,
        task: Task,
        error: &str,
        not_before: Timestamp,
        waiting: Vec<String>,
        counts: bool,
    ) -> PendingCommit {
        let mut effect = task.empty_commit();
        let (at, error) = (task.at(), error_text(error).into_owned());
        let over = task.expires_at().map(|over| over.max(self.clock.now()));
        let not_before = over.map_or(not_before, |over| not_before.min(over));
        effect.failed.push(FailedAttempt { at, error, not_before, waiting, counts });
        PendingCommit {
            is_failure: true,
            ..PendingCommit::new(task, effect, MessageOutcome::Retry(not_before))
        }
    }

    /// The message is not tried again; whether the attempt that was the last one counts.
    pub(crate) fn give_up(&self, task: Task, error: &str, counts: bool) -> PendingCommit {
        let mut effect = task.empty_commit();
        let (at, error) = (task.at(), error_text(error).into_owned());
        match task.call_key() {
            Some(key) => {
                effect.calls.push(CallResult { key, at, answer: Answer::Error(error) });
            }
            None => effect.dead.push(Dead { at, id: DeadLetterId::new(), error, counts }),
        }
        PendingCommit { is_failure: true, ..PendingCommit::new(task, effect, MessageOutcome::Dead) }
    }
}

/// Longest wait of a message that no handler takes before it is tried again.
const KEEP_MS: u64 = 10_000;
/// Instead of a target, when what failed is none and no message waits for it to come back.
pub(crate) const NO_TARGET: &str = "";
