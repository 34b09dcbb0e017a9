//! Maintenance in rounds: a pause with jitter, then a round of bounded steps, until it is stopped.
//!
//! Holds throughout: pauses are spread, so that instances that began together do not come together; a
//! round is bounded, so that a large backlog does not hold up the database; what a round could not do is
//! done by the next one. Which instance does it is decided by a duty that the round takes.

use std::time::Duration;

use windrow_store::Result;

use crate::clock::Clock;
use crate::signal::Stop;

/// Work that is done again and again.
pub(crate) trait Maintenance: Send {
    /// One round. It logs its own errors: the next round tries again.
    fn round(&mut self) -> impl Future<Output = ()> + Send;

    /// The pause before the next round.
    fn pause(&mut self) -> Duration;
}

/// Does rounds until it is stopped; the first one comes after a pause.
pub(crate) async fn run(mut work: impl Maintenance, clock: &Clock, stop: &Stop) {
    loop {
        tokio::select! {
            () = clock.sleep(work.pause()) => {}
            () = stop.given() => return,
        }
        work.round().await;
    }
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// How many rows or outputs.
    pub(crate) done: u64,
    /// Whether there may be more.
    pub(crate) more: bool,
}

impl Step {
    /// A step that may do up to `limit` rows and did `done`.
    pub(crate) fn of(done: u64, limit: u32) -> Self {
        Self { done, more: done >= limit.into() }
    }
}

/// Repeats a step until nothing is left or `steps_max` were done. Gives how much they did.
pub(crate) async fn repeat<F>(steps_max: u32, mut step: impl FnMut() -> F) -> Result<u64>
where
    F: Future<Output = Result<Step>>,
{
    let mut done = 0;
    for _ in 0..steps_max {
        let step = step().await?;
        done += step.done;
        if !step.more {
            break;
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn steps_are_repeated_until_nothing_is_left_or_enough_were_done() {
        let mut rows = vec![0, 3, 10, 10];
        let done = repeat(5, || {
            let done = rows.pop().expect("no step after the last");
            async move { Ok(Step::of(done, 10)) }
        });
        assert_eq!(done.await.ok(), Some(23));
        let endless = repeat(5, || async { Ok(Step::of(10, 10)) });
        assert_eq!(endless.await.ok(), Some(50));
    }
}
