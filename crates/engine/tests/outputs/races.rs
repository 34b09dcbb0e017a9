//! Several finalisers and one batch: one closes it, the others leave it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, InstanceId, State};
use windrow_engine::Options;
use windrow_engine::finalise::{Closing, Finaliser};
use windrow_engine::storage::Storage;
use windrow_store::batch::{Reprocess, Select};
use windrow_store::layer::{LayeredStore, StoreLayer};
use windrow_store::{Batches as _, Finalise as _, Kind, Scope};

use crate::support::{LEASE_MS, World, answered, closed, lines, names, numbers};

/// Counts how often a finalisation is asked for.
#[derive(Clone, Default)]
struct Takes(Arc<AtomicU32>);

#[async_trait]
impl StoreLayer for Takes {
    type Span = ();

    async fn begin(&self, verb: &'static str) {
        self.0.fetch_add(u32::from(verb == "take_finalisation"), Ordering::SeqCst);
    }

    fn end(&self, (): (), _: &'static str, _: Option<Kind>) {}
}

fn is_left(closing: &Closing) -> bool {
    matches!(closing, Closing::Left)
}

/// Lets a call get as far as its first question to the store, and holds it there.
async fn begin(world: &World, batch: BatchId, closing: &mut (impl Future + Unpin)) {
    assert!(futures_util::poll!(Pin::new(closing)).is_pending());
    let other = world.store.take_finalisation(batch, InstanceId::new(), LEASE_MS).await;
    assert_eq!(other.unwrap_err().kind, Kind::Contended, "it was taken before");
}

#[tokio::test]
async fn one_of_two_closes_and_the_other_leaves() {
    let (world, storage) = (World::new().await, Storage::memory());
    let id = world.settled(1500).await;
    let (one, two) = (world.finaliser(&storage), world.finaliser(&storage));
    let ended = std::sync::atomic::AtomicBool::new(false);
    let both = async {
        let both = tokio::join!(one.close(id), two.close(id));
        ended.store(true, std::sync::atomic::Ordering::SeqCst);
        both
    };
    let tick = async {
        while !ended.load(std::sync::atomic::Ordering::SeqCst) {
            world.clock.advance(Duration::from_millis(50));
            tokio::task::yield_now().await;
        }
    };
    let ((one, two), ()) = tokio::join!(both, tick);
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(is_left(&one) != is_left(&two));
    let (_, summary) = closed(if is_left(&one) { two } else { one });
    let output = summary.output.unwrap().name;
    assert_eq!(names(&storage).await, [&*output]);
    assert_eq!(numbers(&lines(&storage, &output).await), (0..1500).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_finalisation_that_stays_with_another_is_left_after_a_few_tries() {
    let (world, storage) = (World::new().await, Storage::memory());
    let id = world.settled(1).await;
    world.store.take_finalisation(id, InstanceId::new(), LEASE_MS).await.unwrap();
    let takes = Takes::default();
    let store = Arc::new(LayeredStore::new(world.store.clone(), takes.clone()));
    let options = Options::default().finalise_lease(Duration::from_millis(LEASE_MS));
    let (me, clock) = (InstanceId::new(), world.clock.clone());
    let finaliser = Finaliser::new(store, Some(storage.clone()), me, clock, &options);
    let closing = std::pin::pin!(finaliser.close(id));
    let ticks = async {
        loop {
            tokio::task::yield_now().await;
            world.clock.advance(Duration::from_millis(1));
        }
    };
    tokio::select! {
        closing = closing => assert!(is_left(&closing.unwrap())),
        () = ticks => {}
    }
    assert_eq!(takes.0.load(Ordering::SeqCst), 5, "five attempts");
    assert!(world.clock.millis() >= 200, "five attempts have four waits between them");
    assert_eq!(names(&storage).await, [""; 0]);
}

#[tokio::test]
async fn a_batch_that_runs_again_is_left_and_its_outputs_are_gone() {
    let (world, storage) = (World::new().await, Storage::memory());
    let id = world.batch(20, None).await;
    let odd = |line: windrow_store::record::Finished| match line.line % 2 {
        0 => windrow_store::record::Finished { status: Status::Failed, ..line },
        _ => answered(line),
    };
    world.finish(u32::MAX, odd).await;
    let finaliser = world.finaliser(&storage);
    let mut closing = Box::pin(finaliser.close(id));
    begin(&world, id, &mut closing).await;
    let select = Select::Statuses(vec![Status::Failed]);
    let step = Reprocess { lines_max: 1000, ..Reprocess::first(id, select) };
    world.store.reprocess(&Scope::All, step).await.unwrap();
    assert!(is_left(&closing.await.unwrap()));
    assert_eq!(names(&storage).await, [""; 0]);
    assert_eq!(world.state(id).await.state, State::InProgress);

    world.finish(u32::MAX, answered).await;
    let (batch, summary) = closed(finaliser.close(id).await.unwrap());
    assert_eq!((batch.counts.completed, summary.errors), (20, None));
}

#[tokio::test]
async fn a_slow_loser_changes_nothing_of_what_the_winner_wrote() {
    let (world, storage) = (World::new().await, Storage::memory());
    let id = world.settled(30).await;
    let (slow, fast) = (world.finaliser(&storage), world.finaliser(&storage));
    let mut slowly = Box::pin(slow.close(id));
    begin(&world, id, &mut slowly).await;
    world.time.advance(Duration::from_millis(LEASE_MS));
    let (batch, summary) = closed(fast.close(id).await.unwrap());
    assert!(is_left(&slowly.await.unwrap()));
    assert_eq!(world.state(id).await, batch);
    let output = summary.output.unwrap();
    assert_eq!(names(&storage).await, [&*output.name]);
    assert_eq!(lines(&storage, &output.name).await.len(), 30);
}

#[tokio::test]
async fn a_batch_that_runs_or_is_gone_is_left() {
    let (world, storage) = (World::new().await, Storage::memory());
    let running = world.batch(2, None).await;
    let finaliser = world.finaliser(&storage);
    assert!(is_left(&finaliser.close(running).await.unwrap()));
    assert!(is_left(&finaliser.close(BatchId::new()).await.unwrap()));
}
