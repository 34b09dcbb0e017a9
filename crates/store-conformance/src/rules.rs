//! The thirteen rules of the turn, each with a case that fails without it.
//!
//! Holds throughout: a case is named after its rule's number in the design, so that a failure says
//! which rule a backend has lost.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tokio::task::JoinSet;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, LineSet, State};
use windrow_store::batch::NewBatch;
use windrow_store::claim::{Request, Tranche};
use windrow_store::error::Kind;
use windrow_store::member::NewMember;
use windrow_store::record::{Fold, Outcomes, Turn};
use windrow_store::sweep::WORKER_LOST;
use windrow_store::{Batches, Claim, Ingest, Inspect, Members, Record, Scope, Store, Sweep};

use crate::World;
use crate::fixture::*;
use crate::order::leased_of;

/// Rule 1: a lease whose time has passed but that nobody took back still records.
pub async fn rule_01_late_but_untaken_work_counts(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    let tranche = worker.take(4).await;
    pass(world, 100 * LEASE_MS);
    let (held, ignored) = kept(&worker.complete(&tranche).await);
    assert!(held.is_none() && ignored.is_empty());
    assert_eq!(store.return_lost(10, 3).await.unwrap().leases, 0);
    assert_eq!(counts(store, batch).await.completed, 4);
    check(store, batch).await;
}

/// Rule 1: once somebody took a lease back its token is void, also when the lines were not claimed
/// again, and also when the same instance holds them under a new lease.
pub async fn rule_01_a_lease_that_was_taken_back_records_nothing(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    let old = worker.take(4).await;
    pass(world, LEASE_MS);
    store.return_lost(10, 3).await.unwrap();
    assert!(is_lost(&worker.complete(&old).await));
    let (one, two) = (worker.take(4).await, worker.take(4).await);
    assert!(is_lost(&worker.complete(&old).await));
    assert_eq!(counts(store, batch).await.completed, 0);
    worker.finish(&one, Status::Failed).await;
    worker.finish(&two, Status::Failed).await;
    assert!(is_lost(&worker.complete(&old).await));
    assert_eq!(counts(store, batch).await.failed, 4);
    check(store, batch).await;
}

/// Rule 1: the token decides, not the lease's id: an id that was granted again is not proof.
pub async fn rule_01_an_old_token_of_a_living_lease_records_nothing(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    let asked = request(&[MODEL], 2);
    let old = worker.ask(asked.clone()).await.expect("two lines");
    store.release_leases(worker.instance, vec![asked.lease]).await.unwrap();
    let new = worker.ask(asked).await.expect("the same two, under the same id");
    assert_eq!(seqs(&new), seqs(&old));
    assert!(is_lost(&worker.finish(&old, Status::Failed).await));
    assert_eq!(counts(store, batch).await.leased, 2);
    assert!(!is_lost(&worker.complete(&new).await));
    check(store, batch).await;
}

/// Rule 1: a late record and a sweep that meet on one lease: one of them has it, never both.
pub async fn rule_01_a_lease_is_recorded_or_taken_back(world: &impl World) {
    let store = world.store();
    let other = world.another().await;
    let id = batch_of(store, "ada", 60).await;
    let worker = Worker::on(store);
    for round in 0..15 {
        let tranche = worker.take(4).await;
        pass(world, LEASE_MS);
        let outcomes = vec![finished(&tranche, Status::Completed)];
        let record = patiently(|| store.record(worker.instance, outcomes.clone()));
        let sweep = patiently(|| other.return_lost(10, 1000));
        // Either side may be the first to be polled.
        let (recorded, swept) = if round % 2 == 0 {
            tokio::join!(record, sweep)
        } else {
            let (swept, recorded) = tokio::join!(sweep, record);
            (recorded, swept)
        };
        let (lost, taken) = (is_lost(&recorded.unwrap()), swept.unwrap().leases);
        assert_eq!(u64::from(lost), taken, "round {round}");
        check(store, id).await;
    }
}

