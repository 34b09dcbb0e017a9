//! The loop that all consumers share: open a subscription, gather messages, give them to the inbox,
//! acknowledge them; after trouble, wait and begin again.
//!
//! Holds throughout: a message is acknowledged only when the inbox has it; one that can never be accepted
//! is rejected and logged.

use async_trait::async_trait;
use futures_util::FutureExt;
use tracing::warn;
use windrow_domain::attempt::Failure;
use windrow_domain::backoff::Backoff;
use windrow_engine::deliver::IncomingMessage;
use windrow_engine::signal::Stop;

use crate::feeder::{Acceptance, InboxFeeder};

/// A broker that messages are consumed from.
#[async_trait]
pub(crate) trait Source: Send + Sync {
    /// A message that is not acknowledged yet.
    type Delivery: Send + Sync;
    /// An open subscription, which brings deliveries.
    type Subscription: Send;

    /// Connects and subscribes.
    async fn open(&self) -> Result<Self::Subscription, Failure>;

    /// The next delivery. Dropping the future loses none.
    async fn next(&self, from: &mut Self::Subscription) -> Result<Self::Delivery, Failure>;

    /// The message in a delivery, or why there is none.
    fn read(&self, delivery: &mut Self::Delivery) -> Result<IncomingMessage, String>;

    /// The inbox has it.
    async fn ack(&self, delivery: &Self::Delivery);

    /// It can never be accepted.
    async fn reject(&self, delivery: &Self::Delivery, because: &str);

    /// They are still wanted: the inbox does not take them yet.
    async fn keep(&self, deliveries: &[Self::Delivery]);

    /// Ends a subscription; what is not acknowledged goes back to the broker, `left` among it.
    async fn close(&self, subscription: Self::Subscription, left: Vec<Self::Delivery>);
}

/// Consumes from one source.
pub(crate) struct Consumer<S> {
    pub(crate) source: S,
    pub(crate) feeder: InboxFeeder,
    /// Most messages that go to the inbox at once.
    pub(crate) batch_max: u32,
}

/// Trouble in a row, and the wait after it.
struct Retries {
    failures: u32,
    backoff: Backoff,
}

impl<S: Source> Consumer<S> {
    /// Consumes until it is stopped; a broker that is unavailable is waited for.
    pub(crate) async fn run(&self, stop: &Stop) {
        let consumer = self.feeder.name.as_str();
        let mut retries = Retries { failures: 0, backoff: self.feeder.backoff };
        while !stop.is_given() {
            let Err(failure) = self.session(stop, &mut retries).await else {
                break;
            };
            retries.failures += 1;
            let failures = retries.failures;
            let (code, message) = (failure.code.as_str(), failure.message.as_str());
            warn!(consumer, code, failures, "Consuming stopped and is tried again: {message}");
            if !self.feeder.wait(&mut retries.backoff, stop).await {
                break;
            }
        }
    }

    /// One subscription, to its end. `Ok` when it was stopped.
    async fn session(&self, stop: &Stop, retries: &mut Retries) -> Result<(), Failure> {
        let mut subscription = self.source.open().await?;
        let ended = self.consume(&mut subscription, stop, retries).await;
        let (outcome, left) = match ended {
            Ok(()) => (Ok(()), Vec::new()),
            Err(Ended::Trouble(failure)) => (Err(failure), Vec::new()),
            Err(Ended::NotTaken(left)) if stop.is_given() => (Ok(()), left),
            Err(Ended::NotTaken(left)) => {
                let message =
                    "The store was unavailable for too long; the broker has the messages back.";
                (Err(Failure::retryable("store_away", message)), left)
            }
        };
        self.source.close(subscription, left).await;
        outcome
    }

    async fn consume(
        &self,
        subscription: &mut S::Subscription,
        stop: &Stop,
        retries: &mut Retries,
    ) -> Result<(), Ended<S>> {
        loop {
            let first = tokio::select! {
                () = stop.given() => return Ok(()),
                first = self.source.next(subscription) => first,
            };
            let mut batch = vec![first.map_err(Ended::Trouble)?];
            while batch.len() < self.batch_max as usize {
                match self.source.next(subscription).now_or_never() {
                    // Trouble shows again at the next turn, when this batch has been taken.
                    Some(Ok(delivery)) => batch.push(delivery),
                    Some(Err(_)) | None => break,
                }
            }
            self.take(batch, stop).await.map_err(Ended::NotTaken)?;
            *retries = Retries { failures: 0, backoff: self.feeder.backoff };
        }
    }

    /// Gives a batch to the inbox and acknowledges it. The error is what the inbox did not take.
    async fn take(&self, batch: Vec<S::Delivery>, stop: &Stop) -> Result<(), Vec<S::Delivery>> {
        let mut messages = Vec::with_capacity(batch.len());
        let mut deliveries = Vec::with_capacity(batch.len());
        for mut delivery in batch {
            match self.source.read(&mut delivery) {
                Ok(message) => {
                    messages.push(message);
                    deliveries.push(delivery);
                }
                Err(because) => self.source.reject(&delivery, &because).await,
            }
        }
        if messages.is_empty() {
            return Ok(());
        }
        let fed = self.feeder.feed(messages, stop, &self.source, &deliveries).await;
        let Some(all) = fed else {
            return Err(deliveries);
        };
        for (delivery, acceptance) in deliveries.iter().zip(all) {
            match acceptance {
                Acceptance::Accepted => self.source.ack(delivery).await,
                Acceptance::Refused(because) => self.source.reject(delivery, &because).await,
            }
        }
        Ok(())
    }
}

/// Why a subscription ended before it was stopped.
enum Ended<S: Source> {
    /// The broker brings no more.
    Trouble(Failure),
    /// The inbox did not take these.
    NotTaken(Vec<S::Delivery>),
}
