//! How long to bear with a store that is busy or away, while an output is made.

use std::future::Future;
use std::time::Duration;

use windrow_store::{Kind, Result, Retry};

use crate::clock::Clock;

/// Waits before the second try; doubles with each further one.
const WAIT_MS_MIN: u64 = 50;
/// Longest wait between two tries.
const WAIT_MS_MAX: u64 = 2000;
/// Most tries of one call: about five seconds of waiting.
const TRIES_MAX: u32 = 8;

/// Repeats a store call that says it may succeed later, a bounded number of times.
#[derive(Clone, Debug)]
pub struct StoreRetry {
    clock: Clock,
    tries_max: u32,
}

impl StoreRetry {
    /// The usual patience of a service.
    pub fn usual(clock: Clock) -> Self {
        Self { clock, tries_max: TRIES_MAX }
    }

    /// One try: a person waits, and would rather be told.
    pub fn none() -> Self {
        Self { clock: Clock::machine(), tries_max: 1 }
    }

    /// The call's answer, or what it said the last time.
    pub(crate) async fn ask<T, F: Future<Output = Result<T>>>(
        &self,
        mut call: impl FnMut() -> F,
    ) -> Result<T> {
        let mut wait_ms = WAIT_MS_MIN;
        for _ in 1..self.tries_max {
            match call().await {
                Err(error) if may_pass(error.kind) => {}
                answer => return answer,
            }
            // No jitter: whoever makes an output is alone with its batch.
            self.clock.sleep(Duration::from_millis(wait_ms)).await;
            wait_ms = (wait_ms * 2).min(WAIT_MS_MAX);
        }
        call().await
    }
}

/// Somebody else's finalisation passes, too, but that wait has its own bounds.
fn may_pass(kind: Kind) -> bool {
    kind != Kind::Contended && kind.retry() != Retry::Never
}
