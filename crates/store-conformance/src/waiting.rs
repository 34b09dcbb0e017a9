//! Looking at what waits: by target, for a worker that has nothing to do.

use std::time::Duration;

use windrow_domain::BatchId;
use windrow_store::claim::TARGETS_MAX;
use windrow_store::error::Kind;
use windrow_store::{Batches, Claim, Store};

use crate::World;
use crate::fixture::*;

/// What waits is told by target, with the time until the first of its lines may be claimed.
pub async fn what_waits_is_told_by_target(world: &impl World) {
    let store = world.store();
    assert_eq!(store.waiting(None, 10).await.unwrap(), [], "an empty store");
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
    store.resume_batch(&scope("bob"), two).await.unwrap();
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

/// A look is for at least one target and at most the bound; it gives the first ones.
pub async fn a_look_at_what_waits_is_bounded(world: &impl World) {
    let store = world.store();
    let names: Vec<String> = (0..7).map(|no| format!("model-{no}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let batch = Sheet::of("ada").rounds(&names, 2).run(store).await;
    for only in [None, Some(batch)] {
        let told = store.waiting(only, 3).await.unwrap();
        let told: Vec<_> = told.iter().map(|waiting| waiting.target.as_str()).collect();
        assert_eq!(told, names[..3]);
        let most = u32::try_from(TARGETS_MAX).unwrap();
        assert_eq!(store.waiting(only, most).await.unwrap().len(), 7);
        for limit in [0, most + 1] {
            assert_eq!(kind(store.waiting(only, limit).await), Kind::Invalid);
        }
    }
}

/// What waits, with the microseconds until it may be claimed.
async fn waits(store: &impl Store, only: Option<BatchId>) -> Vec<(&'static str, u64)> {
    let known = [MODEL, "model-b", "model-c"];
    let told = store.waiting(only, 10).await.expect("a look is answered");
    let told = told.iter().map(|waiting| {
        let name = known.into_iter().find(|name| *name == waiting.target.as_str());
        let micros = u64::try_from(waiting.ready_in.as_micros()).expect("a short time");
        (name.expect("a target of the case"), micros)
    });
    told.collect()
}
