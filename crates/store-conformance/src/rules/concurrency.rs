//! Rules 3, 6, 7, 8 and 11: what holds when calls meet, wait for each other or stop half way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::task::JoinSet;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, LineSet, State};
use windrow_store::batch::NewBatch;
use windrow_store::claim::{Request, Tranche};
use windrow_store::error::Kind;
use windrow_store::inspect::BatchRows;
use windrow_store::{Batches, Claim, Ingest, Inspect, Members, Record, Scope, Store, Sweep};

use crate::World;
use crate::cancellation::CancelAfter;
use crate::fixture::*;

/// Rule 3: turns over the same lanes in any order, with steering and sweeping beside them, never
/// deadlock. The suite asserts the database's deadlock counter after every case.
pub async fn rule_03_turns_in_any_order_never_deadlock(world: &impl World) {
    const TARGETS: [&str; 3] = ["model-a", "model-b", "model-c"];
    let store = world.store();
    let file = Sheet::of("ada").rounds(&TARGETS, 40).seal(store).await;
    let mut batches = Vec::new();
    for _ in 0..2 {
        batches.push(store.create_batch(run_over(file, "ada")).await.unwrap().id);
    }
    let mut tasks = JoinSet::new();
    for seed in 0..4 {
        let worker = Worker::on(&world.another().await);
        tasks.spawn(turns_over_all_lanes(worker, batches.clone(), TARGETS, seed));
    }
    let steering = world.another().await;
    let steered = batches.clone();
    tasks.spawn(async move {
        for round in 0..12 {
            let batch = steered[round % 2];
            let all = Scope::All;
            patiently(|| steering.pause_batch(&all, batch, None)).await.unwrap();
            patiently(|| steering.return_lost(10, 9)).await.unwrap();
            patiently(|| steering.resume_batch(&all, batch, None)).await.unwrap();
            patiently(|| look_around(&steering)).await.unwrap();
        }
    });
    tasks.join_all().await;
    for batch in &batches {
        check(store, *batch).await;
    }
    assert_eq!(world.deadlocks().await, 0, "no deadlock, not even one that was retried");
}

/// Reads and sweeps that run beside the work.
async fn look_around(store: &impl Store) -> windrow_store::Result<()> {
    store.members().await?;
    store.find_unclosed(10).await?;
    store.expire_batches(10).await.map(drop)
}

