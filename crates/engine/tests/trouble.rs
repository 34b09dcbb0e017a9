//! The engine in trouble, on a clock that only the test moves: too little memory, a storage that is
//! broken, renewals that take long, an upstream that is not there. Nothing here sleeps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use support::watched::{CLAIM, EVERY, Watched};
use support::world::World;
use support::{batch, failed};
use windrow_domain::InstanceId;
use windrow_domain::attempt::Class;
use windrow_engine::execute::{Attempt, Executor, Outcome};
use windrow_engine::signal::Stop;
use windrow_engine::storage::Storage;
use windrow_engine::{EngineEvent, Options};
use windrow_store::inspect::FinishedQuery;
use windrow_store::{Finalise as _, Inspect as _, Members as _, Scope};

/// Answers nothing until it is opened; counts how many are in flight at most since then.
struct Gate {
    open: Stop,
    flying: AtomicU32,
    most: AtomicU32,
}

impl Gate {
    fn new() -> Arc<Self> {
        let (flying, most) = (AtomicU32::new(0), AtomicU32::new(0));
        Arc::new(Self { open: Stop::new(), flying, most })
    }
}

#[async_trait::async_trait]
impl Executor for Gate {
    async fn execute(&self, _: Attempt) -> Outcome {
        let flying = self.flying.fetch_add(1, Ordering::SeqCst) + 1;
        if self.open.is_given() {
            self.most.fetch_max(flying, Ordering::SeqCst);
        }
        self.open.given().await;
        tokio::task::yield_now().await;
        self.flying.fetch_sub(1, Ordering::SeqCst);
        Outcome::completed("1")
    }
}

/// Memory stays far above its bound, so the worker is choked as soon as it looks: what it has not
/// begun goes back, and the rest of the batch is run all the same, one line at a time.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_choked_worker_lets_go_and_still_ends_its_batch() {
    const LINES: u64 = 60;
    let world = World::new().await;
    let batch = batch(&*world.store, LINES).await;
    let gate = Gate::new();
    let mut options = Options::default();
    options.pressure.memory_bytes_max = 1;
    // More than one line waits here, whatever was measured.
    options.slice.claim_min = 10;
    let engine = world.engine().options(options).executor(gate.clone() as Arc<dyn Executor>);
    let watch = async {
        world.until(batch, |batch| batch.counts.leased == LINES).await;
        // It may be about to begin some when it looks, so what is in flight is counted afterwards.
        let flying = || gate.flying.load(Ordering::SeqCst);
        world.until(batch, |batch| batch.counts.leased == u64::from(flying())).await;
        let flying = flying();
        assert!(0 < flying && u64::from(flying) < LINES, "{flying} in flight");
        world.pass(Duration::from_secs(60)).await;
        assert_eq!(gate.flying.load(Ordering::SeqCst), flying, "nothing more was begun");
        gate.open.give();
        world.closes(batch).await;
    };
    let (report, ()) = tokio::join!(engine.run(), watch);
    assert_eq!(report.unwrap().closed, 1);
    assert_eq!(world.see(batch).await.counts.completed, LINES);
    assert_eq!(gate.most.load(Ordering::SeqCst), 1, "in flight at a time");
}

/// One has the duty to sweep and a storage that is broken; the other closes the batch.
#[tokio::test]
async fn a_sweeper_with_a_broken_storage_keeps_no_batch_from_being_closed() {
    let (world, folder) = (World::new().await, tempfile::tempdir().unwrap());
    let batch = batch(&*world.store, 4).await;
    let broken = world.engine().storage(Storage::local(folder.path()).unwrap());
    // Where the folder of all outputs should be, something else is in the way.
    std::fs::write(folder.path().join("batches"), "").unwrap();
    let broken = broken.executor(async |_: Attempt| Outcome::completed("1")).build();
    let mut heard = broken.handle().subscribe();
    let other = async {
        let failed = |event| matches!(event, Ok(EngineEvent::OutputFailed { .. }));
        world.until_so("a closing that fails", || failed(heard.try_recv())).await;
        let duty = world.store.take_duty(InstanceId::new(), "sweep", 1).await.unwrap();
        assert!(!duty, "the broken one has it");
        let other = world.engine().storage(Storage::memory()).run();
        tokio::join!(other, world.closes(batch)).0.unwrap()
    };
    let (broken, other) = tokio::join!(broken.run(), other);
    assert_eq!((broken.unwrap().closed, other.closed), (0, 1));
}

/// A renewal releases every lease that it was not told of: a claim that begins meanwhile would lose
/// what it got.
#[tokio::test]
async fn nothing_is_claimed_while_leases_are_renewed() {
    let world = World::new().await;
    let store = Watched::layer(world.store.clone());
    let first = batch(&*world.store, 1).await;
    let gate = Gate::new();
    let engine = world.engine_on(store.clone()).executor(gate.clone() as Arc<dyn Executor>);
    let watch = async {
        world.until(first, |batch| batch.counts.leased == 1).await;
        store.layer().hold(Some("extend_leases"));
        world.until_so("a renewal", || store.layer().asked("extend_leases") == 1).await;
        let (second, claims) = (batch(&*world.store, 2).await, store.layer().asked(CLAIM));
        // It looks for work once a second, and sees this.
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(store.layer().asked(CLAIM), claims, "claims while a renewal is under way");
        store.layer().hold(None);
        gate.open.give();
        world.until(first, |batch| batch.state.is_closed()).await;
        world.closes(second).await;
    };
    let (report, ()) = tokio::join!(engine.run(), watch);
    assert_eq!(report.unwrap().released, 0);
}

