//! Calls and messages in their own transaction: the handler's SQL and what comes of it, together or not at
//! all.
//!
//! Holds throughout: such a one is never gathered with others; what the database refuses, and what the
//! handler does wrong, is a failed try of its own message, recorded like every other; when nobody knows
//! what the commit did, nothing is assumed.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use windrow_domain::InstanceId;
use windrow_store::error::Cause;
use windrow_store::message::Commit;
use windrow_store::transactional::{Script, ScriptError, Sql};
use windrow_store::{Error, Kind};

use windrow_store::error::chain;

use super::commit::{Committer, Verdict, is_somebodys, merged, new_partitions};
use super::context::Context;
use super::entry::{Entry, Judge, OURSELVES, Task};
use super::gauges::count;
use super::handler::HandlerError;
use super::registry::Own;

/// What is known after one that had its own transaction.
pub(super) enum Ran {
    /// It is committed, lost, or nobody knows.
    Settled(Box<Entry>, Verdict),
    /// It failed, and that is to be committed.
    Failed(Box<Entry>),
}

/// A call or a message as a script.
struct Inside {
    own: Own,
    judge: Judge,
    instance: InstanceId,
    task: Task,
    state: Option<Bytes>,
    /// What the handler gave, for when the transaction has ended.
    gave: Arc<Mutex<Option<Entry>>>,
}

#[async_trait]
impl Script for Inside {
    async fn run(self: Box<Self>, sql: &mut dyn Sql) -> Result<Commit, Cause> {
        let Self { own, judge, instance, task, state, gave } = *self;
        let message = task.message.clone();
        let context = Context::new(&message, task.attempt, state);
        let (target, payload) = (own.target(), message.payload.clone());
        let asking = judge.away.ask(&target);
        let (gives, name) = match own {
            Own::Object(object) => (object.call(context, sql, &message.kind, payload).await, None),
            Own::Consumer { name, consumer, .. } => {
                (consumer.consume(context.by(name.as_deref()), sql, payload).await, name)
            }
        };
        drop(asking);
        let entry = judge.judged(task, &target, gives, name);
        let commit = merged(instance, std::slice::from_ref(&entry));
        let is_failure = entry.is_failure;
        *gave.lock() = Some(entry);
        match is_failure {
            true => Err("the handler failed".into()),
            false => Ok(commit),
        }
    }
}

impl Committer {
    /// Runs a handler in its own transaction, and commits what it gives there.
    pub(super) async fn run_inside(
        &self,
        instance: InstanceId,
        own: Own,
        task: Task,
        state: Option<Bytes>,
    ) -> Ran {
        let (ms_max, fences) = (own.ms_max(), [task.fence]);
        let gave = Arc::default();
        let script = Inside {
            own,
            judge: self.judge.clone(),
            instance,
            task: task.clone(),
            state,
            gave: Arc::clone(&gave),
        };
        let done = self.store.commit_with(instance, &fences, ms_max, Box::new(script)).await;
        let gave = gave.lock().take();
        match (done, gave) {
            (Ok(committed), Some(entry)) => {
                count(&self.counters.commits);
                let verdict = Verdict::Committed(new_partitions(&committed));
                Ran::Settled(Box::new(entry), verdict)
            }
            // Nothing is committed before the handler has given something.
            (Ok(_), None) => Ran::Settled(Box::new(Entry::mark(task)), Verdict::Unknown),
            (Err(error), gave) => self.broke_off(&error, task, gave),
        }
    }

    fn broke_off(&self, error: &Error, task: Task, gave: Option<Entry>) -> Ran {
        let failed = |error: HandlerError| {
            let entry = self.judge.failed(task.clone(), OURSELVES, &error.0);
            Ran::Failed(Box::new(entry))
        };
        match (error.script_error(), gave) {
            (Some(ScriptError::Late(ms_max)), _) => failed(HandlerError::timeout(*ms_max)),
            (Some(ScriptError::Panicked(word)), _) => {
                failed(HandlerError::retry(format!("the handler panicked: {word}")))
            }
            (Some(ScriptError::Failed(_)), Some(entry)) if entry.is_failure => {
                Ran::Failed(Box::new(entry))
            }
            // It made light of a statement that failed.
            (Some(ScriptError::Failed(cause)), _) => failed(HandlerError::retry(cause.to_string())),
            (None, Some(entry)) if is_somebodys(error.kind) && !entry.is_failure => {
                count(&self.counters.conflicts);
                Ran::Failed(Box::new(self.conflicted(entry, error)))
            }
            // Something was locked: nothing happened, and nobody is to blame.
            (None, _) if error.kind == Kind::Busy => {
                count(&self.counters.conflicts);
                let told = format!("what it needs is in use: {}", chain(error));
                let wait = super::contended::wait(0);
                Ran::Failed(Box::new(self.judge.put_off(task, &told, wait)))
            }
            (None, gave) => {
                let verdict = match error.kind {
                    Kind::LeaseLost | Kind::Missing => Verdict::Lost,
                    _ => {
                        count(&self.counters.commits_unknown);
                        Verdict::Unknown
                    }
                };
                let told = chain(error);
                tracing::warn!(error = %told, "a handler's own transaction did not end well");
                let entry = gave.unwrap_or_else(|| Entry::mark(task));
                Ran::Settled(Box::new(entry), verdict)
            }
        }
    }
}
