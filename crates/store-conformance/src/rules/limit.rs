//! Rule 12 (and rule 3 where limits move): what limits of targets hold when many workers meet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinSet;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, Ending, State};
use windrow_store::claim::Request;
use windrow_store::record::Turn;
use windrow_store::{Batches, Claim, Inspect, Store};

use crate::World;
use crate::fixture::*;
use crate::order::leased_of;

/// Rule 12: workers that claim and finish at the same moment never have more lines of a target in
/// flight than its limit, and the work gets done.
pub async fn rule_12_a_limit_holds_across_instances(world: &impl World) {
    const LIMIT: u32 = 7;
    let store = world.store();
    let batch = batch_of(store, "ada", 120).await;
    store.set_limit(&target(MODEL), Some(LIMIT)).await.unwrap();
    let mut tasks = JoinSet::new();
    for seed in 0..4 {
        let worker = Worker::on(&world.another().await);
        tasks.spawn(work_under_limit(worker, batch, seed));
    }
    while !tasks.is_empty() {
        let rows = patiently(|| store.verify(batch)).await.unwrap();
        rows.check().expect("every line is in one place");
        let leased = rows.lanes[0].counts.leased;
        assert!(leased <= u64::from(LIMIT), "{leased} are in flight");
        if let Some(result) = tasks.try_join_next() {
            result.expect("a worker ends well");
        }
    }
    assert_eq!(counts(store, batch).await.completed, 120);
    assert_eq!(leased_of(store, MODEL).await, 0);
    check(store, batch).await;
}

async fn work_under_limit<S: Store + Clone>(worker: Worker<S>, batch: BatchId, seed: u64) {
    const TURNS_MAX: u32 = 5_000;
    let mut dice = Dice::seeded(seed);
    for _ in 0..TURNS_MAX {
        let lines_max = u32::try_from(dice.below(5) + 1).expect("small");
        let asked = Request { only: Some(batch), ..request(&[MODEL], lines_max) };
        let claim = || worker.store.lease_tranche(worker.instance, asked.clone());
        match patiently(claim).await.expect("a claim is answered") {
            Some(tranche) => {
                let outcomes = vec![finished(&tranche, Status::Completed)];
                let record = || worker.store.record(worker.instance, outcomes.clone());
                patiently(record).await.expect("a turn is answered");
            }
            None if counts(&worker.store, batch).await.unfinished() == 0 => return,
            None => tokio::task::yield_now().await,
        }
    }
    panic!("the work did not get done");
}

/// Rule 3: turns that record one target and claim from another, while somebody lowers and raises
/// the limits of both, never deadlock, and the work gets done.
pub async fn rule_03_turns_under_lowered_limits_never_deadlock(world: &impl World) {
    const TARGETS: [&str; 2] = ["model-a", "model-b"];
    let store = world.store();
    let file = Sheet::of("ada").rounds(&TARGETS, 25).seal(store).await;
    let mut batches = Vec::new();
    for _ in 0..4 {
        batches.push(store.create_batch(run_over(file, "ada")).await.unwrap().id);
    }
    let done = Arc::new(AtomicBool::new(false));
    let limits = move_limits(world.another().await, TARGETS, done.clone());
    let limits = JoinSet::from_iter([limits]);
    let mut tasks = JoinSet::new();
    for first in 0..4 {
        let worker = Worker::on(&world.another().await);
        tasks.spawn(alternate_targets(worker, batches.clone(), TARGETS, first));
    }
    tasks.join_all().await;
    done.store(true, Ordering::SeqCst);
    limits.join_all().await;
    for id in &batches {
        assert_eq!(batch(store, *id).await.state, State::Finalizing(Ending::Completed));
        check(store, *id).await;
    }
    assert_eq!(world.deadlocks().await, 0, "no deadlock, not even one that was retried");
}

async fn move_limits<S: Store>(store: S, targets: [&'static str; 2], done: Arc<AtomicBool>) {
    let mut dice = Dice::seeded(3);
    while !done.load(Ordering::SeqCst) {
        let mut names = targets;
        dice.shuffle(&mut names);
        for name in names {
            let max = u32::try_from(dice.below(10) + 1).expect("small");
            let (name, max) = (target(name), (max < 10).then_some(max));
            patiently(|| store.set_limit(&name, max)).await.expect("a limit is set");
        }
        tokio::task::yield_now().await;
    }
}

/// Turns that finish what was claimed from one target and claim from the other.
async fn alternate_targets<S: Store + Clone>(
    worker: Worker<S>,
    batches: Vec<BatchId>,
    targets: [&'static str; 2],
    first: usize,
) {
    const TURNS_MAX: usize = 10_000;
    let mut outcomes = Vec::new();
    for no in first..TURNS_MAX {
        let claim = Some(request(&[targets[no % 2]], 4));
        let turn = Turn { instance: worker.instance, outcomes, claim };
        let reply = patiently(|| worker.store.turn(turn.clone())).await;
        let reply = reply.expect("a turn is answered");
        outcomes = reply.claimed.iter().map(|got| finished(got, Status::Completed)).collect();
        if outcomes.is_empty() {
            let mut left = 0;
            for id in &batches {
                left += counts(&worker.store, *id).await.unfinished();
            }
            if left == 0 {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
    panic!("the work did not get done");
}
