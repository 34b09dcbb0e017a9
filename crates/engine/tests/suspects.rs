//! Lines that may have killed their worker: each runs alone and marked, and holds nobody up for long. On a clock
//! that only the test moves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use support::batch;
use support::world::World;
use windrow_domain::{BatchId, InstanceId, LeaseId, Target};
use windrow_engine::Options;
use windrow_engine::clock::Clock;
use windrow_engine::execute::{Attempt, Executor, Outcome};
use windrow_store::claim::Request;
use windrow_store::{Inspect as _, Store, Sweep as _};
use windrow_store_sqlite::SqliteStore;

/// Lines of the batch, half of them for each of two targets.
const LINES: u64 = 20;
const LEASE: Duration = Duration::from_secs(20);

/// Claims single lines of a target for a process that is about to die.
async fn claim_singles(store: &dyn Store, count: u32) {
    let dead = InstanceId::new();
    for _ in 0..count {
        let request = Request {
            lease: LeaseId::new(),
            routes: vec![Target::new("m1").unwrap().into()],
            binds: false,
            only: None,
            lines_max: 1,
            lease_ms: 20_000,
        };
        assert!(store.lease_tranche(dead, request).await.unwrap().is_some());
    }
}

/// Makes so many lines of a target suspects: each was alone in a lease that was lost twice.
async fn make_suspects(world: &World, count: u32) {
    let crashes_max = Options::default().crashes_max;
    for _ in 1..crashes_max {
        claim_singles(&*world.store, count).await;
        world.pass(LEASE).await;
        assert_eq!(world.store.return_lost(100, crashes_max).await.unwrap().failed, 0);
    }
}

/// Runs lines for a while each, and writes down what was beside them.
struct Watching {
    store: Arc<SqliteStore>,
    clock: Clock,
    batch: BatchId,
    takes: Duration,
    flying: AtomicU32,
    most: AtomicU32,
    /// The lines in the order of their starts, and whether each was marked when it began.
    started: Mutex<Vec<(u64, bool)>>,
    suspects: Mutex<BTreeSet<u64>>,
}

impl Watching {
    fn new(world: &World, batch: BatchId, takes: Duration) -> Arc<Self> {
        Arc::new(Self {
            store: world.store.clone(),
            clock: world.clock.clone(),
            batch,
            takes,
            flying: AtomicU32::new(0),
            most: AtomicU32::new(0),
            started: Mutex::default(),
            suspects: Mutex::default(),
        })
    }
}

#[async_trait::async_trait]
impl Executor for Watching {
    async fn execute(&self, attempt: Attempt) -> Outcome {
        let flying = self.flying.fetch_add(1, Ordering::SeqCst) + 1;
        let rows = self.store.verify(self.batch).await.unwrap();
        rows.check().unwrap();
        let marks: usize = rows.lanes.iter().map(|lane| lane.alone.len()).sum();
        self.started.lock().push((attempt.line, marks > 0));
        if marks > 0 {
            assert_eq!((marks, flying), (1, 1), "line {} runs alone", attempt.line);
            self.suspects.lock().insert(attempt.line);
        }
        self.most.fetch_max(flying, Ordering::SeqCst);
        self.clock.sleep(self.takes).await;
        if marks > 0 {
            assert_eq!(self.flying.load(Ordering::SeqCst), 1, "nothing started beside it");
        }
        self.flying.fetch_sub(1, Ordering::SeqCst);
        Outcome::completed("1")
    }
}

#[tokio::test]
async fn a_suspect_runs_alone_and_marked_and_the_others_together() {
    const SUSPECTS: u32 = 3;
    let world = World::new().await;
    let batch = batch(&*world.store, LINES).await;
    make_suspects(&world, SUSPECTS).await;
    let watching = Watching::new(&world, batch, Duration::from_millis(200));
    let engine = world.engine().executor(watching.clone() as Arc<dyn Executor>);
    let (report, _) = tokio::join!(engine.run(), world.closes(batch));
    report.unwrap();
    let counts = world.see(batch).await.counts;
    assert_eq!((counts.completed, counts.failed), (LINES, 0));
    let started = watching.started.lock().clone();
    assert_eq!(watching.suspects.lock().len(), SUSPECTS as usize, "{started:?}");
    assert_eq!(started.len() as u64, LINES, "each line once: {started:?}");
    assert!(watching.most.load(Ordering::SeqCst) > 1, "the others go together: {started:?}");
}

/// Between two suspects the others have their time, and both come to their end.
#[tokio::test]
async fn suspects_and_others_take_turns() {
    const SUSPECTS: u32 = 6;
    /// Enough that others wait all the time.
    const LINES: u64 = 100;
    let world = World::new().await;
    let batch = batch(&*world.store, LINES).await;
    make_suspects(&world, SUSPECTS).await;
    let watching = Watching::new(&world, batch, Duration::from_secs(2));
    let engine = world.engine().executor(watching.clone() as Arc<dyn Executor>);
    let (report, _) = tokio::join!(engine.run(), world.closes(batch));
    report.unwrap();
    assert_eq!(world.see(batch).await.counts.completed, LINES);
    let started = watching.started.lock().clone();
    let alone: Vec<usize> = (0..started.len()).filter(|at| started[*at].1).collect();
    assert_eq!(alone.len(), SUSPECTS as usize, "{started:?}");
    let (first, last) = (alone[0], alone[alone.len() - 1]);
    let between = last - first + 1 - alone.len();
    let others = usize::try_from(LINES).unwrap() - alone.len();
    assert!(between >= others / 2, "others ran in between: {started:?}");
    assert!(first <= others / 2, "a suspect does not wait for all others: {started:?}");
}

/// The process dies with suspects in its hands that had not begun: none of them is charged.
#[tokio::test]
async fn suspects_that_had_not_begun_are_not_charged() {
    let world = World::new().await;
    let batch = batch(&*world.store, LINES).await;
    make_suspects(&world, 4).await;
    claim_singles(&*world.store, 4).await;
    world.pass(LEASE).await;
    let lost = world.store.return_lost(100, Options::default().crashes_max).await.unwrap();
    assert_eq!((lost.returned, lost.failed), (4, 0));
    world.store.verify(batch).await.unwrap().check().unwrap();
}
