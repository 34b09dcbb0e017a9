//! Storms: many workers at once, with retries, releases, zombies, lost replies, expired leases and
//! steering in the middle; every line still ends in exactly one place.
//!
//! Holds throughout: what happens is drawn from a seed; the order in which tasks run is the
//! machine's, so a failure may need several runs, but a passing run never depends on luck.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::RwLock;
use tokio::task::JoinSet;
use windrow_domain::attempt::Status;
use windrow_domain::lease::is_suspect;
use windrow_domain::{BatchId, Ending, State};
use windrow_store::batch::{Reprocess, Select};
use windrow_store::claim::{Request, Tranche};
use windrow_store::error::Kind;
use windrow_store::record::{Fold, Outcomes, Reply, Turn};
use windrow_store::sweep::WORKER_LOST;
use windrow_store::{Batches, Claim, Inspect, Record, Scope, Store, Sweep, Time};

use crate::World;
use crate::fixture::*;

const TARGETS: [&str; 2] = ["model-a", "model-b"];
const TURNS_MAX: u32 = 20_000;
const ROUNDS_MAX: u32 = 5_000;
const ROUND_MS: u64 = 400;

/// What all tasks of a storm share.
struct Storm {
    time: Time,
    /// Every batch that any turn or sweep reported as finalizing.
    reports: Mutex<Vec<BatchId>>,
    done: AtomicBool,
    /// How many workers may still die with their lines.
    deaths_left: AtomicU32,
    /// In a hundred lines, how many are to be tried again.
    retry_percent: u64,
}

impl Storm {
    fn new(world: &impl World, deaths: u32, retry_percent: u64) -> Arc<Self> {
        Arc::new(Self {
            time: world.time().clone(),
            reports: Mutex::new(Vec::new()),
            done: AtomicBool::new(false),
            deaths_left: AtomicU32::new(deaths),
            retry_percent,
        })
    }

    fn report(&self, finalizing: &[BatchId]) {
        self.reports.lock().expect("no task died here").extend_from_slice(finalizing);
    }

    fn reports_of(&self, batch: BatchId) -> usize {
        let reports = self.reports.lock().expect("no task died here");
        reports.iter().filter(|id| **id == batch).count()
    }

    fn may_die(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.deaths_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    /// What becomes of a tranche's lines: mostly results, and everything else now and then.
    fn outcomes(&self, tranche: &Tranche, dice: &mut Dice) -> Outcomes {
        let mut outcomes = Outcomes::of(tranche.lease.held.clone());
        let now = self.time.now().expect("the suite runs on a given clock");
        for line in &tranche.lines {
            let one = |seq| seq == line.seq;
            match dice.below(100) {
                // Left for a later turn.
                0..15 => {}
                15..20 => drop(outcomes.released.insert(line.seq)),
                roll if roll < 20 + self.retry_percent && tranche.lease.attempts < 4 => {
                    let wait = std::time::Duration::from_millis(dice.below(2000));
                    let at = now.checked_add(wait).expect("soon");
                    outcomes.again.extend(again_some(tranche, at, one).again);
                }
                _ => {
                    let status = match dice.below(20) {
                        0 => Status::Failed,
                        1 => Status::NotFound,
                        2 => Status::Skipped,
                        _ => Status::Completed,
                    };
                    outcomes.finished.extend(finished_some(tranche, status, one).finished);
                }
            }
        }
        outcomes
    }
}

/// A worker in a storm: what it holds, and what it holds though it was given up for dead.
struct Sailor<S> {
    worker: Worker<S>,
    storm: Arc<Storm>,
    dice: Dice,
    held: Vec<Tranche>,
    ghosts: Vec<Tranche>,
}

impl<S: Store + Clone> Sailor<S> {
    fn new(store: &S, storm: &Arc<Storm>, seed: u64) -> Self {
        Self {
            worker: Worker::on(store),
            storm: storm.clone(),
            dice: Dice::seeded(seed),
            held: Vec::new(),
            ghosts: Vec::new(),
        }
    }

