//! One try of one message: the handler runs, bounded in time, and what it gave becomes an entry.
//!
//! Holds throughout: a handler that panics, hangs or fails is a failed try of its own message and
//! nothing else; no handler runs inside a transaction here (see `own`).

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use windrow_domain::attempt::Failure;

use crate::deliver::Parcel;

use super::context::Context;
use super::entry::{Entry, Judge, Task, permanent};
use super::handler::{Effects, HandlerError};
use super::registry::{Named, Plan};

/// Runs a plan once.
pub(super) async fn run(
    judge: Judge,
    plan: Plan,
    task: Task,
    state: Option<Bytes>,
    ms_max: u64,
) -> Entry {
    let message = task.message.clone();
    let context = Context::new(&message, task.attempt, state);
    let payload = message.payload.clone();
    match plan {
        Plan::Call(object) => {
            let call = object.call(context, &message.kind, payload);
            judged(&judge, task, bounded(&judge, ms_max, call).await, None)
        }
        Plan::Consume { name, consumer } => {
            let consume = consumer.consume(context.by(name.as_deref()), payload);
            judged(&judge, task, bounded(&judge, ms_max, consume).await, name)
        }
        Plan::Inside(_) => {
            let failure = permanent("its transaction is begun elsewhere".to_owned());
            judge.failed(task, &failure, Vec::new())
        }
        Plan::Publish(publishers) => publish(&judge, task, publishers, ms_max).await,
    }
}

fn judged(
    judge: &Judge,
    task: Task,
    result: Result<Effects, HandlerError>,
    name: Option<String>,
) -> Entry {
    match result {
        Ok(effects) => judge.succeeded(task, effects, name),
        Err(error) => judge.failed(task, &error.0, Vec::new()),
    }
}

/// Waits for a handler no longer than it may take; a panic is its error.
async fn bounded<T>(
    judge: &Judge,
    ms_max: u64,
    handler: impl Future<Output = Result<T, HandlerError>>,
) -> Result<T, HandlerError> {
    tokio::select! {
        biased;
        result = AssertUnwindSafe(handler).catch_unwind() => {
            result.unwrap_or_else(|panic| Err(HandlerError::retry(panicked(&*panic))))
        }
        () = judge.clock.sleep(Duration::from_millis(ms_max)) => Err(HandlerError::timeout(ms_max)),
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the handler panicked: {}", text.as_deref().unwrap_or("without a word"))
}

/// Publishes everywhere at once. On partial failure the message waits for those that are left.
async fn publish(judge: &Judge, task: Task, publishers: Vec<Named>, ms_max: u64) -> Entry {
    let message = &task.message;
    let parcel = Parcel {
        id: message.id.clone(),
        owner: message.owner.clone(),
        stream: message.stream.as_str().to_owned(),
        kind: message.kind.clone(),
        payload: message.payload.clone(),
        headers: message.headers.clone(),
        sent_at: message.sent_at,
        attempt: task.attempt,
    };
    let parcel = &parcel;
    let tries = publishers.iter().map(|(_, publisher)| {
        let publish = async move { publisher.publish(parcel).await.map_err(HandlerError) };
        bounded(judge, ms_max, publish)
    });
    let results = join_all(tries).await;
    let failed = results.into_iter().zip(&publishers);
    let failed: Vec<(&str, Failure)> =
        failed.filter_map(|(result, (name, _))| Some((&**name, result.err()?.0))).collect();
    let Some(hardest) = failed.iter().map(|(_, failure)| failure).min_by_key(|failure| {
        // The one that allows the most tries decides: the others are tried with it.
        std::cmp::Reverse(judge.policy.attempts_max(failure.class))
    }) else {
        return judge.succeeded(task, Effects::none(), None);
    };
    let told = failed.iter().map(|(name, failure)| format!("{name}: {}", failure.message));
    let message = told.collect::<Vec<_>>().join("; ");
    // When nobody has it, it stays open to whoever takes such messages by then.
    let waiting = match failed.len() == publishers.len() {
        true => Vec::new(),
        false => failed.iter().map(|(name, _)| (*name).to_owned()).collect(),
    };
    let failure = Failure { message, ..hardest.clone() };
    judge.failed(task, &failure, waiting)
}
