//! The ear of a client in a process without a runner: how it hears of answers.
//!
//! Holds throughout: one way to the database for each client, from its first wait until its last clone
//! is gone, whoever waits; after it was lost it is opened again, ever more seldom while that fails.
//! What it hears is a hint: whoever waits also looks from time to time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use windrow_store::MessageStore;
use windrow_store::wake::Wake;

use crate::clock::Clock;
use windrow_store::error::chain;

use super::shared::{Shared, Told, lock};

/// The first wait before listening again, and the longest.
const AGAIN_MS_MIN: u64 = 100;
const AGAIN_MS_MAX: u64 = 5_000;

/// Open from the first wait on.
#[derive(Default)]
pub(super) struct Ear {
    task: Mutex<JoinSet<()>>,
    is_told: Arc<AtomicBool>,
}

impl Ear {
    /// Listens from now on, if it does not already.
    pub(super) fn open(&self, store: &Arc<dyn MessageStore>, clock: &Clock, shared: &Arc<Shared>) {
        let mut task = lock(&self.task);
        // It ends only with the runtime that it was begun on.
        while task.try_join_next().is_some() {}
        if task.is_empty() {
            let (store, clock, shared) = (store.clone(), clock.clone(), shared.clone());
            let is_told = self.is_told.clone();
            task.spawn(async move { listen(&*store, &clock, &shared, &is_told).await });
        }
    }

    /// Whether somebody has waited.
    pub(super) fn is_open(&self) -> bool {
        !lock(&self.task).is_empty()
    }

    /// Whether something was heard on the present way to the database. Some databases never tell.
    pub(super) fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }
}

async fn listen(store: &dyn MessageStore, clock: &Clock, shared: &Shared, is_told: &AtomicBool) {
    let mut again_ms = AGAIN_MS_MIN;
    loop {
        let begun = clock.millis();
        match store.listen(shared.instance()).await {
            Ok(mut wakes) => {
                // What was answered before told nobody.
                shared.tell_all(&Told::Look);
                while let Some(wake) = wakes.next().await {
                    is_told.store(true, Ordering::Relaxed);
                    if let Wake::Answered(key) = wake {
                        shared.tell(&key, &Told::Look);
                    }
                }
                is_told.store(false, Ordering::Relaxed);
                tracing::debug!("nobody tells this client of answers any more; it listens again");
            }
            Err(error) => {
                tracing::debug!(error = %chain(&error), "nobody can tell this client of answers");
            }
        }
        // One that was good for a while was not lost for the same reason as the one before it.
        if clock.millis().saturating_sub(begun) > AGAIN_MS_MAX {
            again_ms = AGAIN_MS_MIN;
        }
        clock.sleep(Duration::from_millis(again_ms)).await;
        again_ms = (again_ms * 2).min(AGAIN_MS_MAX);
    }
}
