//! Retries of store calls while an output is made: a bounded number, with waits that double.

use std::future::Future;
use std::time::Duration;

use windrow_domain::backoff::Backoff;
use windrow_store::{Kind, Result, Retry};

use crate::clock::Clock;

/// The waits between two attempts.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
/// Most attempts of one call: about five seconds of waiting.
const ATTEMPTS_MAX: u32 = 8;

/// Repeats a store call that says it may succeed later, a bounded number of times.
#[derive(Clone, Debug)]
pub struct StoreRetry {
    clock: Clock,
    attempts_max: u32,
}

impl StoreRetry {
    /// The usual number of attempts of a service.
    pub fn usual(clock: Clock) -> Self {
        Self { clock, attempts_max: ATTEMPTS_MAX }
    }

    /// One attempt: a person waits, and wants to read the error.
    pub fn none() -> Self {
        Self { clock: Clock::machine(), attempts_max: 1 }
    }

    /// The call's answer, or what it said the last time.
    pub(crate) async fn ask<T, F: Future<Output = Result<T>>>(
        &self,
        mut call: impl FnMut() -> F,
    ) -> Result<T> {
        let mut backoff = BACKOFF;
        for _ in 1..self.attempts_max {
            match call().await {
                Err(error) if may_pass(error.kind) => {}
                answer => return answer,
            }
            // No jitter: one process makes the output of a batch.
            self.clock.sleep(backoff.next(1.0)).await;
        }
        call().await
    }
}

/// Another process's finalisation ends, too, but that wait has its own bounds.
fn may_pass(kind: Kind) -> bool {
    kind != Kind::Contended && kind.retry() != Retry::Never
}