/// Rule 2: the same turn, sent again because its reply was lost, gives the same claim and changes
/// nothing.
pub async fn rule_02_a_turn_repeated_after_a_lost_reply_changes_nothing(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 30).await;
    let worker = Worker::on(store);
    let mut tranche = worker.take(6).await;
    for round in 0..4 {
        let mut outcomes = finished_some(&tranche, Status::Completed, |seq| seq % 3 == 0);
        outcomes.again = again_some(&tranche, later(world, 60_000), |seq| seq % 3 == 1).again;
        let turn = turn(worker.instance, outcomes, request(&[MODEL], 6));
        let first = store.turn(turn.clone()).await.unwrap();
        let audit = store.audit(batch).await.unwrap();
        let rows = results(store, batch).await;
        let other = world.another().await;
        for store in [store, &other] {
            pass(world, 10);
            let again = store.turn(turn.clone()).await.unwrap();
            let (held, ignored) = kept(&again);
            assert_eq!(held, kept(&first).0, "round {round}: the same remains");
            let named = turn.outcomes[0].finished.len() + turn.outcomes[0].again.len();
            assert_eq!(ignored.len(), named as u64);
            let (one, two) = (first.claimed.as_ref().unwrap(), again.claimed.as_ref().unwrap());
            assert_eq!((&one.lease.held, &one.lines), (&two.lease.held, &two.lines));
        }
        assert_eq!(store.audit(batch).await.unwrap(), audit, "no line moved");
        assert_eq!(results(store, batch).await, rows);
        check(store, batch).await;
        tranche = first.claimed.unwrap();
    }
}

/// Rule 2: a lease its instance does not know of (the claim's reply was lost, and it gave up) is
/// released with the next renewal instead of hanging until its time.
pub async fn rule_02_a_lease_its_instance_does_not_know_is_released(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    let unknown = worker.take(4).await;
    let claiming = request(&[MODEL], 1).lease;
    let said = store.extend_leases(worker.instance, vec![claiming], LEASE_MS).await.unwrap();
    assert_eq!((said.released, said.lost), (vec![unknown.lease.held.id], vec![claiming]));
    assert_eq!(worker.take(4).await.lines.len(), 4, "at once, untried");
    check(store, batch).await;
}

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
            patiently(|| steering.resume_batch(&all, batch)).await.unwrap();
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

/// Rule 4: two turns on one lease at the same moment cannot overwrite each other's remaining set.
pub async fn rule_04_two_turns_on_one_lease_keep_both_results(world: &impl World) {
    let store = world.store();
    let other = world.another().await;
    let batch = batch_of(store, "ada", 200).await;
    let worker = Worker::on(store);
    for _ in 0..20 {
        let tranche = worker.take(10).await;
        let half = |even: bool| {
            vec![finished_some(&tranche, Status::Completed, |seq| seq.is_multiple_of(2) == even)]
        };
        let (left, right) = (half(true), half(false));
        let (one, two) = tokio::join!(
            patiently(|| store.record(worker.instance, left.clone())),
            patiently(|| other.record(worker.instance, right.clone())),
        );
        let folds = [one.unwrap().folds, two.unwrap().folds].concat();
        let gone = folds.iter().filter(|fold| matches!(fold, Fold::Kept { held: None, .. }));
        assert_eq!(gone.count(), 1, "the second of them ended the lease: {folds:?}");
        for fold in &folds {
            let Fold::Kept { ignored, .. } = fold else { panic!("{fold:?}") };
            assert!(ignored.is_empty(), "{fold:?}");
        }
        check(store, batch).await;
    }
    assert_eq!(counts(store, batch).await.completed, 200);
}

