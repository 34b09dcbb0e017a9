//! The one place of the engine that waits for time to pass.

use std::time::Duration;

/// Waits. Only for backoff: everything else waits on a signal or on a state reached.
#[expect(clippy::disallowed_methods, reason = "this is the place that sleeps")]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
