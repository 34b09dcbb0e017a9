//! Retries of store calls: the one loop that waits and asks again.
//!
//! Holds throughout: only errors whose kind allows it are retried; the wait doubles up to a bound and is
//! spread, so that many instances do not come back at the same moment.

use std::time::Duration;

use windrow_domain::backoff::Backoff;
use windrow_store::Retry;

use crate::clock::Clock;
use crate::signal::Stop;

/// Makes a store call until it succeeds, fails for good, or `give_up` is given. The wait
/// between two attempts doubles up to [`WAIT_MAX`].
pub(crate) async fn with_retry<T, F>(
    clock: &Clock,
    give_up: &Stop,
    rng: &mut fastrand::Rng,
    mut trouble: impl FnMut(&windrow_store::Error),
    mut call: impl FnMut() -> F,
) -> windrow_store::Result<T>
where
    F: Future<Output = windrow_store::Result<T>>,
{
    let mut backoff = Backoff::new(WAIT_MIN, WAIT_MAX);
    loop {
        let error = match call().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if error.kind.retry() == Retry::Never || give_up.is_given() {
            return Err(error);
        }
        trouble(&error);
        tokio::select! {
            () = clock.sleep(backoff.next(rng.f64())) => {}
            () = give_up.given() => return Err(error),
        }
    }
}

/// The first wait of [`with_retry`].
const WAIT_MIN: Duration = Duration::from_millis(20);
/// The longest wait between two attempts.
const WAIT_MAX: Duration = Duration::from_secs(2);