/// By its own clock the lease has lapsed, and the store has not answered since: another process may have the lines, and
/// sends them. Those that wait here are not sent until the store says whose they are.
#[tokio::test]
async fn nothing_is_sent_under_a_lease_that_has_lapsed() {
    const LINES: u64 = 60;
    let world = World::new().await;
    let store = Watched::layer(world.store.clone());
    let batch = batch(&*world.store, LINES).await;
    let (open, started) = (Stop::new(), Arc::new(AtomicU32::new(0)));
    let (opened, counted) = (open.clone(), started.clone());
    let executor = move |_: Attempt| {
        counted.fetch_add(1, Ordering::SeqCst);
        let open = opened.clone();
        async move {
            open.given().await;
            Outcome::completed("1")
        }
    };
    let engine = world.engine_on(store.clone()).executor(executor);
    let started = || started.load(Ordering::SeqCst);
    let watch = async {
        world.until_so("a request", || started() > 0).await;
        store.layer().hold(Some(EVERY));
        world.pass(Duration::from_secs(1)).await;
        let before = started();
        assert!(u64::from(before) < LINES, "{before} started");
        // A process that stood still wakes up so.
        let lease_ms = Options::default().slice.lock_floor_ms;
        world.move_on(Duration::from_millis(lease_ms)).await;
        open.give();
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(started(), before, "lines were sent under a lease that had lapsed");
        store.layer().hold(None);
        world.closes(batch).await;
    };
    let (report, ()) = tokio::join!(engine.run(), watch);
    assert_eq!(report.unwrap().closed, 1);
    assert_eq!(world.see(batch).await.counts.completed, LINES);
}

/// What a proxy answers while nobody is behind it.
fn unavailable() -> Outcome {
    Outcome { http_status: Some(503), ..failed(Class::Server) }
}

#[tokio::test]
async fn an_upstream_that_is_gone_behind_its_proxy_costs_no_line_its_result() {
    const LINES: u64 = 40;
    const GONE_MS: u64 = 40 * 60_000;
    const STEP: Duration = Duration::from_millis(500);
    let world = World::new().await;
    let batch = batch(&*world.store, LINES).await;
    let (clock, attempts) = (world.clock.clone(), Arc::new(AtomicU32::new(0)));
    let counted = attempts.clone();
    let executor = move |_: Attempt| {
        counted.fetch_add(1, Ordering::SeqCst);
        let is_gone = clock.millis() < GONE_MS;
        std::future::ready(if is_gone { unavailable() } else { Outcome::completed("1") })
    };
    let engine = world.engine().executor(executor);
    let watch = async {
        while world.clock.millis() < GONE_MS {
            world.move_on(STEP).await;
        }
        let (counts, attempts) = (world.see(batch).await.counts, attempts.load(Ordering::SeqCst));
        assert_eq!(counts.finished(), 0, "{counts:?}");
        // Two targets, each probed twice a minute at last, and what was in flight when it began.
        assert!((2 * 75..2 * 120).contains(&attempts), "{attempts} attempts");
        let took = world.closes(batch).await;
        assert!(took <= Duration::from_secs(40), "{took:?} after it came back");
    };
    let (report, ()) = tokio::join!(engine.run(), watch);
    report.unwrap();
    assert_eq!(world.see(batch).await.counts.completed, LINES);
    let query = FinishedQuery { batch: Some(batch), limit: 100, ..FinishedQuery::default() };
    let lines = world.store.finished(&Scope::All, query).await.unwrap().rows;
    // Before a breaker opens it takes ten failures in a row, and a few are in flight by then.
    let counted: u32 = lines.iter().map(|line| line.result.attempts - 1).sum();
    assert!(counted <= 2 * 20, "only tries before the breakers opened counted: {counted}");
}

/// Alone it proves nothing about its upstream: it may be what brings it down.
#[tokio::test]
async fn a_line_whose_upstream_is_never_there_ends_all_the_same() {
    let world = World::new().await;
    let batch = batch(&*world.store, 1).await;
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = attempts.clone();
    let executor = move |_: Attempt| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(unavailable())
    };
    let engine = world.engine().executor(executor);
    let (report, took) = tokio::join!(engine.run(), world.closes(batch));
    report.unwrap();
    assert!(took <= Duration::from_secs(120), "{took:?}");
    assert_eq!(world.see(batch).await.counts.failed, 1);
    // As often as it has attempts, and as often again without counting.
    assert_eq!(attempts.load(Ordering::SeqCst), 2 * Options::default().retry.attempts_max);
}

/// What a tombstoned instance is closing is anybody's: one that joined again closes under its new id.
#[tokio::test]
async fn an_instance_that_joined_again_closes_under_its_new_id() {
    let world = World::new().await;
    let store = Watched::layer(world.store.clone());
    let batch = batch(&*world.store, 2).await;
    let gate = Gate::new();
    let engine = world.engine_on(store.clone()).executor(gate.clone() as Arc<dyn Executor>);
    let watch = async {
        world.until(batch, |batch| batch.counts.leased == 2).await;
        let members = world.store.members().await.unwrap();
        world.store.tombstone(members[0].instance).await.unwrap();
        world.until_so("a new id", || store.layer().asked("register") == 2).await;
        store.layer().hold(Some("close_batch"));
        gate.open.give();
        world.until_so("a closing", || store.layer().asked("close_batch") == 1).await;
        assert_eq!(world.store.find_unclosed(10).await.unwrap(), [], "somebody alive has it");
        store.layer().hold(None);
        world.closes(batch).await;
    };
    let (report, ()) = tokio::join!(engine.run(), watch);
    assert_eq!(report.unwrap().closed, 1);
}
