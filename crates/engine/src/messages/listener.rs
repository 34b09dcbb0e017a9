//! Listening to the database: one loop over [`windrow_store::wake`] that marks partitions and signals
//! waiters, for two users: the runner, and the client in a process without a runner ([`AnswerListener`]).
//!
//! Holds throughout: one connection for each listener; after it was lost it is opened again, ever more
//! seldom while that fails. What is heard is a hint: the runner also polls, and a waiting client, too.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use windrow_domain::backoff::Backoff;
use windrow_store::MessageStore;
use windrow_store::error::chain;
use windrow_store::wake::Wake;

use crate::clock::Clock;
use crate::signal::Stop;

use super::client::waiters::AnswerSignal;
use super::notifier::Notifier;
use super::runner::RunnerDeps;

/// The first wait before the listener connects again.
const RECONNECT_MIN: Duration = Duration::from_millis(100);
/// The longest wait of a runner.
const RECONNECT_MAX_RUNNER: Duration = Duration::from_secs(1);
/// The longest wait of a client: there may be many, and each polls.
const RECONNECT_MAX_CLIENT: Duration = Duration::from_secs(5);
/// A connection that lasted this long was not lost for the reason of the one before.
const STABLE: Duration = Duration::from_secs(5);
/// How often the instance's id is compared: one that joined again listens under its new id.
const ID_CHECK: Duration = Duration::from_secs(5);

/// The loop; it never ends.
async fn listen(
    store: &dyn MessageStore,
    clock: &Clock,
    notifier: &Notifier,
    reconnect_max: Duration,
) {
    let mut backoff = Backoff::new(RECONNECT_MIN, reconnect_max);
    loop {
        let begun = clock.elapsed();
        let is_lost = hear(store, clock, notifier).await;
        notifier.set_heard(false);
        // Something may be missed until the next connection.
        notifier.mark_all_dirty();
        if clock.elapsed().saturating_sub(begun) > STABLE {
            backoff.reset();
        }
        if is_lost {
            // Whole waits, without jitter: the poll behind it is what spreads the load.
            clock.sleep(backoff.next(1.0)).await;
        }
    }
}

/// Listens until the connection is lost (true) or the instance has another id (false).
async fn hear(store: &dyn MessageStore, clock: &Clock, notifier: &Notifier) -> bool {
    let instance = notifier.instance();
    let mut wakes = match store.listen(instance).await {
        Ok(wakes) => wakes,
        Err(error) => {
            tracing::debug!(error = %chain(&error), "the database sends no notifications");
            return true;
        }
    };
    // What happened before this connection was not heard.
    notifier.mark_all_dirty();
    notifier.waiters.recheck_all();
    loop {
        let wake = tokio::select! {
            wake = wakes.next() => wake,
            () = clock.sleep(ID_CHECK) => {
                if notifier.instance() != instance {
                    return false;
                }
                continue;
            }
        };
        match wake {
            Some(Wake::Work(any)) if any.is_empty() => notifier.mark_all_dirty(),
            Some(Wake::Work(partitions)) => notifier.mark_dirty(partitions),
            Some(Wake::Answered(key)) => notifier.waiters.notify(&key, &AnswerSignal::Recheck),
            None => {
                tracing::debug!("the connection for notifications was lost");
                return true;
            }
        }
        notifier.set_heard(true);
    }
}

/// Listens for a runner until it is stopped.
pub(super) async fn run(deps: Arc<RunnerDeps>, stop: &Stop) {
    tokio::select! {
        () = listen(&*deps.store, &deps.clock, &deps.notifier, RECONNECT_MAX_RUNNER) => {}
        () = stop.given() => {}
    }
}

/// The listener of a client in a process without a runner: it starts with the first wait and ends with
/// the last clone of the client.
#[derive(Default)]
pub(super) struct AnswerListener {
    task: Mutex<JoinSet<()>>,
}

impl AnswerListener {
    /// Listens from now on, if it does not already.
    pub(super) fn start(
        &self,
        store: &Arc<dyn MessageStore>,
        clock: &Clock,
        notifier: &Arc<Notifier>,
    ) {
        let mut task = self.task.lock();
        // The task ends only with the runtime that it was started on.
        while task.try_join_next().is_some() {}
        if task.is_empty() {
            let (store, clock, notifier) = (store.clone(), clock.clone(), notifier.clone());
            task.spawn(async move {
                listen(&*store, &clock, &notifier, RECONNECT_MAX_CLIENT).await;
            });
        }
    }

    /// Whether it has been started.
    pub(super) fn is_started(&self) -> bool {
        !self.task.lock().is_empty()
    }
}