    async fn sail(mut self) {
        for _ in 0..TURNS_MAX {
            if self.storm.done.load(Ordering::SeqCst) {
                return;
            }
            self.take_turn().await;
            match self.dice.below(100) {
                0..4 if self.storm.may_die() => self.ghosts.append(&mut self.held),
                4..8 => self.renew().await,
                8..10 => self.give_up_one().await,
                _ => {}
            }
            if self.held.is_empty() {
                tokio::task::yield_now().await;
            }
        }
        panic!("the storm does not end");
    }

    async fn take_turn(&mut self) {
        let wants = self.held.len() < 3;
        let lines_max = u32::try_from(self.dice.below(20) + 1).expect("small");
        let mut named: Vec<Tranche> = self.held.clone();
        if self.dice.percent(10) {
            named.extend(self.ghosts.pop());
        }
        self.dice.shuffle(&mut named);
        let outcomes = named.iter().map(|tranche| self.storm.outcomes(tranche, &mut self.dice));
        let turn = Turn {
            instance: self.worker.instance,
            outcomes: outcomes.collect(),
            claim: wants.then(|| request(&TARGETS, lines_max)),
        };
        let mut reply = self.send(&turn).await;
        if self.dice.percent(10) {
            // The reply was lost on the way.
            reply = self.send(&turn).await;
        }
        self.held.retain_mut(|tranche| goes_on(tranche, &reply));
        self.held.extend(reply.claimed);
    }

    async fn send(&self, turn: &Turn) -> Reply {
        let reply = patiently(|| self.worker.store.turn(turn.clone())).await;
        let reply = reply.expect("a turn is answered");
        self.storm.report(&reply.finalizing);
        reply
    }

    async fn renew(&mut self) {
        let known: Vec<_> = self.held.iter().map(|tranche| tranche.lease.held.id).collect();
        let (store, instance) = (&self.worker.store, self.worker.instance);
        let said = patiently(|| store.extend_leases(instance, known.clone(), LEASE_MS / 2)).await;
        let said = said.expect("a renewal is answered");
        self.held.retain(|tranche| said.extended.contains(&tranche.lease.held.id));
    }