/// Rule 5: whichever way lines leave a lease, the lane is updated and a stopping lane closes.
pub async fn rule_05_every_way_out_of_a_lease_folds(world: &impl World) {
    const WAYS: [&str; 9] = [
        "finished",
        "again",
        "released",
        "release_leases",
        "forgotten",
        "tombstone",
        "lost",
        "lost and failed",
        "reaped",
    ];
    let store = world.store();
    for way in WAYS {
        let id = Sheet::of("ada").lines(MODEL, 3).lines("model-b", 2).run(store).await;
        let worker = Worker::on(store);
        worker.store.register(new_member(&worker)).await.unwrap();
        let tranche = worker.claim_only(id, &[MODEL], 1).await.expect("a line");
        store.cancel_batch(&Scope::All, id).await.unwrap();
        assert_eq!(batch(store, id).await.state, State::Cancelling);
        let ids = vec![tranche.lease.held.id];
        let reported = match way {
            "finished" => worker.complete(&tranche).await.finalizing,
            "again" => worker.record(again(&tranche, now(world))).await.finalizing,
            "released" => worker.record(released(&tranche, seqs(&tranche))).await.finalizing,
            "release_leases" => {
                assert_eq!(store.release_leases(worker.instance, ids).await.unwrap(), 1);
                vec![id]
            }
            "forgotten" => {
                let said = store.extend_leases(worker.instance, vec![], LEASE_MS).await.unwrap();
                assert_eq!(said.released, ids);
                vec![id]
            }
            "tombstone" => {
                assert_eq!(store.tombstone(worker.instance).await.unwrap(), 1);
                vec![id]
            }
            "reaped" => {
                pass(world, 1);
                store.reap_members(0, 100).await.unwrap();
                store.return_lost(10, 9).await.unwrap().finalizing
            }
            lost => {
                pass(world, LEASE_MS);
                let crashes_max = if lost == "lost" { 9 } else { 1 };
                store.return_lost(10, crashes_max).await.unwrap().finalizing
            }
        };
        assert_eq!(reported, [id], "{way} reports it");
        let after = batch(store, id).await;
        assert!(!after.state.is_running(), "{way} leaves it {}", after.state);
        assert_eq!((after.counts.leased, after.finalizing_at), (0, Some(now(world))), "{way}");
        check(store, id).await;
    }
}

fn new_member<S>(worker: &Worker<S>) -> NewMember {
    NewMember {
        instance: worker.instance,
        service: "suite".to_owned(),
        host: "here".to_owned(),
        pid: 1,
        metadata: "{}".to_owned(),
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
            store.resume_batch(&Scope::All, id).await.unwrap();
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
        poll_at_most(doomed.store.turn(turn.clone()), polls).await;
        // Others go on at once: the lane, the lease and the batch are free.
        worker.complete(&worker.take(2).await).await;
        store.pause_batch(&Scope::All, id, None).await.unwrap();
        store.resume_batch(&Scope::All, id).await.unwrap();
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

/// Polls a future so many times and then drops it, as a process that stops would.
async fn poll_at_most<T>(future: impl Future<Output = T>, polls: u32) {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        future.as_mut().poll(context).map(drop)
    })
    .await;
}

/// Rule 9: a line that kills its worker ends as one failed result and takes none of its 499
/// neighbours with it; attempts count only when a line was tried.
pub async fn rule_09_a_killing_line_fails_alone(world: &impl World) {
    const KILLER: u64 = 137;
    let store = world.store();
    let batch = batch_of(store, "ada", 500).await;
    let mut deaths = 0;
    loop {
        let worker = Worker::on(store);
        let Some(tranche) = worker.claim(500).await else { break };
        assert_eq!(tranche.lease.attempts, 0, "nobody ever tried a line and failed");
        if seqs(&tranche).contains(KILLER) {
            deaths += 1;
            assert!(deaths <= 12, "the halving finds it");
            pass(world, LEASE_MS);
            store.return_lost(10, 3).await.unwrap();
            check(store, batch).await;
        } else {
            worker.complete(&tranche).await;
        }
    }
    let counts = counts(store, batch).await;
    assert_eq!((counts.completed, counts.failed, counts.unfinished()), (499, 1, 0));
    let failed =
        results(store, batch).await.into_iter().find(|row| row.result.status == Status::Failed);
    let failed = failed.expect("one failed").result;
    assert_eq!((failed.seq, failed.line, failed.attempts), (KILLER, KILLER + 1, 0));
    assert_eq!(failed.error_code.as_deref(), Some(WORKER_LOST));
    check(store, batch).await;
}

