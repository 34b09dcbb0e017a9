//! One limit for all engines of a process: the worker and every kickoff send through it.
//!
//! Holds throughout: a host has no more attempts in flight, over all its targets, and no more starts a second,
//! than the configuration allows, however many engines run in this process; a wait that a host imposes on one
//! engine holds for all. Each engine adapts below that by itself.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use windrow_domain::Route;
use windrow_domain::control::pace::{Bounds, Pace};
use windrow_engine::bounded_map::BoundedMap;
use windrow_engine::clock::Clock;
use windrow_engine::execute::{Attempt, Executor, Outcome, Verdict};

/// Hosts whose slots and pace are kept while they are idle.
const HOSTS_MAX: usize = 1_000;
/// Longest wait that a host may impose. An engine has a bound of its own; this one is for all.
const HOLD_MS_MAX: u64 = 60_000;

/// An executor with a concurrency limit and a pace for each host.
pub struct ThrottledExecutor<E> {
    inner: E,
    clock: Clock,
    slots: Mutex<BoundedMap<String, Arc<Semaphore>>>,
    hosts: Mutex<BoundedMap<String, Arc<HostPace>>>,
}

/// The pace of a host, shared by all its targets.
struct HostPace {
    /// Held by the next attempt to start: attempts start in the order of their arrival.
    next: tokio::sync::Mutex<()>,
    pace: Mutex<Pace>,
}

impl HostPace {
    fn new(bounds: Bounds) -> Self {
        Self { next: tokio::sync::Mutex::default(), pace: Mutex::new(Pace::new(bounds)) }
    }

    /// Waits until one more attempt may start.
    async fn start(&self, clock: &Clock) {
        let _next = self.next.lock().await;
        loop {
            let started = self.pace.lock().next(clock.millis());
            match started {
                Ok(()) => return,
                Err(at_ms) => clock.sleep_until(at_ms).await,
            }
        }
    }

    /// Adapts the pace to the outcome of an attempt, as an engine's own pace does.
    fn observe(&self, now_ms: u64, verdict: &Verdict) {
        let mut pace = self.pace.lock();
        match verdict {
            Verdict::Completed => pace.good(),
            Verdict::Failed(failure) => pace.observe(failure, now_ms, HOLD_MS_MAX),
            Verdict::Skipped(_) | Verdict::Withdrawn => {}
        }
    }

    /// Whether an attempt could start at once, so that the pace need not be kept.
    fn is_at_rest(&self, now_ms: u64) -> bool {
        let mut pace = self.pace.lock().clone();
        pace.delay_ms() == 0.0 && pace.next(now_ms).is_ok()
    }
}

impl<E: Executor> ThrottledExecutor<E> {
    /// Limits what is sent through `inner`.
    pub fn new(inner: E) -> Self {
        Self::with_clock(Clock::machine(), inner)
    }

    /// The same, with another clock.
    pub fn with_clock(clock: Clock, inner: E) -> Self {
        Self {
            inner,
            clock,
            slots: Mutex::new(BoundedMap::new(HOSTS_MAX)),
            hosts: Mutex::new(BoundedMap::new(HOSTS_MAX)),
        }
    }

    fn slots(&self, route: &Route) -> Arc<Semaphore> {
        let in_use = |_: &String, slots: &Arc<Semaphore>| Arc::strong_count(slots) > 1;
        let most = || self.inner.limits(route).concurrency.max.max(1) as usize;
        let make = || Arc::new(Semaphore::new(most()));
        let name = self.inner.host(route);
        self.slots.lock().get_or_insert_with(name, in_use, make).clone()
    }

    fn host_of(&self, route: &Route) -> Arc<HostPace> {
        let now_ms = self.clock.millis();
        let in_use = |_: &String, host: &Arc<HostPace>| {
            Arc::strong_count(host) > 1 || !host.is_at_rest(now_ms)
        };
        // As in an engine, the first target of a host decides.
        let make = || Arc::new(HostPace::new(self.inner.limits(route).pace));
        let name = self.inner.host(route);
        self.hosts.lock().get_or_insert_with(name, in_use, make).clone()
    }
}

#[async_trait]
impl<E: Executor> Executor for ThrottledExecutor<E> {
    async fn execute(&self, attempt: Attempt) -> Outcome {
        let route = Route::new(attempt.upstream.clone(), attempt.target.clone());
        let (slots, host) = (self.slots(&route), self.host_of(&route));
        // The semaphore is never closed, so there is always a slot in the end.
        let waits = async {
            let slot = slots.acquire().await;
            host.start(&self.clock).await;
            slot
        };
        let _slot = tokio::select! {
            biased;
            () = attempt.gate.closed() => return Outcome::withdrawn(),
            slot = waits => slot,
        };
        let tried = self.inner.execute(attempt).await;
        host.observe(self.clock.millis(), &tried.verdict);
        tried
    }

