//! Feeding the inbox: messages of a broker are given to the inbox until it has them.
//!
//! Holds throughout: messages go in the order in which they came; trouble with the store makes them
//! wait where they are, since a broker that gets them back would bring later ones first or count
//! the delivery; one that can never be accepted does not hold up the others.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use windrow_domain::backoff::Backoff;
use windrow_engine::clock::Clock;
use windrow_engine::deliver::{Inbox, IncomingMessage};
use windrow_engine::jitter::Jitter;
use windrow_engine::signal::Stop;
use windrow_store::error::chain;
use windrow_store::{Error, Kind};

use crate::consumer::Source;

/// What the inbox said to a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// The inbox has the message.
    Accepted,
    /// It can never take it, and why.
    Refused(String),
}

/// Gives messages to the inbox.
pub(crate) struct InboxFeeder {
    /// The consumer's name, for the log.
    pub(crate) name: String,
    pub(crate) inbox: Arc<dyn Inbox>,
    pub(crate) clock: Clock,
    jitter: Jitter,
    /// The waits after trouble, with the store or the broker.
    pub(crate) backoff: Backoff,
    /// Longest time that messages wait for the store before the broker gets them back.
    pub(crate) hold: Duration,
}

impl InboxFeeder {
    pub(crate) fn new(
        name: String,
        inbox: Arc<dyn Inbox>,
        clock: Clock,
        backoff: Backoff,
        hold: Duration,
    ) -> Self {
        Self { name, inbox, clock, jitter: Jitter::new(None), backoff, hold }
    }

    /// What the inbox said to each message, in order. None when it was stopped or the store was
    /// unavailable for too long: then the broker still has them. Before each wait they are kept.
    pub(crate) async fn feed<S: Source>(
        &self,
        messages: Vec<IncomingMessage>,
        stop: &Stop,
        source: &S,
        deliveries: &[S::Delivery],
    ) -> Option<Vec<Acceptance>> {
        let count = messages.len();
        let started = self.clock.elapsed();
        let attempt = DeliveryAttempt { feeder: self, stop, started, source, deliveries };
        match attempt.give(messages.clone()).await? {
            Ok(()) => Some((0..count).map(|_| Acceptance::Accepted).collect()),
            Err(error) if count == 1 => Some(vec![Acceptance::Refused(chain(&error))]),
            Err(_) => {
                // One of them is at fault; alone, each shows whether it is the one.
                let mut all = Vec::with_capacity(count);
                for message in messages {
                    all.push(match attempt.give(vec![message]).await? {
                        Ok(()) => Acceptance::Accepted,
                        Err(error) => Acceptance::Refused(chain(&error)),
                    });
                }
                Some(all)
            }
        }
    }

    /// Waits, or wakes when it is stopped; whether to go on.
    pub(crate) async fn wait(&self, backoff: &mut Backoff, stop: &Stop) -> bool {
        tokio::select! {
            () = stop.given() => false,
            () = self.clock.sleep(backoff.next(self.jitter.roll())) => true,
        }
    }
}

/// One delivery to the inbox: when it began decides how long it may last.
struct DeliveryAttempt<'a, S: Source> {
    feeder: &'a InboxFeeder,
    stop: &'a Stop,
    started: Duration,
    source: &'a S,
    deliveries: &'a [S::Delivery],
}

impl<S: Source> DeliveryAttempt<'_, S> {
    /// Until the store has an answer: accepted, or never.
    async fn give(&self, messages: Vec<IncomingMessage>) -> Option<Result<(), Error>> {
        let (mut failures, mut backoff) = (0_u32, self.feeder.backoff);
        loop {
            let error = match self.feeder.inbox.accept(messages.clone()).await {
                Ok(()) => return Some(Ok(())),
                Err(error) if matches!(error.kind, Kind::Invalid | Kind::Conflict) => {
                    return Some(Err(error));
                }
                Err(error) => error,
            };
            failures += 1;
            let held = self.feeder.clock.elapsed().saturating_sub(self.started);
            let (consumer, count) = (self.feeder.name.as_str(), messages.len());
            warn!(consumer, count, failures, %error, "The inbox did not take messages.");
            if held >= self.feeder.hold {
                return None;
            }
            self.source.keep(self.deliveries).await;
            if !self.feeder.wait(&mut backoff, self.stop).await {
                return None;
            }
        }
    }
}