/// Rule 10: a retry storm makes few rows, and what is due becomes one tranche again.
pub async fn rule_10_a_retry_storm_makes_few_rows(world: &impl World) {
    const LINES: u64 = 600;
    let store = world.store();
    let batch = batch_of(store, "ada", LINES).await;
    let worker = Worker::on(store);
    let mut dice = Dice::seeded(10);
    // Every line fails in a turn of its own share and is to come back at a time of its own within a
    // second: five buckets at most.
    while let Some(tranche) = worker.claim(10).await {
        let mut outcomes = Outcomes::of(tranche.lease.held.clone());
        let base = now(world);
        for line in &tranche.lines {
            let at = base.checked_add(std::time::Duration::from_micros(dice.below(1_000_000)));
            outcomes.again.extend(again_some(&tranche, at.unwrap(), |seq| seq == line.seq).again);
        }
        worker.record(outcomes).await;
    }
    check(store, batch).await;
    let audit = store.audit(batch).await.unwrap();
    let rows = audit.lanes[0].returned.len();
    assert!(rows <= 10, "{LINES} retries within a second make few rows, not {rows}");
    pass(world, 2000);
    let due = worker.take(1000).await;
    assert_eq!((due.lines.len() as u64, due.lease.attempts), (LINES, 1), "one tranche");
    check(store, batch).await;
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
        let audit = patiently(|| store.audit(batch)).await.unwrap();
        audit.check().expect("every line is in one place");
        let leased = audit.lanes[0].counts.leased;
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

/// Rule 13: the owner with the least in flight, then priority, then deadline, then due returned
/// lines before untouched ones, then line.
pub async fn rule_13_claims_go_in_the_order_of_the_design(world: &impl World) {
    let store = world.store();
    let large = Sheet::of("busy").lines(MODEL, 2000).seal(store).await;
    let urgent = NewBatch { priority: 50, window_secs: Some(60), ..run_over(large, "busy") };
    let busy = store.create_batch(urgent).await.unwrap().id;
    let file = Sheet::of("ada").lines(MODEL, 6).seal(store).await;
    let create = async |priority, window_secs| {
        let new = NewBatch { priority, window_secs, ..run_over(file, "ada") };
        store.create_batch(new).await.unwrap().id
    };
    let worker = Worker::on(store);
    let flight = worker.claim_only(busy, &[MODEL], 100).await.expect("a hundred lines");
    let late = create(0, Some(7200)).await;
    let soon = create(0, Some(3600)).await;
    let high = create(1, None).await;
    // Of the urgent batch two lines come back: they go before its untouched ones.
    let tranche = worker.claim_only(high, &[MODEL], 2).await.expect("two lines");
    worker.record(again(&tranche, now(world))).await;
    pass(world, 1000);

    let mut order = Vec::new();
    for _ in 0..8 {
        let tranche: Tranche = worker.take(3).await;
        order.push((tranche.lease.batch, seqs(&tranche).to_string()));
    }
    let expected = [
        (high, "0-1"),
        (high, "2-4"),
        (high, "5"),
        (soon, "0-2"),
        (soon, "3-5"),
        (late, "0-2"),
        (late, "3-5"),
        (busy, "100-102"),
    ];
    let expected: Vec<_> = expected.map(|(id, lines)| (id, lines.to_owned())).into();
    assert_eq!(order, expected);
    worker.complete(&flight).await;
    let reply = store
        .turn(Turn {
            instance: worker.instance,
            outcomes: vec![],
            claim: Some(request(&[MODEL], 1)),
        })
        .await
        .unwrap();
    assert_eq!(reply.claimed.expect("lines are left").lease.batch, busy, "all that is left");
}

/// Rule 11, the other half: a file dropped first is missing for the batch that comes too late.
pub async fn rule_11_a_dropped_file_starts_no_batch(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 2).seal(store).await;
    store.drop_file(&scope("ada"), file).await.unwrap();
    assert_eq!(kind(store.create_batch(run_over(file, "ada")).await), Kind::Missing);
}
