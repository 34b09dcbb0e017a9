//! One try of one message: the handler runs, bounded in time, and what it gave becomes an entry.
//!
//! Holds throughout: a handler that panics, hangs or fails is a failed try of its own message and
//! nothing else; no handler runs inside a transaction here (see `own`); publishers of one message are
//! judged each by itself, and none that has the message or refused it for good is asked again.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use jiff::Timestamp;
use windrow_domain::attempt::Failure;

use crate::deliver::OutgoingMessage;

use super::away::Tally;
use super::context::Context;
use super::entry::{Entry, Judge, OURSELVES, Ruling, Task, permanent};
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
    let target = plan.target().unwrap_or_default();
    match plan {
        Plan::Call(object) => {
            let asking = judge.away.ask(&target);
            let call = object.call(context, &message.kind, payload);
            let result = bounded(&judge, ms_max, call).await;
            drop(asking);
            judge.judged(task, &target, result, None)
        }
        Plan::Consume { name, consumer, .. } => {
            let asking = judge.away.ask(&target);
            let consume = consumer.consume(context.by(name.as_deref()), payload);
            let result = bounded(&judge, ms_max, consume).await;
            drop(asking);
            judge.judged(task, &target, result, name)
        }
        Plan::Inside(_) => {
            let failure = permanent("its transaction is begun elsewhere".to_owned());
            judge.failed(task, OURSELVES, &failure)
        }
        Plan::Publish(publishers) => publish(&judge, task, publishers, ms_max).await,
    }
}

impl Judge {
    /// What a handler gave.
    pub(super) fn judged(
        &self,
        task: Task,
        target: &str,
        result: Result<Effects, HandlerError>,
        name: Option<String>,
    ) -> Entry {
        self.away.note(target, result.as_ref().err().map(|error| &error.0));
        match result {
            Ok(effects) => {
                self.away.forget(task.at());
                self.succeeded(task, effects, name)
            }
            Err(error) => self.failed(task, target, &error.0),
        }
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
    format!("the handler panicked: {}", windrow_store::error::panic_text(panic))
}

/// What a publisher did with a message.
enum Published {
    Has,
    /// After so many tries that counted.
    Failed(u32, Failure),
    /// It was not its turn.
    Waits(Timestamp),
    /// It refused it before.
    Refused(String),
}

/// Publishes everywhere at once. On partial failure the message waits for those that are left.
async fn publish(judge: &Judge, task: Task, publishers: Vec<Named>, ms_max: u64) -> Entry {
    let message = &task.message;
    let parcel = OutgoingMessage {
        id: message.id.clone(),
        owner: message.owner.clone(),
        stream: message.stream.as_str().to_owned(),
        kind: message.kind.clone(),
        payload: message.payload.clone(),
        headers: message.headers.clone(),
        sent_at: message.sent_at,
        attempt: task.attempt,
    };
    let (task_, parcel) = (&task, &parcel);
    let tries = publishers.iter().map(|named| publish_to(judge, task_, named, parcel, ms_max));
    let published = join_all(tries).await;
    let mut left = Left::default();
    for (published, (name, _)) in published.into_iter().zip(&publishers) {
        left.add(judge, &task, name, published);
    }
    left.entry(judge, task, publishers.len())
}

async fn publish_to(
    judge: &Judge,
    task: &Task,
    (name, publisher): &Named,
    parcel: &OutgoingMessage,
    ms_max: u64,
) -> Published {
    // Of a message that others tried before us, only the number of all tries is known.
    let others = || Tally { tries: task.message.attempts, ..Tally::default() };
    let tally = judge.away.tally(task.at(), name).unwrap_or_else(others);
    if let Some(error) = tally.refused {
        return Published::Refused(error);
    }
    if let Some(due) = tally.due.filter(|due| *due > judge.clock.now()) {
        return Published::Waits(due);
    }
    let target = target(name);
    if let Some(failure) = judge.away.shut(&target) {
        return Published::Failed(tally.tries, failure);
    }
    let _asking = judge.away.ask(&target);
    let publish = async { publisher.publish(parcel).await.map_err(HandlerError) };
    let result = bounded(judge, ms_max, publish).await;
    judge.away.note(&target, result.as_ref().err().map(|error| &error.0));
    match result {
        Ok(()) => Published::Has,
        Err(HandlerError(failure)) => Published::Failed(tally.tries, failure),
    }
}

fn target(publisher: &str) -> String {
    format!("publisher {publisher}")
}

/// Who does not have a message.
#[derive(Default)]
struct Left {
    /// In the order of the publishers, with those who refused it.
    names: Vec<String>,
    errors: Vec<String>,
    refusals: Vec<String>,
    /// When the next of those who may still take it is asked.
    due: Option<Timestamp>,
    counts: bool,
}

impl Left {
    fn add(&mut self, judge: &Judge, task: &Task, name: &str, published: Published) {
        let (before, failure) = match published {
            Published::Has => return,
            Published::Waits(due) => {
                self.names.push(name.to_owned());
                return self.wait(due);
            }
            Published::Refused(error) => return self.refuse(name, error),
            Published::Failed(before, failure) => (before, failure),
        };
        let error = format!("{name}: {}", failure.message);
        let tries = before.saturating_add(u32::from(!failure.is_unavailable()));
        let mut tally = Tally { tries, ..Tally::default() };
        match judge.rule(task, &target(name), tries, &failure) {
            Ruling::Again { not_before, counts } => {
                self.names.push(name.to_owned());
                self.errors.push(error);
                self.counts |= counts;
                tally.due = Some(not_before);
                self.wait(not_before);
            }
            Ruling::Never => {
                self.counts = true;
                tally.refused = Some(error.clone());
                self.refuse(name, error);
            }
        }
        judge.away.keep(task.at(), name, tally);
    }

    fn wait(&mut self, due: Timestamp) {
        self.due = Some(self.due.map_or(due, |other| other.min(due)));
    }

    fn refuse(&mut self, name: &str, error: String) {
        self.names.push(name.to_owned());
        self.refusals.push(error);
    }

    /// What is to be committed when there were `asked` publishers.
    fn entry(self, judge: &Judge, task: Task, asked: usize) -> Entry {
        if self.names.is_empty() {
            judge.away.forget(task.at());
            return judge.succeeded(task, Effects::none(), None);
        }
        let everybody = self.names.len() == asked;
        let error = match [self.errors, self.refusals].concat() {
            none if none.is_empty() => task.message.error.clone().unwrap_or_default(),
            errors => errors.join("; "),
        };
        match self.due {
            Some(due) => {
                // When nobody has it, it stays open to whoever takes such messages by then.
                let waiting = if everybody { Vec::new() } else { self.names };
                judge.again(task, &error, due, waiting, self.counts)
            }
            None if everybody => judge.give_up(task, &error),
            None => judge.narrow(task, &error, self.names),
        }
    }
}
