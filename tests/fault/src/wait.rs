//! Waiting for a state to be reached, with a bound.

use std::future::Future;
use std::time::{Duration, Instant};

/// The pause between two looks.
const POLL: Duration = Duration::from_millis(20);

/// Looks until there is something, and gives it.
///
/// # Panics
/// When there was nothing within that time, with the sentence that `state` gives.
pub async fn until<T, L, F, S, G>(within: Duration, mut look: L, state: S) -> T
where
    L: FnMut() -> F,
    F: Future<Output = Option<T>>,
    S: FnOnce() -> G,
    G: Future<Output = String>,
{
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        if start.elapsed() > within {
            panic!("not within {} s: {}", within.as_secs(), state().await);
        }
        pause(POLL).await;
    }
}

/// Lets time pass where passing time is the fault: a lease that runs out, a server that is away.
pub async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
