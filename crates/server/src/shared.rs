//! One bound for all engines of a process: the worker and every kickoff send through it.
//!
//! Holds throughout: a target has no more tries in flight than its configuration allows, however many
//! engines this process drives. Each engine adapts below that by itself.
//! Absent on purpose: a pace (requests a second) over all of them; each engine keeps its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use windrow_domain::Target;
use windrow_engine::execute::{Call, Executor, Limits, Tried};

/// Targets whose slots are kept when none of them is in use.
const TARGETS_MAX: usize = 1_000;

/// An executor with one set of slots for each target.
pub struct Shared<E> {
    inner: E,
    slots: Mutex<HashMap<Target, Arc<Semaphore>>>,
}

impl<E: Executor> Shared<E> {
    /// Bounds what is sent through `inner`.
    pub fn new(inner: E) -> Self {
        Self { inner, slots: Mutex::default() }
    }

    fn slots(&self, target: &Target) -> Arc<Semaphore> {
        // A panic while it was held left at worst an entry too many.
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= TARGETS_MAX && !slots.contains_key(target) {
            slots.retain(|_, slots| Arc::strong_count(slots) > 1);
        }
        let most = || self.inner.limits(target).concurrency.max.max(1) as usize;
        slots.entry(target.clone()).or_insert_with(|| Arc::new(Semaphore::new(most()))).clone()
    }
}

#[async_trait]
impl<E: Executor> Executor for Shared<E> {
    async fn execute(&self, call: Call) -> Tried {
        let slots = self.slots(&call.target);
        // Nobody closes it, so there is always a slot in the end.
        let _slot = slots.acquire().await;
        self.inner.execute(call).await
    }

    fn serves(&self, target: &Target) -> bool {
        self.inner.serves(target)
    }

    fn limits(&self, target: &Target) -> Limits {
        self.inner.limits(target)
    }

    fn host(&self, target: &Target) -> String {
        self.inner.host(target)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use bytes::Bytes;
    use tokio::task::JoinSet;
    use windrow_domain::BatchId;

    use super::*;

    /// Notes how many were inside at the same time.
    #[derive(Default)]
    struct Crowd {
        inside: AtomicU32,
        most: AtomicU32,
    }

    #[async_trait]
    impl Executor for Crowd {
        async fn execute(&self, _: Call) -> Tried {
            let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(inside, Ordering::SeqCst);
            tokio::task::yield_now().await;
            self.inside.fetch_sub(1, Ordering::SeqCst);
            Tried::completed(Bytes::new())
        }

        fn limits(&self, _: &Target) -> Limits {
            let mut limits = Limits::default();
            limits.concurrency.max = 3;
            limits
        }
    }

    #[tokio::test]
    async fn no_more_are_in_flight_than_the_target_allows() {
        let shared = Arc::new(Shared::new(Crowd::default()));
        let mut tries = JoinSet::new();
        for line in 1..=50 {
            let shared = shared.clone();
            let call = Call {
                batch: BatchId::new(),
                target: Target::new("m").unwrap(),
                lane: 0,
                line,
                raw: Bytes::new(),
                attempt: 1,
                tried: 0,
                answered: 0,
            };
            tries.spawn(async move { shared.execute(call).await });
        }
        tries.join_all().await;
        assert_eq!(shared.inner.most.load(Ordering::SeqCst), 3);
    }
}