async fn turns_over_all_lanes<S: Store + Clone>(
    worker: Worker<S>,
    batches: Vec<BatchId>,
    targets: [&'static str; 3],
    seed: u64,
) {
    let mut dice = Dice::seeded(seed);
    for _ in 0..4 {
        let mut held: Vec<Tranche> = Vec::new();
        for batch in &batches {
            for name in targets {
                let asked = Request { only: Some(*batch), ..request(&[name], 2) };
                let claim = || worker.store.lease_tranche(worker.instance, asked.clone());
                held.extend(patiently(claim).await.expect("a claim is answered"));
            }
        }
        dice.shuffle(&mut held);
        let outcome = |tranche: &Tranche| {
            let mut outcomes = finished_some(tranche, Status::Completed, |seq| seq % 2 == 0);
            outcomes.released = seqs(tranche).iter().filter(|seq| seq % 2 == 1).collect();
            outcomes
        };
        let outcomes: Vec<_> = held.iter().map(outcome).collect();
        let record = || worker.store.record(worker.instance, outcomes.clone());
        patiently(record).await.expect("a turn is answered");
    }
}

/// Rule 6: after a pause, a cancel or an expiry returned, no claim gets a line, however it raced;
/// and what was leased before is enough to settle the batch.
pub async fn rule_06_no_claim_slips_past_a_stop(world: &impl World) {
    let store = world.store();
    for round in 0..9 {
        let file = Sheet::of("ada").lines(MODEL, 200).seal(store).await;
        let new = NewBatch { window_secs: Some(1), ..run_over(file, "ada") };
        let id = store.create_batch(new).await.unwrap().id;
        let stopped = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for _ in 0..3 {
            let worker = Worker::on(&world.another().await);
            tasks.spawn(claim_until_stopped(worker, id, stopped.clone()));
        }
        tokio::task::yield_now().await;
        let all = Scope::All;
        match round % 3 {
            0 => drop(patiently(|| store.pause_batch(&all, id, None)).await.unwrap()),
            1 => drop(patiently(|| store.cancel_batch(&all, id)).await.unwrap()),
            _ => {
                pass(world, 1000);
                assert_eq!(patiently(|| store.expire_batches(10)).await.unwrap(), [id]);
            }
        }
        stopped.store(true, Ordering::SeqCst);
        let held: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
        check(store, id).await;
        if round % 3 == 0 {
            store.resume_batch(&Scope::All, id, None).await.unwrap();
            store.cancel_batch(&Scope::All, id).await.unwrap();
        }
        for (worker, tranche) in held {
            worker.complete(&tranche).await;
        }
        assert!(!batch(store, id).await.state.is_running(), "round {round} hangs");
        check(store, id).await;
    }
}

async fn claim_until_stopped<S: Store + Clone>(
    worker: Worker<S>,
    batch: BatchId,
    stopped: Arc<AtomicBool>,
) -> Vec<(Worker<S>, Tranche)> {
    let mut held = Vec::new();
    for _ in 0..200 {
        let late = stopped.load(Ordering::SeqCst);
        let asked = Request { only: Some(batch), ..request(&[MODEL], 1) };
        let claim = || worker.store.lease_tranche(worker.instance, asked.clone());
        let claimed = patiently(claim).await.expect("a claim is answered");
        assert!(!(late && claimed.is_some()), "a claim slipped past the stop");
        held.extend(claimed.map(|tranche| (worker.clone(), tranche)));
        if late {
            break;
        }
    }
    held
}

/// Rule 6: a paused batch still closes when its last line finishes.
pub async fn rule_06_a_paused_batch_closes_with_its_last_line(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    let tranche = worker.take(4).await;
    store.pause_batch(&Scope::All, id, None).await.unwrap();
    worker.record(finished_some(&tranche, Status::Completed, |seq| seq < 3)).await;
    check(store, id).await;
    assert_eq!(worker.complete(&tranche).await.finalizing, [id]);
    assert_eq!(worker.close(id).await.state, State::Completed);
    check(store, id).await;
}

/// Rule 7: while lines are left, a claim that meets others waits for its turn and is not told that
/// there is nothing to do.
pub async fn rule_07_a_claim_that_meets_others_waits(world: &impl World) {
    const CLAIMERS: usize = 6;
    const ROUNDS: u64 = 8;
    let store = world.store();
    let batch = batch_of(store, "ada", CLAIMERS as u64 * ROUNDS).await;
    let mut stores = Vec::new();
    for _ in 0..CLAIMERS {
        stores.push(world.another().await);
    }
    for round in 0..ROUNDS {
        let mut tasks = JoinSet::new();
        for store in &stores {
            let worker = Worker::on(store);
            tasks.spawn(async move {
                let asked = request(&[MODEL], 1);
                patiently(|| worker.store.lease_tranche(worker.instance, asked.clone())).await
            });
        }
        let mut lines = BTreeSet::new();
        for claimed in tasks.join_all().await {
            let tranche = claimed.unwrap().unwrap_or_else(|| {
                panic!("round {round}: lines are left, but a claim was told there are none")
            });
            lines.extend(seqs(&tranche).iter());
        }
        assert_eq!(lines.len(), CLAIMERS, "each got a line of its own");
    }
    check(store, batch).await;
}

/// Rule 8: a caller that stops in the middle of a turn, wherever that is, leaves no lock behind and
/// nothing half done.
pub async fn rule_08_an_abandoned_turn_holds_no_lock(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 400).await;
    let worker = Worker::on(store);
    let doomed = Worker::on(&world.another().await);
    for polls in 0..16 {
        let Some(tranche) = doomed.claim(5).await else { panic!("lines are left") };
        let outcomes = finished_some(&tranche, Status::Completed, |seq| seq % 2 == 0);
        let turn = turn(doomed.instance, outcomes, request(&[MODEL], 5));
        CancelAfter::Polls(polls).run(doomed.store.turn(turn.clone())).await;
        // Others go on at once: the lane, the lease and the batch are free.
        worker.complete(&worker.take(2).await).await;
        store.pause_batch(&Scope::All, id, None).await.unwrap();
        store.resume_batch(&Scope::All, id, None).await.unwrap();
        check_snapshot(store, id).await;
        // Whether it happened or not, the same turn again has the same end.
        let reply = doomed.store.turn(turn.clone()).await.unwrap();
        let (held, _) = kept(&reply);
        let odd = seqs(&tranche).iter().filter(|seq| seq % 2 == 1).collect::<LineSet>();
        assert_eq!(held.map(|held| held.outstanding).unwrap_or_default(), odd);
        assert!(reply.claimed.is_some(), "lines are left");
        store.extend_leases(doomed.instance, Vec::new(), LEASE_MS).await.unwrap();
        check(store, id).await;
    }
}