    fn inner(&self) -> Option<&dyn Executor> {
        Some(&self.inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use bytes::Bytes;
    use jiff::Timestamp;
    use tokio::task::JoinSet;
    use windrow_domain::attempt::Failure;
    use windrow_domain::{BatchId, Target, UpstreamId};
    use windrow_engine::execute::Limits;

    use super::*;

    /// Notes how many were inside at the same time, and how many came.
    #[derive(Default)]
    struct Probe {
        inside: AtomicU32,
        most: AtomicU32,
        came: AtomicU32,
        per_sec_max: Option<f64>,
        /// It asks the first one to come again so late.
        retry_after: Option<Duration>,
    }

    #[async_trait]
    impl Executor for Probe {
        async fn execute(&self, _: Attempt) -> Outcome {
            let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(inside, Ordering::SeqCst);
            let is_first = self.came.fetch_add(1, Ordering::SeqCst) == 0;
            tokio::task::yield_now().await;
            self.inside.fetch_sub(1, Ordering::SeqCst);
            match self.retry_after.filter(|_| is_first) {
                None => Outcome::completed(Bytes::new()),
                Some(wait) => {
                    Outcome::failed(Failure::throttled("http_429", "Too many.").retry_after(wait))
                }
            }
        }

        fn limits(&self, _: &Route) -> Limits {
            let mut limits = Limits::default();
            limits.concurrency.max = 3;
            limits.pace.per_sec_max = self.per_sec_max;
            limits
        }

        fn host(&self, _: &Route) -> String {
            "one host".to_owned()
        }
    }

    fn attempt(target: &str, line: u64) -> Attempt {
        Attempt {
            gate: windrow_engine::execute::Gate::default(),
            batch: BatchId::new(),
            upstream: UpstreamId::own(),
            target: Target::new(target).unwrap(),
            lane: 0,
            line,
            raw: Bytes::new(),
            number: 1,
            tried: 0,
            answered: 0,
            row: None,
        }
    }

    #[tokio::test]
    async fn no_more_are_in_flight_than_the_host_allows_whichever_target_they_are_for() {
        let executor = Arc::new(ThrottledExecutor::new(Probe::default()));
        let mut attempts = JoinSet::new();
        for line in 1..=50 {
            let (executor, target) = (executor.clone(), ["a", "b"][usize::from(line > 25)]);
            attempts.spawn(async move { executor.execute(attempt(target, line)).await });
        }
        attempts.join_all().await;
        assert_eq!(executor.inner.most.load(Ordering::SeqCst), 3);
    }

    /// Lets what can go on do so.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn no_more_start_in_a_second_than_the_host_allows_whichever_target_they_are_for() {
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let probe = Probe { per_sec_max: Some(10.0), ..Probe::default() };
        let executor = Arc::new(ThrottledExecutor::with_clock(clock.clone(), probe));
        let mut attempts = JoinSet::new();
        for line in 1..=20 {
            let (executor, target) = (executor.clone(), ["a", "b"][usize::from(line > 10)]);
            attempts.spawn(async move { executor.execute(attempt(target, line)).await });
        }
        let came = || executor.inner.came.load(Ordering::SeqCst);
        settle().await;
        assert_eq!(came(), 1, "the first starts at once");
        for tenth in 2..=20 {
            clock.advance(Duration::from_millis(100));
            settle().await;
            assert_eq!(came(), tenth);
        }
        attempts.join_all().await;
    }

    #[tokio::test]
    async fn what_a_host_asks_one_to_wait_for_all_wait_for() {
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let retry_after = Some(Duration::from_secs(30));
        let probe = Probe { retry_after, ..Probe::default() };
        let executor = Arc::new(ThrottledExecutor::with_clock(clock.clone(), probe));
        executor.execute(attempt("a", 1)).await;
        let (other, mut attempts) = (executor.clone(), JoinSet::new());
        attempts.spawn(async move { other.execute(attempt("b", 2)).await });
        let came = || executor.inner.came.load(Ordering::SeqCst);
        clock.advance(Duration::from_secs(29));
        settle().await;
        assert_eq!(came(), 1);
        clock.advance(Duration::from_secs(1));
        settle().await;
        assert_eq!(came(), 2);
        attempts.join_all().await;
    }
}
