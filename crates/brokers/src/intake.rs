//! The part that all consumers share: messages are given to the inbox until it has them.
//!
//! Holds throughout: messages go in the order in which they came; trouble with the store makes them
//! wait where they are, since a broker that gets them back would bring later ones first or count
//! the delivery; one that can never be taken does not hold up the others.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tracing::warn;
use windrow_engine::clock::Clock;
use windrow_engine::deliver::{Inbox, IncomingMessage};
use windrow_engine::signal::Stop;
use windrow_store::{Error, Kind};

/// Waits between tries: they double from the shortest to the longest, with some chance in each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub(crate) ms_min: u64,
    pub(crate) ms_max: u64,
}

impl Backoff {
    /// The wait after that many failures in a row; half of it is left to chance, so that many who
    /// failed together do not come back together.
    pub(crate) fn delay(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(32);
        let whole = self.ms_min.saturating_mul(1 << doublings).min(self.ms_max);
        let half = whole / 2;
        Duration::from_millis(half + fastrand::u64(0..=whole - half))
    }
}

/// What became of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The inbox has it.
    Taken,
    /// It can never be taken, and why.
    Never(String),
}

/// Messages that a broker waits to hear of.
#[async_trait]
pub(crate) trait Held: Sync {
    /// Tells the broker that they are still wanted.
    async fn keep(&self);
}

/// Gives messages to the inbox.
pub(crate) struct Intake {
    pub(crate) name: String,
    pub(crate) inbox: Arc<dyn Inbox>,
    pub(crate) clock: Clock,
    pub(crate) backoff: Backoff,
    /// Longest time that messages wait for the store before the broker gets them back.
    pub(crate) hold: Duration,
}

impl Intake {
    /// The fate of each, in order. None when it was stopped or the store was away for too long:
    /// then the broker still has them. Before each wait they are kept.
    pub(crate) async fn take(
        &self,
        arrived: Vec<IncomingMessage>,
        stop: &Stop,
        held: &dyn Held,
    ) -> Option<Vec<Fate>> {
        let started = self.clock.elapsed();
        let count = arrived.len();
        let patience = Patience { intake: self, stop, started };
        match patience.give(arrived.clone(), held).await? {
            Ok(()) => Some((0..count).map(|_| Fate::Taken).collect()),
            Err(error) if count == 1 => Some(vec![Fate::Never(because(&error))]),
            Err(_) => {
                // One of them is at fault; alone, each shows whether it is the one.
                let mut fates = Vec::with_capacity(count);
                for one in arrived {
                    fates.push(match patience.give(vec![one], held).await? {
                        Ok(()) => Fate::Taken,
                        Err(error) => Fate::Never(because(&error)),
                    });
                }
                Some(fates)
            }
        }
    }

    /// Sleeps, or wakes when it is stopped; whether to go on.
    pub(crate) async fn rest(&self, failures: u32, stop: &Stop) -> bool {
        tokio::select! {
            () = stop.given() => false,
            () = self.clock.sleep(self.backoff.delay(failures)) => true,
        }
    }
}

/// One taking: when it began decides how long it may last.
struct Patience<'a> {
    intake: &'a Intake,
    stop: &'a Stop,
    started: Duration,
}

impl Patience<'_> {
    /// Until the store has an answer: taken, or never.
    async fn give(
        &self,
        arrived: Vec<IncomingMessage>,
        messages: &dyn Held,
    ) -> Option<Result<(), Error>> {
        let mut failures = 0;
        loop {
            let error = match self.intake.inbox.accept(arrived.clone()).await {
                Ok(()) => return Some(Ok(())),
                Err(error) if matches!(error.kind, Kind::Invalid | Kind::Conflict) => {
                    return Some(Err(error));
                }
                Err(error) => error,
            };
            failures += 1;
            let held = self.intake.clock.elapsed().saturating_sub(self.started);
            let consumer = self.intake.name.as_str();
            let count = arrived.len();
            warn!(consumer, count, failures, %error, "The inbox did not take messages.");
            if held >= self.intake.hold {
                return None;
            }
            messages.keep().await;
            if !self.intake.rest(failures, self.stop).await {
                return None;
            }
        }
    }
}

fn because(error: &Error) -> String {
    use std::error::Error as _;
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
