//! Polling: what waits, by target, and which of the held leases must not go on.

use std::time::Duration;

use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, LeaseId};
use windrow_store::batch::NewBatch;
use windrow_store::claim::{POLL_LEASES_MAX, Poll, Polled, TARGETS_MAX};
use windrow_store::error::Kind;
use windrow_store::record::{Finished, Fold, Outcomes};
use windrow_store::{Batches, Claim, Record, Store, Sweep};

use crate::World;
use crate::fixture::*;

/// What waits is told by target, with the time until the first of its lines may be claimed.
pub async fn what_waits_is_told_by_target(world: &impl World) {
    let store = world.store();
    assert_eq!(
        store.waiting(Poll::targets(10)).await.unwrap(),
        Polled::default(),
        "an empty store"
    );
    let one = Sheet::of("ada").lines(MODEL, 2).lines("model-b", 1).run(store).await;
    let two = Sheet::of("bob").lines("model-c", 1).lines(MODEL, 1).run(store).await;
    assert_eq!(waits(store, None).await, [(MODEL, 0), ("model-b", 0), ("model-c", 0)]);
    assert_eq!(waits(store, Some(one)).await, [(MODEL, 0), ("model-b", 0)]);
    assert_eq!(waits(store, Some(two)).await, [(MODEL, 0), ("model-c", 0)]);
    assert_eq!(waits(store, Some(BatchId::new())).await, []);

    let worker = Worker::on(store);
    let held = worker.claim_only(one, &[MODEL], 5).await.unwrap();
    assert_eq!(waits(store, Some(one)).await, [("model-b", 0)], "what is leased does not wait");
    worker.complete(&held).await;
    store.pause_batch(&scope("bob"), two, None).await.unwrap();
    assert_eq!(waits(store, None).await, [("model-b", 0)], "nor what is finished or paused");
    store.resume_batch(&scope("bob"), two, None).await.unwrap();
    store.cancel_batch(&scope("ada"), one).await.unwrap();
    assert_eq!(waits(store, None).await, [(MODEL, 0), ("model-c", 0)], "nor what was cancelled");
}

/// Lines that came back wait until their time; the first of all lanes of the target counts.
pub async fn what_waits_for_its_time_says_how_long(world: &impl World) {
    let store = world.store();
    let (one, two) = (batch_of(store, "ada", 2).await, batch_of(store, "bob", 1).await);
    let worker = Worker::on(store);
    let held = worker.claim_only(one, &[MODEL], 5).await.unwrap();
    let other = worker.claim_only(two, &[MODEL], 5).await.unwrap();
    assert_eq!(waits(store, None).await, []);
    // At a bucket's border, so that the time is kept as it is.
    let at = |ms| windrow_store::record::bucket(later(world, ms));
    let (soon, late) = (at(2000), at(60_000));
    worker.record(again_some(&held, late, |seq| seq == 0)).await;
    worker.record(again(&other, soon)).await;
    let left = |until: jiff::Timestamp| {
        u64::try_from(until.duration_since(now(world)).as_micros()).unwrap()
    };
    assert_eq!(waits(store, None).await, [(MODEL, left(soon))]);
    assert_eq!(waits(store, Some(one)).await, [(MODEL, left(late))]);
    world.time().advance(Duration::from_micros(left(soon) - 1));
    assert_eq!(waits(store, None).await, [(MODEL, 1)], "never too early");
    assert_eq!(worker.claim(5).await, None);
    world.time().advance(Duration::from_micros(1));
    assert_eq!(waits(store, None).await, [(MODEL, 0)]);
    assert!(worker.claim(5).await.is_some());
    assert_eq!(waits(store, None).await, [(MODEL, left(late))]);
}

