//! The one place of the command line that looks at the time or waits for it.

use std::time::{Duration, Instant};

/// How long something takes, for people.
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

/// The time of day, for ends of keys.
pub(crate) fn now() -> jiff::Timestamp {
    windrow::engine::clock::Clock::machine().now()
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "this is the place that sleeps")]
pub(crate) async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}