    async fn give_up_one(&mut self) {
        let Some(tranche) = self.held.pop() else { return };
        let ids = vec![tranche.lease.held.id];
        let (store, instance) = (&self.worker.store, self.worker.instance);
        let released = patiently(|| store.release_leases(instance, ids.clone())).await;
        released.expect("a release is answered");
    }
}

/// Brings a tranche up to date with a reply; false when nothing is left of it.
fn goes_on(tranche: &mut Tranche, reply: &Reply) -> bool {
    let id = tranche.lease.held.id;
    let fold = reply.folds.iter().find(|fold| match fold {
        Fold::Kept { lease, .. } | Fold::Lost { lease } => *lease == id,
    });
    match fold {
        Some(Fold::Kept { held: Some(held), .. }) => {
            tranche.lines.retain(|line| held.outstanding.contains(line.seq));
            tranche.lease.held = held.clone();
            true
        }
        Some(Fold::Kept { held: None, .. } | Fold::Lost { .. }) => false,
        None => panic!("the reply has no fold for {id}"),
    }
}

/// Moves time, takes lost leases back and looks at every line until all batches have settled.
async fn watch(world: &impl World, storm: &Storm, tasks: &mut JoinSet<()>, batches: &[BatchId]) {
    let store = world.store();
    for _ in 0..ROUNDS_MAX {
        if let Some(ended) = tasks.try_join_next() {
            ended.expect("a worker ends well");
            panic!("a worker went home before the work was done");
        }
        pass(world, ROUND_MS);
        let lost = patiently(|| store.return_lost(10, 1000)).await.expect("a sweep is answered");
        storm.report(&lost.finalizing);
        let mut running = false;
        for id in batches {
            check_snapshot(store, *id).await;
            running |= batch(store, *id).await.state.is_running();
        }
        if !running {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the batches do not settle");
}

async fn launch(world: &impl World, storm: &Arc<Storm>, workers: u64, seed: u64) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for no in 0..workers {
        let store = world.another().await;
        tasks.spawn(Sailor::new(&store, storm, seed * 1000 + no).sail());
    }
    tasks
}

async fn land(world: &impl World, storm: &Storm, tasks: JoinSet<()>) {
    storm.done.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    assert_eq!(world.deadlocks().await, 0, "no deadlock, not even one that was retried");
}

/// Workers over several handles, two batches of one file and another owner's, retries, releases,
/// deaths, zombies and lost replies: one result per line, and each batch settles exactly once.
pub async fn every_line_ends_once_in_a_storm(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").rounds(&TARGETS, 60).seal(store).await;
    let one = store.create_batch(run_over(file, "ada")).await.unwrap().id;
    let two = store.create_batch(run_over(file, "ada")).await.unwrap().id;
    let three = Sheet::of("bob").lines(TARGETS[0], 80).run(store).await;
    let batches = [one, two, three];
    let storm = Storm::new(world, 8, 12);
    let mut tasks = launch(world, &storm, 4, 1).await;
    watch(world, &storm, &mut tasks, &batches).await;
    land(world, &storm, tasks).await;
    for (id, lines) in batches.into_iter().zip([120, 120, 80]) {
        check(store, id).await;
        has_one_result_per_line(store, id, lines).await;
        assert_eq!(batch(store, id).await.state, State::Finalizing(Ending::Completed));
        assert_eq!(storm.reports_of(id), 1, "{id} was reported once");
        Worker::on(store).close(id).await;
    }
}

/// Half of all tries fail: the storm of retries settles, and every retry is in the history.
pub async fn a_retry_storm_settles(world: &impl World) {
    let store = world.store();
    let id = Sheet::of("ada").rounds(&TARGETS, 100).run(store).await;
    let storm = Storm::new(world, 0, 50);
    let mut tasks = launch(world, &storm, 4, 2).await;
    watch(world, &storm, &mut tasks, &[id]).await;
    land(world, &storm, tasks).await;
    check(store, id).await;
    assert_eq!(storm.reports_of(id), 1);
    let rows = results(store, id).await;
    assert_eq!(rows.len(), 200);
    for row in rows.iter().step_by(10) {
        let attempts = store.attempts(&Scope::All, id, row.result.line).await.unwrap();
        let numbers: Vec<_> = attempts.iter().map(|attempt| attempt.attempt).collect();
        assert!(numbers.iter().copied().eq(1..row.result.attempts), "{numbers:?} {row:?}");
    }
}

/// Pausing, resuming and reprocessing in the middle of a storm, and one batch cancelled: the
/// others end with one result per line, the cancelled one settles with what it got.
pub async fn steering_in_a_storm_loses_nothing(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").rounds(&TARGETS, 50).seal(store).await;
    let mut batches = Vec::new();
    for _ in 0..3 {
        batches.push(store.create_batch(run_over(file, "ada")).await.unwrap().id);
    }
    let storm = Storm::new(world, 4, 10);
    let mut tasks = launch(world, &storm, 3, 3).await;
    let helm = world.another().await;
    let steered = batches.clone();
    let steering = JoinSet::from_iter([async move { steer(helm, steered).await }]);
    // The doctor's look, while the helm turns.
    for _ in 0..10 {
        for id in &batches {
            check_snapshot(store, *id).await;
        }
    }
    let reopened: u32 = steering.join_all().await.into_iter().sum();
    watch(world, &storm, &mut tasks, &batches).await;
    land(world, &storm, tasks).await;
    for id in &batches {
        check(store, *id).await;
        assert!(storm.reports_of(*id) <= 1 + reopened as usize, "{id} was reported too often");
    }
    for id in &batches[1..] {
        has_one_result_per_line(store, *id, 100).await;
        assert!(storm.reports_of(*id) >= 1);
        assert_eq!(batch(store, *id).await.state, State::Finalizing(Ending::Completed));
    }
    let cancelled = batch(store, batches[0]).await;
    assert_eq!(cancelled.state, State::Finalizing(Ending::Cancelled));
    assert_eq!(cancelled.counts.leased, 0);
}

/// Steers for a while; says how many reprocesses moved lines.
async fn steer<S: Store>(store: S, batches: Vec<BatchId>) -> u32 {
    let (all, mut dice, mut reopened) = (Scope::All, Dice::seeded(33), 0);
    for round in 0..30 {
        let id = dice.pick(&batches).expect("three batches");
        let select = Select::Statuses(vec![Status::Failed, Status::NotFound]);
        let step = Reprocess { lines_max: 20, ..Reprocess::first(id, select) };
        let outcome = match dice.below(3) {
            0 => patiently(|| store.pause_batch(&all, id, None)).await.map(drop),
            1 => patiently(|| store.resume_batch(&all, id, None)).await.map(drop),
            _ => patiently(|| store.reprocess(&all, step.clone())).await.map(|done| {
                reopened += u32::from(done.moved > 0);
            }),
        };
        if let Err(error) = outcome {
            assert_eq!(error.kind, Kind::Refused, "{}", whole_text(&error));
        }
        if round == 15 {
            // Refused when the batch got everything done before; then there is nothing to cancel.
            let reopen = || {
                let select = Select::Statuses(Status::ALL.to_vec());
                let batch = batches[0];
                store.reprocess(
                    &all,
                    Reprocess { lines_max: 100, ..Reprocess::first(batch, select) },
                )
            };
            while patiently(|| store.cancel_batch(&all, batches[0])).await.is_err() {
                reopened += u32::from(patiently(reopen).await.is_ok_and(|done| done.moved > 0));
            }
        }
    }
    for id in &batches[1..] {
        if let Err(error) = patiently(|| store.resume_batch(&all, *id, None)).await {
            assert_eq!(error.kind, Kind::Refused, "it got everything done before");
        }
    }
    reopened
}

/// A line that kills every worker that holds it, among 499 good ones and several workers: it ends
/// as one failed result, and they complete.
pub async fn a_killing_line_among_many_workers_fails_alone(world: &impl World) {
    const KILLER: u64 = 250;
    const CRASHES_MAX: u32 = 3;
    let store = world.store();
    let id = batch_of(store, "ada", 500).await;
    // Time moves only while no good worker holds a lease: whoever is lost did die.
    let calm = Arc::new(RwLock::new(()));
    let done = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let (store, calm, done) = (world.another().await, calm.clone(), done.clone());
        tasks.spawn(async move {
            for _ in 0..TURNS_MAX {
                if done.load(Ordering::SeqCst) {
                    return;
                }
                let working = calm.read().await;
                let worker = Worker::on(&store);
                let asked = Request { only: Some(id), ..request(&[MODEL], 500) };
                let claim = || worker.store.lease_tranche(worker.instance, asked.clone());
                let claimed = patiently(claim).await.expect("a claim is answered");
                if let Some(tranche) = &claimed
                    && is_suspect(tranche.lines.len() as u64, tranche.lease.crashes, CRASHES_MAX)
                {
                    assert!(worker.mark(tranche).await, "it runs alone");
                }
                if let Some(tranche) = claimed
                    && !seqs(&tranche).contains(KILLER)
                {
                    let outcomes = vec![finished(&tranche, Status::Completed)];
                    let record = || worker.store.record(worker.instance, outcomes.clone());
                    patiently(record).await.expect("a turn is answered");
                }
                drop(working);
                tokio::task::yield_now().await;
            }
            panic!("the killing line does not end");
        });
    }
    for round in 0.. {
        assert!(round < ROUNDS_MAX, "the batch does not settle");
        let still = calm.write().await;
        pass(world, LEASE_MS);
        patiently(|| store.return_lost(10, CRASHES_MAX)).await.expect("a sweep is answered");
        check_snapshot(store, id).await;
        drop(still);
        if !batch(store, id).await.state.is_running() {
            break;
        }
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    let rows = results(store, id).await;
    let failed: Vec<_> = rows.iter().filter(|row| row.result.status != Status::Completed).collect();
    assert_eq!((rows.len(), failed.len()), (500, 1));
    assert_eq!(failed[0].result.seq, KILLER);
    assert_eq!(failed[0].result.error_code.as_deref(), Some(WORKER_LOST));
    check(store, id).await;
}
