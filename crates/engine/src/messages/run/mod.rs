//! One attempt of one message: the handler runs, bounded in time, and its result becomes a pending commit.
//!
//! Holds throughout: a handler that panics, hangs or fails is a failed attempt of its own message and
//! nothing else; a handler with a transaction of its own runs in [`transaction`] and cannot come here.

mod publish;
pub(crate) mod transaction;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use windrow_store::error::panic_text;

use super::handler::registry::PlainPlan;
use super::handler::{Context, HandlerError};
use super::outcome::{OutcomePolicy, PendingCommit, Task};

/// Runs a plan once.
pub(crate) async fn run(
    policy: OutcomePolicy,
    plan: PlainPlan,
    task: Task,
    state: Option<Bytes>,
    ms_max: u64,
) -> PendingCommit {
    let message = task.message.clone();
    let context = Context::new(&message, task.attempt, state);
    let payload = message.payload.clone();
    let target = plan.target().unwrap_or_default();
    let (result, consumer) = match plan {
        PlainPlan::Publish(publishers) => {
            return publish::publish(&policy, task, publishers, ms_max).await;
        }
        PlainPlan::Call { object, .. } => {
            let _request = policy.availability.begin_request(&target);
            let call = object.call(context, &message.kind, payload);
            (bounded(&policy, ms_max, call).await, None)
        }
        PlainPlan::Consume { name, consumer, .. } => {
            let _request = policy.availability.begin_request(&target);
            let consume = consumer.consume(context.by(name.as_deref()), payload);
            (bounded(&policy, ms_max, consume).await, name)
        }
    };
    policy.outcome_of(task, &target, result, consumer)
}

/// Waits for a handler no longer than it may take; a panic is its error.
async fn bounded<T>(
    policy: &OutcomePolicy,
    ms_max: u64,
    handler: impl Future<Output = Result<T, HandlerError>>,
) -> Result<T, HandlerError> {
    tokio::select! {
        biased;
        result = AssertUnwindSafe(handler).catch_unwind() => {
            result.unwrap_or_else(|panic| Err(HandlerError::panicked(panic_text(&*panic))))
        }
        () = policy.clock.sleep(Duration::from_millis(ms_max)) => Err(HandlerError::timeout(ms_max)),
    }
}