/// A poll is for at least one target and at most the bound; it gives the first ones.
pub async fn a_poll_for_what_waits_is_bounded(world: &impl World) {
    let store = world.store();
    let names: Vec<String> = (0..7).map(|no| format!("model-{no}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let batch = Sheet::of("ada").rounds(&names, 2).run(store).await;
    for only in [None, Some(batch)] {
        let told = store.waiting(Poll { only, ..Poll::targets(3) }).await.unwrap().waiting;
        let told: Vec<_> = told.iter().map(|waiting| waiting.route.target.as_str()).collect();
        assert_eq!(told, names[..3]);
        let most = u32::try_from(TARGETS_MAX).unwrap();
        assert_eq!(
            store.waiting(Poll { only, ..Poll::targets(most) }).await.unwrap().waiting.len(),
            7
        );
        for limit in [0, most + 1] {
            assert_eq!(
                kind(store.waiting(Poll { only, ..Poll::targets(limit) }).await),
                Kind::Invalid
            );
        }
    }
}

/// What waits, with the microseconds until it may be claimed.
async fn waits(store: &impl Store, only: Option<BatchId>) -> Vec<(&'static str, u64)> {
    let known = [MODEL, "model-b", "model-c"];
    let told = store
        .waiting(Poll { only, ..Poll::targets(10) })
        .await
        .expect("a poll is answered")
        .waiting;
    let told = told.iter().map(|waiting| {
        let name = known.into_iter().find(|name| *name == waiting.route.target.as_str());
        let micros = u64::try_from(waiting.ready_in.as_micros()).expect("a short time");
        (name.expect("a target of the case"), micros)
    });
    told.collect()
}

/// A holder hears that a lease must not go on, by its next poll, turn or renewal: after a cancel, a pause, the
/// end of the window, and when the lease was taken back. One whose batch runs is not named.
pub async fn a_held_lease_that_must_not_go_on_is_told(world: &impl World) {
    let store = world.store();
    let running = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    let kept = worker.claim_only(running, &[MODEL], 4).await.unwrap();
    for stop in ["cancel", "pause", "window", "lost"] {
        let file = Sheet::of("ada").lines(MODEL, 4).seal(store).await;
        let new = NewBatch { window_secs: Some(2), ..run_over(file, "ada") };
        let id = store.create_batch(new).await.unwrap().id;
        let held = worker.claim_only(id, &[MODEL], 4).await.unwrap();
        let lease = held.lease.held.id;
        assert_eq!(held.lease.deadline, batch(store, id).await.deadline, "{stop}");
        let mine = vec![kept.lease.held.id, lease];
        assert_eq!(stopped(store, &mine).await, [], "{stop}");
        match stop {
            "cancel" => drop(store.cancel_batch(&scope("ada"), id).await.unwrap()),
            "pause" => drop(store.pause_batch(&scope("ada"), id, None).await.unwrap()),
            // No sweep has come by: the time alone decides.
            "window" => pass(world, 2000),
            _ => drop(store.release_leases(worker.instance, vec![lease]).await.unwrap()),
        }
        assert_eq!(stopped(store, &mine).await, [lease], "{stop}");
        if stop == "lost" {
            continue;
        }
        let extended = store.extend_leases(worker.instance, mine.clone(), LEASE_MS).await.unwrap();
        assert_eq!(extended.stopped, [lease], "{stop}");
        let mut outcomes = Outcomes::of(held.lease.held.clone());
        outcomes.finished.push(Finished::bare(0, held.lines[0].line, Status::Completed, 1));
        let reply = store.record(worker.instance, vec![outcomes]).await.unwrap();
        assert_eq!(reply.stopped, [lease], "{stop}");
        let Fold::Kept { held: Some(left), .. } = &reply.folds[0] else { panic!("{stop}") };
        let mut rest = Outcomes::of(left.clone());
        rest.released = left.outstanding.clone();
        let reply = store.record(worker.instance, vec![rest]).await.unwrap();
        assert_eq!(reply.stopped, [], "{stop}: nothing of it is held");
        check(store, id).await;
    }
    let many = vec![kept.lease.held.id; POLL_LEASES_MAX + 1];
    assert_eq!(kind(store.waiting(Poll { held: many, ..Poll::targets(1) }).await), Kind::Invalid);
}

/// Past its window nothing of a batch waits or is claimed, before any sweep has come by; others go on.
pub async fn nothing_is_claimed_past_the_window(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 4).lines("model-b", 1).seal(store).await;
    let new = NewBatch { window_secs: Some(2), ..run_over(file, "ada") };
    let late = store.create_batch(new).await.unwrap().id;
    let worker = Worker::on(store);
    let held = worker.claim_only(late, &[MODEL], 1).await.unwrap();
    worker.record(again(&held, later(world, 60_000))).await;
    pass(world, 1999);
    assert_eq!(waits(store, Some(late)).await, [(MODEL, 0), ("model-b", 0)]);
    pass(world, 1);
    assert_eq!((waits(store, None).await, waits(store, Some(late)).await), (vec![], vec![]));
    assert_eq!(worker.claim(5).await, None);
    assert_eq!(worker.claim_only(late, &[MODEL], 5).await, None);
    let other = batch_of(store, "bob", 1).await;
    assert_eq!(waits(store, None).await, [(MODEL, 0)]);
    assert_eq!(worker.claim(5).await.unwrap().lease.batch, other);
    assert_eq!(store.expire_batches(10).await.unwrap(), [late]);
}

async fn stopped(store: &impl Store, held: &[LeaseId]) -> Vec<LeaseId> {
    let poll = Poll { held: held.to_vec(), ..Poll::targets(1) };
    store.waiting(poll).await.expect("a poll is answered").stopped
}
