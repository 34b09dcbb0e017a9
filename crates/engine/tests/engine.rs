//! The whole engine on SQLite in memory, with executors that misbehave.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod support;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{batch, failed, store};
use windrow_domain::attempt::{Class, Status};
use windrow_domain::retry::Policy;
use windrow_domain::{BatchId, State};
use windrow_engine::execute::{Attempt, Executor, Outcome};
use windrow_engine::signal::Wake;
use windrow_engine::{Engine, Options, Report, Until};
use windrow_store::batch::Batch;
use windrow_store::inspect::{FinishedQuery, PAGE_MAX};
use windrow_store::record::Finished;
use windrow_store::{Inspect as _, Scope, Store};
use windrow_store_sqlite::SqliteStore;

fn quick() -> Options {
    let retry = Policy { backoff_ms_min: 5, backoff_ms_max: 50, ..Policy::default() };
    Options::default().retry(retry).grace(Duration::from_secs(2))
}

async fn drain(store: &Arc<SqliteStore>, batch: BatchId, executor: impl Executor) -> Batch {
    let engine = Engine::builder(store.clone()).executor(executor).options(quick());
    engine.only(batch).until(Until::Closed(batch)).run().await.unwrap();
    let closed = store.batch(&Scope::All, batch).await.unwrap();
    assert_eq!(closed.state, State::Completed);
    store.verify(batch).await.unwrap().check().unwrap();
    closed
}

async fn results(store: &dyn Store, batch: BatchId) -> Vec<Finished> {
    let query = FinishedQuery {
        batch: Some(batch),
        bodies: true,
        limit: PAGE_MAX,
        ..FinishedQuery::default()
    };
    let page = store.finished(&Scope::All, query).await.unwrap();
    page.rows.into_iter().map(|line| line.result).collect()
}

fn unreached() -> Outcome {
    Outcome { reached: false, ..failed(Class::Network) }
}

#[tokio::test]
async fn every_line_has_one_result_of_its_kind() {
    let store = store().await;
    let batch = batch(&*store, 3_000).await;
    let executor = async |attempt: Attempt| match (attempt.line % 100, attempt.number) {
        (7 | 32, 1) => failed(Class::Server),
        (13, 1) => failed(Class::Throttled),
        (21, 1) => failed(Class::Timeout),
        (42, _) => failed(Class::Permanent),
        (66, _) => failed(Class::NotFound),
        (77, _) => panic!("a line that breaks its executor"),
        (99, _) => Outcome::skipped("not today"),
        _ => Outcome::completed(attempt.raw),
    };
    let counts = drain(&store, batch, executor).await.counts;
    let got = (counts.completed, counts.failed, counts.not_found, counts.skipped);
    assert_eq!(got, (2_880, 60, 30, 30));
}

/// A reply that never came may have been work that was done: the key stays. An answer is one.
#[tokio::test]
async fn a_key_rises_with_an_answer_and_not_with_silence() {
    let store = store().await;
    let batch = batch(&*store, 1).await;
    let keys = Arc::new(Mutex::new(Vec::new()));
    let seen = keys.clone();
    let executor = move |attempt: Attempt| {
        seen.lock().unwrap().push(attempt.key());
        let tried = match attempt.number {
            1 => failed(Class::Network),
            2 => failed(Class::Timeout),
            3 => failed(Class::Server),
            _ => Outcome::completed("1"),
        };
        std::future::ready(tried)
    };
    drain(&store, batch, executor).await;
    let keys: Vec<_> =
        keys.lock().unwrap().iter().map(|key| key.rsplit_once(':').unwrap().1.to_owned()).collect();
    assert_eq!(keys, ["1", "1", "1", "2"]);
}

#[tokio::test]
async fn a_dead_target_burns_no_attempts() {
    let store = store().await;
    let batch = batch(&*store, 200).await;
    let calls = Arc::new(AtomicU32::new(0));
    let count = calls.clone();
    // Dead for the first 60 calls; probes go on while the breaker is open.
    let executor = Moody(move |_: &Attempt| match count.fetch_add(1, Ordering::SeqCst) {
        0..60 => unreached(),
        _ => Outcome::completed("1"),
    });
    let counts = drain(&store, batch, executor).await.counts;
    assert_eq!(counts.completed, 200);
    let most = results(&*store, batch).await.iter().map(|line| line.attempts).max();
    assert!(most <= Some(4), "{most:?}");
}

/// A function with a breaker that opens for a moment only.
struct Moody<F>(F);

#[async_trait::async_trait]
impl<F: Fn(&Attempt) -> Outcome + Send + Sync + 'static> Executor for Moody<F> {
    async fn execute(&self, attempt: Attempt) -> Outcome {
        (self.0)(&attempt)
    }

    fn limits(&self, _: &windrow_domain::Route) -> windrow_engine::execute::Limits {
        let mut limits = windrow_engine::execute::Limits::default();
        limits.breaker.open_ms_min = 1;
        limits.breaker.open_ms_max = 4;
        limits
    }
}