/// Rule 8: a turn that its caller drops, wherever it is cut off, happened whole or not at all, and
/// the same turn sent again succeeds.
pub async fn rule_08_an_abandoned_turn_happens_whole_or_not_at_all(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 400).await;
    let doomed = Worker::on(&world.another().await);
    let body = Bytes::from(vec![b'x'; 100_000]);
    for cut in CancelAfter::growing() {
        let tranche = doomed.take(6).await;
        let mut outcomes = finished_some(&tranche, Status::Completed, |seq| seq % 2 == 0);
        let even = outcomes.finished.iter().map(|line| line.seq).collect::<LineSet>();
        for line in &mut outcomes.finished {
            line.response = Some(body.clone());
        }
        let turn = turn(doomed.instance, outcomes, request(&[MODEL], 6));
        cut.run(doomed.store.turn(turn.clone())).await;
        doomed.store.members().await.expect("the next call is answered");
        let rows = store.verify(id).await.expect("the batch can be audited");
        assert_whole_or_nothing(&rows, &even, cut);

        let reply = doomed.store.turn(turn).await.expect("the same turn again succeeds");
        let odd = seqs(&tranche).difference(&even);
        assert_eq!(kept(&reply).0.map(|held| held.outstanding), Some(odd), "{cut:?}");
        assert_whole_or_nothing(&store.verify(id).await.unwrap(), &even, cut);
        let next = reply.claimed.expect("lines are left");
        doomed.complete(&next).await;
        doomed.record(finished_some(&tranche, Status::Failed, |seq| seq % 2 == 1)).await;
        assert_eq!(counts(store, id).await.leased, 0, "{cut:?}");
        check(store, id).await;
    }
    let rows = results(store, id).await;
    let whole = rows.iter().filter(|row| row.result.response.as_ref() == Some(&body)).count();
    assert_eq!(whole, 3 * CancelAfter::growing().count(), "each body is there, once");
}

/// Before the turn six lines are leased; after it the three odd ones of them, and six others.
#[track_caller]
fn assert_whole_or_nothing(rows: &BatchRows, even: &LineSet, cut: CancelAfter) {
    rows.check().expect("every line is in one place");
    let lane = &rows.lanes[0];
    let done = lane.finished[0].intersection(even).len();
    let leased: u64 = lane.leased.iter().map(LineSet::len).sum();
    assert!([(0, 6), (3, 9)].contains(&(done, leased)), "{cut:?}: {done} done, {leased} held");
}

/// Rule 11: creating a batch and dropping its file at the same moment never both succeed.
pub async fn rule_11_a_file_stays_while_a_batch_needs_it(world: &impl World) {
    let store = world.store();
    let other = world.another().await;
    let worker = Worker::on(store);
    for round in 0..16 {
        let file = Sheet::of("ada").lines(MODEL, 2).seal(store).await;
        let ada = scope("ada");
        let new = run_over(file, "ada");
        let create = patiently(|| store.create_batch(new.clone()));
        let drop_it = patiently(|| other.drop_file(&ada, file));
        // Either side may be the first to be polled.
        let (created, dropped) = if round % 2 == 0 {
            tokio::join!(create, drop_it)
        } else {
            let (dropped, created) = tokio::join!(drop_it, create);
            (created, dropped)
        };
        match (created, dropped) {
            (Ok(batch), Err(error)) => {
                assert_eq!(error.kind, Kind::Conflict);
                assert_eq!(worker.drain(batch.id, &[MODEL]).await, [batch.id]);
            }
            (Err(error), Ok(())) => assert_eq!(error.kind, Kind::Missing),
            both => panic!("round {round}: {both:?}"),
        }
    }
}

/// Rule 11, the other half: a file dropped first is missing for the batch that comes too late.
pub async fn rule_11_a_dropped_file_starts_no_batch(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 2).seal(store).await;
    store.drop_file(&scope("ada"), file).await.unwrap();
    assert_eq!(kind(store.create_batch(run_over(file, "ada")).await), Kind::Missing);
}
