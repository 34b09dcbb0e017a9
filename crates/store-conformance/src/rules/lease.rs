//! Rules 1, 2, 4 and 5: a lease is proof, a repeat changes nothing, and every way out folds.

use windrow_domain::State;
use windrow_domain::attempt::Status;
use windrow_store::member::{Evidence, NewMember};
use windrow_store::record::Fold;
use windrow_store::{Batches, Claim, Inspect, Members, Record, Scope, Sweep};

use crate::World;
use crate::fixture::*;

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
        let places = store.verify(batch).await.unwrap();
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
        assert_eq!(store.verify(batch).await.unwrap(), places, "no line moved");
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
        "buried",
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
            "buried" => {
                assert!(store.bury(worker.instance, Evidence::LockGot).await.unwrap());
                store.return_lost(10, 9).await.unwrap().finalizing
            }
            lost => {
                assert!(worker.mark(&tranche).await);
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

pub(crate) fn new_member<S>(worker: &Worker<S>) -> NewMember {
    NewMember {
        instance: worker.instance,
        service: "suite".to_owned(),
        host: "here".to_owned(),
        pid: 1,
        metadata: "{}".to_owned(),
        lock: None,
    }
}
