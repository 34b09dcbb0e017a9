//! Handlers in a transaction of their own: the handler's SQL and its effects are committed together or not
//! at all.
//!
//! Holds throughout: such a commit is never gathered with others; what the database refuses, and what the
//! handler does wrong, is a failed attempt of its own message, recorded like every other; when the result
//! of the commit is unknown, nothing is assumed.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use windrow_domain::InstanceId;
use windrow_store::error::{Cause, chain};
use windrow_store::message::Commit;
use windrow_store::transactional::{Script, ScriptError, Sql};
use windrow_store::{Error, Kind};

use crate::messages::commit::{
    CommitResult, Committer, is_one_messages_fault, merged, new_partitions,
};
use crate::messages::gauges::count;
use crate::messages::handler::registry::TransactionPlan;
use crate::messages::handler::{Context, HandlerError};
use crate::messages::outcome::{NO_TARGET, OutcomePolicy, PendingCommit, Task};
use crate::messages::stream_backoff;

/// How a handler with a transaction of its own ended.
pub(crate) enum TransactionEnd {
    /// Its transaction is committed, lost, or unknown.
    Settled(Box<PendingCommit>, CommitResult),
    /// It failed, and the record of that is to be committed.
    Failed(Box<PendingCommit>),
}

/// A call or a message as a script.
struct HandlerScript {
    plan: TransactionPlan,
    policy: OutcomePolicy,
    instance: InstanceId,
    task: Task,
    state: Option<Bytes>,
    /// What came of the handler, for when the transaction has ended.
    result: Arc<Mutex<Option<PendingCommit>>>,
}

#[async_trait]
impl Script for HandlerScript {
    async fn run(self: Box<Self>, sql: &mut dyn Sql) -> Result<Commit, Cause> {
        let Self { plan, policy, instance, task, state, result } = *self;
        let message = task.message.clone();
        let context = Context::new(&message, task.attempt, state);
        let (target, payload) = (plan.target(), message.payload.clone());
        let request = policy.availability.begin_request(&target);
        let (returned, name) = match plan {
            TransactionPlan::Object { object, .. } => {
                (object.call(context, sql, &message.kind, payload).await, None)
            }
            TransactionPlan::Consumer { name, consumer, .. } => {
                (consumer.consume(context.by(name.as_deref()), sql, payload).await, name)
            }
        };
        drop(request);
        let pending = policy.outcome_of(task, &target, returned, name);
        let commit = merged(instance, std::slice::from_ref(&pending));
        let is_failure = pending.is_failure;
        *result.lock() = Some(pending);
        if is_failure { Err("the handler failed".into()) } else { Ok(commit) }
    }
}

impl Committer {
    /// Runs a handler in its own transaction, which commits its effects.
    pub(crate) async fn run_transaction(
        &self,
        instance: InstanceId,
        plan: TransactionPlan,
        task: Task,
        state: Option<Bytes>,
    ) -> TransactionEnd {
        let (ms_max, fences) = (plan.ms_max(), [task.fence]);
        let result = Arc::default();
        let script = HandlerScript {
            plan,
            policy: self.policy.clone(),
            instance,
            task: task.clone(),
            state,
            result: Arc::clone(&result),
        };
        let done = self.store.commit_with(instance, &fences, ms_max, Box::new(script)).await;
        let pending = result.lock().take();
        match (done, pending) {
            (Ok(committed), Some(pending)) => {
                count(&self.counters.commits);
                let result = CommitResult::Committed(new_partitions(&committed));
                TransactionEnd::Settled(Box::new(pending), result)
            }
            // Nothing is committed before the handler has returned.
            (Ok(_), None) => TransactionEnd::Settled(
                Box::new(PendingCommit::started(task)),
                CommitResult::Unknown,
            ),
            (Err(error), pending) => self.transaction_failed(&error, task, pending),
        }
    }

    fn transaction_failed(
        &self,
        error: &Error,
        task: Task,
        pending: Option<PendingCommit>,
    ) -> TransactionEnd {
        let failed = |error: HandlerError| {
            let pending = self.policy.failed(task.clone(), NO_TARGET, &error.0);
            TransactionEnd::Failed(Box::new(pending))
        };
        match (error.script_error(), pending) {
            (Some(ScriptError::Late(ms_max)), _) => failed(HandlerError::timeout(*ms_max)),
            (Some(ScriptError::Panicked(text)), _) => failed(HandlerError::panicked(text)),
            (Some(ScriptError::Failed(_)), Some(pending)) if pending.is_failure => {
                TransactionEnd::Failed(Box::new(pending))
            }
            // The handler ignored a statement that failed.
            (Some(ScriptError::Failed(cause)), _) => failed(HandlerError::retry(cause.to_string())),
            (None, Some(pending)) if is_one_messages_fault(error.kind) && !pending.is_failure => {
                count(&self.counters.conflicts);
                TransactionEnd::Failed(Box::new(self.conflicted(pending, error)))
            }
            // Something was locked: nothing happened, and the attempt does not count.
            (None, _) if error.kind == Kind::Busy => {
                count(&self.counters.conflicts);
                let error = format!("what it needs is in use: {}", chain(error));
                let wait = stream_backoff::first_wait(&self.policy.jitter);
                TransactionEnd::Failed(Box::new(self.policy.put_off(task, &error, wait)))
            }
            (None, pending) => {
                let result = match error.kind {
                    Kind::LeaseLost | Kind::Missing => CommitResult::Lost,
                    _ => {
                        count(&self.counters.commits_unknown);
                        CommitResult::Unknown
                    }
                };
                let error = chain(error);
                tracing::warn!(error, "a handler's own transaction failed");
                let pending = pending.unwrap_or_else(|| PendingCommit::started(task));
                TransactionEnd::Settled(Box::new(pending), result)
            }
        }
    }
}
