//! Time, as the engine sees it: the machine's own, or one that a test moves.
//!
//! Holds throughout: nothing in the engine asks the machine for the time or sleeps except here.
//! The database's clock still decides whether a lease is lost; this one decides when to poll.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;
use windrow_domain::millis;

/// A clock that can be shared.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Machine(Instant),
    /// Since the epoch; moved by [`Clock::advance`].
    Manual {
        start: Duration,
        now: Arc<watch::Sender<Duration>>,
    },
}

impl Clock {
    /// The machine's clock.
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the clock")]
    pub fn machine() -> Self {
        Self(Kind::Machine(Instant::now()))
    }

    /// A clock that stands still until it is advanced.
    ///
    /// # Panics
    /// When `start` is before 1970.
    pub fn manual(start: Timestamp) -> Self {
        let start = Duration::try_from(start.as_duration()).expect("tests begin after 1970");
        Self(Kind::Manual { start, now: Arc::new(watch::Sender::new(start)) })
    }

    /// The time of day.
    #[expect(clippy::disallowed_methods, reason = "this is the place that reads the clock")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::Machine(_) => Timestamp::now(),
            Kind::Manual { now, .. } => {
                let since = i128::try_from(now.borrow().as_nanos()).unwrap_or(i128::MAX);
                Timestamp::from_nanosecond(since).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// Milliseconds since the clock was made; never goes back.
    pub fn millis(&self) -> u64 {
        millis(self.elapsed())
    }

    /// Time since the clock was made; never goes back.
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Kind::Machine(start) => start.elapsed(),
            Kind::Manual { start, now } => now.borrow().saturating_sub(*start),
        }
    }

    /// Waits until that much time has passed.
    #[expect(clippy::disallowed_methods, reason = "this is the place that sleeps")]
    pub async fn sleep(&self, time: Duration) {
        match &self.0 {
            Kind::Machine(_) => tokio::time::sleep(time).await,
            Kind::Manual { now, .. } => {
                let mut watch = now.subscribe();
                let until = watch.borrow().saturating_add(time);
                // The sender is `now` itself, which outlives the wait.
                let _ = watch.wait_for(|now| *now >= until).await;
            }
        }
    }

    /// Waits until [`Clock::millis`] has reached that value.
    pub async fn sleep_until(&self, millis: u64) {
        self.sleep(Duration::from_millis(millis.saturating_sub(self.millis()))).await;
    }

    /// Moves a manual clock on and wakes every task that waited for it.
    ///
    /// # Panics
    /// When it is the machine's clock: that one cannot be moved.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Kind::Machine(_) => panic!("the machine's own clock cannot be advanced"),
            Kind::Manual { now, .. } => now.send_modify(|now| *now += by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_its_sleepers_when_it_is_moved() {
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let sleeper = clock.clone();
        let mut asleep = std::pin::pin!(sleeper.sleep(Duration::from_secs(5)));
        tokio::select! {
            biased;
            () = &mut asleep => panic!("it was not moved"),
            () = std::future::ready(()) => {}
        }
        clock.advance(Duration::from_secs(5));
        asleep.await;
        assert_eq!((clock.millis(), clock.now().as_second()), (5000, 5));
    }
}
