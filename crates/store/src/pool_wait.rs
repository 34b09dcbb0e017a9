//! How long a call waited because all connections were taken, told to the caller of that call alone.
//!
//! A gauge adds the waits of a whole process; a caller that sizes its calls by what they meet needs its own.
//!
//! Holds throughout: a backend notes a wait on the task that made the call; one that never waits notes nothing.

use std::cell::Cell;
use std::time::Duration;

tokio::task_local! {
    static WAITED: Cell<Duration>;
}

/// Makes a call and says how long it waited for connections, whether it ended well or not.
pub async fn watched<F: Future>(call: F) -> (F::Output, Duration) {
    let scoped = WAITED.scope(Cell::new(Duration::ZERO), async {
        let output = call.await;
        (output, WAITED.with(Cell::get))
    });
    scoped.await
}

/// Notes that the present call waited. Of no effect where nobody watches.
pub fn note(waited: Duration) {
    let _ = WAITED.try_with(|sum| sum.set(sum.get() + waited));
}
