//! The only place of the command line that reads the clock or sleeps.

use std::time::{Duration, Instant};

/// Measures a duration that is printed.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a figure for people decides nothing")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The current time, for the expiry of keys and calls.
pub(crate) fn now() -> jiff::Timestamp {
    windrow::engine::clock::Clock::machine().now()
}

/// Sleeps for that long.
#[expect(clippy::disallowed_methods, reason = "this is the place that sleeps")]
pub(crate) async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}
