//! Publishing a message of the outbox: to all its publishers at once.
//!
//! Holds throughout: each publisher is judged by itself, and none that has the message or refused it for
//! good gets it again.

use futures_util::future::join_all;
use jiff::Timestamp;
use windrow_domain::attempt::Failure;

use crate::deliver::OutgoingMessage;

use crate::messages::availability::DeliveryState;
use crate::messages::handler::registry::NamedPublisher;
use crate::messages::handler::{Effects, HandlerError};
use crate::messages::outcome::{OutcomePolicy, PendingCommit, RetryDecision, Task};

use super::bounded;

/// How one publisher fared with a message.
enum Delivery {
    /// It has the message.
    Published,
    /// It failed, after so many attempts that counted before this one.
    Failed(u32, Failure),
    /// Its next attempt is not due yet.
    Waits(Timestamp),
    /// It refused the message for good in an earlier attempt.
    Refused(String),
}

/// Publishes everywhere at once. After a partial failure the message waits for the publishers that failed.
pub(super) async fn publish(
    policy: &OutcomePolicy,
    task: Task,
    publishers: Vec<NamedPublisher>,
    ms_max: u64,
) -> PendingCommit {
    let message = &task.message;
    let outgoing = OutgoingMessage {
        id: message.id.clone(),
        owner: message.owner.clone(),
        stream: message.stream.as_str().to_owned(),
        kind: message.kind.clone(),
        payload: message.payload.clone(),
        headers: message.headers.clone(),
        sent_at: message.sent_at,
        attempt: task.attempt,
    };
    let (task_, outgoing) = (&task, &outgoing);
    let attempts =
        publishers.iter().map(|named| publish_to(policy, task_, named, outgoing, ms_max));
    let deliveries = join_all(attempts).await;
    let mut undelivered = Undelivered::default();
    for (delivery, (name, _)) in deliveries.into_iter().zip(&publishers) {
        undelivered.add(policy, &task, name, delivery);
    }
    undelivered.into_commit(policy, task, publishers.len())
}

async fn publish_to(
    policy: &OutcomePolicy,
    task: &Task,
    (name, publisher): &NamedPublisher,
    outgoing: &OutgoingMessage,
    ms_max: u64,
) -> Delivery {
    // Of a message that another instance tried, only the number of all attempts is known.
    let others = || DeliveryState { attempts: task.message.attempts, ..DeliveryState::default() };
    let delivery = policy.availability.delivery_state(task.at(), name).unwrap_or_else(others);
    if let Some(error) = delivery.refused {
        return Delivery::Refused(error);
    }
    if let Some(due) = delivery.due.filter(|due| *due > policy.clock.now()) {
        return Delivery::Waits(due);
    }
    let target = target(name);
    if let Some(failure) = policy.availability.blocked(&target) {
        return Delivery::Failed(delivery.attempts, failure);
    }
    let _request = policy.availability.begin_request(&target);
    let publish = async { publisher.publish(outgoing).await.map_err(HandlerError) };
    let result = bounded(policy, ms_max, publish).await;
    policy.availability.record_result(&target, result.as_ref().err().map(|error| &error.0));
    match result {
        Ok(()) => Delivery::Published,
        Err(HandlerError(failure)) => Delivery::Failed(delivery.attempts, failure),
    }
}

fn target(publisher: &str) -> String {
    format!("publisher {publisher}")
}

/// The publishers that do not have a message.
#[derive(Default)]
struct Undelivered {
    /// In the order of the publishers, those that refused it included.
    names: Vec<String>,
    errors: Vec<String>,
    refusals: Vec<String>,
    /// When the next attempt of one of them is due.
    due: Option<Timestamp>,
    counts: bool,
}

impl Undelivered {
    fn add(&mut self, policy: &OutcomePolicy, task: &Task, name: &str, delivery: Delivery) {
        let (before, failure) = match delivery {
            Delivery::Published => return,
            Delivery::Waits(due) => {
                self.names.push(name.to_owned());
                return self.wait(due);
            }
            Delivery::Refused(error) => return self.refuse(name, error),
            Delivery::Failed(before, failure) => (before, failure),
        };
        let error = format!("{name}: {}", failure.message);
        let attempts = before.saturating_add(u32::from(!failure.is_unavailable()));
        let mut delivery = DeliveryState { attempts, ..DeliveryState::default() };
        match policy.decide(task, &target(name), attempts, &failure) {
            RetryDecision::Retry { not_before, counts } => {
                self.names.push(name.to_owned());
                self.errors.push(error);
                self.counts |= counts;
                delivery.due = Some(not_before);
                self.wait(not_before);
            }
            RetryDecision::GiveUp => {
                self.counts |= !failure.is_unavailable();
                delivery.refused = Some(error.clone());
                self.refuse(name, error);
            }
        }
        policy.availability.set_delivery_state(task.at(), name, delivery);
    }

    fn wait(&mut self, due: Timestamp) {
        self.due = Some(self.due.map_or(due, |other| other.min(due)));
    }

    fn refuse(&mut self, name: &str, error: String) {
        self.names.push(name.to_owned());
        self.refusals.push(error);
    }

    /// What is to be committed when there were `asked` publishers.
    fn into_commit(self, policy: &OutcomePolicy, task: Task, asked: usize) -> PendingCommit {
        if self.names.is_empty() {
            policy.availability.forget(task.at());
            return policy.succeeded(task, Effects::none(), None);
        }
        let all_failed = self.names.len() == asked;
        let error = match [self.errors, self.refusals].concat() {
            none if none.is_empty() => task.message.error.clone().unwrap_or_default(),
            errors => errors.join("; "),
        };
        match self.due {
            Some(due) => {
                // When none has it, the publishers are found by pattern again then.
                let waiting = if all_failed { Vec::new() } else { self.names };
                policy.retry_at(task, &error, due, waiting, self.counts)
            }
            None if all_failed => policy.give_up(task, &error, self.counts),
            None => policy.give_up_rest(task, &error, self.names, self.counts),
        }
    }
}