#[tokio::test]
async fn a_stop_gives_back_what_hangs_and_a_second_engine_finishes_it() {
    let store = store().await;
    let batch = batch(&*store, 100).await;
    let (hanging, waker) = (Wake::new(), Wake::new());
    let hung = hanging.clone();
    let executor = move |attempt: Attempt| {
        let hung = hung.clone();
        async move {
            if attempt.line.is_multiple_of(10) {
                hung.give();
                return std::future::pending().await;
            }
            Outcome::completed("1")
        }
    };
    let options = quick().grace(Duration::from_millis(50));
    let engine = Engine::builder(store.clone()).executor(executor).options(options).build();
    let handle = engine.handle();
    let stopper = async {
        hanging.given().await;
        handle.stop();
        waker.give();
    };
    let (report, ()) = tokio::join!(engine.run(), stopper);
    let released = report.unwrap().released;
    let counts = store.batch(&Scope::All, batch).await.unwrap().counts;
    assert_eq!((counts.leased, counts.adds_up()), (0, true), "{counts:?}");
    assert_eq!(released, counts.unfinished() - counts.untouched, "{counts:?}");
    assert!(released > 0, "{counts:?}");
    drain(&store, batch, async |_: Attempt| Outcome::completed("1")).await;
    assert!(results(&*store, batch).await.iter().all(|line| line.attempts == 1));
}

/// Requests in flight never exceed what the target's controller allows.
#[tokio::test]
async fn limits_in_flight_hold() {
    struct Narrow(AtomicU32, AtomicU32);
    #[async_trait::async_trait]
    impl Executor for Narrow {
        async fn execute(&self, _: Attempt) -> Outcome {
            let now = self.0.fetch_add(1, Ordering::SeqCst) + 1;
            self.1.fetch_max(now, Ordering::SeqCst);
            tokio::task::yield_now().await;
            self.0.fetch_sub(1, Ordering::SeqCst);
            Outcome::completed("1")
        }
        fn limits(&self, _: &windrow_domain::Route) -> windrow_engine::execute::Limits {
            let mut limits = windrow_engine::execute::Limits::default();
            limits.concurrency.max = 3;
            limits.concurrency.start = 3;
            limits
        }
    }
    let store = store().await;
    let batch = batch(&*store, 500).await;
    let executor = Arc::new(Narrow(AtomicU32::new(0), AtomicU32::new(0)));
    drain(&store, batch, executor.clone() as Arc<dyn Executor>).await;
    // Two targets, three each.
    assert!(executor.1.load(Ordering::SeqCst) <= 6);
}

/// Retried lines keep their history; the result says how many tries it took.
#[tokio::test]
async fn a_line_that_always_fails_ends_after_its_attempts() {
    let store = store().await;
    let batch = batch(&*store, 3).await;
    let attempts = Arc::new(Mutex::new(HashMap::<u64, u32>::new()));
    let seen = attempts.clone();
    let executor = move |attempt: Attempt| {
        *seen.lock().unwrap().entry(attempt.line).or_default() += 1;
        std::future::ready(failed(Class::Unacceptable))
    };
    let counts = drain(&store, batch, executor).await.counts;
    assert_eq!(counts.failed, 3);
    assert!(attempts.lock().unwrap().values().all(|attempts| *attempts == 5));
    let lines = results(&*store, batch).await;
    assert!(lines.iter().all(|line| line.status == Status::Failed && line.attempts == 5));
    assert_eq!(store.attempts(&Scope::All, batch, 1).await.unwrap().len(), 4);
}

#[tokio::test]
async fn an_engine_for_a_slice_of_time_ends_by_itself() {
    let store = store().await;
    let batch = batch(&*store, 10).await;
    let ran = Arc::new(AtomicBool::new(false));
    let seen = ran.clone();
    let executor = move |_: Attempt| {
        seen.store(true, Ordering::SeqCst);
        std::future::ready(Outcome::completed("1"))
    };
    let until = Until::Elapsed(Duration::from_millis(200));
    let engine = Engine::builder(store.clone()).executor(executor).until(until);
    engine.run().await.unwrap();
    assert!(ran.load(Ordering::SeqCst));
    assert_eq!(store.batch(&Scope::All, batch).await.unwrap().counts.leased, 0);
}

#[tokio::test]
async fn an_engine_in_the_background_is_stopped_and_waited_for() {
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(windrow_store_sqlite::Options::default()).await.unwrap());
    let running = Engine::builder(store.clone()).options(quick()).start();
    let handle = running.handle();
    assert_eq!(handle.progress().in_flight, 0);
    assert_eq!(running.stop().await.unwrap(), Report::default());
    let until = Until::Elapsed(Duration::from_millis(1));
    let ended = Engine::builder(store).options(quick()).until(until).start().wait().await;
    assert_eq!(ended.unwrap(), Report::default());
}
